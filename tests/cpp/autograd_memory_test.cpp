// Deep and wide graphs, and when their memory goes.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace facula {
namespace {

using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::Watched;

// ---- deep and wide graphs

TEST(AutogradDepth, AChainOfAHundredThousandNodes) {
  const Tensor x = draw_leaf({2});
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = i % 2 ? y * 1.0 : y + 1.0;
    y.sum().backward();
    expect_close(x.grad(), ones({2}, kDouble));
  }  // and its end
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y + 1.0;
  }  // an end without backward
  SUCCEED();
}

TEST(AutogradDepth, AChainOfInPlaceWrites) {
  const Tensor x = draw_leaf({2});
  Tensor y = x * 1.0;
  for (int i = 0; i < 20000; ++i) y.add_(1);
  Tensor part = y[0];
  for (int i = 0; i < 20000; ++i) part.add_(1);
  y.sum().backward();
  expect_close(x.grad(), ones({2}, kDouble));
}

TEST(AutogradDepth, AChainOfSecondOrder) {
  const Tensor x = draw_leaf({});
  Tensor y = x;
  for (int i = 0; i < 3000; ++i) y = y * 1.0 + 0.0;
  y = y * y;
  const Tensor dx = autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
  expect_close(autograd::grad({dx}, {x})[0], full({}, 2.0, kDouble));
}

TEST(AutogradDepth, AWideGraph) {
  const Tensor x = draw_leaf({2});
  std::vector<Tensor> parts;
  for (int i = 0; i < 5000; ++i) parts.push_back(x * i);
  stack(parts).sum().backward();
  expect_close(x.grad(), full({2}, 4999.0 * 5000 / 2, kDouble));
}

// ---- memory

TEST(AutogradMemory, SavedTensorsGoAsBackwardRuns) {
  const Tensor x = draw_leaf({3});
  Watched first({3}), second({3});
  Tensor y = x * first.take();
  bool second_gone_before_first_ran = false;
  y.register_hook([&](const Tensor&) { second_gone_before_first_ran = second.freed(); });
  const Tensor z = y * second.take();
  const Tensor loss = z.sum();
  EXPECT_FALSE(first.freed());
  loss.backward();
  EXPECT_TRUE(second_gone_before_first_ran) << "a node lets go when it has run, not when all have";
  EXPECT_TRUE(first.freed());
  EXPECT_TRUE(second.freed());
}

TEST(AutogradMemory, RetainedGraphsKeepWhatTheySaved) {
  const Tensor x = draw_leaf({3});
  Watched saved({3});
  {
    const Tensor loss = (x * saved.take()).sum();
    loss.backward({}, true);
    EXPECT_FALSE(saved.freed());
    loss.backward({}, true);
    EXPECT_FALSE(saved.freed());
  }
  EXPECT_TRUE(saved.freed());
}

TEST(AutogradMemory, DroppedGraphsGoWithoutBackward) {
  Watched leaf({3}), factor({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    const Tensor loss = ((x * factor.take()).exp() * x).sum();
    EXPECT_FALSE(factor.freed());
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(factor.freed());
}

TEST(AutogradMemory, SavedResultsDoNotKeepTheirNodesAlive) {
  // exp saves its result, whose history is exp itself.
  Watched leaf({3}), factor({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    Tensor y = (x * factor.take()).exp().tanh().sigmoid();
    y.retain_grad();
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(factor.freed());
}

TEST(AutogradMemory, InPlaceWritesToSavedResultsMakeNoCycle) {
  Watched leaf({4}), factor({4}), part({2});
  {
    const Tensor x = leaf.take().requires_grad_();
    const Tensor c = factor.take();
    Tensor y = x * c;
    y.mul_(c);
    y.exp_();
    y.narrow(0, 0, 2).mul_(part.take());
    y.tanh_();
    y.retain_grad();
    const Tensor view = y.narrow(0, 1, 2);
    EXPECT_TRUE(view.requires_grad());
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(factor.freed());
  EXPECT_TRUE(part.freed());
}

TEST(AutogradMemory, ThrownBackwardPassesLeaveNothing) {
  Watched leaf({3}), factor({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    const Tensor y = x * factor.take();
    y.register_hook([](const Tensor&) { throw std::runtime_error("no"); });
    const Tensor loss = y.exp().sum();
    EXPECT_THROW(loss.backward(), std::runtime_error);
    EXPECT_FALSE(x.grad().defined());
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(factor.freed());
}

TEST(AutogradMemory, SecondOrderGraphsGo) {
  Watched leaf({3}), factor({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    const Tensor y = (x * factor.take()).exp().sum();
    const Tensor dx = autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
    autograd::grad({dx.sum()}, {x});
  }
  EXPECT_TRUE(leaf.freed());
  EXPECT_TRUE(factor.freed());
}

TEST(AutogradMemory, ALeafMayDieBeforeBackward) {
  Tensor loss;
  {
    const Tensor x = draw_leaf({3});
    loss = (x + 1).sum();
  }
  loss.backward();  // its gradient goes nowhere
  loss.backward();
}

}  // namespace
}  // namespace facula
