// A stack of transformer layers. It holds modules, which the book of modules does not describe.
#pragma once

#include <facula/nn/any_module.h>
#include <facula/nn/containers.h>
#include <facula/nn/generated/transformer.h>

#include <cstdint>
#include <utility>

namespace facula::nn {

// Options of TransformerEncoder: a layer, of which each layer is a copy, and what comes behind the last.
class FACULA_API TransformerEncoderOptions {
 public:
  TransformerEncoderOptions(TransformerEncoderLayer encoder_layer, int64_t num_layers);
  TransformerEncoderOptions(const TransformerEncoderLayerOptions& encoder_layer_options, int64_t num_layers);
  FACULA_ARG(TransformerEncoderLayer, encoder_layer){nullptr};
  FACULA_ARG(int64_t, num_layers);
  FACULA_ARG(AnyModule, norm);
};

class FACULA_API TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  TransformerEncoderImpl(const TransformerEncoderLayer& layer, int64_t count);
  explicit TransformerEncoderImpl(const TransformerEncoderOptions& options_);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);
  FACULA_FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())}, {3, AnyValue(false)})

  TransformerEncoderOptions options;
  ModuleList layers{nullptr};
  AnyModule norm;
};
FACULA_MODULE(TransformerEncoder);

}  // namespace facula::nn
