// Optimizers and schedulers of C++ against rules computed entry by entry in double. The rules in all their options, and the peer,
// are in tests/python/test_optim.py.
#include <facula/amp.h>
#include <facula/facula.h>
#include <facula/optim/optim.h>
#include <facula/serialize.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace {

using namespace facula;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::values;

constexpr int kSteps = 5;
const std::vector<std::vector<int64_t>> kShapes = {{7}, {3, 5}, {}, {300, 70}};

// Parameters, the gradients of each step, and what one entry of a parameter becomes under its gradients.
struct Path {
  std::vector<Tensor> params, start;
  std::vector<std::vector<Tensor>> grads;

  Path() {
    for (const auto& shape : kShapes) params.push_back(draw_leaf(shape));
    for (const Tensor& p : params) start.push_back(p.detach().clone());
    for (int s = 0; s < kSteps; ++s) {
      grads.emplace_back();
      for (const auto& shape : kShapes) grads.back().push_back(draw(shape));
    }
  }
  void run(optim::Optimizer& optimizer, int from = 0, int to = kSteps) {
    for (int s = from; s < to; ++s) {
      for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(grads[static_cast<size_t>(s)][i]);
      optimizer.step();
    }
  }
  template <class Rule>
  void expect(Rule rule) const {
    SCOPED_TRACE(facula_test::seed_text());
    for (size_t i = 0; i < params.size(); ++i) {
      const std::vector<double> got = values(params[i].detach()), first = values(start[i]);
      for (size_t k = 0; k < got.size(); ++k) {
        std::vector<double> g;
        for (int s = 0; s < kSteps; ++s)
          g.push_back(grads[static_cast<size_t>(s)][i].view({-1})[static_cast<int64_t>(k)].item<double>());
        ASSERT_NEAR(got[k], rule(first[k], g), 1e-11) << "parameter " << i << ", entry " << k;
        if (k > 40) break;
      }
    }
  }
};

double adam_entry(double p, const std::vector<double>& grads, double lr, double decay, bool decoupled) {
  double m = 0, v = 0, t = 0;
  for (double g : grads) {
    if (decoupled) p -= lr * decay * p;
    else g += decay * p;
    ++t;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    p -= lr * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }
  return p;
}

TEST(Optim, SGD) {
  Path path;
  optim::SGD sgd(path.params, optim::SGDOptions(0.1).momentum(0.8).nesterov(true).weight_decay(0.05));
  path.run(sgd);
  path.expect([](double p, const std::vector<double>& grads) {
    double b = 0;
    for (double g : grads) {
      g += 0.05 * p;
      b = 0.8 * b + g;
      p -= 0.1 * (g + 0.8 * b);
    }
    return p;
  });
}

TEST(Optim, AdamAndAdamW) {
  Path path;
  optim::Adam adam(path.params, optim::AdamOptions(0.05).weight_decay(0.1));
  path.run(adam);
  path.expect([](double p, const auto& g) { return adam_entry(p, g, 0.05, 0.1, false); });
  Path other;
  optim::AdamW adamw(other.params, optim::AdamWOptions(0.05));
  other.run(adamw);
  other.expect([](double p, const auto& g) { return adam_entry(p, g, 0.05, 0.01, true); });
  auto& state = static_cast<optim::AdamWParamState&>(*adamw.state().at(other.params[0].impl()));
  EXPECT_EQ(state.step(), kSteps);
  EXPECT_EQ(state.exp_avg().sizes(), other.params[0].sizes());
}

TEST(Optim, CapturableCountsOnTheDevice) {
  Path path;
  optim::AdamW adamw(path.params, optim::AdamWOptions(0.05).capturable(true));
  path.run(adamw);
  path.expect([](double p, const auto& g) { return adam_entry(p, g, 0.05, 0.01, true); });
  auto& state = static_cast<optim::AdamWParamState&>(*adamw.state().at(path.params[0].impl()));
  EXPECT_EQ(state.device_step().item<int64_t>(), kSteps);
}

