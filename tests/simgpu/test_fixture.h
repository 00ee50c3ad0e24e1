// What the tests of the software GPU share: a device to work on, and short ways to memory and kernels.
#pragma once

#include "test_gpu.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <thread>

namespace simgpu_tests {

constexpr int kOutOfMemory = 2, kInvalidValue = 1, kInvalidHandle = 400, kNotFound = 500, kNotReady = 600;
constexpr int kIllegalAddress = 700, kLaunchFailed = 719, kMisaligned = 716, kAssert = 710;

inline Gpu& gpu_of(bool hip) {
  static Gpu* gpus[2] = {nullptr, nullptr};
  Gpu*& gpu = gpus[hip];
  if (!gpu) {
    if (hip) gpu = new HipGpu(library_folder(true));
    else gpu = new CudaGpu(library_folder(false));
  }
  return *gpu;
}

#define OK(call) ASSERT_EQ((call), 0)

inline std::string shape_name(const ::testing::TestParamInfo<bool>& shape) { return shape.param ? "hip" : "cuda"; }

class SimGpu : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (library_folder(GetParam()).empty()) GTEST_SKIP() << "SIMGPU_CUDA and SIMGPU_HIP are not set";
    g = &gpu_of(GetParam());
    ASSERT_EQ(g->init(), 0);
    g->control("clear");
    g->control("revive");
    ASSERT_EQ(g->use(0), 0);
  }
  void TearDown() override {
    if (!g) return;
    g->control("clear");
    g->control("revive");
    g->use(0);
    g->synchronize();
    for (void* p : memory) g->free(p);
    for (void* m : modules) g->unload(m);
  }

  template <class T>
  T* device(size_t count) {
    void* p = nullptr;
    EXPECT_EQ(g->alloc(&p, count * sizeof(T)), 0);
    memory.push_back(p);
    return static_cast<T*>(p);
  }
  template <class T>
  T* device(const std::vector<T>& values) {
    T* p = device<T>(values.size());
    EXPECT_EQ(g->to_device(p, values.data(), values.size() * sizeof(T), nullptr), 0);
    return p;
  }
  template <class T>
  std::vector<T> host(const T* p, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(g->to_host(values.data(), p, count * sizeof(T), nullptr), 0);
    return values;
  }
  void* kernel(const std::string& source, const char* name = "k") {
    auto& binary = binaries()[{GetParam(), source}];
    if (binary.empty()) {
      Compiled compiled = g->compile(source);
      EXPECT_EQ(compiled.code, 0) << compiled.log;
      binary = compiled.binary;
    }
    void *module = nullptr, *function = nullptr;
    EXPECT_EQ(g->load(&module, binary.data()), 0);
    modules.push_back(module);
    EXPECT_EQ(g->function(&function, module, name), 0);
    return function;
  }
  template <class... A>
  int launch(void* function, unsigned grid, unsigned block, unsigned shared, void* stream, A... arguments) {
    void* pointers[] = {&arguments..., nullptr};
    return g->launch(function, grid, block, shared, stream, pointers);
  }
  // Runs something that is to be reported, and gives what was printed.
  template <class F>
  std::string printed(F f) {
    testing::internal::CaptureStderr();
    f();
    return testing::internal::GetCapturedStderr();
  }
  void* new_stream(bool blocking = false) {
    void* s = nullptr;
    EXPECT_EQ(g->stream(&s, blocking ? 0 : 1), 0);
    return s;
  }

  static std::map<std::pair<bool, std::string>, std::vector<char>>& binaries() {
    static std::map<std::pair<bool, std::string>, std::vector<char>> all;
    return all;
  }
  Gpu* g = nullptr;
  std::vector<void*> memory, modules;
};

// A value that goes up by one; slow enough that what does not wait for it sees the old value.
inline const char* const kIncrement = R"(
extern "C" __global__ void k(int* p, int times) {
  volatile int* q = p;
  for (int i = 0; i < times; ++i) *q = *q + 1;
})";

// Warp operations under names that both languages share.
inline std::string lane_intrinsics(bool hip) {
  return hip ? R"(
#define SHFL(v, l) __shfl(v, l)
#define UP(v, d) __shfl_up(v, d)
#define DOWN(v, d) __shfl_down(v, d)
#define XOR(v, d) __shfl_xor(v, d)
#define XOR_WITHIN(v, d, w) __shfl_xor(v, d, w)
#define BALLOT(p) __ballot(p)
#define ANY(p) __any(p)
#define ALL(p) __all(p)
)"
             : R"(
#define SHFL(v, l) __shfl_sync(0xffffffffu, v, l)
#define UP(v, d) __shfl_up_sync(0xffffffffu, v, d)
#define DOWN(v, d) __shfl_down_sync(0xffffffffu, v, d)
#define XOR(v, d) __shfl_xor_sync(0xffffffffu, v, d)
#define XOR_WITHIN(v, d, w) __shfl_xor_sync(0xffffffffu, v, d, w)
#define BALLOT(p) __ballot_sync(0xffffffffu, p)
#define ANY(p) __any_sync(0xffffffffu, p)
#define ALL(p) __all_sync(0xffffffffu, p)
)";
}

}  // namespace simgpu_tests
