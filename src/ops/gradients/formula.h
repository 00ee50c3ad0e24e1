// Pointwise formulas of gradients, written once and run in three ways: as one program over memory when nobody records the
// gradient itself, as a part of the program of a whole chain of nodes when the engine asks for that (autograd/pending.h), and
// op by op when somebody records (a second derivative, forward mode, a batch).
//
//   Tensor tanh_self(const Tensor& grad, const Tensor& result) {
//     return formula([](auto g, auto y) { return g * (1.0 - y * y); }, grad, result);
//   }
//
// Tensors come first, then numbers (double). A tensor of bools is given as a `Mask`. Complex tensors always go op by op;
// formulas that serve them say with `conjugate` what is conjugated. The lambda captures nothing: what it computes is known by
// its type.
#pragma once

#include "autograd/call.h"
#include "autograd/pending.h"
#include "core/shape.h"
#include "program/program.h"

#include <facula/tensors.h>

#include <array>
#include <atomic>
#include <bit>
#include <concepts>
#include <span>

namespace facula {

// A value of a formula that becomes a program.
class Lane {
 public:
  struct Builder {
    Program program;
    CType type;
    std::vector<double> constants;         // what the parameters after the formula's own hold
    std::vector<Value> constant_values{};  // the parameters themselves
  };
  Lane(Builder* builder, Value value) : builder_(builder), value_(value) {}
  Value value() const { return value_; }
  Builder* builder() const { return builder_; }
  // A number as a lane; equal numbers are one parameter, so that equal work on them is done once.
  Lane constant(double number) const {
    for (size_t i = 0; i < builder_->constants.size(); ++i)
      if (std::bit_cast<uint64_t>(builder_->constants[i]) == std::bit_cast<uint64_t>(number))
        return {builder_, builder_->constant_values[i]};
    builder_->constants.push_back(number);
    return {builder_, builder_->constant_values.emplace_back(builder_->program.param(builder_->type))};
  }
  static Lane apply(ScalarOp op, const Lane& a) { return {a.builder_, a.builder_->program.apply(op, a.value_)}; }
  static Lane apply(ScalarOp op, const Lane& a, const Lane& b) {
    return {a.builder_, a.builder_->program.apply(op, a.value_, b.value_)};
  }
  static Lane apply(ScalarOp op, const Lane& a, const Lane& b, const Lane& c) {
    return {a.builder_, a.builder_->program.apply(op, a.value_, b.value_, c.value_)};
  }

