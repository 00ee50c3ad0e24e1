// Sorting, selection, searching and unique values against naive references on random shapes, dims, layouts and dtypes.
#include <facula/facula.h>

#include "cpp/seed.h"
#include "cpu/sort_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace facula {
namespace {

const ScalarType kOrdered[] = {kFloat, kDouble, kHalf, kBFloat16, kFloat8_e5m2, kFloat8_e4m3fn, kByte, kChar,
                               kShort, kInt,    kLong, kUInt16,   kUInt32,      kUInt64,        kBool};

// NaN is the greatest, both zeros are equal.
bool before(double a, double b) { return std::isnan(a) ? false : std::isnan(b) ? true : a < b; }
bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

class SortTest : public testing::Test {
 protected:
  SortTest() : seed(facula_test::test_seed()), gen(seed) {}
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(gen); }

  // Values with ties; floats also get special ones. Small enough in size for every dtype to hold.
  Tensor draw(IntArrayRef sizes, ScalarType t, int64_t spread = 40) {
    Tensor x = empty(sizes, TensorOptions().dtype(kDouble));
    double* p = x.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      p[i] = static_cast<double>(pick(isSignedType(t) ? -spread : 0, spread));
      if (!isFloatingType(t)) continue;
      p[i] *= 0.5;
      const int64_t special = pick(0, 30);
      if (special == 0) p[i] = NAN;
      if (special == 1) p[i] = -0.0;
      if (special == 2 && t != kFloat8_e4m3fn) p[i] = INFINITY;
      if (special == 3 && t != kFloat8_e4m3fn) p[i] = -INFINITY;
    }
    return x.to(t);
  }
  // Some other layout of the same values.
  Tensor relayout(const Tensor& x) {
    if (x.dim() < 2 || pick(0, 1) == 0) return x;
    const int64_t a = pick(0, x.dim() - 1), b = pick(0, x.dim() - 1);
    return x.transpose(a, b).contiguous().transpose(a, b);
  }
  // The rows along dim, as doubles.
  static std::vector<std::vector<double>> rows(const Tensor& x, int64_t dim) {
    const Tensor last = (x.dim() == 0 ? x.reshape({1}) : x.transpose(dim, -1)).to(kDouble).contiguous();
    const int64_t n = last.size(-1), count = n == 0 ? 0 : last.numel() / n;
    const double* p = last.data_ptr<double>();
    std::vector<std::vector<double>> out;
    for (int64_t r = 0; r < count; ++r) out.emplace_back(p + r * n, p + (r + 1) * n);
    return out;
  }
  static std::vector<int64_t> stable_order(const std::vector<double>& row, bool descending) {
    std::vector<int64_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double a = row[static_cast<size_t>(i)], b = row[static_cast<size_t>(j)];
      return descending ? before(b, a) : before(a, b);
    });
    return order;
  }
  // The first `k` of each row in order.
  void expect_ordered(const Tensor& x, int64_t dim, bool descending, int64_t k, const Tensor& values,
                      const Tensor& indices) {
    const auto in = rows(x, dim), v = rows(values, dim), at = rows(indices, dim);
    ASSERT_EQ(values.scalar_type(), x.scalar_type());
    ASSERT_EQ(indices.scalar_type(), kLong);
    ASSERT_EQ(k == 0 ? 0u : in.size(), v.size());
    for (size_t r = 0; r < v.size(); ++r) {
      const auto order = stable_order(in[r], descending);
      for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
        ASSERT_EQ(at[r][i], static_cast<double>(order[i]))
            << "seed " << seed << " row " << r << " place " << i << " of " << in[r].size() << " "
            << toString(x.scalar_type());
        ASSERT_TRUE(same(v[r][i], in[r][static_cast<size_t>(order[i])])) << "row " << r << " place " << i;
      }
    }
  }

  uint64_t seed;
  std::mt19937_64 gen;
};

