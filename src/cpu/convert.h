// Conversion of whole arrays between what memory holds (ScalarType) and what the CPU computes in (CType). Same-dtype
// copies live in copy.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/core/dtype.h>

#include "program/compute_type.h"

namespace facula {

// Converts `n` contiguous elements. The arrays must not overlap, except that `src == dst` is allowed where the sizes
// are equal.
using ConvertFn = void (*)(const void* src, void* dst, size_t n);

constexpr size_t ctype_size(CType t) { return size_of(t); }
// The dtype with the memory layout of `t`: what a tile buffer would be if it were a tensor.
ScalarType dtype_of(CType t);

// Memory to the natural compute type; nullptr where memory already holds it and can be used in place.
ConvertFn load_fn(ScalarType mem);
// The natural compute type to memory: integers wrap, floats round to nearest even. nullptr as above.
ConvertFn store_fn(ScalarType mem);

// Between compute types; nullptr when equal. Floats to integers truncate; NaN and what is out of range give the
// smallest integer of I32 and I64; for U64 what is outside [2^63, 2^64) goes through I64. Integers wrap. Complex to
// real drops the imaginary part. Anything to B8 is `!= 0`.
ConvertFn cast_fn(CType from, CType to);

// Compute type to memory in one pass, for every pair: casts, then stores, but rounds only once where a cast to the
// compute type and a store would round twice (F64, I64, U64, I32, C128 to floats of 8 or 16 bits).
ConvertFn cast_store_fn(CType from, ScalarType to);

// Memory to memory in one pass with the values of load_fn, then cast_store_fn. nullptr where only these two exist;
// never where memory already holds the compute type of `from`, and never for equal types (a plain copy).
ConvertFn convert_fn(ScalarType from, ScalarType to);

// `convert` with a result that goes past the cache (see worth_streaming); the caller ends the stream. Widths are those of elements.
void convert_streamed(ConvertFn convert, const void* src, size_t src_width, void* dst, size_t dst_width, size_t n);

// Reads rows x cols elements at src + r * row_stride + c * col_stride (strides in elements, of any sign or 0) and
// writes them, row after row, to `tile` in the natural compute type.
void load_block(const void* src, ScalarType mem, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                void* tile);
// The reverse.
void store_block(const void* tile, ScalarType mem, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                 void* dst);

}  // namespace facula
