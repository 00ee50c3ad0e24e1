// Functions that users write with a gradient of their own: what they save, mark and give back, and their mistakes.
#include <facula/autograd/gradcheck.h>
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
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
    const double scale = context->saved_data["scale"].toDouble();
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
  expect_error<ValueError>([&] { loss.backward({}, true); },
                           "Wrong: returned an incorrect number of gradients (expected 2, got 3)");
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

// One gradient for each argument, as libtorch has it, or for each tensor; arguments are told apart by their types.
struct Spread : autograd::Function<Spread> {
  static Tensor forward(AutogradContext* context, const Tensor& a, double scale, const variable_list& list,
                        std::optional<Tensor> maybe, int64_t power, const Tensor& b) {
    context->saved_data["scale"] = scale;
    context->saved_data["maybe"] = maybe.has_value();
    Tensor sum = a * scale + b * 5;
    for (size_t i = 0; i < list.size(); ++i) sum = sum + list[i] * static_cast<double>(i + 2);
    if (maybe) sum = sum + *maybe * 7;
    return sum + static_cast<double>(power);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const Tensor& g = grads[0];
    const bool maybe = context->saved_data["maybe"].toBool();
    const double scale = context->saved_data["scale"].toDouble();
    const size_t tensors = maybe ? 5 : 4;
    for (size_t i = 0; i < tensors; ++i) EXPECT_TRUE(context->needs_input_grad(i));
    EXPECT_THROW(context->needs_input_grad(tensors), IndexError);
    const Tensor none, of_maybe = maybe ? g * 7 : none;
    switch (way) {
      case 0: return {g * scale, none, g * 2, g * 3, of_maybe, none, g * 5};
      case 1: return {g * scale, none, g * 2, g * 3, of_maybe, none, g * 5, none, none};
      case 2: {
        tensor_list each{g * scale, g * 2, g * 3};
        if (maybe) each.push_back(of_maybe);
        each.push_back(g * 5);
        return each;
      }
      case 3: return {g * scale, g, g * 2, g * 3, of_maybe, none, g * 5};
      default: return {g * scale, none, g * 2};
    }
  }
  static inline int way = 0;
};

TEST(CustomFunction, GivesAGradientForEachArgumentOrForEachTensor) {
  for (const bool maybe : {true, false}) {
    for (const int way : {0, 1, 2}) {
      SCOPED_TRACE(str("way ", way, maybe ? ", with" : ", without"));
      Spread::way = way;
      const Tensor a = draw_leaf({3}), b = draw_leaf({3}), c = draw_leaf({3}), d = draw_leaf({3}), e = draw_leaf({3});
      const std::optional<Tensor> given = maybe ? std::optional<Tensor>(e) : std::nullopt;
      Spread::apply(a, 2.5, variable_list{c, d}, given, int64_t{3}, b).sum().backward();
      expect_close(a.grad(), full({3}, 2.5, kDouble));
      expect_close(c.grad(), full({3}, 2.0, kDouble));
      expect_close(d.grad(), full({3}, 3.0, kDouble));
      expect_close(b.grad(), full({3}, 5.0, kDouble));
      if (maybe) expect_close(e.grad(), full({3}, 7.0, kDouble));
    }
  }
  const Tensor a = draw_leaf({3}), b = draw_leaf({3}), c = draw_leaf({3}), d = draw_leaf({3});
  const Tensor loss = Spread::apply(a, 2.5, variable_list{c, d}, std::optional<Tensor>(), int64_t{3}, b).sum();
  Spread::way = 3;
  expect_error<ValueError>([&] { loss.backward({}, true); },
                           "Spread: returned a gradient that is defined at position 1, but the corresponding forward "
                           "input was not a tensor");
  Spread::way = 4;
  expect_error<ValueError>([&] { loss.backward({}, true); },
                           "Spread: returned an incorrect number of gradients (expected 7, got 3): forward has 7 "
                           "arguments, 4 of them tensors; give one");
  Spread::way = 0;
  loss.backward();
  expect_close(b.grad(), full({3}, 5.0, kDouble));
}

