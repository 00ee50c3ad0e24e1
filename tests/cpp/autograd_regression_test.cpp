// Mistakes of the tape that were found and must not come back, one test each.
#include <facula/facula.h>
#include <gtest/gtest.h>

#include "cpp/expect.h"

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace facula {
namespace {

using facula_test::expect_error;

TEST(AutogradRegression, ViewsOfBatchesAreViews) {
  const auto written = [](const Tensor& t) {
    Tensor y = t * 2;
    y.view({-1}).mul_(t);
    return y;
  };
  const Tensor x = full({2}, 3.0, kDouble);
  EXPECT_TRUE(allclose(func::jacfwd(written)(x), diag(full({2}, 12.0, kDouble))));
  EXPECT_TRUE(allclose(func::jacrev(written)(x), diag(full({2}, 12.0, kDouble))));
  const auto squeezed = [](const Tensor& t) {
    Tensor y = t.clone();
    y.unsqueeze(0).squeeze().mul_(2);
    return y;
  };
  EXPECT_TRUE(equal(func::vmap(squeezed)(ones({3, 2})), full({3, 2}, 2.0)));
}

TEST(AutogradRegression, ViewsOfAnotherDtypeFollowTheirBase) {
  const Tensor u = full({2}, 2.0, TensorOptions(kDouble).requires_grad(true));
  const Tensor w = full({}, 3.0, TensorOptions(kDouble).requires_grad(true));
  Tensor z = complex(u * 1, u * 1);
  const Tensor pairs = view_as_real(z);
  z.mul_(w);
  pairs.sum().backward();
  EXPECT_TRUE(equal(u.grad(), full({2}, 6.0, kDouble)));
  EXPECT_TRUE(equal(w.grad(), full({}, 8.0, kDouble)));
}

TEST(AutogradRegression, GradientsInInferenceModeAreRefused) {
  const InferenceMode mode;
  const Tensor x = ones({2});
  expect_error<Error>([&] { func::grad([](const Tensor& t) { return t.exp().sum(); })(x); }, "inference mode");
}

TEST(AutogradRegression, IntegersAreNotRecorded) {
  const Tensor x = ones({3}).requires_grad_();
  Tensor whole = ones({3}, kLong);
  whole.copy_(x);
  EXPECT_FALSE(whole.requires_grad());
}

TEST(AutogradRegression, RetainedGradientsAreTensorsOfTheirOwn) {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor y = x * 1, g = ones({3});
  y.retain_grad();
  y.backward(g, true);
  y.grad().zero_();
  EXPECT_TRUE(equal(g, ones({3})));
  y.mutable_grad() = Tensor();
  y.sum().backward();
  y.grad().mul_(2);
  EXPECT_TRUE(equal(y.grad(), full({3}, 2.0)));
}

TEST(AutogradRegression, CheckpointsRunTwice) {
  int runs = 0;
  const auto f = [&](const Tensor& t) {
    ++runs;
    Tensor y = t;
    for (int i = 0; i < 10; ++i) y = 1.0 + t / y;
    return y;
  };
  const Tensor x = full({4}, 2.0, kDouble).requires_grad_();
  autograd::checkpoint(f, x).sum().backward();
  EXPECT_EQ(runs, 2);
  const Tensor again = full({4}, 2.0, kDouble).requires_grad_();
  f(again).sum().backward();
  EXPECT_TRUE(allclose(x.grad(), again.grad()));
}

TEST(AutogradRegression, LeavesMayChangeTheirGeometryUnderNoGrad) {
  Tensor w = ones({2, 3}).requires_grad_();
  {
    const NoGradGuard quiet;
    w.t_();
  }
  (w * 2).sum().backward();
  EXPECT_TRUE(equal(w.grad(), full({3, 2}, 2.0)));
}

TEST(AutogradRegression, AnomalyModeLooksIntoBatches) {
  const autograd::DetectAnomalyGuard anomaly;
  const Tensor x = full({2}, 2.0, kDouble);
  EXPECT_TRUE(allclose(func::jacrev([](const Tensor& t) { return t * t; })(x), diag(full({2}, 4.0, kDouble))));
}

TEST(AutogradRegression, BatchedGradientsDoNotEnterLeavesFromOutside) {
  const Tensor w = ones({}).requires_grad_();
  const auto f = [&](const Tensor& t) {
    (t * w).backward();
    return t;
  };
  expect_error<NotSupportedError>([&] { func::vmap(f)(ones({3})); }, "every entry of the batch");
  EXPECT_FALSE(w.grad().defined());
}

TEST(AutogradRegression, BatchesCheckEntriesAsCallsDo) {
  EXPECT_THROW(func::vmap([](const Tensor& t) { return t.tril(); })(ones({2, 3})), Error);
  EXPECT_THROW(func::vmap([](const Tensor& t) { return t.t(); })(ones({2, 3, 3, 3})), Error);
  EXPECT_THROW(func::vmap([](const Tensor& t) { return t.mm(t); })(ones({2, 3, 3, 3})), Error);
  EXPECT_THROW(func::vmap([](const Tensor& t) { return t.resize_({2}) + 1; })(ones({2, 3})), Error);
}

// What a user's object does when it ends with the value that it was part of. A lock held meanwhile would never be given back.
struct AtEnd {
  explicit AtEnd(std::function<void()> what_in) : what(std::move(what_in)) {}
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() { what(); }
  std::function<void()> what;
};

TEST(AutogradRegression, HooksOfAnOldHistoryMayLookAtTheViewWhenTheyEnd) {
  const Tensor x = ones({4}).requires_grad_();
  Tensor y = x * 2;
  const Tensor view = y.view({2, 2});
  int ended = 0;
  {
    const auto object = std::make_shared<AtEnd>([&] { ended += view.requires_grad(); });
    view.register_hook(std::function<void(const Tensor&)>([object](const Tensor&) {}));
  }
  y.mul_(3);
  EXPECT_TRUE(view.grad_fn());
  EXPECT_EQ(ended, 1);
}

TEST(AutogradRegression, MemoryOfOldGradientsMayAskForTheNewOneWhenItEnds) {
  const Tensor x = ones({4}).requires_grad_(), y = x * 1;
  y.retain_grad();
  for (const Tensor& t : {x, y}) {
    std::vector<float> memory(4, 2.0F);
    std::vector<float> found;
    const auto blob = [&] {
      return from_blob(memory.data(), {4}, [&](void*) { found.push_back(t.grad()[0].item<float>()); });
    };
    t.set_grad(blob());
    t.set_grad(full({4}, 5.0));
    EXPECT_EQ(found, (std::vector<float>{5}));
    t.set_grad(blob());
    (y * y).sum().backward({}, true, true);
    EXPECT_EQ(found, (std::vector<float>{5, 4}));
    if (!t.is_same(y)) continue;
    t.set_grad(blob());
    (y * y).sum().backward({}, true, false, std::vector<Tensor>{y});
    EXPECT_EQ(found.size(), 3U);
  }
  x.set_grad({});  // recorded gradients keep their leaves
  y.set_grad({});
}

TEST(AutogradRegression, MemoryThatFormulasReadMayAskForGradientsWhenItEnds) {
  constexpr int64_t kMany = 10000;
  const Tensor x = ones({10}).requires_grad_(), w = ones({kMany}).requires_grad_();
  const Tensor k = ones({kMany});
  x.set_grad(k.narrow(0, 0, 10).detach());  // what waits reads the memory of this gradient
  std::vector<float> memory(kMany, 2.0F);
  int ended = 0;
  const Tensor small = x * 2;
  Tensor large;
  {
    const Tensor blob = from_blob(memory.data(), {kMany}, [&](void*) { ended += x.grad().defined(); });
    large = (w * k).sin() * blob;
  }
  autograd::backward({small, large}, {ones({10}), ones({kMany})});
  large = Tensor();
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(equal(x.grad(), full({10}, 3.0)));
  EXPECT_TRUE(allclose(w.grad(), full({kMany}, 2 * std::cos(1.0))));
}

TEST(AutogradRegression, LeavesHaveWhatCameBeforeAnErrorWhateverTheirSize) {
  for (const int64_t count : {100, 10000}) {
    SCOPED_TRACE(count);
    const Tensor a = full({count}, 2.0).requires_grad_(), b = ones({count}).requires_grad_();
    {
      const Tensor c = b * 3;
      c.register_hook(std::function<void(const Tensor&)>([](const Tensor&) { throw std::runtime_error("no"); }));
      EXPECT_THROW((c * a).sum().backward(), std::runtime_error);
    }
    EXPECT_TRUE(a.grad().defined() && equal(a.grad(), full({count}, 3.0)));
    EXPECT_FALSE(b.grad().defined());
    a.set_grad({});
    Tensor c;
    {
      const autograd::SavedTensorHooks hooks(
          [](const Tensor&) { return std::make_shared<int>(0); },
          [](const std::shared_ptr<void>&) -> Tensor { throw std::runtime_error("gone"); });
      c = b.sigmoid();
    }
    EXPECT_THROW((c * a).sum().backward(), std::runtime_error);
    EXPECT_TRUE(a.grad().defined() && equal(a.grad(), c.detach()));
    EXPECT_FALSE(b.grad().defined());
  }
}

TEST(AutogradRegression, LeavesAreNotWrittenThroughUnrecordedViews) {
  const Tensor x = ones({4}).requires_grad_(), y = x * 2, plain = ones({4});
  Tensor of_leaf, of_result, of_plain;
  {
    const NoGradGuard quiet;
    of_leaf = x.view({2, 2});
    of_result = y.view({2, 2});
    of_plain = plain.view({2, 2});
  }
  const std::string text = "A view was created in no_grad mode";
  expect_error<Error>([&] { of_leaf.mul_(3); }, text);
  expect_error<Error>([&] { of_result.mul_(3); }, text);
  expect_error<Error>([&] { of_leaf[0].zero_(); }, text);
  EXPECT_TRUE(equal(x.detach(), ones({4})) && equal(y.detach(), full({4}, 2.0)));
  of_plain.mul_(3);
  EXPECT_TRUE(equal(plain, full({4}, 3.0)));
  const NoGradGuard quiet;
  of_leaf.mul_(3);
  EXPECT_TRUE(equal(x, full({4}, 3.0)));
}

struct Reshaped : autograd::Function<Reshaped> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return x.view({-1}); }
  static autograd::variable_list backward(autograd::AutogradContext*, autograd::variable_list g) {
    return {g[0].view({2, 2})};
  }
};

TEST(AutogradRegression, ViewsFromCustomFunctionsSaySoAlsoWhenOfALeaf) {
  const Tensor x = ones({2, 2}).requires_grad_();
  const Tensor view = Reshaped::apply(x);
  expect_error<Error>([&] { view.mul_(2); }, "a view that a custom function returned");
}

}  // namespace
}  // namespace facula
