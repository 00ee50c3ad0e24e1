// LSTM and GRU layers on a GPU, over kernels/rnn.h: for each step a matrix product with the hidden weights and one kernel that does the rest.
// What a product adds to the gates is written to where the gates will be.
#include "cpu/rnn.h"

#include "core/kernel_table.h"
#include "gpu/matmul/matmul.h"
#include "gpu/primitives/launching.h"

namespace facula::gpu {
namespace {

// The order of members is that of kernels/rnn.h.
struct Units {
  int64_t count, hidden;
  Divider64 by_hidden;
};
struct LstmArguments {
  const void *input, *before;
  void *gates, *cell, *output;
  Units units;
};
struct LstmBackwardArguments {
  const void *grad_output, *grad_cell, *before, *cell, *gates;
  void* grad_gates;
  const void* from_hidden;
  void* from_cell;
  Units units;
  int32_t last;
};
struct GruArguments {
  const void *input, *bias, *before;
  void *gates, *output;
  Units units;
};
struct GruBackwardArguments {
  const void *grad_output, *before, *gates;
  void *grad_gates, *grad_hidden, *from_hidden;
  Units units;
  int32_t last;
};

enum Step : size_t { kLstm, kLstmBackward, kGru, kGruBackward, kSteps };
const Kernel& kernel_of(Step step, ScalarType t) {
  static auto* table = new KernelTable<kSteps * 2>;
  return table->get(step * 2 + (t == kDouble), [&] {
    static constexpr const char* names[] = {"lstm_step", "lstm_step_backward", "gru_step", "gru_step_backward"};
    static constexpr const char* arguments[] = {"LstmArgs", "LstmBackwardArgs", "GruArgs", "GruBackwardArgs"};
    return template_kernel("rnn.h", names[step], arguments[step],
                           str(names[step], t == kDouble ? "<double>" : "<float>"), kTeamThreads);
  });
}

// A layer's sizes and the places of its steps.
struct Layer {
  ScalarType dtype;
  int64_t steps, batch, hidden;
  bool reverse;
  Layer(const Tensor& output, bool from_the_end) : dtype(output.impl()->dtype), reverse(from_the_end) {
    const DimVector& sizes = output.impl()->sizes;
    steps = sizes[0];
    batch = sizes[1];
    hidden = sizes[2];
  }
  Units units() const { return {batch * hidden, hidden, divider64(static_cast<uint64_t>(hidden))}; }
  // Where a step's part of a tensor with `width` entries for each sample begins; null where there is no tensor.
  char* at(const Tensor& t, int64_t step, int64_t width) const {
    if (!t.defined()) return nullptr;
    const int64_t place = reverse ? steps - 1 - step : step;
    return static_cast<char*>(t.impl()->data()) + place * batch * width * static_cast<int64_t>(elementSize(dtype));
  }
  // A state before a step: what the step before left in `states`.
  char* before(const Tensor& states, const Tensor& first, int64_t step) const {
    return step == 0 ? static_cast<char*>(first.impl()->data()) : at(states, step - 1, hidden);
  }
  // The product of a step's (batch, from) with a matrix (from, to), whose data pointers the step sets.
  MatmulArgs product(int64_t from, int64_t to, const Tensor& matrix, int64_t row_of_result) const {
    const TensorImpl* b = matrix.impl();
    MatmulArgs args;
    args.dtype = dtype;
    args.m = batch;
    args.n = to;
    args.k = from;
    args.a = {nullptr, from, 1};
    args.b = {b->data(), b->strides[0], b->strides[1]};
    args.c = {nullptr, row_of_result, 1};
    return args;
  }
};

template <class Arguments>
void launch_step(const Kernel& kernel, const Arguments& a, const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks_for(a.units.count, kTeamThreads, work.op)}, {kTeamThreads}, 0, args.pointers(), work);
}

void lstm_gpu(const Tensor& gates_input, const Tensor& w_turned, const Tensor& hx, const Tensor& cx, bool reverse,
              const Tensor& output, const Tensor& cells, const Tensor& gates) {
  const TensorWork tensors("_lstm_layer", {&gates_input, &w_turned, &hx, &cx, &output, &cells, &gates});
  const Work work = tensors;
  const Layer layer(output, reverse);
  const int64_t n = layer.hidden;
  const Kernel& kernel = kernel_of(kLstm, layer.dtype);
  MatmulArgs product = layer.product(n, 4 * n, w_turned, 4 * n);
  LstmArguments a{};
  a.units = layer.units();
  for (int64_t t = 0; t < layer.steps; ++t) {
    a.input = layer.at(gates_input, t, 4 * n);
    a.before = layer.before(cells, cx, t);
    product.a.data = layer.before(output, hx, t);
    product.c.data = a.gates = layer.at(gates, t, 4 * n);
    a.cell = layer.at(cells, t, n);
    a.output = layer.at(output, t, n);
    matmul(product, work);
    launch_step(kernel, a, work);
  }
}

