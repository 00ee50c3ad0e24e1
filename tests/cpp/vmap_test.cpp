// What vmap does beyond computing entry by entry what a loop would: where batches come and go, random numbers, writing and
// indexing with values that differ between entries, what a batch looks like, and what is refused. The rules of all ops are
// compared with loops in gradients_test.cpp.
#include <facula/facula.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace facula {
namespace {

using autograd::variable_list;
using facula_test::differences;
using facula_test::draw;
using facula_test::expect_close;
using facula_test::expect_error;
using indexing::Ellipsis;
using indexing::None;
using indexing::Slice;
using ::testing::HasSubstr;

using Function = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

constexpr int64_t kBatch = 4;

// `f` over pairs against a loop: both batched, and each alone.
void check_pairs(const Binary& f, const Tensor& a, const Tensor& b) {
  std::vector<Tensor> both, first, second;
  for (int64_t i = 0; i < kBatch; ++i) {
    both.push_back(f(a.select(0, i).clone(), b.select(0, i).clone()));
    first.push_back(f(a.select(0, i).clone(), b.select(0, 0).clone()));
    second.push_back(f(a.select(0, 0).clone(), b.select(0, i).clone()));
  }
  expect_close(func::vmap(f)(a.clone(), b), stack(both));
  expect_close(func::vmap(f, {0, std::nullopt})(a.clone(), b.select(0, 0)), stack(first));
  expect_close(func::vmap(f, {std::nullopt, 0})(a.select(0, 0).clone(), b), stack(second));
}

// ---- writing values that differ between entries

TEST(VmapWrites, MaskedFillWithABatchedNumber) {
  const Tensor xs = draw({kBatch, 3, 2}), values = draw({kBatch});
  check_pairs([](const Tensor& x, const Tensor& v) { return x.masked_fill(x > 0, v); }, xs, values);
  const Tensor mask = draw({3, 2}) > 0;
  check_pairs([&](const Tensor& x, const Tensor& v) { return x.masked_fill(mask, v); }, xs, values);
  const Binary in_place = [&](const Tensor& x, const Tensor& v) { return x.clone().masked_fill_(mask, v); };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < kBatch; ++i) want.push_back(in_place(xs[i], values[i].clone()));
  expect_close(func::vmap(in_place)(xs, values), stack(want));
  // The value is written as self's dtype.
  const Tensor halves =
      func::vmap([&](const Tensor& x, const Tensor& v) { return x.masked_fill(mask, v); })(xs.to(kFloat), values);
  EXPECT_EQ(halves.scalar_type(), kFloat);
  expect_error<DTypeError>(
      [&] {
        func::vmap([&](const Tensor& x, const Tensor& v) { return x.masked_fill(mask, v); })(xs,
                                                                                             complex(values, values));
      },
      "masked_fill");
}

TEST(VmapWrites, FillWithABatchedNumber) {
  const Tensor xs = draw({kBatch, 3, 2}), values = draw({kBatch});
  const Binary f = [](const Tensor& x, const Tensor& v) {
    Tensor y = x.clone();
    y[1].fill_(v);
    return y;
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < kBatch; ++i) want.push_back(f(xs[i], values[i].clone()));
  expect_close(func::vmap(f)(xs, values), stack(want));
  expect_close(func::vmap([](const Tensor& x, const Tensor& v) { return x.clone().fill_(v); })(xs, values),
               values.reshape({kBatch, 1, 1}).expand({kBatch, 3, 2}));
  expect_error<Error>([&] { func::vmap([](const Tensor& v) { return zeros({2}, kDouble).fill_(v); })(values); },
                      "fill_(self, ...) is not possible because self is not batched");
}

