// A borrowed, read-only run of values: what shapes, strides and lists of tensors are passed as.
#pragma once

#include <facula/core/export.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace facula {

namespace detail {
// Raises IndexError: `count` elements from `start` are not within an array of `size`.
[[noreturn]] FACULA_API void raise_array_range(size_t start, size_t count, size_t size);
}  // namespace detail

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;
  using iterator = const T*;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* first, const T* last) : data_(first), size_(static_cast<size_t>(last - first)) {}
  ArrayRef(const std::vector<T>& v) : data_(v.data()), size_(v.size()) {}
  template <size_t N>
  constexpr ArrayRef(const T (&array)[N]) : data_(array), size_(N) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  constexpr ArrayRef(const std::initializer_list<T>& list)
      : data_(list.size() == 0 ? nullptr : list.begin()), size_(list.size()) {}
#pragma GCC diagnostic pop
  template <class Container>
    requires requires(const Container& c) {
               { c.data() } -> std::convertible_to<const T*>;
               { c.size() } -> std::convertible_to<size_t>;
             }
  constexpr ArrayRef(const Container& c) : data_(c.data()), size_(c.size()) {}

  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr const T& at(size_t i) const {
    if (i >= size_) detail::raise_array_range(i, 1, size_);
    return data_[i];
  }
  constexpr ArrayRef slice(size_t start, size_t count) const {
    if (start > size_ || count > size_ - start) detail::raise_array_range(start, count, size_);
    return {data_ + start, count};
  }
  constexpr ArrayRef slice(size_t start) const {
    if (start > size_) detail::raise_array_range(start, 0, size_);
    return {data_ + start, size_ - start};
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  constexpr bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i)
      if (!(data_[i] == other.data_[i])) return false;
    return true;
  }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
constexpr bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(ArrayRef<T>(b));
}
template <class T>
bool operator==(const std::vector<T>& a, ArrayRef<T> b) {
  return ArrayRef<T>(a).equals(b);
}

using IntArrayRef = ArrayRef<int64_t>;

// An optional shape. It remembers presence and borrows the values, so that `sum({0, 1})` and `sum(1)` both work.
class OptionalIntArrayRef {
 public:
  constexpr OptionalIntArrayRef() = default;
  constexpr OptionalIntArrayRef(std::nullopt_t) {}
  constexpr OptionalIntArrayRef(IntArrayRef values) : values_(values), present_(true) {}
  constexpr OptionalIntArrayRef(const int64_t& one) : values_(one), present_(true) {}
  constexpr OptionalIntArrayRef(const std::initializer_list<int64_t>& list) : values_(list), present_(true) {}
  OptionalIntArrayRef(const std::vector<int64_t>& v) : values_(v), present_(true) {}
  OptionalIntArrayRef(const std::optional<IntArrayRef>& v) : present_(v.has_value()) {
    if (v) values_ = *v;
  }
  constexpr bool has_value() const { return present_; }
  constexpr explicit operator bool() const { return present_; }
  constexpr IntArrayRef value() const { return values_; }
  constexpr IntArrayRef operator*() const { return values_; }
  constexpr const IntArrayRef* operator->() const { return &values_; }

 private:
  IntArrayRef values_;
  bool present_ = false;
};

// "[2, 3]", as it stands in error texts.
FACULA_API std::string to_text(IntArrayRef values);
FACULA_API std::ostream& operator<<(std::ostream& out, IntArrayRef values);

}  // namespace facula
