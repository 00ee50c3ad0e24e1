// Calls of the driver that fail: what is said, and that things work afterwards. The software GPU fails on request; on a real one
// these tests have nothing to do.
#include "cpp/child.h"
#include "error_text.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"
#include "gpu/graph.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Control = const char* (*)(const char* command);

Control control() {
  static const Control found = [] {
    void* driver = dlopen(cuda::driver_path().c_str(), RTLD_LAZY | RTLD_NOLOAD);
    return driver ? reinterpret_cast<Control>(dlsym(driver, "simgpu_control")) : nullptr;
  }();
  return found;
}

class GpuFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::init();
    if (!control()) GTEST_SKIP() << "a real GPU does not fail on request";
  }
  void TearDown() override {
    if (control()) control()("clear");
  }
  static void fault(const std::string& words) { ASSERT_STREQ(control()(words.c_str()), "ok") << words; }
};

Tensor bytes_on(int device, int64_t count) {
  return empty({count}, TensorOptions(kByte).device(Device(kCUDA, static_cast<DeviceIndex>(device))));
}

void write(const Tensor& to, const std::vector<uint8_t>& values) {
  StorageImpl* storages[] = {to.storage().impl()};
  gpu::copy_to_device(to.data_ptr(), values.data(), values.size(), true, {"copy_", to.device().index(), storages});
}

std::vector<uint8_t> read(const Tensor& from) {
  std::vector<uint8_t> values(static_cast<size_t>(from.numel()));
  StorageImpl* storages[] = {from.storage().impl()};
  gpu::copy_to_host(values.data(), from.data_ptr(), values.size(), true, {"copy_", from.device().index(), storages});
  return values;
}

const cuda::Kernel& nothing() {
  static auto* kernel = new cuda::Kernel(R"(extern "C" __global__ void nothing() {})", "nothing");
  return *kernel;
}

TEST_F(GpuFaults, PeersThatCannotCopyGoThroughTheHost) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "one device";
  std::vector<uint8_t> values(5 << 20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 31);
  const Tensor here = bytes_on(0, static_cast<int64_t>(values.size())), there = bytes_on(1, here.numel());
  write(here, values);
  StorageImpl* storages[] = {here.storage().impl(), there.storage().impl()};
  fault("memcpy:1=notsupported");
  gpu::copy_between_devices(there.data_ptr(), 1, here.data_ptr(), 0, values.size(), {"copy_", 0, storages});
  EXPECT_EQ(read(there), values);
}

TEST_F(GpuFaults, LaunchesThatAreRefusedSayWhatWasAskedFor) {
  nothing().launch({1}, {32}, 0);
  fault("launch:1+=refuse");
  const std::string text = error_of<DeviceError>([] { nothing().launch({3}, {64}, 16); });
  EXPECT_THAT(text, AllOf(StartsWith("nothing: "), HasSubstr("grid 3 x 1 x 1"), HasSubstr("block 64 x 1 x 1"),
                          HasSubstr("16 bytes of shared memory")));
  control()("clear");
  nothing().launch({3}, {64}, 16);
  cuda::synchronize();
}

TEST_F(GpuFaults, StreamsAndEventsThatCannotBeMade) {
  for (int i = 0; i < 3; ++i) cuda::getStreamFromPool(-2);
  fault("stream:1=oom");
  EXPECT_THAT(error_of<OutOfMemoryError>([] { cuda::getStreamFromPool(-2); }),
              AllOf(StartsWith("Stream: "), HasSubstr("no memory left")));
  cuda::getStreamFromPool(-2).synchronize();
  fault("event:1=oom");
  cuda::CUDAEvent event;
  EXPECT_THAT(error_of<OutOfMemoryError>([&] { event.record(); }), StartsWith("Event: "));
  event.record();
  event.synchronize();
}

TEST_F(GpuFaults, CopiesThatFail) {
  const Tensor there = bytes_on(0, 16);
  const std::vector<uint8_t> values(16, 9);
  fault("memcpy:1=invalid");
  EXPECT_THAT(error_of<DeviceError>([&] { write(there, values); }), AllOf(StartsWith("copy_: "), HasSubstr("cuda:0")));
  write(there, values);
  fault("sync:1=unknown");
  EXPECT_THROW(read(there), DeviceError);
}

