// L-BFGS: a quasi-Newton method that remembers a few steps. It looks at the loss several times a step, so it wants a closure.
#pragma once

#include <facula/optim/optimizer.h>

namespace facula::optim {

struct FACULA_API LBFGSOptions : public OptimizerCloneableOptions<LBFGSOptions> {
  LBFGSOptions(double lr = 1);
  FACULA_ARG(double, lr);
  FACULA_ARG(int64_t, max_iter) = 20;
  // Calls of the closure; max_iter * 5 / 4 when not given.
  FACULA_ARG(std::optional<int64_t>, max_eval) = std::nullopt;
  FACULA_ARG(double, tolerance_grad) = 1e-7;
  FACULA_ARG(double, tolerance_change) = 1e-9;
  FACULA_ARG(int64_t, history_size) = 100;
  // "strong_wolfe", or nothing: then every step has length lr.
  FACULA_ARG(std::optional<std::string>, line_search_fn) = std::nullopt;

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

struct FACULA_API LBFGSParamState : public OptimizerCloneableParamState<LBFGSParamState> {
  FACULA_ARG(int64_t, func_evals) = 0;
  FACULA_ARG(int64_t, n_iter) = 0;
  FACULA_ARG(double, t) = 0;
  FACULA_ARG(double, prev_loss) = 0;
  FACULA_ARG(Tensor, d);
  FACULA_ARG(Tensor, H_diag);
  FACULA_ARG(Tensor, prev_flat_grad);
  FACULA_ARG(std::vector<Tensor>, old_dirs);
  FACULA_ARG(std::vector<Tensor>, old_stps);
  FACULA_ARG(std::vector<Tensor>, ro);

 public:
  void visit_fields(FieldVisitor& visitor) override;
};

// All parameters together are one point, so there is one group only, and one state, kept with the first parameter.
class FACULA_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<OptimizerParamGroup>& param_groups, LBFGSOptions defaults = {});
  explicit LBFGS(std::vector<Tensor> params, LBFGSOptions defaults = {});
  Tensor step(LossClosure closure) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  bool states_are_shaped() const override { return false; }
};

}  // namespace facula::optim
