// What the driver's table answers.
#include "cpp/seed.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_open.h"
#include "gpu/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

namespace facula::testing {
namespace {

using gpu::Fault;
using gpu::Status;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(GpuDriver, KnowsWhatErrorsMean) {
  EXPECT_EQ(gpu::fault_of(0), Fault::None);
  EXPECT_EQ(gpu::fault_of(1), Fault::InvalidValue);
  EXPECT_EQ(gpu::fault_of(2), Fault::OutOfMemory);
  EXPECT_EQ(gpu::fault_of(101), Fault::InvalidDevice);
  EXPECT_EQ(gpu::fault_of(209), Fault::NoKernelForChip);
  EXPECT_EQ(gpu::fault_of(222), Fault::NoKernelForChip);
  EXPECT_EQ(gpu::fault_of(600), Fault::NotReady);
  EXPECT_EQ(gpu::fault_of(700), Fault::IllegalAddress);
  EXPECT_EQ(gpu::fault_of(701), Fault::LaunchTooLarge);
  EXPECT_EQ(gpu::fault_of(704), Fault::PeerAccessAlreadyEnabled);
  EXPECT_EQ(gpu::fault_of(719), Fault::LaunchFailed);
  EXPECT_EQ(gpu::fault_of(801), Fault::NotSupported);
  for (int code = 900; code <= 908; ++code) EXPECT_EQ(gpu::fault_of(code), Fault::Capture) << code;
  EXPECT_EQ(gpu::fault_of(12345), Fault::Other);
}

class GpuDriverOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(gpu::driver(), nullptr) << gpu::why_no_driver();
    ok(d().use_device(0));
  }
  void TearDown() override { ok(d().use_device(0)); }
  static gpu::Driver& d() { return *gpu::driver(); }
  static void ok(Status status) { EXPECT_TRUE(status.ok()) << d().describe(status); }

  // Loads `body` as the function `test_kernel`.
  gpu::FunctionHandle load(const std::string& text, gpu::ModuleHandle& module) {
    const std::string source = "extern \"C\" __global__ void __launch_bounds__(256) test_kernel(" + text;
    gpu::DeviceProperties properties;
    ok(d().properties(0, properties));
    const gpu::CompileResult result =
        gpu::compiler()->compile("test_kernel", source, gpu::kernel_headers(), properties.chip, {});
    EXPECT_TRUE(result.ok) << result.log;
    gpu::FunctionHandle function = nullptr;
    if (result.ok) {
      ok(d().load_module(module, result.binary.data()));
      ok(d().function(function, module, "test_kernel"));
    }
    return function;
  }
};

TEST_F(GpuDriverOnDevice, SaysWhatItIs) {
  EXPECT_GT(d().version(), 0);
  EXPECT_THAT(d().version_text(), StartsWith(d().vendor() == gpu::Vendor::Cuda ? "CUDA " : "HIP "));
  EXPECT_THAT(d().path(), StartsWith("/"));
  EXPECT_THAT(d().describe(Status{2, Fault::OutOfMemory}), ContainsRegex("[Mm][Ee][Mm][Oo][Rr][Yy]"));
  EXPECT_EQ(d().describe({}), "no error");
  EXPECT_THAT(d().describe(Status{123456, Fault::Other}), Not(::testing::IsEmpty()));
  int count = 0;
  ok(d().device_count(count));
  ASSERT_GT(count, 0);
  for (int device = 0; device < count; ++device) {
    gpu::DeviceProperties p;
    ok(d().properties(device, p));
    EXPECT_FALSE(p.name.empty());
    EXPECT_TRUE(p.chip.starts_with(d().vendor() == gpu::Vendor::Cuda ? "sm_" : "gfx")) << p.chip;
    EXPECT_GT(p.major, 0);
    EXPECT_GT(p.total_memory, uint64_t{1} << 20);
    EXPECT_TRUE(p.lanes == 32 || p.lanes == 64);
    EXPECT_GT(p.multiprocessors, 0);
    EXPECT_GE(p.max_grid[0], 65535);
    EXPECT_GE(p.shared_memory_per_block_optin, p.shared_memory_per_block);
  }
  gpu::DeviceProperties none;
  EXPECT_FALSE(d().properties(count, none).ok());
  EXPECT_FALSE(d().use_device(count).ok());
  EXPECT_FALSE(d().use_device(-1).ok());
}

