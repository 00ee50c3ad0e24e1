// What the text of a rendered program (gpu/program/render.h) uses: formulas, memory types, and where it reports bad values.
#pragma once

#include "gpu/kernels/device.h"
#include "gpu/kernels/faults.h"
#include "gpu/kernels/memory.h"
#include "program/expr.h"

namespace facula {

// Shorter formulas where all results are rounded to 16 bits or fewer.
#if defined(FACULA_NARROW_RESULTS)
// 2 to the power of x, to 22 bits; 0 in place of what is subnormal.
FACULA_DEVICE float short_exp2(float x) {
#if FACULA_PTX
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return ::exp2f(x);
#endif
}
namespace expr::op {
// The lower tail of the normal distribution is 2^g(z) at z = |x|. g has an error of 2^-16 up to z = 5.5 and of 2^-7 up to 9, where
// the tail is 1e-19; from there on it falls to minus infinity.
template <>
FACULA_DEVICE float gelu::eval<float>(float x) {
  const float z = m::abs(x);
  float g = -1.45750837e-06f;
  g = m::fma(g, z, 5.32919617e-05f);
  g = m::fma(g, z, -0.000858669423f);
  g = m::fma(g, z, 0.00819894031f);
  g = m::fma(g, z, -0.0532738855f);
  g = m::fma(g, z, -0.459200887f);
  g = m::fma(g, z, -1.15094344f);
  g = m::fma(g, z, -1.00001936f);
  const float tail = short_exp2(g);
  return x * m::select(x > 0.0f, 1.0f - tail, tail);
}
}  // namespace expr::op
#endif

// Where a kernel reports to, and for which op.
struct Faults {
  FaculaFault* record;
  int64_t op;

  // The divisor of an integer division, which gives 0 where it is 0.
  template <class T>
  FACULA_DEVICE void check_divisor(T divisor) const {
    if (divisor != T(0)) return;
    // A plain look first: once somebody has reported, millions of others need no atomic.
    if (*static_cast<volatile unsigned int*>(&record->taken) == 0u)
      facula_report(record, kFaculaDivisionByZero, op, 0, 0);
  }
};

}  // namespace facula
