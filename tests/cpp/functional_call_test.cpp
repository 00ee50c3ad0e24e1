// Modules as functions of their parameters: functional_call against calls of the module itself, under every function of
// func.h, and that a module is as before when a call has ended.
#include <facula/facula.h>
#include <facula/nn/nn.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace facula {
namespace {

using autograd::variable_list;
using facula_test::differences;
using facula_test::draw;
using facula_test::draw_leaf;
using facula_test::expect_close;
using facula_test::expect_error;
using func::functional_call;
using nn::NamedTensors;

// Two layers; the second is a module of its own.
struct LayerImpl : nn::Module {
  LayerImpl(int64_t in, int64_t out) {
    weight = register_parameter("weight", draw({in, out}));
    bias = register_parameter("bias", draw({out}));
  }
  Tensor forward(const Tensor& x) { return x.matmul(weight) + bias; }
  Tensor weight, bias;
};
FACULA_MODULE(Layer);

struct MlpImpl : nn::Module {
  explicit MlpImpl(bool smooth_in = false) : smooth(smooth_in) {
    first = register_module("first", Layer(3, 4));
    second = register_module("second", Layer(4, 2));
    scale = register_parameter("scale", draw({2}, 0.5, 1.5));
    calls = register_buffer("calls", zeros({}, kDouble));
  }
  Tensor forward(const Tensor& x) {
    if (broken) throw std::runtime_error("broken on purpose");
    const Tensor h = first(x);
    {
      const NoGradGuard quiet;
      if (counts) calls += 1;
    }
    return second(smooth ? h.tanh() : h.relu()) * scale;
  }
  bool smooth, broken = false, counts = false;
  Layer first = nullptr, second = nullptr;
  Tensor scale, calls;
};
FACULA_MODULE(Mlp);

// What can be seen of a module's tensors from outside.
struct Snapshot {
  explicit Snapshot(const nn::Module& module) {
    NamedTensors all = module.named_parameters();
    all.update(module.named_buffers());
    for (const auto& item : all) {
      tensors.push_back(*item);
      memory.push_back(item->data_ptr());
      copies.push_back(item->detach().clone());
      grads.push_back(item->grad());
      versions.push_back(item->_version());
      uses.push_back(0);
      wanted.push_back(item->requires_grad());
    }
    all.clear();
    for (size_t i = 0; i < tensors.size(); ++i) uses[i] = tensors[i].use_count();
  }
  // Recorded graphs hold parameters: `counts` is for when there are none.
  void expect_same(bool counts = false) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i].data_ptr(), memory[i]);
      expect_close(tensors[i], copies[i], 0);
      EXPECT_TRUE(tensors[i].grad().is_same(grads[i]));
      EXPECT_EQ(tensors[i]._version(), versions[i]);
      if (counts) {
        EXPECT_EQ(tensors[i].use_count(), uses[i]);
      }
      EXPECT_EQ(tensors[i].requires_grad(), wanted[i]);
      EXPECT_TRUE(tensors[i].is_leaf());
      EXPECT_FALSE(tensors[i].is_view());
    }
  }
  std::vector<Tensor> tensors, copies, grads;
  std::vector<void*> memory;
  std::vector<int64_t> versions, uses;
  std::vector<bool> wanted;
};

// Other values under the names of a module's parameters.
NamedTensors drawn_like(const nn::Module& module, bool leaves = false) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) {
    const std::vector<int64_t> sizes = item->sizes().vec();
    all.insert(item.key(), leaves ? draw_leaf(sizes) : draw(sizes));
  }
  return all;
}

// A module that has these values as its own.
Mlp with_values(const NamedTensors& params, bool smooth = false) {
  Mlp mlp(smooth);
  mlp->load_state_dict(params, false);
  return mlp;
}

