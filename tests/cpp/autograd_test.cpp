// The tape and its engine: leaves, nodes, backward and grad, accumulation, broadcasting, second order, modes of threads. Deep
// graphs and memory are in autograd_memory_test.cpp, views and in-place writes in autograd_views_test.cpp, hooks in
// autograd_hooks_test.cpp, gradients of single ops in their records.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

namespace facula {
namespace {

using autograd::variable_list;
using facula_test::differences;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::values;

std::string name_of(const Tensor& t) { return t.grad_fn() ? t.grad_fn()->name() : "none"; }

// ---- leaves

TEST(AutogradLeaf, RequiresGradOnlyWhenAsked) {
  Tensor x = ones({2, 3});
  EXPECT_FALSE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(x.grad_fn());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(x.requires_grad_().is_same(x));
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(x.grad_fn());
  x.set_requires_grad(false);
  EXPECT_FALSE(x.requires_grad());
  EXPECT_FALSE((x * 2).requires_grad());
}

TEST(AutogradLeaf, OptionsOfCreationAskForIt) {
  const auto options = TensorOptions().dtype(kDouble).requires_grad(true);
  EXPECT_TRUE(zeros({2}, options).requires_grad());
  EXPECT_TRUE(ones({2}, options).is_leaf());
  EXPECT_TRUE(full({2}, 3.0, options).requires_grad());
  EXPECT_TRUE(empty({2}, options).requires_grad());
  EXPECT_TRUE(randn({2}, options).requires_grad());
  EXPECT_TRUE(tensor({1.0, 2.0}, options).requires_grad());
  EXPECT_FALSE(zeros({2}, kDouble).requires_grad());
}

TEST(AutogradLeaf, ResultsOfRecordedOpsAreNoLeaves) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_TRUE(y.grad_fn());
  EXPECT_FALSE((draw({3}) * 2).requires_grad());
  expect_error<Error>([&] { y.set_requires_grad(false); }, "you can only change requires_grad flags of leaf variables");
  EXPECT_TRUE(y.requires_grad());
  y.set_requires_grad(true);  // it is so already
  EXPECT_FALSE(y.is_leaf());
}

TEST(AutogradLeaf, OnlyFloatingPointAndComplexCanRequireGrad) {
  for (ScalarType dtype : {kInt, kLong, kBool, kByte, kShort})
    expect_error<DTypeError>([&] { zeros({2}, dtype).requires_grad_(); },
                             "only Tensors of floating point and complex dtype can require gradients");
  for (ScalarType dtype : {kFloat, kDouble, kHalf, kBFloat16, kComplexFloat, kComplexDouble})
    EXPECT_TRUE(zeros({2}, dtype).requires_grad_().requires_grad());
  EXPECT_ANY_THROW(zeros({2}, TensorOptions().dtype(kLong).requires_grad(true)));
}

TEST(AutogradLeaf, IntegerResultsCarryNoGradient) {
  const Tensor x = draw_leaf({5});
  EXPECT_FALSE(x.argmax().requires_grad());
  EXPECT_FALSE((x > 0).requires_grad());
  EXPECT_FALSE(x.to(kLong).requires_grad());
  const auto [sorted, places] = x.sort(0, false);
  EXPECT_TRUE(sorted.requires_grad());
  EXPECT_FALSE(places.requires_grad());
  const auto [largest, where_largest] = x.max(0);
  EXPECT_TRUE(largest.requires_grad());
  EXPECT_FALSE(where_largest.requires_grad());
}

// ---- nodes

TEST(AutogradNode, NamesAreThoseThatUsersKnow) {
  const Tensor x = draw_leaf({3, 3}, 0.5, 1.5), y = draw_leaf({3, 3}, 0.5, 1.5);
  EXPECT_EQ(name_of(x + y), "AddBackward0");
  EXPECT_EQ(name_of(x - y), "SubBackward0");
  EXPECT_EQ(name_of(x * y), "MulBackward0");
  EXPECT_EQ(name_of(x / y), "DivBackward0");
  EXPECT_EQ(name_of(-x), "NegBackward0");
  EXPECT_EQ(name_of(x.exp()), "ExpBackward0");
  EXPECT_EQ(name_of(x.relu()), "ReluBackward0");
  EXPECT_EQ(name_of(x.tanh()), "TanhBackward0");
  EXPECT_EQ(name_of(x.pow(2)), "PowBackward0");
  EXPECT_EQ(name_of(x.pow(y)), "PowBackward1");
  EXPECT_EQ(name_of(x.sum()), "SumBackward0");
  EXPECT_EQ(name_of(x.sum(0)), "SumBackward1");
  EXPECT_EQ(name_of(x.mean()), "MeanBackward0");
  EXPECT_EQ(name_of(x.mm(y)), "MmBackward0");
  EXPECT_EQ(name_of(x.view({9})), "ViewBackward0");
  EXPECT_EQ(name_of(x.t()), "TBackward0");
  EXPECT_EQ(name_of(x.transpose(0, 1)), "TransposeBackward0");
  EXPECT_EQ(name_of(x.permute({1, 0})), "PermuteBackward0");
  EXPECT_EQ(name_of(x.select(0, 1)), "SelectBackward0");
  EXPECT_EQ(name_of(x.unsqueeze(0)), "UnsqueezeBackward0");
  EXPECT_EQ(name_of(x.expand({2, 3, 3})), "ExpandBackward0");
  EXPECT_EQ(name_of(x.clone()), "CloneBackward0");
  EXPECT_EQ(name_of(cat({x, y})), "CatBackward0");
  EXPECT_EQ(name_of(stack({x, y})), "StackBackward0");
  EXPECT_EQ(name_of(x.softmax(1)), "SoftmaxBackward0");
  EXPECT_EQ(name_of(x.to(kFloat)), "ToCopyBackward0");
}

TEST(AutogradNode, EdgesLeadToTheInputs) {
  const Tensor x = draw_leaf({3}), y = draw_leaf({3}), c = draw({3});
  const Tensor product = x * y;
  const Tensor sum = product + c;
  const auto node = sum.grad_fn();
  ASSERT_EQ(node->num_outputs(), 2u);
  ASSERT_EQ(node->num_inputs(), 1u);
  EXPECT_EQ(node->next_edge(0).function.get(), product.grad_fn().get());
  EXPECT_FALSE(node->next_edge(1).is_valid());
  const auto edges = product.grad_fn()->next_edges();
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_EQ(edges[0].function->name(), "AccumulateGrad");
  EXPECT_NE(edges[0].function.get(), edges[1].function.get());
  EXPECT_EQ((x + 1).grad_fn()->next_edge(0).function.get(), edges[0].function.get()) << "one accumulator for one leaf";
  EXPECT_GT(node->sequence_nr(), product.grad_fn()->sequence_nr());
  EXPECT_GT(node->topological_nr(), product.grad_fn()->topological_nr());
  EXPECT_RAISES(node->next_edge(2), IndexError, "AddBackward0 has 2 edges");
}

TEST(AutogradNode, SeveralOutputsAreNumbered) {
  const Tensor x = draw_leaf({4, 3});
  const std::vector<Tensor> parts = x.unbind(0);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].grad_fn().get(), parts[0].grad_fn().get());
    EXPECT_EQ(parts[i].output_nr(), static_cast<int64_t>(i));
  }
  const auto [largest, places] = x.max(1);
  EXPECT_EQ(largest.output_nr(), 0);
  (parts[2] * parts[2]).sum().backward();
  Tensor want = zeros({4, 3}, kDouble);
  want.select(0, 2).copy_(2 * x.detach().select(0, 2));
  expect_close(x.grad(), want);
}

