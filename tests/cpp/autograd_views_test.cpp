// Views and writes in place under the tape: where the gradient of an overwritten part goes, versions, and what is refused.
// Each written gradient is held against finite differences of the same program.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace facula {
namespace {

using namespace indexing;
using facula_test::differences;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;

std::string name_of(const Tensor& t) { return t.grad_fn() ? t.grad_fn()->name() : "none"; }

using Function = std::function<Tensor(const Tensor&)>;

// First and second derivatives of a function with one number as result.
void check_derivatives(const Function& f, const Tensor& at) {
  const auto gradient = [&](const Tensor& t) {
    const EnableGradGuard record;
    const Tensor leaf = t.detach().clone().requires_grad_();
    return autograd::grad({f(leaf)}, {leaf})[0];
  };
  expect_close(gradient(at), differences(f, at), 1e-5);
  const Tensor leaf = at.detach().clone().requires_grad_();
  const Tensor first = autograd::grad({f(leaf)}, {leaf}, {}, std::nullopt, true)[0];
  const Tensor direction = draw(at.sizes().vec());
  const Tensor want = differences(gradient, at).reshape({at.numel(), at.numel()}).matmul(direction.reshape({-1}));
  const Tensor along = (first * direction).sum();
  const Tensor got =
      along.requires_grad() ? autograd::grad({along}, {leaf}, {}, std::nullopt, false, true)[0] : Tensor();
  expect_close(got.defined() ? got : zeros_like(leaf), want.reshape(at.sizes()), 1e-5);
}

// ---- views

TEST(AutogradViews, KnowTheirBase) {
  const Tensor x = draw({3, 4});
  const Tensor v = x.select(0, 1), w = v.narrow(0, 1, 2);
  EXPECT_FALSE(x.is_view());
  EXPECT_TRUE(v.is_view());
  EXPECT_TRUE(v._base().is_same(x));
  EXPECT_TRUE(w._base().is_same(x)) << "the base of a view is no view";
  EXPECT_FALSE(x.detach().is_view());
  expect_error<ValueError>([&] { x._base(); }, "Can't get base of non-view Tensor");
}

TEST(AutogradViews, PassGradientsToWhatTheyView) {
  const Tensor x = draw({3, 4, 2});
  const Tensor weights = draw({64});
  const auto weigh = [&](const Tensor& t) { return (t.reshape({-1}).sin() * weights.narrow(0, 0, t.numel())).sum(); };
  const std::vector<Function> views = {
      [](const Tensor& t) {
        return t.view({12, 2});
      },
      [](const Tensor& t) { return t.transpose(0, 2); },
      [](const Tensor& t) {
        return t.permute({2, 0, 1});
      },
      [](const Tensor& t) { return t.select(1, 2); },
      [](const Tensor& t) { return t.narrow(1, 1, 2); },
      [](const Tensor& t) { return t.slice(1, 0, 4, 2); },
      [](const Tensor& t) { return t.unsqueeze(1); },
      [](const Tensor& t) { return t.select(2, 0).diagonal(); },
      [](const Tensor& t) { return t.unfold(1, 2, 1); },
      [](const Tensor& t) {
        return t.as_strided({3, 2, 2}, {8, 2, 1}, 1);
      },
      [](const Tensor& t) {
        return t.select(2, 1).unsqueeze(0).expand({5, 3, 4});
      },
      [](const Tensor& t) { return t.unbind(1)[1] + t.chunk(2, 1)[0].select(1, 0) + t.split(3, 1)[0].select(1, 2); },
      [](const Tensor& t) {
        return t.index({Slice(), 1, "..."});
      },
  };
  for (size_t i = 0; i < views.size(); ++i) {
    SCOPED_TRACE("view " + std::to_string(i));
    check_derivatives([&](const Tensor& t) { return weigh(views[i](t)); }, x);
  }
}

TEST(AutogradViews, OfLeavesThatDoNotRequireGradMayBeLeaves) {
  const Tensor x = draw({3, 4});
  const Tensor v = x.select(0, 0);
  v.requires_grad_();
  (v * v).sum().backward();
  expect_close(v.grad(), 2 * v.detach());
  EXPECT_FALSE(x.requires_grad());
}

// ---- writing in place

TEST(AutogradInPlace, ReplacesTheHistory) {
  const Tensor x = draw({4}, 0.2, 1.5);
  const Tensor c = draw({4});
  check_derivatives([&](const Tensor& t) { return (t * c).mul_(t).sum(); }, x);
  check_derivatives([&](const Tensor& t) { return (t * 1.0).sin_().exp_().log().sum(); }, x);
  check_derivatives([&](const Tensor& t) { return (t * 2).add_(t, 3).div_(t.exp()).sum(); }, x);
  check_derivatives(
      [&](const Tensor& t) { return t.clone().sigmoid_().neg().tanh_().neg().relu_().add(1).sqrt_().sum(); }, x);
  check_derivatives([&](const Tensor& t) { return t.clone().pow_(3).clamp_(0.1, 2.0).sum(); }, x);
  check_derivatives([&](const Tensor& t) { return t.clone().addcmul_(t, c, 2).sum().mul_(t.sum()); }, x);
}

TEST(AutogradInPlace, OnTensorsThatDidNotRequireGrad) {
  const Tensor x = draw_leaf({3});
  Tensor y = zeros({3}, kDouble);
  y.add_(x * 2);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  y.sum().backward();
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(AutogradInPlace, OverwritingCutsTheOldHistory) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  Tensor y = x * 2;
  y.zero_();
  (y + w).sum().backward();
  expect_close(w.grad(), ones({3}, kDouble));
  if (x.grad().defined()) expect_close(x.grad(), zeros({3}, kDouble));
  Tensor z = x * 2;
  z.copy_(w);
  (z * z).sum().backward();
  expect_close(w.grad(), 1 + 2 * w.detach());
  Tensor filled = x * 2;
  filled.fill_(3);
  EXPECT_EQ(facula_test::values((filled * 1.0).detach()), (std::vector<double>{3, 3, 3}));
}

TEST(AutogradInPlace, ThroughAViewReachesTheBase) {
  const Tensor x = draw({3, 4});
  const Tensor c = draw({3, 4});
  const auto finish = [&](const Tensor& t) { return (t.sin() * c).sum(); };
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.select(0, 1).mul_(3);
        return finish(y);
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.narrow(1, 1, 2).mul_(t.narrow(1, 0, 2));  // both the part and the factor get gradients
        return finish(y);
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.t().select(0, 2).sin_();  // a view of a view
        y.view({12}).narrow(0, 2, 5).tanh_();
        return finish(y);
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y[1].zero_();
        y[2].fill_(0.5);
        y[0].copy_(t[1]);
        return finish(y);
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = zeros({3, 4}, kDouble);
        for (int64_t i = 0; i < 3; ++i) y[i] = t[2 - i] * t[i];
        return finish(y);
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = (t * c).t();  // the base lies turned
        y.select(1, 1).mul_(t[0]);
        return (y.sin() * c.t()).sum();
      },
      x);
}

