// Recurrent networks: layers and directions around one primitive for each kind of layer, and single steps. The input's part of all gates is one matrix product
// for the whole sequence; the primitive adds the hidden state's part step by step.
#include "cpu/rnn.h"

#include "ops/backward_by_ops.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

#include <algorithm>

namespace facula::meaning {
namespace {

Tensor ready(const Tensor& t, ScalarType work) { return t.defined() ? as_contiguous(as_dtype(t, work)) : t; }
// The transpose of the hidden weights. The CPU reads its rows at every step; a GPU's products take it as it lies.
Tensor turned(const Tensor& w_hh, ScalarType work) {
  return w_hh.device().is_cpu() ? ready(w_hh.t(), work) : ready(w_hh, work).t();
}

// A layer's tensors: (T, B, gates H), (gates H, H), (B, H).
void check_layer(const Tensor& gates_input, const Tensor& w_hh, const Tensor& hx, int64_t gates, const char* op) {
  const TensorImpl &x = impl_of(gates_input, op), &w = impl_of(w_hh, op), &h = impl_of(hx, op);
  FACULA_CHECK(is_computed_float(x.dtype), DTypeError, op, ": not implemented for '", toString(x.dtype),
               "'. Convert the tensors to float, double, half or bfloat16 first");
  FACULA_CHECK(x.dtype == w.dtype && x.dtype == h.dtype, DTypeError, op, ": input (", toString(x.dtype), "), weight (",
               toString(w.dtype), ") and state (", toString(h.dtype), ") must have one dtype");
  FACULA_CHECK(x.dim() == 3 && w.dim() == 2 && h.dim() == 2 && w.sizes[0] == gates * w.sizes[1] &&
                   x.sizes[2] == w.sizes[0] && h.sizes[0] == x.sizes[1] && h.sizes[1] == w.sizes[1],
               ShapeError, op, ": gates of the input ", to_text(IntArrayRef(x.sizes)), ", hidden weight ",
               to_text(IntArrayRef(w.sizes)), " and first state ", to_text(IntArrayRef(h.sizes)),
               " do not fit: expected (length, batch, ", gates, " hidden), (", gates,
               " hidden, hidden) and (batch, hidden)");
  same_device({&gates_input, &w_hh, &hx}, op);
}

Tensor part(const Tensor& gates, int64_t which, int64_t hidden) { return gates.narrow(-1, which * hidden, hidden); }

// Steps as they were computed, as a tensor in the order of the sequence.
Tensor in_order(std::vector<Tensor> steps, bool reverse) {
  if (reverse) std::reverse(steps.begin(), steps.end());
  return facula::stack(steps, 0);
}

// The hidden states before each step, in the order of the sequence: (T B, H).
Tensor states_before(const Tensor& output, const Tensor& hx, bool reverse) {
  const int64_t steps = output.size(0);
  const Tensor first = hx.unsqueeze(0);
  const Tensor all = reverse ? facula::cat({output.narrow(0, 1, steps - 1), first}, 0)
                             : facula::cat({first, output.narrow(0, 0, steps - 1)}, 0);
  return all.reshape({-1, hx.size(1)});
}

Tensor rows_of(const Tensor& t) { return t.reshape({-1, t.size(-1)}); }

}  // namespace

std::tuple<Tensor, Tensor, Tensor> _lstm_layer(const Tensor& gates_input, const Tensor& w_hh, const Tensor& hx,
                                               const Tensor& cx, bool reverse) {
  const char* op = "lstm";
  check_layer(gates_input, w_hh, hx, 4, op);
  FACULA_CHECK(impl_of(cx, op).dtype == hx.scalar_type() && cx.sizes() == hx.sizes(), ShapeError, op,
               ": the first cell state ", to_text(cx.sizes()), " must be like the first hidden state ",
               to_text(hx.sizes()));
  same_device({&hx, &cx}, op);
  const TensorImpl& x = *gates_input.impl();
  const ScalarType work = working_dtype(x.dtype);
  const DimVector states = {x.sizes[0], x.sizes[1], x.sizes[2] / 4};
  Tensor output = new_tensor(states, work, x.device, op), cells = new_tensor(states, work, x.device, op),
         gates = new_tensor(x.sizes, work, x.device, op);
  if (!x.device.is_meta() && x.numel > 0)
    call_kernel<LstmKernel>(OpId::_lstm_layer, x.device.type(), ready(gates_input, work), turned(w_hh, work),
                            ready(hx, work), ready(cx, work), reverse, output, cells, gates);
  return {as_dtype(output, x.dtype), as_dtype(cells, x.dtype), as_dtype(gates, x.dtype)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> _lstm_layer_backward(const Tensor& grad_output, const Tensor& grad_cells,
                                                                const Tensor& gates_input, const Tensor& w_hh,
                                                                const Tensor& hx, const Tensor& cx, bool reverse,
                                                                const Tensor& output, const Tensor& cells,
                                                                const Tensor& gates) {
  const char* op = "_lstm_layer_backward";
  check_layer(gates_input, w_hh, hx, 4, op);
  FACULA_CHECK(grad_output.defined() && grad_output.sizes() == output.sizes(), ShapeError, op,
               ": the gradient must have the output's shape ", to_text(output.sizes()));
  same_device({&hx, &cx, &grad_output, grad_cells.defined() ? &grad_cells : nullptr, &output, &cells, &gates}, op);
  const Device device = gates_input.device();
  const ScalarType dtype = gates_input.scalar_type(), work = working_dtype(dtype);
  if (!vjp::watched(grad_output, grad_cells, gates_input, w_hh, hx, cx, output, cells, gates) && !device.is_meta() &&
      gates_input.numel() > 0) {
    Tensor gx = new_tensor(gates_input.sizes(), work, device, op), gh = new_tensor(hx.sizes(), work, device, op),
           gc = new_tensor(cx.sizes(), work, device, op);
    call_kernel<LstmBackwardKernel>(OpId::_lstm_layer_backward, device.type(), ready(grad_output, work),
                                    ready(grad_cells, work), ready(w_hh, work), ready(cx, work), reverse,
                                    ready(cells, work), ready(gates, work), gx, gh, gc);
    const Tensor gw = rows_of(gx).t().mm(states_before(ready(output, work), ready(hx, work), reverse));
    return {as_dtype(gx, dtype), as_dtype(gw, dtype), as_dtype(gh, dtype), as_dtype(gc, dtype)};
  }
  const auto wide = [&](const Tensor& t) { return t.defined() ? t.to(work) : t; };
  const auto [gx, gw, gh, gc] =
      lstm_backward_by_ops(wide(grad_output), wide(grad_cells), Tensor(), wide(w_hh), wide(hx), wide(cx), reverse,
                           wide(output), wide(cells), wide(gates));
  return {gx.to(dtype), gw.to(dtype), gh.to(dtype), gc.to(dtype)};
}

std::tuple<Tensor, Tensor> _gru_layer(const Tensor& gates_input, const Tensor& w_hh, const std::optional<Tensor>& b_hh,
                                      const Tensor& hx, bool reverse) {
  const char* op = "gru";
  check_layer(gates_input, w_hh, hx, 3, op);
  FACULA_CHECK(!present(b_hh) ||
                   (b_hh->dim() == 1 && b_hh->size(0) == w_hh.size(0) && b_hh->scalar_type() == w_hh.scalar_type()),
               ShapeError, op, ": the hidden bias must have ", w_hh.size(0), " entries of the weight's dtype");
  if (present(b_hh)) same_device({&hx, &*b_hh}, op);
  const TensorImpl& x = *gates_input.impl();
  const ScalarType work = working_dtype(x.dtype);
  const int64_t n = hx.size(1);
  Tensor output = new_tensor({x.sizes[0], x.sizes[1], n}, work, x.device, op),
         gates = new_tensor({x.sizes[0], x.sizes[1], 4 * n}, work, x.device, op);
  if (!x.device.is_meta() && x.numel > 0)
    call_kernel<GruKernel>(OpId::_gru_layer, x.device.type(), ready(gates_input, work), turned(w_hh, work),
                           present(b_hh) ? ready(*b_hh, work) : Tensor(), ready(hx, work), reverse, output, gates);
  return {as_dtype(output, x.dtype), as_dtype(gates, x.dtype)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> _gru_layer_backward(const Tensor& grad_output, const Tensor& gates_input,
                                                               const Tensor& w_hh, const std::optional<Tensor>& b_hh,
                                                               const Tensor& hx, bool reverse, const Tensor& output,
                                                               const Tensor& gates) {
  const char* op = "_gru_layer_backward";
  check_layer(gates_input, w_hh, hx, 3, op);
  FACULA_CHECK(grad_output.defined() && grad_output.sizes() == output.sizes(), ShapeError, op,
               ": the gradient must have the output's shape ", to_text(output.sizes()));
  same_device({&hx, present(b_hh) ? &*b_hh : nullptr, &grad_output, &output, &gates}, op);
  const Device device = gates_input.device();
  const ScalarType dtype = gates_input.scalar_type(), work = working_dtype(dtype);
  if (!vjp::watched(grad_output, gates_input, w_hh, b_hh, hx, output, gates) && !device.is_meta() &&
      gates_input.numel() > 0) {
    Tensor gx = new_tensor(gates_input.sizes(), work, device, op),
           to_hidden = new_tensor(gates_input.sizes(), work, device, op), gh = new_tensor(hx.sizes(), work, device, op);
    call_kernel<GruBackwardKernel>(OpId::_gru_layer_backward, device.type(), ready(grad_output, work),
                                   ready(w_hh, work), ready(hx, work), reverse, ready(output, work), ready(gates, work),
                                   gx, to_hidden, gh);
    const Tensor rows = rows_of(to_hidden),
                 gw = rows.t().mm(states_before(ready(output, work), ready(hx, work), reverse));
    return {as_dtype(gx, dtype), as_dtype(gw, dtype), as_dtype(rows.sum(0), dtype), as_dtype(gh, dtype)};
  }
  const auto wide = [&](const Tensor& t) { return t.to(work); };
  const auto [gx, gw, gb, gh] =
      gru_backward_by_ops(wide(grad_output), Tensor(), wide(w_hh), wide(hx), reverse, wide(output), wide(gates));
  return {gx.to(dtype), gw.to(dtype), gb.to(dtype), gh.to(dtype)};
}

namespace {

// Whole networks.

struct Network {
  int64_t layers, directions;
  bool biases, batch_first;
  double dropout;
  bool train;
};

// The tensors of one direction of one layer.
struct Weights {
  Tensor w_ih, w_hh;
  std::optional<Tensor> b_ih, b_hh;
};

Weights weights_of(TensorList params, const Network& net, int64_t index) {
  const size_t each = net.biases ? 4 : 2, first = usize(index) * each;
  Weights w{params[first], params[first + 1], std::nullopt, std::nullopt};
  if (net.biases) {
    w.b_ih = params[first + 2];
    w.b_hh = params[first + 3];
  }
  return w;
}

void check_network(const Tensor& input, const Tensor& hx, TensorList params, const Network& net, int64_t gates,
                   const char* op) {
  const TensorImpl &x = impl_of(input, op), &h = impl_of(hx, op);
  FACULA_CHECK(x.dim() == 3, ShapeError, op, ": Expected input to be 3-dimensional (",
               net.batch_first ? "batch, length" : "length, batch", ", features), got ", to_text(IntArrayRef(x.sizes)));
  FACULA_CHECK(net.layers > 0, ValueError, op, ": num_layers must be positive, got ", net.layers);
  FACULA_CHECK(net.dropout >= 0 && net.dropout <= 1, ValueError, op,
               ": dropout should be a number in range [0, 1], got ", net.dropout);
  const size_t each = net.biases ? 4 : 2, wanted = usize(net.layers * net.directions) * each;
  FACULA_CHECK(params.size() == wanted, ValueError, op, ": expected ", wanted, " weights (", each, " for each of ",
               net.layers, " layers and ", net.directions, " directions), got ", params.size());
  for (const Tensor& p : params) FACULA_CHECK(p.defined(), ValueError, op, ": a weight is an undefined tensor");
  FACULA_CHECK(params[1].dim() == 2, ShapeError, op, ": the hidden weight must be a matrix, got ",
               to_text(params[1].sizes()));
  const int64_t batch = x.sizes[net.batch_first ? 0 : 1], hidden = params[1].size(1);
  const DimVector state = {net.layers * net.directions, batch, hidden};
  FACULA_CHECK(IntArrayRef(h.sizes) == IntArrayRef(state), ShapeError, op, ": Expected hidden size ",
               to_text(IntArrayRef(state)), ", got ", to_text(IntArrayRef(h.sizes)));
  int64_t features = x.sizes[2];
  for (int64_t l = 0; l < net.layers * net.directions; ++l) {
    const Weights w = weights_of(params, net, l);
    const DimVector wi = {gates * hidden, l < net.directions ? features : hidden * net.directions},
                    wh = {gates * hidden, hidden};
    FACULA_CHECK(w.w_ih.sizes() == IntArrayRef(wi), ShapeError, op, ": the input weight of layer ", l / net.directions,
                 " must have the shape ", to_text(IntArrayRef(wi)), " (the input has ", wi[1], " features), got ",
                 to_text(w.w_ih.sizes()));
    FACULA_CHECK(w.w_hh.sizes() == IntArrayRef(wh), ShapeError, op, ": the hidden weight of layer ", l / net.directions,
                 " must have the shape ", to_text(IntArrayRef(wh)), ", got ", to_text(w.w_hh.sizes()));
  }
}

// Runs `layer(input, weights, index, reverse)` over all layers and directions; gives the last layer's output.
template <class Layer>
Tensor run_layers(const Tensor& input, TensorList params, const Network& net, const Layer& layer) {
  Tensor x = net.batch_first ? input.transpose(0, 1) : input;
  for (int64_t l = 0; l < net.layers; ++l) {
    std::vector<Tensor> made;
    for (int64_t d = 0; d < net.directions; ++d) {
      const int64_t index = l * net.directions + d;
      made.push_back(layer(x, weights_of(params, net, index), index, d == 1));
    }
    x = made.size() == 1 ? made[0] : facula::cat(made, -1);
    if (net.dropout > 0 && net.train && l + 1 < net.layers) x = facula::dropout(x, net.dropout, true);
  }
  return net.batch_first ? x.transpose(0, 1) : x;
}

// The state after the last step.
Tensor last_state(const Tensor& states, bool reverse, const Tensor& first) {
  if (states.size(0) == 0) return first;
  return states.select(0, reverse ? 0 : states.size(0) - 1);
}

template <class Step>
std::tuple<Tensor, Tensor> simple_network(const Tensor& input, const Tensor& hx, TensorList params, const Network& net,
                                          const char* op, const Step& step) {
  check_network(input, hx, params, net, 1, op);
  std::vector<Tensor> last;
  const Tensor output =
      run_layers(input, params, net, [&](const Tensor& x, const Weights& w, int64_t index, bool reverse) {
        const Tensor sums = facula::linear(x, w.w_ih, w.b_ih);
        Tensor h = hx.select(0, index);
        std::vector<Tensor> states;
        const int64_t steps = x.size(0);
        for (int64_t t = 0; t < steps; ++t) {
          h = step(sums.select(0, reverse ? steps - 1 - t : t) + facula::linear(h, w.w_hh, w.b_hh));
          states.push_back(h);
        }
        last.push_back(h);
        return steps == 0 ? x.new_zeros({0, x.size(1), h.size(1)}) : in_order(states, reverse);
      });
  return {output, facula::stack(last, 0)};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                                        int64_t num_layers, double dropout, bool train, bool bidirectional,
                                        bool batch_first) {
  FACULA_CHECK(hx.size() == 2, ValueError, "lstm: expects two hidden states, got ", hx.size());
  const Network net{num_layers, bidirectional ? 2 : 1, has_biases, batch_first, dropout, train};
  check_network(input, hx[0], params, net, 4, "lstm");
  FACULA_CHECK(hx[1].defined() && hx[1].sizes() == hx[0].sizes(), ShapeError, "lstm: Expected cell size ",
               to_text(hx[0].sizes()), ", got ", to_text(hx[1].sizes()));
  std::vector<Tensor> last_h, last_c;
  const Tensor output =
      run_layers(input, params, net, [&](const Tensor& x, const Weights& w, int64_t index, bool reverse) {
        std::optional<Tensor> bias;
        if (has_biases) bias = *w.b_ih + *w.b_hh;
        const Tensor h0 = hx[0].select(0, index), c0 = hx[1].select(0, index);
        const auto [states, cells, gates] =
            facula::_lstm_layer(facula::linear(x, w.w_ih, bias), w.w_hh, h0, c0, reverse);
        last_h.push_back(last_state(states, reverse, h0));
        last_c.push_back(last_state(cells, reverse, c0));
        return states;
      });
  return {output, facula::stack(last_h, 0), facula::stack(last_c, 0)};
}

std::tuple<Tensor, Tensor> gru(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
                               int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first) {
  const Network net{num_layers, bidirectional ? 2 : 1, has_biases, batch_first, dropout, train};
  check_network(input, hx, params, net, 3, "gru");
  std::vector<Tensor> last;
  const Tensor output =
      run_layers(input, params, net, [&](const Tensor& x, const Weights& w, int64_t index, bool reverse) {
        const Tensor h0 = hx.select(0, index);
        const auto [states, gates] = facula::_gru_layer(facula::linear(x, w.w_ih, w.b_ih), w.w_hh, w.b_hh, h0, reverse);
        last.push_back(last_state(states, reverse, h0));
        return states;
      });
  return {output, facula::stack(last, 0)};
}

std::tuple<Tensor, Tensor> rnn_tanh(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train, bool bidirectional,
                                    bool batch_first) {
  const Network net{num_layers, bidirectional ? 2 : 1, has_biases, batch_first, dropout, train};
  return simple_network(input, hx, params, net, "rnn_tanh", [](const Tensor& sums) { return sums.tanh(); });
}

std::tuple<Tensor, Tensor> rnn_relu(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
                                    int64_t num_layers, double dropout, bool train, bool bidirectional,
                                    bool batch_first) {
  const Network net{num_layers, bidirectional ? 2 : 1, has_biases, batch_first, dropout, train};
  return simple_network(input, hx, params, net, "rnn_relu", [](const Tensor& sums) { return sums.relu(); });
}

namespace {

// One sample may come without a batch.
void check_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, int64_t gates,
                const char* op) {
  const TensorImpl &x = impl_of(input, op), &h = impl_of(hx, op), &wi = impl_of(w_ih, op), &wh = impl_of(w_hh, op);
  FACULA_CHECK((x.dim() == 1 || x.dim() == 2) && h.dim() == x.dim(), ShapeError, op,
               ": Expected input to be 1D or 2D and the state alike, got ", to_text(IntArrayRef(x.sizes)), " and ",
               to_text(IntArrayRef(h.sizes)));
  FACULA_CHECK(wi.dim() == 2 && wh.dim() == 2 && wi.sizes[1] == x.sizes.back() && wh.sizes[1] == h.sizes.back() &&
                   wi.sizes[0] == gates * h.sizes.back() && wh.sizes[0] == wi.sizes[0],
               ShapeError, op, ": weights ", to_text(IntArrayRef(wi.sizes)), " and ", to_text(IntArrayRef(wh.sizes)),
               " do not fit input ", to_text(IntArrayRef(x.sizes)), " and state ", to_text(IntArrayRef(h.sizes)));
}

}  // namespace

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, TensorList hx, const Tensor& w_ih, const Tensor& w_hh,
                                     const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  FACULA_CHECK(hx.size() == 2, ValueError, "lstm_cell: expects two hidden states, got ", hx.size());
  check_cell(input, hx[0], w_ih, w_hh, 4, "lstm_cell");
  const bool single = input.dim() == 1;
  const Tensor sums = facula::linear(input, w_ih, b_ih) + (present(b_hh) ? *b_hh : facula::zeros({1}, input.options()));
  const auto batched = [&](const Tensor& t) { return single ? t.unsqueeze(0) : t; };
  const auto [states, cells, gates] =
      facula::_lstm_layer(batched(sums).unsqueeze(0), w_hh, batched(hx[0]), batched(hx[1]), false);
  const Tensor h = states.select(0, 0), c = cells.select(0, 0);
  return {single ? h.squeeze(0) : h, single ? c.squeeze(0) : c};
}

Tensor gru_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  check_cell(input, hx, w_ih, w_hh, 3, "gru_cell");
  const bool single = input.dim() == 1;
  const Tensor sums = facula::linear(input, w_ih, b_ih);
  const auto batched = [&](const Tensor& t) { return single ? t.unsqueeze(0) : t; };
  const Tensor h =
      std::get<0>(facula::_gru_layer(batched(sums).unsqueeze(0), w_hh, b_hh, batched(hx), false)).select(0, 0);
  return single ? h.squeeze(0) : h;
}

Tensor rnn_tanh_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  check_cell(input, hx, w_ih, w_hh, 1, "rnn_tanh_cell");
  return (facula::linear(input, w_ih, b_ih) + facula::linear(hx, w_hh, b_hh)).tanh();
}

Tensor rnn_relu_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                     const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  check_cell(input, hx, w_ih, w_hh, 1, "rnn_relu_cell");
  return (facula::linear(input, w_ih, b_ih) + facula::linear(hx, w_hh, b_hh)).relu();
}

}  // namespace facula::meaning

