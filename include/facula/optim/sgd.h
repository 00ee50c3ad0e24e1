// Stochastic gradient descent, with momentum.
#pragma once

#include <facula/optim/optimizer.h>

namespace facula::optim {

struct FACULA_API SGDOptions : public OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr = 1e-3);
  FACULA_ARG(double, lr);
  FACULA_ARG(double, momentum) = 0;
  FACULA_ARG(double, dampening) = 0;
  FACULA_ARG(double, weight_decay) = 0;
  FACULA_ARG(bool, nesterov) = false;
  FACULA_ARG(bool, maximize) = false;

 public:
  void visit_fields(FieldVisitor& visitor) override;
  std::optional<double> get_momentum() const override { return momentum_; }
  void set_momentum(double momentum) override { momentum_ = momentum; }
};

struct FACULA_API SGDParamState : public OptimizerCloneableParamState<SGDParamState> {
  FACULA_ARG(Tensor, momentum_buffer);

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

class FACULA_API SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<OptimizerParamGroup>& param_groups, SGDOptions defaults = {});
  explicit SGD(std::vector<Tensor> params, SGDOptions defaults = {});
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
};

}  // namespace facula::optim
