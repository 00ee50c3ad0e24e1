// The caching allocator over a pretended driver: what it gives, keeps and gives back, and what it does when calls fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_heap.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace facula::gpu {
namespace {

using fake::fake_driver;
using fake::kStreamA;
using fake::kStreamB;
using fake::set_fake_stream;
using fake::validate;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class AllocatorTest : public fake::HeapTest {};

TEST_F(AllocatorTest, SizesAreRoundedAndSegmentsAreOfTheUsualSizes) {
  set_allocator_settings("expandable_segments:False");
  const auto reserved_for = [](size_t bytes, int64_t rounded) {
    empty_cache();
    const Allocation one = allocate(0, bytes, "test");
    EXPECT_EQ(stats(0).allocated_bytes[kAllPools].current, rounded) << bytes;
    EXPECT_EQ(stats(0).requested_bytes[kAllPools].current, static_cast<int64_t>(bytes));
    const int64_t reserved = stats(0).reserved_bytes[kAllPools].current;
    free(one.block);
    return reserved / static_cast<int64_t>(kMiB);
  };
  EXPECT_EQ(reserved_for(1, 512), 2);
  EXPECT_EQ(reserved_for(513, 1024), 2);
  EXPECT_EQ(reserved_for(kMiB, kMiB), 2);
  EXPECT_EQ(reserved_for(kMiB + 1, kMiB + 512), 20);
  EXPECT_EQ(reserved_for(10 * kMiB, 10 * kMiB), 10);
  EXPECT_EQ(reserved_for(11 * kMiB, 12 * kMiB), 12);  // the rest is too small to be split off
}

TEST_F(AllocatorTest, NothingIsGivenForNothing) {
  const Allocation none = allocate(0, 0, "test");
  EXPECT_EQ(none.data, nullptr);
  EXPECT_EQ(none.block, nullptr);
  free(nullptr);
}

TEST_F(AllocatorTest, GrowingSegmentsMapPiecesAndOneBlockSpansThem) {
  const Allocation small = allocate(0, 100, "test");
  EXPECT_EQ(stats(0).reserved_bytes[kSmallPool].current, static_cast<int64_t>(2 * kMiB));
  const Allocation first = allocate(0, 15 * kMiB, "test");
  const Allocation second = allocate(0, 15 * kMiB, "test");
  EXPECT_EQ(static_cast<char*>(second.data) - static_cast<char*>(first.data), static_cast<ptrdiff_t>(15 * kMiB));
  EXPECT_EQ(stats(0).reserved_bytes[kLargePool].current, static_cast<int64_t>(40 * kMiB));
  EXPECT_EQ(stats(0).segment[kLargePool].current, 1);
  std::memset(second.data, 1, 15 * kMiB);
  free(first.block);
  free(second.block);
  const Allocation both = allocate(0, 60 * kMiB, "test");  // 40 were there, 20 are mapped behind them
  EXPECT_EQ(both.data, first.data);
  EXPECT_EQ(stats(0).reserved_bytes[kLargePool].current, static_cast<int64_t>(60 * kMiB));
  free(both.block);
  free(small.block);
  empty_cache();
  EXPECT_EQ(fake_driver().used(0), 0u);
}

TEST_F(AllocatorTest, PiecesBetweenLiveBlocksAreUnmappedAndMappedAgain) {
  std::vector<Allocation> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(allocate(0, 20 * kMiB, "test"));
  std::memset(blocks[4].data, 7, 20 * kMiB);
  free(blocks[1].block);
  free(blocks[2].block);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kLargePool].current, static_cast<int64_t>(60 * kMiB));
  validate();
  const Allocation again = allocate(0, 30 * kMiB, "test");  // fits into the hole
  EXPECT_EQ(again.data, blocks[1].data);
  validate();
  std::memset(again.data, 1, 30 * kMiB);
  const Allocation large = allocate(0, 45 * kMiB, "test");  // does not
  EXPECT_EQ(large.data, static_cast<char*>(blocks[4].data) + 20 * kMiB);
  EXPECT_EQ(static_cast<char*>(blocks[4].data)[12345], 7);
  for (const Allocation& one : {blocks[0], blocks[3], blocks[4], again, large}) free(one.block);
}