TEST(AutogradNode, RunsAlone) {
  const Tensor x = draw_leaf({3}), y = draw_leaf({3});
  const Tensor product = x * y;
  const Tensor seed = draw({3});
  const variable_list grads = (*product.grad_fn())({seed});
  ASSERT_EQ(grads.size(), 2u);
  expect_close(grads[0], seed * y.detach());
  expect_close(grads[1], seed * x.detach());
  EXPECT_FALSE(x.grad().defined());
}

// ---- backward

TEST(AutogradBackward, FillsTheGradientsOfLeaves) {
  const Tensor x = draw_leaf({4}), y = draw_leaf({4}), c = draw({4});
  const Tensor loss = (x.sin() * y + c * y.exp()).sum();
  loss.backward();
  expect_close(x.grad(), x.detach().cos() * y.detach());
  expect_close(y.grad(), x.detach().sin() + c * y.detach().exp());
  EXPECT_FALSE(c.grad().defined());
  EXPECT_FALSE(loss.grad().defined());
  EXPECT_FALSE(x.grad().requires_grad());
}

TEST(AutogradBackward, AddsToWhatIsThere) {
  const Tensor x = draw_leaf({3});
  (x * x).sum().backward();
  const Tensor first = x.grad();
  (3 * x).sum().backward();
  expect_close(x.grad(), 2 * x.detach() + 3);
  EXPECT_TRUE(first.is_same(x.grad())) << "added in place, as long as nobody records the gradient";
  x.mutable_grad().zero_();
  (x * x).sum().backward();
  expect_close(x.grad(), 2 * x.detach());
  x.mutable_grad() = Tensor();
  EXPECT_FALSE(x.grad().defined());
  (3 * x).sum().backward();
  expect_close(x.grad(), full({3}, 3.0, kDouble));
}

