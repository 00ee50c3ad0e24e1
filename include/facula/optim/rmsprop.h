// RMSprop: steps divided by the root of a running mean of squared gradients.
#pragma once

#include <facula/optim/optimizer.h>

namespace facula::optim {

struct FACULA_API RMSpropOptions : public OptimizerCloneableOptions<RMSpropOptions> {
  RMSpropOptions(double lr = 1e-2);
  FACULA_ARG(double, lr);
  FACULA_ARG(double, alpha) = 0.99;
  FACULA_ARG(double, eps) = 1e-8;
  FACULA_ARG(double, weight_decay) = 0;
  FACULA_ARG(double, momentum) = 0;
  FACULA_ARG(bool, centered) = false;
  FACULA_ARG(bool, maximize) = false;

 public:
  void visit_fields(FieldVisitor& visitor) override;
  std::optional<double> get_momentum() const override { return momentum_; }
  void set_momentum(double momentum) override { momentum_ = momentum; }
};

struct FACULA_API RMSpropParamState : public OptimizerCloneableParamState<RMSpropParamState> {
  FACULA_ARG(int64_t, step) = 0;
  FACULA_ARG(Tensor, square_avg);
  FACULA_ARG(Tensor, momentum_buffer);
  FACULA_ARG(Tensor, grad_avg);

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

class FACULA_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(const std::vector<OptimizerParamGroup>& param_groups, RMSpropOptions defaults = {});
  explicit RMSprop(std::vector<Tensor> params, RMSpropOptions defaults = {});
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
};

}  // namespace facula::optim
