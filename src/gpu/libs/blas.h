// The seam to a vendor's matrix products. Whoever calls knows neither names nor versions; a library that is missing, or
// that has no answer for a product, is no error: our own kernels compute it.
#pragma once

#include "gpu/runtime.h"

#include <facula/core/dtype.h>

#include <cstdint>
#include <memory>
#include <string>

namespace facula::gpu {

// What is done to a product, with its bias, as it is written.
enum class Activation : uint8_t { None, Relu, GeluTanh };

// D = activation(alpha op(A) op(B) + beta D + bias) in the words of libraries: matrices lie by columns, op(A) is m by k,
// op(B) is k by n.
struct BlasProblem {
  ScalarType dtype = ScalarType::Float;      // of A and B
  ScalarType out_dtype = ScalarType::Float;  // of D: that of A and B, or int32 for int8
  bool transpose_a = false, transpose_b = false;
  bool tf32 = false;         // float32 factors may be rounded
  bool reduced = false;      // parts of a sum may be added up in the output's type
  bool narrow_sums = false;  // float16 sums may be kept in float16
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t lda = 0, ldb = 0, ldd = 0;                 // elements from one column to the next
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements from one matrix to the next
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  const void* bias = nullptr;  // of m elements, added to each column
  Activation activation = Activation::None;
  void* before = nullptr;  // what GeluTanh is given goes here, laid out like D; for a batch of one
  double alpha = 1, beta = 0;
};

class Blas {
 public:
  virtual ~Blas() = default;
  // What people read: "cuBLASLt 13.0.2", and the file that it came from.
  virtual const std::string& name() const = 0;
  virtual const std::string& path() const = 0;
  // Whether products of this type may be worth asking for.
  virtual bool supports(ScalarType dtype, int device) = 0;
  // Queues the product on the stream, whose device the driver has current. False: the library has no way to compute
  // this, and nothing was queued. Throws DeviceError, which begins with `op`, when it fails at what it can do.
  virtual bool matmul(const BlasProblem& problem, const StreamRef& stream, const char* op) = 0;
};

// The library that goes with the driver, looked for once; nullptr where there is none: `why_no_blas` says why.
Blas* blas();
const std::string& why_no_blas();

// One for each vendor; `why_not` is filled when there is none.
std::unique_ptr<Blas> find_blas_cuda(int driver_version, std::string& why_not);
std::unique_ptr<Blas> find_blas_hip(int driver_version, std::string& why_not);

}  // namespace facula::gpu
