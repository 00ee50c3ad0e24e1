// Devices as threads see them, copies of bytes, reports of kernels, and what goes wrong.
#include "gpu/runtime.h"
#include "cpp/child.h"
#include "error_text.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Device memory for the time of a test.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes, int device = 0) : allocation_(gpu::allocate(device, bytes, "test")) {}
  ~DeviceBytes() { gpu::free(allocation_.block); }
  DeviceBytes(const DeviceBytes&) = delete;
  void* data() const { return allocation_.data; }

 private:
  gpu::Allocation allocation_;
};

std::vector<uint8_t> random_bytes(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(generator());
  return bytes;
}

TEST(GpuRuntime, DevicesHaveProperties) {
  ASSERT_GT(cuda::device_count(), 0);
  EXPECT_TRUE(cuda::is_available());
  EXPECT_EQ(cuda::why_not_available(), "");
  for (int d = 0; d < cuda::device_count(); ++d) {
    const cuda::DeviceProp* prop = cuda::getDeviceProperties(d);
    EXPECT_GT(std::strlen(prop->name), 0u);
    EXPECT_GT(prop->totalGlobalMem, size_t{1} << 20);
    EXPECT_GT(prop->multiProcessorCount, 0);
    EXPECT_TRUE(prop->warpSize == 32 || prop->warpSize == 64) << prop->warpSize;
    EXPECT_GE(prop->maxThreadsPerBlock, 256);
    EXPECT_EQ(prop, cuda::getDeviceProperties(d));
  }
}

TEST(GpuRuntime, CurrentDeviceBelongsToTheThread) {
  EXPECT_EQ(cuda::current_device(), 0);
  const int last = static_cast<int>(cuda::device_count()) - 1;
  {
    cuda::CUDAGuard guard(static_cast<DeviceIndex>(last));
    EXPECT_EQ(cuda::current_device(), last);
    EXPECT_EQ(gpu::resolve(Device("cuda"), "test").index(), last);
    std::thread([] { EXPECT_EQ(cuda::current_device(), 0); }).join();
    EXPECT_EQ(guard.original_device(), Device("cuda:0"));
  }
  EXPECT_EQ(cuda::current_device(), 0);
  cuda::OptionalCUDAGuard none;
  EXPECT_FALSE(none.original_device());
  none.set_index(static_cast<DeviceIndex>(last));
  EXPECT_EQ(cuda::current_device(), last);
  none.reset();
  EXPECT_EQ(cuda::current_device(), 0);
  EXPECT_EQ(cuda::exchange_device(last), 0);
  EXPECT_EQ(cuda::exchange_device(0), last);
}

TEST(GpuRuntime, NamesDevicesThatAreNotThere) {
  const int count = static_cast<int>(cuda::device_count());
  const std::string text = error_of<DeviceError>([&] { gpu::resolve(Device(kCUDA, 50), "zeros"); });
  EXPECT_THAT(text, AllOf(StartsWith("zeros: there is no device cuda:50"), HasSubstr(std::to_string(count))));
  EXPECT_THAT(error_of<DeviceError>([] { cuda::set_device(77); }), HasSubstr("there is no device cuda:77"));
  EXPECT_EQ(cuda::current_device(), 0);
  EXPECT_THAT(error_of<DeviceError>([] { cuda::CUDAGuard guard(Device("cpu")); }), HasSubstr("got cpu"));
}

TEST(GpuRuntime, OtherDevicesAreLeftAlone) {
  EXPECT_EQ(gpu::resolve(Device("cpu"), "test"), Device("cpu"));
  EXPECT_EQ(gpu::resolve(Device("meta"), "test"), Device("meta"));
}

// Sizes below, at and above what goes through one and two buffers on the way.
const size_t kSizes[] = {1, 3, 64, 4097, (4u << 20) - 1, 4u << 20, (4u << 20) + 1, (8u << 20) + 5, (13u << 20) + 77};

