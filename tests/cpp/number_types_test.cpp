// Half, BFloat16, the two float8 types and complex<T>: every bit pattern both ways, and rounding against an exact
// search.
#include <facula/core/dtype.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "cpp/seed.h"

namespace facula {
namespace {

// What a bit pattern means, from the definition of its format; infinity for the pattern where overflow begins.
double decode(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned exponent = bits >> mantissa_bits;
  const double fraction = std::ldexp(static_cast<double>(bits & ((1u << mantissa_bits) - 1)), -mantissa_bits);
  if (exponent == 0) return std::ldexp(fraction, 1 - bias);
  return std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

template <class N>
struct Format;
template <>
struct Format<Half> {
  static constexpr int kExponent = 5, kMantissa = 10;
  static constexpr unsigned kOverflow = 0x7c00;
};
template <>
struct Format<BFloat16> {
  static constexpr int kExponent = 8, kMantissa = 7;
  static constexpr unsigned kOverflow = 0x7f80;
};
template <>
struct Format<Float8_e5m2> {
  static constexpr int kExponent = 5, kMantissa = 2;
  static constexpr unsigned kOverflow = 0x7c;
};
template <>
struct Format<Float8_e4m3fn> {
  static constexpr int kExponent = 4, kMantissa = 3;
  static constexpr unsigned kOverflow = 0x7f;  // a NaN stands where infinity would
};

template <class N>
class NarrowFloatTest : public testing::Test {
 public:
  using F = Format<N>;
  static constexpr unsigned kSign = 1u << (8 * sizeof(N) - 1);

  // Values of all patterns from 0 to overflow; the last one is the value the format would have there, where overflow
  // is decided.
  static const std::vector<double>& values() {
    static const std::vector<double> all = [] {
      std::vector<double> v;
      for (unsigned b = 0; b <= F::kOverflow; ++b) v.push_back(decode(b, F::kExponent, F::kMantissa));
      return v;
    }();
    return all;
  }

  // The pattern nearest to |value|, ties to the even pattern, by search. `T` is exact for the comparisons made:
  // double or long double.
  template <class T>
  static unsigned nearest(T value) {
    const bool negative = std::signbit(value);
    const T magnitude = negative ? -value : value;
    const auto& v = values();
    unsigned bits;
    if (magnitude >= static_cast<T>(v.back())) {
      bits = F::kOverflow;
    } else {
      const auto above =
          std::upper_bound(v.begin(), v.end(), magnitude, [](T x, double y) { return x < static_cast<T>(y); }) -
          v.begin();
      const T low = static_cast<T>(v[above - 1]), high = static_cast<T>(v[above]);
      const T middle = low + (high - low) / 2;  // exact: the neighbours have few bits
      const bool up = magnitude > middle || (magnitude == middle && (above & 1) == 0);
      bits = static_cast<unsigned>(up ? above : above - 1);
    }
    return bits | (negative ? kSign : 0);
  }
};

using NarrowTypes = testing::Types<Half, BFloat16, Float8_e5m2, Float8_e4m3fn>;
TYPED_TEST_SUITE(NarrowFloatTest, NarrowTypes);

TYPED_TEST(NarrowFloatTest, EveryPatternToFloatAndBack) {
  const bool has_infinity = std::numeric_limits<TypeParam>::has_infinity;
  for (unsigned b = 0; b < 2 * this->kSign; ++b) {
    const TypeParam n = TypeParam::of_bits(b);
    const float f = n;
    const unsigned magnitude = b & (this->kSign - 1);
    ASSERT_EQ(std::signbit(f), (b & this->kSign) != 0) << b;
    if (magnitude < Format<TypeParam>::kOverflow) {
      ASSERT_EQ(std::fabs(f), this->values()[magnitude]) << b;
      ASSERT_EQ(TypeParam(f).x, b);
      ASSERT_EQ(TypeParam(static_cast<double>(f)).x, b);
    } else if (magnitude == Format<TypeParam>::kOverflow && has_infinity) {
      ASSERT_TRUE(std::isinf(f)) << b;
      ASSERT_EQ(TypeParam(f).x, b);
    } else {
      ASSERT_TRUE(std::isnan(f)) << b;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(f))));
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(static_cast<double>(f)))));
    }
  }
}

