// A small BLAS on the software GPU: products of matrices by the definition, summed in double. The shapes of the vendors' libraries
// (`blas_lt_shape.cpp`, `rocblas_shape.cpp`) say what is to be multiplied.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simgpu {

enum class Element { F16, BF16, F32, F64, C32, C64, I8, I32 };
size_t element_bytes(Element type);

// D = activation(alpha op(A) op(B) + beta C + bias), by columns: op(A) is m by k, op(B) is k by n; the bias is added to each column.
// What the activation is given goes to `before`, if there is one.
struct Product {
  enum class Activation { None, Relu, GeluTanh };
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Element in = Element::F32, out = Element::F32;
  bool transpose_a = false, transpose_b = false, conjugate_a = false, conjugate_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0, stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;
  const void *a = nullptr, *b = nullptr, *c = nullptr, *bias = nullptr;
  void *d = nullptr, *before = nullptr;
  Activation activation = Activation::None;
  int64_t ld_before = 0;
  double alpha[2] = {1, 0}, beta[2] = {0, 0};
  const void* workspace = nullptr;
  size_t workspace_bytes = 0;
};

// The number of `type` at `at`, as a complex one.
void read_element(Element type, const void* at, double value[2]);
void write_real(Element type, void* at, double value);
// What library_abi.h has, of the driver that is there.
int enqueue(void* stream, const char* label, int (*run)(void* data, void* device), void* data, void (*drop)(void*));
int touch(void* device, const void* address, size_t bytes, bool write, const char* label);
// Queues the product on a stream; a code of the driver.
int multiply(const Product& product, void* stream);

}  // namespace simgpu