TEST(FunctionalCall, ComputesWithTheGivenTensors) {
  Mlp mlp;
  const Snapshot before(*mlp);
  const NamedTensors params = drawn_like(*mlp);
  const Tensor x = draw({5, 3});
  const Tensor want = with_values(params)(x);
  expect_close(functional_call(mlp, params, x), want);
  expect_close(functional_call(*mlp, params, x), want);
  expect_close(functional_call(mlp.ptr(), params, x), want);
  expect_close(functional_call(mlp.get(), params, x), want);
  // Some of the names, in every kind of map.
  const NamedTensors own = mlp->named_parameters();
  const Tensor w = draw({3, 4}), h = (x.matmul(w) + own["first.bias"]).relu();
  const Tensor partly = (h.matmul(own["second.weight"]) + own["second.bias"]) * own["scale"];
  expect_close(functional_call(mlp, {{"first.weight", w}}, x), partly);
  expect_close(functional_call(mlp, std::map<std::string, Tensor>{{"first.weight", w}}, x), partly);
  expect_close(functional_call(mlp, std::unordered_map<std::string, Tensor>{{"first.weight", w}}, x), partly);
  expect_close(functional_call(mlp, {}, x), mlp(x));
  // A function of the module in place of forward.
  const Tensor hidden = functional_call(mlp, {{"first.weight", w}}, [&](MlpImpl& m) { return m.first(x).relu(); });
  expect_close(hidden, h);
  before.expect_same();
}

TEST(FunctionalCall, TakesOtherShapesAndDtypes) {
  Mlp mlp;
  const Tensor x = draw({5, 3}).to(kFloat);
  NamedTensors wide;
  for (const auto& item : mlp->named_parameters()) wide.insert(item.key(), item->detach().to(kFloat));
  const Snapshot before(*mlp);
  EXPECT_EQ(functional_call(mlp, wide, x).scalar_type(), kFloat);
  wide["second.weight"] = draw({4, 7}).to(kFloat);
  wide["second.bias"] = wide["scale"] = ones({7});
  EXPECT_EQ(functional_call(mlp, wide, x).sizes().vec(), (std::vector<int64_t>{5, 7}));
  wide["second.bias"] = ones({7}, kMeta);
  before.expect_same();
}

TEST(FunctionalCall, GradientsGoToTheGivenLeaves) {
  Mlp mlp;
  NamedTensors params = drawn_like(*mlp, true);
  const Tensor x = draw({5, 3});
  const NamedTensors only{{"first.weight", params["first.weight"]}, {"second.weight", params["second.weight"]}};
  const Tensor y = functional_call(mlp, only, x);
  {
    // What backward reads was saved during the call, and is not what the module has.
    const NoGradGuard quiet;
    mlp->first->weight.zero_();
    mlp->second->weight.zero_();
  }
  y.pow(2).sum().backward();
  // By hand: y = (relu(x W1 + b1) W2 + b2) s.
  const NoGradGuard quiet;
  const Tensor w2 = params["second.weight"], s = mlp->scale;
  const Tensor z = x.matmul(params["first.weight"]) + mlp->first->bias, h = z.relu();
  const Tensor g = 2 * y * s;
  expect_close(params["second.weight"].grad(), h.t().matmul(g));
  expect_close(params["first.weight"].grad(), x.t().matmul(g.matmul(w2.t()) * (z > 0)));
  // What was not replaced has its gradients as always.
  expect_close(mlp->second->bias.grad(), g.sum(IntArrayRef({0})));
  EXPECT_FALSE(mlp->first->weight.grad().defined());
  EXPECT_FALSE(mlp->second->weight.grad().defined());
}

TEST(FunctionalCall, GradientsFlowThroughComputedTensors) {
  // One step of descent inside the function that is differentiated.
  Mlp mlp(true);
  const Tensor x = draw({5, 3}), start = draw({3, 4});
  const auto loss = [&](const Tensor& w) { return functional_call(mlp, {{"first.weight", w}}, x).pow(2).sum(); };
  const auto after_step = [&](const Tensor& w) { return loss(w - 0.01 * func::grad(loss)(w)); };
  const Tensor got = func::grad(after_step)(start);
  expect_close(got, differences(after_step, start), 1e-5);
  const Tensor leaf = start.clone().requires_grad_();
  const Tensor step = autograd::grad({loss(leaf)}, {leaf}, {}, {}, true)[0];
  loss(leaf - 0.01 * step).backward();
  expect_close(leaf.grad(), got);
}

