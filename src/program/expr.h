// The formulas: one struct for each operation of `program/scalar_ops.h`, over a lane type L, namespace `op`. Here: arithmetic, choice,
// comparisons, exponentials, angles and activations of real numbers, and what all types share. Complex numbers are in `expr_complex.h`,
// special functions in `expr_special.h`.
//
// L is `Lane<float>`, `Lanes<float, N>` or `Lane<double>` on the CPU, and plain `float`, `double`, `int32_t`, `int64_t`, `uint64_t`, `uint8_t` (bool: a byte
// that is 0 or 1) elsewhere; Complex<R> over a float lane. A struct with `kScalarOnly` uses control flow: its real L is never a SIMD
// lane; `kScalarOnlyComplex` says the same of its complex L.
#if defined(FACULA_EXPR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_EXPR_H_
#undef FACULA_EXPR_H_
#else
#define FACULA_EXPR_H_
#endif

#include "program/expr_complex.h"
#include "program/expr_scalar.h"
#include "program/expr_special.h"

FACULA_EXPR_BEGIN

template <class L>
inline constexpr bool kIsComplexLane = lane_traits<L>::kComplex;
template <class L>
inline constexpr bool kIsRealFloatLane = kIsFloatLane<L> && !kIsComplexLane<L>;
template <class L>
inline constexpr bool kIsIntLane = !kIsFloatLane<L> && !kIsBoolLane<L>;

#define FACULA_FN    \
  template <class L> \
  static FACULA_DEVICE

// Sums, differences and products of every lane; integers wrap.
template <class L>
FACULA_DEVICE L plus(L a, L b) {
  if constexpr (kIsFloatLane<L>) return a + b;
  else if constexpr (kIsBoolLane<L>) return static_cast<L>(a | b);
  else
    return static_cast<L>(static_cast<typename unsigned_of<L>::type>(a) +
                          static_cast<typename unsigned_of<L>::type>(b));
}
template <class L>
FACULA_DEVICE L minus(L a, L b) {
  if constexpr (kIsFloatLane<L>) return a - b;
  else
    return static_cast<L>(static_cast<typename unsigned_of<L>::type>(a) -
                          static_cast<typename unsigned_of<L>::type>(b));
}
template <class L>
FACULA_DEVICE L times(L a, L b) {
  if constexpr (kIsFloatLane<L>) return a * b;
  else if constexpr (kIsBoolLane<L>) return static_cast<L>(a & b);
  else
    return static_cast<L>(static_cast<typename unsigned_of<L>::type>(a) *
                          static_cast<typename unsigned_of<L>::type>(b));
}
// The larger and the smaller; NaN wins from either side.
template <class L>
FACULA_DEVICE L larger(L a, L b) {
  if constexpr (kIsFloatLane<L>) return m::select(m::isnan(b), b, m::at_least(a, b));
  else return m::at_least(a, b);
}
template <class L>
FACULA_DEVICE L smaller(L a, L b) {
  if constexpr (kIsFloatLane<L>) return m::select(m::isnan(b), b, m::at_most(a, b));
  else return m::at_most(a, b);
}

