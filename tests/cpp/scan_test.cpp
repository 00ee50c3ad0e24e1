// Running sums, products, extremes and logarithms against naive references on random shapes, dims, layouts and dtypes.
#include <facula/facula.h>

#include "cpp/seed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

namespace facula {
namespace {

// Gives the number of threads back however the test ends.
struct ThreadCountGuard {
  int before = get_num_threads();
  ~ThreadCountGuard() { set_num_threads(before); }
};

class ScanTest : public testing::Test {
 protected:
  ScanTest() : seed(facula_test::test_seed()), gen(seed) {}
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(gen); }
  Tensor draw(IntArrayRef sizes, ScalarType t, double low, double high) {
    Tensor x = empty(sizes, TensorOptions().dtype(kDouble));
    std::uniform_real_distribution<double> value(low, high);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data_ptr<double>()[i] = isFloatingType(t) ? value(gen) : std::round(value(gen));
    return x.to(t);
  }
  // A shape whose size along `dim` is n, in some layout.
  Tensor draw_along(int64_t n, int64_t& dim, ScalarType t, double low, double high) {
    const int64_t rank = pick(1, 3);
    std::vector<int64_t> sizes;
    for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(1, 25));
    dim = pick(0, rank - 1);
    sizes[static_cast<size_t>(dim)] = n;
    const Tensor x = draw(sizes, t, low, high);
    if (rank < 2 || pick(0, 1) == 0) return x;
    const int64_t a = pick(0, rank - 1), b = pick(0, rank - 1);
    const Tensor y = x.transpose(a, b).contiguous().transpose(a, b);
    return pick(0, 1) == 0 || rank < 3
               ? y
               : y.expand(y.sizes()).slice(pick(0, 1) == 0 ? (dim == 0 ? 1 : 0) : (dim == 2 ? 1 : 2), 0, INT64_MAX, 2);
  }
  // Calls f(row of input, row of each result) with doubles.
  static void each_row(const Tensor& x, const std::vector<Tensor>& results, int64_t dim,
                       const std::function<void(const double*, const std::vector<const double*>&, int64_t)>& f) {
    const auto last = [&](const Tensor& t) {
      return (t.dim() == 0 ? t.reshape({1}) : t.transpose(dim, -1)).to(kDouble).contiguous();
    };
    const Tensor in = last(x);
    std::vector<Tensor> out;
    for (const Tensor& r : results) {
      ASSERT_EQ(r.sizes(), x.sizes());
      out.push_back(last(r));
    }
    const int64_t n = in.size(-1);
    for (int64_t r = 0; n > 0 && r < in.numel() / n; ++r) {
      std::vector<const double*> p;
      for (const Tensor& o : out) p.push_back(o.data_ptr<double>() + r * n);
      f(in.data_ptr<double>() + r * n, p, n);
    }
  }
  static double epsilon(ScalarType t) { return t == kDouble ? 1e-13 : t == kFloat ? 2e-7 : t == kHalf ? 1e-3 : 8e-3; }

  uint64_t seed;
  std::mt19937_64 gen;
};

const int64_t kLengths[] = {0, 1, 2, 7, 8, 9, 31, 64, 100, 1000, 2500, 20000};

TEST_F(ScanTest, SumsAndProducts) {
  for (const ScalarType t : {kFloat, kDouble, kHalf, kBFloat16, kInt, kLong, kByte, kBool, kChar}) {
    for (const int64_t n : kLengths) {
      int64_t dim = 0;
      const Tensor x = draw_along(n, dim, t, isSignedType(t) ? -1.0 : 0.0, 1.0);
      const Tensor sums = cumsum(x, dim), prods = cumprod(x, dim);
      ASSERT_EQ(sums.scalar_type(), isFloatingType(t) ? t : kLong);
      each_row(x, {sums, prods}, dim, [&](const double* in, const std::vector<const double*>& out, int64_t count) {
        double sum = 0, prod = 1, size = 0;
        for (int64_t i = 0; i < count; ++i) {
          sum += in[i];
          prod *= in[i];
          size = std::max(size, std::abs(sum));
          ASSERT_NEAR(out[0][i], sum, epsilon(sums.scalar_type()) * (size + 1))
              << "seed " << seed << " place " << i << " of " << count << " " << toString(t);
          ASSERT_NEAR(out[1][i], prod, epsilon(prods.scalar_type()) * (std::abs(prod) + 1)) << "seed " << seed;
        }
      });
    }
  }
}

