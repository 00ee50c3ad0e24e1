// The names outside of tensors and ops that libtorch programs use: namespaces, checks, warnings, small helpers.
// Dispatch on dtypes is in <ATen/Dispatch.h>.
#pragma once

#include <facula/core/warning.h>
#include <facula/cuda.h>
#include <facula/data.h>
#include <facula/facula.h>
#include <facula/nn/nn.h>

#include <concepts>
#include <cstddef>
#include <iosfwd>
#include <iterator>
#include <optional>

namespace facula {

using TensorBase = Tensor;
using TypeError = DTypeError;
using NotImplementedError = NotSupportedError;

template <class T>
using optional = std::optional<T>;
using std::make_optional;
using std::nullopt_t;
inline constexpr std::nullopt_t nullopt = std::nullopt;

template <class T>
ArrayRef<T> makeArrayRef(const std::vector<T>& values) {
  return values;
}
template <class T>
ArrayRef<T> makeArrayRef(const T* data, size_t size) {
  return {data, size};
}

// `for (auto i : irange(n))`. The numbers have the type of the end.
template <std::integral Int>
class IntegerRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Int;
    using difference_type = std::ptrdiff_t;
    using pointer = const Int*;
    using reference = Int;

    Iterator() = default;
    explicit Iterator(Int at) : at_(at) {}
    Int operator*() const { return at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++at_;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Int at_ = 0;
  };
  IntegerRange(Int first, Int last) : first_(first), last_(last < first ? first : last) {}
  Iterator begin() const { return Iterator(first_); }
  Iterator end() const { return Iterator(last_); }

 private:
  Int first_, last_;
};
template <std::integral Int>
IntegerRange<Int> irange(Int last) {
  return {Int{0}, last};
}
template <std::integral First, std::integral Last>
IntegerRange<Last> irange(First first, Last last) {
  return {static_cast<Last>(first), last};
}

// `std::cout << complex(a, b)` prints the tensor that it is, not a number.
inline std::ostream& operator<<(std::ostream& os, const complex<Tensor>& made) {
  return os << static_cast<const Tensor&>(made);
}

// The elements as text, with the delimiter between them.
template <class Container>
std::string Join(std::string_view delimiter, const Container& values) {
  std::string out;
  bool first = true;
  for (const auto& v : values) {
    if (!first) out += delimiter;
    out += str(v);
    first = false;
  }
  return out;
}

// Names of libtorch for "below the tape".
class AutoNonVariableTypeMode : public AutoGradMode {
 public:
  explicit AutoNonVariableTypeMode(bool enabled = true) : AutoGradMode(!enabled && GradMode::is_enabled()) {}
};
using AutoDispatchBelowAutograd = NoGradGuard;
using AutoDispatchBelowADInplaceOrView = NoGradGuard;

namespace autograd {
using Variable = Tensor;
using variable_list = std::vector<Tensor>;
}  // namespace autograd

namespace special {
inline Tensor digamma(const Tensor& self) { return facula::digamma(self); }
inline Tensor psi(const Tensor& self) { return facula::digamma(self); }
inline Tensor erf(const Tensor& self) { return facula::erf(self); }
inline Tensor erfc(const Tensor& self) { return facula::erfc(self); }
inline Tensor erfinv(const Tensor& self) { return facula::erfinv(self); }
inline Tensor exp2(const Tensor& self) { return facula::exp2(self); }
inline Tensor expit(const Tensor& self) { return facula::sigmoid(self); }
inline Tensor expm1(const Tensor& self) { return facula::expm1(self); }
inline Tensor gammaln(const Tensor& self) { return facula::lgamma(self); }
inline Tensor i0(const Tensor& self) { return facula::i0(self); }
inline Tensor i1(const Tensor& self) { return facula::special_i1(self); }
inline Tensor log1p(const Tensor& self) { return facula::log1p(self); }
inline Tensor log_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return facula::log_softmax(self, dim, dtype);
}
inline Tensor logit(const Tensor& self, std::optional<double> eps = std::nullopt) { return facula::logit(self, eps); }
inline Tensor logsumexp(const Tensor& self, IntArrayRef dim, bool keepdim) {
  return facula::logsumexp(self, dim, keepdim);
}
inline Tensor polygamma(int64_t n, const Tensor& self) { return facula::polygamma(n, self); }
inline Tensor round(const Tensor& self) { return facula::round(self); }
inline Tensor sinc(const Tensor& self) { return facula::sinc(self); }
inline Tensor softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  return facula::softmax(self, dim, dtype);
}
inline Tensor xlogy(const Tensor& self, const Tensor& other) { return facula::xlogy(self, other); }
inline Tensor xlogy(const Tensor& self, const Scalar& other) { return facula::xlogy(self, other); }
inline Tensor xlogy(const Scalar& self, const Tensor& other) { return facula::xlogy(self, other); }
}  // namespace special