TEST(AutogradInPlace, OnTheBaseReachesViews) {
  const Tensor x = draw({3, 4});
  const Tensor c = draw({4});
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * 2;
        const Tensor v = y.select(0, 1);
        y.mul_(t);
        return (v.sin() * c).sum();
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = zeros({3, 4}, kDouble);
        const Tensor v = y.select(0, 1), other = y.select(0, 2);
        v.add_(t[0]);  // the base, and so the other view, are recorded now
        y.mul_(t);
        return (v.sin() * c + other + y[1] * t[1]).sum();
      },
      x);
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * 2;
        const Tensor a = y.narrow(1, 0, 3), b = y.narrow(1, 1, 3);  // views that overlap
        a.mul_(t.narrow(1, 1, 3));
        b.mul_(t.narrow(1, 0, 3));
        return (y.sin() * c).sum() + (a * b).sum();
      },
      x);
}

TEST(AutogradInPlace, ThroughViewsOfManyOutputs) {
  const Tensor x = draw({4, 3});
  const Tensor c = draw({4, 3});
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.unbind(0)[1].mul_(t[0]);
        y.chunk(2, 0)[1].cos_();
        y.split(2, 1)[0].add_(t.narrow(1, 0, 2));
        return (y.sin() * c).sum();
      },
      x);
}

