// Calling ops with values whose types are known at run time only: the value type, its conversions to the parameters of
// the C++ functions, and the choice among overloads. The table of ops itself is generated (generated/boxed_calls.h).
#pragma once

#include <facula/tensor.h>

#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/generated/op_ids.h"

namespace facula::testing {

// std::monostate stands for None.
using BoxedValue = std::variant<std::monostate, Tensor, Scalar, int64_t, double, bool, std::string,
                                std::vector<int64_t>, std::vector<Tensor>, std::vector<std::optional<Tensor>>,
                                ScalarType, Device, MemoryFormat, TensorOptions, Generator>;
using BoxedArgs = std::span<const BoxedValue>;

enum class BoxedVariant { Function, Inplace, Out };

struct BoxedArg {
  const char* type;  // as in the op book: "int[]?"
  const char* name;
  bool required;
};

struct BoxedOp {
  const char* name;            // of the function: "add", "add_", "add_out"
  const char* op;              // of the paragraph in the op book: "add"
  const char* signature;       // of the overload, as in the op book
  std::vector<BoxedArg> args;  // out tensors come first, as in C++
  OpKind kind;
  BoxedVariant variant;
  std::vector<BoxedValue> (*call)(BoxedArgs);
};

// What a value is, for messages.
std::string describe(const BoxedValue& value);
std::string describe(BoxedArgs values);

// How well a value fits a type of the op book: 0 not at all, 1 after a conversion, 2 as it is.
int fit(const BoxedValue& value, std::string_view type);
// The overload of function `name` that fits the values best; throws facula::Error with the candidates when there is none.
const BoxedOp& find_boxed(std::string_view name, BoxedArgs values);
std::vector<BoxedValue> call_boxed(std::string_view name, BoxedArgs values);
inline std::vector<BoxedValue> call_boxed(std::string_view name, std::initializer_list<BoxedValue> values) {
  return call_boxed(name, BoxedArgs(values.begin(), values.size()));
}

[[noreturn]] void refuse(const BoxedValue& value, size_t position, const char* wanted);
[[noreturn]] void refuse_missing(size_t position, size_t given);

// A tensor that the callee writes into. Copies of a handle share the tensor, so the caller sees what was written.
inline Tensor& tensor_at(BoxedArgs values, size_t i) {
  if (i >= values.size()) refuse_missing(i, values.size());
  const auto* tensor = std::get_if<Tensor>(&values[i]);
  if (tensor == nullptr) refuse(values[i], i, "Tensor");
  return const_cast<Tensor&>(*tensor);
}

template <class T>
struct Unbox;

// Types that the variant holds as they are.
template <class T>
struct UnboxPlain {
  static const T& get(const BoxedValue& value, size_t i, const char* wanted) {
    const T* found = std::get_if<T>(&value);
    if (found == nullptr) refuse(value, i, wanted);
    return *found;
  }
};

template <>
struct Unbox<Tensor> {
  static const Tensor& get(const BoxedValue& value, size_t i) { return UnboxPlain<Tensor>::get(value, i, "Tensor"); }
};
template <>
struct Unbox<bool> {
  static bool get(const BoxedValue& value, size_t i) { return UnboxPlain<bool>::get(value, i, "bool"); }
};
template <>
struct Unbox<int64_t> {
  static int64_t get(const BoxedValue& value, size_t i) { return UnboxPlain<int64_t>::get(value, i, "int"); }
};
template <>
struct Unbox<double> {
  static double get(const BoxedValue& value, size_t i) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* scalar = std::get_if<Scalar>(&value)) return scalar->toDouble();
    return UnboxPlain<double>::get(value, i, "float");
  }
};
template <>
struct Unbox<Scalar> {
  static Scalar get(const BoxedValue& value, size_t i) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
    if (const auto* real = std::get_if<double>(&value)) return *real;
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    return UnboxPlain<Scalar>::get(value, i, "Scalar");
  }
};
template <>
struct Unbox<std::string_view> {
  static std::string_view get(const BoxedValue& value, size_t i) {
    return UnboxPlain<std::string>::get(value, i, "str");
  }
};
template <>
struct Unbox<ScalarType> {
  static ScalarType get(const BoxedValue& value, size_t i) {
    return UnboxPlain<ScalarType>::get(value, i, "ScalarType");
  }
};
template <>
struct Unbox<Device> {
  static Device get(const BoxedValue& value, size_t i) { return UnboxPlain<Device>::get(value, i, "Device"); }
};
template <>
struct Unbox<MemoryFormat> {
  static MemoryFormat get(const BoxedValue& value, size_t i) {
    return UnboxPlain<MemoryFormat>::get(value, i, "MemoryFormat");
  }
};
template <>
struct Unbox<Generator> {
  static Generator get(const BoxedValue& value, size_t i) { return UnboxPlain<Generator>::get(value, i, "Generator"); }
};
template <>
struct Unbox<TensorOptions> {
  static TensorOptions get(const BoxedValue& value, size_t i) {
    if (std::holds_alternative<std::monostate>(value)) return {};
    if (const auto* dtype = std::get_if<ScalarType>(&value)) return *dtype;
    if (const auto* device = std::get_if<Device>(&value)) return *device;
    return UnboxPlain<TensorOptions>::get(value, i, "TensorOptions");
  }
};
// Lists borrow from the boxed value, which outlives the call. One integer is a list of one, and so is one tensor.
template <>
struct Unbox<IntArrayRef> {
  static IntArrayRef get(const BoxedValue& value, size_t i) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return IntArrayRef(integer, 1);
    return UnboxPlain<std::vector<int64_t>>::get(value, i, "int[]");
  }
};
template <>
struct Unbox<OptionalIntArrayRef> {
  static OptionalIntArrayRef get(const BoxedValue& value, size_t i) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return Unbox<IntArrayRef>::get(value, i);
  }
};
template <>
struct Unbox<TensorList> {
  static TensorList get(const BoxedValue& value, size_t i) {
    if (const auto* tensor = std::get_if<Tensor>(&value)) return TensorList(tensor, 1);
    return UnboxPlain<std::vector<Tensor>>::get(value, i, "Tensor[]");
  }
};
template <class T>
struct Unbox<std::optional<T>> {
  static std::optional<T> get(const BoxedValue& value, size_t i) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return Unbox<T>::get(value, i);
  }
};
template <>
struct Unbox<ArrayRef<std::optional<Tensor>>> {
  static ArrayRef<std::optional<Tensor>> get(const BoxedValue& value, size_t i) {
    return UnboxPlain<std::vector<std::optional<Tensor>>>::get(value, i, "Tensor?[]");
  }
};

template <class T>
decltype(auto) arg(BoxedArgs values, size_t i) {
  if (i >= values.size()) refuse_missing(i, values.size());
  return Unbox<T>::get(values[i], i);
}
// An argument with a default, which holds when fewer values are given. The default borrows for the whole call expression.
template <class T>
T arg(BoxedArgs values, size_t i, const std::type_identity_t<T>& otherwise) {
  return i < values.size() ? T(Unbox<T>::get(values[i], i)) : otherwise;
}

// Results back into boxes.
inline std::vector<BoxedValue> box(const Tensor& result) { return {BoxedValue(result)}; }
inline std::vector<BoxedValue> box(const std::vector<Tensor>& result) { return {BoxedValue(result)}; }
inline std::vector<BoxedValue> box(bool result) { return {BoxedValue(result)}; }
inline std::vector<BoxedValue> box(int64_t result) { return {BoxedValue(result)}; }
inline std::vector<BoxedValue> box(const Scalar& result) { return {BoxedValue(result)}; }
template <class... Ts>
std::vector<BoxedValue> box(const std::tuple<Ts...>& results) {
  return std::apply([](const auto&... each) { return std::vector<BoxedValue>{BoxedValue(Tensor(each))...}; }, results);
}

}  // namespace facula::testing
