// Kernels of the user's own: arguments of every type, limits, and what the compiler has to say.
#include "cpp/child.h"
#include "error_text.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TensorOptions on_gpu(ScalarType type) { return TensorOptions(type).device(Device("cuda:0")); }

TEST(GpuKernelApi, TakesArgumentsOfEveryType) {
  cuda::Kernel kernel(R"(
extern "C" __global__ void collect(double* out, signed char a, unsigned char b, short c, unsigned short d, int e,
                                   unsigned int f, long long g, unsigned long long h, float i, double j, bool k) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f;
  out[6] = (double)g; out[7] = (double)h; out[8] = i; out[9] = j; out[10] = k ? 1 : 0;
}
)",
                      "collect");
  const Tensor out = empty({11}, on_gpu(kDouble));
  kernel.launch({1}, {1}, 0, out, int8_t{-5}, uint8_t{200}, int16_t{-300}, uint16_t{60000}, -70000, 4000000000u,
                int64_t{-5000000000}, uint64_t{9000000000}, 1.5f, -2.25, true);
  const Tensor host = out.cpu();
  const std::vector<double> expected = {-5,           200, -300,  60000, -70000, 4000000000.0, -5000000000.0,
                                        9000000000.0, 1.5, -2.25, 1};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(host.data_ptr<double>()[i], expected[i]) << i;
}

const char* const kScale = R"(
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
)";

TEST(GpuKernelApi, RunsOverManyBlocks) {
  cuda::Kernel scale(kScale, "scale");
  EXPECT_EQ(scale.name(), "scale");
  EXPECT_EQ(scale.source(), kScale);
  scale.compile();
  const int n = 10007;
  const Tensor host = arange(n, TensorOptions(kFloat)), x = host.to(Device("cuda:0"));
  scale.launch({(n + 255) / 256}, {256}, 0, x, 3.0f, n);
  EXPECT_TRUE(equal(x.cpu(), host * 3));
  const std::vector<cuda::KernelArgument> arguments = {x, 0.5f, n};
  scale.launch_with({(n + 63) / 64}, {64}, 0, arguments);
  EXPECT_TRUE(equal(x.cpu(), host * 1.5));
}

TEST(GpuKernelApi, ViewsBeginAtTheirFirstElement) {
  cuda::Kernel scale(kScale, "scale");
  const Tensor x = ones({6}).to(Device("cuda:0"));
  scale.launch({1}, {32}, 0, x.slice(0, 2, 5), 4.0f, 3);
  EXPECT_TRUE(equal(x.cpu(), tensor({1.0f, 1.0f, 4.0f, 4.0f, 4.0f, 1.0f})));
}

TEST(GpuKernelApi, UsesSharedMemory) {
  cuda::Kernel reverse(R"(
extern "C" __global__ void reverse(int* data) {
  extern __shared__ int kept[];
  kept[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}
)",
                       "reverse");
  const Tensor x = arange(128, TensorOptions(kInt)).to(Device("cuda:0"));
  reverse.launch({1}, {128}, 128 * sizeof(int), x);
  EXPECT_TRUE(equal(x.cpu(), arange(127, -1, -1, TensorOptions(kInt))));
  const auto most = static_cast<uint32_t>(cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin);
  reverse.launch({1}, {128}, most, x);  // more than a block gets unless it is asked for
  EXPECT_TRUE(equal(x.cpu(), arange(128, TensorOptions(kInt))));
  EXPECT_THAT(error_of<ValueError>([&] { reverse.launch({1}, {128}, most + 1024, x); }),
              HasSubstr("bytes of shared memory"));
}

TEST(GpuKernelApi, ChecksWhatItIsGiven) {
  cuda::Kernel scale(kScale, "scale");
  const Tensor x = ones({4}).to(Device("cuda:0"));
  EXPECT_THAT(error_of<DeviceError>([&] { scale.launch({1}, {32}, 0, ones({4}), 1.0f, 4); }),
              AllOf(StartsWith("scale: argument 0 is a tensor on cpu"), HasSubstr("cuda:0")));
  EXPECT_THAT(error_of<ValueError>([&] { scale.launch({1}, {32}, 0, Tensor(), 1.0f, 4); }), HasSubstr("undefined"));
  EXPECT_THAT(error_of<ValueError>([&] { scale.launch({1}, {1u << 20}, 0, x, 1.0f, 4); }),
              AllOf(HasSubstr("1048576 threads"), HasSubstr("at most")));
  EXPECT_THAT(error_of<ValueError>([&] { scale.launch({0}, {32}, 0, x, 1.0f, 4); }), HasSubstr("at least 1"));
  const auto most = static_cast<uint32_t>(cuda::getCurrentDeviceProperties()->maxGridSize[2]);
  EXPECT_THAT(error_of<ValueError>([&] {
                scale.launch({1, 1, most + 1}, {32}, 0, x, 1.0f, 4);
              }),
              HasSubstr("the grid is"));
  EXPECT_TRUE(equal(x.cpu(), ones({4})));
  if (cuda::device_count() > 1) {
    cuda::CUDAGuard guard(DeviceIndex{1});
    EXPECT_THAT(error_of<DeviceError>([&] { scale.launch({1}, {32}, 0, x, 1.0f, 4); }), HasSubstr("cuda:1"));
    const Tensor there = ones({4}).cuda();
    scale.launch({1}, {32}, 0, there, 2.0f, 4);
    EXPECT_TRUE(equal(there.cpu(), ones({4}) * 2));
  }
}