TEST(AutogradInPlace, ByIndexAndMask) {
  const Tensor x = draw({4, 3});
  const Tensor c = draw({4, 3});
  const Tensor rows = tensor({2, 0});
  const Tensor mask = c > 0;
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.index_put_({rows}, t.narrow(0, 0, 2) * t.narrow(0, 2, 2));
        y.masked_fill_(mask, 0.25);
        y.index_put_({Slice(), 1}, t.select(1, 0).exp());
        y.index_add_(0, rows, t.narrow(0, 1, 2));
        y.scatter_add_(0, tensor({{0, 0, 1}}), t.narrow(0, 3, 1));
        return (y.sin() * c).sum();
      },
      x);
}

TEST(AutogradInPlace, ChangesOfShapeAlone) {
  const Tensor x = draw({1, 4, 3});
  const Tensor c = draw({4, 3});
  check_derivatives(
      [&](const Tensor& t) {
        Tensor y = t * 2;
        y.squeeze_(0);
        y.mul_(c);
        y.t_();
        y.unsqueeze_(0);
        return (y.sin() * c.t()).sum();
      },
      x);
}

TEST(AutogradInPlace, NamesOfNodes) {
  const Tensor x = draw_leaf({3, 4});
  Tensor y = x * 2;
  const Tensor v = y.select(0, 0);
  EXPECT_EQ(name_of(v), "SelectBackward0");
  y.add_(1);
  EXPECT_EQ(name_of(v), "AsStridedBackward0") << "the view is made anew from what the base is now";
  v.mul_(2);
  EXPECT_EQ(name_of(y), "CopySlices");
  EXPECT_EQ(y.grad_fn().get(), v.grad_fn()->next_edge(0).function.get());
}

// ---- what is refused

TEST(AutogradInPlace, LeavesAreNotWrittenTo) {
  const Tensor x = draw_leaf({3, 4});
  const Tensor before = x.detach().clone();
  const char* text = "a leaf Variable that requires grad is being used in an in-place operation";
  expect_error<Error>([&] { x.add_(1); }, text);
  expect_error<Error>([&] { x.zero_(); }, text);
  expect_error<Error>([&] { x.fill_(2); }, text);
  expect_error<Error>([&] { x.copy_(before * 2); }, text);
  expect_error<Error>([&] { x.exp_(); }, text);
  expect_error<Error>([&] { x.uniform_(); }, text);
  expect_error<Error>([&] { x.masked_fill_(before > 0, 1); }, text);
  const char* view = "a view of a leaf Variable that requires grad is being used in an in-place operation";
  expect_error<Error>([&] { x.select(0, 1).add_(1); }, view);
  expect_error<Error>([&] { x.view({12}).zero_(); }, view);
  expect_error<Error>([&] { x[0].fill_(1); }, view);
  expect_error<Error>([&] { x[0] = before[1]; }, view);
  expect_error<Error>([&] { Tensor(x).index_put_({0}, before[1]); }, "leaf Variable");
  expect_close(x, before);
  const NoGradGuard quiet;
  x.sub_(1);
  x[0].zero_();
  EXPECT_TRUE(x.requires_grad());
  expect_close(x[1], before[1] - 1);
}

TEST(AutogradInPlace, ViewsMadeWithoutRecordingAreNotWrittenToWhileRecording) {
  const Tensor x = draw_leaf({3, 4});
  Tensor y = x * 2;
  Tensor v;
  {
    const NoGradGuard quiet;
    v = y.select(0, 1);
  }
  expect_error<Error>([&] { v.mul_(x[0]); }, "A view was created in no_grad mode");
  const NoGradGuard quiet;
  v.mul_(2);
}