TEST(Optim, RMSpropAndAdagrad) {
  Path path;
  optim::RMSprop rmsprop(path.params, optim::RMSpropOptions(0.02).centered(true).momentum(0.5));
  path.run(rmsprop);
  path.expect([](double p, const std::vector<double>& grads) {
    double v = 0, m = 0, b = 0;
    for (double g : grads) {
      v = 0.99 * v + 0.01 * g * g;
      m = 0.99 * m + 0.01 * g;
      b = 0.5 * b + g / (std::sqrt(v - m * m) + 1e-8);
      p -= 0.02 * b;
    }
    return p;
  });
  Path other;
  optim::Adagrad adagrad(other.params, optim::AdagradOptions(0.1).lr_decay(0.2).initial_accumulator_value(0.3));
  other.run(adagrad);
  other.expect([](double p, const std::vector<double>& grads) {
    double sum = 0.3, t = 0;
    for (double g : grads) {
      sum += g * g;
      p -= 0.1 / (1 + t++ * 0.2) * g / (std::sqrt(sum) + 1e-10);
    }
    return p;
  });
}

TEST(Optim, GroupsHaveTheirOwnOptions) {
  Path path;
  std::vector<optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{path.params[0], path.params[1]}, std::make_unique<optim::SGDOptions>(0.5));
  groups.emplace_back(std::vector<Tensor>{path.params[2]});
  optim::SGD sgd(groups, optim::SGDOptions(0.1));
  sgd.add_param_group(optim::OptimizerParamGroup({path.params[3]}));
  EXPECT_EQ(sgd.size(), 4u);
  static_cast<optim::SGDOptions&>(sgd.param_groups()[2].options()).lr(0.25);
  path.run(sgd, 0, 1);
  const double rates[] = {0.5, 0.5, 0.1, 0.25};
  for (size_t i = 0; i < 4; ++i) expect_close(path.params[i], path.start[i] - path.grads[0][i] * rates[i]);
}

TEST(Optim, ParametersWithoutGradientStay) {
  Tensor a = draw_leaf({3}), b = draw_leaf({3});
  const Tensor before = b.detach().clone();
  optim::Adam adam({a, b}, optim::AdamOptions(0.1));
  a.set_grad(draw({3}));
  adam.step();
  EXPECT_TRUE(equal(b, before));
  EXPECT_EQ(adam.state().count(b.impl()), 0u);
  adam.zero_grad();
  EXPECT_FALSE(a.grad().defined());
}

TEST(Optim, ClosureRunsWithTheTapeOn) {
  Tensor w = draw_leaf({4});
  optim::SGD sgd({w}, optim::SGDOptions(0.1));
  const Tensor before = w.detach().clone();
  const NoGradGuard off;
  const Tensor loss = sgd.step([&] {
    sgd.zero_grad();
    Tensor l = w.pow(2).sum();
    l.backward();
    return l;
  });
  expect_close(loss, before.pow(2).sum());
  expect_close(w, before * 0.8);
}

TEST(Optim, LBFGSFindsAMinimum) {
  Tensor x = tensor({-1.2, 1.0, 0.3}, kDouble).requires_grad_();
  optim::LBFGS lbfgs({x}, optim::LBFGSOptions(1).max_iter(200).tolerance_change(1e-15).line_search_fn("strong_wolfe"));
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const Tensor a = x.narrow(0, 0, 2), b = x.narrow(0, 1, 2);
    Tensor loss = ((1 - a).pow(2) + 100 * (b - a.pow(2)).pow(2)).sum();
    loss.backward();
    return loss;
  });
  expect_close(x, ones({3}, kDouble), 1e-5);
  expect_error<ValueError>([&] { lbfgs.step(nullptr); }, "requires a closure");
}

template <class Optimizer, class Options>
void expect_continues(const Options& options) {
  Path path;
  Optimizer first(path.params, options);
  path.run(first, 0, 2);
  std::stringstream file;
  save(first, file);
  std::vector<Tensor> copies;
  for (const Tensor& p : path.params) copies.push_back(p.detach().clone().requires_grad_());
  path.run(first, 2);
  Path again;
  again.params = copies;
  again.grads = path.grads;
  Optimizer second(copies, Options(77));
  load(second, file);
  again.run(second, 2);
  for (size_t i = 0; i < copies.size(); ++i) EXPECT_TRUE(equal(copies[i], path.params[i])) << i;
}

TEST(Optim, StatesAreSavedAndLoaded) {
  expect_continues<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9));
  expect_continues<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true).betas(std::make_tuple(0.8, 0.9)));
  expect_continues<optim::AdamW>(optim::AdamWOptions(0.1));
  expect_continues<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.3).centered(true));
  expect_continues<optim::Adagrad>(optim::AdagradOptions(0.1).lr_decay(0.5));
}

