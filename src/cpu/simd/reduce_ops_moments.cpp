// Mean and sum of squared deviations over tiles. A tile is read twice while it is in the cache: for its mean, then for
// deviations from it. Tiles merge by Chan's rule in double precision.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/reduce_ops_moments.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/reduce_fold-inl.h"
#include "cpu/simd/reduce_tables.h"

HWY_BEFORE_NAMESPACE();
namespace facula::cpu {
namespace HWY_NAMESPACE {
namespace {

// Fields: count, mean, sum of squared deviations.
template <class T>
struct MomentsKernel {
  static void empty(const States& s, int64_t n) {
    for (int k = 0; k < 3; ++k) std::fill_n(field<double>(s, k), n, 0.0);
  }

  // `shift` is nearly the mean of n elements; s1 and s2 are the sums of deviations from it and of their squares.
  static HWY_INLINE void set(const States& s, int64_t i, int64_t n, double shift, double s1, double s2) {
    const auto count = static_cast<double>(n);
    field<double>(s, 0)[i] = count;
    // Where the mean is infinite deviations are NaN, and say so in the second moment only.
    field<double>(s, 1)[i] = std::isfinite(shift) ? shift + s1 / count : shift;
    field<double>(s, 2)[i] = std::max(s2 - s1 * s1 / count, s1 != s1 ? s1 : 0.0);
    if (s2 != s2) field<double>(s, 2)[i] = s2;
  }

  static void rows(const ReduceTile& tile, const States& s) {
    if (tile.cols <= kNarrow) {
      with_rows_as_columns<T>(tile, [&](const ReduceTile& turned, int64_t first) {
        constexpr uint8_t kBytes[] = {8, 8, 8};
        columns(turned, advanced(s, kBytes, 3, first));
      });
      return;
    }
    const auto n = static_cast<size_t>(tile.cols);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const T* p = static_cast<const T*>(tile.data) + r * tile.row_stride;
      const T shift = fold_row<AddFold, T>(p, n) / static_cast<T>(n);
      T s1, s2;
      deviations(p, n, shift, s1, s2);
      set(s, r, tile.cols, static_cast<double>(shift), static_cast<double>(s1), static_cast<double>(s2));
    }
  }

  // Both sums in one pass, in the lanes and the order of fold_row.
  static HWY_INLINE void deviations(const T* p, size_t n, T shift, T& s1, T& s2) {
    const Wide<T> d;
    constexpr size_t kVectors = kVirtualLanes<T> / kLanes<T>;
    const WideVec<T> center = hn::Set(d, shift);
    WideVec<T> a1[kVectors], a2[kVectors];
    for (size_t k = 0; k < kVectors; ++k) a1[k] = a2[k] = hn::Zero(d);
    size_t i = 0;
    for (; i + kVirtualLanes<T> <= n; i += kVirtualLanes<T>)
      for (size_t k = 0; k < kVectors; ++k) {
        const WideVec<T> x = hn::Sub(hn::LoadU(d, p + i + k * kLanes<T>), center);
        a1[k] = hn::Add(a1[k], x);
        a2[k] = hn::Add(a2[k], hn::Mul(x, x));
      }
    s1 = fold_lanes<AddFold, T>(fold_vectors<AddFold, T, kVectors>(a1));
    s2 = fold_lanes<AddFold, T>(fold_vectors<AddFold, T, kVectors>(a2));
    if (i < n) {
      T rest[kVirtualLanes<T>], squares[kVirtualLanes<T>];
      const size_t left = n - i;
      for (size_t k = 0; k < left; ++k) {
        rest[k] = p[i + k] - shift;
        squares[k] = rest[k] * rest[k];
      }
      s1 += fold_scalars<AddFold>(rest, left);
      s2 += fold_scalars<AddFold>(squares, left);
    }
  }

