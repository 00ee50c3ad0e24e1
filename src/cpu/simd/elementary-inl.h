// Elementary functions of SIMD lanes: exp, log, sin and their relatives for `Lane<float>` and `Lane<double>`, namespace `m`.
// Errors are at most about 2 units in the last place; tests/cpp/scalar_math_test.cpp holds the bound of each.
//
// Common habit: the hot path handles every lane in a middle range without clamps; one test per vector, or per several side by side, sends the rest (overflow,
// subnormals, huge angles) to a second path that is right but slower. NaN passes through both.
#if defined(FACULA_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_ELEMENTARY_INL_H_
#undef FACULA_ELEMENTARY_INL_H_
#else
#define FACULA_ELEMENTARY_INL_H_
#endif

#include "cpu/simd/elementary_coefs.h"
#include "cpu/simd/lanes-inl.h"

FACULA_EXPR_BEGIN
namespace m {

// ---- tools -------------------------------------------------------------------------------------------------------------------

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using U = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr U kOne = 0x3F800000u, kSqrtHalf = 0x3F3504F3u, kMantissaMask = 0x007FFFFFu,
                     kTwoToMantissa = 0x4B000000u;
  static constexpr float kMagic = 12582912.0f, kBias = 127.0f, kTwoMantissa = 8388608.0f;
  static constexpr float kMinNormal = 1.17549435e-38f;
};
template <>
struct FloatBits<double> {
  using U = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr U kOne = 0x3FF0000000000000u, kSqrtHalf = 0x3FE6A09E667F3BCDu, kMantissaMask = 0x000FFFFFFFFFFFFFu,
                     kTwoToMantissa = 0x4330000000000000u;
  static constexpr double kMagic = 6755399441055744.0, kBias = 1023.0, kTwoMantissa = 4503599627370496.0;
  static constexpr double kMinNormal = 2.2250738585072014e-308;
};

template <class T>
using UVec = hn::Vec<Tag<typename FloatBits<T>::U>>;
template <class T>
HWY_INLINE UVec<T> bits_of(Lane<T> x) {
  return hn::BitCast(Tag<typename FloatBits<T>::U>(), x.v);
}
template <class T>
HWY_INLINE Lane<T> of_bits(UVec<T> b) {
  return {hn::BitCast(Tag<T>(), b)};
}
template <class T>
HWY_INLINE UVec<T> set_bits(typename FloatBits<T>::U b) {
  return hn::Set(Tag<typename FloatBits<T>::U>(), b);
}
template <class T>
HWY_INLINE Lane<T> constant(T x) {
  return {hn::Set(Tag<T>(), x)};
}

// Functions of `L` take one vector or several side by side (`Lanes`), with the same bits.
template <class L>
using ScalarOf = typename lane_traits<L>::Scalar;
template <class L>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<Lane<T>> = true;
template <class T, int N>
constexpr bool kIsVector<Lanes<T, N>> = true;

template <class L, size_t N, size_t I, size_t Step>
HWY_INLINE L horner_from(const double (&c)[N], L x, L acc) {
  const L next = fma(acc, x, splat<L>(c[I]));
  if constexpr (I >= Step) return horner_from<L, N, I - Step, Step>(c, x, next);
  else return next;
}
// A polynomial, constant term first, as one chain: the fewest instructions, for where other vectors fill the time.
template <class L, size_t N>
HWY_INLINE L chain(const double (&c)[N], L x) {
  return horner_from<L, N, N - 2, 1>(c, x, splat<L>(c[N - 1]));
}
// A polynomial, constant term first; long ones as two independent chains of even and odd powers.
template <class L, size_t N>
HWY_INLINE L poly(const double (&c)[N], L x) {
  if constexpr (N < 6) {
    return chain(c, x);
  } else {
    const L x2 = x * x;
    const L high = horner_from<L, N, N - 3, 2>(c, x2, splat<L>(c[N - 1]));
    const L low = horner_from<L, N, N - 4, 2>(c, x2, splat<L>(c[N - 2]));
    if constexpr (N % 2 == 1) return fma(low, x, high);
    else return fma(high, x, low);
  }
}

// Replaces the lanes under `where` by f of the lane, one by one.
template <class T>
HWY_NOINLINE Lane<T> patch(LaneMask<T> where, Lane<T> x, Lane<T> result, T (*f)(T)) {
  HWY_ALIGN T in[Lane<T>::kSize], out[Lane<T>::kSize];
  hn::Store(x.v, Tag<T>(), in);
  for (size_t i = 0; i < Lane<T>::kSize; ++i) out[i] = f(in[i]);
  return m::select(where, Lane<T>{hn::Load(Tag<T>(), out)}, result);
}

