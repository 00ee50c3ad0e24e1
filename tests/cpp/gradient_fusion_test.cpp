// Gradients of chains of pointwise ops: one program for a chain, the same numbers as node by node, and nobody who looks at a
// gradient or writes to memory in between sees a difference.
#include "autograd/pending.h"
#include "core/call_hooks.h"

#include <facula/autograd/gradcheck.h>
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"
#include "cpp/seed.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

namespace facula {
namespace {

using autograd::gradient_programs;
using autograd::GradientPrograms;
using autograd::SavedTensorHooks;
using autograd::variable_list;
using facula_test::seed_text;
using facula_test::test_seed;

constexpr int64_t kNever = INT64_MAX;

// Chains run as one program from this many elements on, while it lives.
class FuseFrom {
 public:
  explicit FuseFrom(int64_t count) : before_(autograd::least_fused_elements()) {
    autograd::set_least_fused_elements(count);
  }
  ~FuseFrom() { autograd::set_least_fused_elements(before_); }
  FuseFrom(const FuseFrom&) = delete;
  FuseFrom& operator=(const FuseFrom&) = delete;

 private:
  int64_t before_;
};

class CallCount final : detail::CallWatcher {
 public:
  int calls = 0;

 private:
  void on_call(OpId, const detail::OpAttrs*) override { ++calls; }
};

struct Ran {
  uint64_t programs, formulas;
  int calls;
};

// What `backward` ran: programs of chains with their formulas, and ops.
Ran run_of(const std::function<void()>& backward) {
  const GradientPrograms before = gradient_programs();
  CallCount watcher;
  backward();
  const GradientPrograms after = gradient_programs();
  return {after.programs - before.programs, after.formulas - before.formulas, watcher.calls};
}

Tensor leaf(IntArrayRef sizes, ScalarType dtype = kDouble) {
  return randn(sizes, TensorOptions(dtype)).requires_grad_(true);
}

// Equal in every bit.
void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.defined(), b.defined());
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes(), b.sizes());
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  EXPECT_TRUE(a.eq(b).logical_or(a.isnan().logical_and(b.isnan())).all().item<bool>());
}
void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.defined(), b.defined());
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes(), b.sizes());
  const Tensor x = a.to(kDouble), y = b.to(kDouble);
  EXPECT_LE((x - y).abs().max().item<double>(), tolerance * (1 + y.abs().max().item<double>()));
}

// ---- how many programs

TEST(GradientFusion, AChainRunsOneProgram) {
  const Tensor x = leaf({64, 128}), w = randn({64, 128}, kDouble), b = randn({128}, kDouble);
  const Tensor g = randn({64, 128}, kDouble);
  const Tensor y = (((x * w).sigmoid() + b).tanh() * 1.5).exp().sin().square().neg();
  const Ran ran = run_of([&] { y.backward(g); });
  EXPECT_EQ(ran.programs, 1u);
  EXPECT_EQ(ran.formulas, 8u);  // adding a constant has none
  EXPECT_EQ(ran.calls, 0);
}

TEST(GradientFusion, SeveralLeavesOfOneShapeShareTheProgram) {
  const Tensor x = leaf({5000}), w = leaf({5000}), b = leaf({5000});
  const Tensor y = ((x * w).sigmoid() + b).tanh().exp();
  const Tensor g = randn({5000}, kDouble);
  const Ran ran = run_of([&] { y.backward(g); });
  EXPECT_EQ(ran.programs, 1u);
  EXPECT_EQ(ran.formulas, 5u);
  const Tensor s = (x * w).sigmoid().detach(), t = (s + b).tanh().detach();
  const Tensor at_b = g * t.exp() * (1 - t * t), at_product = at_b * s * (1 - s);
  expect_near(b.grad(), at_b, 1e-14);
  expect_near(x.grad(), at_product * w, 1e-14);
  expect_near(w.grad(), at_product * x, 1e-14);
}

