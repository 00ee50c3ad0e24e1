// What the code that modgen writes is made of: printing, checks of options, and errors that name the module they happened in.
#pragma once

#include <facula/core/error.h>
#include <facula/nn/expanding_array.h>
#include <facula/nn/module.h>
#include <facula/nn/options.h>

#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace facula::nn {

// An undefined tensor is none.
inline std::optional<Tensor> given(const Tensor& tensor) {
  return tensor.defined() ? std::optional<Tensor>(tensor) : std::nullopt;
}

// A tensor that an option brought, to be registered: the same elements behind a handle of the module's own, so that a clone of
// the module gets its own too.
inline Tensor own_handle(const Tensor& tensor) { return tensor.defined() ? tensor.detach() : tensor; }

// `torch::nn::Linear(in_features=3, bias=true)`: the name, then values; the end of its life closes the parenthesis.
class Printed {
 public:
  Printed(std::ostream& stream, const char* name);
  ~Printed();
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;

  Printed& value(const char* label, int64_t value);
  Printed& value(const char* label, double value);
  Printed& value(const char* label, bool value);
  Printed& value(const char* label, const std::string& value);
  Printed& value(const char* label, const std::vector<int64_t>& sizes);
  template <class T>
  Printed& value(const char* label, const std::optional<T>& maybe) {
    return maybe ? value(label, *maybe) : value(label, std::string("None"));
  }
  template <size_t D>
  Printed& value(const char* label, const ExpandingArray<D>& sizes) {
    return value(label, to_text(sizes));
  }
  template <size_t D>
  Printed& value(const char* label, const ExpandingArrayWithOptionalElem<D>& sizes) {
    std::string text;
    for (const auto& size : *sizes) text += str(text.empty() ? "[" : ", ", size ? std::to_string(*size) : "None");
    return value(label, text + "]");
  }
  template <size_t D>
  Printed& value(const char* label, const conv_padding_t<D>& padding) {
    if (padding.sizes()) return value(label, *padding.sizes());
    return value(label, std::string(padding.is_same() ? "kSame" : "kValid"));
  }
  template <class... Names>
  Printed& value(const char* label, const Choice<Names...>& choice) {
    return value(label, enumtype::get_enum_name(choice));
  }
  template <class T>
  Printed& value_if(bool shown, const char* label, const T& what) {
    return shown ? value(label, what) : *this;
  }

 private:
  std::ostream& begin(const char* label);

  std::ostream& stream_;
  bool first_ = true;
};
// Sizes as `{2, 2}`.
std::string in_braces(const std::vector<int64_t>& sizes);

// Checks of options. The text names the module, the option, and what to change.
void require_divisible(const char* module, const char* name, int64_t value, const char* by, int64_t divisor);
void require_between(const char* module, const char* name, double value, double low, double high);
void require_below(const char* module, const char* name, double value, const char* other, double bound);
void require_positive(const char* module, const char* name, int64_t value);

// Sizes from numbers and lists of numbers: joined_sizes({Size(8), kernel_size}).
class Size {
 public:
  explicit Size(int64_t one) : sizes_{one} {}
  Size(const std::vector<int64_t>& sizes) : sizes_(sizes) {}
  template <size_t D>
  Size(const ExpandingArray<D>& sizes) : sizes_(sizes->begin(), sizes->end()) {}
  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  std::vector<int64_t> sizes_;
};
std::vector<int64_t> joined_sizes(std::initializer_list<Size> parts);

// What an option says about an argument of forward: the size of a dim, or of the last dims.
struct Expected {
  static constexpr int64_t kLast = INT64_MAX;
  const char* argument;
  const Tensor& given;
  int64_t dim;
  const char* option;
  IntArrayRef sizes;
};
// Throws the error again, with the place in the network behind its text: the module's path, what it is, the sizes that met, and
// the option that does not fit, if one of `expected` does not.
[[noreturn]] void rethrow_in_module(const Module& module, const Error& error, std::initializer_list<Expected> expected);

}  // namespace facula::nn
