// Learning rates as functions of the step and of the rates before.
#include <facula/tensors.h>
#include <facula/optim/schedulers.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numbers>

namespace facula::optim {

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    OptimizerOptions& options = group.options();
    if (!options.initial_lr) options.initial_lr = options.get_lr();
    base_lrs_.push_back(*options.initial_lr);
  }
}
LRScheduler::~LRScheduler() = default;

std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> lrs;
  for (const OptimizerParamGroup& group : optimizer_.param_groups()) lrs.push_back(group.options().get_lr());
  return lrs;
}

void LRScheduler::set_lrs(const std::vector<double>& lrs) {
  auto& groups = optimizer_.param_groups();
  FACULA_CHECK(lrs.size() == groups.size(), ValueError, "LRScheduler: there are ", lrs.size(), " learning rates for ",
               groups.size(), " parameter groups; make a new scheduler after groups were added");
  for (size_t g = 0; g < groups.size(); ++g) groups[g].options().set_lr(lrs[g]);
}

void LRScheduler::start() { set_lrs(get_lrs()); }

void LRScheduler::step() {
  ++step_count_;
  set_lrs(get_lrs());
}

void LRScheduler::restart() {
  step_count_ = 0;
  set_lrs(base_lrs_);
  start();
}

nn::NamedTensors LRScheduler::state_dict() const {
  nn::NamedTensors state;
  state.insert("last_epoch", scalar_tensor(step_count_, kLong));
  state.insert("base_lrs", tensor(ArrayRef<double>(base_lrs_), kDouble));
  return state;
}

void LRScheduler::load_state_dict(const nn::NamedTensors& state) {
  for (const char* name : {"last_epoch", "base_lrs"})
    FACULA_CHECK(state.contains(name), ValueError, "load_state_dict: the state of a scheduler has no '", name, "'");
  const Tensor rates = state["base_lrs"].cpu();
  FACULA_CHECK(rates.dim() == 1 && rates.size(0) == static_cast<int64_t>(base_lrs_.size()), ShapeError,
               "load_state_dict: the state holds ", rates.numel(), " learning rates for ", base_lrs_.size(),
               " parameter groups");
  step_count_ = state["last_epoch"].item<int64_t>();
  for (size_t g = 0; g < base_lrs_.size(); ++g) base_lrs_[g] = rates[static_cast<int64_t>(g)].item<double>();
}

namespace {

std::vector<double> scaled(std::vector<double> lrs, double factor) {
  for (double& lr : lrs) lr *= factor;
  return lrs;
}

}  // namespace

