#include "gpu/matmul/matmul_shape.h"

namespace facula::gpu {

bool batch_shape(const MatmulArgs& args, BatchShape& shape) {
  shape = {};
  const MatrixArg* matrices[] = {&args.a, &args.b, &args.c};
  int64_t* strides[] = {shape.a, shape.b, shape.c};
  int64_t* first[] = {&shape.a0, &shape.b0, &shape.c0};
  for (int i = 0; i < 3; ++i) *first[i] = matrices[i]->offset(0);
  if (args.batch == 1) return true;
  constexpr int kLast = matmul_kernels::kBatchDims - 1;
  if (!args.a.batch_offsets && !args.b.batch_offsets && !args.c.batch_offsets) {
    shape.sizes[kLast] = args.batch;
    for (int i = 0; i < 3; ++i) strides[i][kLast] = matrices[i]->batch_stride;
    return true;
  }
  // From the inside out: a loop goes on as long as all three advance evenly.
  int64_t unit = 1, left = args.batch;
  int d = kLast;
  for (; left > 1; --d) {
    if (d < 0) return false;
    for (int i = 0; i < 3; ++i) strides[i][d] = matrices[i]->offset(unit) - *first[i];
    int64_t size = 1;
    const auto even = [&](int64_t step) {
      for (int i = 0; i < 3; ++i)
        if (matrices[i]->offset(step * unit) != *first[i] + step * strides[i][d]) return false;
      return true;
    };
    while (size < left && even(size)) ++size;
    if (left % size != 0) return false;
    shape.sizes[d] = size;
    unit *= size;
    left /= size;
  }
  for (int64_t i = 0; i < args.batch; ++i)
    for (int x = 0; x < 3; ++x) {
      int64_t rest = i, offset = *first[x];
      for (int e = kLast; e > d; --e) {
        offset += rest % shape.sizes[e] * strides[x][e];
        rest /= shape.sizes[e];
      }
      if (offset != matrices[x]->offset(i)) return false;
    }
  return true;
}

Leading leading(const MatrixArg& m, int64_t rows, int64_t cols) {
  if ((m.col_stride == 1 || cols == 1) && (m.row_stride >= std::max<int64_t>(1, cols) || rows == 1))
    return {true, true, rows == 1 ? std::max<int64_t>(1, cols) : m.row_stride};
  if ((m.row_stride == 1 || rows == 1) && (m.col_stride >= std::max<int64_t>(1, rows) || cols == 1))
    return {true, false, cols == 1 ? std::max<int64_t>(1, rows) : m.col_stride};
  return {};
}

}  // namespace facula::gpu
