// Derivatives in one random direction against differences: backward, backward of backward, forward mode, forward mode
// through backward, and the in-place variant against the plain one.
//
// All of it is about real numbers: with weights g for the results y, the loss is L = Re<g, y>, and a gradient is right
// when L changes by Re<gradient, v> along v, complex numbers included.
#include "cpp/gradient_properties.h"

#include "cpp/record_calls.h"
#include "cpp/record_values.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <sstream>

namespace facula::testing {
namespace {

using autograd::DualLevel;
using Tensors = std::vector<Tensor>;
using Numbers = std::vector<std::complex<double>>;

bool is_wide(const Tensor& t) {
  return t.defined() && (t.scalar_type() == kDouble || t.scalar_type() == kComplexDouble);
}

Numbers numbers(const Tensor& t) {
  const NoGradGuard quiet;
  const Tensor plain = t.detach().to(kComplexDouble).contiguous();
  const auto* data = reinterpret_cast<const std::complex<double>*>(plain.data_ptr());
  return Numbers(data, data + plain.numel());
}

// Re<a, b>, with the sum of the sizes of its terms.
struct Sum {
  double value = 0, size = 0;
  void add(const Tensor& a, const Tensor& b) {
    const Numbers x = numbers(a), y = numbers(b);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      const double term = (std::conj(x[i]) * y[i]).real();
      value += term;
      size += std::abs(term);
    }
  }
};

bool all_finite(const Tensors& tensors) {
  for (const Tensor& t : tensors)
    for (const auto& x : numbers(t))
      if (!std::isfinite(x.real()) || !std::isfinite(x.imag())) return false;
  return true;
}

Tensor random_like(const Tensor& t, std::mt19937_64& random) {
  std::uniform_real_distribution<double> range(-1, 1);
  Tensor drawn = empty(t.sizes(), t.is_complex() ? kComplexDouble : kDouble);
  auto* data = static_cast<double*>(drawn.data_ptr());
  for (int64_t i = 0; i < drawn.numel() * (t.is_complex() ? 2 : 1); ++i) data[i] = range(random);
  return drawn.to(t.scalar_type());
}
Tensors random_like(const Tensors& tensors, std::mt19937_64& random) {
  Tensors drawn;
  for (const Tensor& t : tensors) drawn.push_back(random_like(t, random));
  return drawn;
}

// `t` moved along `direction`, with the same strides.
Tensor moved(const Tensor& t, const Tensor& direction, double step) {
  const NoGradGuard quiet;
  Tensor there = strided_copy(t);
  there.add_(direction, step);
  return there;
}
Tensors moved(const Tensors& tensors, const Tensors& directions, double step) {
  Tensors there;
  for (size_t i = 0; i < tensors.size(); ++i) there.push_back(moved(tensors[i], directions[i], step));
  return there;
}
Tensors fresh_leaves(const Tensors& tensors) {
  Tensors leaves;
  for (const Tensor& t : tensors) leaves.push_back(strided_copy(t).requires_grad_());
  return leaves;
}

// How differences are taken and compared; less precise results need longer steps.
struct Precision {
  double step = 4e-6, rtol = 2e-6, rounding = 1e-9;
};

std::string off(double analytical, double differences, double size, double value_size, const Precision& precision) {
  const double allowed = precision.rtol * (1 + size) + precision.rounding * value_size;
  if (std::abs(analytical - differences) <= allowed) return {};
  std::ostringstream text;
  text.precision(10);
  text << "the derivative is " << analytical << ", differences give " << differences << " (off by "
       << std::abs(analytical - differences) << ", allowed is " << allowed << ")";
  return text.str();
}

class GradientCase {
 public:
  // Steps are `part` of what they are otherwise.
  GradientCase(const std::string& op, const Case& one, uint64_t seed, double part = 1)
      : part_(part),
        variants_(find_variants(op, one.schema)),
        flags_(one.flags),
        seed_(seed),
        random_(seed ^ std::hash<std::string>{}(one.title)),
        args_(to_boxed(one, variants_.plain())) {
    size_t seen = 0;
    each_tensor(args_, [&](const Tensor& t) {
      if (moves(t, seen)) inputs_.push_back(t);
      return t;
    });
  }

