// The base class of networks: what modules list, print, convert, copy and load. Calls with other parameters are in
// functional_call_test.cpp.
#include <facula/facula.h>
#include <facula/nn/nn.h>

#include "cpp/expect.h"
#include "cpp/gradient_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace user {

using facula::Tensor;
namespace nn = facula::nn;

struct Inner : nn::Module {
  Inner() {
    w = register_parameter("w", facula_test::draw({2}));
    count = register_buffer("count", facula::zeros({}, facula::kLong));
    mean = register_buffer("mean", facula_test::draw({2}));
  }
  Tensor w, count, mean;
};

struct Leafy : nn::Module {
  void pretty_print(std::ostream& stream) const override { stream << "Leafy(x=1)"; }
};

struct Net : nn::Module {
  Net() {
    a = register_module("a", std::make_shared<Inner>());
    c = register_module("c", std::make_shared<Leafy>());
    shared = register_parameter("shared", a->w);
    none = register_parameter("none", Tensor(), false);
    no_buffer = register_buffer("no_buffer", Tensor());
    again = register_module("again", a);
  }
  std::shared_ptr<Inner> a, again;
  std::shared_ptr<Leafy> c;
  Tensor shared, none, no_buffer;
};

struct MlpImpl : nn::Cloneable<MlpImpl> {
  MlpImpl(int64_t in, int64_t hidden) : in_(in), hidden_(hidden) { reset(); }
  void reset() override {
    w = register_parameter("w", facula::randn({in_, hidden_}));
    steps = register_buffer("steps", facula::zeros({2}));
    inner = register_module("inner", std::make_shared<Inner>());
  }
  Tensor forward(const Tensor& x) { return x.matmul(w).relu(); }
  int64_t in_, hidden_;
  int label = 0;
  Tensor w, steps;
  std::shared_ptr<Inner> inner;
};
FACULA_MODULE(Mlp);

// A child that can be cloned, and one whose constant member forbids assigning.
struct ParentImpl : nn::Cloneable<ParentImpl> {
  ParentImpl() { reset(); }
  struct Constant : nn::Cloneable<Constant> {
    Constant() { reset(); }
    void reset() override { w = register_parameter("w", facula::randn({3})); }
    const int fixed = 5;
    Tensor w;
  };
  void reset() override {
    mlp = register_module("mlp", Mlp(3, 2));
    constant = register_module("constant", std::make_shared<Constant>());
  }
  Mlp mlp = nullptr;
  std::shared_ptr<Constant> constant;
};
FACULA_MODULE(Parent);

struct RegistersTooLate : nn::Cloneable<RegistersTooLate> {
  RegistersTooLate() { register_parameter("w", facula::ones({2})); }
  void reset() override {}
};

}  // namespace user

