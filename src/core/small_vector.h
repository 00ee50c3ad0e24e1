// A list whose first few entries need no heap. For short lists of handles on hot paths; DimVector is the one for sizes.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace facula {

template <class T, size_t kInline>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t count) { resize(count); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      clear();
      drop_heap();
      take(other);
    }
    return *this;
  }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  ~SmallVector() {
    clear();
    drop_heap();
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_ : inline_data(); }
  const T* data() const { return heap_ ? heap_ : const_cast<SmallVector*>(this)->inline_data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& back() { return data()[size_ - 1]; }

  void reserve(size_t count) {
    if (count <= capacity_) return;
    const size_t capacity = count > 2 * capacity_ ? count : 2 * capacity_;
    T* grown = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t(alignof(T))));
    std::uninitialized_move(begin(), end(), grown);
    std::destroy(begin(), end());
    drop_heap();
    heap_ = grown;
    capacity_ = capacity;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    reserve(size_ + 1);
    T* place = new (data() + size_) T(std::forward<Args>(args)...);
    ++size_;
    return *place;
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  void resize(size_t count) {
    while (size_ > count) data()[--size_].~T();
    reserve(count);
    while (size_ < count) emplace_back();
  }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

 private:
  T* inline_data() { return std::launder(reinterpret_cast<T*>(inline_)); }
  void drop_heap() {
    if (heap_) ::operator delete(heap_, std::align_val_t(alignof(T)));
    heap_ = nullptr;
    capacity_ = kInline;
  }
  void take(SmallVector& other) noexcept {
    if (other.heap_) {
      heap_ = std::exchange(other.heap_, nullptr);
      capacity_ = std::exchange(other.capacity_, kInline);
    } else {
      std::uninitialized_move(other.begin(), other.end(), inline_data());
      std::destroy(other.begin(), other.end());
    }
    size_ = std::exchange(other.size_, 0);
  }

  alignas(T) unsigned char inline_[kInline * sizeof(T)];
  T* heap_ = nullptr;
  size_t size_ = 0, capacity_ = kInline;
};

}  // namespace facula
