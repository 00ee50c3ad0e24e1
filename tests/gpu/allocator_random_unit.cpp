// Random use of the caching allocator, compared with a plain model of it, and use by many threads at once.
#include <gtest/gtest.h>

#include "fake_heap.h"

#include <cmath>
#include <cstring>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace facula::gpu {
namespace {

using fake::fake_driver;
using fake::set_fake_stream;
using fake::validate;

class AllocatorRandomTest : public fake::HeapTest, public ::testing::WithParamInterface<const char*> {};

// What the model knows of memory that was handed out, or given back while somebody may still work on it.
struct Range {
  char* data;
  size_t size;
  Block* block;
  uint8_t mark;
  // Until these streams have come this far, only `owner` may have the memory.
  StreamHandle owner;
  std::map<StreamHandle, uint64_t> busy_until;
};

class Player {
 public:
  explicit Player(uint64_t seed) : random_(seed) {}

  void play(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      const unsigned dice = random_() % 100;
      if (dice < 42) {
        allocate_one();
      } else if (dice < 76) {
        free_one();
      } else if (dice < 84) {
        use_on_other_stream();
      } else if (dice < 90) {
        fake_driver().finish(stream(random_() % 3));
      } else if (dice < 91) {
        empty_cache();
      } else if (dice < 93) {
        fake_driver().fail_memory_in = static_cast<int64_t>(random_() % 3);
      } else if (dice < 94) {
        set_memory_fraction(0, 0.2 + 0.8 * static_cast<double>(random_() % 100) / 100);
      } else if (dice < 95) {
        set_caching(random_() % 4 != 0);
      } else if (dice < 97) {
        change_pool();
      }
      if (step % 16 == 0) compare();
    }
    finish();
  }

 private:
  static StreamHandle stream(size_t index) { return reinterpret_cast<void*>(index * 0x10); }

  size_t random_size() {
    const double exponent = 1 + 26.5 * std::pow(static_cast<double>(random_() % 1000) / 1000, 0.7);
    return static_cast<size_t>(std::exp2(exponent)) + random_() % 3;
  }

