// Functions of functions: forward mode, vmap over every kind of rule against a loop over entries, Jacobians and Hessians against
// finite differences, and all of them inside each other.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace facula {
namespace {

using autograd::DualLevel;
using autograd::variable_list;
using facula_test::differences;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::Watched;

using Function = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

// ---- grad, value_and_grad, vjp

TEST(FuncGrad, IsTheGradientByAnArgument) {
  const Tensor w = draw({3}), x = draw({3});
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * b).sin().sum(); };
  expect_close(func::grad(f)(w, x), (w * x).cos() * x);
  expect_close(func::grad(f, 1)(w, x), (w * x).cos() * w);
  const auto [value, gradient] = func::value_and_grad(f)(w, x);
  expect_close(value, (w * x).sin().sum());
  expect_close(gradient, (w * x).cos() * x);
  EXPECT_FALSE(value.requires_grad());
  EXPECT_FALSE(gradient.requires_grad());
  EXPECT_FALSE(w.requires_grad());
  EXPECT_FALSE(w.grad().defined());
}

TEST(FuncGrad, NestsToAnyOrder) {
  const auto f = [](const Tensor& x) { return x.pow(5).sum(); };
  const Tensor x = draw({});
  expect_close(func::grad(f)(x), 5 * x.pow(4));
  expect_close(func::grad(func::grad(f))(x), 20 * x.pow(3));
  expect_close(func::grad(func::grad(func::grad(f)))(x), 60 * x.pow(2));
  expect_close(func::grad(func::grad(func::grad(func::grad(f))))(x), 120 * x);
}

TEST(FuncGrad, LevelsAreKeptApart) {
  // x * d/dy (x + y) = x: confusing the two levels gives 2 x.
  const auto f = [](const Tensor& x) {
    const Tensor inner = func::grad([&](const Tensor& y) { return x + y; })(full({}, 1.0, kDouble));
    return x * inner;
  };
  const Tensor x = draw({});
  expect_close(func::grad(f)(x), ones({}, kDouble));
  // d/dx of x * (d/dy of x y^2 at y = x) = x * 2 x x: 6 x^2.
  const auto g = [](const Tensor& t) { return t * func::grad([&](const Tensor& y) { return t * y * y; })(t); };
  expect_close(func::grad(g)(x), 6 * x * x);
}

TEST(FuncGrad, StaysConnectedToTheTapeOutside) {
  const Tensor w = draw_leaf({3}), x = draw_leaf({3});
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * a * b).sum(); };
  const Tensor g = func::grad(f)(w, x);  // 2 w x
  EXPECT_TRUE(g.requires_grad());
  g.sum().backward();
  expect_close(w.grad(), 2 * x.detach());
  expect_close(x.grad(), 2 * w.detach());
}

TEST(FuncGrad, OfWhatDoesNotDependIsZero) {
  const Tensor x = draw({3});
  expect_close(func::grad([](const Tensor&) { return full({}, 2.0, kDouble); })(x), zeros({3}, kDouble));
  expect_close(func::grad([](const Tensor& t) { return t.detach().sum(); })(x), zeros({3}, kDouble));
}

TEST(FuncGrad, ChecksItsFunction) {
  const Tensor x = draw({3});
  expect_error<ShapeError>([&] { func::grad([](const Tensor& t) { return t * 2; })(x); },
                           "Expected the function to return a scalar tensor");
  expect_error<IndexError>([&] { func::grad([](const Tensor& t) { return t.sum(); }, 1)(x); }, "argnum 1 of 1");
  expect_error<DTypeError>([&] { func::grad([](const Tensor& t) { return t.sum(); })(ones({3}, kLong)); }, "Long");
  expect_error<ValueError>([&] { func::grad([](const Tensor& t) { return t.sum(); })(Tensor()); }, "undefined");
  EXPECT_TRUE(GradMode::is_enabled());
}

TEST(FuncGrad, RecordsUnderNoGrad) {
  const Tensor x = draw({3});
  const NoGradGuard quiet;
  expect_close(func::grad([](const Tensor& t) { return t.exp().sum(); })(x), x.exp());
}

TEST(FuncGrad, KeepsNothing) {
  Watched a({3}), b({3});
  {
    const Tensor x = a.take(), y = b.take();
    func::grad(func::grad([&](const Tensor& t) { return (t * t * y.sum()).prod(); }))(x.sum());
    func::vjp([](const Tensor& t) { return t.exp(); }, x).second({x});
    func::vmap(func::grad([](const Tensor& t) { return t.exp(); }))(x);
    func::jvp([](const Tensor& t) { return t.exp().tanh(); }, {x}, {y});
    const Function along = [&](const Tensor& t) {
      return func::jvp([](const Tensor& s) { return s.exp().clone().sin_().exp_().sum(); }, {t}, {y}).second;
    };
    func::grad(along)(x);
    func::jacfwd(func::jacrev([](const Tensor& t) { return t.exp().prod(); }))(x);
  }
  EXPECT_TRUE(a.freed());
  EXPECT_TRUE(b.freed());
}

