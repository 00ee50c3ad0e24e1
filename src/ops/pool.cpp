// Pooling: sizes of outputs, checks, and the forms for one to three dims of space, which all end in two primitives.
#include "cpu/pool.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

#include <algorithm>

namespace facula::meaning {
namespace {

// Samples hold 32-bit places while they are searched.
constexpr int64_t kMostPlaces = INT32_MAX;

DimVector each_dim(IntArrayRef given, size_t rank, const char* what, const char* op) {
  FACULA_CHECK(given.size() == rank || given.size() == 1, ShapeError, op, ": ", what,
               " must be a single int or a list of ", rank, " ints, got ", to_text(given));
  return given.size() == rank ? DimVector(given) : DimVector(rank, given[0]);
}

// (N, C, space) from the tensor as given, which may lack the batch.
struct Batched {
  Tensor tensor;
  bool single;

  Batched(const Tensor& given, size_t rank, const char* op) : tensor(given) {
    const auto dims = static_cast<size_t>(impl_of(given, op).dim());
    FACULA_CHECK(dims == rank + 1 || dims == rank + 2, ShapeError, op, ": Expected ", rank + 1, "D or ", rank + 2,
                 "D (batch mode) tensor for input, but got: ", to_text(given.sizes()));
    for (size_t d = dims == rank + 2 ? 1 : 0; d < dims; ++d)
      FACULA_CHECK(given.sizes()[d] > 0, ShapeError, op,
                   ": expected input to have non-zero size for non-batch dimensions, but it has sizes ",
                   to_text(given.sizes()), " with dimension ", d, " being empty");
    single = dims == rank + 1;
    if (single) tensor = given.unsqueeze(0);
  }
  Tensor restored(const Tensor& t) const { return single ? t.squeeze(0) : t; }
};

void check_kernel(const DimVector& kernel, const DimVector& stride, const DimVector& padding, const char* op) {
  for (size_t d = 0; d < kernel.size(); ++d) {
    FACULA_CHECK(kernel[d] > 0, ValueError, op, ": kernel size should be greater than zero, but got ",
                 to_text(IntArrayRef(kernel)));
    FACULA_CHECK(stride[d] > 0, ValueError, op, ": stride should be greater than zero, but got ",
                 to_text(IntArrayRef(stride)));
    FACULA_CHECK(padding[d] >= 0 && padding[d] <= kernel[d] / 2, ValueError, op,
                 ": pad should be at most half of effective kernel size, and not negative, but got pad=", padding[d],
                 " and kernel_size=", kernel[d]);
  }
}

// Windows that fit; in ceil mode also one that hangs over, unless it would begin in the padding at the end.
int64_t pooled_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode,
                    const char* op) {
  const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  int64_t out =
      room < 0 ? (ceil_mode && room + stride > 0 ? 1 : 0) : (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  FACULA_CHECK(out > 0, ShapeError, op, ": Output size is too small: an input of size ", in, " has no window of size ",
               kernel, " with padding ", padding, " and dilation ", dilation);
  return out;
}

PoolArgs pool_args(IntArrayRef input, IntArrayRef output, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                   IntArrayRef dilation) {
  PoolArgs a;
  a.batch = input[0];
  a.channels = input[1];
  a.channels_last = false;
  const size_t rank = output.size();
  for (size_t d = 0; d < rank; ++d) {
    PoolDim& dim = a.dims[3 - rank + d];
    dim.in = input[d + 2];
    dim.out = output[d];
    dim.kernel = kernel.empty() ? 0 : kernel[d];
    dim.stride = kernel.empty() ? 1 : stride[d];
    dim.padding = kernel.empty() ? 0 : padding[d];
    dim.dilation = kernel.empty() || dilation.empty() ? 1 : dilation[d];
  }
  return a;
}

// On the CPU halves and others go through float; channels-last stays.
ScalarType pooling_dtype(const Tensor& t) { return t.is_cuda() ? t.scalar_type() : working_dtype(t.scalar_type()); }

void check_primitive(const Tensor& self, IntArrayRef input, IntArrayRef output, IntArrayRef kernel, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, const char* op) {
  check_computed_float(impl_of(self, op).dtype, op, "Convert the input to float, double, half or bfloat16 first");
  const size_t rank = output.size();
  FACULA_CHECK(rank >= 1 && rank <= 3 && input.size() == rank + 2, ShapeError, op, ": an input of size ",
               to_text(input), " does not fit an output of size ", to_text(output));
  FACULA_CHECK(kernel.empty() || (kernel.size() == rank && stride.size() == rank && padding.size() == rank), ShapeError,
               op, ": kernel, stride and padding must have ", rank, " numbers each");
  for (size_t d = 0; d < rank; ++d)
    FACULA_CHECK(kernel.empty() || (kernel[d] > 0 && stride[d] > 0 && padding[d] >= 0), ValueError, op,
                 ": kernel and stride must be positive, padding not negative");
  FACULA_CHECK(dilation.empty() || dilation.size() == rank, ShapeError, op, ": dilation must have ", rank, " numbers");
  for (const int64_t d : dilation) FACULA_CHECK(d > 0, ValueError, op, ": dilation must be positive, got ", d);
}

// The gradient of an output has the batch and the channels of the input.
void check_samples(IntArrayRef gradient, IntArrayRef input, const char* op) {
  FACULA_CHECK(gradient.slice(0, 2) == input.slice(0, 2), ShapeError, op, ": a gradient of size ", to_text(gradient),
               " does not fit an input of size ", to_text(input), ": batch and channels must be the same");
}

struct Prepared {
  Tensor input;
  MemoryFormat format;
  Prepared(const Tensor& self) : format(self.suggest_memory_format()) {
    const Tensor wide = as_dtype(self, pooling_dtype(self));
    input = wide.is_contiguous(format) ? wide : wide.contiguous(format);
  }
  Tensor result(IntArrayRef sizes, ScalarType dtype, const char* op) const {
    return new_tensor_strided(sizes, strides_for(sizes, format, op), dtype, input.device(), op);
  }
};

DimVector with_space(IntArrayRef input, IntArrayRef space) {
  DimVector sizes = {input[0], input[1]};
  for (const int64_t s : space) sizes.push_back(s);
  return sizes;
}

std::tuple<Tensor, Tensor> max_pool_nd(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride_in,
                                       IntArrayRef padding_in, IntArrayRef dilation_in, bool ceil_mode, size_t rank,
                                       const char* op) {
  const Batched batched(self, rank, op);
  const DimVector kernel = each_dim(kernel_size, rank, "kernel_size", op);
  const DimVector stride = stride_in.empty() ? kernel : each_dim(stride_in, rank, "stride", op);
  const DimVector padding = each_dim(padding_in, rank, "padding", op),
                  dilation = each_dim(dilation_in, rank, "dilation", op);
  check_kernel(kernel, stride, padding, op);
  DimVector out;
  for (size_t d = 0; d < rank; ++d) {
    FACULA_CHECK(dilation[d] > 0, ValueError, op, ": dilation should be greater than zero, but got ",
                 to_text(IntArrayRef(dilation)));
    out.push_back(
        pooled_size(batched.tensor.sizes()[d + 2], kernel[d], stride[d], padding[d], dilation[d], ceil_mode, op));
  }
  const auto [values, indices] = facula::_max_pool(batched.tensor, out, kernel, stride, padding, dilation);
  return {batched.restored(values), batched.restored(indices)};
}

Tensor avg_pool_nd(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride_in, IntArrayRef padding_in,
                   bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override, size_t rank,
                   const char* op) {
  const Batched batched(self, rank, op);
  const DimVector kernel = each_dim(kernel_size, rank, "kernel_size", op);
  const DimVector stride = stride_in.empty() ? kernel : each_dim(stride_in, rank, "stride", op);
  const DimVector padding = each_dim(padding_in, rank, "padding", op);
  check_kernel(kernel, stride, padding, op);
  FACULA_CHECK(!divisor_override || *divisor_override != 0, ValueError, op, ": divisor must be not zero");
  DimVector out;
  for (size_t d = 0; d < rank; ++d)
    out.push_back(pooled_size(batched.tensor.sizes()[d + 2], kernel[d], stride[d], padding[d], 1, ceil_mode, op));
  return batched.restored(
      facula::_avg_pool(batched.tensor, out, kernel, stride, padding, count_include_pad, divisor_override));
}

// -1 among the sizes of an adaptive output would be Python's None; it keeps the size of the input.
DimVector adaptive_size(const Tensor& batched, IntArrayRef given, size_t rank, const char* op) {
  DimVector out = each_dim(given, rank, "output_size", op);
  for (size_t d = 0; d < rank; ++d) {
    if (out[d] == -1) out[d] = batched.sizes()[d + 2];
    FACULA_CHECK(out[d] >= 0, ValueError, op, ": elements of output_size must be greater than or equal to 0, got ",
                 to_text(given));
  }
  return out;
}

Tensor adaptive_avg_pool_nd(const Tensor& self, IntArrayRef output_size, size_t rank, const char* op) {
  const Batched batched(self, rank, op);
  const DimVector out = adaptive_size(batched.tensor, output_size, rank, op);
  const bool one = std::all_of(out.begin(), out.end(), [](int64_t s) { return s == 1; });
  if (one) {
    DimVector dims;
    for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d + 2));
    return batched.restored(batched.tensor.mean(IntArrayRef(dims), true));
  }
  return batched.restored(facula::_avg_pool(batched.tensor, out, {}, {}, {}, false, std::nullopt));
}