  void allocate_one() {
    const StreamHandle on = stream(random_() % 3);
    const size_t size = random_size();
    set_fake_stream(0, on);
    Allocation got;
    const bool may_fail = fake_driver().fail_memory_in >= 0;
    try {
      got = allocate(0, size, "random");
    } catch (const OutOfMemoryError&) {
      if (!may_fail) check_exhausted(size);
      return;
    }
    char* data = static_cast<char*>(got.data);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(data) % kMinBlock, 0u);
    for (const Range& live : live_)
      ASSERT_TRUE(data >= live.data + live.size || data + size <= live.data) << "an overlap";
    std::erase_if(given_back_, [&](const Range& old) {
      if (data >= old.data + old.size || data + size <= old.data) return false;
      for (const auto& [who, ticket] : old.busy_until)
        EXPECT_TRUE((who == on && old.owner == on) || fake_driver().reached(who, ticket)) << "given away while in use";
      return true;
    });
    ASSERT_FALSE(::testing::Test::HasFailure());
    fake_driver().enqueue(on);
    live_.push_back({data, size, got.block, static_cast<uint8_t>(random_()), on, {}});
    live_bytes_ += size;
    data[0] = data[size - 1] = static_cast<char>(live_.back().mark);
  }

  // Out of memory is said only when all that could go back has gone back, and the rest does not suffice.
  void check_exhausted(size_t size) {
    DeviceHeap& heap = device_heap(0, "test");
    std::lock_guard lock(heap.mutex);
    for (const Segment* segment : heap.segments)
      for (const Block* block = segment->first; block; block = block->after) ASSERT_FALSE(heap.releasable(block));
    ASSERT_EQ(heap.pending, 0u);
    const size_t reserved = static_cast<size_t>(heap.counts.reserved_bytes[kAllPools].current);
    const size_t wanted = size <= kSmallLimit ? kSmallSegment : round_up(size, kLargeSegment) + kLargeSegment;
    ASSERT_GT(reserved + wanted, heap.limit);
  }

  void free_at(size_t index) {
    Range range = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    live_bytes_ -= range.size;
    if (range.size > 1) {
      ASSERT_EQ(static_cast<uint8_t>(range.data[0]), range.mark);
    }
    ASSERT_EQ(static_cast<uint8_t>(range.data[range.size - 1]), range.mark);
    fake_driver().enqueue(range.owner);
    range.busy_until[range.owner] = fake_driver().ticket(range.owner);
    for (auto& [who, ticket] : range.busy_until) ticket = fake_driver().ticket(who);
    free(range.block);
    given_back_.push_back(range);
    if (given_back_.size() > 2000) given_back_.erase(given_back_.begin(), given_back_.begin() + 1000);
  }
  void free_one() {
    if (!live_.empty()) free_at(random_() % live_.size());
  }

  void use_on_other_stream() {
    if (live_.empty()) return;
    Range& range = live_[random_() % live_.size()];
    const StreamHandle on = stream(random_() % 3);
    fake_driver().enqueue(on);
    record_stream(range.block, {0, 0, on});
    range.busy_until[on] = 0;  // until it is given back, whatever is queued there then
  }

  void change_pool() {
    if (!scopes_.empty()) {
      end_pool(0, scopes_.back());
      if (random_() % 2) {
        release_pool(0, scopes_.back());
      } else {
        kept_.push_back(scopes_.back());
      }
      scopes_.pop_back();
    } else if (!kept_.empty() && random_() % 2) {
      release_pool(0, kept_.back());
      kept_.pop_back();
    } else {
      scopes_.push_back(new_pool_id());
      const StreamRef only{0, 0, stream(1)};
      begin_pool(0, scopes_.back(), random_() % 2 ? &only : nullptr);
    }
  }

  void compare() {
    validate();
    const AllocatorStats now = stats(0);
    ASSERT_EQ(now.allocation[kAllPools].current, static_cast<int64_t>(live_.size()));
    ASSERT_GE(now.requested_bytes[kAllPools].current, static_cast<int64_t>(live_bytes_));
    ASSERT_GE(now.reserved_bytes[kAllPools].current, now.active_bytes[kAllPools].current);
    ASSERT_EQ(fake_driver().misuse, 0);
  }

  void finish() {
    fake_driver().fail_memory_in = -1;
    set_caching(true);
    while (!live_.empty()) free_at(live_.size() - 1);
    while (!scopes_.empty()) {
      end_pool(0, scopes_.back());
      release_pool(0, scopes_.back());
      scopes_.pop_back();
    }
    while (!kept_.empty()) {
      release_pool(0, kept_.back());
      kept_.pop_back();
    }
    fake_driver().finish_all();
    empty_cache();
    compare();
    ASSERT_EQ(stats(0).reserved_bytes[kAllPools].current, 0);
    ASSERT_EQ(stats(0).active[kAllPools].current, 0);
    ASSERT_EQ(fake_driver().live_allocations, 0);
    set_memory_fraction(0, 1);
  }

  std::mt19937_64 random_;
  std::vector<Range> live_, given_back_;
  size_t live_bytes_ = 0;
  std::vector<PoolId> scopes_, kept_;
};

