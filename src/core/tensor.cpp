// The hand-written part of Tensor: handle, geometry, element access. Operators are in src/ops/operators.cpp.
#include "core/shape.h"
#include "core/tensor_impl.h"

#include <facula/core/error.h>
#include <facula/tensor.h>

namespace facula {

void TensorImpl::set_contiguous(IntArrayRef new_sizes) {
  sizes = new_sizes;
  strides.resize(sizes.size());
  int64_t step = 1, count = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
    count *= sizes[i];
  }
  numel = count;
  contiguous = true;
}

void TensorImpl::refresh() {
  numel = 1;
  for (int64_t s : sizes) numel *= s;
  contiguous = is_contiguous(sizes, strides, MemoryFormat::Contiguous);
}

namespace {
const TensorImpl& checked(const TensorImpl* impl) {
  FACULA_CHECK(impl, ValueError,
               "this tensor is undefined (a default-constructed Tensor); assign a tensor to it first");
  return *impl;
}
}  // namespace

Tensor::Tensor(intrusive_ptr<TensorImpl> impl) noexcept : impl_(impl.get()) {
  if (impl_) impl_->retain();
}
Tensor::Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
  if (impl_) impl_->retain();
}
Tensor& Tensor::operator=(const Tensor& other) & noexcept {
  if (other.impl_) other.impl_->retain();
  if (impl_) impl_->release();
  impl_ = other.impl_;
  return *this;
}
void Tensor::release() noexcept { impl_->release(); }
int64_t Tensor::use_count() const noexcept { return impl_ ? impl_->use_count() : 0; }

int64_t Tensor::dim() const { return checked(impl_).dim(); }
IntArrayRef Tensor::sizes() const { return checked(impl_).sizes; }
IntArrayRef Tensor::strides() const { return checked(impl_).strides; }
int64_t Tensor::size(int64_t d) const {
  const TensorImpl& t = checked(impl_);
  FACULA_CHECK(t.dim() > 0, IndexError, "size: Dimension specified as ", d, " but tensor has no dimensions");
  return t.sizes[static_cast<size_t>(wrap_dim(d, t.dim(), "size"))];
}
int64_t Tensor::stride(int64_t d) const {
  const TensorImpl& t = checked(impl_);
  FACULA_CHECK(t.dim() > 0, IndexError, "stride: Dimension specified as ", d, " but tensor has no dimensions");
  return t.strides[static_cast<size_t>(wrap_dim(d, t.dim(), "stride"))];
}
int64_t Tensor::numel() const { return checked(impl_).numel; }
int64_t Tensor::storage_offset() const { return checked(impl_).storage_offset; }
int64_t Tensor::itemsize() const { return static_cast<int64_t>(elementSize(scalar_type())); }
size_t Tensor::nbytes() const { return static_cast<size_t>(numel()) * elementSize(scalar_type()); }

ScalarType Tensor::scalar_type() const { return checked(impl_).dtype; }
Device Tensor::device() const { return checked(impl_).device; }
int64_t Tensor::get_device() const { return checked(impl_).device.index(); }
TensorOptions Tensor::options() const {
  return TensorOptions().dtype(scalar_type()).device(std::optional<Device>(device()));
}
Storage Tensor::storage() const { return Storage(checked(impl_).storage); }
bool Tensor::has_storage() const { return impl_ != nullptr; }
bool Tensor::is_alias_of(const Tensor& other) const {
  return checked(impl_).storage.get() == checked(other.impl_).storage.get();
}

bool Tensor::is_cpu() const { return device().is_cpu(); }
bool Tensor::is_cuda() const { return device().is_cuda(); }
bool Tensor::is_meta() const { return device().is_meta(); }
bool Tensor::is_contiguous(MemoryFormat format) const {
  const TensorImpl& t = checked(impl_);
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve) return t.contiguous;
  return facula::is_contiguous(t.sizes, t.strides, format);
}
bool Tensor::is_non_overlapping_and_dense() const {
  const TensorImpl& t = checked(impl_);
  return t.contiguous || facula::is_non_overlapping_and_dense(t.sizes, t.strides);
}
MemoryFormat Tensor::suggest_memory_format() const {
  const TensorImpl& t = checked(impl_);
  if (t.contiguous) return MemoryFormat::Contiguous;
  if (is_contiguous(MemoryFormat::ChannelsLast)) return MemoryFormat::ChannelsLast;
  if (is_contiguous(MemoryFormat::ChannelsLast3d)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}
int64_t Tensor::_version() const { return checked(impl_).version(); }

void* Tensor::data_ptr() const {
  const TensorImpl& t = checked(impl_);
  FACULA_CHECK(
      !(t.tracking & detail::kTracksBatch), NotSupportedError,
      "data_ptr: inside vmap a tensor stands for every entry of a batch and has no memory of its own; compute with "
      "ops, or leave vmap first");
  return t.numel == 0 ? nullptr : t.data();
}
void Tensor::check_element_type(ScalarType requested) const {
  FACULA_CHECK(requested == scalar_type(), DTypeError, "data_ptr: expected scalar type ", facula::toString(requested),
               " but found ", facula::toString(scalar_type()), "; convert first with .to(...)");
}
void Tensor::check_accessor(int64_t dims) const {
  FACULA_CHECK(dim() == dims, ShapeError, "accessor: TensorAccessor expected ", dims, " dims but tensor has ", dim());
  FACULA_CHECK(is_cpu(), DeviceError, "accessor: elements can only be read on cpu, the tensor is on ", device().str(),
               "; use .cpu() first");
}

}  // namespace facula
