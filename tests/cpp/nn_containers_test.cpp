// Containers, modules of any type, hooks, copies, and how modules print: as libtorch prints them.
#include "cpp/expect.h"
#include "cpp/seed.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace facula;
using facula_test::expect_error;

template <class T>
std::string printed(const T& what) {
  std::ostringstream out;
  out << what;
  return out.str();
}

TEST(Printing, IsThatOfLibtorch) {
  using namespace facula::nn;
  EXPECT_EQ(printed(Linear(LinearOptions(3, 2).bias(false))),
            "torch::nn::Linear(in_features=3, out_features=2, bias=false)");
  EXPECT_EQ(
      printed(Conv2d(Conv2dOptions(3, 6, {4, 5}).stride({2, 1}).groups(3).padding({1, 2}).padding_mode(kCircular))),
      "torch::nn::Conv2d(3, 6, kernel_size=[4, 5], stride=[2, 1], padding=[1, 2], groups=3, padding_mode=kCircular)");
  EXPECT_EQ(printed(Conv1d(Conv1dOptions(1, 2, 3).bias(false).dilation(2))),
            "torch::nn::Conv1d(1, 2, kernel_size=3, stride=1, dilation=2, bias=false)");
  EXPECT_EQ(
      printed(MaxPool2d(MaxPool2dOptions(5).stride(2))),
      "torch::nn::MaxPool2d(kernel_size=[5, 5], stride=[2, 2], padding=[0, 0], dilation=[1, 1], ceil_mode=false)");
  EXPECT_EQ(printed(AvgPool2d(5)), "torch::nn::AvgPool2d(kernel_size=[5, 5], stride=[5, 5], padding=[0, 0])");
  EXPECT_EQ(printed(AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({5, std::nullopt}))),
            "torch::nn::AdaptiveAvgPool2d(output_size=[5, None])");
  EXPECT_EQ(printed(BatchNorm1d(BatchNorm1dOptions(4).eps(0.5).momentum(0.1).affine(false))),
            "torch::nn::BatchNorm1d(4, eps=0.5, momentum=0.1, affine=false, track_running_stats=true)");
  EXPECT_EQ(printed(LayerNorm(LayerNormOptions({2, 2}).elementwise_affine(false).eps(2e-5))),
            "torch::nn::LayerNorm([2, 2], eps=2e-05, elementwise_affine=false)");
  EXPECT_EQ(printed(GroupNorm(2, 4)), "torch::nn::GroupNorm(2, 4, eps=1e-05, affine=true)");
  EXPECT_EQ(printed(Embedding(EmbeddingOptions(10, 2).padding_idx(3).max_norm(2))),
            "torch::nn::Embedding(num_embeddings=10, embedding_dim=2, padding_idx=3, max_norm=2)");
  EXPECT_EQ(printed(LSTM(LSTMOptions(128, 64).num_layers(3).dropout(0.2))),
            "torch::nn::LSTM(input_size=128, hidden_size=64, num_layers=3, dropout=0.2)");
  EXPECT_EQ(printed(GRUCell(20, 40)), "torch::nn::GRUCell(20, 40)");
  EXPECT_EQ(printed(Dropout(DropoutOptions(0.25).inplace(true))), "torch::nn::Dropout(p=0.25, inplace=true)");
  EXPECT_EQ(printed(ELU(ELUOptions().alpha(0.5))), "torch::nn::ELU(alpha=0.5)");
  EXPECT_EQ(printed(ELU(ELUOptions().inplace(true))), "torch::nn::ELU(alpha=1, inplace=true)");
  EXPECT_EQ(printed(ReLU()), "torch::nn::ReLU()");
  EXPECT_EQ(printed(Softshrink(0.42)), "torch::nn::Softshrink(0.42)");
  EXPECT_EQ(printed(Threshold(24, 42)), "torch::nn::Threshold(threshold=24, value=42)");
  EXPECT_EQ(printed(Unflatten(UnflattenOptions(0, {2, 2}))), "torch::nn::Unflatten(dim=0, unflattened_size={2, 2})");
  EXPECT_EQ(printed(CrossEntropyLoss()), "torch::nn::CrossEntropyLoss()");
  EXPECT_EQ(printed(Sequential(Linear(1, 2), Functional(relu))),
            "torch::nn::Sequential(\n  (0): torch::nn::Linear(in_features=1, out_features=2, bias=true)\n"
            "  (1): torch::nn::Functional()\n)");
}

