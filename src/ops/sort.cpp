// What sort, argsort, msort, topk and kthvalue mean. Searching, counting and unique values live in search.cpp.
#include "ops/common.h"

namespace facula::meaning {

namespace {

void check_ordered(const Tensor& self, const char* op) {
  FACULA_CHECK(self.defined(), ValueError, op, ": the input tensor is undefined");
  FACULA_CHECK(!isComplexType(self.impl()->dtype), DTypeError, op, ": does not support complex dtypes, got ",
               toString(self.impl()->dtype), "; order by .abs() or .real() instead");
}

// A tensor of other sizes along one dim, in the memory order of `self`.
Tensor new_like(const Tensor& self, IntArrayRef sizes, ScalarType dtype, const char* op) {
  const TensorImpl* s = self.impl();
  if (s->contiguous) return new_tensor(sizes, dtype, s->device, op);
  return new_tensor_strided(sizes, preserved_strides(sizes, s->strides), dtype, s->device, op);
}

std::tuple<Tensor, Tensor> sort_along(const Tensor& self, int64_t dim, bool descending, const char* op) {
  check_ordered(self, op);
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), op);
  Tensor values = new_like(self, s->sizes, s->dtype, op);
  Tensor indices = new_like(self, s->sizes, kLong, op);
  if (!s->device.is_meta()) {
    call_kernel<void(const Tensor&, int64_t, bool, const Tensor&, const Tensor&)>(OpId::sort, s->device.type(), self,
                                                                                  dim, descending, values, indices);
  }
  return {std::move(values), std::move(indices)};
}

}  // namespace

std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim, bool descending) {
  return sort_along(self, dim, descending, "sort");
}

// Every sort is stable: asking for it changes nothing.
std::tuple<Tensor, Tensor> sort(const Tensor& self, std::optional<bool>, int64_t dim, bool descending) {
  return sort_along(self, dim, descending, "sort");
}

Tensor argsort(const Tensor& self, int64_t dim, bool descending) {
  return std::get<1>(sort_along(self, dim, descending, "argsort"));
}

Tensor argsort(const Tensor& self, bool, int64_t dim, bool descending) {
  return std::get<1>(sort_along(self, dim, descending, "argsort"));
}

Tensor msort(const Tensor& self) { return std::get<0>(facula::sort(self, 0, false)); }

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
  check_ordered(self, "topk");
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), "topk");
  const int64_t n = s->dim() == 0 ? 1 : s->sizes[static_cast<size_t>(dim)];
  FACULA_CHECK(k >= 0 && k <= n, IndexError, "topk: selected index k out of range: k is ", k, ", but dimension ", dim,
               " has ", n, " entries; k must lie in [0, ", n, "]");
  DimVector sizes = s->sizes;
  if (s->dim() > 0) sizes[static_cast<size_t>(dim)] = k;
  else if (k == 0) sizes.push_back(0);
  Tensor values = new_like(self, sizes, s->dtype, "topk");
  Tensor indices = new_like(self, sizes, kLong, "topk");
  if (!s->device.is_meta()) {
    call_kernel<void(const Tensor&, int64_t, int64_t, bool, const Tensor&, const Tensor&)>(
        OpId::topk, s->device.type(), self, k, dim, largest, values, indices);
  }
  return {std::move(values), std::move(indices)};
}

std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  check_ordered(self, "kthvalue");
  const TensorImpl* s = self.impl();
  dim = wrap_dim(dim, s->dim(), "kthvalue");
  const int64_t n = s->dim() == 0 ? 1 : s->sizes[static_cast<size_t>(dim)];
  FACULA_CHECK(n > 0, IndexError, "kthvalue: Expected reduction dim ", dim,
               " to have non-zero size, but self has sizes ", to_text(s->sizes));
  FACULA_CHECK(k >= 1 && k <= n, IndexError, "kthvalue: selected number k out of range for dimension ", dim, ": k is ",
               k, " and must be in [1, ", n, "]");
  DimVector sizes = s->sizes;
  if (s->dim() > 0) sizes[static_cast<size_t>(dim)] = 1;
  Tensor values = new_tensor(sizes, s->dtype, s->device, "kthvalue");
  Tensor indices = new_tensor(sizes, kLong, s->device, "kthvalue");
  if (!s->device.is_meta()) {
    call_kernel<void(const Tensor&, int64_t, int64_t, const Tensor&, const Tensor&)>(OpId::kthvalue, s->device.type(),
                                                                                     self, k, dim, values, indices);
  }
  if (!keepdim && s->dim() > 0) {
    sizes.erase(static_cast<size_t>(dim));
    values.impl()->set_contiguous(sizes);
    indices.impl()->set_contiguous(sizes);
  }
  return {std::move(values), std::move(indices)};
}

}  // namespace facula::meaning