TEST(VmapWrites, NameTheOp) {
  const Tensor shared = zeros({3}, kDouble);
  for (const std::string op : {"copy_", "add_", "masked_fill_", "index_add_", "cumsum_"}) {
    try {
      func::vmap([&](const Tensor& t) {
        Tensor self = shared;
        if (op == "copy_") self.copy_(t);
        if (op == "add_") self.add_(t);
        if (op == "masked_fill_") self.masked_fill_(t > 0, 1);
        if (op == "index_add_") self.index_add_(0, tensor({0, 1, 2}), t);
        if (op == "cumsum_") t.alias().cumsum_(0);
        return t;
      })(draw({2, 3}));
      EXPECT_EQ(op, "cumsum_");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("inplace arithmetic " + op + "(self"));
    }
  }
}

TEST(VmapWrites, GeometryInPlace) {
  const Tensor xs = draw({kBatch, 3, 1, 2});
  const Tensor got = func::vmap([](const Tensor& x) {
    Tensor y = x.clone();
    y.squeeze_(1).transpose_(0, 1).unsqueeze_(0);
    EXPECT_EQ(y.sizes().vec(), (std::vector<int64_t>{1, 2, 3}));
    y.select(1, 0).mul_(2);
    return y;
  })(xs);
  Tensor want = xs.squeeze(2).transpose(1, 2).unsqueeze(1).clone();
  want.select(2, 0).mul_(2);
  expect_close(got, want);
}

// ---- indexing with integers that differ between entries

TEST(VmapIndex, WithBatchedIntegers) {
  const Tensor xs = draw({kBatch, 3, 4, 5}), places = tensor({2, 0, -1, 1});
  const Tensor list = tensor({1, 0}), other = tensor({2, 2});
  check_pairs([](const Tensor& x, const Tensor& i) { return x[i]; }, xs, places);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({i}); }, xs, places);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({Slice(), i}); }, xs, places);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({Ellipsis, i}); }, xs, places);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({Slice(1), None, i, 2}); }, xs, places);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({i, Slice(), list}); }, xs, places);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({list, i, other}); }, xs, places);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({i, i, i}); }, xs, places);
  check_pairs(
      [&](const Tensor& x, const Tensor& i) {
        return x.index({i, x[0] > 0});
      },
      draw({kBatch, 3, 5}).abs(), places);
  const auto f = [](const Tensor& x, const Tensor& i) { return x[i]; };
  EXPECT_THROW(func::vmap(f)(xs, tensor({0, 1, 2, 3})), IndexError);
  EXPECT_THROW(func::vmap(f)(draw({kBatch}), places), IndexError);
}

TEST(VmapIndex, WithBatchedTensors) {
  const Tensor xs = draw({kBatch, 3, 4, 5});
  const Tensor rows = tensor({{0, 2}, {1, 1}, {-1, 0}, {2, 2}});  // [4, 2]
  const Tensor column = tensor({{1}, {0}});                       // [2, 1], of all entries
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({i}); }, xs, rows);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index({Slice(), i}); }, xs, rows);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({i, column}); }, xs, rows);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({i, Slice(), column}); }, xs, rows);
  check_pairs([&](const Tensor& x, const Tensor& i) { return x.index({Slice(), i, column}); }, xs, rows);
  check_pairs([](const Tensor& x, const Tensor& i) { return x.index_select(1, i + 1) + x.take(i).sum(); }, xs, rows);
}

