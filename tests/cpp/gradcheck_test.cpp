// Whether gradcheck and gradgradcheck see wrong derivatives and pass right ones, and what they say.
#include <facula/autograd/gradcheck.h>
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

namespace facula::autograd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor leaf(IntArrayRef sizes, ScalarType dtype = kDouble, uint64_t seed = 7) {
  Generator generator = make_generator(seed);
  Tensor drawn = randn(sizes, generator, kDouble);
  if (isComplexType(dtype)) drawn = complex(drawn, randn(sizes, generator, kDouble));
  return drawn.to(dtype).requires_grad_();
}

std::string complaint(const GradcheckFunction& fn, const variable_list& inputs, const GradcheckOptions& options = {}) {
  try {
    gradcheck(fn, inputs, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "passed";
}

GradcheckOptions fast() {
  GradcheckOptions options;
  options.fast_mode = true;
  return options;
}
GradcheckOptions both_modes(bool fast_mode) {
  GradcheckOptions options;
  options.fast_mode = fast_mode;
  options.check_forward_ad = true;
  options.check_fwd_over_rev = true;
  return options;
}

struct Cube : Function<Cube> {
  static Tensor forward(AutogradContext* ctx, Tensor x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * (x * x * 3).conj()};
  }
};

// As Cube, but one entry of the gradient is doubled.
struct WrongCube : Function<WrongCube> {
  static Tensor forward(AutogradContext* ctx, Tensor x) { return Cube::forward(ctx, x); }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor found = Cube::backward(ctx, grads)[0].clone();
    found.select(0, 2).mul_(2);
    return {found};
  }
};

// The conjugate is forgotten: right for real numbers only.
struct NoConjugate : Function<NoConjugate> {
  static Tensor forward(AutogradContext* ctx, Tensor x) { return Cube::forward(ctx, x); }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    return {grads[0] * x * x * 3};
  }
};

// The first gradient is right, but is taken for a constant.
struct OnceOnly : Function<OnceOnly> {
  static Tensor forward(AutogradContext* ctx, Tensor x) { return Cube::forward(ctx, x); }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0].detach();
    return {grads[0] * x * x * 3};
  }
};

std::atomic<int> calls{0};

struct Wavering : Function<Wavering> {
  static Tensor forward(AutogradContext*, Tensor x) { return x * 2; }
  static variable_list backward(AutogradContext*, variable_list grads) {
    return {grads[0] * (2 + 1e-9 * static_cast<double>(++calls))};
  }
};

// Takes it for granted that gradients of both outputs come.
struct NeedsGradients : Function<NeedsGradients> {
  static variable_list forward(AutogradContext* ctx, Tensor x) {
    ctx->set_materialize_grads(false);
    return {x * 2, x * 3};
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2 + grads[1] * 3}; }
};

template <class F>
variable_list apply(const variable_list& x) {
  return {F::apply(x[0])};
}

TEST(Gradcheck, PassesRightGradients) {
  for (const ScalarType dtype : {kDouble, kComplexDouble})
    for (const bool fast_mode : {false, true}) {
      GradcheckOptions options;
      options.fast_mode = fast_mode;
      options.check_grad_dtypes = true;
      options.check_batched_grad = true;
      EXPECT_TRUE(gradcheck(apply<Cube>, {leaf({4}, dtype)}, options));
      EXPECT_TRUE(gradcheck(
          [](const variable_list& x) {
            return variable_list{(x[0] * x[1]).sin(), x[1].exp().sum()};
          },
          {leaf({2, 3}, dtype), leaf({3}, dtype, 8)}, both_modes(fast_mode)));
    }
}

TEST(Gradcheck, PassesFunctionsBetweenRealAndComplexNumbers) {
  for (const bool fast_mode : {false, true}) {
    const GradcheckOptions options = both_modes(fast_mode);
    EXPECT_TRUE(gradcheck([](const variable_list& x) { return variable_list{x[0].abs()}; }, {leaf({5}, kComplexDouble)},
                          options));
    EXPECT_TRUE(gradcheck([](const variable_list& x) { return variable_list{complex(x[0], x[1] * x[0])}; },
                          {leaf({3}), leaf({3}, kDouble, 9)}, options));
    EXPECT_TRUE(gradcheck([](const variable_list& x) { return variable_list{x[0] * x[1].conj()}; },
                          {leaf({3}), leaf({3}, kComplexDouble, 9)}, options));
  }
}

TEST(Gradcheck, NamesTheWrongEntry) {
  for (const bool fast_mode : {false, true}) {
    GradcheckOptions options;
    options.fast_mode = fast_mode;
    const Tensor a = leaf({2}), x = leaf({5}, kDouble, 3);
    const std::string text = complaint(
        [](const variable_list& in) {
          return variable_list{in[0] * 2, WrongCube::apply(in[1])};
        },
        {a, x}, options);
    const double right = 3 * x[2].item<double>() * x[2].item<double>();
    EXPECT_THAT(text, AllOf(HasSubstr("gradcheck: Jacobian mismatch for output 1 with respect to input 1"),
                            HasSubstr("backward mode"), HasSubstr("entry 2 of the output by entry 2 of the input"),
                            HasSubstr("the worst of 1 wrong ones among 25"), HasSubstr("numerical: "),
                            HasSubstr("analytical: " + str(2 * right).substr(0, 5))));
  }
}