TEST(GpuRuntime, CopiesPageableMemory) {
  for (size_t bytes : kSizes) {
    const std::vector<uint8_t> source = random_bytes(bytes, static_cast<uint32_t>(bytes));
    std::vector<uint8_t> back(bytes);
    DeviceBytes a(bytes), b(bytes);
    for (bool blocking : {true, false}) {
      std::vector<uint8_t> given = source;
      gpu::copy_to_device(a.data(), given.data(), bytes, blocking, {"test", 0});
      std::fill(given.begin(), given.end(), uint8_t{0});  // pageable memory is free at once
      gpu::copy_on_device(b.data(), a.data(), bytes, {"test", 0});
      gpu::copy_to_host(back.data(), b.data(), bytes, blocking, {"test", 0});
      EXPECT_EQ(back, source) << bytes << " bytes";
    }
  }
}

TEST(GpuRuntime, CopiesPinnedMemory) {
  for (size_t bytes : kSizes) {
    const std::vector<uint8_t> source = random_bytes(bytes, 7);
    auto* pinned = static_cast<uint8_t*>(gpu::allocate_pinned(bytes, "test"));
    auto* back = static_cast<uint8_t*>(gpu::allocate_pinned(bytes, "test"));
    EXPECT_TRUE(gpu::is_pinned(pinned));
    EXPECT_FALSE(gpu::is_pinned(source.data()));
    std::memcpy(pinned, source.data(), bytes);
    DeviceBytes there(bytes);
    gpu::copy_to_device(there.data(), pinned, bytes, false, {"test", 0});
    gpu::copy_to_host(back, there.data(), bytes, false, {"test", 0});
    gpu::synchronize(gpu::current_stream(0), "test");
    EXPECT_EQ(std::memcmp(back, source.data(), bytes), 0) << bytes << " bytes";
    gpu::free_pinned(pinned);
    gpu::free_pinned(back);
  }
}

TEST(GpuRuntime, CopiesToOtherDevicesThanTheCurrentOne) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "one device";
  for (bool pool : {false, true}) {
    const gpu::StreamRef before = gpu::current_stream(1);
    if (pool) gpu::set_current_stream(gpu::stream_from_pool(1, 0));
    for (size_t bytes : {size_t{100}, size_t{5} << 20}) {
      const std::vector<uint8_t> source = random_bytes(bytes, 5);
      DeviceBytes there(bytes, 1);
      std::vector<uint8_t> back(bytes);
      gpu::empty_pinned_cache();  // so that page-locked memory is made on the way
      gpu::copy_to_device(there.data(), source.data(), bytes, false, {"test", 1});
      gpu::empty_pinned_cache();
      gpu::copy_to_host(back.data(), there.data(), bytes, true, {"test", 1});
      EXPECT_EQ(back, source);
      uint8_t first = 0;
      std::thread([&] { gpu::read_small(&first, there.data(), 1, {"item", 1}); }).join();
      EXPECT_EQ(first, source[0]);
    }
    gpu::set_current_stream(before);
  }
  EXPECT_EQ(cuda::current_device(), 0);
}

TEST(GpuRuntime, FillsBytes) {
  for (size_t bytes : {size_t{1}, size_t{6}, size_t{1000}, size_t{4096}}) {
    DeviceBytes there(bytes + 1);
    gpu::fill_bytes(there.data(), 0x11, bytes + 1, {"test", 0});
    gpu::fill_bytes(static_cast<char*>(there.data()) + 1, 0xab, bytes, {"test", 0});
    std::vector<uint8_t> back(bytes + 1);
    gpu::copy_to_host(back.data(), there.data(), bytes + 1, true, {"test", 0});
    std::vector<uint8_t> expected(bytes + 1, 0xab);
    expected[0] = 0x11;
    EXPECT_EQ(back, expected);
  }
}

