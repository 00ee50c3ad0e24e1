// LSTM and GRU layers on a GPU against the CPU in double precision: networks of several layers and both directions with the gradients of
// all that they have, layers by themselves, graphs, and how many launches a step takes.
#include "closeness.h"
#include "libraries.h"

#include "gpu/matmul/matmul.h"

#include <facula/cuda.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include <unistd.h>

namespace facula::testing {
namespace {

class GpuRecurrent : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(test_seed()); }
};

struct Case {
  ScalarType dtype;
  int64_t steps, batch, features, hidden, layers;
  bool both_ways, bias, batch_first;
};

std::string name_of(const char* kind, const Case& c) {
  return words(kind, c.dtype, {c.steps, c.batch, c.features, c.hidden}, c.layers) + (c.both_ways ? ", both ways" : "") +
         (c.bias ? "" : ", without bias");
}

// What a network gives: output, last states, and the gradients of the input, the first states and all parameters.
using Results = std::vector<Tensor>;

Tensor leaf(const Tensor& t) { return t.detach().clone().requires_grad_(); }

// The sum of results, each with weights of its own, is what is learnt from.
template <class Network>
void learn(Network& net, const std::vector<Tensor>& outputs, const std::vector<Tensor>& weights,
           const std::vector<Tensor>& leaves, Results& results) {
  Tensor loss = (outputs[0] * weights[0]).sum();
  for (size_t k = 1; k < outputs.size(); ++k) loss = loss + (outputs[k] * weights[k]).sum();
  loss.backward();
  for (const Tensor& t : outputs) results.push_back(t.detach());
  for (const Tensor& t : leaves) results.push_back(t.grad());
  for (const Tensor& t : net->parameters()) results.push_back(t.grad());
}

template <class Network>
Results run(Network& net, const std::vector<Tensor>& inputs, const std::vector<Tensor>& weights) {
  std::vector<Tensor> leaves;
  for (const Tensor& t : inputs) leaves.push_back(leaf(t));
  Results results;
  if constexpr (std::is_same_v<Network, nn::LSTM>) {
    const auto [y, states] = net->forward(leaves[0], std::make_tuple(leaves[1], leaves[2]));
    learn(net, {y, std::get<0>(states), std::get<1>(states)}, weights, leaves, results);
  } else {
    const auto [y, state] = net->forward(leaves[0], leaves[1]);
    learn(net, {y, state}, weights, leaves, results);
  }
  return results;
}

std::vector<Tensor> as(const std::vector<Tensor>& list, const TensorOptions& options) {
  std::vector<Tensor> all;
  for (const Tensor& t : list) all.push_back(t.to(options));
  return all;
}

template <class Network, class Options>
void check(const Case& c) {
  constexpr bool kLstm = std::is_same_v<Network, nn::LSTM>;
  const std::string what = name_of(kLstm ? "LSTM" : "GRU", c);
  const auto options = Options(c.features, c.hidden)
                           .num_layers(c.layers)
                           .bidirectional(c.both_ways)
                           .bias(c.bias)
                           .batch_first(c.batch_first);
  Network host(options), device(options);
  host->to(c.dtype);
  device->to(c.dtype);
  {
    NoGradGuard no_grad;
    const auto from = host->parameters(), to = device->parameters();
    for (size_t k = 0; k < from.size(); ++k) to[k].copy_(from[k]);
  }
  host->to(kDouble);
  device->to(kGpu);
  const int64_t ways = c.both_ways ? 2 : 1;
  const std::vector<int64_t> state = {c.layers * ways, c.batch, c.hidden};
  std::vector<int64_t> sequence = {c.steps, c.batch, c.features};
  if (c.batch_first) std::swap(sequence[0], sequence[1]);
  std::vector<int64_t> output = sequence;
  output[2] = c.hidden * ways;
  std::vector<Tensor> inputs = {randn(sequence, c.dtype), randn(state, c.dtype)},
                      weights = {randn(output, c.dtype), randn(state, c.dtype)};
  if (kLstm) {
    inputs.push_back(randn(state, c.dtype));
    weights.push_back(randn(state, c.dtype));
  }
  const Results expected = run(host, as(inputs, kDouble), as(weights, kDouble));
  const Results got = run(device, as(inputs, kGpu), as(weights, kGpu));
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k)
    expect_close(got[k], expected[k].to(c.dtype), what + ", result " + std::to_string(k), 20);
}

TEST_F(GpuRecurrent, NetworksLikeTheCpu) {
  for (const ScalarType t : {kDouble, kFloat})
    for (const Case& c : {Case{t, 5, 3, 4, 7, 1, false, true, false}, Case{t, 4, 2, 5, 20, 2, true, true, true},
                          Case{t, 6, 5, 3, 33, 3, false, false, false}, Case{t, 1, 4, 2, 9, 2, true, true, false},
                          Case{t, 3, 1, 6, 300, 1, true, true, false}, Case{t, 7, 2, 1, 1, 2, false, true, false}}) {
      check<nn::LSTM, nn::LSTMOptions>(c);
      check<nn::GRU, nn::GRUOptions>(c);
    }
}

