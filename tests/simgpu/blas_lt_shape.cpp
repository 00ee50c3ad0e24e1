// The entry points of the vendors' "light" BLAS over the small BLAS: `libcublasLt.so.12` and, with other names and numbers,
// `libhipblaslt.so.0`.
#include "blas.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

using namespace simgpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

#if defined(SIMGPU_SHAPE_HIP)
#define NAME(rest) hipblasLt##rest
namespace {
enum Status { kOk = 0, kNotInitialized = 1, kInvalidValue = 3, kExecutionFailed = 5, kNotSupported = 7 };
enum DescriptionAttribute {
  kTransposeA = 0,
  kTransposeB = 1,
  kEpilogue = 2,
  kBias = 3,
  kBiasType = 4,
  kBefore = 10,
  kBeforeLeading = 11
};
enum LayoutAttribute { kBatch = 0, kBatchStride = 1 };
enum PreferenceAttribute { kWorkspace = 1 };
enum Operation { kKeep = 111, kTranspose = 112, kConjugate = 113 };
enum Compute { kCompute16F = -1, kCompute32F = 2, kComputeFast = 6, kCompute64F = 7, kCompute32I = 9 };
constexpr size_t kAlgorithmBytes = 24;
constexpr bool kHasComplex = false;
}  // namespace
#else
#define NAME(rest) cublasLt##rest
namespace {
enum Status { kOk = 0, kNotInitialized = 1, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };
enum DescriptionAttribute {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBias = 8,
  kBefore = 11,
  kBeforeLeading = 12,
  kBiasType = 26
};
enum LayoutAttribute { kBatch = 5, kBatchStride = 6 };
enum PreferenceAttribute { kWorkspace = 1 };
enum Operation { kKeep = 0, kTranspose = 1, kConjugate = 2 };
enum Compute { kCompute16F = 64, kCompute32F = 68, kComputeFast = 77, kCompute64F = 70, kCompute32I = 72 };
constexpr size_t kAlgorithmBytes = 64;
constexpr bool kHasComplex = true;
}  // namespace
#endif

