// Sums, products, extremes and truth over dims. Means, deviations and norms are in reduce_stats.cpp, medians in
// reduce_median.cpp.
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/reduce_helpers.h"

#include "cpu/convert.h"
#include "ops/executable.h"

#include <atomic>
#include <memory>

namespace facula::meaning {
namespace {

OptionalIntArrayRef one_dim(const std::optional<int64_t>& dim) {
  return dim ? OptionalIntArrayRef(*dim) : OptionalIntArrayRef();
}

// Sums and products: `dtype` if given; integers and bool become int64; a wider `out` is computed in its own dtype.
ScalarType sum_dtype(const Tensor& self, const std::optional<ScalarType>& dtype, const Out& out) {
  if (dtype) return *dtype;
  const ScalarType from = self.impl()->dtype;
  if (!out.is_fresh() && out.target()->defined() && canCast(from, out.target()->scalar_type())) {
    const ScalarType to = out.target()->scalar_type();
    if (elementSize(to) > elementSize(from) && !isIntegralType(to, true)) return to;
  }
  return isIntegralType(from, true) && from != kUInt64 ? kLong : from;
}

// What values are computed in so that a narrower `dtype` does not lose what the sum of the input would keep.
ScalarType compute_dtype(const Tensor& self, ScalarType dtype) {
  const ScalarType from = self.impl()->dtype;
  const bool both_float = isFloatingType(from) && isFloatingType(dtype);
  return both_float && elementSize(from) > elementSize(dtype) ? from : dtype;
}

Tensor sum_like(Reduce kind, const Tensor& self, uint64_t mask, bool keepdim, const std::optional<ScalarType>& dtype,
                const Out& out, const char* op) {
  const ScalarType result = sum_dtype(self, dtype, out);
  return reduce(kind, self, compute_dtype(self, result), result, mask, keepdim, {}, out, op);
}

void check_ordered(const Tensor& self, const char* op) {
  FACULA_CHECK(!self.is_complex(), DTypeError, op, ": \"", op, "\" not implemented for '", toString(self.scalar_type()),
               "': complex numbers have no order. Reduce abs(), real or imag instead");
}

Tensor extreme(Reduce kind, const Tensor& self, OptionalIntArrayRef dim, bool keepdim, bool all, const Out& out,
               const char* op) {
  check_defined(self, op);
  check_ordered(self, op);
  const uint64_t mask = reduced_dims(self, dim, op);
  check_not_empty(self, mask, all, op);
  return reduce(kind, self, self.impl()->dtype, self.impl()->dtype, mask, keepdim, {}, out, op);
}

std::tuple<Tensor, Tensor> extreme_with_index(Reduce kind, const Tensor& self, int64_t dim, bool keepdim,
                                              const char* op) {
  check_defined(self, op);
  check_ordered(self, op);
  const uint64_t mask = reduced_dims(self, dim, op);
  check_not_empty(self, mask, false, op);
  const DimVector sizes = reduced_sizes(self, mask, keepdim);
  const TensorImpl* t = self.impl();
  const Tensor targets[] = {new_tensor(sizes, t->dtype, t->device, op), new_tensor(sizes, kLong, t->device, op)};
  run_reduce(op, kind, self, t->dtype, mask, keepdim, {}, targets);
  return {targets[0], targets[1]};
}

Tensor position(Reduce kind, const Tensor& self, const std::optional<int64_t>& dim, bool keepdim, const Out& out,
                const char* op) {
  check_defined(self, op);
  check_ordered(self, op);
  const uint64_t mask = reduced_dims(self, one_dim(dim), op);
  check_not_empty(self, mask, !dim, op);
  return reduce(kind, self, self.impl()->dtype, kLong, mask, keepdim, {}, out, op);
}

// Bool, except that uint8 was the bool of old and stays uint8.
Tensor truth(Reduce kind, const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const Out& out, const char* op) {
  check_defined(self, op);
  const uint64_t mask = dim && dim->empty() ? 0 : reduced_dims(self, dim, op);  // no dims, as NumPy has it
  const ScalarType dtype = self.impl()->dtype == kByte ? kByte : kBool;
  return reduce(kind, self, kBool, dtype, mask, keepdim, {}, out, op);
}

}  // namespace

Tensor sum(const Tensor& self, std::optional<ScalarType> dtype, const Out& out) {
  check_defined(self, "sum");
  return sum_like(Reduce::Sum, self, reduced_dims(self, {}, "sum"), false, dtype, out, "sum");
}

Tensor sum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype, const Out& out) {
  check_defined(self, "sum");
  return sum_like(Reduce::Sum, self, reduced_dims(self, dim, "sum"), keepdim, dtype, out, "sum");
}

