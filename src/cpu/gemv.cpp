// Matrix times vector for float and double. Memory bound: every element of the matrix is read once, several rows at a time
// so that the vector is read from the cache.
#include "cpu/gemv.h"

#include "core/kernel_table.h"
#include "cpu/parallel.h"

#include <algorithm>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemv.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of contiguous elements. Four accumulators a row, whatever the row count of the group, so that a row's sum does not
// depend on its neighbours.
template <int kRows, class T>
HWY_ATTR void dot_group(const T* HWY_RESTRICT a, int64_t row_stride, const T* HWY_RESTRICT x, int64_t k,
                        T* HWY_RESTRICT y) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[kRows][4];
  for (auto& row : sum)
    for (auto& s : row) s = hn::Zero(d);
  int64_t j = 0;
  for (; j + 4 * lanes <= k; j += 4 * lanes)
    for (int u = 0; u < 4; ++u) {
      const auto v = hn::LoadU(d, x + j + u * lanes);
      for (int r = 0; r < kRows; ++r)
        sum[r][u] = hn::MulAdd(hn::LoadU(d, a + r * row_stride + j + u * lanes), v, sum[r][u]);
    }
  for (; j + lanes <= k; j += lanes) {
    const auto v = hn::LoadU(d, x + j);
    for (int r = 0; r < kRows; ++r) sum[r][0] = hn::MulAdd(hn::LoadU(d, a + r * row_stride + j), v, sum[r][0]);
  }
  for (int r = 0; r < kRows; ++r) {
    const auto total = hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3]));
    T s = hn::GetLane(hn::SumOfLanes(d, total));
    for (int64_t p = j; p < k; ++p) s += a[r * row_stride + p] * x[p];
    y[r] = s;
  }
}

template <class T>
HWY_ATTR void dot_rows(const T* a, int64_t row_stride, const T* x, int64_t rows, int64_t k, T* y) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) dot_group<4>(a + i * row_stride, row_stride, x, k, y + i);
  for (; i < rows; ++i) dot_group<1>(a + i * row_stride, row_stride, x, k, y + i);
}

// Columns of contiguous elements: y += sum of columns times x, four columns a pass.
template <class T>
HWY_ATTR void add_columns(const T* HWY_RESTRICT a, int64_t col_stride, const T* HWY_RESTRICT x, int64_t rows, int64_t k,
                          T* HWY_RESTRICT y) {
  std::fill(y, y + rows, T{0});
  int64_t j = 0;
  for (; j + 4 <= k; j += 4) {
    const T *a0 = a + j * col_stride, *a1 = a0 + col_stride, *a2 = a1 + col_stride, *a3 = a2 + col_stride;
    const T x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
    for (int64_t i = 0; i < rows; ++i) y[i] += (a0[i] * x0 + a1[i] * x1) + (a2[i] * x2 + a3[i] * x3);
  }
  for (; j < k; ++j)
    for (int64_t i = 0; i < rows; ++i) y[i] += a[j * col_stride + i] * x[j];
}

HWY_ATTR void rows_f32(const float* a, int64_t s, const float* x, int64_t m, int64_t k, float* y) {
  dot_rows(a, s, x, m, k, y);
}
HWY_ATTR void rows_f64(const double* a, int64_t s, const double* x, int64_t m, int64_t k, double* y) {
  dot_rows(a, s, x, m, k, y);
}
HWY_ATTR void columns_f32(const float* a, int64_t s, const float* x, int64_t m, int64_t k, float* y) {
  add_columns(a, s, x, m, k, y);
}
HWY_ATTR void columns_f64(const double* a, int64_t s, const double* x, int64_t m, int64_t k, double* y) {
  add_columns(a, s, x, m, k, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(columns_f32);
HWY_EXPORT(columns_f64);

void gemv(const GemvArgs& args) {
  bool single = args.dtype == ScalarType::Float;
  bool by_rows = args.col_stride == 1;
  constexpr int64_t kRowBlock = 1024;  // partial sums of a block of rows stay in the first-level cache
  int64_t unit = by_rows ? 4 : kRowBlock;
  int64_t units = (args.m + unit - 1) / unit;
  parallel_for(0, units, std::max<int64_t>(1, 65536 / (unit * std::max<int64_t>(args.k, 1))),
               [&](int64_t first, int64_t last) {
                 for (int64_t u = first; u < last; ++u) {
                   int64_t i = u * unit, rows = std::min(unit, args.m - i);
                   int64_t offset = i * args.row_stride, step = by_rows ? args.row_stride : args.col_stride;
                   if (single) {
                     auto f = by_rows ? &HWY_DYNAMIC_DISPATCH(rows_f32) : &HWY_DYNAMIC_DISPATCH(columns_f32);
                     f(static_cast<const float*>(args.a) + offset, step, static_cast<const float*>(args.x), rows,
                       args.k, static_cast<float*>(args.y) + i);
                   } else {
                     auto f = by_rows ? &HWY_DYNAMIC_DISPATCH(rows_f64) : &HWY_DYNAMIC_DISPATCH(columns_f64);
                     f(static_cast<const double*>(args.a) + offset, step, static_cast<const double*>(args.x), rows,
                       args.k, static_cast<double*>(args.y) + i);
                   }
                 }
               });
}

static KernelRegistration gemv_kernel(OpId::mv, DeviceType::CPU, &gemv);

}  // namespace facula
#endif