TEST(FuncVjp, PullsGradientsBack) {
  const Tensor a = draw({2, 3}), b = draw({3});
  const auto [results, pull] = func::vjp([](const Tensor& m, const Tensor& v) { return m.mv(v).exp(); }, a, b);
  const Tensor g = draw({2});
  const variable_list grads = pull({g});
  const Tensor inner = g * a.mv(b).exp();
  expect_close(results[0], a.mv(b).exp());
  expect_close(grads[0], inner.unsqueeze(1) * b);
  expect_close(grads[1], a.t().mv(inner));
  expect_close(pull({2 * g})[1], 2 * grads[1]);  // as often as wanted
  const auto& again = pull;
  expect_error<ValueError>([&] { again({g, g}); }, "2 gradients for 1 results");
}

// ---- forward mode

// The derivative of `f` at `x` in a direction against differences, and against reverse mode.
void check_forward(const Function& f, const Tensor& x, double tolerance = 1e-6) {
  const Tensor direction = draw(x.sizes().vec());
  const auto [value, derivative] = func::jvp(f, {x}, {direction});
  expect_close(value, f(x));
  const Tensor all = differences(f, x).reshape({-1, x.numel()});
  expect_close(derivative.reshape({-1}), all.mv(direction.reshape({-1})), tolerance);
}

