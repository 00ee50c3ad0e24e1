// What users hang into the tape: hooks of tensors and nodes, hooks of saved tensors, anomaly mode; and several threads that run
// backward at once. Functions of users are in autograd_function_test.cpp.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace facula {
namespace {

using autograd::DetectAnomalyGuard;
using autograd::HookHandle;
using autograd::SavedTensorHooks;
using autograd::variable_list;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::Watched;
using ::testing::HasSubstr;

// ---- hooks of tensors

TEST(AutogradHooks, SeeTheGradientOfATensor) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * x;
  Tensor seen_y, seen_x;
  y.register_hook([&](const Tensor& grad) { seen_y = grad.clone(); });
  x.register_hook([&](const Tensor& grad) { seen_x = grad.clone(); });
  (y.sin() + y).sum().backward();
  expect_close(seen_y, y.detach().cos() + 1);  // the sum over both uses
  expect_close(seen_x, x.grad());
}

TEST(AutogradHooks, ReplaceTheGradient) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  y.register_hook([](const Tensor& grad) { return grad * 10; });
  y.register_hook([](const Tensor& grad) { return grad + 1; });  // in the order of registering
  x.register_hook([](const Tensor& grad) { return -grad; });
  y.sum().backward();
  expect_close(x.grad(), full({3}, -22.0, kDouble));
}

TEST(AutogradHooks, ApplyToGradOfAnIntermediateResult) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  y.register_hook([](const Tensor& grad) { return grad * 10; });
  y.retain_grad();
  const Tensor loss = y.sum();
  expect_close(autograd::grad({loss}, {y}, {}, true)[0], full({3}, 10.0, kDouble));
  y.mutable_grad() = Tensor();
  loss.backward();
  expect_close(y.grad(), full({3}, 10.0, kDouble));
}

TEST(AutogradHooks, AreRemovedOnce) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  int calls = 0;
  HookHandle first = y.register_hook([&](const Tensor&) { ++calls; });
  HookHandle second = y.register_hook([&](const Tensor&) { calls += 10; });
  const Tensor loss = y.sum();
  loss.backward({}, true);
  EXPECT_EQ(calls, 11);
  first.remove();
  loss.backward({}, true);
  EXPECT_EQ(calls, 21);
  expect_error<ValueError>([&] { first.remove(); }, "has been removed already");
  HookHandle copy = second;
  y.remove_hook(second);
  expect_error<ValueError>([&] { copy.remove(); }, "has been removed already");
  loss.backward();
  EXPECT_EQ(calls, 21);
  HookHandle none;
  expect_error<ValueError>([&] { none.remove(); }, "holds no hook");
}

TEST(AutogradHooks, MayBeRemovedAfterTheirTensorIsGone) {
  HookHandle of_result, of_leaf, of_node, after;
  {
    const Tensor x = draw_leaf({3});
    const Tensor y = x * 2;
    of_result = y.register_hook([](const Tensor&) {});
    of_leaf = x.register_hook([](const Tensor&) {});
    of_node = y.grad_fn()->add_pre_hook([](const variable_list& grads) { return grads; });
    after = x.register_post_accumulate_grad_hook([](const Tensor&) {});
  }
  EXPECT_NO_THROW(of_result.remove());
  EXPECT_NO_THROW(of_leaf.remove());
  EXPECT_NO_THROW(of_node.remove());
  EXPECT_NO_THROW(after.remove());
}

TEST(AutogradHooks, MayRemoveThemselvesAndAddOthers) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  int calls = 0, later = 0;
  HookHandle self;
  self = y.register_hook([&](const Tensor&) {
    ++calls;
    self.remove();
    y.register_hook([&](const Tensor&) { ++later; });
  });
  const Tensor loss = y.sum();
  loss.backward({}, true);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(later, 0);
  loss.backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(later, 1);
}