TEST(AutogradBackward, GradientsOfManyUsesAreSummed) {
  const Tensor x = draw_leaf({5});
  Tensor loss = zeros({}, kDouble);
  for (int k = 1; k <= 20; ++k) loss = loss + (x * k).sum() + (x * x).sum();
  loss.backward();
  expect_close(x.grad(), 210 + 40 * x.detach());
}

TEST(AutogradBackward, DiamondsRunEveryNodeOnce) {
  // 2^40 paths, 80 nodes.
  const Tensor x = draw_leaf({2});
  Tensor y = x * 1.0;
  for (int i = 0; i < 40; ++i) y = (y + y) * 0.5;
  y.sum().backward();
  expect_close(x.grad(), ones({2}, kDouble));
}

TEST(AutogradBackward, TakesAGradientForTensorsOfManyElements) {
  const Tensor x = draw_leaf({2, 3});
  const Tensor g = draw({2, 3});
  const Tensor y = x.exp();
  expect_error<ShapeError>([&] { y.backward(); }, "grad can be implicitly created only for scalar outputs");
  y.backward(g);
  expect_close(x.grad(), g * x.detach().exp());
  const Tensor single = draw_leaf({1, 1});
  (single * 3).backward();
  expect_close(single.grad(), full({1, 1}, 3.0, kDouble));
}

TEST(AutogradBackward, ChecksTheGradientItIsGiven) {
  const Tensor x = draw_leaf({2, 3});
  const Tensor y = x.exp();
  expect_error<ShapeError>([&] { y.backward(ones({3, 2}, kDouble)); }, "Mismatch in shape: grad_output[0]");
  expect_error<ShapeError>([&] { y.backward(ones({3}, kDouble)); }, "[3]");
  expect_error<DTypeError>([&] { y.backward(ones({2, 3}, kLong)); }, "Long");
  expect_error<DTypeError>([&] { y.backward(ones({2, 3}, kComplexDouble)); }, "ComplexDouble");
  expect_error<ValueError>(
      [&] {
        autograd::backward({y}, {ones({2, 3}, kDouble), ones({2, 3}, kDouble)});
      },
      "2 gradients for 1 tensors");
  expect_error<ValueError>([&] { autograd::backward({}); }, "no tensors were given");
  expect_error<ValueError>([&] { autograd::backward({Tensor()}); }, "undefined");
  EXPECT_FALSE(x.grad().defined());
  y.backward(ones({2, 3}, kFloat));  // another floating type is converted
  expect_close(x.grad(), x.detach().exp());
  EXPECT_EQ(x.grad().scalar_type(), kDouble);
}

