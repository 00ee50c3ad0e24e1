// Checkpointing by saved-tensor hooks: what is packed is a number; the first unpack runs the function again and keeps what its
// nodes save, in the same order.
#include "autograd/autocast.h"
#include "autograd/saved_tensor.h"

#include <facula/autograd/checkpoint.h>
#include <facula/tensors.h>

#include <algorithm>
#include <mutex>

namespace facula::autograd {

namespace {

struct Checkpoint {
  std::function<variable_list(const variable_list&)> f;
  std::vector<SavedTensor> inputs;
  std::vector<bool> requires_grad;
  intrusive_ptr<TapeNode> holder;  // names the checkpoint in errors of its saved inputs
  std::optional<Tensor> rng_state;
  detail::AutocastModes casts;
  size_t count = 0;              // tensors saved in the first run
  std::vector<Tensor> computed;  // and in the second
  std::vector<bool> taken;
  bool running = false;
  std::mutex mutex;
};

class Holder final : public TapeNode {
 public:
  std::string name() const override { return "checkpoint"; }
  void run(ArrayRef<Tensor>, Tensor*) override {}
};

// Puts the default generator at a state and back.
class ReplayRandom {
 public:
  explicit ReplayRandom(const std::optional<Tensor>& state) {
    if (!state) return;
    before_ = default_generator().get_state();
    default_generator().set_state(*state);
  }
  ~ReplayRandom() {
    if (before_) default_generator().set_state(*before_);
  }
  ReplayRandom(const ReplayRandom&) = delete;
  ReplayRandom& operator=(const ReplayRandom&) = delete;

 private:
  std::optional<Tensor> before_;
};

void compute_again(Checkpoint& c) {
  const ReplayRandom replay(c.rng_state);
  variable_list inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor input = c.inputs[i].unpack(*c.holder);
    if (input.defined()) {
      input = input.detach();
      if (c.requires_grad[i]) input.requires_grad_(true);
    }
    inputs.push_back(std::move(input));
  }
  const EnableGradGuard record;
  const detail::WithAutocast casts(c.casts);
  std::vector<Tensor> kept;
  {
    const SavedTensorHooks keep(
        [&](const Tensor& t) {
          kept.push_back(t);
          return SavedTensorHooks::Packed();
        },
        [](const SavedTensorHooks::Packed&) { return Tensor(); });
    c.f(inputs);
  }
  FACULA_CHECK(kept.size() == c.count, Error, "checkpoint: the function saved ", c.count,
               " tensors when it ran first and ", kept.size(),
               " when it ran again for backward; it must do the same every time (check data-dependent branches, "
               "global state and random numbers of other generators)");
  c.computed = std::move(kept);
  c.taken.assign(c.count, false);
}

}  // namespace

variable_list checkpoint(const std::function<variable_list(const variable_list&)>& f, const variable_list& inputs,
                         bool preserve_rng_state) {
  FACULA_CHECK(f, ValueError, "checkpoint: the function is empty");
  // Forward mode reads what is saved at once: there is nothing to gain.
  const bool dual = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) {
    return input.defined() && (input.impl()->tracking & detail::kTracksTangent);
  });
  if (!GradMode::is_enabled() || dual) return f(inputs);
  auto state = std::make_shared<Checkpoint>();
  state->f = f;
  state->holder = intrusive_ptr<TapeNode>::adopt(new Holder());
  for (const Tensor& input : inputs) {
    state->requires_grad.push_back(input.defined() && input.requires_grad());
    state->inputs.emplace_back().save(input);
  }
  state->casts = detail::autocast_modes();
  if (preserve_rng_state) state->rng_state = default_generator().get_state();
  const SavedTensorHooks number(
      [state](const Tensor&) -> SavedTensorHooks::Packed { return std::make_shared<size_t>(state->count++); },
      [state](const SavedTensorHooks::Packed& packed) {
        const std::lock_guard lock(state->mutex);
        const size_t index = *static_cast<const size_t*>(packed.get());
        if (state->computed.empty() || state->taken[index]) compute_again(*state);
        state->taken[index] = true;
        Tensor t = state->computed[index];
        // Memory goes as backward goes; a second pass computes once more.
        state->computed[index] = Tensor();
        bool any = false;
        for (const Tensor& each : state->computed) any |= each.defined();
        if (!any) state->computed.clear();
        return t;
      });
  return f(inputs);
}

}  // namespace facula::autograd
