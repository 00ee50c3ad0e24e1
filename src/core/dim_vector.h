// A short list of sizes, strides or dims without a heap allocation for up to eight of them.
#pragma once

#include <facula/core/array_ref.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>

namespace facula {

class DimVector {
 public:
  static constexpr size_t kInline = 8;

  DimVector() = default;
  explicit DimVector(size_t count, int64_t value = 0) { resize(count, value); }
  DimVector(IntArrayRef values) { assign(values); }
  DimVector(std::initializer_list<int64_t> values) { assign(IntArrayRef(values)); }
  template <class It>
    requires(!std::is_integral_v<It>)
  DimVector(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  DimVector(const DimVector& other) { assign(other); }
  DimVector(DimVector&& other) noexcept { take(other); }
  DimVector& operator=(const DimVector& other) {
    if (this != &other) assign(other);
    return *this;
  }
  DimVector& operator=(DimVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  DimVector& operator=(IntArrayRef values) {
    assign(values);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return heap_ ? heap_.get() : inline_; }
  const int64_t* data() const { return heap_ ? heap_.get() : inline_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& front() { return data()[0]; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t front() const { return data()[0]; }
  int64_t back() const { return data()[size_ - 1]; }

  void push_back(int64_t v) {
    reserve(size_ + 1);
    data()[size_++] = v;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(size_t count, int64_t value = 0) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = static_cast<uint32_t>(count);
  }
  void insert(size_t at, int64_t v) {
    reserve(size_ + 1);
    int64_t* d = data();
    std::copy_backward(d + at, d + size_, d + size_ + 1);
    d[at] = v;
    ++size_;
  }
  void erase(size_t at) {
    int64_t* d = data();
    std::copy(d + at + 1, d + size_, d + at);
    --size_;
  }

 private:
  void assign(IntArrayRef values) {
    reserve(values.size());
    if (!values.empty()) std::memmove(data(), values.data(), values.size() * sizeof(int64_t));
    size_ = static_cast<uint32_t>(values.size());
  }
  void take(DimVector& other) noexcept {
    heap_ = std::move(other.heap_);
    size_ = other.size_;
    capacity_ = other.capacity_;
    if (!heap_) std::memcpy(inline_, other.inline_, sizeof(inline_));
    other.size_ = 0;
    other.capacity_ = kInline;
  }
  void reserve(size_t count) {
    if (count <= capacity_) return;
    size_t capacity = std::max<size_t>(count, capacity_ * 2);
    auto heap = std::make_unique<int64_t[]>(capacity);
    std::copy(begin(), end(), heap.get());
    heap_ = std::move(heap);
    capacity_ = static_cast<uint32_t>(capacity);
  }

  int64_t inline_[kInline] = {};
  std::unique_ptr<int64_t[]> heap_;
  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
};

}  // namespace facula