TEST(AutogradInPlace, SavedTensorsThatWereWrittenToAreNoticed) {
  const Tensor x = draw_leaf({2, 3});
  Tensor y = x.exp();
  const Tensor loss = y.sum();
  y.add_(1);
  try {
    y.sum().backward();
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_THAT(text, ::testing::StartsWith("ExpBackward0: "));
    EXPECT_THAT(text,
                ::testing::HasSubstr(
                    "one of the variables needed for gradient computation has been modified by an inplace operation"));
    EXPECT_THAT(text,
                ::testing::HasSubstr("[Double [2, 3]], which is output 0 of ExpBackward0, is at version 1; expected "
                                     "version 0"));
    EXPECT_THAT(text, ::testing::HasSubstr("Anomaly mode"));
  }
  EXPECT_FALSE(x.grad().defined());
  (x * 2).sum().backward();
  expect_close(x.grad(), full({2, 3}, 2.0, kDouble));
}

TEST(AutogradInPlace, SavedInputsThatWereWrittenToAreNoticed) {
  const Tensor x = draw_leaf({3});
  Tensor c = draw({3}), d = draw({3});
  const Tensor first = (x * c).sum();
  c.narrow(0, 0, 1).mul_(2);  // a view shares the version
  expect_error<Error>([&] { first.backward(); }, "modified by an inplace operation: [Double [3]] is at version");
  const Tensor second = (x * d).sum();
  d.detach().add_(1);  // and so does what was cut off
  expect_error<Error>([&] { second.backward(); }, "modified by an inplace operation");
  const Tensor leaf = draw_leaf({3});
  const Tensor third = (leaf * leaf).sum();
  {
    const NoGradGuard quiet;
    leaf.add_(1);
  }
  expect_error<Error>([&] { third.backward(); }, "modified by an inplace operation");
  // Another graph over the same tensors is fine.
  (x * c).sum().backward();
  expect_close(x.grad(), c);
}

TEST(AutogradInPlace, WritesThatBackwardDoesNotReadAreFine) {
  const Tensor x = draw_leaf({3});
  Tensor y = x * 2;
  y.add_(1).mul_(3);
  const Tensor z = y + 1;  // saves nothing
  y.add_(5);
  (z.sum() + y.sum()).backward();
  expect_close(x.grad(), full({3}, 12.0, kDouble));
}

TEST(AutogradInPlace, VersionsCountWrites) {
  const Tensor x = draw({4});
  EXPECT_EQ(x._version(), 0);
  Tensor(x).add_(1);
  x.narrow(0, 0, 2).zero_();
  EXPECT_EQ(x._version(), 2);
  EXPECT_EQ(x.detach()._version(), 2);
  EXPECT_EQ(x.clone()._version(), 0);
  EXPECT_ANY_THROW(Tensor(x).add_(draw({5})));
  EXPECT_EQ(x._version(), 2) << "a call that fails writes nothing";
}