namespace facula {

using meaning::in_order;
using meaning::part;

std::array<Tensor, 4> lstm_backward_by_ops(const Tensor& grad_output, const Tensor& grad_cells,
                                           const Tensor& grad_gates, const Tensor& w_hh, const Tensor& hx,
                                           const Tensor& cx, bool reverse, const Tensor& output, const Tensor& cells,
                                           const Tensor& gates) {
  const int64_t steps = output.size(0), n = hx.size(1);
  if (steps == 0)
    return {facula::zeros_like(gates), facula::zeros_like(w_hh), facula::zeros_like(hx), facula::zeros_like(cx)};
  Tensor dh = facula::zeros_like(hx), dc = facula::zeros_like(cx), gw = facula::zeros_like(w_hh);
  std::vector<Tensor> slopes(usize(steps));
  for (int64_t t = steps; t-- > 0;) {
    const int64_t place = reverse ? steps - 1 - t : t, earlier = reverse ? place + 1 : place - 1;
    const Tensor all = gates.select(0, place), i = part(all, 0, n), f = part(all, 1, n), g = part(all, 2, n),
                 o = part(all, 3, n);
    const Tensor turned = cells.select(0, place).tanh();
    const Tensor c_before = t == 0 ? cx : cells.select(0, earlier), h_before = t == 0 ? hx : output.select(0, earlier);
    const Tensor d = dh + grad_output.select(0, place);
    Tensor cell = dc + d * o * (1 - turned * turned);
    if (grad_cells.defined()) cell = cell + grad_cells.select(0, place);
    Tensor of_gates = facula::cat({cell * g, cell * c_before, cell * i, d * turned}, -1);
    if (grad_gates.defined()) of_gates = of_gates + grad_gates.select(0, place);
    slopes[usize(t)] = of_gates * facula::cat({i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)}, -1);
    dc = cell * f;
    dh = slopes[usize(t)].matmul(w_hh);
    gw = gw + slopes[usize(t)].t().matmul(h_before);
  }
  return {in_order(slopes, reverse), gw, dh, dc};
}

