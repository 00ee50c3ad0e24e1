#include <facula/amp/grad_scaler.h>

#include "ops/foreach.h"

#include <facula/tensors.h>

#include <algorithm>

namespace facula::amp {

void update_scale_(Tensor& scale, Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
                   double backoff_factor, int64_t growth_interval) {
  const NoGradGuard no_grad;
  const Tensor bad = found_inf > 0;
  const Tensor good_steps = where(bad, 0, growth_tracker + 1);
  const Tensor grows = good_steps == growth_interval;
  const Tensor larger = scale * growth_factor;
  const Tensor kept = where(grows.logical_and(larger.isfinite()), larger, scale);
  scale.copy_(where(bad, scale * backoff_factor, kept));
  growth_tracker.copy_(where(grows, 0, good_steps));
}

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  if (!options_.enabled()) return;
  FACULA_CHECK(options_.growth_factor() > 1, ValueError, "GradScaler: the growth factor must be > 1.0, got ",
               options_.growth_factor());
  FACULA_CHECK(options_.backoff_factor() < 1, ValueError, "GradScaler: the backoff factor must be < 1.0, got ",
               options_.backoff_factor());
}

void GradScaler::start(Device device) {
  if (scale_.defined()) return;
  scale_ = full({}, options_.init_scale(), TensorOptions().dtype(kFloat).device(device));
  growth_tracker_ = full({}, good_steps_before_, TensorOptions().dtype(kInt).device(device));
}

Tensor GradScaler::scale(const Tensor& output) {
  if (!options_.enabled()) return output;
  FACULA_CHECK(output.defined(), ValueError, "GradScaler::scale: the output is undefined");
  start(output.device());
  return output * scale_.to(output.device());
}
std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> scaled;
  for (const Tensor& output : outputs) scaled.push_back(scale(output));
  return scaled;
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled()) return;
  OfOptimizer& own = optimizers_[&optimizer];
  FACULA_CHECK(own.stage != Stage::Unscaled, Error,
               "GradScaler::unscale_: unscale_() has already been called on this optimizer since the last update().");
  FACULA_CHECK(own.stage != Stage::Stepped, Error, "GradScaler::unscale_: unscale_() is being called after step().");
  FACULA_CHECK(scale_.defined(), Error, "GradScaler::unscale_: no loss was scaled before; call scale() first");
  std::vector<Tensor> grads;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (const Tensor& p : group.params())
      if (Tensor grad = p.grad(); grad.defined()) {
        FACULA_CHECK(grad.scalar_type() != kHalf, DTypeError,
                     "GradScaler::unscale_: Attempting to unscale FP16 gradients; keep parameters in float32 and let "
                     "autocast narrow them");
        grads.push_back(std::move(grad));
      }
  // The reciprocal in double: float's is inexact for scales that are no powers of two.
  const Tensor factor = scale_.to(kDouble).reciprocal().to(kFloat);
  own.found_inf.clear();
  std::vector<bool> done(grads.size());
  for (size_t i = 0; i < grads.size(); ++i) {
    if (done[i]) continue;
    const Device device = grads[i].device();
    std::vector<Tensor> here;
    for (size_t j = i; j < grads.size(); ++j)
      if (!done[j] && grads[j].device() == device) done[j] = true, here.push_back(grads[j]);
    own.found_inf.push_back(zeros({}, TensorOptions().dtype(kFloat).device(device)));
    foreach_unscale_(here, own.found_inf.back(), factor, "GradScaler");
  }
  own.stage = Stage::Unscaled;
}

Tensor GradScaler::step(optim::Optimizer& optimizer, optim::Optimizer::LossClosure closure) {
  if (!options_.enabled()) return optimizer.step(closure);
  FACULA_CHECK(!closure, ValueError, "GradScaler::step: closures are not supported while the scaler is enabled");
  OfOptimizer& own = optimizers_[&optimizer];
  FACULA_CHECK(own.stage != Stage::Stepped, Error,
               "GradScaler::step: step() has already been called since the last update().");
  if (own.stage == Stage::Ready) unscale_(optimizer);
  FACULA_CHECK(!own.found_inf.empty(), Error, "GradScaler::step: no gradients were found for this optimizer");
  own.stage = Stage::Stepped;
  const bool bad = std::any_of(own.found_inf.begin(), own.found_inf.end(),
                               [](const Tensor& found) { return found.item<float>() > 0; });
  return bad ? Tensor() : optimizer.step();
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled()) return;
  FACULA_CHECK(scale_.defined(), Error, "GradScaler::update: no loss was scaled before; call scale() first");
  if (new_scale) {
    scale_.fill_(*new_scale);
  } else {
    Tensor found;
    for (const auto& [optimizer, own] : optimizers_)
      for (const Tensor& each : own.found_inf) {
        const Tensor here = each.to(scale_.device());
        found = found.defined() ? found + here : here;
      }
    FACULA_CHECK(found.defined(), Error,
                 "GradScaler::update: no gradients were looked at before; call step() or unscale_() first");
    update_scale_(scale_, growth_tracker_, found, options_.growth_factor(), options_.backoff_factor(),
                  options_.growth_interval());
  }
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled()) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale();
}

nn::NamedTensors GradScaler::state_dict() const {
  nn::NamedTensors state;
  if (!options_.enabled()) return state;
  state.insert("scale", scalar_tensor(get_scale(), kDouble));
  state.insert("growth_factor", scalar_tensor(options_.growth_factor(), kDouble));
  state.insert("backoff_factor", scalar_tensor(options_.backoff_factor(), kDouble));
  state.insert("growth_interval", scalar_tensor(options_.growth_interval(), kLong));
  state.insert("_growth_tracker",
               scalar_tensor(growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : good_steps_before_, kLong));
  return state;
}

void GradScaler::load_state_dict(const nn::NamedTensors& state) {
  if (!options_.enabled()) return;
  for (const char* name : {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"})
    FACULA_CHECK(state.contains(name), ValueError, "GradScaler::load_state_dict: the state has no '", name,
                 "'; it may come from a scaler that was off");
  options_.init_scale(state["scale"].item<double>());
  options_.growth_factor(state["growth_factor"].item<double>());
  options_.backoff_factor(state["backoff_factor"].item<double>());
  options_.growth_interval(state["growth_interval"].item<int64_t>());
  good_steps_before_ = state["_growth_tracker"].item<int64_t>();
  if (!scale_.defined()) return;
  scale_.fill_(options_.init_scale());
  growth_tracker_.fill_(good_steps_before_);
}

}  // namespace facula::amp