  template <size_t kRows>
  static HWY_INLINE void deviation_group(const T* p, size_t stride, size_t cols, const T* shift, T* s1, T* s2) {
    const Wide<T> d;
    size_t c = 0;
    for (; c + kLanes<T> <= cols; c += kLanes<T>) {
      const WideVec<T> center = hn::LoadU(d, shift + c);
      WideVec<T> v1[kRows], v2[kRows];
      for (size_t r = 0; r < kRows; ++r) {
        v1[r] = hn::Sub(hn::LoadU(d, p + r * stride + c), center);
        v2[r] = hn::Mul(v1[r], v1[r]);
      }
      for (size_t n = kRows / 2; n > 0; n /= 2)
        for (size_t r = 0; r < n; ++r) {
          v1[r] = hn::Add(v1[2 * r], v1[2 * r + 1]);
          v2[r] = hn::Add(v2[2 * r], v2[2 * r + 1]);
        }
      hn::StoreU(hn::Add(hn::LoadU(d, s1 + c), v1[0]), d, s1 + c);
      hn::StoreU(hn::Add(hn::LoadU(d, s2 + c), v2[0]), d, s2 + c);
    }
    for (; c < cols; ++c) {
      T v1[kRows], v2[kRows];
      for (size_t r = 0; r < kRows; ++r) {
        v1[r] = p[r * stride + c] - shift[c];
        v2[r] = v1[r] * v1[r];
      }
      for (size_t n = kRows / 2; n > 0; n /= 2)
        for (size_t r = 0; r < n; ++r) {
          v1[r] = v1[2 * r] + v1[2 * r + 1];
          v2[r] = v2[2 * r] + v2[2 * r + 1];
        }
      s1[c] += v1[0];
      s2[c] += v2[0];
    }
  }

  static void columns(const ReduceTile& tile, const States& s) {
    T shift[kColumnChunk], s1[kColumnChunk], s2[kColumnChunk];
    const auto stride = static_cast<size_t>(tile.row_stride), rows = static_cast<size_t>(tile.rows);
    for (int64_t first = 0; first < tile.cols; first += kColumnChunk) {
      const auto n = static_cast<size_t>(std::min(kColumnChunk, tile.cols - first));
      const T* p = static_cast<const T*>(tile.data) + first;
      fold_columns<AddFold, T>(p, rows, stride, n, shift);
      for (size_t c = 0; c < n; ++c) {
        shift[c] /= static_cast<T>(rows);
        s1[c] = s2[c] = 0;
      }
      size_t r = 0;
      for (; r + 4 <= rows; r += 4) deviation_group<4>(p + r * stride, stride, n, shift, s1, s2);
      for (; r < rows; ++r) deviation_group<1>(p + r * stride, stride, n, shift, s1, s2);
      for (size_t c = 0; c < n; ++c)
        set(s, first + static_cast<int64_t>(c), tile.rows, static_cast<double>(shift[c]), static_cast<double>(s1[c]),
            static_cast<double>(s2[c]));
    }
  }

  static void merge(const States& into, const States& from, int64_t n) {
    double *na = field<double>(into, 0), *ma = field<double>(into, 1), *qa = field<double>(into, 2);
    const double *nb = field<double>(from, 0), *mb = field<double>(from, 1), *qb = field<double>(from, 2);
    for (int64_t i = 0; i < n; ++i) {
      const double count = na[i] + nb[i], part = nb[i] / count;
      const double delta = mb[i] - ma[i];
      const double moved = ma[i] + delta * part;
      // Infinite means have no useful difference: inf and inf is inf, inf and -inf is NaN.
      ma[i] = std::isfinite(delta) ? moved : ma[i] + mb[i];
      qa[i] = qa[i] + qb[i] + delta * delta * (na[i] * part);
      na[i] = count;
    }
  }

  static void finish(const States& s, int64_t n, void* first, void* second) {
    T* mean = static_cast<T*>(first);
    T* squares = static_cast<T*>(second);
    for (int64_t i = 0; i < n; ++i) {
      const bool none = field<double>(s, 0)[i] == 0;
      mean[i] = none ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(field<double>(s, 1)[i]);
      squares[i] = none ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(field<double>(s, 2)[i]);
    }
  }

  static constexpr ReduceKernel kernel() {
    return kernel_table<MomentsKernel>(sizeof(double), sizeof(double), sizeof(double));
  }
};
struct MomentsFamily {
  template <class T>
  using Kernel = MomentsKernel<T>;
};

}  // namespace

const ReduceKernel* moments_kernel(CType type) { return kernel_among<MomentsFamily, float, double>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

HWY_EXPORT(moments_kernel);
const ReduceKernel* moments_kernel_now(CType type) { return HWY_DYNAMIC_DISPATCH(moments_kernel)(type); }

}  // namespace facula::cpu
#endif