TEST(FunctionalCall, WorksUnderFunctionsOfFunctions) {
  Mlp mlp(true);
  const Snapshot before(*mlp);
  const Tensor x = draw({2, 3}), w = draw({4, 2}), direction = draw({4, 2});
  const auto f = [&](const Tensor& at) { return functional_call(mlp, {{"second.weight", at}}, x).tanh(); };
  const auto total = [&](const Tensor& at) { return f(at).pow(3).sum(); };
  const Tensor jacobian = differences(f, w);
  expect_close(func::jacrev(f)(w), jacobian, 1e-6);
  expect_close(func::jacfwd(f)(w), jacobian, 1e-6);
  const auto [value, derivative] = func::jvp(f, {w}, {direction});
  expect_close(value, f(w));
  expect_close(derivative, (jacobian * direction).sum(IntArrayRef({2, 3})), 1e-6);
  expect_close(func::hessian(total)(w), differences([&](const Tensor& at) { return func::grad(total)(at); }, w), 1e-5);
  before.expect_same();
}

TEST(FunctionalCall, GradientsByName) {
  Mlp mlp;
  const Tensor x = draw({5, 3});
  const NamedTensors params = drawn_like(*mlp);
  const auto loss = [&](const NamedTensors& p, const Tensor& in) { return functional_call(mlp, p, in).pow(2).sum(); };
  const auto [value, gradients] = func::value_and_grad_dict(loss)(params, x);
  Mlp same = with_values(params);
  const Tensor want = same(x).pow(2).sum();
  want.backward();
  expect_close(value, want);
  EXPECT_EQ(gradients.keys(), params.keys());
  for (const auto& item : same->named_parameters()) {
    SCOPED_TRACE(item.key());
    expect_close(gradients[item.key()], item->grad());
    EXPECT_FALSE(gradients[item.key()].requires_grad());
  }
  for (const Tensor& p : mlp->parameters()) EXPECT_FALSE(p.grad().defined());
  // The module's own parameters are tensors like others.
  const NamedTensors own = func::grad_dict(loss)(mlp->named_parameters(), x);
  mlp(x).pow(2).sum().backward();
  for (const auto& item : mlp->named_parameters()) expect_close(own[item.key()], item->grad());
  expect_error<ShapeError>(
      [&] {
        func::grad_dict([&](const NamedTensors& p, const Tensor& in) { return functional_call(mlp, p, in); })(params,
                                                                                                              x);
      },
      "return a scalar tensor");
}

TEST(FunctionalCall, PerSampleGradients) {
  Mlp mlp;
  const Snapshot before(*mlp);
  const Tensor xs = draw({6, 3}), ys = draw({6, 2});
  const NamedTensors params = drawn_like(*mlp);
  const auto loss = [&](const NamedTensors& p, const Tensor& x, const Tensor& y) {
    return (functional_call(mlp, p, x) - y).pow(2).sum();
  };
  const NamedTensors per_sample = func::vmap_dict(func::grad_dict(loss), {std::nullopt, 0, 0})(params, xs, ys);
  for (int64_t i = 0; i < 6; ++i) {
    Mlp one = with_values(params);
    (one(xs[i]) - ys[i]).pow(2).sum().backward();
    for (const auto& item : one->named_parameters()) {
      SCOPED_TRACE(item.key());
      expect_close(per_sample[item.key()][i], item->grad());
    }
  }
  // The same with plain arguments.
  const auto by_weight = [&](const Tensor& w, const Tensor& x, const Tensor& y) {
    NamedTensors p = params;
    p["first.weight"] = w;
    return loss(p, x, y);
  };
  expect_close(func::vmap(func::grad(by_weight), {std::nullopt, 0, 0})(params["first.weight"], xs, ys),
               per_sample["first.weight"]);
  before.expect_same();
}

TEST(FunctionalCall, Ensembles) {
  std::vector<Mlp> models{Mlp(true), Mlp(true), Mlp(true)};
  Mlp any(true);
  const auto [params, buffers] = func::stack_module_state(models);
  EXPECT_EQ(params["first.weight"].sizes().vec(), (std::vector<int64_t>{3, 3, 4}));
  EXPECT_TRUE(params["first.weight"].is_leaf() && params["first.weight"].requires_grad());
  EXPECT_FALSE(buffers["calls"].requires_grad());
  const Tensor x = draw({5, 3});
  const auto run = [&](const NamedTensors& p, const Tensor& in) { return functional_call(any, p, in); };
  const Tensor all = func::vmap_dict(run, {0, std::nullopt})(params, x);
  for (size_t i = 0; i < 3; ++i) expect_close(all[static_cast<int64_t>(i)], models[i](x));
  // Gradients through the tape outside, and inside of each member.
  all.pow(2).sum().backward();
  const auto loss = [&](const NamedTensors& p, const Tensor& in) { return run(p, in).pow(2).sum(); };
  const NamedTensors inside = func::vmap_dict(func::grad_dict(loss), {0, std::nullopt})(params, x);
  for (size_t i = 0; i < 3; ++i) {
    models[i](x).pow(2).sum().backward();
    for (const auto& item : models[i]->named_parameters()) {
      SCOPED_TRACE(item.key());
      expect_close(params[item.key()].grad()[static_cast<int64_t>(i)], item->grad());
      expect_close(inside[item.key()][static_cast<int64_t>(i)], item->grad());
    }
  }
  for (const Tensor& p : any->parameters()) EXPECT_FALSE(p.grad().defined());
}