TEST(VmapIndex, Writing) {
  const Tensor xs = draw({kBatch, 3, 4, 5}), places = tensor({2, 0, -1, 1}),
               rows = tensor({{0, 2}, {1, 0}, {-1, 0}, {2, 1}});
  const Tensor list = tensor({1, 0}), wide = draw({5}), many = draw({3, 5});
  using Write = std::function<void(Tensor&, const Tensor&)>;
  const std::vector<Write> scalars = {
      [](Tensor& y, const Tensor& i) { y.index_put_({i}, 2.5); },
      [&](Tensor& y, const Tensor& i) { y.index_put_({i}, wide); },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({Slice(), i}, many);
      },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({i, Slice(1), list}, wide[0]);
      },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({Ellipsis, i}, y.select(2, 0) * 2);
      },
  };
  const std::vector<Write> tensors = {
      [&](Tensor& y, const Tensor& i) { y.index_put_({i}, wide); },
      [&](Tensor& y, const Tensor& i) { y.index_put_({i}, y.narrow(0, 0, 2) * 2); },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({Slice(), i}, wide);
      },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({Slice(), i}, y.narrow(1, 0, 2) * 3);
      },
      [&](Tensor& y, const Tensor& i) {
        y.index_put_({i, Slice(), list}, 1.5);
      },
      [&](Tensor& y, const Tensor& i) { facula::index_put_(y, {i}, y.narrow(0, 1, 2).clone(), true); },
  };
  const auto check = [&](const Write& write, const Tensor& indices) {
    const Binary f = [&](const Tensor& x, const Tensor& i) {
      Tensor y = x.clone();
      write(y, i);
      return y;
    };
    std::vector<Tensor> want, shared;
    for (int64_t i = 0; i < kBatch; ++i) {
      want.push_back(f(xs[i], indices.select(0, i).clone()));
      shared.push_back(f(xs[i], indices.select(0, 0).clone()));
    }
    expect_close(func::vmap(f)(xs, indices), stack(want));
    expect_close(func::vmap(f, {0, std::nullopt})(xs, indices.select(0, 0)), stack(shared));
  };
  for (size_t k = 0; k < scalars.size(); ++k) {
    SCOPED_TRACE("integers " + std::to_string(k));
    check(scalars[k], places);
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    SCOPED_TRACE("tensors " + std::to_string(k));
    check(tensors[k], rows);
  }
}

TEST(VmapIndex, GradientsFlowThrough) {
  const Tensor xs = draw({kBatch, 3, 4}), places = tensor({2, 0, 1, 1});
  const auto f = [](const Tensor& x, const Tensor& i) {
    Tensor y = x * 2;
    y.index_put_({i}, x[i] * x[0]);
    return (y[i] * y.index({Slice(), i})[0]).sum();
  };
  std::vector<Tensor> want;
  for (int64_t i = 0; i < kBatch; ++i)
    want.push_back(differences([&](const Tensor& x) { return f(x, places[i].clone()); }, xs[i]));
  expect_close(func::vmap(func::grad(f))(xs, places), stack(want), 1e-6);
}

// ---- derivatives of writes to parts of a batch

TEST(VmapWrites, ForwardModeThroughSlices) {
  const Tensor xs = draw({kBatch, 3, 4}, 0.3, 1.7), c = draw({4});
  const std::vector<Function> functions = {
      [&](const Tensor& t) {
        Tensor y = t * 1.0;
        y.narrow(0, 1, 2).mul_(t[0]);
        return y.sum(1);
      },
      [&](const Tensor& t) {
        Tensor y = zeros_like(t);
        y.slice(1, 0, 4, 2).copy_(t.slice(1, 1, 4, 2).sin());
        return y * t;
      },
      [&](const Tensor& t) {
        Tensor y = t.clone();
        y.index({Slice(1), Slice(0, 2)}).copy_(t.index({Slice(0, 2), Slice(2)}) * 2);
        y.t().select(0, 3).exp_();
        return y;
      },
      [&](const Tensor& t) {
        Tensor y = c + zeros_like(t);
        const Tensor v = y[1], w = y.narrow(1, 1, 2);
        v.mul_(t[2]);
        y.add_(t);
        w.sin_();
        return v * y;
      },
      [&](const Tensor& t) {
        Tensor y = t.t().clone().t();
        y.select(1, 1).copy_(c.narrow(0, 0, 3));
        y.diagonal().mul_(t[0].narrow(0, 0, 3));
        return y;
      },
      [&](const Tensor& t) {
        Tensor y = zeros({3, 4}, kDouble) + t.sum() * 0;
        y[1] = t[2];
        y.index_put_({Slice(), 2}, t.select(1, 0));
        return y * y;
      },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    SCOPED_TRACE("function " + std::to_string(k));
    const Function& f = functions[k];
    std::vector<Tensor> want;
    for (int64_t i = 0; i < kBatch; ++i) want.push_back(differences(f, xs[i]));
    expect_close(func::vmap(func::jacfwd(f))(xs), stack(want), 1e-6);
    expect_close(func::vmap(func::jacrev(f))(xs), stack(want), 1e-6);
    expect_close(func::jacfwd(f)(xs[0]), want[0], 1e-6);
    expect_close(func::vmap(func::jacfwd(f), {2})(xs.movedim(0, 2).clone()), stack(want), 1e-6);
  }
}

