// Reductions against plain loops in double, over random shapes, dims, strides and dtypes; and what the fixed tree
// promises: the same bits for any number of threads and with every instruction set.
#include <facula/facula.h>

#include <gtest/gtest.h>

#include "core/tensor_impl.h"
#include "cpp/seed.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/simd/reduce_ops.h"
#include "cpu/simd/targets.h"
#include "ops/out.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace facula {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Values of a tensor in row-major order.
std::vector<double> values_of(const Tensor& t) {
  std::vector<double> result(static_cast<size_t>(t.numel()));
  const CType type = compute_type(t.scalar_type());
  const auto width = static_cast<int64_t>(elementSize(t.scalar_type()));
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, offset = 0;
    for (int64_t d = t.dim(); d-- > 0;) {
      offset += rest % t.size(d) * t.stride(d);
      rest /= t.size(d);
    }
    alignas(16) char one[16];
    load_block(static_cast<const char*>(t.data_ptr()) + offset * width, t.scalar_type(), 1, 1, 1, 1, one);
    if (ConvertFn cast = cast_fn(type, CType::F64)) cast(one, &result[static_cast<size_t>(i)], 1);
    else std::memcpy(&result[static_cast<size_t>(i)], one, sizeof(double));
  }
  return result;
}

void set_values(const Tensor& t, const std::vector<double>& values) {
  const auto width = static_cast<int64_t>(elementSize(t.scalar_type()));
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, offset = 0;
    for (int64_t d = t.dim(); d-- > 0;) {
      offset += rest % t.size(d) * t.stride(d);
      rest /= t.size(d);
    }
    cast_store_fn(CType::F64, t.scalar_type())(&values[static_cast<size_t>(i)],
                                               static_cast<char*>(t.data_ptr()) + offset * width, 1);
  }
}

// A tensor whose dims lie in memory in any order and with gaps.
Tensor scattered(const std::vector<int64_t>& sizes, ScalarType dtype, std::mt19937_64& rng) {
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (rng() % 2) std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t step = rng() % 4 == 0 ? 2 : 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = step;
    step *= std::max<int64_t>(sizes[order[k]], 1) + (rng() % 5 == 0 ? 1 : 0);
  }
  const Tensor memory = new_tensor(std::max<int64_t>(step, 1), dtype, Device(kCPU));
  return view_of(memory, sizes, strides, 0);
}

Tensor random_tensor(const std::vector<int64_t>& sizes, ScalarType dtype, std::mt19937_64& rng, double scale = 1) {
  Tensor t = scattered(sizes, dtype, rng);
  std::vector<double> values(static_cast<size_t>(t.numel()));
  std::normal_distribution<double> normal(0.3, scale);
  for (double& v : values) {
    v = normal(rng);
    if (isIntegralType(dtype, false)) v = std::floor(std::abs(v) * 10);
    if (dtype == kBool) v = rng() % 3 == 0;
  }
  set_values(t, values);
  return t;
}

// The rows of values that each output of a reduction over `mask` is made of, in row-major order.
std::vector<std::vector<double>> rows_of(const Tensor& t, uint64_t mask) {
  const std::vector<double> values = values_of(t);
  int64_t outputs = 1;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (!(mask >> d & 1)) outputs *= t.size(d);
  std::vector<std::vector<double>> rows(static_cast<size_t>(outputs));
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, output = 0, step = 1;
    for (int64_t d = t.dim(); d-- > 0;) {
      const int64_t at = rest % t.size(d);
      rest /= t.size(d);
      if (mask >> d & 1) continue;
      output += at * step;
      step *= t.size(d);
    }
    rows[static_cast<size_t>(output)].push_back(values[static_cast<size_t>(i)]);
  }
  return rows;
}

template <class F>
void expect_rows(const Tensor& result, const std::vector<std::vector<double>>& rows, double relative, const F& f,
                 const char* what) {
  const std::vector<double> got = values_of(result);
  ASSERT_EQ(got.size(), rows.size()) << what;
  for (size_t i = 0; i < rows.size(); ++i) {
    double want = f(rows[i]);
    if (result.scalar_type() == kHalf && std::abs(want) > 65504) want = std::copysign(kInf, want);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " output " << i << ": got " << got[i];
      continue;
    }
    double magnitude = std::abs(want);
    if (relative > 0)
      for (double v : rows[i])
        magnitude = std::max(magnitude, std::abs(v) * std::sqrt(static_cast<double>(rows[i].size())));
    if (std::isinf(want)) ASSERT_EQ(got[i], want) << what << " output " << i;
    else
      ASSERT_NEAR(got[i], want, relative * std::max(magnitude, 1e-30))
          << what << " output " << i << " of rows of " << rows[i].size();
  }
}