TEST(AutogradBackward, NeedsARecordedTensor) {
  expect_error<Error>([] { ones({}).backward(); }, "does not require grad and does not have a grad_fn");
  const Tensor x = draw_leaf({2});
  expect_error<Error>([&] { x.sum().detach().backward(); }, "does not require grad");
  expect_error<Error>(
      [&] {
        const NoGradGuard quiet;
        x.sum().backward();
      },
      "does not require grad");
}

TEST(AutogradBackward, ALeafIsItsOwnRoot) {
  const Tensor x = draw_leaf({});
  x.backward();
  expect_close(x.grad(), ones({}, kDouble));
  const Tensor z = draw_leaf({2});
  const Tensor g = draw({2});
  z.backward(g);
  expect_close(z.grad(), g);
  EXPECT_NE(z.grad().data_ptr(), g.data_ptr()) << "what the user holds must not become the gradient";
  z.backward(g);
  expect_close(z.grad(), 2 * g);
}

TEST(AutogradBackward, SeveralRootsShareOnePass) {
  const Tensor x = draw_leaf({3});
  const Tensor middle = x.exp();
  const Tensor a = middle.sum(), b = middle * x;
  const Tensor g = draw({3});
  autograd::backward({a, b}, {Tensor(), g});
  const Tensor e = x.detach().exp();
  expect_close(x.grad(), e + g * (e * x.detach() + e));
}

TEST(AutogradBackward, ARootMayLieBeneathAnother) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * x;
  const Tensor z = y.sum();
  autograd::backward({z, y}, {Tensor(), ones({3}, kDouble)});
  expect_close(x.grad(), 4 * x.detach());
}

TEST(AutogradBackward, TheGraphIsFreedUnlessRetained) {
  const Tensor x = draw_leaf({3});
  const Tensor y = (x.exp() * x).sum();
  y.backward({}, true);
  y.backward();
  const Tensor e = x.detach().exp();
  expect_close(x.grad(), 2 * (e * x.detach() + e));
  expect_error<Error>([&] { y.backward(); }, "Trying to backward through the graph a second time");
  expect_error<Error>([&] { y.backward(); }, "retain_graph=True");
  // The engine and the leaf go on.
  (x * 2).sum().backward();
  expect_close(x.grad(), 2 * (e * x.detach() + e) + 2);
}

TEST(AutogradBackward, WhatSavesNothingRunsAgain) {
  const Tensor x = draw_leaf({3});
  const Tensor y = (x + 1).sum();
  y.backward();
  y.backward();
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(AutogradBackward, InputsLimitWhoGetsGradients) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const Tensor y = x * w;
  const Tensor loss = y.exp().sum();
  loss.backward({}, true, false, TensorList({w}));
  EXPECT_FALSE(x.grad().defined());
  expect_close(w.grad(), (x * w).exp().detach() * x.detach());
  autograd::backward({loss}, {}, true, false, {y});  // not a leaf
  expect_close(y.grad(), y.detach().exp());
  EXPECT_FALSE(x.grad().defined());
  expect_error<Error>([&] { autograd::backward({loss}, {}, true, false, {draw({3})}); }, "does not require grad");
}

TEST(AutogradBackward, ComplexLossesNeedAGradient) {
  const Tensor z = complex(full({}, 0.75, kDouble), full({}, -1.25, kDouble)).requires_grad_();
  expect_error<DTypeError>([&] { (z * z).sum().backward(); }, "real scalar outputs");
  // |z|^2 changes by Re(conj(grad) dz) with grad = 2 z.
  real(z * z.conj()).sum().backward();
  EXPECT_NEAR(real(z.grad()).item<double>(), 2 * 0.75, 1e-14);
  EXPECT_NEAR(imag(z.grad()).item<double>(), 2 * -1.25, 1e-14);
}

TEST(AutogradBackward, RealLeavesOfComplexResultsGetRealGradients) {
  const Tensor x = draw_leaf({3});
  const Tensor z = complex(draw({3}), draw({3}));
  const Tensor w = complex(draw({3}), draw({3}));
  (x * z).backward(w);
  EXPECT_EQ(x.grad().scalar_type(), kDouble);
  expect_close(x.grad(), real(w * z.conj()));
}

