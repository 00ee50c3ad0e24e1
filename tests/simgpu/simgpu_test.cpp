// Tests of the software GPU itself, through the raw entry points of its libraries: memory, devices, streams, events, graphs.
// SIMGPU_CUDA and SIMGPU_HIP name the folders of the libraries.
#include "test_fixture.h"

namespace simgpu_tests {
namespace {

class SimGpuRuntime : public SimGpu {};
INSTANTIATE_TEST_SUITE_P(Shapes, SimGpuRuntime, ::testing::Values(false, true), shape_name);

TEST_P(SimGpuRuntime, ExportsEveryEntryPointOfTheDriverTables) {
  const auto& missing = GetParam() ? static_cast<HipGpu*>(g)->missing : static_cast<CudaGpu*>(g)->missing;
  EXPECT_EQ(missing, std::vector<std::string>());
}

// ---- memory

TEST_P(SimGpuRuntime, CopiesThereAndBack) {
  std::mt19937 random(7);
  for (size_t bytes : {1, 3, 511, 512, 513, 4096, 100001}) {
    std::vector<uint8_t> in(bytes);
    for (auto& b : in) b = static_cast<uint8_t>(random());
    uint8_t* p = device(in);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 512, 0u);
    uint8_t* q = device<uint8_t>(bytes);
    OK(g->on_device(q, p, bytes, nullptr));
    EXPECT_EQ(host(q, bytes), in);
  }
}

TEST_P(SimGpuRuntime, FillsWithAPattern) {
  auto* p = device<uint32_t>(1000);
  OK(g->fill32(p, 0xdeadbeef, 1000, nullptr));
  EXPECT_EQ(host(p, 1000), std::vector<uint32_t>(1000, 0xdeadbeef));
}

TEST_P(SimGpuRuntime, CopiesOutsideOfAnAllocationAreRefused) {
  auto* p = device<char>(100);
  std::vector<char> h(1000);
  EXPECT_EQ(g->to_device(p, h.data(), 101, nullptr), kInvalidValue);
  EXPECT_EQ(g->to_host(h.data(), p + 50, 51, nullptr), kInvalidValue);
  EXPECT_EQ(g->to_device(h.data(), h.data(), 10, nullptr), kInvalidValue);
  EXPECT_EQ(g->fill32(p, 0, 26, nullptr), kInvalidValue);
  EXPECT_EQ(g->free(p + 4), kInvalidValue);
}

TEST_P(SimGpuRuntime, UnwrittenMemoryArrivesAsOnes) {
  auto* p = device<uint8_t>(8);
  const uint8_t some[2] = {1, 2};
  OK(g->to_device(p + 3, some, 2, nullptr));
  EXPECT_EQ(host(p, 8), (std::vector<uint8_t>{255, 255, 255, 1, 2, 255, 255, 255}));
}

TEST_P(SimGpuRuntime, MemoryIsCountedAndRunsOut) {
  size_t before = 0, after = 0, total = 0;
  OK(g->info(&before, &total));
  void* p = nullptr;
  OK(g->alloc(&p, 100 << 20));
  OK(g->info(&after, &total));
  EXPECT_EQ(before - after, size_t{100} << 20);
  void* q = nullptr;
  EXPECT_EQ(g->alloc(&q, total), kOutOfMemory);
  EXPECT_EQ(q, nullptr);
  OK(g->free(p));
  OK(g->info(&after, &total));
  EXPECT_EQ(after, before);
}

TEST_P(SimGpuRuntime, AddressesDoNotReturnAtOnce) {
  void *p = nullptr, *q = nullptr;
  OK(g->alloc(&p, 1000));
  OK(g->free(p));
  OK(g->alloc(&q, 1000));
  EXPECT_NE(p, q);
  OK(g->free(q));
}

TEST_P(SimGpuRuntime, PageLockedMemoryIsReadWhenTheStreamComesToIt) {
  void* pinned = nullptr;
  OK(g->host_alloc(&pinned, 4));
  auto* value = static_cast<int*>(pinned);
  int* p = device<int>(1);
  // A host function holds the stream until the value has changed.
  struct Gate {
    std::atomic<bool> open{false};
  } gate;
  void* s = new_stream();
  OK(g->host_function(
      s,
      [](void* a) {
        while (!static_cast<Gate*>(a)->open) std::this_thread::yield();
      },
      &gate));
  *value = 1;
  OK(g->to_device(p, value, 4, s));
  *value = 2;
  gate.open = true;
  OK(g->stream_sync(s));
  EXPECT_EQ(host(p, 1)[0], 2);
  OK(g->stream_free(s));
  OK(g->host_free(pinned));
}

TEST_P(SimGpuRuntime, PageableMemoryIsTakenAtOnce) {
  int* p = device<int>(1);
  struct Gate {
    std::atomic<bool> open{false};
  } gate;
  void* s = new_stream();
  OK(g->host_function(
      s,
      [](void* a) {
        while (!static_cast<Gate*>(a)->open) std::this_thread::yield();
      },
      &gate));
  int value = 1;
  OK(g->to_device(p, &value, 4, s));
  value = 2;
  gate.open = true;
  OK(g->stream_sync(s));
  EXPECT_EQ(host(p, 1)[0], 1);
  OK(g->stream_free(s));
}

TEST_P(SimGpuRuntime, KernelsReachPageLockedAndRegisteredMemory) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p) { p[threadIdx.x] += 1; })");
  void* pinned = nullptr;
  OK(g->host_alloc(&pinned, 64 * 4));
  std::vector<int> mine(64, 5);
  OK(g->host_register(mine.data(), 64 * 4));
  EXPECT_EQ(g->host_register(mine.data(), 64 * 4), 712);
  auto* p = static_cast<int*>(pinned);
  std::iota(p, p + 64, 0);
  OK(launch(f, 1, 64, 0, nullptr, pinned));
  OK(launch(f, 1, 64, 0, nullptr, static_cast<void*>(mine.data())));
  OK(g->synchronize());
  EXPECT_EQ(p[63], 64);
  EXPECT_EQ(mine, std::vector<int>(64, 6));
  OK(g->host_unregister(mine.data()));
  EXPECT_EQ(g->host_unregister(mine.data()), 713);
  OK(g->host_free(pinned));
}

