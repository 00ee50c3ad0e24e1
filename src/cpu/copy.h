// Copies and fills of strided arrays of one element size. Conversions between dtypes live in convert.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula {

// dst[i . dst_strides] = src[i . src_strides] for each index i of `sizes`; strides in elements, of any sign;
// `elem_size` is 1, 2, 4, 8 or 16. Uses several threads for large copies. The arrays must not overlap unless they are
// the same with the same strides.
void copy_strided(void* dst, const int64_t* dst_strides, const void* src, const int64_t* src_strides,
                  const int64_t* sizes, int ndim, size_t elem_size);

// dst[i . dst_strides] = *value for each index i of `sizes`.
void fill_strided(void* dst, const int64_t* dst_strides, const int64_t* sizes, int ndim, const void* value,
                  size_t elem_size);

}  // namespace facula
