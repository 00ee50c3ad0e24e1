// The modules: values against loops written out by hand in double, gradients against finite differences, and errors that name
// the module. How they print and what containers do is in nn_containers_test.cpp.
#include "cpp/expect.h"
#include "cpp/seed.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace {

using namespace facula;
using facula_test::expect_error;
namespace F = facula::nn::functional;

class Modules : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(facula_test::test_seed()); }
};

Tensor drawn(std::vector<int64_t> sizes) { return randn(sizes, kDouble); }

void expect_close(const Tensor& a, const Tensor& b, double tolerance = 1e-9) {
  SCOPED_TRACE(facula_test::seed_text());
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a.to(kDouble) - b.to(kDouble)).abs().max().item<double>(), tolerance);
}

// The derivatives of a module by its input and by all of its parameters.
template <class Holder>
void expect_gradients(Holder& module, const Tensor& input) {
  std::vector<Tensor> all = {input.clone().set_requires_grad(true)};
  for (const Tensor& p : module->parameters()) all.push_back(p);
  const auto call = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{module->forward(x[0])}; };
  EXPECT_TRUE(autograd::gradcheck(call, all)) << facula_test::seed_text();
}

double at(const Tensor& t, std::vector<int64_t> place) {
  Tensor one = t;
  for (int64_t i : place) one = one.select(0, i);
  return one.item<double>();
}

TEST_F(Modules, LinearIsAProductPlusABias) {
  nn::Linear linear(5, 3);
  linear->to(kDouble);
  const Tensor x = drawn({4, 5});
  const Tensor y = linear(x);
  Tensor wanted = zeros({4, 3}, kDouble);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t o = 0; o < 3; ++o) {
      double sum = at(linear->bias, {o});
      for (int64_t k = 0; k < 5; ++k) sum += at(x, {i, k}) * at(linear->weight, {o, k});
      wanted.select(0, i).select(0, o).fill_(sum);
    }
  expect_close(y, wanted);
  expect_gradients(linear, x);
  EXPECT_FALSE(nn::Linear(nn::LinearOptions(5, 3).bias(false))->bias.defined());
  // Uniform within 1 / sqrt(in_features), and not all the same.
  nn::Linear large(400, 300);
  for (const Tensor& p : {large->weight, large->bias}) {
    EXPECT_LE(p.abs().max().item<double>(), 1 / std::sqrt(400.0));
    EXPECT_NEAR(p.to(kDouble).std().item<double>(), 1 / std::sqrt(1200.0), 0.003);
  }
}

// Convolution by definition, for any groups, strides, dilations and borders.
Tensor convolved(const Tensor& x, const Tensor& w, const Tensor& bias, std::vector<int64_t> stride,
                 std::vector<int64_t> top, std::vector<int64_t> out_sizes, std::vector<int64_t> dilation,
                 int64_t groups) {
  const int64_t outs = w.size(0), ins = w.size(1);
  Tensor y = zeros({x.size(0), outs, out_sizes[0], out_sizes[1]}, kDouble);
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t o = 0; o < outs; ++o)
      for (int64_t i = 0; i < out_sizes[0]; ++i)
        for (int64_t j = 0; j < out_sizes[1]; ++j) {
          double sum = bias.defined() ? at(bias, {o}) : 0;
          for (int64_t c = 0; c < ins; ++c)
            for (int64_t a = 0; a < w.size(2); ++a)
              for (int64_t b = 0; b < w.size(3); ++b) {
                const int64_t r = i * stride[0] + a * dilation[0] - top[0],
                              s = j * stride[1] + b * dilation[1] - top[1];
                if (r < 0 || s < 0 || r >= x.size(2) || s >= x.size(3)) continue;
                sum += at(x, {n, o / (outs / groups) * ins + c, r, s}) * at(w, {o, c, a, b});
              }
          y.select(0, n).select(0, o).select(0, i).select(0, j).fill_(sum);
        }
  return y;
}