// ---- grad

TEST(AutogradGrad, GivesGradientsAndLeavesDotGradAlone) {
  const Tensor x = draw_leaf({3}), y = draw_leaf({3});
  const Tensor loss = (x * x * y).sum();
  const variable_list grads = autograd::grad({loss}, {y, x});
  ASSERT_EQ(grads.size(), 2u);
  expect_close(grads[0], (x * x).detach());
  expect_close(grads[1], (2 * x * y).detach());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(y.grad().defined());
  EXPECT_FALSE(grads[0].requires_grad());
}

TEST(AutogradGrad, ByIntermediateResults) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x.exp();
  const Tensor z = y.sin();
  const variable_list grads = autograd::grad({z.sum()}, {z, y, x});
  expect_close(grads[0], ones({3}, kDouble));
  expect_close(grads[1], y.detach().cos());
  expect_close(grads[2], y.detach().cos() * y.detach());
  expect_close(autograd::grad({(y * y).sum()}, {y, y})[1], 2 * y.detach());
}

TEST(AutogradGrad, UnusedInputsAreAnErrorUnlessAllowed) {
  const Tensor x = draw_leaf({3}), unused = draw_leaf({2, 2});
  const Tensor loss = x.exp().sum();
  expect_error<Error>(
      [&] {
        autograd::grad({loss}, {x, unused}, {}, true);
      },
      "appears to not have been used in the graph (input 1, shape [2, 2])");
  const variable_list grads = autograd::grad({loss}, {unused, x}, {}, true, false, true);
  EXPECT_FALSE(grads[0].defined());
  expect_close(grads[1], x.detach().exp());
  expect_error<Error>([&] { autograd::grad({loss}, {draw({3})}); }, "does not require grad");
  expect_error<ValueError>([&] { autograd::grad({loss}, {}); }, "non-empty inputs");
  expect_error<ValueError>([&] { autograd::grad({loss}, {Tensor()}); }, "undefined");
}

TEST(AutogradGrad, TakesGradOutputs) {
  const Tensor x = draw_leaf({2, 3});
  const Tensor g = draw({2, 3}), h = draw({3});
  const variable_list grads = autograd::grad({x.exp(), x.sum(0)}, {x}, {g, h});
  expect_close(grads[0], g * x.detach().exp() + h);
}

TEST(AutogradGrad, OnlyTheNodesOnTheWayRun) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  const Tensor a = x.exp(), b = w.exp();
  const Tensor loss = (a * b).sum();
  autograd::grad({loss}, {x});
  // The nodes to w did not run, so they still have what they saved.
  b.sum().backward();
  expect_close(w.grad(), w.detach().exp());
}

// ---- second order

TEST(AutogradSecondOrder, GradientsOfGradients) {
  const Tensor x = draw_leaf({4}, 0.5, 1.5);
  const Tensor y = (x.pow(3) * x.log()).sum();
  const Tensor dx = autograd::grad({y}, {x}, {}, std::nullopt, true)[0];
  EXPECT_TRUE(dx.requires_grad());
  const Tensor v = x.detach();
  expect_close(dx, 3 * v * v * v.log() + v * v);
  const Tensor d2 = autograd::grad({dx.sum()}, {x}, {}, std::nullopt, true)[0];
  expect_close(d2, 6 * v * v.log() + 5 * v);
  const Tensor d3 = autograd::grad({d2.sum()}, {x})[0];
  expect_close(d3, 6 * v.log() + 11);
}

