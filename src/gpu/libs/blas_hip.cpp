// hipBLASLt, for the chips it was made for, and rocBLAS for all others and for the types that only it has. Names and
// numbers; no header of theirs is needed to build.
#include "gpu/driver/library.h"
#include "gpu/libs/blas_lt.h"

#include <facula/core/error.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace facula::gpu {
namespace {

// ---- hipBLASLt -----------------------------------------------------------------------------------------------------

// hipDataType
enum : int { kR32F = 0, kR16F = 2, kR8I = 3, kR32I = 10, kR16BF = 14 };
// hipblasComputeType_t
enum : int { kCompute32F = 2, kCompute32FFastTF32 = 6, kCompute32I = 9 };
// hipblasStatus_t
enum : int { kInvalidValue = 3, kNotSupported = 7, kArchMismatch = 8, kInvalidEnum = 10 };

std::optional<LtApi::Types> lt_types(const BlasProblem& p) {
  switch (p.dtype) {
    case ScalarType::Half: return LtApi::Types{kR16F, kR16F, kCompute32F, kR32F};
    case ScalarType::BFloat16: return LtApi::Types{kR16BF, kR16BF, kCompute32F, kR32F};
    case ScalarType::Float: return LtApi::Types{kR32F, kR32F, p.tf32 ? kCompute32FFastTF32 : kCompute32F, kR32F};
    case ScalarType::Char: return LtApi::Types{kR8I, kR32I, kCompute32I, kR32I};
    default: return std::nullopt;
  }
}

bool lt_supports(ScalarType dtype, int device) {
  // On other chips the library finds no kernels, after a long search.
  static constexpr std::string_view kChips[] = {"gfx90a",  "gfx942",  "gfx950", "gfx1100",
                                                "gfx1101", "gfx1200", "gfx1201"};
  const std::string& chip = properties(device).chip;
  bool known = false;
  for (std::string_view name : kChips) known = known || chip == name;
  BlasProblem p;
  p.dtype = dtype;
  return known && lt_types(p).has_value();
}

std::string lt_status_name(int status) {
  switch (status) {
    case 1: return "HIPBLAS_STATUS_NOT_INITIALIZED";
    case 2: return "HIPBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue: return "HIPBLAS_STATUS_INVALID_VALUE";
    case 4: return "HIPBLAS_STATUS_MAPPING_ERROR";
    case 5: return "HIPBLAS_STATUS_EXECUTION_FAILED";
    case 6: return "HIPBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported: return "HIPBLAS_STATUS_NOT_SUPPORTED";
    case kArchMismatch: return "HIPBLAS_STATUS_ARCH_MISMATCH";
    default: return str("status ", status);
  }
}

std::vector<EntryPoint> lt_entry_points(LtApi& api) {
  return {
      {api.create, "hipblasLtCreate"},
      {api.describe_create, "hipblasLtMatmulDescCreate"},
      {api.describe_set, "hipblasLtMatmulDescSetAttribute"},
      {api.describe_destroy, "hipblasLtMatmulDescDestroy"},
      {api.layout_create, "hipblasLtMatrixLayoutCreate"},
      {api.layout_set, "hipblasLtMatrixLayoutSetAttribute"},
      {api.layout_destroy, "hipblasLtMatrixLayoutDestroy"},
      {api.preference_create, "hipblasLtMatmulPreferenceCreate"},
      {api.preference_set, "hipblasLtMatmulPreferenceSetAttribute"},
      {api.preference_destroy, "hipblasLtMatmulPreferenceDestroy"},
      {api.heuristic, "hipblasLtMatmulAlgoGetHeuristic"},
      {api.matmul, "hipblasLtMatmul"},
  };
}

std::unique_ptr<Blas> find_lt(int driver_version, std::string& why_not) {
  if (driver_version < 60000000) {
    // Before, its numbers for types were others.
    why_not = "hipBLASLt is used from HIP 6.0 on";
    return nullptr;
  }
  static constexpr const char* kNames[] = {"libhipblaslt.so.1", "libhipblaslt.so.0"};
  LtApi api;
  const std::vector<EntryPoint> functions = lt_entry_points(api);
  const Library library = find_library({.what = "hipBLASLt", .sonames = kNames, .entry_points = functions});
  if (!library) return why_not = library.why_not(), nullptr;
  api.name = "hipBLASLt";
  api.path = library.path();
  api.set_transpose_a = 0;
  api.set_transpose_b = 1;
  api.set_epilogue = 2;
  api.set_bias = 3;
  api.set_bias_type = 4;
  api.set_before = 10;
  api.set_before_leading = 11;
  api.layout_batch = 0;
  api.layout_batch_stride = 1;
  api.prefer_workspace = 1;
  api.keep = 111;
  api.transpose = 112;
  api.epilogue_bias = 4;
  api.epilogue_relu = 2;
  api.epilogue_gelu = 32;
  api.epilogue_before = 128;
  api.algorithm_bytes = 24;
  api.result_bytes = 56;
  api.types = lt_types;
  api.supports = lt_supports;
  api.status_name = lt_status_name;
  api.is_refusal = [](int status) {
    return status == kInvalidValue || status == kNotSupported || status == kArchMismatch || status == kInvalidEnum;
  };
  api.description_is_written = true;
  return make_lt_blas(std::move(api));
}

// ---- rocBLAS -------------------------------------------------------------------------------------------------------

struct RocApi {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  int (*set_atomics)(void* handle, int mode);
  int (*gemm)(void* handle, int how_a, int how_b, int m, int n, int k, const void* alpha, const void* a, int a_type,
              int lda, int64_t stride_a, const void* b, int b_type, int ldb, int64_t stride_b, const void* beta,
              const void* c, int c_type, int ldc, int64_t stride_c, void* d, int d_type, int ldd, int64_t stride_d,
              int batch, int compute_type, int algorithm, int solution, uint32_t flags);
};

std::vector<EntryPoint> roc_entry_points(RocApi& api) {
  return {
      {api.create, "rocblas_create_handle"},
      {api.set_stream, "rocblas_set_stream"},
      {api.set_atomics, "rocblas_set_atomics_mode"},
      {api.gemm, "rocblas_gemm_strided_batched_ex"},
  };
}

// rocblas_datatype of operands, of the result and of the sums; false where it has none.
bool roc_types(const BlasProblem& p, int& in, int& out, int& sums) {
  enum : int { kF16 = 150, kF32 = 151, kF64 = 152, kC32 = 154, kC64 = 155, kI8 = 160, kI32 = 162, kBf16 = 168 };
  switch (p.dtype) {
    case ScalarType::Half: in = out = kF16, sums = kF32; return true;
    case ScalarType::BFloat16: in = out = kBf16, sums = kF32; return true;
    case ScalarType::Float: in = out = sums = kF32; return true;
    case ScalarType::Double: in = out = sums = kF64; return true;
    case ScalarType::ComplexFloat: in = out = sums = kC32; return true;
    case ScalarType::ComplexDouble: in = out = sums = kC64; return true;
    case ScalarType::Char: in = kI8, out = sums = kI32; return true;
    default: return false;
  }
}

class RocBlas final : public Blas {
 public:
  RocBlas(RocApi api, std::string name, std::string path) : api_(api), name_(std::move(name)), path_(std::move(path)) {}
  const std::string& name() const override { return name_; }
  const std::string& path() const override { return path_; }
  bool supports(ScalarType dtype, int) override {
    BlasProblem p;
    p.dtype = dtype;
    int in, out, sums;
    return roc_types(p, in, out, sums);
  }

