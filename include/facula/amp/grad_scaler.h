// Gradient scaling: the loss is multiplied by a large number before backward, so that small gradients survive in float16, and
// gradients are divided by it before the optimizer sees them. A step whose gradients are infinite or NaN is left out, and the
// number made smaller; after many good steps it is made larger.
//
//   amp::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
#pragma once

#include <facula/nn/options.h>
#include <facula/optim/optimizer.h>

#include <optional>
#include <unordered_map>
#include <vector>

namespace facula::amp {

struct GradScalerOptions {
  FACULA_ARG(double, init_scale) = 65536;
  FACULA_ARG(double, growth_factor) = 2;
  FACULA_ARG(double, backoff_factor) = 0.5;
  FACULA_ARG(int64_t, growth_interval) = 2000;
  FACULA_ARG(bool, enabled) = true;
};

class FACULA_API GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  // The outputs times the scale. The first call decides on the device where the scale lives.
  Tensor scale(const Tensor& output);
  std::vector<Tensor> scale(const std::vector<Tensor>& outputs);
  // Divides the gradients of an optimizer's parameters by the scale; at most once between two updates. For code that looks at
  // gradients before the step, as clipping does; `step` does it otherwise.
  void unscale_(optim::Optimizer& optimizer);
  // optimizer.step(), unless a gradient is infinite or NaN. Waits for the device to know.
  Tensor step(optim::Optimizer& optimizer, optim::Optimizer::LossClosure closure = nullptr);
  // Sets the scale for the next iteration, by what was found in all steps, or to `new_scale`.
  void update(std::optional<double> new_scale = std::nullopt);

  bool is_enabled() const { return options_.enabled(); }
  double get_scale() const;
  double get_growth_factor() const { return options_.growth_factor(); }
  double get_backoff_factor() const { return options_.backoff_factor(); }
  int64_t get_growth_interval() const { return options_.growth_interval(); }
  void set_growth_factor(double factor) { options_.growth_factor(factor); }
  void set_backoff_factor(double factor) { options_.backoff_factor(factor); }
  void set_growth_interval(int64_t interval) { options_.growth_interval(interval); }

  // Numbers are tensors of no dims. Empty when the scaler is off.
  nn::NamedTensors state_dict() const;
  void load_state_dict(const nn::NamedTensors& state);

 private:
  enum class Stage : uint8_t { Ready, Unscaled, Stepped };
  struct OfOptimizer {
    Stage stage = Stage::Ready;
    std::vector<Tensor> found_inf;  // one for each device
  };
  void start(Device device);

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;
  int64_t good_steps_before_ = 0;  // what the tracker starts from
  std::unordered_map<const optim::Optimizer*, OfOptimizer> optimizers_;
};

// The scale and the count of good steps after one more, in place and without waiting.
FACULA_API void update_scale_(Tensor& scale, Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
                              double backoff_factor, int64_t growth_interval);

}  // namespace facula::amp