void lstm_backward_gpu(const Tensor& grad_output, const Tensor& grad_cells, const Tensor& w_hh, const Tensor& cx,
                       bool reverse, const Tensor& cells, const Tensor& gates, const Tensor& grad_gates,
                       const Tensor& grad_hx, const Tensor& grad_cx) {
  const TensorWork tensors("_lstm_layer_backward",
                           {&grad_output, &grad_cells, &w_hh, &cx, &cells, &gates, &grad_gates, &grad_hx, &grad_cx});
  const Work work = tensors;
  const Layer layer(cells, reverse);
  const int64_t n = layer.hidden;
  const Kernel& kernel = kernel_of(kLstmBackward, layer.dtype);
  MatmulArgs product = layer.product(4 * n, n, w_hh, n);
  LstmBackwardArguments a{};
  a.units = layer.units();
  // What flows back is kept where it ends.
  a.from_hidden = product.c.data = grad_hx.impl()->data();
  a.from_cell = grad_cx.impl()->data();
  for (int64_t t = layer.steps; t-- > 0;) {
    a.last = t == layer.steps - 1;
    a.grad_output = layer.at(grad_output, t, n);
    a.grad_cell = layer.at(grad_cells, t, n);
    a.before = layer.before(cells, cx, t);
    a.cell = layer.at(cells, t, n);
    a.gates = layer.at(gates, t, 4 * n);
    product.a.data = a.grad_gates = layer.at(grad_gates, t, 4 * n);
    launch_step(kernel, a, work);
    matmul(product, work);
  }
}

void gru_gpu(const Tensor& gates_input, const Tensor& w_turned, const Tensor& b_hh, const Tensor& hx, bool reverse,
             const Tensor& output, const Tensor& gates) {
  const TensorWork tensors("_gru_layer", {&gates_input, &w_turned, &b_hh, &hx, &output, &gates});
  const Work work = tensors;
  const Layer layer(output, reverse);
  const int64_t n = layer.hidden;
  const Kernel& kernel = kernel_of(kGru, layer.dtype);
  MatmulArgs product = layer.product(n, 3 * n, w_turned, 4 * n);
  GruArguments a{};
  a.units = layer.units();
  a.bias = b_hh.defined() ? b_hh.impl()->data() : nullptr;
  for (int64_t t = 0; t < layer.steps; ++t) {
    a.input = layer.at(gates_input, t, 3 * n);
    a.before = product.a.data = layer.before(output, hx, t);
    product.c.data = a.gates = layer.at(gates, t, 4 * n);
    a.output = layer.at(output, t, n);
    matmul(product, work);
    launch_step(kernel, a, work);
  }
}

void gru_backward_gpu(const Tensor& grad_output, const Tensor& w_hh, const Tensor& hx, bool reverse,
                      const Tensor& output, const Tensor& gates, const Tensor& grad_gates, const Tensor& grad_hidden,
                      const Tensor& grad_hx) {
  const TensorWork tensors("_gru_layer_backward",
                           {&grad_output, &w_hh, &hx, &output, &gates, &grad_gates, &grad_hidden, &grad_hx});
  const Work work = tensors;
  const Layer layer(output, reverse);
  const int64_t n = layer.hidden;
  const Kernel& kernel = kernel_of(kGruBackward, layer.dtype);
  MatmulArgs product = layer.product(3 * n, n, w_hh, n);
  product.beta = 1;
  GruBackwardArguments a{};
  a.units = layer.units();
  a.from_hidden = product.c.data = grad_hx.impl()->data();
  for (int64_t t = layer.steps; t-- > 0;) {
    a.last = t == layer.steps - 1;
    a.grad_output = layer.at(grad_output, t, n);
    a.before = layer.before(output, hx, t);
    a.gates = layer.at(gates, t, 4 * n);
    a.grad_gates = layer.at(grad_gates, t, 3 * n);
    product.a.data = a.grad_hidden = layer.at(grad_hidden, t, 3 * n);
    launch_step(kernel, a, work);
    matmul(product, work);
  }
}

const KernelRegistration lstm_registration(OpId::_lstm_layer, DeviceType::CUDA, &lstm_gpu);
const KernelRegistration lstm_backward_registration(OpId::_lstm_layer_backward, DeviceType::CUDA, &lstm_backward_gpu);
const KernelRegistration gru_registration(OpId::_gru_layer, DeviceType::CUDA, &gru_gpu);
const KernelRegistration gru_backward_registration(OpId::_gru_layer_backward, DeviceType::CUDA, &gru_backward_gpu);

}  // namespace
}  // namespace facula::gpu
