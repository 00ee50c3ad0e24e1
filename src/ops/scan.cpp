// What cumsum, cumprod, cummax, cummin, logcumsumexp and diff mean.
#include "ops/common.h"

namespace facula::meaning {

namespace {

// Results lie in memory as the input does, so that one walk serves both.
Tensor new_scan_result(const Tensor& self, ScalarType dtype, const char* op) {
  const TensorImpl* s = self.impl();
  if (s->contiguous) return new_tensor(s->sizes, dtype, s->device, op);
  return new_tensor_strided(s->sizes, preserved_strides(s->sizes, s->strides), dtype, s->device, op);
}

Tensor fold(OpId id, const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, const char* op) {
  FACULA_CHECK(self.defined(), ValueError, op, ": the input tensor is undefined");
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), op);
  const ScalarType result = dtype ? *dtype : isIntegralType(s->dtype, true) ? kLong : s->dtype;
  FACULA_CHECK(result != kBool, DTypeError, op, ": not implemented for 'Bool'; leave dtype out to get int64");
  Tensor out = new_scan_result(self, result, op);
  if (s->device.is_meta()) return out;
  // Dropping an imaginary part is not a cast that the kernel does on the fly.
  const Tensor in = isComplexType(s->dtype) && !isComplexType(result) ? as_dtype(self, result) : self;
  call_kernel<void(const Tensor&, int64_t, const Tensor&)>(id, s->device.type(), in, dim, out);
  return out;
}

std::tuple<Tensor, Tensor> best_so_far(OpId id, const Tensor& self, int64_t dim, const char* op) {
  FACULA_CHECK(self.defined(), ValueError, op, ": the input tensor is undefined");
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), op);
  FACULA_CHECK(!isComplexType(s->dtype), DTypeError, op, ": does not support complex dtypes, got ", toString(s->dtype),
               "; take .abs() or .real() first");
  Tensor values = new_scan_result(self, s->dtype, op);
  Tensor indices = new_scan_result(self, kLong, op);
  if (!s->device.is_meta()) {
    call_kernel<void(const Tensor&, int64_t, const Tensor&, const Tensor&)>(id, s->device.type(), self, dim, values,
                                                                            indices);
  }
  return {std::move(values), std::move(indices)};
}

// What `diff` puts before or after: the same sizes but for the dim, the same device.
void check_diff_part(const Tensor& self, const Tensor& part, int64_t dim, const char* name) {
  FACULA_CHECK(part.dim() == self.dim(), ShapeError,
               "diff: expects prepend and append to be the same dimension as input, but ", name, " has ", part.dim(),
               " dimensions and input has ", self.dim());
  for (int64_t d = 0; d < self.dim(); ++d) {
    FACULA_CHECK(d == dim || part.size(d) == self.size(d), ShapeError, "diff: expects the shape of tensor to ", name,
                 " to match that of input except along the differencing dimension; input.size(", d,
                 ") = ", self.size(d), ", but ", name, ".size(", d, ") = ", part.size(d));
  }
}

Tensor diff_once(const Tensor& x, int64_t dim) {
  const int64_t n = x.size(dim);
  const Tensor later = x.narrow(dim, 1, n - 1), earlier = x.narrow(dim, 0, n - 1);
  return x.scalar_type() == kBool ? facula::logical_xor(later, earlier) : facula::sub(later, earlier);
}

}  // namespace

Tensor cumsum(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return fold(OpId::cumsum, self, dim, dtype, "cumsum");
}

Tensor cumprod(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return fold(OpId::cumprod, self, dim, dtype, "cumprod");
}

std::tuple<Tensor, Tensor> cummax(const Tensor& self, int64_t dim) {
  return best_so_far(OpId::cummax, self, dim, "cummax");
}

std::tuple<Tensor, Tensor> cummin(const Tensor& self, int64_t dim) {
  return best_so_far(OpId::cummin, self, dim, "cummin");
}

Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  FACULA_CHECK(self.defined(), ValueError, "logcumsumexp: the input tensor is undefined");
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), "logcumsumexp");
  FACULA_CHECK(isFloatingType(s->dtype), DTypeError, "logcumsumexp: not implemented for '", toString(s->dtype),
               "'; convert the input to a floating point dtype");
  Tensor out = new_scan_result(self, s->dtype, "logcumsumexp");
  if (!s->device.is_meta()) {
    call_kernel<void(const Tensor&, int64_t, const Tensor&)>(OpId::logcumsumexp, s->device.type(), self, dim, out);
  }
  return out;
}

Tensor diff(const Tensor& self, int64_t n, int64_t dim, const std::optional<Tensor>& prepend,
            const std::optional<Tensor>& append) {
  FACULA_CHECK(self.defined(), ValueError, "diff: the input tensor is undefined");
  FACULA_CHECK(self.dim() > 0, ShapeError,
               "diff: expects input to be at least one-dimensional, but it has no dimensions; use unsqueeze(0)");
  FACULA_CHECK(n >= 0, ValueError, "diff: order must be non-negative but got ", n);
  dim = wrap_dim(dim, self.dim(), "diff");
  const bool before = prepend && prepend->defined(), after = append && append->defined();
  if (before) check_diff_part(self, *prepend, dim, "prepend");
  if (after) check_diff_part(self, *append, dim, "append");
  if (n == 0) return self.clone();
  Tensor x = self;
  if (before && after) x = facula::cat({*prepend, self, *append}, dim);
  else if (before) x = facula::cat({*prepend, self}, dim);
  else if (after) x = facula::cat({self, *append}, dim);
  if (n >= x.size(dim)) return x.narrow(dim, 0, 0).contiguous();
  for (int64_t i = 0; i < n; ++i) x = diff_once(x, dim);
  return x;
}

}  // namespace facula::meaning
