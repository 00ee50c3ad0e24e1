// What meanings share: argument checks, materialising, copying.
#pragma once

#include "core/kernel_table.h"
#include "core/shape.h"
#include "core/tensor_impl.h"
#include "ops/out.h"

#include <facula/tensors.h>

#include "ops/generated/meaning.h"

namespace facula {

// Copies values between tensors of equal sizes with any strides and dtypes, on any devices; meta targets are left alone.
void copy_values(const Tensor& target, const Tensor& source, bool non_blocking = false);
void fill_values(const Tensor& target, const Scalar& value);
// Copies `sizes` elements from a walk through the memory of one tensor to a walk through that of another of the same dtype and
// device. Offsets count elements from the first one of the tensor; strides may be negative.
void copy_part(const Tensor& to, int64_t to_offset, IntArrayRef to_strides, const Tensor& from, int64_t from_offset,
               IntArrayRef from_strides, IntArrayRef sizes);
// The tensor itself when contiguous, else a contiguous copy.
Tensor as_contiguous(const Tensor& t);
// The tensor itself when it has the dtype, else a converted copy.
Tensor as_dtype(const Tensor& t, ScalarType dtype);

inline DeviceType device_type(const Tensor& t) { return t.impl()->device.type(); }

}  // namespace facula
