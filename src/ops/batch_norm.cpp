// Batch norm and its relatives: checks, running statistics, and gradients by other ops where somebody watches.
#include "cpu/batch_norm.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

namespace facula::meaning {
namespace {

DimVector all_but_channels(int64_t rank) {
  DimVector dims = {0};
  for (int64_t d = 2; d < rank; ++d) dims.push_back(d);
  return dims;
}

// A tensor of channels as it broadcasts against the whole.
Tensor along_channels(const Tensor& t, int64_t rank) {
  DimVector sizes(static_cast<size_t>(rank), 1);
  sizes[1] = t.numel();
  return t.reshape(sizes);
}

void check_channels(const std::optional<Tensor>& t, const Tensor& input, const char* what, const char* op) {
  if (!present(t)) return;
  const int64_t channels = input.size(1);
  FACULA_CHECK(t->dim() == 1 && t->size(0) == channels, ShapeError, op, ": ", what, " should contain ", channels,
               " elements not ", t->numel(), " (its shape is ", to_text(t->sizes()), ", the input's ",
               to_text(input.sizes()), ")");
  const ScalarType a = input.scalar_type(), b = t->scalar_type();
  FACULA_CHECK(a == b || (isReducedFloatingType(a) && b == kFloat), DTypeError, op, ": expected ", what,
               " of the input's dtype ", toString(a), " but found ", toString(b),
               ". Convert it with .to(input.scalar_type())");
  same_device({&input, &*t}, op);
}

void check_input(const Tensor& input, const char* op) {
  const TensorImpl& x = impl_of(input, op);
  check_computed_float(x.dtype, op, "Convert the input to float, double, half or bfloat16 first");
  FACULA_CHECK(x.dim() >= 2, ShapeError, op,
               ": expected a batch and channels (at least 2 dimensions), but got input of size ",
               to_text(IntArrayRef(x.sizes)));
}

// Kernels know contiguous tensors and channels-last ones.
Tensor laid_out(const Tensor& t, MemoryFormat format) { return t.is_contiguous(format) ? t : t.contiguous(format); }

Tensor prepared(const std::optional<Tensor>& t, ScalarType work) {
  return present(t) ? as_contiguous(as_dtype(*t, work)) : Tensor();
}

// Half types go into kernels as they are, but not on the CPU.
ScalarType kernel_dtype(const Tensor& t) { return t.is_cpu() ? working_dtype(t.scalar_type()) : t.scalar_type(); }

// What a kernel moves of a running statistic: its own memory where the dtype and the layout allow it.
Tensor running_for_kernel(const std::optional<Tensor>& running, ScalarType work) {
  return present(running) ? prepared(running->detach(), work) : Tensor();
}
void running_moved(const std::optional<Tensor>& running, const Tensor& moved) {
  if (!present(running)) return;
  if (moved.impl()->data() != running->impl()->data()) copy_values(*running, moved);
  running->impl()->bump_version();
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input, const std::optional<Tensor>& weight,
                                                     const std::optional<Tensor>& bias,
                                                     const std::optional<Tensor>& running_mean,
                                                     const std::optional<Tensor>& running_var, bool training,
                                                     double momentum, double eps) {
  const char* op = "batch_norm";
  check_input(input, op);
  check_channels(weight, input, "weight", op);
  check_channels(bias, input, "bias", op);
  check_channels(running_mean, input, "running_mean", op);
  check_channels(running_var, input, "running_var", op);
  FACULA_CHECK(training || (present(running_mean) && present(running_var)), ValueError, op,
               ": running_mean and running_var must be defined in evaluation mode; pass them, or training=true");
  const TensorImpl& x = *input.impl();
  const ScalarType work = working_dtype(x.dtype);
  const int64_t channels = x.sizes[1];
  const int64_t per_channel = channels == 0 ? 0 : x.numel / channels;
  FACULA_CHECK(!training || per_channel > 1 || x.numel == 0, ValueError, op,
               ": Expected more than 1 value per channel when training, got input size ",
               to_text(IntArrayRef(x.sizes)));
  const MemoryFormat format = input.suggest_memory_format();
  Tensor output = new_tensor_strided(x.sizes, strides_for(x.sizes, format, op), x.dtype, x.device, op);
  Tensor mean = new_tensor({channels}, work, x.device, op), invstd = new_tensor({channels}, work, x.device, op);
  if (x.device.is_meta()) return {output, mean, invstd};
  if (!training) {
    copy_values(mean, *running_mean);
    copy_values(invstd, as_dtype(*running_var, work).add(eps).rsqrt());
  }
  if (x.numel == 0) {
    if (training) fill_values(mean, 0), fill_values(invstd, 0);
    return {output, mean, invstd};
  }
  const ScalarType inside = kernel_dtype(input);
  const Tensor in = laid_out(as_dtype(input, inside), format);
  Tensor wide = x.dtype == inside ? output : new_tensor_strided(x.sizes, output.strides(), inside, x.device, op);
  RunningStatistics running;
  if (training) running = {running_for_kernel(running_mean, work), running_for_kernel(running_var, work), momentum};
  call_kernel<BatchNormKernel>(OpId::native_batch_norm, x.device.type(), in, prepared(weight, work),
                               prepared(bias, work), training, eps, mean, invstd, running, wide);
  if (x.dtype != inside) copy_values(output, wide);
  if (training) {
    running_moved(running_mean, running.mean);
    running_moved(running_var, running.variance);
  }
  return {output, mean, invstd};
}

Tensor batch_norm(const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                  const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var, bool training,
                  double momentum, double eps, bool) {
  return std::get<0>(
      facula::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps));
}

std::tuple<Tensor, Tensor, Tensor> _batch_norm_backward(const Tensor& grad_output, const Tensor& input,
                                                        const std::optional<Tensor>& weight, const Tensor& save_mean,
                                                        const Tensor& save_invstd, bool training) {
  const char* op = "_batch_norm_backward";
  check_input(input, op);
  FACULA_CHECK(grad_output.defined() && grad_output.sizes() == input.sizes(), ShapeError, op,
               ": the gradient must have the input's shape ", to_text(input.sizes()));
  check_channels(weight, input, "weight", op);
  const ScalarType dtype = input.scalar_type(), work = working_dtype(dtype);
  const int64_t rank = input.dim(), channels = input.size(1);
  const bool none = !present(weight);
  if (!vjp::watched(grad_output, input, weight, save_mean, save_invstd) && input.numel() > 0 && !input.is_meta() &&
      has_kernel(OpId::_batch_norm_backward, device_type(input))) {
    const MemoryFormat format = input.suggest_memory_format();
    const ScalarType inside = kernel_dtype(input);
    const Tensor x = laid_out(as_dtype(input, inside), format), g = laid_out(as_dtype(grad_output, inside), format);
    const Device device = input.device();
    Tensor gi = new_tensor_strided(x.sizes(), strides_for(x.sizes(), format, op), inside, device, op);
    Tensor gw = new_tensor({channels}, work, device, op), gb = new_tensor({channels}, work, device, op);
    call_kernel<BatchNormBackwardKernel>(OpId::_batch_norm_backward, device.type(), g, x, prepared(weight, work),
                                         as_contiguous(as_dtype(save_mean, work)),
                                         as_contiguous(as_dtype(save_invstd, work)), training, gi, gw, gb);
    return {as_dtype(gi, dtype), gw, gb};
  }
  const DimVector dims = all_but_channels(rank);
  const Tensor g = grad_output.to(work), x = input.to(work);
  const Tensor m = along_channels(save_mean.to(work), rank), r = along_channels(save_invstd.to(work), rank);
  const Tensor h = (x - m) * r;
  const Tensor gb = g.sum(IntArrayRef(dims)), gw = (g * h).sum(IntArrayRef(dims));
  const Tensor scale = none ? r : r * along_channels(weight->to(work), rank);
  Tensor gi = g;
  if (training) {
    const double count = static_cast<double>(input.numel()) / static_cast<double>(std::max<int64_t>(channels, 1));
    gi = g - along_channels(gb, rank) / count - h * (along_channels(gw, rank) / count);
  }
  return {(gi * scale).to(dtype), gw, gb};
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps, bool) {
  const char* op = "group_norm";
  check_input(input, op);
  const int64_t channels = input.size(1), batch = input.size(0), rank = input.dim();
  FACULA_CHECK(num_groups > 0, ValueError, op, ": Expected num groups to be greater than 0, got ", num_groups);
  FACULA_CHECK(channels % num_groups == 0, ShapeError, op,
               ": Expected number of channels in input to be divisible by num_groups, but got input of shape ",
               to_text(input.sizes()), " and num_groups=", num_groups);
  check_channels(weight, input, "weight", op);
  check_channels(bias, input, "bias", op);
  if (input.numel() == 0) return input.clone();
  const int64_t together = input.numel() / batch / num_groups;
  const Tensor rows = input.reshape({batch, num_groups, together});
  Tensor y = facula::layer_norm(rows, {together}, std::nullopt, std::nullopt, eps, true).reshape(input.sizes());
  if (present(weight) && present(bias))
    y = facula::addcmul(along_channels(*bias, rank), y, along_channels(*weight, rank));
  else if (present(weight)) y = y * along_channels(*weight, rank);
  else if (present(bias)) y = y + along_channels(*bias, rank);
  return y.to(input.scalar_type());
}

Tensor instance_norm(const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                     const std::optional<Tensor>& running_mean, const std::optional<Tensor>& running_var,
                     bool use_input_stats, double momentum, double eps, bool) {
  const char* op = "instance_norm";
  check_input(input, op);
  check_channels(weight, input, "weight", op);
  check_channels(bias, input, "bias", op);
  check_channels(running_mean, input, "running_mean", op);
  check_channels(running_var, input, "running_var", op);
  FACULA_CHECK(use_input_stats || (present(running_mean) && present(running_var)), ValueError, op,
               ": Expected running_mean and running_var to be defined when use_input_stats is false");
  const int64_t batch = input.size(0), channels = input.size(1);
  if (!use_input_stats)
    return facula::batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps, true);
  // Every sample's channel is a channel of one sample.
  DimVector joined(input.sizes());
  joined[0] = 1;
  joined[1] = batch * channels;
  const auto repeated = [&](const std::optional<Tensor>& t) {
    return present(t) ? std::optional<Tensor>(t->repeat({batch})) : std::nullopt;
  };
  std::optional<Tensor> mean, var;
  if (present(running_mean)) mean = running_mean->detach().repeat({batch});
  if (present(running_var)) var = running_var->detach().repeat({batch});
  const Tensor y =
      facula::batch_norm(input.reshape(joined), repeated(weight), repeated(bias), mean, var, true, momentum, eps, true)
          .view(input.sizes());
  NoGradGuard no_grad;
  if (mean) Tensor(*running_mean).copy_(mean->view({batch, channels}).mean(0));
  if (var) Tensor(*running_var).copy_(var->view({batch, channels}).mean(0));
  return y;
}

}  // namespace facula::meaning