namespace op {

// ---- arithmetic ----------------------------------------------------------------------------------------------------------------

struct positive {
  FACULA_FN L eval(L x) { return x; }
};
struct neg {
  FACULA_FN L eval(L x) {
    if constexpr (kIsFloatLane<L>) return -x;
    else return minus(L(0), x);
  }
};
struct abs {
  FACULA_FN typename lane_traits<L>::Real eval(L x) {
    if constexpr (kIsComplexLane<L>) return m::hypot(x.re, x.im);
    else if constexpr (kIsFloatLane<L>) return m::abs(x);
    else return x < L(0) ? minus(L(0), x) : x;
  }
};
struct abs2 {
  FACULA_FN typename lane_traits<L>::Real eval(L x) {
    if constexpr (kIsComplexLane<L>) return m::fma(x.re, x.re, x.im * x.im);
    else return times(x, x);
  }
};
struct sign {
  FACULA_FN L eval(L x) {
    if constexpr (kIsBoolLane<L>) return x;
    else return m::select(x > splat<L>(0), splat<L>(1), m::select(x < splat<L>(0), splat<L>(-1), splat<L>(0)));
  }
};
struct sgn {
  FACULA_FN L eval(L x) {
    if constexpr (kIsComplexLane<L>) {
      const auto length = m::hypot(x.re, x.im), zero = splat<typename lane_traits<L>::Real>(0);
      return m::select(length == zero, L{zero, zero}, L{x.re / length, x.im / length});
    } else {
      return sign::eval(x);
    }
  }
};
#define FACULA_ROUNDING(name)                           \
  struct name {                                         \
    FACULA_FN L eval(L x) {                             \
      if constexpr (kIsFloatLane<L>) return m::name(x); \
      else return x;                                    \
    }                                                   \
  };
FACULA_ROUNDING(ceil)
FACULA_ROUNDING(floor)
FACULA_ROUNDING(round)  // halves go to even
FACULA_ROUNDING(trunc)
#undef FACULA_ROUNDING
struct frac {
  FACULA_FN L eval(L x) { return x - m::trunc(x); }
};
struct sqrt {
  FACULA_FN L eval(L x) { return m::sqrt(x); }
};
struct rsqrt {
  FACULA_FN L eval(L x) { return splat<L>(1) / m::sqrt(x); }
};
struct square {
  FACULA_FN L eval(L x) { return times(x, x); }
};
struct reciprocal {
  FACULA_FN L eval(L x) { return splat<L>(1) / x; }
};
struct conj {
  FACULA_FN L eval(L x) {
    if constexpr (kIsComplexLane<L>) return {x.re, -x.im};
    else return x;
  }
};
struct real {
  FACULA_FN typename lane_traits<L>::Real eval(L x) {
    if constexpr (kIsComplexLane<L>) return x.re;
    else return x;
  }
};
struct imag {
  FACULA_FN typename lane_traits<L>::Real eval(L x) { return x.im; }
};
struct angle {
  FACULA_FN typename lane_traits<L>::Real eval(L x) {
    if constexpr (kIsComplexLane<L>) return m::atan2(x.im, x.re);
    else return m::select(m::isnan(x), x, m::select(x < splat<L>(0), splat<L>(kPi), splat<L>(0)));
  }
};
struct deg2rad {
  FACULA_FN L eval(L x) { return x * splat<L>(kPi / 180.0); }
};
struct rad2deg {
  FACULA_FN L eval(L x) { return x * splat<L>(180.0 / kPi); }
};
struct bitwise_not {
  FACULA_FN L eval(L x) {
    if constexpr (kIsBoolLane<L>) return static_cast<L>(x ^ L(1));
    else return static_cast<L>(~x);
  }
};

struct add {
  FACULA_FN L eval(L a, L b) { return plus(a, b); }
};
struct sub {
  FACULA_FN L eval(L a, L b) { return minus(a, b); }
};
struct mul {
  FACULA_FN L eval(L a, L b) { return times(a, b); }
};
struct div {
  FACULA_FN L eval(L a, L b) { return a / b; }
};

// Integer quotients: a zero divisor gives 0 (the caller reports it), and the least number over -1 wraps.
template <class L>
FACULA_DEVICE L quotient(L a, L b) {
  if (b == L(0)) return L(0);
  if (b == static_cast<L>(-1) && L(-1) < L(1)) return minus(L(0), a);
  return static_cast<L>(a / b);
}
template <class L>
FACULA_DEVICE L rest(L a, L b) {
  return b == L(0) ? L(0) : minus(a, times(quotient(a, b), b));
}

struct div_trunc {
  static constexpr bool kFaultsOnZero = true;
  FACULA_FN L eval(L a, L b) {
    if constexpr (kIsFloatLane<L>) return m::trunc(a / b);
    else return quotient(a, b);
  }
};
struct fmod {
  static constexpr bool kScalarOnly = true, kFaultsOnZero = true;
  FACULA_FN L eval(L a, L b) {
    if constexpr (kIsFloatLane<L>) return m::fmod(a, b);
    else return rest(a, b);
  }
};
// The sign of the divisor, as in Python.
struct remainder {
  static constexpr bool kScalarOnly = true, kFaultsOnZero = true;
  FACULA_FN L eval(L a, L b) {
    const L r = fmod::eval(a, b);
    return r != L(0) && ((r < L(0)) != (b < L(0))) ? plus(r, b) : r;
  }
};
struct div_floor {
  static constexpr bool kScalarOnly = true, kFaultsOnZero = true;
  FACULA_FN L eval(L a, L b) {
    if constexpr (kIsFloatLane<L>) {
      if (b == L(0)) return a / b;
      const L r = m::fmod(a, b);
      L q = (a - r) / b;
      if (r != L(0) && (b < L(0)) != (r < L(0))) q -= L(1);
      if (q == L(0)) return m::copysign(L(0), a / b);
      const L whole = m::floor(q);
      return q - whole > L(0.5) ? whole + L(1) : whole;
    } else {
      const L q = quotient(a, b), r = rest(a, b);
      return r != L(0) && ((r < L(0)) != (b < L(0))) ? minus(q, L(1)) : q;
    }
  }
};

struct copysign {
  FACULA_FN L eval(L a, L b) { return m::copysign(a, b); }
};
struct maximum {
  FACULA_FN L eval(L a, L b) { return larger(a, b); }
};
struct minimum {
  FACULA_FN L eval(L a, L b) { return smaller(a, b); }
};
struct clamp_min {
  FACULA_FN L eval(L x, L low) { return larger(x, low); }
};
struct clamp_max {
  FACULA_FN L eval(L x, L high) { return smaller(x, high); }
};
struct fmax {
  FACULA_FN L eval(L a, L b) { return m::select(m::isnan(b) | (a > b), a, b); }
};
struct fmin {
  FACULA_FN L eval(L a, L b) { return m::select(m::isnan(b) | (a < b), a, b); }
};
struct bitwise_and {
  FACULA_FN L eval(L a, L b) { return static_cast<L>(a & b); }
};
struct bitwise_or {
  FACULA_FN L eval(L a, L b) { return static_cast<L>(a | b); }
};
struct bitwise_xor {
  FACULA_FN L eval(L a, L b) { return static_cast<L>(a ^ b); }
};
// A distance that is negative or as large as the type shifts everything out.
struct bitwise_left_shift {
  FACULA_FN L eval(L a, L b) {
    using U = typename unsigned_of<L>::type;
    const U width = sizeof(L) * 8, distance = static_cast<U>(b);
    return distance < width ? static_cast<L>(static_cast<U>(a) << (distance & (width - 1))) : L(0);
  }
};
struct bitwise_right_shift {
  FACULA_FN L eval(L a, L b) {
    using U = typename unsigned_of<L>::type;
    const U width = sizeof(L) * 8, distance = static_cast<U>(b);
    if constexpr (L(-1) < L(1)) return static_cast<L>(a >> (distance < width ? distance : width - 1));
    else return distance < width ? static_cast<L>(a >> (distance & (width - 1))) : L(0);
  }
};
struct heaviside {
  FACULA_FN L eval(L x, L at_zero) {
    return m::select(x == splat<L>(0), at_zero, m::select(x > splat<L>(0), splat<L>(1), splat<L>(0)));
  }
};
struct gcd {
  static constexpr bool kScalarOnly = true;
  FACULA_FN L eval(L a, L b) {
    using U = typename unsigned_of<L>::type;
    U x = static_cast<U>(abs::eval(a)), y = static_cast<U>(abs::eval(b));
    while (y != 0) {
      const U r = x % y;
      x = y;
      y = r;
    }
    return static_cast<L>(x);
  }
};
struct lcm {
  static constexpr bool kScalarOnly = true;
  FACULA_FN L eval(L a, L b) {
    const L g = gcd::eval(a, b);
    return g == L(0) ? L(0) : abs::eval(times(quotient(a, g), b));
  }
};
struct nextafter {
  static constexpr bool kScalarOnly = true;
  FACULA_FN L eval(L a, L b) { return m::nextafter(a, b); }
};
struct replace_nan {
  FACULA_FN L eval(L x, L v) { return m::select(m::isnan(x), v, x); }
};
struct replace_posinf {
  FACULA_FN L eval(L x, L v) { return m::select(x == m::infinity(x), v, x); }
};
struct replace_neginf {
  FACULA_FN L eval(L x, L v) { return m::select(x == -m::infinity(x), v, x); }
};
struct complex {
  FACULA_FN Complex<L> eval(L re, L im) { return {re, im}; }
};
struct polar {
  FACULA_FN Complex<L> eval(L length, L angle) { return {length * m::cos(angle), length * m::sin(angle)}; }
};

struct add_alpha {
  FACULA_FN L eval(L x, L y, L alpha) {
    if constexpr (kIsRealFloatLane<L>) return m::fma(alpha, y, x);
    else return plus(x, times(alpha, y));
  }
};
struct sub_alpha {
  FACULA_FN L eval(L x, L y, L alpha) {
    if constexpr (kIsRealFloatLane<L>) return m::fma(-alpha, y, x);
    else return minus(x, times(alpha, y));
  }
};
struct clamp {
  FACULA_FN L eval(L x, L low, L high) { return smaller(larger(x, low), high); }
};
// Exact at both ends: counts from the nearer one.
struct lerp {
  FACULA_FN L eval(L a, L b, L w) {
    const L near_a = a + w * (b - a), near_b = b - (b - a) * (splat<L>(1) - w);
    using R = typename lane_traits<L>::Real;
    if constexpr (kIsComplexLane<L>) return m::select(abs2::eval(w) < splat<R>(0.25), near_a, near_b);
    else return m::select(m::abs(w) < splat<L>(0.5), near_a, near_b);
  }
};

// ---- comparisons: results are masks ----------------------------------------------------------------------------------------------

#define FACULA_TEST(name, both)                                                 \
  struct name {                                                                 \
    FACULA_FN typename lane_traits<L>::Mask eval(L x) {                         \
      if constexpr (kIsComplexLane<L>) return m::name(x.re) both m::name(x.im); \
      else return m::name(x);                                                   \
    }                                                                           \
  };
FACULA_TEST(isnan, |)
FACULA_TEST(isinf, |)
FACULA_TEST(isfinite, &)
#undef FACULA_TEST
struct signbit {
  FACULA_FN typename lane_traits<L>::Mask eval(L x) { return m::signbit(x); }
};
struct isposinf {
  FACULA_FN typename lane_traits<L>::Mask eval(L x) {
    if constexpr (kIsFloatLane<L>) return x == m::infinity(x);
    else return false;
  }
};
struct isneginf {
  FACULA_FN typename lane_traits<L>::Mask eval(L x) {
    if constexpr (kIsFloatLane<L>) return x == -m::infinity(x);
    else return false;
  }
};
struct eq {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) {
    if constexpr (kIsComplexLane<L>) return (a.re == b.re) & (a.im == b.im);
    else return a == b;
  }
};
struct ne {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return !eq::eval(a, b); }
};
struct lt {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return a < b; }
};
struct le {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return a <= b; }
};
struct gt {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return a > b; }
};
struct ge {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return a >= b; }
};
struct logical_not {
  FACULA_FN typename lane_traits<L>::Mask eval(L x) { return eq::eval(x, splat<L>(0)); }
};
struct logical_and {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return !(logical_not::eval(a) | logical_not::eval(b)); }
};
struct logical_or {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return !(logical_not::eval(a) & logical_not::eval(b)); }
};
struct logical_xor {
  FACULA_FN typename lane_traits<L>::Mask eval(L a, L b) { return logical_not::eval(a) != logical_not::eval(b); }
};
struct where {
  template <class M, class L>
  static FACULA_DEVICE L eval(M condition, L a, L b) {
    return m::select(condition, a, b);
  }
};