TEST(AutogradSecondOrder, AHessianAgainstDifferencesOfGradients) {
  const Tensor a = draw({4, 3});
  const auto f = [&](const Tensor& x) { return (a.matmul(x).tanh().softmax(0) * a.sum(1)).sum() + x.prod(); };
  const Tensor x = draw_leaf({3});
  const auto gradient = [&](const Tensor& at) {
    const EnableGradGuard record;
    const Tensor leaf = at.detach().clone().requires_grad_();
    return autograd::grad({f(leaf)}, {leaf})[0];
  };
  expect_close(gradient(x), differences(f, x), 1e-6);
  const Tensor dx = autograd::grad({f(x)}, {x}, {}, std::nullopt, true)[0];
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < 3; ++i) rows.push_back(autograd::grad({dx[i]}, {x}, {}, true)[0]);
  const Tensor hessian = stack(rows);
  expect_close(hessian, differences(gradient, x), 1e-6);
  expect_close(hessian, hessian.t(), 1e-10);
}

TEST(AutogradSecondOrder, BackwardWithCreateGraphFillsRecordedGradients) {
  const Tensor x = draw_leaf({3}), g = draw_leaf({3});
  (x * x * x).backward(g, std::nullopt, true);
  EXPECT_TRUE(x.grad().requires_grad());
  const Tensor penalty = x.grad().pow(2).sum();
  const Tensor v = x.detach(), w = g.detach();
  expect_close(autograd::grad({penalty}, {x}, {}, true)[0], 36 * w * w * v.pow(3));
  expect_close(autograd::grad({penalty}, {g})[0], 18 * w * v.pow(4));
  x.mutable_grad() = Tensor();  // otherwise the gradient and the leaf would keep each other alive
}

TEST(AutogradSecondOrder, CreateGraphAddsWithoutWritingToTheOldGradient) {
  const Tensor x = draw_leaf({3});
  x.exp().sum().backward();
  const Tensor first = x.grad();
  const Tensor before = first.clone();
  x.exp().sum().backward({}, std::nullopt, true);
  EXPECT_FALSE(first.is_same(x.grad()));
  expect_close(first, before);
  expect_close(x.grad(), 2 * before);
  x.mutable_grad() = Tensor();
}

// ---- broadcasting, dtypes and layouts

TEST(AutogradShape, BroadcastingIsUndone) {
  const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {4}, {1, 4}, {3, 1}, {3, 4}, {2, 1, 1}, {1, 1, 1, 4}};
  const Tensor whole = draw({2, 3, 4});
  for (const auto& shape : shapes) {
    const Tensor x = draw_leaf(shape);
    const auto f = [&](const Tensor& t) { return (whole * t + t / 3).sin().sum(); };
    f(x).backward();
    expect_close(x.grad(), differences(f, x), 1e-6);
  }
}

TEST(AutogradShape, EmptyTensorsHaveEmptyGradients) {
  const Tensor x = draw_leaf({0, 3});
  x.exp().sum().backward();
  EXPECT_EQ(x.grad().sizes().vec(), (std::vector<int64_t>{0, 3}));
  const Tensor y = draw_leaf({1, 3});
  (y * draw({0, 3})).sum().backward();
  expect_close(y.grad(), zeros({1, 3}, kDouble));
}

TEST(AutogradShape, GradientsHaveTheDtypeOfTheirTensor) {
  const Tensor x = ones({3}, kFloat).requires_grad_(), y = draw_leaf({3}), h = ones({3}, kHalf).requires_grad_();
  (x * y * h).sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), kFloat);
  EXPECT_EQ(y.grad().scalar_type(), kDouble);
  EXPECT_EQ(h.grad().scalar_type(), kHalf);
  expect_close(x.grad(), y.detach().to(kFloat), 1e-7);
}

TEST(AutogradShape, GradientsLieAsTheirTensorDoes) {
  const Tensor turned = draw({4, 3}).t().requires_grad_();
  ASSERT_FALSE(turned.is_contiguous());
  (turned * draw({3, 4})).sum().backward();
  EXPECT_EQ(turned.grad().strides().vec(), turned.strides().vec());
  const Tensor last = draw({2, 4, 5, 3}).permute({0, 3, 1, 2}).requires_grad_();
  const Tensor factor = draw({2, 3, 4, 5});
  (last * factor).sum().backward();
  EXPECT_EQ(last.grad().strides().vec(), last.strides().vec());
  expect_close(last.grad(), factor);
  // Memory with holes or overlap is no layout to take over.
  const Tensor holes = draw({4, 6}).slice(1, 0, 6, 2).requires_grad_();
  holes.exp().sum().backward();
  EXPECT_TRUE(holes.grad().is_contiguous());
  const Tensor expanded = draw({3}).expand({4, 3}).requires_grad_();
  (expanded * 2).sum().backward();
  EXPECT_TRUE(expanded.grad().is_contiguous());
  expect_close(expanded.grad(), full({4, 3}, 2.0, kDouble));
}

