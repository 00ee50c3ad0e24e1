// Gradients of functions of two or three tensors, entry by entry.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

#include <cmath>
#include <limits>

namespace facula::vjp {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Integers that took part in a computation of floats, as it saw them.
Tensor as_dtype_of(const Tensor& t, const Tensor& like) {
  return t.scalar_type() == like.scalar_type() ? t : t.to(like.scalar_type());
}

bool rounds(std::optional<std::string_view> rounding_mode) { return rounding_mode.has_value(); }

}  // namespace

Tensor add_self(const Tensor& grad) { return grad; }
Tensor add_other(const Tensor& grad, const Scalar& alpha) { return scaled_by(grad, alpha); }

Tensor sub_self(const Tensor& grad) { return grad; }
Tensor sub_other(const Tensor& grad, const Scalar& alpha) {
  return alpha.equal_int(1) ? negated(grad) : times(grad, -alpha);
}

Tensor rsub_self(const Tensor& grad, const Scalar& alpha) { return sub_other(grad, alpha); }
Tensor rsub_other(const Tensor& grad) { return grad; }

Tensor mul_self(const Tensor& grad, const Tensor& other) { return times(grad, other); }
Tensor mul_other(const Tensor& grad, const Tensor& self) { return times(grad, self); }
Tensor mul_self(const Tensor& grad, const Scalar& other) { return times(grad, other); }

Tensor div_self(const Tensor& grad, const Tensor& other) { return over(grad, other); }
Tensor div_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return -(g * conjugate((x / y) / y)); }, grad, self, other);
}
Tensor div_self(const Tensor& grad, const Scalar& other) { return over(grad, other); }

// A rounded quotient is constant but for its steps.
Tensor div_self(const Tensor& grad, const Tensor& other, std::optional<std::string_view> rounding_mode) {
  return rounds(rounding_mode) ? zeros_like(grad) : div_self(grad, other);
}
Tensor div_other(const Tensor& grad, const Tensor& self, const Tensor& other,
                 std::optional<std::string_view> rounding_mode) {
  return rounds(rounding_mode) ? zeros_like(grad) : div_other(grad, self, other);
}
Tensor div_self(const Tensor& grad, const Scalar& other, std::optional<std::string_view> rounding_mode) {
  return rounds(rounding_mode) ? zeros_like(grad) : div_self(grad, other);
}

namespace {

// The remainder is self - q other, where the rounded quotient q is constant but for its steps.
Tensor minus_quotient(const Tensor& grad, const Tensor& self, const Tensor& other, const char* rounding_mode) {
  const Tensor quotient = facula::div(self.detach(), other.detach(), rounding_mode);
  return formula([](auto g, auto q) { return -(g * q); }, grad, quotient);
}

}  // namespace

Tensor remainder_self(const Tensor& grad) { return grad; }
Tensor remainder_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return minus_quotient(grad, self, other, "floor");
}
Tensor remainder_other(const Tensor& grad, const Scalar& self, const Tensor& other) {
  return minus_quotient(grad, grad.new_full({}, self), other, "floor");
}

Tensor fmod_self(const Tensor& grad) { return grad; }
Tensor fmod_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return minus_quotient(grad, self, other, "trunc");
}

// pow(0, -1) is infinite, but x^0 is constant, also at 0.
Tensor pow_self(const Tensor& grad, const Tensor& self, const Tensor& exponent) {
  return formula(
      [](auto g, auto x, auto e) { return g * conjugate(e * pow(x, where(logical_and(e == 0, x == 0), 0, e - 1))); },
      grad, self, exponent);
}

Tensor pow_self(const Tensor& grad, const Tensor& self, const Scalar& exponent) {
  if (exponent.is_zero()) return zeros_like(grad);
  if (exponent.equal_int(1)) return grad;
  if (exponent.equal_int(2)) return formula([](auto g, auto x) { return g * conjugate(2.0 * x); }, grad, self);
  if (exponent.equal_int(3)) return formula([](auto g, auto x) { return g * conjugate(3.0 * (x * x)); }, grad, self);
  if (exponent.isComplex()) {
    const Scalar less_one(exponent.toComplexDouble() - complex<double>(1));
    return grad * (exponent * self.pow(less_one)).conj();
  }
  const double e = exponent.toDouble();
  return formula([](auto g, auto x, auto by, auto less_one) { return g * conjugate(by * pow(x, less_one)); }, grad,
                 self, e, e - 1);
}

