// Ops at indices: gather, scatters, index_*, masks, take, put, embedding, and the C++ index syntax. Random expressions
// are in index_property_test.cpp.
#include <facula/facula.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cpp/expect.h"
#include "cpp/seed.h"

namespace facula {
namespace {

using namespace indexing;
using Shape = std::vector<int64_t>;

Tensor longs(const std::vector<int64_t>& values, const Shape& shape) {
  Tensor t = empty(shape, kLong);
  std::copy(values.begin(), values.end(), t.data_ptr<int64_t>());
  return t;
}
Tensor longs(const std::vector<int64_t>& values) { return longs(values, {static_cast<int64_t>(values.size())}); }
Tensor bools(const std::vector<bool>& values) {
  Tensor t = empty({static_cast<int64_t>(values.size())}, kBool);
  for (size_t i = 0; i < values.size(); ++i) t.data_ptr<bool>()[i] = values[i];
  return t;
}
Tensor numbers(const Shape& shape, ScalarType dtype = kFloat) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return arange(n, kLong).view(shape).to(dtype);
}
std::vector<double> values_of(const Tensor& t) {
  const Tensor d = (t.is_complex() ? real(t) : t).to(kDouble).contiguous();
  return {d.data_ptr<double>(), d.data_ptr<double>() + d.numel()};
}
using Values = std::vector<double>;

TEST(IndexSyntax, BasicPartsMakeViews) {
  Tensor x = numbers({3, 4, 5});
  EXPECT_TRUE(x[1].is_alias_of(x));
  EXPECT_EQ(x[1].sizes(), (Shape{4, 5}));
  EXPECT_EQ(x[-1][2][3].item<float>(), 53);
  Tensor v = x.index({Slice(1, None, 2), None, "...", 3});
  EXPECT_TRUE(v.is_alias_of(x));
  EXPECT_EQ(v.sizes(), (Shape{1, 1, 4}));
  EXPECT_EQ(values_of(v), (Values{23, 28, 33, 38}));
  EXPECT_TRUE(x.index({Ellipsis}).is_alias_of(x));
  EXPECT_FALSE(x.index({Ellipsis}).is_same(x));
  EXPECT_EQ(x.index({Slice(None, -1), Slice(2, 100), Slice(-2, None)}).sizes(), (Shape{2, 2, 2}));
  EXPECT_EQ(x.index({Slice(2, 1)}).sizes(), (Shape{0, 4, 5}));
  EXPECT_EQ(x.index({true}).sizes(), (Shape{1, 3, 4, 5}));
  EXPECT_EQ(x.index({false}).sizes(), (Shape{0, 3, 4, 5}));
  EXPECT_EQ(x[longs({2}, {})].sizes(), (Shape{4, 5}));
  EXPECT_EQ(x[longs({2, 0})].sizes(), (Shape{2, 4, 5}));
  EXPECT_EQ(x[Scalar(2)].sizes(), (Shape{4, 5}));
}

TEST(IndexSyntax, AdvancedPartsStayOrMoveToTheFront) {
  Tensor x = numbers({2, 3, 4, 5});
  Tensor i = longs({0, 1, 1, 0, 1, 0}, {2, 3});
  EXPECT_EQ(x.index({Slice(), i, i}).sizes(), (Shape{2, 2, 3, 5}));
  EXPECT_EQ(x.index({i, Slice(), i}).sizes(), (Shape{2, 3, 3, 5}));
  EXPECT_EQ(x.index({i, None, i}).sizes(), (Shape{2, 3, 1, 4, 5}));
  EXPECT_EQ(x.index({Slice(), longs({0, 2}), 1}).sizes(), (Shape{2, 2, 5}));
  EXPECT_EQ(x.index({longs({0, 1}, {2, 1}), longs({0, 2})}).sizes(), (Shape{2, 2, 4, 5}));
  EXPECT_EQ(values_of(x.index({longs({1, -1}), longs({0, -1}), longs({2, 3}), 0})), (Values{70, 115}));
  Tensor mask = x.gt(60);
  EXPECT_EQ(values_of(x.index({mask})), values_of(numbers({120}).slice(0, 61)));
  EXPECT_EQ(x.index({1, mask[0].select(2, 0).logical_not()}).sizes(), (Shape{12, 5}));
}

TEST(IndexSyntax, AssignmentWritesThroughViews) {
  Tensor x = zeros({3, 4}, kFloat);
  x.index({Slice(), 1}) = 5;
  x[0] = ones({4});
  x.index_put_({2, Slice(2, None)}, numbers({1, 1, 2}));
  x.index_put_({longs({1, 1}), longs({0, 3})}, 9);
  EXPECT_EQ(values_of(x), (Values{1, 1, 1, 1, 9, 5, 0, 9, 0, 5, 0, 1}));
  x.index_put_({x.eq(5)}, -1);
  EXPECT_EQ(values_of(x), (Values{1, 1, 1, 1, 9, -1, 0, 9, 0, -1, 0, 1}));
  x.t().index_put_({longs({3, 3})}, longs({1, 2, 3, 4, 5, 6}, {2, 3}).to(kFloat));
  EXPECT_EQ(values_of(x.select(1, 3)), (Values{4, 5, 6}));
  x.index_put_({false}, 100);
  EXPECT_EQ(x.max().item<float>(), 9);
  Tensor flags = bools({true, false, true});
  flags.index_put_({flags}, false);
  EXPECT_FALSE(flags.any().item<bool>());
}

TEST(IndexSyntax, Errors) {
  Tensor x = numbers({5, 2});
  EXPECT_RAISES(x[7], IndexError, "index 7 is out of bounds for dimension 0 with size 5");
  EXPECT_RAISES(x[-6], IndexError, "index -6 is out of bounds for dimension 0 with size 5");
  EXPECT_RAISES(x[0][0][0], IndexError, "invalid index of a 0-dim tensor");
  EXPECT_RAISES(x[Scalar(1.5)], IndexError, "integral");
  EXPECT_RAISES(x.index({0, 0, 0}), IndexError, "too many indices for tensor of dimension 2");
  EXPECT_RAISES(x.index({Slice(), 2}), IndexError, "index 2 is out of bounds for dimension 1 with size 2");
  EXPECT_RAISES(x.index({longs({1, 7})}), IndexError, "index 7 is out of bounds for dimension 0 with size 5");
  EXPECT_RAISES(x.index({Slice(), longs({0, -3})}), IndexError,
                "index -3 is out of bounds for dimension 1 with size 2");
  EXPECT_RAISES(x.index({Slice(0, 2, 0)}), ValueError, "step must be greater than zero");
  EXPECT_RAISES(x.index({Slice(0, 2, -1)}), ValueError, "step must be greater than zero");
  EXPECT_RAISES(x.index({"..", 0}), ValueError, "...");
  EXPECT_RAISES(x.index({"...", 0, "..."}), IndexError, "single ellipsis");
  EXPECT_RAISES(x.index({arange(2, kFloat)}), IndexError,
                "tensors used as indices must be long, int, byte or bool tensors");
  EXPECT_RAISES(x.index({bools({true})}), IndexError,
                "does not match the shape of the indexed tensor [5, 2] at index 0");
  EXPECT_RAISES(x.index({longs({0, 1}), longs({0, 1, 1})}), IndexError,
                "could not be broadcast together with shapes [2], [3]");
  EXPECT_RAISES(x.index_put_({longs({0, 1})}, numbers({3})), ShapeError,
                "cannot be broadcast to indexing result of shape [2, 2]");
  EXPECT_RAISES(x.index_put_({longs({0, 1})}, longs({3, 4})), DTypeError, "dtypes match");
  EXPECT_RAISES(x.index_put_({longs({0, 1})}, x.slice(0, 2, 4)), ValueError, "clone()");
  EXPECT_RAISES(ones({1, 1}).expand({3, 3}).index_put_({longs({0})}, 2), ValueError, "clone()");
  EXPECT_RAISES(x.index_put_({longs({0})}, Scalar(complex<double>(1, 2))), DTypeError, "imaginary");
  EXPECT_EQ(values_of(x), values_of(numbers({5, 2})));
}

TEST(IndexMeta, ShapesWithoutData) {
  Tensor x = empty({3, 4, 5}, TensorOptions(kFloat).device(kMeta));
  Tensor i = empty({2, 6}, TensorOptions(kLong).device(kMeta));
  EXPECT_EQ(x.index({Slice(), i}).sizes(), (Shape{3, 2, 6, 5}));
  EXPECT_EQ(embedding(x[0], i).sizes(), (Shape{2, 6, 5}));
  EXPECT_EQ(x.take(i).sizes(), (Shape{2, 6}));
  EXPECT_EQ(x.index_select(1, i[0]).sizes(), (Shape{3, 6, 5}));
  EXPECT_RAISES(x.nonzero(), NotSupportedError, "meta");
  EXPECT_RAISES(x.masked_select(x.gt(0)), NotSupportedError, "meta");
  EXPECT_RAISES(x.index({x.gt(0)}), NotSupportedError, "meta");
}

// gather and the scatters on random tensors against loops over every entry.
class RandomScatter : public testing::Test {
 protected:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  // A tensor with gaps or another order of dims, of whole numbers.
  Tensor draw_tensor(const Shape& shape, ScalarType dtype, int64_t low, int64_t high) {
    Shape memory = shape;
    const size_t dims = shape.size();
    const size_t a = dims ? static_cast<size_t>(draw(0, static_cast<int64_t>(dims) - 1)) : 0;
    const size_t b = dims ? static_cast<size_t>(draw(0, static_cast<int64_t>(dims) - 1)) : 0;
    if (dims) std::swap(memory[a], memory[b]);
    Tensor t = empty(memory, kLong);
    for (int64_t i = 0; i < t.numel(); ++i) t.data_ptr<int64_t>()[i] = draw(low, high);
    t = t.to(dtype);
    return dims ? t.transpose(static_cast<int64_t>(a), static_cast<int64_t>(b)) : t;
  }

