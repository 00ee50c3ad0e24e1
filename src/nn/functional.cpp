// Functional forms that are more than one op: what the book of modules says is written by hand. Losses are in
// functional_loss.cpp.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/functional.h>

namespace facula::nn::functional {
namespace {

void need(const char* function, const char* argument, const Tensor& tensor) {
  FACULA_CHECK(tensor.defined(), ValueError, function, ": ", argument, " is an undefined tensor");
}

Tensor in_place_or_not(const Tensor& input, const Tensor& made, bool inplace) {
  if (!inplace) return made;
  return Tensor(input).copy_(made);
}

// One draw for each channel, which stands for all of its entries.
template <class Options>
Tensor channel_dropout(const char* function, const Tensor& input, const Options& options, int64_t dims) {
  need(function, "input", input);
  require_between(function, "p", options.p(), 0, 1);
  FACULA_CHECK(input.dim() == dims || input.dim() == dims - 1, ShapeError, function, ": expects an input of ", dims - 1,
               " or ", dims, " dims, got the shape ", to_text(input.sizes()));
  const bool batched = input.dim() == dims;
  const Tensor made = facula::feature_dropout(batched ? input : input.unsqueeze(0), options.p(), options.training());
  return in_place_or_not(input, batched ? made : made.squeeze(0), options.inplace());
}

}  // namespace

Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  need("bilinear", "input1", input1);
  need("bilinear", "input2", input2);
  need("bilinear", "weight", weight);
  FACULA_CHECK(weight.dim() == 3 && input1.dim() > 0 && input2.dim() > 0 && input1.size(-1) == weight.size(1) &&
                   input2.size(-1) == weight.size(2),
               ShapeError, "bilinear: the weight of shape ", to_text(weight.sizes()),
               " (out, in1, in2) does not fit inputs of the shapes ", to_text(input1.sizes()), " and ",
               to_text(input2.sizes()));
  const Tensor made = facula::einsum("...i,oij,...j->...o", {input1, weight, input2});
  return bias.defined() ? made + bias : made;
}

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options) {
  need("embedding", "input", input);
  need("embedding", "weight", weight);
  FACULA_CHECK(weight.dim() == 2, ShapeError, "embedding: the weight must be a matrix, got the shape ",
               to_text(weight.sizes()));
  const int64_t rows = weight.size(0);
  int64_t padding = -1;
  if (options.padding_idx()) {
    padding = *options.padding_idx();
    FACULA_CHECK(padding >= -rows && padding < rows, ValueError, "embedding: padding_idx ", padding,
                 " must be within num_embeddings, which is ", rows);
    if (padding < 0) padding += rows;
  }
  if (options.max_norm()) {
    // Rows that are looked up and too long are shortened, in the table itself.
    const NoGradGuard quiet;
    const Tensor used = std::get<0>(facula::unique(input.reshape({-1})));
    const Tensor picked = weight.detach().index_select(0, used);
    const Tensor lengths = picked.norm(options.norm_type(), IntArrayRef{1}, /*keepdim=*/true);
    const Tensor scale = facula::where(lengths > *options.max_norm(), *options.max_norm() / (lengths + 1e-7), 1.0);
    Tensor table = weight.detach();
    table.index_copy_(0, used, picked * scale.to(picked.scalar_type()));
  }
  return facula::embedding(weight, input, padding, options.scale_grad_by_freq(), options.sparse());
}

Tensor dropout(const Tensor& input, const DropoutFuncOptions& options) {
  need("dropout", "input", input);
  require_between("dropout", "p", options.p(), 0, 1);
  return in_place_or_not(input, facula::dropout(input, options.p(), options.training()), options.inplace());
}

Tensor dropout1d(const Tensor& input, const Dropout1dFuncOptions& options) {
  return channel_dropout("dropout1d", input, options, 3);
}

Tensor dropout2d(const Tensor& input, const Dropout2dFuncOptions& options) {
  return channel_dropout("dropout2d", input, options, 4);
}

