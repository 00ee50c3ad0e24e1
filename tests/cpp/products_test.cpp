// Products of float and bfloat16 as this machine computes them, and how they are cut: against products in double of the same numbers, with sums that
// fill tiles and others, either orientation, batches, alpha, beta and several numbers of threads; and convolutions that skip input. Tiles on any machine:
// amx_product_test.cpp.
#include "cpu/matmul.h"
#include "cpu/matmul_pieces.h"
#include "cpu/parallel.h"
#include "seed.h"

#include <facula/facula.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace facula;
using facula_test::seed_text;
using facula_test::test_seed;

class Products : public testing::Test {
 protected:
  Products() { manual_seed(test_seed()); }
  ~Products() override { set_num_threads(before_); }
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }

  double wrong_by(ScalarType dtype, int64_t batch, int64_t m, int64_t n, int64_t k);

  std::string what_;  // the last product
  std::mt19937_64 rng_{test_seed()};
  int before_ = get_num_threads();
};

TEST_F(Products, PiecesCoverTheResultOnce) {
  SCOPED_TRACE(seed_text());
  for (int round = 0; round < 300; ++round) {
    const int64_t m = pick(1, 400), n = pick(1, 400), most = pick(1, 40), row_step = pick(1, 40),
                  column_step = pick(1, 70);
    const MatmulPieces pieces(m, n, most, row_step, column_step, pick(1, 40));
    ASSERT_LE(pieces.count, most);
    std::vector<int> seen(static_cast<size_t>(m * n), 0);
    for (int64_t i = 0; i < pieces.count; ++i) {
      ASSERT_TRUE(pieces.row(i) < m && pieces.column(i) < n) << m << " x " << n << " in " << most;
      for (int64_t r = pieces.row(i); r < std::min(m, pieces.row(i) + pieces.rows); ++r)
        for (int64_t c = pieces.column(i); c < std::min(n, pieces.column(i) + pieces.columns); ++c)
          ++seen[static_cast<size_t>(r * n + c)];
    }
    EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(m * n), 1)) << m << " x " << n << " in " << most;
  }
  const MatmulPieces square(512, 512, 16, 32, 64, 32);
  EXPECT_EQ(square.count, 16);
  EXPECT_EQ(square.rows * square.columns, 512 * 512 / 16);
}

// One product of random numbers; the largest difference from the product in double, as a share of the largest entry and of what an entry of so many
// terms is likely to be.
double Products::wrong_by(ScalarType dtype, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const bool a_turned = pick(0, 1) == 1, b_turned = pick(0, 1) == 1;
  const Tensor a = a_turned ? randn({batch, k, m}).to(dtype).transpose(1, 2) : randn({batch, m, k}).to(dtype);
  const Tensor b = b_turned ? randn({batch, n, k}).to(dtype).transpose(1, 2) : randn({batch, k, n}).to(dtype);
  const double alpha = pick(0, 3) == 1 ? -1.5 : 1.0, beta = pick(0, 1) == 1 ? 0.5 : 0.0;
  // Rows of the result may lie apart.
  const Tensor room = randn({batch, m, n + (pick(0, 2) == 0 ? 5 : 0)}).to(dtype), c = room.narrow(2, 0, n),
               around = room.clone();
  Tensor want = alpha * matmul(a.to(kDouble), b.to(kDouble));
  if (beta != 0) want = want + beta * c.to(kDouble);
  else c.fill_(std::numeric_limits<double>::quiet_NaN());  // must not be read
  const auto matrix = [](const Tensor& t) {
    return MatrixArg{t.data_ptr(), t.stride(1), t.stride(2), nullptr, t.stride(0)};
  };
  MatmulArgs args;
  args.dtype = dtype;
  args.batch = batch;
  args.m = m, args.n = n, args.k = k;
  args.a = matrix(a), args.b = matrix(b), args.c = matrix(c);
  args.alpha = alpha, args.beta = beta;
  matmul(args);
  what_ = std::to_string(batch) + " x " + std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n) +
          (a_turned ? ", A turned" : "") + (b_turned ? ", B turned" : "") + ", alpha " + std::to_string(alpha) +
          ", beta " + std::to_string(beta) + ", threads " + std::to_string(get_num_threads());
  const int64_t beside = room.size(2) - n;
  EXPECT_TRUE(equal(room.narrow(2, n, beside), around.narrow(2, n, beside))) << what_;
  return (c.to(kDouble) - want).abs().max().item<double>() /
         (want.abs().max().item<double>() + std::sqrt(static_cast<double>(k)));
}