TEST(ForwardMode, AgreesWithDifferences) {
  const Tensor x = draw({3, 4}, 0.3, 1.7), c = draw({3, 4}), m = draw({4, 2});
  const std::vector<Function> functions = {
      [&](const Tensor& t) { return t.sin() * c; },
      [&](const Tensor& t) { return (t * t.exp()).log() / t; },
      [&](const Tensor& t) { return t.matmul(m).tanh(); },
      [&](const Tensor& t) { return t.sum(1) * t.mean(); },
      [&](const Tensor& t) { return t.softmax(1); },
      [&](const Tensor& t) { return t.log_softmax(0) + t.logsumexp(1, true); },
      [&](const Tensor& t) {
        return t.t().reshape({2, 6}).narrow(1, 1, 3);
      },
      [&](const Tensor& t) {
        return cat({t, t * t}, 1);
      },
      [&](const Tensor& t) { return t.cumsum(1).flip({0}); },
      [&](const Tensor& t) { return where(c > 0, t, t * t); },
      [&](const Tensor& t) {
        return t.index_select(1, tensor({3, 0, 0}));
      },
      [&](const Tensor& t) {
        return t.index({tensor({2, 0})});
      },
      [&](const Tensor& t) { return std::get<0>(t.sort(1, false)) + std::get<0>(t.max(1, true)); },
      [&](const Tensor& t) { return t.norm() + t.var(1, true); },
      [&](const Tensor& t) { return layer_norm(t, {4}); },
      [&](const Tensor& t) { return t.prod(1).pow(1.5); },
      [&](const Tensor& t) {
        return stack({t.select(0, 0), t.select(0, 2)}).expand({3, 2, 4});
      },
      [&](const Tensor& t) { return t.unbind(1)[2] * t.split(2, 1)[1].select(1, 0); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE("function " + std::to_string(i));
    check_forward(functions[i], x);
  }
}

TEST(ForwardMode, FollowsInPlaceWritesAndViews) {
  const Tensor x = draw({3, 4}, 0.3, 1.7), c = draw({3, 4});
  check_forward([&](const Tensor& t) { return t.clone().mul_(c).exp_(); }, x);
  check_forward(
      [&](const Tensor& t) {
        Tensor y = t * c;
        y.select(0, 1).mul_(t.select(0, 0));
        y.narrow(1, 0, 2).sin_();
        return y;
      },
      x);
  check_forward(
      [&](const Tensor& t) {
        Tensor y = zeros({3, 4}, kDouble);
        y[1] = t[2] * t[0];
        y[0].fill_(2);
        return y * t;
      },
      x);
  check_forward(
      [&](const Tensor& t) {
        Tensor y = t * 2;
        const Tensor v = y.select(0, 1);
        y.mul_(t);
        y[2].zero_();
        return v + y[2];
      },
      x);
  // Views that were there before the tangent was.
  check_forward(
      [&](const Tensor& t) {
        Tensor y = zeros({4, 3}, kDouble).t();
        const Tensor v = y.select(0, 1), w = y.narrow(1, 1, 2);
        y.add_(t);
        v.mul_(t.select(0, 2));
        return y.sum(1, true) * w + v.narrow(0, 1, 2) * w;
      },
      x);
}

TEST(ForwardMode, TangentsOfSeveralArguments) {
  const Tensor a = draw({3}), b = draw({3}), da = draw({3}), db = draw({3});
  const auto f = [](const variable_list& in) { return variable_list{in[0] * in[1], in[0].exp()}; };
  const auto [values, derivatives] = func::jvp(f, {a, b}, {da, db});
  expect_close(values[0], a * b);
  expect_close(derivatives[0], a * db + b * da);
  expect_close(derivatives[1], a.exp() * da);
  const auto constant = func::jvp([](const Tensor&) { return ones({2}, kDouble); }, {a}, {da});
  expect_close(constant.second, zeros({2}, kDouble));
}

TEST(ForwardMode, LevelsNest) {
  const Tensor x = draw({}), one = ones({}, kDouble);
  const auto first = [&](const Tensor& t) {
    return func::jvp([](const Tensor& s) { return s.pow(4); }, {t}, {one}).second;
  };
  const auto [d1, d2] = func::jvp(Function(first), {x}, {one});
  expect_close(d1, 4 * x.pow(3));
  expect_close(d2, 12 * x.pow(2));
  // The same confusion as with grad.
  const auto outer = [&](const Tensor& t) {
    const Tensor inner = func::jvp([&](const Tensor& s) { return t + s; }, {one}, {one}).second;
    return t * inner;
  };
  expect_close(func::jvp(Function(outer), {x}, {one}).second, ones({}, kDouble));
}

TEST(ForwardMode, DualTensors) {
  const Tensor x = draw({3}), dx = draw({3});
  Tensor outlives;
  {
    const DualLevel level;
    const Tensor dual = level.make_dual(x, dx);
    outlives = dual.exp();
    const auto [primal, tangent] = level.unpack_dual(outlives);
    expect_close(primal, x.exp());
    expect_close(tangent, x.exp() * dx);
    EXPECT_FALSE(level.unpack_dual(x).second.defined());
    EXPECT_FALSE(level.unpack_dual(dual.detach() * 2).second.defined()) << "detach cuts tangents too";
    expect_error<ShapeError>([&] { level.make_dual(x, draw({4})); }, "[4] for a primal of [3]");
    expect_error<DTypeError>([&] { level.make_dual(x, ones({3}, kFloat)); }, "Float for a primal of Double");
    expect_error<DTypeError>([&] { level.make_dual(ones({3}, kLong), ones({3}, kLong)); }, "Long");
    expect_error<ValueError>([&] { level.make_dual(dual, dx); }, "has a tangent of this level already");
  }
  const DualLevel later;
  EXPECT_FALSE(later.unpack_dual(outlives * 2).second.defined()) << "tangents end with their level";
}

TEST(ForwardMode, RunsUnderNoGradAndWithTheTape) {
  const Tensor x = draw_leaf({3}), dx = draw({3});
  const auto [value, derivative] = func::jvp([](const Tensor& t) { return t.pow(3); }, {x}, {dx});
  EXPECT_TRUE(value.requires_grad());
  derivative.sum().backward();  // 3 x^2 dx
  expect_close(x.grad(), 6 * x.detach() * dx);
  const NoGradGuard quiet;
  expect_close(func::jvp([](const Tensor& t) { return t.pow(3); }, {x}, {dx}).second, 3 * x.detach().pow(2) * dx);
}

TEST(ForwardMode, OfComplexNumbers) {
  const Tensor z = complex(draw({3}), draw({3})), dz = complex(draw({3}), draw({3}));
  const auto check = [](const Tensor& got, const Tensor& want) {
    expect_close(real(got), real(want));
    expect_close(imag(got), imag(want));
  };
  check(func::jvp([](const Tensor& t) { return t * t; }, {z}, {dz}).second, 2 * z * dz);
  check(func::jvp([](const Tensor& t) { return t.conj() * t; }, {z}, {dz}).second, z.conj() * dz + dz.conj() * z);
  check(func::jvp([](const Tensor& t) { return t.exp(); }, {z}, {dz}).second, z.exp() * dz);
}

// ---- vmap

// `f` over a batch against `f` over each entry, for the batch in each dimension of the argument.
void check_vmap(const Function& f, const std::vector<int64_t>& entry, double low = -2, double high = 2) {
  constexpr int64_t kBatch = 5;
  std::vector<int64_t> sizes = entry;
  sizes.insert(sizes.begin(), kBatch);
  const Tensor xs = draw(sizes, low, high);
  std::vector<Tensor> each;
  for (int64_t i = 0; i < kBatch; ++i) each.push_back(f(xs[i]).clone());
  const Tensor want = stack(each);
  expect_close(func::vmap(f)(xs.clone()), want);
  for (int64_t dim = 0; dim <= static_cast<int64_t>(entry.size()); ++dim) {
    const Tensor moved = xs.movedim(0, dim).clone();
    expect_close(func::vmap(f, {dim}, -1)(moved), want.movedim(0, -1));
  }
}
// Both arguments batched, and each alone.
void check_vmap2(const Binary& f, const std::vector<int64_t>& entry_a, const std::vector<int64_t>& entry_b) {
  constexpr int64_t kBatch = 4;
  std::vector<int64_t> a_sizes = entry_a, b_sizes = entry_b;
  a_sizes.insert(a_sizes.begin(), kBatch);
  b_sizes.insert(b_sizes.begin(), kBatch);
  const Tensor a = draw(a_sizes, 0.3, 2), b = draw(b_sizes, 0.3, 2);
  std::vector<Tensor> both, first, second;
  for (int64_t i = 0; i < kBatch; ++i) {
    both.push_back(f(a[i], b[i]));
    first.push_back(f(a[i], b[0]));
    second.push_back(f(a[0], b[i]));
  }
  expect_close(func::vmap(f)(a, b), stack(both));
  expect_close(func::vmap(f, {0, std::nullopt})(a, b[0]), stack(first));
  expect_close(func::vmap(f, {std::nullopt, 0})(a[0], b), stack(second));
}

TEST(Vmap, Pointwise) {
  check_vmap([](const Tensor& t) { return t.sin() * 2 + t.exp(); }, {3, 2});
  check_vmap([](const Tensor& t) { return t * t; }, {});
  const Tensor c = draw({2, 3}), wide = draw({4, 1, 3});
  check_vmap([&](const Tensor& t) { return t * c + c / (t.abs() + 1); }, {2, 3});
  check_vmap([&](const Tensor& t) { return wide - t; }, {2, 3});
  check_vmap([&](const Tensor& t) { return where(t > 0, t, c) + t.clamp(-1, 1); }, {3});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.pow(b) + atan2(a, b); }, {3}, {2, 3});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a * b; }, {}, {2, 3});
  check_vmap2([](const Tensor& a, const Tensor& b) { return addcmul(a, b, a, 3) + lerp(a, b, 0.3); }, {2, 1}, {1, 3});
}