TEST(Optim, AStateThatDoesNotFitChangesNothing) {
  Tensor a = draw_leaf({3}), b = draw_leaf({2, 2});
  optim::Adam adam({a, b}, optim::AdamOptions(0.1));
  a.set_grad(draw({3}));
  adam.step();
  nn::NamedTensors state = adam.state_dict();
  EXPECT_TRUE(state.contains("state.0.exp_avg"));
  EXPECT_DOUBLE_EQ(state["param_groups.0.lr"].item<double>(), 0.1);
  state["state.0.exp_avg"] = zeros({4});
  state.erase("param_groups.0.eps");
  optim::Adam other({a, b}, optim::AdamOptions(0.7));
  expect_error<ValueError>([&] { other.load_state_dict(state); }, "state.0.exp_avg");
  expect_error<ValueError>([&] { other.load_state_dict(state); }, "missing: param_groups.0.eps");
  EXPECT_DOUBLE_EQ(other.param_groups()[0].options().get_lr(), 0.7);
  EXPECT_TRUE(other.state().empty());
}

TEST(Optim, Mistakes) {
  Tensor a = draw_leaf({3});
  expect_error<ValueError>([&] { optim::SGD({a, a}, optim::SGDOptions(0.1)); }, "twice");
  expect_error<ValueError>([&] { optim::SGD({a * 2}, optim::SGDOptions(0.1)); }, "non-leaf");
  expect_error<ValueError>([&] { optim::SGD({a}, optim::SGDOptions(-1)); }, "Invalid learning rate");
  expect_error<ValueError>([&] { optim::Adam({a}, optim::AdamOptions().betas(std::make_tuple(0.9, 1.0))); }, "index 1");
  expect_error<ValueError>([&] { optim::SGD({a}, optim::SGDOptions(0.1).nesterov(true)); }, "Nesterov");
}

// The rates of one group at each step.
template <class Make>
std::vector<double> rates(int steps, Make make) {
  Tensor w = draw_leaf({1});
  optim::SGD sgd({w}, optim::SGDOptions(1).momentum(0.9));
  auto scheduler = make(sgd);
  std::vector<double> found;
  for (int i = 0; i < steps; ++i) {
    found.push_back(sgd.param_groups()[0].options().get_lr());
    scheduler->step();
  }
  return found;
}
template <class Make, class F>
void expect_rates(int steps, Make make, F want) {
  const auto found = rates(steps, make);
  for (int i = 0; i < steps; ++i) EXPECT_NEAR(found[static_cast<size_t>(i)], want(i), 1e-12) << "step " << i;
}

TEST(Schedulers, FollowTheirFormulas) {
  using namespace optim;
  const double pi = std::acos(-1);
  expect_rates(
      12, [](Optimizer& o) { return std::make_unique<StepLR>(o, 4, 0.5); }, [](int t) { return std::pow(0.5, t / 4); });
  expect_rates(
      12,
      [](Optimizer& o) {
        return std::make_unique<MultiStepLR>(o, std::vector<int64_t>{2, 7}, 0.1);
      },
      [](int t) { return std::pow(0.1, (t >= 2) + (t >= 7)); });
  expect_rates(
      9, [](Optimizer& o) { return std::make_unique<ConstantLR>(o, 0.25, 5); }, [](int t) { return t < 5 ? 0.25 : 1; });
  expect_rates(
      9, [](Optimizer& o) { return std::make_unique<LinearLR>(o, 0.2, 0.9, 5); },
      [](int t) { return 0.2 + 0.7 * std::min(t, 5) / 5; });
  expect_rates(
      9, [](Optimizer& o) { return std::make_unique<ExponentialLR>(o, 0.9); }, [](int t) { return std::pow(0.9, t); });
  expect_rates(
      40, [](Optimizer& o) { return std::make_unique<CosineAnnealingLR>(o, 15, 0.1); },
      [&](int t) { return 0.1 + 0.9 * (1 + std::cos(pi * t / 15)) / 2; });
  expect_rates(
      12, [](Optimizer& o) { return std::make_unique<CosineAnnealingWarmRestarts>(o, 4, 2); },
      [&](int t) { return t < 4 ? (1 + std::cos(pi * t / 4)) / 2 : (1 + std::cos(pi * (t - 4) / 8)) / 2; });
  expect_rates(
      6,
      [](Optimizer& o) {
        return std::make_unique<LambdaLR>(o, [](int64_t t) { return 1.0 / (1 + static_cast<double>(t)); });
      },
      [](int t) { return 1.0 / (1 + t); });
  expect_rates(
      14,
      [](Optimizer& o) {
        std::vector<std::shared_ptr<LRScheduler>> parts = {std::make_shared<LinearLR>(o, 0.1, 1, 5),
                                                           std::make_shared<ExponentialLR>(o, 0.5)};
        return std::make_unique<SequentialLR>(o, parts, std::vector<int64_t>{5});
      },
      [](int t) { return t < 5 ? 0.1 + 0.9 * t / 5 : std::pow(0.5, t - 5); });
}

