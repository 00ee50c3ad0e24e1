// parallel_for: every index once, chunks as promised, nesting, exceptions; and the thread count.
#include "cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <facula/core/error.h>

#include <sys/wait.h>
#include <unistd.h>

namespace facula {
namespace {

class ParallelTest : public testing::Test {
 protected:
  int before_ = get_num_threads();
  ~ParallelTest() override { set_num_threads(before_); }
};

TEST_F(ParallelTest, CoversEachIndexOnceInEvenChunks) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(get_num_threads(), threads);
    for (const int64_t count : {0, 1, 2, 7, 8, 100, 1001}) {
      for (const int64_t grain : {0, 1, 3, 50, 5000}) {
        std::vector<int> seen(static_cast<size_t>(count), 0);
        std::mutex mutex;
        std::vector<int64_t> lengths;
        parallel_for(5, 5 + count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i - 5)];
          std::lock_guard lock(mutex);
          lengths.push_back(end - begin);
        });
        EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1));
        if (count == 0) {
          EXPECT_TRUE(lengths.empty());
          continue;
        }
        const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
        EXPECT_LE(*most - *least, 1);
        EXPECT_TRUE(lengths.size() == 1 || *least >= grain);
        EXPECT_LE(lengths.size(), static_cast<size_t>(threads));
      }
    }
  }
}

TEST_F(ParallelTest, LargerTeamsWantMoreWork) {
  set_num_threads(1);
  EXPECT_FALSE(worth_a_team(1 << 30, 100));
  set_num_threads(2);
  EXPECT_FALSE(worth_a_team(100, 100));
  EXPECT_FALSE(worth_a_team(199, 100));
  EXPECT_TRUE(worth_a_team(200, 100));
  set_num_threads(16);
  EXPECT_FALSE(worth_a_team(200, 100));
  EXPECT_TRUE(worth_a_team(300, 100));
  set_num_threads(64);
  EXPECT_FALSE(worth_a_team(700, 100));
  EXPECT_TRUE(worth_a_team(800, 100));
  parallel_for(0, 64, 1, [](int64_t, int64_t) { EXPECT_FALSE(worth_a_team(1 << 30, 1)); });
}

TEST_F(ParallelTest, RowsAreSharedWhereTheyAreWorthIt) {
  set_num_threads(4);
  for (const int64_t entries : {1, 10, 1000}) {
    for (const int64_t rows : {0, 1, 3, 50, 777}) {
      std::vector<int> seen(static_cast<size_t>(rows), 0);
      std::atomic<int> calls{0};
      parallel_rows(rows, entries, 100, [&](int64_t begin, int64_t end) {
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        ++calls;
      });
      EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(rows), 1));
      const int64_t most = std::min<int64_t>(4, rows / std::max<int64_t>(1, 100 / entries));
      EXPECT_EQ(calls, rows == 0              ? 0
                       : rows * entries < 200 ? 1
                                              : std::max<int64_t>(1, most))
          << rows << " of " << entries;
    }
  }
}

TEST_F(ParallelTest, NestedRunsInline) {
  set_num_threads(4);
  std::atomic<int> total{0};
  EXPECT_FALSE(in_parallel_region());
  parallel_for(0, 4, 1, [&](int64_t begin, int64_t end) {
    EXPECT_TRUE(in_parallel_region());
    const auto self = std::this_thread::get_id();
    parallel_for(0, 100 * (end - begin), 1, [&](int64_t from, int64_t to) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      total += static_cast<int>(to - from);
    });
  });
  EXPECT_EQ(total, 400);
  EXPECT_FALSE(in_parallel_region());
}

TEST_F(ParallelTest, ThrowsWhatAChunkThrew) {
  set_num_threads(4);
  std::atomic<int> ended{0};
  const auto run = [&] {
    parallel_for(0, 4, 1, [&](int64_t begin, int64_t) {
      if (begin == 2) throw std::runtime_error("chunk 2");
      ++ended;
    });
  };
  for (int i = 0; i < 20; ++i) {
    ended = 0;
    EXPECT_THROW(run(), std::runtime_error);
    EXPECT_EQ(ended, 3);
    EXPECT_FALSE(in_parallel_region());
  }
}

TEST_F(ParallelTest, WritesAreSeenAfterwards) {
  set_num_threads(4);
  std::vector<int64_t> data(
      1000, 1);  // plain memory: the end of a region orders it, also in the eyes of the thread sanitizer
  for (int round = 0; round < 50; ++round) {
    parallel_for(0, 1000, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data[static_cast<size_t>(i)] += 1;
    });
    ++data[static_cast<size_t>(round)];
  }
  int64_t sum = 0;
  for (int64_t v : data) sum += v;
  EXPECT_EQ(sum, 1000 + 50 * 1000 + 50);
}

TEST_F(ParallelTest, RunsEachThreadNumber) {
  set_num_threads(3);
  std::vector<int> seen(3, 0);
  parallel_threads(3, [&](int t) { ++seen[static_cast<size_t>(t)]; });
  EXPECT_EQ(seen, std::vector<int>(3, 1));
}

TEST_F(ParallelTest, FromSeveralThreadsAtOnce) {
  set_num_threads(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) parallel_for(0, 100, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 20 * 100);
}

TEST_F(ParallelTest, RefusesNoThreads) {
  EXPECT_THROW(set_num_threads(0), ValueError);
  EXPECT_THROW(set_num_threads(-3), ValueError);
}

// The sanitizers' runtimes do not survive a fork of a process with threads.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(ParallelTest, AForkedProcessComputesAlone) {
  set_num_threads(3);
  std::atomic<int> seen{0};
  parallel_threads(3, [&](int) { ++seen; });
  ASSERT_EQ(seen, 3);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a team that never comes would be waited for
    std::atomic<int64_t> sum{0};
    parallel_for(0, 1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sum += i;
    });
    _exit(sum == 499500 && get_num_threads() == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  EXPECT_EQ(get_num_threads(), 3);
}
#endif

}  // namespace
}  // namespace facula
