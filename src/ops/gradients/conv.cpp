// The gradients of convolutions and pooling. A convolution is linear in its input and in its weight, so its gradients are convolutions again.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"

namespace facula::vjp {
namespace {

int64_t at(IntArrayRef values, size_t dim) { return values[values.size() == 1 ? 0 : dim]; }

// How much the transposed convolution must be told to add at the end to give back `wanted`.
DimVector missing_at_end(IntArrayRef given, IntArrayRef wanted, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation) {
  DimVector missing;
  for (size_t d = 0; d + 2 < wanted.size(); ++d)
    missing.push_back(wanted[d + 2] - ((given[d + 2] - 1) * at(stride, d) - 2 * at(padding, d) +
                                       at(dilation, d) * (kernel[d + 2] - 1) + 1));
  return missing;
}

}  // namespace

Tensor convolution_input(const Tensor& grad, IntArrayRef input_sizes, const Tensor& weight, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool transposed, int64_t groups) {
  if (transposed) {
    Tensor result =
        facula::convolution(grad, conjugate(weight), std::nullopt, stride, padding, dilation, false, {0}, groups);
    // Where the output was padded by a stride or more, the last places belong to no element of the input.
    for (int64_t d = 2; d < result.dim(); ++d)
      if (result.size(d) > input_sizes[static_cast<size_t>(d)])
        result = result.narrow(d, 0, input_sizes[static_cast<size_t>(d)]);
    return result;
  }
  const DimVector missing = missing_at_end(grad.sizes(), input_sizes, weight.sizes(), stride, padding, dilation);
  return facula::convolution(grad, conjugate(weight), std::nullopt, stride, padding, dilation, true, missing, groups);
}

Tensor convolution_weight(const Tensor& grad, const Tensor& input, IntArrayRef weight_sizes, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, int64_t groups) {
  Tensor x = conjugate(input);
  if (transposed) {
    // As many elements as places that the gradient has when it is padded by a stride or more: zeros, which add nothing.
    DimVector behind(2 * (weight_sizes.size() - 2), 0);
    bool any = false;
    for (size_t d = 0; d + 2 < weight_sizes.size(); ++d) {
      const int64_t more = grad.sizes()[d + 2] + 2 * at(padding, d) - at(dilation, d) * (weight_sizes[d + 2] - 1) - 1;
      const int64_t zeros = more / at(stride, d) + 1 - input.sizes()[d + 2];
      behind[behind.size() - 1 - 2 * d] = zeros;
      any = any || zeros > 0;
    }
    if (any) x = facula::constant_pad_nd(x, behind);
  }
  return facula::_convolution_weight_grad(grad, x, weight_sizes, stride, padding, dilation, transposed, groups);
}

Tensor convolution_bias(const Tensor& grad) {
  DimVector dims = {0};
  for (int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
  return grad.sum(IntArrayRef(dims));
}

Tensor _convolution_weight_grad_grad_output(const Tensor& grad, const Tensor& input, IntArrayRef weight_size,
                                            IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                            bool transposed, int64_t groups, IntArrayRef grad_output_sizes) {
  if (!transposed)
    return facula::convolution(conjugate(input), grad, std::nullopt, stride, padding, dilation, false, {0}, groups);
  const DimVector missing = missing_at_end(input.sizes(), grad_output_sizes, weight_size, stride, padding, dilation);
  return facula::convolution(conjugate(input), grad, std::nullopt, stride, padding, dilation, true, missing, groups);
}

Tensor _convolution_weight_grad_input(const Tensor& grad, const Tensor& grad_output, IntArrayRef input_sizes,
                                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                      int64_t groups) {
  return convolution_input(conjugate(grad_output), input_sizes, conjugate(grad), stride, padding, dilation, transposed,
                           groups);
}

Tensor _max_pool_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, IntArrayRef kernel_size, IntArrayRef stride,
                      IntArrayRef padding, IntArrayRef dilation, const Tensor& indices) {
  return facula::_max_pool_backward(grads[0], indices, self_sizes, kernel_size, stride, padding, dilation);
}

// A gradient of the input reaches a result from the place that it was taken from.
Tensor _max_pool_backward_grad_output(const Tensor& grad, const Tensor& indices) {
  DimVector flat(grad.sizes().slice(0, 2)), picked(flat);
  flat.push_back(-1);
  picked.push_back(indices.numel() == 0 ? 0 : -1);
  if (indices.numel() == 0) return grad.new_zeros(indices.sizes());
  return grad.reshape(flat).gather(2, indices.reshape(picked)).reshape(indices.sizes());
}

Tensor _avg_pool_self(const Tensor& grad, IntArrayRef self_sizes, IntArrayRef kernel_size, IntArrayRef stride,
                      IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor_override) {
  return facula::_avg_pool_backward(grad, self_sizes, kernel_size, stride, padding, count_include_pad,
                                    divisor_override);
}

Tensor _avg_pool_backward_grad_output(const Tensor& grad, IntArrayRef grad_output_sizes, IntArrayRef kernel_size,
                                      IntArrayRef stride, IntArrayRef padding, bool count_include_pad,
                                      std::optional<int64_t> divisor_override) {
  return facula::_avg_pool(grad, grad_output_sizes.slice(2), kernel_size, stride, padding, count_include_pad,
                           divisor_override);
}

}  // namespace facula::vjp
