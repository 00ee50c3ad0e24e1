// L-BFGS. Everything happens on one flat vector that stands for all parameters; numbers that decide are read by the cpu.
#include <facula/optim/lbfgs.h>

#include "optim/lbfgs_step.h"

#include <facula/tensors.h>

#include <algorithm>
#include <cmath>
#include <deque>

namespace facula::optim {

LBFGSOptions::LBFGSOptions(double lr) : lr_(lr) {}
void LBFGSOptions::visit_fields(FieldVisitor& visitor) {
  visitor.field("lr", lr_);
  visitor.field("max_iter", max_iter_);
  visitor.field("max_eval", max_eval_);
  visitor.field("tolerance_grad", tolerance_grad_);
  visitor.field("tolerance_change", tolerance_change_);
  visitor.field("history_size", history_size_);
  visitor.field("line_search_fn", line_search_fn_);
}
void LBFGSParamState::visit_fields(FieldVisitor& visitor) {
  visitor.field("func_evals", func_evals_);
  visitor.field("n_iter", n_iter_);
  visitor.field("t", t_);
  visitor.field("prev_loss", prev_loss_);
  visitor.field("d", d_);
  visitor.field("H_diag", H_diag_);
  visitor.field("prev_flat_grad", prev_flat_grad_);
  visitor.field("old_dirs", old_dirs_);
  visitor.field("old_stps", old_stps_);
  visitor.field("ro", ro_);
}

namespace {

double number(const Tensor& t) { return t.item<double>(); }
double dot_product(const Tensor& a, const Tensor& b) { return number(a.dot(b)); }
double largest(const Tensor& t) { return t.numel() == 0 ? 0 : number(t.abs().max()); }

// All parameters as one point, and the loss there.
class Problem {
 public:
  Problem(TensorList params, const Optimizer::LossClosure& closure) : params_(params), closure_(closure) {}

  Tensor loss() const {
    const AutoGradMode enable(true);
    return closure_();
  }
  Tensor gradient() const {
    std::vector<Tensor> parts;
    for (const Tensor& p : params_) {
      const Tensor grad = p.grad();
      const Tensor part = grad.defined() ? grad.detach() : zeros_like(p.detach());
      parts.push_back((part.is_complex() ? view_as_real(part) : part).reshape({-1}));
    }
    return cat(parts, 0);
  }
  std::vector<Tensor> position() const {
    std::vector<Tensor> copy;
    for (const Tensor& p : params_) copy.push_back(p.detach().clone());
    return copy;
  }
  void move_to(const std::vector<Tensor>& position) const {
    for (size_t i = 0; i < params_.size(); ++i) params_[i].detach().copy_(position[i]);
  }
  // Goes `length` along a direction.
  void advance(double length, const Tensor& direction) const {
    int64_t at = 0;
    for (const Tensor& p : params_) {
      Tensor flat = p.detach();
      if (flat.is_complex()) flat = view_as_real(flat);
      const int64_t count = flat.numel();
      flat.add_(direction.narrow(0, at, count).view(flat.sizes()), length);
      at += count;
    }
  }

 private:
  TensorList params_;
  const Optimizer::LossClosure& closure_;
};

// A point on the line that is searched: how far, the loss, its gradient, and the slope along the line.
struct Sample {
  double length = 0, loss = 0;
  Tensor gradient;
  double slope = 0;
};

// Where the cubic through two samples with their slopes is lowest, kept between `low` and `high`.
double lowest_of_cubic(const Sample& one, const Sample& other, double low, double high) {
  const Sample &a = one.length <= other.length ? one : other, &b = one.length <= other.length ? other : one;
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = b.length - (b.length - a.length) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2));
  return std::clamp(at, low, high);
}

struct LineSearch {
  Sample found;
  int64_t evaluations = 0;
};

