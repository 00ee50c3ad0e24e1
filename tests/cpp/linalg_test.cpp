// Matrix products against sums in long double, for all dtypes, strides, batches and the shapes that kernels treat apart.
#include "seed.h"

#include <facula/facula.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace {

using namespace facula;
using facula_test::seed_text;
using facula_test::test_seed;

// Row by row in the widest type there is.
Tensor reference(const Tensor& a, const Tensor& b) {
  Tensor x = a.to(kDouble).contiguous(), y = b.to(kDouble).contiguous();
  int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  Tensor out = empty({m, n}, kDouble);
  const double *px = x.data_ptr<double>(), *py = y.data_ptr<double>();
  double* po = out.data_ptr<double>();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      long double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += static_cast<long double>(px[i * k + p]) * py[p * n + j];
      po[i * n + j] = static_cast<double>(sum);
    }
  return out;
}

double tolerance(ScalarType t) {
  switch (t) {
    case ScalarType::Double: return 1e-12;
    case ScalarType::Float: return 2e-5;
    case ScalarType::BFloat16: return 3e-2;
    case ScalarType::Half: return 3e-3;
    default: return 0;
  }
}

void expect_product(const Tensor& a, const Tensor& b) {
  Tensor got = a.mm(b), want = reference(a, b);
  ASSERT_EQ(got.scalar_type(), a.scalar_type());
  double rtol = tolerance(a.scalar_type()), scale = std::sqrt(static_cast<double>(std::max<int64_t>(a.size(1), 1)));
  ASSERT_TRUE(allclose(got.to(kDouble), want, rtol, rtol * scale))
      << a.dtype() << " " << to_text(a.sizes()) << to_text(a.strides()) << " x " << to_text(b.sizes())
      << to_text(b.strides());
}

Tensor random_matrix(int64_t rows, int64_t cols, ScalarType t, std::mt19937_64& rng) {
  auto draw = [&](IntArrayRef sizes) {
    return isIntegralType(t, true) ? randint(-9, 10, sizes).to(t) : randn(sizes, kDouble).to(t);
  };
  switch (rng() % 4) {
    case 0: return draw({cols, rows}).t();
    case 1: return draw({rows, cols + 3}).narrow(1, 1, cols);
    case 2: return draw({rows, cols, 2}).select(2, 1);
    default: return draw({rows, cols});
  }
}

TEST(Matmul, RandomShapesStridesAndDtypes) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  manual_seed(test_seed());
  for (ScalarType t : {kFloat, kDouble, kBFloat16, kHalf, kInt, kLong, kChar, kShort})
    for (int round = 0; round < 25; ++round) {
      auto size = [&] { return static_cast<int64_t>(rng() % 5 == 0 ? rng() % 150 : rng() % 20); };
      int64_t m = size(), k = size(), n = size();
      if (t == kChar) k = std::min<int64_t>(k, 1);  // larger sums wrap
      expect_product(random_matrix(m, k, t, rng), random_matrix(k, n, t, rng));
    }
}

TEST(Matmul, LargeEnoughForEveryBlockOfTheKernels) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  manual_seed(test_seed());
  expect_product(random_matrix(203, 517, kDouble, rng), random_matrix(517, 131, kDouble, rng));
  expect_product(random_matrix(70, 300, kDouble, rng), random_matrix(300, 1601, kDouble, rng));
  expect_product(random_matrix(257, 300, kFloat, rng), random_matrix(300, 255, kFloat, rng));
}

// Float products that are our own, shared by rows, by columns and by batch. Larger ones are oneDNN's, which orders sums.
TEST(Matmul, ThreadsDoNotChangeMediumProducts) {
  SCOPED_TRACE(seed_text());
  std::mt19937_64 rng(test_seed());
  manual_seed(test_seed());
  const int threads = get_num_threads();
  for (auto [m, n, k] : {std::array<int64_t, 3>{128, 128, 128}, {100, 99, 300}, {300, 40, 100}, {97, 410, 65}}) {
    const Tensor a = random_matrix(m, k, kFloat, rng), b = random_matrix(k, n, kFloat, rng);
    expect_product(a, b);
    const Tensor batch = randn({3, m, k});
    std::vector<Tensor> results;
    for (int count : {1, 2, 3, 8}) {
      set_num_threads(count);
      results.push_back(a.mm(b));
      results.push_back(bmm(batch, b.expand({3, k, n})));
    }
    set_num_threads(threads);
    for (size_t i = 2; i < results.size(); ++i)
      EXPECT_TRUE(equal(results[i], results[i % 2])) << m << " x " << n << " x " << k << ", result " << i;
  }
}

TEST(Matmul, ComplexIsFourRealProducts) {
  SCOPED_TRACE(seed_text());
  manual_seed(test_seed());
  for (ScalarType t : {kComplexFloat, kComplexDouble}) {
    Tensor a = randn({7, 5}, t), b = randn({5, 6}, t);
    Tensor ar = real(a).to(kDouble), ai = imag(a).to(kDouble), br = real(b).to(kDouble), bi = imag(b).to(kDouble);
    Tensor c = a.mm(b);
    EXPECT_TRUE(allclose(real(c).to(kDouble), ar.mm(br) - ai.mm(bi), 1e-5, 1e-5));
    EXPECT_TRUE(allclose(imag(c).to(kDouble), ar.mm(bi) + ai.mm(br), 1e-5, 1e-5));
  }
}

