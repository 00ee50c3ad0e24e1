#include "ops/gradients/pieces.h"

#include <algorithm>

namespace facula::vjp {

Tensor scattered(IntArrayRef sizes, int64_t dim, const Tensor& index, const Tensor& values, bool add) {
  const Tensor zeros = values.new_zeros(sizes);
  if (watched(values, index)) return add ? zeros.scatter_add(dim, index, values) : zeros.scatter(dim, index, values);
  if (add) zeros.scatter_add_(dim, index, values);
  else zeros.scatter_(dim, index, values);
  return zeros;
}

Tensor chosen(ArrayRef<Tensor> grads, IntArrayRef sizes, const Tensor& indices, int64_t dim) {
  const Tensor& grad = grads[0];
  if (!grad.defined()) return {};
  // A number has nothing to choose from: all of it, or none of it.
  if (sizes.empty()) return grad.dim() == 0 ? grad : grad.sum();
  return scattered(sizes, dim, indices, grad, false);
}

Tensor chosen_one(ArrayRef<Tensor> grads, IntArrayRef sizes, const Tensor& indices, int64_t dim, bool keepdim) {
  const Tensor& grad = grads[0];
  if (!grad.defined() || sizes.empty()) return grad;
  const int64_t d = wrapped(dim, sizes.size());
  return keepdim ? scattered(sizes, d, indices, grad, false)
                 : scattered(sizes, d, indices.unsqueeze(d), grad.unsqueeze(d), false);
}

Tensor padded(const Tensor& t, int64_t dim, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return t;
  DimVector pads(2 * static_cast<size_t>(t.dim() - dim), 0);
  pads[pads.size() - 2] = before;
  pads[pads.size() - 1] = after;
  return facula::constant_pad_nd(t, pads);
}

Tensor recurrence_from_end(Tensor b, Tensor a, int64_t dim) {
  const int64_t n = b.size(dim);
  for (int64_t seen = 1; seen < n; seen *= 2) {
    // What lies beyond the end counts as b = 0.
    b = b + a * padded(b, dim, -seen, seen);
    if (2 * seen < n) a = a * padded(a, dim, -seen, seen);
  }
  return b;
}

}  // namespace facula::vjp
