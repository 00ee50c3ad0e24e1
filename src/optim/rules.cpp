#include "optim/rules.h"

#include "autograd/anomaly.h"
#include "autograd/nan_check.h"
#include "core/tensor_impl.h"
#include "ops/foreach.h"
#include "ops/out.h"

#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <algorithm>
#include <cmath>

namespace facula::optim {
namespace {

// One row for each parameter: columns of tensors, and a number that follows from its count of steps.
struct Rows {
  std::vector<TensorList> columns;
  std::vector<double> numbers;  // empty: none
  size_t size() const { return columns[0].size(); }
};

bool alike(const Rows& rows, size_t i, size_t j) {
  if (!rows.numbers.empty() && rows.numbers[i] != rows.numbers[j]) return false;
  for (const TensorList& column : rows.columns) {
    const TensorImpl *a = column[i].impl(), *b = column[j].impl();
    if (a->dtype != b->dtype || a->device != b->device) return false;
  }
  return true;
}

// Calls f(columns, number) for rows that one program serves: equal dtypes, device and number. Mostly that is all of them.
template <class F>
void by_bucket(const Rows& rows, F f) {
  const size_t n = rows.size();
  if (n == 0) return;
  const auto number_of = [&](size_t i) { return rows.numbers.empty() ? 0 : rows.numbers[i]; };
  std::vector<bool> done(n);
  for (size_t first = 0; first < n; ++first) {
    if (done[first]) continue;
    std::vector<size_t> chosen;
    for (size_t i = first; i < n; ++i)
      if (!done[i] && alike(rows, first, i)) done[i] = true, chosen.push_back(i);
    if (chosen.size() == n) return f(std::span<const TensorList>(rows.columns), number_of(first));
    std::vector<std::vector<Tensor>> held(rows.columns.size());
    std::vector<TensorList> columns;
    for (size_t c = 0; c < held.size(); ++c) {
      for (size_t i : chosen) held[c].push_back(rows.columns[c][i]);
      columns.emplace_back(held[c]);
    }
    f(std::span<const TensorList>(columns), number_of(first));
  }
}

// Complex parameters are two real ones each. Holds the views that stand for them.
class RealColumns {
 public:
  explicit RealColumns(Rows& rows) {
    const TensorList params = rows.columns[0];
    if (std::none_of(params.begin(), params.end(), [](const Tensor& p) { return p.is_complex(); })) return;
    held_.reserve(rows.columns.size());
    for (TensorList& column : rows.columns) {
      auto& views = held_.emplace_back(column.begin(), column.end());
      for (Tensor& t : views)
        if (t.is_complex()) t = view_as_real(t.detach());
      column = views;
    }
  }

 private:
  std::vector<std::vector<Tensor>> held_;
};

void check_rows(const Rows& rows, const char* op) {
  const TensorList params = rows.columns[0];
  for (const TensorList& column : rows.columns)
    FACULA_CHECK(column.size() == params.size(), ValueError, op, ": ", column.size(), " tensors for ", params.size(),
                 " parameters");
  for (const Tensor& p : params)
    FACULA_CHECK(p.is_floating_point() || p.is_complex(), DTypeError, op,
                 ": expected floating point or complex parameters, got ", facula::toString(p.scalar_type()));
}

// Anomaly mode: a step that makes a parameter NaN is an error. Rules are no ops, so nobody else looks at what they write.
class StepCheck {
 public:
  StepCheck(TensorList params, TensorList grads, const char* op) : params_(params), grads_(grads), op_(op) {
    if (!autograd::looks_for_nan(params)) return;
    for (size_t i = 0; i < params.size(); ++i)
      sound_.push_back(!autograd::has_nan(params[i]) && !autograd::has_nan(grads[i]));
  }
  void finish() const {
    for (size_t i = 0; i < sound_.size(); ++i)
      FACULA_CHECK(
          !sound_[i] || !autograd::has_nan(params_[i]), NanError, op_, ": the step made parameter ", i,
          ", counted among those with gradients, NaN; neither it nor its gradient was before. The gradient is ",
          autograd::range_text(grads_[i]), ": a lower learning rate or clipped gradients (clip_grad_norm_) help");
  }

