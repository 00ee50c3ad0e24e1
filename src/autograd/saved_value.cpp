// Reading values of one of many types.
#include <facula/autograd/saved_value.h>
#include <facula/core/error.h>

namespace facula::autograd {

std::string SavedValue::tagKind() const {
  static constexpr const char* kNames[] = {"None",   "Bool",    "Int",        "Double",   "Scalar",     "String",
                                           "Tensor", "IntList", "DoubleList", "BoolList", "TensorList", "another type"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(value_)>);
  return kNames[value_.index()];
}

void SavedValue::refuse(const char* asked) const {
  throw DTypeError(str(
      "saved_data: Expected ", asked, " but got ", tagKind(),
      isNone() ? "; nothing was saved under this name, save it in forward" : "; read it as what forward has saved"));
}

template <class T>
const T& SavedValue::held_as(const char* kind) const {
  const T* found = std::get_if<T>(&value_);
  if (!found) refuse(kind);
  return *found;
}

bool SavedValue::toBool() const {
  if (const Scalar* s = std::get_if<Scalar>(&value_); s && s->isBoolean()) return s->to<bool>();
  return held_as<bool>("Bool");
}
int64_t SavedValue::toInt() const {
  if (const Scalar* s = std::get_if<Scalar>(&value_); s && s->isIntegral(false)) return s->to<int64_t>();
  return held_as<int64_t>("Int");
}
double SavedValue::toDouble() const {
  if (const Scalar* s = std::get_if<Scalar>(&value_); s && s->isFloatingPoint()) return s->to<double>();
  return held_as<double>("Double");
}
Scalar SavedValue::toScalar() const {
  if (isBool()) return Scalar(std::get<bool>(value_));
  if (isInt()) return Scalar(std::get<int64_t>(value_));
  if (isDouble()) return Scalar(std::get<double>(value_));
  return held_as<Scalar>("Scalar");
}
ScalarType SavedValue::toScalarType() const { return static_cast<ScalarType>(held_as<int64_t>("Int")); }
const std::string& SavedValue::toStringRef() const& { return held_as<std::string>("String"); }
const Tensor& SavedValue::toTensor() const& { return held_as<Tensor>("Tensor"); }
std::vector<int64_t> SavedValue::toIntVector() const { return held_as<std::vector<int64_t>>("IntList"); }
std::vector<double> SavedValue::toDoubleVector() const { return held_as<std::vector<double>>("DoubleList"); }
std::vector<bool> SavedValue::toBoolVector() const { return held_as<std::vector<bool>>("BoolList"); }
std::vector<Tensor> SavedValue::toTensorVector() const { return held_as<std::vector<Tensor>>("TensorList"); }

}  // namespace facula::autograd