TEST(AutogradShape, GradientsDoNotShareMemory) {
  const Tensor x = draw_leaf({3}), y = draw_leaf({3});
  (x + y).sum().backward();
  EXPECT_NE(x.grad().data_ptr(), y.grad().data_ptr());
  x.grad().zero_();
  expect_close(y.grad(), ones({3}, kDouble));
  const Tensor z = draw_leaf({3, 4});
  z.sum().backward();
  EXPECT_TRUE(z.grad().is_contiguous()) << "a gradient is written to, so it cannot be an expanded number";
  z.sum().backward();
  expect_close(z.grad(), full({3, 4}, 2.0, kDouble));
}

TEST(AutogradShape, GradientsThatNobodyElseHoldsAreNotCopied) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{4}, {3, 4}, {}}) {
    const Tensor x = draw_leaf(shape);
    const void* passed = nullptr;
    x.register_hook([&](const Tensor& grad) { passed = grad.data_ptr(); });
    (x * draw({3, 4})).sum().backward();
    EXPECT_EQ(x.grad().data_ptr(), passed) << x.dim() << " dims";
  }
}

TEST(AutogradShape, SetGradChecksItsArgument) {
  const Tensor x = draw_leaf({3});
  const Tensor g = draw({3});
  x.set_grad(g);
  EXPECT_TRUE(x.grad().is_same(g));
  expect_error<ShapeError>([&] { x.set_grad(draw({4})); }, "[4] for a tensor of [3]");
  expect_error<DTypeError>([&] { x.set_grad(ones({3}, kFloat)); }, "Float for a tensor of Double");
  EXPECT_TRUE(x.grad().is_same(g));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

// ---- retain_grad

TEST(AutogradRetainGrad, KeepsTheGradientOfAResult) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * x;
  EXPECT_FALSE(y.retains_grad());
  y.retain_grad();
  y.retain_grad();
  EXPECT_TRUE(y.retains_grad());
  const Tensor loss = y.exp().sum();
  loss.backward({}, true);
  expect_close(y.grad(), y.detach().exp());
  loss.backward();
  expect_close(y.grad(), 2 * y.detach().exp());
  expect_error<Error>([] { draw({2}).retain_grad(); }, "requires_grad=False");
  x.retain_grad();  // leaves have theirs anyway
  EXPECT_FALSE(x.retains_grad());
}

TEST(AutogradRetainGrad, FollowsInPlaceWrites) {
  const Tensor x = draw_leaf({3});
  Tensor y = x * 1.0;
  y.retain_grad();
  y.mul_(2);
  (y * y).sum().backward();
  expect_close(y.grad(), 4 * x.detach());
  expect_close(x.grad(), 8 * x.detach());
}

// ---- modes