double sum_of(const std::vector<double>& row) {
  long double s = 0;
  for (double v : row) s += v;
  return static_cast<double>(s);
}
double max_of(const std::vector<double>& row) { return *std::max_element(row.begin(), row.end()); }
double min_of(const std::vector<double>& row) { return *std::min_element(row.begin(), row.end()); }
double argmax_of(const std::vector<double>& row) {
  return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
}
double argmin_of(const std::vector<double>& row) {
  return static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin());
}
double var_of(const std::vector<double>& row) {
  const double mean = sum_of(row) / static_cast<double>(row.size());
  double s = 0;
  for (double v : row) s += (v - mean) * (v - mean);
  return s / (static_cast<double>(row.size()) - 1);
}
double logsumexp_of(const std::vector<double>& row) {
  const double top = max_of(row);
  double s = 0;
  for (double v : row) s += std::exp(v - top);
  return top + std::log(s);
}

double tolerance(ScalarType t) { return t == kBFloat16 ? 5e-3 : t == kHalf ? 1e-3 : t == kFloat ? 1e-6 : 1e-14; }

std::vector<int64_t> random_sizes(std::mt19937_64& rng) {
  static const int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 33, 64, 70, 129, 300};
  std::vector<int64_t> sizes(1 + rng() % 4);
  int64_t count = 1;
  for (int64_t& n : sizes) {
    n = kSizes[rng() % 16];
    if (count * n > 60000) n = 1 + static_cast<int64_t>(rng() % 3);
    count *= n;
  }
  if (sizes.size() < 3 && rng() % 3 == 0) sizes[rng() % sizes.size()] += static_cast<int64_t>(rng() % 9000);
  return sizes;
}

