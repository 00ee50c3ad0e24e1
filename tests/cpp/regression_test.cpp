// Bugs that were found once. Each test failed before its fix.
#include <facula/facula.h>
#include <gtest/gtest.h>

namespace {

using namespace facula;

TEST(Regression, BroadcastRowAsFirstOperandIntoAStridedOut) {
  manual_seed(1);
  Tensor big = zeros({1000, 200}), out = big.narrow(1, 0, 100), y = rand({1000, 200}).narrow(1, 0, 100),
         row = rand({100});
  add_out(out, row, y);
  EXPECT_TRUE(out.equal(y.contiguous() + row));
  sub_out(out, row, y);
  EXPECT_TRUE(out.equal(row - y.contiguous()));
  Tensor column = rand({1000, 1}) + 0.5;
  div_out(out, row, column);
  EXPECT_TRUE(out.equal(row.expand({1000, 100}).contiguous() / column.expand({1000, 100}).contiguous()));
}

TEST(Regression, BetaOfProductsIsNotRoundedInTheCache) {
  Tensor a = zeros({32, 32}, kBFloat16), s = full({32, 32}, 1e7).to(kBFloat16);
  addmm(s, a, a, 0);
  EXPECT_NEAR(addmm(s, a, a, 1e-7).to(kFloat).mean().item<double>(), 1.0, 0.01);
}

TEST(Regression, NumberOnTheLeftKeepsItsPrecisionAndPromotesAsANumber) {
  Tensor d = full({2}, 3.0, kDouble);
  EXPECT_EQ((1.1 / d)[0].item<double>(), 1.1 / 3.0);
  EXPECT_EQ((1.1 % d)[0].item<double>(), 1.1);
  EXPECT_EQ((2.0 / full({}, 3.0, kHalf)).scalar_type(), kHalf);
  EXPECT_TRUE((7 / tensor({2, 4})).equal(tensor({3.5f, 1.75f})));
  EXPECT_TRUE((1 << tensor({2, 4})).equal(tensor({4, 16})));
}

TEST(Regression, UniformNeverReachesItsEndInNarrowDtypes) {
  manual_seed(2);
  for (ScalarType t : {kHalf, kBFloat16, kFloat8_e4m3fn, kFloat8_e5m2}) {
    EXPECT_LT(rand({1 << 18}, t).to(kFloat).max().item<double>(), 1.0) << t;
    Tensor u = empty({1 << 16}, t).uniform_(0, 10);
    EXPECT_LT(u.to(kFloat).max().item<double>(), 10.0) << t;
    EXPECT_GT(u.to(kFloat).max().item<double>(), 7.0) << t;
  }
  EXPECT_THROW(empty({4}).uniform_(-3e38, 3e38), ValueError);
}

TEST(Regression, FusedRefusesWhatItWouldComputeDifferently) {
  Fused f;
  auto x = f.input(kUInt32);
  EXPECT_THROW(f.apply("add", {x, x}), NotSupportedError);
  Fused g;
  auto n = g.input(kInt);
  EXPECT_THROW(g.apply("div_floor", {n, n}), NotSupportedError);
}

TEST(Regression, DivisorThatBecomesZeroInTheComputeType) {
  EXPECT_THROW(remainder(ones({4}, kInt), full({}, Scalar(int64_t{4294967296}), kLong)), ValueError);
}

TEST(Regression, EmptyInnerDimensionWithLeadingDims) {
  EXPECT_TRUE(matmul(zeros({2, 3, 0}), zeros({0, 4})).equal(zeros({2, 3, 4})));
  EXPECT_TRUE(linear(zeros({2, 3, 0}), zeros({4, 0})).equal(zeros({2, 3, 4})));
  EXPECT_TRUE(matmul(zeros({2, 3, 0}), zeros({0})).equal(zeros({2, 3})));
}

TEST(Regression, DisjointViewsOfOneBuffer) {
  Tensor x = arange(60, kFloat).reshape({3, 4, 5}), before = x.clone();
  x.select(1, 0).add_(x.select(0, 0).select(0, 1));
  EXPECT_TRUE(x.select(1, 0).equal(before.select(1, 0) + before[0][1]));
  Tensor y = arange(8, kFloat).reshape({2, 4});
  y.slice(1, 0, 2).add_(y.slice(1, 2, 4));
  EXPECT_TRUE(y.equal(tensor({{2.0f, 4.0f, 2.0f, 3.0f}, {10.0f, 12.0f, 6.0f, 7.0f}})));
}

TEST(Regression, OutThatIsAlsoAnInputAndMustGrow) {
  Tensor x = full({1}, 7.0f);
  add_out(x, x, ones({5}));
  EXPECT_TRUE(x.equal(full({5}, 8.0f)));
}

TEST(Regression, EinsumOfEmptyAndOfIntegers) {
  EXPECT_TRUE(einsum("i,i->i", {zeros({0}), ones({1})}).sizes() == IntArrayRef({0}));
  EXPECT_TRUE(einsum("ij,k->k", {ones({2, 3}, kInt), ones({4}, kInt)}).equal(full({4}, 6, kInt)));
}

TEST(Regression, AddmvChecksItsShapes) {
  EXPECT_THROW(addmv(zeros({5, 3}), ones({3, 2}), ones({2})), ShapeError);
  EXPECT_THROW(ones({2}) - ones({2}, kBool), DTypeError);
}

}  // namespace