TEST(AutogradMode, NoGradRecordsNothing) {
  const Tensor x = draw_leaf({3});
  Tensor y;
  {
    const NoGradGuard quiet;
    EXPECT_FALSE(GradMode::is_enabled());
    y = x * 2;
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(x.requires_grad());
    {
      const EnableGradGuard record;
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE((x * 2).requires_grad());
    Tensor(x).add_(1);  // leaves may be written
    EXPECT_TRUE(zeros({2}).requires_grad_().requires_grad());
  }
  EXPECT_TRUE(GradMode::is_enabled());
  EXPECT_TRUE(y.is_leaf());
}

TEST(AutogradMode, GuardsEndWithExceptions) {
  EXPECT_ANY_THROW({
    const NoGradGuard quiet;
    ones({2}) + ones({3});
  });
  EXPECT_TRUE(GradMode::is_enabled());
  const Tensor x = draw_leaf({2});
  EXPECT_ANY_THROW(x.mm(x));
  EXPECT_TRUE((x * 2).requires_grad()) << "an op that throws inside leaves the modes as they were";
}

TEST(AutogradMode, IsOfTheThread) {
  GradMode::set_enabled(false);
  bool other = false, other_inference = true;
  std::thread([&] {
    other = GradMode::is_enabled();
    other_inference = InferenceMode::is_enabled();
    GradMode::set_enabled(false);
  }).join();
  EXPECT_TRUE(other);
  EXPECT_FALSE(other_inference);
  EXPECT_FALSE(GradMode::is_enabled());
  GradMode::set_enabled(true);
  {
    const AutoGradMode off(false);
    EXPECT_FALSE(GradMode::is_enabled());
  }
  EXPECT_TRUE(GradMode::is_enabled());
}

TEST(AutogradMode, BackwardDoesNotRecordUnlessAsked) {
  const Tensor x = draw_leaf({3});
  bool recorded = true;
  const Tensor y = x * 2;
  y.register_hook([&](const Tensor&) { recorded = GradMode::is_enabled(); });
  const Tensor loss = y.sum();
  loss.backward({}, true);
  EXPECT_FALSE(recorded);
  EXPECT_TRUE(GradMode::is_enabled());
  autograd::grad({loss}, {x}, {}, true, true);
  EXPECT_TRUE(recorded);
}

TEST(AutogradMode, InferenceTensorsStayOutOfTheTape) {
  const Tensor x = draw_leaf({3});
  Tensor made;
  {
    const InferenceMode inference;
    EXPECT_TRUE(InferenceMode::is_enabled());
    EXPECT_FALSE(GradMode::is_enabled());
    made = x * 2;
    EXPECT_TRUE(made.is_inference());
    EXPECT_FALSE(made.requires_grad());
    made.add_(1);
    {
      const InferenceMode normal(false);
      EXPECT_TRUE((x * 2).requires_grad());
      EXPECT_FALSE((x * 2).is_inference());
    }
    EXPECT_TRUE(InferenceMode::is_enabled());
  }
  EXPECT_FALSE(InferenceMode::is_enabled());
  EXPECT_TRUE(GradMode::is_enabled());
  EXPECT_FALSE((made * 2).requires_grad());
  expect_error<Error>([&] { x* made; }, "Inference tensors cannot be saved for backward");
  expect_error<Error>([&] { made.add_(1); }, "Inplace update to inference tensor outside InferenceMode");
  expect_error<Error>([&] { made.requires_grad_(); }, "inference tensor");
  const Tensor normal = made.clone();
  EXPECT_FALSE(normal.is_inference());
  (x * normal).sum().backward();
  expect_close(x.grad(), normal);
  (x + made).sum().backward();  // nothing is saved
}

TEST(AutogradMode, DetachSharesMemoryAndEndsHistory) {
  const Tensor x = draw_leaf({3});
  const Tensor y = x * 2;
  const Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_leaf());
  EXPECT_EQ(cut.data_ptr(), y.data_ptr());
  (y * cut).sum().backward();
  expect_close(x.grad(), 4 * x.detach());
  Tensor z = x * 3;
  z.detach_();
  EXPECT_TRUE(z.is_leaf());
  EXPECT_FALSE(z.requires_grad());
  expect_error<Error>([&] { (x * 3).view({3, 1}).detach_(); }, "Can't detach views in-place");
}

TEST(AutogradMode, OutVariantsRefuseTensorsThatRequireGrad) {
  const Tensor x = draw_leaf({3}), c = draw({3});
  Tensor out = empty({3}, kDouble);
  expect_error<Error>([&] { add_out(out, x, c); }, "don't support automatic differentiation");
  Tensor recorded = draw_leaf({3});
  expect_error<Error>([&] { add_out(recorded, c, c); }, "automatic differentiation");
  const NoGradGuard quiet;
  add_out(out, x, c);
  expect_close(out, x.detach() + c);
}

}  // namespace
}  // namespace facula
