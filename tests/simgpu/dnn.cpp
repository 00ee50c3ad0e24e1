// Convolutions by the definition.
#include "dnn.h"

#include <cstdio>
#include <vector>

namespace simgpu {
namespace {

constexpr char kLabel[] = "convolution";

// An array as numbers, one row after the other.
struct Numbers {
  explicit Numbers(const Array& a) : array(a) {
    size_t count = 1;
    for (int d = 0; d < 5; ++d) count *= static_cast<size_t>(a.sizes[d]);
    values.assign(count, 0.0);
  }
  size_t index(const int (&at)[5]) const {
    size_t i = 0;
    for (int d = 0; d < 5; ++d) i = i * static_cast<size_t>(array.sizes[d]) + static_cast<size_t>(at[d]);
    return i;
  }
  template <class F>
  int each(const F& f) {  // f(index, offset in memory) until one gives a code
    int at[5];
    for (at[0] = 0; at[0] < array.sizes[0]; ++at[0])
      for (at[1] = 0; at[1] < array.sizes[1]; ++at[1])
        for (at[2] = 0; at[2] < array.sizes[2]; ++at[2])
          for (at[3] = 0; at[3] < array.sizes[3]; ++at[3])
            for (at[4] = 0; at[4] < array.sizes[4]; ++at[4]) {
              int64_t offset = 0;
              for (int d = 0; d < array.dims; ++d) offset += at[d] * array.strides[d];
              if (int code = f(index(at), offset * static_cast<int64_t>(element_bytes(array.type)))) return code;
            }
    return 0;
  }
  int read(void* device, const void* data) {
    return each([&](size_t i, int64_t offset) {
      const char* at = static_cast<const char*>(data) + offset;
      if (int code = touch(device, at, element_bytes(array.type), false, kLabel)) return code;
      double v[2];
      read_element(array.type, at, v);
      values[i] = v[0];
      return 0;
    });
  }
  int write(void* device, void* data) {
    return each([&](size_t i, int64_t offset) {
      char* at = static_cast<char*>(data) + offset;
      if (int code = touch(device, at, element_bytes(array.type), true, kLabel)) return code;
      write_real(array.type, at, values[i]);
      return 0;
    });
  }
  Array array;
  std::vector<double> values;
};

int run(void* data, void* device) {
  const Convolution& c = *static_cast<const Convolution*>(data);
  if (c.workspace_bytes)
    if (int code = touch(device, c.workspace, c.workspace_bytes, true, kLabel)) return code;
  Numbers input(c.input), weight(c.weight), output(c.output);
  if (c.part != Part::Input)
    if (int code = input.read(device, c.input_data)) return code;
  if (c.part != Part::Weight)
    if (int code = weight.read(device, c.weight_data)) return code;
  if (c.part != Part::Output)
    if (int code = output.read(device, c.output_data)) return code;
  const int rows = c.output.sizes[1] / c.groups, channels = c.weight.sizes[1];
  int y[5], w[5], x[5];
  for (y[0] = 0; y[0] < c.output.sizes[0]; ++y[0])
    for (y[1] = 0; y[1] < c.output.sizes[1]; ++y[1])
      for (y[2] = 0; y[2] < c.output.sizes[2]; ++y[2])
        for (y[3] = 0; y[3] < c.output.sizes[3]; ++y[3])
          for (y[4] = 0; y[4] < c.output.sizes[4]; ++y[4])
            for (w[1] = 0; w[1] < channels; ++w[1])
              for (w[2] = 0; w[2] < c.weight.sizes[2]; ++w[2])
                for (w[3] = 0; w[3] < c.weight.sizes[3]; ++w[3])
                  for (w[4] = 0; w[4] < c.weight.sizes[4]; ++w[4]) {
                    w[0] = y[1];
                    x[0] = y[0];
                    x[1] = y[1] / rows * channels + w[1];
                    bool there = true;
                    for (int d = 0; d < 3; ++d) {
                      x[d + 2] = y[d + 2] * c.stride[d] - c.padding[d] + w[d + 2] * c.dilation[d];
                      there = there && x[d + 2] >= 0 && x[d + 2] < c.input.sizes[d + 2];
                    }
                    if (!there) continue;
                    double &in = input.values[input.index(x)], &by = weight.values[weight.index(w)],
                           &out = output.values[output.index(y)];
                    switch (c.part) {
                      case Part::Output: out += in * by; break;
                      case Part::Input: in += out * by; break;
                      case Part::Weight: by += in * out; break;
                    }
                  }
  if (c.bias)
    for (y[1] = 0; y[1] < c.output.sizes[1]; ++y[1]) {
      const char* at = static_cast<const char*>(c.bias) + static_cast<size_t>(y[1]) * element_bytes(c.output.type);
      if (int code = touch(device, at, element_bytes(c.output.type), false, kLabel)) return code;
      double v[2];
      read_element(c.output.type, at, v);
      for (y[0] = 0; y[0] < c.output.sizes[0]; ++y[0])
        for (y[2] = 0; y[2] < c.output.sizes[2]; ++y[2])
          for (y[3] = 0; y[3] < c.output.sizes[3]; ++y[3])
            for (y[4] = 0; y[4] < c.output.sizes[4]; ++y[4]) output.values[output.index(y)] += v[0];
    }
  switch (c.part) {
    case Part::Output: return output.write(device, c.output_data);
    case Part::Input: return input.write(device, c.input_data);
    default: return weight.write(device, c.weight_data);
  }
}

}  // namespace

bool Array::describe(Element element, int count, const int* all_sizes, const int* all_strides) {
  if (count < 4 || count > 5) return false;
  type = element;
  dims = count;
  for (int d = 0; d < dims; ++d) {
    if (all_sizes[d] < 1) return false;
    sizes[d] = all_sizes[d];
    strides[d] = all_strides[d];
  }
  set = true;
  return true;
}

bool Geometry::describe(int dims, const int* pad, const int* step, const int* spread) {
  if (dims < 2 || dims > 3) return false;
  space = dims;
  for (int d = 0; d < dims; ++d) {
    if (pad[d] < 0 || step[d] < 1 || spread[d] < 1) return false;
    padding[d] = pad[d];
    stride[d] = step[d];
    dilation[d] = spread[d];
  }
  return true;
}

bool Convolution::fits() const {
  if (!input.set || !weight.set || !output.set || input.type != weight.type || input.type != output.type) return false;
  if (input.dims != output.dims || input.dims != weight.dims || space != input.dims - 2 || groups < 1) return false;
  if (input.sizes[0] != output.sizes[0] || input.sizes[1] != weight.sizes[1] * groups ||
      output.sizes[1] != weight.sizes[0] || weight.sizes[0] % groups != 0)
    return false;
  for (int d = 0; d < input.dims - 2; ++d) {
    const int reach = dilation[d] * (weight.sizes[d + 2] - 1) + 1, all = input.sizes[d + 2] + 2 * padding[d];
    if (all < reach || (all - reach) / stride[d] + 1 != output.sizes[d + 2]) return false;
  }
  return true;
}

int convolve(const Convolution& c, void* stream) {
  char label[96];
  snprintf(label, sizeof label, "convolution of %d x %d with %d x %d", c.input.sizes[0], c.input.sizes[1],
           c.weight.sizes[0], c.weight.sizes[1]);
  return enqueue(stream, label, run, new Convolution(c), [](void* data) { delete static_cast<Convolution*>(data); });
}

}  // namespace simgpu