  bool matmul(const BlasProblem& p, const StreamRef& stream, const char* op) override {
    int in, out, sums;
    if (!roc_types(p, in, out, sums) || p.bias || p.activation != Activation::None) return false;
    for (int64_t size : {p.m, p.n, p.k, p.batch, p.lda, p.ldb, p.ldd})
      if (size > INT32_MAX) return false;
    RelaxedCapture relaxed;  // a handle asks for memory, and kernels are loaded when they are first used
    Handle* with = handle(stream);
    if (!with) return false;
    alignas(16) unsigned char alpha[16] = {}, beta[16] = {};
    put_scale(p, p.alpha, alpha);
    put_scale(p, p.beta, beta);
    const auto narrow = [](int64_t size) { return static_cast<int>(size); };
    std::lock_guard lock(with->mutex);
    const int status =
        api_.gemm(with->handle, p.transpose_a ? 112 : 111, p.transpose_b ? 112 : 111, narrow(p.m), narrow(p.n),
                  narrow(p.k), alpha, p.a, in, narrow(p.lda), p.stride_a, p.b, in, narrow(p.ldb), p.stride_b, beta, p.d,
                  out, narrow(p.ldd), p.stride_d, p.d, out, narrow(p.ldd), p.stride_d, narrow(p.batch), sums, 0, 0, 0);
    if (status == 0) return true;
    // Not implemented, bad pointer, size or value: the library cannot do this one.
    const bool refusal = status == 2 || status == 3 || status == 4 || status == 11;
    FACULA_CHECK(refusal, DeviceError, op, ": ", name_, " failed with rocblas_status ", status, " for a product of ",
                 p.n, "x", p.k, " and ", p.k, "x", p.m, " (batch ", p.batch, ") in ", toString(p.dtype),
                 ". FACULA_BLAS=none computes without the library");
    return false;
  }

