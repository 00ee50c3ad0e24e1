#include <facula/optim/rmsprop.h>

#include "optim/gather.h"
#include "optim/rules.h"

#include <facula/tensors.h>

namespace facula::optim {

RMSpropOptions::RMSpropOptions(double lr) : lr_(lr) {}
void RMSpropOptions::visit_fields(FieldVisitor& visitor) {
  visitor.field("lr", lr_);
  visitor.field("alpha", alpha_);
  visitor.field("eps", eps_);
  visitor.field("weight_decay", weight_decay_);
  visitor.field("momentum", momentum_);
  visitor.field("centered", centered_);
  visitor.field("maximize", maximize_);
}
void RMSpropParamState::visit_fields(FieldVisitor& visitor) {
  visitor.field("step", step_);
  visitor.field("square_avg", square_avg_);
  visitor.field("momentum_buffer", momentum_buffer_);
  visitor.field("grad_avg", grad_avg_);
}

namespace {

std::unique_ptr<RMSpropOptions> checked(RMSpropOptions o) {
  FACULA_CHECK(o.lr() >= 0, ValueError, "RMSprop: Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.eps() >= 0, ValueError, "RMSprop: Invalid epsilon value: ", o.eps());
  FACULA_CHECK(o.momentum() >= 0, ValueError, "RMSprop: Invalid momentum value: ", o.momentum());
  FACULA_CHECK(o.weight_decay() >= 0, ValueError, "RMSprop: Invalid weight_decay value: ", o.weight_decay());
  FACULA_CHECK(o.alpha() >= 0, ValueError, "RMSprop: Invalid alpha value: ", o.alpha());
  return std::make_unique<RMSpropOptions>(std::move(o));
}

}  // namespace

RMSprop::RMSprop(const std::vector<OptimizerParamGroup>& param_groups, RMSpropOptions defaults)
    : Optimizer(param_groups, checked(std::move(defaults))) {}
RMSprop::RMSprop(std::vector<Tensor> params, RMSpropOptions defaults)
    : Optimizer(std::move(params), checked(std::move(defaults))) {}

std::unique_ptr<OptimizerParamState> RMSprop::new_state() const { return std::make_unique<RMSpropParamState>(); }

Tensor RMSprop::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& o = static_cast<const RMSpropOptions&>(group.options());
    const auto found = gather<RMSpropParamState>(
        group, state_, [](const Tensor& p, RMSpropParamState& s) { s.square_avg(zeros_like(p.detach())); });
    std::vector<Tensor> squares, means, buffers;
    for (size_t i = 0; i < found.states.size(); ++i) {
      RMSpropParamState& s = *found.states[i];
      s.step(s.step() + 1);
      squares.push_back(s.square_avg());
      if (o.centered()) {
        if (!s.grad_avg().defined()) s.grad_avg(zeros_like(found.params[i].detach()));
        means.push_back(s.grad_avg());
      }
      if (o.momentum() > 0) {
        if (!s.momentum_buffer().defined()) s.momentum_buffer(zeros_like(found.params[i].detach()));
        buffers.push_back(s.momentum_buffer());
      }
    }
    rmsprop_step(found.params, found.grads, squares, means, buffers,
                 {{o.lr(), {}}, o.alpha(), o.eps(), o.weight_decay(), o.momentum(), o.maximize()});
  }
  return loss;
}

}  // namespace facula::optim
