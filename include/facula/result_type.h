// The dtype that an operation between two operands is computed in: tensors with dims outrank zero-dim tensors, which
// outrank numbers of the same category.
#pragma once

#include <facula/tensor.h>

namespace facula {

FACULA_API ScalarType result_type(const Tensor& a, const Tensor& b);
FACULA_API ScalarType result_type(const Tensor& a, const Scalar& b);
FACULA_API ScalarType result_type(const Scalar& a, const Tensor& b);
FACULA_API ScalarType result_type(const Scalar& a, const Scalar& b);

// Whether a value of type `from` may be stored as `to` without changing its kind.
inline bool can_cast(ScalarType from, ScalarType to) { return canCast(from, to); }

}  // namespace facula