TEST(Vmap, DimensionsOfEntries) {
  check_vmap([](const Tensor& t) { return t.sum(0) + t.mean(-2); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.sum(); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.sum({0, 1}, true); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.softmax(-1).log_softmax(0); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.amax(1) + t.logsumexp(1) + t.prod(1) + t.var(1) + t.norm(); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.cumsum(0).cumprod(1); }, {3, 4});
  check_vmap([](const Tensor& t) { return std::get<0>(t.sort(0, true)) + std::get<0>(t.topk(2, 1)).sum(); }, {3, 4});
  check_vmap([](const Tensor& t) { return std::get<0>(t.max(1)) + std::get<0>(t.median(1)); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.argmax(1).to(kDouble) + t.max(); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.tril().flip({0}).roll(1, 1); }, {3, 4});
}

TEST(Vmap, Shapes) {
  check_vmap([](const Tensor& t) { return t.view({2, 6}) * 2; }, {3, 4});
  check_vmap([](const Tensor& t) { return t.reshape({-1}); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.t().transpose(0, 1).permute({1, 0}); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.unsqueeze(-1).squeeze(2).unsqueeze(0); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.expand({2, 3, 4}); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.expand({2, 5}); }, {2, 1});
  check_vmap([](const Tensor& t) { return t.select(0, 1) + t.narrow(0, 1, 2) + t.slice(1, 0, 4, 1)[0] + t[2]; },
             {3, 4});
  check_vmap([](const Tensor& t) { return t.flatten() + t.movedim(0, 1).reshape({12}); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.diagonal() + t.unfold(1, 2, 2).sum({1, 2}); }, {3, 4});
  check_vmap([](const Tensor& t) { return cat({t, t.narrow(0, 0, 1)}, 0) + stack({t, t}, 1).sum(); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.unbind(1)[2] + t.chunk(2, 1)[1].sum(1) + t.split(1, 0)[1].sum(); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.repeat({2, 1}) + t.tile({2, 1}); }, {3, 4});
  check_vmap([](const Tensor& t) { return t.to(kFloat).to(kDouble).clone().contiguous(); }, {3, 4});
  const Tensor c = draw({2, 4});
  check_vmap([&](const Tensor& t) { return cat({c, t}, 0); }, {3, 4});
}

TEST(Vmap, Products) {
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.matmul(b); }, {3, 4}, {4, 2});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.matmul(b); }, {3, 4}, {4});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.matmul(b); }, {4}, {4});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.mm(b); }, {3, 4}, {4, 2});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.bmm(b); }, {2, 3, 4}, {2, 4, 2});
  check_vmap2([](const Tensor& a, const Tensor& b) { return a.mv(b) + a.select(0, 0).dot(b); }, {3, 4}, {4});
  check_vmap2([](const Tensor& a, const Tensor& b) { return outer(a, b); }, {3}, {4});
  check_vmap2([](const Tensor& a, const Tensor& b) { return einsum("ij,jk->ki", {a, b}); }, {3, 4}, {4, 2});
  check_vmap2([](const Tensor& a, const Tensor& b) { return linear(a, b); }, {2, 4}, {3, 4});
  const Tensor bias = draw({2});
  check_vmap2([&](const Tensor& a, const Tensor& b) { return addmm(bias, a, b); }, {3, 4}, {4, 2});
}

