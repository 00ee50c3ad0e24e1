// Strided copies and fills against nested loops, over random shapes, orders of dimensions, strides and element sizes.
#include "cpu/copy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "cpp/seed.h"
#include "cpu/parallel.h"

namespace facula {
namespace {

// A way of laying out `sizes` in memory: dimensions in random order, with gaps and reversed directions; `origin` is
// where index 0 is.
struct Layout {
  std::vector<int64_t> strides;
  int64_t origin = 0, length = 1;

  Layout(const std::vector<int64_t>& sizes, std::mt19937& random, bool may_repeat) : strides(sizes.size(), 0) {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (random() % 3 != 0) std::shuffle(order.begin(), order.end(), random);
    int64_t step = random() % 6 == 0 ? 2 : 1;
    for (size_t d : order) {
      if (may_repeat && random() % 6 == 0) continue;
      strides[d] = step;
      step *= sizes[d];
      if (random() % 4 == 0) step += static_cast<int64_t>(random() % 3);
    }
    length = step + 2;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (random() % 6 != 0) continue;
      strides[d] = -strides[d];
      origin -= strides[d] * (sizes[d] - 1);
    }
  }
};

template <class F>
void for_each_index(const std::vector<int64_t>& sizes, F f) {
  std::vector<int64_t> index(sizes.size(), 0);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  for (;;) {
    f(index);
    size_t d = 0;
    for (; d < sizes.size() && ++index[d] == sizes[d]; ++d) index[d] = 0;
    if (d == sizes.size()) return;
  }
}

int64_t offset(const Layout& layout, const std::vector<int64_t>& index) {
  return layout.origin + std::inner_product(index.begin(), index.end(), layout.strides.begin(), int64_t{0});
}

// Bytes without a short period, cheaply: the arrays are large.
void fill_random(std::vector<char>& bytes, uint64_t state) {
  for (char& c : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    c = static_cast<char>(state >> 56);
  }
}

void check_copy(const std::vector<int64_t>& sizes, const Layout& to, const Layout& from, size_t elem,
                std::mt19937& random) {
  std::vector<char> src(static_cast<size_t>(from.length) * elem), dst(static_cast<size_t>(to.length) * elem);
  fill_random(src, random());
  fill_random(dst, random());
  std::vector<char> want = dst;
  for_each_index(sizes, [&](const auto& index) {
    std::memcpy(want.data() + offset(to, index) * static_cast<int64_t>(elem),
                src.data() + offset(from, index) * static_cast<int64_t>(elem), elem);
  });
  copy_strided(dst.data() + to.origin * static_cast<int64_t>(elem), to.strides.data(),
               src.data() + from.origin * static_cast<int64_t>(elem), from.strides.data(), sizes.data(),
               static_cast<int>(sizes.size()), elem);
  ASSERT_TRUE(dst == want) << testing::PrintToString(sizes) << " to " << testing::PrintToString(to.strides) << " from "
                           << testing::PrintToString(from.strides) << " size " << elem;
  want.assign(dst.size(), 3);
  dst = want;
  for_each_index(sizes, [&](const auto& index) {
    std::memcpy(want.data() + offset(to, index) * static_cast<int64_t>(elem), src.data(), elem);
  });
  fill_strided(dst.data() + to.origin * static_cast<int64_t>(elem), to.strides.data(), sizes.data(),
               static_cast<int>(sizes.size()), src.data(), elem);
  ASSERT_TRUE(dst == want) << "fill " << testing::PrintToString(sizes) << " to " << testing::PrintToString(to.strides);
}

class CopyTest : public testing::TestWithParam<size_t> {
 protected:
  std::mt19937 random_{static_cast<unsigned>(facula_test::test_seed())};
  testing::ScopedTrace trace_{__FILE__, __LINE__, facula_test::seed_text()};
};

TEST_P(CopyTest, RandomLayouts) {
  for (int round = 0; round < 600; ++round) {
    std::vector<int64_t> sizes(random_() % 6);
    int64_t room = 20000;
    for (int64_t& s : sizes) {
      s = random_() % 40 == 0
              ? 0
              : 1 + static_cast<int64_t>(random_() % std::min<int64_t>(room, random_() % 2 != 0 ? 5 : 90));
      room = std::max<int64_t>(1, room / std::max<int64_t>(s, 1));
    }
    const Layout to(sizes, random_, false), from(sizes, random_, true);
    ASSERT_NO_FATAL_FAILURE(check_copy(sizes, to, from, GetParam(), random_));
  }
}

TEST_P(CopyTest, Transposes) {
  for (const auto& [rows, cols] : {std::pair{64, 64},
                                   {65, 67},
                                   {300, 5},
                                   {5, 300},
                                   {16, 1000},
                                   {1000, 2},
                                   {1000, 3},
                                   {3, 1000},
                                   {4, 513},
                                   {777, 321}}) {
    const std::vector<int64_t> sizes = {rows, cols};
    Layout to(sizes, random_, false), from = to;
    to.strides = {cols, 1};
    from.strides = {1, rows};
    to.origin = from.origin = 0;
    to.length = from.length = static_cast<int64_t>(rows) * cols;
    ASSERT_NO_FATAL_FAILURE(check_copy(sizes, to, from, GetParam(), random_));
    ASSERT_NO_FATAL_FAILURE(check_copy(sizes, from, to, GetParam(), random_));
  }
}

// Large enough for several threads and for stores past the cache; with rows at cache lines and off them.
TEST_P(CopyTest, LargeTransposes) {
  const int threads = get_num_threads();
  set_num_threads(3);
  const auto edge = static_cast<int64_t>(std::sqrt((9 << 20) / GetParam())) / 64 * 64;
  for (const int64_t extra : {0, 1}) {
    const int64_t rows = edge + 64 + 5 * extra, cols = edge + extra;
    const std::vector<int64_t> sizes = {rows, cols};
    Layout to(sizes, random_, false), from = to;
    to.strides = {cols, 1};
    from.strides = {1, rows};
    to.origin = from.origin = 0;
    to.length = from.length = rows * cols;
    ASSERT_NO_FATAL_FAILURE(check_copy(sizes, to, from, GetParam(), random_));
    ASSERT_NO_FATAL_FAILURE(check_copy(sizes, to, to, GetParam(), random_));
  }
  set_num_threads(threads);
}

INSTANTIATE_TEST_SUITE_P(ElementSizes, CopyTest, testing::Values(1, 2, 4, 8, 16));

}  // namespace
}  // namespace facula
