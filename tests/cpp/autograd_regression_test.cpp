// Mistakes of the tape that were found and must not come back, one test each.
#include <facula/facula.h>
#include <gtest/gtest.h>

#include "cpp/expect.h"

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

}  // namespace
}  // namespace facula