 private:
  Builder* builder_;
  Value value_;
};

#define FACULA_LANE_OPERATOR(symbol, name)                                                                       \
  inline Lane operator symbol(const Lane& a, const Lane& b) { return Lane::apply(ScalarOp::name, a, b); }        \
  inline Lane operator symbol(const Lane& a, double b) { return Lane::apply(ScalarOp::name, a, a.constant(b)); } \
  inline Lane operator symbol(double a, const Lane& b) { return Lane::apply(ScalarOp::name, b.constant(a), b); }
FACULA_LANE_OPERATOR(+, add)
FACULA_LANE_OPERATOR(-, sub)
FACULA_LANE_OPERATOR(*, mul)
FACULA_LANE_OPERATOR(/, div)
FACULA_LANE_OPERATOR(<, lt)
FACULA_LANE_OPERATOR(<=, le)
FACULA_LANE_OPERATOR(>, gt)
FACULA_LANE_OPERATOR(>=, ge)
FACULA_LANE_OPERATOR(==, eq)
FACULA_LANE_OPERATOR(!=, ne)
#undef FACULA_LANE_OPERATOR
inline Lane operator-(const Lane& a) { return Lane::apply(ScalarOp::neg, a); }

#define FACULA_LANE_FUNCTION(name) \
  inline Lane name(const Lane& a) { return Lane::apply(ScalarOp::name, a); }
FACULA_LANE_FUNCTION(abs)
FACULA_LANE_FUNCTION(sgn)
FACULA_LANE_FUNCTION(sqrt)
FACULA_LANE_FUNCTION(rsqrt)
FACULA_LANE_FUNCTION(square)
FACULA_LANE_FUNCTION(reciprocal)
FACULA_LANE_FUNCTION(exp)
FACULA_LANE_FUNCTION(expm1)
FACULA_LANE_FUNCTION(log)
FACULA_LANE_FUNCTION(log1p)
FACULA_LANE_FUNCTION(sin)
FACULA_LANE_FUNCTION(cos)
FACULA_LANE_FUNCTION(sinh)
FACULA_LANE_FUNCTION(cosh)
FACULA_LANE_FUNCTION(tanh)
FACULA_LANE_FUNCTION(sigmoid)
FACULA_LANE_FUNCTION(erf)
FACULA_LANE_FUNCTION(erfc)
FACULA_LANE_FUNCTION(digamma)
FACULA_LANE_FUNCTION(i0)
FACULA_LANE_FUNCTION(isnan)
FACULA_LANE_FUNCTION(isfinite)
FACULA_LANE_FUNCTION(trunc)
FACULA_LANE_FUNCTION(floor)
FACULA_LANE_FUNCTION(logical_not)
#undef FACULA_LANE_FUNCTION
inline Lane special_i1(const Lane& a) { return Lane::apply(ScalarOp::i1, a); }
// Only real numbers become programs.
inline Lane conj(const Lane& a) { return a; }
inline Lane conjugate(const Lane& a) { return a; }
// The conjugate where it differs: `conj` gives real tensors memory of their own.
inline Tensor conjugate(const Tensor& t) { return t.is_complex() ? conj(t) : t; }
inline Scalar conjugate(const Scalar& number) { return number.conj(); }
inline Lane clamp(const Lane& a, double low, double high) {
  return Lane::apply(ScalarOp::clamp, a, a.constant(low), a.constant(high));
}
inline Lane logical_and(const Lane& a, const Lane& b) { return Lane::apply(ScalarOp::logical_and, a, b); }
inline Lane logical_or(const Lane& a, const Lane& b) { return Lane::apply(ScalarOp::logical_or, a, b); }
inline Lane pow(const Lane& a, const Lane& b) { return Lane::apply(ScalarOp::pow, a, b); }
inline Lane pow(const Lane& a, double b) { return Lane::apply(ScalarOp::pow, a, a.constant(b)); }
inline Lane where(const Lane& condition, const Lane& a, const Lane& b) {
  return Lane::apply(ScalarOp::where, condition, a, b);
}
inline Lane where(const Lane& condition, const Lane& a, double b) { return where(condition, a, a.constant(b)); }
inline Lane where(const Lane& condition, double a, const Lane& b) { return where(condition, b.constant(a), b); }

// An argument of a formula that says where: a tensor of bools.
struct Mask {
  const Tensor& tensor;
};

namespace detail {

// The programs of one formula, by dtype.
using FormulaCache = std::array<std::atomic<const void*>, 32>;
using FormulaBuild = Lane (*)(std::span<const Lane> arguments);

// Whether the formula can run as a program: nobody watches, one dtype but for masks (bit i of `masks` stands for tensor i), a
// device with an executor.
bool formula_fuses(std::span<const Tensor* const> tensors, uint32_t masks);
Tensor run_formula(FormulaCache& cache, FormulaBuild build, std::span<const Tensor* const> tensors,
                   std::span<const double> numbers);
Tensor append_formula(FormulaBuild build, std::span<const Tensor* const> tensors, std::span<const double> numbers);

// Whether the result may wait: the formula takes the gradient that the running node was given, or what was made of it.
inline bool may_wait(std::span<const Tensor* const> tensors) {
  const autograd::PendingGradients* pending = autograd::pending_gradients;
  if (!pending) return false;
  for (const Tensor* t : tensors)
    if (t->impl() == pending->incoming || autograd::is_pending(*t)) return true;
  return false;
}

// A gradient is laid out as the first tensor it is computed from, if that has its shape and no gaps.
inline bool laid_out_as_first(const TensorImpl& first, IntArrayRef sizes) {
  return !first.contiguous && IntArrayRef(first.sizes) == sizes &&
         is_non_overlapping_and_dense(first.sizes, first.strides);
}

template <class F, size_t kCount>
Lane build_formula(std::span<const Lane> lanes) {
  return [&]<size_t... I>(std::index_sequence<I...>) { return F()(lanes[I]...); }
  (std::make_index_sequence<kCount>());
}

template <class T>
const T& formula_argument(const T& argument) {
  return argument;
}
inline const Tensor& formula_argument(const Mask& mask) { return mask.tensor; }

}  // namespace detail

template <class F, class... Args>
Tensor formula(const F& f, const Args&... args) {
  static_assert(std::is_empty_v<F>, "a formula captures nothing: give numbers as arguments");
  constexpr size_t kTensors = (size_t(0) + ... + size_t(std::same_as<Args, Tensor> || std::same_as<Args, Mask>));
  constexpr size_t kNumbers = sizeof...(Args) - kTensors;
  std::array<const Tensor*, kTensors> tensors{};
  std::array<double, kNumbers + 1> numbers{};
  uint32_t masks = 0;
  size_t t = 0, n = 0;
  const auto sort_out = [&](const auto& each) {
    using Each = std::remove_cvref_t<decltype(each)>;
    if constexpr (std::same_as<Each, Mask>) masks |= 1u << t;
    if constexpr (std::same_as<Each, Tensor>) tensors[t++] = &each;
    else if constexpr (std::same_as<Each, Mask>) tensors[t++] = &each.tensor;
    else numbers[n++] = each;
  };
  (sort_out(args), ...);
  if (!detail::formula_fuses(tensors, masks)) return f(detail::formula_argument(args)...);
  constexpr detail::FormulaBuild build = detail::build_formula<F, sizeof...(Args)>;
  const std::span<const double> given(numbers.data(), kNumbers);
  if (detail::may_wait(tensors)) return detail::append_formula(build, tensors, given);
  static constinit detail::FormulaCache cache{};
  return detail::run_formula(cache, build, tensors, given);
}

// Formulas that many gradients have.
inline Tensor times(const Tensor& grad, const Tensor& factor) {
  return formula([](auto g, auto x) { return g * conjugate(x); }, grad, factor);
}
inline Tensor times(const Tensor& grad, const Scalar& factor) {
  if (factor.isComplex()) return grad * conjugate(factor);
  return formula([](auto g, auto by) { return g * by; }, grad, factor.toDouble());
}
inline Tensor over(const Tensor& grad, const Tensor& divisor) {
  return formula([](auto g, auto x) { return g / conjugate(x); }, grad, divisor);
}
inline Tensor over(const Tensor& grad, const Scalar& divisor) {
  if (divisor.isComplex()) return grad / conjugate(divisor);
  return formula([](auto g, auto by) { return g / by; }, grad, divisor.toDouble());
}
inline Tensor negated(const Tensor& grad) {
  return formula([](auto g) { return -g; }, grad);
}
// The gradient through a multiplication by a number.
inline Tensor scaled_by(const Tensor& grad, const Scalar& factor) {
  return factor.equal_int(1) ? grad : times(grad, factor);
}

}  // namespace facula
