// Meanings of the two- and three-operand pointwise ops that need more than one scalar operation or a check of their own.
#include "cpu/convert.h"
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"

namespace facula::meaning {
namespace {

// `alpha` multiplies the second operand: it must be a number of the result's kind.
void check_alpha(const Scalar& alpha, ScalarType common, const char* op) {
  bool integral = isIntegralType(common, true);
  FACULA_CHECK(!(integral && (alpha.isFloatingPoint() || alpha.isComplex())), DTypeError, op,
               ": For integral input tensors, argument alpha must not be a floating point number, got ", alpha.str());
  FACULA_CHECK(isComplexType(common) || !alpha.isComplex(), DTypeError, op,
               ": For non-complex input tensors, argument alpha must not be a complex number, got ", alpha.str());
  FACULA_CHECK(common == ScalarType::Bool || !alpha.isBoolean(), DTypeError, op,
               ": Boolean alpha only supported for Boolean results");
}

Tensor with_alpha(ScalarOp plain, ScalarOp scaled, const Operand& a, const Operand& b, const Scalar& alpha,
                  const Out& out, const char* op) {
  if (alpha.equal_int(1)) return pointwise(plain, {a, b}, out, op);
  Operand both[] = {a, b};
  ScalarType common = result_type(both, op);
  check_alpha(alpha, common, op);
  // alpha has the results's kind, so that it takes no part in promotion.
  Scalar typed = isComplexType(common)        ? Scalar(alpha.toComplexDouble())
                 : isFloatingType(common)     ? Scalar(alpha.toDouble())
                 : common == ScalarType::Bool ? Scalar(alpha.toBool())
                                              : Scalar(alpha.toLong());
  return pointwise(scaled, {a, b, typed}, out, op);
}

void refuse_bool(const Operand& a, const Operand& b, const char* op) {
  auto is_bool = [](const Operand& o) {
    return o.is_tensor() ? o.tensor().scalar_type() == ScalarType::Bool : o.scalar().isBoolean();
  };
  FACULA_CHECK(!(is_bool(a) && is_bool(b)), DTypeError, op,
               ": Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
               "`logical_xor()` operator instead");
  FACULA_CHECK(!is_bool(a) && !is_bool(b), DTypeError, op,
               ": Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
               "mask, use the "
               "`~` or `logical_not()` operator instead");
}

ScalarOp division(std::optional<std::string_view> mode) {
  if (!mode) return ScalarOp::div;
  if (*mode == "trunc") return ScalarOp::div_trunc;
  if (*mode == "floor") return ScalarOp::div_floor;
  throw ValueError(str("div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode, "'"));
}

}  // namespace

Tensor add(const Tensor& self, const Tensor& other, const Scalar& alpha, const Out& out) {
  return with_alpha(ScalarOp::add, ScalarOp::add_alpha, self, other, alpha, out, "add");
}
Tensor add(const Tensor& self, const Scalar& other, const Scalar& alpha, const Out& out) {
  return with_alpha(ScalarOp::add, ScalarOp::add_alpha, self, other, alpha, out, "add");
}
Tensor sub(const Tensor& self, const Tensor& other, const Scalar& alpha, const Out& out) {
  refuse_bool(self, other, "sub");
  return with_alpha(ScalarOp::sub, ScalarOp::sub_alpha, self, other, alpha, out, "sub");
}
Tensor sub(const Tensor& self, const Scalar& other, const Scalar& alpha, const Out& out) {
  refuse_bool(self, other, "sub");
  return with_alpha(ScalarOp::sub, ScalarOp::sub_alpha, self, other, alpha, out, "sub");
}
Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha, const Out& out) {
  return sub(other, self, alpha, out);
}
Tensor rsub(const Tensor& self, const Scalar& other, const Scalar& alpha, const Out& out) {
  refuse_bool(self, other, "rsub");
  return with_alpha(ScalarOp::sub, ScalarOp::sub_alpha, other, self, alpha, out, "rsub");
}

Tensor div(const Tensor& self, const Tensor& other, std::optional<std::string_view> rounding_mode, const Out& out) {
  return pointwise(division(rounding_mode), {self, other}, out, "div");
}
Tensor div(const Tensor& self, const Scalar& other, std::optional<std::string_view> rounding_mode, const Out& out) {
  return pointwise(division(rounding_mode), {self, other}, out, "div");
}

Tensor pow(const Tensor& self, const Tensor& exponent, const Out& out) {
  return pointwise(ScalarOp::pow, {self, exponent}, out);
}
Tensor pow(const Scalar& self, const Tensor& exponent, const Out& out) {
  return pointwise(ScalarOp::pow, {self, exponent}, out);
}
Tensor pow(const Tensor& self, const Scalar& exponent, const Out& out) {
  ScalarType t = self.scalar_type();
  FACULA_CHECK(!(isIntegralType(t, false) && exponent.isIntegral(true) && exponent.toLong() < 0), ValueError,
               "pow: Integers to negative integer powers are not allowed (exponent ", exponent.str(),
               "). Convert the tensor to a floating-point dtype first");
  // The exponents that people write most are exact as products.
  bool keeps_dtype =
      !exponent.isComplex() && (isFloatingType(t) || exponent.isIntegral(false)) && t != ScalarType::Bool;
  if (keeps_dtype && exponent.equal_int(2)) return pointwise(ScalarOp::square, {self}, out, "pow");
  if (keeps_dtype && exponent.equal_int(1) && !isFloatingType(t))
    return pointwise(ScalarOp::positive, {self}, out, "pow");
  if (isFloatingType(t) && exponent.isFloatingPoint() && exponent.toDouble() == 0.5)
    return pointwise(ScalarOp::sqrt, {self}, out, "pow");
  return pointwise(ScalarOp::pow, {self, exponent}, out);
}

namespace {

// self + value * (t1 op t2), as one program.
Tensor add_combined(ScalarOp inner, const Tensor& self, const Tensor& t1, const Tensor& t2, const Scalar& value,
                    const Out& out, const char* op) {
  Operand all[] = {self, t1, t2};
  ScalarType common = result_type(all, op);
  FACULA_CHECK(common != ScalarType::Bool, DTypeError, op, ": not implemented for 'Bool'; convert the operands first");
  if (inner == ScalarOp::div)
    FACULA_CHECK(!isIntegralType(common, true), DTypeError, op,
                 ": Integer division with addcdiv is not supported; convert the operands to a floating-point dtype");
  check_alpha(value, common, op);
  CType type = compute_type(common);
  Program p;
  Value a = p.cast(p.load(self.scalar_type()), type), b = p.cast(p.load(t1.scalar_type()), type),
        c = p.cast(p.load(t2.scalar_type()), type), v = p.param(type);
  p.store(p.apply(ScalarOp::add_alpha, a, p.apply(inner, b, c), v), common);
  return run_program(p, {self, t1, t2}, {value}, out, op);
}

}  // namespace

Tensor addcmul(const Tensor& self, const Tensor& t1, const Tensor& t2, const Scalar& value, const Out& out) {
  return add_combined(ScalarOp::mul, self, t1, t2, value, out, "addcmul");
}
Tensor addcdiv(const Tensor& self, const Tensor& t1, const Tensor& t2, const Scalar& value, const Out& out) {
  return add_combined(ScalarOp::div, self, t1, t2, value, out, "addcdiv");
}

std::vector<Tensor> where(const Tensor& condition) {
  // One index tensor a dim; a zero-dim condition counts as one element.
  Tensor positions = facula::nonzero(condition.dim() == 0 ? condition.unsqueeze(0) : condition);
  return positions.unbind(1);
}

Tensor isclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  FACULA_CHECK(self.scalar_type() == other.scalar_type(), DTypeError, "isclose: ", toString(self.scalar_type()),
               " did not match ", toString(other.scalar_type()), "; convert one of them with .to(dtype)");
  FACULA_CHECK(rtol >= 0 && atol >= 0, ValueError, "isclose: rtol and atol must be non-negative, got ", rtol, " and ",
               atol);
  Tensor close = self.eq(other);
  if (equal_nan && (self.is_floating_point() || self.is_complex()))
    close = close.logical_or(self.isnan().logical_and(other.isnan()));
  if (rtol == 0 && atol == 0) return close;
  // Integers are compared as doubles, so that the allowed error can be a fraction.
  bool integral = isIntegralType(self.scalar_type(), true);
  Tensor a = integral ? self.to(kDouble) : self, b = integral ? other.to(kDouble) : other;
  Tensor allowed = b.abs().mul(rtol).add(atol), error = a.sub(b).abs();
  return close.logical_or(error.isfinite().logical_and(error.le(allowed)));
}

void fill_(Tensor& self, const Scalar& value) {
  check_no_internal_overlap(self, "fill_");
  FACULA_CHECK(self.is_complex() || !value.isComplex(), DTypeError, "fill_: value ", value.str(),
               " cannot be converted to type ", toString(self.scalar_type()), " without losing its imaginary part");
  check_fits_integers(value, self.scalar_type(), "fill_");
  fill_values(self, value);
  self.impl()->bump_version();
}
void fill_(Tensor& self, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, ShapeError, "fill_: only supports 0-dimension value tensor but got tensor with ",
               value.dim(), " dimensions; use copy_ to broadcast");
  FACULA_CHECK(self.is_meta() || !value.is_meta(), DeviceError,
               "fill_: the value is a meta tensor, which has no data, ", "but the target is on ", self.device().str(),
               ". Give a number or a tensor that has one");
  if (value.is_meta()) return self.impl()->bump_version();
  meaning::fill_(self, value.item());
}
void zero_(Tensor& self) { meaning::fill_(self, Scalar(0)); }

}  // namespace facula::meaning
