// Functional forms that the book of modules does not have, because no module is made of them: padding, one-hot
// codes, attention without projections.
#pragma once

#include <facula/nn/generated/modules.h>

#include <optional>

namespace facula::nn::functional {

using PadMode = Choice<enumtype::kConstant, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;

class FACULA_API PadFuncOptions {
 public:
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  FACULA_ARG(std::vector<int64_t>, pad);
  FACULA_ARG(PadMode, mode) = kConstant;
  FACULA_ARG(double, value) = 0;
};
// More entries around the last dims: `pad` has how many before and behind, for the last dim first.
FACULA_API Tensor pad(const Tensor& input, const PadFuncOptions& options);

FACULA_API Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1);

class FACULA_API NormalizeFuncOptions {
 public:
  FACULA_ARG(double, p) = 2.0;
  FACULA_ARG(int64_t, dim) = 1;
  FACULA_ARG(double, eps) = 1e-12;
  FACULA_ARG(std::optional<Tensor>, out);
};
// Vectors along a dim, divided by their p-norms.
FACULA_API Tensor normalize(const Tensor& input, const NormalizeFuncOptions& options = {});

// Softmax of query times key, times value, without the matrix of all pairs in memory. (..., heads, length, features)
FACULA_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const Tensor& attn_mask = {}, double dropout_p = 0.0,
                                               bool is_causal = false, std::optional<double> scale = std::nullopt,
                                               bool enable_gqa = false);

}  // namespace facula::nn::functional
