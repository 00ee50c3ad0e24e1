// What is written by hand of attention and transformers.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/functional.h>
#include <facula/nn/generated/modules.h>
#include <facula/nn/init.h>
#include <facula/nn/transformer.h>

#include <cmath>
#include <limits>
#include <ostream>

namespace facula::nn {

void MultiheadAttentionImpl::reset() {
  const int64_t width = options.embed_dim();
  const auto none = [&](const char* name) { return register_parameter(name, Tensor(), /*requires_grad=*/false); };
  if (options.kdim() == width && options.vdim() == width) {
    in_proj_weight = register_parameter("in_proj_weight", facula::empty({3 * width, width}));
    q_proj_weight = none("q_proj_weight");
    k_proj_weight = none("k_proj_weight");
    v_proj_weight = none("v_proj_weight");
  } else {
    q_proj_weight = register_parameter("q_proj_weight", facula::empty({width, width}));
    k_proj_weight = register_parameter("k_proj_weight", facula::empty({width, options.kdim()}));
    v_proj_weight = register_parameter("v_proj_weight", facula::empty({width, options.vdim()}));
    in_proj_weight = none("in_proj_weight");
  }
  in_proj_bias = options.bias() ? register_parameter("in_proj_bias", facula::empty({3 * width})) : none("in_proj_bias");
  out_proj = register_module("out_proj", Linear(LinearOptions(width, width).bias(options.bias())));
  bias_k = options.add_bias_kv() ? register_parameter("bias_k", facula::empty({1, 1, width})) : none("bias_k");
  bias_v = options.add_bias_kv() ? register_parameter("bias_v", facula::empty({1, 1, width})) : none("bias_v");
  reset_parameters();
}

void MultiheadAttentionImpl::reset_parameters() {
  for (const Tensor& weight : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (weight.defined()) init::xavier_uniform_(weight);
  if (in_proj_bias.defined()) {
    init::zeros_(in_proj_bias);
    init::zeros_(out_proj->bias);
  }
  if (bias_k.defined()) init::xavier_normal_(bias_k);
  if (bias_v.defined()) init::xavier_normal_(bias_v);
}

namespace {

// A mask as numbers that are added to scores: minus infinity where a bool is true.
Tensor additive(const char* name, const Tensor& mask, ScalarType dtype) {
  if (!mask.defined()) return mask;
  if (mask.scalar_type() == kBool)
    return facula::zeros(mask.sizes(), mask.options().dtype(dtype))
        .masked_fill(mask, -std::numeric_limits<double>::infinity());
  FACULA_CHECK(mask.is_floating_point(), DTypeError, "MultiheadAttention: ", name, " must be bool or floating, not ",
               toString(mask.scalar_type()));
  return mask.to(dtype);
}

// One more column, at the end, for a key that the module itself adds.
Tensor widened(const Tensor& mask) { return mask.defined() ? facula::pad(mask, {0, 1}) : mask; }

// (length, batch, width) -> (batch, heads, length, width of a head)
Tensor in_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).permute({1, 2, 0, 3});
}

// The three projections in as few products as the arguments allow.
std::tuple<Tensor, Tensor, Tensor> projected(MultiheadAttentionImpl& m, const Tensor& q, const Tensor& k,
                                             const Tensor& v) {
  std::vector<Tensor> biases(3);
  if (m.in_proj_bias.defined()) biases = m.in_proj_bias.chunk(3);
  if (!m.in_proj_weight.defined())
    return {facula::linear(q, m.q_proj_weight, given(biases[0])), facula::linear(k, m.k_proj_weight, given(biases[1])),
            facula::linear(v, m.v_proj_weight, given(biases[2]))};
  if (q.is_same(k) && k.is_same(v)) {
    const std::vector<Tensor> all = facula::linear(q, m.in_proj_weight, given(m.in_proj_bias)).chunk(3, -1);
    return {all[0], all[1], all[2]};
  }
  const std::vector<Tensor> weights = m.in_proj_weight.chunk(3);
  return {facula::linear(q, weights[0], given(biases[0])), facula::linear(k, weights[1], given(biases[1])),
          facula::linear(v, weights[2], given(biases[2]))};
}

struct AttentionMasks {
  Tensor attention, keys;  // added to scores: (length, keys) or one for each head; and (batch, keys)
};

// Both masks as one that fits (batch, heads, length, keys), or an undefined tensor.
Tensor merged(const AttentionMasks& masks, int64_t batch, int64_t heads) {
  Tensor all;
  if (masks.attention.defined())
    all = masks.attention.dim() == 3
              ? masks.attention.reshape({batch, heads, masks.attention.size(1), masks.attention.size(2)})
              : masks.attention;
  if (!masks.keys.defined()) return all;
  const Tensor keys = masks.keys.reshape({batch, 1, 1, masks.keys.size(1)});
  return all.defined() ? all + keys : keys;
}

void check_masks(const Tensor& q, const Tensor& k, const Tensor& keys_mask, const Tensor& mask, int64_t heads) {
  const int64_t length = q.size(0), batch = q.size(1), keys = k.size(0);
  FACULA_CHECK(!keys_mask.defined() || keys_mask.sizes() == IntArrayRef({batch, keys}), ShapeError,
               "MultiheadAttention: key_padding_mask must have the shape ", to_text(IntArrayRef({batch, keys})),
               " (batch, keys), got ", keys_mask.defined() ? to_text(keys_mask.sizes()) : std::string());
  FACULA_CHECK(!mask.defined() || mask.sizes() == IntArrayRef({length, keys}) ||
                   mask.sizes() == IntArrayRef({batch * heads, length, keys}),
               ShapeError, "MultiheadAttention: attn_mask must have the shape ", to_text(IntArrayRef({length, keys})),
               " or ", to_text(IntArrayRef({batch * heads, length, keys})), ", got ",
               mask.defined() ? to_text(mask.sizes()) : std::string());
}

// What MultiheadAttention computes, of sequences with a batch in dim 1.
std::tuple<Tensor, Tensor> attended(MultiheadAttentionImpl& m, const Tensor& query, const Tensor& key,
                                    const Tensor& value, const Tensor& key_padding_mask, bool need_weights,
                                    const Tensor& attn_mask, bool average_weights, bool is_causal) {
  const MultiheadAttentionOptions& options = m.options;
  const int64_t heads = options.num_heads(), batch = query.size(1), length = query.size(0);
  FACULA_CHECK(query.size(2) == options.embed_dim(), ShapeError,
               "MultiheadAttention: was expecting embedding dimension of ", options.embed_dim(), ", but got ",
               query.size(2));
  FACULA_CHECK(key.sizes().slice(0, 2) == value.sizes().slice(0, 2) && key.size(1) == batch, ShapeError,
               "MultiheadAttention: key ", to_text(key.sizes()), " and value ", to_text(value.sizes()),
               " must agree in length, and with the query ", to_text(query.sizes()), " in the size of the batch");
  FACULA_CHECK(key.size(2) == options.kdim() && value.size(2) == options.vdim(), ShapeError, "MultiheadAttention: key ",
               to_text(key.sizes()), " and value ", to_text(value.sizes()), " must have kdim=", options.kdim(),
               " and vdim=", options.vdim(), " features");
  FACULA_CHECK(!is_causal || attn_mask.defined(), ValueError,
               "MultiheadAttention: Need attn_mask if specifying the is_causal hint");
  check_masks(query, key, key_padding_mask, attn_mask, heads);
  auto [q, k, v] = projected(m, query, key, value);
  AttentionMasks masks{additive("attn_mask", attn_mask, q.scalar_type()),
                       additive("key_padding_mask", key_padding_mask, q.scalar_type())};
  const auto one_more = [&, &k = k, &v = v](const Tensor& more_k, const Tensor& more_v) {
    k = facula::cat({k, more_k}, 0);
    v = facula::cat({v, more_v}, 0);
    masks = {widened(masks.attention), widened(masks.keys)};
    is_causal = false;
  };
  if (m.bias_k.defined()) one_more(m.bias_k.expand({1, batch, -1}), m.bias_v.expand({1, batch, -1}));
  if (options.add_zero_attn()) {
    const Tensor nothing = facula::zeros({1, batch, k.size(2)}, k.options().requires_grad(false));
    one_more(nothing, nothing);
  }
  const Tensor qh = in_heads(q, heads), kh = in_heads(k, heads), vh = in_heads(v, heads);
  const double dropout = m.is_training() ? options.dropout() : 0.0;
  const Tensor mask = merged(masks, batch, heads);
  Tensor result, weights;
  if (need_weights) {
    Tensor scores = facula::matmul(qh * (1.0 / std::sqrt(static_cast<double>(qh.size(3)))), kh.transpose(-2, -1));
    if (mask.defined()) scores = scores + mask;
    weights = facula::softmax(scores, -1);
    if (dropout > 0) weights = facula::dropout(weights, dropout, true);
    result = facula::matmul(weights, vh);
    if (average_weights) weights = weights.mean(1);
  } else if (is_causal && !key_padding_mask.defined()) {
    result = facula::scaled_dot_product_attention(qh, kh, vh, std::nullopt, dropout, true);
  } else {
    result = facula::scaled_dot_product_attention(qh, kh, vh, given(mask), dropout, false);
  }
  result = result.permute({2, 0, 1, 3}).reshape({length, batch, options.embed_dim()});
  return {m.out_proj(result), weights};
}

}  // namespace

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& key_padding_mask, bool need_weights,
                                                           const Tensor& attn_mask, bool average_attn_weights,
                                                           bool is_causal) {
  try {
    FACULA_CHECK(query.defined() && key.defined() && value.defined(), ValueError,
                 "MultiheadAttention: query, key or value is an undefined tensor");
    FACULA_CHECK((query.dim() == 3 || query.dim() == 2) && key.dim() == query.dim() && value.dim() == query.dim(),
                 ShapeError,
                 "MultiheadAttention: query, key and value must be all 3D, or all 2D without a batch, got the shapes ",
                 to_text(query.sizes()), ", ", to_text(key.sizes()), " and ", to_text(value.sizes()));
    // Arguments that are the same tensor stay so, for one product instead of three.
    const bool batched = query.dim() == 3;
    const auto prepared = [&](const Tensor& x) {
      return !batched ? x.unsqueeze(1) : options.batch_first() ? x.transpose(0, 1) : x;
    };
    const Tensor q = prepared(query), k = key.is_same(query) ? q : prepared(key);
    const Tensor v = value.is_same(key) ? k : value.is_same(query) ? q : prepared(value);
    const Tensor keys_mask = !batched && key_padding_mask.defined() ? key_padding_mask.unsqueeze(0) : key_padding_mask;
    auto [result, weights] =
        attended(*this, q, k, v, keys_mask, need_weights, attn_mask, average_attn_weights, is_causal);
    if (!batched) return {result.squeeze(1), weights.defined() ? weights.squeeze(0) : weights};
    return {options.batch_first() ? result.transpose(0, 1) : result, weights};
  } catch (const Error& error) {
    rethrow_in_module(*this, error, {{"query", query, -1, "embed_dim", IntArrayRef(options.embed_dim())}});
  }
}