// ---- exponentials, logarithms, powers --------------------------------------------------------------------------------------------

#define FACULA_ELEMENTARY(name)                  \
  struct name {                                  \
    FACULA_FN L eval(L x) { return m::name(x); } \
  };
FACULA_ELEMENTARY(exp)
FACULA_ELEMENTARY(exp2)
FACULA_ELEMENTARY(expm1)
FACULA_ELEMENTARY(log)
FACULA_ELEMENTARY(log2)
FACULA_ELEMENTARY(log10)
FACULA_ELEMENTARY(log1p)

struct pow {
  static constexpr bool kScalarOnlyComplex = true;
  FACULA_FN L eval(L a, L b) {
    if constexpr (kIsFloatLane<L>) return m::pow(a, b);
    else return int_pow(a, b);
  }
  // Negative exponents give the integer part of the fraction: 0, except for bases 1 and -1.
  FACULA_FN L int_pow(L base, L exponent) {
    if (exponent < L(0)) {
      if (base == L(1)) return L(1);
      if (base == static_cast<L>(-1)) return (exponent & L(1)) != L(0) ? base : L(1);
      return L(0);
    }
    L result = L(1);
    while (exponent != L(0)) {
      if ((exponent & L(1)) != L(0)) result = times(result, base);
      base = times(base, base);
      exponent = static_cast<L>(exponent >> 1);
    }
    return result;
  }
};
struct logaddexp {
  FACULA_FN L eval(L a, L b) {
    const L sum = larger(a, b) + m::log1p(m::exp(-m::abs(a - b)));
    return m::select((a == b) & m::isinf(a), a, sum);
  }
};
struct logaddexp2 {
  FACULA_FN L eval(L a, L b) {
    const L sum = larger(a, b) + m::log1p(m::exp2(-m::abs(a - b))) * splat<L>(1.44269504088896340736);
    return m::select((a == b) & m::isinf(a), a, sum);
  }
};
struct xlogy {
  FACULA_FN L eval(L x, L y) { return m::select((x == splat<L>(0)) & !m::isnan(y), splat<L>(0), x * m::log(y)); }
};
struct xlog1py {
  FACULA_FN L eval(L x, L y) { return m::select((x == splat<L>(0)) & !m::isnan(y), splat<L>(0), x * m::log1p(y)); }
};
// A negative eps means no clamping.
struct logit {
  FACULA_FN L eval(L x, L eps) {
    const L one = splat<L>(1), inside = smaller(larger(x, eps), one - eps);
    const L p = m::select(eps < splat<L>(0), x, inside);
    return m::log(p / (one - p));
  }
};

