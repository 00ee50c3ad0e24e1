// What a convolution kernel is asked for. A convolution, its gradient by the input (which is the transposed convolution) and its gradient by the
// weight are three questions about the same three tensors.
#pragma once

#include "core/dim_vector.h"

#include <facula/tensor.h>

namespace facula {

enum class ConvolutionPart : uint8_t { Output, Input, Weight };  // what is computed from the other two

struct ConvolutionArgs {
  ConvolutionPart part;
  // (N, C, space), (O, C / groups, kernel), (N, O, space); one dtype. Input and output are contiguous or channels-last, the weight has any strides;
  // what is computed has its memory already.
  Tensor input, weight, output;
  Tensor bias;  // added when the output is computed; may be undefined
  DimVector stride, padding, dilation;
  int64_t groups;
};

// The type of the kernels of OpId::convolution: false where the dtype or the shape is not for it.
using ConvolutionKernel = bool(const ConvolutionArgs&);

}  // namespace facula
