// Cross entropy with its gradient in one pass, as training uses it: against the CPU in double precision, with every use
// of the tape that must not notice that the gradient was there before backward.
#include "closeness.h"

#include <facula/amp.h>

#include <random>

namespace facula::testing {
namespace {

class GpuCrossEntropy : public ::testing::Test {
 protected:
  void SetUp() override {
    manual_seed(test_seed());
    random_.seed(static_cast<std::mt19937::result_type>(test_seed()));
  }
  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[random_() % from.size()]; }
  std::mt19937 random_;
};

Tensor labels_for(int64_t rows, int64_t classes) {
  Tensor y = randint(classes, {rows});
  if (rows > 2) y[1] = -100;
  return y;
}
Tensor leaf(const Tensor& t) {
  Tensor x = t.detach().clone();
  return x.requires_grad_();
}
constexpr const char* kFused = "CrossEntropyWithSlopeBackward0";

TEST_F(GpuCrossEntropy, LossAndGradientOfDrawnShapes) {
  SCOPED_TRACE(seed_text());
  for (int k = 0; k < 24; ++k) {
    const ScalarType t = std::initializer_list<ScalarType>{kFloat, kBFloat16, kDouble, kHalf}.begin()[k % 4];
    const ScalarType work = t == kDouble ? kDouble : kFloat;
    const int64_t rows = pick({1, 3, 8, 33}), classes = pick({2, 7, 64, 1000, 5003, 9000});
    const int64_t reduction = pick({Reduction::Mean, Reduction::Sum});
    const double smoothing = k % 3 == 0 ? 0.1 : 0, by = k % 2 == 0 ? 1 : 0.37;
    const Tensor x = (randn({rows, classes}) * 2).to(t), y = labels_for(rows, classes);
    const std::optional<Tensor> weight = k % 5 == 0 ? std::optional(rand({classes}, work) + 0.5) : std::nullopt;
    const auto wide = weight ? std::optional(weight->to(kDouble)) : weight;
    const auto there = weight ? std::optional(weight->to(kGpu)) : weight;
    Tensor truth = leaf(x.to(kDouble)), got = leaf(x.to(kGpu));
    const Tensor expected = cross_entropy_loss(truth, y, wide, reduction, -100, smoothing);
    const Tensor loss = cross_entropy_loss(got, y.to(kGpu), there, reduction, -100, smoothing);
    EXPECT_EQ(loss.grad_fn()->name() == kFused, t != kHalf);
    (expected * by).backward();
    (loss * by).backward();
    const std::string what = words("cross entropy", t, x.sizes(), reduction);
    expect_close(loss.detach(), expected.detach().to(t), what, 2);
    expect_close(got.grad(), truth.grad().to(t), what + ", gradient", 2);
  }
}

TEST_F(GpuCrossEntropy, AGraphThatIsKeptGivesTheSameAgain) {
  const Tensor x = randn({6, 300}), y = labels_for(6, 300);
  Tensor truth = leaf(x.to(kDouble)), got = leaf(x.to(kGpu));
  const Tensor expected = cross_entropy_loss(truth, y), loss = cross_entropy_loss(got, y.to(kGpu));
  ASSERT_EQ(loss.grad_fn()->name(), kFused);
  for (const double by : {3.0, 0.25, 1.0}) {
    const bool keep = by != 1.0;
    const auto want = autograd::grad({expected}, {truth}, {full({}, by, kDouble)}, keep);
    const auto have = autograd::grad({loss}, {got}, {full({}, by).to(kGpu)}, keep);
    expect_close(have[0], want[0].to(kFloat), "gradient times " + std::to_string(by));
  }
  EXPECT_THROW(autograd::grad({loss}, {got}), Error);
}

TEST_F(GpuCrossEntropy, AZeroLeavesNothingBehind) {
  const Tensor x = randn({4, 50}), y = labels_for(4, 50);
  Tensor got = leaf(x.to(kGpu));
  (cross_entropy_loss(got, y.to(kGpu)) * 0).backward();
  expect_equal(got.grad(), zeros({4, 50}), "gradient times zero");
}

TEST_F(GpuCrossEntropy, ASlopeThatSomebodyHoldsIsLeftAlone) {
  const Tensor x = randn({5, 70}), y = labels_for(5, 70);
  Tensor got = leaf(x.to(kGpu));
  const auto [loss, log_sums, total, slope] =
      _cross_entropy_with_slope(got, y.to(kGpu), {}, Reduction::Mean, -100, 0.1);
  const Tensor before = slope.detach().cpu();
  (loss * 5).backward();
  expect_equal(slope.detach(), before, "the slope");
  expect_close(got.grad(), before * 5, "the gradient");
}

TEST_F(GpuCrossEntropy, ASlopeThatNobodyHoldsBecomesTheGradient) {
  const Tensor x = randn({5, 70}), y = labels_for(5, 70);
  Tensor got = leaf(x.to(kGpu)), loss;
  const void* place = nullptr;
  {
    const auto all = _cross_entropy_with_slope(got, y.to(kGpu), {}, Reduction::Mean, -100, 0.1);
    loss = std::get<0>(all);
    place = std::get<3>(all).data_ptr();
  }
  (loss * 5).backward();
  EXPECT_EQ(got.grad().data_ptr(), place);
  Tensor truth = leaf(x.to(kDouble));
  (cross_entropy_loss(truth, y, {}, Reduction::Mean, -100, 0.1) * 5).backward();
  expect_close(got.grad(), truth.grad().to(kFloat), "the gradient");
}

TEST_F(GpuCrossEntropy, ASlopeThatAHookKeepsIsLeftAlone) {
  const Tensor x = randn({5, 70}), y = labels_for(5, 70);
  Tensor got = leaf(x.to(kGpu)), loss;
  std::vector<Tensor> kept, before;
  {
    const autograd::SavedTensorHooks hooks(
        [&](const Tensor& t) -> autograd::SavedTensorHooks::Packed {
          kept.push_back(t.clone());
          before.push_back(t.cpu());
          return std::make_shared<size_t>(kept.size() - 1);
        },
        [&](const autograd::SavedTensorHooks::Packed& p) { return kept[*std::static_pointer_cast<size_t>(p)]; });
    loss = cross_entropy_loss(got, y.to(kGpu));
  }
  ASSERT_EQ(loss.grad_fn()->name(), kFused);
  (loss * 5).backward();
  ASSERT_FALSE(kept.empty());
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].cpu().equal(before[i])) << "saved tensor " << i;
  Tensor truth = leaf(x.to(kDouble));
  (cross_entropy_loss(truth, y) * 5).backward();
  expect_close(got.grad(), truth.grad().to(kFloat), "the gradient");
}