TEST(GradientFusion, BranchesThatMeetAgainShareTheProgram) {
  const Tensor x = leaf({70, 70});
  const Tensor s = x.sin();
  const Tensor y = s.exp() * s.tanh() + s;
  const Ran ran = run_of([&] { y.backward(ones_like(y)); });
  EXPECT_EQ(ran.programs, 1u);
  const Tensor d = s.detach();
  const Tensor slope = d.exp() * d.tanh() + d.exp() * (1 - d.tanh().square()) + 1;
  expect_near(x.grad(), slope * x.detach().cos(), 1e-13);
}

TEST(GradientFusion, StartsFromAGradientThatIsSpreadOverAllEntries) {
  const Tensor x = leaf({128, 64});
  const Tensor loss = (x.sin() * 3).exp().sum();
  const Ran ran = run_of([&] { loss.backward(); });
  EXPECT_EQ(ran.programs, 1u);
  const Tensor d = x.detach();
  expect_near(x.grad(), (d.sin() * 3).exp() * 3 * d.cos(), 1e-14);
}

TEST(GradientFusion, LongChainsRunInPieces) {
  const Tensor x = leaf({5000});
  Tensor y = x;
  for (int i = 0; i < 100; ++i) y = y.sin() * 1.01;
  const Ran ran = run_of([&] { y.backward(ones_like(y)); });
  EXPECT_EQ(ran.formulas, 200u);
  EXPECT_GE(ran.programs, 200u / 16);
  EXPECT_LE(ran.programs, 200u / 12);
}

TEST(GradientFusion, SmallTensorsGoNodeByNode) {
  const Tensor x = leaf({100});
  EXPECT_EQ(run_of([&] { x.sin().exp().sum().backward(); }).programs, 0u);
}

TEST(GradientFusion, WhoRecordsTheGradientGoesNodeByNode) {
  const FuseFrom all(1);
  const Tensor x = leaf({40});
  const Tensor y = x.sin().exp();
  const Ran ran = run_of([&] {
    const variable_list first = autograd::grad({y.sum()}, {x}, {}, true, true);
    first[0].square().sum().backward();
  });
  EXPECT_GT(ran.calls, 0);
  const FuseFrom none(kNever);
  const Tensor again = x.detach().clone().requires_grad_(true);
  const variable_list first = autograd::grad({again.sin().exp().sum()}, {again}, {}, true, true);
  first[0].square().sum().backward();
  expect_near(x.grad(), again.grad(), 1e-14);
}

TEST(GradientFusion, AnomalyModeGoesNodeByNode) {
  const FuseFrom all(1);
  const autograd::DetectAnomalyGuard watch;
  const Tensor x = leaf({40});
  EXPECT_EQ(run_of([&] { x.sin().exp().sum().backward(); }).programs, 0u);
}

// ---- the same numbers as node by node

// What backward through a graph gave: gradients of leaves and of tensors in the middle, and what hooks saw.
struct Gradients {
  std::vector<Tensor> leaves, kept, seen;
};