// A length that lowers the loss enough and flattens the slope enough (the strong conditions of Wolfe): first a bracket that
// must hold one, then ever smaller brackets.
template <class Evaluate>
LineSearch strong_wolfe(Evaluate evaluate, double length, double longest_entry, const Sample& start,
                        double tolerance_change) {
  constexpr double kEnough = 1e-4, kFlat = 0.9;
  constexpr int64_t kMostTries = 25;
  const auto too_high = [&](const Sample& s) { return s.loss > start.loss + kEnough * s.length * start.slope; };
  const auto flat_enough = [&](const Sample& s) { return std::abs(s.slope) <= -kFlat * start.slope; };

  Sample now = evaluate(length), before = start;
  int64_t evaluations = 1, tries = 0;
  std::vector<Sample> bracket;
  bool done = false;
  for (; tries < kMostTries; ++tries) {
    if (too_high(now) || (tries > 1 && now.loss >= before.loss)) {
      bracket = {before, now};
      break;
    }
    if (flat_enough(now)) {
      bracket = {now};
      done = true;
      break;
    }
    if (now.slope >= 0) {
      bracket = {before, now};
      break;
    }
    const double least = now.length + 0.01 * (now.length - before.length), most = now.length * 10;
    const double next = lowest_of_cubic(before, now, least, most);
    before = now;
    now = evaluate(next);
    ++evaluations;
  }
  if (tries == kMostTries) bracket = {start, now};

  bool stalled = false;
  size_t low = bracket.size() == 1 || bracket[0].loss <= bracket[1].loss ? 0 : 1;
  for (; !done && tries < kMostTries; ++tries) {
    Sample &best = bracket[low], &far = bracket[1 - low];
    const double width = std::abs(far.length - best.length);
    if (width * longest_entry < tolerance_change) break;
    const double from = std::min(best.length, far.length), to = std::max(best.length, far.length);
    double next = lowest_of_cubic(bracket[0], bracket[1], from, to);
    // A point near an end, twice, or at the end: go a tenth of the bracket inwards, so that it shrinks.
    const double margin = 0.1 * (to - from);
    if (std::min(to - next, next - from) < margin) {
      if (stalled || next >= to || next <= from) {
        next = std::abs(next - to) < std::abs(next - from) ? to - margin : from + margin;
        stalled = false;
      } else {
        stalled = true;
      }
    } else {
      stalled = false;
    }
    const Sample tried = evaluate(next);
    ++evaluations;
    if (too_high(tried) || tried.loss >= best.loss) {
      far = tried;
      low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
    } else {
      if (flat_enough(tried)) done = true;
      else if (tried.slope * (far.length - best.length) >= 0) far = best;
      best = tried;
    }
  }
  return {bracket[low], evaluations};
}

// The direction in which the loss falls, from the gradient and the steps before.
Tensor direction_of(const Tensor& gradient, const LBFGSParamState& state) {
  const auto& changes = state.old_dirs();
  const auto& steps = state.old_stps();
  std::vector<double> alphas(changes.size());
  Tensor d = gradient.neg();
  for (size_t i = changes.size(); i-- > 0;) {
    alphas[i] = dot_product(steps[i], d) * number(state.ro()[i]);
    d.add_(changes[i], -alphas[i]);
  }
  d.mul_(state.H_diag());
  for (size_t i = 0; i < changes.size(); ++i) {
    const double beta = dot_product(changes[i], d) * number(state.ro()[i]);
    d.add_(steps[i], alphas[i] - beta);
  }
  return d;
}

void remember_step(const Tensor& gradient, const LBFGSOptions& options, LBFGSParamState& state) {
  const Tensor change = gradient - state.prev_flat_grad(), step = state.d() * state.t();
  const Tensor product = change.dot(step);
  if (!(number(product) > 1e-10)) return;
  if (static_cast<int64_t>(state.old_dirs().size()) >= options.history_size())
    for (auto* list : {&state.old_dirs(), &state.old_stps(), &state.ro()})
      if (!list->empty()) list->erase(list->begin());
  state.old_dirs().push_back(change);
  state.old_stps().push_back(step);
  state.ro().push_back(product.reciprocal());
  state.H_diag(product / change.dot(change));
}

}  // namespace

