// Cross entropy of rows of logits on a GPU, together with its gradient: the logits are read once. What the ops of the same names call is in
// the kernel table.
#pragma once

#include <facula/tensor.h>

namespace facula::gpu {

// `logits` is contiguous [rows, classes] of half, bfloat16, float or double; `target` contiguous int64 [rows]; `weight` contiguous
// [classes] in the compute type (float, or double for double), or undefined. A label that is neither a class nor `ignore_index` is
// reported as IndexError by the next call that waits.
struct CrossEntropy {
  const Tensor& logits;
  const Tensor& target;
  const Tensor& weight;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};
struct CrossEntropyGradient {
  const Tensor&
      scale;  // what the gradient of each row's loss is multiplied with: one number, or one a row, in the compute
              // type, or undefined: one
  const Tensor& total;      // what it is divided by: one number in the compute type, or undefined
  const Tensor& to_logits;  // laid out as the logits; may be the logits themselves
};

// Writes the loss of each row, 0 where the label is ignored; where defined, also its share of a weighted mean (the weight of its class, 0
// where ignored) and the logarithm of the sum of exponentials. All of them are vectors in the compute type. `gradient` may be null.
void cross_entropy(const CrossEntropy& what, const Tensor& losses, const Tensor& shares, const Tensor& log_sums,
                   const CrossEntropyGradient* gradient);
// The gradient alone, from the logarithms.
void cross_entropy_backward(const CrossEntropy& what, const Tensor& log_sums, const CrossEntropyGradient& gradient);

// Multiplies a contiguous tensor of a float dtype in place by one number of a float dtype on the same GPU; costs next
// to nothing where that is one.
void multiply_unless_one(const Tensor& tensor, const Tensor& by);

}  // namespace facula::gpu
