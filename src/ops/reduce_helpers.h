// What reductions share: which dims go, the shape that stays, and the cached programs that compute them.
#pragma once

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "cpu/executor.h"
#include "ops/out.h"

#include <facula/tensor.h>

#include <span>

namespace facula {

enum class Reduce : uint8_t {
  Sum,
  NanSum,
  NotNanCount,
  CountNonzero,
  Mean,
  Prod,
  Max,
  Min,
  ArgMax,
  ArgMin,
  MaxIndex,
  MinIndex,
  Any,
  All,
  Var,
  Std,
  VarMean,
  StdMean,
  VarReal,
  VarImag,
  LogSumExp,
  Norm0,
  Norm1,
  Norm2,
  NormP,
  NormInf,
  NormNegInf
};

// The dims that a reduction removes, bit i for dim i. No dims, or an empty list, mean all.
uint64_t reduced_dims(const Tensor& self, OptionalIntArrayRef dim, const char* op);
DimVector reduced_sizes(const Tensor& self, uint64_t mask, bool keepdim);
// How many elements each output is made of.
int64_t reduced_count(const Tensor& self, uint64_t mask);
void check_defined(const Tensor& self, const char* op);
// For reductions without a value over nothing. Throws IndexError that names the first empty dim.
void check_not_empty(const Tensor& self, uint64_t mask, bool all, const char* op);

// Reduces `self` into the targets, which have the reduced sizes. `compute` is the dtype whose compute type the values
// take first.
void run_reduce(const char* op, Reduce kind, const Tensor& self, ScalarType compute, uint64_t mask, bool keepdim,
                std::span<const ParamValue> params, std::span<const Tensor> targets);
// The common case of one result: sizes, `out` and the run. `dtype` is the result's.
Tensor reduce(Reduce kind, const Tensor& self, ScalarType compute, ScalarType dtype, uint64_t mask, bool keepdim,
              std::span<const ParamValue> params, const Out& out, const char* op);

}  // namespace facula