TEST_F(Products, OfBFloat16) {
  SCOPED_TRACE(seed_text());
  for (int round = 0; round < 120; ++round) {
    set_num_threads(static_cast<int>(pick(1, 5)));
    const int64_t k = round % 4 == 0 ? 32 * pick(1, 16) : pick(1, 520);
    EXPECT_LE(wrong_by(kBFloat16, pick(1, 3), pick(1, 200), pick(1, 200), k), 0.01) << what_;
  }
}

// Single products of all sizes at which another kernel takes over, with few threads and with many; and batches.
TEST_F(Products, OfFloat) {
  SCOPED_TRACE(seed_text());
  for (int round = 0; round < 160; ++round) {
    set_num_threads(static_cast<int>(pick(0, 3) == 0 ? 8 : pick(1, 3)));
    const int64_t batch = round % 4 == 0 ? pick(2, 9) : 1;
    const int64_t m = round % 8 == 1 ? pick(1000, 1050) : round % 8 == 2 ? pick(1, 20) : pick(1, 300);
    EXPECT_LE(wrong_by(kFloat, batch, m, pick(1, 300), pick(1, 520)), 3e-6) << what_;
  }
}

// Terms that are added to fill a tile are zero; NaN and infinity stay in their rows and columns.
TEST_F(Products, NanStaysInItsRow) {
  SCOPED_TRACE(seed_text());
  for (const ScalarType dtype : {kBFloat16, kFloat})
    for (const int64_t k : {7, 33, 63, 64, 301})
      for (const bool turned : {false, true}) {
        const int64_t m = dtype == kFloat ? 90 : 20, n = dtype == kFloat ? 170 : 50;
        const Tensor a = randn({m, k}).to(dtype), b = turned ? randn({n, k}).to(dtype).t() : randn({k, n}).to(dtype);
        a.select(0, 3).fill_(std::numeric_limits<double>::quiet_NaN());
        b.select(1, 7).fill_(std::numeric_limits<double>::infinity());
        const Tensor got = matmul(a, b).isfinite(), want = ones({m, n}, kBool);
        want.select(0, 3).fill_(false);
        want.select(1, 7).fill_(false);
        EXPECT_TRUE(equal(got, want)) << k << " terms" << (turned ? ", B turned" : "");
      }
}

// The largest difference in units of what rounding to bfloat16 allows a sum of such numbers.
double off(const Tensor& got, const Tensor& want) {
  const double size = want.abs().max().item<double>();
  return (got.to(kDouble) - want).abs().max().item<double>() / (0.01 * size + 0.01);
}

TEST_F(Products, ConvolutionsOfOnePointThatSkipInput) {
  SCOPED_TRACE(seed_text());
  for (int round = 0; round < 36; ++round) {
    set_num_threads(round % 2 == 0 ? 16 : 2);
    const ScalarType dtype = round % 3 == 0 ? kFloat : kBFloat16;
    const int64_t dims = pick(1, 3), groups = pick(1, 2), in = pick(1, 20), out = pick(1, 30);
    std::vector<int64_t> sizes = {pick(1, 5), groups * in}, kernel = {groups * out, in}, stride;
    for (int64_t d = 0; d < dims; ++d) {
      sizes.push_back(pick(3, 11));
      kernel.push_back(1);
      stride.push_back(pick(d == 0 ? 2 : 1, 3));
    }
    Tensor x = randn(sizes).to(dtype);
    const Tensor w = randn(kernel).to(dtype), bias = randn({groups * out}).to(dtype);
    if (dims > 1 && pick(0, 1) == 1)
      x = x.contiguous(dims == 2 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d);
    Tensor gradient;
    const std::vector<int64_t> none(static_cast<size_t>(dims), 0), one(static_cast<size_t>(dims), 1);
    const auto step = [&](ScalarType t) {
      const Tensor a = x.to(t).detach().requires_grad_(true), b = w.to(t).detach().requires_grad_(true);
      const Tensor y = convolution(a, b, bias.to(t), stride, none, one, false, none, groups);
      if (!gradient.defined()) gradient = randn(y.sizes()).to(dtype);
      y.backward(gradient.to(t));
      return std::vector<Tensor>{y.detach(), a.grad(), b.grad()};
    };
    const std::vector<Tensor> got = step(dtype), want = step(kDouble);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(off(got[i], want[i]), 1) << i << " of " << x.sizes() << " by " << w.sizes() << ", stride "
                                         << IntArrayRef(stride) << ", groups " << groups;
  }
}

}  // namespace
