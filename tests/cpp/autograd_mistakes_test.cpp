// Mistakes of users around gradients: each is named by a typed error with its remedy, and afterwards the same tape, engine
// and thread work on. The names of libtorch that programs use around autograd are here too.
#include <facula/facula.h>
#include <facula/torch_compat.h>

#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace facula {
namespace {

using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;

struct Breaks : autograd::Function<Breaks> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static autograd::tensor_list backward(autograd::AutogradContext*, autograd::tensor_list) {
    throw ValueError("Breaks: on purpose; do not call it");
  }
};

struct Mistake {
  const char* what;
  const char* type;
  const char* text;
  const char* remedy;
  std::function<void(const Tensor& x)> make;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"a freed graph", "Error", "Trying to backward through the graph a second time", "retain_graph=True",
       [](const Tensor& x) {
         const Tensor loss = (x * x).sum();
         loss.backward();
         loss.backward();
       }},
      {"a freed graph under another", "Error", "second time", "retain_graph=True",
       [](const Tensor& x) {
         const Tensor y = x.exp();
         y.sum().backward();
         (y * 2).sum().backward();
       }},
      {"many elements and no gradient", "ShapeError", "grad can be implicitly created only for scalar outputs", "sum()",
       [](const Tensor& x) { (x * 2).backward(); }},
      {"a complex loss and no gradient", "DTypeError", "real scalar outputs", "abs()",
       [](const Tensor& x) { complex(x, x).sum().backward(); }},
      {"a gradient of another shape", "ShapeError", "Mismatch in shape", "must be the same",
       [](const Tensor& x) { (x * 2).backward(ones({7}, kDouble)); }},
      {"a complex gradient", "DTypeError", "must be real", ".to(",
       [](const Tensor& x) { (x * 2).backward(ones({3}, kComplexDouble)); }},
      {"an integer gradient", "DTypeError", "must be real", ".to(",
       [](const Tensor& x) { (x * 2).backward(ones({3}, kLong)); }},
      {"a gradient on another device", "DeviceError", "grad_output[0] is on meta", ".to(device)",
       [](const Tensor& x) { (x * 2).backward(ones({3}, TensorOptions(kDouble).device(kMeta))); }},
      {"a saved tensor that was written to", "Error", "modified by an inplace operation", "clone",
       [](const Tensor& x) {
         Tensor y = x * 2;
         const Tensor loss = (y * y).sum();
         y.add_(1);
         loss.backward();
       }},
      {"an integer leaf", "DTypeError", "only Tensors of floating point and complex dtype can require gradients",
       "convert it to float32", [](const Tensor&) { ones({3}, kLong).requires_grad_(); }},
      {"a tensor without history", "Error", "does not require grad and does not have a grad_fn", "requires_grad",
       [](const Tensor&) { ones({}).backward(); }},
      {"an undefined root", "ValueError", "undefined", "assign a tensor", [](const Tensor&) { Tensor().backward(); }},
      {"no roots", "ValueError", "no tensors were given", "give at least one",
       [](const Tensor&) { autograd::backward({}); }},
      {"an undefined input", "ValueError", "input 0 is undefined", "",
       [](const Tensor& x) { autograd::grad({x.sum()}, {Tensor()}); }},
      {"a hook removed twice", "ValueError", "has been removed already", "once",
       [](const Tensor& x) {
         autograd::HookHandle hook = x.register_hook([](const Tensor&) {});
         hook.remove();
         hook.remove();
       }},
      {"a handle without hook", "ValueError", "holds no hook", "keep the one",
       [](const Tensor&) { autograd::HookHandle().remove(); }},
      {"a hook that throws", "ShapeError", "mine", "",
       [](const Tensor& x) {
         const Tensor y = x * 2;
         y.register_hook([](const Tensor&) { throw ShapeError("mine"); });
         y.sum().backward();
       }},
      {"a hook after accumulation that throws", "ShapeError", "mine", "",
       [](const Tensor& x) {
         autograd::HookHandle hook =
             x.register_post_accumulate_grad_hook([](const Tensor&) { throw ShapeError("mine"); });
         struct Remove {
           autograd::HookHandle& handle;
           ~Remove() { handle.remove(); }
         } remove{hook};
         (x * 2).sum().backward();
       }},
      {"a custom function that throws", "ValueError", "on purpose", "",
       [](const Tensor& x) { Breaks::apply(x * 2).sum().backward(); }},
      {"gradients for nobody", "ValueError", "gradients for", "give one gradient for each",
       [](const Tensor& x) {
         autograd::backward({x.sum()}, {ones({}, kDouble), ones({}, kDouble)});
       }},
  };
  return all;
}