namespace {

// What a program has said of something, by number.
struct Attributes {
  std::map<int, std::vector<char>> values;
  int set(int attribute, const void* value, size_t bytes) {
    if (!value || bytes == 0 || bytes > 64) return kInvalidValue;
    const auto* from = static_cast<const char*>(value);
    values[attribute].assign(from, from + bytes);
    return kOk;
  }
  template <class T>
  T get(int attribute, T otherwise) const {
    const auto found = values.find(attribute);
    if (found != values.end() && found->second.size() >= sizeof(T))
      std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
};

struct Description : Attributes {
  int compute = 0, scale = 0;
};
struct Layout : Attributes {
  int type = 0;
  int64_t rows = 0, columns = 0, leading = 0;
};
using Preference = Attributes;

struct Result {
  char algorithm[kAlgorithmBytes];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// cudaDataType and hipDataType agree.
std::optional<Element> element_of(int type) {
  switch (type) {
    case 0: return Element::F32;
    case 1: return Element::F64;
    case 2: return Element::F16;
    case 3: return Element::I8;
    case 4: return Element::C32;
    case 5: return Element::C64;
    case 10: return Element::I32;
    case 14: return Element::BF16;
    default: return std::nullopt;
  }
}

// Whether the library has this combination of types.
bool has_types(const Description& description, Element in, Element out) {
  if (in == Element::I8) return out == Element::I32 && description.compute == kCompute32I;
  if (in != out) return false;
  if (in == Element::F64 || in == Element::C64) return kHasComplex && description.compute == kCompute64F;
  if (in == Element::C32 && !kHasComplex) return false;
  if (in == Element::F16 && description.compute == kCompute16F) return true;
  return description.compute == kCompute32F || description.compute == kComputeFast;
}

enum Epilogue : uint32_t { kDefault = 1, kRelu = 2, kAddsBias = 4, kGelu = 32, kKeepsBefore = 128 };

// What is done to the product at its end.
int understand_epilogue(const Description& description, const Layout& d, Product& p) {
  const auto epilogue = description.get<uint32_t>(kEpilogue, kDefault);
  if (epilogue == kDefault) return kOk;
  if (epilogue & kAddsBias) {
    p.bias = description.get<const void*>(kBias, nullptr);
    const int bias_type = description.get<int32_t>(kBiasType, d.type);
    if (!p.bias) return kInvalidValue;
    if (bias_type != d.type) return kNotSupported;
  }
  switch (epilogue & ~uint32_t{kAddsBias}) {
    case 0: return kOk;
    case kRelu: p.activation = Product::Activation::Relu; break;
    case kGelu | kKeepsBefore:
      p.before = description.get<void*>(kBefore, nullptr);
      p.ld_before = description.get<int64_t>(kBeforeLeading, 0);
      if (!p.before || p.ld_before < p.m || p.ld_before % 8 != 0) return kInvalidValue;
      [[fallthrough]];
    case kGelu: p.activation = Product::Activation::GeluTanh; break;
    default: return kNotSupported;
  }
  const bool has_it = p.out == Element::F32 || p.out == Element::F16 || p.out == Element::BF16;
  return has_it && p.batch == 1 ? int{kOk} : int{kNotSupported};
}

// The product that descriptions mean, without addresses and scales; a status when they do not fit together.
int understand(const Description& description, const Layout& a, const Layout& b, const Layout& c, const Layout& d,
               Product& p) {
  const auto in = element_of(a.type), out = element_of(d.type);
  if (!in || !out || a.type != b.type || c.type != d.type || !has_types(description, *in, *out)) return kNotSupported;
  const int how_a = description.get<int32_t>(kTransposeA, kKeep), how_b = description.get<int32_t>(kTransposeB, kKeep);
  p.in = *in;
  p.out = *out;
  p.transpose_a = how_a != kKeep;
  p.transpose_b = how_b != kKeep;
  p.conjugate_a = how_a == kConjugate;
  p.conjugate_b = how_b == kConjugate;
  p.m = p.transpose_a ? a.columns : a.rows;
  p.k = p.transpose_a ? a.rows : a.columns;
  p.n = p.transpose_b ? b.rows : b.columns;
  if ((p.transpose_b ? b.columns : b.rows) != p.k || d.rows != p.m || d.columns != p.n || c.rows != p.m ||
      c.columns != p.n)
    return kInvalidValue;
  for (const Layout* layout : {&a, &b, &c, &d})
    if (layout->leading < layout->rows) return kInvalidValue;
  // Whole groups of four bytes, as tensor cores take them.
  if (*in == Element::I8 && (p.k % 4 || a.leading % 4 || b.leading % 4)) return kNotSupported;
  p.lda = a.leading;
  p.ldb = b.leading;
  p.ldc = c.leading;
  p.ldd = d.leading;
  p.batch = d.get<int32_t>(kBatch, 1);
  for (const Layout* layout : {&a, &b, &c})
    if (layout->get<int32_t>(kBatch, 1) != p.batch) return kInvalidValue;
  p.stride_a = a.get<int64_t>(kBatchStride, 0);
  p.stride_b = b.get<int64_t>(kBatchStride, 0);
  p.stride_c = c.get<int64_t>(kBatchStride, 0);
  p.stride_d = d.get<int64_t>(kBatchStride, 0);
  return understand_epilogue(description, d, p);
}

// Scales are of the type that the description was made with.
bool read_scale(const Description& description, const void* at, double value[2]) {
  const auto type = element_of(description.scale);
  if (!type || !at) return false;
  read_element(*type, at, value);
  return true;
}

constexpr size_t kWorkspaces[] = {0, size_t{1} << 20};

}  // namespace

EXPORT size_t NAME(GetVersion)() { return 120400; }
EXPORT int NAME(Create)(void** handle) {
  if (!handle) return kInvalidValue;
  *handle = new int(1);
  return kOk;
}
EXPORT int NAME(Destroy)(void* handle) {
  delete static_cast<int*>(handle);
  return kOk;
}
EXPORT int NAME(MatmulDescCreate)(Description** description, int compute, int scale) {
  if (!description) return kInvalidValue;
  *description = new Description;
  (*description)->compute = compute;
  (*description)->scale = scale;
  return kOk;
}
EXPORT int NAME(MatmulDescDestroy)(Description* description) {
  delete description;
  return kOk;
}
EXPORT int NAME(MatmulDescSetAttribute)(Description* description, int attribute, const void* value, size_t bytes) {
  return description ? description->set(attribute, value, bytes) : int{kInvalidValue};
}
EXPORT int NAME(MatrixLayoutCreate)(Layout** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  if (!layout || rows == 0 || columns == 0) return kInvalidValue;
  *layout = new Layout;
  (*layout)->type = type;
  (*layout)->rows = static_cast<int64_t>(rows);
  (*layout)->columns = static_cast<int64_t>(columns);
  (*layout)->leading = leading;
  return kOk;
}
EXPORT int NAME(MatrixLayoutDestroy)(Layout* layout) {
  delete layout;
  return kOk;
}
EXPORT int NAME(MatrixLayoutSetAttribute)(Layout* layout, int attribute, const void* value, size_t bytes) {
  return layout ? layout->set(attribute, value, bytes) : int{kInvalidValue};
}
EXPORT int NAME(MatmulPreferenceCreate)(Preference** preference) {
  if (!preference) return kInvalidValue;
  *preference = new Preference;
  return kOk;
}
EXPORT int NAME(MatmulPreferenceDestroy)(Preference* preference) {
  delete preference;
  return kOk;
}
EXPORT int NAME(MatmulPreferenceSetAttribute)(Preference* preference, int attribute, const void* value, size_t bytes) {
  return preference ? preference->set(attribute, value, bytes) : int{kInvalidValue};
}

// Two ways, of which one needs room to work in.
EXPORT int NAME(MatmulAlgoGetHeuristic)(void* handle, Description* description, Layout* a, Layout* b, Layout* c,
                                        Layout* d, Preference* preference, int wanted, Result* results, int* found) {
  if (!handle) return kNotInitialized;
  if (!description || !a || !b || !c || !d || !preference || !results || !found || wanted < 1) return kInvalidValue;
  *found = 0;
  Product p;
  if (int status = understand(*description, *a, *b, *c, *d, p)) return status;
  const auto room = preference->get<uint64_t>(kWorkspace, 0);
  for (int i = 0; i < 2 && *found < wanted; ++i) {
    if (kWorkspaces[i] > room) continue;
    Result& result = results[(*found)++];
    result = {};
    std::memcpy(result.algorithm, &i, sizeof i);
    result.workspace = kWorkspaces[i];
    result.waves = 1;
  }
  return *found ? int{kOk} : int{kNotSupported};
}

EXPORT int NAME(Matmul)(void* handle, Description* description, const void* alpha, const void* a, Layout* a_layout,
                        const void* b, Layout* b_layout, const void* beta, const void* c, Layout* c_layout, void* d,
                        Layout* d_layout, const void* algorithm, void* workspace, size_t workspace_bytes,
                        void* stream) {
  if (!handle) return kNotInitialized;
  if (!description || !a_layout || !b_layout || !c_layout || !d_layout || !a || !b || !d) return kInvalidValue;
  Product p;
  if (int status = understand(*description, *a_layout, *b_layout, *c_layout, *d_layout, p)) return status;
  if (!read_scale(*description, alpha, p.alpha) || !read_scale(*description, beta, p.beta)) return kInvalidValue;
  p.a = a;
  p.b = b;
  p.c = c;
  p.d = d;
  int number = 0;
  if (algorithm) std::memcpy(&number, algorithm, sizeof number);
  if (number < 0 || number > 1) return kInvalidValue;
  if (kWorkspaces[number] > 0) {
    if (!workspace || workspace_bytes < kWorkspaces[number]) return kInvalidValue;
    p.workspace = workspace;
    p.workspace_bytes = kWorkspaces[number];
  }
  return multiply(p, stream) == 0 ? int{kOk} : int{kExecutionFailed};
}
