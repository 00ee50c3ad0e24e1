// The gradients of random ops.
#include "ops/generated/gradients.h"

#include <facula/tensors.h>

namespace facula::vjp {

Tensor native_dropout_input(ArrayRef<Tensor> grads, const Tensor& result1, double p, std::optional<bool> train) {
  if (!grads[0].defined() || !train.value_or(true)) return grads[0];
  return facula::where(result1, grads[0] * (p < 1 ? 1 / (1 - p) : 0.0), 0);
}

}  // namespace facula::vjp