// Each pattern's value, the points half way between neighbours, and what lies one step to either side of them.
TYPED_TEST(NarrowFloatTest, RoundsToNearestEven) {
  const auto& v = this->values();
  for (size_t i = 0; i + 1 < v.size(); ++i) {
    for (const double point : {v[i], v[i] + (v[i + 1] - v[i]) / 2, v[i + 1]}) {
      for (const double sign : {1.0, -1.0}) {
        const double d = sign * point;
        const double inf = std::numeric_limits<double>::infinity();
        for (const double x : {d, std::nextafter(d, inf), std::nextafter(d, -inf)}) {
          ASSERT_EQ(TypeParam(x).x, this->nearest(x)) << std::hexfloat << x;
        }
        const float f = static_cast<float>(d);
        for (const float x : {f, std::nextafter(f, HUGE_VALF), std::nextafter(f, -HUGE_VALF)}) {
          ASSERT_EQ(TypeParam(x).x, this->nearest(static_cast<double>(x))) << std::hexfloat << x;
        }
      }
    }
  }
}

TYPED_TEST(NarrowFloatTest, RoundsRandomNumbersOnce) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 random(facula_test::test_seed());
  for (int i = 0; i < 200000; ++i) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(f)) {
      ASSERT_EQ(TypeParam(f).x, this->nearest(static_cast<double>(f))) << std::hexfloat << f;
    }
    const double d = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 320) - 230);
    ASSERT_EQ(TypeParam(d).x, this->nearest(d)) << std::hexfloat << d;
    const auto integer = static_cast<int64_t>(random()) >> (random() % 64);
    ASSERT_EQ(TypeParam(integer).x, this->nearest(static_cast<long double>(integer))) << integer;
    const uint64_t positive = random() >> (random() % 64);
    ASSERT_EQ(TypeParam(positive).x, this->nearest(static_cast<long double>(positive))) << positive;
  }
  // Just above the middle between two values: two roundings would take it for the middle.
  for (int shift = 30; shift < 62; ++shift) {
    for (int64_t odd = 1; odd < 4096; odd += 2) {
      if ((odd << shift) >> shift != odd) continue;
      for (const int64_t x : {(odd << shift) + 1, (odd << shift) - 1, -(odd << shift) - 1}) {
        ASSERT_EQ(TypeParam(x).x, this->nearest(static_cast<long double>(x))) << x;
      }
    }
  }
}

TYPED_TEST(NarrowFloatTest, OverflowAndNan) {
  const bool has_infinity = std::numeric_limits<TypeParam>::has_infinity;
  for (const double big : {1e30, 1e300, 1e39, HUGE_VAL}) {
    for (const double x : {big, -big}) {
      if (std::is_same_v<TypeParam, BFloat16> && big == 1e30) continue;
      const float f = TypeParam(x);
      EXPECT_EQ(std::isinf(f), has_infinity);
      EXPECT_EQ(std::isnan(f), !has_infinity);
      EXPECT_EQ(std::signbit(f), x < 0);
    }
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::nan("")))));
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::nanf("")))));
}

TYPED_TEST(NarrowFloatTest, Limits) {
  using L = std::numeric_limits<TypeParam>;
  const auto& v = this->values();
  EXPECT_EQ(static_cast<double>(L::max()), v[v.size() - 2]);
  EXPECT_EQ(static_cast<double>(L::lowest()), -v[v.size() - 2]);
  EXPECT_EQ(static_cast<double>(L::denorm_min()), v[1]);
  EXPECT_EQ(static_cast<double>(L::min()), v[size_t{1} << Format<TypeParam>::kMantissa]);
  EXPECT_EQ(static_cast<double>(L::epsilon()), std::ldexp(1.0, -Format<TypeParam>::kMantissa));
  EXPECT_EQ(std::ldexp(1.0, L::min_exponent - 1), static_cast<double>(L::min()));
  EXPECT_EQ(std::ilogb(static_cast<double>(L::max())) + 1, L::max_exponent);
  EXPECT_TRUE(std::isnan(static_cast<float>(L::quiet_NaN())));
}

TYPED_TEST(NarrowFloatTest, Arithmetic) {
  const TypeParam a = 1.5f, b = 2;
  static_assert(std::is_same_v<decltype(a + b), TypeParam> && std::is_same_v<decltype(a * 2), TypeParam>);
  static_assert(std::is_same_v<decltype(a + 1.0f), float> && std::is_same_v<decltype(2.0 * a), double>);
  EXPECT_EQ(a + b, 3.5f);
  EXPECT_EQ(a - b, -0.5f);
  EXPECT_EQ(a * b, 3.0f);
  EXPECT_EQ(a / b, 0.75f);
  EXPECT_EQ(-a, -1.5f);
  EXPECT_EQ(2 * a, 3);
  EXPECT_LT(a, b);
  EXPECT_TRUE(a != b);
  TypeParam c = a;
  c += b;
  c *= 2.0f;
  EXPECT_EQ(c, 7.0f);
}

