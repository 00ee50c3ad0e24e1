// Learning rates that change while a network is trained. A scheduler sets the rates of all groups of its optimizer when it is
// made, and anew at each `step`, which is called after the optimizer's. It must not outlive the optimizer.
//
// Counting is Python's: the first call of `step` is step 1. Rates follow from the rates before, so that schedulers chain.
#pragma once

#include <facula/optim/optimizer.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace facula::optim {

class FACULA_API LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer);
  virtual ~LRScheduler();
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  virtual void step();
  std::vector<double> get_last_lr() const { return get_current_lrs(); }
  int64_t last_epoch() const { return step_count_; }

  // Where it is, as data: numbers are tensors of no dims.
  virtual nn::NamedTensors state_dict() const;
  virtual void load_state_dict(const nn::NamedTensors& state);

 protected:
  friend class SequentialLR;
  // The rates at step `step_count_`.
  virtual std::vector<double> get_lrs() = 0;
  std::vector<double> get_current_lrs() const;
  void set_lrs(const std::vector<double>& lrs);
  // Step 0; what the constructor of a scheduler calls that sets rates there.
  virtual void start();
  // Begins again at step 0, from the rates that the optimizer started with.
  void restart();

  Optimizer& optimizer_;
  std::vector<double> base_lrs_;
  int64_t step_count_ = 0;
};

// Multiplies rates by gamma every `step_size` steps.
class FACULA_API StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1);

 private:
  std::vector<double> get_lrs() override;
  int64_t step_size_;
  double gamma_;
};

// Multiplies rates by gamma at each of the milestones.
class FACULA_API MultiStepLR : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<int64_t> milestones, double gamma = 0.1);

 private:
  std::vector<double> get_lrs() override;
  std::vector<int64_t> milestones_;
  double gamma_;
};

// Rates times `factor` for the first `total_iters` steps.
class FACULA_API ConstantLR : public LRScheduler {
 public:
  ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);

 private:
  std::vector<double> get_lrs() override;
  double factor_;
  int64_t total_iters_;
};

// Rates times a factor that runs in a line from one number to another.
class FACULA_API LinearLR : public LRScheduler {
 public:
  LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5);

 private:
  std::vector<double> get_lrs() override;
  double start_factor_, end_factor_;
  int64_t total_iters_;
};

// Multiplies rates by gamma at each step.
class FACULA_API ExponentialLR : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  std::vector<double> get_lrs() override;
  double gamma_;
};

// Half a cosine from the first rate down to `eta_min` in T_max steps.
class FACULA_API CosineAnnealingLR : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t T_max, double eta_min = 0);

 private:
  std::vector<double> get_lrs() override;
  int64_t T_max_;
  double eta_min_;
};

// Cosines that begin anew after T_0 steps, then after T_0 * T_mult, and so on.
class FACULA_API CosineAnnealingWarmRestarts : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer, int64_t T_0, int64_t T_mult = 1, double eta_min = 0);

 private:
  std::vector<double> get_lrs() override;
  int64_t T_0_, T_mult_;
  double eta_min_;
};

enum class AnnealStrategy : uint8_t { Cos, Linear };
struct OneCycleLROptions {
  explicit OneCycleLROptions(double max_lr, int64_t total_steps) : max_lr_(max_lr), total_steps_(total_steps) {}
  FACULA_ARG(double, max_lr);
  FACULA_ARG(int64_t, total_steps);
  FACULA_ARG(double, pct_start) = 0.3;
  FACULA_ARG(AnnealStrategy, anneal_strategy) = AnnealStrategy::Cos;
  FACULA_ARG(bool, cycle_momentum) = true;
  FACULA_ARG(double, base_momentum) = 0.85;
  FACULA_ARG(double, max_momentum) = 0.95;
  FACULA_ARG(double, div_factor) = 25;
  FACULA_ARG(double, final_div_factor) = 1e4;
  FACULA_ARG(bool, three_phase) = false;
};
// Up to the largest rate and down again, far below the first; momentum goes the other way.
class FACULA_API OneCycleLR : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  std::vector<double> get_lrs() override;
  OneCycleLROptions options_;
};

// The first rates times what a function gives for the number of the step; one function, or one for each group.
class FACULA_API LambdaLR : public LRScheduler {
 public:
  using Factor = std::function<double(int64_t)>;
  LambdaLR(Optimizer& optimizer, Factor factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  std::vector<double> get_lrs() override;
  std::vector<Factor> factors_;
};

// One scheduler after the other; the next takes over at each of the milestones, and counts from there. The schedulers were made
// for the same optimizer.
class FACULA_API SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<int64_t> milestones);
  void step() override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 private:
  std::vector<double> get_lrs() override { return get_current_lrs(); }
  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<int64_t> milestones_;
};

// Lowers rates when a number has not become better for a while.
class FACULA_API ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  explicit ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min, double factor = 0.1,
                                      int64_t patience = 10, double threshold = 1e-4,
                                      ThresholdMode threshold_mode = rel, int64_t cooldown = 0,
                                      const std::vector<double>& min_lr = {}, double eps = 1e-8, bool verbose = false);
  void step(double metric);
  double best() const { return best_; }
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> get_last_lr() const;
  nn::NamedTensors state_dict() const;
  void load_state_dict(const nn::NamedTensors& state);

 private:
  bool is_better(double metric) const;
  void reduce_lrs();

  Optimizer& optimizer_;
  SchedulerMode mode_;
  ThresholdMode threshold_mode_;
  double factor_, threshold_, eps_, best_;
  int64_t patience_, cooldown_, cooldown_left_ = 0, bad_epochs_ = 0, last_epoch_ = 0;
  std::vector<double> min_lrs_;
  bool verbose_;
};
using ReduceLROnPlateau = ReduceLROnPlateauScheduler;

}  // namespace facula::optim