  GradientFindings run() {
    if (inputs_.empty()) return {};
    Tensors outputs;
    try {
      outputs = results(inputs_);
    } catch (const Error& error) {
      if ((flags_ & kMayRefuse) == 0) complain("plainly", std::string(error.type_name()) + ": " + error.what());
      return found_;
    }
    if ((flags_ & kDifferentiable) == 0) {
      guarded("with inputs that require gradients", [&] {
        if (variants_.plain().kind == OpKind::Random) return;
        for (const Tensor& y : results(fresh_leaves(inputs_)))
          if (y.requires_grad()) complain("nondifferentiable", "a result requires a gradient");
      });
      return found_;
    }
    if (outputs.empty()) return found_;
    weights_ = random_like(outputs, random_);
    directions_ = random_like(inputs_, random_);
    weight_directions_ = random_like(weights_, random_);
    gradient_weights_ = random_like(inputs_, random_);
    guarded("backward", [&] { check_present(); });
    if (!found_.complaints.empty() || (flags_ & kUnchecked) != 0) return found_;
    for (const Tensor& y : outputs) {
      if (y.scalar_type() == kDouble || y.scalar_type() == kComplexDouble) continue;
      // Half types are too coarse for differences of any step.
      if (y.scalar_type() != kFloat && y.scalar_type() != kComplexFloat) return found_;
      precision_ = {1e-2, 5e-3, 1e-4};
    }
    if (!all_finite(outputs)) return found_;
    found_.compared = true;
    differences();
    if (!found_.complaints.empty()) return found_;
    guarded("backward", [&] { check_backward(); });
    if (!found_.complaints.empty()) return found_;  // the rest follows from a wrong gradient
    guarded("forward mode", [&] { check_forward(); });
    if ((flags_ & kSecondOrder) != 0) {
      guarded("second derivative", [&] { second_differences(); });
      guarded("backward of backward", [&] { check_second(); });
      guarded("forward mode through backward", [&] { check_forward_of_backward(); });
    }
    if (variants_.inplace != nullptr && variants_.function != nullptr) check_inplace(outputs);
    if (variants_.out != nullptr && variants_.function != nullptr) check_out();
    return found_;
  }

 private:
  void complain(const std::string& what, const std::string& why) {
    if (!why.empty()) found_.complaints.push_back(what + ": " + why);
  }
  template <class Body>
  void guarded(const std::string& what, Body body) {
    try {
      body();
    } catch (const Error& error) {
      complain(what, std::string(error.type_name()) + ": " + error.what());
    } catch (const std::exception& error) {
      complain(what, std::string("exception: ") + error.what());
    }
  }

  // Whether a tensor among the arguments moves; `seen` counts those that could.
  bool moves(const Tensor& t, size_t& seen) const { return is_wide(t) && (flags_ & (kFirstHeld << seen++)) == 0; }

  // The arguments with other tensors in place of those that move.
  Arguments with(const Tensors& inputs) const {
    size_t next = 0, seen = 0;
    return each_tensor(args_, [&](const Tensor& t) { return moves(t, seen) ? inputs.at(next++) : t; });
  }
  Tensors floating(const Results& all) const {
    Tensors chosen;
    for (const BoxedValue& value : all)
      if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined())
        if (isDifferentiableType(t->scalar_type())) chosen.push_back(*t);
    return chosen;
  }
  Tensors results(const Tensors& inputs) const {
    manual_seed(seed_);
    Arguments args = with(inputs);
    if (variants_.function != nullptr) return floating(call(*variants_.function, args));
    args.at(0) = std::get<Tensor>(args.at(0)).clone();
    return floating(call(*variants_.inplace, args));
  }
  Tensors gradients(const Tensors& leaves, const Tensors& weights, bool create_graph = false) const {
    return autograd::grad(results(leaves), leaves, weights, std::nullopt, create_graph, true);
  }

  Sum loss(const Tensors& inputs, const Tensors& weights) const {
    Sum sum;
    const Tensors outputs = results(inputs);
    for (size_t j = 0; j < outputs.size(); ++j) sum.add(weights.at(j), outputs[j]);
    return sum;
  }

  // The slope at 0 of a function of the step, without the error that grows with the square of the step.
  template <class F>
  double slope(F f) const {
    const double h = precision_.step * part_;
    const double narrow = (f(h) - f(-h)) / (2 * h), wide = (f(2 * h) - f(-2 * h)) / (4 * h);
    return (4 * narrow - wide) / 3;
  }

  void differences() {
    guarded("differences", [&] {
      const NoGradGuard quiet;
      first_ = slope([&](double step) {
        const Sum there = loss(moved(inputs_, directions_, step), weights_);
        value_size_ = there.size;
        return there.value;
      });
    });
  }

