// LogSumExp over tiles. The state is a finite shift near the largest element and the sum of exp(element - shift).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/reduce_ops_exp.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/elementary-inl.h"
#include "cpu/simd/lanes-inl.h"
#include "cpu/simd/reduce_fold-inl.h"
#include "cpu/simd/reduce_tables.h"

HWY_BEFORE_NAMESPACE();
namespace facula::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace lanes = facula::HWY_NAMESPACE;

template <class T>
HWY_INLINE WideVec<T> exp_of(WideVec<T> x) {
  return lanes::m::exp(lanes::Lane<T>{x}).v;
}

template <class T>
struct ExpOfDifference {
  WideVec<T> shift;
  HWY_INLINE WideVec<T> operator()(WideVec<T> x) const { return exp_of<T>(hn::Sub(x, shift)); }
};

template <class T>
struct LogSumExpKernel {
  static constexpr T kLargest = std::numeric_limits<T>::max();

  // The extremes stand for infinities: -inf and +inf less a finite shift are themselves, so that sums become 0 and inf.
  static HWY_INLINE T shift_of(T largest) {
    return largest != largest ? T(0) : std::clamp(largest, -kLargest, kLargest);
  }

  static void empty(const States& s, int64_t n) {
    std::fill_n(field<T>(s, 0), n, -kLargest);
    std::fill_n(field<T>(s, 1), n, T(0));
  }

  static void rows(const ReduceTile& tile, const States& s) {
    if (tile.cols <= kNarrow) {
      with_rows_as_columns<T>(tile, [&](const ReduceTile& turned, int64_t first) {
        constexpr uint8_t kBytes[] = {sizeof(T), sizeof(T)};
        columns(turned, advanced(s, kBytes, 2, first));
      });
      return;
    }
    const auto n = static_cast<size_t>(tile.cols);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const T* p = static_cast<const T*>(tile.data) + r * tile.row_stride;
      const T shift = shift_of(fold_row<MaxFold, T>(p, n));
      field<T>(s, 0)[r] = shift;
      field<T>(s, 1)[r] = fold_row<AddFold, T>(p, n, ExpOfDifference<T>{hn::Set(Wide<T>(), shift)});
    }
  }

  // sum[c] += exp(x[c] - shift[c]); whole vectors, in arrays with room for them.
  static void columns(const ReduceTile& tile, const States& s) {
    const Wide<T> d;
    alignas(64) T shift[kColumnChunk], sum[kColumnChunk], row[kColumnChunk];
    const auto stride = static_cast<size_t>(tile.row_stride), rows = static_cast<size_t>(tile.rows);
    std::fill_n(row, kColumnChunk, T(0));
    for (int64_t first = 0; first < tile.cols; first += kColumnChunk) {
      const auto n = static_cast<size_t>(std::min(kColumnChunk, tile.cols - first));
      const size_t whole = (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
      const T* p = static_cast<const T*>(tile.data) + first;
      fold_columns<MaxFold, T>(p, rows, stride, n, shift);
      for (size_t c = 0; c < n; ++c) shift[c] = shift_of(shift[c]);
      for (size_t c = n; c < whole; ++c) shift[c] = 0;
      std::fill_n(sum, whole, T(0));
      for (size_t r = 0; r < rows; ++r) {
        const T* x = p + r * stride;
        if (whole != n) x = static_cast<const T*>(std::memcpy(row, x, n * sizeof(T)));
        for (size_t c = 0; c < whole; c += kLanes<T>) {
          const WideVec<T> e = exp_of<T>(hn::Sub(hn::LoadU(d, x + c), hn::Load(d, shift + c)));
          hn::Store(hn::Add(hn::Load(d, sum + c), e), d, sum + c);
        }
      }
      std::copy(shift, shift + n, field<T>(s, 0) + first);
      std::copy(sum, sum + n, field<T>(s, 1) + first);
    }
  }

  static void merge(const States& into, const States& from, int64_t n) {
    T *ma = field<T>(into, 0), *sa = field<T>(into, 1);
    const T *mb = field<T>(from, 0), *sb = field<T>(from, 1);
    const Wide<T> d;
    alignas(64) T room[4][kLanes<T>] = {};
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes<T>)) {
      const auto m = std::min<size_t>(kLanes<T>, static_cast<size_t>(n - i));
      const T* sources[4] = {ma + i, sa + i, mb + i, sb + i};
      for (int k = 0; k < 4; ++k) std::memcpy(room[k], sources[k], m * sizeof(T));
      const WideVec<T> a = hn::Load(d, room[0]), b = hn::Load(d, room[2]), top = hn::Max(a, b);
      const WideVec<T> sum = hn::Add(hn::Mul(hn::Load(d, room[1]), exp_of<T>(hn::Sub(a, top))),
                                     hn::Mul(hn::Load(d, room[3]), exp_of<T>(hn::Sub(b, top))));
      hn::Store(top, d, room[0]);
      hn::Store(sum, d, room[1]);
      std::memcpy(ma + i, room[0], m * sizeof(T));
      std::memcpy(sa + i, room[1], m * sizeof(T));
    }
  }

  static void finish(const States& s, int64_t n, void* first, void*) {
    T* out = static_cast<T*>(first);
    const Wide<T> d;
    alignas(64) T sum[kLanes<T>];
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(kLanes<T>)) {
      const auto m = std::min<size_t>(kLanes<T>, static_cast<size_t>(n - i));
      std::fill_n(sum, kLanes<T>, T(1));
      std::memcpy(sum, field<T>(s, 1) + i, m * sizeof(T));
      hn::Store(lanes::m::log(lanes::Lane<T>{hn::Load(d, sum)}).v, d, sum);
      for (size_t k = 0; k < m; ++k)
        out[i + static_cast<int64_t>(k)] = field<T>(s, 0)[i + static_cast<int64_t>(k)] + sum[k];
    }
  }

  static constexpr ReduceKernel kernel() { return kernel_table<LogSumExpKernel>(sizeof(T), sizeof(T)); }
};
struct LogSumExpFamily {
  template <class T>
  using Kernel = LogSumExpKernel<T>;
};

}  // namespace

const ReduceKernel* logsumexp_kernel(CType type) { return kernel_among<LogSumExpFamily, float, double>(type); }

}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

HWY_EXPORT(logsumexp_kernel);
const ReduceKernel* logsumexp_kernel_now(CType type) { return HWY_DYNAMIC_DISPATCH(logsumexp_kernel)(type); }

}  // namespace facula::cpu
#endif