TEST_F(AllocatorTest, AFreedBlockIsReusedAtOnceOnItsStreamAndNotOnOthers) {
  const Allocation first = allocate(0, 4096, "test");
  free(first.block);
  const Allocation again = allocate(0, 4096, "test");
  EXPECT_EQ(again.data, first.data);
  free(again.block);
  set_fake_stream(0, kStreamA);
  const Allocation other = allocate(0, 4096, "test");
  EXPECT_NE(other.data, first.data);
  EXPECT_EQ(stream_of(other.block), kStreamA);
  EXPECT_EQ(device_of(other.block), 0);
  free(other.block);
}

TEST_F(AllocatorTest, TheBestFitIsTakenAndNeighboursMerge) {
  set_allocator_settings("expandable_segments:False");
  const Allocation a = allocate(0, 512, "a"), b = allocate(0, 8192, "b"), c = allocate(0, 512, "c");
  const Allocation d = allocate(0, 4096, "d"), e = allocate(0, 512, "e");
  free(b.block);
  free(d.block);
  const Allocation fit = allocate(0, 3000, "fit");  // the hole of d, not that of b
  EXPECT_EQ(fit.data, d.data);
  free(fit.block);
  free(c.block);  // b, c and d are one hole now
  const Allocation wide = allocate(0, 8192 + 512 + 4096, "wide");
  EXPECT_EQ(wide.data, b.data);
  free(wide.block);
  free(a.block);
  free(e.block);
  validate();
  EXPECT_EQ(stats(0).inactive_split_bytes[kAllPools].current, 0);
}

TEST_F(AllocatorTest, RecordedStreamsAreWaitedFor) {
  const Allocation one = allocate(0, 4096, "test");
  fake_driver().enqueue(kStreamA);
  record_stream(one.block, {0, 1, kStreamA});
  record_stream(one.block, {0, 1, kStreamA});
  record_stream(one.block, {0, 0, nullptr});  // its own
  free(one.block);
  EXPECT_EQ(stats(0).allocation[kAllPools].current, 0);
  EXPECT_EQ(stats(0).active[kAllPools].current, 1);
  for (int i = 0; i < 20; ++i) {
    const Allocation other = allocate(0, 4096, "test");
    EXPECT_NE(other.data, one.data);
    free(other.block);
  }
  fake_driver().finish(kStreamA);
  const Allocation large = allocate(0, 100 * kMiB, "test");  // looks at events, since nothing fits
  EXPECT_EQ(stats(0).active[kAllPools].current, 1);
  const Allocation again = allocate(0, 4096, "test");
  EXPECT_EQ(again.data, one.data);
  free(again.block);
  free(large.block);
}

TEST_F(AllocatorTest, AStreamOfAnotherDeviceIsWaitedForToo) {
  const Allocation one = allocate(0, 4096, "test");
  fake_driver().enqueue(kStreamB);
  record_stream(one.block, {1, 1, kStreamB});
  free(one.block);
  EXPECT_EQ(stats(0).active[kAllPools].current, 1);
  fake_driver().finish(kStreamB);
  empty_cache();
  EXPECT_EQ(stats(0).active[kAllPools].current, 0);
}

TEST_F(AllocatorTest, StatisticsCountPeaksAndTotals) {
  reset_peak_stats(0);
  reset_accumulated_stats(0);
  const Allocation a = allocate(0, 1000, "test"), b = allocate(0, 3 * kMiB, "test");
  free(a.block);
  const AllocatorStats now = stats(0);
  const auto large = static_cast<int64_t>(3 * kMiB);
  EXPECT_EQ(now.allocated_bytes[kAllPools].current, large);
  EXPECT_EQ(now.allocated_bytes[kAllPools].peak, large + 1024);
  EXPECT_EQ(now.allocated_bytes[kAllPools].allocated, large + 1024);
  EXPECT_EQ(now.allocated_bytes[kSmallPool].freed, 1024);
  EXPECT_EQ(now.allocation[kAllPools].peak, 2);
  EXPECT_EQ(now.requested_bytes[kSmallPool].peak, 1000);
  EXPECT_EQ(now.num_ooms, 0);
  EXPECT_EQ(now.max_split_size, -1);
  reset_peak_stats(0);
  EXPECT_EQ(stats(0).allocated_bytes[kAllPools].peak, large);
  reset_accumulated_stats(0);
  EXPECT_EQ(stats(0).allocated_bytes[kAllPools].allocated, 0);
  EXPECT_EQ(stats(0).allocated_bytes[kAllPools].current, large);
  free(b.block);

  EXPECT_THROW(stats(-1), DeviceError);
  EXPECT_THROW(stats(1000), DeviceError);
  EXPECT_EQ(stats(60).segment[kAllPools].current, 0);  // nothing was ever asked of it
}

