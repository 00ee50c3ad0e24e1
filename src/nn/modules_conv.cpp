// What is written by hand of convolutions, pooling and batch norm.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/functional.h>
#include <facula/nn/generated/modules.h>

namespace facula::nn {
namespace {

constexpr const char* kPadNames[] = {"constant", "reflect", "replicate", "circular"};  // in the order of padding modes

// How many entries come before and behind each dim, for the last dim first, as `pad` takes them.
template <size_t D, class Options>
std::vector<int64_t> borders(const Options& options) {
  std::vector<int64_t> all;
  for (size_t i = D; i-- > 0;) {
    int64_t before = 0, behind = 0;
    if (const auto* sizes = options.padding().sizes()) {
      before = behind = (**sizes)[i];
    } else if (options.padding().is_same()) {
      const int64_t total = (*options.dilation())[i] * ((*options.kernel_size())[i] - 1);
      before = total / 2;
      behind = total - before;
    }
    all.push_back(before);
    all.push_back(behind);
  }
  return all;
}

template <size_t D, class FuncOptions, class Impl, class Conv>
Tensor conv_forward(Impl& module, const Tensor& input, Conv conv) {
  const auto& options = module.options;
  FuncOptions how;
  how.bias(module.bias).stride(options.stride()).padding(options.padding()).dilation(options.dilation());
  how.groups(options.groups());
  try {
    const size_t mode = options.padding_mode().index();
    if (mode == 0) return conv(input, module.weight, how);
    const Tensor padded = facula::pad(input, borders<D>(options), kPadNames[mode]);
    return conv(padded, module.weight, how.padding(ExpandingArray<D>(0)));
  } catch (const Error& error) {
    rethrow_in_module(
        module, error,
        {{"input", input, -static_cast<int64_t>(D) - 1, "in_channels", IntArrayRef(options.in_channels())}});
  }
}

template <class Impl>
Tensor batch_norm_forward(Impl& m, const Tensor& input, int64_t least_dims, int64_t most_dims) {
  const BatchNormOptions& options = m.options;
  try {
    FACULA_CHECK(input.defined(), ValueError, "batch_norm: the input is an undefined tensor");
    FACULA_CHECK(input.dim() >= least_dims && input.dim() <= most_dims, ShapeError, "batch_norm: expected ",
                 least_dims == most_dims ? str(most_dims, "D") : str(least_dims, "D or ", most_dims, "D"),
                 " input (got ", input.dim(), "D input)");
    double momentum = options.momentum().value_or(0.0);
    if (m.is_training() && options.track_running_stats() && m.num_batches_tracked.defined()) {
      const NoGradGuard quiet;
      m.num_batches_tracked.add_(1);
      // Without a momentum the running values are those of all batches alike.
      if (!options.momentum()) momentum = 1.0 / m.num_batches_tracked.template item<double>();
    }
    const bool by_batch = m.is_training() || !m.running_mean.defined();
    const bool follows = !m.is_training() || options.track_running_stats();
    return functional::batch_norm(
        input, follows ? m.running_mean : Tensor(), follows ? m.running_var : Tensor(),
        functional::BatchNormFuncOptions().weight(m.weight).bias(m.bias).training(by_batch).momentum(momentum).eps(
            options.eps()));
  } catch (const Error& error) {
    rethrow_in_module(m, error, {{"input", input, 1, "num_features", IntArrayRef(options.num_features())}});
  }
}

template <class Impl>
void forget_statistics(Impl& m) {
  if (!m.running_mean.defined()) return;
  const NoGradGuard quiet;
  m.running_mean.zero_();
  m.running_var.fill_(1);
  m.num_batches_tracked.zero_();
}

}  // namespace

Tensor Conv1dImpl::forward(const Tensor& input) {
  return conv_forward<1, functional::Conv1dFuncOptions>(
      *this, input, [](const auto&... args) { return functional::conv1d(args...); });
}
Tensor Conv2dImpl::forward(const Tensor& input) {
  return conv_forward<2, functional::Conv2dFuncOptions>(
      *this, input, [](const auto&... args) { return functional::conv2d(args...); });
}
Tensor Conv3dImpl::forward(const Tensor& input) {
  return conv_forward<3, functional::Conv3dFuncOptions>(
      *this, input, [](const auto&... args) { return functional::conv3d(args...); });
}

std::tuple<Tensor, Tensor> MaxPool1dImpl::forward_with_indices(const Tensor& input) {
  return facula::max_pool1d_with_indices(input, options.kernel_size(), options.stride(), options.padding(),
                                         options.dilation(), options.ceil_mode());
}
std::tuple<Tensor, Tensor> MaxPool2dImpl::forward_with_indices(const Tensor& input) {
  return facula::max_pool2d_with_indices(input, options.kernel_size(), options.stride(), options.padding(),
                                         options.dilation(), options.ceil_mode());
}
std::tuple<Tensor, Tensor> MaxPool3dImpl::forward_with_indices(const Tensor& input) {
  return facula::max_pool3d_with_indices(input, options.kernel_size(), options.stride(), options.padding(),
                                         options.dilation(), options.ceil_mode());
}

Tensor BatchNorm1dImpl::forward(const Tensor& input) { return batch_norm_forward(*this, input, 2, 3); }
Tensor BatchNorm2dImpl::forward(const Tensor& input) { return batch_norm_forward(*this, input, 4, 4); }
Tensor BatchNorm3dImpl::forward(const Tensor& input) { return batch_norm_forward(*this, input, 5, 5); }
void BatchNorm1dImpl::reset_running_stats() { forget_statistics(*this); }
void BatchNorm2dImpl::reset_running_stats() { forget_statistics(*this); }
void BatchNorm3dImpl::reset_running_stats() { forget_statistics(*this); }

}  // namespace facula::nn
