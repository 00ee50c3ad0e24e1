// Gradients of attention and recurrent layers by other ops: for devices without a kernel, and where somebody watches. They are functions of what the forward pass
// saved, as the kernels are, so that derivatives of any order follow.
#pragma once

#include <facula/tensor.h>

#include <array>
#include <optional>

namespace facula {

// softmax(scale query key^T + mask) as the saved logsumexp gives it; keys once for each head of the query, in the dtype that is computed in.
Tensor attention_shares(const Tensor& query, const Tensor& key, const std::optional<Tensor>& mask,
                        const Tensor& logsumexp, bool causal, double scale);
// Gradients of key or value of all heads, added up for the heads that share them.
Tensor joined_heads(const Tensor& t, int64_t shared);
Tensor repeated_heads(const Tensor& t, int64_t heads);

// Of gates_input, w_hh, hx and cx; the gradients of cells and gates may be undefined.
std::array<Tensor, 4> lstm_backward_by_ops(const Tensor& grad_output, const Tensor& grad_cells,
                                           const Tensor& grad_gates, const Tensor& w_hh, const Tensor& hx,
                                           const Tensor& cx, bool reverse, const Tensor& output, const Tensor& cells,
                                           const Tensor& gates);
// Of gates_input, w_hh, b_hh and hx; the gradient of gates may be undefined.
std::array<Tensor, 4> gru_backward_by_ops(const Tensor& grad_output, const Tensor& grad_gates, const Tensor& w_hh,
                                          const Tensor& hx, bool reverse, const Tensor& output, const Tensor& gates);

}  // namespace facula