// Forward is not what backward says: the derivative is backward's, in both modes.
struct Straight : autograd::Function<Straight> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& y) {
    context->save_for_backward({x, y});
    return x.round() + y.sin();
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const variable_list saved = context->get_saved_variables();
    return {grads[0] * saved[1] * 2, grads[0] * saved[0] * saved[1]};
  }
};

TEST(CustomFunction, ForwardModeFollowsBackward) {
  const Tensor x = draw({4}), y = draw({4}), tx = draw({4}), ty = draw({4});
  const auto f = [](const Tensor& a, const Tensor& b) { return Straight::apply(a, b); };
  const Tensor want = tx * y * 2 + ty * x * y;
  {
    const autograd::DualLevel level;
    const Tensor out = f(level.make_dual(x, tx), level.make_dual(y, ty));
    const auto [value, tangent] = level.unpack_dual(out);
    expect_close(value, x.round() + y.sin());
    expect_close(tangent, want);
    // One of the two only, and views of it.
    expect_close(level.unpack_dual(f(level.make_dual(x, tx), y)).second, tx * y * 2);
    expect_close(level.unpack_dual(f(level.make_dual(x, tx).flip(0), y)).second, tx.flip(0) * y * 2);
    EXPECT_FALSE(level.unpack_dual(f(x, y)).second.defined());
  }
  expect_close(func::jacfwd([&](const Tensor& t) { return f(t, y); })(x), diag(y * 2));
  // Forward mode through the gradient, and backward through the tangent.
  const auto gradient = [&](const Tensor& a) {
    return func::grad([&](const Tensor& t) { return (f(t, y) * t).sum(); })(a);
  };
  expect_close(func::jacfwd(gradient)(x), diag(y * 4));
  const Tensor leaf = x.detach().clone().requires_grad_();
  {
    const autograd::DualLevel level;
    level.unpack_dual(f(level.make_dual(leaf, tx), level.make_dual(y, ty))).second.sum().backward();
  }
  expect_close(leaf.grad(), ty * y);
}

struct Pair : autograd::Function<Pair> {
  static variable_list forward(AutogradContext* context, const Tensor& x) {
    context->mark_non_differentiable({x.detach()});
    const Tensor sign = x.sign();
    context->mark_non_differentiable({sign});
    const Tensor e = x.exp();
    context->save_for_backward({e});
    return {e, sign, x.argmax(), x.view({-1})};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {grads[0] * context->get_saved_variables()[0] * 3 + grads[3].view({2, 2}) * 0};
  }
};

TEST(CustomFunction, ForwardModeOfSeveralResults) {
  const Tensor x = draw({2, 2}), t = draw({2, 2});
  const autograd::DualLevel level;
  const variable_list out = Pair::apply(level.make_dual(x, t));
  expect_close(level.unpack_dual(out[0]).second, 3 * t * x.exp());
  EXPECT_FALSE(level.unpack_dual(out[1]).second.defined());
  EXPECT_FALSE(level.unpack_dual(out[2]).second.defined());
  expect_close(level.unpack_dual(out[3]).second, zeros({4}, kDouble));
}

TEST(CustomFunction, ForwardModeOfWritesInPlace) {
  const Tensor x = draw({3}), t = draw({3});
  const autograd::DualLevel level;
  Tensor y = level.make_dual(x.clone(), t) * 3;
  DoubleInPlace::apply(y);
  const auto [value, tangent] = level.unpack_dual(y);
  expect_close(value, 6 * x);
  expect_close(tangent, 6 * t);
}

struct Opaque : autograd::Function<Opaque> {
  static Tensor forward(AutogradContext*, const Tensor& x, const Tensor& y) { return x * 2 + y; }
  static tensor_list backward(AutogradContext*, tensor_list grads) {
    return {grads[0].detach() * 2, zeros_like(grads[0].detach())};
  }
};

struct OpaqueProduct : autograd::Function<OpaqueProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& y) {
    context->save_for_backward({x, y});
    return x * y;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const variable_list saved = context->get_saved_variables();
    return {grads[0].detach() * saved[1], grads[0].detach() * saved[0]};
  }
};

