// Small helpers of the shape and creation meanings: access with a check, normal forms of devices. No op is defined
// here.
#pragma once

#include "ops/common.h"

namespace facula {

inline const TensorImpl& impl_of(const Tensor& t, const char* op) {
  FACULA_CHECK(t.defined(), ValueError, op,
               ": this tensor is undefined (a default-constructed Tensor); assign a tensor to it first");
  return *t.impl();
}

inline size_t usize(int64_t i) { return static_cast<size_t>(i); }

// There is one cpu and one meta device: "cpu:0" is "cpu". "cuda" is the current GPU; where it is not there, a DeviceError.
Device plain_device(Device device, const char* op);

// Product of the sizes of the dims in [first, last).
inline int64_t count_between(IntArrayRef sizes, size_t first, size_t last) {
  int64_t count = 1;
  for (size_t i = first; i < last; ++i) count *= sizes[i];
  return count;
}

// Floats that are computed with; those of 8 bits are only kept and converted.
constexpr bool is_computed_float(ScalarType dtype) { return isFloatingType(dtype) && !isFloat8Type(dtype); }

// Refuses all others. `cure` says what to do; `called` is the op's name in quotes, where it is not `op`.
inline void check_computed_float(ScalarType dtype, const char* op, const char* cure, const char* called = nullptr) {
  FACULA_CHECK(is_computed_float(dtype), DTypeError, op, ": \"", called ? called : op, "\" not implemented for '",
               toString(dtype), "'. ", cure);
}

// A number that stands for an element of `dtype` must fit it: refuses what a conversion would change beyond rounding.
void check_fits(const Scalar& value, ScalarType dtype, const char* op);
// The same for integer dtypes alone, where a number that does not fit would become another one. Floats become infinite.
void check_fits_integers(const Scalar& value, ScalarType dtype, const char* op);

}  // namespace facula
