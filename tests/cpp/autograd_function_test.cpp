// Functions that users write with a gradient of their own: what they save, mark and give back, and their mistakes.
#include <facula/autograd/gradcheck.h>
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace facula {
namespace {

using autograd::AutogradContext;
using autograd::DetectAnomalyGuard;
using autograd::tensor_list;
using autograd::variable_list;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::Watched;
using ::testing::HasSubstr;

struct Cube : autograd::Function<Cube> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    return {grads[0] * 3 * x * x};
  }
};

TEST(CustomFunction, HasItsOwnGradient) {
  const Tensor x = draw_leaf({3});
  const Tensor y = Cube::apply(x);
  EXPECT_EQ(y.grad_fn()->name(), "Cube");
  expect_close(y, x.detach().pow(3));
  y.sum().backward();
  expect_close(x.grad(), 3 * x.detach().pow(2));
  expect_error<Error>([&] { y.sum().backward(); }, "Cube: Trying to backward through the graph a second time");
  EXPECT_FALSE(Cube::apply(draw({3})).requires_grad());
  const NoGradGuard quiet;
  EXPECT_FALSE(Cube::apply(x).requires_grad());
}

TEST(CustomFunction, DifferentiatesTwice) {
  const Tensor x = draw_leaf({3});
  const Tensor dx = autograd::grad({Cube::apply(x).sum()}, {x}, {}, std::nullopt, true)[0];
  expect_close(autograd::grad({dx.sum()}, {x})[0], 6 * x.detach());
  const auto f = [](const variable_list& in) { return variable_list{Cube::apply(in[0])}; };
  EXPECT_TRUE(autograd::gradcheck(f, {x}));
  EXPECT_TRUE(autograd::gradgradcheck(f, {x}));
}

// Two results, an argument that is no tensor, a list, data of any kind, and the choice of gradients.
struct Mix : autograd::Function<Mix> {
  static variable_list forward(AutogradContext* context, const Tensor& a, double scale, const Tensor& b) {
    context->saved_data["scale"] = scale;
    context->save_for_backward({a, b});
    return {a * b * scale, a + b};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const double scale = std::any_cast<double>(context->saved_data["scale"]);
    const variable_list saved = context->get_saved_variables();
    needed = {context->needs_input_grad(0), context->needs_input_grad(1)};
    defined = {grads[0].defined(), grads[1].defined()};
    return {grads[0] * saved[1] * scale + grads[1], grads[0] * saved[0] * scale + grads[1]};
  }
  static inline std::vector<bool> needed, defined;
};

TEST(CustomFunction, TakesOtherArgumentsAndGivesSeveralResults) {
  const Tensor a = draw_leaf({3}), b = draw_leaf({3});
  variable_list results = Mix::apply(a, 2.5, b);
  (results[0] + 3 * results[1]).sum().backward();
  expect_close(a.grad(), 2.5 * b.detach() + 3);
  expect_close(b.grad(), 2.5 * a.detach() + 3);
  EXPECT_EQ(Mix::needed, (std::vector<bool>{true, true}));
  results = Mix::apply(a, 2.5, b.detach());
  results[0].sum().backward();
  EXPECT_EQ(Mix::needed, (std::vector<bool>{true, false}));
  EXPECT_EQ(Mix::defined, (std::vector<bool>{true, true})) << "missing gradients come as zeros";
  results = Mix::apply(a, 2.5, b);
  autograd::grad({results[1].sum()}, {b});
  EXPECT_EQ(Mix::needed, (std::vector<bool>{false, true})) << "only what grad was asked for";
}

struct Lazy : autograd::Function<Lazy> {
  static variable_list forward(AutogradContext* context, const Tensor& a) {
    context->set_materialize_grads(false);
    return {a * 2, a * 3};
  }
  static tensor_list backward(AutogradContext*, tensor_list grads) {
    EXPECT_FALSE(grads[0].defined());
    return {grads[1] * 3};
  }
};

TEST(CustomFunction, MayTakeMissingGradientsAsUndefined) {
  const Tensor a = draw_leaf({3});
  Lazy::apply(a)[1].sum().backward();
  expect_close(a.grad(), full({3}, 3.0, kDouble));
}

struct Largest : autograd::Function<Largest> {
  static variable_list forward(AutogradContext* context, const Tensor& x) {
    const Tensor place = x.argmax(), mask = (x == x.max()).to(kDouble);
    context->mark_non_differentiable({mask, place});
    context->save_for_backward({mask});
    return {x.max(), mask, place};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0]};
  }
};

TEST(CustomFunction, MarksResultsThatHaveNoGradient) {
  const Tensor x = draw_leaf({5});
  const variable_list results = Largest::apply(x);
  EXPECT_TRUE(results[0].requires_grad());
  EXPECT_FALSE(results[1].requires_grad());
  EXPECT_FALSE(results[2].requires_grad());
  results[0].backward();
  expect_close(x.grad(), results[1]);
}

struct DoubleInPlace : autograd::Function<DoubleInPlace> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    return x;
  }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0] * 2}; }
};

