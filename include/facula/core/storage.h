// A block of memory that tensors and their views share, with the version counter that in-place operations raise.
#pragma once

#include <facula/core/device.h>
#include <facula/core/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>

namespace facula {

class StorageImpl;

class FACULA_API Storage {
 public:
  Storage();
  explicit Storage(intrusive_ptr<StorageImpl> impl);
  Storage(const Storage& other);
  Storage(Storage&& other) noexcept;
  Storage& operator=(const Storage& other);
  Storage& operator=(Storage&& other) noexcept;
  ~Storage();

  explicit operator bool() const { return static_cast<bool>(impl_); }
  void* data() const;
  void* mutable_data() const { return data(); }
  size_t nbytes() const;
  Device device() const;
  int64_t use_count() const;
  bool is_alias_of(const Storage& other) const { return impl_ == other.impl_; }
  bool unique() const { return use_count() == 1; }
  StorageImpl* impl() const { return impl_.get(); }
  const intrusive_ptr<StorageImpl>& ptr() const { return impl_; }

 private:
  intrusive_ptr<StorageImpl> impl_;
};

}  // namespace facula
