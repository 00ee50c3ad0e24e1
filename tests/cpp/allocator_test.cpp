// Host memory: what the cache keeps and gives back, its statistics and limit, what happens when memory runs out, and threads.
#include "core/host_allocator.h"

#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace facula {
namespace {

using testing::HasSubstr;

// Sanitized builds keep nothing.
bool cache_is_on() { return host_memory_stats().cache_limit_bytes > 0; }

#define NEEDS_CACHE() \
  if (!cache_is_on()) GTEST_SKIP() << "this build keeps no freed memory"

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

TEST(HostAllocator, BlocksAreAlignedAndWritable) {
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{1000}, (size_t{32} << 10) - 1, size_t{32} << 10,
                       (size_t{32} << 10) + 1, (size_t{1} << 20) - 1, size_t{1} << 20, (size_t{1} << 20) + 1,
                       size_t{5000000}, size_t{33} << 20}) {
    void* p = host_allocate(bytes);
    ASSERT_NE(p, nullptr) << bytes;
    EXPECT_TRUE(aligned(p)) << bytes;
    std::memset(p, 0x5a, bytes);
    EXPECT_EQ(static_cast<unsigned char*>(p)[bytes - 1], 0x5a);
    host_free(p, bytes);
  }
  host_free(nullptr, 100);
}

TEST(HostAllocator, AFreedBlockComesBack) {
  NEEDS_CACHE();
  empty_host_cache();
  const void* before;
  {
    Tensor x = empty({1 << 20});
    before = x.data_ptr();
  }
  Tensor again = empty({1 << 20});
  EXPECT_EQ(again.data_ptr(), before);
  Tensor another = empty({1 << 20});
  EXPECT_NE(another.data_ptr(), before) << "a block has one owner";
}

TEST(HostAllocator, SizesOfOneClassShareBlocks) {
  NEEDS_CACHE();
  empty_host_cache();
  void* p = host_allocate((size_t{4} << 20) - 4096);
  host_free(p, (size_t{4} << 20) - 4096);
  void* q = host_allocate(size_t{4} << 20);
  EXPECT_EQ(p, q);
  void* r = host_allocate(size_t{8} << 20);
  EXPECT_NE(r, q);
  host_free(q, size_t{4} << 20);
  host_free(r, size_t{8} << 20);
}

TEST(HostAllocator, StatisticsFollow) {
  NEEDS_CACHE();
  empty_host_cache();
  const size_t bytes = size_t{16} << 20;
  HostMemoryStats start = host_memory_stats();
  EXPECT_EQ(start.cached_bytes, 0u);
  {
    Tensor x = empty({static_cast<int64_t>(bytes)}, kByte);
    HostMemoryStats during = host_memory_stats();
    EXPECT_GE(during.in_use_bytes, start.in_use_bytes + bytes);
    EXPECT_LE(during.in_use_bytes, start.in_use_bytes + bytes + bytes / 8);
    EXPECT_EQ(during.cached_bytes, 0u);
  }
  HostMemoryStats after = host_memory_stats();
  EXPECT_EQ(after.in_use_bytes, start.in_use_bytes);
  EXPECT_GE(after.cached_bytes, bytes);
  empty_host_cache();
  EXPECT_EQ(host_memory_stats().cached_bytes, 0u);
  EXPECT_EQ(host_memory_stats().in_use_bytes, start.in_use_bytes);
}

TEST(HostAllocator, EmptyingLeavesBlocksInUseAlone) {
  Tensor x = full({1 << 20}, 3.0f);
  empty_host_cache();
  EXPECT_EQ(x.sum().item<float>(), 3.0f * (1 << 20));
}

TEST(HostAllocator, RunningOutIsAnErrorOneRecoversFrom) {
  const int64_t too_much = int64_t{1} << 45;
  const HostMemoryStats before = host_memory_stats();
  for (int i = 0; i < 3; ++i) {
    try {
      empty({too_much}, kFloat);
      FAIL() << "128 TiB were granted";
    } catch (const OutOfMemoryError& e) {
      EXPECT_THAT(e.what(), HasSubstr("empty: cannot allocate 140737488355328 bytes"));
      EXPECT_THAT(e.what(), HasSubstr("smaller sizes"));
    }
  }
  EXPECT_EQ(host_memory_stats().in_use_bytes, before.in_use_bytes);
  Tensor x = ones({too_much}, TensorOptions(kByte).device(kMeta));
  EXPECT_THROW(zeros_like(x, TensorOptions().device(kCPU)), OutOfMemoryError);
  EXPECT_THROW(ones({1}).expand({too_much}).clone(), OutOfMemoryError);
  EXPECT_THROW(ones({1}).expand({too_much}) + 1, OutOfMemoryError);
  Tensor y = ones({3});
  EXPECT_THROW(y.resize_({too_much}), OutOfMemoryError);
  EXPECT_EQ(y.sizes(), IntArrayRef({3})) << "a failed resize leaves the tensor as it was";
  EXPECT_EQ(y.sum().item<float>(), 3);
  EXPECT_EQ((ones({1 << 16}) + 1).sum().item<float>(), 2 << 16) << "work goes on";
}

