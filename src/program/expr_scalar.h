// The plain scalar lane: `float`, `double` and integers with the primitives that formulas use, namespace `m`. Read by host compilers
// (once more for each instruction set of the CPU) and by NVRTC and hipRTC. SIMD lanes are in `cpu/simd/lanes-inl.h`.
//
// The guard follows Highway's: the file is read once per HWY_TARGET in a translation unit that is compiled for several.
#if defined(FACULA_EXPR_SCALAR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_EXPR_SCALAR_H_
#undef FACULA_EXPR_SCALAR_H_
#else
#define FACULA_EXPR_SCALAR_H_
#endif

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#define FACULA_DEVICE __device__ __forceinline__
#ifndef FACULA_EXPR_INTS_
#define FACULA_EXPR_INTS_
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
using uint8_t = unsigned char;
#endif
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#define FACULA_DEVICE inline
#endif

#if defined(__clang__)
// Masks of a lane are joined with & and |; the mask of the plain scalar lane is bool.
#pragma clang diagnostic ignored "-Wbitwise-instead-of-logical"
#endif

// Where the lanes and formulas are put: `facula::expr`, or one namespace per instruction set (see cpu/simd/lanes-inl.h).
#ifndef FACULA_EXPR_BEGIN
#define FACULA_EXPR_BEGIN \
  namespace facula {      \
  namespace expr {
#define FACULA_EXPR_END \
  }                     \
  }
#endif

FACULA_EXPR_BEGIN

template <class R>
struct Complex {
  R re, im;
};

// lane_traits<L>::Scalar is the element type, ::Mask what comparisons of L give, ::Real the lane of the real parts.
template <class L>
struct lane_traits {
  using Scalar = L;
  using Mask = bool;
  using Real = L;
  static constexpr bool kComplex = false;
};
template <class R>
struct lane_traits<Complex<R>> {
  using Scalar = typename lane_traits<R>::Scalar;
  using Mask = typename lane_traits<R>::Mask;
  using Real = R;
  static constexpr bool kComplex = true;
};

template <class T>
struct is_float {
  static constexpr bool value = false;
};
template <>
struct is_float<float> {
  static constexpr bool value = true;
};
template <>
struct is_float<double> {
  static constexpr bool value = true;
};
template <class T>
struct unsigned_of;
template <>
struct unsigned_of<int32_t> {
  using type = uint32_t;
};
template <>
struct unsigned_of<int64_t> {
  using type = uint64_t;
};
template <>
struct unsigned_of<uint64_t> {
  using type = uint64_t;
};
template <>
struct unsigned_of<uint8_t> {
  using type = uint8_t;
};
template <>
struct unsigned_of<bool> {
  using type = bool;
};

template <class L>
inline constexpr bool kIsFloatLane = is_float<typename lane_traits<L>::Scalar>::value;
template <class L>
inline constexpr bool kIsDouble = sizeof(typename lane_traits<L>::Scalar) == 8;
// B8: a byte that is 0 or 1. As a lane it is uint8_t, which no integer dtype computes in.
template <class L>
inline constexpr bool kIsBoolLane = sizeof(L) == 1;

// A constant in the type of a lane.
template <class L>
struct Splat {
  static FACULA_DEVICE L of(double x) { return static_cast<L>(x); }
};
template <class R>
struct Splat<Complex<R>> {
  static FACULA_DEVICE Complex<R> of(double x) { return {Splat<R>::of(x), Splat<R>::of(0.0)}; }
};
template <class L>
FACULA_DEVICE L splat(double x) {
  return Splat<L>::of(x);
}

