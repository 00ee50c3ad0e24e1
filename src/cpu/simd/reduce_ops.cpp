// Chooses the kernel of a reduction. The kernels are in reduce_ops_*.cpp, one file for each kind of state.
#include "cpu/simd/reduce_ops.h"

#include "cpu/simd/reduce_tables.h"

namespace facula::cpu {

const ReduceKernel* reduce_kernel(ReduceOp op, CType type) {
  switch (op) {
    case ReduceOp::None: return nullptr;
    case ReduceOp::Moments: return moments_kernel_now(type);
    case ReduceOp::LogSumExp: return logsumexp_kernel_now(type);
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
    case ReduceOp::MaxWithIndex:
    case ReduceOp::MinWithIndex: return position_kernel_now(op, type);
    default: return fold_kernel_now(op, type);
  }
}

const ReduceKernel* reduce_kernel_in_place(ReduceOp op, ScalarType dtype) {
  return dtype == kBFloat16 ? bfloat_kernel_now(op) : nullptr;
}

}  // namespace facula::cpu
