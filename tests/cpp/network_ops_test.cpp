// What the records of network ops cannot say: statistics that are written to, shapes larger than a tile, fused gradients against those of the ops that they stand
// for, dropout inside attention, and layouts that come out.
#include <facula/reduction.h>
#include <facula/tensors.h>

#include "cpp/seed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace facula {
namespace {

class NetworkOps : public testing::Test {
 protected:
  void SetUp() override { manual_seed(facula_test::test_seed()); }
};

double worst(const Tensor& a, const Tensor& b) {
  return (a.to(kDouble) - b.to(kDouble)).abs().max().item<double>() / (1 + b.to(kDouble).abs().max().item<double>());
}

// The gradients of sum(out * weights) by `inputs`.
std::vector<Tensor> gradients(const Tensor& out, const Tensor& weights, std::vector<Tensor> inputs) {
  return autograd::grad({(out * weights).sum()}, inputs);
}

Tensor leaf(const Tensor& t) { return t.detach().clone().requires_grad_(); }

TEST_F(NetworkOps, BatchNormMovesRunningStatistics) {
  SCOPED_TRACE(facula_test::seed_text());
  for (const auto format : {MemoryFormat::Contiguous, MemoryFormat::ChannelsLast}) {
    const Tensor x = (randn({4, 5, 6, 7}) * 3 + 2).contiguous(format);
    Tensor mean = randn({5}), var = rand({5}) + 0.5;
    const Tensor old_mean = mean.clone(), old_var = var.clone();
    const int64_t version = mean._version();
    const Tensor y = batch_norm(x, std::nullopt, std::nullopt, mean, var, true, 0.25, 1e-5);
    const auto [v, m] = var_mean(x, IntArrayRef({0, 2, 3}), true);
    EXPECT_LT(worst(mean, old_mean * 0.75 + m * 0.25), 1e-5);
    EXPECT_LT(worst(var, old_var * 0.75 + v * 0.25), 1e-5);
    EXPECT_GT(mean._version(), version);
    EXPECT_TRUE(y.is_contiguous(format));
    const Tensor before = mean.clone();
    batch_norm(x, std::nullopt, std::nullopt, mean, var, false, 0.25, 1e-5);
    EXPECT_TRUE(mean.equal(before));
  }
}

TEST_F(NetworkOps, InstanceNormMovesRunningStatisticsTowardsTheirMean) {
  const Tensor x = randn({3, 2, 50});
  Tensor mean = zeros({2}), var = ones({2});
  instance_norm(x, std::nullopt, std::nullopt, mean, var, true, 0.5, 1e-5);
  EXPECT_LT(worst(mean, x.mean({2}).mean(0) * 0.5), 1e-5);
}

// Float through oneDNN against double through products of windows, forward and both gradients.
TEST_F(NetworkOps, ConvolutionsAgreeWithDouble) {
  SCOPED_TRACE(facula_test::seed_text());
  struct Case {
    std::vector<int64_t> input, weight, stride, padding, dilation;
    int64_t groups;
    bool transposed;
  };
  const Case cases[] = {{{3, 16, 20, 18}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false},
                        {{2, 3, 33, 31}, {24, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, false},
                        {{2, 32, 9, 9}, {64, 32, 1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, false},
                        {{2, 16, 12, 11}, {16, 1, 3, 3}, {1, 1}, {2, 2}, {2, 2}, 16, false},
                        {{2, 12, 10, 10}, {18, 4, 3, 2}, {2, 1}, {1, 0}, {1, 1}, 3, false},
                        {{2, 16, 7, 6}, {16, 8, 4, 4}, {2, 2}, {1, 1}, {1, 1}, 1, true},
                        {{2, 16, 40}, {32, 16, 5}, {2}, {2}, {1}, 1, false},
                        {{1, 4, 6, 7, 8}, {8, 4, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, false}};
  for (const Case& c : cases) {
    for (const bool last : {false, true}) {
      if (last && c.input.size() != 4) continue;
      const MemoryFormat format = last ? MemoryFormat::ChannelsLast : MemoryFormat::Contiguous;
      const Tensor x = leaf(randn(c.input).contiguous(format)), w = leaf(randn(c.weight)),
                   b = leaf(randn({c.transposed ? c.weight[1] * c.groups : c.weight[0]}));
      const Tensor xd = leaf(x.to(kDouble)), wd = leaf(w.to(kDouble)), bd = leaf(b.to(kDouble));
      const auto run = [&](const Tensor& i, const Tensor& k, const Tensor& s) {
        return convolution(i, k, s, c.stride, c.padding, c.dilation, c.transposed, {0}, c.groups);
      };
      const Tensor y = run(x, w, b), yd = run(xd, wd, bd);
      EXPECT_LT(worst(y, yd), 1e-5);
      if (last) EXPECT_TRUE(y.is_contiguous(MemoryFormat::ChannelsLast));
      else EXPECT_TRUE(y.is_contiguous());
      const Tensor g = randn(y.sizes());
      const auto got = gradients(y, g, {x, w, b}), wanted = gradients(yd, g.to(kDouble), {xd, wd, bd});
      for (size_t i = 0; i < 3; ++i) EXPECT_LT(worst(got[i], wanted[i]), 2e-5) << "input " << i;
    }
  }
}

// Lengths of several tiles, with and without a mask: against scores that are written out.
TEST_F(NetworkOps, AttentionInTilesAgreesWithScoresWrittenOut) {
  SCOPED_TRACE(facula_test::seed_text());
  for (const int64_t length : {1, 63, 64, 65, 200}) {
    for (const int kind : {0, 1, 2, 3}) {
      const int64_t keys = kind == 1 ? length : length + 131;
      // As they come out of one product: heads between length and features.
      const Tensor q = leaf(randn({2, length, 4, 24}).transpose(1, 2)),
                   k = leaf(randn({2, keys, 2, 24}).transpose(1, 2)), v = leaf(randn({2, keys, 2, 16}).transpose(1, 2));
      std::optional<Tensor> mask;
      if (kind == 2) mask = rand({2, 1, length, keys}) < 0.7;
      if (kind == 3) mask = randn({length, keys});
      const Tensor out = scaled_dot_product_attention(q, k, v, mask, 0.0, kind == 1, std::nullopt, true);
      const Tensor qd = leaf(q.to(kDouble)), kd = leaf(k.to(kDouble)), vd = leaf(v.to(kDouble));
      Tensor scores = qd.matmul(kd.repeat_interleave(2, 1).transpose(-2, -1)) / std::sqrt(24.0);
      if (kind == 1) scores = scores.masked_fill(ones({length, keys}, kBool).triu(1), -INFINITY);
      if (kind == 2) scores = scores.masked_fill(mask->logical_not(), -INFINITY);
      if (kind == 3) scores = scores + mask->to(kDouble);
      const Tensor wanted = scores.softmax(-1).matmul(vd.repeat_interleave(2, 1));
      EXPECT_LT(worst(out, wanted), 1e-5) << length << " " << kind;
      const Tensor g = randn(out.sizes());
      const auto a = gradients(out, g, {q, k, v}), b = gradients(wanted, g.to(kDouble), {qd, kd, vd});
      for (size_t i = 0; i < 3; ++i) EXPECT_LT(worst(a[i], b[i]), 2e-5) << length << " " << kind << " input " << i;
    }
  }
}

// The same seed drops the same scores, so that differences show the gradient; and the mean over many draws is the result without dropout.
TEST_F(NetworkOps, AttentionDropoutHasAGradient) {
  SCOPED_TRACE(facula_test::seed_text());
  const Tensor q = leaf(randn({1, 2, 5, 4}, kDouble)), k = leaf(randn({1, 2, 6, 4}, kDouble)),
               v = leaf(randn({1, 2, 6, 3}, kDouble));
  const Tensor g = randn({1, 2, 5, 3}, kDouble);
  const auto run = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    manual_seed(99);
    return scaled_dot_product_attention(a, b, c, std::nullopt, 0.4);
  };
  const auto found = gradients(run(q, k, v), g, {q, k, v});
  const Tensor inputs[] = {q.detach(), k.detach(), v.detach()};
  for (size_t i = 0; i < 3; ++i) {
    const Tensor direction = randn(inputs[i].sizes(), kDouble);
    const auto value = [&](double step) {
      Tensor moved[] = {inputs[0], inputs[1], inputs[2]};
      moved[i] = moved[i] + direction * step;
      return (run(moved[0], moved[1], moved[2]) * g).sum().item<double>();
    };
    const double slope = (value(1e-5) - value(-1e-5)) / 2e-5;
    EXPECT_NEAR(slope, (found[i] * direction).sum().item<double>(), 1e-6 * (1 + std::abs(slope)));
  }
  manual_seed(facula_test::test_seed());
  const Tensor plain = scaled_dot_product_attention(inputs[0], inputs[1], inputs[2]);
  Tensor sum = zeros_like(plain);
  for (int i = 0; i < 4000; ++i)
    sum = sum + scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], std::nullopt, 0.4);
  EXPECT_LT((sum / 4000 - plain).abs().max().item<double>(), 0.25);
}

// The fused gradients of norms and losses against those of plain ops in double.
TEST_F(NetworkOps, FusedGradientsAgreeWithDouble) {
  SCOPED_TRACE(facula_test::seed_text());
  const Tensor x = leaf(randn({37, 129}) * 2 + 1), w = leaf(randn({129})), b = leaf(randn({129})), g = randn({37, 129});
  const Tensor xd = leaf(x.to(kDouble)), wd = leaf(w.to(kDouble)), bd = leaf(b.to(kDouble));
  const Tensor centered = xd - xd.mean({1}, true);
  const Tensor plain = centered / ((centered * centered).mean({1}, true) + 1e-5).sqrt() * wd + bd;
  const auto a = gradients(layer_norm(x, {129}, w, b), g, {x, w, b}), c = gradients(plain, g.to(kDouble), {xd, wd, bd});
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(worst(a[i], c[i]), 1e-5) << i;
  const Tensor labels = randint(0, 129, {37}), ignored = labels.masked_fill(labels < 20, -100);
  for (const double smoothing : {0.0, 0.1}) {
    const Tensor loss = cross_entropy_loss(x, ignored, w.detach().abs(), Reduction::Mean, -100, smoothing);
    const Tensor logs = xd - xd.logsumexp(1, true), shares = wd.detach().abs();
    const Tensor counts = (ignored != -100).to(kDouble), at = ignored.clamp_min(0);
    const Tensor hit = -logs.gather(1, at.unsqueeze(1)).squeeze(1) * shares.index_select(0, at) * (1 - smoothing);
    const Tensor wanted = ((hit - (logs * shares).sum(1) * (smoothing / 129)) * counts).sum() /
                          (shares.index_select(0, at) * counts).sum();
    EXPECT_NEAR(loss.item<double>(), wanted.item<double>(), 1e-5 * (1 + std::abs(wanted.item<double>())));
    EXPECT_LT(worst(autograd::grad({loss}, {x})[0], autograd::grad({wanted}, {xd})[0]), 1e-5);
  }
}

TEST_F(NetworkOps, RecurrentLayersAgreeWithTheirCells) {
  SCOPED_TRACE(facula_test::seed_text());
  const Tensor x = randn({7, 19, 11}), h = randn({1, 19, 37}), c = randn({1, 19, 37});
  for (const bool gated : {true, false}) {
    const int64_t gates = gated ? 4 : 3;
    const std::vector<Tensor> w = {leaf(randn({gates * 37, 11}) / 4), leaf(randn({gates * 37, 37}) / 6),
                                   leaf(randn({gates * 37})), leaf(randn({gates * 37}))};
    std::vector<Tensor> wide;
    for (const Tensor& p : w) wide.push_back(leaf(p.to(kDouble)));
    Tensor out, hd = h[0].to(kDouble), cd = c[0].to(kDouble);
    std::vector<Tensor> steps;
    for (int64_t t = 0; t < 7; ++t) {
      const Tensor xs = linear(x[t].to(kDouble), wide[0], wide[2]), hs = linear(hd, wide[1], wide[3]);
      if (gated) {
        const auto s = (xs + hs).chunk(4, 1);
        cd = s[1].sigmoid() * cd + s[0].sigmoid() * s[2].tanh();
        hd = s[3].sigmoid() * cd.tanh();
      } else {
        const auto a = xs.chunk(3, 1), s = hs.chunk(3, 1);
        const Tensor z = (a[1] + s[1]).sigmoid(), n = (a[2] + (a[0] + s[0]).sigmoid() * s[2]).tanh();
        hd = (1 - z) * n + z * hd;
      }
      steps.push_back(hd);
    }
    const Tensor wanted = stack(steps);
    out = gated ? std::get<0>(lstm(x, {h, c}, w, true, 1, 0.0, true, false, false))
                : std::get<0>(gru(x, h, w, true, 1, 0.0, true, false, false));
    EXPECT_LT(worst(out, wanted), 1e-5);
    const Tensor g = randn(out.sizes());
    const auto a = gradients(out, g, w), b = gradients(wanted, g.to(kDouble), wide);
    for (size_t i = 0; i < 4; ++i) EXPECT_LT(worst(a[i], b[i]), 2e-5) << gated << " " << i;
  }
}

}  // namespace
}  // namespace facula