namespace {

template <size_t D, class Options, class Conv>
Tensor convolved(const char* function, const Tensor& input, const Tensor& weight, const Options& options, Conv conv) {
  need(function, "input", input);
  need(function, "weight", weight);
  if (const auto* sizes = options.padding().sizes())
    return conv(input, weight, given(options.bias()), options.stride(), IntArrayRef(*sizes), options.dilation(),
                options.groups());
  return conv(input, weight, given(options.bias()), options.stride(),
              std::string_view(options.padding().is_same() ? "same" : "valid"), options.dilation(), options.groups());
}

// Sizes that are left open are those of the input.
template <size_t D>
std::array<int64_t, D> closed(const Tensor& input, const ExpandingArrayWithOptionalElem<D>& sizes) {
  std::array<int64_t, D> all{};
  for (size_t i = 0; i < D; ++i)
    all[i] = (*sizes)[i] ? *(*sizes)[i] : input.size(static_cast<int64_t>(i) - static_cast<int64_t>(D));
  return all;
}

}  // namespace

Tensor conv1d(const Tensor& input, const Tensor& weight, const Conv1dFuncOptions& options) {
  return convolved<1>("conv1d", input, weight, options, [](auto&&... args) { return facula::conv1d(args...); });
}

Tensor conv2d(const Tensor& input, const Tensor& weight, const Conv2dFuncOptions& options) {
  return convolved<2>("conv2d", input, weight, options, [](auto&&... args) { return facula::conv2d(args...); });
}

Tensor conv3d(const Tensor& input, const Tensor& weight, const Conv3dFuncOptions& options) {
  return convolved<3>("conv3d", input, weight, options, [](auto&&... args) { return facula::conv3d(args...); });
}

Tensor adaptive_avg_pool2d(const Tensor& input, const AdaptiveAvgPool2dFuncOptions& options) {
  need("adaptive_avg_pool2d", "input", input);
  return facula::adaptive_avg_pool2d(input, closed(input, options.output_size()));
}

Tensor adaptive_avg_pool3d(const Tensor& input, const AdaptiveAvgPool3dFuncOptions& options) {
  need("adaptive_avg_pool3d", "input", input);
  return facula::adaptive_avg_pool3d(input, closed(input, options.output_size()));
}

Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormFuncOptions& options) {
  need("batch_norm", "input", input);
  if (options.training() && input.dim() > 1) {
    int64_t values = input.size(0);
    for (int64_t d = 2; d < input.dim(); ++d) values *= input.size(d);
    FACULA_CHECK(values != 1, ValueError,
                 "batch_norm: Expected more than 1 value per channel when training, got input size ",
                 to_text(input.sizes()), "; use a larger batch, or eval()");
  }
  FACULA_CHECK(options.momentum(), ValueError, "batch_norm: momentum must be a number");
  return facula::batch_norm(input, given(options.weight()), given(options.bias()), given(running_mean),
                            given(running_var), options.training(), *options.momentum(), options.eps());
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  return facula::scaled_dot_product_attention(query, key, value, given(attn_mask), dropout_p, is_causal, scale,
                                              enable_gqa);
}

Tensor softsign(const Tensor& input) {
  need("softsign", "input", input);
  return input / (input.abs() + 1);
}

Tensor tanhshrink(const Tensor& input) {
  need("tanhshrink", "input", input);
  return input - input.tanh();
}

Tensor softmin(const Tensor& input, const SoftminFuncOptions& options) {
  need("softmin", "input", input);
  return facula::softmax(-input, options.dim(), options.dtype());
}

Tensor pad(const Tensor& input, const PadFuncOptions& options) {
  need("pad", "input", input);
  static constexpr const char* names[] = {"constant", "reflect", "replicate", "circular"};
  const bool constant = options.mode().index() == 0;
  return facula::pad(input, options.pad(), names[options.mode().index()],
                     constant ? std::optional<double>(options.value()) : std::nullopt);
}

Tensor one_hot(const Tensor& tensor, int64_t num_classes) { return facula::one_hot(tensor, num_classes); }

Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options) {
  need("normalize", "input", input);
  const Tensor lengths = input.norm(options.p(), IntArrayRef{options.dim()}, /*keepdim=*/true);
  const Tensor made = input / lengths.clamp_min(options.eps());
  if (!options.out()) return made;
  Tensor out = *options.out();
  return out.copy_(made);
}

}  // namespace facula::nn::functional