std::tuple<Tensor, Tensor> adaptive_max_pool_nd(const Tensor& self, IntArrayRef output_size, size_t rank,
                                                const char* op) {
  const Batched batched(self, rank, op);
  const DimVector out = adaptive_size(batched.tensor, output_size, rank, op);
  const auto [values, indices] = facula::_max_pool(batched.tensor, out, {}, {}, {}, {});
  return {batched.restored(values), batched.restored(indices)};
}

}  // namespace

std::tuple<Tensor, Tensor> _max_pool(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size,
                                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
  const char* op = "_max_pool";
  const TensorImpl& x = impl_of(self, op);
  check_primitive(self, x.sizes, output_size, kernel_size, stride, padding, dilation, op);
  FACULA_CHECK(x.numel <= kMostPlaces || x.numel / x.sizes[0] / x.sizes[1] <= kMostPlaces, ShapeError, op,
               ": an image of size ", to_text(IntArrayRef(x.sizes)), " has more than 2^31 places; cut it into parts");
  const DimVector sizes = with_space(x.sizes, output_size);
  if (x.device.is_meta()) return {new_tensor(sizes, x.dtype, x.device, op), new_tensor(sizes, kLong, x.device, op)};
  const Prepared p(self);
  Tensor values = p.result(sizes, p.input.scalar_type(), op), indices = p.result(sizes, kLong, op);
  if (values.numel() > 0) {
    PoolArgs a = pool_args(x.sizes, output_size, kernel_size, stride, padding, dilation);
    a.channels_last = p.format != MemoryFormat::Contiguous;
    call_kernel<MaxPoolKernel>(OpId::_max_pool, x.device.type(), a, p.input, values, indices);
  }
  return {as_dtype(values, x.dtype), indices};
}