TEST(Gradcheck, SeesAForgottenConjugate) {
  EXPECT_TRUE(gradcheck(apply<NoConjugate>, {leaf({3})}));
  EXPECT_THAT(complaint(apply<NoConjugate>, {leaf({3}, kComplexDouble)}),
              AllOf(HasSubstr("Jacobian mismatch"), HasSubstr("imaginary part of entry")));
  EXPECT_THAT(complaint(apply<NoConjugate>, {leaf({3}, kComplexDouble)}, fast()), HasSubstr("Jacobian mismatch"));
}

TEST(Gradcheck, ReturnsFalseWhenAsked) {
  GradcheckOptions options;
  options.raise_exception = false;
  EXPECT_FALSE(gradcheck(apply<WrongCube>, {leaf({4})}, options));
  EXPECT_TRUE(gradcheck(apply<Cube>, {leaf({4})}, options));
}

TEST(Gradcheck, LeavesInputsAsTheyWere) {
  const Tensor x = leaf({4});
  const Tensor before = x.detach().clone();
  gradcheck(apply<Cube>, {x});
  EXPECT_TRUE(equal(x, before));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Gradcheck, TakesStridedAndEmptyInputs) {
  const Tensor wide = leaf({4, 3}).detach();
  EXPECT_TRUE(gradcheck(apply<Cube>, {wide.t().requires_grad_()}));
  EXPECT_TRUE(gradcheck(apply<Cube>, {wide.slice(0, 0, 4, 2).detach().requires_grad_()}));
  EXPECT_TRUE(gradcheck(apply<Cube>, {leaf({0, 3})}));
  EXPECT_TRUE(gradcheck(apply<Cube>, {leaf({})}));
}

TEST(Gradcheck, SeesAGradientThatWavers) {
  EXPECT_THAT(complaint(apply<Wavering>, {leaf({2})}),
              AllOf(HasSubstr("Backward is not reentrant"), HasSubstr("nondet_tol is 0")));
  GradcheckOptions options;
  options.nondet_tol = 1e-6;
  EXPECT_TRUE(gradcheck(apply<Wavering>, {leaf({2})}, options));
}

TEST(Gradcheck, SeesThatUndefinedGradientsAreNotTaken) {
  const auto sum = [](const variable_list& x) {
    const variable_list both = NeedsGradients::apply(x[0]);
    return variable_list{both[0] + both[1]};
  };
  EXPECT_TRUE(gradcheck(sum, {leaf({2})}));
  // Each output alone leaves the gradient of the other one undefined.
  EXPECT_THROW(gradcheck([](const variable_list& x) { return NeedsGradients::apply(x[0]); }, {leaf({2})}), Error);
}

TEST(Gradcheck, SeesAMissingGradient) {
  EXPECT_THAT(complaint([](const variable_list& x) { return variable_list{x[0].detach() * 2}; }, {leaf({2})}),
              HasSubstr("Numerical gradient for function expected to be zero"));
  EXPECT_TRUE(gradcheck([](const variable_list& x) { return variable_list{zeros_like(x[0])}; }, {leaf({2})}));
}

TEST(Gradcheck, RefusesWhatItCannotCheck) {
  EXPECT_THAT(complaint(apply<Cube>, {ones({2}, kDouble)}), HasSubstr("at least one input tensor to require gradient"));
  EXPECT_THAT(complaint(apply<Cube>, {ones({1}, kDouble).expand({3}).requires_grad_()}), HasSubstr("stride 0"));
  EXPECT_THAT(complaint(nullptr, {leaf({2})}), HasSubstr("the function is empty"));
  GradcheckOptions options;
  options.eps = 0;
  EXPECT_THAT(complaint(apply<Cube>, {leaf({2})}, options), HasSubstr("eps must be positive"));
}

TEST(Gradgradcheck, PassesRightGradients) {
  for (const ScalarType dtype : {kDouble, kComplexDouble})
    for (const bool fast_mode : {false, true}) {
      GradcheckOptions options;
      options.fast_mode = fast_mode;
      EXPECT_TRUE(gradgradcheck(apply<Cube>, {leaf({3}, dtype)}, {}, options));
      options = both_modes(fast_mode);
      options.gen_non_contig_grad_outputs = true;
      EXPECT_TRUE(gradgradcheck([](const variable_list& x) { return variable_list{(x[0] * x[1]).sin()}; },
                                {leaf({2, 3}, dtype), leaf({3}, dtype, 8)}, {}, options));
    }
}

TEST(Gradgradcheck, SeesAGradientThatIsTakenForAConstant) {
  EXPECT_TRUE(gradcheck(apply<OnceOnly>, {leaf({3})}));
  for (const bool fast_mode : {false, true}) {
    GradcheckOptions options;
    options.fast_mode = fast_mode;
    try {
      gradgradcheck(apply<OnceOnly>, {leaf({3})}, {}, options);
      FAIL() << "passed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("gradgradcheck: Jacobian mismatch for output 0 with respect to input 0"));
    }
  }
}

TEST(Gradgradcheck, TakesGradientsOfOutputs) {
  EXPECT_TRUE(gradgradcheck(apply<Cube>, {leaf({3})}, {leaf({3}, kDouble, 5)}));
  EXPECT_THROW(gradgradcheck(apply<Cube>, {leaf({3})}, {leaf({3}), leaf({3})}), ValueError);
}

}  // namespace
}  // namespace facula::autograd