TEST(AutogradInPlace, FailedWritesLeaveTheHistoryAlone) {
  const Tensor x = draw_leaf({3});
  Tensor y = x * 2;
  const auto before = y.grad_fn();
  EXPECT_THROW(y.add_(draw({4})), ShapeError);
  EXPECT_EQ(y.grad_fn().get(), before.get());
  y.sum().backward();
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(AutogradInPlace, DataIsWrittenToBehindTheTape) {
  const Tensor x = draw_leaf({3});
  x.data().zero_();
  EXPECT_EQ(facula_test::values(x.detach()), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(x.requires_grad());
  const Tensor fresh = draw({5});
  x.set_data(fresh);
  (x * x).sum().backward();
  expect_close(x.grad(), 2 * fresh);
  expect_error<DTypeError>([&] { x.set_data(ones({3}, kLong)); }, "requires gradients must be floating point");
  expect_error<DTypeError>([&] { (x * 2).set_data(ones({5}, kFloat)); }, "was made by a recorded op");
  // Hooks stay, and gradients lie as the new data does.
  x.set_grad({});
  int calls = 0;
  x.register_hook([&](const Tensor&) { ++calls; });
  x.register_post_accumulate_grad_hook([&](const Tensor&) { calls += 10; });
  x.set_data(draw({4, 3}).t());
  (x * draw({3, 4})).sum().backward();
  EXPECT_EQ(calls, 11);
  EXPECT_EQ(x.grad().strides().vec(), x.strides().vec());
}

TEST(AutogradInPlace, DataMayGetAnotherDtype) {
  const Tensor x = draw_leaf({3}), numbers = draw({4});
  int calls = 0;
  x.register_hook([&](const Tensor& grad) { calls += grad.scalar_type() == kFloat; });
  x.set_data(numbers.to(kFloat));
  EXPECT_EQ(x.scalar_type(), kFloat);
  EXPECT_TRUE(x.requires_grad());
  (x * x).sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), kFloat);
  EXPECT_EQ(calls, 1);
  expect_close(x.grad().to(kDouble), 2 * numbers, 1e-6);
  // A view that is given data of its own is no view any more.
  const Tensor base = draw({4}), view = base.narrow(0, 0, 2);
  view.set_data(draw({5}));
  EXPECT_FALSE(view.is_view());
  view.zero_();
  EXPECT_GT(base.abs().sum().item<double>(), 0);
}

TEST(AutogradInPlace, DataCountsVersionsOfItsOwn) {
  const Tensor x = draw_leaf({3});
  const Tensor before = x.detach().clone(), loss = x.exp().mul(x).sum();
  const int64_t version = x._version();
  const Tensor data = x.data();
  data.mul_(2);
  data.narrow(0, 0, 1).add_(1);
  EXPECT_EQ(data._version(), 2);
  EXPECT_EQ(x._version(), version);
  EXPECT_EQ(x.variable_data()._version(), 0);
  EXPECT_NO_THROW(loss.backward());
  // detach() is watched.
  const Tensor watched = (x * x).sum();
  x.detach().mul_(2);
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_EQ(x.tensor_data()._version(), version + 1);
  expect_error<Error>([&] { watched.backward(); }, "modified by an inplace operation");
  // New data: versions go on, and whoever has saved the old data is told.
  const Tensor saved = (x * x).sum(), fresh = draw({3});
  x.set_data(fresh);
  EXPECT_EQ(x._version(), version + 1);
  fresh.add_(1);
  EXPECT_EQ(x._version(), version + 1);
  expect_error<Error>([&] { saved.backward(); }, "was given other data");
  x.mutable_grad() = Tensor();
  (x * x).sum().backward();
  expect_close(x.grad(), 2 * fresh);
}

TEST(AutogradViews, StridedOnesShowTheWholeBase) {
  // as_strided of a view reaches beyond it.
  const auto read = [](const Tensor& x) {
    const Tensor y = x * 2;
    return y.slice(0, 1, 3).as_strided({3, 2}, {2, 1}, 0).exp().sum();
  };
  const auto written = [](const Tensor& x) {
    Tensor y = x * 2;
    y.slice(0, 1, 3).as_strided({6}, {1}, 0).mul_(x);
    y.slice(0, 3, 5).as_strided({2}, {2}, 1).mul_(3);
    return (y * y).sum();
  };
  const Tensor x = draw({6});
  check_derivatives(read, x);
  check_derivatives(written, x);
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor y = leaf * 2;
  y.slice(0, 1, 3).as_strided({6}, {1}, 0).mul(3).sum().backward();
  expect_close(leaf.grad(), full({6}, 6.0, kDouble));
}

TEST(AutogradViews, OfViewsMadeWithoutRecordingAreLikeThem) {
  const Tensor x = draw_leaf({4});
  Tensor y = x * 2, view;
  {
    const NoGradGuard quiet;
    view = y.narrow(0, 0, 3);
  }
  const Tensor part = view.narrow(0, 0, 2);
  y.mul_(3);
  EXPECT_FALSE(part.requires_grad());
  expect_error<Error>([&] { part.mul_(x.narrow(0, 0, 2)); }, "created in no_grad mode");
}

