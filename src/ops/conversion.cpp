// Copies of tensors into other dtypes, devices and memory formats, and the members of Tensor that change what a handle
// refers to.
#include "ops/shape_checks.h"

#include <facula/cuda/stream.h>

#include "core/dispatch.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"

#include <algorithm>

namespace facula {

namespace {

// Strides of a copy of `t` in a memory format; nullopt stands for row-major.
std::optional<DimVector> copy_strides(const TensorImpl& t, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::Contiguous || (format == MemoryFormat::Preserve && t.contiguous)) return std::nullopt;
  if (format == MemoryFormat::Preserve) return preserved_strides(t.sizes, t.strides);
  return strides_for(t.sizes, format, op);
}

Tensor converted(const Tensor& self, ScalarType dtype, Device device, MemoryFormat format, const char* op,
                 bool non_blocking = false) {
  const TensorImpl& i = *self.impl();
  FACULA_CHECK(!i.device.is_meta() || device.is_meta(), NotSupportedError, op,
               ": Cannot copy out of meta tensor; no data! Create the tensor on ", device.str(), " and fill it");
  auto strides = copy_strides(i, format, op);
  Tensor copy =
      strides ? new_tensor_strided(i.sizes, *strides, dtype, device, op) : new_tensor(i.sizes, dtype, device, op);
  copy_values(copy, self, non_blocking);
  return copy;
}

MemoryFormat one_format(const TensorOptions& options, std::optional<MemoryFormat> format, const char* op) {
  FACULA_CHECK(
      !(format && options.has_memory_format()), ValueError, op,
      ": Cannot set memory_format both in TensorOptions and explicit argument; please delete the redundant setter.");
  return format ? *format : options.memory_format_opt().value_or(MemoryFormat::Preserve);
}

Tensor to_impl(const Tensor& self, std::optional<ScalarType> dtype, std::optional<Device> device, bool non_blocking,
               bool copy, MemoryFormat format) {
  const TensorImpl& i = impl_of(self, "to");
  ScalarType new_dtype = dtype.value_or(i.dtype);
  Device new_device = plain_device(device.value_or(i.device), "to");
  bool same = new_dtype == i.dtype && new_device == i.device;
  if (same && !copy && (format == MemoryFormat::Preserve || self.is_contiguous(format))) return self;
  return facula::_to_copy(self, TensorOptions(new_dtype).device(std::optional<Device>(new_device)), non_blocking,
                          format);
}

}  // namespace

namespace meaning {

Tensor contiguous(const Tensor& self, MemoryFormat memory_format) {
  impl_of(self, "contiguous");
  FACULA_CHECK(
      memory_format != MemoryFormat::Preserve, ValueError,
      "contiguous: preserve memory format is unsupported by the contiguous operator; name a format, or use clone()");
  if (self.is_contiguous(memory_format) && (memory_format == MemoryFormat::Contiguous || self.numel() > 0)) return self;
  return self.clone(memory_format);
}

Tensor clone(const Tensor& self, std::optional<MemoryFormat> memory_format) {
  const TensorImpl& i = impl_of(self, "clone");
  return converted(self, i.dtype, i.device, memory_format.value_or(MemoryFormat::Preserve), "clone");
}

void copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  const TensorImpl &to = impl_of(self, "copy_"), &from = impl_of(src, "copy_");
  if (&to == &from) return;
  bool same_sizes = IntArrayRef(to.sizes) == IntArrayRef(from.sizes);
  Tensor source = src;
  if (!same_sizes) {
    IntArrayRef sizes = from.sizes, strides = from.strides;
    FACULA_CHECK(sizes.size() <= to.sizes.size(), ShapeError, "copy_: the number of dimensions of the source (",
                 sizes.size(), ") must not be greater than that of the target (", to.sizes.size(),
                 ").  Target sizes: ", to_text(to.sizes), ".  Source sizes: ", to_text(sizes));
    for (size_t k = 0; k < sizes.size(); ++k) {
      int64_t have = sizes[sizes.size() - 1 - k], want = to.sizes[to.sizes.size() - 1 - k];
      FACULA_CHECK(have == want || have == 1, ShapeError, "copy_: The size of the source (", have,
                   ") must match the size of the target (", want, ") at non-singleton dimension ",
                   to.sizes.size() - 1 - k, ".  Target sizes: ", to_text(to.sizes),
                   ".  Source sizes: ", to_text(from.sizes));
    }
    source = view_of(src, to.sizes, broadcast_strides(sizes, strides, to.sizes), from.storage_offset);
  }
  FACULA_CHECK(!from.device.is_meta() || to.device.is_meta(), NotSupportedError,
               "copy_: Cannot copy out of meta tensor; no data! The target is on ", to.device.str());
  if (!to.contiguous) check_no_internal_overlap(self, "copy_");
  if (to.numel > 0 && !to.device.is_meta()) {
    switch (memory_overlap(self, source)) {
      case Overlap::Partial: check_no_partial_overlap(self, source, "copy_"); break;
      // Parts of one buffer that may interleave (columns of a matrix, say): through memory of its own it is always
      // right.
      case Overlap::Unknown:
        source = converted(source, from.dtype, from.device, MemoryFormat::Contiguous, "copy_");
        break;
      default: break;
    }
    copy_values(self, source, non_blocking);
  }
  to.bump_version();
}