TEST_F(GpuDriverOnDevice, CopiesAndFills) {
  constexpr size_t kBytes = 100000;
  std::vector<unsigned char> sent(kBytes), back(kBytes);
  std::mt19937 generator(static_cast<uint32_t>(facula_test::test_seed()));
  for (auto& byte : sent) byte = static_cast<unsigned char>(generator());
  void *a = nullptr, *b = nullptr;
  ok(d().allocate(a, kBytes));
  ok(d().allocate(b, kBytes));
  ok(d().copy(a, sent.data(), kBytes, gpu::CopyKind::HostToDevice, nullptr));
  ok(d().copy(b, a, kBytes, gpu::CopyKind::DeviceToDevice, nullptr));
  ok(d().copy(back.data(), b, kBytes, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  EXPECT_EQ(back, sent) << facula_test::seed_text();

  ok(d().fill(a, 0xab, 1, 1000, nullptr));
  ok(d().fill(static_cast<char*>(a) + 1000, 0x1234, 2, 500, nullptr));
  ok(d().fill(static_cast<char*>(a) + 2000, 0xdeadbeef, 4, 250, nullptr));
  EXPECT_EQ(d().fill(a, 0, 3, 1, nullptr).fault, Fault::InvalidValue);
  ok(d().copy(back.data(), a, kBytes, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(back[i], 0xab);
  for (size_t i = 1000; i < 2000; i += 2) ASSERT_TRUE(back[i] == 0x34 && back[i + 1] == 0x12);
  for (size_t i = 2000; i < 3000; i += 4)
    ASSERT_TRUE(back[i] == 0xef && back[i + 1] == 0xbe && back[i + 2] == 0xad && back[i + 3] == 0xde);
  for (size_t i = 3000; i < kBytes; ++i) ASSERT_EQ(back[i], sent[i]);

  const gpu::PointerInfo info = d().pointer_info(static_cast<char*>(a) + 10);
  EXPECT_TRUE(info.known && info.on_device);
  EXPECT_EQ(info.device, 0);
  EXPECT_FALSE(d().pointer_info(sent.data()).on_device);
  ok(d().free(a));
  ok(d().free(b));
  size_t free_bytes = 0, total_bytes = 0;
  ok(d().memory_info(free_bytes, total_bytes));
  EXPECT_GT(free_bytes, 0u);
  EXPECT_LE(free_bytes, total_bytes);
  void* too_much = nullptr;
  EXPECT_EQ(d().allocate(too_much, total_bytes * 4).fault, Fault::OutOfMemory);
}

TEST_F(GpuDriverOnDevice, SharesPageLockedMemory) {
  void* host = nullptr;
  ok(d().allocate_host(host, 4096));
  void* seen = nullptr;
  ok(d().device_pointer(host, seen));
  ASSERT_NE(seen, nullptr);
  gpu::ModuleHandle module = nullptr;
  const gpu::FunctionHandle function = load("int* data, int add) { data[threadIdx.x] += add; }", module);
  ASSERT_NE(function, nullptr);
  for (int i = 0; i < 64; ++i) static_cast<int*>(host)[i] = i;
  int add = 1000;
  void* arguments[] = {&seen, &add};
  ok(d().launch(function, {}, {64, 1, 1}, 0, nullptr, arguments));
  ok(d().synchronize());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(static_cast<int*>(host)[i], 1000 + i);
  EXPECT_TRUE(d().pointer_info(host).known);
  EXPECT_FALSE(d().pointer_info(host).on_device);
  ok(d().unload_module(module));
  ok(d().free_host(host));

  std::vector<char> ours(1 << 20);
  ok(d().register_host(ours.data(), ours.size()));
  ok(d().unregister_host(ours.data()));
}

TEST_F(GpuDriverOnDevice, MapsMemoryIntoAddresses) {
  gpu::DeviceProperties properties;
  ok(d().properties(0, properties));
  if (!properties.maps_memory) GTEST_SKIP() << "this driver maps no memory";
  size_t piece = 0;
  ok(d().map_granularity(0, piece));
  ASSERT_GT(piece, 0u);
  void* range = nullptr;
  ok(d().reserve(range, 4 * piece));
  gpu::PhysicalHandle first = 0, second = 0;
  ok(d().create_physical(first, piece, 0));
  ok(d().create_physical(second, piece, 0));
  char* at = static_cast<char*>(range);
  ok(d().map(at, piece, first));
  ok(d().map(at + piece, piece, second));
  ok(d().set_access(at, 2 * piece, 0));
  // One range of addresses: a fill goes over the seam.
  ok(d().fill(at + piece - 8, 0x11223344, 4, 4, nullptr));
  uint32_t back[4] = {};
  ok(d().copy(back, at + piece - 8, sizeof back, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (uint32_t value : back) EXPECT_EQ(value, 0x11223344u);
  ok(d().unmap(at, piece));
  ok(d().unmap(at + piece, piece));
  ok(d().release_physical(first));
  ok(d().release_physical(second));
  ok(d().unreserve(range, 4 * piece));
}

TEST_F(GpuDriverOnDevice, OrdersWorkByStreamsAndEvents) {
  int least = 0, greatest = 0;
  ok(d().stream_priorities(least, greatest));
  EXPECT_LE(greatest, least);
  gpu::StreamHandle first = nullptr, second = nullptr;
  ok(d().create_stream(first, greatest));
  ok(d().create_stream(second, least));
  gpu::EventHandle start = nullptr, end = nullptr, plain = nullptr;
  ok(d().create_event(start, true, false, false));
  ok(d().create_event(end, true, true, false));
  ok(d().create_event(plain, false, false, false));
  void* data = nullptr;
  ok(d().allocate(data, 1 << 20));
  ok(d().record_event(start, first));
  ok(d().fill(data, 1, 1, 1 << 20, first));
  ok(d().record_event(plain, first));
  ok(d().wait_event(second, plain));
  ok(d().fill(data, 2, 1, 1 << 19, second));
  std::atomic<int> called{0};
  ok(d().add_callback(
      second, [](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &called));
  ok(d().record_event(end, second));
  ok(d().synchronize_event(end));
  EXPECT_EQ(called, 1);
  ok(d().query_event(end));
  ok(d().synchronize_stream(first));
  ok(d().query_stream(first));
  float milliseconds = -1;
  ok(d().elapsed_ms(start, end, milliseconds));
  EXPECT_GE(milliseconds, 0);
  unsigned char back[2] = {};
  ok(d().copy(&back[0], data, 1, gpu::CopyKind::DeviceToHost, second));
  ok(d().copy(&back[1], static_cast<char*>(data) + (1 << 20) - 1, 1, gpu::CopyKind::DeviceToHost, second));
  ok(d().synchronize_stream(second));
  EXPECT_EQ(back[0], 2);
  EXPECT_EQ(back[1], 1);
  EXPECT_FALSE(d().elapsed_ms(plain, plain, milliseconds).ok());
  for (gpu::EventHandle event : {start, end, plain}) ok(d().destroy_event(event));
  ok(d().destroy_stream(first));
  ok(d().destroy_stream(second));
  ok(d().free(data));
}

TEST_F(GpuDriverOnDevice, RunsKernels) {
  gpu::ModuleHandle module = nullptr;
  const gpu::FunctionHandle function = load(
      "float* data, long long count, float factor) {\n"
      "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < count) data[i] *= factor; }\n"
      "__device__ int a_global[10];",
      module);
  ASSERT_NE(function, nullptr);
  int registers = 0, max_threads = 0, blocks = 0;
  ok(d().function_registers(function, registers, max_threads));
  EXPECT_GE(max_threads, 256);
  ok(d().occupancy(function, 256, 0, blocks));
  EXPECT_GT(blocks, 0);
  void* global = nullptr;
  size_t bytes = 0;
  ok(d().global(global, bytes, module, "a_global"));
  EXPECT_EQ(bytes, 40u);
  gpu::FunctionHandle none = nullptr;
  EXPECT_FALSE(d().function(none, module, "no_such_kernel").ok());

  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  void* data = nullptr;
  ok(d().allocate(data, 4000));
  ok(d().copy(data, values.data(), 4000, gpu::CopyKind::HostToDevice, nullptr));
  long long count = 999;
  float factor = 0.5f;
  void* arguments[] = {&data, &count, &factor};
  ok(d().launch(function, {4, 1, 1}, {256, 1, 1}, 0, nullptr, arguments));
  ok(d().copy(values.data(), data, 4000, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (size_t i = 0; i < 999; ++i) ASSERT_EQ(values[i], 0.5f * static_cast<float>(i));
  EXPECT_EQ(values[999], 999.0f);

  EXPECT_EQ(d().launch(function, {1, 1, 1}, {4096, 1, 1}, 0, nullptr, arguments).fault, Fault::LaunchTooLarge);
  ok(d().synchronize());  // nothing is lost by it
  ok(d().free(data));
  ok(d().unload_module(module));
  const std::string nonsense(1000, 'x');
  EXPECT_FALSE(d().load_module(module, nonsense.c_str()).ok());
}

TEST_F(GpuDriverOnDevice, CapturesGraphs) {
  gpu::StreamHandle stream = nullptr;
  ok(d().create_stream(stream, 0));
  void* data = nullptr;
  ok(d().allocate(data, 400));
  gpu::CaptureStatus status = gpu::CaptureStatus::Active;
  uint64_t id = 0;
  ok(d().capture_status(stream, status, id));
  EXPECT_EQ(status, gpu::CaptureStatus::None);
  ok(d().begin_capture(stream, gpu::CaptureMode::Global));
  ok(d().capture_status(stream, status, id));
  EXPECT_EQ(status, gpu::CaptureStatus::Active);
  ok(d().fill(data, 7, 4, 100, stream));
  // Memory and modules may be had while a graph is captured.
  void* meanwhile = nullptr;
  ok(d().allocate(meanwhile, 1000));
  gpu::ModuleHandle module = nullptr;
  load("int* data) { *data = 1; }", module);
  EXPECT_FALSE(d().synchronize_stream(stream).ok());
  gpu::GraphHandle graph = nullptr;
  static_cast<void>(d().end_capture(stream, graph));  // the wait above has broken it
  ok(d().begin_capture(stream, gpu::CaptureMode::ThreadLocal));
  ok(d().fill(data, 7, 4, 100, stream));
  ok(d().end_capture(stream, graph));
  gpu::GraphExecHandle exec = nullptr;
  ok(d().instantiate(exec, graph));
  std::vector<int> back(100);
  for (int round = 0; round < 2; ++round) {
    ok(d().fill(data, 0, 4, 100, stream));
    ok(d().launch_graph(exec, stream));
    ok(d().copy(back.data(), data, 400, gpu::CopyKind::DeviceToHost, stream));
    ok(d().synchronize_stream(stream));
    EXPECT_EQ(back, std::vector<int>(100, 7));
  }
  ok(d().destroy_graph_exec(exec));
  ok(d().destroy_graph(graph));
  ok(d().unload_module(module));
  ok(d().free(meanwhile));
  ok(d().free(data));
  ok(d().destroy_stream(stream));
}

TEST_F(GpuDriverOnDevice, CopiesBetweenDevices) {
  int count = 0;
  ok(d().device_count(count));
  if (count < 2) GTEST_SKIP() << "needs two devices";
  bool can = false;
  ok(d().can_access_peer(0, 1, can));
  if (can) {
    const Status first = d().enable_peer_access(1), again = d().enable_peer_access(1);
    EXPECT_TRUE(first.ok() || first.fault == Fault::PeerAccessAlreadyEnabled);
    EXPECT_EQ(again.fault, Fault::PeerAccessAlreadyEnabled);
  }
  void *here = nullptr, *there = nullptr;
  ok(d().allocate(here, 400));
  ok(d().fill(here, 42, 4, 100, nullptr));
  ok(d().synchronize());
  ok(d().use_device(1));
  ok(d().allocate(there, 400));
  EXPECT_EQ(d().pointer_info(there).device, 1);
  ok(d().use_device(0));
  ok(d().copy_peer(there, 1, here, 0, 400, nullptr));
  ok(d().synchronize());
  std::vector<int> back(100);
  ok(d().use_device(1));
  ok(d().copy(back.data(), there, 400, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  EXPECT_EQ(back, std::vector<int>(100, 42));
  ok(d().free(there));
  ok(d().use_device(0));
  ok(d().free(here));
}

TEST_F(GpuDriverOnDevice, IsUsedByManyThreads) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      ok(d().use_device(0));
      for (int i = 0; i < 20; ++i) {
        void* data = nullptr;
        uint32_t back = 0;
        ok(d().allocate(data, 256));
        ok(d().fill(data, t, 4, 64, nullptr));
        ok(d().copy(&back, data, 4, gpu::CopyKind::DeviceToHost, nullptr));
        ok(d().synchronize());
        EXPECT_EQ(back, t);
        ok(d().free(data));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GpuDriverOnDevice, CompilesWithHeadersAndOptions) {
  gpu::DeviceProperties properties;
  ok(d().properties(0, properties));
  const gpu::SourceHeader headers[] = {{"folder/number.h", "#define NUMBER 7\n"}};
  const std::string text =
      "#include \"folder/number.h\"\nextern \"C\" __global__ void k(int* x) { *x = NUMBER + EXTRA; }\n";
  const std::string options[] = {"-DEXTRA=1", gpu::kOptionChipSpecific};
  gpu::Compiler& compiler = *gpu::compiler();
  const gpu::CompileResult good = compiler.compile("k", text, headers, properties.chip, options);
  EXPECT_TRUE(good.ok) << good.log;
  EXPECT_FALSE(good.binary.empty());
  const gpu::CompileResult no_option = compiler.compile("k", text, headers, properties.chip, {});
  EXPECT_FALSE(no_option.ok);
  EXPECT_TRUE(no_option.binary.empty());
  EXPECT_THAT(no_option.log, HasSubstr("EXTRA"));
  EXPECT_FALSE(compiler.compile("k", text, {}, properties.chip, options).ok);
  const gpu::CompileResult no_chip = compiler.compile("k", text, headers, "potato", options);
  EXPECT_FALSE(no_chip.ok);
  EXPECT_THAT(no_chip.log, HasSubstr("does not compile for potato"));
}

}  // namespace
}  // namespace facula::testing
