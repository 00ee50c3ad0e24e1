// Attention: checks, shapes and heads; a fused kernel where the device has one, else the same by other ops, which write the scores out.
#include "cpu/attention.h"

#include "core/generator_impl.h"
#include "gpu/runtime.h"
#include "ops/backward_by_ops.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

#include <cmath>

namespace facula::meaning {
namespace {

void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value, const char* op) {
  const TensorImpl &q = impl_of(query, op), &k = impl_of(key, op), &v = impl_of(value, op);
  FACULA_CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2, ShapeError, op,
               ": Expected query, key, and value to all be at least 2 dimensional, but got query.dim: ", q.dim(),
               ", key.dim: ", k.dim(), " and value.dim: ", v.dim(), " instead.");
  FACULA_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, DTypeError, op,
               ": Expected query, key, and value to have the same dtype, but got query.dtype: ", toString(q.dtype),
               ", key.dtype: ", toString(k.dtype), ", and value.dtype: ", toString(v.dtype), " instead.");
  FACULA_CHECK(is_computed_float(q.dtype), DTypeError, op, ": not implemented for '", toString(q.dtype),
               "'. Convert the inputs to float, double, half or bfloat16 first");
  FACULA_CHECK(q.sizes.back() == k.sizes.back(), ShapeError, op, ": query ", to_text(IntArrayRef(q.sizes)), " and key ",
               to_text(IntArrayRef(k.sizes)), " must have the same size in their last dimension");
  FACULA_CHECK(k.sizes[k.sizes.size() - 2] == v.sizes[v.sizes.size() - 2], ShapeError, op, ": key ",
               to_text(IntArrayRef(k.sizes)), " and value ", to_text(IntArrayRef(v.sizes)),
               " must have the same length (the last but one dimension)");
  same_device({&query, &key, &value}, op);
}

// What the scores become before the softmax.
Tensor hidden(const Tensor& scores, const std::optional<Tensor>& mask, bool causal) {
  constexpr double kNever = -INFINITY;
  Tensor s = scores;
  if (causal) {
    const Tensor later = facula::ones({s.size(-2), s.size(-1)}, s.options().dtype(kBool)).triu(1);
    s = s.masked_fill(later, kNever);
  }
  if (present(mask))
    s = mask->scalar_type() == kBool ? s.masked_fill(mask->logical_not(), kNever) : s + mask->to(s.scalar_type());
  return s;
}

// Zero where a row has nothing to see.
Tensor safe_softmax(const Tensor& scores) {
  return scores.softmax(-1).masked_fill(scores.detach().amax(-1, true) == -INFINITY, 0);
}

Tensor attention_by_ops(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                        double dropout, bool causal, double scale) {
  const ScalarType work = working_dtype(query.scalar_type());
  const Tensor scores = hidden((query.to(work) * scale).matmul(key.to(work).transpose(-2, -1)), mask, causal);
  Tensor shares = safe_softmax(scores);
  if (dropout > 0) shares = facula::dropout(shares, dropout, true);
  return shares.matmul(value.to(work)).to(query.scalar_type());
}

// Whether a graph records what is queued on the device now. The place of fused dropout in the random stream is a
// number on the host, which every launch of the graph would use again.
bool recorded_by_graph(Device device) {
  return device.is_cuda() && gpu::capture_id(gpu::current_stream(device.index())) != 0;
}

void check_mask(const Tensor& mask, const Tensor& query, const char* op) {
  FACULA_CHECK(mask.scalar_type() == kBool || mask.scalar_type() == query.scalar_type() || mask.scalar_type() == kFloat,
               DTypeError, op,
               ": Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: ",
               toString(mask.scalar_type()), " and query.dtype: ", toString(query.scalar_type()), " instead.");
  same_device({&query, &mask}, op);
}

// (batch, heads, length, features), whatever came before the heads.
Tensor four_dims(const Tensor& t, IntArrayRef batch, int64_t heads) {
  DimVector whole(batch);
  whole.push_back(heads);
  whole.push_back(t.size(-2));
  whole.push_back(t.size(-1));
  const Tensor spread = t.sizes() == IntArrayRef(whole) ? t : t.expand(whole);
  if (batch.size() == 1) return spread;
  return spread.reshape({-1, heads, t.size(-2), t.size(-1)});
}

// Tensors of (B, H, L, E) lie as (B, L, H, E): what follows attention joins the heads.
Tensor new_by_length(IntArrayRef sizes, ScalarType dtype, Device device, const char* op) {
  const int64_t h = sizes[1], l = sizes[2], e = sizes[3];
  return new_tensor_strided(sizes, {l * h * e, e, h * e, 1}, dtype, device, op);
}