// ---- exponentials --------------------------------------------------------------------------------------------------------------

// x 2^n where t = n + kMagic, for x and results in the range of normal numbers. NaN may become any number.
template <class T>
HWY_INLINE Lane<T> times_pow2_of_magic(Lane<T> x, Lane<T> t) {
  return of_bits<T>(hn::Add(bits_of(x), hn::ShiftLeft<FloatBits<T>::kMantissa>(bits_of(t))));
}
FACULA_LANES_2(Lanes, times_pow2_of_magic)

// 2^n where t = n + kMagic, for n in the range of normal exponents.
template <class L>
HWY_INLINE L pow2_of_magic(L t) {
  return times_pow2_of_magic(splat<L>(1.0), t);
}

template <class T>
struct ExpRange;
template <>
struct ExpRange<float> {
  static constexpr float kFast = 87.0f, kHigh = 88.8f, kLow = -104.0f;
  static constexpr float kLn2Hi = 0.693359375f, kLn2Lo = -2.12194440e-4f;
};
template <>
struct ExpRange<double> {
  static constexpr double kFast = 708.0, kHigh = 709.8, kLow = -745.2;
  static constexpr double kLn2Hi = 6.93147180369123816490e-01, kLn2Lo = 1.90821492927058770002e-10;
};

// e^x = 2^n (1 + p). t = n + kMagic.
template <class L>
struct ExpParts {
  L t, n, p;
};
template <class L>
HWY_INLINE L expm1_reduced(L r) {
  const L r2 = r * r;
  if constexpr (sizeof(ScalarOf<L>) == 4) {
    // Pairs of terms side by side: what takes time is the way to the last of them.
    const auto& c = coef::kExpF32;
    const L low = fma(r, splat<L>(c[1]), splat<L>(c[0])), high = fma(r, splat<L>(c[3]), splat<L>(c[2]));
    return fma(r2, fma(r2, fma(r2, splat<L>(c[4]), high), low), r);
  } else {
    return fma(r2, poly(coef::kExpF64, r), r);
  }
}
template <class L>
HWY_INLINE ExpParts<L> exp_parts(L x) {
  using Range = ExpRange<ScalarOf<L>>;
  ExpParts<L> e;
  const L magic = splat<L>(FloatBits<ScalarOf<L>>::kMagic);
  e.t = fma(x, splat<L>(1.44269504088896340736), magic);
  e.n = e.t - magic;
  L r = fma(e.n, splat<L>(-Range::kLn2Hi), x);
  r = fma(e.n, splat<L>(-Range::kLn2Lo), r);
  e.p = expm1_reduced(r);
  return e;
}

// 2^n y, y in [1/2, 2], where 2^n may be below or above the normal range; n within twice of it.
template <class T>
HWY_INLINE Lane<T> scale_wide(Lane<T> n, Lane<T> y) {
  const Lane<T> magic = constant(FloatBits<T>::kMagic);
  const Lane<T> half = m::round(n * splat<Lane<T>>(0.5));
  return (y * pow2_of_magic(half + magic)) * pow2_of_magic((n - half) + magic);
}
template <class T>
HWY_NOINLINE Lane<T> exp_wide(Lane<T> x) {
  const Lane<T> high = constant(ExpRange<T>::kHigh), low = constant(ExpRange<T>::kLow);
  const Lane<T> inside = m::select(x > high, high, m::select(x < low, low, x));
  const ExpParts<Lane<T>> e = exp_parts(inside);
  return scale_wide(e.n, splat<Lane<T>>(1.0) + e.p);
}
FACULA_LANES_1(exp_wide)
template <class L>
  requires kIsVector<L>
HWY_INLINE L exp(L x) {
  if (HWY_UNLIKELY(any(m::abs(x) > splat<L>(ExpRange<ScalarOf<L>>::kFast)))) return exp_wide(x);
  const ExpParts<L> e = exp_parts(x);
  const L scale = pow2_of_magic(e.t);
  return fma(scale, e.p, scale);
}

// 2^r, |r| <= 1/2
template <class L>
HWY_INLINE L exp2_reduced(L r) {
  if constexpr (sizeof(ScalarOf<L>) == 4) return chain(coef::kExp2F32, r);
  else return splat<L>(1.0) + expm1_reduced(r * splat<L>(0.69314718055994530942));
}
// 2^x where that is a normal number, which the caller ensures. NaN may become any number.
template <class L>
  requires kIsVector<L>
