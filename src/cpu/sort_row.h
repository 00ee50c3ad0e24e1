// Sorting one row of values: the engine behind sort, topk with large k and unique. Tensors are walked in sort.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/core/dtype.h>

namespace facula::detail {

// Rows longer than this have indices that do not fit beside a key in 64 bits and are sorted by comparisons.
constexpr int64_t kMaxPackedRow = int64_t{1} << 32;

// Bytes of work space that sort_row needs.
size_t sort_row_bytes(ScalarType t, int64_t n);
// Sorts n contiguous values; equal ones keep their order. Writes the first `keep` values in order and their positions.
void sort_row(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* work, void* values,
              int64_t* indices);
// The same for one long row, with several threads.
void sort_row_parallel(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                       int64_t* indices);
// The same by comparisons, for rows of any length.
void sort_row_by_comparison(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                            int64_t* indices);

}  // namespace facula::detail
