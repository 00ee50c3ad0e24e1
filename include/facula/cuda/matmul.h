// How exactly matrix products are computed on a GPU. Products on the cpu are not concerned.
#pragma once

#include <facula/core/export.h>

#include <cstdint>

namespace facula::cuda {

// float32 products: `Highest` is float32 throughout; `High` and `Medium` may round the factors to TF32 where the chip
// multiplies those faster.
enum class Float32MatmulPrecision : uint8_t { Highest, High, Medium };
FACULA_API void set_float32_matmul_precision(Float32MatmulPrecision precision);
FACULA_API Float32MatmulPrecision get_float32_matmul_precision();
// The same as a switch: on means `High` or `Medium`.
FACULA_API void set_allow_tf32(bool allow);
FACULA_API bool allow_tf32();
// Whether parts of a float16 (bfloat16) product may be added up in that type instead of float32.
FACULA_API void set_allow_fp16_reduced_precision_reduction(bool allow);
FACULA_API bool allow_fp16_reduced_precision_reduction();
FACULA_API void set_allow_bf16_reduced_precision_reduction(bool allow);
FACULA_API bool allow_bf16_reduced_precision_reduction();
// Whether all sums of a float16 product may be kept in float16.
FACULA_API void set_allow_fp16_accumulation(bool allow);
FACULA_API bool allow_fp16_accumulation();

}  // namespace facula::cuda
