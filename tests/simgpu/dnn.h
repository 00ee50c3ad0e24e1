// Small convolutions on the software GPU, by the definition and summed in double. The shapes of the vendors' libraries
// (`cudnn_shape.cpp`, `miopen_shape.cpp`) say what is to be computed.
#pragma once

#include "blas.h"

#include <cstddef>
#include <cstdint>

namespace simgpu {

// What a handle of the libraries knows.
struct Handle {
  void* stream = nullptr;
};

struct Array {
  Element type = Element::F32;
  int dims = 0;  // 4 or 5
  int sizes[5] = {1, 1, 1, 1, 1};
  int64_t strides[5] = {};
  bool set = false;
  // False: no such array.
  bool describe(Element element, int count, const int* all_sizes, const int* all_strides);
};

struct Geometry {
  int space = 0;  // 2 or 3
  int padding[3] = {}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, groups = 1;
  // False: no such geometry.
  bool describe(int dims, const int* pad, const int* step, const int* spread);
};

enum class Part { Output, Input, Weight };  // what is computed from the other two

struct Convolution : Geometry {
  Convolution() = default;
  Convolution(Part which, const Array& x, const Array& w, const Array& y, const Geometry& geometry)
      : Geometry(geometry), part(which), input(x), weight(w), output(y) {}
  Part part = Part::Output;
  Array input, weight, output;
  void *input_data = nullptr, *weight_data = nullptr, *output_data = nullptr;
  const void* bias = nullptr;  // one for each channel of the output
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  // Whether the sizes of the three arrays belong together.
  bool fits() const;
  // So that something is refused.
  bool refused() const { return input.dims == 5 && groups > 1; }
};

// Queues the convolution on a stream; a code of the driver.
int convolve(const Convolution& convolution, void* stream);

// What the libraries hand out is made and dropped in the same way.
template <class T>
int make(T** made) {
  *made = new T;
  return 0;
}
template <class T>
int drop(T* made) {
  delete made;
  return 0;
}

}  // namespace simgpu
