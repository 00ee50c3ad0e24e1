// Convolutions: checks, sizes, padding by name. The work is done by a kernel of the device, or by matrix products of unfolded windows where it has none
// for the dtype. Pooling is in pool.cpp.
#include "cpu/convolution.h"
#include "ops/shape_checks.h"

#include <algorithm>

namespace facula::meaning {
namespace {

// One number for each dim of space; a single one holds for all.
DimVector each_dim(IntArrayRef given, size_t rank, const char* what, const char* op) {
  FACULA_CHECK(given.size() == rank || given.size() == 1, ShapeError, op, ": expected ", what,
               " to be a single integer value or a list of ", rank,
               " values to match the convolution dimensions, but got ", what, "=", to_text(given));
  return given.size() == rank ? DimVector(given) : DimVector(rank, given[0]);
}

void check_least(const DimVector& values, int64_t least, const char* what, const char* op) {
  for (const int64_t v : values)
    FACULA_CHECK(v >= least, ValueError, op, ": ", least > 0 ? "non-positive " : "negative ", what,
                 " is not supported, got ", to_text(IntArrayRef(values)));
}

struct Geometry {
  size_t rank;
  DimVector stride, padding, dilation, output_padding;
  int64_t groups;

  Geometry(size_t rank_in, IntArrayRef stride_in, IntArrayRef padding_in, IntArrayRef dilation_in,
           IntArrayRef output_padding_in, int64_t groups_in, const char* op)
      : rank(rank_in),
        stride(each_dim(stride_in, rank, "stride", op)),
        padding(each_dim(padding_in, rank, "padding", op)),
        dilation(each_dim(dilation_in, rank, "dilation", op)),
        output_padding(each_dim(output_padding_in, rank, "output_padding", op)),
        groups(groups_in) {
    check_least(stride, 1, "stride", op);
    check_least(padding, 0, "padding", op);
    check_least(dilation, 1, "dilation", op);
    check_least(output_padding, 0, "output_padding", op);
    FACULA_CHECK(groups > 0, ValueError, op, ": non-positive groups is not supported, got ", groups);
  }
};

DimVector output_sizes(const Geometry& g, IntArrayRef input, IntArrayRef weight, bool transposed, const char* op) {
  DimVector sizes = {input[0], transposed ? weight[1] * g.groups : weight[0]};
  DimVector padded, kernel;
  for (size_t d = 0; d < g.rank; ++d) {
    const int64_t reach = g.dilation[d] * (weight[d + 2] - 1) + 1, in = input[d + 2];
    padded.push_back(in + 2 * g.padding[d]);
    kernel.push_back(reach);
    const int64_t size = transposed          ? (in - 1) * g.stride[d] - 2 * g.padding[d] + reach + g.output_padding[d]
                         : padded[d] < reach ? 0
                                             : (padded[d] - reach) / g.stride[d] + 1;
    sizes.push_back(size);
  }
  for (size_t d = 0; d < g.rank; ++d) {
    if (transposed) {
      FACULA_CHECK(g.output_padding[d] < std::max(g.stride[d], g.dilation[d]), ValueError, op,
                   ": output padding must be smaller than either stride or dilation, but got output_padding ",
                   to_text(IntArrayRef(g.output_padding)), ", stride ", to_text(IntArrayRef(g.stride)),
                   " and dilation ", to_text(IntArrayRef(g.dilation)));
      FACULA_CHECK(sizes[d + 2] > 0, ShapeError, op, ": Given input size per channel: ", to_text(input.slice(2)),
                   ". Calculated output size per channel: ", to_text(IntArrayRef(sizes).slice(2)),
                   ". Output size is too small");
    } else {
      FACULA_CHECK(padded[d] >= kernel[d], ShapeError, op,
                   ": Calculated padded input size per channel: ", to_text(IntArrayRef(padded)),
                   ". Kernel size: ", to_text(IntArrayRef(kernel)),
                   ". Kernel size can't be greater than actual input size; add padding or use a smaller kernel");
    }
  }
  return sizes;
}

void check_tensors(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, bool transposed,
                   int64_t groups, const char* op) {
  const TensorImpl &x = impl_of(input, op), &w = impl_of(weight, op);
  FACULA_CHECK(w.dim() >= 3 && w.dim() <= 5, ShapeError, op,
               ": the weight must have 3 to 5 dimensions (two of channels, then the kernel), got ",
               to_text(IntArrayRef(w.sizes)));
  FACULA_CHECK(x.dim() == w.dim(), ShapeError, op, ": Expected ", w.dim(), "-dimensional input for ", w.dim(),
               "-dimensional weight ", to_text(IntArrayRef(w.sizes)), ", but got ", x.dim(),
               "-dimensional input of size ", to_text(IntArrayRef(x.sizes)), " instead");
  FACULA_CHECK(x.dtype == w.dtype, DTypeError, op, ": Input type (", toString(x.dtype), ") and weight type (",
               toString(w.dtype), ") should be the same. Convert one with .to(dtype)");
  FACULA_CHECK(x.dtype != kBool && !isFloat8Type(x.dtype), DTypeError, op, ": not implemented for '", toString(x.dtype),
               "'. Convert the input and the weight to float first");
  for (int64_t d = 2; d < w.dim(); ++d)
    FACULA_CHECK(w.sizes[usize(d)] > 0, ShapeError, op, ": the kernel must not be empty, got a weight of size ",
                 to_text(IntArrayRef(w.sizes)));
  same_device({&input, &weight}, op);
  if (transposed) {
    FACULA_CHECK(x.sizes[1] == w.sizes[0], ShapeError, op, ": Given transposed=1, weight of size ",
                 to_text(IntArrayRef(w.sizes)), ", expected input", to_text(IntArrayRef(x.sizes)), " to have ",
                 w.sizes[0], " channels, but got ", x.sizes[1], " channels instead");
    FACULA_CHECK(w.sizes[0] % groups == 0, ShapeError, op, ": the ", w.sizes[0],
                 " input channels must be divisible by groups=", groups);
  } else {
    FACULA_CHECK(x.sizes[1] == w.sizes[1] * groups, ShapeError, op, ": Given groups=", groups, ", weight of size ",
                 to_text(IntArrayRef(w.sizes)), ", expected input", to_text(IntArrayRef(x.sizes)), " to have ",
                 w.sizes[1] * groups, " channels, but got ", x.sizes[1], " channels instead");
    FACULA_CHECK(w.sizes[0] % groups == 0 && w.sizes[0] > 0, ShapeError, op, ": Given groups=", groups,
                 ", expected weight to be at least ", groups,
                 " at dimension 0 and divisible by it, but got weight of size ", to_text(IntArrayRef(w.sizes)),
                 " instead");
  }
  if (!bias || !bias->defined()) return;
  const int64_t outputs = transposed ? w.sizes[1] * groups : w.sizes[0];
  const TensorImpl& b = *bias->impl();
  FACULA_CHECK(b.dim() == 1 && b.sizes[0] == outputs, ShapeError, op, ": Given weight of size ",
               to_text(IntArrayRef(w.sizes)), ", expected bias to be 1-dimensional with ", outputs,
               " elements, but got bias of size ", to_text(IntArrayRef(b.sizes)), " instead");
  FACULA_CHECK(b.dtype == x.dtype, DTypeError, op, ": Input type (", toString(x.dtype), ") and bias type (",
               toString(b.dtype), ") should be the same. Convert one with .to(dtype)");
  same_device({&input, &*bias}, op);
}

// Channels-last goes in and comes out; a contiguous tensor with a channels-last weight counts as well.
MemoryFormat format_of(const Tensor& input, const Tensor& weight) {
  const MemoryFormat format = input.suggest_memory_format();
  if (format != MemoryFormat::Contiguous || input.dim() < 4) return format;
  return weight.dim() == input.dim() ? weight.suggest_memory_format() : format;
}

Tensor laid_out(const Tensor& t, MemoryFormat format) { return t.is_contiguous(format) ? t : t.contiguous(format); }

Tensor new_result(IntArrayRef sizes, ScalarType dtype, Device device, MemoryFormat format, const char* op) {
  return new_tensor_strided(sizes, strides_for(sizes, format, op), dtype, device, op);
}

// Windows of (N, C, space) as the columns of matrices: (N, groups, C / groups * kernel, output space).
Tensor unfolded(const Tensor& padded, IntArrayRef kernel, IntArrayRef out, const Geometry& g) {
  const TensorImpl& x = *padded.impl();
  const int64_t channels = x.sizes[1] / g.groups;
  DimVector sizes = {x.sizes[0], g.groups, channels}, strides = {x.strides[0], x.strides[1] * channels, x.strides[1]};
  int64_t entries = channels, places = 1;
  for (size_t d = 0; d < g.rank; ++d) {
    sizes.push_back(kernel[d]);
    strides.push_back(x.strides[d + 2] * g.dilation[d]);
    entries *= kernel[d];
  }
  for (size_t d = 0; d < g.rank; ++d) {
    sizes.push_back(out[d]);
    strides.push_back(x.strides[d + 2] * g.stride[d]);
    places *= out[d];
  }
  return padded.as_strided(sizes, strides, padded.storage_offset()).reshape({x.sizes[0], g.groups, entries, places});
}

Tensor zero_padded(const Tensor& input, const Geometry& g) {
  DimVector pad;
  for (size_t d = g.rank; d-- > 0;) {
    pad.push_back(g.padding[d]);
    pad.push_back(g.padding[d]);
  }
  return facula::constant_pad_nd(input, pad, 0);
}

// Samples whose windows are unfolded at once: so that they take some tens of megabytes.
int64_t samples_at_once(IntArrayRef weight, IntArrayRef output, int64_t groups) {
  int64_t entries = weight[1] * groups;
  for (size_t d = 2; d < weight.size(); ++d) entries *= weight[d] * output[d];
  return std::max<int64_t>(1, (int64_t{1} << 22) / std::max<int64_t>(entries, 1));
}

// Half types are added up in float.
ScalarType working_dtype(ScalarType t) { return isReducedFloatingType(t) ? kFloat : t; }

// The forward convolution into `output`.
void convolve_by_products(const ConvolutionArgs& a, const Geometry& g) {
  const ScalarType work = working_dtype(a.input.scalar_type());
  const IntArrayRef w = a.weight.sizes(), out = a.output.sizes();
  const Tensor matrix = a.weight.to(work).reshape({g.groups, w[0] / g.groups, -1});
  const int64_t step = samples_at_once(w, out, g.groups);
  for (int64_t n = 0; n < out[0]; n += step) {
    const int64_t count = std::min(step, out[0] - n);
    const Tensor columns = unfolded(zero_padded(a.input.narrow(0, n, count).to(work), g), w.slice(2), out.slice(2), g);
    DimVector sizes(out);
    sizes[0] = count;
    Tensor part = matrix.matmul(columns).reshape(sizes);
    if (a.bias.defined()) {
      DimVector along(out.size(), 1);
      along[1] = out[1];
      part = part + a.bias.to(work).view(along);
    }
    copy_values(a.output.narrow(0, n, count), part);
  }
}

// The weight's gradient from input and output's gradient.
void weight_by_products(const ConvolutionArgs& a, const Geometry& g) {
  const ScalarType work = working_dtype(a.input.scalar_type());
  const IntArrayRef w = a.weight.sizes(), out = a.output.sizes();
  const int64_t step = samples_at_once(w, out, g.groups);
  Tensor sum;
  for (int64_t n = 0; n < out[0]; n += step) {
    const int64_t count = std::min(step, out[0] - n);
    const Tensor columns = unfolded(zero_padded(a.input.narrow(0, n, count).to(work), g), w.slice(2), out.slice(2), g);
    const Tensor grad = a.output.narrow(0, n, count).to(work).reshape({count, g.groups, w[0] / g.groups, -1});
    const Tensor part = grad.matmul(columns.transpose(-1, -2)).sum(0);
    sum = sum.defined() ? sum + part : part;
  }
  copy_values(a.weight, sum.reshape(w));
}

// The transposed convolution as a plain one: zeros between the entries, then the turned kernel.
void transposed_by_products(const ConvolutionArgs& a, const Geometry& g) {
  const IntArrayRef given = a.output.sizes(), made = a.input.sizes(), w = a.weight.sizes();
  DimVector spread(given), pad;
  Geometry plain = g;
  for (size_t d = 0; d < g.rank; ++d) {
    spread[d + 2] = (given[d + 2] - 1) * g.stride[d] + 1;
    plain.stride[d] = 1;
    plain.padding[d] = 0;
  }
  Tensor zeros = a.output.new_zeros(spread);
  Tensor places = zeros;
  for (size_t d = 0; d < g.rank; ++d) places = places.slice(static_cast<int64_t>(d + 2), 0, std::nullopt, g.stride[d]);
  copy_values(places, a.output);
  DimVector turned;
  for (size_t d = g.rank; d-- > 0;) {
    const int64_t reach = g.dilation[d] * (w[d + 2] - 1), before = reach - g.padding[d];
    pad.push_back(before);
    pad.push_back(made[d + 2] + reach - spread[d + 2] - before);
    turned.push_back(static_cast<int64_t>(d + 2));
  }
  DimVector grouped = {g.groups, w[0] / g.groups, w[1]}, joined = {g.groups * w[1], w[0] / g.groups};
  for (size_t d = 2; d < w.size(); ++d) {
    grouped.push_back(w[d]);
    joined.push_back(w[d]);
  }
  const Tensor kernel = a.weight.flip(turned).reshape(grouped).transpose(1, 2).reshape(joined);
  convolve_by_products({ConvolutionPart::Output, facula::constant_pad_nd(zeros, pad, 0), kernel, a.input, Tensor(),
                        plain.stride, plain.padding, plain.dilation, g.groups},
                       plain);
}

void run(const ConvolutionArgs& a, const Geometry& g) {
  const DeviceType device = device_type(a.input);
  if (has_kernel(OpId::convolution, device)) {
    if (call_kernel<ConvolutionKernel>(OpId::convolution, device, a)) return;
    // What is not there for a half type may be there for float.
    const ScalarType dtype = a.input.scalar_type();
    if (isReducedFloatingType(dtype)) {
      ConvolutionArgs wide = a;
      for (Tensor* t : {&wide.input, &wide.weight, &wide.output, &wide.bias})
        if (t->defined()) *t = t->to(kFloat);
      if (call_kernel<ConvolutionKernel>(OpId::convolution, device, wide)) {
        const bool input = a.part == ConvolutionPart::Input, weight = a.part == ConvolutionPart::Weight;
        return copy_values(input    ? a.input
                           : weight ? a.weight
                                    : a.output,
                           input    ? wide.input
                           : weight ? wide.weight
                                    : wide.output);
      }
    }
  }
  switch (a.part) {
    case ConvolutionPart::Output: return convolve_by_products(a, g);
    case ConvolutionPart::Input: return transposed_by_products(a, g);
    case ConvolutionPart::Weight: return weight_by_products(a, g);
  }
}

// Batch of one when the batch dim is missing. `rank` is the number of dims of space.
bool add_batch(Tensor& input, size_t rank, const char* op) {
  const auto dims = static_cast<size_t>(impl_of(input, op).dim());
  FACULA_CHECK(dims == rank + 1 || dims == rank + 2, ShapeError, op, ": Expected ", rank + 1, "D (unbatched) or ",
               rank + 2, "D (batched) input to ", op, ", but got input of size: ", to_text(input.sizes()));
  if (dims == rank + 2) return false;
  input = input.unsqueeze(0);
  return true;
}

void check_weight_rank(const Tensor& weight, size_t rank, const char* op) {
  const TensorImpl& w = impl_of(weight, op);
  FACULA_CHECK(static_cast<size_t>(w.dim()) == rank + 2, ShapeError, op, ": the weight must have ", rank + 2,
               " dimensions (outputs, channels / groups, kernel), got ", to_text(IntArrayRef(w.sizes)));
}

Tensor conv_nd(const Tensor& given, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
               IntArrayRef padding, IntArrayRef dilation, int64_t groups, size_t rank, const char* op) {
  Tensor input = given;
  check_weight_rank(weight, rank, op);
  const bool single = add_batch(input, rank, op);
  const Tensor result = facula::convolution(input, weight, bias, stride, padding, dilation, false, {0}, groups);
  return single ? result.squeeze(0) : result;
}

Tensor conv_nd(const Tensor& given, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
               std::string_view padding, IntArrayRef dilation, int64_t groups, size_t rank, const char* op) {
  if (padding == "valid") return conv_nd(given, weight, bias, stride, IntArrayRef({0}), dilation, groups, rank, op);
  FACULA_CHECK(padding == "same", ValueError, op, ": Invalid padding string: '", padding,
               "'; use 'valid', 'same' or numbers");
  check_weight_rank(weight, rank, op);
  Tensor input = given;
  const bool single = add_batch(input, rank, op);
  const Geometry g(rank, stride, {0}, dilation, {0}, groups, op);
  for (const int64_t s : g.stride)
    FACULA_CHECK(s == 1, ValueError, op, ": padding='same' is not supported for strided convolutions, got stride ",
                 to_text(IntArrayRef(g.stride)), "; give the padding in numbers");
  // Where the padding is odd, one more stands at the end.
  DimVector both(rank), more;
  bool uneven = false;
  for (size_t d = rank; d-- > 0;) {
    const int64_t all = g.dilation[d] * (weight.sizes()[d + 2] - 1);
    both[d] = all / 2;
    more.push_back(0);
    more.push_back(all % 2);
    uneven |= all % 2 != 0;
  }
  if (uneven) input = facula::constant_pad_nd(input, more, 0);
  const Tensor result = facula::convolution(input, weight, bias, g.stride, both, g.dilation, false, {0}, groups);
  return single ? result.squeeze(0) : result;
}

Tensor conv_transpose_nd(const Tensor& given, const Tensor& weight, const std::optional<Tensor>& bias,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups,
                         IntArrayRef dilation, size_t rank, const char* op) {
  Tensor input = given;
  check_weight_rank(weight, rank, op);
  const bool single = add_batch(input, rank, op);
  const Tensor result =
      facula::convolution(input, weight, bias, stride, padding, dilation, true, output_padding, groups);
  return single ? result.squeeze(0) : result;
}

}  // namespace

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  const char* op = "convolution";
  FACULA_CHECK(groups > 0, ValueError, op, ": non-positive groups is not supported, got ", groups);
  check_tensors(input, weight, bias, transposed, groups, op);
  const Geometry g(static_cast<size_t>(weight.dim() - 2), stride, padding, dilation, output_padding, groups, op);
  const TensorImpl& x = *input.impl();
  // What is added at the end must not be rounded twice.
  if (transposed && bias && bias->defined() && isReducedFloatingType(x.dtype) && !x.device.is_meta())
    return as_dtype(meaning::convolution(input.to(kFloat), weight.to(kFloat), bias->to(kFloat), stride, padding,
                                         dilation, true, output_padding, groups),
                    x.dtype);
  const DimVector sizes = output_sizes(g, x.sizes, weight.sizes(), transposed, op);
  const MemoryFormat format = format_of(input, weight);
  Tensor result = new_result(sizes, x.dtype, x.device, format, op);
  if (x.device.is_meta() || result.numel() == 0) return result;
  const Tensor shift = bias && bias->defined() ? as_contiguous(*bias) : Tensor();
  const Tensor given = laid_out(input, format);
  if (x.sizes[1] == 0 || weight.numel() == 0) {  // nothing is added up
    fill_values(result, 0);
    DimVector along(sizes.size(), 1);
    along[1] = sizes[1];
    if (shift.defined()) copy_values(result, shift.view(along).expand(sizes));
    return result;
  }
  if (!transposed) {
    run({ConvolutionPart::Output, given, weight, result, shift, g.stride, g.padding, g.dilation, groups}, g);
    return result;
  }
  run({ConvolutionPart::Input, result, weight, given, Tensor(), g.stride, g.padding, g.dilation, groups}, g);
  if (shift.defined()) {
    DimVector along(sizes.size(), 1);
    along[1] = sizes[1];
    result.add_(shift.view(along));
  }
  return result;
}