Tensor readable(const Tensor& t) { return t.size(-1) <= 1 || t.strides().back() == 1 ? t : as_contiguous(t); }

AttentionArgs arguments(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
                        double dropout, bool causal, double scale) {
  AttentionArgs a{readable(query), readable(key), readable(value), Tensor(), dropout, scale, causal};
  if (present(mask)) {
    const Tensor m = mask->scalar_type() == kBool ? *mask : as_dtype(*mask, query.scalar_type());
    a.mask = m.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
  }
  return a;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const std::optional<Tensor>& attn_mask, double dropout_p, bool is_causal,
                                    std::optional<double> scale, bool enable_gqa) {
  const char* op = "scaled_dot_product_attention";
  check_inputs(query, key, value, op);
  FACULA_CHECK(dropout_p >= 0 && dropout_p <= 1, ValueError, op,
               ": dropout probability has to be between 0 and 1, but got ", dropout_p);
  FACULA_CHECK(!is_causal || !present(attn_mask), ValueError, op,
               ": Explicit attn_mask should not be set when is_causal=True");
  if (present(attn_mask)) check_mask(*attn_mask, query, op);
  const double by = scale ? *scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  const bool headed = query.dim() >= 3;
  const int64_t heads = headed ? query.size(-3) : 1, shared = key.dim() >= 3 ? key.size(-3) : 1;
  if (enable_gqa) {
    FACULA_CHECK(query.dim() >= 3 && key.dim() >= 3 && value.dim() >= 3 && shared > 0 && value.size(-3) == shared &&
                     heads % shared == 0,
                 ShapeError, op,
                 ": Number of heads in key and value must be equal and divide the number of heads in query, got query ",
                 to_text(query.sizes()), ", key ", to_text(key.sizes()), " and value ", to_text(value.sizes()));
  }
  const bool empty = query.numel() == 0 || key.numel() == 0 || value.numel() == 0;
  const bool mask_learns = present(attn_mask) && vjp::watched(*attn_mask);
  const bool batch_draws = dropout_p > 0 && (autograd::tracked(query, key, value) & detail::kTracksBatch) != 0;
  const bool graph_draws = dropout_p > 0 && recorded_by_graph(query.device());
  if (empty || mask_learns || batch_draws || graph_draws || dropout_p == 1 ||
      !has_kernel(OpId::_fused_attention, device_type(query))) {
    const Tensor k = enable_gqa ? repeated_heads(key, heads) : key,
                 v = enable_gqa ? repeated_heads(value, heads) : value;
    return attention_by_ops(query, k, v, attn_mask, dropout_p, is_causal, by);
  }
  // The dims before length and features meet as they do in a matrix product; the last of them are the heads.
  const auto before = [](const Tensor& t, size_t last) {
    return t.sizes().slice(0, t.sizes().size() - std::min(last, t.sizes().size()));
  };
  const size_t cut = enable_gqa ? 3 : 2;
  DimVector batch = broadcast_sizes(broadcast_sizes(before(query, cut), before(key, cut), op), before(value, cut), op);
  DimVector outer(batch);
  if (enable_gqa) outer.push_back(heads);
  if (present(attn_mask)) outer = broadcast_sizes(outer, before(*attn_mask, 2), op);
  DimVector full(outer);  // of the result
  full.push_back(query.size(-2));
  full.push_back(value.size(-1));
  int64_t common = 1;
  if (!outer.empty()) {
    common = outer.back();
    outer.pop_back();
  }
  if (outer.empty()) outer.push_back(1);
  const int64_t key_heads = enable_gqa ? shared : common;
  const Tensor q = four_dims(query, outer, common), k = four_dims(key, outer, key_heads),
               v = four_dims(value, outer, key_heads);
  std::optional<Tensor> mask;
  if (present(attn_mask)) {
    FACULA_CHECK(attn_mask->dim() >= 2 || attn_mask->numel() > 0, ShapeError, op,
                 ": attn_mask must have a length and a number of keys, got ", to_text(attn_mask->sizes()));
    DimVector whole(outer);
    whole.push_back(common);
    whole.push_back(query.size(-2));
    whole.push_back(key.size(-2));
    const Tensor spread = attn_mask->expand(whole);
    mask = outer.size() == 1 ? spread : spread.reshape({-1, common, query.size(-2), key.size(-2)});
  }
  const Tensor result = std::get<0>(facula::_fused_attention(q, k, v, mask, dropout_p, is_causal, by));
  return result.sizes() == IntArrayRef(full) ? result : result.reshape(full);
}