HWY_INLINE L exp2_normal(L x) {
  const L magic = splat<L>(FloatBits<ScalarOf<L>>::kMagic), t = x + magic;
  return times_pow2_of_magic(exp2_reduced(x - (t - magic)), t);
}
template <class T>
HWY_NOINLINE Lane<T> exp2_wide(Lane<T> x) {
  // Outside +-2000 the result is 0 or infinity already.
  const Lane<T> bound = splat<Lane<T>>(sizeof(T) == 4 ? 200.0 : 2000.0), magic = constant(FloatBits<T>::kMagic);
  const Lane<T> inside = m::at_most(m::at_least(x, -bound), bound), n = (inside + magic) - magic;
  return scale_wide(n, exp2_reduced(inside - n));
}
FACULA_LANES_1(exp2_wide)
template <class L>
  requires kIsVector<L>
HWY_INLINE L exp2(L x) {
  if (HWY_UNLIKELY(any(m::abs(x) > splat<L>(sizeof(ScalarOf<L>) == 4 ? 125.0 : 1021.0)))) return exp2_wide(x);
  const L magic = splat<L>(FloatBits<ScalarOf<L>>::kMagic), t = x + magic;
  return exp2_reduced(x - (t - magic)) * pow2_of_magic(t);
}

template <class T>
HWY_INLINE Lane<T> expm1(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0);
  if (HWY_UNLIKELY(any(m::abs(x) > constant(ExpRange<T>::kFast)))) {
    // Beyond the fast range -1 or e^x is the result; lanes inside it go through the formula with the others at 0.
    const LaneMask<T> far = m::abs(x) > constant(ExpRange<T>::kFast);
    const ExpParts<Lane<T>> e = exp_parts(m::select(far, splat<Lane<T>>(0.0), x));
    const Lane<T> scale = pow2_of_magic(e.t);
    const Lane<T> near = m::select(x == splat<Lane<T>>(0.0), x, fma(scale, e.p, scale - one));
    return m::select(far, m::select(x < splat<Lane<T>>(0.0), -one, exp_wide(x)), near);
  }
  const ExpParts<Lane<T>> e = exp_parts(x);
  const Lane<T> scale = pow2_of_magic(e.t);
  // The sums with 0 lose the sign of -0.
  return m::select(x == splat<Lane<T>>(0.0), x, fma(scale, e.p, scale - one));
}

// expm1 for |x| within the fast range, which the caller ensures.
template <class L>
HWY_INLINE L expm1_near(L x) {
  const ExpParts<L> e = exp_parts(x);
  const L scale = pow2_of_magic(e.t);
  return fma(scale, e.p, scale - splat<L>(1.0));
}

// ---- logarithms ----------------------------------------------------------------------------------------------------------------

// x = 2^e (1 + f), for positive x; subnormals included.
template <class T>
struct LogParts {
  Lane<T> e, f;
};
template <class T>
HWY_INLINE LogParts<T> log_parts(Lane<T> x) {
  using B = FloatBits<T>;
  Lane<T> bias = constant(B::kTwoMantissa + B::kBias);
  if (HWY_UNLIKELY(any(x < constant(B::kMinNormal)))) {
    const LaneMask<T> tiny = x < constant(B::kMinNormal);
    x = m::select(tiny, x * constant(B::kTwoMantissa), x);
    bias = m::select(tiny, bias + constant(static_cast<T>(B::kMantissa)), bias);
  }
  const UVec<T> u = hn::Add(bits_of(x), set_bits<T>(B::kOne - B::kSqrtHalf));
  const UVec<T> exponent = hn::Or(hn::ShiftRight<B::kMantissa>(u), set_bits<T>(B::kTwoToMantissa));
  const UVec<T> mantissa = hn::Add(hn::And(u, set_bits<T>(B::kMantissaMask)), set_bits<T>(B::kSqrtHalf));
  return {of_bits<T>(exponent) - bias, of_bits<T>(mantissa) - splat<Lane<T>>(1.0)};
}