// Backward through a graph drawn from `seed`: pointwise ops over tensors that broadcast, with shared parts, writes in place
// and, if `watched`, hooks and gradients that are kept in the middle.
Gradients drawn_gradients(uint64_t seed, ScalarType dtype, bool watched, int64_t rows, int64_t cols) {
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const auto drawn = [&](IntArrayRef sizes) {
    Tensor t = empty(sizes, kDouble);
    std::normal_distribution<double> numbers;
    std::generate_n(t.data_ptr<double>(), t.numel(), [&] { return numbers(random); });
    return t.to(dtype);
  };
  Gradients found;
  std::vector<Tensor> leaves = {drawn({rows, cols}), drawn({cols, rows}), drawn({cols}), drawn({rows, 1}), drawn({})};
  for (Tensor& t : leaves) t.requires_grad_(true);
  const Tensor mask = drawn({rows, cols}) > 0, constant = drawn({rows, cols}), incoming = drawn({rows, cols});
  // What has the full shape; the second leaf is seen transposed.
  std::vector<Tensor> all = {leaves[0] * 1.0, leaves[1].t() + 0.25}, kept;
  const size_t length = 4 + pick(14);
  for (size_t i = 0; i < length; ++i) {
    const Tensor x = all[all.size() - 1 - pick(std::min<size_t>(all.size(), 3))];
    const Tensor other = pick(2) ? all[pick(all.size())] : pick(3) ? leaves[2 + pick(3)] : constant;
    Tensor y;
    switch (pick(24)) {
      case 0: y = x.sin(); break;
      case 1: y = x.tanh(); break;
      case 2: y = x.sigmoid(); break;
      case 3: y = x.clamp(-3, 2).exp(); break;
      case 4: y = x.square().tanh() * 0.5; break;
      case 5: y = -x; break;
      case 6: y = relu(x); break;
      case 7: y = gelu(x); break;
      case 8: y = x + other; break;
      case 9: y = x - other; break;
      case 10: y = (x * other).tanh(); break;
      case 11: y = x / (other.square() + 1); break;
      case 12: y = maximum(x, other); break;
      case 13: y = where(mask, x, other); break;
      case 14: y = x.masked_fill(mask, 0.5); break;
      case 15: y = x * 1.25; break;
      case 16: y = x.cos().mul_(other).sin(); break;
      case 17: y = x.sin().add_(other, 0.5).sigmoid_(); break;
      case 18: y = (x.abs() + 1).log(); break;
      case 19: y = x.tanh().pow(3); break;
      case 20: y = atan2(x, other.square() + 1); break;
      case 21: y = lerp(x, constant, 0.3); break;
      case 22: y = (x.t() * 2).t(); break;  // views are no pointwise ops
      default: y = softplus(x); break;
    }
    if (watched && pick(4) == 0) {
      const double factor = 1.0 - 0.25 * static_cast<double>(pick(3));
      y.register_hook([factor, &found](const Tensor& grad) {
        found.seen.push_back(grad.clone());
        return grad * factor;
      });
    }
    if (watched && pick(4) == 0) {
      y.retain_grad();
      kept.push_back(y);
    }
    all.push_back(y);
  }
  const Tensor before = incoming.clone(), result = all.back() + all[pick(all.size())];
  result.backward(incoming);
  expect_same(incoming, before);
  for (const Tensor& t : leaves) found.leaves.push_back(t.grad());
  for (const Tensor& t : kept) found.kept.push_back(t.grad());
  return found;
}