TEST_F(AllocatorTest, TheSummaryIsATable) {
  const Allocation a = allocate(0, 1000, "test"), b = allocate(0, 30 * kMiB, "test");
  const std::string full = summary(0, false), brief = summary(0, true);
  EXPECT_THAT(full, HasSubstr("Allocated memory"));
  EXPECT_THAT(full, HasSubstr("from large pool"));
  EXPECT_THAT(full, HasSubstr("  30721 KiB |"));
  EXPECT_THAT(brief, Not(HasSubstr("from large pool")));
  // All lines are equally wide.
  const size_t width = full.find('\n');
  for (size_t start = 0; start < full.size(); start += width + 1) ASSERT_EQ(full[start + width], '\n') << full;
  free(a.block);
  free(b.block);
}

TEST_F(AllocatorTest, OutOfMemoryFreesCachesTriesAgainAndThenTellsEverything) {
  const Allocation keep = allocate(0, 300 * kMiB, "conv2d"), small = allocate(0, 512 * 1024, "bias");
  const Allocation cached = allocate(0, 500 * kMiB, "matmul");
  free(cached.block);
  set_fake_stream(0, kStreamA);
  const int64_t retries = stats(0).num_alloc_retries;
  const Allocation fits = allocate(0, 600 * kMiB, "matmul");  // only after the other stream's cache went back
  EXPECT_EQ(stats(0).num_alloc_retries, retries + 1);
  try {
    allocate(0, 400 * kMiB, "softmax");
    FAIL() << "there is no such memory";
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.rfind("softmax: out of memory on cuda:0. 400.00 MiB were asked for", 0), 0u) << text;
    EXPECT_THAT(text, HasSubstr("the device has 1.00 GiB, of which 122.00 MiB are free"));
    EXPECT_THAT(text, HasSubstr("900.50 MiB are allocated"));
    EXPECT_THAT(
        text,
        HasSubstr("\n  1. 600.00 MiB in 1 block of matmul\n  2. 300.00 MiB in 1 block of conv2d\n  3. 512.00 KiB"));
    EXPECT_THAT(text, HasSubstr("smaller batch"));
    EXPECT_THAT(text, HasSubstr("fragmentation"));
  }
  EXPECT_GE(stats(0).num_ooms, 1);
  const Allocation after = allocate(0, 100 * kMiB, "softmax");
  EXPECT_NE(after.data, nullptr);
  EXPECT_THROW(allocate(0, size_t{1} << 50, "huge"), OutOfMemoryError);
  EXPECT_THROW(allocate(0, SIZE_MAX, "huge"), OutOfMemoryError);
  for (const Allocation& one : {keep, small, fits, after}) free(one.block);
}

TEST_F(AllocatorTest, OutOfMemoryNamesTheFiveLargestHolders) {
  // Seven ops, with 10 to 70 MiB each in blocks of 10, not in the order of their sizes.
  const std::pair<const char*, int> kinds[] = {{"relu", 3}, {"matmul", 7}, {"bias", 1}, {"conv2d", 6},
                                               {"mean", 2}, {"gelu", 5},   {"cat", 4}};
  std::vector<Allocation> held;
  for (const auto& [op, blocks] : kinds)
    for (int i = 0; i < blocks; ++i) held.push_back(allocate(0, 10 * kMiB, op));
  std::string text;
  try {
    allocate(0, 900 * kMiB, "softmax");
  } catch (const OutOfMemoryError& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("\nLargest holders:"
                              "\n  1. 70.00 MiB in 7 blocks of matmul"
                              "\n  2. 60.00 MiB in 6 blocks of conv2d"
                              "\n  3. 50.00 MiB in 5 blocks of gelu"
                              "\n  4. 40.00 MiB in 4 blocks of cat"
                              "\n  5. 30.00 MiB in 3 blocks of relu"
                              "\nWhat helps: "));
  for (const Allocation& one : held) free(one.block);
}