TEST(Vmap, EntryByEntry) {
  const Tensor rows = tensor({2, 0, 2});
  check_vmap([&](const Tensor& t) { return t.index_select(0, rows) + t.index({rows}); }, {3, 4});
  check_vmap([&](const Tensor& t) { return t.gather(0, rows.unsqueeze(1).expand({3, 4})); }, {3, 4});
  check_vmap([&](const Tensor& t) { return t.index_add(0, rows, t) + t.scatter_add(0, rows.unsqueeze(1), t); }, {3, 4});
  check_vmap([&](const Tensor& t) { return t.masked_fill(t > 0, 0.5) + t.take(rows).sum(); }, {3, 4});
  check_vmap([](const Tensor& t) { return layer_norm(t, {4}) + constant_pad_nd(t, {1, 1}).narrow(1, 1, 4); }, {3, 4});
  check_vmap([](const Tensor& t) { return mse_loss(t, t * t) + kron(t, t).sum() + trace(t); }, {3, 3});
  // Indices that differ between entries.
  const Tensor table = draw({6, 3});
  const Tensor places = tensor({{0, 1}, {5, 2}, {3, 3}});
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 3; ++i) want.push_back(table.index_select(0, places[i]));
  expect_close(func::vmap([&](const Tensor& p) { return table.index_select(0, p); })(places), stack(want));
  expect_close(func::vmap([&](const Tensor& p) { return embedding(table, p); })(places), stack(want));
}

TEST(Vmap, InPlace) {
  check_vmap([](const Tensor& t) { return t.clone().mul_(2).add_(t).exp_(); }, {3, 4});
  const Tensor c = draw({4});
  check_vmap(
      [&](const Tensor& t) {
        Tensor y = t * 1.0;
        y.select(0, 1).mul_(c);
        y.narrow(1, 1, 2).zero_();
        y[2].copy_(c);
        y.t().select(0, 0).fill_(0.5);
        return y;
      },
      {3, 4});
  check_vmap([](const Tensor& t) { return t.clone().masked_fill_(t > 0, 1.5).clamp_(-1, 1).tril_(); }, {3, 4});
  check_vmap(
      [&](const Tensor& t) {
        return t.clone().index_put_({tensor({0, 2})}, c).index_add_(0, tensor({1}), t.narrow(0, 0, 1));
      },
      {3, 4});
  // What is written to must be batched.
  const Tensor shared = zeros({4}, kDouble);
  expect_error<Error>(
      [&] {
        func::vmap([&](const Tensor& t) { return Tensor(shared).add_(t); })(draw({3, 4}));
      },
      "self is not batched");
}

TEST(Vmap, Dimensions) {
  const Tensor a = draw({3, 4}), b = draw({4, 5, 3});
  const auto f = [](const Tensor& x, const Tensor& y) { return y.matmul(x); };  // [4] and [5, 4]
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 3; ++i) want.push_back(b.select(2, i).t().matmul(a[i]));
  const auto g = [&](const Tensor& x, const Tensor& y) { return f(x, y.t()); };
  expect_close(func::vmap(g, {0, 2})(a, b), stack(want));
  expect_close(func::vmap(g, {0, -1}, 1)(a, b), stack(want, 1));
  // Results that all entries share are repeated.
  const Tensor same = func::vmap([&](const Tensor&) { return b[0]; })(a);
  expect_close(same, b[0].expand({3, 5, 3}));
  const auto [s, c] = func::vmap([](const Tensor& t) { return std::pair<Tensor, Tensor>(t.sin(), t.sum()); })(a);
  expect_close(s, a.sin());
  expect_close(c, a.sum(1));
}

TEST(Vmap, SeesTheSizesOfAnEntry) {
  func::vmap([](const Tensor& t) {
    EXPECT_EQ(t.dim(), 1);
    EXPECT_EQ(t.size(0), 4);
    EXPECT_EQ(t.numel(), 4);
    return t;
  })(draw({3, 4}));
}

TEST(Vmap, ChecksItsArguments) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b; };
  const Tensor a = draw({3, 4}), b = draw({5, 4});
  expect_error<ShapeError>([&] { func::vmap(f)(a, b); }, "same size in the mapped dimension, got sizes 3 and 5");
  expect_error<ValueError>([&] { func::vmap(f, {std::nullopt, std::nullopt})(a, a); }, "at least one argument");
  expect_error<ValueError>([&] { func::vmap(f, {0})(a, a); }, "1 in_dims for 2 arguments");
  expect_error<ShapeError>([&] { func::vmap(f)(a, draw({})); }, "argument 1 has no dimension to run over");
  EXPECT_THROW(func::vmap(f, {2, 0})(a, a), IndexError);
  expect_error<Error>([&] { func::vmap([](const Tensor& t) { return t * t.sum().item<double>(); })(a); }, "vmap");
  Tensor out = empty({4}, kDouble);
  expect_error<NotSupportedError>([&] { func::vmap([&](const Tensor& t) { return add_out(out, t, t); })(a); },
                                  "out=... is not possible inside vmap");
  expect_error<NotSupportedError>([&] { func::vmap([&](const Tensor& t) { return t.equal(t * 2) ? t : -t; })(a); },
                                  "vmap");
  // Errors inside leave everything usable.
  EXPECT_THROW(func::vmap([&](const Tensor& t) { return t.matmul(draw({7})); })(a), Error);
  expect_close(func::vmap(f)(a, a), a * a);
}

