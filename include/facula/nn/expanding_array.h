// Sizes of D dims that may be given as one number for all of them: `Conv2dOptions(3, 8, 5)` and `Conv2dOptions(3, 8, {5, 3})`.
#pragma once

#include <facula/core/array_ref.h>
#include <facula/core/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace facula {

namespace detail {
// The numbers of `given`, or its only number `wanted` times; everything else is an error.
FACULA_API void expand_sizes(ArrayRef<int64_t> given, int64_t* into, size_t wanted);
FACULA_API std::string sizes_text(const int64_t* sizes, size_t count);
}  // namespace detail

template <size_t D>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<int64_t> list) : ExpandingArray(ArrayRef<int64_t>(list.begin(), list.size())) {}
  ExpandingArray(const std::vector<int64_t>& values) : ExpandingArray(ArrayRef<int64_t>(values)) {}
  ExpandingArray(ArrayRef<int64_t> values) { detail::expand_sizes(values, values_.data(), D); }
  ExpandingArray(int64_t single) { values_.fill(single); }
  ExpandingArray(const std::array<int64_t, D>& values) : values_(values) {}

  std::array<int64_t, D>& operator*() { return values_; }
  const std::array<int64_t, D>& operator*() const { return values_; }
  std::array<int64_t, D>* operator->() { return &values_; }
  const std::array<int64_t, D>* operator->() const { return &values_; }
  operator ArrayRef<int64_t>() const { return {values_.data(), D}; }
  size_t size() const { return D; }
  bool operator==(const ExpandingArray&) const = default;

 private:
  std::array<int64_t, D> values_;
};

// A number where there is one dim, else a list.
template <size_t D>
std::string to_text(const ExpandingArray<D>& sizes) {
  return detail::sizes_text(sizes->data(), D);
}
FACULA_API std::ostream& print_sizes(std::ostream& out, ArrayRef<int64_t> sizes);
template <size_t D>
std::ostream& operator<<(std::ostream& out, const ExpandingArray<D>& sizes) {
  return print_sizes(out, sizes);
}

// The same for sizes of which some may be left open.
template <size_t D>
class ExpandingArrayWithOptionalElem {
 public:
  using Value = std::optional<int64_t>;
  ExpandingArrayWithOptionalElem(std::initializer_list<Value> list)
      : ExpandingArrayWithOptionalElem(std::vector(list)) {}
  ExpandingArrayWithOptionalElem(const std::vector<Value>& values) {
    FACULA_CHECK(values.size() == D || values.size() == 1, ValueError, "Expected 1 or ", D, " sizes, but got ",
                 values.size());
    for (size_t i = 0; i < D; ++i) values_[i] = values.size() == 1 ? values[0] : values[i];
  }
  ExpandingArrayWithOptionalElem(const std::vector<int64_t>& values)
      : ExpandingArrayWithOptionalElem(std::vector<Value>(values.begin(), values.end())) {}
  ExpandingArrayWithOptionalElem(int64_t single) { values_.fill(single); }
  ExpandingArrayWithOptionalElem(Value single) { values_.fill(single); }

  std::array<Value, D>& operator*() { return values_; }
  const std::array<Value, D>& operator*() const { return values_; }
  std::array<Value, D>* operator->() { return &values_; }
  const std::array<Value, D>* operator->() const { return &values_; }
  size_t size() const { return D; }
  bool operator==(const ExpandingArrayWithOptionalElem&) const = default;

 private:
  std::array<Value, D> values_;
};

}  // namespace facula