 private:
  TensorList params_, grads_;
  const char* op_;
  std::vector<bool> sound_;  // for each parameter, when anybody looks
};

// A rate on the cpu is a number; on a GPU it is read where the step runs.
Rate settled(const Rate& rate, const char* op) {
  if (!rate.tensor.defined()) return rate;
  FACULA_CHECK(rate.tensor.numel() == 1, ShapeError, op, ": expected a learning rate of one element, got sizes ",
               to_text(rate.tensor.sizes()));
  if (rate.tensor.is_cuda()) return rate;
  return {rate.tensor.item<double>(), Tensor()};
}
Term term_of(Foreach& f, const Rate& rate) {
  return rate.tensor.defined() ? f.number(rate.tensor) : f.number(rate.number);
}

// The gradient as rules see it: turned around to maximize, and with the pull of weight decay.
Term gradient(Foreach& f, Term grad, Term param, bool maximize, double weight_decay) {
  if (maximize) grad = -grad;
  return weight_decay != 0 ? add_scaled(grad, param, f.number(weight_decay)) : grad;
}

// Numbers that a rule computes on the device for each parameter, one element each.
std::vector<Tensor> one_each(size_t count, Device device, const char* op) {
  const Tensor all = new_tensor({static_cast<int64_t>(count)}, kDouble, device, op);
  std::vector<Tensor> parts;
  parts.reserve(count);
  for (size_t i = 0; i < count; ++i) parts.push_back(view_of(all, {}, {}, static_cast<int64_t>(i)));
  return parts;
}

}  // namespace

void count_up(TensorList steps) {
  by_bucket({{steps}, {}}, [&](std::span<const TensorList> c, double) {
    Foreach f("count_up", c[0].size(), kFloat);
    f.store(f.load(c[0]) + f.number(1.0), c[0]);
    f.run();
  });
}

void sgd_step(TensorList params, TensorList grads, std::vector<Tensor>& momentum_buffers, const SGDRule& rule) {
  const NoGradGuard no_grad;
  const Rate lr = settled(rule.lr, "SGD");
  const bool momentum = rule.momentum != 0;
  std::vector<double> first;  // whether a buffer begins here: it is the gradient then
  if (momentum) {
    momentum_buffers.resize(params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      first.push_back(momentum_buffers[i].defined() ? 0 : 1);
      if (!momentum_buffers[i].defined()) momentum_buffers[i] = empty_like(params[i].detach());
    }
  }
  Rows rows{{params, grads}, first};
  if (momentum) rows.columns.emplace_back(momentum_buffers);
  check_rows(rows, "SGD");
  const RealColumns real(rows);
  const StepCheck check(params, grads, "SGD");
  by_bucket(rows, [&](std::span<const TensorList> c, double begins) {
    Foreach f("SGD", c[0].size(), c[0][0].scalar_type());
    const Term p = f.load(c[0]);
    Term g = gradient(f, f.load(c[1]), p, rule.maximize, rule.weight_decay);
    if (momentum) {
      Term buffer = g;
      if (begins == 0) {
        const Term kept = f.load(c[2]) * f.number(rule.momentum);
        buffer = rule.dampening == 0 ? kept + g : add_scaled(kept, g, f.number(1 - rule.dampening));
      }
      f.store(buffer, c[2]);
      g = rule.nesterov ? add_scaled(g, buffer, f.number(rule.momentum)) : buffer;
    }
    f.store(sub_scaled(p, g, term_of(f, lr)), c[0]);
    f.run();
  });
  check.finish();
}

void adam_step(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
               TensorList max_exp_avg_sqs, const Steps& steps, const AdamRule& rule) {
  const char* op = rule.decoupled ? "AdamW" : "Adam";
  const NoGradGuard no_grad;
  const Rate lr = settled(rule.lr, op);
  const bool amsgrad = !max_exp_avg_sqs.empty(), on_device = !steps.tensors.empty();
  if (params.empty()) return;

  Rows rows{{params, grads, exp_avgs, exp_avg_sqs}, {}};
  if (amsgrad) rows.columns.push_back(max_exp_avg_sqs);
  check_rows(rows, op);
  const RealColumns real(rows);
  const StepCheck check(params, grads, op);
  std::vector<Tensor> sizes, roots;  // lr / (1 - beta1^step), sqrt(1 - beta2^step)
  if (on_device) {
    const Device device = params[0].device();
    for (const Tensor& s : steps.tensors)
      FACULA_CHECK(s.device() == device, DeviceError, op, ": with capturable, parameters and their counts of steps ",
                   "must be on one device, but there are ", device.str(), " and ", s.device().str());
    sizes = one_each(params.size(), device, op);
    roots = one_each(params.size(), device, op);
    Foreach f(op, params.size(), kDouble);
    const Term one = f.number(1.0), step = f.load(steps.tensors) + one;
    f.store(step, steps.tensors);
    f.store(term_of(f, lr) / (one - pow(f.number(rule.beta1), step)), sizes);
    f.store(sqrt(one - pow(f.number(rule.beta2), step)), roots);
    f.run();
    rows.columns.emplace_back(sizes);
    rows.columns.emplace_back(roots);
  } else {
    rows.numbers.assign(steps.counts.begin(), steps.counts.end());
    FACULA_CHECK(rows.numbers.size() == params.size(), ValueError, op, ": ", rows.numbers.size(),
                 " counts of steps for ", params.size(), " parameters");
  }

  by_bucket(rows, [&](std::span<const TensorList> c, double step) {
    Foreach f(op, c[0].size(), c[0][0].scalar_type());
    Term p = f.load(c[0]);
    const Term g = gradient(f, f.load(c[1]), p, rule.maximize, rule.decoupled ? 0 : rule.weight_decay);
    if (rule.decoupled && rule.weight_decay != 0) {
      if (lr.tensor.defined()) p = sub_scaled(p, p, term_of(f, lr) * f.number(rule.weight_decay));
      else p = p * f.number(1 - lr.number * rule.weight_decay);
    }
    const Term before = f.load(c[2]);
    const Term mean = add_scaled(before, g - before, f.number(1 - rule.beta1));
    f.store(mean, c[2]);
    const Term mean_square = add_scaled(f.load(c[3]) * f.number(rule.beta2), square(g), f.number(1 - rule.beta2));
    f.store(mean_square, c[3]);
    Term largest = mean_square;
    if (amsgrad) {
      largest = maximum(f.load(c[4]), mean_square);
      f.store(largest, c[4]);
    }
    const Term eps = f.number(rule.eps);
    if (on_device) {
      const size_t next = amsgrad ? 5 : 4;
      const Term size = f.load_one(c[next]), root = f.load_one(c[next + 1]);
      f.store(sub_scaled(p, mean / (sqrt(largest) / root + eps), size), c[0]);
    } else {
      const double scale = 1 / std::sqrt(1 - std::pow(rule.beta2, step));
      const double bias = 1 - std::pow(rule.beta1, step);
      const Term size = lr.tensor.defined() ? term_of(f, lr) / f.number(bias) : f.number(lr.number / bias);
      f.store(sub_scaled(p, mean / add_scaled(eps, sqrt(largest), f.number(scale)), size), c[0]);
    }
    f.run();
  });
  check.finish();
}

void rmsprop_step(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs,
                  TensorList momentum_buffers, const RMSpropRule& rule) {
  const NoGradGuard no_grad;
  const Rate lr = settled(rule.lr, "RMSprop");
  const bool centered = !grad_avgs.empty(), momentum = !momentum_buffers.empty();
  Rows rows{{params, grads, square_avgs}, {}};
  if (centered) rows.columns.push_back(grad_avgs);
  if (momentum) rows.columns.push_back(momentum_buffers);
  check_rows(rows, "RMSprop");
  const RealColumns real(rows);
  const StepCheck check(params, grads, "RMSprop");
  by_bucket(rows, [&](std::span<const TensorList> c, double) {
    Foreach f("RMSprop", c[0].size(), c[0][0].scalar_type());
    const Term p = f.load(c[0]), g = gradient(f, f.load(c[1]), p, rule.maximize, rule.weight_decay);
    const Term fresh = f.number(1 - rule.alpha);
    const Term mean_square = add_scaled(f.load(c[2]) * f.number(rule.alpha), square(g), fresh);
    f.store(mean_square, c[2]);
    Term spread = mean_square;
    if (centered) {
      const Term before = f.load(c[3]), mean = add_scaled(before, g - before, fresh);
      f.store(mean, c[3]);
      spread = mean_square - square(mean);
    }
    Term step = g / (sqrt(spread) + f.number(rule.eps));
    if (momentum) {
      const TensorList buffers = c[centered ? 4 : 3];
      step = add_scaled(step, f.load(buffers), f.number(rule.momentum));
      f.store(step, buffers);
    }
    f.store(sub_scaled(p, step, term_of(f, lr)), c[0]);
    f.run();
  });
  check.finish();
}

void adagrad_step(TensorList params, TensorList grads, TensorList sums, const Steps& steps, const AdagradRule& rule) {
  const NoGradGuard no_grad;
  const Rate lr = settled(rule.lr, "Adagrad");
  FACULA_CHECK(steps.counts.size() == params.size(), ValueError, "Adagrad: ", steps.counts.size(),
               " counts of steps for ", params.size(), " parameters");
  Rows rows{{params, grads, sums}, {}};
  // Without decay all parameters have the same rate, whatever they have seen.
  if (rule.lr_decay != 0) rows.numbers.assign(steps.counts.begin(), steps.counts.end());
  check_rows(rows, "Adagrad");
  const RealColumns real(rows);
  const StepCheck check(params, grads, "Adagrad");
  by_bucket(rows, [&](std::span<const TensorList> c, double step) {
    Foreach f("Adagrad", c[0].size(), c[0][0].scalar_type());
    const Term p = f.load(c[0]), g = gradient(f, f.load(c[1]), p, rule.maximize, rule.weight_decay);
    const Term sum = f.load(c[2]) + square(g);
    f.store(sum, c[2]);
    const double decay = rule.lr_decay != 0 ? 1 + (step - 1) * rule.lr_decay : 1;
    const Term rate = lr.tensor.defined() ? term_of(f, lr) / f.number(decay) : f.number(lr.number / decay);
    f.store(sub_scaled(p, g / (sqrt(sum) + f.number(rule.eps)), rate), c[0]);
    f.run();
  });
  check.finish();
}

}  // namespace facula::optim