TEST(CustomFunction, ForwardModeNeedsABackwardThatTheTapeCanRecord) {
  const Tensor x = draw({3}), t = draw({3});
  const autograd::DualLevel level;
  const Tensor dual = level.make_dual(x, t);
  expect_error<NotSupportedError>([&] { Opaque::apply(dual, x); },
                                  "Opaque: forward mode needs the derivative of backward by the gradients");
  // Recorded, but not as a function of what came in.
  expect_error<NotSupportedError>([&] { OpaqueProduct::apply(dual, draw_leaf({3})); }, "OpaqueProduct: forward mode");
  // A gradient of zero is connected to nothing, and right.
  const Tensor tangent = level.unpack_dual(Opaque::apply(x, dual)).second;
  EXPECT_TRUE(!tangent.defined() || tangent.eq(0).all().item<bool>());
  expect_close(level.unpack_dual(dual * 2).second, 2 * t);
}

struct Flat : autograd::Function<Flat> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.view({-1}); }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0].view({2, 2}) * 10}; }
};

TEST(CustomFunction, ViewsThatItGivesAreNotWrittenTo) {
  const Tensor x = draw_leaf({2, 2});
  Tensor y = x * 2;
  const Tensor flat = Flat::apply(y);
  EXPECT_TRUE(flat.is_view());
  expect_error<Error>([&] { flat.mul_(2); }, "view that a custom function returned");
  expect_error<Error>([&] { flat.narrow(0, 0, 2).mul_(2); }, "view that a custom function returned");
  flat.sum().backward({}, true);
  expect_close(x.grad(), full({2, 2}, 20.0, kDouble));
  // A write to what it shows would take the place of the function.
  y.mul_(3);
  expect_error<Error>([&] { flat.sum(); }, "output 0 of Flat is a view and its base or another view of its base");
  expect_error<Error>([&] { flat.requires_grad(); }, "clone what the function returns");
  x.mutable_grad() = Tensor();
  y.sum().backward();
  expect_close(x.grad(), full({2, 2}, 6.0, kDouble));
  // The same for an input that is given back.
  Tensor z = x * 2;
  const Tensor same = Same::apply(z);
  z.mul_(3);
  expect_error<Error>([&] { same.sum(); }, "output 0 of Same is a view");
  // Writes that are not recorded, and clones.
  Tensor w = x * 2;
  const Tensor copy = Flat::apply(w).clone();
  w.mul_(3);
  x.mutable_grad() = Tensor();
  copy.sum().backward();
  expect_close(x.grad(), full({2, 2}, 20.0, kDouble));
  const Tensor of_leaf = Flat::apply(x);
  {
    const NoGradGuard quiet;
    x.mul_(2);
  }
  x.mutable_grad() = Tensor();
  of_leaf.sum().backward();
  expect_close(x.grad(), full({2, 2}, 10.0, kDouble));
}

struct TemporaryView : autograd::Function<TemporaryView> {
  static Tensor forward(AutogradContext*, const Tensor& x) { return x.exp().view({-1}); }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0].view({2, 2}) * 10}; }
};

TEST(CustomFunction, ViewsOfItsOwnTensorsMayBeWrittenTo) {
  const Tensor x = draw_leaf({2, 2});
  Tensor y = TemporaryView::apply(x);
  y.mul_(2);
  y.sum().backward();
  expect_close(x.grad(), full({2, 2}, 20.0, kDouble));
}

struct WritesSecond : autograd::Function<WritesSecond> {
  static Tensor forward(AutogradContext* context, const Tensor& a, Tensor b) {
    b.add_(a);
    context->mark_dirty({b});
    return returns ? b : a * 2;
  }
  static tensor_list backward(AutogradContext*, tensor_list grads) { return {grads[0], grads[0]}; }
  static inline bool returns = true;
};