TEST_F(SortTest, RandomShapesAndDtypes) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  for (const ScalarType t : kOrdered) {
    for (int round = 0; round < 12; ++round) {
      const int64_t lengths[] = {0, 1, 2, 7, 12, 13, 64, 96, 97, 130, 700, 1500};
      std::vector<int64_t> sizes;
      const int64_t rank = pick(1, 3);
      for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(1, 20));
      const int64_t dim = pick(0, rank - 1);
      sizes[static_cast<size_t>(dim)] = lengths[round];
      const Tensor x = relayout(draw(sizes, t));
      const bool descending = pick(0, 1) == 1;
      const auto [values, indices] = sort(x, dim, descending);
      expect_ordered(x, dim, descending, x.size(dim), values, indices);
      const int64_t k = pick(0, x.size(dim));
      const auto [top, where] = topk(x, k, dim, descending);
      expect_ordered(x, dim, descending, k, top, where);
      if (x.size(dim) == 0) continue;
      const int64_t kth = pick(1, x.size(dim));
      const auto [value, index] = kthvalue(x, kth, dim, true);
      const auto in = rows(x, dim), v = rows(value, dim), at = rows(index, dim);
      for (size_t r = 0; r < in.size(); ++r) {
        const int64_t expected = stable_order(in[r], false)[static_cast<size_t>(kth - 1)];
        ASSERT_EQ(at[r][0], static_cast<double>(expected));
        ASSERT_TRUE(same(v[r][0], in[r][static_cast<size_t>(expected)]));
      }
    }
  }
}

TEST_F(SortTest, WholeRangeOfWideKeys) {
  // Random bits: keys that differ in all places, and many that agree in the upper ones.
  for (const ScalarType t : {kLong, kUInt64, kDouble}) {
    for (const int64_t n : {5, 50, 3000}) {
      Tensor bits = empty({n}, TensorOptions().dtype(kLong));
      std::mt19937_64 wide(seed);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t far = wide(), near = wide() & 7, both = (far % 5) << 60 | near;
        bits.data_ptr<int64_t>()[i] = static_cast<int64_t>(pick(0, 2) == 0 ? near : pick(0, 1) == 0 ? far : both);
      }
      Tensor x = empty({n}, TensorOptions().dtype(t));
      std::memcpy(x.data_ptr(), bits.data_ptr(), static_cast<size_t>(n) * 8);
      const auto [values, indices] = sort(x, std::optional<bool>(true), 0, false);
      const int64_t* at = indices.data_ptr<int64_t>();
      const auto less = [&](int64_t i, int64_t j) {
        if (t == kLong) return x.data_ptr<int64_t>()[i] < x.data_ptr<int64_t>()[j];
        if (t == kUInt64) return x.data_ptr<uint64_t>()[i] < x.data_ptr<uint64_t>()[j];
        return before(x.data_ptr<double>()[i], x.data_ptr<double>()[j]);
      };
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), less);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(at[i], order[static_cast<size_t>(i)]) << "seed " << seed << " " << toString(t);
        ASSERT_EQ(
            std::memcmp(static_cast<char*>(values.data_ptr()) + 8 * i, static_cast<char*>(x.data_ptr()) + 8 * at[i], 8),
            0);
      }
    }
  }
}

TEST_F(SortTest, LongRowsAnyNumberOfThreads) {
  const int threads = get_num_threads();
  for (const ScalarType t : {kFloat, kDouble, kHalf, kLong}) {
    const Tensor x = draw({200000}, t, 30);
    const Tensor strided = draw({70000, 2}, t, 1000);
    for (const int count : {1, 2, 3, 5}) {
      set_num_threads(count);
      const auto [values, indices] = sort(x, 0, true);
      expect_ordered(x, 0, true, x.numel(), values, indices);
      const auto [top, where] = topk(x, 100, 0, false);
      expect_ordered(x, 0, false, 100, top, where);
      const auto [v2, i2] = sort(strided, 0, false);
      expect_ordered(strided, 0, false, 70000, v2, i2);
      const auto [v3, i3] = topk(strided, 50000, 0, true);
      expect_ordered(strided, 0, true, 50000, v3, i3);
    }
  }
  set_num_threads(threads);
}

TEST_F(SortTest, ComparisonSortAgrees) {
  for (const ScalarType t : {kFloat, kLong, kByte}) {
    const Tensor x = draw({500}, t);
    Tensor values = empty_like(x), indices = empty({500}, TensorOptions().dtype(kLong));
    detail::sort_row_by_comparison(t, x.data_ptr(), 500, true, 500, values.data_ptr(), indices.data_ptr<int64_t>());
    expect_ordered(x, 0, true, 500, values, indices);
  }
}

