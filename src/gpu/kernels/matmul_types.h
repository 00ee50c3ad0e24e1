// Element types of matrix products: what lies in memory, what it is computed in, and the ways between them.
#pragma once

#include "gpu/kernels/matmul_params.h"
#include "gpu/kernels/memory.h"

namespace facula {
namespace matmul_kernels {

// Aligned as a whole, so that it is read at once.
template <class R>
struct alignas(2 * sizeof(R)) Complex {
  R re, im;
};

// ---- sums and products in the compute type -------------------------------------------------------------------------

FACULA_DEVICE float zero_of(float) { return 0.0f; }
FACULA_DEVICE double zero_of(double) { return 0.0; }
FACULA_DEVICE unsigned zero_of(unsigned) { return 0u; }
FACULA_DEVICE unsigned long long zero_of(unsigned long long) { return 0ull; }
template <class R>
FACULA_DEVICE Complex<R> zero_of(Complex<R>) {
  return {R(0), R(0)};
}

FACULA_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
FACULA_DEVICE double multiply_add(double a, double b, double c) { return fma(a, b, c); }
FACULA_DEVICE unsigned multiply_add(unsigned a, unsigned b, unsigned c) { return a * b + c; }
FACULA_DEVICE unsigned long long multiply_add(unsigned long long a, unsigned long long b, unsigned long long c) {
  return a * b + c;
}
template <class R>
FACULA_DEVICE Complex<R> multiply_add(Complex<R> a, Complex<R> b, Complex<R> c) {
  c.re = multiply_add(a.re, b.re, c.re);
  c.im = multiply_add(a.re, b.im, c.im);
  c.re = multiply_add(-a.im, b.im, c.re);
  c.im = multiply_add(a.im, b.re, c.im);
  return c;
}

template <class T>
FACULA_DEVICE T plus(T a, T b) {
  return a + b;
}
template <class R>
FACULA_DEVICE Complex<R> plus(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}

template <class T>
struct FactorAs {
  static FACULA_DEVICE T of(const Factor& f) { return (T)f.re; }
};
template <>
struct FactorAs<unsigned> {
  static FACULA_DEVICE unsigned of(const Factor& f) { return (unsigned)f.bits; }
};
template <>
struct FactorAs<unsigned long long> {
  static FACULA_DEVICE unsigned long long of(const Factor& f) { return f.bits; }
};

template <class T>
FACULA_DEVICE T scale(const Factor& f, T x) {
  return FactorAs<T>::of(f) * x;
}
// A real factor leaves infinities and NaNs of the other part alone.
template <class R>
FACULA_DEVICE Complex<R> scale(const Factor& f, Complex<R> x) {
  const R re = (R)f.re, im = (R)f.im;
  if (im == R(0)) return {re * x.re, re * x.im};
  return {re * x.re - im * x.im, re * x.im + im * x.re};
}

// ---- elements: In and Out lie in memory, Compute is what sums are kept in ------------------------------------------

template <class T>
struct Same {
  using In = T;
  using Out = T;
  using Compute = T;
  static FACULA_DEVICE Compute load(In x) { return x; }
  static FACULA_DEVICE Compute load_out(Out x) { return x; }
  static FACULA_DEVICE Out store(Compute x) { return x; }
};
struct Float32 : Same<float> {};
struct Float64 : Same<double> {};
struct Complex64 : Same<Complex<float>> {};
struct Complex128 : Same<Complex<double>> {};

template <class Format>
struct Narrow {
  using In = typename Format::Bits;
  using Out = In;
  using Compute = float;
  static FACULA_DEVICE float load(In x) { return Format::to_float(x); }
  static FACULA_DEVICE float load_out(Out x) { return Format::to_float(x); }
  static FACULA_DEVICE Out store(float x) { return static_cast<Out>(Format::from_float(x)); }
};
struct Half : Narrow<HalfFormat> {};
struct BFloat16 : Narrow<BFloat16Format> {};
struct Float8E5M2 : Narrow<Float8E5M2Format> {};
struct Float8E4M3 : Narrow<Float8E4M3FnFormat> {};

// Integers wrap, so signs do not matter: the low bits of a product are those of its factors' low bits.
template <class Bits, class Wide>
struct Integer {
  using In = Bits;
  using Out = Bits;
  using Compute = Wide;
  static FACULA_DEVICE Wide load(In x) { return x; }
  static FACULA_DEVICE Wide load_out(Out x) { return x; }
  static FACULA_DEVICE Out store(Wide x) { return (Bits)x; }
};
struct Int8 : Integer<unsigned char, unsigned> {};
struct Int16 : Integer<unsigned short, unsigned> {};
struct Int32 : Integer<unsigned, unsigned> {};
struct Int64 : Integer<unsigned long long, unsigned long long> {};
// int8 times int8 into int32.
struct Int8To32 {
  using In = signed char;
  using Out = int;
  using Compute = unsigned;
  static FACULA_DEVICE unsigned load(In x) { return (unsigned)(int)x; }
  static FACULA_DEVICE unsigned load_out(Out x) { return (unsigned)x; }
  static FACULA_DEVICE int store(unsigned x) { return (int)x; }
};

// N elements that are fetched or stored at once.
template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Pack {
  T x[N];
};

// What shared memory is declared as: aligned for everything that is put there.
struct alignas(16) Shared16 {
  unsigned long long words[2];
};

// Where a matrix of a batch begins.
FACULA_DEVICE long long batch_offset(long long batch, const long long* sizes, const long long* strides) {
  long long offset = 0;
  FACULA_UNROLL
  for (int d = kBatchDims - 1; d > 0; --d) {
    if (sizes[d] == 1) continue;
    const long long rest = batch / sizes[d];
    offset += (batch - rest * sizes[d]) * strides[d];
    batch = rest;
  }
  return offset + batch * strides[0];
}

// alpha * sum + beta * C + bias, rounded once.
template <class E>
FACULA_DEVICE typename E::Out finished(typename E::Compute sum, const Factor& alpha, const Factor& beta, bool add_c,
                                       const typename E::Out* c, const typename E::Out* bias) {
  typename E::Compute value = scale(alpha, sum);
  if (add_c) value = plus(value, scale(beta, E::load_out(*c)));
  if (bias) value = plus(value, E::load_out(*bias));
  return E::store(value);
}

}  // namespace matmul_kernels
}  // namespace facula