TEST(Reduce, AgreesWithPlainLoops) {
  const uint64_t seed = facula_test::test_seed();
  const ScalarType dtypes[] = {kFloat, kDouble, kHalf, kBFloat16, kInt, kLong, kByte, kBool, kShort};
  for (int round = 0; round < 150; ++round) {
    std::mt19937_64 rng(seed * 1000003 + static_cast<uint64_t>(round));
    const std::vector<int64_t> sizes = random_sizes(rng);
    const ScalarType dtype = dtypes[rng() % 3 == 0 ? 0 : rng() % 9];
    const Tensor x = random_tensor(sizes, dtype, rng);
    std::vector<int64_t> dims;
    uint64_t mask = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (rng() % 2) mask |= uint64_t{1} << d;
    if (mask == 0) mask = uint64_t{1} << rng() % sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d)
      if (mask >> d & 1) dims.push_back(static_cast<int64_t>(d) - (rng() % 2 ? static_cast<int64_t>(sizes.size()) : 0));
    const bool keepdim = rng() % 2;
    SCOPED_TRACE(str("FACULA_SEED=", seed, ", round ", round, ", sizes ", to_text(IntArrayRef(sizes)), ", strides ",
                     to_text(x.strides()), ", dims ", to_text(IntArrayRef(dims)), ", dtype ", toString(dtype)));
    const auto rows = rows_of(x, mask);
    const double eps = isFloatingType(dtype) ? tolerance(dtype) : 0;

    expect_rows(facula::sum(x, dims, keepdim), rows, eps, sum_of, "sum");
    expect_rows(facula::amax(x, dims, keepdim), rows, 0, max_of, "amax");
    expect_rows(facula::amin(x, dims, keepdim), rows, 0, min_of, "amin");
    expect_rows(
        facula::count_nonzero(x, IntArrayRef(dims)), rows, 0,
        [](const auto& r) {
          return static_cast<double>(std::count_if(r.begin(), r.end(), [](double v) { return v != 0; }));
        },
        "count_nonzero");
    if (isFloatingType(dtype)) {
      expect_rows(
          facula::mean(x, dims, keepdim), rows, eps,
          [](const auto& r) { return sum_of(r) / static_cast<double>(r.size()); }, "mean");
      expect_rows(facula::var(x, IntArrayRef(dims), true, keepdim), rows, 2 * eps, var_of, "var");
      expect_rows(facula::logsumexp(x, dims, keepdim), rows, 2 * eps, logsumexp_of, "logsumexp");
      expect_rows(
          facula::norm(x, 2, dims, keepdim), rows, eps,
          [](const auto& r) {
            double s = 0;
            for (double v : r) s += v * v;
            return std::sqrt(s);
          },
          "norm");
    }
    const int64_t one = dims[0];
    const uint64_t one_mask = uint64_t{1} << (one < 0 ? one + static_cast<int64_t>(sizes.size()) : one);
    const auto single = rows_of(x, one_mask);
    expect_rows(facula::argmax(x, one, keepdim), single, 0, argmax_of, "argmax");
    expect_rows(facula::argmin(x, one, keepdim), single, 0, argmin_of, "argmin");
    expect_rows(
        facula::any(x, one, keepdim), single, 0,
        [](const auto& r) { return max_of(r) != 0 || min_of(r) != 0 ? 1.0 : 0.0; }, "any");
    expect_rows(
        facula::all(x, one, keepdim), single, 0,
        [](const auto& r) { return std::count(r.begin(), r.end(), 0.0) == 0 ? 1.0 : 0.0; }, "all");
    const auto [top, at] = facula::max(x, one, keepdim);
    expect_rows(top, single, 0, max_of, "max values");
    expect_rows(at, single, 0, argmax_of, "max indices");
    const auto [middle, where] = facula::median(x, one, keepdim);
    expect_rows(
        middle, single, 0,
        [](std::vector<double> r) {
          std::sort(r.begin(), r.end());
          return r[(r.size() - 1) / 2];
        },
        "median");
    const auto everything = rows_of(x, ~uint64_t{0});
    expect_rows(facula::argmax(x), everything, 0, argmax_of, "argmax of all");
    expect_rows(facula::sum(x), everything, eps, sum_of, "sum of all");
    if (HasFailure()) return;
  }
}

TEST(Reduce, ProductsOfSmallRows) {
  std::mt19937_64 rng(facula_test::test_seed());
  for (ScalarType dtype : {kFloat, kDouble, kLong, kInt}) {
    const Tensor x = random_tensor({50, 9}, dtype, rng, 0.5);
    auto product = [](const std::vector<double>& r) {
      double p = 1;
      for (double v : r) p *= v;
      return p;
    };
    expect_rows(facula::prod(x, 1), rows_of(x, 2), isFloatingType(dtype) ? 1e-5 : 0, product, "prod");
  }
}

std::vector<char> bytes_of(const Tensor& t) {
  const char* p = static_cast<const char*>(t.data_ptr());
  return std::vector<char>(p, p + t.nbytes());
}

TEST(Reduce, ThreadsDoNotChangeABit) {
  std::mt19937_64 rng(facula_test::test_seed() + 17);
  const int before = get_num_threads();
  struct Case {
    std::vector<int64_t> sizes, dims;
  };
  const Case cases[] = {{{1000003}, {0}},        {{700, 1100}, {0}},     {{700, 1100}, {1}},
                        {{3, 300001}, {1}},      {{300001, 3}, {0}},     {{40, 3, 50, 50}, {0, 2, 3}},
                        {{128, 64, 9, 11}, {1}}, {{900, 40, 6}, {0, 2}}, {{200000, 8}, {1}},
                        {{64, 20000}, {0, 1}}};
  for (const Case& c : cases) {
    for (ScalarType dtype : {kFloat, kBFloat16}) {
      SCOPED_TRACE(str(facula_test::seed_text(), ", sizes ", to_text(IntArrayRef(c.sizes)), ", dims ",
                       to_text(IntArrayRef(c.dims))));
      const Tensor x = new_tensor(c.sizes, dtype, Device(kCPU));
      std::vector<double> values(static_cast<size_t>(x.numel()));
      std::normal_distribution<double> normal(1, 3);
      for (double& v : values) v = normal(rng);
      set_values(x, values);
      std::vector<std::vector<char>> first;
      for (int threads : {1, 2, 3, 7}) {
        set_num_threads(threads);
        std::vector<std::vector<char>> now = {bytes_of(facula::sum(x, c.dims, false, kFloat)),
                                              bytes_of(facula::var(x, IntArrayRef(c.dims), true)),
                                              bytes_of(facula::logsumexp(x, c.dims)),
                                              bytes_of(facula::amax(x, c.dims)),
                                              bytes_of(facula::argmax(x)),
                                              bytes_of(facula::norm(x, 3, c.dims, false, kFloat))};
        if (threads == 1) first = now;
        EXPECT_EQ(first, now) << threads << " threads";
      }
      set_num_threads(before);
    }
  }
}