void TransformerEncoderLayerImpl::reset() {
  const int64_t width = options.d_model(), inner = options.dim_feedforward();
  const auto norm = [&] {
    return LayerNorm(LayerNormOptions({width}).eps(options.layer_norm_eps()).bias(options.bias()));
  };
  self_attn = register_module("self_attn", MultiheadAttention(MultiheadAttentionOptions(width, options.nhead())
                                                                  .dropout(options.dropout())
                                                                  .bias(options.bias())
                                                                  .batch_first(options.batch_first())));
  linear1 = register_module("linear1", Linear(LinearOptions(width, inner).bias(options.bias())));
  dropout = register_module("dropout", Dropout(options.dropout()));
  linear2 = register_module("linear2", Linear(LinearOptions(inner, width).bias(options.bias())));
  norm1 = register_module("norm1", norm());
  norm2 = register_module("norm2", norm());
  dropout1 = register_module("dropout1", Dropout(options.dropout()));
  dropout2 = register_module("dropout2", Dropout(options.dropout()));
}

void TransformerEncoderLayerImpl::reset_parameters() {
  self_attn->reset_parameters();
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
}

transformer_activation_t::transformer_activation_t(Function function) : function_(std::move(function)) {}
Tensor transformer_activation_t::operator()(const Tensor& x) const {
  if (function_) return function_(x);
  return name_ == enumtype::Id::GELU ? facula::gelu(x) : facula::relu(x);
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask, bool is_causal) {
  const auto attend = [&](const Tensor& x) {
    return dropout1(std::get<0>(self_attn->forward(x, x, x, src_key_padding_mask, /*need_weights=*/false, src_mask,
                                                   /*average_attn_weights=*/true, is_causal)));
  };
  const auto feed = [&](const Tensor& x) { return dropout2(linear2(dropout(options.activation()(linear1(x))))); };
  if (options.norm_first()) {
    const Tensor x = src + attend(norm1(src));
    return x + feed(norm2(x));
  }
  const Tensor x = norm1(src + attend(src));
  return norm2(x + feed(x));
}

