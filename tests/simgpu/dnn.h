// Small convolutions on the software GPU, by the definition and summed in double. The shapes of the vendors' libraries
// (`cudnn_shape.cpp`, `miopen_shape.cpp`) say what is to be computed.
#pragma once

#include "blas.h"

#include <cstddef>
#include <cstdint>

namespace simgpu {

struct Array {
  Element type = Element::F32;
  int dims = 0;  // 4 or 5
  int sizes[5] = {1, 1, 1, 1, 1};
  int64_t strides[5] = {};
  bool set = false;
};

enum class Part { Output, Input, Weight };  // what is computed from the other two

struct Convolution {
  Part part = Part::Output;
  Array input, weight, output;
  void *input_data = nullptr, *weight_data = nullptr, *output_data = nullptr;
  const void* bias = nullptr;  // one for each channel of the output
  int padding[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, groups = 1;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  // Whether the sizes of the three arrays belong together.
  bool fits() const;
};

// Queues the convolution on a stream; a code of the driver.
int convolve(const Convolution& convolution, void* stream);

}  // namespace simgpu
