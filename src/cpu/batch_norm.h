// What batch norm kernels are asked for. Input, result and their gradients are of one dtype, (N, C, space) contiguous
// or channels-last and laid out alike: float or double, on a GPU half types as well. What belongs to channels is
// contiguous in the compute type.
#pragma once

#include <facula/tensor.h>

namespace facula {

// The running statistics that move towards those of the input, or undefined tensors; only looked at in training.
struct RunningStatistics {
  Tensor mean, variance;
  double momentum = 0;
};

// The kernel of OpId::native_batch_norm: with `training`, first the statistics of the input into mean and invstd, and
// `running` moves; then the result. Without it mean and invstd are given. Weight and bias may be undefined.
using BatchNormKernel = void(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
                             const Tensor& mean, const Tensor& invstd, const RunningStatistics& running,
                             const Tensor& output);
// The kernel of OpId::_batch_norm_backward.
using BatchNormBackwardKernel = void(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                                     const Tensor& invstd, bool training, const Tensor& grad_input,
                                     const Tensor& grad_weight, const Tensor& grad_bias);

}  // namespace facula
