// Products of small float matrices on one thread, where a library's call costs more than it gains.
#pragma once

#include <cstdint>

namespace facula {

// C = alpha A B + beta C. Rows of C are contiguous; with beta 0, C is not read. A and B may have any strides.
// An entry of C depends on its row of A, its column of B and k alone: a product may be cut by rows and columns.
struct SmallGemm {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row, b_col;
  float* c;
  int64_t c_row;
  float alpha, beta;
};

void small_gemm(const SmallGemm& g);

}  // namespace facula
