// The gradients of sorting and of choosing by order.
#include "ops/generated/gradients.h"
#include "ops/gradients/pieces.h"

namespace facula::vjp {

Tensor sort_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim) {
  return chosen(grads, self_sizes, indices, dim);
}
Tensor topk_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim) {
  return chosen(grads, self_sizes, indices, dim);
}
Tensor kthvalue_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim, bool keepdim) {
  return chosen_one(grads, self_sizes, indices, dim, keepdim);
}

}  // namespace facula::vjp