Tensor to(const Tensor& self, const TensorOptions& options, bool non_blocking, bool copy,
          std::optional<MemoryFormat> memory_format) {
  return to_impl(self, options.dtype_opt(), options.device_opt(), non_blocking, copy,
                 one_format(options, memory_format, "to"));
}
Tensor to(const Tensor& self, Device device, ScalarType dtype, bool non_blocking, bool copy,
          std::optional<MemoryFormat> memory_format) {
  return to_impl(self, dtype, device, non_blocking, copy, memory_format.value_or(MemoryFormat::Preserve));
}
Tensor to(const Tensor& self, ScalarType dtype, bool non_blocking, bool copy,
          std::optional<MemoryFormat> memory_format) {
  return to_impl(self, dtype, std::nullopt, non_blocking, copy, memory_format.value_or(MemoryFormat::Preserve));
}
Tensor to(const Tensor& self, const Tensor& other, bool non_blocking, bool copy,
          std::optional<MemoryFormat> memory_format) {
  const TensorImpl& o = impl_of(other, "to");
  return to_impl(self, o.dtype, o.device, non_blocking, copy, memory_format.value_or(MemoryFormat::Preserve));
}

Tensor _to_copy(const Tensor& self, const TensorOptions& options, bool non_blocking,
                std::optional<MemoryFormat> memory_format) {
  const TensorImpl& i = impl_of(self, "_to_copy");
  return converted(self, options.dtype_opt().value_or(i.dtype),
                   plain_device(options.device_opt().value_or(i.device), "to"),
                   one_format(options, memory_format, "_to_copy"), "to", non_blocking);
}

Tensor type_as(const Tensor& self, const Tensor& other) {
  const TensorImpl& o = impl_of(other, "type_as");
  impl_of(self, "type_as");
  return to_impl(self, o.dtype, o.device, false, false, MemoryFormat::Preserve);
}

}  // namespace meaning

const Tensor& Tensor::resize_(IntArrayRef sizes, std::optional<MemoryFormat> format) const {
  impl_of(*this, "resize_");
  FACULA_CHECK(!(impl_->tracking & detail::kTracksBatch), NotSupportedError,
               "resize_: inside vmap a tensor stands for every entry of a batch; make a new tensor instead");
  FACULA_CHECK(format != MemoryFormat::Preserve, ValueError,
               "resize_: Unsupported memory format Preserve; name a format or leave it out");
  if (!format && IntArrayRef(impl_->sizes) == sizes) return *this;
  FACULA_CHECK(!requires_grad(), Error,
               "resize_: cannot resize variables that require grad, whose shape the tape has recorded; resize "
               "detach() of the tensor, or make a new one with reshape, narrow or cat");
  size_t element = elementSize(impl_->dtype);
  int64_t numel = checked_numel(sizes, element, "resize_");
  DimVector new_sizes(sizes), strides = strides_for(sizes, format.value_or(MemoryFormat::Contiguous), "resize_");
  if (numel > 0) {
    int64_t last, bytes;
    bool overflow = __builtin_add_overflow(numel, impl_->storage_offset, &last);
    overflow |= __builtin_mul_overflow(last, static_cast<int64_t>(element), &bytes);
    FACULA_CHECK(!overflow, ShapeError, "resize_: sizes ", to_text(sizes), " at storage offset ", impl_->storage_offset,
                 " need more bytes than 64 bits can count");
    if (static_cast<size_t>(bytes) > impl_->storage->nbytes()) impl_->storage->resize(static_cast<size_t>(bytes));
  }
  impl_->set_geometry(new_sizes, strides, impl_->storage_offset);
  return *this;
}

