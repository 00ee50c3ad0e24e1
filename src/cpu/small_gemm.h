// Products of small float matrices, where packing or a library's call would cost more than the arithmetic.
#pragma once

#include <cstdint>

namespace facula {

// C = alpha A B + beta C on one thread. Rows of B and C are contiguous; with beta 0, C is not read.
struct SmallGemm {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  float alpha, beta;
};

void small_gemm(const SmallGemm& g);

}  // namespace facula
