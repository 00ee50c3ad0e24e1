// From random words to random numbers, as formulas that give the same bits on every device and instruction set: additions,
// multiplications, divisions and square roots that are rounded one by one (no fused multiply-add), and bit operations.
// Written without branches, so that compilers vectorise the loops around them. Valid device code.
#pragma once

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#include "program/expr_scalar.h"  // the integer types
#define FACULA_RANDOM_FN __device__ __forceinline__
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#define FACULA_RANDOM_FN inline
#endif

namespace facula::random_bits {

FACULA_RANDOM_FN float as_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
FACULA_RANDOM_FN uint32_t as_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}
FACULA_RANDOM_FN double as_double(uint64_t bits) {
  double d;
  memcpy(&d, &bits, 8);
  return d;
}
FACULA_RANDOM_FN uint64_t as_bits(double d) {
  uint64_t bits;
  memcpy(&bits, &d, 8);
  return bits;
}

// [0, 1), every multiple of 2^-24 (2^-53) equally likely.
FACULA_RANDOM_FN float uniform(uint32_t word) { return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f; }
FACULA_RANDOM_FN double uniform(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

// (0, 1], for logarithms.
FACULA_RANDOM_FN float uniform_positive(uint32_t word) {
  // Split in halves that convert exactly as signed integers; the sum rounds once.
  float high = static_cast<float>(static_cast<int32_t>(word >> 16)) * 0x1p-16f;
  float low = static_cast<float>(static_cast<int32_t>(word & 0xffffu)) * 0x1p-32f;
  return high + (low + 0x1p-33f);
}
FACULA_RANDOM_FN double uniform_positive(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53 + 0x1p-54;
}

// Natural logarithm of a normal positive number: 2^k * m with m in [sqrt(1/2), sqrt(2)), then the series of
// log((1 + s) / (1 - s)).
FACULA_RANDOM_FN float log_positive(float x) {
  uint32_t bits = as_bits(x);
  uint32_t shifted = bits + (0x3f800000u - 0x3f3504f3u);
  int32_t k = static_cast<int32_t>(shifted >> 23) - 127;
  float m = as_float((shifted & 0x007fffffu) + 0x3f3504f3u);
  float f = m - 1.0f;
  float s = f / (2.0f + f);
  float z = s * s;
  float r = z * (0.66666668653f + z * (0.40000000596f + z * (0.28567501903f + z * 0.23236070573f)));
  float half = 0.5f * f * f;
  return static_cast<float>(k) * 0.69314718246f + (f - (half - s * (half + r)));
}
FACULA_RANDOM_FN double log_positive(double x) {
  uint64_t bits = as_bits(x);
  uint64_t shifted = bits + (0x3ff0000000000000ull - 0x3fe6a09e667f3bcdull);
  int32_t k = static_cast<int32_t>(shifted >> 52) - 1023;
  double m = as_double((shifted & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull);
  double f = m - 1.0;
  double s = f / (2.0 + f);
  double z = s * s;
  double r = z * (6.666666666666735130e-01 +
                  z * (3.999999999940941908e-01 +
                       z * (2.857142874366239149e-01 +
                            z * (2.222219843214978396e-01 +
                                 z * (1.818357216161805012e-01 +
                                      z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
  double half = 0.5 * f * f;
  return static_cast<double>(k) * 6.931471805599453094e-01 + (f - (half - s * (half + r)));
}

// e to the power of x: 2^k times the series of exp(r), |r| <= ln(2) / 2. Beyond the range of doubles infinity, or zero.
FACULA_RANDOM_FN double exp_of(double x) {
  const double bounded = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;  // NaN stays
  const double k = (bounded * 1.4426950408889634074 + 0x1.8p52) - 0x1.8p52;
  // ln(2) in two parts, the first short enough for an exact product.
  const double r = (bounded - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double p = 1.0 / 6227020800.0;
  p = 1.0 / 479001600.0 + r * p;
  p = 1.0 / 39916800.0 + r * p;
  p = 1.0 / 3628800.0 + r * p;
  p = 1.0 / 362880.0 + r * p;
  p = 1.0 / 40320.0 + r * p;
  p = 1.0 / 5040.0 + r * p;
  p = 1.0 / 720.0 + r * p;
  p = 1.0 / 120.0 + r * p;
  p = 1.0 / 24.0 + r * p;
  p = 1.0 / 6.0 + r * p;
  p = 0.5 + r * p;
  const double e = 1.0 + (r + r * r * p);
  // 2^k in two factors: the result may be subnormal, or the largest double times two.
  const int32_t whole = k == k ? static_cast<int32_t>(k) : 0, half = whole >> 1;
  const double first = as_double(static_cast<uint64_t>(1023 + half) << 52);
  const double second = as_double(static_cast<uint64_t>(1023 + whole - half) << 52);
  return e * first * second;
}

// sin and cos of 2 pi u for u in [0, 1): the quarter turn is taken off exactly, the rest is a short polynomial.
FACULA_RANDOM_FN void sincos_turn(float u, float& sine, float& cosine) {
  float quarter = static_cast<float>(static_cast<int32_t>(4.0f * u + 0.5f));
  float t = (u - 0.25f * quarter) * 6.28318530718f;
  float z = t * t;
  float s = t + t * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  float c = 1.0f - 0.5f * z + z * z * (4.166664568e-2f + z * (-1.388731625e-3f + z * 2.443315712e-5f));
  int32_t q = static_cast<int32_t>(quarter);
  float a = (q & 1) ? c : s, b = (q & 1) ? s : c;
  sine = (q & 2) ? -a : a;
  cosine = ((q + 1) & 2) ? -b : b;
}
FACULA_RANDOM_FN void sincos_turn(double u, double& sine, double& cosine) {
  double quarter = static_cast<double>(static_cast<int32_t>(4.0 * u + 0.5));
  double t = (u - 0.25 * quarter) * 6.283185307179586477;
  double z = t * t;
  double s = t + t * z *
                     (-1.66666666666666324348e-01 +
                      z * (8.33333333332248946124e-03 +
                           z * (-1.98412698298579493134e-04 +
                                z * (2.75573137070700676789e-06 +
                                     z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
  double c = 1.0 - 0.5 * z +
             z * z *
                 (4.16666666666666019037e-02 +
                  z * (-1.38888888888741095749e-03 +
                       z * (2.48015872894767294178e-05 +
                            z * (-2.75573143513906633035e-07 +
                                 z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  int32_t q = static_cast<int32_t>(quarter);
  double a = (q & 1) ? c : s, b = (q & 1) ? s : c;
  sine = (q & 2) ? -a : a;
  cosine = ((q + 1) & 2) ? -b : b;
}

// Two independent standard normals (Box and Muller).
FACULA_RANDOM_FN void normal_pair(uint32_t w0, uint32_t w1, float& z0, float& z1) {
  float radius = ::sqrtf(-2.0f * log_positive(uniform_positive(w0)));
  float s, c;
  sincos_turn(uniform(w1), s, c);
  z0 = radius * c;
  z1 = radius * s;
}
FACULA_RANDOM_FN void normal_pair(uint64_t w0, uint64_t w1, double& z0, double& z1) {
  double radius = ::sqrt(-2.0 * log_positive(uniform_positive(w0)));
  double s, c;
  sincos_turn(uniform(w1), s, c);
  z0 = radius * c;
  z1 = radius * s;
}

// Uniform over [0, range): the high half of a product. The bias is below range / 2^32 (2^64).
FACULA_RANDOM_FN uint64_t below(uint32_t word, uint64_t range) { return (static_cast<uint64_t>(word) * range) >> 32; }
FACULA_RANDOM_FN uint64_t below(uint64_t word, uint64_t range) {
  uint64_t a = word >> 32, b = word & 0xffffffffu, c = range >> 32, d = range & 0xffffffffu;
  uint64_t middle = a * d + ((b * d) >> 32);
  uint64_t low_middle = b * c + (middle & 0xffffffffu);
  return a * c + (middle >> 32) + (low_middle >> 32);
}

}  // namespace facula::random_bits