// The fixed tree, built by hand from sums of its leaves: 16 KB each, merged pairwise in groups that are aligned to powers of two.
TEST(Reduce, LeavesMergeInAFixedTree) {
  SCOPED_TRACE(facula_test::seed_text());
  manual_seed(facula_test::test_seed());
  std::mt19937_64 rng(facula_test::test_seed());
  const int64_t leaf = 4096;
  for (int round = 0; round < 40; ++round) {
    const int64_t whole = std::uniform_int_distribution<int64_t>(1, 70)(rng);
    const int64_t n =
        whole * leaf + (round % 3 == 0 ? 0 : std::uniform_int_distribution<int64_t>(-leaf + 1, leaf)(rng));
    const Tensor x = randn({n});
    const std::function<float(int64_t, int64_t)> tree = [&](int64_t first, int64_t leaves) {
      if (leaves == 1) return x.slice(0, first * leaf, std::min(n, (first + 1) * leaf)).sum().item<float>();
      const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves)) / 2);
      return tree(first, half) + tree(first + half, leaves - half);
    };
    EXPECT_EQ(x.sum().item<float>(), tree(0, (n + leaf - 1) / leaf)) << n;
    const int64_t at = x.argmax().item<int64_t>();
    EXPECT_EQ(x.data_ptr<float>()[at], *std::max_element(x.data_ptr<float>(), x.data_ptr<float>() + n)) << n;
  }
}

// Zero has two signs, and -0 is what adds nothing: a sum is -0 where all its terms are, wherever its row lies, however long it is and whoever else
// is in the call. The sum of nothing is +0.
TEST(Reduce, SumsOfZerosKeepTheirSign) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed() + 23);
  auto is_negative = [](double v) { return std::signbit(v); };
  for (ScalarType dtype : {kFloat, kDouble, kBFloat16, kHalf}) {
    for (int64_t rows : {1, 2, 3, 33, 129}) {
      for (int64_t cols : {1, 2, 3, 7, 8, 15, 31, 32, 33, 63, 64, 65, 127, 500, 5000}) {
        SCOPED_TRACE(str(toString(dtype), " ", rows, " x ", cols));
        std::vector<double> values(static_cast<size_t>(rows * cols), -0.0), want(static_cast<size_t>(rows));
        for (int64_t r = 0; r < rows; ++r) {
          const bool mixed = rng() % 3 == 0;
          if (mixed)
            values[static_cast<size_t>(r * cols + static_cast<int64_t>(rng() % static_cast<uint64_t>(cols)))] = 0.0;
          want[static_cast<size_t>(r)] = mixed ? 0.0 : -0.0;
        }
        const Tensor x = new_tensor({rows, cols}, dtype, Device(kCPU));
        set_values(x, values);
        const Tensor turned = x.t().contiguous();
        for (const std::vector<double>& got :
             {values_of(facula::sum(x, 1)), values_of(facula::sum(x.t(), 0)), values_of(facula::sum(turned, 0))}) {
          ASSERT_EQ(got, want);
          for (size_t r = 0; r < got.size(); ++r) ASSERT_EQ(is_negative(got[r]), is_negative(want[r])) << "row " << r;
        }
        const bool all_negative = std::all_of(want.begin(), want.end(), is_negative);
        ASSERT_EQ(is_negative(facula::sum(x).item<double>()), all_negative);
      }
    }
    EXPECT_FALSE(is_negative(facula::sum(new_tensor({0}, dtype, Device(kCPU))).item<double>()));
  }
}

