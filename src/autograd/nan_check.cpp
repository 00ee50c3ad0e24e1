// Which op made the first NaN of a forward pass, and what to say about it.
#include "autograd/nan_check.h"

#include "autograd/anomaly.h"
#include "core/shape.h"

#include <facula/autograd/modes.h>
#include <facula/cuda/graph.h>
#include <facula/tensors.h>

#include <algorithm>
#include <cstdio>

namespace facula::autograd {

namespace {

// Ops that put values where they are told to and compute none: NaN in what they give was given to them on purpose.
bool only_places_values(OpId op) {
  switch (op) {
    case OpId::fill_:
    case OpId::masked_fill:
    case OpId::index_fill:
    case OpId::scatter:
    case OpId::where:
    case OpId::pad:
    case OpId::constant_pad_nd:
    case OpId::nan_to_num: return true;
    default: return op_kind(op) == OpKind::Creation || op_kind(op) == OpKind::View;
  }
}

// A tensor that an op was given: `weight`, or `tensors[2]`.
struct Given {
  std::string name;
  Tensor tensor;
};
std::vector<Given> given_tensors(std::initializer_list<NanCheckArgument> arguments) {
  std::vector<Given> all;
  for (const NanCheckArgument& each : arguments) {
    for (size_t i = 0; i < each.count; ++i) {
      if (each.optionals && !each.optionals[i]) continue;
      const Tensor& t = each.optionals ? *each.optionals[i] : each.tensors[i];
      if (t.defined()) all.push_back({each.count > 1 ? str(each.name, "[", i, "]") : std::string(each.name), t});
    }
  }
  return all;
}

// What a capture records has no values yet.
bool has_values(const Tensor& t) { return !t.is_cuda() || !cuda::is_current_stream_capturing(); }

struct Range {
  bool known = false, infinite = false;
  double low = 0, high = 0;
};
Range range_of(const Tensor& given) {
  Range range;
  const Tensor t = without_batch(given);
  if (t.numel() == 0 || t.is_complex() || t.scalar_type() == kBool || t.is_meta()) return range;
  const Tensor wide = t.to(kDouble);
  range = {true, false, wide.amin().item<double>(), wide.amax().item<double>()};
  range.infinite = range.low - range.low != 0 || range.high - range.high != 0;
  return range;
}

std::string arguments_text(const std::vector<Given>& given, const detail::OpAttrs* attrs) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < given.size() && i < kShown; ++i)
    text += str(i == 0 ? "" : ", ", given[i].name, " ", range_text(given[i].tensor));
  if (given.size() > kShown) text += str(" and ", given.size() - kShown, " more tensors");
  const std::string numbers = attrs ? attrs->to_string() : std::string();
  return text + (text.empty() || numbers.empty() ? "" : ", ") + numbers;
}

// How such a NaN comes about in this op, and what to change.
std::string cure(OpId op, const std::vector<Given>& given, const Tensor& result) {
  bool infinite = false, empty = false;
  for (const Given& each : given) {
    infinite |= range_of(each.tensor).infinite;
    empty |= each.tensor.numel() == 0;
  }
  switch (op) {
    case OpId::softmax:
    case OpId::log_softmax:
    case OpId::scaled_dot_product_attention:
    case OpId::_fused_attention:
      return "A row of which nothing is left but -inf has no softmax: let the mask leave at least one entry in each "
             "row";
    case OpId::cross_entropy_loss:
    case OpId::_cross_entropy:
    case OpId::_cross_entropy_with_slope:
    case OpId::nll_loss:
      if (!infinite)
        return "The mean over no targets is 0 / 0: give a batch in which some target is not ignore_index and has a "
               "weight";
      break;
    case OpId::mean:
    case OpId::nanmean:
      if (empty) return "The mean of no elements is 0 / 0: give at least one";
      break;
    case OpId::var:
    case OpId::std:
    case OpId::var_mean:
    case OpId::std_mean:
      if (!infinite)
        return "The variance of one element is 0 / 0: give more elements, or correction=0 (unbiased=false)";
      break;
    default: break;
  }
  if (infinite)
    return "An argument is infinite, and inf - inf, inf / inf and 0 * inf are NaN: look for what made it so large. A "
           "lower "
           "learning rate, clipped gradients (clip_grad_norm_) or, under float16, bfloat16 help";
  switch (op) {
    case OpId::log:
    case OpId::log2:
    case OpId::log10:
    case OpId::log1p:
    case OpId::xlogy:
    case OpId::logit:
      return "The logarithm of a negative number is NaN: bound the argument from below, as in x.clamp_min(1e-8)";
    case OpId::sqrt:
    case OpId::rsqrt:
    case OpId::pow:
      return "Roots and broken powers of negative numbers are NaN: bound the argument from below, as in x.clamp_min(0)";
    case OpId::div:
    case OpId::addcdiv:
    case OpId::remainder:
    case OpId::fmod:
    case OpId::floor_divide:
      return "0 / 0 is NaN: add a small number to what is divided by, or take entries that are zero out first";
    case OpId::asin:
    case OpId::acos:
    case OpId::acosh:
    case OpId::atanh:
    case OpId::erfinv:
      return "The function has no value there: clamp the argument to where it has, as in x.clamp(-1, 1)";
    default: break;
  }
  if (elementSize(result.scalar_type()) <= 2)
    return str("Intermediate sums may be too large for ", toString(result.scalar_type()),
               ": compute in float, or in bfloat16 under autocast");
  return "Look at the range of the arguments, and at numbers among them that are NaN";
}

