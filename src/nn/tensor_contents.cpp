// Contents of tensors, field by field.
#include "nn/tensor_contents.h"

#include "autograd/tensor_tape.h"
#include "core/tensor_impl.h"

#include <string>
#include <utility>

namespace facula::nn {

using autograd::Tape;

namespace {

// The fields that are known here. Who adds one to TensorImpl or Tape adds it to swap_contents too.
struct KnownFields : RefCounted {
  intrusive_ptr<StorageImpl> storage;
  int64_t storage_offset, numel;
  ScalarType dtype;
  Device device;
  bool contiguous;
  facula::detail::Flags tracking;
  ViewKind view_kind;
  DimVector sizes, strides;
  intrusive_ptr<TensorImpl> base;
  intrusive_ptr<VersionCounter> own_version;
  TapePtr tape;
  void* python_object;
};
static_assert(sizeof(KnownFields) == sizeof(TensorImpl), "TensorImpl has another field: exchange it in swap_contents");

struct KnownTapeFields : TensorTape {
  bool requires_grad, retains_grad;
  uint32_t output_nr, version_at_history;
  intrusive_ptr<autograd::TapeNode> grad_fn;
  intrusive_ptr<autograd::AccumulateGrad> accumulator;
  intrusive_ptr<autograd::GradSlot> slot;
  intrusive_ptr<autograd::Tangents> tangents;
  std::unique_ptr<autograd::BatchInfo> batch;
  std::string name;
};
static_assert(sizeof(KnownTapeFields) == sizeof(Tape), "Tape has another field: exchange it in swap_contents");

}  // namespace

void prepare_swap(const Tensor& t) { autograd::ensure_tape(t); }

void swap_contents(const Tensor& first, const Tensor& second) noexcept {
  TensorImpl &a = *first.impl(), &b = *second.impl();
  std::swap(a.storage, b.storage);
  std::swap(a.storage_offset, b.storage_offset);
  std::swap(a.numel, b.numel);
  std::swap(a.dtype, b.dtype);
  std::swap(a.device, b.device);
  std::swap(a.contiguous, b.contiguous);
  const uint8_t tracking = a.tracking;
  a.tracking = b.tracking;
  b.tracking = tracking;
  std::swap(a.view_kind, b.view_kind);
  std::swap(a.sizes, b.sizes);
  std::swap(a.strides, b.strides);
  std::swap(a.base, b.base);
  std::swap(a.own_version, b.own_version);
  // The tape belongs to the tensor, what it says to the contents.
  Tape &x = *autograd::tape_of(&a), &y = *autograd::tape_of(&b);
  std::swap(x.requires_grad, y.requires_grad);
  std::swap(x.retains_grad, y.retains_grad);
  std::swap(x.output_nr, y.output_nr);
  std::swap(x.version_at_history, y.version_at_history);
  std::swap(x.grad_fn, y.grad_fn);
  std::swap(x.accumulator, y.accumulator);
  std::swap(x.slot, y.slot);
  std::swap(x.tangents, y.tangents);
  std::swap(x.batch, y.batch);
  // Each accumulator looks after the tensor that has its contents now.
  x.geometry_changed(a);
  y.geometry_changed(b);
}

}  // namespace facula::nn
