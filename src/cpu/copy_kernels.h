// Two-dimensional copies on one thread: the inner part of copy_strided and of load_block and store_block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula::detail {

// A rows x cols block inside two arrays; strides in elements, of any sign.
struct Block2d {
  void* dst;
  const void* src;
  int64_t rows, cols;
  int64_t dst_row, dst_col;
  int64_t src_row, src_col;
};

// Copies the block. `stream` asks for stores that bypass the cache where the shape allows them: for results much
// larger than the cache. `elem_size` is 1, 2, 4, 8 or 16.
void copy_block(const Block2d& block, size_t elem_size, bool stream);

// Whether a result of so many bytes goes past the cache: more than most caches would keep until somebody reads it, and written by whole lines,
// which then need not be fetched first.
bool worth_streaming(int64_t bytes);
// From so many bytes on most of the lines that they lie on are written whole.
inline constexpr int64_t kStreamedRow = 1024;
// Copies n bytes, if they are that many whole lines of the destination past the cache. Another thread sees them only after end_stream().
void stream_bytes(void* dst, const void* src, int64_t n);
void end_stream();

// n equal elements.
void fill_row(void* dst, const void* value, int64_t n, size_t elem_size);

// Row r of a contiguous rows x cols block is `cols` times values[r].
void fill_rows(void* dst, const void* values, int64_t rows, int64_t cols, size_t elem_size);

}  // namespace facula::detail