TEST(AutogradHooks, NeedATensorThatRequiresGrad) {
  expect_error<Error>([] { draw({3}).register_hook([](const Tensor&) {}); }, "doesn't require gradient");
  const Tensor x = draw_leaf({3});
  expect_error<ValueError>([&] { x.register_hook(std::function<void(const Tensor&)>()); }, "the hook is empty");
  expect_error<Error>([&] { (x * 2).register_post_accumulate_grad_hook([](const Tensor&) {}); }, "non-leaf");
  expect_error<Error>([&] { draw({3}).register_post_accumulate_grad_hook([](const Tensor&) {}); }, "don't require");
}

TEST(AutogradHooks, GradientsOfTheWrongShapeAreRefused) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  HookHandle bad = y.register_hook([](const Tensor&) { return ones({4}, kDouble); });
  const Tensor loss = y.sum();
  expect_error<ShapeError>([&] { loss.backward({}, true); },
                           "a hook gave a gradient of shape [4] for output 0 of shape [3]");
  bad.remove();
  loss.backward();
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(AutogradHooks, BelongToTheValueBeforeAnInPlaceWrite) {
  const Tensor x = draw_leaf({3});
  Tensor y = x * 2;
  Tensor before, after;
  y.register_hook([&](const Tensor& grad) { before = grad.clone(); });
  y.mul_(5);
  y.register_hook([&](const Tensor& grad) { after = grad.clone(); });
  y.sum().backward();
  expect_close(after, ones({3}, kDouble));
  expect_close(before, full({3}, 5.0, kDouble));
}

TEST(AutogradHooks, RecordWhenTheGradientIsRecorded) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * x;
  y.register_hook([](const Tensor& grad) { return grad * grad; });
  const Tensor g = draw_leaf({3});
  const Tensor dx = autograd::grad({y}, {x}, {g}, std::nullopt, true)[0];  // 2 x g^2
  expect_close(autograd::grad({dx.sum()}, {g}, {}, true)[0], (4 * x * g).detach());
  expect_close(autograd::grad({dx.sum()}, {x})[0], (2 * g * g).detach());
}

TEST(AutogradHooks, MayRunBackwardThemselves) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const Tensor y = x * 2;
  y.register_hook([&](const Tensor&) {
    const EnableGradGuard record;
    (w.exp() * 2).sum().backward();
  });
  y.sum().backward();
  expect_close(w.grad(), 2 * w.detach().exp());
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(AutogradHooks, MayRunBackwardOverTheSameGraph) {
  const Tensor x = draw_leaf({3});
  const Tensor base = x.exp();
  const Tensor y = base * 2;
  Tensor inner;
  y.register_hook([&](const Tensor&) {
    const EnableGradGuard record;
    inner = autograd::grad({base.sum()}, {x}, {}, true)[0];
  });
  (y.sum() + base.sum()).backward();
  expect_close(inner, x.detach().exp());
  expect_close(x.grad(), 3 * x.detach().exp());
}

// ---- hooks after accumulation

TEST(AutogradHooks, AfterAccumulationSeeTheLeafWithItsGradient) {
  const Tensor x = draw_leaf({3});
  const Tensor start = x.detach().clone();
  int calls = 0;
  HookHandle handle = x.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
    ++calls;
    EXPECT_TRUE(leaf.is_same(x));
    const NoGradGuard quiet;
    Tensor(leaf).sub_(leaf.grad() * 0.1);  // an optimizer step in backward
    leaf.set_grad({});
  });
  ((x * 3).sum() + (x * 4).sum()).backward();
  EXPECT_EQ(calls, 1) << "once for the sum of all gradients";
  expect_close(x, start - 0.7);
  EXPECT_FALSE(x.grad().defined());
  autograd::grad({x.sum()}, {x});
  EXPECT_EQ(calls, 1) << "grad accumulates nothing";
  x.sum().backward({}, std::nullopt, false, TensorList({x}));
  EXPECT_EQ(calls, 2);
  handle.remove();
  x.sum().backward();
  EXPECT_EQ(calls, 2);
  expect_error<ValueError>([&] { handle.remove(); }, "removed already");
}