TEST(FunctionalCall, StackingWantsEqualModules) {
  expect_error<ValueError>([] { func::stack_module_state(std::vector<Mlp>{}); }, "no modules");
  std::vector<std::shared_ptr<nn::Module>> mixed{Mlp().ptr(), Layer(3, 4).ptr()};
  expect_error<ValueError>([&] { func::stack_module_state(mixed); }, "stack modules of one kind");
  std::vector<Mlp> modes{Mlp(), Mlp()};
  modes[1]->eval();
  expect_error<ValueError>([&] { func::stack_module_state(modes); }, "training mode");
}

TEST(FunctionalCall, AnExceptionRestores) {
  Mlp mlp;
  mlp(draw({5, 3})).sum().backward();
  const Snapshot before(*mlp);
  const NamedTensors params = drawn_like(*mlp, true);
  mlp->broken = true;
  EXPECT_THROW(functional_call(mlp, params, draw({5, 3})), std::runtime_error);
  mlp->broken = false;
  EXPECT_THROW(functional_call(mlp, params, draw({5, 9})), ShapeError);
  EXPECT_THROW(functional_call(mlp, {{"scale", ones({2})}, {"scales", ones({2})}}, draw({5, 3})), ValueError);
  before.expect_same(true);
  for (const auto& item : params) EXPECT_EQ(item->use_count(), 1);
  // Nor does anything stay behind when a call and its graph have ended.
  functional_call(mlp, params, draw({5, 3})).sum().backward();
  func::jacfwd([&](const Tensor& scale) {
    return functional_call(mlp, {{"scale", scale}}, draw({5, 3}));
  })(ones({2}, kDouble));
  before.expect_same(true);
  for (const auto& item : params) EXPECT_EQ(item->use_count(), 1);
}

TEST(FunctionalCall, CallsNest) {
  Mlp mlp;
  const Snapshot before(*mlp);
  const Tensor x = draw({5, 3}), a = draw_leaf({2}), b = draw_leaf({2});
  const Tensor h = mlp->first(x).relu(), unscaled = mlp->second(h);
  const Tensor y = functional_call(mlp, {{"scale", a}}, [&](MlpImpl& m) {
    const Tensor outer = m.forward(x), inner = functional_call(m, {{"scale", b}}, x);
    EXPECT_THROW(functional_call(m, {{"scale", b}}, [](MlpImpl&) { throw std::runtime_error("x"); }),
                 std::runtime_error);
    const Tensor again = m.forward(x);
    return stack({outer, inner, again});
  });
  expect_close(y[0], unscaled * a);
  expect_close(y[1], unscaled * b);
  expect_close(y[2], unscaled * a);
  y.sum().backward();
  expect_close(a.grad(), 2 * unscaled.sum(IntArrayRef({0})));
  expect_close(b.grad(), unscaled.sum(IntArrayRef({0})));
  EXPECT_FALSE(mlp->scale.grad().defined());
  mlp->zero_grad();
  EXPECT_EQ(mlp->scale.data_ptr(), before.tensors[0].data_ptr());
}

struct TiedImpl : nn::Module {
  TiedImpl() {
    in = register_parameter("in", draw({3, 3}));
    out = register_parameter("out", in);
  }
  Tensor forward(const Tensor& x) { return x.matmul(in).tanh().matmul(out.t()); }
  Tensor in, out;
};

