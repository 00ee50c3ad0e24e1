// What pooling kernels are asked for: windows over up to three dims of space, fixed or shared out evenly.
#pragma once

#include <facula/tensor.h>

#include <cstdint>

namespace facula {

// The windows along one dim. Those of an even share (`kernel` 0) begin at floor(o in / out) and end before ceil((o + 1) in / out).
struct PoolDim {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;

  int64_t begin(int64_t o) const { return kernel == 0 ? o * in / out : o * stride - padding; }
  int64_t end(int64_t o) const {
    return kernel == 0 ? ((o + 1) * in + out - 1) / out : begin(o) + (kernel - 1) * dilation + 1;
  }
};

// Tensors are float or double (on GPUs also half and bfloat16), (N, C, space) contiguous or channels-last, all laid out alike.
struct PoolArgs {
  int64_t batch, channels;
  bool channels_last;
  PoolDim dims[3];  // what the tensor lacks comes first, of size 1
  // Means only: whether padding counts, and what sums are divided by instead (0: the number of entries).
  bool count_padding = true;
  int64_t divisor = 0;
};

using MaxPoolKernel = void(const PoolArgs&, const Tensor& input, const Tensor& output, const Tensor& indices);
using MaxPoolBackwardKernel = void(const PoolArgs&, const Tensor& grad_output, const Tensor& indices,
                                   const Tensor& grad_input);
using AvgPoolKernel = void(const PoolArgs&, const Tensor& input, const Tensor& output);
using AvgPoolBackwardKernel = void(const PoolArgs&, const Tensor& grad_output, const Tensor& grad_input);

}  // namespace facula