TEST(AutogradHooks, AfterAccumulationKeepTheirLeafUntilBackward) {
  int calls = 0;
  Watched memory({3});
  {
    Tensor loss;
    {
      const Tensor x = memory.take().requires_grad_();
      x.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
        ++calls;
        EXPECT_TRUE(leaf.grad().defined());
      });
      loss = (x + 1).sum();
    }
    EXPECT_FALSE(memory.freed());
    loss.backward();
    EXPECT_EQ(calls, 1);
  }
  EXPECT_TRUE(memory.freed());
}

// ---- hooks of nodes

TEST(AutogradHooks, OfNodesRunAroundThem) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const Tensor y = x * w;
  std::vector<std::string> order;
  const auto node = y.grad_fn();
  HookHandle pre = node->add_pre_hook([&](const variable_list& grads) {
    order.push_back("pre");
    EXPECT_EQ(grads.size(), 1u);
    return variable_list{grads[0] * 2};
  });
  HookHandle post = node->add_post_hook([&](const variable_list& outputs, const variable_list& inputs) {
    order.push_back("post");
    EXPECT_EQ(outputs.size(), 2u);
    expect_close(inputs[0], full({3}, 2.0, kDouble));
    return variable_list{outputs[0] * 3, outputs[1]};
  });
  y.register_hook([&](const Tensor&) { order.push_back("tensor"); });
  const Tensor loss = y.sum();
  loss.backward({}, true);
  EXPECT_EQ(order, (std::vector<std::string>{"tensor", "pre", "post"}));
  expect_close(x.grad(), 6 * w.detach());
  expect_close(w.grad(), 2 * x.detach());
  pre.remove();
  post.remove();
  expect_error<ValueError>([&] { pre.remove(); }, "removed already");
  HookHandle wrong = node->add_post_hook([](const variable_list&, const variable_list&) { return variable_list(); });
  expect_error<ValueError>([&] { loss.backward({}, true); }, "a post hook gave 0 gradients for 2");
  wrong.remove();
  expect_error<ValueError>([&] { node->add_pre_hook({}); }, "the hook is empty");
  expect_error<ValueError>([&] { node->add_post_hook({}); }, "the hook is empty");
  wrong = node->add_pre_hook([](const variable_list&) { return variable_list(3); });
  expect_error<ValueError>([&] { loss.backward({}, true); }, "a pre hook gave 3 gradients for 1");
}

TEST(AutogradHooks, OfTensorsComeBeforeWhatGradGives) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  y.retain_grad();
  int before = 0, after = 0;
  y.register_hook([](const Tensor& grad) { return grad * 5; });
  x.register_hook([](const Tensor& grad) { return grad * 7; });
  y.grad_fn()->add_pre_hook([&](const variable_list& grads) {
    ++before;
    return variable_list{grads[0] * 11};
  });
  y.grad_fn()->add_post_hook([&](const variable_list& outputs, const variable_list&) {
    ++after;
    return outputs;
  });
  // Hooks of the node belong to running it, which is not needed for the gradient of its output.
  expect_close(autograd::grad({y.sum()}, {y}, {}, true)[0], full({3}, 5.0, kDouble));
  EXPECT_EQ(before + after, 0);
  expect_close(y.grad(), full({3}, 5.0, kDouble));
  expect_close(autograd::grad({y.sum()}, {x}, {}, true)[0], full({3}, 2.0 * 5 * 7 * 11, kDouble));
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  const variable_list both = autograd::grad({y.sum()}, {x, y}, {}, true);
  expect_close(both[0], full({3}, 2.0 * 5 * 7 * 11, kDouble));
  expect_close(both[1], full({3}, 5.0, kDouble));
  const Tensor inputs[] = {x};
  y.sum().backward({}, true, false, TensorList(inputs, 1));
  expect_close(x.grad(), full({3}, 2.0 * 5 * 7 * 11, kDouble));
}