// Normalised rows of -0 are +0, however long they are and however many entries a vector has.
TEST(Reduce, ZerosInNormsHaveOneSign) {
  for (ScalarType dtype : {kFloat, kDouble})
    for (int64_t n = 1; n <= 150; ++n) {
      const Tensor x = full({3, n}, -0.0, TensorOptions().dtype(dtype));
      for (double v : values_of(layer_norm(x, {n}))) {
        ASSERT_EQ(v, 0.0);
        ASSERT_FALSE(std::signbit(v)) << n;
      }
    }
}

// Reductions that round nothing have leaves of their own length; several of them, whole and not, for any number of threads.
TEST(Reduce, ExactReductionsOfManyLeaves) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed() + 31);
  const int before = get_num_threads();
  for (int64_t around : {1 << 12, 1 << 13, 1 << 14, 1 << 16, 1 << 18, 1 << 20})
    for (int64_t n : {around - 1, around, around + 1, around + static_cast<int64_t>(rng() % 5000)}) {
      SCOPED_TRACE(n);
      const Tensor x = new_tensor(n, kFloat, Device(kCPU)), whole = new_tensor(n, kLong, Device(kCPU));
      float* f = x.data_ptr<float>();
      int64_t* w = whole.data_ptr<int64_t>();
      uint64_t sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        f[i] = static_cast<float>(static_cast<int64_t>(rng() >> 24)) - 5e11f;
        w[i] = static_cast<int64_t>(rng());
        sum += static_cast<uint64_t>(w[i]);
      }
      const float most = *std::max_element(f, f + n), least = *std::min_element(f, f + n);
      Tensor one = facula::zeros({n}, kBool);
      one.data_ptr<bool>()[rng() % static_cast<uint64_t>(n)] = true;
      for (int threads : {1, 2, 3}) {
        set_num_threads(threads);
        EXPECT_EQ(x.max().item<float>(), most);
        EXPECT_EQ(x.min().item<float>(), least);
        EXPECT_EQ(whole.sum().item<int64_t>(), static_cast<int64_t>(sum));
        EXPECT_EQ(whole.max().item<int64_t>(), *std::max_element(w, w + n));
        EXPECT_TRUE(one.any().item<bool>());
        EXPECT_FALSE(one.logical_not().all().item<bool>());
        EXPECT_EQ(x.view({1, n}).expand({3, n}).amax(1).sum().item<float>(), most + most + most);
      }
      f[rng() % static_cast<uint64_t>(n)] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(std::isnan(x.max().item<float>()));
      EXPECT_TRUE(std::isnan(x.min().item<float>()));
    }
  set_num_threads(before);
}

TEST(Reduce, SumsStayAccurateOverMillions) {
  const int64_t n = 1 << 24;
  const Tensor x = new_tensor(n, kFloat, Device(kCPU));
  float* p = x.data_ptr<float>();
  std::mt19937_64 rng(facula_test::test_seed());
  double want = 0;
  for (int64_t i = 0; i < n; ++i) {
    p[i] = static_cast<float>(rng() % 1000) / 1000.0f + 0.1f;
    want += static_cast<double>(p[i]);
  }
  EXPECT_NEAR(facula::sum(x).item<double>(), want, want * 3e-7);
  EXPECT_NEAR(facula::mean(x).item<double>(), want / static_cast<double>(n), 3e-7);
  // A large offset must not drown the spread.
  for (int64_t i = 0; i < n; ++i) p[i] = 4096.0f + static_cast<float>(i % 2);
  EXPECT_NEAR(facula::var(x, false).item<double>(), 0.25, 1e-6);
}