// 0^e is constant for e > 0; the logarithm must not be seen there.
Tensor pow_exponent(const Tensor& grad, const Tensor& self, const Tensor& exponent, const Tensor& result) {
  const Tensor base = as_dtype_of(self, result);
  if (result.is_complex()) {
    const Tensor flat = logical_and(base == 0, (exponent.is_complex() ? real(exponent) : exponent) >= 0);
    return grad * (result * where(flat, 1.0, base).log()).conj();
  }
  return formula(
      [](auto g, auto x, auto e, auto y) { return g * (y * log(where(logical_and(x == 0.0, e >= 0.0), 1.0, x))); },
      grad, base, exponent, result);
}

Tensor pow_exponent(const Tensor& grad, const Scalar& self, const Tensor& exponent, const Tensor& result) {
  if (self.is_zero()) {
    const Tensor flat = (exponent.is_complex() ? real(exponent) : exponent) >= 0;
    return grad * (result * full_like(result, -kInfinity).masked_fill(flat, 0)).conj();
  }
  if (!result.is_complex())
    return formula([](auto g, auto y, auto by) { return g * (y * by); }, grad, result, std::log(self.toDouble()));
  const complex<double> base = self.toComplexDouble();
  const complex<double> log(std::log(std::hypot(base.real(), base.imag())), std::atan2(base.imag(), base.real()));
  return grad * (result * Scalar(log)).conj();
}

Tensor atan2_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto y, auto x) { return g * (x / (x * x + y * y)); }, grad, self, other);
}
Tensor atan2_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto y, auto x) { return -(g * (y / (x * x + y * y))); }, grad, self, other);
}

// The length has a corner at the origin: zero is one of its slopes.
Tensor hypot_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return formula([](auto g, auto x, auto length) { return g * (x / where(length == 0.0, 1.0, length)); }, grad, self,
                 result);
}
Tensor hypot_other(const Tensor& grad, const Tensor& other, const Tensor& result) {
  return hypot_self(grad, other, result);
}

Tensor copysign_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return formula([](auto g, auto x, auto y) { return g * (sgn(x) * sgn(y)); }, grad, self, result);
}

namespace {

// e^x / (e^x + e^y); equal infinities share.
Tensor share_of(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return formula(
      [](auto g, auto a, auto b) { return g * sigmoid(where(logical_and(a == b, abs(a) == kInfinity), 0.0, a - b)); },
      grad, x, y);
}

Tensor share2_of(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return formula(
      [](auto g, auto a, auto b) {
        constexpr double kLn2 = 0.69314718055994530942;
        return g * sigmoid(where(logical_and(a == b, abs(a) == kInfinity), 0.0, a - b) * kLn2);
      },
      grad, x, y);
}

}  // namespace

Tensor logaddexp_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return share_of(grad, self, other);
}
Tensor logaddexp_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return share_of(grad, other, self);
}
Tensor logaddexp2_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return share2_of(grad, self, other);
}
Tensor logaddexp2_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return share2_of(grad, other, self);
}

namespace {

// What goes to `x`, which was taken unless it is less (greater) than `y`; equals share.
Tensor if_greater(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return formula([](auto g, auto a, auto b) { return where(a < b, 0.0, where(a == b, g * 0.5, g)); }, grad, x, y);
}
Tensor if_less(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return formula([](auto g, auto a, auto b) { return where(a > b, 0.0, where(a == b, g * 0.5, g)); }, grad, x, y);
}

}  // namespace

Tensor maximum_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return if_greater(grad, self, other);
}
Tensor maximum_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return if_greater(grad, other, self);
}
Tensor minimum_self(const Tensor& grad, const Tensor& self, const Tensor& other) { return if_less(grad, self, other); }
Tensor minimum_other(const Tensor& grad, const Tensor& self, const Tensor& other) { return if_less(grad, other, self); }