TEST(AutogradHooks, HaveNumbersAsInLibtorch) {
  const Tensor x = draw_leaf({3});
  int calls = 0;
  const unsigned first = x.register_hook([&](const Tensor&) { ++calls; });
  unsigned second = x.register_hook([&](const Tensor&) { calls += 10; });
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 1u);
  x.sum().backward();
  EXPECT_EQ(calls, 11);
  x.remove_hook(first);
  x.sum().backward();
  EXPECT_EQ(calls, 21);
  EXPECT_NO_THROW(x.remove_hook(first)) << "it is gone, as asked for";
  x.remove_hook(second);
  x.sum().backward();
  EXPECT_EQ(calls, 21);
  expect_error<IndexError>([&] { x.remove_hook(2); }, "remove_hook: no hook at position 2");
  expect_error<IndexError>([] { draw({3}).remove_hook(0); }, "remove_hook: no hook at position 0");
}

// ---- hooks that throw

TEST(AutogradHooks, ThatThrowEndBackwardAndNothingElse) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x.exp();
  bool fail = true;
  y.register_hook([&](const Tensor&) {
    if (fail) throw std::runtime_error("not this time");
  });
  const Tensor loss = (y * y).sum();
  EXPECT_THROW(loss.backward({}, true), std::runtime_error);
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(GradMode::is_enabled()) << "modes are as before";
  fail = false;
  loss.backward();
  expect_close(x.grad(), 2 * (2 * x.detach()).exp());
}

TEST(AutogradHooks, ThatThrowInAnotherThread) {
  const Tensor x = draw_leaf({3});
  std::string caught;
  std::thread([&] {
    const Tensor y = x * 2;
    y.register_hook([](const Tensor&) { throw std::runtime_error("there"); });
    try {
      y.sum().backward();
    } catch (const std::runtime_error& e) {
      caught = e.what();
    }
  }).join();
  EXPECT_EQ(caught, "there");
  (x * 3).sum().backward();
  expect_close(x.grad(), full({3}, 3.0, kDouble));
}

TEST(AutogradHooks, GoWithTheirNode) {
  Watched captured({2}), captured_by_leaf({2}), kept({2});
  {
    const Tensor x = draw_leaf({3});
    const Tensor y = x * 2;
    y.register_hook([held = captured.take()](const Tensor&) {});
    x.register_hook([held = captured_by_leaf.take()](const Tensor&) {});
    // A hook that holds its own tensor keeps it alive; removing it lets both go.
    const Tensor z = x * kept.take().sum();
    HookHandle cycle = z.register_hook([z](const Tensor&) {});
    cycle.remove();
  }
  EXPECT_TRUE(captured.freed());
  EXPECT_TRUE(captured_by_leaf.freed());
  EXPECT_TRUE(kept.freed());
}

// ---- hooks of saved tensors

TEST(SavedHooks, PackAndUnpackWhatTheTapeSaves) {
  const Tensor x = draw_leaf({3}), w = draw({3});
  int packed = 0, unpacked = 0;
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& t) -> SavedTensorHooks::Packed {
          ++packed;
          EXPECT_FALSE(t.requires_grad());
          return std::make_shared<Tensor>(t.to(kFloat));
        },
        [&](const SavedTensorHooks::Packed& p) {
          ++unpacked;
          return static_cast<const Tensor*>(p.get())->to(kDouble);
        });
    y = ((x * w).exp() * x).sum();
  }
  EXPECT_GE(packed, 4);
  EXPECT_EQ(unpacked, 0);
  y.backward();
  EXPECT_EQ(unpacked, packed) << "each saved tensor is read once, leaves too";
  const Tensor e = (x * w).exp().detach();
  expect_close(x.grad(), e + e * w * x.detach(), 1e-6);
  // Outside of the scope tensors are saved as they are.
  x.mutable_grad() = Tensor();
  packed = 0;
  (x * w).sum().backward();
  EXPECT_EQ(packed, 0);
}

TEST(SavedHooks, WhatUnpackGivesIsUsed) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const auto pack = [](const Tensor& t) -> SavedTensorHooks::Packed { return std::make_shared<Tensor>(t * 2); };
  const auto unpack = [](const SavedTensorHooks::Packed& p) { return *static_cast<const Tensor*>(p.get()); };
  Tensor y;
  {
    const SavedTensorHooks hooks(pack, unpack);
    y = (x * w).sum();
  }
  y.backward();
  expect_close(x.grad(), 2 * w.detach());
  expect_close(w.grad(), 2 * x.detach());
}

