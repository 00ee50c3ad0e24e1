// What is written by hand of recurrent networks: their weights by layer and direction, and how states come and go.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/generated/rnn.h>
#include <facula/nn/init.h>

#include <cmath>

namespace facula::nn {
namespace {

// The weights of all layers, registered as weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ...
template <class Impl>
std::vector<Tensor> registered_weights(Impl& module, int64_t gates) {
  const auto& options = module.options;
  const int64_t rows = gates * options.hidden_size();
  std::vector<Tensor> all;
  for (int64_t layer = 0; layer < options.num_layers(); ++layer)
    for (const char* direction : {"", "_reverse"}) {
      if (*direction && !options.bidirectional()) continue;
      const int64_t width =
          layer == 0 ? options.input_size() : options.hidden_size() * (options.bidirectional() ? 2 : 1);
      const std::string end = str("_l", layer, direction);
      all.push_back(module.register_parameter("weight_ih" + end, facula::empty({rows, width})));
      all.push_back(module.register_parameter("weight_hh" + end, facula::empty({rows, options.hidden_size()})));
      if (!options.bias()) continue;
      all.push_back(module.register_parameter("bias_ih" + end, facula::empty({rows})));
      all.push_back(module.register_parameter("bias_hh" + end, facula::empty({rows})));
    }
  return all;
}

void draw(const std::vector<Tensor>& weights, int64_t hidden_size) {
  for (const Tensor& weight : weights) init::uniform_by_(weight, hidden_size);
}

// What a call is about: sequences with a batch, and where it came from.
struct Sequences {
  Tensor input;
  bool batched = true;
  std::vector<int64_t> state_sizes;
};

template <class Options>
Sequences sequences(const Tensor& input, const Options& options) {
  FACULA_CHECK(input.defined(), ValueError, "rnn: the input is an undefined tensor");
  FACULA_CHECK(input.dim() == 2 || input.dim() == 3, ShapeError,
               "rnn: Expected input to be 2D or 3D, (length, batch, features) or (length, features), got ", input.dim(),
               "D instead");
  FACULA_CHECK(input.size(-1) == options.input_size(), ShapeError,
               "rnn: input.size(-1) must be equal to input_size. Expected ", options.input_size(), ", got ",
               input.size(-1));
  Sequences made{input, input.dim() == 3, {}};
  const int64_t batch_dim = options.batch_first() ? 0 : 1;
  if (!made.batched) made.input = input.unsqueeze(batch_dim);
  made.state_sizes = {options.num_layers() * (options.bidirectional() ? 2 : 1), made.input.size(batch_dim),
                      options.hidden_size()};
  return made;
}

// A state as it was given, with a batch, or zeros.
Tensor state_or_zeros(const Sequences& about, const Tensor& state, const char* name) {
  if (!state.defined()) return facula::zeros(about.state_sizes, about.input.options().requires_grad(false));
  const Tensor made = about.batched || state.dim() == 3 ? state : state.unsqueeze(1);
  FACULA_CHECK(made.sizes() == IntArrayRef(about.state_sizes), ShapeError, "rnn: Expected ", name, " of sizes ",
               to_text(IntArrayRef(about.state_sizes)), " (layers times directions, batch, hidden_size), got ",
               to_text(state.sizes()));
  return made;
}

Tensor without_batch(const Sequences& about, const Tensor& tensor, int64_t dim) {
  return about.batched ? tensor : tensor.squeeze(dim);
}

// Runs a call; what goes wrong names the module and the sizes.
template <class Impl, class Call>
auto in_module(const Impl& module, const Tensor& input, Call call) {
  try {
    return call();
  } catch (const Error& error) {
    rethrow_in_module(module, error, {{"input", input, -1, "input_size", IntArrayRef(module.options.input_size())}});
  }
}

// RNN and GRU: one state.
template <class Impl, class Op>
std::tuple<Tensor, Tensor> run_with_one_state(Impl& module, const Tensor& input, const Tensor& hx, Op op) {
  return in_module(module, input, [&] {
    const auto& options = module.options;
    const Sequences about = sequences(input, options);
    const auto [output, state] = op(about.input, state_or_zeros(about, hx, "hidden state"), module.all_weights(),
                                    options.bias(), options.num_layers(), options.dropout(), module.is_training(),
                                    options.bidirectional(), options.batch_first());
    return std::tuple(without_batch(about, output, options.batch_first() ? 0 : 1), without_batch(about, state, 1));
  });
}

// The input of a cell with a batch, and its state or zeros.
template <class Options>
std::pair<Tensor, Tensor> cell_arguments(const char* cell, const Tensor& input, const Tensor& hx,
                                         const Options& options) {
  FACULA_CHECK(input.defined() && (input.dim() == 1 || input.dim() == 2), ShapeError, cell,
               ": Expected input to be 1D or 2D, got ", input.defined() ? input.dim() : 0, "D instead");
  FACULA_CHECK(input.size(-1) == options.input_size(), ShapeError, cell, ": input has inconsistent input_size: got ",
               input.size(-1), ", expected ", options.input_size());
  const Tensor batched = input.dim() == 1 ? input.unsqueeze(0) : input;
  if (!hx.defined())
    return {batched, facula::zeros({batched.size(0), options.hidden_size()}, batched.options().requires_grad(false))};
  const Tensor state = hx.dim() == 1 ? hx.unsqueeze(0) : hx;
  FACULA_CHECK(state.sizes() == IntArrayRef({batched.size(0), options.hidden_size()}), ShapeError, cell,
               ": the hidden state of sizes ", to_text(hx.sizes()), " does not fit the batch of ", batched.size(0),
               " and hidden_size=", options.hidden_size());
  return {batched, state};
}

Tensor as_given(const Tensor& input, const Tensor& state) { return input.dim() == 1 ? state.squeeze(0) : state; }

}  // namespace

void RNNImpl::reset() {
  weights_ = registered_weights(*this, 1);
  reset_parameters();
}
void LSTMImpl::reset() {
  weights_ = registered_weights(*this, 4);
  reset_parameters();
}
void GRUImpl::reset() {
  weights_ = registered_weights(*this, 3);
  reset_parameters();
}
void RNNImpl::reset_parameters() { draw(weights_, options.hidden_size()); }
void LSTMImpl::reset_parameters() { draw(weights_, options.hidden_size()); }
void GRUImpl::reset_parameters() { draw(weights_, options.hidden_size()); }

std::tuple<Tensor, Tensor> RNNImpl::forward(const Tensor& input, Tensor hx) {
  return run_with_one_state(*this, input, hx, [&](const auto&... args) {
    return holds_alternative<enumtype::kTanh>(options.nonlinearity()) ? facula::rnn_tanh(args...)
                                                                      : facula::rnn_relu(args...);
  });
}

std::tuple<Tensor, Tensor> GRUImpl::forward(const Tensor& input, Tensor hx) {
  return run_with_one_state(*this, input, hx, [](const auto&... args) { return facula::gru(args...); });
}

std::tuple<Tensor, std::tuple<Tensor, Tensor>> LSTMImpl::forward(const Tensor& input,
                                                                 std::optional<std::tuple<Tensor, Tensor>> hx_opt) {
  return in_module(*this, input, [&] {
    const Sequences about = sequences(input, options);
    const auto [h, c] = hx_opt.value_or(std::tuple(Tensor(), Tensor()));
    const std::vector<Tensor> states = {state_or_zeros(about, h, "hx[0]"), state_or_zeros(about, c, "hx[1]")};
    const auto [output, last, cells] =
        facula::lstm(about.input, states, weights_, options.bias(), options.num_layers(), options.dropout(),
                     is_training(), options.bidirectional(), options.batch_first());
    return std::tuple(without_batch(about, output, options.batch_first() ? 0 : 1),
                      std::tuple(without_batch(about, last, 1), without_batch(about, cells, 1)));
  });
}

Tensor RNNCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return in_module(*this, input, [&] {
    const auto [x, state] = cell_arguments("RNNCell", input, hx, options);
    const bool tanh = holds_alternative<enumtype::kTanh>(options.nonlinearity());
    const auto step = [&, &x = x, &state = state](auto cell) {
      return cell(x, state, weight_ih, weight_hh, given(bias_ih), given(bias_hh));
    };
    const auto tanh_cell = [](const auto&... args) { return facula::rnn_tanh_cell(args...); };
    const auto relu_cell = [](const auto&... args) { return facula::rnn_relu_cell(args...); };
    return as_given(input, tanh ? step(tanh_cell) : step(relu_cell));
  });
}

Tensor GRUCellImpl::forward(const Tensor& input, const Tensor& hx) {
  return in_module(*this, input, [&] {
    const auto [x, state] = cell_arguments("GRUCell", input, hx, options);
    return as_given(input, facula::gru_cell(x, state, weight_ih, weight_hh, given(bias_ih), given(bias_hh)));
  });
}

std::tuple<Tensor, Tensor> LSTMCellImpl::forward(const Tensor& input,
                                                 std::optional<std::tuple<Tensor, Tensor>> hx_opt) {
  return in_module(*this, input, [&] {
    const auto [h, c] = hx_opt.value_or(std::tuple(Tensor(), Tensor()));
    const auto [x, state] = cell_arguments("LSTMCell", input, h, options);
    const Tensor cells = cell_arguments("LSTMCell", input, c, options).second;
    const std::vector<Tensor> states = {state, cells};
    const auto [next, next_cells] = facula::lstm_cell(x, states, weight_ih, weight_hh, given(bias_ih), given(bias_hh));
    return std::tuple(as_given(input, next), as_given(input, next_cells));
  });
}

}  // namespace facula::nn
