// Choice among the overloads of a boxed call, and its error texts.
#include "cpp/boxed.h"

#include <facula/core/error.h>

#include <sstream>

#include "generated/boxed_calls.h"

namespace facula::testing {
namespace {

template <class... Ts>
bool holds(const BoxedValue& value) {
  return (std::holds_alternative<Ts>(value) || ...);
}

int exact_or_converted(bool exact, bool converted) { return exact ? 2 : converted ? 1 : 0; }

// Types without a trailing '?'.
int fit_present(const BoxedValue& value, std::string_view type) {
  if (type == "Tensor") return exact_or_converted(holds<Tensor>(value), false);
  if (type == "Tensor[]") return exact_or_converted(holds<std::vector<Tensor>>(value), holds<Tensor>(value));
  if (type == "Tensor?[]") return exact_or_converted(holds<std::vector<std::optional<Tensor>>>(value), false);
  if (type == "Scalar") return exact_or_converted(holds<Scalar, int64_t, double, bool>(value), false);
  if (type == "int") return exact_or_converted(holds<int64_t>(value), false);
  if (type == "int[]") return exact_or_converted(holds<std::vector<int64_t>>(value), holds<int64_t>(value));
  if (type == "float") return exact_or_converted(holds<double>(value), holds<int64_t, Scalar>(value));
  if (type == "bool") return exact_or_converted(holds<bool>(value), false);
  if (type == "str") return exact_or_converted(holds<std::string>(value), false);
  if (type == "ScalarType") return exact_or_converted(holds<ScalarType>(value), false);
  if (type == "Device") return exact_or_converted(holds<Device>(value), false);
  if (type == "MemoryFormat") return exact_or_converted(holds<MemoryFormat>(value), false);
  if (type == "Generator") return exact_or_converted(holds<Generator>(value), false);
  if (type == "TensorOptions") {
    return exact_or_converted(holds<TensorOptions>(value), holds<ScalarType, Device, std::monostate>(value));
  }
  return 0;
}

// Sum of the fits, or -1 when the values do not fit at all.
int score(const BoxedOp& op, BoxedArgs values) {
  if (values.size() > op.args.size()) return -1;
  int total = 0;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (i >= values.size()) {
      if (op.args[i].required) return -1;
      continue;
    }
    const int one = fit(values[i], op.args[i].type);
    if (one == 0) return -1;
    total += one;
  }
  return total;
}

}  // namespace

int fit(const BoxedValue& value, std::string_view type) {
  if (type.ends_with('?')) {
    if (holds<std::monostate>(value)) return 2;
    type.remove_suffix(1);
  }
  return fit_present(value, type);
}

const BoxedOp& find_boxed(std::string_view name, BoxedArgs values) {
  const BoxedOp* best = nullptr;
  int best_score = -1;
  std::ostringstream candidates;
  for (const BoxedOp& op : boxed_ops()) {
    if (op.name != name) continue;
    candidates << "\n  " << op.name << op.signature;
    const int points = score(op, values);
    if (points > best_score) {
      best = &op;
      best_score = points;
    }
  }
  if (best != nullptr) return *best;
  const std::string known = candidates.str();
  if (known.empty()) throw Error("no op is called " + std::string(name));
  throw Error("no overload of " + std::string(name) + " takes (" + describe(values) + "). There are:" + known);
}

std::vector<BoxedValue> call_boxed(std::string_view name, BoxedArgs values) {
  return find_boxed(name, values).call(values);
}

std::string describe(const BoxedValue& value) {
  struct Words {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(const Tensor& t) const {
      if (!t.defined()) return "Tensor(undefined)";
      std::ostringstream out;
      out << "Tensor(" << t.scalar_type() << ", " << t.sizes() << ")";
      return out.str();
    }
    std::string operator()(const Scalar& s) const { return "Scalar(" + s.str() + ")"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const {
      std::ostringstream out;
      out << v;
      return out.str();
    }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(const std::string& v) const { return '"' + v + '"'; }
    std::string operator()(const std::vector<int64_t>& v) const { return to_text(IntArrayRef(v)); }
    std::string operator()(const std::vector<Tensor>& v) const { return "Tensor[" + std::to_string(v.size()) + "]"; }
    std::string operator()(const std::vector<std::optional<Tensor>>& v) const {
      return "Tensor?[" + std::to_string(v.size()) + "]";
    }
    std::string operator()(ScalarType v) const {
      std::ostringstream out;
      out << v;
      return out.str();
    }
    std::string operator()(const Device& v) const { return v.str(); }
    std::string operator()(MemoryFormat v) const { return to_text(v); }
    std::string operator()(const TensorOptions& v) const { return to_text(v); }
    std::string operator()(const Generator&) const { return "Generator"; }
  };
  return std::visit(Words(), value);
}

std::string describe(BoxedArgs values) {
  std::string text;
  for (const BoxedValue& value : values) text += (text.empty() ? "" : ", ") + describe(value);
  return text;
}

void refuse(const BoxedValue& value, size_t position, const char* wanted) {
  throw Error("argument " + std::to_string(position) + " is " + describe(value) + " where " + wanted + " is wanted");
}

void refuse_missing(size_t position, size_t given) {
  throw Error("argument " + std::to_string(position) + " is missing: " + std::to_string(given) + " were given");
}

}  // namespace facula::testing
