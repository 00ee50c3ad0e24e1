// Matrix products on the CPU: C = alpha * A B + beta * C for batches of strided matrices.
#pragma once

#include <facula/core/dtype.h>

#include <cstdint>

namespace facula {

// One matrix of a batch, strides in elements. A batch stride of 0 uses the same matrix for all.
struct MatrixArg {
  void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
  // Distance of the matrices of the batch, one entry per batch; nullptr means batch i is at i * batch_stride.
  const int64_t* batch_offsets = nullptr;
  int64_t batch_stride = 0;

  int64_t offset(int64_t batch) const { return batch_offsets ? batch_offsets[batch] : batch * batch_stride; }
};

struct MatmulArgs {
  ScalarType dtype;  // of A, B and C
  int64_t batch = 1, m = 0, n = 0, k = 0;
  MatrixArg a, b, c;           // c is row-major: col_stride 1
  double alpha = 1, beta = 0;  // with beta 0, C is not read
};

void matmul(const MatmulArgs& args);

// int8 times int8 into int32, row-major C.
void matmul_int8(const MatmulArgs& args);

// The product of double matrices, for one pair: the kernel that oneDNN does not have.
void gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t a_row, int64_t a_col,
              const double* b, int64_t b_row, int64_t b_col, double beta, double* c, int64_t c_row);

}  // namespace facula