std::tuple<Tensor, Tensor, Tensor> _fused_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                    const std::optional<Tensor>& attn_mask, double dropout_p,
                                                    bool is_causal, double scale) {
  const char* op = "_fused_attention";
  check_inputs(query, key, value, op);
  const TensorImpl &q = *query.impl(), &k = *key.impl(), &v = *value.impl();
  FACULA_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.sizes[0] == k.sizes[0] && q.sizes[0] == v.sizes[0] &&
                   k.sizes[1] == v.sizes[1] && k.sizes[1] > 0 && q.sizes[1] % k.sizes[1] == 0,
               ShapeError, op, ": query ", to_text(IntArrayRef(q.sizes)), ", key ", to_text(IntArrayRef(k.sizes)),
               " and value ", to_text(IntArrayRef(v.sizes)),
               " must be (batch, heads, length, features), with heads of key and value that divide those of query");
  FACULA_CHECK(dropout_p >= 0 && dropout_p < 1, ValueError, op, ": dropout probability has to be in [0, 1), but got ",
               dropout_p);
  if (present(attn_mask)) check_mask(*attn_mask, query, op);
  const ScalarType work = working_dtype(q.dtype);
  const DimVector sizes = {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
  Tensor output = new_by_length(sizes, q.dtype, q.device, op);
  Tensor logsumexp = new_tensor({sizes[0], sizes[1], sizes[2]}, work, q.device, op);
  // Numbers for the host, which tells kernels where to draw.
  const bool host_state = dropout_p > 0 && !q.device.is_meta();
  Tensor rng_state = new_tensor({dropout_p > 0 ? 2 : 0}, kLong, host_state ? Device(kCPU) : q.device, op);
  if (q.device.is_meta()) return {output, logsumexp, rng_state};
  if (has_kernel(OpId::_fused_attention, q.device.type()) && output.numel() > 0 && k.numel > 0) {
    AttentionArgs a = arguments(query, key, value, attn_mask, dropout_p, is_causal, scale);
    if (dropout_p > 0) {
      FACULA_CHECK(!recorded_by_graph(q.device), NotSupportedError, op,
                   ": dropout cannot be recorded by a graph here; use scaled_dot_product_attention");
      const uint64_t rows = static_cast<uint64_t>(sizes[0] * sizes[1] * sizes[2]);
      const auto place =
          generator_or_default(std::nullopt, q.device, op).reserve(rows * attention_row_blocks(k.sizes[2]));
      a.seed = place.seed;
      a.offset = place.offset;
      auto* state = reinterpret_cast<uint64_t*>(rng_state.impl()->data());
      state[0] = a.seed;
      state[1] = a.offset;
    }
    call_kernel<AttentionKernel>(OpId::_fused_attention, q.device.type(), a, output, logsumexp);
    return {output, logsumexp, rng_state};
  }
  FACULA_CHECK(dropout_p == 0, NotSupportedError, op, ": no kernel with dropout on ", q.device.str(),
               "; use scaled_dot_product_attention");
  const Tensor keys = repeated_heads(key, sizes[1]), values = repeated_heads(value, sizes[1]);
  const Tensor scores = hidden((query.to(work) * scale).matmul(keys.to(work).transpose(-2, -1)), attn_mask, is_causal);
  copy_values(output, scores.numel() == 0 ? facula::zeros(sizes, query.options())
                                          : safe_softmax(scores).matmul(values.to(work)));
  copy_values(logsumexp, scores.logsumexp(-1));
  return {output, logsumexp, rng_state};
}