TEST(ComplexTest, AgreesWithTheStandardLibrary) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 1000; ++i) {
    const std::complex<double> a(normal(random), normal(random)), b(normal(random), normal(random));
    const complex<double> x = a, y = b;
    const auto near = [](const complex<double>& got, const std::complex<double>& want) {
      return std::abs(std::complex<double>(got) - want) <= 1e-15 * (1 + std::abs(want)) * 4;
    };
    EXPECT_TRUE(near(x + y, a + b));
    EXPECT_TRUE(near(x - y, a - b));
    EXPECT_TRUE(near(x * y, a * b));
    EXPECT_TRUE(near(x / y, a / b) || std::abs(b) < 0.1);
    EXPECT_TRUE(near(2 * x, 2.0 * a));
    EXPECT_DOUBLE_EQ(abs(x), std::abs(a));
    EXPECT_DOUBLE_EQ(arg(x), std::arg(a));
    EXPECT_DOUBLE_EQ(norm(x), std::norm(a));
    EXPECT_EQ(conj(x), complex<double>(std::conj(a)));
  }
  // The divisor's square is beyond the range.
  EXPECT_EQ(complex<double>(1e200, 1e200) / complex<double>(1e200, 1e200), complex<double>(1, 0));
  const complex<float> quotient = complex<float>(1, 0) / complex<float>(0, 0);
  EXPECT_TRUE(std::isinf(quotient.real()));
  std::ostringstream text;
  text << complex<float>(1, -2.5f);
  EXPECT_EQ(text.str(), "(1,-2.5)");
  EXPECT_EQ(complex<Half>(1.0f, 2.0f) * complex<Half>(0.0f, 1.0f), complex<Half>(-2.0f, 1.0f));
}

TEST(DtypeTest, Names) {
  EXPECT_STREQ(toString(kLong), "Long");
  EXPECT_STREQ(toString(kBFloat16), "BFloat16");
  EXPECT_STREQ(dtype_name(kHalf), "float16");
  EXPECT_STREQ(dtype_name(kComplexDouble), "complex128");
  EXPECT_STREQ(toString(ScalarType::Undefined), "Undefined");
  std::ostringstream text;
  text << kFloat;
  EXPECT_EQ(text.str(), "Float");
}

TEST(DtypeTest, Kinds) {
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto t = static_cast<ScalarType>(i);
    EXPECT_EQ(1, isFloatingType(t) + isComplexType(t) + isIntegralType(t, true)) << t;
    EXPECT_EQ(elementSize(t), elementSize(toRealValueType(t)) * (isComplexType(t) ? 2 : 1)) << t;
  }
  EXPECT_FALSE(isIntegralType(kBool, false));
  EXPECT_EQ(toComplexType(kBFloat16), kComplexFloat);
  EXPECT_EQ(toComplexType(kLong), ScalarType::Undefined);
  EXPECT_FALSE(canCast(kComplexFloat, kFloat));
  EXPECT_FALSE(canCast(kFloat, kLong));
  EXPECT_FALSE(canCast(kLong, kBool));
  EXPECT_TRUE(canCast(kDouble, kHalf) && canCast(kLong, kByte) && canCast(kBool, kBool) &&
              canCast(kLong, kComplexHalf));
}

TEST(DtypeTest, Promotion) {
  const ScalarType none = ScalarType::Undefined;
  const struct {
    ScalarType a, b, want;
  } cases[] = {
      {kByte, kChar, kShort},
      {kByte, kShort, kShort},
      {kByte, kLong, kLong},
      {kChar, kInt, kInt},
      {kBool, kByte, kByte},
      {kBool, kBool, kBool},
      {kLong, kHalf, kHalf},
      {kHalf, kBFloat16, kFloat},
      {kHalf, kFloat, kFloat},
      {kBFloat16, kDouble, kDouble},
      {kLong, kComplexHalf, kComplexHalf},
      {kFloat, kComplexHalf, kComplexFloat},
      {kBFloat16, kComplexHalf, kComplexFloat},
      {kHalf, kComplexHalf, kComplexHalf},
      {kDouble, kComplexFloat, kComplexDouble},
      {kComplexHalf, kComplexDouble, kComplexDouble},
      {kBool, kComplexFloat, kComplexFloat},
      {kUInt16, kUInt16, kUInt16},
      {kUInt16, kLong, none},
      {kUInt64, kByte, none},
      {kUInt32, kFloat, kFloat},
      {kUInt32, kBool, kUInt32},
      {kUInt32, kUInt64, none},
      {kFloat8_e5m2, kFloat8_e5m2, kFloat8_e5m2},
      {kFloat8_e5m2, kFloat, none},
      {kFloat8_e4m3fn, kFloat8_e5m2, none},
      {none, kFloat, none},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(promoteTypes(c.a, c.b), c.want) << c.a << " " << c.b;
    EXPECT_EQ(promoteTypes(c.b, c.a), c.want) << c.b << " " << c.a;
  }
}

}  // namespace
}  // namespace facula
