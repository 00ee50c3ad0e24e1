// The parameters of a group that have gradients, with what is remembered of them.
#pragma once

#include <facula/autograd/modes.h>
#include <facula/optim/optimizer.h>

#include <memory>
#include <vector>

namespace facula::optim {

template <class State>
struct Gathered {
  std::vector<Tensor> params, grads;
  std::vector<State*> states;

  // One tensor of each state.
  template <class Field>
  std::vector<Tensor> column(Field field) const {
    std::vector<Tensor> tensors;
    tensors.reserve(states.size());
    for (State* s : states) tensors.push_back(((*s).*field)());
    return tensors;
  }
};

// `start(param, state)` fills a state when a parameter has a gradient for the first time.
template <class State, class Start>
Gathered<State> gather(const OptimizerParamGroup& group, Optimizer::States& states, Start start) {
  Gathered<State> found;
  const size_t count = group.params().size();
  found.params.reserve(count);
  found.grads.reserve(count);
  found.states.reserve(count);
  for (const Tensor& p : group.params()) {
    Tensor grad = p.grad();
    if (!grad.defined()) continue;
    auto& slot = states[p.impl()];
    if (!slot) {
      auto state = std::make_unique<State>();
      start(p, *state);
      slot = std::move(state);
    }
    found.params.push_back(p);
    found.grads.push_back(std::move(grad));
    found.states.push_back(static_cast<State*>(slot.get()));
  }
  return found;
}

// The loss of a closure, which wants gradients even where the caller does not.
inline Tensor loss_of(const Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const AutoGradMode enable(true);
  return closure();
}

}  // namespace facula::optim