// Of equals, fmax and fmin take self.
Tensor fmax_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return where(logical_or(x >= y, isnan(y)), g, 0.0); }, grad, self, other);
}
Tensor fmax_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return where(logical_or(x >= y, isnan(y)), 0.0, g); }, grad, self, other);
}
Tensor fmin_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return where(logical_or(x <= y, isnan(y)), g, 0.0); }, grad, self, other);
}
Tensor fmin_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return where(logical_or(x <= y, isnan(y)), 0.0, g); }, grad, self, other);
}

Tensor xlogy_self(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return g * log(where(logical_and(x == 0.0, y <= 0.0), 1.0, y)); }, grad,
                 self, as_dtype_of(other, grad));
}
Tensor xlogy_self(const Tensor& grad, const Tensor& self, const Scalar& other) {
  const double log = std::log(other.toDouble());
  if (other.toDouble() > 0) return times(grad, log);
  return grad * full_like(grad, log).masked_fill(self == 0, 0);
}
Tensor xlogy_other(const Tensor& grad, const Tensor& self, const Tensor& other) {
  return formula([](auto g, auto x, auto y) { return g * (x / where(logical_and(x == 0.0, y == 0.0), 1.0, y)); }, grad,
                 self, other);
}
Tensor xlogy_other(const Tensor& grad, const Scalar& self, const Tensor& other) {
  if (self.is_zero()) return zeros_like(grad);
  return formula([](auto g, auto y, auto x) { return g * (x / y); }, grad, other, self.toDouble());
}

Tensor lerp_self(const Tensor& grad, const Scalar& weight) {
  if (weight.isComplex()) return grad * Scalar(complex<double>(1) - weight.toComplexDouble()).conj();
  return times(grad, 1 - weight.toDouble());
}
Tensor lerp_end(const Tensor& grad, const Scalar& weight) { return times(grad, weight); }
Tensor lerp_self(const Tensor& grad, const Tensor& weight) {
  return formula([](auto g, auto w) { return g * conjugate(1.0 - w); }, grad, weight);
}
Tensor lerp_end(const Tensor& grad, const Tensor& weight) { return times(grad, weight); }
Tensor lerp_weight(const Tensor& grad, const Tensor& self, const Tensor& end) {
  return formula([](auto g, auto from, auto to) { return g * conjugate(to - from); }, grad, self, end);
}

Tensor addcmul_self(const Tensor& grad) { return grad; }
Tensor addcmul_tensor1(const Tensor& grad, const Tensor& tensor2, const Scalar& value) {
  if (value.equal_int(1)) return times(grad, tensor2);
  if (value.isComplex()) return grad * (tensor2 * value).conj();
  return formula([](auto g, auto x, auto by) { return g * (conjugate(x) * by); }, grad, tensor2, value.toDouble());
}
Tensor addcmul_tensor2(const Tensor& grad, const Tensor& tensor1, const Scalar& value) {
  return addcmul_tensor1(grad, tensor1, value);
}

Tensor addcdiv_self(const Tensor& grad) { return grad; }
Tensor addcdiv_tensor1(const Tensor& grad, const Tensor& tensor2, const Scalar& value) {
  if (value.equal_int(1)) return over(grad, tensor2);
  if (value.isComplex()) return grad * (value / tensor2).conj();
  return formula([](auto g, auto x, auto by) { return g * (by / conjugate(x)); }, grad, tensor2, value.toDouble());
}
Tensor addcdiv_tensor2(const Tensor& grad, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value) {
  if (value.isComplex()) return -(grad * ((tensor1 / tensor2) / tensor2 * value).conj());
  return formula([](auto g, auto x, auto y, auto by) { return -(g * (conjugate((x / y) / y) * by)); }, grad, tensor1,
                 tensor2, value.toDouble());
}

Tensor where_self(const Tensor& grad, const Tensor& condition) {
  return formula([](auto g, auto c) { return where(c, g, 0.0); }, grad, Mask{condition});
}
Tensor where_other(const Tensor& grad, const Tensor& condition) {
  return formula([](auto g, auto c) { return where(c, 0.0, g); }, grad, Mask{condition});
}

Tensor fill_value(const Tensor& grad) { return grad; }

}  // namespace facula::vjp