Tensor _max_pool_backward(const Tensor& grad_output, const Tensor& indices, IntArrayRef input_size,
                          IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
  const char* op = "_max_pool_backward";
  const TensorImpl &g = impl_of(grad_output, op), &at = impl_of(indices, op);
  FACULA_CHECK(g.sizes.size() >= 3 && IntArrayRef(g.sizes) == IntArrayRef(at.sizes) && at.dtype == kLong, ShapeError,
               op, ": gradient ", to_text(IntArrayRef(g.sizes)), " and indices ", to_text(IntArrayRef(at.sizes)),
               " must have one shape, and indices be int64");
  check_primitive(grad_output, input_size, IntArrayRef(g.sizes).slice(2), kernel_size, stride, padding, dilation, op);
  check_samples(g.sizes, input_size, op);
  same_device({&grad_output, &indices}, op);
  if (g.device.is_meta()) return new_tensor(input_size, g.dtype, g.device, op);
  // Indices lie as the input of the pooling lay.
  const MemoryFormat format = indices.suggest_memory_format();
  const Tensor wide = as_dtype(grad_output, pooling_dtype(grad_output));
  const Tensor grad = wide.is_contiguous(format) ? wide : wide.contiguous(format);
  Tensor result = new_tensor_strided(input_size, strides_for(input_size, format, op), grad.scalar_type(), g.device, op);
  if (g.numel == 0) fill_values(result, 0);
  if (g.numel == 0 || result.numel() == 0) return as_dtype(result, g.dtype);
  PoolArgs a = pool_args(input_size, IntArrayRef(g.sizes).slice(2), kernel_size, stride, padding, dilation);
  a.channels_last = format != MemoryFormat::Contiguous;
  call_kernel<MaxPoolBackwardKernel>(OpId::_max_pool_backward, g.device.type(), a, grad,
                                     indices.is_contiguous(format) ? indices : indices.contiguous(format), result);
  return as_dtype(result, g.dtype);
}

