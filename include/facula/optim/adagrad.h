// Adagrad: steps divided by the root of the sum of all squared gradients.
#pragma once

#include <facula/optim/optimizer.h>

namespace facula::optim {

struct FACULA_API AdagradOptions : public OptimizerCloneableOptions<AdagradOptions> {
  AdagradOptions(double lr = 1e-2);
  FACULA_ARG(double, lr);
  FACULA_ARG(double, lr_decay) = 0;
  FACULA_ARG(double, weight_decay) = 0;
  FACULA_ARG(double, initial_accumulator_value) = 0;
  FACULA_ARG(double, eps) = 1e-10;
  FACULA_ARG(bool, maximize) = false;

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

struct FACULA_API AdagradParamState : public OptimizerCloneableParamState<AdagradParamState> {
  FACULA_ARG(Tensor, sum);
  FACULA_ARG(int64_t, step) = 0;

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

class FACULA_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const std::vector<OptimizerParamGroup>& param_groups, AdagradOptions defaults = {});
  explicit Adagrad(std::vector<Tensor> params, AdagradOptions defaults = {});
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;

 private:
  void start();
};

}  // namespace facula::optim