// log(1 + f) + e ln 2 + low, where |low| is below the last place of the rest.
template <class T>
HWY_INLINE Lane<T> log_sum(LogParts<T> x, Lane<T> low) {
  const Lane<T> f = x.f, hi = constant(ExpRange<T>::kLn2Hi), lo = constant(ExpRange<T>::kLn2Lo);
  const Lane<T> half_square = splat<Lane<T>>(0.5) * f * f;
  if constexpr (sizeof(T) == 4) {
    Lane<T> y = f * f * f * poly(coef::kLogF32, f);
    y = fma(x.e, lo, y) + low;
    y = (y - half_square) + f;
    return fma(x.e, hi, y);
  } else {
    const Lane<T> s = f / (splat<Lane<T>>(2.0) + f), z = s * s;
    const Lane<T> tail = fma(s, half_square + z * poly(coef::kLogF64, z), fma(x.e, lo, low));
    return fma(x.e, hi, f - (half_square - tail));
  }
}

// The values of logarithms where x is zero, negative, infinite or NaN.
template <class T>
HWY_INLINE Lane<T> log_edges(Lane<T> x, Lane<T> result) {
  const Lane<T> zero = splat<Lane<T>>(0.0), inf = infinity(x);
  const LaneMask<T> inside = (x > zero) & (x < inf);
  if (HWY_UNLIKELY(any(!inside))) {
    const Lane<T> edge = m::select(x == zero, -inf, m::select(x == inf, inf, not_a_number(x)));
    return m::select(inside, result, edge);
  }
  return result;
}

template <class T>
HWY_INLINE Lane<T> log(Lane<T> x) {
  return log_edges(x, log_sum(log_parts(x), splat<Lane<T>>(0.0)));
}
template <class T>
HWY_INLINE Lane<T> log_in_base(Lane<T> x, double log_of_e, Lane<T> unit_hi, Lane<T> unit_lo) {
  const LogParts<T> parts = log_parts(x);
  const Lane<T> natural = log_sum<T>({splat<Lane<T>>(0.0), parts.f}, splat<Lane<T>>(0.0));
  const T factor_hi = static_cast<T>(log_of_e);
  const Lane<T> factor_lo = constant(static_cast<T>(log_of_e - static_cast<double>(factor_hi)));
  const Lane<T> low = fma(parts.e, unit_lo, natural * factor_lo);
  return log_edges(x, fma(parts.e, unit_hi, fma(natural, constant(factor_hi), low)));
}
template <class T>
HWY_INLINE Lane<T> log2(Lane<T> x) {
  return log_in_base(x, 1.44269504088896340736, splat<Lane<T>>(1.0), splat<Lane<T>>(0.0));
}
template <class T>
HWY_INLINE Lane<T> log10(Lane<T> x) {
  // log10(2) with a high part short enough that its product with an exponent is exact.
  if constexpr (sizeof(T) == 4)
    return log_in_base(x, 0.43429448190325182765, splat<Lane<T>>(0.30078125), splat<Lane<T>>(2.48745663981195e-4));
  else
    return log_in_base(x, 0.43429448190325182765, splat<Lane<T>>(3.01029995663611771306e-01),
                       splat<Lane<T>>(3.69423907715893078616e-13));
}
template <class T>
HWY_INLINE Lane<T> log1p(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0), u = one + x, back = u - one;
  const Lane<T> lost = (one - (u - back)) + (x - back);  // u + lost is exactly 1 + x
  const Lane<T> result = log_edges(u, log_sum(log_parts(u), lost / u));
  return m::select(x == splat<Lane<T>>(0.0), x, result);
}

// ---- circular functions ----------------------------------------------------------------------------------------------------------