Tensor lbfgs_step(TensorList params, const LBFGSOptions& options, LBFGSParamState& state,
                  const Optimizer::LossClosure& closure) {
  FACULA_CHECK(closure != nullptr, ValueError, "LBFGS: requires a closure: step([&] { zero_grad, loss, backward })");
  const bool search = options.line_search_fn().has_value();
  FACULA_CHECK(!search || *options.line_search_fn() == "strong_wolfe", ValueError,
               "LBFGS: only 'strong_wolfe' is supported as line_search_fn, got '", *options.line_search_fn(), "'");
  const NoGradGuard no_grad;
  const Problem problem(params, closure);
  const int64_t most_evaluations = options.max_eval().value_or(options.max_iter() * 5 / 4);
  const Tensor first_loss = problem.loss();
  double loss = number(first_loss);
  int64_t evaluations = 1;
  state.func_evals(state.func_evals() + 1);
  Tensor gradient = problem.gradient();
  if (largest(gradient) <= options.tolerance_grad()) return first_loss;

  for (int64_t iteration = 1; iteration <= options.max_iter(); ++iteration) {
    state.n_iter(state.n_iter() + 1);
    const bool very_first = state.n_iter() == 1;
    if (very_first) {
      state.old_dirs().clear();
      state.old_stps().clear();
      state.ro().clear();
      state.H_diag(ones({}, gradient.options()));
      state.d(gradient.neg());
    } else {
      remember_step(gradient, options, state);
      state.d(direction_of(gradient, state));
    }
    const Tensor& d = state.d();
    state.prev_flat_grad(gradient.clone());
    state.prev_loss(loss);
    state.t(very_first ? std::min(1.0, 1 / number(gradient.abs().sum())) * options.lr() : options.lr());
    const double slope = dot_product(gradient, d);
    if (slope > -options.tolerance_change()) break;

    int64_t tried = 0;
    bool at_rest = false;
    if (search) {
      const std::vector<Tensor> from = problem.position();
      const auto evaluate = [&](double length) {
        problem.advance(length, d);
        Sample s{length, number(problem.loss()), problem.gradient(), 0};
        problem.move_to(from);
        s.slope = dot_product(s.gradient, d);
        return s;
      };
      const LineSearch result = strong_wolfe(evaluate, state.t(), largest(d), {0, loss, gradient.clone(), slope}, 1e-9);
      state.t(result.found.length);
      loss = result.found.loss;
      gradient = result.found.gradient;
      tried = result.evaluations;
      problem.advance(state.t(), d);
      at_rest = largest(gradient) <= options.tolerance_grad();
    } else {
      problem.advance(state.t(), d);
      if (iteration != options.max_iter()) {
        loss = number(problem.loss());
        gradient = problem.gradient();
        at_rest = largest(gradient) <= options.tolerance_grad();
        tried = 1;
      }
    }
    evaluations += tried;
    state.func_evals(state.func_evals() + tried);
    if (evaluations >= most_evaluations || at_rest) break;
    if (largest(d) * std::abs(state.t()) <= options.tolerance_change()) break;
    if (std::abs(loss - state.prev_loss()) < options.tolerance_change()) break;
  }
  return first_loss;
}

LBFGS::LBFGS(const std::vector<OptimizerParamGroup>& param_groups, LBFGSOptions defaults)
    : Optimizer(param_groups, std::make_unique<LBFGSOptions>(std::move(defaults))) {
  FACULA_CHECK(param_groups_.size() == 1, ValueError,
               "LBFGS: doesn't support per-parameter options (parameter groups); give one group, got ",
               param_groups_.size());
}
LBFGS::LBFGS(std::vector<Tensor> params, LBFGSOptions defaults)
    : LBFGS(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}

std::unique_ptr<OptimizerParamState> LBFGS::new_state() const { return std::make_unique<LBFGSParamState>(); }

Tensor LBFGS::step(LossClosure closure) {
  const auto& params = param_groups_[0].params();
  if (params.empty()) return closure ? closure() : Tensor();
  auto& slot = state_[params[0].impl()];
  if (!slot) slot = new_state();
  return lbfgs_step(params, static_cast<const LBFGSOptions&>(param_groups_[0].options()),
                    static_cast<LBFGSParamState&>(*slot), closure);
}

}  // namespace facula::optim
