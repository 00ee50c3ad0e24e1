// A network in the words of libtorch: its headers, its namespace, its macros. Nothing here names Facula.
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/ordered_dict.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct DenseImpl : torch::nn::Cloneable<DenseImpl> {
  DenseImpl(int64_t in, int64_t out) : in_(in), out_(out) { reset(); }
  void reset() override {
    weight = register_parameter("weight", torch::randn({out_, in_}) * 0.3);
    bias = register_parameter("bias", torch::zeros({out_}));
  }
  void pretty_print(std::ostream& stream) const override { stream << "Dense(" << in_ << ", " << out_ << ")"; }
  torch::Tensor forward(torch::Tensor x) { return torch::matmul(x, weight.t()) + bias; }
  int64_t in_, out_;
  torch::Tensor weight, bias;
};
TORCH_MODULE(Dense);

struct Net : torch::nn::Module {
  Net() : fc1(register_module("fc1", Dense(2, 8))), fc2(register_module("fc2", Dense(8, 1))) {
    seen = register_buffer("seen", torch::zeros({}, torch::kLong));
  }
  torch::Tensor forward(torch::Tensor x) {
    if (is_training()) seen += x.size(0);
    return fc2->forward(torch::tanh(fc1(x)));
  }
  Dense fc1, fc2;
  torch::Tensor seen;
};

void halve(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  if (auto* dense = module.as<Dense>()) dense->weight.mul_(0.5);
}

TEST(TorchNn, TrainsANetwork) {
  torch::manual_seed(3);
  auto net = std::make_shared<Net>();
  net->apply(halve);
  auto x = torch::rand({64, 2}), y = x.sum(1, true);
  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    net->zero_grad();
    auto loss = (net->forward(x) - y).pow(2).mean();
    loss.backward();
    torch::NoGradGuard no_grad;
    for (auto& p : net->parameters()) p.sub_(p.grad(), 0.2);
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 20);
  EXPECT_EQ(net->seen.item<int64_t>(), 300 * 64);
  net->eval();
  net->forward(x);
  EXPECT_EQ(net->named_buffers()["seen"].item<int64_t>(), 300 * 64);
  std::vector<std::string> names;
  for (const auto& pair : net->named_parameters()) {
    names.push_back(pair.key());
    EXPECT_EQ(pair.value().dtype(), torch::kFloat);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  std::ostringstream out;
  out << net->fc1;
  EXPECT_EQ(out.str(), "Dense(2, 8)");
  auto copy = std::dynamic_pointer_cast<DenseImpl>(net->fc1->clone());
  EXPECT_TRUE(torch::equal(copy->weight, net->fc1->weight));
  net->to(torch::kFloat64);
  EXPECT_EQ(net->fc2->weight.dtype(), torch::kFloat64);
  EXPECT_EQ(net->forward(x.to(torch::kFloat64)).dtype(), torch::kDouble);
  torch::OrderedDict<std::string, torch::Tensor> params = net->named_parameters();
  EXPECT_TRUE(params["fc1.bias"].is_same(net->fc1->bias));
  EXPECT_THROW(params["fc3.bias"], c10::Error);
}

}  // namespace