TEST_F(Modules, Conv2dIsItsDefinition) {
  const Tensor x = drawn({2, 4, 6, 5});
  nn::Conv2d grouped(nn::Conv2dOptions(4, 6, {3, 2}).stride({2, 1}).padding({1, 1}).dilation({1, 2}).groups(2));
  grouped->to(kDouble);
  expect_close(grouped(x), convolved(x, grouped->weight, grouped->bias, {2, 1}, {1, 1}, {3, 5}, {1, 2}, 2));
  expect_gradients(grouped, x);

  nn::Conv2d same(nn::Conv2dOptions(4, 3, {3, 4}).padding(kSame).bias(false));
  same->to(kDouble);
  // Four columns leave an uneven border: one before, two behind.
  expect_close(same(x), convolved(x, same->weight, {}, {1, 1}, {1, 1}, {6, 5}, {1, 1}, 1));
  expect_close(same(x[0]), same(x)[0]);

  const Tensor channels_last = x.contiguous(MemoryFormat::ChannelsLast);
  expect_close(grouped(channels_last), grouped(x));
  nn::Conv2d plain(nn::Conv2dOptions(4, 6, 3).padding(1));
  const Tensor y = plain(x.to(kFloat).contiguous(MemoryFormat::ChannelsLast));
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::ChannelsLast));

  nn::Conv2d circular(nn::Conv2dOptions(4, 2, 3).padding(1).padding_mode(kCircular));
  circular->to(kDouble);
  const Tensor wrapped = F::pad(x, F::PadFuncOptions({1, 1, 1, 1}).mode(kCircular));
  expect_close(circular(x), convolved(wrapped, circular->weight, circular->bias, {1, 1}, {0, 0}, {6, 5}, {1, 1}, 1));
}

TEST_F(Modules, Conv1dIsConv2dOfOneRow) {
  nn::Conv1d conv(nn::Conv1dOptions(3, 4, 5).stride(2).padding(2));
  conv->to(kDouble);
  const Tensor x = drawn({2, 3, 11});
  const Tensor rows =
      convolved(x.unsqueeze(2), conv->weight.unsqueeze(2), conv->bias, {1, 2}, {0, 2}, {1, 6}, {1, 1}, 1);
  expect_close(conv(x), rows.squeeze(2));
}

TEST_F(Modules, PoolingIsItsDefinition) {
  const Tensor x = drawn({2, 3, 7, 6});
  Tensor largest = zeros({2, 3, 4, 3}, kDouble), mean = zeros({2, 3, 4, 3}, kDouble);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      const int64_t top = std::max<int64_t>(2 * i - 1, 0), left = 2 * j, high = std::min<int64_t>(2 * i + 2, 7) - top;
      const Tensor window = x.narrow(2, top, high).narrow(3, left, 2).reshape({2, 3, -1});
      largest.select(2, i).select(2, j).copy_(window.amax(2));
      mean.select(2, i).select(2, j).copy_(window.sum(2) / 6.0);  // the border counts as zeros
    }
  nn::MaxPool2d max(nn::MaxPool2dOptions({3, 2}).stride({2, 2}).padding({1, 0}));
  expect_close(max(x), largest);
  nn::AvgPool2d average(nn::AvgPool2dOptions({3, 2}).stride({2, 2}).padding({1, 0}));
  expect_close(average(x), mean);
  const auto [values, places] = max->forward_with_indices(x);
  expect_close(x.reshape({2, 3, -1}).gather(2, places.reshape({2, 3, -1})).reshape(values.sizes()), values);
  expect_close(nn::AdaptiveAvgPool2d(1)(x), x.mean({2, 3}, true));
  expect_close(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({std::nullopt, 1}))(x), x.mean({3}, true));
}

TEST_F(Modules, BatchNormFollowsItsBatches) {
  nn::BatchNorm2d norm(nn::BatchNorm2dOptions(3).momentum(0.3));
  norm->to(kDouble);
  {
    const NoGradGuard quiet;
    norm->weight.copy_(drawn({3}));
    norm->bias.copy_(drawn({3}));
  }
  const Tensor x = drawn({4, 3, 2, 5}) * 2 + 1;
  const auto normed = [&](const Tensor& mean, const Tensor& var) {
    const auto wide = [](const Tensor& t) { return t.reshape({1, 3, 1, 1}); };
    return (x - wide(mean)) / (wide(var) + 1e-5).sqrt() * wide(norm->weight) + wide(norm->bias);
  };
  const Tensor flat = x.transpose(0, 1).reshape({3, -1});
  const Tensor mean = flat.mean(1), biased = (flat - flat.mean(1, true)).square().mean(1),
               count = tensor(40.0, kDouble);
  expect_close(norm(x), normed(mean, biased));
  expect_close(norm->running_mean, mean * 0.3);
  expect_close(norm->running_var, ones({3}, kDouble) * 0.7 + biased * (40.0 / 39) * 0.3);
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  EXPECT_EQ(norm->num_batches_tracked.scalar_type(), kLong);
  norm->eval();
  expect_close(norm(x), normed(norm->running_mean, norm->running_var));
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  expect_error<ShapeError>([&] { norm(x[0]); }, "expected 4D input (got 3D input)");

  nn::BatchNorm1d all_alike(nn::BatchNorm1dOptions(3).momentum(std::nullopt));
  all_alike->to(kDouble);
  const Tensor a = drawn({5, 3}), b = drawn({5, 3});
  all_alike(a);
  all_alike(b);
  expect_close(all_alike->running_mean, (a.mean(0) + b.mean(0)) / 2.0);
}