// ---- dimensions

TEST(VmapDims, InAndOut) {
  const Tensor a = draw({3, 4, 2}), b = draw({4});
  const auto f = [](const Tensor& x, const Tensor& y) { return std::tuple<Tensor, Tensor>(x * y.sum(), x.sum(0)); };
  const auto [p, q] = func::vmap(f, {1, 0}, {2, 1})(a, b);
  expect_close(p, (a * b.reshape({1, 4, 1})).movedim(1, 2));
  expect_close(q, a.sum(0).t());
  const auto [r, s] = func::vmap(f, {-2, std::nullopt}, -1)(a, b);
  expect_close(r, (a * b.sum()).movedim(1, 2));
  expect_close(s, a.sum(0).t());
  // One dimension for all arguments.
  const Tensor two = func::vmap([](const Tensor& x, const Tensor& y) { return x + y; }, 1)(a, a);
  expect_close(two, 2 * a.movedim(1, 0));
  // A result that all entries share can stay as it is.
  const auto [all, one] =
      func::vmap([&](const Tensor& x) { return std::pair<Tensor, Tensor>(x * 2, b * 3); }, {0}, {0, std::nullopt})(a);
  expect_close(all, a * 2);
  expect_close(one, b * 3);
  expect_error<ValueError>([&] { func::vmap([](const Tensor& x) { return x * 2; }, {0}, {std::nullopt})(a); },
                           "out_dim is none");
  expect_error<ValueError>([&] { func::vmap(f, {0, std::nullopt}, {0})(a, b); }, "1 out_dims for 2 results");
  EXPECT_THROW(func::vmap([](const Tensor& x) { return x; }, {0}, 3)(a), IndexError);
}

TEST(VmapDims, Nested) {
  const Tensor a = draw({3, 4, 2, 5});
  const auto inner = [](const Tensor& x) { return x.sin() * x.sum(0); };
  const Tensor want = (a.sin() * a.sum(0)).permute({0, 2, 3, 1});
  // The outer batch is dimension 1 of a, the inner one the last of what is left.
  const Tensor got = func::vmap(func::vmap(inner, {2}, 2), {1}, 3)(a);
  expect_close(got, want);
  const auto outer = [&](const Tensor& x) {
    return func::vmap([&](const Tensor& y) { return (x * y).sum() + y; }, {1}, -1)(x);
  };
  std::vector<Tensor> each;
  const Tensor m = draw({4, 3, 3});
  for (int64_t i = 0; i < 4; ++i) {
    std::vector<Tensor> columns;
    for (int64_t j = 0; j < 3; ++j) columns.push_back((m[i] * m[i].select(1, j)).sum() + m[i].select(1, j));
    each.push_back(stack(columns, -1));
  }
  expect_close(func::vmap(outer)(m), stack(each));
}

TEST(VmapDims, Chunks) {
  const Tensor a = draw({7, 3}), b = draw({3});
  int runs = 0;
  const auto f = [&](const Tensor& x, const Tensor& y) {
    ++runs;
    return std::pair<Tensor, Tensor>(x * y, y);
  };
  for (const int64_t chunk : {1, 2, 3, 7, 10}) {
    runs = 0;
    const auto [p, q] = func::vmap(f, {0, std::nullopt}, {1, std::nullopt}, "error", chunk)(a, b);
    expect_close(p, (a * b).t());
    expect_close(q, b);
    EXPECT_EQ(runs, (7 + chunk - 1) / chunk);
  }
  expect_error<ValueError>(
      [&] {
        func::vmap(f, {0, std::nullopt}, 0, "error", 0)(a, b);
      },
      "chunk_size should be greater than 0");
  const auto noise = func::vmap([](const Tensor& x) { return x * 0 + rand({2}, kDouble).sum(); }, {0}, 0, "same", 3)(a);
  expect_close(noise, noise[0].expand({7, 3}));
}