TEST(GpuRuntime, ReadsSingleValues) {
  DeviceBytes there(64);
  const std::vector<uint8_t> source = random_bytes(64, 3);
  gpu::copy_to_device(there.data(), source.data(), 64, true, {"test", 0});
  for (size_t bytes : {size_t{1}, size_t{2}, size_t{8}, size_t{16}, size_t{64}}) {
    std::vector<uint8_t> value(bytes);
    gpu::read_small(value.data(), there.data(), bytes, {"item", 0});
    EXPECT_EQ(value, std::vector<uint8_t>(source.begin(), source.begin() + static_cast<ptrdiff_t>(bytes)));
  }
  // Every thread has a place of its own, and gives it back at its end.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        uint8_t value = 0;
        gpu::read_small(&value, static_cast<char*>(there.data()) + t, 1, {"item", 0});
        ASSERT_EQ(value, source[static_cast<size_t>(t)]);
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(GpuRuntime, CopiesBetweenDevices) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "one device";
  for (size_t bytes : {size_t{5}, size_t{1} << 20, (size_t{9} << 20) + 3}) {
    const std::vector<uint8_t> source = random_bytes(bytes, 11);
    DeviceBytes here(bytes, 0), there(bytes, 1), home(bytes, 0);
    gpu::copy_to_device(here.data(), source.data(), bytes, false, {"test", 0});
    gpu::copy_between_devices(there.data(), 1, here.data(), 0, bytes, {"test", 0});
    gpu::copy_between_devices(home.data(), 0, there.data(), 1, bytes, {"test", 1});
    std::vector<uint8_t> back(bytes);
    gpu::copy_to_host(back.data(), home.data(), bytes, true, {"test", 0});
    EXPECT_EQ(back, source);
  }
}

// Reports of kernels.

const char* const kReporting = R"(
#include "gpu/kernels/faults.h"
extern "C" __global__ void report(FaculaFault* fault, long long op, long long index, long long size, long long* out) {
  out[threadIdx.x] = facula_checked_index(fault, op, index, size);
}
)";

void report_index(long long index, long long size, const char* op) {
  static auto* kernel = new gpu::Kernel("report", kReporting);
  DeviceBytes out(64 * sizeof(long long));
  gpu::FaultRecord* fault = gpu::fault_buffer(0);
  auto name = reinterpret_cast<intptr_t>(op);
  long long name_number = name;
  void* data = out.data();
  void* arguments[] = {&fault, &name_number, &index, &size, &data};
  gpu::launch(*kernel, {1, 1, 1}, {64, 1, 1}, 0, arguments, {op, 0});
}

TEST(GpuRuntime, KernelsReportBadIndices) {
  report_index(-3, 5, "index_select");
  cuda::synchronize();  // in range, counted from the end
  report_index(7, 5, "index_select");
  EXPECT_THAT(
      error_of<IndexError>([] { cuda::synchronize(); }),
      AllOf(StartsWith("index_select: index 7 is out of bounds for dimension with size 5"), HasSubstr("cuda:0")));
  cuda::synchronize();  // told once; the context lives on
  report_index(-6, 5, "gather");
  EXPECT_THAT(error_of<IndexError>([] { gpu::synchronize(gpu::current_stream(0), "test"); }),
              StartsWith("gather: index -6 is out of bounds"));
  report_index(4, 5, "gather");
  cuda::synchronize();
}

// What cannot be undone is tried in processes of their own.

TEST(GpuRuntime, ForkedProcessesAreToldToSpawn) {
  DeviceBytes used(16);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::string said = "no error";
    try {
      DeviceBytes more(16);
    } catch (const DeviceError& e) {
      said = e.what();
    }
    gpu::free(nullptr);
    const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(written > 0 && gpu::forked_after_start() ? 0 : 3);
  }
  close(ends[1]);
  std::string said;
  char buffer[1024];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_THAT(said, AllOf(HasSubstr("forked process"), HasSubstr("'spawn'")));
  cuda::synchronize();  // the parent goes on
}

TEST(GpuRuntimeChild, DISABLED_TouchesMemoryThatIsNotThere) {
  cuda::Kernel bad(R"(extern "C" __global__ void bad(long long at) { *(int*)at = 1; })", "bad");
  DeviceBytes before(16);
  std::string first;
  try {
    bad.launch({1}, {1}, 0, int64_t{0x10});
    cuda::synchronize();
  } catch (const DeviceError& e) {
    first = e.what();
  }
  std::cout << "FIRST " << first << std::endl;
  std::cout << "LATER " << error_of<DeviceError>([] { DeviceBytes more(size_t{64} << 20); }) << std::endl;
  std::cout << "COPY " << error_of<DeviceError>([&] {
    int value = 0;
    gpu::read_small(&value, before.data(), 4, {"item", 0});
  }) << std::endl;
}

