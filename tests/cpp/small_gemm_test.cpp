// The kernel of small float products against sums in double, on every instruction set of the machine: edges of its blocks,
// strides of either sign of A and B, alpha and beta, and memory around C that must stay as it is.
#include "cpu/small_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpp/seed.h"
#include "cpu/simd/targets.h"

#include <hwy/highway.h>

namespace {

using facula::small_gemm;
using facula::SmallGemm;
using facula_test::seed_text;
using facula_test::test_seed;

// Calls f once for each instruction set, which is the one in use meanwhile.
template <class F>
void on_every_target(F f) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// A matrix in memory that ends with its last element, so that a read past it is one past the allocation.
struct Matrix {
  Matrix(int64_t rows, int64_t cols, std::mt19937_64& rng) {
    const int64_t gap = static_cast<int64_t>(rng() % 3);
    switch (rng() % 4) {
      case 0: row = 1, col = rows + gap; break;
      case 1: row = 2 * (cols + gap), col = 2; break;
      default: row = cols + gap, col = 1; break;
    }
    values.resize(static_cast<size_t>((rows - 1) * row + (cols - 1) * col + 1));
    std::normal_distribution<float> normal;
    for (float& v : values) v = normal(rng);
    start = values.data();
    if (rng() % 8 == 0) start += (rows - 1) * row, row = -row;
  }
  std::vector<float> values;
  const float* start = nullptr;
  int64_t row = 1, col = 1;
};

void expect_product(int64_t m, int64_t n, int64_t k, std::mt19937_64& rng) {
  const Matrix a(m, k, rng), b(k, n, rng);
  const int64_t c_row = n + static_cast<int64_t>(rng() % 3);
  const float kGap = 77, alpha = rng() % 2 ? 1.0f : -0.75f;
  const float beta = rng() % 2 ? 0.0f : 0.5f;
  std::normal_distribution<float> normal;
  std::vector<float> before(static_cast<size_t>(m * c_row) + 64, kGap);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      // What beta 0 must not read.
      before[static_cast<size_t>(i * c_row + j)] = beta == 0 ? std::numeric_limits<float>::quiet_NaN() : normal(rng);

  on_every_target([&](const char* target) {
    std::vector<float> c = before;
    small_gemm({m, n, k, a.start, a.row, a.col, b.start, b.row, b.col, c.data(), c_row, alpha, beta});
    for (size_t at = 0; at < c.size(); ++at) {
      const int64_t i = static_cast<int64_t>(at) / c_row, j = static_cast<int64_t>(at) % c_row;
      if (i >= m || j >= n) {
        ASSERT_EQ(c[at], kGap) << "written past row " << i << " of " << m << " x " << n << " on " << target;
        continue;
      }
      const double old = beta == 0 ? 0 : static_cast<double>(beta) * before[at];
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double x = static_cast<double>(a.start[i * a.row + p * a.col]) * b.start[p * b.row + j * b.col];
        sum += x, size += std::abs(x);
      }
      const double bound = 0x1p-24 * ((static_cast<double>(k) + 4) * std::abs(alpha) * size + 2 * std::abs(old));
      ASSERT_NEAR(c[at], alpha * sum + old, bound)
          << m << " x " << n << " x " << k << " at " << i << ", " << j << ", strides of A " << a.row << ", " << a.col
          << ", of B " << b.row << ", " << b.col << ", alpha " << alpha << ", beta " << beta << ", on " << target;
    }
  });
}

TEST(SmallGemm, RandomShapesAndStrides) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  auto draw = [&](uint64_t most) { return 1 + static_cast<int64_t>(rng() % most); };
  for (int round = 0; round < 300 && !HasFatalFailure(); ++round) expect_product(draw(40), draw(70), draw(40), rng);
}

TEST(SmallGemm, EveryEdgeOfABlock) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  for (int64_t m = 1; m <= 17 && !HasFatalFailure(); ++m)
    for (int64_t n : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 129}) expect_product(m, n, 5, rng);
}

TEST(SmallGemm, LongSumsAndWideSteps) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  for (int64_t k : {255, 256, 257, 512, 700}) expect_product(13, 37, k, rng);
  expect_product(70, 1030, 9, rng);
  expect_product(128, 128, 128, rng);
}

// Threads share a product by rows or columns; they may not change it.
TEST(SmallGemm, PartsOfAProductHaveItsBits) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    const int64_t m = 60 + static_cast<int64_t>(rng() % 40), n = 50 + static_cast<int64_t>(rng() % 90), k = 300;
    const Matrix a(m, k, rng), b(k, n, rng);
    const int64_t row = static_cast<int64_t>(rng() % 59) + 1, column = static_cast<int64_t>(rng() % 49) + 1;
    on_every_target([&](const char* target) {
      std::vector<float> whole(static_cast<size_t>(m * n)), parts(whole.size());
      small_gemm({m, n, k, a.start, a.row, a.col, b.start, b.row, b.col, whole.data(), n, 1, 0});
      for (int64_t i : {int64_t{0}, row})
        for (int64_t j : {int64_t{0}, column})
          small_gemm({i == 0 ? row : m - row, j == 0 ? column : n - column, k, a.start + i * a.row, a.row, a.col,
                      b.start + j * b.col, b.row, b.col, parts.data() + i * n + j, n, 1, 0});
      ASSERT_EQ(whole, parts) << m << " x " << n << " cut at " << row << ", " << column << ", on " << target;
    });
  }
}

}  // namespace