TEST(VmapDims, ExpandRefusesToKeepANewDimension) {
  const Tensor xs = draw({kBatch, 3});
  expect_close(func::vmap([](const Tensor& x) {
                 return x.expand({2, -1});
               })(xs),
               xs.unsqueeze(1).expand({kBatch, 2, 3}));
  const Function bad = [](const Tensor& x) { return x.expand({-1, 3}); };
  std::string plain;
  try {
    bad(xs[0]);
  } catch (const Error& error) {
    plain = error.what();
  }
  ASSERT_FALSE(plain.empty());
  expect_error<Error>([&] { func::vmap(bad)(xs); }, plain);
  EXPECT_THROW(func::vmap([](const Tensor& x) { return x.expand(IntArrayRef({})); })(xs), Error);
  // One entry of size 2 is no complex number.
  EXPECT_THROW(func::vmap([](const Tensor& x) { return view_as_complex(x); })(draw({2})), Error);
}

TEST(VmapDims, EmptyBatches) {
  const Tensor none = zeros({0, 2, 3}, kDouble);
  const auto sizes_of = [&](const Function& f) { return func::vmap(f)(none).sizes().vec(); };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes_of([](const Tensor& t) { return t.view({-1}); }), (Sizes{0, 6}));
  EXPECT_EQ(sizes_of([](const Tensor& t) { return t.sum() * t; }), (Sizes{0, 2, 3}));
  EXPECT_EQ(sizes_of([](const Tensor& t) { return t.t().matmul(t); }), (Sizes{0, 3, 3}));
  EXPECT_EQ(sizes_of([](const Tensor& t) { return cat({t, t}, 1); }), (Sizes{0, 2, 6}));
  EXPECT_EQ(sizes_of([](const Tensor& t) { return t.mean() + t.norm(); }), (Sizes{0}));
  expect_error<NotSupportedError>([&] { sizes_of([](const Tensor& t) { return t.median(); }); }, "batch of size 0");
}

// ---- types

TEST(VmapTypes, NumbersArePromotedAsEntriesAre) {
  const Tensor floats = draw({kBatch, 3}).to(kFloat), doubles = draw({kBatch}),
               shorts = tensor({1, 2, 3, 4}).to(kShort);
  const auto dtype = [](const Binary& f, const Tensor& a, const Tensor& b) {
    const ScalarType want = f(a.select(0, 0).clone(), b.select(0, 0).clone()).scalar_type();
    EXPECT_EQ(func::vmap(f)(a, b).scalar_type(), want);
    EXPECT_EQ(func::vmap(f, {0, std::nullopt})(a, b.select(0, 0).clone()).scalar_type(), want);
    EXPECT_EQ(func::vmap(f, {std::nullopt, 0})(a.select(0, 0).clone(), b).scalar_type(), want);
    return want;
  };
  const Binary product = [](const Tensor& a, const Tensor& b) { return a * b; };
  EXPECT_EQ(dtype(product, floats, doubles), kFloat);
  EXPECT_EQ(dtype(product, doubles, floats), kFloat);
  EXPECT_EQ(dtype(product, doubles, doubles.to(kFloat)), kDouble);
  EXPECT_EQ(dtype(product, complex(floats, floats), doubles), kComplexFloat);
  EXPECT_EQ(dtype(product, ones({kBatch, 3}, kShort), tensor({1, 2, 3, 4})), kShort);
  EXPECT_EQ(dtype(product, shorts, tensor({1, 2, 3, 4})), kLong);
  EXPECT_EQ(dtype(product, shorts.unsqueeze(1), doubles), kDouble);
  EXPECT_EQ(dtype([](const Tensor& a, const Tensor& b) { return where(a > 0, a, b); }, floats, doubles), kFloat);
  EXPECT_EQ(dtype([](const Tensor& a, const Tensor& b) { return 2.5 / a + b; }, shorts, shorts), kFloat);
}