TEST_F(GpuFaults, CapturesThatCannotBegin) {
  cuda::CUDAGraph graph;
  {
    cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
    for (int call = 1; call <= 3; ++call) {
      fault(str("graph:", call, "=invalid"));
      bool begun = false;
      try {
        graph.capture_begin();
        begun = true;
        nothing().launch({1}, {32}, 0);
        graph.capture_end();
      } catch (const DeviceError& e) {
        EXPECT_THAT(e.what(), StartsWith(begun ? "capture_end: " : "capture_begin: "));
      }
      control()("clear");
      EXPECT_EQ(gpu::active_captures.load(), 0);
      graph.reset();
    }
    graph.capture_begin();
    nothing().launch({1}, {32}, 0);
    graph.capture_end();
  }
  graph.replay();
  cuda::synchronize();
}

TEST_F(GpuFaults, SlowCopiesAreWaitedForOnlyWhenTheyMust) {
  if (const char* async = std::getenv("SIMGPU_ASYNC"); async && *async == '0') GTEST_SKIP() << "every call waits";
  const size_t count = 1 << 16;
  const Tensor there = bytes_on(0, static_cast<int64_t>(count));
  auto* pinned = static_cast<uint8_t*>(gpu::allocate_pinned(count, "test"));
  std::memset(pinned, 5, count);
  write(there, std::vector<uint8_t>(count, 1));
  cuda::synchronize();
  fault("slow_copies_ms=200");
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  gpu::copy_to_device(there.data_ptr(), pinned, count, false, {"copy_", 0});
  EXPECT_LT(passed(), 150) << "a copy from pinned memory did not return at once";
  std::vector<uint8_t> pageable(count, 6);
  gpu::copy_to_device(static_cast<char*>(there.data_ptr()), pageable.data(), count / 2, true, {"copy_", 0});
  std::fill(pageable.begin(), pageable.end(), uint8_t{0});
  EXPECT_LT(passed(), 150) << "a copy from pageable memory did not return at once";
  std::vector<uint8_t> expected(count, 5);
  std::fill(expected.begin(), expected.begin() + count / 2, uint8_t{6});
  EXPECT_EQ(read(there), expected);
  gpu::free_pinned(pinned);
}

TEST_F(GpuFaults, ItemCopiesOnceAndWaitsOnce) {
  const Tensor x = full({3}, 2.5, TensorOptions(kFloat).device(Device("cuda:0")));
  EXPECT_EQ(x[1].item<float>(), 2.5f);  // whatever the first one makes is made
  const Tensor one = x[2];
  const char* const kinds[] = {"memcpy",     "sync", "query", "event", "stream", "launch",
                               "host_alloc", "free", "alloc", "map",   "memset", "module"};
  std::map<std::string, long> before;
  for (const char* kind : kinds) before[kind] = std::atol(control()(str("count ", kind).c_str()));
  EXPECT_EQ(one.item<float>(), 2.5f);
  for (const char* kind : kinds) {
    const long calls = std::atol(control()(str("count ", kind).c_str())) - before[kind];
    EXPECT_EQ(calls, kind == std::string("memcpy") || kind == std::string("sync") ? 1 : 0) << kind;
  }
}

TEST(GpuFaultsChild, DISABLED_LosesTheDevice) {
  const Tensor there = bytes_on(0, 16), elsewhere = bytes_on(static_cast<int>(cuda::device_count()) - 1, 16);
  write(elsewhere, std::vector<uint8_t>(16, 3));
  ASSERT_TRUE(control());
  ASSERT_STREQ(control()("memcpy:1=lost"), "ok");
  std::cout << "FIRST " << error_of<DeviceError>([&] { write(there, std::vector<uint8_t>(16, 1)); }) << std::endl;
  std::cout << "LATER " << error_of<DeviceError>([&] { nothing().launch({1}, {1}, 0); }) << std::endl;
  if (cuda::device_count() > 1) {
    EXPECT_EQ(read(elsewhere), std::vector<uint8_t>(16, 3)) << "the other device works on";
  }
}

TEST_F(GpuFaults, LostDevicesAreNamed) {
  const ChildResult child = run_in_child("GpuFaultsChild.DISABLED_LosesTheDevice", "");
  EXPECT_EQ(child.status, 0) << child.output;
  EXPECT_THAT(child.output, AllOf(HasSubstr("FIRST copy_: "), HasSubstr("no longer answers")));
  EXPECT_THAT(child.output, HasSubstr("LATER nothing: cuda:0 can no longer be used in this process"));
}

}  // namespace
}  // namespace facula::testing