TEST_F(Modules, NormsOfASample) {
  const Tensor x = drawn({3, 4, 5});
  nn::GroupNorm group(2, 4);
  group->to(kDouble);
  const Tensor groups = x.reshape({3, 2, -1});
  const Tensor wanted =
      (groups - groups.mean(2, true)) / ((groups - groups.mean(2, true)).square().mean(2, true) + 1e-5).sqrt();
  expect_close(group(x), wanted.reshape(x.sizes()));
  nn::RMSNorm rms(nn::RMSNormOptions({5}).eps(1e-6));
  rms->to(kDouble);
  expect_close(rms(x), x / (x.square().mean(2, true) + 1e-6).sqrt());
  EXPECT_EQ(nn::LayerNorm(nn::LayerNormOptions({4, 5}).bias(false))->parameters().size(), 1U);
}

TEST_F(Modules, LstmIsItsSteps) {
  nn::LSTM lstm(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true));
  lstm->to(kDouble);
  const Tensor x = drawn({5, 2, 3}), h0 = drawn({4, 2, 4}), c0 = drawn({4, 2, 4});
  const auto named = lstm->named_parameters();
  const auto run = [&](const Tensor& input, const std::string& end, bool reverse, Tensor h, Tensor c) {
    std::vector<Tensor> all(5);
    for (int64_t k = 0; k < 5; ++k) {
      const int64_t t = reverse ? 4 - k : k;
      const Tensor gates = input[t].matmul(named["weight_ih" + end].t()) + named["bias_ih" + end] +
                           h.matmul(named["weight_hh" + end].t()) + named["bias_hh" + end];
      const auto part = gates.chunk(4, 1);
      c = part[1].sigmoid() * c + part[0].sigmoid() * part[2].tanh();
      h = part[3].sigmoid() * c.tanh();
      all[static_cast<size_t>(t)] = h;
    }
    return std::tuple(stack(all), h, c);
  };
  Tensor input = x;
  std::vector<Tensor> last, cells;
  for (int64_t layer = 0; layer < 2; ++layer) {
    const std::string end = "_l" + std::to_string(layer);
    const auto [forth, h, c] = run(input, end, false, h0[2 * layer], c0[2 * layer]);
    const auto [back, hr, cr] = run(input, end + "_reverse", true, h0[2 * layer + 1], c0[2 * layer + 1]);
    input = cat({forth, back}, 2);
    last.insert(last.end(), {h, hr});
    cells.insert(cells.end(), {c, cr});
  }
  const auto [output, state] = lstm(x, std::tuple(h0, c0));
  expect_close(output, input);
  expect_close(std::get<0>(state), stack(last));
  expect_close(std::get<1>(state), stack(cells));
  // The batch may stand first, or not be there.
  nn::LSTM first(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true));
  first->to(kDouble);
  first->load_state_dict(lstm->state_dict());
  expect_close(std::get<0>(first(x.transpose(0, 1), std::tuple(h0, c0))).transpose(0, 1), output);
  expect_close(std::get<0>(lstm(x.select(1, 0))), std::get<0>(lstm(x)).select(1, 0));
}

