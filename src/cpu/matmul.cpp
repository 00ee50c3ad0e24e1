// Picks the product for a dtype: oneDNN for float32, int8 and, where there are no tile registers, bfloat16; our own kernels for the rest. Operands that
// neither run along rows nor along columns are copied first.
#include "cpu/matmul.h"

#include "core/generated/op_ids.h"
#include "core/host_allocator.h"
#include "core/kernel_table.h"
#include "cpu/amx/product.h"
#include "cpu/convert.h"
#include "cpu/copy.h"
#include "cpu/matmul_onednn.h"
#include "cpu/matmul_pieces.h"
#include "cpu/parallel.h"
#include "cpu/small_gemm.h"
#include "cpu/thread_scratch.h"

#include <facula/core/error.h>
#include <facula/core/number_types.h>

#include <algorithm>
#include <optional>

namespace facula {
namespace {

// Host memory for the time of one product.
class Workspace {
 public:
  explicit Workspace(size_t bytes)
      : data_(host_allocate(std::max<size_t>(bytes, 1))), bytes_(std::max<size_t>(bytes, 1)) {
    if (!data_) throw OutOfMemoryError(str("matmul: cannot allocate ", bytes, " bytes of workspace on cpu"));
  }
  ~Workspace() { host_free(data_, bytes_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  size_t bytes_;
};

char* at(const MatrixArg& m, int64_t batch, size_t width) {
  return static_cast<char*>(m.data) + m.offset(batch) * static_cast<int64_t>(width);
}

bool plain(const MatrixArg& m, int64_t rows, int64_t cols) {
  return ((m.col_stride == 1 || cols == 1) && (m.row_stride >= std::max<int64_t>(1, cols) || rows == 1)) ||
         ((m.row_stride == 1 || rows == 1) && (m.col_stride >= std::max<int64_t>(1, rows) || cols == 1));
}

// Makes every matrix of an operand contiguous along a dim.
struct Contiguous {
  Contiguous(const MatrixArg& source, int64_t batch, int64_t rows, int64_t cols, size_t width)
      : memory(static_cast<size_t>(batch * rows * cols) * width) {
    int64_t sizes[] = {rows, cols}, to[] = {cols, 1}, from[] = {source.row_stride, source.col_stride};
    for (int64_t i = 0; i < batch; ++i)
      copy_strided(memory.as<char>() + static_cast<size_t>(i * rows * cols) * width, to, at(source, i, width), from,
                   sizes, 2, width);
    arg = {memory.as<void>(), cols, 1, nullptr, rows * cols};
  }
  Workspace memory;
  MatrixArg arg;
};

// The operands of `args` in float, contiguous; the product in float; the result rounded once to the dtype of C.
void matmul_through_float(const MatmulArgs& args) {
  ScalarType t = args.dtype;
  size_t width = elementSize(t);
  auto widen = [&](const MatrixArg& m, int64_t rows, int64_t cols, Workspace& memory) {
    for (int64_t i = 0; i < args.batch; ++i)
      load_block(at(m, i, width), t, rows, cols, m.row_stride, m.col_stride, memory.as<float>() + i * rows * cols);
    return MatrixArg{memory.as<void>(), cols, 1, nullptr, rows * cols};
  };
  Workspace a(static_cast<size_t>(args.batch * args.m * args.k) * 4),
      b(static_cast<size_t>(args.batch * args.k * args.n) * 4),
      c(static_cast<size_t>(args.batch * args.m * args.n) * 4);
  MatmulArgs wide = args;
  wide.dtype = ScalarType::Float;
  wide.a = widen(args.a, args.m, args.k, a);
  wide.b = widen(args.b, args.k, args.n, b);
  wide.c =
      args.beta != 0 ? widen(args.c, args.m, args.n, c) : MatrixArg{c.as<void>(), args.n, 1, nullptr, args.m * args.n};
  matmul(wide);
  for (int64_t i = 0; i < args.batch; ++i)
    store_block(c.as<float>() + i * args.m * args.n, t, args.m, args.n, args.c.row_stride, 1, at(args.c, i, width));
}

// Real and imaginary parts apart: four real products.
template <class Real>
void matmul_complex(const MatmulArgs& args, ScalarType real_type) {
  int64_t mk = args.m * args.k, kn = args.k * args.n, mn = args.m * args.n;
  Workspace memory(static_cast<size_t>(2 * (mk + kn + mn)) * sizeof(Real));
  Real *ar = memory.as<Real>(), *ai = ar + mk, *br = ai + mk, *bi = br + kn, *cr = bi + kn, *ci = cr + mn;
  auto split = [](const Real* source, int64_t rows, int64_t cols, const MatrixArg& m, Real* re, Real* im) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const Real* z = source + 2 * (r * m.row_stride + c * m.col_stride);
        re[r * cols + c] = z[0];
        im[r * cols + c] = z[1];
      }
  };
  for (int64_t i = 0; i < args.batch; ++i) {
    split(reinterpret_cast<const Real*>(at(args.a, i, 2 * sizeof(Real))), args.m, args.k, args.a, ar, ai);
    split(reinterpret_cast<const Real*>(at(args.b, i, 2 * sizeof(Real))), args.k, args.n, args.b, br, bi);
    auto product = [&](Real* a, Real* b, Real* c, double alpha, double beta) {
      MatmulArgs part;
      part.dtype = real_type;
      part.m = args.m;
      part.n = args.n;
      part.k = args.k;
      part.a = {a, args.k, 1};
      part.b = {b, args.n, 1};
      part.c = {c, args.n, 1};
      part.alpha = alpha;
      part.beta = beta;
      matmul(part);
    };
    product(ar, br, cr, args.alpha, 0);
    product(ai, bi, cr, -args.alpha, 1);
    product(ar, bi, ci, args.alpha, 0);
    product(ai, br, ci, args.alpha, 1);
    Real* c = reinterpret_cast<Real*>(at(args.c, i, 2 * sizeof(Real)));
    auto beta = static_cast<Real>(args.beta);
    for (int64_t r = 0; r < args.m; ++r)
      for (int64_t j = 0; j < args.n; ++j) {
        Real* z = c + 2 * (r * args.c.row_stride + j);
        z[0] = cr[r * args.n + j] + (beta != 0 ? beta * z[0] : Real{0});
        z[1] = ci[r * args.n + j] + (beta != 0 ? beta * z[1] : Real{0});
      }
  }
}

// Integers: exact, wrapping. `Wide` is unsigned, so that overflow is defined; the bits are those of the signed product.
template <class T, class Wide>
void matmul_integer(const MatmulArgs& args) {
  auto alpha = static_cast<Wide>(static_cast<int64_t>(args.alpha)),
       beta = static_cast<Wide>(static_cast<int64_t>(args.beta));
  int64_t rows = args.batch * args.m;
  parallel_for(
      0, rows, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, args.n * args.k)), [&](int64_t first, int64_t last) {
        Workspace memory(static_cast<size_t>(args.n) * sizeof(Wide));
        Wide* sum = memory.as<Wide>();
        for (int64_t row = first; row < last; ++row) {
          int64_t batch = row / args.m, r = row % args.m;
          const T* a = reinterpret_cast<const T*>(at(args.a, batch, sizeof(T))) + r * args.a.row_stride;
          const T* b = reinterpret_cast<const T*>(at(args.b, batch, sizeof(T)));
          T* c = reinterpret_cast<T*>(at(args.c, batch, sizeof(T))) + r * args.c.row_stride;
          std::fill(sum, sum + args.n, Wide{0});
          for (int64_t p = 0; p < args.k; ++p) {
            auto x = static_cast<Wide>(a[p * args.a.col_stride]);
            const T* y = b + p * args.b.row_stride;
            if (args.b.col_stride == 1)
              for (int64_t j = 0; j < args.n; ++j) sum[j] += x * static_cast<Wide>(y[j]);
            else
              for (int64_t j = 0; j < args.n; ++j) sum[j] += x * static_cast<Wide>(y[j * args.b.col_stride]);
          }
          for (int64_t j = 0; j < args.n; ++j)
            c[j] = static_cast<T>(alpha * sum[j] + (args.beta != 0 ? beta * static_cast<Wide>(c[j]) : Wide{0}));
        }
      });
}

