#include <facula/optim/adam.h>

#include "optim/gather.h"
#include "optim/rules.h"

#include <facula/tensors.h>

namespace facula::optim {

void AdamParamState::visit_fields(FieldVisitor& visitor) {
  visitor.field("step", step_);
  visitor.field("exp_avg", exp_avg_);
  visitor.field("exp_avg_sq", exp_avg_sq_);
  visitor.field("max_exp_avg_sq", max_exp_avg_sq_);
  visitor.field("device_step", device_step_);
}

namespace {

template <class Options>
std::unique_ptr<Options> checked(Options o, const char* op) {
  const auto [beta1, beta2] = o.betas();
  FACULA_CHECK(o.lr() >= 0, ValueError, op, ": Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.eps() >= 0, ValueError, op, ": Invalid epsilon value: ", o.eps());
  FACULA_CHECK(0 <= beta1 && beta1 < 1, ValueError, op, ": Invalid beta parameter at index 0: ", beta1);
  FACULA_CHECK(0 <= beta2 && beta2 < 1, ValueError, op, ": Invalid beta parameter at index 1: ", beta2);
  FACULA_CHECK(o.weight_decay() >= 0, ValueError, op, ": Invalid weight_decay value: ", o.weight_decay());
  return std::make_unique<Options>(std::move(o));
}

template <class Options>
void step_group(OptimizerParamGroup& group, Optimizer::States& states, bool decoupled) {
  const auto& o = static_cast<const Options&>(group.options());
  const auto found = gather<AdamParamState>(group, states, [&](const Tensor& p, AdamParamState& s) {
    const Tensor like = p.detach();
    s.exp_avg(zeros_like(like));
    s.exp_avg_sq(zeros_like(like));
    if (o.capturable()) s.device_step(zeros({}, like.options().dtype(kFloat).requires_grad(false)));
  });
  using Field = Tensor& (AdamParamState::*)() noexcept;
  const auto exp_avgs = found.column(static_cast<Field>(&AdamParamState::exp_avg));
  const auto exp_avg_sqs = found.column(static_cast<Field>(&AdamParamState::exp_avg_sq));
  std::vector<Tensor> largest, device_steps;
  std::vector<double> counts;
  for (size_t i = 0; i < found.states.size(); ++i) {
    AdamParamState& s = *found.states[i];
    if (o.amsgrad()) {
      if (!s.max_exp_avg_sq().defined()) s.max_exp_avg_sq(zeros_like(found.params[i].detach()));
      largest.push_back(s.max_exp_avg_sq());
    }
    if (o.capturable()) {
      // A step that was counted on the cpu goes on from there.
      if (!s.device_step().defined())
        s.device_step(
            full({}, static_cast<double>(s.step()), found.params[i].options().dtype(kFloat).requires_grad(false)));
      device_steps.push_back(s.device_step());
    } else {
      if (s.device_step().defined()) {
        s.step(s.device_step().item<int64_t>());
        s.device_step(Tensor());
      }
      s.step(s.step() + 1);
      counts.push_back(static_cast<double>(s.step()));
    }
  }
  const auto [beta1, beta2] = o.betas();
  adam_step(found.params, found.grads, exp_avgs, exp_avg_sqs, largest, {counts, device_steps},
            {{o.lr(), o.lr_tensor()}, beta1, beta2, o.eps(), o.weight_decay(), o.maximize(), decoupled});
}

}  // namespace

template <class Self>
detail::AdamOptionsOf<Self>::AdamOptionsOf(double lr, double weight_decay) : lr_(lr), weight_decay_(weight_decay) {}
AdamOptions::AdamOptions(double lr) : AdamOptionsOf(lr, 0) {}
AdamWOptions::AdamWOptions(double lr) : AdamOptionsOf(lr, 1e-2) {}

Adam::Adam(const std::vector<OptimizerParamGroup>& param_groups, AdamOptions defaults)
    : Optimizer(param_groups, checked(std::move(defaults), "Adam")) {}
Adam::Adam(std::vector<Tensor> params, AdamOptions defaults)
    : Optimizer(std::move(params), checked(std::move(defaults), "Adam")) {}
std::unique_ptr<OptimizerParamState> Adam::new_state() const { return std::make_unique<AdamParamState>(); }
Tensor Adam::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) step_group<AdamOptions>(group, state_, false);
  return loss;
}

AdamW::AdamW(const std::vector<OptimizerParamGroup>& param_groups, AdamWOptions defaults)
    : Optimizer(param_groups, checked(std::move(defaults), "AdamW")) {}
AdamW::AdamW(std::vector<Tensor> params, AdamWOptions defaults)
    : Optimizer(std::move(params), checked(std::move(defaults), "AdamW")) {}
std::unique_ptr<OptimizerParamState> AdamW::new_state() const { return std::make_unique<AdamParamState>(); }
Tensor AdamW::step(LossClosure closure) {
  Tensor loss = loss_of(closure);
  for (OptimizerParamGroup& group : param_groups_) step_group<AdamWOptions>(group, state_, true);
  return loss;
}

}  // namespace facula::optim
