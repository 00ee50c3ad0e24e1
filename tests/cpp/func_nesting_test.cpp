// Functions of functions inside each other, in random order and depth, against closed forms: the derivatives of every order of
// a function whose derivatives are known tensors, with whatever linear the transforms make of them.
#include <facula/facula.h>

#include "cpp/gradient_values.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace facula {
namespace {

using autograd::variable_list;
using facula_test::draw;
using facula_test::expect_close;
using facula_test::test_stream;

using Function = std::function<Tensor(const Tensor&)>;

constexpr int64_t kSize = 3;   // of the argument
constexpr int kOrders = 4;     // derivatives that are asked for at most
constexpr int64_t kBatch = 4;  // of arguments

// exp(a x) + C x x x, with C symmetric.
struct Known {
  Tensor a = draw({kSize}, -0.5, 0.5), c;
  Known() {
    const Tensor any = draw({kSize, kSize, kSize}, -0.3, 0.3);
    c = any + any.permute({0, 2, 1}) + any.permute({1, 0, 2}) + any.permute({1, 2, 0}) + any.permute({2, 0, 1}) +
        any.permute({2, 1, 0});
  }
  Tensor operator()(const Tensor& x) const { return x.dot(a).exp() + c.matmul(x).matmul(x).dot(x); }
  // The same with parts written in place.
  Tensor written(const Tensor& x) const {
    Tensor y = zeros_like(x);
    y.narrow(0, 0, 2).copy_(x.narrow(0, 0, 2));
    y[2] = x[2];
    Tensor rows = c.matmul(x) * 1.0;
    rows.select(0, 1).mul_(1.0);
    y.mul_(a);
    return y.sum().exp() + rows.mv(x).mul_(x).sum();
  }
  // All derivatives of order `m`, a dimension for each.
  Tensor derivative(const Tensor& x, int m) const {
    Tensor e = x.dot(a).exp();
    for (int k = 0; k < m; ++k) e = e.unsqueeze(-1) * a;
    if (m == 0) return e + c.matmul(x).matmul(x).dot(x);
    if (m == 1) return e + 3 * c.matmul(x).matmul(x);
    if (m == 2) return e + 6 * c.matmul(x);
    return m == 3 ? e + 6 * c : e;
  }
};

// A function that transforms have made of the known one, and the truth about it: a linear map of its derivatives of one order.
struct Made {
  Function f;
  int order = 0;
  Function linear = [](const Tensor& t) { return t; };
  std::string word;  // the transforms, outermost last
};

// `linear` for each index of the last dimension.
Tensor along_last(const Function& linear, const Tensor& t) {
  std::vector<Tensor> slices;
  for (int64_t i = 0; i < t.size(-1); ++i) slices.push_back(linear(t.select(-1, i)));
  return stack(slices, -1);
}

Made differentiated(const Made& from, Function f, const char* name) {
  return {std::move(f), from.order + 1, [linear = from.linear](const Tensor& t) { return along_last(linear, t); },
          from.word + name};
}

Made transformed(const Made& from, bool scalar, int choice) {
  const Function f = from.f, linear = from.linear;
  switch (choice) {
    case 0: return differentiated(from, func::jacrev(f), " jacrev");
    case 1: return differentiated(from, func::jacfwd(f), " jacfwd");
    case 2:
      if (scalar) return differentiated(from, func::grad(f), " grad");
      return differentiated(from, func::jacrev(f), " jacrev");
    case 3:
      if (scalar && from.order + 2 <= kOrders) {
        Made second = differentiated(differentiated(from, f, ""), func::hessian(f), " hessian");
        return second;
      }
      return differentiated(from, func::jacfwd(f), " jacfwd");
    case 4: {
      const Tensor v = draw({kSize});
      return {[f, v](const Tensor& x) { return func::jvp(f, {x}, {v}).second; }, from.order + 1,
              [linear, v](const Tensor& t) { return linear(t.matmul(v)); }, from.word + " jvp"};
    }
    case 5: {
      // Weights that do not depend on the argument.
      const auto weigh = [](const Tensor& y) {
        return arange(y.numel(), TensorOptions(kDouble)).mul(0.1).add(0.2).reshape(y.sizes());
      };
      return {[f, weigh](const Tensor& x) {
                const auto [results, pull] = func::vjp(f, x);
                return pull({weigh(results[0])})[0];
              },
              from.order + 1,
              [linear, weigh](const Tensor& t) {
                return along_last(
                    [&](const Tensor& slice) {
                      const Tensor y = linear(slice);
                      return (y * weigh(y)).sum();
                    },
                    t);
              },
              from.word + " vjp"};
    }
    case 6: {
      const Tensor cs = draw({2});
      return {[f, cs](const Tensor& x) { return func::vmap([&](const Tensor& c) { return c * f(x); })(cs); },
              from.order,
              [linear, cs](const Tensor& t) {
                const Tensor y = linear(t);
                return stack({cs[0] * y, cs[1] * y});
              },
              from.word + " vmap"};
    }
    default: {
      // The batch is the argument itself, shifted: entries of a function that is differentiated inside.
      const Tensor cs = draw({2});
      const Function inner = [f, cs](const Tensor& x) {
        const Tensor all = x.unsqueeze(1) * ones({2}, kDouble);
        return func::vmap([&](const Tensor& y, const Tensor& c) { return f(y) * c; }, {1, 0}, -1)(all, cs);
      };
      return {inner, from.order,
              [linear, cs](const Tensor& t) {
                const Tensor y = linear(t);
                return stack({cs[0] * y, cs[1] * y}, -1);
              },
              from.word + " vmapped argument"};
    }
  }
}

TEST(FuncNesting, AnyOrderAgainstClosedForms) {
  std::mt19937_64& random = test_stream();
  for (int round = 0; round < 60; ++round) {
    const Known known;
    const bool in_place = round % 3 == 2;
    Made made;
    made.f = in_place ? Function([&](const Tensor& x) { return known.written(x); }) : Function(known);
    const Tensor xs = draw({kBatch, kSize}, -1, 1);
    const auto length = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < length && made.order < kOrders; ++k) {
      const bool scalar = made.linear(known.derivative(xs[0], made.order)).dim() == 0;
      made = transformed(made, scalar, static_cast<int>(random() % 8));
    }
    SCOPED_TRACE((in_place ? "in place:" : "") + made.word);
    std::vector<Tensor> want;
    for (int64_t i = 0; i < kBatch; ++i) want.push_back(made.linear(known.derivative(xs[i], made.order)));
    expect_close(made.f(xs[0]), want[0], 1e-10);
    expect_close(func::vmap(made.f)(xs), stack(want), 1e-10);
    // The tape outside sees the same.
    if (made.order < kOrders && round % 4 == 0) {
      const Tensor leaf = xs[1].clone().requires_grad_();
      made.f(leaf).sum().backward();
      const Tensor next = known.derivative(xs[1], made.order + 1);
      const Function summed = [&](const Tensor& t) { return made.linear(t).sum(); };
      expect_close(leaf.grad(), along_last(summed, next), 1e-10);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(FuncNesting, ValuesComeWithGradients) {
  const Known known;
  const Tensor xs = draw({kBatch, kSize}, -1, 1), vs = draw({kBatch, kSize});
  const auto both = func::value_and_grad([&](const Tensor& x) { return known(x); });
  const auto [values, gradients] = func::vmap(both)(xs);
  // value_and_grad inside of jvp: the value's derivative and the Hessian times the direction.
  const auto pair = [&](const variable_list& in) {
    const auto [value, gradient] = both(in[0]);
    return variable_list{value, gradient};
  };
  for (int64_t i = 0; i < kBatch; ++i) {
    expect_close(values[i], known.derivative(xs[i], 0));
    expect_close(gradients[i], known.derivative(xs[i], 1));
    const auto tangents = func::jvp(pair, {xs[i]}, {vs[i]}).second;
    expect_close(tangents[0], known.derivative(xs[i], 1).dot(vs[i]));
    expect_close(tangents[1], known.derivative(xs[i], 2).mv(vs[i]));
  }
  // vmap over both arguments of jvp, and grad of a sum over vmap of hessians.
  const auto along = [&](const Tensor& x, const Tensor& v) {
    return func::jvp([&](const Tensor& y) { return known(y); }, {x}, {v}).second;
  };
  const Tensor slopes = func::vmap(along)(xs, vs);
  const auto traces = [&](const Tensor& all) {
    return func::vmap([&](const Tensor& x) {
             return func::hessian([&](const Tensor& y) { return known(y); })(x).diagonal().sum();
           })(all)
        .sum();
  };
  const Tensor by_all = func::grad(traces)(xs);
  for (int64_t i = 0; i < kBatch; ++i) {
    expect_close(slopes[i], known.derivative(xs[i], 1).dot(vs[i]));
    expect_close(by_all[i], known.derivative(xs[i], 3).diagonal(0, 0, 1).sum(1), 1e-10);
  }
}

}  // namespace
}  // namespace facula
