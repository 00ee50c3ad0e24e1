// Reference counting with the count inside the object. One pointer wide, one allocation an object.
#pragma once

#include <facula/core/export.h>

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace facula {

class FACULA_API RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    // A count of one belongs to this thread alone: no other thread can raise it without holding a reference.
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->destroy();
  }
  // For whoever knows the object without holding a reference: false when the last one is gone. The object's `destroy` must
  // keep such an object alive while it is asked, and look again whether it is still alone.
  bool try_retain() const noexcept {
    int64_t count = refs_.load(std::memory_order_relaxed);
    while (count > 0)
      if (refs_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel, std::memory_order_relaxed))
        return true;
    return false;
  }
  int64_t use_count() const noexcept { return refs_.load(std::memory_order_relaxed); }

 protected:
  virtual ~RefCounted() = default;
  virtual void destroy() noexcept { delete this; }

 private:
  mutable std::atomic<int64_t> refs_{1};
};

template <class T>
class intrusive_ptr {
 public:
  intrusive_ptr() = default;
  intrusive_ptr(std::nullptr_t) {}
  // Takes over the one reference that a new object is born with.
  static intrusive_ptr adopt(T* object) noexcept {
    intrusive_ptr p;
    p.object_ = object;
    return p;
  }
  static intrusive_ptr borrow(T* object) noexcept {
    if (object) object->retain();
    return adopt(object);
  }
  intrusive_ptr(const intrusive_ptr& other) noexcept : object_(other.object_) {
    if (object_) object_->retain();
  }
  template <class U>
    requires(!std::is_same_v<T, U> && std::is_convertible_v<U*, T*>)
  intrusive_ptr(const intrusive_ptr<U>& other) noexcept : object_(other.get()) {
    if (object_) object_->retain();
  }
  intrusive_ptr(intrusive_ptr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  intrusive_ptr& operator=(const intrusive_ptr& other) noexcept {
    intrusive_ptr(other).swap(*this);
    return *this;
  }
  intrusive_ptr& operator=(intrusive_ptr&& other) noexcept {
    intrusive_ptr(std::move(other)).swap(*this);
    return *this;
  }
  ~intrusive_ptr() {
    if (object_) object_->release();
  }
  void swap(intrusive_ptr& other) noexcept { std::swap(object_, other.object_); }
  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  bool operator==(const intrusive_ptr& other) const noexcept { return object_ == other.object_; }
  void reset() noexcept { intrusive_ptr().swap(*this); }

 private:
  T* object_ = nullptr;
};

}  // namespace facula
