// A cart learns to keep a pole upright, by trying: a policy gradient, with 64 carts at a time as the rows of a tensor.
#include "common.h"

using namespace facula;

// Position, speed, angle and angular speed of each cart (count, 4), a fiftieth of a second after a push to the left (0)
// or to the right (1): a pole of 0.1 kg and 1 m stands on a cart of 1 kg, without friction.
Tensor push(const Tensor& carts, const Tensor& action) {
  constexpr double kGravity = 9.8, kPole = 0.1, kTotal = 1.1, kHalf = 0.5, kForce = 10, kSeconds = 0.02;
  const auto parts = carts.unbind(1);
  const Tensor &place = parts[0], &speed = parts[1], &angle = parts[2], &turning = parts[3];
  const Tensor sine = angle.sin(), cosine = angle.cos();
  const Tensor pushed = ((2 * action - 1) * kForce + kPole * kHalf * turning.square() * sine) / kTotal;
  const Tensor turn = (kGravity * sine - cosine * pushed) / (kHalf * (4.0 / 3 - kPole / kTotal * cosine.square()));
  const Tensor gain = pushed - kPole * kHalf / kTotal * turn * cosine;
  return stack(
      {place + kSeconds * speed, speed + kSeconds * gain, angle + kSeconds * turning, turning + kSeconds * turn}, 1);
}

Tensor stands(const Tensor& carts) {
  return (carts.select(1, 0).abs() < 2.4).logical_and(carts.select(1, 2).abs() < 0.2095);  // 12 degrees
}

// What carts saw (time, count, 4), what they did (time, count), and 1 where they still stood then, 0 where they lay.
struct Trial {
  Tensor saw, did, stood;
};
// All carts try until they fall, or have stood for as long as is asked.
Trial try_out(nn::Sequential& policy, int64_t count, int64_t most, Device device) {
  NoGradGuard no_grad;
  std::vector<Tensor> saw, did, stood;
  Tensor carts = 0.1 * rand({count, 4}, device) - 0.05;
  Tensor standing = ones({count}, TensorOptions(kBool).device(device));
  for (int64_t t = 0; t < most && standing.any().item<bool>(); ++t) {
    const Tensor action = multinomial(softmax(policy->forward(carts), -1), 1).squeeze(1);
    saw.push_back(carts);
    did.push_back(action);
    stood.push_back(standing);
    carts = push(carts, action);
    standing = standing.logical_and(stands(carts));
  }
  return {stack(saw), stack(did), stack(stood).to(kFloat)};
}

// What each action brought is the time for which the cart stood from there on, where what comes later counts less; the
// mean of all tells which actions were better than others.
Tensor advantages(const Tensor& stood, double discount = 0.99) {
  const Tensor left = stood.flip({0}).cumsum(0).flip({0});
  const Tensor worth = (1 - pow(discount, left)) / (1 - discount);
  const Tensor mean = (worth * stood).sum() / stood.sum();
  const Tensor spread = ((worth - mean).square() * stood).sum() / stood.sum();
  return (worth - mean) / (spread.sqrt() + 1e-6) * stood;
}

int main(int argc, char** argv) {
  int64_t count = 64, most = 500;
  const auto options = examples::read_options(argc, argv, 60, {{"--carts", &count}, {"--most", &most}});
  nn::Sequential policy(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 2));
  policy->to(options.device);
  optim::Adam optimizer(policy->parameters(), optim::AdamOptions(1e-2));

  examples::Training training(options, "cartpole");
  double upright = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    const Trial trial = try_out(policy, count, most, options.device);
    optimizer.zero_grad();
    const Tensor scores = log_softmax(policy->forward(trial.saw), -1);  // (time, count, 2)
    const Tensor chosen = scores.gather(2, trial.did.unsqueeze(2)).squeeze(2);
    (-(chosen * advantages(trial.stood)).sum() / trial.stood.sum()).backward();
    optimizer.step();

    // What a policy gradient makes small is the time for which a cart stands, negated.
    upright = trial.stood.sum().item<double>() / static_cast<double>(count);
    training.step(-upright);
  }
  training.finish();
  std::printf("the pole stands for %.1f steps of at most %lld\n", upright, static_cast<long long>(most));
}