TEST(Reduce, SpecialValues) {
  std::vector<double> v(100, 1.0);
  auto tensor_of = [](const std::vector<double>& values, ScalarType t = kFloat) {
    const Tensor x = new_tensor(static_cast<int64_t>(values.size()), t, Device(kCPU));
    set_values(x, values);
    return x;
  };
  for (size_t at : {0u, 3u, 50u, 63u, 64u, 99u}) {
    std::vector<double> w = v;
    w[at] = kNaN;
    const Tensor x = tensor_of(w);
    EXPECT_TRUE(std::isnan(facula::max(x).item<double>()));
    EXPECT_TRUE(std::isnan(facula::min(x).item<double>()));
    EXPECT_EQ(facula::argmax(x).item<int64_t>(), static_cast<int64_t>(at));
    EXPECT_EQ(facula::argmin(x).item<int64_t>(), static_cast<int64_t>(at));
    EXPECT_DOUBLE_EQ(facula::nansum(x).item<double>(), 99);
    EXPECT_DOUBLE_EQ(facula::nanmean(x).item<double>(), 1);
    EXPECT_TRUE(std::isnan(facula::median(x).item<double>()));
    EXPECT_TRUE(std::isnan(facula::logsumexp(x, 0).item<double>()));
  }
  EXPECT_EQ(facula::logsumexp(tensor_of(std::vector<double>(70, -kInf)), 0).item<double>(), -kInf);
  EXPECT_EQ(facula::logsumexp(tensor_of({-kInf, -kInf}), 0).item<double>(), -kInf);
  std::vector<double> mixed(5000, -1000.0);
  mixed[0] = -kInf;
  EXPECT_NEAR(facula::logsumexp(tensor_of(mixed), 0).item<double>(), -1000 + std::log(4999.0), 1e-3);
  mixed[4999] = kInf;
  EXPECT_EQ(facula::logsumexp(tensor_of(mixed), 0).item<double>(), kInf);
  EXPECT_EQ(facula::max(tensor_of(std::vector<double>(10, -kInf))).item<double>(), -kInf);
  EXPECT_EQ(facula::argmax(tensor_of(std::vector<double>(10, -kInf))).item<int64_t>(), 0);
  EXPECT_EQ(facula::argmax(tensor_of(std::vector<double>(5000, 2.0))).item<int64_t>(), 0);
}

TEST(Reduce, NothingToReduce) {
  const Tensor empty = new_tensor({0, 3}, kFloat, Device(kCPU));
  EXPECT_EQ(facula::sum(empty).item<double>(), 0);
  EXPECT_EQ(facula::prod(empty).item<double>(), 1);
  EXPECT_TRUE(std::isnan(facula::mean(empty).item<double>()));
  EXPECT_TRUE(std::isnan(facula::var(empty, true).item<double>()));
  EXPECT_FALSE(facula::any(empty).item<bool>());
  EXPECT_TRUE(facula::all(empty).item<bool>());
  EXPECT_EQ(values_of(facula::sum(empty, 0)), std::vector<double>(3, 0.0));
  EXPECT_EQ(facula::sum(empty, 1).numel(), 0);
  EXPECT_EQ(facula::amax(empty, 1).numel(), 0);
  EXPECT_EQ(values_of(facula::logsumexp(empty, 0)), std::vector<double>(3, -kInf));
  EXPECT_THROW(facula::max(empty), IndexError);
  EXPECT_THROW(facula::amax(empty, 0), IndexError);
  EXPECT_THROW(facula::argmax(empty, 0), IndexError);
  EXPECT_THROW(facula::max(empty, 0), IndexError);
  const Tensor one = new_tensor({}, kFloat, Device(kCPU));
  set_values(one, {5});
  EXPECT_EQ(facula::sum(one, 0).item<double>(), 5);
  EXPECT_EQ(facula::sum(one, -1, true).dim(), 0);
  EXPECT_EQ(facula::argmax(one, 0).item<int64_t>(), 0);
  EXPECT_EQ(std::get<0>(facula::max(one, 0)).item<double>(), 5);
  EXPECT_THROW(facula::sum(one, 1), IndexError);
}

TEST(Reduce, TruthAlongSeveralDimsOrNone) {
  const Tensor x = tensor({0, 3, 0, 0, 1, 2}, kInt).view({2, 3});
  EXPECT_TRUE(any(x, IntArrayRef{}).equal(x.ne(0)));  // no dims: nothing is reduced
  EXPECT_TRUE(all(x, IntArrayRef{}).equal(x.ne(0)));
  EXPECT_TRUE(any(x, std::nullopt).item<bool>());
  EXPECT_FALSE(all(x, {0, 1}).item<bool>());
  EXPECT_EQ(any(x, {0, 1}, true).sizes(), IntArrayRef({1, 1}));
  EXPECT_THROW(any(x, {0, 0}), Error);
}