TEST_F(AllocatorTest, OutOfMemoryWaitsForOtherStreams) {
  const Allocation one = allocate(0, 700 * kMiB, "test");
  fake_driver().enqueue(kStreamA);
  record_stream(one.block, {0, 1, kStreamA});
  free(one.block);
  const Allocation other = allocate(0, 700 * kMiB, "test");
  EXPECT_FALSE(fake_driver().busy(kStreamA));
  free(other.block);
}

TEST_F(AllocatorTest, ACallThatFailsOnceIsTriedAgain) {
  for (const char* settings : {"expandable_segments:True", "expandable_segments:False"}) {
    set_allocator_settings(settings);
    for (int when = 0; when < 4; ++when) {
      fake_driver().fail_memory_in = when;
      const Allocation one = allocate(0, 64 * kMiB, "test");
      std::memset(one.data, 1, 64 * kMiB);
      free(one.block);
      validate();
      fake_driver().fail_memory_in = -1;
      empty_cache();
    }
  }
}

TEST_F(AllocatorTest, AProcessKeepsToItsFraction) {
  set_memory_fraction(0, 0.25);
  EXPECT_EQ(memory_fraction(0), 0.25);
  const Allocation one = allocate(0, 200 * kMiB, "test");
  try {
    allocate(0, 100 * kMiB, "test");
    FAIL() << "more than the fraction";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("it may reserve 256.00 MiB, a fraction of 0.25"));
  }
  free(one.block);
  set_memory_fraction(0, 1);
  free(allocate(0, 300 * kMiB, "test").block);
  EXPECT_THROW(set_memory_fraction(0, 1.5), ValueError);
  EXPECT_THROW(set_memory_fraction(0, -0.1), ValueError);
}

TEST_F(AllocatorTest, WithoutCachingEveryBlockGoesBackAtOnce) {
  set_caching(false);
  EXPECT_FALSE(caching());
  const Allocation one = allocate(0, 5 * kMiB, "test");
  EXPECT_EQ(fake_driver().used(0), 5 * kMiB);
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, static_cast<int64_t>(5 * kMiB));
  set_caching(true);
  free(one.block);
  EXPECT_EQ(fake_driver().used(0), 0u);
  EXPECT_EQ(stats(0).segment[kAllPools].current, 0);
}

TEST_F(AllocatorTest, HugeBlocksAreNotCutUp) {
  set_allocator_settings("expandable_segments:False,max_split_size_mb:64");
  const Allocation huge = allocate(0, 200 * kMiB, "huge");
  EXPECT_EQ(stats(0).oversize_allocations.current, 1);
  EXPECT_EQ(stats(0).oversize_segments.current, 1);
  EXPECT_EQ(stats(0).max_split_size, static_cast<int64_t>(64 * kMiB));
  free(huge.block);
  const Allocation small = allocate(0, 20 * kMiB, "small");
  EXPECT_NE(small.data, huge.data);
  const Allocation less = allocate(0, 100 * kMiB, "less");  // would waste too much
  EXPECT_NE(less.data, huge.data);
  const Allocation close = allocate(0, 190 * kMiB, "close");
  EXPECT_EQ(close.data, huge.data);
  for (const Allocation& one : {small, less, close}) free(one.block);
}