Tensor prod(const Tensor& self, std::optional<ScalarType> dtype, const Out& out) {
  check_defined(self, "prod");
  return sum_like(Reduce::Prod, self, reduced_dims(self, {}, "prod"), false, dtype, out, "prod");
}

Tensor prod(const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype, const Out& out) {
  check_defined(self, "prod");
  return sum_like(Reduce::Prod, self, reduced_dims(self, dim, "prod"), keepdim, dtype, out, "prod");
}

Tensor nansum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype,
              const Out& out) {
  check_defined(self, "nansum");
  FACULA_CHECK(!self.is_complex(), DTypeError, "nansum: \"nansum\" does not support complex inputs, got ",
               toString(self.scalar_type()), ". Use sum(), or nansum() of the real and imaginary parts");
  const uint64_t mask = reduced_dims(self, dim, "nansum");
  const ScalarType result = sum_dtype(self, dtype, out);
  const ScalarType compute = compute_dtype(self, result);
  // Integers hold no NaN.
  if (!isFloatingType(self.impl()->dtype) || !isFloatingType(compute))
    return reduce(Reduce::Sum, self, compute, result, mask, keepdim, {}, out, "nansum");
  const ParamValue zero = param_value(0.0, compute_type(compute));
  return reduce(Reduce::NanSum, self, compute, result, mask, keepdim, {&zero, 1}, out, "nansum");
}

Tensor amax(const Tensor& self, IntArrayRef dim, bool keepdim, const Out& out) {
  return extreme(Reduce::Max, self, dim, keepdim, dim.empty(), out, "amax");
}
Tensor amin(const Tensor& self, IntArrayRef dim, bool keepdim, const Out& out) {
  return extreme(Reduce::Min, self, dim, keepdim, dim.empty(), out, "amin");
}
Tensor max(const Tensor& self, const Out& out) { return extreme(Reduce::Max, self, {}, false, true, out, "max"); }
Tensor min(const Tensor& self, const Out& out) { return extreme(Reduce::Min, self, {}, false, true, out, "min"); }

std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  Tensor smallest = extreme(Reduce::Min, self, one_dim(dim), keepdim, !dim, Out::fresh(), "aminmax");
  return {std::move(smallest), extreme(Reduce::Max, self, one_dim(dim), keepdim, !dim, Out::fresh(), "aminmax")};
}

std::tuple<Tensor, Tensor> max(const Tensor& self, int64_t dim, bool keepdim) {
  return extreme_with_index(Reduce::MaxIndex, self, dim, keepdim, "max");
}
std::tuple<Tensor, Tensor> min(const Tensor& self, int64_t dim, bool keepdim) {
  return extreme_with_index(Reduce::MinIndex, self, dim, keepdim, "min");
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out& out) {
  return position(Reduce::ArgMax, self, dim, keepdim, out, "argmax");
}
Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Out& out) {
  return position(Reduce::ArgMin, self, dim, keepdim, out, "argmin");
}

