// The result dtype of operands of every dtype and kind (a tensor with dims, a zero-dim tensor, a number). The table of the dtypes that
// libtorch 1.13 has is tests/golden/promotion.txt, written by it; the rules of the newer dtypes are spelled out here.
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace facula {
namespace {

struct Row {
  std::string left_kind, left, right_kind, right, result;
};

std::vector<Row> golden_rows() {
  const char* root = std::getenv("FACULA_SOURCE_DIR");
  std::ifstream file(std::string(root ? root : ".") + "/tests/golden/promotion.txt");
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Row r;
    words >> r.left_kind >> r.left >> r.right_kind >> r.right >> r.result;
    rows.push_back(r);
  }
  return rows;
}

ScalarType dtype_of_name(const std::string& name) {
  for (int t = 0; t < kNumScalarTypes; ++t)
    if (name == dtype_name(static_cast<ScalarType>(t))) return static_cast<ScalarType>(t);
  ADD_FAILURE() << "no dtype is called " << name;
  return ScalarType::Undefined;
}

Tensor operand(const std::string& kind, const std::string& dtype) {
  return kind == "dim" ? ones({2}, dtype_of_name(dtype)) : ones({}, dtype_of_name(dtype));
}

Scalar number(const std::string& kind) {
  if (kind == "bool") return true;
  if (kind == "int") return 2;
  if (kind == "float") return 1.5;
  return complex<double>(1, 2);
}

class Promotion : public testing::Test {
 protected:
  void TearDown() override { set_default_dtype(kFloat); }
};

TEST_F(Promotion, OfSumsIsTheGoldenTable) {
  std::vector<Row> rows = golden_rows();
  // 13 dtypes: four kinds of pairs of tensors, and two kinds of tensors with four kinds of numbers.
  ASSERT_EQ(rows.size(), 13u * 13 * 4 + 13 * 2 * 4) << "set FACULA_SOURCE_DIR to the root of the sources";
  for (const Row& r : rows) {
    SCOPED_TRACE(r.left_kind + " " + r.left + " + " + r.right_kind + " " + r.right);
    Tensor a = operand(r.left_kind, r.left);
    if (r.right_kind == "number") {
      EXPECT_STREQ(dtype_name(add(a, number(r.right)).scalar_type()), r.result.c_str());
      EXPECT_STREQ(dtype_name((number(r.right) + a).scalar_type()), r.result.c_str());
    } else {
      Tensor b = operand(r.right_kind, r.right);
      Tensor sum = add(a, b);
      EXPECT_STREQ(dtype_name(sum.scalar_type()), r.result.c_str());
      const double each = sum.scalar_type() == kBool ? 1 : 2;
      EXPECT_EQ(sum.sum().item().toComplexDouble().real(), each * static_cast<double>(sum.numel()));
      if (r.left_kind == r.right_kind) {
        EXPECT_STREQ(dtype_name(promoteTypes(dtype_of_name(r.left), dtype_of_name(r.right))), r.result.c_str());
      }
    }
  }
}

TEST_F(Promotion, IsTheSameForOpsThatPromote) {
  for (const Row& r : golden_rows()) {
    if (r.right_kind == "number") continue;
    SCOPED_TRACE(r.left_kind + " " + r.left + ", " + r.right_kind + " " + r.right);
    Tensor a = operand(r.left_kind, r.left), b = operand(r.right_kind, r.right);
    EXPECT_STREQ(dtype_name(mul(a, b).scalar_type()), r.result.c_str());
    EXPECT_STREQ(dtype_name(where(ones({2}, kBool), a, b).scalar_type()), r.result.c_str());
    EXPECT_EQ(eq(a, b).scalar_type(), kBool);
  }
}

TEST_F(Promotion, DivisionOfIntegersTakesTheDefaultDtype) {
  for (ScalarType standard : {kFloat, kDouble, kHalf, kBFloat16}) {
    set_default_dtype(standard);
    for (ScalarType a : {kByte, kChar, kShort, kInt, kLong, kBool})
      for (ScalarType b : {kByte, kLong, kBool}) EXPECT_EQ((ones({2}, a) / ones({2}, b)).scalar_type(), standard);
    EXPECT_EQ((ones({2}, kInt) / 2).scalar_type(), standard);
    EXPECT_EQ((1 / ones({2}, kInt)).scalar_type(), standard);
    EXPECT_EQ(sqrt(ones({2}, kLong)).scalar_type(), standard);
    EXPECT_EQ(div(ones({2}, kInt), ones({2}, kLong), "floor").scalar_type(), kLong);
  }
}

TEST_F(Promotion, NumbersTakeTheDefaultDtype) {
  set_default_dtype(kDouble);
  EXPECT_EQ((ones({2}, kInt) + 1.5).scalar_type(), kDouble);
  EXPECT_EQ((ones({2}, kFloat) + 1.5).scalar_type(), kFloat);
  EXPECT_EQ((ones({2}, kInt) + complex<double>(0, 1)).scalar_type(), kComplexDouble);
  EXPECT_EQ((ones({2}, kFloat) + complex<double>(0, 1)).scalar_type(), kComplexFloat);
  set_default_dtype(kHalf);
  EXPECT_EQ((ones({2}, kInt) + 1.5).scalar_type(), kHalf);
}

TEST_F(Promotion, UnsignedTypesPromoteWithFloatsAndThemselvesOnly) {
  for (ScalarType u : {kUInt16, kUInt32, kUInt64}) {
    SCOPED_TRACE(toString(u));
    EXPECT_EQ(promoteTypes(u, u), u);
    EXPECT_EQ((ones({2}, u) + ones({2}, u)).scalar_type(), u);
    for (ScalarType f : {kHalf, kBFloat16, kFloat, kDouble}) {
      EXPECT_EQ(promoteTypes(u, f), f);
      EXPECT_EQ(promoteTypes(f, u), f);
    }
    for (ScalarType i : {kByte, kChar, kShort, kInt, kLong}) {
      EXPECT_EQ(promoteTypes(u, i), ScalarType::Undefined);
      EXPECT_EQ(promoteTypes(i, u), ScalarType::Undefined);
      EXPECT_THROW(add(ones({2}, u), ones({2}, i)), DTypeError);
      EXPECT_THROW(add(ones({2}, i), ones({2}, u)), DTypeError);
      // A zero-dim tensor of the same kind (integer) does not decide.
      EXPECT_EQ(add(ones({2}, u), ones({}, i)).scalar_type(), u);
    }
    EXPECT_EQ((ones({2}, u) + 1).scalar_type(), u);
    EXPECT_EQ((ones({2}, u) + 1.5).scalar_type(), kFloat);
  }
}

TEST_F(Promotion, Float8PromotesWithItselfOnly) {
  for (ScalarType f : {kFloat8_e4m3fn, kFloat8_e5m2}) {
    EXPECT_EQ(promoteTypes(f, f), f);
    for (int t = 0; t < kNumScalarTypes; ++t) {
      ScalarType other = static_cast<ScalarType>(t);
      if (other == f) continue;
      EXPECT_EQ(promoteTypes(f, other), ScalarType::Undefined) << toString(other);
      EXPECT_EQ(promoteTypes(other, f), ScalarType::Undefined) << toString(other);
      EXPECT_THROW(add(ones({2}, f), ones({2}, other)), DTypeError) << toString(other);
    }
    EXPECT_EQ((ones({2}, f) + 1.5).scalar_type(), f);
  }
}

TEST_F(Promotion, IsSymmetricEverywhere) {
  for (int a = 0; a <= kNumScalarTypes; ++a)
    for (int b = 0; b <= kNumScalarTypes; ++b)
      EXPECT_EQ(promoteTypes(static_cast<ScalarType>(a), static_cast<ScalarType>(b)),
                promoteTypes(static_cast<ScalarType>(b), static_cast<ScalarType>(a)));
}

TEST_F(Promotion, InPlaceKeepsTheDtypeAndRefusesAHigherKind) {
  const std::vector<ScalarType> by_kind[] = {
      {kBool}, {kByte, kShort, kLong}, {kHalf, kFloat, kDouble}, {kComplexFloat, kComplexDouble}};
  for (size_t to = 0; to < 4; ++to)
    for (size_t from = 0; from < 4; ++from)
      for (ScalarType t : by_kind[to])
        for (ScalarType f : by_kind[from]) {
          SCOPED_TRACE(str(toString(t), " += ", toString(f)));
          Tensor x = ones({2}, t), out = empty({2}, t);
          if (from > to) {
            EXPECT_THROW(x.add_(ones({2}, f)), DTypeError);
            EXPECT_THROW(add_out(out, ones({2}, f), ones({2}, f)), DTypeError);
            EXPECT_EQ(x._version(), 0);
          } else {
            x.add_(ones({2}, f));
            EXPECT_EQ(x.scalar_type(), t);
            EXPECT_EQ(add_out(out, ones({2}, f), ones({2}, f)).scalar_type(), t);
          }
        }
}

TEST_F(Promotion, OfAnyOrderOfKindsOverThreeOperands) {
  // addcmul: a tensor with dims, a zero-dim tensor of a higher kind, a number.
  EXPECT_EQ(addcmul(ones({2}, kInt), ones({2}, kInt), ones({}, kDouble), 2).scalar_type(), kDouble);
  EXPECT_EQ(addcmul(ones({2}, kHalf), ones({2}, kHalf), ones({}, kDouble), 2).scalar_type(), kHalf);
  EXPECT_EQ(lerp(ones({2}, kDouble), ones({2}, kDouble), 0.5).scalar_type(), kDouble);
}

// Integers are computed in wider ones than memory holds; nobody may see it.
TEST_F(Promotion, NumbersThatTheDtypeDoesNotHold) {
  const int64_t wide = int64_t{1} << 33;
  for (ScalarType t : {kByte, kChar, kShort, kInt}) {
    SCOPED_TRACE(toString(t));
    const Tensor x = tensor({5, 100}, kLong).to(t);
    // The number becomes one of the tensor's dtype first.
    const Tensor zero_dim = tensor(wide + 44, kLong);
    EXPECT_EQ(maximum(x, zero_dim).to(kLong).equal(tensor({44, 100}, kLong)), true);
    EXPECT_EQ(fmin(zero_dim, x).to(kLong).equal(tensor({5, 44}, kLong)), true);
    EXPECT_EQ(x.clamp(std::optional<Tensor>(zero_dim)).to(kLong).equal(tensor({44, 100}, kLong)), true);
    EXPECT_EQ(x.remainder(zero_dim).to(kLong).equal(tensor({5, 12}, kLong)), true);
    // Sums wrap around.
    EXPECT_TRUE(x.add(wide + 1).equal(x.add(1)));
    EXPECT_TRUE(x.mul(wide + 1).equal(x));
    // Comparisons are those of the numbers.
    EXPECT_TRUE(x.lt(wide).all().item<bool>());
    EXPECT_FALSE(x.eq(wide + 5).any().item<bool>());
    EXPECT_TRUE(x.gt(-wide).all().item<bool>());
    // Where the number is chosen or divides it must be one.
    EXPECT_THROW(x.clamp_max(wide), ValueError);
    EXPECT_THROW(x.clamp(-wide, 7), ValueError);
    EXPECT_THROW(x.remainder(wide), ValueError);
    EXPECT_THROW(x.fmod(wide), ValueError);
    EXPECT_THROW(x.div(wide, "floor"), ValueError);
    // And where it is written.
    Tensor y = x.clone();
    EXPECT_THROW(y.fill_(wide), ValueError);
    EXPECT_THROW(y.fill_(std::nan("")), ValueError);
    EXPECT_THROW(y.index_put_({0}, std::nan("")), ValueError);
    EXPECT_THROW(y.index_put_({tensor({0}, kLong)}, wide), ValueError);
    EXPECT_THROW(y.masked_fill_(y.gt(9), wide), ValueError);
    EXPECT_THROW(y.index_fill_(0, tensor({0}, kLong), -wide), ValueError);
    EXPECT_THROW(y.scatter_(0, tensor({0}, kLong), wide), ValueError);
    EXPECT_TRUE(y.equal(x));
    EXPECT_EQ(y._version(), 0);
  }
  EXPECT_EQ(zeros({1}, kByte).fill_(-1).item<int>(), 255);
  EXPECT_EQ(tensor({50}, kLong).to(kChar).div(300, "floor").item<int>(), 0);
}

}  // namespace
}  // namespace facula
