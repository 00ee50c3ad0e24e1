// What a Tensor handle points to: geometry, dtype, device and the shared storage. Plain fields; `refresh` keeps the
// derived ones right after a change of sizes or strides.
#pragma once

#include "core/dim_vector.h"
#include "core/storage_impl.h"
#include "core/tracking.h"

#include <facula/core/dtype.h>
#include <facula/tensor.h>

#include <atomic>
#include <memory>

namespace facula {

class TensorImpl;

// What the tape keeps about a tensor; src/autograd derives from it.
struct TensorTape {
  virtual ~TensorTape() = default;
  // The last known reference is going. False when somebody who knew the tensor without holding it has come for it.
  virtual bool ends(const TensorImpl&) { return true; }
  // The tensor got another shape, dtype or device.
  virtual void geometry_changed(const TensorImpl&) {}
};

// Owns the tape of a tensor. Threads may look while one of them gives a view its tape.
class TapePtr {
 public:
  TapePtr() = default;
  TapePtr(const TapePtr&) = delete;
  ~TapePtr() { delete get(); }
  TensorTape* get() const { return tape_.load(std::memory_order_acquire); }
  explicit operator bool() const { return get() != nullptr; }
  TapePtr& operator=(std::unique_ptr<TensorTape> tape) {
    delete tape_.exchange(tape.release(), std::memory_order_acq_rel);
    return *this;
  }
  // Takes `tape` unless there is one already.
  void offer(std::unique_ptr<TensorTape> tape) {
    TensorTape* none = nullptr;
    if (tape_.compare_exchange_strong(none, tape.get(), std::memory_order_acq_rel)) tape.release();
  }

 private:
  std::atomic<TensorTape*> tape_{nullptr};
};

// Counts writes to tensors that share memory with others but are watched apart from them (`data()`).
struct VersionCounter final : RefCounted {
  explicit VersionCounter(uint32_t start) : count(start) {}
  std::atomic<uint32_t> count;
};

// What follows for a view when its base is written to.
enum class ViewKind : uint8_t {
  Recorded,    // its history begins at the base again
  Unrecorded,  // nothing: it was made while the tape did not record
  Custom       // its history would be lost: a custom function gave it
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
    own_version = of->own_version;
    set_view_kind(of, detail::thread_modes.grad);
    // Whether a view may be recorded depends on what it shows, not on where it was made.
    tracking = static_cast<uint8_t>((tracking & ~detail::kTracksInference) | detail::kTracksView |
                                    (of->tracking & detail::kTracksInference));
  }
  void set_view_kind(const TensorImpl* of, bool recorded) {
    if (of->base && of->view_kind != ViewKind::Recorded) view_kind = of->view_kind;
    else view_kind = recorded ? ViewKind::Recorded : ViewKind::Unrecorded;
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

  // How often this memory was written to, as far as those know who share the counter.
  uint32_t version() const {
    return own_version ? own_version->count.load(std::memory_order_relaxed) : storage->version();
  }
  void bump_version() const {
    if (own_version) own_version->count.fetch_add(1, std::memory_order_relaxed);
    else storage->bump_version();
  }

  intrusive_ptr<StorageImpl> storage;
  int64_t storage_offset = 0;
  int64_t numel = 1;
  ScalarType dtype;
  Device device;
  bool contiguous = true;
  detail::Flags tracking;  // of detail::Tracking
  ViewKind view_kind = ViewKind::Recorded;
  DimVector sizes, strides;
  intrusive_ptr<TensorImpl> base;             // of a view; never a view itself
  intrusive_ptr<VersionCounter> own_version;  // where writes are not counted by the storage
  TapePtr tape;                               // absent until a gradient, a tangent or a batch concerns this tensor
  void* python_object = nullptr;  // the Python object that stands for this tensor while there is one; not owned

 private:
  void destroy() noexcept override {
    // The count is zero, or one when nobody else could be seen; then the tape's accumulator may have raised it since.
    if (tape && use_count() > 0 && !tape.get()->ends(*this)) [[unlikely]]
      return release();
    delete this;
  }
};

inline IntArrayRef sizes_of(const Tensor& t) { return t.impl()->sizes; }

}  // namespace facula
