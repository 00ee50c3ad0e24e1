// Softmax and the normalisations: checks, the fused kernel where the device has one, else the same by other ops. Losses are in losses.cpp,
// distances in distance.cpp.
#include "ops/common.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

#include "cpu/convert.h"

namespace facula::meaning {
namespace {

void check_input(const Tensor& self, ScalarType dtype, const char* op) {
  FACULA_CHECK(self.defined(), ValueError, op, ": the input is an undefined tensor; assign a tensor to it first");
  check_computed_float(dtype, op, "Convert the input to float, double, half or bfloat16 first");
}

Tensor softmax_by_ops(const Tensor& self, int64_t dim, ScalarType dtype, bool log) {
  const Tensor x = as_dtype(as_dtype(self, dtype), working_dtype(dtype));
  if (x.impl()->numel == 0) return as_dtype(x, dtype);
  const Tensor shifted = x - x.amax(dim, true);
  const Tensor powers = shifted.exp();
  const Tensor sum = powers.sum(dim, true);
  return as_dtype(log ? shifted - sum.log() : powers / sum, dtype);
}

Tensor softmax_like(OpId op, const char* name, const Tensor& self, int64_t dim,
                    const std::optional<ScalarType>& dtype) {
  const ScalarType to = dtype ? *dtype : self.defined() ? self.impl()->dtype : ScalarType::Undefined;
  check_input(self, to, name);
  const TensorImpl* t = self.impl();
  const int64_t along = wrap_dim(dim, t->dim(), name);
  if (t->device.is_meta()) return new_tensor(t->sizes, to, t->device, name);
  if (!has_kernel(op, t->device.type())) [[unlikely]]
    return softmax_by_ops(self, along, to, op == OpId::log_softmax);
  // The kernel widens on its way in; whatever else changes the dtype happens first.
  const bool widens = isFloatingType(t->dtype) && working_dtype(t->dtype) == working_dtype(to) &&
                      elementSize(t->dtype) <= elementSize(to);
  const Tensor input = as_contiguous(t->dtype == to || (widens && to == kFloat) ? self : as_dtype(self, to));
  Tensor result = new_tensor(t->sizes, to, t->device, name);
  call_kernel<void(const Tensor&, int64_t, const Tensor&)>(op, t->device.type(), input, along, result);
  return result;
}

// How many entries are normalised together.
int64_t check_normalized_shape(const Tensor& input, IntArrayRef shape, const char* op) {
  FACULA_CHECK(!shape.empty(), ValueError, op,
               ": Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
               "got normalized_shape = []");
  const DimVector& sizes = input.impl()->sizes;
  const bool fits = sizes.size() >= shape.size() && IntArrayRef(sizes.end() - shape.size(), shape.size()) == shape;
  FACULA_CHECK(fits, ShapeError, op, ": Given normalized_shape=", to_text(shape), ", expected input with shape [*, ",
               to_text(shape).substr(1), ", but got input of size ", to_text(IntArrayRef(sizes)));
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

// Weight or bias of a normalisation: undefined when absent, else contiguous in the dtype that kernels want.
Tensor check_affine(const std::optional<Tensor>& given, const Tensor& input, IntArrayRef shape, const char* what,
                    const char* op) {
  if (!given || !given->defined()) return Tensor();
  const TensorImpl *w = given->impl(), *t = input.impl();
  FACULA_CHECK(IntArrayRef(w->sizes) == shape, ShapeError, op, ": Expected ", what,
               " to be of same shape as normalized_shape, but got ", what, " of shape ", to_text(IntArrayRef(w->sizes)),
               " and normalized_shape = ", to_text(shape));
  FACULA_CHECK(w->dtype == t->dtype || (isReducedFloatingType(t->dtype) && w->dtype == kFloat), DTypeError, op,
               ": expected ", what, " of the input's dtype ", toString(t->dtype), " but found ", toString(w->dtype),
               ". Convert it with .to(input.scalar_type())");
  FACULA_CHECK(w->device == t->device, DeviceError, op,
               ": Expected all tensors to be on the same device, but found at least two devices, ", t->device.str(),
               " (input) and ", w->device.str(), " (", what, ")! Move them to one with .to(device)");
  return w->device.is_meta() ? *given : as_contiguous(as_dtype(*given, weight_dtype(*given, t->dtype)));
}

Tensor affine(Tensor x, const Tensor& weight, const Tensor& bias, ScalarType dtype) {
  if (weight.defined()) x = x * weight;
  if (bias.defined()) x = x + bias;
  return as_dtype(x, dtype);
}

}  // namespace

Tensor softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return softmax_like(OpId::softmax, "softmax", self, dim, dtype);
}

Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return softmax_like(OpId::log_softmax, "log_softmax", self, dim, dtype);
}

Tensor layer_norm(const Tensor& input, IntArrayRef normalized_shape, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps, bool) {
  const char* op = "layer_norm";
  check_input(input, input.defined() ? input.impl()->dtype : kFloat, op);
  const int64_t n = check_normalized_shape(input, normalized_shape, op);
  Tensor w = check_affine(weight, input, normalized_shape, "weight", op),
         b = check_affine(bias, input, normalized_shape, "bias", op);
  const TensorImpl* t = input.impl();
  if (w.defined() && b.defined() && w.scalar_type() != b.scalar_type())
    for (Tensor* each : {&w, &b}) *each = as_dtype(*each, working_dtype(t->dtype));
  if (t->device.is_meta()) return new_tensor(t->sizes, t->dtype, t->device, op);
  if (!has_kernel(OpId::layer_norm, t->device.type())) [[unlikely]] {
    const Tensor x = as_dtype(input, working_dtype(t->dtype));
    const DimVector dims = last_dims(normalized_shape.size());
    const Tensor centered = x - x.mean(IntArrayRef(dims), true);
    return affine(centered * (centered * centered).mean(IntArrayRef(dims), true).add(eps).rsqrt(), w, b, t->dtype);
  }
  Tensor result = new_tensor(t->sizes, t->dtype, t->device, op);
  call_kernel<void(const Tensor&, int64_t, const Tensor&, const Tensor&, double, const Tensor&)>(
      OpId::layer_norm, t->device.type(), as_contiguous(input), n, w, b, eps, result);
  return result;
}

Tensor rms_norm(const Tensor& input, IntArrayRef normalized_shape, const std::optional<Tensor>& weight,
                std::optional<double> eps) {
  const char* op = "rms_norm";
  check_input(input, input.defined() ? input.impl()->dtype : kFloat, op);
  const int64_t n = check_normalized_shape(input, normalized_shape, op);
  const Tensor w = check_affine(weight, input, normalized_shape, "weight", op);
  const TensorImpl* t = input.impl();
  const double epsilon = eps ? *eps : machine_epsilon(t->dtype);
  if (t->device.is_meta()) return new_tensor(t->sizes, t->dtype, t->device, op);
  if (!has_kernel(OpId::rms_norm, t->device.type())) [[unlikely]] {
    const Tensor x = as_dtype(input, working_dtype(t->dtype));
    const DimVector dims = last_dims(normalized_shape.size());
    return affine(x * (x * x).mean(IntArrayRef(dims), true).add(epsilon).rsqrt(), w, Tensor(), t->dtype);
  }
  Tensor result = new_tensor(t->sizes, t->dtype, t->device, op);
  call_kernel<void(const Tensor&, int64_t, const Tensor&, double, const Tensor&)>(
      OpId::rms_norm, t->device.type(), as_contiguous(input), n, w, epsilon, result);
  return result;
}

}  // namespace facula::meaning