TEST_F(AllocatorTest, GarbageIsCollectedOldestFirst) {
  for (const char* expandable : {"True", "False"}) {
    set_allocator_settings(str("garbage_collection_threshold:0.5,expandable_segments:", expandable));
    set_fake_stream(0, kStreamA);
    const Allocation old_one = allocate(0, 200 * kMiB, "old");
    set_fake_stream(0, kStreamB);
    const Allocation young = allocate(0, 200 * kMiB, "young");
    free(old_one.block);
    set_fake_stream(0, nullptr);
    free(allocate(0, 512, "tick").block);
    free(young.block);
    const Allocation more = allocate(0, 200 * kMiB, "more");
    EXPECT_EQ(stats(0).reserved_bytes[kLargePool].current, static_cast<int64_t>(400 * kMiB));
    EXPECT_EQ(stats(0).num_ooms, 0);
    set_fake_stream(0, kStreamB);
    EXPECT_EQ(allocate(0, 200 * kMiB, "young").data, young.data);  // still there
    free(young.block);
    free(more.block);
    set_fake_stream(0, nullptr);
    empty_cache();
  }
}

TEST_F(AllocatorTest, SizesAreRoundedToDivisionsOfPowersOfTwo) {
  const auto rounded = [](size_t bytes) {
    const Allocation one = allocate(0, bytes, "test");
    const int64_t size = stats(0).allocated_bytes[kAllPools].current;
    free(one.block);
    return static_cast<size_t>(size);
  };
  set_allocator_settings("roundup_power2_divisions:4");
  EXPECT_EQ(rounded(1200 * kMiB / 1024 * 1024 / 10), 128 * kMiB);  // 120 MiB: steps of 16 from 64
  EXPECT_EQ(rounded(65 * kMiB), 80 * kMiB);
  EXPECT_EQ(rounded(64 * kMiB), 64 * kMiB);
  EXPECT_EQ(rounded(1000), 1024u);
  set_allocator_settings("roundup_power2_divisions:[64:8,128:2,256:1,>:4]");
  EXPECT_EQ(rounded(65 * kMiB), 72 * kMiB);
  EXPECT_EQ(rounded(33 * kMiB), 36 * kMiB);  // smaller sizes as the first entry says
  EXPECT_EQ(rounded(130 * kMiB), 192 * kMiB);
  EXPECT_EQ(rounded(257 * kMiB), 257 * kMiB);
  EXPECT_EQ(rounded(520 * kMiB), 640 * kMiB);
}

TEST_F(AllocatorTest, SettingsThatAreNotKnownAreNamed) {
  const auto message = [](const char* text) -> std::string {
    try {
      set_allocator_settings(text);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message("max_split_size:3"), HasSubstr("\"max_split_size\" is not a setting"));
  EXPECT_THAT(message("max_split_size:3"), HasSubstr("garbage_collection_threshold"));
  EXPECT_THAT(message("max_split_size_mb:3"), HasSubstr("at least 20, got 3"));
  EXPECT_THAT(message("max_split_size_mb:many"), HasSubstr("must be a number, got \"many\""));
  EXPECT_THAT(message("expandable_segments:yes"), HasSubstr("True or False, got \"yes\""));
  EXPECT_THAT(message("expandable_segments"), HasSubstr("has no value"));
  EXPECT_THAT(message("garbage_collection_threshold:1.5"), HasSubstr("between 0 and 1, got 1.5"));
  EXPECT_THAT(message("roundup_power2_divisions:3"), HasSubstr("power of two"));
  EXPECT_THAT(message("roundup_power2_divisions:[64:8"), HasSubstr("has no end"));
  EXPECT_THAT(message("roundup_power2_divisions:[60:8]"), HasSubstr("powers of two in megabytes"));
  EXPECT_EQ(message(" expandable_segments : True , max_split_size_mb:128 ,"), "");
  EXPECT_EQ(message("backend:native"), "");
  EXPECT_EQ(message(""), "");
}

// Pools of graphs.

TEST_F(AllocatorTest, AGraphsPoolIsItsOwn) {
  const StreamRef stream{0, 1, kStreamA};
  const Allocation outside = allocate(0, 4096, "outside");
  free(outside.block);
  const PoolId pool = new_pool_id();
  set_fake_stream(0, kStreamA);
  free(allocate(0, 4096, "before").block);
  begin_pool(0, pool, &stream);
  fake_driver().capturing = true;
  active_captures = 1;
  const Allocation inside = allocate(0, 4096, "inside");
  free(inside.block);
  const Allocation again = allocate(0, 4096, "inside");
  EXPECT_EQ(again.data, inside.data);
  set_fake_stream(0, kStreamB);  // another stream, which is not captured
  const Allocation elsewhere = allocate(0, 4096, "elsewhere");
  free(elsewhere.block);
  EXPECT_THROW(allocate(0, size_t{2} << 30, "huge"), OutOfMemoryError);
  empty_cache();  // must not wait now
  fake_driver().capturing = false;
  active_captures = 0;
  end_pool(0, pool);

  set_fake_stream(0, kStreamA);
  free(again.block);
  const Allocation usual = allocate(0, 4096, "usual");
  EXPECT_NE(usual.data, inside.data);
  free(usual.block);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, static_cast<int64_t>(2 * kMiB));  // the graph needs it
  begin_pool(0, pool, &stream);                                                           // a second graph, same pool
  const Allocation shared = allocate(0, 4096, "shared");
  EXPECT_EQ(shared.data, inside.data);
  end_pool(0, pool);
  release_pool(0, pool);
  free(shared.block);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, static_cast<int64_t>(2 * kMiB));
  release_pool(0, pool);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, 0);
  EXPECT_THROW(release_pool(0, pool), ValueError);
  EXPECT_THROW(end_pool(0, pool), ValueError);
}

