// Values of one of many types. The variant is here and not in the header, where every program would pay for it.
#include <facula/autograd/saved_value.h>
#include <facula/core/error.h>

#include <variant>

namespace facula::autograd {

struct SavedValue::Held {
  std::variant<bool, int64_t, double, Scalar, std::string, Tensor, std::vector<int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<Tensor>, std::any>
      value;
};

namespace {

template <class T, class Held>
const T* find(const std::unique_ptr<Held>& held) {
  return held ? std::get_if<T>(&held->value) : nullptr;
}

}  // namespace

SavedValue::SavedValue() = default;
SavedValue::SavedValue(const SavedValue& other) : held_(other.held_ ? std::make_unique<Held>(*other.held_) : nullptr) {}
SavedValue::SavedValue(SavedValue&&) noexcept = default;
SavedValue& SavedValue::operator=(const SavedValue& other) { return *this = SavedValue(other); }
SavedValue& SavedValue::operator=(SavedValue&&) noexcept = default;
SavedValue::~SavedValue() = default;

SavedValue::SavedValue(Plain<bool> v) : held_(new Held{v.value}) {}
SavedValue::SavedValue(Plain<int64_t> v) : held_(new Held{v.value}) {}
SavedValue::SavedValue(Plain<double> v) : held_(new Held{v.value}) {}
SavedValue::SavedValue(Plain<std::any> v) : held_(new Held{std::move(v.value)}) {}
SavedValue::SavedValue(const Scalar& v) : held_(new Held{v}) {}
SavedValue::SavedValue(std::string v) : held_(new Held{std::move(v)}) {}
SavedValue::SavedValue(Tensor v) : held_(new Held{std::move(v)}) {}
SavedValue::SavedValue(IntArrayRef v) : held_(new Held{v.vec()}) {}
SavedValue::SavedValue(std::vector<int64_t> v) : held_(new Held{std::move(v)}) {}
SavedValue::SavedValue(std::vector<double> v) : held_(new Held{std::move(v)}) {}
SavedValue::SavedValue(std::vector<bool> v) : held_(new Held{std::move(v)}) {}
SavedValue::SavedValue(std::vector<Tensor> v) : held_(new Held{std::move(v)}) {}

bool SavedValue::isNone() const { return held_ == nullptr; }
bool SavedValue::isBool() const { return find<bool>(held_); }
bool SavedValue::isInt() const { return find<int64_t>(held_); }
bool SavedValue::isDouble() const { return find<double>(held_); }
bool SavedValue::isScalar() const { return isBool() || isInt() || isDouble() || find<Scalar>(held_); }
bool SavedValue::isString() const { return find<std::string>(held_); }
bool SavedValue::isTensor() const { return find<Tensor>(held_); }
bool SavedValue::isIntList() const { return find<std::vector<int64_t>>(held_); }
bool SavedValue::isDoubleList() const { return find<std::vector<double>>(held_); }
bool SavedValue::isBoolList() const { return find<std::vector<bool>>(held_); }
bool SavedValue::isTensorList() const { return find<std::vector<Tensor>>(held_); }
const std::any* SavedValue::other() const { return find<std::any>(held_); }

std::string SavedValue::tagKind() const {
  static constexpr const char* kNames[] = {"Bool",    "Int",        "Double",   "Scalar",     "String",      "Tensor",
                                           "IntList", "DoubleList", "BoolList", "TensorList", "another type"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(Held::value)>);
  return held_ ? kNames[held_->value.index()] : "None";
}

void SavedValue::refuse(const char* asked) const {
  throw DTypeError(str(
      "saved_data: Expected ", asked, " but got ", tagKind(),
      isNone() ? "; nothing was saved under this name, save it in forward" : "; read it as what forward has saved"));
}

template <class T>
const T& SavedValue::held_as(const char* kind) const {
  const T* found = find<T>(held_);
  if (!found) refuse(kind);
  return *found;
}

bool SavedValue::toBool() const {
  if (const Scalar* s = find<Scalar>(held_); s && s->isBoolean()) return s->to<bool>();
  return held_as<bool>("Bool");
}
int64_t SavedValue::toInt() const {
  if (const Scalar* s = find<Scalar>(held_); s && s->isIntegral(false)) return s->to<int64_t>();
  return held_as<int64_t>("Int");
}
double SavedValue::toDouble() const {
  if (const Scalar* s = find<Scalar>(held_); s && s->isFloatingPoint()) return s->to<double>();
  return held_as<double>("Double");
}
Scalar SavedValue::toScalar() const {
  if (const bool* v = find<bool>(held_)) return Scalar(*v);
  if (const int64_t* v = find<int64_t>(held_)) return Scalar(*v);
  if (const double* v = find<double>(held_)) return Scalar(*v);
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
