// A value of one of many types, for what a custom function leaves for its backward besides tensors: set by assignment, read
// by naming the type.
#pragma once

#include <facula/core/scalar.h>
#include <facula/tensor.h>

#include <any>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace facula::autograd {

class FACULA_API SavedValue {
 public:
  SavedValue() = default;
  SavedValue(std::nullopt_t) {}
  template <std::same_as<bool> T>
  SavedValue(T v) : value_(v) {}
  template <class T>
    requires((std::is_integral_v<T> && !std::is_same_v<T, bool>) ||
             (std::is_enum_v<T> && std::is_convertible_v<T, int>))
  SavedValue(T v) : value_(static_cast<int64_t>(v)) {}
  template <std::floating_point T>
  SavedValue(T v) : value_(static_cast<double>(v)) {}
  SavedValue(ScalarType v) : value_(static_cast<int64_t>(v)) {}
  SavedValue(const Scalar& v) : value_(v) {}
  SavedValue(const char* v) : value_(std::string(v)) {}
  SavedValue(std::string_view v) : value_(std::string(v)) {}
  SavedValue(std::string v) : value_(std::move(v)) {}
  SavedValue(Tensor v) : value_(std::move(v)) {}
  SavedValue(IntArrayRef v) : value_(v.vec()) {}
  SavedValue(std::vector<int64_t> v) : value_(std::move(v)) {}
  SavedValue(std::vector<double> v) : value_(std::move(v)) {}
  SavedValue(std::vector<bool> v) : value_(std::move(v)) {}
  SavedValue(std::vector<Tensor> v) : value_(std::move(v)) {}
  template <class T>
  SavedValue(const std::optional<T>& v) {
    if (v) *this = SavedValue(*v);
  }
  // Any other type; `get` gives it back.
  template <class T>
  static SavedValue of(T v) {
    SavedValue made;
    made.value_ = std::any(std::move(v));
    return made;
  }

  bool isNone() const { return value_.index() == 0; }
  bool isBool() const { return std::holds_alternative<bool>(value_); }
  bool isInt() const { return std::holds_alternative<int64_t>(value_); }
  bool isDouble() const { return std::holds_alternative<double>(value_); }
  bool isScalar() const { return isBool() || isInt() || isDouble() || std::holds_alternative<Scalar>(value_); }
  bool isString() const { return std::holds_alternative<std::string>(value_); }
  bool isTensor() const { return std::holds_alternative<Tensor>(value_); }
  bool isIntList() const { return std::holds_alternative<std::vector<int64_t>>(value_); }
  bool isDoubleList() const { return std::holds_alternative<std::vector<double>>(value_); }
  bool isBoolList() const { return std::holds_alternative<std::vector<bool>>(value_); }
  bool isTensorList() const { return std::holds_alternative<std::vector<Tensor>>(value_); }

  // DTypeError, naming both types, where the value is of another one.
  bool toBool() const;
  int64_t toInt() const;
  double toDouble() const;
  Scalar toScalar() const;
  ScalarType toScalarType() const;
  const std::string& toStringRef() const&;
  std::string toStringRef() && { return std::as_const(*this).toStringRef(); }
  std::string_view toStringView() const& { return toStringRef(); }
  const Tensor& toTensor() const&;
  Tensor toTensor() && { return std::as_const(*this).toTensor(); }
  std::vector<int64_t> toIntVector() const;
  std::vector<double> toDoubleVector() const;
  std::vector<bool> toBoolVector() const;
  std::vector<Tensor> toTensorVector() const;
  std::vector<int64_t> toIntList() const { return toIntVector(); }
  std::vector<double> toDoubleList() const { return toDoubleVector(); }
  std::vector<bool> toBoolList() const { return toBoolVector(); }
  std::vector<Tensor> toTensorList() const { return toTensorVector(); }

  // By type; an std::optional is empty for None.
  template <class T>
  T to() const {
    if constexpr (requires {
                    typename T::value_type;
                    requires std::same_as<T, std::optional<typename T::value_type>>;
                  })
      return isNone() ? T() : T(to<typename T::value_type>());
    else if constexpr (std::same_as<T, bool>) return toBool();
    else if constexpr (std::same_as<T, ScalarType>) return toScalarType();
    else if constexpr (std::integral<T>) return static_cast<T>(toInt());
    else if constexpr (std::floating_point<T>) return static_cast<T>(toDouble());
    else if constexpr (std::same_as<T, Scalar>) return toScalar();
    else if constexpr (std::same_as<T, std::string>) return toStringRef();
    else if constexpr (std::same_as<T, Tensor>) return toTensor();
    else if constexpr (std::same_as<T, std::vector<int64_t>>) return toIntVector();
    else if constexpr (std::same_as<T, std::vector<double>>) return toDoubleVector();
    else if constexpr (std::same_as<T, std::vector<bool>>) return toBoolVector();
    else if constexpr (std::same_as<T, std::vector<Tensor>>) return toTensorVector();
    else return get<T>();
  }
  // What `of` was given.
  template <class T>
  const T& get() const {
    const std::any* held = std::get_if<std::any>(&value_);
    const T* found = held ? std::any_cast<T>(held) : nullptr;
    if (!found) refuse("the type that get() names");
    return *found;
  }
  // What it holds, for messages: "Int", "Tensor".
  std::string tagKind() const;

 private:
  template <class T>
  const T& held_as(const char* kind) const;
  [[noreturn]] void refuse(const char* asked) const;

  std::variant<std::monostate, bool, int64_t, double, Scalar, std::string, Tensor, std::vector<int64_t>,
               std::vector<double>, std::vector<bool>, std::vector<Tensor>, std::any>
      value_;
};

}  // namespace facula::autograd