TEST_F(AllocatorTest, ALiveBlockOutlivesItsPool) {
  const PoolId pool = new_pool_id();
  begin_pool(0, pool, nullptr);
  const Allocation one = allocate(0, 30 * kMiB, "test");
  end_pool(0, pool);
  release_pool(0, pool);
  empty_cache();
  std::memset(one.data, 1, 30 * kMiB);
  free(one.block);
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, static_cast<int64_t>(40 * kMiB));
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, 0);
}

TEST_F(AllocatorTest, APoolThatIsNotCapturedWorksAsUsual) {
  const PoolId pool = new_pool_id();
  begin_pool(0, pool, nullptr);
  const Allocation one = allocate(0, 700 * kMiB, "test");
  std::thread([&] {
    const Allocation elsewhere = allocate(0, 4096, "test");  // of another thread
    free(elsewhere.block);
    EXPECT_EQ(stats(0).reserved_bytes[kSmallPool].current, static_cast<int64_t>(2 * kMiB));
  }).join();
  fake_driver().enqueue(kStreamA);
  record_stream(one.block, {0, 1, kStreamA});
  free(one.block);
  const Allocation again = allocate(0, 700 * kMiB, "test");  // waits for the other stream
  EXPECT_EQ(again.data, one.data);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kSmallPool].current, 0);
  free(again.block);
  end_pool(0, pool);
  release_pool(0, pool);
}

TEST_F(AllocatorTest, StreamsThatJoinACaptureUseItsPool) {
  const StreamRef stream{0, 1, kStreamA};
  fake::captured_stream = kStreamA;
  fake::joined_stream = kStreamB;
  fake::pretended_capture = 7;
  const PoolId pool = new_pool_id();
  begin_pool(0, pool, &stream);
  set_fake_stream(0, kStreamB);
  const Allocation one = allocate(0, 4096, "joined");
  end_pool(0, pool);
  fake::pretended_capture = 0;
  free(one.block);
  empty_cache();
  EXPECT_EQ(stats(0).reserved_bytes[kAllPools].current, static_cast<int64_t>(2 * kMiB));
  release_pool(0, pool);
}