TEST(AutogradViews, AreInferenceTensorsIfWhatTheyShowIs) {
  const Tensor normal = draw({4});
  Tensor inference, view_of_normal, alias_of_normal;
  {
    const InferenceMode mode;
    inference = draw({4}) * 2;
    EXPECT_TRUE(inference.is_inference());
    EXPECT_TRUE(inference.narrow(0, 0, 2).is_inference());
    view_of_normal = normal.narrow(0, 0, 2);
    alias_of_normal = normal.detach();
  }
  EXPECT_FALSE(view_of_normal.is_inference());
  EXPECT_FALSE(alias_of_normal.is_inference());
  const Tensor view = inference.narrow(0, 0, 2);
  EXPECT_TRUE(view.is_inference());
  EXPECT_TRUE(inference.detach().is_inference());
  expect_error<Error>([&] { view.add_(1); }, "Inplace update to inference tensor");
  expect_error<Error>([&] { view.requires_grad_(); }, "inference tensor");
  EXPECT_NO_THROW(view_of_normal.add_(1));
  const Tensor w = draw_leaf({2});
  (alias_of_normal.narrow(0, 0, 2) * w).sum().backward();
  expect_close(w.grad(), normal.narrow(0, 0, 2));
}

TEST(AutogradInPlace, RecordedTensorsAreNotResized) {
  const Tensor x = draw_leaf({4});
  const Tensor y = x * 2, plain = draw({2});
  for (const Tensor& t : {x, y, y.narrow(0, 0, 2)}) {
    expect_error<Error>([&] { t.resize_({7}); }, "resize_: cannot resize variables that require grad");
    expect_error<Error>([&] { t.set_(plain); }, "the tape does not record set_");
  }
  expect_error<Error>([&] { plain.set_(y); }, "set_: the source requires grad");
  EXPECT_NO_THROW(x.resize_({4}));
  y.sum().backward();
  expect_close(x.grad(), full({4}, 2.0, kDouble));
  // What is not recorded may; a leaf under NoGradGuard too, and its gradient has the new shape.
  Tensor free = x.detach().clone();
  free.resize_({2, 3});
  EXPECT_EQ(free.numel(), 6);
  {
    const NoGradGuard quiet;
    expect_error<Error>([&] { x.resize_({7}); }, "cannot resize");
    x.set_(plain);
    expect_error<Error>([&] { y.set_(plain); }, "the tape does not record set_");
  }
  x.set_grad({});
  (x * 3).sum().backward();
  expect_close(x.grad(), full({2}, 3.0, kDouble));
}

TEST(AutogradInPlace, OutOfOpsWithoutGradientIsNotRecorded) {
  const Tensor x = draw_leaf({4});
  Tensor y = x * 2;
  expect_error<Error>([&] { eq_out(y, x, 0); }, "out=... arguments don't support automatic differentiation");
  expect_error<Error>([&] { arange_out(y, 4); }, "out=... arguments don't support");
  Tensor mask = empty({4}, kBool);
  EXPECT_NO_THROW(eq_out(mask, x, 0)) << "no gradient flows through the arguments";
  y.sum().backward();
  expect_close(x.grad(), full({4}, 2.0, kDouble));
}

TEST(AutogradInPlace, ChangesOfShapeKeepRetainedGradients) {
  const Tensor x = draw_leaf({1, 3, 2});
  const std::vector<std::pair<const char*, std::function<void(Tensor&)>>> changes = {
      {"squeeze_", [](Tensor& t) { t.squeeze_(0); }},
      {"unsqueeze_", [](Tensor& t) { t.unsqueeze_(1); }},
      {"transpose_", [](Tensor& t) { t.transpose_(1, 2); }}};
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    x.set_grad({});
    Tensor y = x * 2;
    y.retain_grad();
    change(y);
    EXPECT_TRUE(y.retains_grad());
    const Tensor w = draw(y.sizes().vec());
    (y * w).sum().backward();
    expect_close(y.grad(), w);
  }
}

}  // namespace
}  // namespace facula
