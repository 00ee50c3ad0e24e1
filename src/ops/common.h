// What meanings share: argument checks, materialising, copying.
#pragma once

#include "core/kernel_table.h"
#include "core/shape.h"
#include "core/tensor_impl.h"
#include "ops/out.h"

#include <facula/facula.h>

#include "ops/generated/meaning.h"

namespace facula {

// Copies values between tensors of equal sizes with any strides and dtypes on the CPU; meta targets are left alone.
void copy_values(const Tensor& target, const Tensor& source);
void fill_values(const Tensor& target, const Scalar& value);
// The tensor itself when contiguous, else a contiguous copy.
Tensor as_contiguous(const Tensor& t);
// The tensor itself when it has the dtype, else a converted copy.
Tensor as_dtype(const Tensor& t, ScalarType dtype);

inline DeviceType device_type(const Tensor& t) { return t.impl()->device.type(); }

}  // namespace facula
