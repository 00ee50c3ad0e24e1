// Checks and conversions that the meanings of indexing share. No op is defined here.
#pragma once

#include "cpu/index.h"
#include "ops/shape_checks.h"

namespace facula {

// Whether int32 indices are taken too.
enum class IndexTypes : uint8_t { LongOnly, LongOrInt };

// The index as int64. Raises DTypeError.
inline Tensor checked_index(const Tensor& index, IndexTypes types, const char* op) {
  const TensorImpl& i = impl_of(index, op);
  if (i.dtype == ScalarType::Long) [[likely]]
    return index;
  FACULA_CHECK(types == IndexTypes::LongOrInt && i.dtype == ScalarType::Int, DTypeError, op, ": Expected dtype ",
               types == IndexTypes::LongOrInt ? "int32/int64" : "int64", " for index, but got ", toString(i.dtype),
               "; convert it to int64");
  return as_dtype(index, ScalarType::Long);
}

inline void check_same_dtype(const Tensor& self, const Tensor& source, const char* op, const char* name) {
  FACULA_CHECK(self.impl()->dtype == source.impl()->dtype, DTypeError, op, ": self and ", name,
               " must have the same dtype, but self is ", toString(self.impl()->dtype), " and ", name, " is ",
               toString(source.impl()->dtype), "; convert ", name, " with .to(self.scalar_type())");
}

// What an in-place op must know before it writes: no two entries of self are one, and no input lies in its memory.
inline void check_writable(const Tensor& self, std::initializer_list<const Tensor*> inputs, const char* op) {
  check_no_internal_overlap(self, op);
  for (const Tensor* input : inputs)
    if (input->impl()->storage.get() == self.impl()->storage.get()) check_no_overlap(self, *input, op);
}

inline void mark_written(const Tensor& self) { self.impl()->bump_version(); }

// A number as one element of a dtype, for kernels that read a value with stride 0. Raises when the dtype cannot hold
// the kind of number.
class Element {
 public:
  Element(const Scalar& value, ScalarType dtype, const char* op);
  char* data() { return bytes_; }

 private:
  alignas(16) char bytes_[16];
};

// Sizes and strides with zero-dim tensors seen as vectors of one entry.
struct AtLeastVector {
  explicit AtLeastVector(const TensorImpl& t) : sizes(t.sizes), strides(t.strides) {
    if (sizes.empty()) {
      sizes.push_back(1);
      strides.push_back(1);
    }
  }
  DimVector sizes, strides;
};

}  // namespace facula