TEST(Reduce, DtypesAndErrors) {
  std::mt19937_64 rng(facula_test::test_seed());
  const Tensor ints = random_tensor({4, 5}, kInt, rng), floats = random_tensor({4, 5}, kFloat, rng);
  EXPECT_EQ(facula::sum(ints).scalar_type(), kLong);
  EXPECT_EQ(facula::sum(ints, kFloat).scalar_type(), kFloat);
  EXPECT_EQ(facula::any(ints).scalar_type(), kBool);
  EXPECT_EQ(facula::any(random_tensor({3}, kByte, rng)).scalar_type(), kByte);
  EXPECT_THROW(facula::mean(ints), DTypeError);
  EXPECT_THROW(facula::var(ints, true), DTypeError);
  EXPECT_THROW(facula::sum(floats, {0, 0}), ValueError);
  EXPECT_THROW(facula::sum(floats, 2), IndexError);
  EXPECT_TRUE(facula::equal(floats, floats));
  EXPECT_TRUE(facula::allclose(floats, floats));
  const Tensor z = new_tensor({2}, kComplexFloat, Device(kCPU));
  const float parts[] = {1, 2, 3, -4};
  std::memcpy(z.data_ptr(), parts, sizeof(parts));
  EXPECT_EQ(facula::sum(z).item().toComplexDouble(), complex<double>(4, -2));
  EXPECT_EQ(facula::prod(z).item().toComplexDouble(), complex<double>(11, 2));
  EXPECT_NEAR(facula::norm(z).item<double>(), std::sqrt(30.0), 1e-6);
  EXPECT_NEAR(facula::var(z, true).item<double>(), 20.0, 1e-5);
  EXPECT_THROW(facula::max(z), DTypeError);
  const Tensor meta = new_tensor({6, 7}, kFloat, Device(kMeta));
  EXPECT_EQ(facula::sum(meta, 1, true).sizes(), IntArrayRef({6, 1}));
}

// The kernels give the same bits with every instruction set that this machine has.
TEST(Reduce, InstructionSetsAgree) {
  std::mt19937_64 rng(facula_test::test_seed() + 5);
  std::vector<float> data(70000);
  for (float& v : data) v = static_cast<float>(static_cast<double>(rng() % 2000001) / 1e6 - 1.0);
  auto run = [&](ReduceOp op, bool rows, int64_t n, int64_t m) {
    const cpu::ReduceKernel* kernel = cpu::reduce_kernel(op, CType::F32);
    std::vector<double> room[3];
    cpu::States states;
    for (int k = 0; k < kernel->fields; ++k) {
      room[k].assign(static_cast<size_t>(std::max(n, m)), 0);
      states.field[k] = room[k].data();
    }
    const cpu::ReduceTile tile{data.data(), n, m, m, 0, 1, 1};
    (rows ? kernel->rows : kernel->columns)(tile, states);
    kernel->merge(states, states, rows ? n : m);
    return std::vector<std::vector<double>>(room, room + 3);
  };
  const int64_t best = hwy::SupportedTargets();
  const ReduceOp ops[] = {ReduceOp::Sum, ReduceOp::Prod,   ReduceOp::Max,
                          ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::Moments};
  const int64_t shapes[][2] = {{1, 5}, {40, 8}, {33, 7}, {5, 63}, {5, 64}, {3, 1000}, {17, 4096}, {100, 31}, {64, 300}};
  for (ReduceOp op : ops)
    for (auto [n, m] : shapes)
      for (bool rows : {false, true}) {
        const auto reference = run(op, rows, n, m);
        for (int64_t target = best; target != 0; target &= target - 1) {
          hwy::SetSupportedTargetsForTest(target & -target);
          hwy::GetChosenTarget().Update(hwy::SupportedTargets());
          const auto got = run(op, rows, n, m);
          hwy::SetSupportedTargetsForTest(0);
          hwy::GetChosenTarget().Update(hwy::SupportedTargets());
          for (size_t k = 0; k < 3; ++k)
            for (size_t i = 0; i < got[k].size(); ++i)
              EXPECT_EQ(std::bit_cast<uint64_t>(got[k][i]), std::bit_cast<uint64_t>(reference[k][i]))
                  << name_of(op) << " of " << n << " x " << m << (rows ? " rows" : " columns") << ", element " << i
                  << ", on " << hwy::TargetName(target & -target);
        }
      }
}

}  // namespace
}  // namespace facula
