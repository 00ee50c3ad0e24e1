// Gradients of elementary and special functions of one tensor, of signs, parts of complex numbers and clamping.
// Activations of neural networks are in activations.cpp.
//
// f(x) gets grad times the conjugate of f'(x) where f has a complex derivative.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

#include <limits>
#include <numbers>

namespace facula::vjp {
namespace {

constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kHalfSqrtPi = 1 / kTwoOverSqrtPi;

}  // namespace

// ---- signs and parts --------------------------------------------------------------------------------------

Tensor abs_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * sgn(x); }, grad, self);
}
Tensor neg_self(const Tensor& grad) { return negated(grad); }
Tensor frac_self(const Tensor& grad) { return grad; }

// z / |z| moves only across its own direction, by 1 / |z|.
Tensor sgn_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  if (!self.is_complex()) return zeros_like(grad);
  const Tensor length = abs(self), along = real(grad * conj(result));
  return where(length == 0.0, 0.0, (grad - along * result) / where(length == 0.0, 1.0, length));
}

Tensor conj_self(const Tensor& grad) { return conjugate(grad); }
Tensor real_self(const Tensor& grad) { return grad; }
Tensor imag_self(const Tensor& grad) { return complex_tensor(zeros_like(grad), grad); }

// i z / |z|^2, divided twice by |z| since its square may overflow.
Tensor angle_self(const Tensor& grad, const Tensor& self) {
  if (!self.is_complex()) return zeros_like(grad);
  const Tensor size = abs(self), length = where(size == 0.0, 1.0, size);
  return complex_tensor(formula([](auto g, auto y, auto r) { return -(g * (y / r / r)); }, grad, imag(self), length),
                        formula([](auto g, auto x, auto r) { return g * (x / r / r); }, grad, real(self), length));
}

Tensor deg2rad_self(const Tensor& grad) { return times(grad, kPi / 180); }
Tensor rad2deg_self(const Tensor& grad) { return times(grad, 180 / kPi); }

// ---- powers, exponentials, logarithms ---------------------------------------------------------------------

Tensor sqrt_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g / (2.0 * conjugate(y)); }, grad, result);
}
Tensor rsqrt_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * (-0.5 * conjugate(y * y * y)); }, grad, result);
}
Tensor square_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * (2.0 * conjugate(x)); }, grad, self);
}
Tensor reciprocal_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return -(g * conjugate(y * y)); }, grad, result);
}
Tensor exp_self(const Tensor& grad, const Tensor& result) { return times(grad, result); }
Tensor exp2_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * (conjugate(y) * kLn2); }, grad, result);
}
Tensor expm1_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * (conjugate(y) + 1.0); }, grad, result);
}
Tensor log_self(const Tensor& grad, const Tensor& self) { return over(grad, self); }
Tensor log2_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g / (conjugate(x) * kLn2); }, grad, self);
}
Tensor log10_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g / (conjugate(x) * kLn10); }, grad, self);
}
Tensor log1p_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g / (conjugate(x) + 1.0); }, grad, self);
}

// ---- circular and hyperbolic functions --------------------------------------------------------------------

Tensor sin_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * conjugate(cos(x)); }, grad, self);
}
Tensor cos_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return -(g * conjugate(sin(x))); }, grad, self);
}
Tensor tan_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * conjugate(1.0 + y * y); }, grad, result);
}
// 1 - x^2 as a product keeps its digits next to 1.
Tensor asin_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * conjugate(rsqrt((1.0 - x) * (1.0 + x))); }, grad, self);
}
Tensor acos_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return -(g * conjugate(rsqrt((1.0 - x) * (1.0 + x)))); }, grad, self);
}
Tensor atan_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g / conjugate(1.0 + x * x); }, grad, self);
}
Tensor sinh_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * conjugate(cosh(x)); }, grad, self);
}
Tensor cosh_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * conjugate(sinh(x)); }, grad, self);
}
Tensor tanh_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * conjugate(1.0 - y * y); }, grad, result);
}
Tensor asinh_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * conjugate(rsqrt(1.0 + x * x)); }, grad, self);
}
Tensor acosh_self(const Tensor& grad, const Tensor& self) {
  // The root of the product has the other sign in half of the complex plane.
  if (self.is_complex()) return grad * conj(rsqrt(self - 1.0) * rsqrt(self + 1.0));
  return formula([](auto g, auto x) { return g * rsqrt((x - 1.0) * (x + 1.0)); }, grad, self);
}
Tensor atanh_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g / conjugate((1.0 - x) * (1.0 + x)); }, grad, self);
}

// pi h(pi x) with h(t) = (t cos t - sin t) / t^2, whose numerator cancels where t is small: there its power series, in
// which each term is the one before times -t^2 / (2k (2k + 3)). Each branch sees only arguments of its own.
Tensor sinc_self(const Tensor& grad, const Tensor& self) {
  return formula(
      [](auto g, auto x) {
        const auto t = x * kPi, near = abs(t) < 1.0;
        const auto s = where(near, t, 0.0), f = where(near, 1.0, t), q = s * s;
        auto series = 1.0 - q * (1.0 / 304);
        for (const double below : {238.0, 180.0, 130.0, 88.0, 54.0, 28.0, 10.0})
          series = 1.0 - q * (1 / below) * series;
        const auto slope = where(near, s * series * (-1.0 / 3), (f * cos(f) - sin(f)) / (f * f));
        return g * conjugate(slope * kPi);
      },
      grad, self);
}

