// y = A x for float and double.
#pragma once

#include <facula/core/dtype.h>

#include <cstdint>

namespace facula {

// A has rows or columns of contiguous elements (one of the strides is 1); x and y are contiguous.
struct GemvArgs {
  ScalarType dtype;
  int64_t m = 0, k = 0;
  const void* a = nullptr;
  int64_t row_stride = 0, col_stride = 0;
  const void* x = nullptr;
  void* y = nullptr;
};

void gemv(const GemvArgs& args);

}  // namespace facula