// ---- circular and hyperbolic functions -------------------------------------------------------------------------------------------

FACULA_ELEMENTARY(sin)
FACULA_ELEMENTARY(cos)
FACULA_ELEMENTARY(tan)
FACULA_ELEMENTARY(sinh)
FACULA_ELEMENTARY(cosh)
FACULA_ELEMENTARY(tanh)
#define FACULA_INVERSE(name)                         \
  struct name {                                      \
    static constexpr bool kScalarOnlyComplex = true; \
    FACULA_FN L eval(L x) { return m::name(x); }     \
  };
FACULA_INVERSE(asin)
FACULA_INVERSE(acos)
FACULA_INVERSE(atan)
FACULA_INVERSE(asinh)
FACULA_INVERSE(acosh)
FACULA_INVERSE(atanh)
#undef FACULA_INVERSE
struct sinc {
  FACULA_FN L eval(L x) {
    const L t = x * splat<L>(kPi);
    return m::select(eq::eval(x, splat<L>(0)), splat<L>(1), m::sin(t) / t);
  }
};
struct atan2 {
  FACULA_FN L eval(L y, L x) { return m::atan2(y, x); }
};
struct hypot {
  FACULA_FN L eval(L x, L y) { return m::hypot(x, y); }
};

// ---- activations -----------------------------------------------------------------------------------------------------------------