// x = q pi/2 + r with |r| <= pi/4 (a little more at the edges).
template <class T>
struct Angle {
  Lane<T> r;
  UVec<T> q;
};
template <class T>
struct AngleRange;
// With a fused multiply-add each step is exact until r itself is rounded; without, the parts of pi/2 are short enough that their
// products with q are exact.
#if HWY_NATIVE_FMA
template <>
struct AngleRange<float> {
  static constexpr float kFast = 30000.0f;
  static constexpr float kParts[] = {1.57079637050628662109375f, -4.3711388286737929e-8f, -1.71512451e-15f};
};
template <>
struct AngleRange<double> {
  static constexpr double kFast = 1.0e7;
  static constexpr double kParts[] = {1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33};
};
#else
template <>
struct AngleRange<float> {
  static constexpr float kFast = 6000.0f;
  static constexpr float kParts[] = {1.5703125f, 4.837512969970703125e-4f, 7.549533620476722717e-8f,
                                     2.5633440682570896e-12f};
};
template <>
struct AngleRange<double> {
  static constexpr double kFast = 5.0e5;
  static constexpr double kParts[] = {1.57079632673412561417e+00, 6.07710050630396597660e-11,
                                      2.02226624879595063154e-21};
};
#endif
template <class T>
HWY_INLINE Angle<T> angle_parts(Lane<T> x) {
  const Lane<T> magic = constant(FloatBits<T>::kMagic);
  const Lane<T> t = fma(x, splat<Lane<T>>(0.63661977236758134308), magic), n = t - magic;
  Lane<T> r = x;
  for (const T part : AngleRange<T>::kParts) r = fma(n, constant(-part), r);
  return {r, bits_of(t)};
}
template <class T>
HWY_INLINE Lane<T> sin_reduced(Lane<T> r) {
  const Lane<T> z = r * r;
  if constexpr (sizeof(T) == 4) return fma(r * z, poly(coef::kSinF32, z), r);
  else return fma(r * z, poly(coef::kSinF64, z), r);
}
template <class T>
HWY_INLINE Lane<T> cos_reduced(Lane<T> r) {
  const Lane<T> z = r * r;
  const Lane<T> tail = [&]() HWY_ATTR {
    if constexpr (sizeof(T) == 4) return poly(coef::kCosF32, z);
    else return poly(coef::kCosF64, z);
  }();
  const Lane<T> one = splat<Lane<T>>(1.0), half = splat<Lane<T>>(0.5) * z, w = one - half;
  return w + fma(z * z, tail, (one - w) - half);
}
template <class T>
HWY_INLINE LaneMask<T> bit_is_set(UVec<T> q, typename FloatBits<T>::U bit) {
  const UVec<T> b = set_bits<T>(bit);
  return {hn::RebindMask(Tag<T>(), hn::Eq(hn::And(q, b), b))};
}
template <class T>
HWY_INLINE LaneMask<T> is_huge_angle(Lane<T> x) {
  return !(m::abs(x) <= constant(AngleRange<T>::kFast));
}

inline float libm_sin(float x) { return ::sinf(x); }
inline double libm_sin(double x) { return ::sin(x); }
inline float libm_cos(float x) { return ::cosf(x); }
inline double libm_cos(double x) { return ::cos(x); }
inline float libm_tan(float x) { return ::tanf(x); }
inline double libm_tan(double x) { return ::tan(x); }

template <class T>
HWY_INLINE Lane<T> sin(Lane<T> x) {
  const Angle<T> a = angle_parts(x);
  const Lane<T> y = m::select(bit_is_set<T>(a.q, 1), cos_reduced(a.r), sin_reduced(a.r));
  const Lane<T> signed_y = m::select(bit_is_set<T>(a.q, 2), -y, y);
  // r = x - 0 would turn -0 into +0.
  const Lane<T> result = m::select(x == splat<Lane<T>>(0.0), x, signed_y);
  if (HWY_UNLIKELY(any(is_huge_angle(x)))) return patch<T>(is_huge_angle(x), x, result, libm_sin);
  return result;
}
template <class T>
HWY_INLINE Lane<T> cos(Lane<T> x) {
  const Angle<T> a = angle_parts(x);
  const Lane<T> y = m::select(bit_is_set<T>(a.q, 1), sin_reduced(a.r), cos_reduced(a.r));
  const UVec<T> next = hn::Add(a.q, set_bits<T>(1));
  const Lane<T> result = m::select(bit_is_set<T>(next, 2), -y, y);
  if (HWY_UNLIKELY(any(is_huge_angle(x)))) return patch<T>(is_huge_angle(x), x, result, libm_cos);
  return result;
}
template <class T>
HWY_INLINE Lane<T> tan(Lane<T> x) {
  const Angle<T> a = angle_parts(x);
  const Lane<T> s = sin_reduced(a.r), c = cos_reduced(a.r);
  const LaneMask<T> odd = bit_is_set<T>(a.q, 1);
  const Lane<T> ratio = m::select(odd, -c, s) / m::select(odd, s, c);
  const Lane<T> result = m::select(x == splat<Lane<T>>(0.0), x, ratio);
  if (HWY_UNLIKELY(any(is_huge_angle(x)))) return patch<T>(is_huge_angle(x), x, result, libm_tan);
  return result;
}