TEST(HostAllocator, SizesThatOverflowAreRefused) {
  EXPECT_EQ(host_allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(host_allocate(SIZE_MAX / 2), nullptr);
  EXPECT_THROW(empty({int64_t{1} << 62}, kDouble), Error);
  EXPECT_THROW(empty({int64_t{1} << 62, 8}, kByte), Error);
}

TEST(HostAllocator, ManyThreadsAllocateAndFree) {
  const size_t before = host_memory_stats().in_use_bytes;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &wrong] {
      std::mt19937 draw(static_cast<unsigned>(t));
      struct Block {
        unsigned char* data;
        size_t bytes;
      };
      std::vector<Block> held;
      auto check_and_free = [&](const Block& b) {
        // A block that two threads hold at once would not keep this thread's mark.
        if (b.data[0] != t + 1 || b.data[b.bytes - 1] != t + 1 || b.data[b.bytes / 2] != t + 1) ++wrong;
        host_free(b.data, b.bytes);
      };
      for (int i = 0; i < 400; ++i) {
        size_t bytes = size_t{1} << (6 + draw() % 15);
        bytes += draw() % bytes;
        Block b{static_cast<unsigned char*>(host_allocate(bytes)), bytes};
        if (!b.data) {
          ++wrong;
          continue;
        }
        b.data[0] = b.data[bytes - 1] = b.data[bytes / 2] = static_cast<unsigned char>(t + 1);
        held.push_back(b);
        if (held.size() > 8) {
          std::swap(held[draw() % held.size()], held.back());
          check_and_free(held.back());
          held.pop_back();
        }
        if (i % 100 == 99) empty_host_cache();
      }
      for (const Block& b : held) check_and_free(b);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(host_memory_stats().in_use_bytes, before);
}

TEST(HostAllocator, TensorsMoveBetweenThreads) {
  std::vector<Tensor> made(16);
  std::thread maker([&] {
    for (size_t i = 0; i < made.size(); ++i) made[i] = full({1 << 16}, static_cast<double>(i));
  });
  maker.join();
  std::thread eater([&] {
    for (size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].max().item<float>(), static_cast<float>(i));
      made[i].reset();
    }
  });
  eater.join();
}

// Reports the limit of a process that starts with the variable set. Started by the test below, as a child.
TEST(HostAllocatorChild, ReportsItsLimit) {
  const char* expected = std::getenv("FACULA_EXPECTED_CACHE_LIMIT");
  if (!expected) GTEST_SKIP() << "runs as a child of HostAllocator.LimitComesFromTheEnvironment";
  const size_t limit = std::strtoull(expected, nullptr, 10);
  EXPECT_EQ(host_memory_stats().cache_limit_bytes, limit);
  for (int i = 0; i < 4; ++i) {
    std::vector<Tensor> several;
    for (int k = 0; k < 8; ++k) several.push_back(empty({1 << 20}, kByte));
  }
  EXPECT_LE(host_memory_stats().cached_bytes, limit);
  if (limit >= size_t{2} << 20) {
    EXPECT_GE(host_memory_stats().cached_bytes, size_t{1} << 20);
  }
}

TEST(HostAllocator, LimitComesFromTheEnvironment) {
  NEEDS_CACHE();
  for (const char* megabytes : {"0", "2", "64"}) {
    const std::string limit = std::to_string(std::strtoull(megabytes, nullptr, 10) << 20);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      setenv("FACULA_HOST_CACHE_MB", megabytes, 1);
      setenv("FACULA_EXPECTED_CACHE_LIMIT", limit.c_str(), 1);
      for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE"}) unsetenv(name);
      execl("/proc/self/exe", "facula_tests", "--gtest_filter=HostAllocatorChild.ReportsItsLimit", "--gtest_brief=1",
            nullptr);
      _exit(127);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << megabytes << " MiB, status " << status;
  }
}

}  // namespace
}  // namespace facula
