// The dtype of an operation between two operands, for users.
#include <facula/result_type.h>

#include "ops/pointwise.h"

namespace facula {
namespace {

ScalarType between(Operand a, Operand b) {
  const Operand operands[] = {a, b};
  return result_type(operands, "result_type");
}

}  // namespace

ScalarType result_type(const Tensor& a, const Tensor& b) { return between(a, b); }
ScalarType result_type(const Tensor& a, const Scalar& b) { return between(a, b); }
ScalarType result_type(const Scalar& a, const Tensor& b) { return between(a, b); }
ScalarType result_type(const Scalar& a, const Scalar& b) { return between(a, b); }

}  // namespace facula