// ---- random numbers

TEST(VmapRandom, IsRefusedUnlessChosen) {
  const Tensor xs = draw({kBatch, 3});
  const std::vector<Function> functions = {
      [](const Tensor& t) { return t + rand({3}, kDouble); },
      [](const Tensor& t) { return t + randn_like(t); },
      [](const Tensor& t) { return dropout(t, 0.5, true); },
      [](const Tensor& t) { return t.clone().uniform_(); },
      [](const Tensor& t) { return t + randperm(3); },
      [](const Tensor& t) { return bernoulli(t.sigmoid()); },
      [](const Tensor& t) { return zeros({3}, kDouble).normal_() + t; },
      [](const Tensor& t) {
        return func::vmap([](const Tensor& x) { return x + randn({}, kDouble); }, 0, 0, "same")(t);
      },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    SCOPED_TRACE("function " + std::to_string(k));
    expect_error<NotSupportedError>([&] { func::vmap(functions[k])(xs); }, "randomness error mode");
  }
  expect_close(func::vmap([](const Tensor& t) { return dropout(t, 0.5, false); })(xs), xs);
  expect_close(func::vmap([](const Tensor& t) { return std::get<0>(native_dropout(t, 0.5, false)); })(xs), xs);
  expect_error<ValueError>([&] { func::vmap(functions[0], 0, 0, "any")(xs); }, "Only allowed values for randomness");
  rand({2});  // outside everything is as before
  EXPECT_NO_THROW(func::jacrev([](const Tensor& t) { return t * rand({3}, kDouble); })(xs[0]));
  EXPECT_THROW(func::jacfwd([](const Tensor& t) { return t * rand({3}, kDouble); })(xs[0]), NotSupportedError);
  EXPECT_NO_THROW(func::jacfwd([](const Tensor& t) { return t * rand({3}, kDouble); }, 0, "same")(xs[0]));
}

// How many of the entries along dimension 0 are different.
size_t different_rows(const Tensor& t) {
  std::set<std::vector<double>> rows;
  for (int64_t i = 0; i < t.size(0); ++i) rows.insert(facula_test::values(t[i]));
  return rows.size();
}

