// Between reduce_ops.cpp, which chooses, and the files that hold the kernels of each family for the instruction set in
// use.
#pragma once

#include "cpu/simd/reduce_ops.h"

namespace facula::cpu {

const ReduceKernel* fold_kernel_now(ReduceOp op, CType type);
const ReduceKernel* bfloat_kernel_now(ReduceOp op);
const ReduceKernel* position_kernel_now(ReduceOp op, CType type);
const ReduceKernel* moments_kernel_now(CType type);
const ReduceKernel* logsumexp_kernel_now(CType type);

}  // namespace facula::cpu
