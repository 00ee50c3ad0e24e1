// Streams and events: pools, priorities, what is current, and the order of work.
#include "error_text.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace facula::testing {
namespace {

using ::testing::HasSubstr;

// A kernel that takes its time and then writes, so that a missing wait shows.
const cuda::Kernel& slow_kernel() {
  static auto* kernel = new cuda::Kernel(R"(
extern "C" __global__ void slow(long long* data, long long value, long long turns) {
  volatile long long sum = 0;
  for (long long i = 0; i < turns; ++i) sum = sum + i;
  data[threadIdx.x] = data[threadIdx.x] * 3 + value + (sum < 0 ? 1 : 0);
}
)",
                                         "slow");
  return *kernel;
}

void run_slow(const Tensor& data, int64_t value) {
  slow_kernel().launch({1}, {static_cast<uint32_t>(data.numel())}, 0, data, value, int64_t{20000});
}

Tensor zeros_on(int device, int64_t count) {
  Tensor made = empty({count}, TensorOptions(kLong).device(Device(kCUDA, static_cast<DeviceIndex>(device))));
  StorageImpl* storages[] = {made.storage().impl()};
  gpu::fill_bytes(made.data_ptr(), 0, made.nbytes(), {"zero_", device, storages});
  return made;
}

std::vector<int64_t> values_of(const Tensor& t) {
  std::vector<int64_t> values(static_cast<size_t>(t.numel()));
  StorageImpl* storages[] = {t.storage().impl()};
  gpu::copy_to_host(values.data(), t.data_ptr(), t.nbytes(), true,
                    {"test", static_cast<int>(t.device().index()), storages});
  return values;
}

TEST(GpuStream, PoolsGoRound) {
  std::set<int64_t> ids;
  std::set<void*> handles;
  for (int i = 0; i < 32; ++i) {
    const cuda::CUDAStream s = cuda::getStreamFromPool();
    ids.insert(s.id());
    handles.insert(s.stream().get());
    EXPECT_NE(s.id(), 0);
    EXPECT_EQ(s.device(), Device("cuda:0"));
  }
  EXPECT_EQ(ids.size(), 32u);
  EXPECT_EQ(handles.size(), 32u);
  EXPECT_TRUE(ids.contains(cuda::getStreamFromPool().id()));
  EXPECT_FALSE(ids.contains(cuda::getStreamFromPool(true).id()));
}

TEST(GpuStream, HasPriorities) {
  const auto range = cuda::CUDAStream::priority_range();
  EXPECT_LE(range.greatest, range.least);
  EXPECT_EQ(cuda::getStreamFromPool(false).priority(), 0);
  EXPECT_EQ(cuda::getStreamFromPool(true).priority(), std::max(-1, range.greatest));
  EXPECT_EQ(cuda::getStreamFromPool(-100).priority(), std::max(-3, range.greatest));
  EXPECT_THAT(error_of<ValueError>([] { cuda::getStreamFromPool(1); }), HasSubstr("got 1"));
}

TEST(GpuStream, IdsAndHandlesFindStreamsAgain) {
  const cuda::CUDAStream s = cuda::getStreamFromPool(true);
  EXPECT_EQ(cuda::getStreamFromId(s.id(), 0), s);
  EXPECT_EQ(cuda::getStreamFromId(0, 0), cuda::getDefaultCUDAStream(0));
  const cuda::CUDAStream outside = cuda::getStreamFromExternal(s.stream().get(), 0);
  EXPECT_EQ(outside, s);
  EXPECT_EQ(cuda::getStreamFromId(outside.id(), 0), s);
  EXPECT_THAT(error_of<ValueError>([] { cuda::getStreamFromId((int64_t{77} << 5) | 3, 0); }),
              HasSubstr("no stream has the id"));
  std::ostringstream text;
  text << s;
  EXPECT_EQ(text.str(), str("stream ", s.id(), " on device cuda:0"));
}

TEST(GpuStream, CurrentOneBelongsToTheThread) {
  EXPECT_EQ(cuda::getCurrentCUDAStream(), cuda::getDefaultCUDAStream());
  const cuda::CUDAStream s = cuda::getStreamFromPool();
  {
    cuda::CUDAStreamGuard guard(s);
    EXPECT_EQ(cuda::getCurrentCUDAStream(), s);
    std::thread([] { EXPECT_EQ(cuda::getCurrentCUDAStream(), cuda::getDefaultCUDAStream()); }).join();
    const cuda::CUDAStream t = cuda::getStreamFromPool();
    guard.reset_stream(t);
    EXPECT_EQ(cuda::getCurrentCUDAStream(), t);
    EXPECT_EQ(guard.original_stream(), cuda::getDefaultCUDAStream());
  }
  EXPECT_EQ(cuda::getCurrentCUDAStream(), cuda::getDefaultCUDAStream());
  cuda::setCurrentCUDAStream(s);
  EXPECT_EQ(cuda::getCurrentCUDAStream(), s);
  cuda::setCurrentCUDAStream(cuda::getDefaultCUDAStream());
  cuda::OptionalCUDAStreamGuard maybe;
  EXPECT_FALSE(maybe.current_stream());
  maybe.reset_stream(s);
  EXPECT_EQ(cuda::getCurrentCUDAStream(), s);
  maybe.reset();
  EXPECT_EQ(cuda::getCurrentCUDAStream(), cuda::getDefaultCUDAStream());
}