struct sigmoid {
  FACULA_FN L eval(L x) { return splat<L>(1) / (splat<L>(1) + m::exp(-x)); }
};
struct relu {
  FACULA_FN L eval(L x) { return m::at_least(x, splat<L>(0)); }
};
struct relu6 {
  FACULA_FN L eval(L x) { return m::at_most(m::at_least(x, splat<L>(0)), splat<L>(6)); }
};
struct silu {
  FACULA_FN L eval(L x) { return x / (splat<L>(1) + m::exp(-x)); }
};
struct mish {
  // tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2), which is 1 beyond x = 20.
  FACULA_FN L eval(L x) {
    const L e = m::exp(m::at_most(x, splat<L>(20))), n = e * (e + splat<L>(2));
    return x * (n / (n + splat<L>(2)));
  }
};
struct gelu {
  FACULA_FN L eval(L x) {
    if constexpr (sizeof(typename lane_traits<L>::Scalar) == 8) {
      return splat<L>(0.5) * x * (splat<L>(1) + m::erf(x * splat<L>(0.70710678118654752440)));
    } else {
      // x times the normal distribution function. Its lower tail is 2^(g - z^2 / (2 ln 2)) at z = |x|, where g is smooth: one
      // polynomial and one power, and no cancellation for negative x. g is good to 2^-24.7 of the exponent up to
      // z = 5.5; from there on it is a constant, which makes a tail of 1e-8 and less too large (9 % at 6, twice at 12), and a tail
      // below 2^-126 is 0. NaN comes back with the last product.
      const L z = m::abs(x), c = m::at_most(z, splat<L>(5.5));
      L g = m::fma(c, splat<L>(-2.48892746e-08), splat<L>(7.50168226e-07));
      g = m::fma(g, c, splat<L>(-9.72902308e-06));
      g = m::fma(g, c, splat<L>(6.88791697e-05));
      g = m::fma(g, c, splat<L>(-0.000252626021));
      g = m::fma(g, c, splat<L>(-5.71495839e-05));
      g = m::fma(g, c, splat<L>(0.00701651722));
      g = m::fma(g, c, splat<L>(-0.0524867289));
      g = m::fma(g, c, splat<L>(0.262140393));
      g = m::fma(g, c, splat<L>(-1.151105523));
      g = m::fma(g, c, splat<L>(-1));
      const L exponent = m::fma(z * splat<L>(-0.72134752044448170368), z, g);
      const L tail = m::select(exponent < splat<L>(-126), splat<L>(0), m::exp2_normal(exponent));
      return x * m::select(x > splat<L>(0), splat<L>(1) - tail, tail);
    }
  }
};
struct gelu_tanh {
  // 1/2 (1 + tanh(u)) = 1 / (1 + e^(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3)
  FACULA_FN L eval(L x) {
    const L u =
        x * m::fma(x * x, splat<L>(2 * 0.79788456080286535588 * 0.044715), splat<L>(2 * 0.79788456080286535588));
    return x / (splat<L>(1) + m::exp(-u));
  }
};
struct selu {
  FACULA_FN L eval(L x) {
    const L negative = m::expm1(m::at_most(x, splat<L>(0))) * splat<L>(1.7580993408473768600);
    return m::select(x > splat<L>(0), x * splat<L>(1.0507009873554804934), negative);
  }
};
struct hardsigmoid {
  FACULA_FN L eval(L x) { return m::at_most(m::at_least(x + splat<L>(3), splat<L>(0)), splat<L>(6)) / splat<L>(6); }
};
struct hardswish {
  FACULA_FN L eval(L x) { return x * m::at_most(m::at_least(x + splat<L>(3), splat<L>(0)), splat<L>(6)) / splat<L>(6); }
};
struct log_sigmoid {
  FACULA_FN L eval(L x) { return m::at_most(x, splat<L>(0)) - m::log1p(m::exp(-m::abs(x))); }
};
struct softsign {
  FACULA_FN L eval(L x) { return x / (splat<L>(1) + m::abs(x)); }
};
struct tanhshrink {
  FACULA_FN L eval(L x) { return x - m::tanh(x); }
};
struct leaky_relu {
  FACULA_FN L eval(L x, L slope) { return m::select(x > splat<L>(0), x, x * slope); }
};
struct hardshrink {
  FACULA_FN L eval(L x, L bound) { return m::select((x >= -bound) & (x <= bound), splat<L>(0), x); }
};
struct softshrink {
  FACULA_FN L eval(L x, L bound) {
    const L inner = m::select(m::isnan(x), x, splat<L>(0));
    return m::select(x > bound, x - bound, m::select(x < -bound, x + bound, inner));
  }
};
struct celu {
  FACULA_FN L eval(L x, L alpha) {
    return m::select(x > splat<L>(0), x, alpha * m::expm1(m::at_most(x, splat<L>(0)) / alpha));
  }
};
struct elu {
  FACULA_FN L eval(L x, L alpha, L scale) {
    return m::select(x > splat<L>(0), x * scale, m::expm1(m::at_most(x, splat<L>(0))) * (alpha * scale));
  }
};
struct hardtanh {
  FACULA_FN L eval(L x, L low, L high) { return smaller(larger(x, low), high); }
};
struct threshold {
  FACULA_FN L eval(L x, L bound, L value) { return m::select(x <= bound, value, x); }
};
struct softplus {
  FACULA_FN L eval(L x, L beta, L bound) {
    const L t = x * beta;
    return m::select(t > bound, x, m::log1p(m::exp(m::at_most(t, bound))) / beta);
  }
};

