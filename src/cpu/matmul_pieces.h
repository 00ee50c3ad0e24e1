// How a product is shared out: its result is cut into pieces, and no sum is cut. Whether the order of a sum depends on the piece is the kernel's
// affair.
#pragma once

#include "core/ceil_div.h"
#include "core/function_ref.h"
#include "cpu/matmul.h"

#include <algorithm>
#include <cstdint>

namespace facula {

// At most `most` pieces of equal size, whole multiples of the steps except at the end. What counts is the area of a piece, then its rows,
// then its columns, which kernels lay out anew: `column_cost` says what that is worth.
struct MatmulPieces {
  MatmulPieces(int64_t m, int64_t n, int64_t most, int64_t row_step, int64_t column_step, int64_t column_cost)
      : rows(m), columns(n) {
    const auto share = [](int64_t size, int64_t parts, int64_t step) {
      return std::min(size, ceil_div(ceil_div(size, parts), step) * step);
    };
    const auto cost = [column_cost](int64_t r, int64_t c) { return r * c + 4 * r + column_cost * c; };
    for (int64_t parts = 1; parts <= most; ++parts) {
      const int64_t r = share(m, most / parts, row_step), c = share(n, parts, column_step);
      if (cost(r, c) < cost(rows, columns)) rows = r, columns = c;
    }
    across = ceil_div(n, columns);
    count = ceil_div(m, rows) * across;
  }
  // Where piece i begins.
  int64_t row(int64_t i) const { return i / across * rows; }
  int64_t column(int64_t i) const { return i % across * columns; }

  int64_t rows, columns, across, count;
};

// Cuts the products of a batch of bfloat16 into pieces, at most as many as there are threads for it, and calls `one` with each, from any thread.
void over_pieces(const MatmulArgs& args, int64_t column_cost, FunctionRef<void(const MatmulArgs&)> one);

}  // namespace facula