// ---- Jacobians and Hessians

TEST(Jacobian, ReverseForwardAndDifferencesAgree) {
  const Tensor x = draw({3, 2}, 0.3, 1.7), c = draw({3, 2}), m = draw({2, 4});
  const std::vector<Function> functions = {
      [&](const Tensor& t) { return t.sin() * c; },
      [&](const Tensor& t) { return t.matmul(m).softmax(1); },
      [&](const Tensor& t) { return t.t().matmul(t).reshape({4}); },
      [&](const Tensor& t) { return t.cumprod(0).sum(1); },
      [&](const Tensor& t) { return t.prod() / t.norm(); },
      [&](const Tensor& t) {
        return cat({t.exp(), t.log()}, 1).select(1, 2);
      },
      [&](const Tensor& t) { return std::get<0>(t.flatten().sort(0, false)).flip({0}) + t.amax(); },
      [&](const Tensor& t) {
        return t.index({tensor({2, 0})}) * layer_norm(t, {2}).narrow(0, 0, 2);
      },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE("function " + std::to_string(i));
    const Tensor want = differences(functions[i], x);
    expect_close(func::jacrev(functions[i])(x), want, 1e-6);
    expect_close(func::jacfwd(functions[i])(x), want, 1e-6);
  }
}

TEST(Jacobian, ThroughInPlaceWrites) {
  const Tensor x = draw({3, 4}, 0.3, 1.7), c = draw({3, 4});
  const Function f = [&](const Tensor& t) {
    Tensor y = t * c;
    y.select(0, 1).mul_(t.select(0, 0));
    y.t().select(0, 2).sin_();
    y[2].mul_(3);
    y.sin_();
    return y.sum(1);
  };
  const Tensor want = differences(f, x);
  expect_close(func::jacrev(f)(x), want, 1e-6);
  expect_close(func::jacfwd(f)(x), want, 1e-6);
}

