// A small GPT learns to write like Isaac Newton, letter by letter: trains, saves, loads into a fresh model, writes.
#include "common.h"

#include <cmath>
#include <iostream>

using namespace facula;
namespace F = facula::nn::functional;

struct Sizes {
  int64_t letters = 0, context = 128, width = 128, heads = 4, layers = 4;
};

// One layer: every letter looks back at those before it, then thinks about what it saw.
struct BlockImpl : nn::Module {
  explicit BlockImpl(const Sizes& sizes)
      : heads(sizes.heads),
        norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({sizes.width})))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({sizes.width})))),
        attend(register_module("attend", nn::Linear(sizes.width, 3 * sizes.width))),
        project(register_module("project", nn::Linear(sizes.width, sizes.width))),
        grow(register_module("grow", nn::Linear(sizes.width, 4 * sizes.width))),
        shrink(register_module("shrink", nn::Linear(4 * sizes.width, sizes.width))) {}

  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto split_heads = [&](const Tensor& part) { return part.view({batch, length, heads, -1}).transpose(1, 2); };
    const auto parts = attend(norm1(x)).chunk(3, -1);  // queries, keys, values
    const Tensor seen = F::scaled_dot_product_attention(split_heads(parts[0]), split_heads(parts[1]),
                                                        split_heads(parts[2]), {}, 0.0, /*is_causal=*/true);
    const Tensor y = x + project(seen.transpose(1, 2).reshape({batch, length, width}));
    return y + shrink(F::gelu(grow(norm2(y))));
  }

  int64_t heads;
  nn::LayerNorm norm1, norm2;
  nn::Linear attend, project, grow, shrink;
};
FACULA_MODULE(Block);

struct GPTImpl : nn::Module {
  explicit GPTImpl(const Sizes& the_sizes)
      : sizes(the_sizes),
        letters(register_module("letters", nn::Embedding(sizes.letters, sizes.width))),
        places(register_module("places", nn::Embedding(sizes.context, sizes.width))),
        norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({sizes.width})))),
        head(register_module("head", nn::Linear(sizes.width, sizes.letters))) {
    for (int64_t i = 0; i < sizes.layers; ++i) blocks->push_back(Block(sizes));
    register_module("blocks", blocks);
    // Small weights; what is added to the stream of all layers is smaller still, so that it does not grow with their
    // number.
    for (const auto& each : named_parameters()) {
      const std::string& name = each.key();
      const bool adds = name.ends_with("project.weight") || name.ends_with("shrink.weight");
      if (name.ends_with("bias")) nn::init::zeros_(each.value());
      else if (each.value().dim() == 2)
        nn::init::normal_(each.value(), 0, adds ? 0.02 / std::sqrt(2.0 * sizes.layers) : 0.02);
    }
  }

  // From letters (batch, length) to a score for each letter that could come next (batch, length, letters).
  Tensor forward(const Tensor& codes) {
    const Tensor x = letters(codes) + places(arange(codes.size(1), codes.device()));
    return head(norm(blocks->forward(x)));
  }

  Sizes sizes;
  nn::Embedding letters, places;
  nn::LayerNorm norm;
  nn::Linear head;
  nn::Sequential blocks;
};
FACULA_MODULE(GPT);

// The loss on pieces of the text, drawn at random: each letter is to be told from those before it.
Tensor loss_on(GPT& model, const Tensor& text, int64_t batch) {
  const int64_t context = model->sizes.context;
  const Tensor starts = randint(text.size(0) - context, {batch, 1}, TensorOptions(kLong).device(text.device()));
  const Tensor pieces = text.index({starts + arange(context + 1, text.device())});
  const Tensor scores = model(pieces.narrow(1, 0, context));
  return F::cross_entropy(scores.flatten(0, 1), pieces.narrow(1, 1, context).flatten());
}

double test_loss(GPT& model, const Tensor& text) {
  NoGradGuard no_grad;
  manual_seed(1234);  // the same pieces for every model
  double sum = 0;
  for (int i = 0; i < 8; ++i) sum += loss_on(model, text, 16).item<double>() / 8;
  return sum;
}

// Goes on from `begin`: draws each letter by the probabilities that the model gives, a low temperature prefers likely
// ones.
std::string write(GPT& model, const examples::Text& text, const std::string& begin, int64_t count, double temperature,
                  Device device) {
  NoGradGuard no_grad;
  Tensor codes = text.encode(begin).to(device).unsqueeze(0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = std::min(codes.size(1), model->sizes.context);
    const Tensor scores = model(codes.narrow(1, codes.size(1) - length, length)).select(1, -1);
    codes = cat({codes, multinomial(softmax(scores / temperature, -1), 1)}, 1);
  }
  return text.decode(codes[0]);
}

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t batch = 16, letters = 600;
  const examples::Options options = examples::read_options(argc, argv, 1000,
                                                           {{"--layers", &sizes.layers},
                                                            {"--width", &sizes.width},
                                                            {"--context", &sizes.context},
                                                            {"--batch", &batch},
                                                            {"--letters", &letters}});
  const examples::Text text(options.data / "opticks.txt");
  const Tensor train = text.train.to(options.device), test = text.test.to(options.device);
  sizes.letters = text.size();

  GPT model(sizes);
  model->to(options.device);
  if (!options.quiet)
    std::cout << "A GPT of " << sizes.layers << " layers and " << nn::module_size(*model).parameters
              << " parameters reads Newton's Opticks, " << train.size(0) << " letters, on " << options.device << "\n";

  optim::AdamW optimizer(model->parameters(), optim::AdamWOptions(2e-3).betas({0.9, 0.99}).weight_decay(0.1));
  optim::OneCycleLR schedule(optimizer, optim::OneCycleLROptions(2e-3, options.steps).pct_start(0.1));
  examples::Training training(options, "gpt");
  for (int64_t i = 0; i < options.steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = loss_on(model, train, batch);
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    schedule.step();
    training.step(loss.item<double>());
  }
  training.finish();

  const std::string path = (options.out / "gpt.safetensors").string();
  save(model, path);
  GPT fresh(sizes);
  fresh->to(options.device);
  load(fresh, path);
  const double before = test_loss(model, test), after = test_loss(fresh, test);
  std::printf("loss on unseen text: %.4f; after loading %s into a fresh model: %.4f\n", before, path.c_str(), after);
  if (before != after) return 1;

  if (!options.quiet) {
    manual_seed(static_cast<uint64_t>(options.seed));
    std::cout << "\nIt writes:\n" << write(fresh, text, "\n\nThe Light", letters, 0.8, options.device) << "\n";
  }
}
