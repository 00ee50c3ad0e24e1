// The public switches of matrix products.
#include "gpu/matmul/matmul.h"

#include <facula/cuda/matmul.h>

namespace facula::cuda {

namespace {

using Public = Float32MatmulPrecision;
using Inner = gpu::Float32Precision;
static_assert(static_cast<int>(Public::Highest) == static_cast<int>(Inner::Highest));
static_assert(static_cast<int>(Public::High) == static_cast<int>(Inner::High));
static_assert(static_cast<int>(Public::Medium) == static_cast<int>(Inner::Medium));

}  // namespace

void set_float32_matmul_precision(Float32MatmulPrecision precision) {
  gpu::set_float32_matmul_precision(static_cast<Inner>(precision));
}
Float32MatmulPrecision get_float32_matmul_precision() { return static_cast<Public>(gpu::float32_matmul_precision()); }
void set_allow_tf32(bool allow) { gpu::set_allow_tf32(allow); }
bool allow_tf32() { return gpu::allow_tf32(); }
void set_allow_fp16_reduced_precision_reduction(bool allow) { gpu::set_allow_fp16_reduced_precision_reduction(allow); }
bool allow_fp16_reduced_precision_reduction() { return gpu::allow_fp16_reduced_precision_reduction(); }
void set_allow_bf16_reduced_precision_reduction(bool allow) { gpu::set_allow_bf16_reduced_precision_reduction(allow); }
bool allow_bf16_reduced_precision_reduction() { return gpu::allow_bf16_reduced_precision_reduction(); }
void set_allow_fp16_accumulation(bool allow) { gpu::set_allow_fp16_accumulation(allow); }
bool allow_fp16_accumulation() { return gpu::allow_fp16_accumulation(); }

}  // namespace facula::cuda