std::tuple<Tensor, Tensor, Tensor> _fused_attention_backward(const Tensor& grad_output, const Tensor& query,
                                                             const Tensor& key, const Tensor& value,
                                                             const std::optional<Tensor>& attn_mask,
                                                             const Tensor& output, const Tensor& logsumexp,
                                                             const Tensor& rng_state, double dropout_p, bool is_causal,
                                                             double scale) {
  const char* op = "_fused_attention_backward";
  check_inputs(query, key, value, op);
  FACULA_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && grad_output.sizes() == output.sizes(),
               ShapeError, op, ": expected 4-dimensional tensors and a gradient of the output's shape ",
               to_text(output.sizes()), ", got ", to_text(grad_output.sizes()));
  const bool host_state = dropout_p > 0 && !query.is_meta();
  same_device(
      {&query, attn_mask ? &*attn_mask : nullptr, &grad_output, &output, &logsumexp, host_state ? nullptr : &rng_state},
      op);
  if (host_state) {
    const TensorImpl& state = impl_of(rng_state, op);
    FACULA_CHECK(state.device.is_cpu() && state.dtype == kLong && state.numel == 2 && state.contiguous, ValueError, op,
                 ": rng_state must be the two int64 numbers that _fused_attention gave, on the cpu, but is ",
                 to_text(IntArrayRef(state.sizes)), " of ", toString(state.dtype), " on ", state.device.str());
  }
  const Device device = query.device();
  const ScalarType dtype = query.scalar_type(), work = working_dtype(dtype);
  const int64_t heads = query.size(1), shared = key.size(1);
  const bool watched = vjp::watched(grad_output, query, key, value, attn_mask, output, logsumexp);
  if (!watched && !device.is_meta() && has_kernel(OpId::_fused_attention_backward, device.type()) &&
      output.numel() > 0 && key.numel() > 0 && grad_output.scalar_type() == dtype) {
    AttentionArgs a = arguments(query, key, value, attn_mask, dropout_p, is_causal, scale);
    if (dropout_p > 0) {
      const auto* state = reinterpret_cast<const uint64_t*>(rng_state.impl()->data());
      a.seed = state[0];
      a.offset = state[1];
    }
    Tensor gq = new_by_length(query.sizes(), dtype, device, op), gk = new_by_length(key.sizes(), dtype, device, op),
           gv = new_by_length(value.sizes(), dtype, device, op);
    call_kernel<AttentionBackwardKernel>(OpId::_fused_attention_backward, device.type(), a, readable(grad_output),
                                         readable(output), as_contiguous(as_dtype(logsumexp, work)), gq, gk, gv);
    return {gq, gk, gv};
  }
  const Tensor q = query.to(work), k = repeated_heads(key, heads).to(work), v = repeated_heads(value, heads).to(work),
               g = grad_output.to(work);
  const Tensor shares = attention_shares(query, key, attn_mask, logsumexp, is_causal, scale);
  Tensor slopes = g.matmul(v.transpose(-2, -1)), dropped = shares;
  if (dropout_p > 0) {
    FACULA_CHECK(!device.is_meta(), NotSupportedError, op, ": dropout on meta tensors has no random state");
    AttentionArgs a;
    const auto* state = reinterpret_cast<const uint64_t*>(rng_state.impl()->data());
    a.seed = state[0];
    a.offset = state[1];
    a.dropout = dropout_p;
    const int64_t keys = key.size(2), rows = query.numel() / query.size(3);
    Tensor keep = new_tensor({query.size(0), heads, query.size(2), keys}, kByte, Device(kCPU), op);
    auto* bytes = reinterpret_cast<uint8_t*>(keep.impl()->data());
    for (int64_t r = 0; r < rows; ++r) attention_keep(a, r, keys, 0, keys, bytes + r * keys);
    const Tensor factor = keep.to(device).to(work) * (1 / (1 - dropout_p));
    dropped = shares * factor;
    slopes = slopes * factor;
  }
  const Tensor level = (g * output.to(work)).sum(-1, true);
  const Tensor scores = shares * (slopes - level) * scale;
  return {scores.matmul(k).to(dtype), joined_heads(scores.transpose(-2, -1).matmul(q), shared).to(dtype),
          joined_heads(dropped.transpose(-2, -1).matmul(g), shared).to(dtype)};
}

}  // namespace facula::meaning

namespace facula {

Tensor repeated_heads(const Tensor& t, int64_t heads) {
  const int64_t own = t.size(-3);
  return own == heads ? t : t.repeat_interleave(heads / own, -3);
}

Tensor joined_heads(const Tensor& t, int64_t shared) {
  const int64_t heads = t.size(1);
  if (heads == shared) return t;
  return t.reshape({t.size(0), shared, heads / shared, t.size(2), t.size(3)}).sum(2);
}

Tensor attention_shares(const Tensor& query, const Tensor& key, const std::optional<Tensor>& mask,
                        const Tensor& logsumexp, bool causal, double scale) {
  const ScalarType work = query.scalar_type() == kDouble ? kDouble : kFloat;
  const Tensor keys = repeated_heads(key, query.size(1)).to(work);
  const Tensor scores = meaning::hidden((query.to(work) * scale).matmul(keys.transpose(-2, -1)), mask, causal);
  const Tensor sums = logsumexp.to(work).unsqueeze(-1), blind = sums.detach() == -INFINITY;
  return (scores - sums.masked_fill(blind, 0)).exp().masked_fill(blind, 0);
}

}  // namespace facula