void matmul_f64(const MatmulArgs& args) {
  auto one = [&](int64_t i) {
    gemm_f64(args.m, args.n, args.k, args.alpha, reinterpret_cast<const double*>(at(args.a, i, 8)), args.a.row_stride,
             args.a.col_stride, reinterpret_cast<const double*>(at(args.b, i, 8)), args.b.row_stride, args.b.col_stride,
             args.beta, reinterpret_cast<double*>(at(args.c, i, 8)), args.c.row_stride);
  };
  // Many small products share threads one by one, few large ones inside.
  int64_t work = args.m * args.n * args.k;
  parallel_for(0, args.batch, work > 1000000 ? args.batch : std::max<int64_t>(1, 100000 / std::max<int64_t>(work, 1)),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) one(i);
               });
}

// Products of up to so many multiplications are our own: small ones of almost any shape, medium ones with enough rows to
// pay for laying out B. oneDNN reserves and frees a workspace in each call, which can cost as much as such a product when
// the system takes the pages back each time.
constexpr int64_t kSmallWork = 64 * 64 * 64, kMediumWork = 160 * 160 * 160;
constexpr int64_t kCachedFloats = 1 << 18;  // in the second-level cache

bool matmul_small(const MatmulArgs& args) {
  const int64_t work = args.m * args.n * args.k;
  const bool by_columns = args.b.col_stride != 1;  // B is turned when it is laid out, which takes longer
  const bool small =
      work <= (by_columns ? kSmallWork / 4 : kSmallWork) && args.m >= (by_columns ? 8 : 1) && args.n >= 4;
  // Batches that come from memory are better served by oneDNN, which fetches ahead.
  const bool cached = args.batch * (args.m * args.k + args.k * args.n + args.m * args.n) <= kCachedFloats;
  const bool medium = work <= kMediumWork && args.m >= (by_columns ? 96 : 64) && args.n >= 16 && cached;
  if (!small && !medium) return false;
  // Where there are more threads than products, each product is cut into pieces. No sum is cut.
  const int64_t spare = in_parallel_region() ? 1 : ceil_div(get_num_threads(), args.batch);
  const MatmulPieces pieces(args.m, args.n, work < 2 * kSmallWork ? 1 : std::min(work / (kSmallWork / 2), spare), 1, 16,
                            6);
  auto one = [&](int64_t batch, int64_t piece) {
    const int64_t row = pieces.row(piece), column = pieces.column(piece);
    auto data = [&](const MatrixArg& m, int64_t r, int64_t c) {
      return reinterpret_cast<float*>(at(m, batch, sizeof(float))) + r * m.row_stride + c * m.col_stride;
    };
    small_gemm({std::min(pieces.rows, args.m - row), std::min(pieces.columns, args.n - column), args.k,
                data(args.a, row, 0), args.a.row_stride, args.a.col_stride, data(args.b, 0, column), args.b.row_stride,
                args.b.col_stride, data(args.c, row, 0) + column, args.c.row_stride, static_cast<float>(args.alpha),
                static_cast<float>(args.beta)});
  };
  parallel_for(0, args.batch * pieces.count, std::max<int64_t>(1, kSmallWork / 4 / work),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) one(i / pieces.count, i % pieces.count);
               });
  return true;
}

