// Matrix products on a GPU: the vendor's library where it is there and has an answer, our own kernels for the rest.
#pragma once

#include "cpu/gemv.h"
#include "cpu/matmul.h"
#include "gpu/encoder.h"
#include "gpu/libs/blas.h"

#include <cstdint>

namespace facula::gpu {

// The contracts of the functions of the same names in src/cpu; data lies on work.device.
void matmul(const MatmulArgs& args, const Work& work);
// int8 times int8 into int32.
void matmul_int8(const MatmulArgs& args, const Work& work);
void gemv(const GemvArgs& args, const Work& work);
// C = alpha A B + bias, where `bias` has n elements of args.dtype, one behind the other. args.beta must be 0.
void matmul_bias(const MatmulArgs& args, const void* bias, const Work& work);
// C = activation(alpha A B + bias) in one launch or call of a library; the bias may be missing. `before`, laid out like C, gets
// what GeluTanh is given, unless it is null. For a batch of one, and args.beta must be 0. False: nobody has an answer, and
// nothing was written to C.
bool matmul_activation(const MatmulArgs& args, const void* bias, Activation activation, void* before, const Work& work);

// How exactly float32 products are computed. `Highest` is float32 throughout; `High` and `Medium` may round the factors
// to TF32 where the chip multiplies those faster.
enum class Float32Precision : uint8_t { Highest, High, Medium };
Float32Precision float32_matmul_precision();
void set_float32_matmul_precision(Float32Precision precision);
// The same as a switch: on means `High` or `Medium`.
bool allow_tf32();
void set_allow_tf32(bool allow);
// Whether a library may add up parts of a float16 (bfloat16) product in that type instead of float32.
bool allow_fp16_reduced_precision_reduction();
void set_allow_fp16_reduced_precision_reduction(bool allow);
bool allow_bf16_reduced_precision_reduction();
void set_allow_bf16_reduced_precision_reduction(bool allow);
// Whether a library may keep all sums of a float16 product in float16.
bool allow_fp16_accumulation();
void set_allow_fp16_accumulation(bool allow);
// Whether a library is used where there is one. FACULA_BLAS=none sets it to false at start.
bool allow_blas();
void set_allow_blas(bool allow);
// Whether a kernel of our own takes products that it is faster with than any library.
bool allow_small_products();
void set_allow_small_products(bool allow);
// Whether a library's algorithms for large products are timed, once for each kind of product, and the fastest is kept;
// else the first that the library proposes is used. The choice may differ from run to run, and with it last bits.
// FACULA_BLAS_TUNE sets it at start.
bool tune_blas();
void set_tune_blas(bool tune);

}  // namespace facula::gpu