TEST_F(Modules, GruIsItsSteps) {
  nn::GRU gru(3, 4);
  gru->to(kDouble);
  nn::GRUCell cell(3, 4);
  cell->to(kDouble);
  for (const auto& item : cell->named_parameters()) {
    const NoGradGuard quiet;
    item.value().copy_(gru->named_parameters()[item.key() + "_l0"]);
  }
  const Tensor x = drawn({5, 2, 3});
  Tensor h = drawn({1, 2, 4});
  const auto [output, state] = gru(x, h);
  h = h[0];
  for (int64_t t = 0; t < 5; ++t) {
    const auto i = (x[t].matmul(cell->weight_ih.t()) + cell->bias_ih).chunk(3, 1);
    const auto s = (h.matmul(cell->weight_hh.t()) + cell->bias_hh).chunk(3, 1);
    const Tensor reset = (i[0] + s[0]).sigmoid(), keep = (i[1] + s[1]).sigmoid();
    const Tensor next = (1 - keep) * (i[2] + reset * s[2]).tanh() + keep * h;
    expect_close(cell(x[t], h), next);
    expect_close(output[t], next);
    h = next;
  }
  expect_close(state[0], h);
}

TEST_F(Modules, AttentionIsItsDefinition) {
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(6, 2).kdim(5).vdim(4));
  attention->to(kDouble);
  const Tensor q = drawn({3, 2, 6}), k = drawn({7, 2, 5}), v = drawn({7, 2, 4});
  const Tensor hidden_keys = rand({2, 7}) < 0.3;
  hidden_keys.select(1, 0).fill_(false);  // a query that sees nothing has no weights
  const auto [result, weights] = attention->forward(q, k, v, hidden_keys);
  const auto biases = attention->in_proj_bias.chunk(3);
  const auto headed = [](const Tensor& x) { return x.reshape({x.size(0), 2, 2, 3}).permute({1, 2, 0, 3}); };
  const Tensor qh = headed(q.matmul(attention->q_proj_weight.t()) + biases[0]);
  const Tensor kh = headed(k.matmul(attention->k_proj_weight.t()) + biases[1]);
  const Tensor vh = headed(v.matmul(attention->v_proj_weight.t()) + biases[2]);
  Tensor scores = qh.matmul(kh.transpose(-2, -1)) / std::sqrt(3.0);
  scores = scores.masked_fill(hidden_keys.reshape({2, 1, 1, 7}), -INFINITY);
  const Tensor shares = scores.softmax(-1);
  const Tensor joined = shares.matmul(vh).permute({2, 0, 1, 3}).reshape({3, 2, 6});
  expect_close(result, attention->out_proj(joined));
  expect_close(weights, shares.mean(1));
  const auto [fused, none] = attention->forward(q, k, v, hidden_keys, /*need_weights=*/false);
  expect_close(fused, result);
  EXPECT_FALSE(none.defined());
}

TEST_F(Modules, TransformerEncoderIsCausalWithAMask) {
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderOptions(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1), 2)
          .norm(nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({8})))));
  encoder->to(kDouble);
  encoder->eval();
  const Tensor x = drawn({5, 2, 8}), mask = ones({5, 5}, kBool).triu(1);
  const Tensor y = encoder(x, mask);
  Tensor changed = x.clone();
  changed[4].fill_(3);
  const Tensor z = encoder(changed, mask);
  expect_close(y.narrow(0, 0, 4), z.narrow(0, 0, 4));
  EXPECT_GT((y[4] - z[4]).abs().max().item<double>(), 1e-3);
  expect_close(encoder->forward(x, mask, {}, /*is_causal=*/true), y);
  // Copies of one layer, each with parameters of its own.
  EXPECT_EQ(encoder->parameters().size(), 2U * 12 + 2);
}

TEST_F(Modules, EmbeddingPicksRows) {
  nn::Embedding table(nn::EmbeddingOptions(6, 3).padding_idx(-1));
  EXPECT_EQ(table->options.padding_idx(), 5);
  EXPECT_EQ(table->weight[5].abs().sum().item<double>(), 0);
  const Tensor places = tensor({{0, 5}, {3, 3}}, kLong);
  const Tensor y = table(places);
  expect_close(y[1][0], table->weight[3]);
  y.sum().backward();
  EXPECT_EQ(table->weight.grad()[3].sum().item<double>(), 6);
  EXPECT_EQ(table->weight.grad()[5].sum().item<double>(), 0);
  nn::Embedding ready = nn::Embedding::from_pretrained(ones({4, 2}));
  EXPECT_FALSE(ready->weight.requires_grad());
  nn::Embedding bounded(
      nn::EmbeddingOptions(4, 2).weight(tensor({{3.0, 4.0}, {1.0, 0.0}, {6.0, 8.0}, {0.0, 0.0}})).max_norm(2.0));
  bounded(tensor({0, 1}, kLong));
  expect_close(bounded->weight[0].norm(), tensor(2.0), 1e-5);
  expect_close(bounded->weight[2].norm(), tensor(10.0), 1e-5);
}

