// Complex lanes: operators and elementary functions of Complex<R> in terms of those of R. The formulas of single operations are in
// `program/expr.h`.
#if defined(FACULA_EXPR_COMPLEX_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_EXPR_COMPLEX_H_
#undef FACULA_EXPR_COMPLEX_H_
#else
#define FACULA_EXPR_COMPLEX_H_
#endif

#include "program/expr_scalar.h"

FACULA_EXPR_BEGIN

inline constexpr double kPi = 3.14159265358979323846;

#define FACULA_C     \
  template <class R> \
  FACULA_DEVICE Complex<R>

FACULA_C operator+(Complex<R> a, Complex<R> b) { return {a.re + b.re, a.im + b.im}; }
FACULA_C operator-(Complex<R> a, Complex<R> b) { return {a.re - b.re, a.im - b.im}; }
FACULA_C operator-(Complex<R> a) { return {-a.re, -a.im}; }
FACULA_C operator*(Complex<R> a, Complex<R> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// Divides through by the larger part of the divisor, so that its square never overflows.
FACULA_C operator/(Complex<R> a, Complex<R> b) {
  const auto swap = m::abs(b.re) < m::abs(b.im);
  const R large = m::select(swap, b.im, b.re), small = m::select(swap, b.re, b.im);
  const R first = m::select(swap, a.im, a.re), second = m::select(swap, a.re, a.im);
  // A zero divisor leaves 0 / 0 here; infinities of the quotient come from the division by `length`.
  const R ratio = m::select(large == splat<R>(0), large, small / large);
  const R length = large + small * ratio;
  const R im = (second - first * ratio) / length;
  return {(first + second * ratio) / length, m::select(swap, -im, im)};
}

namespace m {

FACULA_C sqrt(Complex<R> z) {
  const R half = splat<R>(0.5), zero = splat<R>(0), ax = m::abs(z.re);
  const R t = m::sqrt(half * ax + half * m::hypot(z.re, z.im));
  const R other = half * m::abs(z.im) / t;
  const auto right = z.re >= zero;
  Complex<R> r = {m::select(right, t, other), m::copysign(m::select(right, other, t), z.im)};
  r = m::select(t == zero, Complex<R>{zero, z.im}, r);
  const R inf = m::infinity(z.re);
  return m::select(m::abs(z.im) == inf, Complex<R>{inf, z.im}, r);
}

// Where e^x is large it comes in two factors, e^(x - 40) and e^40: the length of a number may overflow although its parts,
// which a sine or cosine makes smaller, do not. Beyond 80 the hyperbolic functions are e^|x| / 2 and split alike.
template <class R>
FACULA_DEVICE R without_growth(R x) {
  return m::select(m::abs(x) > splat<R>(80), x - m::copysign(splat<R>(40), x), x);
}
template <class R>
FACULA_DEVICE R growth(R x) {
  return m::select(m::abs(x) > splat<R>(80), splat<R>(2.3538526683701998541e17), splat<R>(1));
}

FACULA_C exp(Complex<R> z) {
  const R zero = splat<R>(0), x = m::select(z.re > zero, without_growth(z.re), z.re);
  const R factor = m::select(z.re > zero, growth(z.re), splat<R>(1)), part = m::exp(x), length = part * factor;
  Complex<R> r = {part * m::cos(z.im) * factor, part * m::sin(z.im) * factor};
  // 0 times a NaN angle is 0, and a real argument stays real.
  r = m::select(length == zero, Complex<R>{zero, zero}, r);
  return m::select(z.im == zero, Complex<R>{length, z.im}, r);
}
FACULA_C exp2(Complex<R> z) {
  const R ln2 = splat<R>(0.69314718055994530942);
  return m::exp(Complex<R>{z.re * ln2, z.im * ln2});
}
FACULA_C expm1(Complex<R> z) {
  const R e = m::expm1(z.re), s = m::sin(z.im * splat<R>(0.5));
  const R im = (e + splat<R>(1)) * m::sin(z.im);
  return {e * m::cos(z.im) - splat<R>(2) * s * s, m::select(z.im == splat<R>(0), z.im, im)};
}

// log of the length; close to length 1 through log1p, where the length itself would lose the digits.
template <class R>
FACULA_DEVICE R log_length(Complex<R> z) {
  const R ax = m::abs(z.re), ay = m::abs(z.im), one = splat<R>(1);
  const R large = m::select(ax > ay, ax, ay), small = m::select(ax > ay, ay, ax);
  const R excess = m::fma(small, small, (large - one) * (large + one));
  const auto near = (large > splat<R>(0.6)) & (large < splat<R>(1.5)) & (m::abs(excess) < splat<R>(0.7));
  const R close = splat<R>(0.5) * m::log1p(m::select(near, excess, splat<R>(0)));
  return m::select(near, close, m::log(m::hypot(z.re, z.im)));
}
FACULA_C log(Complex<R> z) { return {log_length(z), m::atan2(z.im, z.re)}; }
FACULA_C scale(Complex<R> z, double factor) { return {z.re * splat<R>(factor), z.im * splat<R>(factor)}; }
FACULA_C log2(Complex<R> z) { return scale(m::log(z), 1.44269504088896340736); }
FACULA_C log10(Complex<R> z) { return scale(m::log(z), 0.43429448190325182765); }
FACULA_C log1p(Complex<R> z) {
  const R one = splat<R>(1), x = z.re, y = z.im;
  const R excess = m::fma(x, x + splat<R>(2), y * y);
  const auto near = m::abs(excess) < splat<R>(0.5);
  const R close = splat<R>(0.5) * m::log1p(m::select(near, excess, splat<R>(0)));
  return {m::select(near, close, m::log(m::hypot(one + x, y))), m::atan2(y, one + x)};
}

FACULA_C sinh(Complex<R> z) {
  const R zero = splat<R>(0), x = without_growth(z.re), factor = growth(z.re);
  const R im = m::cosh(x) * m::sin(z.im) * factor, re = m::sinh(x) * m::cos(z.im) * factor;
  return {m::select(z.re == zero, z.re, re), m::select(z.im == zero, z.im, im)};
}
FACULA_C cosh(Complex<R> z) {
  const R zero = splat<R>(0), x = without_growth(z.re), factor = growth(z.re);
  const R im = m::sinh(x) * m::sin(z.im) * factor;
  return {m::cosh(x) * m::cos(z.im) * factor, m::select((z.re == zero) | (z.im == zero), zero, im)};
}
// With t = tan y, s = sinh x: tanh = ((1 + t^2) s sqrt(1 + s^2) + i t) / (1 + (1 + t^2) s^2)
FACULA_C tanh(Complex<R> z) {
  const R one = splat<R>(1), bound = splat<R>(20), ax = m::abs(z.re);
  const R x = m::select(ax > bound, bound, ax);
  const R t = m::tan(z.im), s = m::sinh(x), c = one + t * t;
  const R below = one + c * s * s;
  const R re = c * s * m::sqrt(one + s * s) / below, im = t / below;
  // Beyond the bound the real part is 1 and the imaginary one fades.
  const R far = splat<R>(4) * m::sin(z.im) * m::cos(z.im) * m::exp(splat<R>(-2) * ax);
  const auto large = ax > bound;
  return {m::copysign(m::select(large, one, re), z.re), m::select(large, far, im)};
}
FACULA_C sin(Complex<R> z) {
  const Complex<R> w = m::sinh(Complex<R>{-z.im, z.re});
  return {w.im, -w.re};
}
FACULA_C cos(Complex<R> z) { return m::cosh(Complex<R>{-z.im, z.re}); }
FACULA_C tan(Complex<R> z) {
  const Complex<R> w = m::tanh(Complex<R>{-z.im, z.re});
  return {w.im, -w.re};
}

// Inverse functions and powers branch, so they are for plain scalars. They compute in double: float keeps all its digits, and
// intermediate squares of float stay in range.
using Z = Complex<double>;
FACULA_DEVICE double edge() { return 1e150; }  // from here on squares are avoided in double too

FACULA_DEVICE Z asin_double(Z z) {
  if (m::abs(z.re) > edge() || m::abs(z.im) > edge()) {
    const double length = m::log(m::hypot(z.re * 0.5, z.im * 0.5)) + 2 * 0.69314718055994530942;
    return {m::atan2(z.re, m::abs(z.im)), m::copysign(length, z.im)};
  }
  const Z below = m::sqrt(Z{1 - z.re, -z.im}), above = m::sqrt(Z{1 + z.re, z.im});
  const double re = m::atan2(z.re, below.re * above.re - below.im * above.im);
  return {re, m::asinh(below.re * above.im - below.im * above.re)};
}
FACULA_DEVICE Z acos_double(Z z) {
  if (m::abs(z.re) > edge() || m::abs(z.im) > edge()) {
    const double length = m::log(m::hypot(z.re * 0.5, z.im * 0.5)) + 2 * 0.69314718055994530942;
    return {m::atan2(m::abs(z.im), z.re), m::copysign(length, -z.im)};
  }
  const Z below = m::sqrt(Z{1 - z.re, -z.im}), above = m::sqrt(Z{1 + z.re, z.im});
  return {2 * m::atan2(below.re, above.re), m::asinh(above.re * below.im - above.im * below.re)};
}
FACULA_DEVICE Z atanh_double(Z z) {
  const double x = m::abs(z.re), y = z.im;
  if (x > edge() || m::abs(y) > edge()) {
    // 1 / z + i pi/2
    const double h = m::hypot(x, y), re = m::isinf(h) ? 0.0 : (x / h) / h;
    return {m::copysign(re, z.re), m::copysign(kPi / 2, y)};
  }
  const double gap = 1 - x, square = y * y;
  const double re = 0.25 * m::log1p(4 * x / (gap * gap + square));
  const double im = 0.5 * m::atan2(2 * y, gap * (1 + x) - square);
  return {m::copysign(re, z.re), im};
}
FACULA_DEVICE Z asinh_double(Z z) {
  const Z w = asin_double({-z.im, z.re});
  return {w.im, -w.re};
}
FACULA_DEVICE Z atan_double(Z z) {
  const Z w = atanh_double({-z.im, z.re});
  return {w.im, -w.re};
}
FACULA_DEVICE Z acosh_double(Z z) {
  const Z w = acos_double(z);
  return m::signbit(z.im) ? Z{w.im, -w.re} : Z{-w.im, w.re};
}
FACULA_DEVICE Z pow_double(Z a, Z b) {
  if (b.re == 0 && b.im == 0) return {1, 0};
  if (a.re == 0 && a.im == 0) {
    if (b.re > 0) return {0, 0};
    return {m::not_a_number(0.0), m::not_a_number(0.0)};
  }
  const Z w = m::log(a);
  return m::exp(w * b);
}

#define FACULA_FROM_DOUBLE(name)                                                       \
  FACULA_C name(Complex<R> z) {                                                        \
    const Z w = name##_double({static_cast<double>(z.re), static_cast<double>(z.im)}); \
    return {static_cast<R>(w.re), static_cast<R>(w.im)};                               \
  }
FACULA_FROM_DOUBLE(asin)
FACULA_FROM_DOUBLE(acos)
FACULA_FROM_DOUBLE(atan)
FACULA_FROM_DOUBLE(asinh)
FACULA_FROM_DOUBLE(acosh)
FACULA_FROM_DOUBLE(atanh)
#undef FACULA_FROM_DOUBLE
FACULA_C pow(Complex<R> a, Complex<R> b) {
  const Z w = pow_double({static_cast<double>(a.re), static_cast<double>(a.im)},
                         {static_cast<double>(b.re), static_cast<double>(b.im)});
  return {static_cast<R>(w.re), static_cast<R>(w.im)};
}

}  // namespace m

#undef FACULA_C
FACULA_EXPR_END
#endif
