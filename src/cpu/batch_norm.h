// What batch norm kernels are asked for. Tensors are float or double, (N, C, space) contiguous or channels-last and laid out alike; what belongs to
// channels is contiguous in the same dtype.
#pragma once

#include <facula/tensor.h>

namespace facula {

// The kernel of OpId::native_batch_norm: with `training`, first the statistics of the input into mean, variance and invstd; then the result. Without it mean and
// invstd are given and variance is undefined. Weight and bias may be undefined.
using BatchNormKernel = void(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
                             const Tensor& mean, const Tensor& variance, const Tensor& invstd, const Tensor& output);
// The kernel of OpId::_batch_norm_backward.
using BatchNormBackwardKernel = void(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                                     const Tensor& invstd, bool training, const Tensor& grad_input,
                                     const Tensor& grad_weight, const Tensor& grad_bias);

}  // namespace facula
