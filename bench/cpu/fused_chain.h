// The chain of six pointwise operations, in two forms: as a user writes it, and as one program where the library can.
//
//   sigmoid(x * y + x) * tanh(x) - y        1 mul, 2 add, 3 sigmoid, 4 tanh, 5 mul, 6 sub
#pragma once

#include "library.h"

inline lib::Tensor eager_chain(const lib::Tensor& x, const lib::Tensor& y) {
  return lib::sigmoid(x * y + x) * lib::tanh(x) - y;
}

#if defined(BENCH_FACULA)

// The whole chain as one pass over memory.
inline lib::Tensor fused_chain(const lib::Tensor& x, const lib::Tensor& y) {
  static const lib::Fused chain = [] {
    lib::Fused f;
    auto a = f.input(lib::kFloat), b = f.input(lib::kFloat);
    auto gate = f.apply("sigmoid", {f.apply("add", {f.apply("mul", {a, b}), a})});
    f.output(f.apply("sub", {f.apply("mul", {gate, f.apply("tanh", {a})}), b}));
    return f;
  }();
  return chain({x, y});
}

#else

// libtorch has no fusion outside of its script compilers: six operations, five temporaries.
inline lib::Tensor fused_chain(const lib::Tensor& x, const lib::Tensor& y) { return eager_chain(x, y); }

#endif