TEST_F(Modules, LossesFold) {
  const Tensor x = drawn({5, 4}), target = tensor({1, 0, 3, -100, 2}, kLong), weight = rand({4}, kDouble) + 0.5;
  const Tensor logs = x - x.exp().sum(1, true).log();
  Tensor sum = zeros({}, kDouble), total = zeros({}, kDouble);
  for (int64_t i : {0, 1, 2, 4}) {
    const int64_t c = target[i].item<int64_t>();
    const Tensor spread = -(logs[i] * weight).sum() / 4.0;
    sum = sum + -logs[i][c] * weight[c] * 0.8 + spread * 0.2;
    total = total + weight[c];
  }
  nn::CrossEntropyLoss loss(nn::CrossEntropyLossOptions().weight(weight).label_smoothing(0.2));
  expect_close(loss(x, target), sum / total);
  EXPECT_EQ(loss->buffers().size(), 1U);
  const Tensor y = drawn({5, 4});
  expect_close(nn::MSELoss()(x, y), (x - y).square().mean());
  expect_close(nn::L1Loss(kSum)(x, y), (x - y).abs().sum());
  const Tensor p = x.softmax(1), q = y.softmax(1);
  expect_close(nn::KLDivLoss(nn::KLDivLossOptions().reduction(kBatchMean))(p.log(), q),
               (q * (q / p).log()).sum() / 5.0);
  expect_close(nn::BCEWithLogitsLoss()(x, y.sigmoid()), nn::BCELoss()(x.sigmoid(), y.sigmoid()), 1e-6);
  expect_close(F::cross_entropy(x, target, F::CrossEntropyFuncOptions().reduction(kSum)),
               nn::NLLLoss(nn::NLLLossOptions().reduction(kSum))(logs, target));
}

TEST_F(Modules, DropoutOnlyInTraining) {
  nn::Dropout dropout(0.4);
  const Tensor x = ones({100, 100});
  const Tensor y = dropout(x);
  EXPECT_NEAR((y == 0).to(kDouble).mean().item<double>(), 0.4, 0.03);
  expect_close(y.max(), tensor(1 / 0.6), 1e-6);
  dropout->eval();
  expect_close(dropout(x), x);
  const Tensor channels = nn::Dropout2d(0.5)(ones({20, 30, 4, 4}));
  expect_close(channels.amax({2, 3}), channels.amin({2, 3}));
  EXPECT_GT((channels == 0).sum().item<int64_t>(), 0);
}

TEST_F(Modules, ErrorsNameTheModule) {
  struct Net : nn::Module {
    nn::ModuleList layers = register_module("layers", nn::ModuleList());
    Net() {
      for (int i = 0; i < 3; ++i) layers->push_back(nn::Sequential(nn::Linear(4, 4), nn::ReLU(), nn::Linear(4, 4)));
    }
  };
  struct Outer : nn::Module {
    std::shared_ptr<Net> encoder = register_module("encoder", std::make_shared<Net>());
  };
  const auto outer = std::make_shared<Outer>();
  const auto inner = outer->encoder->layers->ptr<nn::SequentialImpl>(2);
  EXPECT_EQ(inner->ptr(2)->path(), "encoder.layers.2.2");
  expect_error<ShapeError>(
      [&] {
        inner->forward(ones({3, 7}));
      },
      "in module 'encoder.layers.2.0', torch::nn::Linear(in_features=4, out_features=4, bias=true) with "
      "weight [4, 4], bias [4]. `input` has the shape [3, 7] with the size 7 in dim -1, but in_features=4: "
      "change in_features to 7, or the input.");
  expect_error<ShapeError>([&] { nn::LayerNorm(nn::LayerNormOptions({5}))(ones({2, 4})); }, "normalized_shape=[5]");
  expect_error<ShapeError>([&] { nn::Conv2d(3, 4, 3)(ones({2, 4, 8, 8})); }, "change in_channels to 4");
  expect_error<ShapeError>([&] { nn::LSTM(3, 4)(ones({2, 2, 5})); }, "change input_size to 5");
  expect_error<ValueError>([&] { nn::Conv2d(nn::Conv2dOptions(3, 4, 3).groups(2)); },
                           "in_channels must be divisible by groups");
  expect_error<ValueError>([&] { nn::Dropout(1.5); }, "p has to be between 0 and 1");
  expect_error<ValueError>([&] { nn::MultiheadAttention(7, 2); }, "embed_dim must be divisible by num_heads");
  // A module that outlives its network has no path.
  const auto layer = inner->ptr(0);
  outer->encoder->layers->ptr(0)->unregister_module("1");
  inner->unregister_module("0");
  EXPECT_EQ(layer->path(), "");
}

