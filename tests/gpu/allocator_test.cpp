// The caching allocator on a device: the software GPU, or a real one. What needs a driver that can be held still is tested in
// allocator_unit.cpp.
#include "gpu/memory/allocator.h"
#include "cpp/child.h"
#include "error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>

namespace facula::gpu {
namespace {

using facula::testing::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMegabyte = size_t{1} << 20;

// Holds a stream back until it is let go.
class Barrier {
 public:
  explicit Barrier(const StreamRef& stream) {
    enter(stream.device);
    check(need_driver("test").add_callback(stream.handle, &Barrier::wait, this), "test");
  }
  ~Barrier() {
    open();
    std::unique_lock lock(mutex_);
    passed_.wait(lock, [&] { return done_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  static void wait(void* self) {
    auto* one = static_cast<Barrier*>(self);
    std::unique_lock lock(one->mutex_);
    one->opened_.wait(lock, [&] { return one->open_; });
    one->done_ = true;
    one->passed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable opened_, passed_;
  bool open_ = false, done_ = false;
};

class GpuAllocator : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    synchronize_device(0);
    empty_cache();
    enter(0);           // tests call the driver themselves, and the cache was emptied on every device
    set_caching(true);  // where the environment has turned it off for all other tests
    set_allocator_settings(GetParam());
    before_ = stats(0);
  }
  void TearDown() override {
    set_current_stream(default_stream(0));
    synchronize_device(0);
    set_memory_fraction(0, 1);
    empty_cache();
    const AllocatorStats after = stats(0);
    EXPECT_EQ(after.allocated_bytes[kAllPools].current, before_.allocated_bytes[kAllPools].current);
    EXPECT_EQ(after.active[kAllPools].current, before_.active[kAllPools].current);
    set_allocator_settings("");
    set_caching(caching_);
  }
  int64_t allocated() const {
    return stats(0).allocated_bytes[kAllPools].current - before_.allocated_bytes[kAllPools].current;
  }

  const bool caching_ = caching();
  AllocatorStats before_;
};

// Fills blocks that lie across pieces of a growing segment, and reads them back.
TEST_P(GpuAllocator, MemoryHoldsWhatIsWritten) {
  Driver& driver = need_driver("test");
  std::vector<std::pair<Allocation, size_t>> blocks;
  for (size_t bytes : {size_t{700}, 3 * kMegabyte, 30 * kMegabyte, kMegabyte - 512, 17 * kMegabyte}) {
    blocks.emplace_back(allocate(0, bytes, "test"), bytes);
    const auto value = static_cast<uint32_t>(blocks.size());
    check(driver.fill(blocks.back().first.data, value, 1, bytes, nullptr), "test");
  }
  EXPECT_EQ(allocated(), static_cast<int64_t>(51 * kMegabyte - 512 + 1024));
  free(blocks[1].first.block);
  empty_cache();  // takes only what is free
  enter(0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto& [block, bytes] = blocks[i];
    if (i == 1) continue;
    std::vector<uint8_t> read(bytes, 0);
    check(driver.copy(read.data(), block.data, bytes, CopyKind::DeviceToHost, nullptr), "test");
    synchronize(default_stream(0), "test");
    EXPECT_EQ(read.front(), i + 1);
    EXPECT_EQ(read[bytes / 2], i + 1);
    EXPECT_EQ(read.back(), i + 1);
    free(block.block);
  }
}

TEST_P(GpuAllocator, EmptyCacheGivesMemoryBackToTheDriver) {
  Driver& driver = need_driver("test");
  size_t free_before = 0, free_held = 0, free_after = 0, total = 0;
  check(driver.memory_info(free_before, total), "test");
  const Allocation one = allocate(0, 100 * kMegabyte, "test");
  free(one.block);
  check(driver.memory_info(free_held, total), "test");
  EXPECT_LE(free_held + 90 * kMegabyte, free_before);
  empty_cache();
  enter(0);
  check(driver.memory_info(free_after, total), "test");
  EXPECT_GE(free_after + 10 * kMegabyte, free_before);
}

TEST_P(GpuAllocator, ABlockIsReusedAtOnceOnItsStreamOnly) {
  const Allocation one = allocate(0, 5000, "test");
  free(one.block);
  const Allocation again = allocate(0, 5000, "test");
  EXPECT_EQ(again.data, one.data);
  free(again.block);
  set_current_stream(stream_from_pool(0, 0));
  const Allocation other = allocate(0, 5000, "test");
  EXPECT_NE(other.data, one.data);
  EXPECT_EQ(stream_of(other.block), current_stream(0).handle);
  free(other.block);
}

TEST_P(GpuAllocator, ARecordedStreamIsWaitedFor) {
  const StreamRef side = stream_from_pool(0, 0);
  const Allocation one = allocate(0, 5000, "test");
  record_stream(one.block, side);
  Barrier barrier(side);
  free(one.block);
  EXPECT_EQ(allocated(), 0);
  for (int i = 0; i < 20; ++i) {
    const Allocation other = allocate(0, 5000, "test");
    EXPECT_NE(other.data, one.data);
    free(other.block);
  }
  barrier.open();
  synchronize(side, "test");
  // The next one that finds nothing asks again.
  const Allocation large = allocate(0, 64 * kMegabyte, "test");
  EXPECT_EQ(stats(0).active[kAllPools].current, before_.active[kAllPools].current + 1);
  free(large.block);
}

TEST_P(GpuAllocator, OutOfMemoryTellsAndEverythingWorksAfterwards) {
  const double megabytes = static_cast<double>(properties(0).total_memory) / static_cast<double>(kMegabyte);
  const int64_t held_already = stats(0).reserved_bytes[kAllPools].current;
  set_memory_fraction(0, (200 + static_cast<double>(held_already) / static_cast<double>(kMegabyte)) / megabytes);
  const Allocation held = allocate(0, 100 * kMegabyte, "conv2d");
  EXPECT_THAT(
      error_of<OutOfMemoryError>([] { allocate(0, 150 * kMegabyte, "matmul"); }),
      AllOf(StartsWith("matmul: out of memory on cuda:0. 150.00 MiB were asked for"), HasSubstr("it may reserve"),
            HasSubstr("100.00 MiB in 1 block of conv2d"), HasSubstr("fragmentation"), HasSubstr("What helps: ")));
  const Allocation fits = allocate(0, 60 * kMegabyte, "matmul");
  free(fits.block);
  const Allocation another = allocate(0, 80 * kMegabyte, "matmul");  // takes the place of what was cached
  free(another.block);
  free(held.block);
  EXPECT_THROW(allocate(0, size_t{1} << 45, "matmul"), OutOfMemoryError);
}

TEST_P(GpuAllocator, PoolsAreKeptUntilTheyAreReleased) {
  const StreamRef stream = stream_from_pool(0, 0);
  set_current_stream(stream);
  const PoolId pool = new_pool_id();
  begin_pool(0, pool, &stream);
  const Allocation inside = allocate(0, 30 * kMegabyte, "test");
  end_pool(0, pool);
  free(inside.block);
  const Allocation outside = allocate(0, 30 * kMegabyte, "test");
  EXPECT_NE(outside.data, inside.data);
  free(outside.block);
  empty_cache();
  const int64_t kept = stats(0).reserved_bytes[kAllPools].current;
  release_pool(0, pool);
  empty_cache();
  EXPECT_LE(stats(0).reserved_bytes[kAllPools].current, kept - static_cast<int64_t>(30 * kMegabyte));
}

TEST_P(GpuAllocator, WithoutCachingTheDriverIsAsked) {
  const int64_t calls = stats(0).num_device_alloc;
  set_caching(false);
  for (int i = 0; i < 3; ++i) free(allocate(0, 5000, "test").block);
  set_caching(true);
  EXPECT_EQ(stats(0).num_device_alloc, calls + 3);
}

TEST_P(GpuAllocator, HistoryAndSnapshotsKnowTheOp) {
  record_history({true, false, 100});
  const Allocation one = allocate(0, 7777, "an_op_of_this_test");
  const std::string json = snapshot_json(), page = snapshot_html();
  record_history({false, false, 0});
  free(one.block);
  EXPECT_THAT(json,
              AllOf(HasSubstr("\"requested_size\":7777,\"state\":\"active_allocated\",\"op\":\"an_op_of_this_test\""),
                    HasSubstr("\"action\":\"alloc\"")));
  EXPECT_THAT(page, AllOf(StartsWith("<!doctype html>"), HasSubstr("an_op_of_this_test")));
  EXPECT_THAT(summary(0, false), HasSubstr("| Allocated memory"));
}

TEST_P(GpuAllocator, PinnedMemoryWaitsForItsCopies) {
  const StreamRef side = stream_from_pool(0, 0);
  auto* data = static_cast<char*>(allocate_pinned(10000, "test"));
  EXPECT_TRUE(is_pinned(data + 9999));
  std::fill_n(data, 10000, char{5});
  const Allocation target = allocate(0, 10000, "test");
  {
    Barrier barrier(side);
    check(need_driver("test").copy(target.data, data, 10000, CopyKind::HostToDevice, side.handle), "test");
    record_pinned_use(data, side);
    free_pinned(data);
    EXPECT_FALSE(is_pinned(data));
    void* other = allocate_pinned(10000, "test");
    EXPECT_NE(other, data);
    free_pinned(other);
  }
  synchronize(side, "test");
  std::vector<char> read(10000, 0);
  check(need_driver("test").copy(read.data(), target.data, 10000, CopyKind::DeviceToHost, nullptr), "test");
  synchronize(default_stream(0), "test");
  EXPECT_EQ(read, std::vector<char>(10000, 5));
  free(target.block);
  const int64_t reserved = pinned_stats().reserved_bytes.current;
  EXPECT_GE(reserved, 2 * 16384);
  empty_pinned_cache();
  EXPECT_LE(pinned_stats().reserved_bytes.current, reserved - 2 * 16384);
}

// What the environment says is read once, so it is tried in processes of their own.
TEST(GpuAllocatorChild, DISABLED_TellsWhetherMemoryIsKept) {
  for (int i = 0; i < 3; ++i) free(allocate(0, 5 * kMegabyte, "test").block);
  std::printf("caching %d, %d calls, %d bytes reserved\n", caching() ? 1 : 0,
              static_cast<int>(stats(0).num_device_alloc),
              static_cast<int>(stats(0).reserved_bytes[kAllPools].current));
}

TEST(GpuAllocatorSettings, CachingIsTurnedOffByEitherName) {
  const auto child = [](const std::string& environment) {
    return facula::testing::run_in_child(
               "GpuAllocatorChild.DISABLED_TellsWhetherMemoryIsKept",
               "-u FACULA_NO_CUDA_MEMORY_CACHING -u PYTORCH_NO_CUDA_MEMORY_CACHING " + environment)
        .output;
  };
  EXPECT_THAT(child("A=1"), HasSubstr("caching 1, 1 calls"));
  EXPECT_THAT(child("FACULA_NO_CUDA_MEMORY_CACHING=1"), HasSubstr("caching 0, 3 calls, 0 bytes reserved"));
  EXPECT_THAT(child("PYTORCH_NO_CUDA_MEMORY_CACHING=1"), HasSubstr("caching 0, 3 calls, 0 bytes reserved"));
  // Ours goes before the other.
  EXPECT_THAT(child("FACULA_NO_CUDA_MEMORY_CACHING=0 PYTORCH_NO_CUDA_MEMORY_CACHING=1"),
              HasSubstr("caching 1, 1 calls"));
}

INSTANTIATE_TEST_SUITE_P(Segments, GpuAllocator,
                         ::testing::Values("expandable_segments:True", "expandable_segments:False"),
                         [](const auto& one) { return one.index == 0 ? "Growing" : "Whole"; });

}  // namespace
}  // namespace facula::gpu
