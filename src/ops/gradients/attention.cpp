// The gradient of the fused attention, which is an op itself (ops/attention.cpp).
#include "ops/backward_by_ops.h"
#include "ops/generated/gradients.h"
#include "ops/gradients/pieces.h"

namespace facula::vjp {

std::array<Tensor, 4> _fused_attention(std::array<bool, 4> needs, ArrayRef<Tensor> grads, const Tensor& query,
                                       const Tensor& key, const Tensor& value, const std::optional<Tensor>& attn_mask,
                                       double dropout_p, bool is_causal, double scale, const Tensor& output,
                                       const Tensor& logsumexp, const Tensor& rng_state) {
  FACULA_CHECK(
      !needs[3], NotSupportedError,
      "_fused_attention: the mask has no gradient here; scaled_dot_product_attention gives it one by other ops");
  std::array<Tensor, 4> result;
  if (grads[0].defined()) {
    const auto [q, k, v] = facula::_fused_attention_backward(grads[0], query, key, value, attn_mask, output, logsumexp,
                                                             rng_state, dropout_p, is_causal, scale);
    result = {needs[0] ? q : Tensor(), needs[1] ? k : Tensor(), needs[2] ? v : Tensor(), Tensor()};
  }
  if (!grads[1].defined()) return result;
  // The logarithm of a sum of exponentials moves with its terms by their shares.
  const Tensor shares = attention_shares(query, key, attn_mask, logsumexp, is_causal, scale);
  const Tensor slopes = shares * (grads[1].to(shares.scalar_type()) * scale).unsqueeze(-1);
  const auto add = [&](size_t i, const Tensor& part) {
    const Tensor fitting = part.to(query.scalar_type());
    result[i] = result[i].defined() ? result[i] + fitting : fitting;
  };
  if (needs[0]) add(0, slopes.matmul(repeated_heads(key, query.size(1)).to(shares.scalar_type())));
  if (needs[1]) add(1, joined_heads(slopes.transpose(-2, -1).matmul(query.to(shares.scalar_type())), key.size(1)));
  return result;
}

}  // namespace facula::vjp
