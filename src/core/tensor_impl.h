// What a Tensor handle points to: geometry, dtype, device and the shared storage. Plain fields; `refresh` keeps the
// derived ones right after a change of sizes or strides.
#pragma once

#include "core/dim_vector.h"
#include "core/storage_impl.h"
#include "core/tracking.h"

#include <facula/core/dtype.h>
#include <facula/tensor.h>

#include <memory>

namespace facula {

// What the tape keeps about a tensor; src/autograd derives from it.
struct TensorTape {
  virtual ~TensorTape() = default;
};

class TensorImpl final : public RefCounted {
 public:
  TensorImpl(intrusive_ptr<StorageImpl> storage_in, ScalarType dtype_in, Device device_in)
      : storage(std::move(storage_in)),
        dtype(dtype_in),
        device(device_in),
        tracking(detail::thread_modes.inference ? uint8_t(detail::kTracksInference) : uint8_t(0)) {}
  // Remembers that this is a view of `of`, or of what that is a view of.
  void set_base(TensorImpl* of) {
    base = of->base ? of->base : intrusive_ptr<TensorImpl>::borrow(of);
    view_without_grad = !detail::thread_modes.grad;
    tracking |= detail::kTracksView;
  }

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
    char* bytes = static_cast<char*>(storage->data());
    return bytes ? bytes + storage_offset * static_cast<int64_t>(elementSize(dtype)) : nullptr;
  }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }

  intrusive_ptr<StorageImpl> storage;
  int64_t storage_offset = 0;
  int64_t numel = 1;
  ScalarType dtype;
  Device device;
  bool contiguous = true;
  uint8_t tracking;                // flags of detail::Tracking
  bool view_without_grad = false;  // a view that was made while the tape did not record
  DimVector sizes, strides;
  intrusive_ptr<TensorImpl> base;    // of a view; never a view itself
  std::unique_ptr<TensorTape> tape;  // absent until a gradient, a tangent or a batch concerns this tensor
};

inline IntArrayRef sizes_of(const Tensor& t) { return t.impl()->sizes; }

}  // namespace facula
