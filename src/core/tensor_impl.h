// What a Tensor handle points to: geometry, dtype, device and the shared storage. Plain fields; `refresh` keeps the
// derived ones right after a change of sizes or strides.
#pragma once

#include "core/dim_vector.h"
#include "core/storage_impl.h"

#include <facula/core/dtype.h>
#include <facula/tensor.h>

namespace facula {

class TensorImpl final : public RefCounted {
 public:
  TensorImpl(intrusive_ptr<StorageImpl> storage_in, ScalarType dtype_in, Device device_in)
      : storage(std::move(storage_in)), dtype(dtype_in), device(device_in) {}

  void set_geometry(IntArrayRef new_sizes, IntArrayRef new_strides, int64_t new_offset) {
    sizes = new_sizes;
    strides = new_strides;
    storage_offset = new_offset;
    refresh();
  }
  // Sets row-major strides.
  void set_contiguous(IntArrayRef new_sizes);
  void refresh();

  char* data() const {
    char* base = static_cast<char*>(storage->data());
    return base ? base + storage_offset * static_cast<int64_t>(elementSize(dtype)) : nullptr;
  }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }

  intrusive_ptr<StorageImpl> storage;
  int64_t storage_offset = 0;
  int64_t numel = 1;
  ScalarType dtype;
  Device device;
  bool contiguous = true;
  DimVector sizes, strides;
};

inline IntArrayRef sizes_of(const Tensor& t) { return t.impl()->sizes; }

}  // namespace facula