TEST_P(SimGpuRuntime, MemoryIsMappedIntoRanges) {
  if (GetParam()) GTEST_SKIP() << "HIP maps memory since version 6";
  const cuda::Table& t = static_cast<CudaGpu*>(g)->t;
  cuda::AllocationProperties properties;
  cuda::AccessDescription access;
  size_t unit = 0, before = 0, total = 0, during = 0;
  OK(t.cuMemGetAllocationGranularity(&unit, &properties, 0));
  EXPECT_EQ(unit, size_t{2} << 20);
  unsigned long long range = 0, piece[2] = {0, 0};
  EXPECT_EQ(t.cuMemAddressReserve(&range, unit + 1, 0, 0, 0), kInvalidValue);
  OK(t.cuMemAddressReserve(&range, 4 * unit, 0, 0, 0));
  OK(g->info(&before, &total));
  for (auto& handle : piece) OK(t.cuMemCreate(&handle, unit, &properties, 0));
  OK(g->info(&during, &total));
  EXPECT_EQ(before - during, 2 * unit);
  OK(t.cuMemMap(range, unit, 0, piece[0], 0));
  OK(t.cuMemMap(range + unit, unit, 0, piece[1], 0));
  EXPECT_EQ(t.cuMemMap(range, unit, 0, piece[0], 0), kInvalidValue);  // there is something
  void* f = kernel(R"(extern "C" __global__ void k(int* p, long long at) { p[at] = 5; })");
  auto* p = reinterpret_cast<int*>(range);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, p, 0ll), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);  // nobody said that the device may
  });
  EXPECT_NE(text.find("without access"), std::string::npos) << text;
  g->control("revive");
  OK(t.cuMemSetAccess(range, 2 * unit, &access, 1));
  const long long last = static_cast<long long>(unit / 4) - 1;
  OK(launch(f, 1, 1, 0, nullptr, p, last));
  OK(launch(f, 1, 1, 0, nullptr, p, last + 1));
  EXPECT_EQ(host(p + last, 2), (std::vector<int>{5, 5}));  // a copy across both pieces
  // Mapped elsewhere, the bytes are the same ones.
  OK(t.cuMemUnmap(range + unit, unit));
  OK(t.cuMemMap(range + 2 * unit, unit, 0, piece[1], 0));
  OK(t.cuMemSetAccess(range + 2 * unit, unit, &access, 1));
  EXPECT_EQ(host(p + 2 * (last + 1), 1)[0], 5);
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, p, last + 1), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  g->control("revive");
  EXPECT_EQ(t.cuMemAddressFree(range, 4 * unit), kInvalidValue);  // still mapped
  OK(t.cuMemUnmap(range, unit));
  OK(t.cuMemUnmap(range + 2 * unit, unit));
  for (auto handle : piece) OK(t.cuMemRelease(handle));
  OK(t.cuMemAddressFree(range, 4 * unit));
  OK(g->info(&during, &total));
  EXPECT_EQ(before, during);
}

