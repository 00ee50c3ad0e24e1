#include <facula/optim/adagrad.h>

#include "optim/gather.h"
#include "optim/rules.h"

#include <facula/tensors.h>

namespace facula::optim {

AdagradOptions::AdagradOptions(double lr) : lr_(lr) {}
void AdagradOptions::visit_fields(FieldVisitor& visitor) {
  visitor.field("lr", lr_);
  visitor.field("lr_decay", lr_decay_);
  visitor.field("weight_decay", weight_decay_);
  visitor.field("initial_accumulator_value", initial_accumulator_value_);
  visitor.field("eps", eps_);
  visitor.field("maximize", maximize_);
}
void AdagradParamState::visit_fields(FieldVisitor& visitor) {
  visitor.field("step", step_);
  visitor.field("sum", sum_);
}

namespace {

std::unique_ptr<AdagradOptions> checked(AdagradOptions o) {
  FACULA_CHECK(o.lr() >= 0, ValueError, "Adagrad: Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.lr_decay() >= 0, ValueError, "Adagrad: Invalid lr_decay value: ", o.lr_decay());
  FACULA_CHECK(o.weight_decay() >= 0, ValueError, "Adagrad: Invalid weight_decay value: ", o.weight_decay());
  FACULA_CHECK(o.initial_accumulator_value() >= 0, ValueError,
               "Adagrad: Invalid initial_accumulator_value value: ", o.initial_accumulator_value());
  FACULA_CHECK(o.eps() >= 0, ValueError, "Adagrad: Invalid epsilon value: ", o.eps());
  return std::make_unique<AdagradOptions>(std::move(o));
}

void begin(const Tensor& p, AdagradParamState& s, double value) {
  const Tensor like = p.detach();
  // A sum of squares of both parts where the parameter is complex.
  s.sum(p.is_complex() ? view_as_complex(full_like(view_as_real(like), value)) : full_like(like, value));
}

}  // namespace

Adagrad::Adagrad(const std::vector<OptimizerParamGroup>& param_groups, AdagradOptions defaults)
    : Optimizer(param_groups, checked(std::move(defaults))) {
  start();
}
Adagrad::Adagrad(std::vector<Tensor> params, AdagradOptions defaults)
    : Optimizer(std::move(params), checked(std::move(defaults))) {
  start();
}

// States exist from the beginning, as in libtorch.
void Adagrad::start() {
  for (const OptimizerParamGroup& group : param_groups_)
    for (const Tensor& p : group.params()) {
      auto state = std::make_unique<AdagradParamState>();
      begin(p, *state, static_cast<const AdagradOptions&>(group.options()).initial_accumulator_value());
      state_[p.impl()] = std::move(state);
    }
}

std::unique_ptr<OptimizerParamState> Adagrad::new_state() const { return std::make_unique<AdagradParamState>(); }

Tensor Adagrad::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& o = static_cast<const AdagradOptions&>(group.options());
    const auto found = gather<AdagradParamState>(
        group, state_, [&](const Tensor& p, AdagradParamState& s) { begin(p, s, o.initial_accumulator_value()); });
    std::vector<Tensor> sums;
    std::vector<double> counts;
    for (AdagradParamState* s : found.states) {
      s->step(s->step() + 1);
      counts.push_back(static_cast<double>(s->step()));
      sums.push_back(s->sum());
    }
    adagrad_step(found.params, found.grads, sums, {counts, {}},
                 {{o.lr(), {}}, o.lr_decay(), o.eps(), o.weight_decay(), o.maximize()});
  }
  return loss;
}

}  // namespace facula::optim
