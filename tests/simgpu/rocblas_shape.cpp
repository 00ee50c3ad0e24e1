// The entry points of rocBLAS that are used, over the small BLAS: `librocblas.so.0`.
#include "blas.h"

#include <cstdio>
#include <optional>

using namespace simgpu;

#define EXPORT extern "C" __attribute__((visibility("default"))) int

namespace {

enum Status {
  kOk = 0,
  kInvalidHandle = 1,
  kNotImplemented = 2,
  kInvalidPointer = 3,
  kInvalidSize = 4,
  kInternalError = 6,
  kInvalidValue = 11
};

struct Handle {
  void* stream = nullptr;
};

std::optional<Element> element_of(int type) {
  switch (type) {
    case 150: return Element::F16;
    case 151: return Element::F32;
    case 152: return Element::F64;
    case 154: return Element::C32;
    case 155: return Element::C64;
    case 160: return Element::I8;
    case 162: return Element::I32;
    case 168: return Element::BF16;
    default: return std::nullopt;
  }
}

bool is_operation(int how) { return how >= 111 && how <= 113; }

}  // namespace

EXPORT rocblas_get_version_string(char* text, size_t bytes) {
  if (!text) return kInvalidPointer;
  snprintf(text, bytes, "2.44.0");
  return kOk;
}
EXPORT rocblas_create_handle(Handle** handle) {
  if (!handle) return kInvalidPointer;
  *handle = new Handle;
  return kOk;
}
EXPORT rocblas_destroy_handle(Handle* handle) {
  delete handle;
  return kOk;
}
EXPORT rocblas_set_stream(Handle* handle, void* stream) {
  if (!handle) return kInvalidHandle;
  handle->stream = stream;
  return kOk;
}
EXPORT rocblas_set_atomics_mode(Handle* handle, int mode) {
  if (!handle) return kInvalidHandle;
  return mode == 0 || mode == 1 ? kOk : kInvalidValue;
}

EXPORT rocblas_gemm_strided_batched_ex(Handle* handle, int how_a, int how_b, int m, int n, int k, const void* alpha,
                                       const void* a, int a_type, int lda, int64_t stride_a, const void* b, int b_type,
                                       int ldb, int64_t stride_b, const void* beta, const void* c, int c_type, int ldc,
                                       int64_t stride_c, void* d, int d_type, int ldd, int64_t stride_d, int batch,
                                       int compute_type, int, int, uint32_t) {
  if (!handle) return kInvalidHandle;
  if (!is_operation(how_a) || !is_operation(how_b)) return kInvalidValue;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < (how_a == 111 ? m : k) || ldb < (how_b == 111 ? k : n) || ldc < m ||
      ldd < m)
    return kInvalidSize;
  if (m == 0 || n == 0 || batch == 0) return kOk;
  if (!alpha || !beta || !a || !b || !c || !d) return kInvalidPointer;
  const auto in = element_of(a_type), out = element_of(d_type), sums = element_of(compute_type);
  if (!in || !out || !sums || a_type != b_type || c_type != d_type) return kNotImplemented;
  const bool narrow = *in == Element::F16 || *in == Element::BF16;
  const bool fits = *in == Element::I8 ? *out == Element::I32 && *sums == Element::I32
                    : narrow           ? *out == *in && *sums == Element::F32
                                       : *out == *in && *sums == *in;
  if (!fits || (*in == Element::I8 && (k % 4 || lda % 4 || ldb % 4))) return kNotImplemented;
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.batch = batch;
  p.in = *in;
  p.out = *out;
  p.transpose_a = how_a != 111;
  p.transpose_b = how_b != 111;
  p.conjugate_a = how_a == 113;
  p.conjugate_b = how_b == 113;
  p.lda = lda;
  p.ldb = ldb;
  p.ldc = ldc;
  p.ldd = ldd;
  p.stride_a = stride_a;
  p.stride_b = stride_b;
  p.stride_c = stride_c;
  p.stride_d = stride_d;
  p.a = a;
  p.b = b;
  p.c = c;
  p.d = d;
  read_element(*sums, alpha, p.alpha);
  read_element(*sums, beta, p.beta);
  return multiply(p, handle->stream) == 0 ? kOk : kInternalError;
}