TEST_F(ScanTest, OtherDtypes) {
  const Tensor x = draw({30, 4}, kInt, -100, 100);
  const Tensor wide = cumsum(x, 0);
  EXPECT_TRUE(equal(cumsum(x, 0, kDouble), wide.to(kDouble)));
  EXPECT_TRUE(equal(cumsum(x, 0, kChar), wide.to(kChar)));
  EXPECT_TRUE(equal(cumsum(x, 0, kShort), wide.to(kShort)));
  EXPECT_THROW(cumsum(x, 0, kBool), DTypeError);
  const Tensor z = complex(draw({9, 3}, kFloat, -1, 1), draw({9, 3}, kFloat, -1, 1));
  EXPECT_TRUE(allclose(real(cumsum(z, 0)), cumsum(real(z), 0)));
  EXPECT_TRUE(allclose(imag(cumsum(z, 1)), cumsum(imag(z), 1)));
  const Tensor p = cumprod(z, 0);
  EXPECT_TRUE(allclose(p.select(0, 2), z.select(0, 0) * z.select(0, 1) * z.select(0, 2)));
  Tensor own = x.clone();
  own.cumsum_(1);
  EXPECT_TRUE(equal(own, cumsum(x, 1).to(kInt)));
  EXPECT_EQ(cumsum(full({}, 3.0), 0).item<float>(), 3.0f);
  EXPECT_EQ(cumsum(empty({2, 3}, TensorOptions().dtype(kInt).device(kMeta)), 1).scalar_type(), kLong);
  EXPECT_THROW(cumsum(x, 2), IndexError);
}

TEST_F(ScanTest, SameBitsWithAnyNumberOfThreads) {
  const ThreadCountGuard guard;
  for (const ScalarType t : {kFloat, kDouble, kHalf, kLong}) {
    const Tensor row = draw({150001}, t, -5, 5), tall = draw({900, 300}, t, -5, 5);
    const Tensor strided = draw({150001, 2}, t, -5, 5).select(1, 1);
    const Tensor z = t == kFloat ? complex(row, row) : row;
    std::vector<Tensor> first;
    for (const int count : {1, 2, 3, 7}) {
      set_num_threads(count);
      const std::vector<Tensor> now = {cumsum(row, 0),
                                       cumsum(tall, 0),
                                       cumsum(tall, 1),
                                       cumsum(strided, 0),
                                       cumsum(z, 0),
                                       cumprod(tall, 0),
                                       std::get<1>(cummax(tall, 0))};
      if (first.empty()) first = now;
      for (size_t i = 0; i < now.size(); ++i) {
        ASSERT_EQ(std::memcmp(now[i].data_ptr(), first[i].data_ptr(), now[i].nbytes()), 0)
            << toString(t) << " case " << i << " threads " << count;
      }
    }
    // Every addition rounds by the size of the sum at that place, however small the sum may be in the end, so the largest sum
    // on the way counts. The reference must be better than what it judges.
    long double sum = 0;
    double size = 0;
    const Tensor wide = row.to(kDouble), got = first[0].to(kDouble);
    for (int64_t i = 0; i < row.numel(); ++i) {
      sum += wide.data_ptr<double>()[i];
      size = std::max(size, std::abs(static_cast<double>(sum)));
      ASSERT_NEAR(got.data_ptr<double>()[i], static_cast<double>(sum), epsilon(t) * (size + 100)) << i;
    }
  }
}