TEST_F(SortTest, TopkOfAscendingAndEqualRows) {
  const Tensor up = arange(5000, TensorOptions().dtype(kFloat));
  const auto [values, indices] = topk(up, 7);
  expect_ordered(up, 0, true, 7, values, indices);
  const Tensor flat = full({5000}, 3.0, TensorOptions().dtype(kDouble));
  const auto [v, i] = topk(flat, 600);
  expect_ordered(flat, 0, true, 600, v, i);
}

TEST_F(SortTest, MetaZeroDimAndErrors) {
  const Tensor meta = empty({3, 4}, TensorOptions().dtype(kHalf).device(kMeta));
  EXPECT_EQ(std::get<0>(sort(meta, 0)).sizes(), IntArrayRef({3, 4}));
  EXPECT_EQ(std::get<1>(topk(meta, 2)).sizes(), IntArrayRef({3, 2}));
  const Tensor number = full({}, 2.5, TensorOptions().dtype(kFloat));
  EXPECT_EQ(std::get<0>(sort(number)).item<float>(), 2.5f);
  EXPECT_EQ(std::get<1>(kthvalue(number, 1)).item<int64_t>(), 0);
  EXPECT_EQ(std::get<0>(topk(number, 1)).dim(), 0);
  const Tensor x = draw({3, 4}, kFloat);
  EXPECT_THROW(sort(x, 2), IndexError);
  EXPECT_THROW(topk(x, 5), IndexError);
  EXPECT_THROW(kthvalue(x, 0), IndexError);
  EXPECT_THROW(sort(x.to(kComplexFloat)), DTypeError);
  EXPECT_EQ(msort(x).sizes(), x.sizes());
  EXPECT_TRUE(equal(argsort(x, 1, true), std::get<1>(sort(x, 1, true))));
}

TEST_F(SortTest, SearchSorted) {
  for (const ScalarType t : {kFloat, kDouble, kHalf, kInt, kLong, kByte, kUInt64}) {
    for (const int64_t n : {0, 1, 2, 3, 16, 33, 1000}) {
      const Tensor unsorted = nan_to_num(draw({3, n}, t).to(kDouble), 0.0).to(t);
      const auto [sequence, sorter] = sort(unsorted, 1);
      const Tensor values = draw({3, 37}, t, 45);
      for (const bool right : {false, true}) {
        const Tensor at = searchsorted(sequence, values, false, right);
        const Tensor narrow = searchsorted(unsorted, values, true, false, right ? "right" : "left", sorter);
        EXPECT_EQ(narrow.scalar_type(), kInt);
        EXPECT_TRUE(equal(narrow.to(kLong), at));
        const auto s = rows(sequence, 1), v = rows(values, 1), found = rows(at, 1);
        for (size_t r = 0; r < found.size(); ++r) {
          for (size_t j = 0; j < v[r].size(); ++j) {
            int64_t expected = 0;
            if (n > 0)
              for (const double b : s[r]) expected += right ? !before(v[r][j], b) : before(b, v[r][j]);
            ASSERT_EQ(found[r][j], static_cast<double>(expected))
                << "seed " << seed << " " << toString(t) << " n " << n;
          }
        }
      }
    }
  }
  const Tensor edges = arange(5, TensorOptions().dtype(kLong));
  EXPECT_EQ(searchsorted(edges, Scalar(2.5)).item<int64_t>(), 3);
  EXPECT_EQ(bucketize(Scalar(2), edges, false, true).item<int64_t>(), 3);
  EXPECT_THROW(searchsorted(edges, edges.to(kFloat)), DTypeError);
  EXPECT_THROW(searchsorted(edges, edges, false, true, "left"), ValueError);
  EXPECT_THROW(searchsorted(edges, edges, false, false, "middle"), ValueError);
  EXPECT_THROW(searchsorted(edges, edges, false, false, std::nullopt, edges + 1), IndexError);
}