TEST(VmapRandom, SameAndDifferent) {
  const Tensor xs = ones({kBatch, 16}, kDouble), shared = ones({16}, kDouble);
  const std::vector<Function> functions = {
      [](const Tensor&) { return rand({16}, kDouble); },
      [](const Tensor&) { return randn({16}, kDouble); },
      [](const Tensor&) { return randint(1000000, {16}); },
      [](const Tensor&) { return normal(0, 1, {16}); },
      [](const Tensor&) { return randperm(16); },
      [](const Tensor& t) { return rand_like(t); },
      [&](const Tensor&) { return randn_like(shared); },
      [](const Tensor& t) { return bernoulli(t, 0.5); },
      [](const Tensor& t) { return dropout(t, 0.5, true); },
      [&](const Tensor&) { return dropout(shared, 0.5, true); },
      [](const Tensor& t) { return t.clone().exponential_(); },
      [](const Tensor& t) { return t.clone().bernoulli_(0.5); },
      [&](const Tensor& t) { return t.clone().bernoulli_(shared * 0.5); },
      [&](const Tensor&) { return bernoulli(shared * 0.5); },
      [&](const Tensor&) { return normal(shared, shared); },
      [&](const Tensor&) { return multinomial(shared, 16); },
  };
  for (size_t k = 0; k < functions.size(); ++k) {
    SCOPED_TRACE("function " + std::to_string(k));
    const Tensor same = func::vmap(functions[k], 0, 0, "same")(xs);
    const Tensor different = func::vmap(functions[k], 0, 0, "different")(xs);
    EXPECT_EQ(same.sizes().vec(), (std::vector<int64_t>{kBatch, 16}));
    EXPECT_EQ(different.sizes().vec(), (std::vector<int64_t>{kBatch, 16}));
    EXPECT_EQ(different_rows(same), 1u);
    EXPECT_EQ(different_rows(different), static_cast<size_t>(kBatch));
  }
  // Where the numbers depend on a batch, they cannot be the same.
  for (const Function& f : {Function([](const Tensor& t) { return bernoulli(t * 0.5); }),
                            Function([](const Tensor& t) { return normal(t, 1.0); }),
                            Function([](const Tensor& t) { return normal(t, t); }),
                            Function([](const Tensor& t) { return multinomial(t, 8); })}) {
    EXPECT_EQ(different_rows(func::vmap(f, 0, 0, "different")(xs)), static_cast<size_t>(kBatch));
    expect_error<NotSupportedError>([&] { func::vmap(f, 0, 0, "same")(xs); }, "same randomness with a batched tensor");
  }
  // A tensor of all entries cannot hold different numbers.
  Tensor outside = zeros({16}, kDouble);
  const Function fill = [&](const Tensor& t) { return outside.uniform_() + t; };
  expect_error<Error>([&] { func::vmap(fill, 0, 0, "different")(xs); }, "different inplace randomness");
  EXPECT_EQ(different_rows(func::vmap(fill, 0, 0, "same")(xs)), 1u);
}

TEST(VmapRandom, Nested) {
  const Tensor xs = zeros({3, 4, 5}, kDouble);
  const auto nested = [&](const char* outer, const char* inner) {
    const auto row = func::vmap([](const Tensor& t) { return t + rand({5}, kDouble); }, 0, 0, inner);
    return func::vmap(row, 0, 0, outer)(xs).reshape({12, 5});
  };
  EXPECT_EQ(different_rows(nested("different", "different")), 12u);
  EXPECT_EQ(different_rows(nested("same", "same")), 1u);
  EXPECT_EQ(different_rows(nested("same", "different")), 4u);
  EXPECT_EQ(different_rows(nested("different", "same")), 3u);
  EXPECT_THROW(nested("error", "same"), NotSupportedError);
  EXPECT_THROW(nested("same", "error"), NotSupportedError);
}

TEST(VmapRandom, GradientsOfDropout) {
  const Tensor xs = draw({kBatch, 50}, 1, 2);
  for (const char* randomness : {"same", "different"}) {
    Tensor kept;
    const auto f = [&](const Tensor& t) {
      const Tensor y = dropout(t, 0.5, true);
      return std::pair<Tensor, Tensor>(y, func::grad([&](const Tensor& s) { return (s * y.detach()).sum(); })(t));
    };
    const auto [values, gradients] = func::vmap(f, 0, 0, randomness)(xs);
    expect_close(values, gradients);
    manual_seed(7);
    const Tensor g =
        func::vmap(func::grad([](const Tensor& t) { return dropout(t, 0.5, true).sum(); }), 0, 0, randomness)(xs);
    for (const double x : facula_test::values(g)) EXPECT_TRUE(x == 0 || x == 2) << x;
    EXPECT_EQ(different_rows(g), randomness == std::string("same") ? 1u : static_cast<size_t>(kBatch));
  }
}

// ---- what a batch looks like, and what is left of it

TEST(VmapTensors, PrintAsBatches) {
  const Tensor xs = tensor({{1.0, 2.0}, {3.0, 4.0}});
  std::string text, nested;
  func::vmap([&](const Tensor& t) {
    text = to_text(t);
    func::vmap([&](const Tensor& s) {
      nested = to_text(s);
      return s;
    })(t);
    return t;
  })(xs);
  EXPECT_EQ(text, "BatchedTensor(lvl=1, bdim=0, value=\n" + to_text(xs) + "\n)");
  EXPECT_EQ(nested,
            "BatchedTensor(lvl=2, bdim=0, value=\nBatchedTensor(lvl=1, bdim=0, value=\n" + to_text(xs) + "\n)\n)");
}