// ---- two devices

TEST_P(SimGpuRuntime, PeersAreReachedWhenAllowed) {
  int devices = 0;
  OK(g->count(&devices));
  ASSERT_EQ(devices, 2);
  int* first = device(std::vector<int>{1, 2, 3});
  OK(g->synchronize());
  OK(g->use(1));
  const char* source =
      R"(extern "C" __global__ void k(int* out, const int* in) { out[threadIdx.x] = in[threadIdx.x]; })";
  void* f = kernel(source);
  int* second = device<int>(3);
  std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 3, 0, nullptr, second, first), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("another device without peer access"), std::string::npos) << text;
  g->control("revive");
  // Copies need no leave.
  OK(g->on_device(second, first, 12, nullptr));
  EXPECT_EQ(host(second, 3), (std::vector<int>{1, 2, 3}));
  OK(g->fill32(second, 0, 3, nullptr));
  OK(g->enable_peer(0));
  EXPECT_EQ(g->enable_peer(0), 704);
  OK(launch(f, 1, 3, 0, nullptr, second, first));
  EXPECT_EQ(host(second, 3), (std::vector<int>{1, 2, 3}));
}

// ---- streams and events

TEST_P(SimGpuRuntime, EventsOrderStreams) {
  void* f = kernel(kIncrement);
  int* p = device<int>(1);
  void *a = new_stream(), *b = new_stream();
  void* e = nullptr;
  OK(g->event(&e, 2));
  for (int round = 0; round < 5; ++round) {
    OK(g->fill32(p, 0, 1, a));
    OK(launch(f, 1, 1, 0, a, p, 20000));
    OK(g->record(e, a));
    OK(g->stream_wait(b, e));
    OK(launch(f, 1, 1, 0, b, p, 1));
    int value = 0;
    OK(g->to_host(&value, p, 4, b));
    EXPECT_EQ(value, 20001);
  }
  OK(g->event_free(e));
  OK(g->stream_free(a));
  OK(g->stream_free(b));
}

TEST_P(SimGpuRuntime, StreamsWithoutAnOrderRunInSeveral) {
  // Two streams write their number; which comes last depends on the seed.
  void* f = kernel(R"(extern "C" __global__ void k(int* p, int v) { *p = v; })");
  int* p = device(std::vector<int>{0});
  OK(g->synchronize());
  void *a = new_stream(), *b = new_stream(), *c = new_stream();
  struct Gate {
    std::atomic<bool> open{false};
  };
  void* e = nullptr;
  OK(g->event(&e, 2));
  std::map<int, int> seen;
  for (int seed = 0; seed < 24; ++seed) {
    g->control(("seed " + std::to_string(seed)).c_str());
    Gate gate;
    OK(g->host_function(
        c,
        [](void* q) {
          while (!static_cast<Gate*>(q)->open) std::this_thread::yield();
        },
        &gate));
    OK(g->record(e, c));
    OK(g->stream_wait(a, e));
    OK(g->stream_wait(b, e));
    OK(launch(f, 1, 1, 0, a, p, 1));
    OK(launch(f, 1, 1, 0, b, p, 2));
    gate.open = true;
    OK(g->synchronize());
    ++seen[host(p, 1)[0]];
  }
  EXPECT_EQ(seen.size(), 2u);
  for (void* s : {a, b, c}) OK(g->stream_free(s));
  OK(g->event_free(e));
}