TEST_F(SortTest, IsinCounts) {
  const Tensor x = draw({50, 3}, kFloat), tests = draw({20}, kFloat);
  const Tensor found = isin(x, tests), missing = isin(x, tests, false, true);
  EXPECT_TRUE(equal(found, missing.logical_not()));
  const auto v = rows(x.reshape({150}), 0)[0], s = rows(tests, 0)[0];
  const bool* f = found.data_ptr<bool>();
  for (size_t i = 0; i < v.size(); ++i)
    EXPECT_EQ(f[i], std::any_of(s.begin(), s.end(), [&](double b) { return b == v[i]; }));
  EXPECT_TRUE(isin(Scalar(3), arange(5, TensorOptions().dtype(kLong))).item<bool>());

  const Tensor numbers = draw({100000}, kInt).abs();
  const Tensor counts = bincount(numbers, std::nullopt, 60), weights = rand({100000});
  EXPECT_EQ(counts.size(0), 60);
  EXPECT_EQ(counts.sum().item<int64_t>(), 100000);
  EXPECT_EQ(counts.data_ptr<int64_t>()[7], numbers.eq(7).sum().item<int64_t>());
  const Tensor sums = bincount(numbers, weights);
  EXPECT_EQ(sums.scalar_type(), kFloat);
  EXPECT_NEAR(sums.data_ptr<float>()[7], weights.to(kDouble).mul(numbers.eq(7)).sum().item<double>(), 1e-3);
  EXPECT_THROW(bincount(numbers - 100), ValueError);
  EXPECT_EQ(bincount(empty({0}, TensorOptions().dtype(kLong)), std::nullopt, 3).sum().item<int64_t>(), 0);

  const Tensor h = histc(arange(10, TensorOptions().dtype(kFloat)), 5, 0, 10);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(h.data_ptr<float>()[i], 2.0f);
  EXPECT_EQ(histc(full({4}, 2.0, TensorOptions().dtype(kDouble)), 2).data_ptr<double>()[1], 4.0);
  EXPECT_THROW(histc(h, 0), ValueError);
  EXPECT_THROW(histc(h, 5, 3, 1), ValueError);
}

TEST_F(SortTest, Unique) {
  for (const ScalarType t : {kFloat, kHalf, kLong, kBool, kByte}) {
    const Tensor x = nan_to_num(draw({40, 7}, t).to(kDouble), 1.0, 50.0, -50.0).to(t);
    const auto [values, inverse, counts] = _unique2(x, true, true, true);
    std::map<double, int64_t> expected;
    const Tensor flat = x.to(kDouble).reshape({280});
    for (int64_t i = 0; i < 280; ++i) ++expected[flat.data_ptr<double>()[i] + 0.0];
    ASSERT_EQ(values.numel(), static_cast<int64_t>(expected.size()));
    int64_t i = 0;
    for (const auto& [value, count] : expected) {
      EXPECT_EQ(values.to(kDouble).data_ptr<double>()[i], value);
      EXPECT_EQ(counts.data_ptr<int64_t>()[i++], count);
    }
    EXPECT_EQ(inverse.sizes(), x.sizes());
    EXPECT_TRUE(equal(values.to(kDouble).index_select(0, inverse.reshape({280})), flat));
  }
  const Tensor nans = full({3}, NAN, TensorOptions().dtype(kFloat));
  EXPECT_EQ(std::get<0>(_unique2(nans)).numel(), 3);

  for (const int64_t dim : {0, 1, 2}) {
    const Tensor x =
        draw({6, 5, 4}, kLong, 1).select(1, 0).unsqueeze(1).expand({6, 5, 4}).transpose(0, dim).contiguous();
    const auto [values, inverse, counts] = unique_dim(x, dim, true, true, true);
    EXPECT_TRUE(equal(values.index_select(dim, inverse), x));
    EXPECT_EQ(counts.sum().item<int64_t>(), x.size(dim));
    const auto [again, inverse2, counts2] = unique_dim(values, dim, true, true, true);
    EXPECT_TRUE(equal(again, values));
    const auto [runs, inverse3, counts3] = unique_consecutive(x, true, true, dim);
    EXPECT_TRUE(equal(runs.index_select(dim, inverse3), x));
  }
  const Tensor y = tensor({1, 1, 2, 2, 2, 1});
  const auto [runs, inverse, counts] = unique_consecutive(y, true, true);
  EXPECT_TRUE(equal(runs.to(kLong), tensor({1, 2, 1}).to(kLong)));
  EXPECT_TRUE(equal(counts, tensor({2, 3, 1}).to(kLong)));
  EXPECT_TRUE(equal(inverse, tensor({0, 0, 1, 1, 1, 2}).to(kLong)));
  EXPECT_EQ(std::get<0>(unique_consecutive(empty({0}))).numel(), 0);
}

}  // namespace
}  // namespace facula