TEST(SavedHooks, SecondOrderGoesThroughThem) {
  const Tensor x = draw_leaf({3}, 0.5, 1.5), w = draw_leaf({3}, 0.5, 1.5);
  const auto f = [&] { return (x * w).exp().mul(x).sum(); };
  const auto second = [&](const Tensor& y) {
    const variable_list d = autograd::grad({y}, {x, w}, {}, std::nullopt, true);
    return autograd::grad({d[0].sum() + (d[1] * d[0]).sum()}, {x, w});
  };
  const variable_list want = second(f());
  const SavedTensorHooks hooks(
      [](const Tensor& t) -> SavedTensorHooks::Packed { return std::make_shared<Tensor>(t.clone()); },
      [](const SavedTensorHooks::Packed& p) { return static_cast<const Tensor*>(p.get())->clone(); });
  const variable_list got = second(f());
  expect_close(got[0], want[0]);
  expect_close(got[1], want[1]);
}

TEST(SavedHooks, Nest) {
  const Tensor x = draw_leaf({3});
  int outer = 0, inner = 0;
  const auto counting = [](int& count) {
    return [&count](const Tensor& t) -> SavedTensorHooks::Packed {
      ++count;
      return std::make_shared<Tensor>(t);
    };
  };
  const auto plain = [](const SavedTensorHooks::Packed& p) { return *static_cast<const Tensor*>(p.get()); };
  Tensor y;
  {
    const SavedTensorHooks one(counting(outer), plain);
    y = x.exp();
    {
      const SavedTensorHooks two(counting(inner), plain);
      y = y.sin();
    }
    y = y.tanh();
  }
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
  y.sum().backward();
  const Tensor e = x.detach().exp();
  expect_close(x.grad(), (1 - e.sin().tanh().pow(2)) * e.cos() * e);
}

TEST(SavedHooks, ThatThrowLeaveTheTapeUsable) {
  const Tensor x = draw_leaf({3});
  {
    const SavedTensorHooks hooks(
        [](const Tensor&) -> SavedTensorHooks::Packed { throw std::runtime_error("disk full"); },
        [](const SavedTensorHooks::Packed&) { return Tensor(); });
    EXPECT_THROW(x.exp(), std::runtime_error);
    EXPECT_THROW(x.exp(), std::runtime_error);
    EXPECT_TRUE(GradMode::is_enabled());
  }
  Tensor y;
  {
    const SavedTensorHooks hooks([](const Tensor&) { return SavedTensorHooks::Packed(); },
                                 [](const SavedTensorHooks::Packed&) { return Tensor(); });
    y = x.exp().sum();
  }
  expect_error<ValueError>([&] { y.backward({}, true); }, "unpack of SavedTensorHooks gave an undefined tensor");
  x.exp().sum().backward();
  expect_close(x.grad(), x.detach().exp());
}

TEST(SavedHooks, LetGoOfWhatTheyHold) {
  Watched held({3});
  {
    const Tensor x = draw_leaf({3});
    Tensor y;
    {
      const SavedTensorHooks hooks(
          [](const Tensor& t) -> SavedTensorHooks::Packed { return std::make_shared<Tensor>(t); },
          [](const SavedTensorHooks::Packed& p) { return *static_cast<const Tensor*>(p.get()); });
      y = (x * held.take()).sum();
    }
    EXPECT_FALSE(held.freed());
    y.backward();
    EXPECT_TRUE(held.freed());
    expect_error<Error>([&] { y.backward(); }, "second time");
  }
}

// ---- anomaly mode

TEST(Anomaly, NamesTheFirstNodeThatGaveNan) {
  const Tensor x = zeros({3}, kDouble).requires_grad_();
  const DetectAnomalyGuard detect;
  const Tensor loss = (x.sqrt() * 0.0).exp().sum();  // inf * 0 in the gradient of sqrt
  try {
    loss.backward();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("Function 'SqrtBackward0' returned nan values in its 0th output"));
    EXPECT_THAT(e.what(), HasSubstr("the first nan"));
    EXPECT_THAT(e.what(), HasSubstr("Forward call: "));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("not known")));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("inside the library"))) << "the caller is this test";
  }
  EXPECT_FALSE(x.grad().defined());
}

