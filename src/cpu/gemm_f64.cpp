// Blocked matrix product in double precision: panels of A and B are packed so that the inner kernel reads memory in order
// and keeps a block of C in registers.
#include "cpu/matmul.h"
#include "cpu/parallel.h"

#include <facula/core/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_f64.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of C in a register block, and columns in vectors.
constexpr int kRows = 6;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kVectors = 3;
#else
constexpr int kVectors = 2;
#endif

// acc = A panel (k x kRows, packed) times B panel (k x kCols, packed); then C += alpha * acc on `rows` x `cols`.
HWY_ATTR void micro_kernel(int64_t k, const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, double alpha,
                           double* c, int64_t c_row, int64_t rows, int64_t cols) {
  const hn::ScalableTag<double> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kCols = kLanes * kVectors;
  hn::Vec<decltype(d)> acc[kRows][kVectors];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
  for (int64_t p = 0; p < k; ++p) {
    hn::Vec<decltype(d)> row[kVectors];
    for (int j = 0; j < kVectors; ++j) row[j] = hn::LoadU(d, b + j * kLanes);
    for (int i = 0; i < kRows; ++i) {
      auto x = hn::Set(d, a[i]);
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(x, row[j], acc[i][j]);
    }
    a += kRows;
    b += kCols;
  }
  auto factor = hn::Set(d, alpha);
  if (rows == kRows && cols == kCols) {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) {
        double* target = c + i * c_row + j * kLanes;
        hn::StoreU(hn::MulAdd(acc[i][j], factor, hn::LoadU(d, target)), d, target);
      }
    return;
  }
  double room[kRows * kCols];
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) hn::StoreU(hn::Mul(acc[i][j], factor), d, room + i * kCols + j * kLanes);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) c[i * c_row + j] += room[i * kCols + j];
}

int kernel_cols() { return static_cast<int>(hn::MaxLanes(hn::ScalableTag<double>())) * kVectors; }

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(micro_kernel);
HWY_EXPORT(kernel_cols);

namespace {

constexpr int64_t kRowsPerBlock = 6;
constexpr int64_t kDepth = 256, kRowBlock = 96, kColBlock = 1536;

struct FreeDeleter {
  void operator()(double* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<double, FreeDeleter>;
Buffer make_buffer(int64_t count) {
  size_t bytes = (static_cast<size_t>(count) * sizeof(double) + 63) / 64 * 64;
  auto* p = static_cast<double*>(std::aligned_alloc(64, bytes));
  FACULA_CHECK(p, OutOfMemoryError, "matmul: cannot allocate ", bytes, " bytes of workspace on cpu");
  return Buffer(p);
}

// Rows of a block, `width` at a time, each panel stored k-major and padded with zeros.
void pack(const double* source, int64_t count, int64_t k, int64_t stride, int64_t k_stride, int64_t width,
          double* packed) {
  for (int64_t first = 0; first < count; first += width) {
    int64_t used = std::min(width, count - first);
    for (int64_t p = 0; p < k; ++p) {
      const double* s = source + first * stride + p * k_stride;
      for (int64_t i = 0; i < used; ++i) packed[i] = s[i * stride];
      for (int64_t i = used; i < width; ++i) packed[i] = 0;
      packed += width;
    }
  }
}

}  // namespace

void gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t a_row, int64_t a_col,
              const double* b, int64_t b_row, int64_t b_col, double beta, double* c, int64_t c_row) {
  const int64_t width = HWY_DYNAMIC_DISPATCH(kernel_cols)();
  auto* kernel = &HWY_DYNAMIC_DISPATCH(micro_kernel);
  parallel_for(0, m, std::max<int64_t>(1, 65536 / std::max<int64_t>(n, 1)), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      double* row = c + i * c_row;
      if (beta == 0) std::fill(row, row + n, 0.0);
      else if (beta != 1)
        for (int64_t j = 0; j < n; ++j) row[j] *= beta;
    }
  });
  if (k == 0 || alpha == 0) return;

  int64_t columns = std::min(n, kColBlock);
  Buffer packed_b = make_buffer((columns + width) * std::min(k, kDepth));
  for (int64_t j0 = 0; j0 < n; j0 += kColBlock) {
    int64_t nc = std::min(kColBlock, n - j0);
    for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
      int64_t kc = std::min(kDepth, k - p0);
      int64_t panels = (nc + width - 1) / width;
      parallel_for(0, panels, std::max<int64_t>(1, 16384 / (width * kc)), [&](int64_t x, int64_t y) {
        pack(b + p0 * b_row + (j0 + x * width) * b_col, std::min(nc, y * width) - x * width, kc, b_col, b_row, width,
             packed_b.get() + x * width * kc);
      });
      int64_t blocks = (m + kRowBlock - 1) / kRowBlock;
      // Each row block is one thread's work from start to end: sums do not depend on the number of threads.
      parallel_for(0, blocks, std::max<int64_t>(1, 200000 / (kRowBlock * nc * kc / 8 + 1)), [&](int64_t x, int64_t y) {
        Buffer packed_a = make_buffer((kRowBlock + kRowsPerBlock) * kc);
        for (int64_t block = x; block < y; ++block) {
          int64_t i0 = block * kRowBlock, mc = std::min(kRowBlock, m - i0);
          pack(a + i0 * a_row + p0 * a_col, mc, kc, a_row, a_col, kRowsPerBlock, packed_a.get());
          for (int64_t j = 0; j < nc; j += width)
            for (int64_t i = 0; i < mc; i += kRowsPerBlock)
              kernel(kc, packed_a.get() + i * kc, packed_b.get() + j * kc, alpha, c + (i0 + i) * c_row + j0 + j, c_row,
                     std::min(kRowsPerBlock, mc - i), std::min(width, nc - j));
        }
      });
    }
  }
}

}  // namespace facula
#endif
