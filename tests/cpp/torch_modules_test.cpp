// Networks in the words of libtorch, made of its modules: nothing here names Facula, and nothing here is changed from what
// compiles there.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

namespace F = torch::nn::functional;

struct ConvNetImpl : torch::nn::Module {
  explicit ConvNetImpl(int64_t classes)
      : conv1(torch::nn::Conv2dOptions(1, 8, /*kernel_size=*/3).stride(1).padding(1).bias(false)),
        bn1(8),
        conv2(register_module("conv2",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, {3, 3}).padding({1, 1}).groups(2)))),
        pool(torch::nn::MaxPool2dOptions({2, 2}).stride({2, 2})),
        features(torch::nn::BatchNorm2d(16), torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)),
                 torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({2, 2})), torch::nn::Flatten()) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("pool", pool);
    register_module("features", features);
    fc = register_module("fc", torch::nn::Linear(16 * 2 * 2, classes));
    drop = register_module("drop", torch::nn::Dropout(torch::nn::DropoutOptions().p(0.1)));
    for (auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>())
        torch::nn::init::kaiming_normal_(conv->weight, 0.0, torch::kFanOut, torch::kReLU);
      else if (auto* norm = module->as<torch::nn::BatchNorm2dImpl>()) torch::nn::init::constant_(norm->weight, 1);
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    x = pool(F::relu(bn1->forward(conv1->forward(x))));
    x = features->forward(conv2(x));
    x = F::dropout(drop(x), F::DropoutFuncOptions().p(0.1).training(is_training()));
    return F::log_softmax(fc(x), F::LogSoftmaxFuncOptions(1));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Conv2d conv2{nullptr};
  torch::nn::MaxPool2d pool;
  torch::nn::Sequential features;
  torch::nn::Linear fc{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(ConvNet);

struct TaggerImpl : torch::nn::Module {
  TaggerImpl(int64_t words, int64_t width, int64_t tags)
      : embedding(register_module("embedding", torch::nn::Embedding(words, width))),
        lstm(register_module("lstm",
                             torch::nn::LSTM(torch::nn::LSTMOptions(width, width).num_layers(2).batch_first(true)))),
        head(register_module("head", torch::nn::Linear(width, tags))) {}
  torch::Tensor forward(const torch::Tensor& tokens) {
    auto [output, state] = lstm->forward(embedding->forward(tokens));
    auto& [hidden, cell] = state;
    EXPECT_EQ(hidden.sizes(), cell.sizes());
    return head->forward(output);
  }
  torch::nn::Embedding embedding;
  torch::nn::LSTM lstm;
  torch::nn::Linear head;
};
TORCH_MODULE(Tagger);

// A step of gradient descent, as programs write it that have no optimizer.
void descend(torch::nn::Module& module, double rate) {
  torch::NoGradGuard no_grad;
  for (auto& p : module.parameters())
    if (p.grad().defined()) p.sub_(p.grad() * rate);
}

TEST(TorchModules, AConvolutionalNetworkLearns) {
  torch::manual_seed(1);
  ConvNet net(2);
  net->train();
  // Images with a bright upper or lower half.
  auto labels = torch::randint(0, 2, {32}, torch::kLong);
  auto images = torch::rand({32, 1, 8, 8});
  for (int64_t i = 0; i < 32; ++i) images[i].narrow(1, labels[i].item<int64_t>() * 4, 4).add_(1.0);
  double first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    net->zero_grad();
    auto loss = F::nll_loss(net->forward(images), labels);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 5.0);
    descend(*net, 0.2);
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 3);
  net->eval();
  auto correct = net->forward(images).argmax(1).eq(labels).sum().item<int64_t>();
  EXPECT_GE(correct, 30);
  EXPECT_EQ(net->named_buffers()["bn1.num_batches_tracked"].item<int64_t>(), 30);
}

TEST(TorchModules, ARecurrentNetworkLearns) {
  torch::manual_seed(2);
  Tagger net(7, 12, 2);
  auto tokens = torch::randint(0, 7, {16, 5}, torch::kLong);
  auto tags = tokens.remainder(2);
  torch::nn::CrossEntropyLoss criterion(torch::nn::CrossEntropyLossOptions().reduction(torch::kMean));
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    net->zero_grad();
    auto loss = criterion(net->forward(tokens).view({-1, 2}), tags.view({-1}));
    loss.backward();
    descend(*net, 2.0);
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 3);
}

TEST(TorchModules, AttentionAndItsMasks) {
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(16, 4).dropout(0.0).activation(torch::kGELU));
  torch::nn::TransformerEncoder encoder(torch::nn::TransformerEncoderOptions(layer, 2));
  auto src = torch::rand({6, 3, 16});
  EXPECT_EQ(encoder(src).sizes(), src.sizes());
  torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(16, 4));
  auto [out, weights] = attention(src, src, src, /*key_padding_mask=*/torch::Tensor(), /*need_weights=*/true);
  EXPECT_EQ(weights.sizes(), (std::vector<int64_t>{3, 6, 6}));
  EXPECT_TRUE(torch::allclose(weights.sum(-1), torch::ones({3, 6})));
}

