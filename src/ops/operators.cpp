// C++ operators on tensors, and assignment through a temporary. Each is a call of the op of that name.
#include "autograd/call.h"
#include "ops/common.h"
#include "ops/pointwise.h"

#include <facula/tensors.h>

namespace facula {

namespace {

// A number as the first operand of an op that is recorded or batched: a tensor without dims of the dtype in which it
// meets `other`.
Tensor as_tensor(const Scalar& number, const Tensor& other) {
  const Operand operands[] = {Operand(other), Operand(number)};
  return scalar_tensor(number, other.options().dtype(result_type(operands, "operator")));
}

}  // namespace

Tensor& Tensor::operator=(const Tensor& other) && {
  copy_(other);
  return *this;
}
Tensor& Tensor::operator=(Tensor&& other) && {  // NOLINT: it writes through, which may fail
  copy_(other);
  return *this;
}
Tensor& Tensor::operator=(const Scalar& value) && {
  fill_(value);
  return *this;
}

Tensor Tensor::operator-() const { return neg(); }
Tensor Tensor::operator~() const { return bitwise_not(); }

#define FACULA_COMPOUND(symbol, op)                                          \
  Tensor& Tensor::operator symbol(const Tensor& other) { return op(other); } \
  Tensor& Tensor::operator symbol(const Scalar& other) { return op(other); }
FACULA_COMPOUND(+=, add_)
FACULA_COMPOUND(-=, sub_)
FACULA_COMPOUND(*=, mul_)
FACULA_COMPOUND(/=, div_)
#undef FACULA_COMPOUND
Tensor& Tensor::operator&=(const Tensor& other) { return bitwise_and_(other); }
Tensor& Tensor::operator|=(const Tensor& other) { return bitwise_or_(other); }
Tensor& Tensor::operator^=(const Tensor& other) { return bitwise_xor_(other); }

#define FACULA_OPERATOR(symbol, op)                                            \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return a.op(b); } \
  Tensor operator symbol(const Tensor& a, const Scalar& b) { return a.op(b); }
#define FACULA_COMMUTATIVE(symbol, op) \
  FACULA_OPERATOR(symbol, op)          \
  Tensor operator symbol(const Scalar& a, const Tensor& b) { return b.op(a); }
// A number on the left of an op that is not commutative is its first operand.
#define FACULA_ORDERED(symbol, op)                                          \
  FACULA_OPERATOR(symbol, op)                                               \
  Tensor operator symbol(const Scalar& a, const Tensor& b) {                \
    if (autograd::tracked(b)) [[unlikely]]                                  \
      return as_tensor(a, b).op(b);                                         \
    return pointwise(ScalarOp::op, {Operand(a), Operand(b)}, Out::fresh()); \
  }
#define FACULA_MIRRORED(symbol, op, mirrored) \
  FACULA_OPERATOR(symbol, op)                 \
  Tensor operator symbol(const Scalar& a, const Tensor& b) { return b.mirrored(a); }

FACULA_COMMUTATIVE(+, add)
FACULA_OPERATOR(-, sub)
Tensor operator-(const Scalar& a, const Tensor& b) { return facula::rsub(b, a); }
FACULA_COMMUTATIVE(*, mul)
FACULA_ORDERED(/, div)
FACULA_ORDERED(%, remainder)
FACULA_COMMUTATIVE(&, bitwise_and)
FACULA_COMMUTATIVE(|, bitwise_or)
FACULA_COMMUTATIVE(^, bitwise_xor)
FACULA_COMMUTATIVE(==, eq)
FACULA_COMMUTATIVE(!=, ne)
FACULA_MIRRORED(<, lt, gt)
FACULA_MIRRORED(<=, le, ge)
FACULA_MIRRORED(>, gt, lt)
FACULA_MIRRORED(>=, ge, le)
FACULA_ORDERED(<<, bitwise_left_shift)
FACULA_ORDERED(>>, bitwise_right_shift)

}  // namespace facula