TEST(Schedulers, OneCycle) {
  Tensor w = draw_leaf({1});
  optim::Adam adam({w}, optim::AdamOptions(1));
  optim::OneCycleLR cycle(adam, optim::OneCycleLROptions(2.0, 10));
  std::vector<double> lrs, momenta;
  for (int i = 0; i < 10; ++i) {
    lrs.push_back(adam.param_groups()[0].options().get_lr());
    momenta.push_back(std::get<0>(static_cast<optim::AdamOptions&>(adam.param_groups()[0].options()).betas()));
    cycle.step();
  }
  EXPECT_NEAR(lrs[0], 2.0 / 25, 1e-12);
  EXPECT_NEAR(lrs[2], 2.0, 1e-12);
  EXPECT_NEAR(lrs[9], 2.0 / 25 / 1e4, 1e-12);
  EXPECT_NEAR(momenta[0], 0.95, 1e-12);
  EXPECT_NEAR(momenta[2], 0.85, 1e-12);
  expect_error<ValueError>([&] { cycle.step(); }, "total_steps");
}

TEST(Schedulers, Plateau) {
  Tensor w = draw_leaf({1});
  optim::SGD sgd({w}, optim::SGDOptions(1));
  optim::ReduceLROnPlateauScheduler plateau(sgd, optim::ReduceLROnPlateauScheduler::min, 0.5, 1);
  std::vector<double> found;
  for (double loss : {3., 2., 2., 2., 2., 2., 1., 1.}) {
    plateau.step(loss);
    found.push_back(plateau.get_last_lr()[0]);
  }
  EXPECT_EQ(found, (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25}));
}

TEST(Amp, AutocastInARegion) {
  const Tensor a = draw({4, 4}).to(kFloat);
  Tensor w = draw({4, 4}).to(kFloat).requires_grad_();
  {
    const amp::autocast cast(kCPU, kBFloat16);
    EXPECT_TRUE(autocast::is_autocast_enabled(kCPU));
    const Tensor y = a.matmul(w);
    EXPECT_EQ(y.scalar_type(), kBFloat16);
    {
      const amp::autocast off(kCPU, std::nullopt, false);
      EXPECT_EQ(a.matmul(w).scalar_type(), kFloat);
    }
    mse_loss(y, zeros_like(y)).backward();
  }
  EXPECT_EQ(a.matmul(w).scalar_type(), kFloat);
  EXPECT_EQ(w.grad().scalar_type(), kFloat);
  Tensor v = w.detach().clone().requires_grad_();
  const Tensor narrow = a.to(kBFloat16).matmul(v.to(kBFloat16)).to(kFloat);
  mse_loss(narrow, zeros_like(narrow)).backward();
  EXPECT_TRUE(equal(v.grad(), w.grad()));
}

TEST(Amp, GradScaler) {
  Tensor w = ones({3}).requires_grad_();
  optim::SGD sgd({w}, optim::SGDOptions(1));
  amp::GradScaler scaler(amp::GradScalerOptions().init_scale(8).growth_interval(2));
  std::vector<double> scales;
  for (const bool bad : {false, false, true, false}) {
    sgd.zero_grad();
    scaler.scale(w.sum()).backward();
    if (bad) w.grad()[1].fill_(std::nan(""));
    const Tensor before = w.detach().clone();
    scaler.step(sgd);
    EXPECT_EQ(equal(w, before), bad);
    if (!bad) expect_close(before - w.detach(), ones({3}));
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 16, 8, 8}));
  amp::GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 8);
  EXPECT_EQ(other.state_dict()["_growth_tracker"].item<int64_t>(), 1);
  scaler.scale(w.sum()).backward();
  scaler.unscale_(sgd);
  expect_error<Error>([&] { scaler.unscale_(sgd); }, "already been called");
}

}  // namespace