StepLR::StepLR(Optimizer& optimizer, unsigned step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  FACULA_CHECK(step_size > 0, ValueError, "StepLR: expected a positive step_size, got 0");
}
std::vector<double> StepLR::get_lrs() {
  const bool falls = step_count_ > 0 && step_count_ % step_size_ == 0;
  return scaled(get_current_lrs(), falls ? gamma_ : 1);
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {}
std::vector<double> MultiStepLR::get_lrs() {
  const auto falls = std::count(milestones_.begin(), milestones_.end(), step_count_);
  return scaled(get_current_lrs(), std::pow(gamma_, static_cast<double>(falls)));
}

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : LRScheduler(optimizer), factor_(factor), total_iters_(total_iters) {
  FACULA_CHECK(factor >= 0 && factor <= 1, ValueError, "ConstantLR: expected a factor between 0 and 1, got ", factor);
  start();
}
std::vector<double> ConstantLR::get_lrs() {
  if (step_count_ == 0) return scaled(get_current_lrs(), factor_);
  return scaled(get_current_lrs(), step_count_ == total_iters_ ? 1 / factor_ : 1);
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor, int64_t total_iters)
    : LRScheduler(optimizer), start_factor_(start_factor), end_factor_(end_factor), total_iters_(total_iters) {
  FACULA_CHECK(start_factor > 0 && start_factor <= 1, ValueError,
               "LinearLR: expected a start_factor greater than 0 and at most 1, got ", start_factor);
  FACULA_CHECK(end_factor >= 0 && end_factor <= 1, ValueError, "LinearLR: expected an end_factor between 0 and 1, got ",
               end_factor);
  FACULA_CHECK(total_iters > 0, ValueError, "LinearLR: expected positive total_iters, got ", total_iters);
  start();
}
std::vector<double> LinearLR::get_lrs() {
  if (step_count_ == 0) return scaled(get_current_lrs(), start_factor_);
  if (step_count_ > total_iters_) return get_current_lrs();
  const double range = end_factor_ - start_factor_, total = static_cast<double>(total_iters_);
  return scaled(get_current_lrs(), 1 + range / (total * start_factor_ + static_cast<double>(step_count_ - 1) * range));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {}
std::vector<double> ExponentialLR::get_lrs() { return scaled(get_current_lrs(), step_count_ == 0 ? 1 : gamma_); }

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t T_max, double eta_min)
    : LRScheduler(optimizer), T_max_(T_max), eta_min_(eta_min) {
  FACULA_CHECK(T_max > 0, ValueError, "CosineAnnealingLR: expected a positive T_max, got ", T_max);
}
std::vector<double> CosineAnnealingLR::get_lrs() {
  std::vector<double> lrs = get_current_lrs();
  if (step_count_ == 0) return lrs;
  const auto angle = [&](int64_t at) {
    return std::numbers::pi * static_cast<double>(at) / static_cast<double>(T_max_);
  };
  for (size_t g = 0; g < lrs.size(); ++g) {
    if ((step_count_ - 1 - T_max_) % (2 * T_max_) == 0)
      lrs[g] += (base_lrs_[g] - eta_min_) * (1 - std::cos(std::numbers::pi / static_cast<double>(T_max_))) / 2;
    else
      lrs[g] =
          (1 + std::cos(angle(step_count_))) / (1 + std::cos(angle(step_count_ - 1))) * (lrs[g] - eta_min_) + eta_min_;
  }
  return lrs;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t T_0, int64_t T_mult,
                                                         double eta_min)
    : LRScheduler(optimizer), T_0_(T_0), T_mult_(T_mult), eta_min_(eta_min) {
  FACULA_CHECK(T_0 > 0, ValueError, "CosineAnnealingWarmRestarts: expected a positive T_0, got ", T_0);
  FACULA_CHECK(T_mult >= 1, ValueError, "CosineAnnealingWarmRestarts: expected a T_mult of at least 1, got ", T_mult);
  start();
}
std::vector<double> CosineAnnealingWarmRestarts::get_lrs() {
  int64_t at = step_count_, period = T_0_;
  if (T_mult_ == 1) {
    at %= T_0_;
  } else {
    for (; at >= period; period *= T_mult_) at -= period;
  }
  std::vector<double> lrs = base_lrs_;
  const double share = (1 + std::cos(std::numbers::pi * static_cast<double>(at) / static_cast<double>(period))) / 2;
  for (double& lr : lrs) lr = eta_min_ + (lr - eta_min_) * share;
  return lrs;
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  FACULA_CHECK(options.total_steps() > 0, ValueError, "OneCycleLR: expected positive total_steps, got ",
               options.total_steps());
  FACULA_CHECK(options.pct_start() >= 0 && options.pct_start() <= 1, ValueError,
               "OneCycleLR: expected a pct_start between 0 and 1, got ", options.pct_start());
  if (options_.cycle_momentum())
    for (const OptimizerParamGroup& group : optimizer.param_groups())
      FACULA_CHECK(group.options().get_momentum(), ValueError,
                   "OneCycleLR: the optimizer has no momentum to cycle; say cycle_momentum(false)");
  start();
}
std::vector<double> OneCycleLR::get_lrs() {
  const OneCycleLROptions& o = options_;
  FACULA_CHECK(step_count_ <= o.total_steps(), ValueError, "OneCycleLR: tried to step ", step_count_,
               " times; total_steps is ", o.total_steps());
  const double top = o.max_lr(), low = top / o.div_factor(), last = low / o.final_div_factor();
  const double steps = static_cast<double>(o.total_steps()), rise = o.pct_start() * steps - 1;
  struct Phase {
    double end, from, to, momentum_from, momentum_to;
  };
  std::vector<Phase> phases = {{rise, low, top, o.max_momentum(), o.base_momentum()}};
  if (o.three_phase()) {
    phases.push_back({2 * o.pct_start() * steps - 2, top, low, o.base_momentum(), o.max_momentum()});
    phases.push_back({steps - 1, low, last, o.max_momentum(), o.max_momentum()});
  } else {
    phases.push_back({steps - 1, top, last, o.base_momentum(), o.max_momentum()});
  }
  const auto anneal = [&](double from, double to, double share) {
    if (o.anneal_strategy() == AnnealStrategy::Linear) return (to - from) * share + from;
    return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
  };
  double begin = 0, lr = 0, momentum = 0;
  const auto at = static_cast<double>(step_count_);
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase& p = phases[i];
    if (at <= p.end || i + 1 == phases.size()) {
      const double share = (at - begin) / (p.end - begin);
      lr = anneal(p.from, p.to, share);
      momentum = anneal(p.momentum_from, p.momentum_to, share);
      break;
    }
    begin = p.end;
  }
  if (o.cycle_momentum())
    for (OptimizerParamGroup& group : optimizer_.param_groups()) group.options().set_momentum(momentum);
  return std::vector<double>(base_lrs_.size(), lr);
}

