// Copies and fills with any strides and dtypes; the small helpers of every meaning.
#include "ops/common.h"

#include "cpu/convert.h"
#include "cpu/copy.h"
#include "cpu/copy_kernels.h"
#include "program/arguments.h"
#include "cpu/parallel.h"
#include "ops/pointwise.h"
#include "ops/transfer.h"

namespace facula {

void copy_values(const Tensor& target, const Tensor& source, bool non_blocking) {
  const TensorImpl *t = target.impl(), *s = source.impl();
  FACULA_INTERNAL_CHECK(IntArrayRef(t->sizes) == IntArrayRef(s->sizes));
  if (t->numel == 0 || t->device.is_meta()) return;
  FACULA_CHECK(!s->device.is_meta(), NotSupportedError, "copy_: a meta tensor has no values to copy");
  if (!t->device.is_cpu() || !s->device.is_cpu()) [[unlikely]]
    return transfer_values(target, source, non_blocking);
  if (t->dtype == s->dtype) {
    if (t->data() == s->data() && IntArrayRef(t->strides) == IntArrayRef(s->strides)) return;
    return copy_strided(t->data(), t->strides.data(), s->data(), s->strides.data(), t->sizes.data(),
                        static_cast<int>(t->dim()), elementSize(t->dtype));
  }
  ConvertFn direct = convert_fn(s->dtype, t->dtype);
  bool alike =
      t->numel == 1 || (t->contiguous && s->contiguous) ||
      (IntArrayRef(t->strides) == IntArrayRef(s->strides) && is_non_overlapping_and_dense(t->sizes, t->strides));
  if (direct && alike) {
    size_t from = elementSize(s->dtype), to = elementSize(t->dtype);
    const bool stream = detail::worth_streaming(t->numel * static_cast<int64_t>(to));
    parallel_for(0, t->numel, 32768, [&](int64_t b, int64_t e) {
      const char* source_part = s->data() + static_cast<size_t>(b) * from;
      char* target_part = t->data() + static_cast<size_t>(b) * to;
      const auto n = static_cast<size_t>(e - b);
      if (!stream) return direct(source_part, target_part, n);
      convert_streamed(direct, source_part, from, target_part, to, n);
      detail::end_stream();
    });
    return;
  }
  Program p;
  p.store(p.load(s->dtype), t->dtype);
  run_program_into(p, {&source, 1}, {}, {&target, 1}, "copy_");
}

void copy_part(const Tensor& to, int64_t to_offset, IntArrayRef to_strides, const Tensor& from, int64_t from_offset,
               IntArrayRef from_strides, IntArrayRef sizes) {
  const TensorImpl *t = to.impl(), *f = from.impl();
  if (t->device.is_cuda())
    return copy_values(view_of(to, sizes, to_strides, t->storage_offset + to_offset),
                       view_of(from, sizes, from_strides, f->storage_offset + from_offset));
  const auto element = static_cast<int64_t>(elementSize(t->dtype));
  copy_strided(t->data() + to_offset * element, to_strides.data(), f->data() + from_offset * element,
               from_strides.data(), sizes.data(), static_cast<int>(sizes.size()), elementSize(t->dtype));
}

void fill_values(const Tensor& target, const Scalar& value) {
  const TensorImpl* t = target.impl();
  if (t->numel == 0 || t->device.is_meta()) return;
  // The number in the target's dtype, by the same conversions as everywhere.
  CType type = value.isComplex()                  ? CType::C128
               : value.isFloatingPoint()          ? CType::F64
               : value.tag() == Scalar::Tag::UInt ? CType::U64
               : value.isBoolean()                ? CType::B8
                                                  : CType::I64;
  ParamValue wide = param_value(value, type);
  alignas(16) char element[16];
  cast_store_fn(type, t->dtype)(&wide, element, 1);
  if (t->device.is_cuda()) [[unlikely]]
    return fill_on_gpu(target, element);
  fill_strided(t->data(), t->strides.data(), t->sizes.data(), static_cast<int>(t->dim()), element,
               elementSize(t->dtype));
}

Tensor as_contiguous(const Tensor& t) {
  const TensorImpl* i = t.impl();
  if (i->contiguous) return t;
  Tensor copy = new_tensor(i->sizes, i->dtype, i->device, "contiguous");
  copy_values(copy, t);
  return copy;
}

Tensor as_dtype(const Tensor& t, ScalarType dtype) {
  const TensorImpl* i = t.impl();
  if (i->dtype == dtype) return t;
  Tensor copy = i->contiguous
                    ? new_tensor(i->sizes, dtype, i->device, "to")
                    : new_tensor_strided(i->sizes, preserved_strides(i->sizes, i->strides), dtype, i->device, "to");
  copy_values(copy, t);
  return copy;
}

}  // namespace facula