// Whatever would be read past its end or as another type is refused before the launch.
TEST(GpuKernelApi, ComparesArgumentsWithTheText) {
  cuda::Kernel k(R"(
// extern "C" __global__ void k(int) is an older one
/* k(float) */
#define OLDER __global__ void \
  k(double, double)
extern "C" __global__ void __launch_bounds__(64)
k (const float* __restrict__ in, double* out, void *any, float factor, unsigned long long n, bool flag, short) {
  if (threadIdx.x < n && flag && any) out[threadIdx.x] = in[threadIdx.x] * factor;
}
)",
                 "k");
  const Tensor in = ones({4}, on_gpu(kFloat)), out = zeros({4}, on_gpu(kDouble));
  const auto n = int64_t{4};
  k.launch({1}, {64}, 0, in, out, in, 2.5f, n, true, int16_t{1});
  EXPECT_TRUE(equal(out.cpu(), full({4}, 2.5, kDouble)));
  const auto refused = [&](const auto&... args) { return error_of<Error>([&] { k.launch({1}, {64}, 0, args...); }); };
  EXPECT_THAT(refused(),
              HasSubstr("k: 0 arguments were given, and the kernel takes 7: (const float* __restrict__ in, "));
  EXPECT_THAT(refused(in, out, in, 2.5f, n, true), HasSubstr("6 arguments were given"));
  EXPECT_THAT(refused(in, out, in, 2.5f, n, true, int16_t{1}, 3), HasSubstr("8 arguments were given"));
  EXPECT_THAT(refused(in, out, in, 2.5f, 4, true, int16_t{1}),
              HasSubstr("argument 4 is an int of 32 bits, and the kernel declares unsigned long long n"));
  EXPECT_THAT(refused(in, out, in, 2.5, n, true, int16_t{1}),
              HasSubstr("argument 3 is a float of 64 bits, and the kernel declares float factor"));
  EXPECT_THAT(refused(in, out, in, 2, n, true, int16_t{1}), HasSubstr("argument 3 is an int of 32 bits"));
  EXPECT_THAT(refused(in, out, in, 2.5f, n, 1, int16_t{1}), HasSubstr("the kernel declares bool flag"));
  EXPECT_THAT(refused(1.0f, out, in, 2.5f, n, true, int16_t{1}), HasSubstr("give a tensor"));
  EXPECT_THAT(refused(out, out, in, 2.5f, n, true, int16_t{1}),
              HasSubstr("argument 0 is a tensor of float64, and the kernel declares const float* __restrict__ in"));
  EXPECT_THAT(refused(ones({4}, on_gpu(kInt)), out, in, 2.5f, n, true, int16_t{1}), HasSubstr("a tensor of int32"));
  EXPECT_TRUE(equal(out.cpu(), full({4}, 2.5, kDouble)));
}

// What cannot be read without a compiler is taken as it is given.
TEST(GpuKernelApi, TakesTextsThatOnlyACompilerReads) {
  cuda::Kernel macros(R"(
#define ARGS float* x, int n
struct Pair { int a, b; };
typedef int Number;
extern "C" __global__ void k(ARGS, Number factor) { if (threadIdx.x < n) x[threadIdx.x] *= factor; }
)",
                      "k");
  const Tensor x = ones({4}, on_gpu(kFloat));
  macros.launch({1}, {32}, 0, x, 4, 3);
  EXPECT_TRUE(equal(x.cpu(), full({4}, 3.0f)));
  cuda::Kernel typedefs(R"(
typedef float Number;
extern "C" __global__ void k(Number* x, Number factor) { x[threadIdx.x] *= factor; }
)",
                        "k");
  typedefs.launch({1}, {4}, 0, x, 2.0f);
  EXPECT_TRUE(equal(x.cpu(), full({4}, 6.0f)));
  EXPECT_THAT(error_of<ValueError>([&] { typedefs.launch({1}, {4}, 0, x); }), HasSubstr("the kernel takes 2"));
  // A complex tensor is pairs of numbers, and any tensor is bytes.
  cuda::Kernel parts(R"(extern "C" __global__ void k(float* x, const unsigned char* bytes) { x[0] = bytes[0]; })", "k");
  const Tensor z = zeros({2}, on_gpu(kComplexFloat));
  parts.launch({1}, {1}, 0, z, x);
  EXPECT_TRUE(equal(z.cpu(), zeros({2}, kComplexFloat)));
}