TEST(GpuStream, GuardsOfSeveralDevices) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "one device";
  const cuda::CUDAStream a = cuda::getStreamFromPool(false, 0), b = cuda::getStreamFromPool(false, 1);
  {
    cuda::CUDAMultiStreamGuard guard({a, b});
    EXPECT_EQ(cuda::getCurrentCUDAStream(0), a);
    EXPECT_EQ(cuda::getCurrentCUDAStream(1), b);
    EXPECT_EQ(cuda::current_device(), 0);
    cuda::CUDAStreamGuard inner(cuda::getDefaultCUDAStream(1));
    EXPECT_EQ(cuda::current_device(), 1);
    inner.reset_stream(cuda::getDefaultCUDAStream(0));
    EXPECT_EQ(cuda::current_device(), 0);
    EXPECT_EQ(cuda::getCurrentCUDAStream(1), b);
  }
  EXPECT_EQ(cuda::getCurrentCUDAStream(0), cuda::getDefaultCUDAStream(0));
  EXPECT_EQ(cuda::getCurrentCUDAStream(1), cuda::getDefaultCUDAStream(1));
}

TEST(GpuStream, WaitsForOthersInOrder) {
  const cuda::CUDAStream a = cuda::getStreamFromPool(), b = cuda::getStreamFromPool();
  const Tensor data = zeros_on(0, 8);
  a.wait_stream(cuda::getDefaultCUDAStream());
  int64_t expected = 0;
  for (int round = 0; round < 6; ++round) {
    const cuda::CUDAStream& mine = round % 2 ? a : b;
    const cuda::CUDAStream& before = round % 2 ? b : a;
    if (round) {
      cuda::CUDAEvent mark;
      mark.record(before);
      mark.block(mine);
    } else {
      mine.wait_stream(before);
    }
    cuda::CUDAStreamGuard guard(mine);
    run_slow(data, round);
    expected = expected * 3 + round;
  }
  cuda::synchronize();
  EXPECT_EQ(values_of(data), std::vector<int64_t>(8, expected));
  EXPECT_TRUE(a.query());
  EXPECT_TRUE(b.query());
}

TEST(GpuStream, MemoryOutlivesOtherStreams) {
  // A tensor is made on the default stream, used on another and dropped: the default stream must not get its memory early.
  const cuda::CUDAStream side = cuda::getStreamFromPool();
  const Tensor result = zeros_on(0, 64);
  cuda::synchronize();
  for (int i = 0; i < 10; ++i) {
    {
      Tensor used = zeros_on(0, 64);
      side.wait_stream(cuda::getDefaultCUDAStream());
      cuda::CUDAStreamGuard guard(side);
      run_slow(used, i + 1);
      StorageImpl* storages[] = {result.storage().impl(), used.storage().impl()};
      gpu::copy_on_device(result.data_ptr(), used.data_ptr(), used.nbytes(), {"test", 0, storages});
    }
    const Tensor next = zeros_on(0, 64);  // writes zeros over the memory if it came back too soon
    side.synchronize();
    EXPECT_EQ(values_of(result), std::vector<int64_t>(64, i + 1));
  }
}

TEST(GpuStream, RecordStreamKeepsMemory) {
  const cuda::CUDAStream side = cuda::getStreamFromPool();
  Tensor used = zeros_on(0, 16);
  cuda::record_stream(used, side);
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::record_stream(ones({2}), side); }), HasSubstr("one on cpu"));
  cuda::synchronize();
}

TEST(GpuEvent, TellsTheTime) {
  cuda::CUDAEvent start(cuda::kEventDefault), end(cuda::kEventDefault);
  EXPECT_FALSE(start.isCreated());
  EXPECT_TRUE(start.query());
  EXPECT_THAT(error_of<ValueError>([&] { start.elapsed_time(end); }), HasSubstr("must be recorded"));
  const Tensor data = zeros_on(0, 4);
  start.record();
  run_slow(data, 1);
  end.record();
  end.synchronize();
  EXPECT_TRUE(end.query());
  EXPECT_GE(start.elapsed_time(end), 0.0f);
  EXPECT_EQ(start.device(), Device("cuda:0"));
  cuda::CUDAEvent plain;
  plain.record();
  plain.synchronize();
  EXPECT_THAT(error_of<ValueError>([&] { start.elapsed_time(plain); }), HasSubstr("timing"));
  cuda::CUDAEvent moved(std::move(plain));
  EXPECT_TRUE(moved.query());
  EXPECT_FALSE(plain.isCreated());
}

TEST(GpuEvent, BelongsToADevice) {
  if (cuda::device_count() < 2) GTEST_SKIP() << "one device";
  cuda::CUDAEvent event;
  event.record(cuda::getDefaultCUDAStream(0));
  EXPECT_THAT(error_of<DeviceError>([&] { event.record(cuda::getDefaultCUDAStream(1)); }),
              HasSubstr("belongs to cuda:0"));
  event.block(cuda::getDefaultCUDAStream(1));  // others may wait for it
  cuda::synchronize(1);
}

TEST(GpuStream, ThreadsAreIndependent) {
  std::vector<std::thread> threads;
  std::vector<int64_t> found(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const cuda::CUDAStream mine = cuda::getStreamFromPool(false, static_cast<DeviceIndex>(t % cuda::device_count()));
      cuda::CUDAStreamGuard guard(mine);
      const Tensor data = zeros_on(mine.device_index(), 2);
      for (int i = 0; i < 5; ++i) run_slow(data, t);
      found[static_cast<size_t>(t)] = values_of(data)[0];
    });
  for (std::thread& t : threads) t.join();
  for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(found[static_cast<size_t>(t)], t * 121);
}

}  // namespace
}  // namespace facula::testing