// atan of 0 <= x <= 1.
template <class T>
HWY_INLINE Lane<T> atan_unit(Lane<T> x) {
  const Lane<T> z = x * x;
  if constexpr (sizeof(T) == 4) return fma(x * z, poly(coef::kAtanF32, z), x);
  else return fma(x * z, poly(coef::kAtanF64, z), x);
}
// pi/2 - x, with the part of pi/2 below its last place.
template <class T>
HWY_INLINE Lane<T> complement(Lane<T> x) {
  const Lane<T> low = splat<Lane<T>>(sizeof(T) == 4 ? -4.37113900018624283e-8 : 6.123233995736766e-17);
  return splat<Lane<T>>(1.57079632679489661923) + (low - x);
}
template <class T>
HWY_INLINE Lane<T> atan(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0), a = m::abs(x);
  const LaneMask<T> large = a > one;
  const Lane<T> y = atan_unit(m::select(large, one / a, a));
  return m::copysign(m::select(large, complement(y), y), x);
}
template <class T>
HWY_INLINE Lane<T> atan2(Lane<T> y, Lane<T> x) {
  const Lane<T> ax = m::abs(x), ay = m::abs(y), zero = splat<Lane<T>>(0.0);
  const LaneMask<T> steep = ay > ax;
  const Lane<T> small = m::select(steep, ax, ay), large = m::select(steep, ay, ax);
  Lane<T> ratio = small / large;
  ratio = m::select(large == zero, zero, ratio);
  ratio = m::select(small == infinity(x), splat<Lane<T>>(1.0), ratio);
  Lane<T> r = atan_unit(ratio);
  r = m::select(steep, complement(r), r);
  const Lane<T> pi_low = splat<Lane<T>>(sizeof(T) == 4 ? -8.74227800037248566e-8 : 1.2246467991473532e-16);
  r = m::select(m::signbit(x), splat<Lane<T>>(3.14159265358979323846) + (pi_low - r), r);
  r = m::select(m::isnan(x) | m::isnan(y), x + y, r);
  return m::copysign(r, y);
}

// asin of 0 <= x <= 1/2.
template <class T>
HWY_INLINE Lane<T> asin_half(Lane<T> x, Lane<T> z) {
  if constexpr (sizeof(T) == 4) return fma(x * z, poly(coef::kAsinF32, z), x);
  else return fma(x * z, poly(coef::kAsinF64, z), x);
}
template <class T>
HWY_INLINE Lane<T> asin(Lane<T> x) {
  const Lane<T> half = splat<Lane<T>>(0.5), a = m::abs(x);
  const LaneMask<T> large = a > half;
  const Lane<T> z = m::select(large, (splat<Lane<T>>(1.0) - a) * half, a * a);
  const Lane<T> y = asin_half(m::select(large, m::sqrt(z), a), z);
  return m::copysign(m::select(large, complement(y + y), y), x);
}
template <class T>
HWY_INLINE Lane<T> acos(Lane<T> x) {
  const Lane<T> half = splat<Lane<T>>(0.5), a = m::abs(x);
  const LaneMask<T> large = a > half;
  const Lane<T> z = m::select(large, (splat<Lane<T>>(1.0) - a) * half, a * a);
  const Lane<T> y = asin_half(m::select(large, m::sqrt(z), a), z);
  const Lane<T> twice = y + y;
  const Lane<T> pi_low = splat<Lane<T>>(sizeof(T) == 4 ? -8.74227800037248566e-8 : 1.2246467991473532e-16);
  const Lane<T> far =
      m::select(x < splat<Lane<T>>(0.0), splat<Lane<T>>(3.14159265358979323846) + (pi_low - twice), twice);
  return m::select(large, far, complement(m::copysign(y, x)));
}

// ---- hyperbolic functions --------------------------------------------------------------------------------------------------------

// e^x / 2 for x so large that e^-x vanishes, without overflow before the result does.
template <class T>
HWY_INLINE Lane<T> half_exp(Lane<T> x) {
  const Lane<T> h = exp(x * splat<Lane<T>>(0.5));
  return (splat<Lane<T>>(0.5) * h) * h;
}
template <class T>
HWY_INLINE Lane<T> sinh(Lane<T> x) {
  const Lane<T> a = m::abs(x), bound = splat<Lane<T>>(sizeof(T) == 4 ? 80.0 : 700.0), one = splat<Lane<T>>(1.0);
  const Lane<T> e = expm1_near(m::at_most(a, bound));
  Lane<T> y = splat<Lane<T>>(0.5) * (e + e / (e + one));
  if (HWY_UNLIKELY(any(a > bound))) y = m::select(a > bound, half_exp(a), y);
  return m::copysign(y, x);
}
template <class T>
HWY_INLINE Lane<T> cosh(Lane<T> x) {
  const Lane<T> a = m::abs(x), bound = splat<Lane<T>>(sizeof(T) == 4 ? 80.0 : 700.0), half = splat<Lane<T>>(0.5);
  const Lane<T> e = exp(m::at_most(a, bound));
  const Lane<T> y = fma(half, e, half / e);
  if (HWY_UNLIKELY(any(a > bound))) return m::select(a > bound, half_exp(a), y);
  return y;
}
template <class L>
  requires kIsVector<L>
