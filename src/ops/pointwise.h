// Pointwise ops: broadcasting, type promotion, where the result goes, and the program that computes it.
#pragma once

#include "ops/out.h"
#include "program/program.h"

#include <facula/tensor.h>

#include <initializer_list>
#include <span>

namespace facula {

// A tensor or a number.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  Operand(const Scalar& scalar) : scalar_(&scalar) {}
  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return *scalar_; }

 private:
  const Tensor* tensor_ = nullptr;
  const Scalar* scalar_ = nullptr;
};

// One scalar operation over broadcast operands: PyTorch's promotion, then the operation's own rule.
// `name` is what errors call it; by default the scalar operation's name.
Tensor pointwise(ScalarOp op, std::initializer_list<Operand> operands, const Out& out, const char* name = nullptr);

// The common dtype of operands: tensors with dims outrank zero-dim tensors, which outrank numbers of the same category.
ScalarType result_type(std::span<const Operand> operands, const char* op);

// Runs a program of any length over broadcast tensors; stores get fresh tensors of the common broadcast shape unless
// `out` says otherwise (then the program has one store). This is what fused code and compound pointwise ops use.
//   Program p; Value x = p.load(a.scalar_type()); ... p.store(v, dtype);
//   Tensor y = run_program(p, {a, b}, {0.5}, Out::fresh(), "gelu");
Tensor run_program(const Program& program, std::initializer_list<Tensor> loads, std::span<const Scalar> params,
                   const Out& out, const char* op);
inline Tensor run_program(const Program& program, std::initializer_list<Tensor> loads,
                          std::initializer_list<Scalar> params, const Out& out, const char* op) {
  return run_program(program, loads, std::span<const Scalar>(params.begin(), params.size()), out, op);
}
// Stores into the given tensors, which have the broadcast shape already.
void run_program_into(const Program& program, std::span<const Tensor> loads, std::span<const Scalar> params,
                      std::span<const Tensor> stores, const char* op);

// The dtype that a float-valued op computes an integer or bool operand in.
inline ScalarType float_if_integral(ScalarType t) { return isIntegralType(t, true) ? get_default_dtype() : t; }

}  // namespace facula
