// Means, variances, norms and logsumexp. Sums and extremes are in reduce.cpp.
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/reduce_helpers.h"

#include "cpu/convert.h"

#include <cmath>
#include <limits>

namespace facula::meaning {
namespace {

Tensor mean_over(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const std::optional<ScalarType>& dtype,
                 const Out& out, const char* op) {
  check_defined(self, op);
  const ScalarType result = dtype.value_or(self.impl()->dtype);
  FACULA_CHECK(isFloatingType(result) || isComplexType(result), DTypeError, op, "(): could not infer output dtype. ",
               dtype ? "Optional" : "Input",
               " dtype must be either a floating point or complex dtype. Got: ", toString(result),
               ". Pass dtype, or convert the input to float32");
  const uint64_t mask = reduced_dims(self, dim, op);
  const ScalarType from = self.impl()->dtype;
  const bool narrows = isFloatingType(from) && isFloatingType(result) && elementSize(from) > elementSize(result);
  const ScalarType compute = narrows ? from : result;
  const ParamValue count = param_value(static_cast<double>(reduced_count(self, mask)), compute_type(compute));
  return reduce(Reduce::Mean, self, compute, result, mask, keepdim, {&count, 1}, out, op);
}

void check_spread(const Tensor& self, const char* op) {
  check_defined(self, op);
  FACULA_CHECK(self.is_floating_point() || self.is_complex(), DTypeError, op, ": ", op,
               " only support floating point and complex dtypes, got ", toString(self.scalar_type()),
               ". Convert the input to float32 first");
}

double correction_of(const std::optional<Scalar>& correction) { return correction ? correction->toDouble() : 1.0; }

// The divisor of the sum of squared deviations, as a parameter.
ParamValue divisor(const Tensor& self, uint64_t mask, double correction) {
  const double count = static_cast<double>(reduced_count(self, mask)) - correction;
  return param_value(std::max(0.0, count), real_of(compute_type(self.impl()->dtype)));
}

// The variance of complex numbers is that of their parts, added.
Tensor complex_spread(const Tensor& self, uint64_t mask, bool keepdim, double correction, bool root, const Out& out,
                      const char* op) {
  const ScalarType dtype = self.impl()->dtype, real = toRealValueType(dtype);
  const ParamValue d = divisor(self, mask, correction);
  const Tensor a = reduce(Reduce::VarReal, self, dtype, real, mask, keepdim, {&d, 1}, Out::fresh(), op);
  const Tensor b = reduce(Reduce::VarImag, self, dtype, real, mask, keepdim, {&d, 1}, Out::fresh(), op);
  if (!root) return pointwise(ScalarOp::add, {a, b}, out, op);
  return pointwise(ScalarOp::sqrt, {pointwise(ScalarOp::add, {a, b}, Out::fresh(), op)}, out, op);
}

Tensor spread(const Tensor& self, OptionalIntArrayRef dim, double correction, bool keepdim, bool root, const Out& out,
              const char* op) {
  check_spread(self, op);
  const uint64_t mask = reduced_dims(self, dim, op);
  if (self.is_complex()) return complex_spread(self, mask, keepdim, correction, root, out, op);
  const ScalarType dtype = self.impl()->dtype;
  const ParamValue d = divisor(self, mask, correction);
  return reduce(root ? Reduce::Std : Reduce::Var, self, dtype, dtype, mask, keepdim, {&d, 1}, out, op);
}

std::tuple<Tensor, Tensor> spread_and_mean(const Tensor& self, OptionalIntArrayRef dim, double correction, bool keepdim,
                                           bool root, const char* op) {
  check_spread(self, op);
  const uint64_t mask = reduced_dims(self, dim, op);
  if (self.is_complex()) {
    Tensor first = complex_spread(self, mask, keepdim, correction, root, Out::fresh(), op);
    return {std::move(first), mean_over(self, dim, keepdim, {}, Out::fresh(), op)};
  }
  const TensorImpl* t = self.impl();
  const ParamValue d = divisor(self, mask, correction);
  const DimVector sizes = reduced_sizes(self, mask, keepdim);
  const Tensor targets[] = {new_tensor(sizes, t->dtype, t->device, op), new_tensor(sizes, t->dtype, t->device, op)};
  run_reduce(op, root ? Reduce::StdMean : Reduce::VarMean, self, t->dtype, mask, keepdim, {&d, 1}, targets);
  return {targets[0], targets[1]};
}

Tensor norm_over(const Tensor& self, const std::optional<Scalar>& p, OptionalIntArrayRef dim, bool keepdim,
                 const std::optional<ScalarType>& dtype, const Out& out) {
  check_defined(self, "norm");
  const ScalarType from = self.impl()->dtype;
  FACULA_CHECK(isFloatingType(from) || isComplexType(from), DTypeError,
               "norm(): the desired output dtype should be either floating point or complex. Got ", toString(from),
               " instead. Convert the input to float32 first");
  ScalarType compute = from;
  if (dtype) {
    FACULA_CHECK(isFloatingType(*dtype) || isComplexType(*dtype), DTypeError,
                 "norm(): dtype must be floating point or complex. Got ", toString(*dtype));
    FACULA_CHECK(!isComplexType(from) || isComplexType(*dtype), DTypeError,
                 "norm(): dtype of a complex input must be complex. Got ", toString(*dtype), " for ", toString(from));
    compute = promoteTypes(from, *dtype);
    if (compute == ScalarType::Undefined) compute = *dtype;
  }
  const ScalarType result = toRealValueType(dtype.value_or(from));
  const uint64_t mask = reduced_dims(self, dim, "norm");
  const double power = p ? p->toDouble() : 2.0;
  const CType real = real_of(compute_type(compute));
  Reduce kind = Reduce::NormP;
  if (power == 0) kind = Reduce::Norm0;
  else if (power == 1) kind = Reduce::Norm1;
  else if (power == 2) kind = Reduce::Norm2;
  else if (power == std::numeric_limits<double>::infinity()) kind = Reduce::NormInf;
  else if (power == -std::numeric_limits<double>::infinity()) kind = Reduce::NormNegInf;
  if (kind == Reduce::NormInf || kind == Reduce::NormNegInf || power < 0) {
    FACULA_CHECK(reduced_count(self, mask) != 0, IndexError, "norm(): cannot compute the ", power,
                 " norm over nothing: it has no identity. The input has shape ",
                 to_text(IntArrayRef(self.impl()->sizes)));
  }
  const ParamValue params[] = {param_value(power, real), param_value(1.0 / power, real)};
  const size_t used = kind == Reduce::NormP ? 2 : 0;
  return reduce(kind, self, compute, result, mask, keepdim, {params, used}, out, "norm");
}

}  // namespace

Tensor mean(const Tensor& self, std::optional<ScalarType> dtype, const Out& out) {
  return mean_over(self, {}, false, dtype, out, "mean");
}
Tensor mean(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype,
            const Out& out) {
  return mean_over(self, dim, keepdim, dtype, out, "mean");
}

Tensor nanmean(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  check_defined(self, "nanmean");
  FACULA_CHECK(self.is_floating_point(), DTypeError, "nanmean(): expected input to have floating point dtype but got ",
               toString(self.scalar_type()), ". Convert it to float32 first");
  const uint64_t mask = reduced_dims(self, dim, "nanmean");
  const ScalarType from = self.impl()->dtype;
  const Tensor total = nansum(self, dim, keepdim, dtype, Out::fresh());
  const Tensor count = reduce(Reduce::NotNanCount, self, from, kLong, mask, keepdim, {}, Out::fresh(), "nanmean");
  return pointwise(ScalarOp::div, {total, count}, Out::fresh(), "nanmean");
}

Tensor std(const Tensor& self, bool unbiased, const Out& out) {
  return spread(self, {}, unbiased ? 1 : 0, false, true, out, "std");
}
Tensor std(const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim, const Out& out) {
  return spread(self, dim, unbiased ? 1 : 0, keepdim, true, out, "std");
}
Tensor std(const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction, bool keepdim,
           const Out& out) {
  return spread(self, dim, correction_of(correction), keepdim, true, out, "std");
}
Tensor var(const Tensor& self, bool unbiased, const Out& out) {
  return spread(self, {}, unbiased ? 1 : 0, false, false, out, "var");
}
Tensor var(const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim, const Out& out) {
  return spread(self, dim, unbiased ? 1 : 0, keepdim, false, out, "var");
}
Tensor var(const Tensor& self, OptionalIntArrayRef dim, const std::optional<Scalar>& correction, bool keepdim,
           const Out& out) {
  return spread(self, dim, correction_of(correction), keepdim, false, out, "var");
}

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, bool unbiased) {
  return spread_and_mean(self, {}, unbiased ? 1 : 0, false, true, "std_mean");
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim) {
  return spread_and_mean(self, dim, unbiased ? 1 : 0, keepdim, true, "std_mean");
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, OptionalIntArrayRef dim,
                                    const std::optional<Scalar>& correction, bool keepdim) {
  return spread_and_mean(self, dim, correction_of(correction), keepdim, true, "std_mean");
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, bool unbiased) {
  return spread_and_mean(self, {}, unbiased ? 1 : 0, false, false, "var_mean");
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim) {
  return spread_and_mean(self, dim, unbiased ? 1 : 0, keepdim, false, "var_mean");
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, OptionalIntArrayRef dim,
                                    const std::optional<Scalar>& correction, bool keepdim) {
  return spread_and_mean(self, dim, correction_of(correction), keepdim, false, "var_mean");
}

Tensor norm(const Tensor& self, const Scalar& p, const Out& out) { return norm_over(self, p, {}, false, {}, out); }
Tensor norm(const Tensor& self, const std::optional<Scalar>& p, ScalarType dtype, const Out& out) {
  return norm_over(self, p, {}, false, dtype, out);
}
Tensor norm(const Tensor& self, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, const Out& out) {
  return norm_over(self, p, dim, keepdim, {}, out);
}
Tensor norm(const Tensor& self, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype,
            const Out& out) {
  return norm_over(self, p, dim, keepdim, dtype, out);
}

Tensor logsumexp(const Tensor& self, IntArrayRef dim, bool keepdim, const Out& out) {
  check_defined(self, "logsumexp");
  FACULA_CHECK(!self.is_complex(), DTypeError,
               "logsumexp(): Expected floating point type for result tensor, but got: ", toString(self.scalar_type()),
               ". Take log(sum(exp(x))) of complex numbers");
  const uint64_t mask = reduced_dims(self, dim, "logsumexp");
  const ScalarType dtype = float_if_integral(self.impl()->dtype);
  return reduce(Reduce::LogSumExp, self, dtype, dtype, mask, keepdim, {}, out, "logsumexp");
}

}  // namespace facula::meaning