std::string first_place(const Tensor& is_nan) {
  if (is_nan.dim() == 0) return {};
  const Tensor place = is_nan.nonzero().select(0, 0).cpu();
  const int64_t* at = place.data_ptr<int64_t>();
  return str(", the first at ", to_text(IntArrayRef(at, static_cast<size_t>(is_nan.dim()))));
}

}  // namespace

std::string range_text(const Tensor& t) {
  std::string text = str(toString(t.scalar_type()), " ", to_text(t.sizes()));
  if (t.device() != kCPU) text += str(" on ", t.device().str());
  if (const Range range = range_of(t); range.known) {
    char numbers[64];  // six digits say enough
    std::snprintf(numbers, sizeof(numbers), " from %g to %g", range.low, range.high);
    text += numbers;
  }
  return text;
}

bool looks_for_nan(TensorList tensors) {
  return (detail::call_hooks & detail::kChecksResults) && std::all_of(tensors.begin(), tensors.end(), has_values);
}

struct NanCheck::State {
  OpId op;
  const detail::OpAttrs* attrs;
  std::vector<Given> given;
  NanCheckOff off;
};

NanCheck::NanCheck(OpId op, const detail::OpAttrs* attrs, bool writes,
                   std::initializer_list<NanCheckArgument> arguments) {
  if (!(detail::call_hooks & detail::kChecksResults) || only_places_values(op)) return;
  std::vector<Given> given = given_tensors(arguments);
  if (!std::all_of(given.begin(), given.end(), [](const Given& each) { return has_values(each.tensor); })) return;
  state_.reset(new State{op, attrs, std::move(given), {}});
  if (!writes) return;
  const NoGradGuard quiet;
  for (Given& each : state_->given) each.tensor = each.tensor.clone();
}

NanCheck::~NanCheck() = default;

void NanCheck::look(ArrayRef<Tensor> results) const {
  const NoGradGuard quiet;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    if (!result.defined() || !has_values(result) || !has_nan(result)) continue;
    const std::vector<Given>& given = state_->given;
    if (std::any_of(given.begin(), given.end(), [](const Given& each) { return has_nan(each.tensor); })) return;
    const Tensor is_nan = without_batch(result).isnan();
    const std::string place = calling_place();
    const std::string where =
        str(" in ", is_nan.sum().item<int64_t>(), " of ", is_nan.numel(), " entries", first_place(is_nan));
    throw NanError(str(op_name(state_->op), ": ", results.size() > 1 ? str("result ", i) : std::string("the result"),
                       ", ", toString(result.scalar_type()), " ", to_text(result.sizes()), ", holds NaN", where,
                       ", and no argument does: it is the first. Arguments: ", arguments_text(given, state_->attrs),
                       ". ", cure(state_->op, given, result), place.empty() ? "" : str(". Called from ", place)));
  }
}

}  // namespace facula::autograd