TEST(FunctionalCall, TiedWeightsAreReplacedTogether) {
  TiedImpl tied;
  const Tensor x = draw({2, 3}), w = draw_leaf({3, 3}), other = draw({3, 3});
  const Tensor want = x.matmul(w).tanh().matmul(w.t());
  expect_close(functional_call(tied, {{"in", w}}, x), want);
  expect_close(functional_call(tied, {{"out", w}}, x), want);
  expect_close(functional_call(tied, {{"in", w}, {"out", w}}, x), want);
  expect_error<ValueError>([&] { functional_call(tied, {{"in", w}, {"out", other}}, x); }, "\"in\", \"out\"");
  const func::FunctionalCallOptions apart{.tie_weights = false};
  expect_close(functional_call(tied, {{"in", w}, {"out", w}}, apart, x), want);
  expect_error<NotSupportedError>([&] { functional_call(tied, {{"in", w}}, apart, x); }, "are one tensor");
  functional_call(tied, {{"out", w}}, x).sum().backward();
  const Tensor got = w.grad().clone();
  w.mutable_grad() = Tensor();
  want.sum().backward();
  expect_close(got, w.grad());
  EXPECT_TRUE(tied.in.is_same(tied.out));
}

TEST(FunctionalCall, UnknownNamesAreErrorsThatListTheKnown) {
  Mlp mlp;
  const Tensor x = draw({5, 3}), t = draw({2});
  expect_error<ValueError>(
      [&] {
        functional_call(mlp, {{"scales", t}, {"first.b", t}}, x);
      },
      "functional_call: Unexpected key(s): \"scales\", \"first.b\". ");
  expect_error<ValueError>(
      [&] {
        functional_call(mlp, {{"scales", t}}, x);
      },
      "has \"scale\", \"first.weight\", \"first.bias\", \"second.weight\", \"second.bias\", \"calls\"");
  expect_error<ValueError>([&] { functional_call(mlp, {{"scale", Tensor()}}, x); }, "\"scale\" is undefined");
  const func::FunctionalCallOptions strict{.strict = true};
  NamedTensors params = drawn_like(*mlp);
  expect_error<ValueError>([&] { functional_call(mlp, params, strict, x); }, "Missing key(s): \"calls\"");
  params.insert("calls", zeros({}, kDouble));
  expect_close(functional_call(mlp, params, strict, x), with_values(params)(x));
}

TEST(FunctionalCall, BuffersAreWrittenWhereTheyWereGiven) {
  Mlp mlp;
  mlp->counts = true;
  const Tensor calls = full({}, 10.0, kDouble), x = draw({5, 3});
  functional_call(mlp, {{"calls", calls}}, x);
  functional_call(mlp, {{"calls", calls}}, x);
  EXPECT_EQ(calls.item<double>(), 12);
  EXPECT_EQ(mlp->calls.item<double>(), 0);
  const Tensor many = zeros({4}, kDouble);
  func::vmap([&](const Tensor& each, const Tensor& in) {
    return functional_call(mlp, {{"calls", each}}, in);
  })(many, draw({4, 3}));
  expect_close(many, ones({4}, kDouble));
}

struct GivesItself : nn::Module {
  GivesItself() {
    a = register_parameter("a", draw({2, 3}));
    b = register_parameter("b", draw({2, 3}));
  }
  std::tuple<Tensor, std::vector<Tensor>> forward() { return {a, {a.t(), b.contiguous(), a * b}}; }
  Tensor a, b;
};

TEST(FunctionalCall, ResultsDoNotDependOnTheModuleAfterwards) {
  GivesItself m;
  const Tensor a = draw_leaf({2, 3}), b = draw({2, 3});
  const auto [same, views] = functional_call(m, {{"a", a}, {"b", b}});
  EXPECT_TRUE(same.is_same(a));
  EXPECT_TRUE(views[1].is_same(b));
  EXPECT_TRUE(views[0]._base().is_same(a));
  expect_close(views[0], a.t(), 0);
  (views[0] * 3).sum().backward();
  expect_close(a.grad(), full({2, 3}, 3.0, kDouble));
}

TEST(FunctionalCall, TakesTensorsOfTheModuleItself) {
  GivesItself m;
  const Snapshot before(m);
  const auto [same, rest] = functional_call(m, {{"a", m.b}, {"b", m.a}});
  EXPECT_TRUE(same.is_same(m.b));
  expect_close(rest[0], m.b.t(), 0);
  EXPECT_TRUE(rest[0]._base().is_same(m.b));
  const auto kept = functional_call(m, {{"a", m.a}});
  EXPECT_TRUE(std::get<0>(kept).is_same(m.a));
  const auto part = functional_call(m, {{"a", m.b * m.b}});
  std::get<1>(part)[2].sum().backward();
  expect_close(m.b.grad(), 3 * m.b.detach().pow(2));
  EXPECT_FALSE(m.a.grad().defined());
  m.zero_grad();
  for (const Tensor& p : m.parameters()) EXPECT_TRUE(p.is_leaf() && !p.is_view());
}