// ---- special functions -----------------------------------------------------------------------------------------------------------

FACULA_ELEMENTARY(erf)
FACULA_ELEMENTARY(erfc)
#define FACULA_SPECIAL(name)                                                                \
  struct name {                                                                             \
    static constexpr bool kScalarOnly = true;                                               \
    FACULA_FN L eval(L x) { return static_cast<L>(special::name(static_cast<double>(x))); } \
  };
FACULA_SPECIAL(erfinv)
FACULA_SPECIAL(digamma)
FACULA_SPECIAL(i0)
FACULA_SPECIAL(i0e)
FACULA_SPECIAL(i1)
FACULA_SPECIAL(i1e)
#undef FACULA_SPECIAL
struct polygamma {
  static constexpr bool kScalarOnly = true;
  FACULA_FN L eval(L x, L n) {
    return static_cast<L>(special::polygamma(static_cast<double>(x), static_cast<double>(n)));
  }
};
struct lgamma {
  static constexpr bool kScalarOnly = true;
  FACULA_FN L eval(L x) { return m::lgamma(x); }
};
struct entr {
  FACULA_FN L eval(L x) {
    const L inside = m::select(x < splat<L>(0), -m::infinity(x), -x * m::log(x));
    return m::select(x == splat<L>(0), splat<L>(0), inside);
  }
};
struct ndtr {
  FACULA_FN L eval(L x) { return splat<L>(0.5) * m::erfc(x * splat<L>(-0.70710678118654752440)); }
};
#undef FACULA_ELEMENTARY

}  // namespace op

#undef FACULA_FN
FACULA_EXPR_END
#endif
