// Products in a form that libraries and kernels can be asked for: batches as nested strides, operands that run along
// rows or along columns.
#pragma once

#include "cpu/matmul.h"
#include "gpu/kernels/matmul_params.h"

#include <algorithm>
#include <cstdint>

namespace facula::gpu {

// Where the matrices of a batch lie: `sizes` nested loops, the last one innermost, with the distance that each step
// goes in each of the three matrices, in elements. Unused loops come first and have size 1.
struct BatchShape {
  int64_t sizes[matmul_kernels::kBatchDims] = {1, 1, 1, 1};
  int64_t a[matmul_kernels::kBatchDims] = {}, b[matmul_kernels::kBatchDims] = {}, c[matmul_kernels::kBatchDims] = {};
  int64_t a0 = 0, b0 = 0, c0 = 0;  // the first matrix
  int64_t count() const { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }
};
// False when the offsets follow no such pattern.
bool batch_shape(const MatmulArgs& args, BatchShape& shape);

// Whether an operand can be handed to a library as it is: its rows (`by_rows`) or its columns lie one element after the
// other.
struct Leading {
  bool ok = false, by_rows = false;
  int64_t distance = 0;  // from one row (column) to the next
};
Leading leading(const MatrixArg& matrix, int64_t rows, int64_t cols);

}  // namespace facula::gpu