Tensor _avg_pool(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size, IntArrayRef stride,
                 IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor_override) {
  const char* op = "_avg_pool";
  const TensorImpl& x = impl_of(self, op);
  check_primitive(self, x.sizes, output_size, kernel_size, stride, padding, {}, op);
  const DimVector sizes = with_space(x.sizes, output_size);
  if (x.device.is_meta()) return new_tensor(sizes, x.dtype, x.device, op);
  const Prepared p(self);
  Tensor result = p.result(sizes, p.input.scalar_type(), op);
  if (result.numel() > 0) {
    PoolArgs a = pool_args(x.sizes, output_size, kernel_size, stride, padding, {});
    a.channels_last = p.format != MemoryFormat::Contiguous;
    a.count_padding = count_include_pad;
    a.divisor = divisor_override.value_or(0);
    call_kernel<AvgPoolKernel>(OpId::_avg_pool, x.device.type(), a, p.input, result);
  }
  return as_dtype(result, x.dtype);
}

Tensor _avg_pool_backward(const Tensor& grad_output, IntArrayRef input_size, IntArrayRef kernel_size,
                          IntArrayRef stride, IntArrayRef padding, bool count_include_pad,
                          std::optional<int64_t> divisor_override) {
  const char* op = "_avg_pool_backward";
  const TensorImpl& g = impl_of(grad_output, op);
  FACULA_CHECK(g.sizes.size() >= 3, ShapeError, op, ": the gradient must have a batch, channels and space, got ",
               to_text(IntArrayRef(g.sizes)));
  check_primitive(grad_output, input_size, IntArrayRef(g.sizes).slice(2), kernel_size, stride, padding, {}, op);
  check_samples(g.sizes, input_size, op);
  if (g.device.is_meta()) return new_tensor(input_size, g.dtype, g.device, op);
  const Prepared p(grad_output);
  Tensor result = p.result(input_size, p.input.scalar_type(), op);
  if (g.numel == 0) fill_values(result, 0);
  if (g.numel > 0 && result.numel() > 0) {
    PoolArgs a = pool_args(input_size, IntArrayRef(g.sizes).slice(2), kernel_size, stride, padding, {});
    a.channels_last = p.format != MemoryFormat::Contiguous;
    a.count_padding = count_include_pad;
    a.divisor = divisor_override.value_or(0);
    call_kernel<AvgPoolBackwardKernel>(OpId::_avg_pool_backward, g.device.type(), a, p.input, result);
  }
  return as_dtype(result, g.dtype);
}

#define FACULA_POOL(rank)                                                                                        \
  std::tuple<Tensor, Tensor> max_pool##rank##d_with_indices(const Tensor& self, IntArrayRef kernel_size,         \
                                                            IntArrayRef stride, IntArrayRef padding,             \
                                                            IntArrayRef dilation, bool ceil_mode) {              \
    return max_pool_nd(self, kernel_size, stride, padding, dilation, ceil_mode, rank, "max_pool" #rank "d");     \
  }                                                                                                              \
  Tensor max_pool##rank##d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, \
                           IntArrayRef dilation, bool ceil_mode) {                                               \
    return std::get<0>(                                                                                          \
        max_pool_nd(self, kernel_size, stride, padding, dilation, ceil_mode, rank, "max_pool" #rank "d"));       \
  }                                                                                                              \
  Tensor adaptive_avg_pool##rank##d(const Tensor& self, IntArrayRef output_size) {                               \
    return adaptive_avg_pool_nd(self, output_size, rank, "adaptive_avg_pool" #rank "d");                         \
  }                                                                                                              \
  std::tuple<Tensor, Tensor> adaptive_max_pool##rank##d(const Tensor& self, IntArrayRef output_size) {           \
    return adaptive_max_pool_nd(self, output_size, rank, "adaptive_max_pool" #rank "d");                         \
  }
FACULA_POOL(1)
FACULA_POOL(2)
FACULA_POOL(3)
#undef FACULA_POOL

Tensor avg_pool1d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                  bool count_include_pad) {
  return avg_pool_nd(self, kernel_size, stride, padding, ceil_mode, count_include_pad, std::nullopt, 1, "avg_pool1d");
}
Tensor avg_pool2d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                  bool count_include_pad, std::optional<int64_t> divisor_override) {
  return avg_pool_nd(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2,
                     "avg_pool2d");
}
Tensor avg_pool3d(const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                  bool count_include_pad, std::optional<int64_t> divisor_override) {
  return avg_pool_nd(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3,
                     "avg_pool3d");
}

}  // namespace facula::meaning