TEST_P(SimGpuRuntime, TheDefaultStreamWaitsForBlockingStreamsOnly) {
  struct Gate {
    std::atomic<bool> open{false};
  } gate;
  const auto hold = [](void* q) {
    while (!static_cast<Gate*>(q)->open) std::this_thread::yield();
  };
  int* p = device(std::vector<int>{1});
  OK(g->synchronize());
  void *blocking = new_stream(true), *other = new_stream(false);
  // A stream that does not block is not waited for.
  OK(g->host_function(other, hold, &gate));
  EXPECT_EQ(host(p, 1)[0], 1);
  EXPECT_EQ(g->stream_query(other), kNotReady);
  gate.open = true;
  OK(g->stream_sync(other));
  EXPECT_EQ(g->stream_query(other), 0);
  // One that does is.
  gate.open = false;
  OK(g->host_function(blocking, hold, &gate));
  OK(g->fill32(p, 7, 1, blocking));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.open = true;
  });
  EXPECT_EQ(host(p, 1)[0], 7);
  EXPECT_TRUE(gate.open);
  opener.join();
  // And waits for the default stream in turn.
  OK(g->fill32(p, 8, 1, nullptr));
  OK(g->fill32(p, 9, 1, blocking));
  OK(g->stream_sync(blocking));
  EXPECT_EQ(host(p, 1)[0], 9);
  OK(g->stream_free(blocking));
  OK(g->stream_free(other));
}

TEST_P(SimGpuRuntime, EventsTellTheTime) {
  void* f = kernel(kIncrement);
  int* p = device(std::vector<int>{0});
  void *a = nullptr, *b = nullptr, *quiet = nullptr;
  OK(g->event(&a, 0));
  OK(g->event(&b, 0));
  OK(g->event(&quiet, 2));
  float ms = -1;
  EXPECT_EQ(g->elapsed(&ms, a, b), kInvalidHandle);  // never recorded
  OK(g->record(a, nullptr));
  OK(launch(f, 1, 1, 0, nullptr, p, 200000));
  OK(g->record(b, nullptr));
  OK(g->event_sync(b));
  OK(g->elapsed(&ms, a, b));
  EXPECT_GT(ms, 0.1f);
  EXPECT_LT(ms, 60000.0f);
  OK(g->record(quiet, nullptr));
  OK(g->event_sync(quiet));
  EXPECT_EQ(g->elapsed(&ms, a, quiet), kInvalidHandle);
  for (void* e : {a, b, quiet}) OK(g->event_free(e));
  EXPECT_EQ(g->event_free(a), kInvalidHandle);
}

TEST_P(SimGpuRuntime, FreeingWaitsForWork) {
  void* f = kernel(kIncrement);
  void* p = nullptr;
  OK(g->alloc(&p, 4));
  OK(g->fill32(p, 0, 1, nullptr));
  void* s = new_stream();
  OK(g->synchronize());
  OK(launch(f, 1, 1, 0, s, p, 200000));
  OK(g->free(p));
  OK(g->synchronize());
  OK(g->stream_free(s));
}

// ---- graphs

TEST_P(SimGpuRuntime, GraphsReplay) {
  void* f = kernel(kIncrement);
  int* p = device(std::vector<int>{0});
  OK(g->synchronize());
  void* s = new_stream();
  int status = -1;
  unsigned long long id = 0;
  OK(g->begin_capture(s, 0));
  OK(g->capture_info(s, &status, &id));
  EXPECT_EQ(status, 1);
  EXPECT_NE(id, 0u);
  int by = 3;
  void* arguments[] = {&p, &by};
  OK(g->launch(f, 1, 1, 0, s, arguments));
  by = 100;
  OK(launch(f, 1, 1, 0, s, p, 4));
  void *graph = nullptr, *exec = nullptr;
  OK(g->end_capture(s, &graph));
  OK(g->capture_info(s, &status, &id));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(host(p, 1)[0], 0);  // captured, not done
  OK(g->instantiate(&exec, graph));
  for (int i = 0; i < 3; ++i) OK(g->launch_graph(exec, s));
  OK(g->stream_sync(s));
  EXPECT_EQ(host(p, 1)[0], 21);
  OK(g->exec_free(exec));
  OK(g->graph_free(graph));
  OK(g->stream_free(s));
}

