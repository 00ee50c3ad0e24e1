// Meanings of the one-operand pointwise ops that need more than one scalar operation or a check of their own.
#include "cpu/convert.h"
#include "ops/common.h"
#include "ops/pointwise.h"

#include <cmath>
#include <limits>

namespace facula::meaning {

Tensor round(const Tensor& self, int64_t decimals, const Out& out) {
  ScalarType t = self.scalar_type();
  FACULA_CHECK(!isComplexType(t) && t != ScalarType::Bool, DTypeError, "round: not implemented for '", toString(t),
               "'");
  if (decimals == 0 || isIntegralType(t, false)) return pointwise(ScalarOp::round, {self}, out);
  CType type = compute_type(t);
  // Scaling by a power of ten that is exact, and undoing it by the inverse operation, keeps short decimals exact.
  Program p;
  Value x = p.load(t), scale = p.param(type);
  bool up = decimals > 0;
  Value scaled = p.apply(up ? ScalarOp::mul : ScalarOp::div, x, scale);
  Value rounded = p.apply(ScalarOp::round, scaled);
  p.store(p.apply(up ? ScalarOp::div : ScalarOp::mul, rounded, scale), t);
  return run_program(p, {self}, {std::pow(10.0, static_cast<double>(std::abs(decimals)))}, out, "round");
}

Tensor logit(const Tensor& self, std::optional<double> eps, const Out& out) {
  // A negative eps means no clamping: outside [0, 1] the result is NaN.
  Scalar bound(eps.value_or(-1.0));
  return pointwise(ScalarOp::logit, {self, bound}, out);
}

Tensor polygamma(int64_t n, const Tensor& self, const Out& out) {
  FACULA_CHECK(n >= 0, ValueError, "polygamma: polygamma(n, x) does not support negative n, got ", n);
  const Scalar order(n);
  return pointwise(ScalarOp::polygamma, {self, order}, out);
}

Tensor gelu(const Tensor& self, std::string_view approximate, const Out& out) {
  FACULA_CHECK(approximate == "none" || approximate == "tanh", ValueError,
               "gelu: approximate argument must be either none or tanh, got '", approximate, "'");
  return pointwise(approximate == "tanh" ? ScalarOp::gelu_tanh : ScalarOp::gelu, {self}, out, "gelu");
}

Tensor elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, const Out& out) {
  if (input_scale.equal_int(1)) return pointwise(ScalarOp::elu, {self, alpha, scale}, out, "elu");
  ScalarType t = self.scalar_type();
  FACULA_CHECK(isFloatingType(t), DTypeError, "elu: not implemented for '", toString(t),
               "'; convert to a floating-point dtype");
  CType type = compute_type(t);
  Program p;
  Value x = p.load(t), a = p.param(type), s = p.param(type), i = p.param(type), zero = p.param(type);
  // Negative inputs are scaled before the exponential, positive ones only after.
  Value negative = p.apply(ScalarOp::elu, p.apply(ScalarOp::mul, x, i), a, s);
  p.store(p.apply(ScalarOp::where, p.apply(ScalarOp::gt, x, zero), p.apply(ScalarOp::mul, x, s), negative), t);
  return run_program(p, {self}, {alpha, scale, input_scale, Scalar(0)}, out, "elu");
}

Tensor isreal(const Tensor& self, const Out& out) {
  ScalarType t = self.scalar_type();
  Program p;
  Value x = p.load(t);
  if (isComplexType(t)) {
    Value imaginary = p.apply(ScalarOp::imag, x);
    p.store(p.apply(ScalarOp::eq, imaginary, p.param(imaginary.type)), kBool);
    return run_program(p, {self}, {Scalar(0)}, out, "isreal");
  }
  // Every number that is not complex is real, NaN too.
  p.store(p.param(CType::B8), kBool);
  return run_program(p, {self}, {Scalar(true)}, out, "isreal");
}

namespace {

// The real or imaginary parts as a view of the same storage.
Tensor part_of_complex(const Tensor& self, int64_t which) {
  Tensor pairs = facula::view_as_real(self);
  return pairs.select(-1, which);
}

}  // namespace

Tensor real(const Tensor& self) { return self.is_complex() ? part_of_complex(self, 0) : self; }
Tensor imag(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), DTypeError, "imag: is not implemented for tensors with non-complex dtypes, got ",
               toString(self.scalar_type()));
  return part_of_complex(self, 1);
}
Tensor positive(const Tensor& self) {
  FACULA_CHECK(self.scalar_type() != ScalarType::Bool, DTypeError,
               "positive: The `+` operator, on a bool tensor is not supported");
  return self.alias();
}

namespace {

// The largest finite value of a dtype, as a double.
double largest(ScalarType t) {
  switch (t) {
    case ScalarType::Double: return std::numeric_limits<double>::max();
    case ScalarType::Half: return 65504.0;
    case ScalarType::BFloat16: return 3.3895313892515355e38;
    case ScalarType::Float8_e4m3fn: return 448.0;
    case ScalarType::Float8_e5m2: return 57344.0;
    default: return std::numeric_limits<float>::max();
  }
}

}  // namespace

Tensor nan_to_num(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                  std::optional<double> neginf, const Out& out) {
  ScalarType t = self.scalar_type();
  FACULA_CHECK(!isComplexType(t), DTypeError, "nan_to_num: not implemented for '", toString(t),
               "'; apply it to real and imag");
  Program p;
  Value x = p.load(t);
  if (isIntegralType(t, true)) {
    p.store(x, t);
    return run_program(p, {self}, {}, out, "nan_to_num");
  }
  x = p.apply(ScalarOp::replace_nan, x, p.param(x.type));
  x = p.apply(ScalarOp::replace_posinf, x, p.param(x.type));
  x = p.apply(ScalarOp::replace_neginf, x, p.param(x.type));
  p.store(x, t);
  return run_program(p, {self}, {nan.value_or(0.0), posinf.value_or(largest(t)), neginf.value_or(-largest(t))}, out,
                     "nan_to_num");
}

Tensor clamp(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max, const Out& out) {
  FACULA_CHECK(min || max, ValueError, "clamp: At least one of 'min' or 'max' must not be None");
  if (min && max) return pointwise(ScalarOp::clamp, {self, *min, *max}, out);
  return min ? pointwise(ScalarOp::clamp_min, {self, *min}, out, "clamp")
             : pointwise(ScalarOp::clamp_max, {self, *max}, out, "clamp");
}
Tensor clamp(const Tensor& self, const std::optional<Tensor>& min, const std::optional<Tensor>& max, const Out& out) {
  FACULA_CHECK(min || max, ValueError, "clamp: At least one of 'min' or 'max' must not be None");
  if (min && max) return pointwise(ScalarOp::clamp, {self, *min, *max}, out);
  return min ? pointwise(ScalarOp::clamp_min, {self, *min}, out, "clamp")
             : pointwise(ScalarOp::clamp_max, {self, *max}, out, "clamp");
}

}  // namespace facula::meaning