TEST_F(GpuCrossEntropy, GradientsOfGradients) {
  const Tensor x = randn({4, 30}), v = randn({4, 30}), y = labels_for(4, 30);
  const auto twice = [&](Tensor at, const Tensor& labels, const Tensor& along) {
    const auto first =
        autograd::grad({cross_entropy_loss(at, labels, {}, Reduction::Mean, -100, 0.2)}, {at}, {}, true, true);
    return autograd::grad({(first[0] * along).sum()}, {at})[0];
  };
  expect_close(twice(leaf(x.to(kGpu)), y.to(kGpu), v.to(kGpu)), twice(leaf(x.to(kDouble)), y, v.to(kDouble)).to(kFloat),
               "second order");
  // The slope itself has a derivative.
  const auto of_slope = [&](Tensor at, const Tensor& labels, const Tensor& along) {
    const auto all = _cross_entropy_with_slope(at, labels, {}, Reduction::Mean, -100, 0.2);
    return autograd::grad({(std::get<3>(all) * along).sum()}, {at})[0];
  };
  const Tensor expected = of_slope(leaf(x.to(kDouble)), y, v.to(kDouble));
  expect_close(of_slope(leaf(x.to(kGpu)), y.to(kGpu), v.to(kGpu)), expected.to(kFloat), "derivative of the slope");
  expect_close(expected, twice(leaf(x.to(kDouble)), y, v.to(kDouble)), "derivative of the slope, on the CPU");
}

TEST_F(GpuCrossEntropy, AutocastComputesInFloatWithoutACopyOfTheLogits) {
  for (const Device& device : {Device("cpu"), kGpu})
    for (const ScalarType t : {kBFloat16, kHalf}) {
      const Tensor x = randn({7, 130}).to(t), y = labels_for(7, 130);
      Tensor truth = leaf(x.to(kDouble)), got = leaf(x.to(device));
      const Tensor expected = cross_entropy_loss(truth, y);
      Tensor loss, of_shares;
      {
        const amp::autocast on(device.type(), t);
        loss = cross_entropy_loss(got, y.to(device));
        of_shares = cross_entropy_loss(got, x.softmax(1).to(device));
      }
      EXPECT_EQ(of_shares.scalar_type(), kFloat);
      expect_close(loss.detach(), expected.detach().to(kFloat), "loss under autocast");
      expected.backward();
      loss.backward();
      expect_close(got.grad(), truth.grad().to(t), "gradient under autocast");
      const std::string name = loss.grad_fn()->name();
      EXPECT_EQ(name, device.is_cuda() && t == kBFloat16 ? kFused : "CrossEntropyBackward0");
    }
}

TEST_F(GpuCrossEntropy, NothingCounts) {
  Tensor got = leaf(randn({3, 9}).to(kGpu));
  const Tensor loss = cross_entropy_loss(got, full({3}, -100, kLong).to(kGpu));
  EXPECT_TRUE(std::isnan(loss.item<double>()));
  loss.backward();
  expect_equal(got.grad(), zeros({3, 9}), "gradient of nothing");
}

}  // namespace
}  // namespace facula::testing
