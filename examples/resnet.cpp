// ResNet-18, or -50 with --depth 50, reads digits in small coloured pictures. Written with libtorch's names and header.
#include "common.h"

#include <torch/torch.h>

#include <iostream>

namespace F = torch::nn::functional;
using torch::Tensor;

torch::nn::Conv2d conv(int64_t from, int64_t to, int64_t kernel, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// What a block computes is added to its input, which passes it as it is, or through a 1 x 1 convolution where the shape
// changes. The block of ResNet-18 has two convolutions of 3 x 3; that of ResNet-50 narrows, convolves, and widens
// again.
struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(int64_t from, int64_t width, int64_t stride, bool bottleneck) {
    const int64_t to = bottleneck ? 4 * width : width;
    const auto add = [&](int64_t in, int64_t out, int64_t kernel, int64_t by) {
      if (body->size() > 0) body->push_back(torch::nn::ReLU());
      body->push_back(conv(in, out, kernel, by));
      body->push_back(torch::nn::BatchNorm2d(out));
    };
    if (bottleneck) add(from, width, 1, 1);
    add(bottleneck ? width : from, width, 3, stride);
    if (bottleneck) add(width, to, 1, 1);
    else add(width, to, 3, 1);
    register_module("body", body);
    if (stride != 1 || from != to)
      shortcut =
          register_module("shortcut", torch::nn::Sequential(conv(from, to, 1, stride), torch::nn::BatchNorm2d(to)));
  }
  Tensor forward(const Tensor& x) {
    return torch::relu(body->forward(x) + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }

  torch::nn::Sequential body, shortcut{nullptr};
};
TORCH_MODULE(ResidualBlock);

struct ResNetImpl : torch::nn::Module {
  // With the stem for small pictures: no pooling, and no stride in the first layers.
  ResNetImpl(int64_t depth, int64_t width, int64_t classes) {
    TORCH_CHECK(depth == 18 || depth == 50, "resnet: --depth must be 18 or 50, got ", depth);
    const std::vector<int> counts = depth == 18 ? std::vector<int>{2, 2, 2, 2} : std::vector<int>{3, 4, 6, 3};
    const bool bottleneck = depth == 50;
    stem = register_module("stem",
                           torch::nn::Sequential(conv(3, width, 3), torch::nn::BatchNorm2d(width), torch::nn::ReLU()));
    int64_t from = width;
    for (size_t stage = 0; stage < counts.size(); ++stage, width *= 2)
      for (int i = 0; i < counts[stage]; ++i) {
        blocks->push_back(ResidualBlock(from, width, stage > 0 && i == 0 ? 2 : 1, bottleneck));
        from = bottleneck ? 4 * width : width;
      }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(from, classes));
  }
  Tensor forward(const Tensor& x) {
    const Tensor features = blocks->forward(stem->forward(x));
    return head(F::adaptive_avg_pool2d(features, F::AdaptiveAvgPool2dFuncOptions(1)).flatten(1));
  }

  torch::nn::Sequential stem{nullptr}, blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

// Pictures (count, 3, 32, 32): each digit is enlarged, moved a little, and drawn in a light colour on a dark one,
// with noise.
Tensor paint(const Tensor& digits) {
  const int64_t count = digits.size(0);
  const auto options = digits.options();
  const Tensor large = digits.repeat_interleave(3, 1).repeat_interleave(3, 2);  // 24 x 24
  const Tensor wide = F::pad(large, F::PadFuncOptions({6, 6, 6, 6}));           // 36 x 36, of which 32 x 32 are seen
  const auto whole = options.dtype(torch::kLong);
  const Tensor window = torch::arange(32, whole);
  const Tensor rows = torch::randint(5, {count, 1}, whole) + window,
               columns = torch::randint(5, {count, 1}, whole) + window;
  const Tensor which = torch::arange(count, whole).view({count, 1, 1});
  const Tensor ink = wide.index({which, rows.unsqueeze(2), columns.unsqueeze(1)}).unsqueeze(1);
  const Tensor back = 0.4 * torch::rand({count, 3, 1, 1}, options);
  const Tensor front = 1 - 0.4 * torch::rand({count, 3, 1, 1}, options);
  return back + (front - back) * ink + 0.1 * torch::randn({count, 3, 32, 32}, options);
}

int main(int argc, char** argv) {
  int64_t depth = 18, width = 64, batch = 32;
  const auto options =
      examples::read_options(argc, argv, 200, {{"--depth", &depth}, {"--width", &width}, {"--batch", &batch}});
  const examples::Digits learn = examples::load_digits(options.data, false);
  const examples::Digits test = examples::load_digits(options.data, true);
  const Tensor images = learn.images.to(options.device), labels = learn.labels.to(options.device);

  ResNet net(depth, width, 10);
  net->to(options.device);
  if (!options.quiet)
    std::cout << "ResNet-" << depth << " with " << torch::nn::module_size(*net).parameters << " parameters on "
              << options.device << "\n";

  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(2e-3).weight_decay(0.05));
  torch::optim::OneCycleLR schedule(optimizer, torch::optim::OneCycleLROptions(2e-3, options.steps).pct_start(0.2));
  examples::Training training(options, "resnet");
  for (int64_t i = 0; i < options.steps; ++i) {
    const Tensor chosen =
        torch::randint(labels.size(0), {batch}, torch::TensorOptions(torch::kLong).device(options.device));
    optimizer.zero_grad();
    const Tensor scores = net(paint(images.index_select(0, chosen)));
    const Tensor loss = F::cross_entropy(scores, labels.index_select(0, chosen));
    loss.backward();
    optimizer.step();
    schedule.step();
    training.step(loss.item<double>());
  }
  training.finish();

  torch::NoGradGuard no_grad;
  net->eval();
  const Tensor seen = net(paint(test.images.to(options.device))).argmax(1).cpu();
  std::printf("test accuracy: %.2f %%\n", 100 * (seen == test.labels).to(torch::kFloat).mean().item<double>());
}
