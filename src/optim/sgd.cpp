#include <facula/optim/sgd.h>

#include "optim/gather.h"
#include "optim/rules.h"

#include <facula/tensors.h>

namespace facula::optim {

SGDOptions::SGDOptions(double lr) : lr_(lr) {}
void SGDOptions::visit_fields(FieldVisitor& visitor) {
  visitor.field("lr", lr_);
  visitor.field("momentum", momentum_);
  visitor.field("dampening", dampening_);
  visitor.field("weight_decay", weight_decay_);
  visitor.field("nesterov", nesterov_);
  visitor.field("maximize", maximize_);
}
void SGDParamState::visit_fields(FieldVisitor& visitor) { visitor.field("momentum_buffer", momentum_buffer_); }

namespace {

std::unique_ptr<SGDOptions> checked(SGDOptions o) {
  FACULA_CHECK(o.lr() >= 0, ValueError, "SGD: Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.momentum() >= 0, ValueError, "SGD: Invalid momentum value: ", o.momentum());
  FACULA_CHECK(o.weight_decay() >= 0, ValueError, "SGD: Invalid weight_decay value: ", o.weight_decay());
  FACULA_CHECK(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0), ValueError,
               "SGD: Nesterov momentum requires a momentum and zero dampening");
  return std::make_unique<SGDOptions>(std::move(o));
}

}  // namespace

SGD::SGD(const std::vector<OptimizerParamGroup>& param_groups, SGDOptions defaults)
    : Optimizer(param_groups, checked(std::move(defaults))) {}
SGD::SGD(std::vector<Tensor> params, SGDOptions defaults)
    : Optimizer(std::move(params), checked(std::move(defaults))) {}

std::unique_ptr<OptimizerParamState> SGD::new_state() const { return std::make_unique<SGDParamState>(); }

Tensor SGD::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& o = static_cast<const SGDOptions&>(group.options());
    const auto found = gather<SGDParamState>(group, state_, [](const Tensor&, SGDParamState&) {});
    auto buffers = found.column(static_cast<Tensor& (SGDParamState::*)() noexcept>(&SGDParamState::momentum_buffer));
    sgd_step(found.params, found.grads, buffers,
             {{o.lr(), {}}, o.momentum(), o.dampening(), o.weight_decay(), o.nesterov(), o.maximize()});
    if (o.momentum() != 0)
      for (size_t i = 0; i < buffers.size(); ++i) found.states[i]->momentum_buffer(buffers[i]);
  }
  return loss;
}

}  // namespace facula::optim