bool matmul_amx(const MatmulArgs& args) {
  if (!amx::available()) return false;
  over_pieces(args, 16, [](const MatmulArgs& piece) {
    amx::multiply({piece.m, piece.n, piece.k, static_cast<const uint16_t*>(piece.a.data), piece.a.row_stride,
                   piece.a.col_stride, static_cast<const uint16_t*>(piece.b.data), piece.b.row_stride,
                   piece.b.col_stride, static_cast<uint16_t*>(piece.c.data), piece.c.row_stride,
                   static_cast<float>(piece.alpha), static_cast<float>(piece.beta)},
                  thread_scratch(amx::kRoomBytes));
  });
  return true;
}

// The empty sum. Callers keep beta out of it.
void clear(const MatmulArgs& args) {
  FACULA_INTERNAL_CHECK(args.beta == 0);
  size_t width = elementSize(args.dtype);
  alignas(16) const char zero[16] = {};
  int64_t sizes[] = {args.m, args.n}, strides[] = {args.c.row_stride, 1};
  for (int64_t i = 0; i < args.batch; ++i) fill_strided(at(args.c, i, width), strides, sizes, 2, zero, width);
}

}  // namespace

void matmul(const MatmulArgs& args) {
  if (args.m == 0 || args.n == 0 || args.batch == 0) return;
  if (args.k == 0) return clear(args);
  if (args.dtype == ScalarType::Float && matmul_small(args)) return;
  size_t width = elementSize(args.dtype);
  bool dnn = args.dtype == ScalarType::Float || args.dtype == ScalarType::BFloat16;
  if (dnn) {
    bool fits_a = plain(args.a, args.m, args.k), fits_b = plain(args.b, args.k, args.n);
    if (!fits_a || !fits_b) {
      MatmulArgs fit = args;
      std::optional<Contiguous> a, b;
      if (!fits_a) fit.a = a.emplace(args.a, args.batch, args.m, args.k, width).arg;
      if (!fits_b) fit.b = b.emplace(args.b, args.batch, args.k, args.n, width).arg;
      return matmul(fit);
    }
    if (args.dtype == ScalarType::Float) return onednn_matmul_f32(args);
    if (matmul_amx(args) || onednn_matmul_bf16(args)) return;
    return matmul_through_float(args);
  }
  switch (args.dtype) {
    case ScalarType::Double: return matmul_f64(args);
    case ScalarType::Half:
    case ScalarType::Float8_e4m3fn:
    case ScalarType::Float8_e5m2: return matmul_through_float(args);
    case ScalarType::ComplexFloat: return matmul_complex<float>(args, ScalarType::Float);
    case ScalarType::ComplexDouble: return matmul_complex<double>(args, ScalarType::Double);
    case ScalarType::Byte:
    case ScalarType::Char: return matmul_integer<uint8_t, uint32_t>(args);
    case ScalarType::Short:
    case ScalarType::UInt16: return matmul_integer<uint16_t, uint32_t>(args);
    case ScalarType::Int:
    case ScalarType::UInt32: return matmul_integer<uint32_t, uint32_t>(args);
    case ScalarType::Long:
    case ScalarType::UInt64: return matmul_integer<uint64_t, uint64_t>(args);
    default:
      throw DTypeError(str("matmul: \"addmm_impl_cpu_\" not implemented for '", toString(args.dtype),
                           "'. Convert the matrices with .to(dtype) first"));
  }
}

void matmul_int8(const MatmulArgs& args) {
  if (args.m == 0 || args.n == 0) return;
  onednn_matmul_int8(args);
}

static KernelRegistration mm_kernel(OpId::mm, DeviceType::CPU, &matmul);
static KernelRegistration int_mm_kernel(OpId::_int_mm, DeviceType::CPU, &matmul_int8);

}  // namespace facula
