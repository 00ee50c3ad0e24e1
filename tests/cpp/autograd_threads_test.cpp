// Threads that share tensors without telling each other: views that find their new history, leaves with hooks, and leaves
// that die while a backward pass runs. Meant for a run under the thread sanitizer too.
#include <facula/facula.h>

#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace facula {
namespace {

using autograd::HookHandle;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;

// Runs `f(number)` in several threads that start together.
template <class F>
void together(int threads, F f) {
  std::atomic<int> waiting = threads;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      f(t);
    });
  for (std::thread& each : all) each.join();
}

TEST(AutogradThreads, ShareAViewWhoseBaseWasWritten) {
  constexpr int kThreads = 4, kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    const Tensor x = draw_leaf({6}), w = draw_leaf({3});
    Tensor y = x * 2;
    const Tensor part = y.narrow(0, 1, 3), plain = zeros({6}, kDouble), view = plain.narrow(0, 0, 3);
    y.mul_(3);
    plain.mul_(x);  // its view has no tape yet
    std::atomic<int> wrong = 0;
    together(kThreads, [&](int t) {
      if (part.grad().defined()) ++wrong;
      if (!part.requires_grad() || !view.requires_grad()) ++wrong;
      if (t % 2) (part * w).sum().backward({}, true);
      else (view + part).sum().backward({}, true);
      if (!part.grad_fn()) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
    const Tensor in_part = cat({zeros({1}, kDouble), ones({3}, kDouble), zeros({2}, kDouble)});
    const Tensor weights = cat({zeros({1}, kDouble), w.detach(), zeros({2}, kDouble)});
    expect_close(x.grad(), 2 * 6 * weights + 2 * 6 * in_part, 1e-10);
  }
}

TEST(AutogradThreads, AddAndRemoveHooksOfOneLeaf) {
  constexpr int kThreads = 4, kRounds = 60;
  const Tensor x = draw_leaf({8});
  const Tensor shared = x * 2;
  std::atomic<int> calls = 0, own = 0;
  together(kThreads, [&](int) {
    for (int round = 0; round < kRounds; ++round) {
      HookHandle on_leaf = x.register_hook([&](const Tensor&) { ++calls; });
      HookHandle on_result = shared.register_hook([&](const Tensor&) { ++calls; });
      HookHandle after = x.register_post_accumulate_grad_hook([&](const Tensor& leaf) { own += leaf.is_same(x); });
      HookHandle before = shared.grad_fn()->add_pre_hook([](const autograd::variable_list& grads) { return grads; });
      (shared * 3).sum().backward({}, true);
      on_leaf.remove();
      on_result.remove();
      after.remove();
      before.remove();
    }
  });
  EXPECT_GE(calls, 2 * kThreads * kRounds);
  EXPECT_GE(own, kThreads * kRounds);
  expect_close(x.grad(), full({8}, 6.0 * kThreads * kRounds, kDouble), 1e-10);
  // None is left.
  const int so_far = calls;
  shared.sum().backward();
  EXPECT_EQ(calls, so_far);
}

TEST(AutogradThreads, RemoveHooksOfNodesThatDie) {
  for (int round = 0; round < 100; ++round) {
    const Tensor x = draw_leaf({4});
    Tensor y = x * 2;
    HookHandle first = y.register_hook([](const Tensor&) {}), second = first;
    std::atomic<int> refused = 0;
    together(3, [&](int t) {
      if (t == 0) {
        y.reset();
        return;
      }
      try {
        (t == 1 ? first : second).remove();
      } catch (const ValueError&) {
        ++refused;
      }
    });
    EXPECT_LE(refused, 1);
  }
}

TEST(AutogradThreads, ALeafMayDieWhileItsHooksRun) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> calls = 0;
    Tensor x = draw_leaf({4}), kept;
    // Recorded before there are hooks: the graph does not hold the leaf.
    const Tensor loss = x.sum();
    x.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
      ++calls;
      EXPECT_TRUE(leaf.grad().defined());
      kept = leaf;
    });
    together(2, [&](int t) {
      if (t == 0) x.reset();
      else loss.backward();
    });
    EXPECT_LE(calls, 1);
    if (calls) expect_close(kept.grad(), ones({4}, kDouble));
  }
}

TEST(AutogradThreads, ResultsKeepTheirGradients) {
  const Tensor x = draw_leaf({8});
  const Tensor y = x * 2;
  y.retain_grad();
  together(4, [&](int) {
    for (int round = 0; round < 20; ++round) (y * 3).sum().backward({}, true);
  });
  expect_close(y.grad(), full({8}, 3.0 * 4 * 20, kDouble), 1e-10);
}

TEST(AutogradThreads, MayCloseALevelOfForwardModeTooEarly) {
  auto outer = std::make_unique<autograd::DualLevel>();
  auto inner = std::make_unique<autograd::DualLevel>();
  const Tensor x = draw({3}), t = draw({3});
  const Tensor dual = inner->make_dual(x, t);
  outer.reset();
  expect_close(inner->unpack_dual(dual * 2).second, 2 * t);
  std::thread([&] { inner.reset(); }).join();
  const autograd::DualLevel again;
  expect_close(again.unpack_dual(again.make_dual(x, t) * 2).second, 2 * t);
}

TEST(AutogradThreads, MayAddHooksToAGraphThatRuns) {
  constexpr int kNodes = 100, kRounds = 30;
  std::atomic<int> without_memory = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Tensor x = full({4096}, 0.5).requires_grad_();
    std::atomic<int> running = kNodes;  // the node that backward has come to
    std::vector<Tensor> all;
    Tensor y = x;
    using Pair = std::pair<int, Tensor>;
    for (int i = 0; i < kNodes; ++i) {
      const autograd::SavedTensorHooks hooks(
          [i](const Tensor& t) -> std::shared_ptr<void> { return std::make_shared<Pair>(i, t); },
          [&running](const std::shared_ptr<void>& packed) {
            running = static_cast<const Pair*>(packed.get())->first;
            return static_cast<const Pair*>(packed.get())->second;
          });
      y = y.sin();
      all.push_back(y);
    }
    const Tensor loss = y.sum();
    std::thread adds([&] {
      for (int last = kNodes, now; (now = running.load()) > 0;) {
        if (now == last) continue;
        last = now;
        if (now % 4 != 1) continue;
        all[static_cast<size_t>(now) - 1].register_hook(
            std::function<void(const Tensor&)>([&](const Tensor& g) { without_memory += g.data_ptr() == nullptr; }));
      }
    });
    loss.backward();
    running = 0;
    adds.join();
  }
  EXPECT_EQ(without_memory, 0);
}

TEST(AutogradThreads, MayEndSavedTensorHooksTooEarlyOrElsewhere) {
  using autograd::SavedTensorHooks;
  std::vector<int> packed;
  const auto hooks = [&](int number) {
    return std::make_unique<SavedTensorHooks>(
        [&packed, number](const Tensor& t) -> SavedTensorHooks::Packed {
          packed.push_back(number);
          return std::make_shared<Tensor>(t);
        },
        [](const SavedTensorHooks::Packed& p) { return *static_cast<const Tensor*>(p.get()); });
  };
  const Tensor x = draw_leaf({3});
  auto outer = hooks(1), inner = hooks(2);
  std::unique_ptr<SavedTensorHooks> elsewhere;
  std::thread([&] { elsewhere = hooks(3); }).join();
  elsewhere.reset();  // is none of this thread's
  x.exp();
  outer.reset();
  x.exp();
  inner.reset();
  x.exp();
  EXPECT_EQ(packed, (std::vector<int>{2, 2}));
}

}  // namespace
}  // namespace facula