LambdaLR::LambdaLR(Optimizer& optimizer, Factor factor)
    : LambdaLR(optimizer, std::vector<Factor>(optimizer.param_groups().size(), factor)) {}
LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(std::move(factors)) {
  FACULA_CHECK(factors_.size() == base_lrs_.size(), ValueError, "LambdaLR: expected ", base_lrs_.size(),
               " functions, one for each parameter group, got ", factors_.size());
  start();
}
std::vector<double> LambdaLR::get_lrs() {
  std::vector<double> lrs = base_lrs_;
  for (size_t g = 0; g < lrs.size(); ++g) lrs[g] *= factors_[g](step_count_);
  return lrs;
}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : LRScheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  FACULA_CHECK(!schedulers_.empty(), ValueError, "SequentialLR: expected at least one scheduler");
  FACULA_CHECK(milestones_.size() + 1 == schedulers_.size(), ValueError, "SequentialLR: ", schedulers_.size(),
               " schedulers take over from each other at ", schedulers_.size() - 1, " milestones, got ",
               milestones_.size());
  FACULA_CHECK(std::is_sorted(milestones_.begin(), milestones_.end()), ValueError,
               "SequentialLR: expected milestones in rising order");
  for (const auto& each : schedulers_) {
    FACULA_CHECK(each != nullptr, ValueError, "SequentialLR: a scheduler is null");
    FACULA_CHECK(&each->optimizer_ == &optimizer, ValueError,
                 "SequentialLR: a scheduler was made for another optimizer than the one that is given");
  }
  // Making them has moved the rates several times; only the first counts.
  schedulers_[0]->restart();
}

void SequentialLR::step() {
  ++step_count_;
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), step_count_);
  const auto which = static_cast<size_t>(next - milestones_.begin());
  if (which > 0 && milestones_[which - 1] == step_count_) schedulers_[which]->restart();
  else schedulers_[which]->step();
}

nn::NamedTensors SequentialLR::state_dict() const {
  nn::NamedTensors state = LRScheduler::state_dict();
  for (size_t i = 0; i < schedulers_.size(); ++i)
    for (const auto& item : schedulers_[i]->state_dict()) state.insert(str("schedulers.", i, ".", item.key()), *item);
  return state;
}