TEST(Matmul, BatchesBroadcast) {
  SCOPED_TRACE(seed_text());
  manual_seed(test_seed());
  for (ScalarType t : {kFloat, kDouble, kBFloat16}) {
    Tensor a = randn({3, 1, 4, 5}, kFloat).to(t), b = randn({2, 5, 6}, kFloat).to(t);
    Tensor c = a.matmul(b);
    ASSERT_TRUE(c.sizes() == IntArrayRef({3, 2, 4, 6}));
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 2; ++j)
        EXPECT_TRUE(allclose(c[i][j].to(kDouble), reference(a[i][0], b[j]), tolerance(t), tolerance(t) * 3));
  }
  EXPECT_TRUE(randn({4}).matmul(randn({2, 4, 3})).sizes() == IntArrayRef({2, 3}));
  EXPECT_TRUE(randn({2, 3, 4}).matmul(randn({4})).sizes() == IntArrayRef({2, 3}));
}

TEST(Matmul, AddmmScalesAndBroadcasts) {
  SCOPED_TRACE(seed_text());
  manual_seed(test_seed());
  for (ScalarType t : {kFloat, kDouble, kBFloat16}) {
    Tensor a = randn({4, 5}).to(t), b = randn({5, 6}).to(t), bias = randn({6}).to(t);
    Tensor want = reference(a, b) * 2.0 + bias.to(kDouble) * 0.5;
    EXPECT_TRUE(allclose(addmm(bias, a, b, 0.5, 2.0).to(kDouble), want, tolerance(t), 4 * tolerance(t)));
  }
  Tensor poison = full({3, 3}, std::nan(""));
  EXPECT_TRUE(addmm(poison, ones({3, 2}), ones({2, 3}), 0, 1).equal(full({3, 3}, 2.0f))) << "beta 0 must not read self";
  EXPECT_TRUE(addmm(ones({2, 2}), empty({2, 0}), empty({0, 2}), 3.0).equal(full({2, 2}, 3.0f)));
}

TEST(Matmul, EmptyInnerDimensionGivesZeros) {
  for (ScalarType t : {kFloat, kDouble, kLong, kBFloat16}) {
    Tensor c = empty({3, 0}, t).mm(empty({0, 4}, t));
    EXPECT_TRUE(c.equal(zeros({3, 4}, t))) << t;
  }
}

TEST(Matmul, Int8IntoInt32) {
  SCOPED_TRACE(seed_text());
  manual_seed(test_seed());
  Tensor a = randint(-128, 128, {33, 70}).to(kChar), b = randint(-128, 128, {70, 21}).to(kChar);
  EXPECT_TRUE(_int_mm(a, b).to(kLong).equal(a.to(kLong).mm(b.to(kLong))));
}

TEST(Einsum, AgreesWithWhatTheLettersSay) {
  SCOPED_TRACE(seed_text());
  manual_seed(test_seed());
  Tensor a = randn({3, 4}, kDouble), b = randn({4, 5}, kDouble), s = randn({4, 4}, kDouble),
         c = randn({2, 3, 4}, kDouble);
  auto close = [](const Tensor& x, const Tensor& y) { return x.sizes() == y.sizes() && allclose(x, y, 1e-12, 1e-12); };
  EXPECT_TRUE(close(einsum("ij,jk->ik", {a, b}), a.mm(b)));
  EXPECT_TRUE(close(einsum("ij,jk", {a, b}), a.mm(b)));
  EXPECT_TRUE(close(einsum("ij->ji", {a}), a.t()));
  EXPECT_TRUE(close(einsum("ij->", {a}), a.sum()));
  EXPECT_TRUE(close(einsum("ii->i", {s}), s.diagonal()));
  EXPECT_TRUE(close(einsum("ii", {s}), s.trace()));
  EXPECT_TRUE(close(einsum("i,j->ij", {a[0], b[0]}), outer(a[0], b[0])));
  EXPECT_TRUE(close(einsum("bij,jk->bik", {c, b}), c.matmul(b)));
  EXPECT_TRUE(close(einsum("...ij,jk->...ik", {c, b}), c.matmul(b)));
  EXPECT_TRUE(close(einsum("bij,bij->b", {c, c}), (c * c).sum({1, 2})));
  EXPECT_TRUE(close(einsum("ij,jk,kl->il", {a, b, b.t()}), a.mm(b).mm(b.t())));
  EXPECT_TRUE(close(einsum("ij,jk,kl->il", {a, b, b.t()}, std::vector<int64_t>{1, 2, 0, 1}), a.mm(b.mm(b.t()))));
  EXPECT_THROW(einsum("ij,jk->ik", {a}), ValueError);
  EXPECT_THROW(einsum("ij,kj->ik", {a, b}), ShapeError);
  EXPECT_THROW(einsum("i1->i", {a}), ValueError);
}

}  // namespace