namespace facula {
namespace {

using facula_test::draw;
using facula_test::expect_close;
using facula_test::expect_error;
using facula_test::values;
using testing::ElementsAre;
using testing::HasSubstr;
using user::Inner;
using user::Mlp;
using user::MlpImpl;
using user::Net;

std::string printed(const nn::Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

// ---- OrderedDict

TEST(OrderedDict, KeepsTheOrderOfInsertion) {
  OrderedDict<std::string, int> dict{{"b", 2}, {"a", 1}};
  EXPECT_EQ(dict.insert("c", 3), 3);
  EXPECT_THAT(dict.keys(), ElementsAre("b", "a", "c"));
  EXPECT_THAT(dict.values(), ElementsAre(2, 1, 3));
  EXPECT_EQ(dict["a"], 1);
  EXPECT_EQ(dict[0].key(), "b");
  EXPECT_EQ(*dict.back(), 3);
  EXPECT_EQ(dict.front().value(), 2);
  dict["a"] = 7;
  dict.erase("b");
  EXPECT_THAT(dict.pairs(), ElementsAre(std::pair<std::string, int>("a", 7), std::pair<std::string, int>("c", 3)));
  EXPECT_EQ(*dict.find("c"), 3);
  EXPECT_EQ(dict.find("b"), nullptr);
  EXPECT_TRUE(dict.contains("c"));
  OrderedDict<std::string, int> more{{"z", 0}};
  dict.update(more);
  EXPECT_EQ(dict.size(), 3U);
  EXPECT_TRUE(dict == (OrderedDict<std::string, int>{{"a", 7}, {"c", 3}, {"z", 0}}));
  EXPECT_FALSE(dict == (OrderedDict<std::string, int>{{"c", 3}, {"a", 7}, {"z", 0}}));
  dict.clear();
  EXPECT_TRUE(dict.is_empty());
}

TEST(OrderedDict, ErrorsNameTheKey) {
  OrderedDict<std::string, int> dict("Thing");
  dict.insert("a", 1);
  expect_error<ValueError>([&] { dict["x"]; }, "Thing 'x' is not defined");
  expect_error<ValueError>([&] { dict.insert("a", 3); }, "Thing 'a' already defined");
  expect_error<ValueError>([&] { dict.erase("x"); }, "Thing 'x' doesn't exist");
  expect_error<IndexError>([&] { dict[7]; }, "Index 7 is out of bounds");
  expect_error<IndexError>([] { OrderedDict<std::string, int>().front(); }, "Called front() on an empty OrderedDict");
  expect_error<IndexError>([] { OrderedDict<std::string, int>().back(); }, "Called back() on an empty OrderedDict");
  EXPECT_THAT(dict.keys(), ElementsAre("a"));
}

// ---- What is listed

TEST(NnModule, ListsOwnTensorsFirstAndSharedOnesOnce) {
  const auto net = std::make_shared<Net>();
  EXPECT_THAT(net->named_parameters().keys(), ElementsAre("shared"));
  EXPECT_EQ(net->parameters().size(), 1U);
  EXPECT_THAT(net->named_parameters(true, false).keys(), ElementsAre("shared", "a.w", "again.w"));
  EXPECT_THAT(net->named_parameters(false).keys(), ElementsAre("shared"));
  EXPECT_THAT(net->named_buffers().keys(), ElementsAre("a.count", "a.mean"));
  EXPECT_THAT(net->named_buffers(true, false).keys(), ElementsAre("a.count", "a.mean", "again.count", "again.mean"));
  EXPECT_TRUE(net->named_buffers(false).is_empty());
  EXPECT_EQ(net->buffers().size(), 2U);
  EXPECT_TRUE(net->parameters()[0].is_same(net->a->w));
}

TEST(NnModule, ListsModulesDepthFirst) {
  const auto net = std::make_shared<Net>();
  const auto top = std::make_shared<nn::Module>("top");
  EXPECT_EQ(top->register_module("net", net), net);
  EXPECT_THAT(top->named_modules().keys(), ElementsAre("", "net", "net.a", "net.c", "net.again"));
  EXPECT_THAT(top->named_modules("pre").keys(),
              ElementsAre("pre", "pre.net", "pre.net.a", "pre.net.c", "pre.net.again"));
  EXPECT_THAT(top->named_modules("", false).keys(), ElementsAre("net", "net.a", "net.c", "net.again"));
  EXPECT_EQ(top->modules().size(), 5U);
  EXPECT_EQ(top->modules()[0], top);
  EXPECT_EQ(top->modules(false)[1], net->a);
  EXPECT_THAT(net->named_children().keys(), ElementsAre("a", "c", "again"));
  EXPECT_EQ(net->children()[1], net->c);
}

TEST(NnModule, AppliesFunctionsOfEveryKind) {
  const auto net = std::make_shared<Net>();
  std::string seen;
  net->apply([&](nn::Module& m) { seen += m.name() + " "; });
  EXPECT_EQ(seen, "user::Net user::Inner user::Leafy user::Inner ");
  seen.clear();
  const Net& constant = *net;
  constant.apply([&](const nn::Module& m) { seen += m.name().substr(6, 1); });
  EXPECT_EQ(seen, "NILI");
  seen.clear();
  net->apply([&](const std::string& key, nn::Module&) { seen += key + ","; });
  constant.apply([&](const std::string& key, const nn::Module&) { seen += key + ","; }, "p");
  EXPECT_EQ(seen, ",a,c,again,p,p.a,p.c,p.again,");
  seen.clear();
  net->apply([&](const std::shared_ptr<nn::Module>& m) { seen += m == net ? "self " : "below "; });
  net->apply([&](const std::string& key, const std::shared_ptr<nn::Module>&) { seen += key + ","; }, "q");
  EXPECT_EQ(seen, "self below below below q,q.a,q.c,q.again,");
}

TEST(NnModule, IsFoundAsItsType) {
  Mlp mlp(2, 3);
  nn::Module& base = *mlp;
  EXPECT_EQ(base.as<MlpImpl>(), mlp.get());
  EXPECT_EQ(base.as<Mlp>(), mlp.get());
  EXPECT_EQ(base.as<Net>(), nullptr);
  const nn::Module& constant = base;
  EXPECT_EQ(constant.as<Mlp>(), mlp.get());
}

TEST(NnModule, NamesAreTypes) {
  EXPECT_EQ(Net().name(), "user::Net");
  EXPECT_EQ(nn::Module("given").name(), "given");
  EXPECT_EQ(nn::Module().name(), "torch::nn::Module");
}

TEST(NnModule, PrintsAsLibtorchPrints) {
  EXPECT_EQ(printed(Net()),
            "user::Net(\n"
            "  (a): user::Inner\n"
            "  (c): Leafy(x=1)\n"
            "  (again): user::Inner\n"
            ")");
  std::ostringstream out;
  out << user::Parent();
  EXPECT_EQ(out.str(),
            "user::ParentImpl(\n"
            "  (mlp): user::MlpImpl(\n"
            "    (inner): user::Inner\n"
            "  )\n"
            "  (constant): user::ParentImpl::Constant\n"
            ")");
  EXPECT_EQ(str(nn::Module()), "torch::nn::Module");
}

// ---- Registering

TEST(NnModule, GivesTheRegisteredTensor) {
  nn::Module m;
  Tensor& w = m.register_parameter("w", ones({2}));
  EXPECT_TRUE(w.requires_grad());
  EXPECT_TRUE(w.is_same(m.parameters()[0]));
  EXPECT_FALSE(m.register_parameter("frozen", ones({2}), false).requires_grad());
  EXPECT_FALSE(m.register_buffer("b", ones({2})).requires_grad());
}

TEST(NnModule, RefusesBadNamesAndModules) {
  nn::Module m("m");
  const auto child = std::make_shared<nn::Module>();
  expect_error<ValueError>([&] { m.register_parameter("", ones({1})); }, "Parameter name must not be empty");
  expect_error<ValueError>([&] { m.register_parameter("a.b", ones({1})); },
                           "Parameter name must not contain a dot (got 'a.b')");
  expect_error<ValueError>([&] { m.register_buffer("", ones({1})); }, "Buffer name must not be empty");
  expect_error<ValueError>([&] { m.register_buffer("a.b", ones({1})); },
                           "Buffer name must not contain a dot (got 'a.b')");
  expect_error<ValueError>([&] { m.register_module("", child); }, "Submodule name must not be empty");
  expect_error<ValueError>([&] { m.register_module("a.b", child); },
                           "Submodule name must not contain a dot (got 'a.b')");
  m.register_parameter("a", ones({1}));
  m.register_buffer("a", ones({1}));
  m.register_module("a", child);
  expect_error<ValueError>([&] { m.register_parameter("a", ones({1})); }, "Parameter 'a' already defined");
  expect_error<ValueError>([&] { m.register_buffer("a", ones({1})); }, "Buffer 'a' already defined");
  expect_error<ValueError>([&] { m.register_module("a", child); }, "Submodule 'a' already defined");
  expect_error<ValueError>([&] { m.replace_module("z", child); }, "Submodule 'z' is not defined");
  expect_error<ValueError>([&] { m.unregister_module("z"); }, "No Module with name `z` is registered");
  expect_error<DTypeError>([&] { m.register_parameter("i", ones({1}, kLong)); },
                           "only Tensors of floating point and complex dtype can require gradients");
  expect_error<ValueError>([&] { m.register_module("n", std::shared_ptr<nn::Module>()); }, "is null");
  expect_error<Error>([&] { m.modules(); }, "not stored in a shared_ptr");
  EXPECT_EQ(m.modules(false).size(), 1U);
  EXPECT_EQ(m.parameters().size(), 1U);
}

TEST(NnModule, RefusesToContainItself) {
  const auto top = std::make_shared<nn::Module>("top"), below = std::make_shared<nn::Module>("below");
  top->register_module("below", below);
  expect_error<ValueError>([&] { below->register_module("top", top); }, "would contain itself");
  expect_error<ValueError>([&] { top->register_module("me", top); }, "would contain itself");
  below->register_module("leaf", std::make_shared<nn::Module>());
  expect_error<ValueError>([&] { below->replace_module("leaf", top); }, "would contain itself");
}

TEST(NnModule, ReplacesAndUnregistersModules) {
  nn::Module m;
  m.register_module("a", std::make_shared<Inner>());
  m.register_module("b", Mlp(2, 2));
  const Mlp other(3, 3);
  EXPECT_EQ(m.replace_module("a", other), other.ptr());
  EXPECT_THAT(m.named_children().keys(), ElementsAre("a", "b"));
  EXPECT_EQ(m.children()[0], other.ptr());
  m.unregister_module("a");
  EXPECT_THAT(m.named_children().keys(), ElementsAre("b"));
}

TEST(NnModule, HoldersShareAndMayBeEmpty) {
  Mlp mlp(2, 3), same = mlp;
  EXPECT_EQ(mlp.ptr(), same.ptr());
  EXPECT_EQ(mlp(ones({4, 2})).sizes().vec(), (std::vector<int64_t>{4, 3}));
  Mlp none = nullptr;
  EXPECT_TRUE(none.is_empty());
  EXPECT_FALSE(none);
  expect_error<ValueError>([&] { none->train(); }, "Accessing empty ModuleHolder");
  expect_error<ValueError>([&] { none(ones({1})); }, "Accessing empty ModuleHolder");
  nn::Module m;
  none = m.register_module("mlp", Mlp(1, 1));
  EXPECT_EQ(none.ptr(), m.children()[0]);
  const Mlp taken = std::move(same);
  EXPECT_EQ(taken.ptr(), mlp.ptr());
  EXPECT_TRUE(same.is_empty());  // NOLINT(bugprone-use-after-move): that it is empty is the point
  expect_error<ValueError>([&] { same->train(); }, "Accessing empty ModuleHolder");
  EXPECT_EQ(mlp.ptr().use_count(), 3);  // both holders, and the pointer itself
}

// ---- Modes, conversions, gradients

TEST(NnModule, TrainReachesAllModules) {
  user::Parent parent;
  EXPECT_TRUE(parent->is_training());
  parent->eval();
  for (const auto& m : parent->modules()) EXPECT_FALSE(m->is_training());
  parent->mlp->train();
  EXPECT_TRUE(parent->mlp->inner->is_training());
  EXPECT_FALSE(parent->is_training());
}

TEST(NnModule, ConvertsWhatHandlesShow) {
  Inner m;
  const Tensor w = m.w.detach().clone();
  std::vector<ScalarType> seen;
  m.w.register_hook([&](const Tensor& g) { seen.push_back(g.scalar_type()); });
  m.w.sum().backward();
  m.to(kFloat);
  EXPECT_EQ(m.w.scalar_type(), kFloat);
  EXPECT_TRUE(m.w.is_same(m.parameters()[0]));
  EXPECT_TRUE(m.w.requires_grad() && m.w.is_leaf());
  EXPECT_EQ(m.w.grad().scalar_type(), kFloat);
  EXPECT_EQ(m.mean.scalar_type(), kFloat);
  EXPECT_EQ(m.count.scalar_type(), kLong);
  expect_close(m.w, w.to(kFloat));
  // It still is the leaf it was: hooks run, and gradients add up in the new dtype.
  (m.w * 3).sum().backward();
  EXPECT_THAT(seen, ElementsAre(kDouble, kFloat));
  EXPECT_EQ(m.w.grad().scalar_type(), kFloat);
  EXPECT_EQ(values(m.w.grad()), (std::vector<double>{4, 4}));
}

TEST(NnModule, ConvertsToIntegersOnlyWithoutGradients) {
  Inner m;
  const auto outer = std::make_shared<nn::Module>("outer");
  outer->register_module("m", std::make_shared<Inner>());
  outer->register_parameter("last", ones({1}));
  expect_error<DTypeError>([&] { outer->to(kInt); },
                           "data set to a tensor that requires gradients must be floating point or complex dtype");
  for (const auto& item : outer->named_buffers())
    EXPECT_EQ(item->scalar_type(), item.key() == "m.count" ? kLong : kDouble) << item.key();
  m.w.requires_grad_(false);
  m.to(kInt);
  EXPECT_EQ(m.w.scalar_type(), kInt);
  EXPECT_EQ(m.mean.scalar_type(), kInt);
  EXPECT_EQ(m.count.scalar_type(), kInt);
}

TEST(NnModule, MovesToDevices) {
  Inner m;
  m.to(kMeta);
  EXPECT_TRUE(m.w.is_meta() && m.count.is_meta());
  EXPECT_EQ(m.w.scalar_type(), kDouble);
  Inner both;
  both.to(kMeta, kHalf);
  EXPECT_TRUE(both.w.is_meta());
  EXPECT_EQ(both.w.scalar_type(), kHalf);
  EXPECT_EQ(both.count.scalar_type(), kLong);
  Inner same;
  const void* memory = same.w.data_ptr();
  same.to(Device(kCPU), kDouble);
  EXPECT_EQ(same.w.data_ptr(), memory);
}

TEST(NnModule, ZeroGradLetsGoOrFills) {
  Net net;
  const auto run = [&] { (net.shared * net.shared).sum().backward(); };
  net.zero_grad();
  EXPECT_FALSE(net.shared.grad().defined());
  run();
  const Tensor held = net.shared.grad();
  net.zero_grad(false);
  EXPECT_EQ(values(net.a->w.grad()), (std::vector<double>{0, 0}));
  EXPECT_EQ(values(held), (std::vector<double>{0, 0}));
  run();
  net.zero_grad();
  EXPECT_FALSE(net.a->w.grad().defined());
}

// ---- Copies

TEST(NnModule, ClonesShareNothing) {
  user::Parent parent;
  parent->to(kDouble);
  parent->mlp->label = 9;
  parent->mlp->w.requires_grad_(false);
  parent->mlp->inner->eval();
  {
    const NoGradGuard quiet;
    for (Tensor& p : parent->parameters()) p.copy_(draw(p.sizes().vec()));
    for (Tensor& b : parent->buffers()) b.fill_(3);
  }
  const auto copy = std::dynamic_pointer_cast<user::ParentImpl>(parent->clone());
  ASSERT_TRUE(copy);
  const nn::NamedTensors before = parent->state_dict(), after = copy->state_dict();
  ASSERT_EQ(before.keys(), after.keys());
  for (const auto& item : before) {
    EXPECT_FALSE(after[item.key()].is_alias_of(*item)) << item.key();
    EXPECT_EQ(after[item.key()].scalar_type(), item->scalar_type()) << item.key();
    expect_close(after[item.key()], *item, 0);
  }
  EXPECT_EQ(copy->mlp->label, 9);
  EXPECT_FALSE(copy->mlp->w.requires_grad());
  EXPECT_TRUE(copy->constant->w.requires_grad());
  EXPECT_FALSE(copy->mlp->inner->is_training());
  EXPECT_TRUE(copy->is_training());
  // Members are the registered tensors.
  EXPECT_TRUE(copy->mlp->w.is_same(copy->named_parameters()["mlp.w"]));
  EXPECT_TRUE(copy->constant->w.is_same(copy->named_parameters()["constant.w"]));
  EXPECT_NE(copy->mlp.ptr(), parent->mlp.ptr());
  copy->constant->w.sum().backward();
  EXPECT_FALSE(parent->constant->w.grad().defined());
  const auto elsewhere = parent->clone(Device(kMeta));
  for (const Tensor& p : elsewhere->parameters()) EXPECT_TRUE(p.is_meta());
  for (const Tensor& p : parent->parameters()) EXPECT_TRUE(p.is_cpu());
}

TEST(NnModule, SaysWhatCannotBeCloned) {
  expect_error<NotSupportedError>([] { Net().clone(); }, "clone() has not been implemented for user::Net");
  expect_error<Error>([] { user::RegistersTooLate().clone(); },
                      "does not have the same number of parameters as the original module after calling reset()");
}

TEST(NnModule, StateDictHasAllNamesAndSharesMemory) {
  Net net;
  const nn::NamedTensors state = net.state_dict();
  EXPECT_THAT(state.keys(), ElementsAre("shared", "a.w", "a.count", "a.mean", "again.w", "again.count", "again.mean"));
  for (const auto& item : state) EXPECT_FALSE(item->requires_grad());
  EXPECT_TRUE(state["shared"].is_alias_of(net.a->w));
}

TEST(NnModule, LoadsAStateDict) {
  Inner from, to;
  to.to(kFloat);
  const Tensor handle = to.w;
  const void* memory = to.w.data_ptr();
  from.count.fill_(12);
  const nn::IncompatibleKeys keys = to.load_state_dict(from.state_dict());
  EXPECT_TRUE(keys.missing_keys.empty() && keys.unexpected_keys.empty());
  EXPECT_TRUE(to.w.is_same(handle) && to.w.data_ptr() == memory && to.w.requires_grad());
  EXPECT_EQ(to.w.scalar_type(), kFloat);
  expect_close(to.w, from.w.to(kFloat));
  expect_close(to.mean, from.mean.to(kFloat));
  EXPECT_EQ(to.count.item<int64_t>(), 12);
}

TEST(NnModule, LoadsItsOwnTensorsUnderOtherNames) {
  nn::Module m;
  const Tensor a = m.register_parameter("a", draw({3})), b = m.register_parameter("b", draw({3}));
  const Tensor was_a = a.detach().clone(), was_b = b.detach().clone();
  m.load_state_dict({{"a", b}, {"b", a}});
  expect_close(a, was_b, 0);
  expect_close(b, was_a, 0);
}

TEST(NnModule, LoadingListsEverythingThatIsWrongAndChangesNothing) {
  user::Parent parent;
  nn::NamedTensors state = parent->state_dict();
  std::vector<Tensor> before;
  for (const auto& item : state) before.push_back(item->clone());
  nn::NamedTensors bad;
  for (const auto& item : state)
    if (item.key() != "mlp.inner.w" && item.key() != "mlp.steps") bad.insert(item.key(), item->to(kDouble) + 1);
  bad["mlp.w"] = zeros({5});
  bad["constant.w"] = Tensor();
  bad.insert("what", zeros({1}));
  const auto message = [&](bool strict) {
    try {
      parent->load_state_dict(bad, strict);
    } catch (const ValueError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(true),
            "load_state_dict: Error(s) in loading state_dict for user::ParentImpl, which is unchanged:\n"
            "\tMissing key(s) in state_dict: \"mlp.steps\", \"mlp.inner.w\".\n"
            "\tUnexpected key(s) in state_dict: \"what\".\n"
            "\tsize mismatch for mlp.w: copying a param with shape [5] from the state dict, the shape in the current "
            "model is [3, 2].\n"
            "\tundefined tensor for constant.w: give one of shape [3].");
  EXPECT_THAT(message(false), testing::AllOf(HasSubstr("size mismatch for mlp.w"), testing::Not(HasSubstr("Missing"))));
  size_t i = 0;
  for (const auto& item : parent->state_dict()) expect_close(*item, before[i++], 0);

  bad.erase("mlp.w");
  bad.erase("constant.w");
  const nn::IncompatibleKeys keys = parent->load_state_dict(bad, false);
  EXPECT_THAT(keys.missing_keys, ElementsAre("mlp.w", "mlp.steps", "mlp.inner.w", "constant.w"));
  EXPECT_THAT(keys.unexpected_keys, ElementsAre("what"));
  expect_close(parent->mlp->inner->mean, bad["mlp.inner.mean"], 0);
}

TEST(NnModule, LoadingRefusesWhatCannotBeWritten) {
  nn::Module m;
  m.register_buffer("wide", zeros({1}).expand({3}));
  m.register_buffer("real", zeros({2}));
  expect_error<ValueError>(
      [&] {
        m.load_state_dict({{"wide", ones({3})}, {"real", ones({2})}});
      },
      "wide of the module");
  expect_error<ValueError>([&] { m.load_state_dict({{"real", ones({2}, kComplexFloat)}}, false); }, "dtype mismatch");
  expect_error<ValueError>([&] { m.load_state_dict({{"real", ones({2}, kMeta)}}, false); }, "no data for real");
  EXPECT_EQ(values(m.buffers()[1]), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace facula