  void check_present() {
    const Tensors leaves = fresh_leaves(inputs_);
    const Tensors outputs = results(leaves);
    for (const Tensor& y : outputs)
      if (!y.requires_grad()) complain("backward", "the gradient is missing: the result does not require one");
    if (!found_.complaints.empty()) return;
    const Tensors found = autograd::grad(outputs, leaves, weights_, std::nullopt, false, true);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) continue;
      if (to_words(found[i].sizes()) != to_words(leaves[i].sizes()))
        complain("backward", "the gradient of input " + std::to_string(i) + " is " + to_words(found[i].sizes()) +
                                 ", the input is " + to_words(leaves[i].sizes()));
      if (found[i].scalar_type() != leaves[i].scalar_type())
        complain("backward", "the gradient of input " + std::to_string(i) + " has another dtype");
    }
  }

  // Which of several inputs has the wrong gradient: moves one at a time.
  std::string culprit(const Tensors& gradients) {
    if (inputs_.size() < 2) return {};
    std::string names;
    const NoGradGuard quiet;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const double wanted = slope([&](double step) {
        Tensors there = inputs_;
        there[i] = moved(inputs_[i], directions_[i], step);
        return loss(there, weights_).value;
      });
      Sum sum;
      if (gradients[i].defined()) sum.add(gradients[i], directions_[i]);
      if (!off(sum.value, wanted, sum.size, value_size_, precision_).empty())
        names += (names.empty() ? "; wrong by input " : ", ") + std::to_string(i);
    }
    return names;
  }

  void check_backward() {
    gradients_ = gradients(fresh_leaves(inputs_), weights_);
    Sum sum;
    for (size_t i = 0; i < gradients_.size(); ++i)
      if (gradients_[i].defined()) sum.add(gradients_[i], directions_[i]);
    const std::string why = off(sum.value, first_, sum.size, value_size_, precision_);
    if (!why.empty()) complain("backward", why + culprit(gradients_));
  }

  void check_forward() {
    const DualLevel level;
    Tensors duals;
    for (size_t i = 0; i < inputs_.size(); ++i)
      duals.push_back(level.make_dual(strided_copy(inputs_[i]), directions_[i]));
    Sum sum;
    const Tensors outputs = results(duals);
    for (size_t j = 0; j < outputs.size(); ++j) {
      const Tensor tangent = level.unpack_dual(outputs[j]).second;
      if (!tangent.defined()) continue;
      if (to_words(tangent.sizes()) != to_words(outputs[j].sizes()) ||
          tangent.scalar_type() != outputs[j].scalar_type())
        complain("forward mode", "the tangent has another shape or dtype than its result");
      sum.add(weights_[j], tangent);
    }
    complain("forward mode", off(sum.value, first_, sum.size, value_size_, precision_));
  }

  // The first gradient, weighted, as a function of inputs and weights.
  Sum gradient_sum(const Tensors& inputs, const Tensors& weights) const {
    Sum sum;
    const Tensors found = gradients(fresh_leaves(inputs), weights);
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i].defined()) sum.add(gradient_weights_[i], found[i]);
    return sum;
  }

  void second_differences() {
    second_ = slope([&](double step) {
      const Sum there = gradient_sum(moved(inputs_, directions_, step), moved(weights_, weight_directions_, step));
      gradient_size_ = there.size;
      return there.value;
    });
  }

  void check_second() {
    Tensors leaves = fresh_leaves(inputs_), weights = fresh_leaves(weights_);
    const Tensors first = gradients(leaves, weights, true);
    Tensors chosen, by;
    for (size_t i = 0; i < first.size(); ++i) {
      if (!first[i].defined()) continue;
      if (!first[i].requires_grad()) {
        if (Sum size; size.add(first[i], first[i]), size.value != 0)
          complain("backward of backward",
                   "the gradient of input " + std::to_string(i) + " does not require a gradient");
        continue;
      }
      chosen.push_back(first[i]);
      by.push_back(gradient_weights_[i]);
    }
    Sum sum;
    if (!chosen.empty()) {
      Tensors all = leaves, along = directions_;
      all.insert(all.end(), weights.begin(), weights.end());
      along.insert(along.end(), weight_directions_.begin(), weight_directions_.end());
      const Tensors found = autograd::grad(chosen, all, by, std::nullopt, false, true);
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i].defined()) sum.add(found[i], along[i]);
    }
    complain("backward of backward", off(sum.value, second_, sum.size, gradient_size_, precision_));
  }

  void check_forward_of_backward() {
    const DualLevel level;
    const auto dual = [&](const Tensors& at, const Tensors& along, bool leaf) {
      Tensors duals;
      for (size_t i = 0; i < at.size(); ++i) {
        const Tensor copy = strided_copy(at[i]);
        if (leaf) copy.requires_grad_();
        duals.push_back(level.make_dual(copy, along[i]));
      }
      return duals;
    };
    const Tensors inputs = dual(inputs_, directions_, true), weights = dual(weights_, weight_directions_, false);
    const Tensors found = gradients(inputs, weights);
    Sum sum;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) continue;
      const Tensor tangent = level.unpack_dual(found[i]).second;
      if (tangent.defined()) sum.add(gradient_weights_[i], tangent);
    }
    complain("forward mode through backward", off(sum.value, second_, sum.size, gradient_size_, precision_));
  }

  // In place on a copy of the first argument, and on a view of a copy: the same gradients; and the same tangents.
  void check_inplace(const Tensors& outputs) {
    const auto* self = std::get_if<Tensor>(&args_.at(0));
    if (self == nullptr || !is_wide(*self) || (flags_ & kFirstHeld) != 0 || outputs.size() != 1 ||
        self->scalar_type() != outputs[0].scalar_type())
      return;
    if (to_words(self->sizes()) != to_words(outputs[0].sizes())) return;
    const auto write = [&](const Tensors& inputs, bool through_view) {
      manual_seed(seed_);
      Arguments args = with(inputs);
      const Tensor copy = std::get<Tensor>(args.at(0)).clone();
      args.at(0) = through_view ? copy.alias() : copy;
      call(*variants_.inplace, args);
      return copy;
    };
    for (const bool through_view : {false, true}) {
      if (through_view && variants_.inplace->kind == OpKind::View) continue;
      const std::string what = through_view ? "in place on a view" : "in place";
      guarded(what, [&] {
        const Tensors leaves = fresh_leaves(inputs_);
        const Tensor y = write(leaves, through_view);
        if (!y.requires_grad()) {
          complain(what, "the result does not require a gradient");
          return;
        }
        const Tensors found = autograd::grad({y}, leaves, weights_, std::nullopt, false, true);
        for (size_t i = 0; i < found.size(); ++i) complain(what, gradients_differ(found[i], gradients_[i], i));
      });
    }
    guarded("forward mode in place", [&] {
      const DualLevel level;
      Tensors duals;
      for (size_t i = 0; i < inputs_.size(); ++i)
        duals.push_back(level.make_dual(strided_copy(inputs_[i]), directions_[i]));
      const Tensor tangent = level.unpack_dual(write(duals, false)).second;
      Sum sum;
      if (tangent.defined()) sum.add(weights_[0], tangent);
      complain("forward mode in place", off(sum.value, first_, sum.size, value_size_, precision_));
    });
  }

  // What is written to a tensor of the user has no history: refused while gradients are recorded, and only then.
  void check_out() {
    Arguments args;
    guarded("into an out tensor", [&] {
      for (const BoxedValue& result : call(*variants_.function, with(inputs_))) {
        const auto* t = std::get_if<Tensor>(&result);
        if (t == nullptr) return;
        args.emplace_back(empty({0}, t->scalar_type()));
      }
      const Arguments rest = with(fresh_leaves(inputs_));
      args.insert(args.end(), rest.begin(), rest.end());
      try {
        call(*variants_.out, args);
        complain("into an out tensor", "inputs that require gradients must be refused");
      } catch (const Error& error) {
        if (std::string(error.what()).find("automatic differentiation") == std::string::npos) throw;
      }
      const NoGradGuard quiet;
      call(*variants_.out, args);
    });
  }

  static std::string gradients_differ(const Tensor& found, const Tensor& plain, size_t input) {
    const Numbers a = found.defined() ? numbers(found) : Numbers(), b = plain.defined() ? numbers(plain) : Numbers();
    for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) {
      const auto x = k < a.size() ? a[k] : 0.0, y = k < b.size() ? b[k] : 0.0;
      if (std::abs(x - y) <= 1e-10 * (1 + std::abs(y))) continue;
      std::ostringstream text;
      text.precision(10);
      text << "the gradient of input " << input << " is " << x << " at " << k << ", that of the plain op is " << y;
      return text.str();
    }
    return {};
  }

  double part_;
  Variants variants_;
  uint32_t flags_;
  uint64_t seed_;
  std::mt19937_64 random_;
  Arguments args_;
  Tensors inputs_;
  Tensors weights_, weight_directions_;    // of the results
  Tensors directions_, gradient_weights_;  // of the inputs
  Tensors gradients_;
  Precision precision_;
  double first_ = 0, value_size_ = 0;      // slope of the loss, and the sum of the sizes of its terms
  double second_ = 0, gradient_size_ = 0;  // the same for the weighted gradient
  GradientFindings found_;
};

}  // namespace

GradientFindings check_gradients(const std::string& op, const Case& one, uint64_t seed) {
  GradientFindings findings = GradientCase(op, one, seed).run();
  if (findings.compared && !findings.complaints.empty()) {
    // A jump or a kink that a random number comes close to hardly lies within a much shorter step as well; a wrong derivative is wrong there, too.
    GradientFindings closer = GradientCase(op, one, seed, 1.0 / 16).run();
    if (closer.complaints.empty()) return closer;
  }
  return findings;
}

}  // namespace facula::testing