TEST_P(AllocatorRandomTest, AgreesWithAModel) {
  const char* text = std::getenv("FACULA_SEED");
  const uint64_t first = text ? std::strtoull(text, nullptr, 10) : 1;
  set_allocator_settings(GetParam());
  for (uint64_t seed = first * 1000; seed < first * 1000 + 12; ++seed) {
    SCOPED_TRACE(str("seed ", seed, ", settings \"", GetParam(), "\""));
    Player(seed).play(1500);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, AllocatorRandomTest,
                         ::testing::Values("expandable_segments:True", "expandable_segments:False",
                                           "expandable_segments:False,max_split_size_mb:32",
                                           "expandable_segments:True,garbage_collection_threshold:0.3",
                                           "expandable_segments:False,garbage_collection_threshold:0.3",
                                           "expandable_segments:True,roundup_power2_divisions:4"));

// Reserved memory stays within the fraction whatever is asked for.
TEST_F(AllocatorRandomTest, NeverReservesMoreThanItsFraction) {
  for (const char* settings : {"expandable_segments:True", "expandable_segments:False"}) {
    set_allocator_settings(settings);
    set_memory_fraction(0, 0.3);
    const auto limit = static_cast<int64_t>(0.3 * double(size_t{1} << 30));
    std::mt19937 random(5);
    std::vector<Block*> live;
    for (int i = 0; i < 2000; ++i) {
      set_fake_stream(0, reinterpret_cast<void*>(size_t{random() % 4}));
      try {
        live.push_back(allocate(0, 1 + random() % (40 * kMiB), "test").block);
      } catch (const OutOfMemoryError&) {
        for (size_t n = live.size() / 2; n > 0; --n) {
          std::swap(live[random() % live.size()], live.back());
          free(live.back());
          live.pop_back();
        }
      }
      ASSERT_LE(stats(0).reserved_bytes[kAllPools].current, limit);
      ASSERT_LE(stats(0).reserved_bytes[kAllPools].peak, limit);
    }
    for (Block* block : live) free(block);
    empty_cache();
    reset_peak_stats(0);
  }
}

// Blocks wander between threads, which allocate, use and free them on streams of their own, while others look and clean
// up.
TEST_F(AllocatorRandomTest, ThreadsShareADevice) {
  constexpr int kThreads = 4, kSteps = 4000;
  fake_driver().finishes_at_once = true;
  record_history({true, true, 500});
  std::mutex mutex;
  std::vector<std::pair<Allocation, size_t>> market;
  std::atomic<int> failures{0}, running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      const auto own = reinterpret_cast<StreamHandle>(size_t{16} * static_cast<size_t>(t + 1));
      set_fake_stream(0, own);
      std::vector<std::pair<Allocation, size_t>> held;
      for (int i = 0; i < kSteps; ++i) {
        const size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 20000);
        const Allocation one = allocate(0, bytes, "thread");
        std::memset(one.data, t, std::min<size_t>(bytes, 64));
        held.emplace_back(one, bytes);
        if (random() % 2) {
          std::lock_guard lock(mutex);
          market.push_back(held.back());
          held.pop_back();
          if (market.size() > 20) {
            std::swap(market[random() % market.size()], market.back());
            held.push_back(market.back());
            market.pop_back();
          }
        }
        while (held.size() > random() % 10) {
          const auto [block, size] = held.back();
          held.pop_back();
          const char* data = static_cast<const char*>(block.data);
          for (size_t k = 1; k < std::min<size_t>(size, 64); ++k) failures += data[k] != data[0];
          fake_driver().enqueue(own, block.data, size);
          record_stream(block.block, {0, t + 1, own});
          free(block.block);
        }
      }
      for (const auto& [block, size] : held) free(block.block);
      --running;
    });
  }
  threads.emplace_back([&] {
    while (running > 0) {
      empty_cache();
      failures += stats(0).allocated_bytes[kAllPools].current < 0;
      failures += snapshot_json().empty();
      set_allocator_settings(running % 2 ? "expandable_segments:True" : "expandable_segments:False");
      free_pinned(allocate_pinned(5000, "test"));
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  for (const auto& [block, size] : market) free(block.block);
  record_history({false, false, 0});
  fake_driver().finishes_at_once = false;
  EXPECT_EQ(failures, 0);
  empty_cache();
}

}  // namespace
}  // namespace facula::gpu
