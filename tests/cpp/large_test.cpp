// Tensors of more than 2^31 elements: indices, sizes and byte counts that no longer fit 32 bits.
#include "core/host_allocator.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace facula {
namespace {

using namespace indexing;

constexpr int64_t kCount = (int64_t{1} << 31) + 7;
constexpr int64_t kNeededBytes = int64_t{10} << 30;

// The number in a file; `missing` when there is no such file or it says "max".
int64_t number_in(const char* path, int64_t missing) {
  std::FILE* file = std::fopen(path, "r");
  if (!file) return missing;
  long long number = 0;
  const bool read = std::fscanf(file, "%lld", &number) == 1;
  std::fclose(file);
  return read ? number : missing;
}

// What a container leaves us, by the new and by the old kind of control group: whoever takes more is killed.
int64_t available_in_container() {
  int64_t least = INT64_MAX;
  for (const auto& [limit, used] :
       {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}})
    least = std::min(least, number_in(limit, INT64_MAX) - number_in(used, 0));
  return least;
}

int64_t available_bytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "r");
  if (!file) return 0;
  char line[256];
  long long kilobytes = 0;
  while (std::fgets(line, sizeof(line), file))
    if (std::sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1) break;
  std::fclose(file);
  return std::min<int64_t>(kilobytes << 10, available_in_container());
}

class Large : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "takes minutes under a sanitizer";
#endif
    if (available_ < kNeededBytes)
      GTEST_SKIP() << "needs 10 GB of available memory, there are " << (available_ >> 20) << " MiB";
  }
  // Between the tests the memory stays in the cache: pages that are fresh to the machine cost more time than all the arithmetic.
  static void SetUpTestSuite() {
    empty_host_cache();
    available_ = available_bytes();
  }
  static void TearDownTestSuite() { empty_host_cache(); }
  static inline int64_t available_ = 0;
};

TEST_F(Large, FillArithmeticSumAndSlices) {
  Tensor x = empty({kCount}, kChar);
  x.fill_(1);
  const int8_t* p = x.data_ptr<int8_t>();
  EXPECT_EQ(p[0] + p[kCount / 2] + p[kCount - 1], 3);
  EXPECT_EQ(x.nbytes(), static_cast<size_t>(kCount));
  x.add_(2);
  EXPECT_EQ(p[0], 3);
  EXPECT_EQ(p[int64_t{1} << 31], 3);
  EXPECT_EQ(p[kCount - 1], 3);
  EXPECT_EQ(x.sum().item<int64_t>(), 3 * kCount);

  Tensor tail = x.slice(0, kCount - 5);
  EXPECT_EQ(tail.sizes(), IntArrayRef({5}));
  EXPECT_EQ(tail.storage_offset(), kCount - 5);
  EXPECT_EQ(tail.data_ptr<int8_t>(), p + kCount - 5);
  tail.copy_(arange(5));
  EXPECT_EQ(p[kCount - 1], 4);
  EXPECT_EQ(x[kCount - 2].item<int>(), 3);
  EXPECT_EQ(x[-3].item<int>(), 2);
  x.index_put_({tensor({kCount - 1, int64_t{3}})}, 9);
  EXPECT_EQ(p[kCount - 1], 9);
  EXPECT_EQ(p[3], 9);
  Tensor picked = x.index({tensor({kCount - 1, kCount - 2, int64_t{0}})});
  EXPECT_EQ(picked[0].item<int>(), 9);
  EXPECT_EQ(picked[1].item<int>(), 3);
  EXPECT_EQ(picked[2].item<int>(), 3);
  EXPECT_EQ(x.index_select(0, tensor({kCount - 2}))[0].item<int>(), 3);
  x.slice(0, kCount - 4, kCount - 1).fill_(0);
  EXPECT_EQ(p[kCount - 4] + p[kCount - 2], 0);

  // The largest value at the far end.
  x[kCount - 1] = 100;
  EXPECT_EQ(x.argmax().item<int64_t>(), kCount - 1);
  EXPECT_EQ(x.max().item<int>(), 100);
}

TEST_F(Large, CatOfTwoHalvesAndStridedViews) {
  Tensor x = cat({full({1}, 1, kChar).expand({kCount / 2}), full({1}, 2, kChar).expand({kCount - kCount / 2})});
  EXPECT_EQ(x.numel(), kCount);
  const int8_t* p = x.data_ptr<int8_t>();
  EXPECT_EQ(p[kCount / 2 - 1], 1);
  EXPECT_EQ(p[kCount / 2], 2);
  EXPECT_EQ(p[kCount - 1], 2);
  EXPECT_EQ(x.sum().item<int64_t>(), kCount / 2 + 2 * (kCount - kCount / 2));

  // Rows that lie more than 2^31 elements apart, through views and through a strided loop.
  Tensor far = x.as_strided({2, 4}, {kCount - 4, 1});
  Tensor copy = (far + 1).contiguous();
  EXPECT_EQ(copy[0][0].item<int>(), 2);
  EXPECT_EQ(copy[1][3].item<int>(), 3);
  far.t().mul_(2);
  EXPECT_EQ(p[0], 2);
  EXPECT_EQ(p[4], 1);
  EXPECT_EQ(p[kCount - 1], 4);
  EXPECT_EQ(p[kCount - 5], 2);
  Tensor sparse = x.slice(0, 0, kCount, kCount / 2);
  EXPECT_EQ(sparse.numel(), 3);
  EXPECT_EQ(sparse.sum().item<int64_t>(), 2 + 2 + 4);
}

TEST_F(Large, ComparisonsReductionsAndBroadcasts) {
  Tensor flags = zeros({kCount}, kBool);
  EXPECT_FALSE(flags.any().item<bool>());
  flags[kCount - 1] = true;
  EXPECT_TRUE(flags.any().item<bool>());
  EXPECT_FALSE(flags.all().item<bool>());
  EXPECT_EQ(flags.sum().item<int64_t>(), 1);
  EXPECT_EQ(flags.count_nonzero().item<int64_t>(), 1);
  EXPECT_EQ(flags.nonzero().item<int64_t>(), kCount - 1);
  flags.logical_not_();
  EXPECT_EQ(flags.sum().item<int64_t>(), kCount - 1);
  flags.reset();

  // A sum over rows of a matrix whose last row starts beyond 2^31.
  const int64_t columns = 1 << 20, rows = (int64_t{1} << 11) + 1;
  Tensor m = ones({rows, columns}, kChar);
  m[rows - 1].fill_(5);
  Tensor by_column = m.sum(0);
  EXPECT_EQ(by_column[0].item<int64_t>(), rows - 1 + 5);
  EXPECT_EQ(by_column[columns - 1].item<int64_t>(), rows - 1 + 5);
  EXPECT_EQ(m.sum(1)[rows - 1].item<int64_t>(), 5 * columns);
  m.add_(ones({columns}, kChar));
  EXPECT_EQ(m[rows - 1][columns - 1].item<int>(), 6);
  EXPECT_EQ(m[0][0].item<int>(), 2);
}

}  // namespace
}  // namespace facula