HWY_INLINE L tanh(L x) {
  const L a = m::at_most(m::abs(x), splat<L>(sizeof(ScalarOf<L>) == 4 ? 10.0 : 22.0));
  const L e = expm1_near(a + a);
  return m::copysign(e / (e + splat<L>(2.0)), x);
}
template <class T>
HWY_INLINE Lane<T> asinh(Lane<T> x) {
  const Lane<T> a = m::abs(x), one = splat<Lane<T>>(1.0), big = splat<Lane<T>>(sizeof(T) == 4 ? 1.0e9 : 1.0e100);
  const LaneMask<T> large = a > big;
  const Lane<T> s = a * a;
  const Lane<T> near = a + s / (one + m::sqrt(s + one));
  const Lane<T> y = log1p(m::select(large, a, near));
  return m::copysign(m::select(large, y + splat<Lane<T>>(0.69314718055994530942), y), x);
}
template <class T>
HWY_INLINE Lane<T> acosh(Lane<T> x) {
  const Lane<T> big = splat<Lane<T>>(sizeof(T) == 4 ? 1.0e9 : 1.0e100), one = splat<Lane<T>>(1.0);
  const LaneMask<T> large = x > big;
  const Lane<T> t = x - one;
  const Lane<T> near = t + m::sqrt(t * (x + one));
  const Lane<T> y = log1p(m::select(large, t, near));
  const Lane<T> result = m::select(large, y + splat<Lane<T>>(0.69314718055994530942), y);
  return m::select(x < one, not_a_number(x), result);
}
template <class T>
HWY_INLINE Lane<T> atanh(Lane<T> x) {
  const Lane<T> a = m::abs(x);
  return m::copysign(splat<Lane<T>>(0.5) * log1p((a + a) / (splat<Lane<T>>(1.0) - a)), x);
}

// ---- error function --------------------------------------------------------------------------------------------------------------

// erf for |x| <= 1.
template <class T>
HWY_INLINE Lane<T> erf_near(Lane<T> x) {
  const Lane<T> z = x * x;
  if constexpr (sizeof(T) == 4) return fma(x, poly(coef::kErfF32, z), x);
  else return fma(x, poly(coef::kErfF64, z), x);
}
// x^2 as a sum of two numbers; the low one is 0 where the machine has no cheap way to it and x is short.
template <class T>
HWY_INLINE Lane<T> square_low(Lane<T> x, Lane<T> high) {
#if HWY_NATIVE_FMA
  return fma(x, x, -high);
#else
  const Lane<T> c = x * splat<Lane<T>>(sizeof(T) == 4 ? 4097.0 : 134217729.0);
  const Lane<T> h = c - (c - x), l = x - h;
  return ((h * h - high) + (h + h) * l) + l * l;
#endif
}
// erfc for x >= 0.45.
template <class T>
HWY_INLINE Lane<T> erfc_far(Lane<T> x) {
  const Lane<T> three = splat<Lane<T>>(3.0), one = splat<Lane<T>>(1.0);
  x = m::at_most(x, splat<Lane<T>>(sizeof(T) == 4 ? 10.6 : 28.0));
  const Lane<T> slope = one + (x + x), sum = x + three, q = one / (sum * slope);
  const Lane<T> t = ((x - three) * slope) * q;
  const Lane<T> p = [&]() HWY_ATTR {
    if constexpr (sizeof(T) == 4) return poly(coef::kErfcxF32, t);
    else return poly(coef::kErfcxF64, t);
  }();
  const Lane<T> square = x * x, low = square_low(x, square);
  const Lane<T> scaled = p * (sum * q);
  return exp(-square) * (scaled - scaled * low);
}
template <class T>
HWY_INLINE Lane<T> erf(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0), a = m::abs(x);
  const LaneMask<T> near = a <= one;
  const Lane<T> inner = erf_near(m::select(near, x, one));
  if constexpr (sizeof(T) == 4) {
    // The logarithm of erfc is almost a parabola: cheaper than a quotient, and exact enough next to 1.
    const Lane<T> bounded = m::at_most(m::select(near, one, a), splat<Lane<T>>(4.0));
    const ExpParts<Lane<T>> e = exp_parts(poly(coef::kLogErfcF32, bounded));
    const Lane<T> scale = pow2_of_magic(e.t);
    return m::select(near, inner, m::copysign(one - fma(scale, e.p, scale), x));
  } else {
    if (HWY_LIKELY(!any(!near))) return inner;
    return m::select(near, inner, m::copysign(one - erfc_far(m::select(near, one, a)), x));
  }
}
template <class T>
HWY_INLINE Lane<T> erfc(Lane<T> x) {
  const Lane<T> one = splat<Lane<T>>(1.0), a = m::abs(x), half = splat<Lane<T>>(0.5);
  const LaneMask<T> near = a <= half;
  const Lane<T> far = erfc_far(m::select(near, one, a));
  const Lane<T> outer = m::select(x < splat<Lane<T>>(0.0), splat<Lane<T>>(2.0) - far, far);
  return m::select(near, one - erf_near(m::select(near, x, half)), outer);
}

