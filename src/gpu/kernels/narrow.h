// Shorter formulas, for programs all of whose results are rounded to 16 bits or fewer.
#pragma once

#include "gpu/kernels/device.h"
#include "program/expr.h"

#if defined(FACULA_NARROW_RESULTS)
namespace facula {

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

}  // namespace facula
#endif