// A layer's tensors: the input's part of the gates, the hidden weights, and the states.
struct LayerInputs {
  Tensor x, w, b, h, c;
  LayerInputs(int64_t gates, int64_t steps, int64_t batch, int64_t hidden)
      : x(randn({steps, batch, gates * hidden})),
        w(randn({gates * hidden, hidden}) / 4),
        b(randn({gates * hidden})),
        h(randn({batch, hidden})),
        c(randn({batch, hidden})) {}
};

// A copy of `t` on the GPU that does not lie in order.
Tensor scattered(const Tensor& t) {
  Tensor room = zeros({t.numel() * 2 + 1}, t.options().device(kGpu));
  return room.slice(0, 1, room.size(0), 2).view(t.sizes()).copy_(t.to(kGpu));
}

TEST_F(GpuRecurrent, LayersOfScatteredTensors) {
  for (const ScalarType t : {kFloat, kHalf, kBFloat16, kDouble})
    for (const bool reverse : {false, true}) {
      const std::string what = std::string(toString(t)) + (reverse ? ", reverse" : "");
      const auto on_gpu = [&](const Tensor& a) { return scattered(a.to(t)); };
      const auto true_ = [&](const Tensor& a) { return a.to(t).to(kDouble); };
      const LayerInputs l(4, 4, 3, 11), g(3, 4, 3, 11);
      const auto [h, c, gates] = _lstm_layer(true_(l.x), true_(l.w), true_(l.h), true_(l.c), reverse);
      const auto [got_h, got_c, got_gates] = _lstm_layer(on_gpu(l.x), on_gpu(l.w), on_gpu(l.h), on_gpu(l.c), reverse);
      expect_close(got_h, h.to(t), "states, " + what, 4);
      expect_close(got_c, c.to(t), "cells, " + what, 4);
      expect_close(got_gates, gates.to(t), "gates, " + what, 4);
      for (const bool bias : {true, false}) {
        const auto [y, all] = _gru_layer(true_(g.x), true_(g.w), bias ? true_(g.b) : Tensor(), true_(g.h), reverse);
        const auto [got_y, got_all] =
            _gru_layer(on_gpu(g.x), on_gpu(g.w), bias ? on_gpu(g.b) : Tensor(), on_gpu(g.h), reverse);
        expect_close(got_y, y.to(t), "GRU, " + what, 4);
        expect_close(got_all, all.to(t), "gates of the GRU, " + what, 4);
      }
    }
}

// Without a gradient of the cell states.
TEST_F(GpuRecurrent, GradientsOfTheOutputAlone) {
  const LayerInputs l(4, 5, 2, 6);
  const Tensor by = randn({5, 2, 6});
  for (const bool reverse : {false, true}) {
    const auto slopes = [&](const TensorOptions& options) {
      std::vector<Tensor> leaves;
      for (const Tensor& t : {l.x, l.w, l.h, l.c}) leaves.push_back(leaf(t.to(options)));
      const auto states = _lstm_layer(leaves[0], leaves[1], leaves[2], leaves[3], reverse);
      (std::get<0>(states) * by.to(options)).sum().backward();
      return leaves;
    };
    const std::vector<Tensor> expected = slopes(kDouble), got = slopes(kGpu);
    for (size_t k = 0; k < got.size(); ++k)
      expect_close(got[k].grad(), expected[k].grad().to(kFloat), "gradient " + std::to_string(k), 4);
  }
}

TEST_F(GpuRecurrent, NothingToDo) {
  for (const std::array<int64_t, 3>& sizes :
       {std::array<int64_t, 3>{0, 2, 3}, std::array<int64_t, 3>{2, 0, 3}, std::array<int64_t, 3>{2, 3, 0}}) {
    const LayerInputs l(4, sizes[0], sizes[1], sizes[2]), g(3, sizes[0], sizes[1], sizes[2]);
    const Tensor x = leaf(l.x.to(kGpu)), w = leaf(l.w.to(kGpu));
    const auto states = _lstm_layer(x, w, l.h.to(kGpu), l.c.to(kGpu), false);
    EXPECT_EQ(std::get<0>(states).sizes(), IntArrayRef({sizes[0], sizes[1], sizes[2]}));
    std::get<0>(states).sum().backward();
    expect_equal(w.grad(), zeros(w.sizes()), "no steps");
    const Tensor y = std::get<0>(_gru_layer(g.x.to(kGpu), g.w.to(kGpu), g.b.to(kGpu), g.h.to(kGpu), true));
    EXPECT_EQ(y.sizes(), IntArrayRef({sizes[0], sizes[1], sizes[2]}));
  }
}

TEST_F(GpuRecurrent, TensorsOfOneDevice) {
  const LayerInputs l(4, 2, 3, 5), g(3, 2, 3, 5);
  EXPECT_THROW(_lstm_layer(l.x.to(kGpu), l.w.to(kGpu), l.h.to(kGpu), l.c, false), DeviceError);
  EXPECT_THROW(_gru_layer(g.x.to(kGpu), g.w.to(kGpu), g.b, g.h.to(kGpu), false), DeviceError);
}