TEST(FunctionalCall, KeepsModesAndHooks) {
  Mlp mlp;
  const Tensor x = draw({5, 3}), w = draw_leaf({3, 4});
  int hooks = 0;
  mlp->first->weight.register_hook([&](const Tensor&) { ++hooks; });
  {
    const NoGradGuard quiet;
    EXPECT_FALSE(functional_call(mlp, {{"first.weight", w}}, x).requires_grad());
    EXPECT_FALSE(GradMode::is_enabled());
  }
  {
    const InferenceMode inference;
    const Tensor y = functional_call(mlp, {{"first.weight", w}}, x);
    EXPECT_TRUE(y.is_inference());
    expect_close(y, functional_call(mlp, {{"first.weight", w}}, x));
  }
  functional_call(mlp, {{"first.weight", w}}, x).sum().backward();
  EXPECT_EQ(hooks, 0);
  mlp(x).sum().backward();
  EXPECT_EQ(hooks, 1);
  EXPECT_TRUE(mlp->first->weight.grad().defined());
}

TEST(FunctionalCall, GraphsOfTheModuleItselfSurvive) {
  Mlp mlp;
  const Tensor x = draw_leaf({5, 3});
  const Tensor y = mlp(x).pow(2).sum();
  functional_call(mlp, drawn_like(*mlp, true), x.detach()).sum().backward();
  y.backward();
  const Tensor got = x.grad().clone();
  x.mutable_grad() = Tensor();
  mlp(x).pow(2).sum().backward();
  expect_close(got, x.grad());
  // Backward through such a graph while other tensors stand in is refused, not computed with the wrong ones.
  const Tensor again = mlp(x).pow(2).sum();
  expect_error<Error>([&] { functional_call(mlp, drawn_like(*mlp), [&](MlpImpl&) { again.backward({}, true); }); },
                      "other data");
  again.backward();
}

// A result of a user's own class, which says where its tensors are; and one that does not.
struct Parts {
  Tensor weight;
  std::vector<Tensor> others;
};
template <class V>
void visit_tensors(Parts& parts, V visit) {
  visit(parts.weight);
  visit(parts.others);
}
struct Closed {
  Tensor weight;
};

TEST(FunctionalCall, ReturnedParametersAreWhatWasGivenWhereverTheyAre) {
  Mlp mlp;
  const NamedTensors params = drawn_like(*mlp);
  const Tensor& given = params["first.weight"];
  const auto call = [&](auto result_of) {
    return functional_call(mlp, params, [&](MlpImpl& m) { return result_of(m.first->weight); });
  };
  EXPECT_TRUE(call([](const Tensor& w) { return std::array<Tensor, 2>{w, w}; })[1].is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return std::list<Tensor>{w}; }).front().is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return std::map<std::string, Tensor>{{"w", w}}; })["w"].is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return std::unordered_map<int, Tensor>{{1, w}}; })[1].is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return NamedTensors{{"w", w}}; })["w"].is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return std::optional<Tensor>(w); })->is_same(given));
  EXPECT_TRUE(std::get<Tensor>(call([](const Tensor& w) { return std::variant<int, Tensor>(w); })).is_same(given));
  const auto deep = call([](const Tensor& w) {
    std::map<std::string, std::vector<std::optional<Tensor>>> lists;
    lists["w"] = {std::nullopt, w};
    return std::make_tuple(1, std::string("text"), std::vector<bool>{true}, std::vector<double>{2.0},
                           std::make_pair(w, std::move(lists)));
  });
  EXPECT_TRUE(std::get<4>(deep).first.is_same(given));
  EXPECT_TRUE(std::get<4>(deep).second.at("w")[1]->is_same(given));
  const Parts parts = call([](const Tensor& w) { return Parts{w, {w}}; });
  EXPECT_TRUE(parts.weight.is_same(given) && parts.others[0].is_same(given));
  EXPECT_TRUE(call([](const Tensor& w) { return Closed{w}; }).weight.is_same(mlp->first->weight));
}

}  // namespace
}  // namespace facula