TEST(CustomFunction, WritesInPlaceWhenItSaysSo) {
  const Tensor x = draw_leaf({4});
  Tensor y = x * 3;
  const Tensor z = DoubleInPlace::apply(y);
  EXPECT_TRUE(z.is_same(y));
  EXPECT_EQ(y.grad_fn()->name(), "DoubleInPlace");
  (y * y).sum().backward();
  expect_close(x.grad(), 72 * x.detach());
  // Through a view: the base knows.
  x.mutable_grad() = Tensor();
  Tensor base = x * 3;
  DoubleInPlace::apply(base.narrow(0, 0, 2));
  (base * base).sum().backward();
  expect_close(x.grad(), cat({(72 * x.detach()).narrow(0, 0, 2), (18 * x.detach()).narrow(0, 2, 2)}));
  // Not through leaves.
  expect_error<Error>([&] { DoubleInPlace::apply(x); }, "a leaf Variable that requires grad");
}

struct ExpSaved : autograd::Function<ExpSaved> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    const Tensor y = x.exp();
    context->save_for_backward({y});
    return y;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0]};
  }
};

TEST(CustomFunction, SavesItsResults) {
  const Tensor x = draw_leaf({3});
  const Tensor e = x.detach().exp();
  const Tensor dx = autograd::grad({ExpSaved::apply(x).sum()}, {x}, {}, std::nullopt, true)[0];
  expect_close(dx, e);
  expect_close(autograd::grad({dx.sum()}, {x})[0], e);
  Tensor y = ExpSaved::apply(x);
  y.add_(1);
  expect_error<Error>([&] { y.sum().backward(); }, "ExpSaved: one of the variables needed for gradient computation");
}

struct Same : autograd::Function<Same> {
  static Tensor forward(AutogradContext*, Tensor x) { return x; }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {-grads[0]}; }
};

TEST(CustomFunction, MayGiveBackItsInput) {
  const Tensor x = draw_leaf({3});
  const Tensor y = Same::apply(x);
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(y.grad_fn()->name(), "Same");
  y.sum().backward();
  expect_close(x.grad(), full({3}, -1.0, kDouble));
}

struct Wrong : autograd::Function<Wrong> {
  static Tensor forward(AutogradContext*, const Tensor& a, const Tensor& b) { return a + b; }
  static tensor_list backward(AutogradContext*, tensor_list grads) {
    if (mistake == 0) return {grads[0]};
    if (mistake == 1) return {grads[0], grads[0], grads[0]};
    if (mistake == 2) return {grads[0], ones({7}, kDouble)};
    if (mistake == 3) throw std::runtime_error("from backward");
    return {grads[0], grads[0], Tensor()};
  }
  static inline int mistake = 0;
};

TEST(CustomFunction, MistakesOfBackwardAreNamed) {
  const Tensor a = draw_leaf({3}), b = draw_leaf({3});
  const Tensor loss = Wrong::apply(a, b).sum();
  Wrong::mistake = 0;
  expect_error<ValueError>([&] { loss.backward({}, true); },
                           "Wrong: returned an incorrect number of gradients (expected 2, got 1)");
  Wrong::mistake = 1;
  expect_error<ValueError>([&] { loss.backward({}, true); }, "Wrong: returned 3 gradients for 2 tensor inputs");
  Wrong::mistake = 2;
  expect_error<ShapeError>([&] { loss.backward({}, true); },
                           "Wrong: returned an invalid gradient at index 1 - got [7]");
  Wrong::mistake = 3;
  EXPECT_THROW(loss.backward({}, true), std::runtime_error);
  a.mutable_grad() = Tensor();
  b.mutable_grad() = Tensor();
  Wrong::mistake = 4;
  loss.backward();
  expect_close(a.grad(), ones({3}, kDouble));
  expect_close(b.grad(), ones({3}, kDouble));
}

struct Thrower : autograd::Function<Thrower> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    if (x.numel() > 3) throw std::runtime_error("too long");
    return x * 2;
  }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0] * 2}; }
};

TEST(CustomFunction, ThatThrowsLeavesTheTapeUsable) {
  const Tensor x = draw_leaf({5}), y = draw_leaf({3});
  EXPECT_THROW(Thrower::apply(x), std::runtime_error);
  EXPECT_TRUE(GradMode::is_enabled());
  Thrower::apply(y).sum().backward();
  expect_close(y.grad(), full({3}, 2.0, kDouble));
}

TEST(CustomFunction, MakesNoCycles) {
  Watched memories[4] = {Watched({3}), Watched({3}), Watched({4}), Watched({3})};
  {
    const Tensor a = memories[0].take().requires_grad_(), b = memories[1].take().requires_grad_();
    const Tensor c = memories[2].take().requires_grad_(), d = memories[3].take().requires_grad_();
    const Tensor saved = ExpSaved::apply(a);
    const Tensor written = DoubleInPlace::apply(b * b);
    Tensor base = c * c;
    DoubleInPlace::apply(base.narrow(0, 0, 2));
    const variable_list marked = Largest::apply(d);
    const Tensor same = Same::apply(a);
  }
  for (const Watched& each : memories) EXPECT_TRUE(each.freed()) << &each - memories;
}

TEST(CustomFunction, NanNamesItsPlace) {
  struct MakesNan : autograd::Function<MakesNan> {
    static Tensor forward(AutogradContext*, const Tensor& x) { return x * 2; }
    static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0] * NAN}; }
  };
  const DetectAnomalyGuard detect;
  const Tensor x = draw_leaf({3});
  const Tensor y = MakesNan::apply(x).sum();
  try {
    y.backward();
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("MakesNan"));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("not known")));
  }
}

}  // namespace
}  // namespace facula