TEST(GpuKernelApi, ShowsWhatTheCompilerSays) {
  cuda::Kernel wrong(R"(extern "C" __global__ void wrong(float* x) { x[0] = undeclared_name; }  // must not compile
)",
                     "wrong");
  const Tensor x = ones({1}).to(Device("cuda:0"));
  EXPECT_THAT(error_of<Error>([&] { wrong.launch({1}, {1}, 0, x); }),
              AllOf(StartsWith("wrong: "), HasSubstr("undeclared_name")));
  EXPECT_THAT(error_of<ValueError>([] { cuda::Kernel k("int x;", "missing"); }), HasSubstr("does not mention missing"));
  EXPECT_THAT(error_of<ValueError>([] { cuda::Kernel k("a b", "a b"); }), HasSubstr("not the name of a function"));
}

TEST(GpuRanges, DoNothingWithoutAProfiler) {
  cuda::nvtx::Range range("outer");
  cuda::nvtx::range_push("inner");
  cuda::nvtx::mark("here");
  cuda::nvtx::range_pop();
}

TEST(GpuRangesChild, DISABLED_Work) {
  EXPECT_TRUE(cuda::nvtx::is_available());
  cuda::nvtx::Range range("outer");
  EXPECT_EQ(cuda::nvtx::range_push("inner"), 1);
  cuda::nvtx::mark("here");
  EXPECT_EQ(cuda::nvtx::range_pop(), 1);
}

// A profiler gets the ranges: on NVIDIA the one that NVTX_INJECTION64_PATH names, on AMD the library of rocTX.
TEST(GpuRanges, ReachAProfiler) {
  const std::string driver = cuda::driver_path();
  const size_t folder = driver.find("/simgpu/");
  if (folder == std::string::npos) GTEST_SKIP() << "needs the software GPU, which has profilers";
  const std::string root = driver.substr(0, folder) + "/simgpu/";
  char file[] = "/tmp/facula-ranges-XXXXXX";
  const int made = mkstemp(file);
  ASSERT_GE(made, 0);
  close(made);
  const ChildResult child =
      run_in_child("GpuRangesChild.DISABLED_Work",
                   str("SIMGPU_RANGES=", file,
                       cuda::is_hip() ? str(" FACULA_GPU_LIBRARY_PATH=", root, "hip_ranges:", root, "hip")
                                      : str(" NVTX_INJECTION64_PATH=", root, "cuda_ranges/libnvtx_profiler.so")));
  EXPECT_EQ(child.status, 0) << child.output;
  std::ifstream told(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(told), {}), "push outer\npush inner\nmark here\npop\npop\n");
  std::remove(file);
}

TEST(GpuMonitor, TellsOrSaysWhyNot) {
  try {
    EXPECT_GE(cuda::utilization(), 0);
    EXPECT_LE(cuda::utilization(), 100);
    EXPECT_LE(cuda::memory_usage(), 100);
    EXPECT_GT(cuda::temperature(), 0);
    EXPECT_LT(cuda::temperature(), 150);
    EXPECT_GT(cuda::power_draw(), 1000);
  } catch (const NotSupportedError& e) {
    EXPECT_THAT(e.what(), ::testing::ContainsRegex("^(utilization|memory_usage|temperature|power_draw): "));
  }
  EXPECT_GE(cuda::device_memory_used(), cuda::memory_reserved());
}

TEST(GpuRandom, SeedsDevices) {
  cuda::manual_seed(11);
  EXPECT_EQ(cuda::initial_seed(), 11u);
  cuda::manual_seed_all(12);
  for (int d = 0; d < cuda::device_count(); ++d) EXPECT_EQ(cuda::default_generator(d).current_seed(), 12u);
  manual_seed(13);
  EXPECT_EQ(cuda::initial_seed(), 13u);
  EXPECT_EQ(default_generator().current_seed(), 13u);
  const Tensor state = cuda::get_rng_state();
  cuda::default_generator().set_offset(99);
  cuda::set_rng_state(state);
  EXPECT_EQ(cuda::default_generator().offset(), 0u);
  EXPECT_EQ(cuda::detail::createCUDAGenerator().device(), Device("cuda:0"));
}

TEST(GpuMemoryApi, CountsAndLooseMemory) {
  const int64_t before = cuda::memory_allocated();
  void* data = cuda::caching_allocator_alloc(1 << 16);
  EXPECT_GE(cuda::memory_allocated(), before + (1 << 16));
  EXPECT_GE(cuda::max_memory_allocated(), cuda::memory_allocated());
  cuda::caching_allocator_delete(data);
  EXPECT_EQ(cuda::memory_allocated(), before);
  EXPECT_THAT(error_of<ValueError>([&] { cuda::caching_allocator_delete(data); }), HasSubstr("did not come from"));
  const auto stats = cuda::memory_stats();
  EXPECT_GT(stats.size(), 50u);
  const auto info = cuda::mem_get_info();
  EXPECT_LE(info.free, info.total);
  EXPECT_THAT(error_of<ValueError>([] { cuda::set_per_process_memory_fraction(1.5); }), HasSubstr("got 1.5"));
}

}  // namespace
}  // namespace facula::testing