Tensor _convolution_weight_grad(const Tensor& grad_output, const Tensor& input, IntArrayRef weight_size,
                                IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                int64_t groups) {
  const char* op = "_convolution_weight_grad";
  const TensorImpl &x = impl_of(input, op), &y = impl_of(grad_output, op);
  FACULA_CHECK(weight_size.size() >= 3 && x.sizes.size() == weight_size.size() &&
                   y.sizes.size() == weight_size.size() && groups > 0,
               ShapeError, op, ": the input ", to_text(IntArrayRef(x.sizes)), ", the gradient ",
               to_text(IntArrayRef(y.sizes)), " and the weight ", to_text(weight_size),
               " must have the same number of dimensions, and groups must be positive");
  FACULA_CHECK(x.dtype == y.dtype && x.dtype != kBool && !isFloat8Type(x.dtype), DTypeError, op, ": input (",
               toString(x.dtype), ") and gradient (", toString(y.dtype),
               ") must have one dtype that can be multiplied");
  same_device({&input, &grad_output}, op);
  const Geometry g(weight_size.size() - 2, stride, padding, dilation, {0}, groups, op);
  // Of a transposed convolution the gradient is what the plain one takes in.
  const Tensor &in = transposed ? grad_output : input, &out = transposed ? input : grad_output;
  const DimVector expected = output_sizes(g, in.sizes(), weight_size, false, op);
  FACULA_CHECK(IntArrayRef(expected) == out.sizes() && in.sizes()[1] == weight_size[1] * groups, ShapeError, op,
               ": a weight of size ", to_text(weight_size), " does not lead from ", to_text(in.sizes()), " to ",
               to_text(out.sizes()));
  Tensor result = new_tensor(weight_size, x.dtype, x.device, op);
  if (x.device.is_meta() || result.numel() == 0) return result;
  if (x.numel == 0 || y.numel == 0) {
    fill_values(result, 0);
    return result;
  }
  const MemoryFormat format = input.suggest_memory_format();
  run({ConvolutionPart::Weight, laid_out(in, format), result, laid_out(out, format), Tensor(), g.stride, g.padding,
       g.dilation, groups},
      g);
  return result;
}

#define FACULA_CONV(rank)                                                                                             \
  Tensor conv##rank##d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,                  \
                       IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {               \
    return conv_nd(input, weight, bias, stride, padding, dilation, groups, rank, "conv" #rank "d");                   \
  }                                                                                                                   \
  Tensor conv##rank##d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,                  \
                       IntArrayRef stride, std::string_view padding, IntArrayRef dilation, int64_t groups) {          \
    return conv_nd(input, weight, bias, stride, padding, dilation, groups, rank, "conv" #rank "d");                   \
  }                                                                                                                   \
  Tensor conv_transpose##rank##d(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,        \
                                 IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding, int64_t groups, \
                                 IntArrayRef dilation) {                                                              \
    return conv_transpose_nd(input, weight, bias, stride, padding, output_padding, groups, dilation, rank,            \
                             "conv_transpose" #rank "d");                                                             \
  }
FACULA_CONV(1)
FACULA_CONV(2)
FACULA_CONV(3)
#undef FACULA_CONV

}  // namespace facula::meaning