TEST(Containers, SequentialPassesOn) {
  using namespace facula::nn;
  Sequential net(Linear(3, 4), Functional(leaky_relu, 0.2), Linear(4, 2));
  const Tensor x = randn({5, 3});
  Linear first(net->ptr<LinearImpl>(0)), last(net->ptr<LinearImpl>(2));
  EXPECT_TRUE(equal(net(x), last(leaky_relu(first(x), 0.2))));
  EXPECT_EQ(net->named_parameters().keys(), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  Sequential named({{"a", Linear(3, 4)}, {"b", net}});
  EXPECT_EQ(named->named_children().keys(), (std::vector<std::string>{"a", "b"}));
  named->push_back("c", ReLU());
  EXPECT_EQ(named->size(), 3U);
  Sequential nested(net, Linear(2, 1));
  EXPECT_EQ(nested->forward(x).sizes(), IntArrayRef({5, 1}));
  expect_error<ValueError>([] { Sequential()->forward(ones({1})); }, "empty Sequential");
  expect_error<ValueError>([&] { net->forward<int>(x); }, "you asked for type int");
  expect_error<ValueError>([&] { net->forward(x, x); }, "expects 1 argument(s)");
  expect_error<ValueError>([&] { net->forward(5); },
                           "Expected argument #0 to be of type torch::Tensor, but received value of type int");
  // A module whose forward has defaults is called with fewer arguments, and gives what it gives.
  Sequential recurrent(Linear(3, 3), GRU(3, 4));
  EXPECT_EQ(std::get<0>((recurrent->forward<std::tuple<Tensor, Tensor>>(ones({6, 2, 3})))).sizes(),
            IntArrayRef({6, 2, 4}));
}

TEST(Containers, CopiesAreDeep) {
  using namespace facula::nn;
  Sequential net(Linear(3, 4), BatchNorm1d(4), LSTM(4, 2));
  net->eval();
  const auto copy = std::dynamic_pointer_cast<SequentialImpl>(net->clone());
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copy->is_training());
  const auto mine = net->state_dict(), theirs = copy->state_dict();
  ASSERT_EQ(mine.keys(), theirs.keys());
  for (const auto& item : mine) {
    EXPECT_TRUE(equal(item.value(), theirs[item.key()])) << item.key();
    EXPECT_NE(item.value().data_ptr(), theirs[item.key()].data_ptr()) << item.key();
  }
  EXPECT_EQ(copy->ptr(0)->path(), "0");
  // Also of tensors that came with options.
  Embedding table = Embedding::from_pretrained(ones({2, 3}));
  CrossEntropyLoss loss(CrossEntropyLossOptions().weight(ones({3})));
  for (const std::shared_ptr<Module>& module :
       {std::shared_ptr<Module>(table.ptr()), std::shared_ptr<Module>(loss.ptr())}) {
    const auto twin = module->clone();
    EXPECT_NE(twin->state_dict()["weight"].data_ptr(), module->state_dict()["weight"].data_ptr());
  }
  // The clone of a network that has a Sequential has modules that know their place in it.
  struct Outer : Cloneable<Outer> {
    Outer() { reset(); }
    void reset() override { body = register_module("body", Sequential(Linear(2, 2))); }
    Sequential body{nullptr};
  };
  const auto outer = std::make_shared<Outer>();
  const auto twin = std::dynamic_pointer_cast<Outer>(outer->clone());
  EXPECT_EQ(twin->body->ptr(0)->path(), "body.0");
}

TEST(Containers, ListsAndDicts) {
  using namespace facula::nn;
  ModuleList list(Linear(1, 2), ReLU());
  list->insert(1, Linear(2, 3));
  EXPECT_EQ(list->size(), 3U);
  EXPECT_EQ(list->at<LinearImpl>(1).options.out_features(), 3);
  EXPECT_EQ(list->named_children().keys(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(list->ptr(2)->path(), "2");
  expect_error<IndexError>([&] { list[3]; }, "out of range");
  expect_error<ValueError>([&] { list->at<ReLUImpl>(0); }, "asked for type torch::nn::ReLUImpl");
  ModuleDict dict;
  dict->update(
      std::vector<std::pair<std::string, std::shared_ptr<Module>>>{{"a", Linear(1, 2).ptr()}, {"b", ReLU().ptr()}});
  EXPECT_TRUE(dict->contains("b"));
  EXPECT_EQ(dict->parameters().size(), 2U);
  dict->pop("a");
  EXPECT_EQ(dict->parameters().size(), 0U);
  ParameterList parameters(randn({2}, requires_grad()), randn({3}));
  EXPECT_EQ(parameters->parameters().size(), 2U);
  EXPECT_TRUE(parameters[0].requires_grad());
  EXPECT_FALSE(parameters[1].requires_grad());
  ParameterDict by_name;
  by_name->insert("w", randn({2}));
  EXPECT_EQ(by_name->named_parameters().keys(), (std::vector<std::string>{"w"}));
}

TEST(Hooks, SeeAndChangeACall) {
  using namespace facula::nn;
  Linear linear(2, 2);
  std::vector<std::string> seen;
  const int64_t before = linear->register_forward_pre_hook([&](Module& module, std::span<Tensor* const> inputs) {
    seen.push_back(module.name());
    *inputs[0] = *inputs[0] * 2;
  });
  const int64_t behind =
      linear->register_forward_hook([&](Module&, std::span<Tensor* const> inputs, std::span<Tensor* const> outputs) {
        seen.push_back(str(inputs.size(), " ", outputs.size()));
        *outputs[0] = *outputs[0] + 1;
      });
  const Tensor x = randn({3, 2});
  EXPECT_TRUE(allclose(linear(x), linear->forward(x * 2) + 1));
  EXPECT_TRUE(allclose(Sequential(linear)->forward(x), linear->forward(x * 2) + 1));
  EXPECT_EQ(seen, (std::vector<std::string>{"torch::nn::LinearImpl", "1 1", "torch::nn::LinearImpl", "1 1"}));
  linear->remove_hook(before);
  linear->remove_hook(behind);
  EXPECT_TRUE(equal(linear(x), linear->forward(x)));
  expect_error<ValueError>([&] { linear->remove_hook(before); }, "has no hook");
}

}  // namespace