TEST(CustomFunction, WritesToAnyInputThatItReturns) {
  const Tensor x = draw_leaf({3}), w = draw_leaf({3});
  Tensor y = x * 3;
  WritesSecond::apply(w, y);
  y.sum().backward();
  expect_close(x.grad(), full({3}, 3.0, kDouble));
  expect_close(w.grad(), ones({3}, kDouble));
  Tensor base = x * 3;
  expect_error<NotSupportedError>([&] { WritesSecond::apply(w, base.view({-1})); }, "clone it first");
  WritesSecond::returns = false;
  expect_error<ValueError>([&] { WritesSecond::apply(w, x * 3); }, "an input that forward does not return");
  WritesSecond::returns = true;
}

struct Keeper : autograd::Function<Keeper> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    auto& data = context->saved_data;
    data["double"] = 3.0;
    data["int"] = 7;
    data["bool"] = true;
    data["string"] = "name";
    data["tensor"] = x.detach() * 2;
    data["ints"] = std::vector<int64_t>{1, 2};
    data["sizes"] = x.sizes();
    data["doubles"] = std::vector<double>{0.5};
    data["tensors"] = variable_list{x.detach()};
    data["dtype"] = x.scalar_type();
    data["nothing"] = std::optional<int64_t>();
    data["something"] = std::optional<int64_t>(4);
    data["scalar"] = Scalar(2.5);
    data["other"] = autograd::SavedValue::of(std::pair<int, int>{1, 2});
    return x * 2;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& data = context->saved_data;
    EXPECT_EQ(data["double"].toDouble(), 3.0);
    EXPECT_EQ(data["int"].toInt(), 7);
    EXPECT_TRUE(data["bool"].toBool());
    EXPECT_EQ(data["string"].toStringRef(), "name");
    EXPECT_EQ(data["tensor"].toTensor().numel(), 3);
    EXPECT_EQ(data["ints"].toIntVector(), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(data["sizes"].toIntVector(), (std::vector<int64_t>{3}));
    EXPECT_EQ(data["doubles"].toDoubleVector(), (std::vector<double>{0.5}));
    EXPECT_EQ(data["tensors"].toTensorVector().size(), 1U);
    EXPECT_EQ(data["dtype"].toScalarType(), kDouble);
    EXPECT_TRUE(data["nothing"].isNone());
    EXPECT_EQ(data["nothing"].to<std::optional<int64_t>>(), std::nullopt);
    EXPECT_EQ(data["something"].to<std::optional<int64_t>>(), 4);
    EXPECT_EQ(data["scalar"].toDouble(), 2.5);
    EXPECT_EQ(data["int"].to<int>(), 7);
    EXPECT_EQ((data["other"].get<std::pair<int, int>>().second), 2);
    expect_error<DTypeError>([&] { data["int"].toDouble(); }, "saved_data: Expected Double but got Int");
    expect_error<DTypeError>([&] { data["missing"].toTensor(); }, "nothing was saved under this name");
    expect_error<DTypeError>([&] { data["other"].get<std::string>(); }, "the type that get() names");
    return {grads[0] * 2};
  }
};

TEST(CustomFunction, KeepsValuesOfManyTypes) {
  const Tensor x = draw_leaf({3});
  Keeper::apply(x).sum().backward();
  expect_close(x.grad(), full({3}, 2.0, kDouble));
}

TEST(CustomFunction, ThatThrowsInAnotherThread) {
  const Tensor a = draw_leaf({3}), b = draw_leaf({3});
  Wrong::mistake = 3;
  const Tensor shared = Wrong::apply(a, b).exp();
  int thrown = 0;
  std::thread([&] {
    try {
      shared.sum().backward({}, true);
    } catch (const std::runtime_error& e) {
      thrown += std::string(e.what()) == "from backward";
    }
    EXPECT_TRUE(GradMode::is_enabled());
    (a * 2).sum().backward();
  }).join();
  EXPECT_EQ(thrown, 1);
  EXPECT_THROW(shared.sum().backward({}, true), std::runtime_error);
  Wrong::mistake = 4;
  a.mutable_grad() = Tensor();
  shared.sum().backward();
  expect_close(a.grad(), shared);
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