// Forward and backward of a captured layer follow new numbers, with the bits of a call.
TEST_F(GpuRecurrent, IsCaptured) {
  const auto layer = [](const Tensor& x, const Tensor& w, const Tensor& h, const Tensor& c, const Tensor& by) {
    const auto [y, cells, gates] = _lstm_layer(x, w, h, c, true);
    const auto slopes = _lstm_layer_backward(by, Tensor(), x, w, h, c, true, y, cells, gates);
    return std::array<Tensor, 4>{y, std::get<0>(slopes), std::get<1>(slopes), std::get<2>(slopes)};
  };
  const LayerInputs l(4, 6, 3, 10);
  Tensor x = l.x.to(kGpu), by = randn({6, 3, 10}).to(kGpu);
  const Tensor w = l.w.to(kGpu), h = l.h.to(kGpu), c = l.c.to(kGpu);
  const auto before = layer(x, w, h, c, by);  // kernels are there
  cuda::CUDAGraph graph;
  std::array<Tensor, 4> captured;
  {
    cuda::GraphCapture capture(graph);
    captured = layer(x, w, h, c, by);
  }
  x.copy_(randn(x.sizes()));
  by.copy_(randn(by.sizes()));
  graph.replay();
  const auto expected = layer(x, w, h, c, by);
  for (size_t k = 0; k < captured.size(); ++k) {
    EXPECT_FALSE(captured[k].cpu().equal(before[k].cpu()));
    expect_equal(captured[k], expected[k].cpu(), "captured result " + std::to_string(k));
  }
}

TEST_F(GpuRecurrent, OnAnotherStream) {
  const LayerInputs l(4, 5, 2, 6);
  const Tensor expected =
      std::get<0>(_lstm_layer(l.x.to(kDouble), l.w.to(kDouble), l.h.to(kDouble), l.c.to(kDouble), false));
  const Tensor x = l.x.to(kGpu), w = l.w.to(kGpu), h = l.h.to(kGpu), c = l.c.to(kGpu);
  cuda::synchronize();
  Tensor got;
  {
    cuda::CUDAStreamGuard guard(cuda::getStreamFromPool());
    got = std::get<0>(_lstm_layer(x, w, h, c, false));
    cuda::synchronize();
  }
  expect_close(got, expected.to(kFloat), "another stream");
}

// Nodes of the graph of a call, whose products are our own.
int64_t launches(const std::function<void()>& call) {
  const BlasScope own(false);
  call();  // kernels are compiled outside of captures
  cuda::CUDAGraph graph;
  graph.enable_debug_mode();
  {
    cuda::GraphCapture capture(graph);
    call();
  }
  const std::string path = ::testing::TempDir() + "facula_rnn_" + std::to_string(getpid()) + ".dot";
  graph.debug_dump(path);
  std::ifstream file(path);
  int64_t found = 0;
  for (std::string line; std::getline(file, line);) found += line.find("label") != std::string::npos;
  std::remove(path.c_str());
  return found;
}

TEST_F(GpuRecurrent, TwoLaunchesAStep) {
  struct Counts {
    int64_t lstm, lstm_backward, gru, gru_backward;
  };
  for (const int64_t batch : {1, 4}) {
    const auto count = [&](int64_t steps) {
      const LayerInputs l(4, steps, batch, 12), g(3, steps, batch, 12);
      const Tensor x = l.x.to(kGpu), w = l.w.to(kGpu), h = l.h.to(kGpu), c = l.c.to(kGpu);
      const Tensor gru_x = g.x.to(kGpu), gru_w = g.w.to(kGpu), b = g.b.to(kGpu);
      const auto lstm = _lstm_layer(x, w, h, c, false);
      const auto gru = _gru_layer(gru_x, gru_w, b, h, false);
      return Counts{launches([&] { _lstm_layer(x, w, h, c, false); }), launches([&] {
                      const auto& [y, cells, gates] = lstm;
                      _lstm_layer_backward(y, cells, x, w, h, c, false, y, cells, gates);
                    }),
                    launches([&] { _gru_layer(gru_x, gru_w, b, h, false); }), launches([&] {
                      const auto& [y, gates] = gru;
                      _gru_layer_backward(y, gru_x, gru_w, b, h, false, y, gates);
                    })};
    };
    constexpr int64_t kSteps = 3, kMore = 8;
    const Counts few = count(kSteps), many = count(kSteps + kMore);
    EXPECT_EQ(many.lstm - few.lstm, 2 * kMore);
    EXPECT_EQ(many.lstm_backward - few.lstm_backward, 2 * kMore);
    EXPECT_EQ(many.gru - few.gru, 2 * kMore);
    EXPECT_EQ(many.gru_backward - few.gru_backward, 2 * kMore);
    EXPECT_LE(few.lstm, 2 * kSteps + 1);
    EXPECT_LE(few.gru_backward, 2 * kSteps + 8);
  }
}

}  // namespace
}  // namespace facula::testing