void SequentialLR::load_state_dict(const nn::NamedTensors& state) {
  LRScheduler::load_state_dict(state);
  for (size_t i = 0; i < schedulers_.size(); ++i) {
    const std::string prefix = str("schedulers.", i, ".");
    nn::NamedTensors own;
    for (const auto& item : state)
      if (item.key().starts_with(prefix)) own.insert(item.key().substr(prefix.size()), *item);
    schedulers_[i]->load_state_dict(own);
  }
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode, double factor,
                                                       int64_t patience, double threshold, ThresholdMode threshold_mode,
                                                       int64_t cooldown, const std::vector<double>& min_lr, double eps,
                                                       bool verbose)
    : optimizer_(optimizer),
      mode_(mode),
      threshold_mode_(threshold_mode),
      factor_(factor),
      threshold_(threshold),
      eps_(eps),
      best_(mode == min ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()),
      patience_(patience),
      cooldown_(cooldown),
      min_lrs_(min_lr),
      verbose_(verbose) {
  FACULA_CHECK(factor < 1, ValueError, "ReduceLROnPlateau: factor should be < 1.0, got ", factor);
  const size_t groups = optimizer.param_groups().size();
  if (min_lrs_.size() <= 1) min_lrs_.resize(groups, min_lr.empty() ? 0 : min_lr[0]);
  FACULA_CHECK(min_lrs_.size() == groups, ValueError, "ReduceLROnPlateau: expected ", groups,
               " smallest rates, one for each parameter group, got ", min_lrs_.size());
}

bool ReduceLROnPlateauScheduler::is_better(double metric) const {
  const double margin = threshold_mode_ == rel ? threshold_ * best_ : threshold_;
  // At first everything is better than the infinite best, whose margin is no number.
  if (std::isinf(best_)) return mode_ == min ? metric < best_ : metric > best_;
  return mode_ == min ? metric < best_ - margin : metric > best_ + margin;
}

void ReduceLROnPlateauScheduler::step(double metric) {
  ++last_epoch_;
  if (is_better(metric)) {
    best_ = metric;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > patience_) {
    reduce_lrs();
    cooldown_left_ = cooldown_;
    bad_epochs_ = 0;
  }
}

void ReduceLROnPlateauScheduler::reduce_lrs() {
  auto& groups = optimizer_.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    OptimizerOptions& options = groups[g].options();
    const double before = options.get_lr(), after = std::max(before * factor_, min_lrs_[g]);
    if (before - after <= eps_) continue;
    options.set_lr(after);
    if (verbose_)
      std::cout << "Epoch " << last_epoch_ << ": reducing learning rate of group " << g << " to " << after << "\n";
  }
}

std::vector<double> ReduceLROnPlateauScheduler::get_last_lr() const {
  std::vector<double> lrs;
  for (const OptimizerParamGroup& group : optimizer_.param_groups()) lrs.push_back(group.options().get_lr());
  return lrs;
}

nn::NamedTensors ReduceLROnPlateauScheduler::state_dict() const {
  nn::NamedTensors state;
  state.insert("best", scalar_tensor(best_, kDouble));
  state.insert("num_bad_epochs", scalar_tensor(bad_epochs_, kLong));
  state.insert("cooldown_counter", scalar_tensor(cooldown_left_, kLong));
  state.insert("last_epoch", scalar_tensor(last_epoch_, kLong));
  return state;
}

void ReduceLROnPlateauScheduler::load_state_dict(const nn::NamedTensors& state) {
  for (const char* name : {"best", "num_bad_epochs", "cooldown_counter", "last_epoch"})
    FACULA_CHECK(state.contains(name), ValueError, "load_state_dict: the state of a scheduler has no '", name, "'");
  best_ = state["best"].item<double>();
  bad_epochs_ = state["num_bad_epochs"].item<int64_t>();
  cooldown_left_ = state["cooldown_counter"].item<int64_t>();
  last_epoch_ = state["last_epoch"].item<int64_t>();
}

}  // namespace facula::optim