Tensor any(const Tensor& self, const Out& out) { return truth(Reduce::Any, self, {}, false, out, "any"); }
Tensor any(const Tensor& self, int64_t dim, bool keepdim, const Out& out) {
  return truth(Reduce::Any, self, dim, keepdim, out, "any");
}
Tensor any(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const Out& out) {
  return truth(Reduce::Any, self, dim, keepdim, out, "any");
}
Tensor all(const Tensor& self, const Out& out) { return truth(Reduce::All, self, {}, false, out, "all"); }
Tensor all(const Tensor& self, int64_t dim, bool keepdim, const Out& out) {
  return truth(Reduce::All, self, dim, keepdim, out, "all");
}
Tensor all(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const Out& out) {
  return truth(Reduce::All, self, dim, keepdim, out, "all");
}

Tensor count_nonzero(const Tensor& self, std::optional<int64_t> dim, const Out& out) {
  check_defined(self, "count_nonzero");
  return reduce(Reduce::CountNonzero, self, kBool, kLong, reduced_dims(self, one_dim(dim), "count_nonzero"), false, {},
                out, "count_nonzero");
}
Tensor count_nonzero(const Tensor& self, IntArrayRef dim, const Out& out) {
  check_defined(self, "count_nonzero");
  return reduce(Reduce::CountNonzero, self, kBool, kLong, reduced_dims(self, dim, "count_nonzero"), false, {}, out,
                "count_nonzero");
}

namespace {

// Whether a program that reduces two broadcast tensors with All says yes.
bool all_of(const Executable& program, const Tensor& a, const Tensor& b, IntArrayRef sizes,
            std::span<const ParamValue> params, const char* op) {
  const DimVector sa = broadcast_strides(a.impl()->sizes, a.impl()->strides, sizes);
  const DimVector sb = broadcast_strides(b.impl()->sizes, b.impl()->strides, sizes);
  const ArrayArg loads[] = {{a.impl()->data(), sa.data()}, {b.impl()->data(), sb.data()}};
  const DimVector zeros(sizes.size(), 0);
  const Tensor result = new_tensor({}, kBool, a.impl()->device, op);
  const ArrayArg store{result.impl()->data(), zeros.data()};
  StorageImpl* storages[] = {a.impl()->storage.get(), b.impl()->storage.get(), result.impl()->storage.get()};
  program.run_reduction(sizes, ~uint64_t{0}, loads, params, {&store, 1}, {a.impl()->device, op, storages});
  return result.item().toBool();
}

void check_values(const Tensor& self, const Tensor& other, const char* op) {
  check_defined(self, op);
  check_defined(other, op);
  FACULA_CHECK(
      !((self.impl()->tracking | other.impl()->tracking) & detail::kTracksBatch), NotSupportedError, op,
      ": inside vmap a tensor stands for every entry of a batch, which may differ; compute with ops, e.g. eq()");
  const Device device = self.impl()->device;
  FACULA_CHECK(device == other.impl()->device, DeviceError, op, ": Expected all tensors to be on the same device, but ",
               "found at least two devices, ", device, " and ", other.impl()->device,
               "! Move them to one with .to(device)");
  FACULA_CHECK(!device.is_meta(), NotSupportedError, op, ": tensors on ", device, " have no values to compare");
  FACULA_CHECK(self.scalar_type() == other.scalar_type(), DTypeError, op,
               ": expected both tensors to have one dtype, got ", toString(self.scalar_type()), " and ",
               toString(other.scalar_type()), ". Convert one with .to(dtype) first");
}

}  // namespace