TEST(VmapTensors, EndWithTheirVmap) {
  const Tensor xs = draw({kBatch, 3});
  Tensor left, graded;
  func::vmap([&](const Tensor& t) {
    left = t * 2;
    func::grad([&](const Tensor& s) {
      graded = s * 2;
      return s.sum();
    })(t);
    return t;
  })(xs);
  const std::string remedy = "Return it from the function instead";
  expect_error<Error>([&] { left + 1; }, remedy);
  expect_error<Error>([&] { left.sum(); }, remedy);
  expect_error<Error>([&] { left.add_(1); }, remedy);
  expect_error<Error>([&] { rand_like(left); }, remedy);
  expect_error<Error>([&] { left.index_select(0, tensor({1})); }, remedy);
  expect_error<Error>([&] { graded.exp(); }, remedy);
  expect_error<Error>([&] { func::vmap([&](const Tensor& t) { return t * left; })(xs); }, remedy);
  EXPECT_THROW(left.item<double>(), Error);
  EXPECT_THROW(left.data_ptr(), Error);
  EXPECT_THAT(to_text(left), HasSubstr("BatchedTensor(lvl=ended"));
  EXPECT_EQ(left.sizes().vec(), (std::vector<int64_t>{3}));
  // One of an outer vmap that still runs is fine.
  const auto f = [](const Tensor& t) {
    Tensor kept;
    func::vmap([&](const Tensor& s) {
      kept = t * 2;
      return s;
    })(t);
    return kept + t;
  };
  expect_close(func::vmap(f)(xs), 3 * xs);
}

TEST(VmapRandom, IsForTheThreadThatCalledVmap) {
  const Tensor xs = draw({kBatch, 3});
  const std::string remedy = "work only in the thread that called vmap";
  const auto f = [&](const Tensor& x) {
    Tensor doubled;
    std::thread([&] {
      doubled = x * 2;
      expect_error<NotSupportedError>([&] { rand_like(x); }, remedy);
      expect_error<NotSupportedError>([&] { (x * 1).uniform_(); }, remedy);
      expect_error<NotSupportedError>([&] { dropout(x, 0.5, true); }, remedy);
      // The same below a vmap of that thread.
      const auto inner = [&](const Tensor& y) { return y + rand_like(x); };
      expect_error<NotSupportedError>([&] { func::vmap(inner, 0, 0, "different")(ones({2, 3}, kDouble)); }, remedy);
      EXPECT_EQ(rand({3}).sizes().vec(), (std::vector<int64_t>{3}));
    }).join();
    EXPECT_EQ(rand_like(x).sizes().vec(), (std::vector<int64_t>{3}));
    return doubled;
  };
  expect_close(func::vmap(f, 0, 0, "different")(xs), 2 * xs);
}

TEST(Vmap, TakesItsOptionsByName) {
  const Tensor xs = draw({3, kBatch}), w = draw({3});
  std::vector<int64_t> seen;
  const auto f = [&](const Tensor& x, const Tensor& y) {
    seen.push_back(x.dim());
    return x * y;
  };
  const func::VmapOptions options{.in_dims = {1, std::nullopt}, .out_dims = 1, .chunk_size = 3};
  expect_close(func::vmap(f, options)(xs, w), xs * w.unsqueeze(1));
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 1}));
  expect_close(func::vmap(f, func::VmapOptions{.in_dim = 1})(xs, xs), (xs * xs).t());
  expect_close(func::vmap(f, {})(xs, xs), xs * xs);
  // Braces are dimensions.
  expect_close(func::vmap(f, {{}, 1})(w, xs), (xs * w.unsqueeze(1)).t());
}

}  // namespace
}  // namespace facula