void compare_both_ways(ScalarType dtype, int64_t rows, int64_t cols, int graphs, double tolerance) {
  for (int i = 0; i < graphs; ++i) {
    const uint64_t seed = test_seed() * 1000 + static_cast<uint64_t>(i);
    for (const bool watched : {false, true}) {
      SCOPED_TRACE(str(seed_text(), ", graph ", i, " of ", toString(dtype), watched ? ", watched" : ""));
      Gradients one, other;
      {
        const FuseFrom all(1);
        one = drawn_gradients(seed, dtype, watched, rows, cols);
      }
      {
        const FuseFrom none(kNever);
        other = drawn_gradients(seed, dtype, watched, rows, cols);
      }
      const auto compare = [&](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t k = 0; k < a.size(); ++k) {
          if (tolerance == 0) expect_same(a[k], b[k]);
          else expect_near(a[k], b[k], tolerance);
        }
      };
      compare(one.leaves, other.leaves);
      compare(one.kept, other.kept);
      compare(one.seen, other.seen);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(GradientFusion, DrawnGraphsOfFloat64) { compare_both_ways(kDouble, 7, 9, 200, 0); }
TEST(GradientFusion, DrawnGraphsOfFloat32) { compare_both_ways(kFloat, 7, 9, 200, 0); }
TEST(GradientFusion, DrawnGraphsOfManyTiles) { compare_both_ways(kFloat, 150, 130, 40, 0); }
// Between the formulas of a chain nothing is rounded to bfloat16.
TEST(GradientFusion, DrawnGraphsOfBfloat16) { compare_both_ways(kBFloat16, 7, 9, 100, 0.1); }

// The gradient of every formula, as differences have it.
TEST(GradientFusion, AgreesWithDifferences) {
  const FuseFrom all(1);
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> functions = {
      [](const Tensor& x, const Tensor& w) { return ((x * w).sigmoid() + w).tanh().exp(); },
      [](const Tensor& x, const Tensor& w) { return (x.sin() / (w.square() + 1)).cos() * x; },
      [](const Tensor& x, const Tensor& w) { return gelu(x - w) * silu(w * 0.5 - x) + (x.abs() + 1).log(); },
      [](const Tensor& x, const Tensor& w) { return x.sin().mul_(w).exp_().sqrt(); },
      [](const Tensor& x, const Tensor& w) { return atan2(x.exp(), w.exp()).pow(2.5).neg().expm1(); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    const auto f = [&](const variable_list& in) { return variable_list{functions[i](in[0], in[1])}; };
    EXPECT_TRUE(autograd::gradcheck(f, {leaf({4, 3}), leaf({4, 3})}));
    EXPECT_TRUE(autograd::gradcheck(f, {leaf({4, 3}), leaf({3})}));
    EXPECT_TRUE(autograd::gradcheck(f, {leaf({3, 4}).t(), leaf({4, 1})}));
  }
}

// ---- who looks or writes in between

TEST(GradientFusion, AGradientInTheMiddleCanBeAskedFor) {
  const FuseFrom all(1);
  const Tensor x = leaf({50});
  const Tensor s = x.sin(), y = s.exp() * 2;
  const variable_list found = autograd::grad({y.sum()}, {s, x}, {}, true);
  expect_near(found[0], 2 * s.detach().exp(), 1e-15);
  expect_near(found[1], 2 * s.detach().exp() * x.detach().cos(), 1e-15);
  EXPECT_FALSE(autograd::is_pending(found[0]));
}

TEST(GradientFusion, GraphsThatAreKeptGiveTheSameAgain) {
  const FuseFrom all(1);
  const Tensor x = leaf({50}), w = leaf({50});
  const Tensor y = ((x * w).sigmoid() + w).tanh().exp();
  const Tensor g = randn({50}, kDouble);
  y.backward(g, true);
  const Tensor first = x.grad().clone(), values = y.detach().clone();
  x.mutable_grad() = Tensor();
  y.backward(g);
  expect_same(x.grad(), first);
  expect_same(y.detach(), values);
}

// A gradient may take the memory of what only the graph held; what the user holds stays.
TEST(GradientFusion, TensorsOfTheUserKeepTheirValues) {
  const FuseFrom all(1);
  const Tensor x = leaf({50});
  const Tensor s = x.sigmoid(), view = s.detach().view({10, 5});
  const Tensor before = view.clone(), g = randn({50}, kDouble), g_before = g.clone();
  Tensor y = s.tanh().exp();
  y.backward(g);
  expect_same(view, before);
  expect_same(g, g_before);
}

// An optimizer in a hook writes to a weight while a gradient is still to be computed from it. The hook's leaf has its gradient
// before that: it is the incoming one.
TEST(GradientFusion, HooksAfterAccumulationMayWriteToWeights) {
  const FuseFrom all(1);
  const Tensor x = leaf({50}), v = leaf({50}), w = randn({50}, kDouble);
  const Tensor before = w.clone();
  const Tensor other = v + 1, product = (x.sin() * w).exp();
  const Tensor one = other.sum(), two = product.sum(), loss = one + two;
  v.register_post_accumulate_grad_hook([&](const Tensor&) { w.zero_(); });
  loss.backward();
  const Tensor d = x.detach();
  expect_near(x.grad(), (d.sin() * before).exp() * before * d.cos(), 1e-14);
  expect_same(w, zeros_like(w));
}

// Backward adds to x.grad while the gradient of w is still to be computed from it.
TEST(GradientFusion, TheGradOfALeafMayBePartOfTheGraph) {
  const FuseFrom all(1);
  const Tensor x = leaf({50}), w = leaf({50});
  x.mutable_grad() = randn({50}, kDouble);
  const Tensor before = x.grad().clone();
  const Tensor other = x + 1, product = (w * x.grad()).tanh();
  const Tensor one = other.sum(), two = product.sum();
  (one + two).backward();
  expect_near(w.grad(), (1 - (w.detach() * before).tanh().square()) * before, 1e-14);
  expect_near(x.grad(), before + 1, 1e-15);
}

TEST(GradientFusion, HooksOfSavedTensorsMayUseOneBuffer) {
  const FuseFrom all(1);
  const Tensor x = leaf({50});
  const Tensor buffer = empty({50}, kDouble);
  Tensor y;
  {
    const SavedTensorHooks hooks([](const Tensor& t) { return std::make_shared<Tensor>(t.clone()); },
                                 [&](const std::shared_ptr<void>& packed) {
                                   buffer.copy_(*static_cast<const Tensor*>(packed.get()));
                                   return buffer.detach();
                                 });
    y = x.sin().exp().tanh();
  }
  y.backward(ones_like(y));
  const Tensor d = x.detach(), t = d.sin().exp().tanh();
  expect_near(x.grad(), (1 - t * t) * d.sin().exp() * d.cos(), 1e-14);
}

TEST(GradientFusion, AnErrorInTheMiddleLeavesNothingBehind) {
  const FuseFrom all(1);
  const Tensor x = leaf({50});
  Tensor a = x.sin().exp();
  const Tensor y = a.tanh();
  {
    const NoGradGuard quiet;
    a.add_(1);
  }
  EXPECT_THROW(y.sum().backward(), Error);
  EXPECT_FALSE(x.grad().defined());
  x.cos().exp().sum().backward();
  expect_near(x.grad(), -(x.detach().cos().exp() * x.detach().sin()), 1e-14);
}

TEST(GradientFusion, BackwardInsideOfBackward) {
  const FuseFrom all(1);
  const Tensor x = leaf({50}), z = leaf({50});
  Tensor y = x.sin();
  y.register_hook([&](const Tensor&) {
    const AutoGradMode record(true);
    z.exp().tanh().sum().backward();
  });
  (y.exp() * 3).sum().backward();
  const Tensor d = x.detach(), e = z.detach().exp();
  expect_near(x.grad(), 3 * d.sin().exp() * d.cos(), 1e-14);
  expect_near(z.grad(), (1 - e.tanh().square()) * e, 1e-14);
}

TEST(GradientFusion, CheckpointsAndChains) {
  const FuseFrom all(1);
  const auto part = [](const variable_list& in) { return variable_list{(in[0].sin() * in[0]).exp()}; };
  const Tensor x = leaf({50}), again = x.detach().clone().requires_grad_(true);
  autograd::checkpoint(part, {x.tanh()})[0].sigmoid().sum().backward();
  const FuseFrom none(kNever);
  part({again.tanh()})[0].sigmoid().sum().backward();
  expect_same(x.grad(), again.grad());
}

TEST(GradientFusion, MixedDtypesAndComplexNumbersGoOpByOp) {
  const FuseFrom all(1);
  const Tensor x = leaf({50}, kFloat), w = leaf({50}, kDouble);
  (x.sin() * w).tanh().sum().backward();
  const Tensor d = x.detach(), t = (d.sin() * w.detach()).tanh();
  expect_near(x.grad(), ((1 - t * t) * w.detach()).to(kFloat) * d.cos(), 1e-6);
  expect_near(w.grad(), (1 - t * t) * d.sin(), 1e-6);
  const Tensor z = randn({50}, kComplexDouble).requires_grad_(true);
  real(z * z.conj()).sum().backward();
  EXPECT_LE((z.grad() - z.detach() * 2).abs().max().item<double>(), 1e-14);
}

TEST(GradientFusion, ThreadsHaveTheirOwnChains) {
  const FuseFrom all(1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const Tensor x = leaf({300 + k});
        (x.sin().exp() * 2).tanh().sum().backward();
        const Tensor d = x.detach(), t = (d.sin().exp() * 2).tanh();
        const Tensor want = (1 - t * t) * 2 * d.sin().exp() * d.cos();
        if ((x.grad() - want).abs().max().item<double>() > 1e-13) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace facula
