// A language model of the older kind: an LSTM reads Newton's Opticks and keeps what it read in its state.
#include "common.h"

#include <iostream>

using namespace facula;
namespace F = facula::nn::functional;

using State = std::tuple<Tensor, Tensor>;

struct ModelImpl : nn::Module {
  ModelImpl(int64_t count, int64_t width, int64_t layers)
      : letters(register_module("letters", nn::Embedding(count, width / 4))),
        lstm(register_module("lstm", nn::LSTM(nn::LSTMOptions(width / 4, width).num_layers(layers).batch_first(true)))),
        head(register_module("head", nn::Linear(width, count))) {}

  // From letters (batch, length) and what was kept of those before to scores for what comes next, and what to keep.
  std::tuple<Tensor, State> forward(const Tensor& codes, std::optional<State> state = {}) {
    const auto [seen, next] = lstm(letters(codes), std::move(state));
    return {head(seen), next};
  }

  nn::Embedding letters;
  nn::LSTM lstm;
  nn::Linear head;
};
FACULA_MODULE(Model);

// One letter at a time: the state holds the whole past, so nothing is read twice.
std::string write(Model& model, const examples::Text& text, const std::string& begin, int64_t count, double temperature,
                  Device device) {
  NoGradGuard no_grad;
  std::vector<Tensor> codes{text.encode(begin).to(device).unsqueeze(0)};
  std::optional<State> state;
  for (int64_t i = 0; i < count; ++i) {
    const auto [scores, next] = model(codes.back(), state);
    state = next;
    codes.push_back(multinomial(softmax(scores.select(1, -1) / temperature, -1), 1));
  }
  return text.decode(cat(codes, 1)[0]);
}

int main(int argc, char** argv) {
  int64_t width = 256, layers = 2, batch = 32, length = 64;
  const auto options = examples::read_options(
      argc, argv, 400, {{"--width", &width}, {"--layers", &layers}, {"--batch", &batch}, {"--length", &length}});
  const examples::Text text(options.data / "opticks.txt");
  // The text in `batch` long rows, which are read side by side, `length` letters at a time.
  const int64_t columns = (text.train.size(0) - 1) / batch;
  const Tensor rows = text.train.narrow(0, 0, columns * batch).view({batch, columns}).to(options.device);

  Model model(text.size(), width, layers);
  model->to(options.device);
  if (!options.quiet) std::cout << nn::summary(*model) << "\n";

  optim::AdamW optimizer(model->parameters(), optim::AdamWOptions(4e-3));
  optim::OneCycleLR schedule(optimizer, optim::OneCycleLROptions(4e-3, options.steps).pct_start(0.1));
  examples::Training training(options, "lstm");
  std::optional<State> state;
  for (int64_t i = 0, at = 0; i < options.steps; ++i, at += length) {
    if (at + length >= columns) {  // from the beginning, without a past
      at = 0;
      state.reset();
    }
    optimizer.zero_grad();
    const auto [scores, next] = model(rows.narrow(1, at, length), state);
    const Tensor loss = F::cross_entropy(scores.flatten(0, 1), rows.narrow(1, at + 1, length).flatten());
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    // The state goes on, its history ends here: gradients reach back over `length` letters.
    state = State(std::get<0>(next).detach(), std::get<1>(next).detach());
    training.step(loss.item<double>());
  }
  training.finish();

  if (!options.quiet)
    std::cout << "\nIt writes:\n" << write(model, text, "\n\nThe Light", 600, 0.7, options.device) << "\n";
}