void expect_mistake(const Mistake& mistake, const Tensor& x) {
  try {
    mistake.make(x);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.type_name(), mistake.type) << e.what();
    EXPECT_NE(std::string(e.what()).find(mistake.text), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(mistake.remedy), std::string::npos) << e.what();
  }
}

// Everything still works: modes, engine, the leaf.
void expect_usable(const Tensor& x) {
  EXPECT_TRUE(GradMode::is_enabled());
  EXPECT_FALSE(InferenceMode::is_enabled());
  x.set_grad({});
  const Tensor first = autograd::grad({(x * x * x).sum()}, {x}, {}, std::nullopt, true)[0];
  first.sum().backward();
  expect_close(x.grad(), 6 * x.detach());
  x.set_grad({});
}

TEST(AutogradMistakes, AreNamedAndLeaveTheTapeUsable) {
  const Tensor x = draw_leaf({3});
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    expect_mistake(mistake, x);
    expect_usable(x);
  }
}

TEST(AutogradMistakes, InAnotherThread) {
  const Tensor x = draw_leaf({3});
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    std::thread([&] {
      expect_mistake(mistake, x);
      expect_usable(x);
    }).join();
    expect_usable(x);
  }
}

TEST(AutogradMistakes, InsideOfABackwardPass) {
  const Tensor x = draw_leaf({3});
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    const Tensor y = x.exp();
    y.register_hook([&](const Tensor&) {
      const EnableGradGuard record;
      expect_mistake(mistake, x);
    });
    const Tensor got = autograd::grad({y.sum()}, {x})[0];
    expect_close(got, x.detach().exp());
    expect_usable(x);
  }
}

TEST(AutogradNames, OfLibtorch) {
  const Tensor x = torch::autograd::make_variable(draw({3}), true);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  const Tensor plain = torch::autograd::make_variable(x);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(plain.is_alias_of(x));
  EXPECT_FALSE(torch::autograd::make_variable(Tensor()).defined());
  EXPECT_EQ(x.name(), "");
  torch::autograd::impl::set_name(x, "weight");
  EXPECT_EQ(x.name(), "weight");
  const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(x);
  EXPECT_EQ(edge.function.get(), torch::autograd::impl::grad_accumulator(x).get());
  EXPECT_FALSE(torch::autograd::impl::grad_accumulator(x * 2));
  const int64_t version = plain._version();
  torch::autograd::impl::bump_version(plain);
  EXPECT_EQ(plain._version(), version + 1);
  {
    const torch::autograd::AutoGradMode off(false);
    EXPECT_FALSE(torch::autograd::GradMode::is_enabled());
    EXPECT_FALSE((x * 2).requires_grad());
  }
  {
    const at::AutoNonVariableTypeMode below(true);
    EXPECT_FALSE((x * 2).requires_grad());
  }
  {
    const at::AutoDispatchBelowAutograd below;
    EXPECT_FALSE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_TRUE(
      autograd::gradcheck([](const autograd::variable_list& in) { return autograd::variable_list{in[0].sin()}; }, {x}));
}

TEST(AutogradNames, TextsOfErrorsTakeAnyPointerToCharacters) {
  char text[] = "abc";
  char* pointer = text;
  char* const constant = text;
  EXPECT_EQ(str(pointer, constant, text), "abcabcabc");
}

}  // namespace
}  // namespace facula
