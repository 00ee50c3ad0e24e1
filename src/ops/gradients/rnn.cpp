// The gradients of recurrent layers, which are ops themselves (ops/rnn.cpp).
#include "ops/backward_by_ops.h"
#include "ops/generated/gradients.h"
#include "ops/gradients/pieces.h"

namespace facula::vjp {

namespace {

Tensor or_zeros(const Tensor& grad, const Tensor& like) { return grad.defined() ? grad : facula::zeros_like(like); }

std::array<Tensor, 4> needed(std::array<bool, 4> needs, std::array<Tensor, 4> all) {
  for (size_t i = 0; i < 4; ++i)
    if (!needs[i]) all[i].reset();
  return all;
}

}  // namespace

// The gates are saved for the backward pass; only derivatives of higher order ask for theirs.
std::array<Tensor, 4> _lstm_layer(std::array<bool, 4> needs, ArrayRef<Tensor> grads, const Tensor& gates_input,
                                  const Tensor& w_hh, const Tensor& hx, const Tensor& cx, bool reverse,
                                  const Tensor& output, const Tensor& cells, const Tensor& gates) {
  const Tensor of_output = or_zeros(grads[0], output);
  if (grads[2].defined())
    return needed(needs,
                  lstm_backward_by_ops(of_output, grads[1], grads[2], w_hh, hx, cx, reverse, output, cells, gates));
  const auto [x, w, h, c] =
      facula::_lstm_layer_backward(of_output, grads[1], gates_input, w_hh, hx, cx, reverse, output, cells, gates);
  return needed(needs, {x, w, h, c});
}

std::array<Tensor, 4> _gru_layer(std::array<bool, 4> needs, ArrayRef<Tensor> grads, const Tensor& gates_input,
                                 const Tensor& w_hh, const std::optional<Tensor>& b_hh, const Tensor& hx, bool reverse,
                                 const Tensor& output, const Tensor& gates) {
  const Tensor of_output = or_zeros(grads[0], output);
  if (grads[1].defined())
    return needed(needs, gru_backward_by_ops(of_output, grads[1], w_hh, hx, reverse, output, gates));
  const auto [x, w, b, h] = facula::_gru_layer_backward(of_output, gates_input, w_hh, b_hh, hx, reverse, output, gates);
  return needed(needs, {x, w, b, h});
}

}  // namespace facula::vjp