TEST_F(AllocatorTest, EventsAreLeftAloneDuringACapture) {
  const Allocation before = allocate(0, 4096, "before"), during = allocate(0, 4096, "during");
  for (const Allocation& one : {before, during}) record_stream(one.block, {0, 1, kStreamA});
  fake_driver().enqueue(kStreamA);
  free(before.block);
  const StreamRef stream{0, 2, kStreamB};
  const PoolId pool = new_pool_id();
  begin_pool(0, pool, &stream);
  active_captures = 1;
  fake_driver().capturing = true;
  free(during.block);
  for (int i = 0; i < 100; ++i) free(allocate(0, 4096, "test").block);
  free(allocate(0, 50 * kMiB, "test").block);
  EXPECT_EQ(stats(0).active[kAllPools].current, 2);
  end_pool(0, pool);  // the capture itself ends a little later
  fake_driver().capturing = false;
  active_captures = 0;
  EXPECT_EQ(stats(0).active[kAllPools].current, 2);
  fake_driver().finish(kStreamA);
  free(allocate(0, 70 * kMiB, "test").block);
  EXPECT_EQ(stats(0).active[kAllPools].current, 0);
  release_pool(0, pool);
}

// Trouble.

TEST_F(AllocatorTest, AfterALossFreeingIsHarmlessAndAllocatingSaysSo) {
  for (const char* settings : {"expandable_segments:True", "expandable_segments:False"}) {
    set_allocator_settings(settings);
    const Allocation plain = allocate(0, 4096, "test"), used = allocate(0, 4096, "test"),
                     big = allocate(0, 100 * kMiB, "big");
    fake_driver().enqueue(kStreamA);
    record_stream(used.block, {0, 1, kStreamA});
    record_stream(plain.block, {0, 1, kStreamA});
    free(plain.block);
    fake_driver().lost = true;
    free(used.block);
    free(big.block);
    EXPECT_THROW(allocate(0, 200 * kMiB, "test"), DeviceError);
    EXPECT_NO_THROW(empty_cache());  // other devices may have something to give back
    fake_driver().lost = false;
    fake_driver().finish(kStreamA);
    empty_cache();
    EXPECT_EQ(fake_driver().used(0), 0u);
  }
}

TEST_F(AllocatorTest, AForkedProcessNeitherHangsNorCrashes) {
  const Allocation one = allocate(0, 4096, "test");
  void* pinned = allocate_pinned(100, "test");
  DeviceHeap& heap = device_heap(0, "test");
  heap.mutex.lock();  // as if by a thread that the child does not have
  fake::pretend_forked = true;
  free(one.block);
  free_pinned(pinned);
  record_stream(one.block, {0, 1, kStreamA});
  empty_cache();
  EXPECT_EQ(stats(0).allocation[kAllPools].current, 0);
  EXPECT_THAT(snapshot_json(), HasSubstr("\"segments\":[]"));
  EXPECT_THROW(allocate(0, 4096, "test"), DeviceError);
  fake::pretend_forked = false;
  heap.mutex.unlock();
  free(one.block);
  free_pinned(pinned);
}

struct FreesAtExit {
  Allocation held;
  ~FreesAtExit() { free(held.block); }
};

