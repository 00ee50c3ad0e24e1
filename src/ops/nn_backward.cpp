// The gradients of softmax and the normalisations as ops: a fused kernel where nobody watches and the device has one, else the same by other ops, which can
// be differentiated again.
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

namespace facula::meaning {
namespace {

void check_gradient(const Tensor& grad, const Tensor& of, const char* op) {
  impl_of(of, op);
  impl_of(grad, op);
  FACULA_CHECK(grad.sizes() == of.sizes(), ShapeError, op, ": the gradient must have the shape ", to_text(of.sizes()),
               ", but has ", to_text(grad.sizes()));
  FACULA_CHECK(is_computed_float(of.scalar_type()), DTypeError, op, ": not implemented for '",
               toString(of.scalar_type()), "'");
  same_device({&grad, &of}, op);
}

Tensor softmax_backward(OpId id, const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype,
                        const char* op) {
  check_gradient(grad, output, op);
  const int64_t along = wrap_dim(dim, output.dim(), op);
  const bool log = id == OpId::_log_softmax_backward_data;
  const ScalarType dtype = output.scalar_type();
  if (!vjp::watched(grad, output) && has_kernel(id, device_type(output)) && !output.is_meta() && output.numel() > 0 &&
      along + 1 >= output.dim() && grad.scalar_type() == dtype) {
    Tensor result = new_tensor(output.sizes(), dtype, output.device(), op);
    call_kernel<void(const Tensor&, const Tensor&, int64_t, const Tensor&)>(
        id, device_type(output), as_contiguous(grad), as_contiguous(output), along, result);
    return as_dtype(result, input_dtype);
  }
  // Sums of half types are rounded once, at the end.
  const ScalarType work = working_dtype(dtype);
  const Tensor g = grad.to(work), y = output.to(work);
  Tensor made;
  if (log) made = formula([](auto g1, auto y1, auto s) { return g1 - exp(y1) * s; }, g, y, g.sum(along, true));
  else made = formula([](auto g1, auto y1, auto s) { return (g1 - s) * y1; }, g, y, (g * y).sum(along, true));
  return made.to(input_dtype);
}

// What a row says, added up over all rows.
Tensor over_rows(const Tensor& t, size_t row_dims) {
  DimVector dims;
  for (int64_t d = 0; d < t.dim() - static_cast<int64_t>(row_dims); ++d) dims.push_back(d);
  return dims.empty() ? t : t.sum(IntArrayRef(dims));
}

int64_t checked_row(const Tensor& input, IntArrayRef shape, const std::optional<Tensor>& weight, const char* op) {
  const IntArrayRef sizes = input.sizes();
  FACULA_CHECK(!shape.empty() && sizes.size() >= shape.size() && sizes.slice(sizes.size() - shape.size()) == shape,
               ShapeError, op, ": Given normalized_shape=", to_text(shape), ", but got input of size ", to_text(sizes));
  FACULA_CHECK(!present(weight) || weight->sizes() == shape, ShapeError, op,
               ": Expected weight to be of same shape as normalized_shape");
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  return n;
}

// Whether the kernel of `id` can be used.
bool fuses(OpId id, const Tensor& grad, const Tensor& input, const std::optional<Tensor>& weight) {
  return !vjp::watched(grad, input, weight) && !input.is_meta() && input.numel() > 0 &&
         has_kernel(id, device_type(input)) && grad.scalar_type() == input.scalar_type();
}

}  // namespace

Tensor _softmax_backward_data(const Tensor& grad_output, const Tensor& output, int64_t dim, ScalarType input_dtype) {
  return softmax_backward(OpId::_softmax_backward_data, grad_output, output, dim, input_dtype,
                          "_softmax_backward_data");
}

Tensor _log_softmax_backward_data(const Tensor& grad_output, const Tensor& output, int64_t dim,
                                  ScalarType input_dtype) {
  return softmax_backward(OpId::_log_softmax_backward_data, grad_output, output, dim, input_dtype,
                          "_log_softmax_backward_data");
}

// With h = (x - mean) r and r = 1 / sqrt(variance + eps): the incoming gradient times the weight, less its mean and less its part
// along h, times r.
std::tuple<Tensor, Tensor, Tensor> _layer_norm_backward(const Tensor& grad_output, const Tensor& input,
                                                        IntArrayRef normalized_shape,
                                                        const std::optional<Tensor>& weight, double eps) {
  const char* op = "_layer_norm_backward";
  check_gradient(grad_output, input, op);
  const int64_t n = checked_row(input, normalized_shape, weight, op);
  const ScalarType dtype = input.scalar_type(), work = working_dtype(dtype);
  if (fuses(OpId::_layer_norm_backward, grad_output, input, weight)) {
    const Device device = input.device();
    Tensor gi = new_tensor(input.sizes(), dtype, device, op), gw = new_tensor(normalized_shape, work, device, op),
           gb = new_tensor(normalized_shape, work, device, op);
    call_kernel<void(const Tensor&, const Tensor&, int64_t, const Tensor&, double, const Tensor&, const Tensor&,
                     const Tensor&)>(
        OpId::_layer_norm_backward, device.type(), as_contiguous(grad_output), as_contiguous(input), n,
        present(weight) ? as_contiguous(as_dtype(*weight, weight_dtype(*weight, dtype))) : Tensor(), eps, gi, gw, gb);
    return {gi, gw, gb};
  }
  const DimVector dims = last_dims(normalized_shape.size());
  const Tensor g = grad_output.to(work), x = input.to(work);
  const auto [variance, mean] = facula::var_mean(x, IntArrayRef(dims), Scalar(0), true);
  const Tensor r = (variance + eps).rsqrt();
  const Tensor h = formula([](auto x1, auto m, auto r1) { return (x1 - m) * r1; }, x, mean, r);
  const Tensor weighted = present(weight) ? g * weight->to(work) : g;
  const Tensor along = (weighted * h).mean(IntArrayRef(dims), true), level = weighted.mean(IntArrayRef(dims), true);
  const Tensor gi = formula([](auto w, auto h1, auto a, auto m, auto r1) { return (w - m - h1 * a) * r1; }, weighted, h,
                            along, level, r);
  return {gi.to(dtype), over_rows(g * h, normalized_shape.size()), over_rows(g, normalized_shape.size())};
}

std::tuple<Tensor, Tensor> _rms_norm_backward(const Tensor& grad_output, const Tensor& input,
                                              IntArrayRef normalized_shape, const std::optional<Tensor>& weight,
                                              std::optional<double> eps) {
  const char* op = "_rms_norm_backward";
  check_gradient(grad_output, input, op);
  const int64_t n = checked_row(input, normalized_shape, weight, op);
  const ScalarType dtype = input.scalar_type(), work = working_dtype(dtype);
  const double epsilon = eps ? *eps : machine_epsilon(dtype);
  if (fuses(OpId::_rms_norm_backward, grad_output, input, weight)) {
    const Device device = input.device();
    Tensor gi = new_tensor(input.sizes(), dtype, device, op), gw = new_tensor(normalized_shape, work, device, op);
    call_kernel<void(const Tensor&, const Tensor&, int64_t, const Tensor&, double, const Tensor&, const Tensor&)>(
        OpId::_rms_norm_backward, device.type(), as_contiguous(grad_output), as_contiguous(input), n,
        present(weight) ? as_contiguous(as_dtype(*weight, weight_dtype(*weight, dtype))) : Tensor(), epsilon, gi, gw);
    return {gi, gw};
  }
  const DimVector dims = last_dims(normalized_shape.size());
  const Tensor g = grad_output.to(work), x = input.to(work);
  const Tensor r = (x.square().mean(IntArrayRef(dims), true) + epsilon).rsqrt();
  const Tensor h = x * r;
  const Tensor weighted = present(weight) ? g * weight->to(work) : g;
  const Tensor along = (weighted * h).mean(IntArrayRef(dims), true);
  const Tensor gi = formula([](auto w, auto h1, auto a, auto r1) { return (w - h1 * a) * r1; }, weighted, h, along, r);
  return {gi.to(dtype), over_rows(g * h, normalized_shape.size())};
}

}  // namespace facula::meaning
