// Reads handwritten digits with a small convolutional network: a dataset, a loader with worker threads, training, a
// test.
#include "common.h"

#include <facula/data.h>

#include <cmath>
#include <iostream>

using namespace facula;
namespace F = facula::nn::functional;

struct NetImpl : nn::Module {
  Tensor forward(const Tensor& images) {  // (batch, 1, 8, 8)
    Tensor x = F::relu(norm1(conv1(images)));
    x = F::max_pool2d(F::relu(norm2(conv2(x))), F::MaxPool2dFuncOptions(2));
    return out(dropout(F::relu(hidden(x.flatten(1)))));
  }

  nn::Conv2d conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 32, 3).padding(1)));
  nn::Conv2d conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)));
  nn::BatchNorm2d norm1 = register_module("norm1", nn::BatchNorm2d(32));
  nn::BatchNorm2d norm2 = register_module("norm2", nn::BatchNorm2d(64));
  nn::Linear hidden = register_module("hidden", nn::Linear(64 * 4 * 4, 128));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.3));
  nn::Linear out = register_module("out", nn::Linear(128, 10));
};
FACULA_MODULE(Net);

// A digit at a time, moved by up to one pixel: the same number, written elsewhere.
struct MovedDigits : data::Dataset<MovedDigits> {
  explicit MovedDigits(examples::Digits the_digits) : digits(std::move(the_digits)) {}

  data::Example<> get(size_t index) override {
    const auto i = static_cast<int64_t>(index);
    const Tensor wide = F::pad(digits.images[i].unsqueeze(0), F::PadFuncOptions({1, 1, 1, 1}));
    const Tensor by = randint(3, {2});
    return {wide.narrow(1, by[0].item<int64_t>(), 8).narrow(2, by[1].item<int64_t>(), 8), digits.labels[i]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(digits.labels.size(0)); }

  examples::Digits digits;
};

int main(int argc, char** argv) {
  int64_t want = 0;
  const auto options = examples::read_options(argc, argv, 700, {{"--want", &want}});
  const examples::Digits learn = examples::load_digits(options.data, false);
  const examples::Digits test = examples::load_digits(options.data, true);

  Net net;
  net->to(options.device);
  if (!options.quiet) std::cout << nn::summary(*net) << "\n";

  auto loader = data::make_data_loader(MovedDigits(learn).map(data::transforms::Stack<>()),
                                       data::DataLoaderOptions(64).workers(1).drop_last(true));
  optim::AdamW optimizer(net->parameters(), optim::AdamWOptions(2e-3));
  optim::CosineAnnealingLR schedule(optimizer, options.steps);
  examples::Training training(options, "digits");
  for (int64_t step = 0; step < options.steps;)
    for (auto& batch : *loader) {
      if (step++ == options.steps) break;
      optimizer.zero_grad();
      const Tensor scores = net(batch.data.to(options.device));
      const Tensor loss = F::cross_entropy(scores, batch.target.to(options.device));
      loss.backward();
      optimizer.step();
      schedule.step();
      training.step(loss.item<double>());
    }
  training.finish();

  NoGradGuard no_grad;
  net->eval();
  const Tensor seen = net(test.images.unsqueeze(1).to(options.device)).argmax(1).cpu();
  const auto right = (seen == test.labels).sum().item<int64_t>(), count = test.labels.size(0);
  const double percent = 100.0 * static_cast<double>(right) / static_cast<double>(count);
  std::printf("test accuracy: %.2f %% (%lld of %lld)\n", percent, static_cast<long long>(right),
              static_cast<long long>(count));
  if (percent < static_cast<double>(want)) {
    std::printf("that is less than the %lld %% that were wanted\n", static_cast<long long>(want));
    return 1;
  }
}