TEST_F(AllocatorTest, FreeingAtExitIsHarmless) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(
      {
        static FreesAtExit holder;
        set_caching(false);
        holder.held = allocate(0, 4096, "test");
        std::atexit([] { fake_driver().lost = true; });
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(AllocatorTest, MappedMemoryIsOpenedForPeers) {
  const Allocation before = allocate(1, 4096, "test");
  EXPECT_TRUE(allow_peer(1, 0));
  EXPECT_TRUE(allow_peer(1, 0));
  const Allocation after = allocate(1, 50 * kMiB, "test");
  EXPECT_EQ(device_heap(1, "test").peers.size(), 1u);
  free(before.block);
  free(after.block);
}

TEST_F(AllocatorTest, ThereMustBeSuchADevice) { EXPECT_THROW(allocate(5, 100, "test"), DeviceError); }

// History and snapshots.

std::string stack_of_test() { return "train.py:12 step\n/home/a b/model.py:7 forward\nno place </script>"; }

TEST_F(AllocatorTest, HistoryIsARingAndSnapshotsTellIt) {
  set_stack_source(stack_of_test);
  record_history({true, true, 6});
  const Allocation one = allocate(0, 1000, "tan\"h</script>");
  for (int i = 0; i < 3; ++i) free(allocate(0, 2000, "relu").block);
  const std::string json = snapshot_json();
  EXPECT_THAT(json, HasSubstr("\"device_traces\":[[{\"action\":\"free_requested\""));
  EXPECT_THAT(json, HasSubstr("\"action\":\"snapshot\""));
  EXPECT_THAT(json, HasSubstr("\"op\":\"tan\\u0022h\\u003c/script\\u003e\""));
  EXPECT_THAT(json, HasSubstr("\"stacks\":[[{\"filename\":\"train.py\",\"line\":12,\"name\":\"step\"},"
                              "{\"filename\":\"/home/a b/model.py\",\"line\":7,\"name\":\"forward\"},"
                              "{\"filename\":\"\",\"line\":0,\"name\":\"no place \\u003c/script\\u003e\"}]]"));
  EXPECT_THAT(json, HasSubstr("\"state\":\"active_allocated\""));
  EXPECT_THAT(json, Not(HasSubstr("</script")));
  EXPECT_THROW(allocate(0, size_t{5} << 30, "huge"), OutOfMemoryError);
  EXPECT_THAT(snapshot_json(), HasSubstr("\"action\":\"oom\",\"device_free\":"));
  try {
    allocate(0, size_t{5} << 30, "huge");
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("of tan\"h</script>, called at train.py:12 step\n"));
  }
  record_history({false, false, 0});
  set_stack_source(nullptr);
  EXPECT_THAT(snapshot_json(), HasSubstr("\"device_traces\":[[]"));
  free(one.block);
}

[[gnu::noinline]] Allocation asks_for_memory(size_t bytes) {
  const Allocation held = allocate(0, bytes, "relu");
  EXPECT_NE(held.data, nullptr);  // the call above is not the last thing here, so this function stays on the stack
  return held;
}

TEST_F(AllocatorTest, HistoryNamesFunctionsOfTheProgram) {
  // Names of functions that the program does not export are found by addr2line alone.
  const bool has_tool = std::system("command -v addr2line > /dev/null") == 0;
  const std::string expected = has_tool ? "asks_for_memory" : "facula_allocator_tests";
  record_history({});
  const Allocation one = asks_for_memory(3 << 20), two = asks_for_memory(3 << 20);
  const std::string json = snapshot_json();
  const size_t stacks = json.find("\"stacks\":[[{");
  ASSERT_NE(stacks, std::string::npos) << json;
  EXPECT_THAT(json.substr(stacks), HasSubstr(expected));
  EXPECT_THAT(json, HasSubstr("\"op\":\"relu\""));
  EXPECT_THAT(json.substr(0, stacks), ContainsRegex("\"stack\":[0-9]"));
  try {
    allocate(0, size_t{5} << 30, "huge");
    ADD_FAILURE() << "5 GiB were there";
  } catch (const OutOfMemoryError& error) {
    // The innermost function is the one that asked, not one of the allocator.
    EXPECT_THAT(error.what(), ContainsRegex("relu, called at [^\n]*" + expected + "[^\n]*\n       from "));
  }
  record_history({true, false, 100});
  const Allocation three = asks_for_memory(3 << 20);
  const std::string without = snapshot_json();
  const size_t traces = without.find("\"device_traces\":");
  EXPECT_THAT(without.substr(traces, without.find("\"allocator_settings\":") - traces),
              AllOf(HasSubstr("\"action\":\"alloc\""), Not(HasSubstr("\"stack\""))));
  record_history({false, false, 0});
  for (const Allocation& held : {one, two, three}) free(held.block);
}

TEST_F(AllocatorTest, TextsThatAreNoUtf8DoNotBreakASnapshot) {
  set_stack_source([] { return std::string("bad \xff\xc0\xaf \xe2\x82 end \xe2\x80\xa8 good \xc3\xa4\n\x01"); });
  record_history({});
  const Allocation one = allocate(0, 1000, "op");
  EXPECT_THAT(snapshot_json(), HasSubstr("bad \\ufffd\\ufffd\\ufffd \\ufffd\\ufffd end \\u2028 good \xc3\xa4"));
  record_history({false, false, 0});
  set_stack_source(nullptr);
  free(one.block);
}

}  // namespace
}  // namespace facula::gpu