TEST(Anomaly, IsOffAtFirstAndEndsWithItsGuard) {
  EXPECT_FALSE(autograd::AnomalyMode::is_enabled());
  const auto nan_gradient = [] {
    const Tensor x = zeros({3}, kDouble).requires_grad_();
    (x.sqrt() * 0.0).sum().backward();
  };
  EXPECT_NO_THROW(nan_gradient());
  {
    const DetectAnomalyGuard detect;
    EXPECT_TRUE(autograd::AnomalyMode::is_enabled());
    EXPECT_THROW(nan_gradient(), Error);
    {
      const DetectAnomalyGuard no_nan(false);
      EXPECT_NO_THROW(nan_gradient());
    }
    EXPECT_THROW(nan_gradient(), Error);
  }
  EXPECT_FALSE(autograd::AnomalyMode::is_enabled());
  EXPECT_NO_THROW(nan_gradient());
}

TEST(Anomaly, SaysWhereAFailingNodeWasRecorded) {
  const Tensor x = draw_leaf({3});
  const DetectAnomalyGuard detect;
  Tensor y = x.exp();
  y.add_(1);
  try {
    y.sum().backward();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("modified by an inplace operation"));
    EXPECT_THAT(e.what(), HasSubstr("Forward call: "));
  }
}

// ---- threads

TEST(AutogradThreads, RunBackwardAtOnce) {
  constexpr int kThreads = 8, kRounds = 50;
  const Tensor shared = draw_leaf({64});
  const Tensor base = shared.exp();  // one graph under all of them
  const Tensor want = base.detach() * kThreads * kRounds * 3.0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Tensor own = full({64}, t + 1.0, kDouble).requires_grad_();
      for (int round = 0; round < kRounds; ++round) {
        (base * 3).sum().backward({}, true);
        (own * own).sum().backward();
      }
      if (!own.grad().allclose(own.detach() * 2 * kRounds)) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  expect_close(shared.grad(), want, 1e-10);
}

TEST(AutogradThreads, ThatThrowDoNotDisturbOthers) {
  constexpr int kThreads = 6;
  const Tensor x = draw_leaf({16});
  const Tensor base = x.exp();
  std::atomic<int> thrown = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 30; ++round) {
        const Tensor y = base * 2;
        if (t % 2) y.register_hook([](const Tensor&) { throw std::runtime_error("mine"); });
        try {
          y.sum().backward({}, true);
        } catch (const std::runtime_error&) {
          ++thrown;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, 3 * 30);
  expect_close(x.grad(), 2.0 * 3 * 30 * base.detach(), 1e-10);
}

TEST(AutogradThreads, ThatFreeAGraphUnderEachOtherGetTypedErrors) {
  for (int round = 0; round < 50; ++round) {
    const Tensor x = draw_leaf({8});
    Tensor y = x;
    for (int i = 0; i < 20; ++i) {
      y = (y * x).tanh() + 0.5;
      y.narrow(0, 0, 4).mul_(0.5);
    }
    const Tensor loss = y.sum();
    std::atomic<int> finished = 0, refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        try {
          loss.backward();
          ++finished;
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("second time"));
          ++refused;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(finished + refused, 4);
  }
  const Tensor x = draw_leaf({3});
  x.exp().sum().backward();
  expect_close(x.grad(), x.detach().exp());
}

TEST(AutogradThreads, AGraphMayBeRunAndDroppedInAnotherThread) {
  Watched leaf({3}), factor({3});
  {
    const Tensor x = leaf.take().requires_grad_();
    Tensor loss = (x * factor.take()).sum();
    std::thread([loss = std::move(loss)]() mutable {
      loss.backward();
      loss = Tensor();
    }).join();
    EXPECT_TRUE(factor.freed());
    EXPECT_TRUE(x.grad().defined());
  }
  EXPECT_TRUE(leaf.freed());
}

}  // namespace
}  // namespace facula
