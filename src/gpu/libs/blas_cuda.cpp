// cuBLASLt: its names, numbers and sizes. No header of it is needed to build.
#include "gpu/driver/library.h"
#include "gpu/libs/blas_lt.h"

#include <facula/core/error.h>

#include <vector>

namespace facula::gpu {
namespace {

// cudaDataType
enum : int { kR32F = 0, kR64F = 1, kR16F = 2, kR8I = 3, kC32F = 4, kC64F = 5, kR32I = 10, kR16BF = 14 };
// cublasComputeType_t
enum : int { kCompute16F = 64, kCompute32F = 68, kCompute64F = 70, kCompute32I = 72, kCompute32FFastTF32 = 77 };
// cublasStatus_t
enum : int { kInvalidValue = 7, kArchMismatch = 8, kNotSupported = 15 };

std::optional<LtApi::Types> types(const BlasProblem& p) {
  switch (p.dtype) {
    case ScalarType::Half:
      if (p.narrow_sums) return LtApi::Types{kR16F, kR16F, kCompute16F, kR16F};
      return LtApi::Types{kR16F, kR16F, kCompute32F, kR32F};
    case ScalarType::BFloat16: return LtApi::Types{kR16BF, kR16BF, kCompute32F, kR32F};
    case ScalarType::Float: return LtApi::Types{kR32F, kR32F, p.tf32 ? kCompute32FFastTF32 : kCompute32F, kR32F};
    case ScalarType::Double: return LtApi::Types{kR64F, kR64F, kCompute64F, kR64F};
    case ScalarType::ComplexFloat: return LtApi::Types{kC32F, kC32F, p.tf32 ? kCompute32FFastTF32 : kCompute32F, kC32F};
    case ScalarType::ComplexDouble: return LtApi::Types{kC64F, kC64F, kCompute64F, kC64F};
    case ScalarType::Char: return LtApi::Types{kR8I, kR32I, kCompute32I, kR32I};
    default: return std::nullopt;
  }
}

bool supports(ScalarType dtype, int) {
  BlasProblem p;
  p.dtype = dtype;
  return types(p).has_value();
}

std::string status_name(int status) {
  switch (status) {
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue: return "CUBLAS_STATUS_INVALID_VALUE";
    case kArchMismatch: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return str("status ", status);
  }
}

std::vector<EntryPoint> entry_points(LtApi& api) {
  return {
      {api.create, "cublasLtCreate"},
      {api.describe_create, "cublasLtMatmulDescCreate"},
      {api.describe_set, "cublasLtMatmulDescSetAttribute"},
      {api.describe_destroy, "cublasLtMatmulDescDestroy"},
      {api.layout_create, "cublasLtMatrixLayoutCreate"},
      {api.layout_set, "cublasLtMatrixLayoutSetAttribute"},
      {api.layout_destroy, "cublasLtMatrixLayoutDestroy"},
      {api.preference_create, "cublasLtMatmulPreferenceCreate"},
      {api.preference_set, "cublasLtMatmulPreferenceSetAttribute"},
      {api.preference_destroy, "cublasLtMatmulPreferenceDestroy"},
      {api.heuristic, "cublasLtMatmulAlgoGetHeuristic"},
      {api.matmul, "cublasLtMatmul"},
  };
}

// The driver's own generation first, then older ones, which a newer driver runs too; never newer ones.
std::vector<const char*> sonames(int driver_version) {
  std::vector<const char*> names;
  if (driver_version >= 13000) names.push_back("libcublasLt.so.13");
  if (driver_version >= 12000) names.push_back("libcublasLt.so.12");
  names.push_back("libcublasLt.so.11");
  return names;
}

}  // namespace

std::unique_ptr<Blas> find_blas_cuda(int driver_version, std::string& why_not) {
  const std::vector<const char*> names = sonames(driver_version);
  LtApi api;
  const std::vector<EntryPoint> functions = entry_points(api);
  const Library library = find_library({.what = "cuBLASLt", .sonames = names, .entry_points = functions});
  if (!library) return why_not = library.why_not(), nullptr;
  size_t (*version)() = nullptr;
  api.name = "cuBLASLt";
  if (library.load(version, "cublasLtGetVersion")) {
    const size_t v = version(),
                 unit = v >= 100000 ? 10000 : 1000;  // 130002 is 13.0.2, 11600 is 11.6
    api.name += str(" ", v / unit, ".", v % unit / 100, ".", v % 100);
  }
  api.path = library.path();
  api.set_transpose_a = 3;
  api.set_transpose_b = 4;
  api.set_epilogue = 7;
  api.set_bias = 8;
  api.set_bias_type = 26;
  api.set_before = 11;
  api.set_before_leading = 12;
  api.layout_batch = 5;
  api.layout_batch_stride = 6;
  api.prefer_workspace = 1;
  api.prefer_reduction = 3;
  api.prefer_align_a = 5;
  api.prefer_align_b = 6;
  api.prefer_align_c = 7;
  api.prefer_align_d = 8;
  api.keep = 0;
  api.transpose = 1;
  api.epilogue_bias = 4;
  api.epilogue_relu = 2;
  api.epilogue_gelu = 32;
  api.epilogue_before = 128;
  api.exact_reductions = 2;  // parts in the type of the sums
  api.algorithm_bytes = 64;
  api.result_bytes = 96;
  api.types = types;
  api.supports = supports;
  api.status_name = status_name;
  api.is_refusal = [](int status) {
    return status == kInvalidValue || status == kArchMismatch || status == kNotSupported;
  };
  return make_lt_blas(std::move(api));
}

}  // namespace facula::gpu