TEST_F(Modules, InitialValues) {
  Tensor w = empty({30, 20, 3}, kDouble);
  nn::init::kaiming_normal_(w, 0, kFanOut, kReLU);
  EXPECT_NEAR(w.std().item<double>(), std::sqrt(2.0 / 90), 0.01);
  nn::init::xavier_uniform_(w, 2.0);
  EXPECT_LE(w.abs().max().item<double>(), 2 * std::sqrt(6.0 / 150) + 1e-12);
  EXPECT_GT(w.abs().max().item<double>(), 1.9 * std::sqrt(6.0 / 150));
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{7, 20}, {20, 7}}) {
    Tensor m = empty(sizes, kDouble);
    nn::init::orthogonal_(m, 3.0);
    const Tensor few = sizes[0] < sizes[1] ? m : m.t();
    expect_close(few.matmul(few.t()), eye(7, kDouble) * 9, 1e-12);
  }
  Tensor t = empty({1000}, kDouble);
  nn::init::trunc_normal_(t, 1.0, 2.0, 0.0, 2.0);
  EXPECT_GE(t.min().item<double>(), 0);
  EXPECT_LE(t.max().item<double>(), 2);
  EXPECT_NEAR(t.mean().item<double>(), 1, 0.1);
  Tensor d = empty({4, 2, 3, 3}, kDouble);
  nn::init::dirac_(d, 2);
  const Tensor x = drawn({1, 4, 5, 5});
  expect_close(F::conv2d(x, d, F::Conv2dFuncOptions().padding(1).groups(2)), x);
  Tensor s = empty({10, 4}, kDouble);
  nn::init::sparse_(s, 0.25);
  expect_close((s == 0).sum(0).to(kDouble), full({4}, 3.0, kDouble));
  EXPECT_NEAR(nn::init::calculate_gain(kLeakyReLU, 0.2), std::sqrt(2 / 1.04), 1e-12);
}

TEST_F(Modules, GradientsAreBounded) {
  nn::Linear linear(3, 2);
  (linear(ones({4, 3})) * 10).sum().backward();
  std::vector<Tensor> grads = {linear->weight.grad().clone(), linear->bias.grad().clone()};
  const double norm = std::sqrt(grads[0].square().sum().item<double>() + grads[1].square().sum().item<double>());
  EXPECT_NEAR(nn::utils::clip_grad_norm_(linear->parameters(), 1.0), norm, 1e-3);
  expect_close(linear->weight.grad(), grads[0] / norm, 1e-5);
  EXPECT_NEAR(nn::utils::clip_grad_norm_(linear->parameters(), 5.0), 1.0, 1e-4);
  Tensor spread = zeros({3, 4}).requires_grad_();
  spread.mutable_grad() = ones({3, 1}).expand({3, 4});
  expect_error<ValueError>([&] { nn::utils::clip_grad_norm_(spread, 1.0); }, "clip_grad_norm_");
  nn::utils::clip_grad_value_(linear->parameters(), 0.01);
  expect_close(linear->bias.grad(), full({2}, 0.01), 1e-8);
  const Tensor all = nn::utils::parameters_to_vector(linear->parameters());
  ASSERT_EQ(all.numel(), 8);
  nn::utils::vector_to_parameters(all.detach() * 2, linear->parameters());
  expect_close(nn::utils::parameters_to_vector(linear->parameters()), all * 2);
  expect_error<ShapeError>([&] { nn::utils::vector_to_parameters(ones({7}), linear->parameters()); }, "8");
}

}  // namespace
