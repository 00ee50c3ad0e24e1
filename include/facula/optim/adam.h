// Adam, and AdamW, which shrinks weights apart from their gradients.
#pragma once

#include <facula/optim/optimizer.h>

namespace facula::optim {

struct FACULA_API AdamParamState : public OptimizerCloneableParamState<AdamParamState> {
  FACULA_ARG(int64_t, step) = 0;
  FACULA_ARG(Tensor, exp_avg);
  FACULA_ARG(Tensor, exp_avg_sq);
  FACULA_ARG(Tensor, max_exp_avg_sq);
  // With `capturable`: the count of steps on the parameter's device, in place of `step`.
  FACULA_ARG(Tensor, device_step);

 public:
  void visit_fields(FieldVisitor& visitor) override;
};
using AdamWParamState = AdamParamState;

namespace detail {

// The options of both, which differ in their defaults.
template <class Self>
struct AdamOptionsOf : public OptimizerCloneableOptions<Self> {
  AdamOptionsOf(double lr, double weight_decay);
  using Betas = std::tuple<double, double>;
#define FACULA_ADAM_OPTION(T, name)                  \
 public:                                             \
  Self& name(const T& new_##name) {                  \
    this->name##_ = new_##name;                      \
    return static_cast<Self&>(*this);                \
  }                                                  \
  const T& name() const noexcept { return name##_; } \
  T& name() noexcept { return name##_; }             \
                                                     \
 private:                                            \
  T name##_
  FACULA_ADAM_OPTION(double, lr);
  FACULA_ADAM_OPTION(Betas, betas) = std::make_tuple(0.9, 0.999);
  FACULA_ADAM_OPTION(double, eps) = 1e-8;
  FACULA_ADAM_OPTION(double, weight_decay);
  FACULA_ADAM_OPTION(bool, amsgrad) = false;
  FACULA_ADAM_OPTION(bool, maximize) = false;
  // Counts steps on the parameter's device, so that a step can be captured into a graph.
  FACULA_ADAM_OPTION(bool, capturable) = false;
  // A learning rate of one element on the device, in place of `lr`: what a captured step reads anew at each replay.
  FACULA_ADAM_OPTION(Tensor, lr_tensor);
#undef FACULA_ADAM_OPTION

 public:
  void visit_fields(FieldVisitor& visitor) override {
    visitor.field("lr", lr_);
    visitor.field("betas", betas_);
    visitor.field("eps", eps_);
    visitor.field("weight_decay", weight_decay_);
    visitor.field("amsgrad", amsgrad_);
    visitor.field("maximize", maximize_);
    visitor.field("capturable", capturable_);
  }
  std::optional<double> get_momentum() const override { return std::get<0>(betas_); }
  void set_momentum(double momentum) override { std::get<0>(betas_) = momentum; }
};

}  // namespace detail

struct FACULA_API AdamOptions : public detail::AdamOptionsOf<AdamOptions> {
  AdamOptions(double lr = 1e-3);
};
struct FACULA_API AdamWOptions : public detail::AdamOptionsOf<AdamWOptions> {
  AdamWOptions(double lr = 1e-3);
};

class FACULA_API Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<OptimizerParamGroup>& param_groups, AdamOptions defaults = {});
  explicit Adam(std::vector<Tensor> params, AdamOptions defaults = {});
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
};

class FACULA_API AdamW : public Optimizer {
 public:
  explicit AdamW(const std::vector<OptimizerParamGroup>& param_groups, AdamWOptions defaults = {});
  explicit AdamW(std::vector<Tensor> params, AdamWOptions defaults = {});
  Tensor step(LossClosure closure = nullptr) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
};

}  // namespace facula::optim