// ---- special functions ------------------------------------------------------------------------------------

Tensor erf_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * (exp(-(x * x)) * kTwoOverSqrtPi); }, grad, self);
}
Tensor erfc_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * (exp(-(x * x)) * -kTwoOverSqrtPi); }, grad, self);
}
Tensor erfinv_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * (exp(y * y) * kHalfSqrtPi); }, grad, result);
}
Tensor lgamma_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * digamma(x); }, grad, self);
}
Tensor digamma_self(const Tensor& grad, const Tensor& self) { return times(grad, polygamma(1, self)); }
Tensor polygamma_self(const Tensor& grad, int64_t n, const Tensor& self) { return times(grad, polygamma(n + 1, self)); }
Tensor i0_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * special_i1(x); }, grad, self);
}
// I0(x) - I1(x) / x, which is 1/2 at 0.
Tensor special_i1_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return formula(
      [](auto g, auto x, auto y) {
        const auto zero = x == 0.0;
        return g * where(zero, 0.5, i0(x) - y / where(zero, 1.0, x));
      },
      grad, self, result);
}

// Outside of the range the function is constant when it clamps, and undefined when it does not.
Tensor logit_self(const Tensor& grad, const Tensor& self, std::optional<double> eps) {
  const bool clamps = eps.has_value() && *eps >= 0;
  const double low = clamps ? *eps : 0.0, slope_outside = clamps ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  return formula(
      [](auto g, auto x, auto from, auto to, auto beyond) {
        const auto outside = logical_or(x<from, x> to), p = where(outside, 0.5, x);
        return where(outside, beyond, g / (p * (1.0 - p)));
      },
      grad, self, low, 1 - low, slope_outside);
}

// ---- clamping ---------------------------------------------------------------------------------------------

Tensor nan_to_num_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return where(isfinite(x), g, 0.0); }, grad, self);
}

namespace {

// The gradient where a bound was not reached; B is a tensor or a number.
template <class B>
Tensor not_below(const Tensor& grad, const Tensor& self, const B& bound) {
  return formula([](auto g, auto x, auto low) { return where(x >= low, g, 0.0); }, grad, self, bound);
}
template <class B>
Tensor not_above(const Tensor& grad, const Tensor& self, const B& bound) {
  return formula([](auto g, auto x, auto high) { return where(x <= high, g, 0.0); }, grad, self, bound);
}
template <class B>
Tensor inside(const Tensor& grad, const Tensor& self, const B& min, const B& max) {
  return formula([](auto g, auto x, auto low, auto high) { return where(logical_and(x >= low, x <= high), g, 0.0); },
                 grad, self, min, max);
}

}  // namespace

Tensor clamp_self(const Tensor& grad, const Tensor& self, const std::optional<Scalar>& min,
                  const std::optional<Scalar>& max) {
  if (min && max) return inside(grad, self, min->toDouble(), max->toDouble());
  return min ? not_below(grad, self, min->toDouble()) : not_above(grad, self, max->toDouble());
}
Tensor clamp_self(const Tensor& grad, const Tensor& self, const std::optional<Tensor>& min,
                  const std::optional<Tensor>& max) {
  if (min && max) return inside(grad, self, *min, *max);
  return min ? not_below(grad, self, *min) : not_above(grad, self, *max);
}
// Where the bounds cross, the result is the upper one.
Tensor clamp_min(const Tensor& grad, const Tensor& self, const std::optional<Tensor>& min,
                 const std::optional<Tensor>& max) {
  if (!max) return clamp_min_min(grad, self, *min);
  return formula([](auto g, auto x, auto low, auto high) { return where(logical_and(x < low, low <= high), g, 0.0); },
                 grad, self, *min, *max);
}
Tensor clamp_max(const Tensor& grad, const Tensor& self, const std::optional<Tensor>& min,
                 const std::optional<Tensor>& max) {
  if (!min) return clamp_max_max(grad, self, *max);
  return formula([](auto g, auto x, auto low, auto high) { return where(logical_or(x > high, low > high), g, 0.0); },
                 grad, self, *min, *max);
}

Tensor clamp_min_self(const Tensor& grad, const Tensor& self, const Scalar& min) {
  return not_below(grad, self, min.toDouble());
}
Tensor clamp_min_self(const Tensor& grad, const Tensor& self, const Tensor& min) { return not_below(grad, self, min); }
Tensor clamp_min_min(const Tensor& grad, const Tensor& self, const Tensor& min) {
  return formula([](auto g, auto x, auto low) { return where(x < low, g, 0.0); }, grad, self, min);
}
Tensor clamp_max_self(const Tensor& grad, const Tensor& self, const Scalar& max) {
  return not_above(grad, self, max.toDouble());
}
Tensor clamp_max_self(const Tensor& grad, const Tensor& self, const Tensor& max) { return not_above(grad, self, max); }
Tensor clamp_max_max(const Tensor& grad, const Tensor& self, const Tensor& max) {
  return formula([](auto g, auto x, auto high) { return where(x > high, g, 0.0); }, grad, self, max);
}

}  // namespace facula::vjp