Tensor& Tensor::set_(const Tensor& source) const {
  const TensorImpl &self = impl_of(*this, "set_"), &s = impl_of(source, "set_");
  FACULA_CHECK(self.dtype == s.dtype, DTypeError, "set_: Could not set tensor of type ", facula::toString(s.dtype),
               " to a tensor of type ", facula::toString(self.dtype));
  FACULA_CHECK(self.device == s.device, DeviceError, "set_: the source is on ", s.device.str(), ", this tensor on ",
               self.device.str());
  FACULA_CHECK(!((self.tracking | s.tracking) & detail::kTracksBatch), NotSupportedError,
               "set_: inside vmap a tensor stands for every entry of a batch; make a new tensor instead");
  if (&self != &s) {
    FACULA_CHECK(
        !source.requires_grad() || !detail::thread_modes.grad, Error,
        "set_: the source requires grad, and the tape does not record set_; give detach() of it, or write with "
        "copy_");
    FACULA_CHECK(!requires_grad() || (is_leaf() && !detail::thread_modes.grad), Error,
                 "set_: this tensor requires grad and the tape does not record set_; write with copy_, call it on "
                 "detach(), or (for a leaf) under no_grad (NoGradGuard)");
    impl_->base.reset();
    impl_->tracking &= ~detail::kTracksView;
    impl_->storage = s.storage;
    impl_->own_version = s.own_version;
    impl_->set_geometry(s.sizes, s.strides, s.storage_offset);
    if (impl_->tape) impl_->tape.get()->geometry_changed(*impl_);
    impl_->bump_version();
  }
  return const_cast<Tensor&>(*this);
}

Tensor Tensor::cpu() const {
  impl_of(*this, "cpu");
  return to_impl(*this, std::nullopt, Device(kCPU), false, false, MemoryFormat::Preserve);
}

Tensor Tensor::cuda() const {
  impl_of(*this, "cuda");
  return to_impl(*this, std::nullopt, plain_device(Device(kCUDA), "cuda"), false, false, MemoryFormat::Preserve);
}

bool Tensor::is_pinned() const {
  const TensorImpl& i = impl_of(*this, "is_pinned");
  return i.storage->is_pinned() || (i.device.is_cpu() && i.numel > 0 && gpu::is_pinned(i.data()));
}

Tensor Tensor::pin_memory() const {
  const TensorImpl& i = impl_of(*this, "pin_memory");
  FACULA_CHECK(i.device.is_cpu(), DeviceError, "pin_memory: only memory of the cpu can be pinned, this tensor is on ",
               i.device.str());
  if (is_pinned()) return *this;
  const auto strides = copy_strides(i, MemoryFormat::Preserve, "pin_memory");
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(
      StorageImpl::allocate_pinned(usize(i.numel) * elementSize(i.dtype), "pin_memory"), i.dtype, i.device));
  if (strides) impl->set_geometry(i.sizes, *strides, 0);
  else impl->set_contiguous(i.sizes);
  Tensor pinned(std::move(impl));
  pinned.copy_(*this);
  return pinned;
}

void Tensor::record_stream(const cuda::CUDAStream& stream) const { cuda::record_stream(*this, stream); }

Tensor Tensor::toType(ScalarType t) const {
  impl_of(*this, "toType");
  return to_impl(*this, t, std::nullopt, false, false, MemoryFormat::Preserve);
}

Scalar Tensor::item() const {
  const TensorImpl& i = impl_of(*this, "item");
  FACULA_CHECK(i.numel == 1, ValueError, "item: a Tensor with ", i.numel, " elements cannot be converted to Scalar",
               i.numel == 0 ? "; it holds no value" : "; take one with [], or reduce it first");
  FACULA_CHECK(!(i.tracking & detail::kTracksBatch), NotSupportedError,
               "item: inside vmap a tensor stands for every entry of a batch, which may differ; compute with ops, e.g. "
               "where(), instead of reading values");
  FACULA_CHECK(!i.device.is_meta(), NotSupportedError,
               "item: Tensor.item() cannot be called on meta tensors; they have no values");
  alignas(16) char element[16];
  const char* data = i.data();
  if (i.device.is_cuda()) {
    StorageImpl* storages[] = {i.storage.get()};
    gpu::read_small(element, data, elementSize(i.dtype), {"item", i.device.index(), storages});
    data = element;
  }
  return dispatch_dtype(i.dtype, [&]<class T>() { return Scalar(*reinterpret_cast<const T*>(data)); });
}

}  // namespace facula
