// Mathematics of the device language: the C names, C++ overloads for float, and the intrinsics that state their rounding.
#pragma once

#define SIMGPU_MATH1(name)                        \
  extern "C" double name(double) noexcept(true);  \
  extern "C" float name##f(float) noexcept(true); \
  inline float name(float x) { return name##f(x); }
#define SIMGPU_MATH2(name)                               \
  extern "C" double name(double, double) noexcept(true); \
  extern "C" float name##f(float, float) noexcept(true); \
  inline float name(float x, float y) { return name##f(x, y); }
// To clang-format the list and what follows are one declaration, which it would indent further each time.
// clang-format off
SIMGPU_MATH1(fabs) SIMGPU_MATH1(sqrt) SIMGPU_MATH1(cbrt) SIMGPU_MATH1(floor) SIMGPU_MATH1(ceil) SIMGPU_MATH1(trunc)
SIMGPU_MATH1(rint) SIMGPU_MATH1(nearbyint) SIMGPU_MATH1(round) SIMGPU_MATH1(exp) SIMGPU_MATH1(exp2) SIMGPU_MATH1(exp10)
SIMGPU_MATH1(expm1) SIMGPU_MATH1(log) SIMGPU_MATH1(log2) SIMGPU_MATH1(log10) SIMGPU_MATH1(log1p) SIMGPU_MATH1(logb)
SIMGPU_MATH1(sin) SIMGPU_MATH1(cos) SIMGPU_MATH1(tan) SIMGPU_MATH1(asin) SIMGPU_MATH1(acos) SIMGPU_MATH1(atan)
SIMGPU_MATH1(sinh) SIMGPU_MATH1(cosh) SIMGPU_MATH1(tanh) SIMGPU_MATH1(asinh) SIMGPU_MATH1(acosh) SIMGPU_MATH1(atanh)
SIMGPU_MATH1(erf) SIMGPU_MATH1(erfc) SIMGPU_MATH1(lgamma) SIMGPU_MATH1(tgamma) SIMGPU_MATH1(j0) SIMGPU_MATH1(j1)
SIMGPU_MATH1(y0) SIMGPU_MATH1(y1)
SIMGPU_MATH2(pow) SIMGPU_MATH2(atan2) SIMGPU_MATH2(hypot) SIMGPU_MATH2(fmod) SIMGPU_MATH2(remainder)
SIMGPU_MATH2(copysign) SIMGPU_MATH2(nextafter) SIMGPU_MATH2(fmax) SIMGPU_MATH2(fmin) SIMGPU_MATH2(fdim)
#undef SIMGPU_MATH1
#undef SIMGPU_MATH2
extern "C" double fma(double, double, double) noexcept(true);
// clang-format on
extern "C" float fmaf(float, float, float) noexcept(true);
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
extern "C" double ldexp(double, int) noexcept(true);
extern "C" float ldexpf(float, int) noexcept(true);
inline float ldexp(float x, int e) { return ldexpf(x, e); }
extern "C" double scalbn(double, int) noexcept(true);
extern "C" float scalbnf(float, int) noexcept(true);
extern "C" double frexp(double, int*) noexcept(true);
extern "C" float frexpf(float, int*) noexcept(true);
extern "C" double modf(double, double*) noexcept(true);
extern "C" float modff(float, float*) noexcept(true);
extern "C" int ilogb(double) noexcept(true);
extern "C" int ilogbf(float) noexcept(true);
extern "C" long lrint(double) noexcept(true);
extern "C" long lrintf(float) noexcept(true);
extern "C" long long llrint(double) noexcept(true);
extern "C" long long llrintf(float) noexcept(true);
extern "C" long long llround(double) noexcept(true);
extern "C" long long llroundf(float) noexcept(true);
extern "C" int abs(int) noexcept(true);
extern "C" long labs(long) noexcept(true);
extern "C" long long llabs(long long) noexcept(true);
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline long abs(long x) { return labs(x); }
inline long long abs(long long x) { return llabs(x); }

inline void sincosf(float x, float* s, float* c) {
  *s = sinf(x);
  *c = cosf(x);
}
inline void sincos(double x, double* s, double* c) {
  *s = sin(x);
  *c = cos(x);
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double sinpi(double x) { return sin(3.14159265358979323846 * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(3.14159265358979323846 * fmod(x, 2.0)); }
inline float sinpif(float x) { return static_cast<float>(sinpi(x)); }
inline float cospif(float x) { return static_cast<float>(cospi(x)); }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

#define SIMGPU_MIN_MAX(T)                          \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
SIMGPU_MIN_MAX(int)
SIMGPU_MIN_MAX(unsigned)
SIMGPU_MIN_MAX(long)
SIMGPU_MIN_MAX(unsigned long)
SIMGPU_MIN_MAX(long long)
SIMGPU_MIN_MAX(unsigned long long)
#undef SIMGPU_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Rounded to nearest, one operation at a time: the compiler is told not to join them.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline double __dsqrt_rn(double a) { return sqrt(a); }

// Fast ones. No less exact than the real ones.
inline float __expf(float x) { return expf(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }

// Conversions: to integers as the hardware does it, with values that do not fit taken to the nearest that does.
template <class I, class F>
inline I simgpu_to_integer(F x, F low, F high, I lowest, I highest) {
  if (x != x) return I(0);
  if (x <= low) return lowest;
  if (x >= high) return highest;
  return static_cast<I>(x);
}
inline int __float2int_rz(float x) {
  return simgpu_to_integer<int>(x, -2147483648.0f, 2147483648.0f, -2147483647 - 1, 2147483647);
}
inline int __float2int_rn(float x) { return __float2int_rz(rintf(x)); }
inline int __float2int_rd(float x) { return __float2int_rz(floorf(x)); }
inline unsigned __float2uint_rz(float x) {
  return simgpu_to_integer<unsigned>(x, 0.0f, 4294967296.0f, 0u, 4294967295u);
}
inline unsigned __float2uint_rn(float x) { return __float2uint_rz(rintf(x)); }
inline long long __double2ll_rz(double x) {
  return simgpu_to_integer<long long>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1,
                                      9223372036854775807ll);
}
inline long long __double2ll_rn(double x) { return __double2ll_rz(rint(x)); }
inline long long __float2ll_rz(float x) { return __double2ll_rz(x); }
inline long long __float2ll_rn(float x) { return __double2ll_rz(rintf(x)); }
inline unsigned long long __double2ull_rz(double x) {
  return simgpu_to_integer<unsigned long long>(x, 0.0, 18446744073709551616.0, 0ull, 18446744073709551615ull);
}
inline unsigned long long __float2ull_rz(float x) { return __double2ull_rz(x); }
inline int __double2int_rz(double x) {
  return simgpu_to_integer<int>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647);
}
inline int __double2int_rn(double x) { return __double2int_rz(rint(x)); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