TEST_P(SimGpuRuntime, GraphsTakeInOtherStreams) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p, int a, int b) { *p = *p * a + b; })");
  int* p = device(std::vector<int>{1, 1});
  OK(g->synchronize());
  void *s = new_stream(), *t = new_stream(), *fork = nullptr, *join = nullptr;
  OK(g->event(&fork, 2));
  OK(g->event(&join, 2));
  OK(g->begin_capture(s, 0));
  OK(launch(f, 1, 1, 0, s, p, 2, 0));
  OK(g->record(fork, s));
  OK(g->stream_wait(t, fork));
  int status = 0;
  unsigned long long id = 0;
  OK(g->capture_info(t, &status, &id));
  EXPECT_EQ(status, 1);
  OK(launch(f, 1, 1, 0, t, p + 1, 3, 0));
  OK(g->record(join, t));
  OK(g->stream_wait(s, join));
  OK(launch(f, 1, 1, 0, s, p, 1, 5));
  EXPECT_EQ(g->event_query(join), 907);
  void *graph = nullptr, *exec = nullptr;
  OK(g->end_capture(s, &graph));
  OK(g->instantiate(&exec, graph));
  for (int seed = 0; seed < 6; ++seed) {
    g->control(("seed " + std::to_string(seed)).c_str());
    OK(g->fill32(p, 1, 2, s));
    OK(g->launch_graph(exec, s));
    OK(g->stream_sync(s));
    EXPECT_EQ(host(p, 2), (std::vector<int>{7, 3}));
  }
  // Left open: the other stream's work is not waited for.
  OK(g->begin_capture(s, 0));
  OK(g->record(fork, s));
  OK(g->stream_wait(t, fork));
  OK(launch(f, 1, 1, 0, t, p + 1, 3, 0));
  void* none = nullptr;
  EXPECT_EQ(g->end_capture(s, &none), 904);
  EXPECT_EQ(none, nullptr);
  OK(g->stream_sync(t));
  OK(g->exec_free(exec));
  OK(g->graph_free(graph));
  for (void* e : {fork, join}) OK(g->event_free(e));
  for (void* x : {s, t}) OK(g->stream_free(x));
}

TEST_P(SimGpuRuntime, CapturesAreBrokenByWhatIsNotAllowed) {
  void *s = new_stream(), *graph = nullptr, *p = nullptr;
  int status = 0;
  unsigned long long id = 0;
  OK(g->begin_capture(s, 0));
  EXPECT_EQ(g->alloc(&p, 4), 900);
  OK(g->capture_info(s, &status, &id));
  EXPECT_EQ(status, 2);
  EXPECT_EQ(g->end_capture(s, &graph), 901);
  OK(g->begin_capture(s, 0));
  EXPECT_EQ(g->stream_sync(s), 900);
  EXPECT_EQ(g->end_capture(s, &graph), 901);
  // Another thread may allocate during a thread's own capture, but not during a global one; relaxed captures forbid nothing.
  for (int mode = 0; mode < 3; ++mode) {
    OK(g->begin_capture(s, mode));
    int code = -1;
    std::thread([&] {
      g->use(0);
      void* q = nullptr;
      code = g->alloc(&q, 4);
      if (code == 0) memory.push_back(q);
    }).join();
    EXPECT_EQ(code, mode == 0 ? 900 : 0);
    EXPECT_EQ(g->end_capture(s, &graph), mode == 0 ? 901 : 0);
    if (graph) g->graph_free(graph);
    graph = nullptr;
  }
  OK(g->begin_capture(s, 2));
  OK(g->alloc(&p, 4));
  memory.push_back(p);
  OK(g->end_capture(s, &graph));
  OK(g->graph_free(graph));
  EXPECT_EQ(g->begin_capture(nullptr, 0), 900);
  EXPECT_EQ(g->end_capture(s, &graph), 401);
  // What happened outside cannot be waited for inside.
  void *other = new_stream(), *e = nullptr;
  OK(g->event(&e, 2));
  OK(g->record(e, other));
  OK(g->begin_capture(s, 2));
  EXPECT_EQ(g->stream_wait(s, e), 905);
  EXPECT_EQ(g->end_capture(s, &graph), 901);
  OK(g->event_free(e));
  // The default stream must not depend on a captured stream that blocks.
  void* blocking = new_stream(true);
  int* d = device<int>(1);
  OK(g->begin_capture(blocking, 2));
  EXPECT_EQ(g->fill32(d, 0, 1, nullptr), 906);
  EXPECT_EQ(g->end_capture(blocking, &graph), 901);
  for (void* x : {s, other, blocking}) OK(g->stream_free(x));
}

}  // namespace
}  // namespace simgpu_tests