TEST(GpuRuntime, LostContextsAreRemembered) {
  const ChildResult child = run_in_child("GpuRuntimeChild.DISABLED_TouchesMemoryThatIsNotThere", "");
  EXPECT_EQ(child.status, 0) << child.output;
  EXPECT_THAT(child.output, AllOf(HasSubstr("FIRST "), HasSubstr("context of this process is lost"),
                                  HasSubstr("FACULA_LAUNCH_BLOCKING=1")));
  EXPECT_THAT(child.output, HasSubstr("LATER test: cuda:0 can no longer be used in this process"));
  EXPECT_THAT(child.output, HasSubstr("COPY item: cuda:0 can no longer be used in this process"));
}

TEST(GpuRuntimeChild, DISABLED_ReportsAtTheLaunch) {
  EXPECT_TRUE(gpu::launch_blocking());
  EXPECT_THAT(error_of<IndexError>([] { report_index(9, 2, "take"); }), StartsWith("take: index 9"));
}

TEST(GpuRuntime, LaunchesWaitWhenTold) {
  for (const char* name : {"FACULA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING=1"}) {
    const ChildResult child = run_in_child("GpuRuntimeChild.DISABLED_ReportsAtTheLaunch", name);
    EXPECT_EQ(child.status, 0) << child.output;
  }
}

TEST(GpuRuntimeChild, DISABLED_HasNoGpu) {
  EXPECT_FALSE(cuda::is_available());
  EXPECT_EQ(cuda::device_count(), 0);
  EXPECT_NE(cuda::why_not_available(), "");
  EXPECT_THAT(error_of<DeviceError>([] { gpu::resolve(Device("cuda"), "ones"); }),
              StartsWith("ones: device cuda is not available"));
  EXPECT_THAT(error_of<DeviceError>([] { cuda::synchronize(); }),
              StartsWith("synchronize: device cuda is not available"));
  EXPECT_EQ(cuda::memory_allocated(), 0);
  cuda::empty_cache();
  cuda::manual_seed_all(3);
}

TEST(GpuRuntime, MachinesWithoutGpuSaySo) {
  const ChildResult child = run_in_child("GpuRuntimeChild.DISABLED_HasNoGpu", "FACULA_GPU=none");
  EXPECT_EQ(child.status, 0) << child.output;
}

TEST(GpuRuntime, PlatformAndConfigAreTold) {
  const auto theirs = cuda::is_hip() ? version::hip() : version::cuda();
  EXPECT_EQ(cuda::is_hip() ? version::cuda() : version::hip(), std::nullopt);
  ASSERT_TRUE(theirs.has_value());
  const int number = cuda::driver_version();
  EXPECT_EQ(*theirs, cuda::is_hip() ? std::to_string(number / 10000000) + "." + std::to_string(number / 100000 % 100)
                                    : std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10));
  const std::string text = config();
  for (int64_t index = 0; index < cuda::device_count(); ++index)
    EXPECT_THAT(text,
                ::testing::HasSubstr("\ncuda:" + std::to_string(index) + ": " + cuda::get_device_name(index) + ", "));
  EXPECT_THAT(text, ::testing::HasSubstr(cuda::describe_search()));
}

TEST(GpuRuntime, WaitsOfOpsCanBeRefused) {
  DeviceBytes there(8);
  gpu::fill_bytes(there.data(), 0, 8, {"test", 0});
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::Error);
  int64_t value = 1;
  EXPECT_THAT(error_of<DeviceError>([&] {
                gpu::read_small(&value, there.data(), 8, {"item", 0});
              }),
              StartsWith("item: called a synchronizing operation"));
  cuda::synchronize();  // the user's own waits are not meant
  cuda::set_sync_debug_mode(cuda::SyncDebugMode::Off);
  gpu::read_small(&value, there.data(), 8, {"item", 0});
  EXPECT_EQ(value, 0);
}

}  // namespace
}  // namespace facula::testing