TEST_F(ScanTest, Extremes) {
  for (const ScalarType t : {kFloat, kDouble, kBFloat16, kInt, kLong, kByte, kBool, kUInt64}) {
    for (const int64_t n : kLengths) {
      int64_t dim = 0;
      Tensor x = draw_along(n, dim, t, isSignedType(t) ? -20 : 0, t == kBool ? 1 : 20);
      if (isFloatingType(t) && n > 0) {
        x = x.contiguous();
        x = where(rand(x.sizes()) < 0.5 / static_cast<double>(n), full({}, NAN, TensorOptions().dtype(t)), x);
      }
      const auto [top, top_at] = cummax(x, dim);
      const auto [low, low_at] = cummin(x, dim);
      ASSERT_EQ(top.scalar_type(), t);
      each_row(x, {top, top_at, low, low_at}, dim,
               [&](const double* in, const std::vector<const double*>& out, int64_t count) {
                 int64_t most = 0, least = 0;
                 for (int64_t i = 0; i < count; ++i) {
                   if (std::isnan(in[i]) || in[i] >= in[most]) most = i;
                   if (std::isnan(in[i]) || in[i] <= in[least]) least = i;
                   ASSERT_EQ(out[1][i], static_cast<double>(most))
                       << "seed " << seed << " place " << i << " of " << count << " " << toString(t);
                   ASSERT_EQ(out[3][i], static_cast<double>(least));
                   ASSERT_TRUE(std::isnan(in[most]) ? std::isnan(out[0][i]) : out[0][i] == in[most]);
                   ASSERT_TRUE(std::isnan(in[least]) ? std::isnan(out[2][i]) : out[2][i] == in[least]);
                 }
               });
    }
  }
}

TEST_F(ScanTest, LogSumExp) {
  for (const ScalarType t : {kFloat, kDouble, kHalf, kBFloat16}) {
    for (const int64_t n : kLengths) {
      int64_t dim = 0;
      const Tensor x = draw_along(n, dim, t, -100, 100);
      each_row(x, {logcumsumexp(x, dim)}, dim,
               [&](const double* in, const std::vector<const double*>& out, int64_t count) {
                 long double top = -INFINITY, sum = 0;
                 for (int64_t i = 0; i < count; ++i) {
                   if (in[i] > top) {
                     sum = sum * std::exp(top - in[i]) + 1;
                     top = in[i];
                   } else {
                     sum += std::exp(in[i] - top);
                   }
                   const double expected = static_cast<double>(top + std::log(sum));
                   ASSERT_NEAR(out[0][i], expected, epsilon(t) * (std::abs(expected) + 1))
                       << "seed " << seed << " " << toString(t) << " place " << i;
                 }
               });
    }
  }
  const double inf = INFINITY;
  for (const int64_t width : {1, 11}) {
    Tensor x = empty({6, width}, TensorOptions().dtype(kDouble));
    const double in[] = {-inf, -inf, 1.0, inf, 2.0, NAN};
    for (int64_t i = 0; i < 6 * width; ++i) x.data_ptr<double>()[i] = in[i / width];
    const Tensor y = logcumsumexp(x, 0);
    const double* p = y.data_ptr<double>();
    for (int64_t c = 0; c < width; ++c) {
      EXPECT_EQ(p[0 * width + c], -inf);
      EXPECT_EQ(p[1 * width + c], -inf);
      EXPECT_EQ(p[2 * width + c], 1.0);
      EXPECT_EQ(p[3 * width + c], inf);
      EXPECT_EQ(p[4 * width + c], inf);
      EXPECT_TRUE(std::isnan(p[5 * width + c]));
    }
  }
  EXPECT_THROW(logcumsumexp(empty({3}, TensorOptions().dtype(kLong)), 0), DTypeError);
}

TEST_F(ScanTest, Differences) {
  const Tensor x = draw({4, 6}, kLong, -50, 50);
  EXPECT_TRUE(equal(diff(x, 1, 1), x.narrow(1, 1, 5) - x.narrow(1, 0, 5)));
  EXPECT_TRUE(equal(diff(x, 2, 0), diff(diff(x, 1, 0), 1, 0)));
  EXPECT_TRUE(equal(diff(cumsum(x, 1), 1, 1, zeros({4, 1}, TensorOptions().dtype(kLong))), x));
  EXPECT_EQ(diff(x, 6, 1).sizes(), IntArrayRef({4, 0}));
  EXPECT_EQ(diff(x, 9, 0).sizes(), IntArrayRef({0, 6}));
  EXPECT_TRUE(equal(diff(x, 0), x));
  EXPECT_TRUE(equal(diff(x.gt(0), 1, 0), x.gt(0).narrow(0, 1, 3).ne(x.gt(0).narrow(0, 0, 3))));
  EXPECT_THROW(diff(full({}, 1.0)), ShapeError);
  EXPECT_THROW(diff(x, -1), ValueError);
  EXPECT_THROW(diff(x, 1, 1, zeros({3, 1}, TensorOptions().dtype(kLong))), ShapeError);
}

}  // namespace
}  // namespace facula