  std::mt19937_64 random_{facula_test::test_seed()};
  testing::ScopedTrace trace_{__FILE__, __LINE__, facula_test::seed_text()};
};

double fold(const std::string& how, double a, double b) {
  if (how == "set") return b;
  if (how == "sum" || how == "mean") return a + b;
  if (how == "prod") return a * b;
  return how == "amax" ? std::max(a, b) : std::min(a, b);
}

TEST_F(RandomScatter, AgreesWithLoops) {
  constexpr ScalarType kTypes[] = {kLong, kFloat, kDouble, kInt, kShort, kComplexDouble};
  for (int round = 0; round < 2000; ++round) {
    const int64_t dims = draw(0, 4), dim = dims ? draw(0, dims - 1) : 0;
    Shape shape, index_shape, src_shape;
    for (int64_t d = 0; d < dims; ++d) {
      shape.push_back(draw(1, 5));
      index_shape.push_back(draw(0, 9) == 0 ? 0 : draw(1, d == dim ? 6 : shape.back()));
      src_shape.push_back(index_shape.back() + draw(0, 1));
    }
    const ScalarType dtype = kTypes[draw(0, 5)];
    Tensor self = draw_tensor(shape, dtype, -4, 4), src = draw_tensor(src_shape, dtype, -4, 4);
    const int64_t size = dims ? shape[static_cast<size_t>(dim)] : 1;
    Tensor index = draw_tensor(index_shape, kLong, 0, size - 1);
    if (dims == 2 && draw(0, 3) == 0 && index.numel() > 0) index = index.slice(1, 0, 1).expand(index_shape);
    const Values before = values_of(self), from = values_of(src), at = values_of(index);

    const bool fits = index.numel() > 0;
    Values picked;
    std::vector<size_t> places, sources;
    Shape counter(index_shape.size(), 0);
    for (int64_t k = 0; k < index.numel(); ++k) {
      int64_t place = 0, source = 0;
      for (size_t d = 0; d < counter.size(); ++d) {
        place = place * shape[d] +
                (static_cast<int64_t>(d) == dim ? static_cast<int64_t>(at[static_cast<size_t>(k)]) : counter[d]);
        source = source * src_shape[d] + counter[d];
      }
      places.push_back(static_cast<size_t>(place));
      sources.push_back(static_cast<size_t>(source));
      picked.push_back(before[static_cast<size_t>(place)]);
      for (size_t d = counter.size(); d-- > 0;) {
        if (++counter[d] < index_shape[d]) break;
        counter[d] = 0;
      }
    }
    ASSERT_EQ(values_of(self.gather(dim, index)), picked);
    ASSERT_EQ(values_of(self.gather(dim, index.to(kInt))), picked);

    for (const std::string how : {"set", "sum", "prod", "mean", "amax", "amin"}) {
      for (const bool include_self : {true, false}) {
        if (isComplexType(dtype) && how[0] == 'a') continue;
        if (how == "set" && !include_self) continue;
        Values want = before;
        std::vector<int> hits(want.size(), 0);
        for (size_t k = 0; k < places.size(); ++k) {
          double& w = want[places[k]];
          const double v = from[sources[k]];
          w = hits[places[k]]++ == 0 && !include_self ? v : fold(how, w, v);
        }
        for (size_t k = 0; how == "mean" && fits && k < want.size(); ++k) {
          const int n = hits[k] + (include_self ? 1 : 0);
          if (n > 1) want[k] = isIntegralType(dtype, false) ? std::floor(want[k] / n) : want[k] / n;
        }
        Tensor got;
        if (how == "set") got = self.scatter(dim, index, src);
        else if (how == "sum" && include_self) got = self.scatter_add(dim, index, src);
        else got = self.scatter_reduce(dim, index, src, how, include_self);
        const Values have = values_of(got);
        SCOPED_TRACE(testing::Message() << how << (include_self ? " with self " : " ") << toString(dtype) << " dim "
                                        << dim << " self " << to_text(IntArrayRef(shape)) << " index "
                                        << to_text(IntArrayRef(index_shape)));
        for (size_t k = 0; k < want.size(); ++k) {
          double expected = want[k];
          if (dtype == kFloat) expected = static_cast<float>(expected);
          if (dtype == kShort) expected = static_cast<int16_t>(static_cast<int64_t>(expected));
          ASSERT_EQ(have[k], expected) << "entry " << k;
        }
      }
    }
    ASSERT_EQ(values_of(self), before);
  }
}

TEST_F(RandomScatter, SlicesAgreeWithLoops) {
  constexpr ScalarType kTypes[] = {kLong, kFloat, kDouble, kInt, kShort, kComplexDouble, kHalf};
  for (int round = 0; round < 1000; ++round) {
    const int64_t dims = draw(1, 4), dim = draw(0, dims - 1);
    Shape shape, src_shape;
    for (int64_t d = 0; d < dims; ++d) {
      shape.push_back(draw(1, 5));
      src_shape.push_back(d == dim ? draw(0, 6) : shape.back());
    }
    const ScalarType dtype = kTypes[draw(0, 6)];
    const int64_t n = src_shape[static_cast<size_t>(dim)];
    const Tensor self = draw_tensor(shape, dtype, -4, 4), src = draw_tensor(src_shape, dtype, -4, 4);
    const Tensor index = draw_tensor({n}, kLong, 0, shape[static_cast<size_t>(dim)] - 1);
    Tensor picked = empty(src_shape, self.options()), added = self.clone(), copied = self.clone(),
           filled = self.clone();
    for (int64_t k = 0; k < n; ++k) {
      const int64_t at = index[k].item<int64_t>();
      picked.select(dim, k).copy_(self.select(dim, at));
      added.select(dim, at).add_(src.select(dim, k), 2);
      copied.select(dim, at).copy_(src.select(dim, k));
      filled.select(dim, at).fill_(3);
    }
    ASSERT_EQ(values_of(self.index_select(dim, index)), values_of(picked));
    ASSERT_EQ(values_of(self.index_select(dim, index.to(kInt))), values_of(picked));
    ASSERT_EQ(values_of(self.index_add(dim, index, src, 2)), values_of(added));
    ASSERT_EQ(values_of(self.index_copy(dim, index, src)), values_of(copied));
    ASSERT_EQ(values_of(self.index_fill(dim, index, 3)), values_of(filled));
    ASSERT_EQ(values_of(self.index_fill(dim, index - shape[static_cast<size_t>(dim)], full({}, 3, kInt))),
              values_of(filled));
  }
}

TEST_F(RandomScatter, MasksAgreeWithLoops) {
  constexpr ScalarType kTypes[] = {kLong, kFloat, kByte, kBool, kComplexDouble, kHalf};
  for (const int64_t n : {0, 1, 7, 8, 9, 100, 1023, 1024, 1025, 16384, 40000}) {
    for (const int64_t percent : {0, 1, 50, 99, 100}) {
      const ScalarType dtype = kTypes[draw(0, 5)];
      Tensor mask = empty({n}, kBool);
      for (int64_t i = 0; i < n; ++i) mask.data_ptr<bool>()[i] = draw(1, 100) <= percent;
      const Tensor x = draw_tensor({n}, dtype, 0, 9), source = draw_tensor({n}, dtype, 0, 9);
      const Values all = values_of(x), from = values_of(source);
      Values selected, scattered = all, filled = all, positions;
      for (int64_t i = 0; i < n; ++i) {
        if (!mask.data_ptr<bool>()[i]) continue;
        scattered[static_cast<size_t>(i)] = from[selected.size()];
        filled[static_cast<size_t>(i)] = 1;
        selected.push_back(all[static_cast<size_t>(i)]);
        positions.push_back(static_cast<double>(i));
      }
      ASSERT_EQ(values_of(x.masked_select(mask)), selected);
      ASSERT_EQ(values_of(x.index({mask})), selected);
      ASSERT_EQ(values_of(x.masked_scatter(mask, source)), scattered);
      ASSERT_EQ(values_of(x.masked_fill(mask, 1)), filled);
      ASSERT_EQ(values_of(mask.nonzero()), positions);
      ASSERT_EQ(values_of(mask.to(kFloat).argwhere()), positions);
      Tensor square = mask.slice(0, 0, n / 5 * 5).view({-1, 5}).t();
      const Tensor where = square.to(kDouble).nonzero();
      ASSERT_EQ(where.sizes(), (Shape{square.sum().item<int64_t>(), 2}));
      if (where.numel() > 0) {
        ASSERT_TRUE(square.index({where.select(1, 0), where.select(1, 1)}).all().item<bool>());
        const Tensor keys = where.select(1, 0) * square.size(1) + where.select(1, 1);
        ASSERT_TRUE(keys.slice(0, 1).gt(keys.slice(0, 0, -1)).all().item<bool>());
      }
    }
  }
}

TEST(Index, EqualForAnyNumberOfThreads) {
  const int threads = get_num_threads();
  const Tensor x = facula::remainder(arange(300 * 400, kLong) * 7919, 1009).view({300, 400}).to(kFloat) / 7;
  const Tensor index = facula::remainder(arange(5000, kLong) * 104729, 300);
  const Tensor src = facula::remainder(arange(5000 * 400, kLong) * 31, 997).view({5000, 400}).to(kFloat) / 3;
  auto all = [&] {
    return std::vector<Tensor>{x.index_add(0, index, src),
                               x.index_copy(0, index, src),
                               index_put(x, {index}, src, true),
                               x.scatter_add(0, index.view({-1, 1}).expand({5000, 400}), src),
                               x.scatter_add(0, index.view({-1, 1}).expand({5000, 400}).contiguous(), src),
                               x.scatter(0, index.view({-1, 1}).expand({5000, 400}), src),
                               x.index_select(0, index),
                               x.index({Slice(), index}),
                               x.gather(0, index.view({-1, 1}).expand({5000, 400})),
                               x.gather(1, index.expand({300, 5000})),
                               x.masked_select(x.gt(50)),
                               x.gt(50).nonzero()};
  };
  set_num_threads(1);
  const std::vector<Tensor> one = all();
  set_num_threads(3);
  const std::vector<Tensor> three = all();
  set_num_threads(threads);
  for (size_t k = 0; k < one.size(); ++k) EXPECT_TRUE(one[k].equal(three[k])) << "result " << k;
  EXPECT_TRUE(one[0].equal(one[2]));
  EXPECT_TRUE(one[0].equal(one[3]));
  EXPECT_TRUE(one[0].equal(one[4]));
  EXPECT_TRUE(one[6].equal(one[8]));
}

// Tensors that no cache holds are walked by columns.
TEST(Index, LargeGatherAndScatterAgreeWithTheirTransposes) {
  const Tensor x = facula::remainder(arange(700 * 600, kLong) * 7919, 1009).view({700, 600}).to(kFloat);
  const Tensor index = facula::remainder(arange(500 * 600, kLong) * 104729, 700).view({500, 600});
  const Tensor src = facula::remainder(arange(500 * 600, kLong) * 31, 997).view({500, 600}).to(kFloat);
  const Tensor xt = x.t().contiguous(), index_t = index.t().contiguous(), src_t = src.t().contiguous();
  const Tensor picked = x.gather(0, index);
  EXPECT_TRUE(picked.equal(xt.gather(1, index_t).t()));
  EXPECT_TRUE(picked.equal(x.index({index, arange(600, kLong)})));
  EXPECT_TRUE(x.scatter(0, index, src).equal(xt.scatter(1, index_t, src_t).t()));
  EXPECT_TRUE(x.scatter_add(0, index, src).equal(xt.scatter_add(1, index_t, src_t).t()));
  EXPECT_TRUE(x.scatter_add(0, index, src).equal(index_put(x, {index, arange(600, kLong)}, src, true)));
  Tensor bad = index.clone();
  bad[499][599] = 700;
  EXPECT_RAISES(x.gather(0, bad), IndexError, "index 700 is out of bounds for dimension 0 with size 700");
  Tensor y = x.clone();
  EXPECT_RAISES(y.scatter_(0, bad, src), IndexError, "index 700");
  EXPECT_TRUE(y.equal(x));
}

TEST(Index, TakePutEmbedding) {
  Tensor x = numbers({2, 3}).t();  // 0 3 1 4 2 5
  EXPECT_EQ(values_of(x.take(longs({1, -1, 0, 2}, {2, 2}))), (Values{3, 5, 0, 1}));
  EXPECT_EQ(x.take(longs({1, -1, 0, 2}, {2, 2})).sizes(), (Shape{2, 2}));
  x.put_(longs({1, -1, 1}), numbers({3}) + 10);
  EXPECT_EQ(values_of(x), (Values{0, 12, 1, 4, 2, 11}));
  x.put_(longs({1, 1}), ones({2}), true);
  EXPECT_EQ(values_of(x), (Values{0, 14, 1, 4, 2, 11}));
  EXPECT_RAISES(x.take(longs({6})), IndexError, "tried to access index 6 on a tensor of 6 elements");
  EXPECT_RAISES(x.put_(longs({0, -7}), ones({2})), IndexError, "tried to access index -7");
  EXPECT_RAISES(x.take(longs({0}).to(kInt)), DTypeError, "int64");
  EXPECT_EQ(values_of(x), (Values{0, 14, 1, 4, 2, 11}));
  Tensor table = numbers({4, 2});
  EXPECT_EQ(values_of(embedding(table, longs({3, 0, 1, 1}, {2, 2}))), (Values{6, 7, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(embedding(table, longs({}, {0, 3})).sizes(), (Shape{0, 3, 2}));
  EXPECT_RAISES(embedding(table, longs({4})), IndexError, "index out of range in self");
  EXPECT_RAISES(embedding(table, longs({-1})), IndexError, "index out of range in self");
  EXPECT_RAISES(embedding(table[0], longs({0})), ShapeError, "2-D");
}

TEST(Index, TakeAlongDim) {
  Tensor x = numbers({2, 3});
  EXPECT_EQ(values_of(x.take_along_dim(longs({5, 0}, {1, 2}))), (Values{5, 0}));
  EXPECT_EQ(values_of(x.take_along_dim(longs({2, 0}, {2, 1}), 1)), (Values{2, 3}));
  EXPECT_EQ(values_of(x.take_along_dim(longs({1}, {1, 1}), 1)), (Values{1, 4}));
  EXPECT_RAISES(x.take_along_dim(longs({1}), 1), ShapeError, "same number of dimensions");
}

TEST(Index, FailingWritesChangeNothing) {
  const Tensor start = numbers({4, 3});
  Tensor x = start.clone();
  const Tensor bad = longs({0, 1, 4}), good = longs({0, 1, 2});
  const Tensor grid = bad.view({3, 1}).expand({3, 3});
  EXPECT_RAISES(x.index_add_(0, bad, ones({3, 3})), IndexError, "index 4 is out of bounds for dimension 0 with size 4");
  EXPECT_RAISES(x.index_copy_(0, bad, ones({3, 3})), IndexError, "index 4");
  EXPECT_RAISES(x.index_fill_(0, bad, 1), IndexError, "index 4");
  EXPECT_RAISES(x.scatter_(0, grid, ones({3, 3})), IndexError, "index 4 is out of bounds for dimension 0 with size 4");
  EXPECT_RAISES(x.scatter_(0, grid, 1), IndexError, "index 4");
  EXPECT_RAISES(x.scatter_(0, -grid, 1), IndexError, "index -1");
  EXPECT_RAISES(x.scatter_add_(0, grid, ones({3, 3})), IndexError, "index 4");
  EXPECT_RAISES(x.scatter_reduce_(0, grid, ones({3, 3}), "amax", false), IndexError, "index 4");
  EXPECT_RAISES(x.scatter_reduce_(0, grid, ones({3, 3}), "max"), ValueError, "reduce argument must be either");
  EXPECT_RAISES(x.scatter_(0, good.view({3, 1}), ones({3, 3}), "sum"), ValueError, "add or multiply");
  EXPECT_RAISES(x.scatter_(0, good.view({3, 1}), longs({1, 2, 3}, {3, 1})), DTypeError, "same dtype");
  EXPECT_RAISES(x.scatter_(0, good, ones({3})), ShapeError, "same number of dimensions");
  EXPECT_RAISES(x.scatter_(0, grid, ones({2, 3})), ShapeError, "Size does not match at dimension 0");
  EXPECT_RAISES(x.gather(0, good.view({3, 1}).expand({3, 4})), ShapeError, "Size does not match at dimension 1");
  EXPECT_RAISES(x.gather(0, grid), IndexError, "index 4 is out of bounds for dimension 0 with size 4");
  EXPECT_RAISES(x.gather(0, grid.to(kFloat)), DTypeError, "int64");
  EXPECT_RAISES(x.index_add_(0, good, ones({2, 3})), ShapeError,
                "Number of indices (3) should be equal to source.size(dim): (2)");
  EXPECT_RAISES(x.index_add_(0, good, ones({3, 2})), ShapeError, "apart from dimension 0");
  EXPECT_RAISES(x.index_add_(0, good, x.slice(0, 1)), ValueError, "clone()");
  EXPECT_RAISES(x.index_select(0, bad), IndexError, "index out of range in self");
  EXPECT_RAISES(x.index_select(0, grid.contiguous()), ShapeError, "vector");
  EXPECT_RAISES(x.masked_fill_(x, 1), DTypeError, "only supports boolean masks");
  EXPECT_RAISES(x.masked_fill_(x.gt(1), ones({2})), ShapeError, "0-dimensional value");
  EXPECT_RAISES(x.masked_scatter_(x.ge(0), ones({11})), ShapeError, "12");
  EXPECT_RAISES(x.masked_select(bools({true, false})), ShapeError, "must match");
  EXPECT_EQ(values_of(x), values_of(start));
}

TEST(Index, ScatterNumbersAndReductions) {
  Tensor x = ones({2, 3});
  const Tensor index = longs({0, 0, 2}, {1, 3});
  EXPECT_EQ(values_of(x.scatter(1, index, 5)), (Values{5, 1, 5, 1, 1, 1}));
  EXPECT_EQ(values_of(x.scatter(1, index, 5, "add")), (Values{11, 1, 6, 1, 1, 1}));
  EXPECT_EQ(values_of(x.scatter(1, index, full({1, 3}, 3.0), "multiply")), (Values{9, 1, 3, 1, 1, 1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor values = tensor({1.0f, nan, 2.0f}).view({1, 3});
  EXPECT_TRUE(std::isnan(x.scatter_reduce(1, index, values, "amax")[0][0].item<float>()));
  EXPECT_TRUE(std::isnan(x.scatter_reduce(1, index, values, "amin")[0][0].item<float>()));
  Tensor scalar = full({}, 2.0);
  EXPECT_EQ(scalar.scatter_add(0, longs({0}, {}), full({}, 3.0)).item<float>(), 5);
  EXPECT_EQ(scalar.gather(0, longs({0}, {})).item<float>(), 2);
  EXPECT_EQ(scalar.index_select(0, longs({0})).sizes(), Shape{});
  EXPECT_EQ(scalar.nonzero().sizes(), (Shape{1, 0}));
  EXPECT_EQ(zeros({}).nonzero().sizes(), (Shape{0, 0}));
}

TEST(Index, MaskedFillKeepsTheDtype) {
  const Tensor mask = bools({true, false, true});
  EXPECT_EQ(numbers({3}, kInt).masked_fill(mask, 7.9).scalar_type(), kInt);
  EXPECT_EQ(values_of(numbers({3}, kInt).masked_fill(mask, 7.9)), (Values{7, 1, 7}));
  EXPECT_EQ(numbers({3}, kHalf).masked_fill(mask, full({}, 2.5, kDouble)).scalar_type(), kHalf);
  EXPECT_EQ(numbers({1}, kFloat).masked_fill(mask, 2).sizes(), (Shape{3}));
  Tensor x = numbers({3});
  const int64_t version = x._version();
  x.masked_fill_(mask, -std::numeric_limits<double>::infinity());
  EXPECT_GT(x._version(), version);
  EXPECT_EQ(x.min().item<double>(), -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace facula