 private:
  // The library keeps its workspace in the handle: each stream has one of its own.
  struct Handle {
    void* handle = nullptr;
    std::mutex mutex;
  };

  static void put_scale(const BlasProblem& p, double value, unsigned char* to) {
    const auto put = [to](auto number) { std::memcpy(to, &number, sizeof(number)); };
    if (p.dtype == ScalarType::Double || p.dtype == ScalarType::ComplexDouble) put(value);
    else if (p.dtype == ScalarType::Char) put(static_cast<int32_t>(value));
    else put(static_cast<float>(value));
  }

  Handle* handle(const StreamRef& stream) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Handle>& slot = handles_[{stream.device, stream.handle}];
    if (!slot) {
      slot = std::make_unique<Handle>();
      // Without atomic additions a product gives the same bits each time.
      if (api_.create(&slot->handle) != 0 || api_.set_stream(slot->handle, stream.handle) != 0 ||
          api_.set_atomics(slot->handle, 0) != 0)
        slot->handle = nullptr;
    }
    return slot->handle ? slot.get() : nullptr;
  }

  RocApi api_;
  std::string name_, path_;
  std::mutex mutex_;
  std::map<std::pair<int, StreamHandle>, std::unique_ptr<Handle>> handles_;
};

std::unique_ptr<Blas> find_roc(std::string& why_not) {
  static constexpr const char* kNames[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3", "librocblas.so.0"};
  RocApi api;
  const std::vector<EntryPoint> functions = roc_entry_points(api);
  const Library library = find_library({.what = "rocBLAS", .sonames = kNames, .entry_points = functions});
  if (!library) return why_not = library.why_not(), nullptr;
  std::string name = "rocBLAS";
  int (*version)(char*, size_t) = nullptr;
  char text[128] = {};
  if (library.load(version, "rocblas_get_version_string") && version(text, sizeof(text) - 1) == 0)
    name += str(" ", text);
  return std::make_unique<RocBlas>(api, std::move(name), library.path());
}

// ---- both ----------------------------------------------------------------------------------------------------------

class BothBlas final : public Blas {
 public:
  BothBlas(std::unique_ptr<Blas> first, std::unique_ptr<Blas> second)
      : first_(std::move(first)),
        second_(std::move(second)),
        name_(first_->name() + ", " + second_->name()),
        path_(first_->path() + ", " + second_->path()) {}
  const std::string& name() const override { return name_; }
  const std::string& path() const override { return path_; }
  bool supports(ScalarType dtype, int device) override {
    return first_->supports(dtype, device) || second_->supports(dtype, device);
  }
  bool matmul(const BlasProblem& problem, const StreamRef& stream, const char* op) override {
    return (first_->supports(problem.dtype, stream.device) && first_->matmul(problem, stream, op)) ||
           second_->matmul(problem, stream, op);
  }

 private:
  std::unique_ptr<Blas> first_, second_;
  std::string name_, path_;
};

}  // namespace

std::unique_ptr<Blas> find_blas_hip(int driver_version, std::string& why_not) {
  std::string why_no_lt, why_no_roc;
  std::unique_ptr<Blas> lt = find_lt(driver_version, why_no_lt), roc = find_roc(why_no_roc);
  if (lt && roc) return std::make_unique<BothBlas>(std::move(lt), std::move(roc));
  if (lt) return lt;
  if (roc) return roc;
  why_not = why_no_lt + "; " + why_no_roc;
  return nullptr;
}

}  // namespace facula::gpu
