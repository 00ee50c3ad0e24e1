// A value of one of many types, for what a custom function leaves for its backward besides tensors: set by assignment, read
// by naming the type.
#pragma once

#include <facula/core/scalar.h>
#include <facula/tensor.h>

#include <any>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace facula::autograd {

class FACULA_API SavedValue {
 public:
  SavedValue();
  SavedValue(const SavedValue&);
  SavedValue(SavedValue&&) noexcept;
  SavedValue& operator=(const SavedValue&);
  SavedValue& operator=(SavedValue&&) noexcept;
  ~SavedValue();
  SavedValue(std::nullopt_t) : SavedValue() {}
  template <std::same_as<bool> T>
  SavedValue(T v) : SavedValue(Plain<bool>{v}) {}
  template <class T>
    requires((std::is_integral_v<T> && !std::is_same_v<T, bool>) ||
             (std::is_enum_v<T> && std::is_convertible_v<T, int>))
  SavedValue(T v) : SavedValue(Plain<int64_t>{static_cast<int64_t>(v)}) {}
  template <std::floating_point T>
  SavedValue(T v) : SavedValue(Plain<double>{static_cast<double>(v)}) {}
  SavedValue(ScalarType v) : SavedValue(Plain<int64_t>{static_cast<int64_t>(v)}) {}
  SavedValue(const Scalar& v);
  SavedValue(const char* v) : SavedValue(std::string(v)) {}
  SavedValue(std::string_view v) : SavedValue(std::string(v)) {}
  SavedValue(std::string v);
  SavedValue(Tensor v);
  SavedValue(IntArrayRef v);
  SavedValue(std::vector<int64_t> v);
  SavedValue(std::vector<double> v);
  SavedValue(std::vector<bool> v);
  SavedValue(std::vector<Tensor> v);
  template <class T>
  SavedValue(const std::optional<T>& v) : SavedValue() {
    if (v) *this = SavedValue(*v);
  }
  // Any other type; `get` gives it back.
  template <class T>
  static SavedValue of(T v) {
    return SavedValue(Plain<std::any>{std::any(std::move(v))});
  }

  bool isNone() const;
  bool isBool() const;
  bool isInt() const;
  bool isDouble() const;
  bool isScalar() const;
  bool isString() const;
  bool isTensor() const;
  bool isIntList() const;
  bool isDoubleList() const;
  bool isBoolList() const;
  bool isTensorList() const;

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
    const T* found = std::any_cast<T>(other());
    if (!found) refuse("the type that get() names");
    return *found;
  }
  // What it holds, for messages: "Int", "Tensor".
  std::string tagKind() const;

 private:
  // Says which of the constructors is meant.
  template <class T>
  struct Plain {
    T value;
  };
  explicit SavedValue(Plain<bool> v);
  explicit SavedValue(Plain<int64_t> v);
  explicit SavedValue(Plain<double> v);
  explicit SavedValue(Plain<std::any> v);

  // What `of` was given, null when it is one of the types above.
  const std::any* other() const;
  template <class T>
  const T& held_as(const char* kind) const;
  [[noreturn]] void refuse(const char* asked) const;

  struct Held;
  std::unique_ptr<Held> held_;  // none: None
};

}  // namespace facula::autograd
