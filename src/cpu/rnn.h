// What the kernels of recurrent layers are asked for. All tensors are contiguous in float or double; `w_turned` is the transpose of w_hh, on a
// GPU as a view of it.
#pragma once

#include <facula/tensor.h>

namespace facula {

// gates_input (T, B, 4 H) -> output, cells (T, B, H), gates (T, B, 4 H): input, forget, cell and output gate.
using LstmKernel = void(const Tensor& gates_input, const Tensor& w_turned, const Tensor& hx, const Tensor& cx,
                        bool reverse, const Tensor& output, const Tensor& cells, const Tensor& gates);
// grad_gates (T, B, 4 H) is that of gates_input; grad_cells may be undefined.
using LstmBackwardKernel = void(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& w_hh,
                                const Tensor& cx, bool reverse, const Tensor& cells, const Tensor& gates,
                                const Tensor& grad_gates, const Tensor& grad_hx, const Tensor& grad_cx);
// gates_input (T, B, 3 H) -> output (T, B, H), gates (T, B, 4 H): reset, update and new gate, and the hidden state's part of the new one. The bias may be undefined.
using GruKernel = void(const Tensor& gates_input, const Tensor& w_turned, const Tensor& b_hh, const Tensor& hx,
                       bool reverse, const Tensor& output, const Tensor& gates);
// grad_hidden (T, B, 3 H) is that of what the hidden state adds to the gates.
using GruBackwardKernel = void(const Tensor& grad_output, const Tensor& w_hh, const Tensor& hx, bool reverse,
                               const Tensor& output, const Tensor& gates, const Tensor& grad_gates,
                               const Tensor& grad_hidden, const Tensor& grad_hx);

}  // namespace facula
