// The CPU kernel of sort: walks the rows of a tensor and hands each to sort_row. Selection lives in topk.cpp.
#include "core/kernel_table.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/sort_row.h"

#include <facula/tensor.h>

#include <algorithm>

namespace facula {
namespace {

using namespace detail;

// A row this long is worth several threads.
constexpr int64_t kLongRow = int64_t{1} << 16;

void sort_long_rows(const RowWalk& walk, ScalarType t, bool descending) {
  const int64_t n = walk.length[0];
  const size_t row_bytes = round_up_64(static_cast<size_t>(n * walk.elem[0]));
  const bool direct = walk.rows_contiguous();
  Scratch buffer(direct ? 0 : 2 * row_bytes + static_cast<size_t>(n) * sizeof(int64_t));
  for (int64_t r = 0; r < walk.rows; ++r) {
    const RowBlock block = row_block(walk, 1, r);
    if (direct) {
      sort_row_parallel(t, block.data[0], n, descending, n, block.data[1], reinterpret_cast<int64_t*>(block.data[2]));
      continue;
    }
    char* in = buffer.data();
    char* values = in + row_bytes;
    int64_t* indices = buffer.as<int64_t>(2 * row_bytes);
    gather_rows(walk, block, 0, in);
    sort_row_parallel(t, in, n, descending, n, values, indices);
    scatter_rows(walk, block, 1, values);
    scatter_rows(walk, block, 2, indices);
  }
}

// Rows that are not contiguous are copied, several at a time so that whole cache lines are used.
void sort_strided_rows(const RowWalk& walk, ScalarType t, bool descending) {
  const int64_t n = walk.length[0];
  const int64_t fit = std::max<int64_t>(1, (int64_t{1} << 22) / (n * 16));
  const int64_t block_rows = std::min<int64_t>({16, walk.inner(), fit});
  const size_t value_bytes = round_up_64(static_cast<size_t>(block_rows * n * walk.elem[0]));
  const size_t index_bytes = round_up_64(static_cast<size_t>(block_rows * n) * sizeof(int64_t));
  const size_t row_bytes = static_cast<size_t>(n * walk.elem[0]);
  parallel_for(0, walk.block_count(block_rows), std::max<int64_t>(1, 8192 / (n * block_rows)),
               [&](int64_t begin, int64_t end) {
                 Scratch scratch(2 * value_bytes + index_bytes + sort_row_bytes(t, n));
                 char* in = scratch.data();
                 char* values = in + value_bytes;
                 int64_t* indices = scratch.as<int64_t>(2 * value_bytes);
                 char* work = scratch.data() + 2 * value_bytes + index_bytes;
                 for (int64_t b = begin; b < end; ++b) {
                   const RowBlock block = row_block(walk, block_rows, b);
                   gather_rows(walk, block, 0, in);
                   for (int64_t r = 0; r < block.rows; ++r) {
                     const size_t at = static_cast<size_t>(r) * row_bytes;
                     sort_row(t, in + at, n, descending, n, work, values + at, indices + r * n);
                   }
                   scatter_rows(walk, block, 1, values);
                   scatter_rows(walk, block, 2, indices);
                 }
               });
}

void sort_cpu(const Tensor& self, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  if (self.impl()->numel == 0) return;
  const RowWalk walk({&self, &values, &indices}, dim);
  const ScalarType t = self.impl()->dtype;
  const int64_t n = walk.length[0];
  if (n >= kLongRow && walk.rows < get_num_threads() && !in_parallel_region())
    return sort_long_rows(walk, t, descending);
  if (!walk.rows_contiguous()) return sort_strided_rows(walk, t, descending);
  parallel_for(0, walk.rows, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    Scratch scratch(sort_row_bytes(t, n));
    for (int64_t r = begin; r < end; ++r) {
      const RowBlock block = row_block(walk, 1, r);
      sort_row(t, block.data[0], n, descending, n, scratch.data(), block.data[1],
               reinterpret_cast<int64_t*>(block.data[2]));
    }
  });
}

const KernelRegistration sort_registration(OpId::sort, DeviceType::CPU, &sort_cpu);

}  // namespace
}  // namespace facula