TEST(Jacobian, ByAnyArgumentAndShape) {
  const Tensor a = draw({2, 3}), b = draw({3});
  const auto f = [](const Tensor& m, const Tensor& v) { return m.mv(v); };
  expect_close(func::jacrev(f, 1)(a, b), a);
  expect_close(func::jacfwd(f, 1)(a, b), a);
  Tensor want = zeros({2, 2, 3}, kDouble);
  want[0][0].copy_(b);
  want[1][1].copy_(b);
  expect_close(func::jacrev(f)(a, b), want);
  expect_close(func::jacfwd(f)(a, b), want);
  EXPECT_EQ(func::jacrev([](const Tensor& t) { return t * 2; })(draw({0})).sizes().vec(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(func::jacfwd([](const Tensor& t) { return t * 2; })(draw({0})).sizes().vec(), (std::vector<int64_t>{0, 0}));
  const Tensor constant = func::jacrev([](const Tensor&) { return ones({2}, kDouble); })(b);
  expect_close(constant, zeros({2, 3}, kDouble));
}

TEST(Hessian, AgreesWithDifferencesOfTheGradient) {
  const Tensor x = draw({3}, 0.3, 1.7), m = draw({3, 3});
  const std::vector<Function> functions = {
      [&](const Tensor& t) { return (t.dot(m.mv(t))).sin(); },
      [&](const Tensor& t) { return t.logsumexp(0) + t.prod(); },
      [&](const Tensor& t) { return (t.softmax(0) * t.log()).sum(); },
      [&](const Tensor& t) { return m.mv(t).tanh().pow(2).sum(); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE("function " + std::to_string(i));
    const auto& f = functions[i];
    const Tensor want = differences([&](const Tensor& t) { return func::grad(f)(t); }, x);
    expect_close(func::hessian(f)(x), want, 1e-6);
    expect_close(func::jacrev(func::jacfwd(f))(x), want, 1e-6);
    expect_close(func::jacrev(func::jacrev(f))(x), want, 1e-6);
    expect_close(func::jacfwd(func::jacfwd(f))(x), want, 1e-6);
    expect_close(func::jacrev(func::grad(f))(x), want, 1e-6);
  }
}

TEST(Hessian, HasNoHistoryUnlessItsArgumentHas) {
  const auto f = [](const Tensor& x) { return (x * x * x).sum(); };
  const Tensor x = tensor({1.0, 2.0});
  const Tensor plain = func::hessian(f)(x);
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(plain.equal(tensor({{6.0, 0.0}, {0.0, 12.0}})));
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor recorded = func::hessian(f)(leaf);
  ASSERT_TRUE(recorded.requires_grad());
  recorded.sum().backward();
  EXPECT_TRUE(leaf.grad().equal(tensor({6.0, 6.0})));
}

TEST(Hessian, OfAQuadraticFormIsExact) {
  const Tensor m = draw({4, 4}), x = draw({4});
  expect_close(func::hessian([&](const Tensor& t) { return t.dot(m.mv(t)); })(x), m + m.t());
}

// ---- inside each other

// The loss of a small network on one sample.
Tensor network(const Tensor& w, const Tensor& x) {
  const Tensor hidden = w.narrow(0, 0, 12).view({4, 3}).mv(x).tanh();
  return (w.narrow(0, 12, 8).view({2, 4}).mv(hidden).softmax(0).log() * w.narrow(0, 0, 2)).sum();
}

TEST(Nesting, PerSampleGradientsAgainstALoop) {
  const Tensor w = draw({20}), xs = draw({6, 3});
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 6; ++i) {
    const Tensor leaf = w.clone().requires_grad_();
    network(leaf, xs[i]).backward();
    want.push_back(leaf.grad());
  }
  expect_close(func::vmap(func::grad(network), {std::nullopt, 0})(w, xs), stack(want));
  // The gradient of the sum is the sum of the gradients: grad of vmap.
  const auto total = [](const Tensor& v, const Tensor& all) {
    return func::vmap(network, {std::nullopt, 0})(v, all).sum();
  };
  expect_close(func::grad(total)(w, xs), stack(want).sum(0));
  const Tensor leaf = w.clone().requires_grad_();
  total(leaf, xs).backward();
  expect_close(leaf.grad(), stack(want).sum(0));
}

TEST(Nesting, VmapOfVmap) {
  const Tensor a = draw({3, 4}), b = draw({5, 4});
  const auto dot = [](const Tensor& x, const Tensor& y) { return (x * y).sum(); };
  const auto row = [&](const Tensor& x, const Tensor& all) { return func::vmap(dot, {std::nullopt, 0})(x, all); };
  expect_close(func::vmap(row, {0, std::nullopt})(a, b), a.matmul(b.t()));
  const Tensor c = draw({2, 3, 4, 5});
  const auto inner = [](const Tensor& t) { return t.sum(0) * t[0]; };
  const Tensor want = c.sum(2) * c.select(2, 0);
  expect_close(func::vmap(func::vmap(inner))(c), want);
  expect_close(func::vmap(func::vmap(inner, {1}), {2}, 1)(c.permute({1, 2, 3, 0}).movedim(3, 2).movedim(1, 3)),
               func::vmap(func::vmap(inner, {1}), {2}, 1)(c.permute({1, 2, 3, 0}).movedim(3, 2).movedim(1, 3).clone()));
  check_vmap([](const Tensor& t) { return func::vmap([](const Tensor& s) { return s.softmax(0).cumsum(0); })(t); },
             {3, 4});
  check_vmap(
      [](const Tensor& t) {
        return func::vmap([](const Tensor& s) { return s.clone().mul_(2).index_select(0, tensor({1})); })(t);
      },
      {3, 4});
}

TEST(Nesting, GradAndJvp) {
  const Tensor m = draw({3, 3}), x = draw({3}, 0.3, 1.7), v = draw({3});
  const Function f = [&](const Tensor& t) { return (m.mv(t).sin() * t.log()).sum(); };
  const Tensor hessian = differences([&](const Tensor& t) { return func::grad(f)(t); }, x);
  // Hessian times vector, in both orders.
  expect_close(func::jvp(Function(func::grad(f)), {x}, {v}).second, hessian.mv(v), 1e-6);
  expect_close(func::grad([&](const Tensor& t) { return func::jvp(f, {t}, {v}).second; })(x), hessian.mv(v), 1e-6);
  // By the direction: the gradient itself.
  expect_close(func::grad([&](const Tensor& d) { return func::jvp(f, {x}, {d}).second; })(v), func::grad(f)(x));
}

TEST(Nesting, BatchesOfDerivatives) {
  const Tensor m = draw({3, 3}), xs = draw({4, 3}, 0.3, 1.7), vs = draw({4, 3});
  const Function f = [&](const Tensor& t) { return (m.mv(t).sin() * t.log()).sum(); };
  std::vector<Tensor> hessians, products, jacobians;
  const Function g = [&](const Tensor& t) { return m.mv(t).exp() * t; };
  for (int64_t i = 0; i < 4; ++i) {
    hessians.push_back(func::hessian(f)(xs[i]));
    products.push_back(hessians.back().mv(vs[i]));
    jacobians.push_back(differences(g, xs[i]));
  }
  expect_close(func::vmap(func::hessian(f))(xs), stack(hessians), 1e-10);
  const auto product = [&](const Tensor& x, const Tensor& v) {
    return func::jvp(Function(func::grad(f)), {x}, {v}).second;
  };
  expect_close(func::vmap(product)(xs, vs), stack(products), 1e-10);
  expect_close(func::vmap(func::jacrev(g))(xs), stack(jacobians), 1e-6);
  expect_close(func::vmap(func::jacfwd(g))(xs), stack(jacobians), 1e-6);
  // Derivatives of what vmap computes.
  const auto batched = [&](const Tensor& all) { return func::vmap(f)(all); };
  const auto [values, derivatives] = func::jvp(Function(batched), {xs}, {vs});
  std::vector<Tensor> along;
  for (int64_t i = 0; i < 4; ++i) along.push_back(func::grad(f)(xs[i]).dot(vs[i]));
  expect_close(derivatives, stack(along));
  const Tensor blocks = func::jacrev(batched)(xs);
  for (int64_t i = 0; i < 4; ++i) {
    expect_close(blocks[i][i], func::grad(f)(xs[i]));
    expect_close(blocks[i][(i + 1) % 4], zeros({3}, kDouble));
  }
}

TEST(Nesting, InPlaceWritesUnderVmapAndGrad) {
  const Tensor c = draw({4}), xs = draw({5, 3, 4}, 0.3, 1.7);
  const Function f = [&](const Tensor& t) {
    Tensor y = t * c;
    y.select(0, 1).mul_(t.select(0, 0));
    y[2].zero_();
    y.exp_();
    return (y.sin() * t).sum();
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < 5; ++i) want.push_back(differences(f, xs[i]));
  expect_close(func::vmap(func::grad(f))(xs), stack(want), 1e-6);
  const auto total = [&](const Tensor& all) { return func::vmap(f)(all).sum(); };
  expect_close(func::grad(total)(xs), stack(want), 1e-6);
  expect_close(func::hessian(f)(xs[0]), differences([&](const Tensor& t) { return func::grad(f)(t); }, xs[0]), 1e-5);
}

TEST(Nesting, ThreeDeep) {
  const auto f = [](const Tensor& x, const Tensor& y) { return (x * y).exp() * x.sin(); };
  const Tensor xs = draw({3}, -1, 1), ys = draw({4}, -1, 1);
  // d^2 f / dx dy on a grid.
  const auto mixed = [&](const Tensor& x, const Tensor& y) {
    return func::grad([&](const Tensor& b) { return func::grad([&](const Tensor& a) { return f(a, b); })(x); })(y);
  };
  const auto row = [&](const Tensor& x) { return func::vmap([&](const Tensor& y) { return mixed(x, y); })(ys); };
  const Tensor got = func::vmap(row)(xs);
  const Tensor x = xs.unsqueeze(1), y = ys.unsqueeze(0);
  // f_x = e^{xy} (y sin x + cos x), f_xy = e^{xy} (x y sin x + x cos x + sin x).
  expect_close(got, (x * y).exp() * (x * y * x.sin() + x * x.cos() + x.sin()), 1e-11);
}

TEST(ForwardMode, OfSeveralArgumentsAndResults) {
  const Tensor x = draw({3}), y = draw({3}), u = draw({3}), v = draw({3});
  const auto product = [](const Tensor& a, const Tensor& b) { return a.sin() * b; };
  const Tensor slope = x.cos() * u * y + x.sin() * v;
  const auto [value, derivative] = func::jvp(product, {x, y}, {u, v});
  expect_close(value, x.sin() * y);
  expect_close(derivative, slope);
  // Functions of any type, also with parameters of any type.
  expect_close(func::jvp(Binary(product), {x, y}, {u, v}).second, slope);
  expect_close(func::jvp([](const auto& a, const auto& b) { return a.sin() * b; }, {x, y}, {u, v}).second, slope);
  const auto pair = [&](const Tensor& a, const Tensor& b) { return std::make_pair(product(a, b), a * 2); };
  const auto [values, derivatives] = func::jvp(pair, {x, y}, {u, v});
  expect_close(values.second, 2 * x);
  expect_close(derivatives.first, slope);
  expect_close(derivatives.second, 2 * u);
  const auto triple = [](const Tensor& a) { return std::make_tuple(a, a * a, a.detach()); };
  const auto of_triple = func::jvp(triple, {x}, {u}).second;
  expect_close(std::get<1>(of_triple), 2 * x * u);
  const auto list = [](const Tensor& a) { return variable_list{a * 2, a * 3}; };
  const variable_list of_list = func::jvp(list, {x}, {u}).second;
  ASSERT_EQ(of_list.size(), 2U);
  expect_close(of_list[1], 3 * u);
  expect_error<ValueError>([&] { func::jvp(list, {x, y}, {u, v}); }, "jvp: 2 arguments were given to a function of 1");
  expect_error<ValueError>([&] { func::jvp(product, {x}, {u}); }, "jvp: 1 arguments were given to a function of 2");
}

}  // namespace
}  // namespace facula