TEST(TorchModules, OptionsAndFunctionalForms) {
  auto options = torch::nn::Conv2dOptions(3, 4, 5).stride(2).padding(torch::kSame).padding_mode(torch::kReflect);
  EXPECT_EQ(options.in_channels(), 3);
  EXPECT_EQ(*options.kernel_size(), (std::array<int64_t, 2>{5, 5}));
  EXPECT_TRUE(std::holds_alternative<torch::enumtype::kReflect>(options.padding_mode()));
  EXPECT_EQ(std::get_if<torch::enumtype::kCircular>(&options.padding_mode()), nullptr);
  EXPECT_NE(torch::get_if<torch::enumtype::kReflect>(&options.padding_mode()), nullptr);
  EXPECT_EQ(options.padding_mode().index(), 1u);
  EXPECT_EQ(torch::enumtype::get_enum_name(options.padding_mode()), "kReflect");
  EXPECT_TRUE(std::holds_alternative<torch::enumtype::kSame>(options.padding()));
  EXPECT_FALSE(std::holds_alternative<torch::enumtype::kValid>(options.padding()));
  options.padding({1, 2});
  EXPECT_EQ(**std::get_if<torch::ExpandingArray<2>>(&options.padding()), (std::array<int64_t, 2>{1, 2}));
  EXPECT_TRUE(options.padding() == torch::nn::Conv2dOptions(1, 1, 1).padding({1, 2}).padding());
  auto x = torch::randn({2, 3, 6, 6});
  EXPECT_EQ(F::max_pool2d(x, F::MaxPool2dFuncOptions(3).stride(2)).sizes(), (std::vector<int64_t>{2, 3, 2, 2}));
  EXPECT_EQ(F::avg_pool2d(x, torch::nn::AvgPool2dOptions({3, 2})).sizes(), (std::vector<int64_t>{2, 3, 2, 3}));
  EXPECT_EQ(F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(3)).sizes(), (std::vector<int64_t>{2, 3, 3, 3}));
  EXPECT_EQ(F::conv2d(x, torch::randn({4, 3, 3, 3}), F::Conv2dFuncOptions().stride(1).padding(torch::kValid)).sizes(),
            (std::vector<int64_t>{2, 4, 4, 4}));
  EXPECT_TRUE(
      torch::allclose(F::layer_norm(x, F::LayerNormFuncOptions({6})).mean(-1), torch::zeros({2, 3, 6}), 0, 1e-5));
  EXPECT_TRUE(torch::allclose(F::softmax(x, 1).sum(1), torch::ones({2, 6, 6})));
  EXPECT_TRUE(torch::equal(F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.2)), torch::leaky_relu(x, 0.2)));
  EXPECT_TRUE(torch::allclose(F::smooth_l1_loss(x, x * 0), torch::smooth_l1_loss(x, x * 0)));
  EXPECT_TRUE(torch::equal(F::embedding(torch::tensor({1}), torch::eye(3)), torch::eye(3).narrow(0, 1, 1)));
  EXPECT_TRUE(torch::equal(F::one_hot(torch::tensor({2}), 3), torch::tensor({{0, 0, 1}})));
  torch::nn::L1Loss loss(torch::kSum);
  EXPECT_TRUE(torch::allclose(loss(x, x * 0), x.abs().sum()));
}

TEST(TorchModules, ContainersAndAnyModule) {
  torch::nn::AnyModule any(torch::nn::Linear(3, 4));
  EXPECT_EQ(any.forward(torch::ones({2, 3})).sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(any.get<torch::nn::LinearImpl>().options.out_features(), 4);
  EXPECT_THROW(any.get<torch::nn::ReLUImpl>(), c10::Error);
  torch::OrderedDict<std::string, torch::nn::AnyModule> ordered;
  ordered.insert("first", torch::nn::AnyModule(torch::nn::Linear(3, 4)));
  ordered.insert("second", torch::nn::AnyModule(torch::nn::ReLU()));
  torch::nn::Sequential sequential(std::move(ordered));
  EXPECT_EQ(sequential->named_children().keys(), (std::vector<std::string>{"first", "second"}));
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < 3; ++i) list->push_back(torch::nn::Linear(i + 1, i + 2));
  auto x = torch::ones({1, 1});
  for (const auto& module : *list) x = module->as<torch::nn::Linear>()->forward(x);
  EXPECT_EQ(x.size(1), 4);
  std::ostringstream out;
  out << list;
  EXPECT_EQ(out.str().substr(0, 68), "torch::nn::ModuleList(\n  (0): torch::nn::Linear(in_features=1, out_f");
}

}  // namespace