// ---- powers and lengths ------------------------------------------------------------------------------------------------------------

// Without overflow or underflow in between: both are scaled by a power of two.
template <class T>
HWY_INLINE Lane<T> hypot(Lane<T> x, Lane<T> y) {
  const Lane<T> a = m::abs(x), b = m::abs(y), large = m::select(a > b, a, b);
  const double k = sizeof(T) == 4 ? 18446744073709551616.0 : 1.3407807929942597e154;  // 2^64, 2^512
  const double high = sizeof(T) == 4 ? 1e18 : 1e150, low = sizeof(T) == 4 ? 1e-12 : 1e-140;
  const LaneMask<T> up = large<splat<Lane<T>>(low), down = large> splat<Lane<T>>(high);
  const Lane<T> one = splat<Lane<T>>(1.0);
  const Lane<T> scale = m::select(up, splat<Lane<T>>(k), m::select(down, splat<Lane<T>>(1.0 / k), one));
  const Lane<T> back = m::select(up, splat<Lane<T>>(1.0 / k), m::select(down, splat<Lane<T>>(k), one));
  const Lane<T> u = a * scale, v = b * scale;
  const Lane<T> r = m::sqrt(fma(u, u, v * v)) * back;
  const Lane<T> inf = infinity(x);
  return m::select((a == inf) | (b == inf), inf, r);
}

inline double libm_pow(double x, double y) { return ::pow(x, y); }

// y log|x| and its exponential in double, for powers of float.
HWY_INLINE Lane<double> pow_magnitude(Lane<double> a, Lane<double> y) { return exp(y * log(a)); }

HWY_INLINE Lane<float> pow(Lane<float> x, Lane<float> y) {
  using L = Lane<float>;
  const Tag<float> df;
  const Tag<double> dd;
  const hn::Half<Tag<float>> dh;
  const L a = m::abs(x);
  const Lane<double> low =
      pow_magnitude({hn::PromoteTo(dd, hn::LowerHalf(dh, a.v))}, {hn::PromoteTo(dd, hn::LowerHalf(dh, y.v))});
  const Lane<double> high =
      pow_magnitude({hn::PromoteTo(dd, hn::UpperHalf(dh, a.v))}, {hn::PromoteTo(dd, hn::UpperHalf(dh, y.v))});
  L r = {hn::Combine(df, hn::DemoteTo(dh, high.v), hn::DemoteTo(dh, low.v))};
  const L zero = splat<L>(0.0), one = splat<L>(1.0), inf = infinity(x);
  const LaneMask<float> negative = m::signbit(x);
  if (HWY_UNLIKELY(any(negative))) {
    const L half = y * splat<L>(0.5);
    const LaneMask<float> whole = m::round(y) == y, odd = whole & (m::round(half) != half);
    r = m::select(negative & odd, -r, r);
    r = m::select((x < zero) & !whole & (a < inf), not_a_number(x), r);
  }
  r = m::select((x == one) | (y == zero), one, r);
  return m::select((x == -one) & m::isinf(y), one, r);
}
HWY_INLINE Lane<double> pow(Lane<double> x, Lane<double> y) {
  HWY_ALIGN double a[Lane<double>::kSize], b[Lane<double>::kSize];
  const Tag<double> d;
  hn::Store(x.v, d, a);
  hn::Store(y.v, d, b);
  for (size_t i = 0; i < Lane<double>::kSize; ++i) a[i] = libm_pow(a[i], b[i]);
  return {hn::Load(d, a)};
}

}  // namespace m
FACULA_EXPR_END
#endif