namespace {

// Kinds of comparison: equal, and close with or without tolerance, with or without NaN equal to NaN.
constexpr int kEqual = 0, kWithTolerance = 1, kNaNIsEqual = 2, kComparisons = 4;

Executable make_comparison(ScalarType dtype, int kind) {
  Program p;
  const Value a = p.load(dtype), b = p.load(dtype);
  const bool is_float = isFloatingType(dtype) || isComplexType(dtype);
  Value close = p.apply(ScalarOp::eq, a, b);
  if ((kind & kNaNIsEqual) && is_float)
    close = p.apply(ScalarOp::logical_or, close,
                    p.apply(ScalarOp::logical_and, p.apply(ScalarOp::isnan, a), p.apply(ScalarOp::isnan, b)));
  if (kind & kWithTolerance) {
    const Value x = is_float ? a : p.cast(a, CType::F64), y = is_float ? b : p.cast(b, CType::F64);
    const CType real = real_of(x.type);
    const Value rtol = p.param(real), atol = p.param(real);
    const Value error = p.apply(ScalarOp::abs, p.apply(ScalarOp::sub, x, y));
    const Value allowed = p.apply(ScalarOp::add, atol, p.apply(ScalarOp::mul, rtol, p.apply(ScalarOp::abs, y)));
    // An infinite error is not close, even where the tolerance is infinite too.
    const Value near =
        p.apply(ScalarOp::logical_and, p.apply(ScalarOp::isfinite, error), p.apply(ScalarOp::le, error, allowed));
    close = p.apply(ScalarOp::logical_or, close, near);
  }
  p.store(p.reduce(ReduceOp::All, close), kBool);
  return Executable(std::move(p));
}

const Executable& comparison(ScalarType dtype, int kind) {
  // Never destroyed: other threads may still run when static objects go.
  static std::atomic<const Executable*> programs[kNumScalarTypes][kComparisons];
  std::atomic<const Executable*>& slot = programs[static_cast<int>(dtype)][kind];
  const Executable* program = slot.load(std::memory_order_acquire);
  if (program) return *program;
  auto made = std::make_unique<Executable>(make_comparison(dtype, kind));
  if (slot.compare_exchange_strong(program, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *program;
}

}  // namespace

bool equal(const Tensor& self, const Tensor& other) {
  check_values(self, other, "equal");
  const TensorImpl *a = self.impl(), *b = other.impl();
  if (!(IntArrayRef(a->sizes) == IntArrayRef(b->sizes))) return false;
  if (a->numel == 0) return true;
  const Executable& program = comparison(a->dtype, kEqual);
  if (!a->contiguous || !b->contiguous || !a->device.is_cpu())
    return all_of(program, self, other, a->sizes, {}, "equal");
  // A difference near the front ends the search early.
  const int64_t one = 1, zero = 0;
  const auto width = static_cast<int64_t>(elementSize(a->dtype));
  for (int64_t done = 0, step = 1 << 14; done < a->numel; done += step, step = std::min<int64_t>(step * 4, 1 << 22)) {
    const int64_t n = std::min(step, a->numel - done);
    const ArrayArg loads[] = {{a->data() + done * width, &one}, {b->data() + done * width, &one}};
    bool same = false;
    const ArrayArg store{&same, &zero};
    program.run_reduction(n, 1, loads, {}, {&store, 1}, {a->device, "equal"});
    if (!same) return false;
  }
  return true;
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  check_values(self, other, "allclose");
  FACULA_CHECK(rtol >= 0, ValueError, "allclose: rtol must be greater than or equal to zero, but got ", rtol);
  FACULA_CHECK(atol >= 0, ValueError, "allclose: atol must be greater than or equal to zero, but got ", atol);
  const DimVector sizes = broadcast_sizes(self.impl()->sizes, other.impl()->sizes, "allclose");
  const ScalarType dtype = self.impl()->dtype;
  const bool is_float = isFloatingType(dtype) || isComplexType(dtype), tolerant = rtol != 0 || atol != 0;
  const Executable& program = comparison(dtype, (tolerant ? kWithTolerance : kEqual) | (equal_nan ? kNaNIsEqual : 0));
  const CType real = is_float ? real_of(compute_type(dtype)) : CType::F64;
  const ParamValue params[] = {param_value(rtol, real), param_value(atol, real)};
  return all_of(program, self, other, sizes, {params, tolerant ? 2u : 0u}, "allclose");
}

}  // namespace facula::meaning