std::array<Tensor, 4> gru_backward_by_ops(const Tensor& grad_output, const Tensor& grad_gates, const Tensor& w_hh,
                                          const Tensor& hx, bool reverse, const Tensor& output, const Tensor& gates) {
  const int64_t steps = output.size(0), n = hx.size(1);
  Tensor dh = facula::zeros_like(hx), gw = facula::zeros_like(w_hh), gb = facula::zeros({3 * n}, w_hh.options());
  if (steps == 0) return {facula::zeros({0, hx.size(0), 3 * n}, w_hh.options()), gw, gb, dh};
  std::vector<Tensor> slopes(usize(steps));
  for (int64_t t = steps; t-- > 0;) {
    const int64_t place = reverse ? steps - 1 - t : t, earlier = reverse ? place + 1 : place - 1;
    const Tensor all = gates.select(0, place), r = part(all, 0, n), z = part(all, 1, n), fresh = part(all, 2, n),
                 own = part(all, 3, n);
    const Tensor before = t == 0 ? hx : output.select(0, earlier), d = dh + grad_output.select(0, place);
    Tensor of_fresh = d * (1 - z), of_update = d * (before - fresh), of_reset, of_own;
    const Tensor more = grad_gates.defined() ? grad_gates.select(0, place) : Tensor();
    if (more.defined()) of_fresh = of_fresh + part(more, 2, n), of_update = of_update + part(more, 1, n);
    const Tensor dn = of_fresh * (1 - fresh * fresh), dz = of_update * z * (1 - z);
    of_reset = dn * own;
    of_own = dn * r;
    if (more.defined()) of_reset = of_reset + part(more, 0, n), of_own = of_own + part(more, 3, n);
    const Tensor dr = of_reset * r * (1 - r);
    slopes[usize(t)] = facula::cat({dr, dz, dn}, -1);
    const Tensor hidden = facula::cat({dr, dz, of_own}, -1);
    dh = d * z + hidden.matmul(w_hh);
    gw = gw + hidden.t().matmul(before);
    gb = gb + hidden.sum(0);
  }
  return {in_order(slopes, reverse), gw, gb, dh};
}

}  // namespace facula
