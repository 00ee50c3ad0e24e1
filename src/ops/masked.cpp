// Ops on masks: masked_fill, masked_select, masked_scatter, nonzero, argwhere.
#include "ops/index_checks.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"

namespace facula::meaning {

namespace {

void check_mask(const Tensor& mask, const char* op) {
  FACULA_CHECK(impl_of(mask, op).dtype == ScalarType::Bool, DTypeError, op, ": ", op,
               " only supports boolean masks, but got mask with dtype ", toString(mask.impl()->dtype),
               "; convert it to bool");
}

// A number as self's dtype would hold it, so that promotion leaves that dtype alone.
Scalar number_as(const Scalar& value, ScalarType dtype, const char* op) {
  FACULA_CHECK(!value.isComplex() || isComplexType(dtype), DTypeError, op, ": value cannot be converted to type ",
               toString(dtype), " without losing its imaginary part: ", value.str());
  if (dtype == ScalarType::Bool) return !value.is_zero();
  check_fits_integers(value, dtype, op);
  if (isIntegralType(dtype, false) && value.isFloatingPoint()) return value.toLong();
  return value;
}

// Contiguous, with sizes that it broadcasts to.
Tensor expanded_contiguous(const Tensor& t, IntArrayRef sizes) {
  const TensorImpl* i = t.impl();
  if (IntArrayRef(i->sizes) == sizes) return as_contiguous(t);
  return as_contiguous(view_of(t, sizes, broadcast_strides(i->sizes, i->strides, sizes), i->storage_offset));
}

}  // namespace

Tensor masked_fill(const Tensor& self, const Tensor& mask, const Scalar& value, const Out& out) {
  const TensorImpl& s = impl_of(self, "masked_fill");
  check_mask(mask, "masked_fill");
  const Scalar number = number_as(value, s.dtype, "masked_fill");
  return pointwise(ScalarOp::where, {mask, number, self}, out, "masked_fill");
}

Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, const Out& out) {
  const TensorImpl& s = impl_of(self, "masked_fill");
  check_mask(mask, "masked_fill");
  const TensorImpl& v = impl_of(value, "masked_fill");
  FACULA_CHECK(v.dim() == 0, ShapeError,
               "masked_fill: masked_fill only supports a 0-dimensional value tensor, but got tensor with ", v.dim(),
               " dimension(s).");
  FACULA_CHECK(!isComplexType(v.dtype) || isComplexType(s.dtype), DTypeError, "masked_fill: a value of dtype ",
               toString(v.dtype), " cannot be written into ", toString(s.dtype), "; take its real part first");
  return pointwise(ScalarOp::where, {mask, as_dtype(value, s.dtype), self}, out, "masked_fill");
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  constexpr const char* kOp = "masked_select";
  const TensorImpl& s = impl_of(self, kOp);
  check_mask(mask, kOp);
  const Device device = same_device({&self, &mask}, kOp);
  FACULA_CHECK(!device.is_meta(), NotSupportedError, kOp,
               ": the shape of the result depends on the values of the mask, which a meta tensor does not have");
  const DimVector sizes = broadcast_sizes(s.sizes, mask.impl()->sizes, kOp);
  auto make = [&](int64_t count) { return new_tensor({count}, s.dtype, device, kOp); };
  return call_kernel<MaskedSelectKernel>(OpId::masked_select, device.type(), expanded_contiguous(self, sizes),
                                         expanded_contiguous(mask, sizes), FunctionRef<Tensor(int64_t)>(make));
}

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  constexpr const char* kOp = "masked_scatter";
  const TensorImpl& s = impl_of(self, kOp);
  check_mask(mask, kOp);
  impl_of(source, kOp);
  const Device device = same_device({&self, &mask, &source}, kOp);
  check_same_dtype(self, source, kOp, "source");
  const DimVector sizes = broadcast_sizes(s.sizes, mask.impl()->sizes, kOp);
  Tensor result = new_tensor(sizes, s.dtype, device, kOp);
  if (device.is_meta()) return result;
  copy_values(result, view_of(self, sizes, broadcast_strides(s.sizes, s.strides, sizes), s.storage_offset));
  call_kernel<MaskedScatterKernel>(OpId::masked_scatter, device.type(), result, expanded_contiguous(mask, sizes),
                                   as_contiguous(source));
  return result;
}

Tensor nonzero(const Tensor& self) {
  constexpr const char* kOp = "nonzero";
  const TensorImpl& s = impl_of(self, kOp);
  FACULA_CHECK(!s.device.is_meta(), NotSupportedError, kOp,
               ": the shape of the result depends on the values of self, which a meta tensor does not have");
  Tensor mask = self;
  if (s.dtype != ScalarType::Bool && s.dtype != ScalarType::Byte) {
    mask = new_tensor(s.sizes, ScalarType::Bool, s.device, kOp);
    copy_values(mask, self);
  } else {
    mask = as_contiguous(self);
  }
  auto make = [&](int64_t count) { return new_tensor({count, s.dim()}, ScalarType::Long, s.device, kOp); };
  return call_kernel<NonzeroKernel>(OpId::nonzero, s.device.type(), mask, false, FunctionRef<Tensor(int64_t)>(make));
}

Tensor argwhere(const Tensor& self) { return facula::nonzero(self); }

}  // namespace facula::meaning