namespace m {

template <class T>
FACULA_DEVICE T select(bool c, T a, T b) {
  return c ? a : b;
}
// x bounded by numbers that are not NaN; NaN stays.
template <class T>
FACULA_DEVICE T at_least(T x, T low) {
  return x < low ? low : x;
}
template <class T>
FACULA_DEVICE T at_most(T x, T high) {
  return x > high ? high : x;
}

// Where all results are rounded to 16 bits or fewer, the GPU's short exponential is as good: it has 17 bits at least.
#if defined(FACULA_NARROW_RESULTS)
#define FACULA_EXPF __expf
#else
#define FACULA_EXPF expf
#endif

#define FACULA_REAL_FN(name, f32, f64)                   \
  FACULA_DEVICE float name(float x) { return ::f32(x); } \
  FACULA_DEVICE double name(double x) { return ::f64(x); }
FACULA_REAL_FN(abs, fabsf, fabs)
FACULA_REAL_FN(sqrt, sqrtf, sqrt)
FACULA_REAL_FN(floor, floorf, floor)
FACULA_REAL_FN(ceil, ceilf, ceil)
FACULA_REAL_FN(trunc, truncf, trunc)
FACULA_REAL_FN(round, rintf, rint)
FACULA_REAL_FN(exp, FACULA_EXPF, exp)
FACULA_REAL_FN(exp2, exp2f, exp2)
FACULA_REAL_FN(exp2_normal, exp2f, exp2)  // for normal results; fewer steps for lanes, which may lose NaN
FACULA_REAL_FN(expm1, expm1f, expm1)
FACULA_REAL_FN(log, logf, log)
FACULA_REAL_FN(log2, log2f, log2)
FACULA_REAL_FN(log10, log10f, log10)
FACULA_REAL_FN(log1p, log1pf, log1p)
FACULA_REAL_FN(sin, sinf, sin)
FACULA_REAL_FN(cos, cosf, cos)
FACULA_REAL_FN(tan, tanf, tan)
FACULA_REAL_FN(asin, asinf, asin)
FACULA_REAL_FN(acos, acosf, acos)
FACULA_REAL_FN(atan, atanf, atan)
FACULA_REAL_FN(sinh, sinhf, sinh)
FACULA_REAL_FN(cosh, coshf, cosh)
FACULA_REAL_FN(tanh, tanhf, tanh)
FACULA_REAL_FN(asinh, asinhf, asinh)
FACULA_REAL_FN(acosh, acoshf, acosh)
FACULA_REAL_FN(atanh, atanhf, atanh)
FACULA_REAL_FN(erf, erff, erf)
FACULA_REAL_FN(erfc, erfcf, erfc)
FACULA_REAL_FN(lgamma, lgammaf, lgamma)
#undef FACULA_REAL_FN

#define FACULA_REAL_FN2(name, f32, f64)                              \
  FACULA_DEVICE float name(float x, float y) { return ::f32(x, y); } \
  FACULA_DEVICE double name(double x, double y) { return ::f64(x, y); }
FACULA_REAL_FN2(pow, powf, pow)
FACULA_REAL_FN2(atan2, atan2f, atan2)
FACULA_REAL_FN2(hypot, hypotf, hypot)
FACULA_REAL_FN2(fmod, fmodf, fmod)
FACULA_REAL_FN2(copysign, copysignf, copysign)
FACULA_REAL_FN2(nextafter, nextafterf, nextafter)
#undef FACULA_REAL_FN2

FACULA_DEVICE float fma(float a, float b, float c) {
#if (defined(HWY_NATIVE_FMA) && HWY_NATIVE_FMA) || defined(__FMA__) || defined(__aarch64__) || \
    defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
  return ::fmaf(a, b, c);
#else
  return a * b + c;  // a lane's fma is one rounding where the machine has it, never a slow emulation
#endif
}
FACULA_DEVICE double fma(double a, double b, double c) {
#if (defined(HWY_NATIVE_FMA) && HWY_NATIVE_FMA) || defined(__FMA__) || defined(__aarch64__) || \
    defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
  return ::fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class T>
FACULA_DEVICE bool isnan(T x) {
  if constexpr (is_float<T>::value) return x != x;
  return false;
}
template <class T>
FACULA_DEVICE bool isinf(T x) {
  if constexpr (is_float<T>::value) return m::abs(x) > (sizeof(T) == 4 ? T(3.402823466e38) : T(1.7976931348623157e308));
  return false;
}
template <class T>
FACULA_DEVICE bool isfinite(T x) {
  if constexpr (is_float<T>::value)
    return m::abs(x) <= (sizeof(T) == 4 ? T(3.402823466e38) : T(1.7976931348623157e308));
  return true;
}
template <class T>
FACULA_DEVICE bool signbit(T x) {
  if constexpr (is_float<T>::value) return m::copysign(T(1), x) < T(0);
  else return x < T(0);
}
// A mask as a number of a lane: 1 where it holds, else 0.
template <class L>
FACULA_DEVICE L one_if(bool c) {
  return static_cast<L>(c);
}

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
FACULA_DEVICE float not_a_number(float) { return __int_as_float(0x7fc00000); }
FACULA_DEVICE double not_a_number(double) { return __longlong_as_double(0x7ff8000000000000ll); }
FACULA_DEVICE float infinity(float) { return __int_as_float(0x7f800000); }
FACULA_DEVICE double infinity(double) { return __longlong_as_double(0x7ff0000000000000ll); }
#else
FACULA_DEVICE float not_a_number(float) { return __builtin_nanf(""); }
FACULA_DEVICE double not_a_number(double) { return __builtin_nan(""); }
FACULA_DEVICE float infinity(float) { return __builtin_huge_valf(); }
FACULA_DEVICE double infinity(double) { return __builtin_huge_val(); }
#endif

}  // namespace m

FACULA_EXPR_END
#endif