TransformerEncoderOptions::TransformerEncoderOptions(TransformerEncoderLayer encoder_layer, int64_t num_layers)
    : encoder_layer_(std::move(encoder_layer)), num_layers_(num_layers) {}
TransformerEncoderOptions::TransformerEncoderOptions(const TransformerEncoderLayerOptions& encoder_layer_options,
                                                     int64_t num_layers)
    : TransformerEncoderOptions(TransformerEncoderLayer(encoder_layer_options), num_layers) {}

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderLayer& layer, int64_t count)
    : TransformerEncoderImpl(TransformerEncoderOptions(layer, count)) {}
TransformerEncoderImpl::TransformerEncoderImpl(const TransformerEncoderOptions& options_) : options(options_) {
  require_positive("TransformerEncoder", "num_layers", options.num_layers());
  reset();
}

void TransformerEncoderImpl::reset() {
  layers = register_module("layers", ModuleList());
  for (int64_t i = 0; i < options.num_layers(); ++i) layers->push_back(options.encoder_layer()->clone());
  norm = options.norm().is_empty() ? AnyModule() : options.norm().clone();
  if (!norm.is_empty()) register_module("norm", norm.ptr());
}

void TransformerEncoderImpl::reset_parameters() {
  for (const auto& layer : *layers) layer->as<TransformerEncoderLayer>()->reset_parameters();
}

Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask,
                                       bool is_causal) {
  Tensor x = src;
  for (const auto& layer : *layers)
    x = layer->as<TransformerEncoderLayer>()->forward(x, src_mask, src_key_padding_mask, is_causal);
  return norm.is_empty() ? x : norm.forward<Tensor>(x);
}

}  // namespace facula::nn
