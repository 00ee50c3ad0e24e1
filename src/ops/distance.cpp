// Distances and similarities of vectors. Differences are never stored: they are formed and folded in one pass.
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"
#include "ops/terms.h"

#include "cpu/convert.h"

#include <array>
#include <cmath>

namespace facula::meaning {
namespace {

enum Family : uint64_t { kDistance = 0xd1, kDot = 0xd2 };

// The norms that have a formula of their own.
enum class Norm : uint8_t { Zero, One, Two, Inf, NegInf, Any };

Norm norm_of(double p) {
  if (p == 0) return Norm::Zero;
  if (p == 1) return Norm::One;
  if (p == 2) return Norm::Two;
  if (std::isinf(p)) return p > 0 ? Norm::Inf : Norm::NegInf;
  return Norm::Any;
}

ScalarType common_float(const Tensor& a, const Tensor& b, const char* op) {
  FACULA_CHECK(a.defined() && b.defined(), ValueError, op,
               ": an input is an undefined tensor; assign a tensor to it first");
  const Operand operands[] = {a, b};
  const ScalarType t = float_if_integral(result_type(operands, op));
  check_computed_float(t, op, "Convert the inputs to float or double first");
  return t;
}

DimVector without_last(IntArrayRef sizes) { return DimVector(IntArrayRef(sizes.data(), sizes.size() - 1)); }

// The p-norm of a - b + eps along the last of `sizes`, to which both broadcast.
Tensor norm_of_difference(const Tensor& a, const Tensor& b, IntArrayRef sizes, double p, double eps, bool keepdim,
                          ScalarType dtype, const char* op) {
  const Norm kind = norm_of(p);
  if (sizes.back() == 0) {
    DimVector kept = without_last(sizes);
    if (keepdim) kept.push_back(1);
    Tensor result = new_tensor(kept, dtype, common_device({&a, &b}, op), op);
    fill_values(result, 0);
    return result;
  }
  const CType type = compute_type(dtype);
  const std::array<ScalarType, 2> from = {a.impl()->dtype, b.impl()->dtype};
  auto build = [&](Program& g) {
    const Value x = g.cast(g.load(from[0]), type), y = g.cast(g.load(from[1]), type);
    const Value shift = g.param(type), exponent = g.param(type), inverse = g.param(type);
    const Value d = g.apply(ScalarOp::add, g.apply(ScalarOp::sub, x, y), shift);
    auto magnitude = [&] { return g.apply(ScalarOp::abs, d); };
    Value result{};
    switch (kind) {
      case Norm::Zero: result = g.reduce(ReduceOp::Sum, g.cast(g.cast(d, CType::B8), type)); break;
      case Norm::One: result = g.reduce(ReduceOp::Sum, magnitude()); break;
      case Norm::Two: result = g.apply(ScalarOp::sqrt, g.reduce(ReduceOp::Sum, g.apply(ScalarOp::square, d))); break;
      case Norm::Inf: result = g.reduce(ReduceOp::Max, magnitude()); break;
      case Norm::NegInf: result = g.reduce(ReduceOp::Min, magnitude()); break;
      case Norm::Any:
        result =
            g.apply(ScalarOp::pow, g.reduce(ReduceOp::Sum, g.apply(ScalarOp::pow, magnitude(), exponent)), inverse);
        break;
    }
    g.store(result, dtype);
  };
  const Tensor tensors[] = {a, b};
  const uint64_t key = terms_key(kDistance, {static_cast<uint64_t>(kind), static_cast<uint64_t>(from[0]),
                                             static_cast<uint64_t>(from[1]), static_cast<uint64_t>(dtype)});
  const bool any = kind == Norm::Any;
  return reduce_terms({key, build, tensors, {eps, any ? p : 1.0, any ? 1.0 / p : 1.0}, dtype, op}, sizes,
                      uint64_t{1} << (sizes.size() - 1), keepdim);
}

// The sum of a * b along `dim`, in `dtype`.
Tensor dot_along(const Tensor& a, const Tensor& b, IntArrayRef sizes, int64_t dim, ScalarType dtype, const char* op) {
  const CType type = compute_type(dtype);
  const std::array<ScalarType, 2> from = {a.impl()->dtype, b.impl()->dtype};
  auto build = [&](Program& g) {
    const Value x = g.cast(g.load(from[0]), type), y = g.cast(g.load(from[1]), type);
    g.store(g.reduce(ReduceOp::Sum, g.apply(ScalarOp::mul, x, y)), dtype);
  };
  const Tensor tensors[] = {a, b};
  const uint64_t key =
      terms_key(kDot, {static_cast<uint64_t>(from[0]), static_cast<uint64_t>(from[1]), static_cast<uint64_t>(dtype)});
  return reduce_terms({key, build, tensors, {}, dtype, op}, sizes, sizes.empty() ? 0 : uint64_t{1} << dim, false);
}

// Through one matrix product: |a|^2 + |b|^2 - 2 a.b. What is lost to cancellation may be below 0.
Tensor euclidean_by_matmul(const Tensor& a, const Tensor& b) {
  const Tensor aa = (a * a).sum(-1, true), bb = (b * b).sum(-1, true).transpose(-2, -1);
  Tensor squares = a.matmul(b.transpose(-2, -1));
  squares.mul_(-2).add_(aa).add_(bb);
  return squares.clamp_min_(0).sqrt_();
}

}  // namespace

Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
  const char* op = "cosine_similarity";
  const ScalarType dtype = common_float(x1, x2, op);
  const DimVector sizes = broadcast_sizes(sizes_of(x1), sizes_of(x2), op);
  const int64_t along = wrap_dim(dim, static_cast<int64_t>(sizes.size()), op);
  // Lengths and products of half types stay in float until the end.
  const ScalarType work = dtype == kDouble ? kDouble : kFloat;
  const Tensor dot = dot_along(x1, x2, sizes, along, work, op);
  const Tensor length1 = dot_along(x1, x1, sizes, along, work, op).sqrt_().clamp_min_(eps);
  const Tensor length2 = dot_along(x2, x2, sizes, along, work, op).sqrt_().clamp_min_(eps);
  return as_dtype(dot.div(length1).div(length2), dtype);
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
  const char* op = "pairwise_distance";
  const ScalarType dtype = common_float(x1, x2, op);
  DimVector sizes = broadcast_sizes(sizes_of(x1), sizes_of(x2), op);
  const bool scalar = sizes.empty();
  if (scalar) sizes.push_back(1);
  return norm_of_difference(x1, x2, sizes, p, eps, keepdim && !scalar, dtype, op);
}

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t> compute_mode) {
  const char* op = "cdist";
  const ScalarType dtype = common_float(x1, x2, op);
  const TensorImpl *a = x1.impl(), *b = x2.impl();
  FACULA_CHECK(isFloatingType(a->dtype) && isFloatingType(b->dtype), DTypeError, op,
               ": cdist only supports floating-point dtypes, X1 got: ", toString(a->dtype),
               ", X2 got: ", toString(b->dtype), ". Convert them to float32");
  FACULA_CHECK(a->dim() >= 2 && b->dim() >= 2, ShapeError, op,
               ": cdist only supports at least 2D tensors, X1 got: ", a->dim(), "D, X2 got: ", b->dim(), "D");
  FACULA_CHECK(a->sizes.back() == b->sizes.back(), ShapeError, op,
               ": X1 and X2 must have the same number of columns. X1: ", a->sizes.back(), " X2: ", b->sizes.back());
  FACULA_CHECK(p >= 0, ValueError, op, ": cdist only supports non-negative p values, got ", p);
  const int64_t mode = compute_mode.value_or(0);
  FACULA_CHECK(mode >= 0 && mode <= 2, ValueError, op, ": possible modes: 0, 1, 2, but was: ", mode);
  const DimVector batch = broadcast_sizes(IntArrayRef(a->sizes.data(), a->sizes.size() - 2),
                                          IntArrayRef(b->sizes.data(), b->sizes.size() - 2), op);
  const int64_t rows = a->sizes[a->sizes.size() - 2], others = b->sizes[b->sizes.size() - 2], columns = a->sizes.back();
  const bool large = rows > 25 || others > 25;
  if (p == 2 && large && columns > 0 && !a->device.is_meta() && (dtype == kFloat || dtype == kDouble))
    return euclidean_by_matmul(as_dtype(x1, dtype), as_dtype(x2, dtype));
  DimVector sizes = batch;
  sizes.push_back(rows);
  sizes.push_back(others);
  sizes.push_back(columns);
  return norm_of_difference(x1.unsqueeze(-2), x2.unsqueeze(-3), sizes, p, 0, false, dtype, op);
}

}  // namespace facula::meaning