namespace detail {
// The text of a failed TORCH_CHECK: the program's own, or one made of the condition.
inline std::string check_text(const char* condition) {
  return str("Expected ", condition, " to be true, but got false.");
}
template <class... Args>
std::string check_text(const char*, const Args&... args) {
  return str(args...);
}
}  // namespace detail

}  // namespace facula

namespace torch = facula;
namespace at = facula;
namespace c10 = facula;

namespace caffe2 {

// A dtype under the name that `Tensor::dtype()` has in libtorch. Converts from and to ScalarType.
class TypeMeta {
 public:
  TypeMeta() = default;
  TypeMeta(facula::ScalarType type) : type_(type) {}
  template <class T>
  static TypeMeta Make() {
    return TypeMeta(facula::scalar_type_of<T>());
  }
  template <class T>
  bool Match() const {
    return *this == Make<T>();
  }
  operator facula::ScalarType() const { return type_; }
  facula::ScalarType toScalarType() const { return type_; }
  static TypeMeta fromScalarType(facula::ScalarType type) { return type; }
  size_t itemsize() const { return facula::elementSize(type_); }
  std::string_view name() const { return facula::toString(type_); }
  bool operator==(const TypeMeta&) const = default;
  bool operator==(facula::ScalarType other) const { return type_ == other; }

 private:
  facula::ScalarType type_ = facula::ScalarType::Undefined;
};

}  // namespace caffe2

#define FACULA_TORCH_CHECK(condition, ErrorType, ...)                                                 \
  do {                                                                                                \
    if (!(condition)) [[unlikely]]                                                                    \
      throw ::facula::ErrorType(::facula::detail::check_text(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)

#define TORCH_CHECK(condition, ...) FACULA_TORCH_CHECK(condition, Error, __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) FACULA_TORCH_CHECK(condition, IndexError, __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) FACULA_TORCH_CHECK(condition, ValueError, __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) FACULA_TORCH_CHECK(condition, TypeError, __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) FACULA_TORCH_CHECK(condition, NotImplementedError, __VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...)                                                                     \
  FACULA_TORCH_CHECK(condition, InternalError, #condition " INTERNAL ASSERT FAILED at ", __FILE__, ":", __LINE__, \
                     ". ", "" __VA_OPT__(, ) __VA_ARGS__)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#endif
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ERROR(...) FACULA_TORCH_CHECK(false, Error, __VA_ARGS__)

// libtorch's options are variants, so its programs ask them with the functions of std, which must therefore know ours.
// NOLINTBEGIN(cert-dcl58-cpp)
namespace std {
template <class Name, class... Names>
constexpr bool holds_alternative(const facula::Choice<Names...>& choice) {
  return facula::holds_alternative<Name>(choice);
}
template <class Name, class... Names>
const Name* get_if(const facula::Choice<Names...>* choice) {
  return facula::get_if<Name>(choice);
}
template <class Wanted, size_t D>
const Wanted* get_if(const facula::nn::conv_padding_t<D>* padding) {
  static constexpr facula::enumtype::kSame kSame{};
  static constexpr facula::enumtype::kValid kValid{};
  if constexpr (is_same_v<Wanted, facula::enumtype::kSame>) return padding->is_same() ? &kSame : nullptr;
  else if constexpr (is_same_v<Wanted, facula::enumtype::kValid>)
    return padding->sizes() || padding->is_same() ? nullptr : &kValid;
  else return padding->sizes();
}
template <class Wanted, size_t D>
bool holds_alternative(const facula::nn::conv_padding_t<D>& padding) {
  return std::get_if<Wanted>(&padding) != nullptr;
}
}  // namespace std
// NOLINTEND(cert-dcl58-cpp)

#define TORCH_MODULE_IMPL(Name, ImplType) FACULA_MODULE_IMPL(Name, ImplType)
#define TORCH_MODULE(Name) FACULA_MODULE(Name)
#define TORCH_ARG(T, name) FACULA_ARG(T, name)
#define FORWARD_HAS_DEFAULT_ARGS(...) FACULA_FORWARD_HAS_DEFAULT_ARGS(__VA_ARGS__)

#define TORCH_WARN(...) \
  ::facula::warn(::facula::Warning({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, ::facula::str(__VA_ARGS__)))
#define TORCH_WARN_ONCE(...)                                      \
  do {                                                            \
    [[maybe_unused]] static const bool facula_warned_once = [&] { \
      TORCH_WARN(__VA_ARGS__);                                    \
      return true;                                                \
    }();                                                          \
  } while (false)
