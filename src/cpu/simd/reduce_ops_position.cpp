// Where the largest or smallest element stands: ArgMax, ArgMin, MaxWithIndex and MinWithIndex over tiles. The state is
// the value and its position; of equal values the smallest position wins, and a NaN beats every number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/reduce_ops_position.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/reduce_fold-inl.h"
#include "cpu/simd/reduce_tables.h"

HWY_BEFORE_NAMESPACE();
namespace facula::cpu {
namespace HWY_NAMESPACE {
namespace {

// Positions inside a tile, as wide as the values so that one mask serves both.
template <size_t bytes>
struct LocalIndex {
  using type = int64_t;
};
template <>
struct LocalIndex<4> {
  using type = int32_t;
};

template <class Fold, class T>
struct PositionKernel {
  static constexpr bool kVector = kHasVector<Fold, T> && sizeof(T) >= 4;
  using Local = typename LocalIndex<sizeof(T)>::type;

  static HWY_INLINE bool beats(T x, T best) {
    if constexpr (std::is_same_v<Fold, MaxFold>) return !(x <= best) && best == best;
    else return !(x >= best) && best == best;
  }

  static void empty(const States& s, int64_t n) {
    std::fill_n(field<T>(s, 0), n, Fold::template kIdentity<T>);
    std::fill_n(field<int64_t>(s, 1), n, int64_t{0});
  }

  // The first element that equals `extreme`, or the first NaN where that is one.
  static HWY_INLINE size_t find(const T* p, size_t n, T extreme) {
    const bool nan = extreme != extreme;
    size_t i = 0;
    if constexpr (kVector) {
      const Wide<T> d;
      const WideVec<T> wanted = hn::Set(d, extreme);
      for (; i + kLanes<T> <= n; i += kLanes<T>) {
        const WideVec<T> x = hn::LoadU(d, p + i);
        const auto found = nan ? hn::Not(hn::Eq(x, x)) : hn::Eq(x, wanted);
        const intptr_t at = hn::FindFirstTrue(d, found);
        if (at >= 0) return i + static_cast<size_t>(at);
      }
    }
    while (i < n && !(p[i] == extreme || (nan && p[i] != p[i]))) ++i;
    return i;
  }

  static void rows(const ReduceTile& tile, const States& s) {
    if (tile.rows > 1 && tile.cols <= kNarrow) {
      with_rows_as_columns<T>(tile, [&](const ReduceTile& turned, int64_t first) {
        columns_of(turned, field<T>(s, 0) + first, field<int64_t>(s, 1) + first, [&](int64_t r, Local index) {
          return tile.first + (first + r) * tile.row_step + static_cast<int64_t>(index) * tile.col_step;
        });
      });
      return;
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      const T* p = static_cast<const T*>(tile.data) + r * tile.row_stride;
      const auto n = static_cast<size_t>(tile.cols);
      T extreme;
      if constexpr (kVector && kAsksAhead<Fold, T>)
        extreme = tile.goes_on ? fold_row<Fold, T, NoMap, PlainLoad<T>, true>(p, n) : fold_row<Fold, T>(p, n);
      else if constexpr (kVector) extreme = fold_row<Fold, T>(p, n);
      else extreme = fold_row_plain<Fold, T>(p, n);
      field<T>(s, 0)[r] = extreme;
      field<int64_t>(s, 1)[r] =
          tile.first + r * tile.row_step + static_cast<int64_t>(find(p, n, extreme)) * tile.col_step;
    }
  }

  template <size_t kRows>
  static HWY_INLINE void column_group(const T* p, size_t stride, int64_t cols, int64_t row, T* best, Local* index) {
    int64_t c = 0;
    if constexpr (kVector) {
      const Wide<T> d;
      const Wide<Local> di;
      for (; c + static_cast<int64_t>(kLanes<T>) <= cols; c += static_cast<int64_t>(kLanes<T>)) {
        WideVec<T> b = hn::LoadU(d, best + c);
        WideVec<Local> at = hn::LoadU(di, index + c);
        for (size_t r = 0; r < kRows; ++r) {
          const WideVec<T> x = hn::LoadU(d, p + r * stride + static_cast<size_t>(c));
          auto wins = std::is_same_v<Fold, MaxFold> ? hn::Gt(x, b) : hn::Lt(x, b);
          if constexpr (std::is_floating_point_v<T>) {
            const auto loses = std::is_same_v<Fold, MaxFold> ? hn::Le(x, b) : hn::Ge(x, b);
            wins = hn::AndNot(loses, hn::Eq(b, b));
          }
          b = hn::IfThenElse(wins, x, b);
          at = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, static_cast<Local>(row + static_cast<int64_t>(r))),
                              at);
        }
        hn::StoreU(b, d, best + c);
        hn::StoreU(at, di, index + c);
      }
    }
    for (; c < cols; ++c)
      for (size_t r = 0; r < kRows; ++r) {
        const T x = p[r * stride + static_cast<size_t>(c)];
        if (beats(x, best[c])) {
          best[c] = x;
          index[c] = static_cast<Local>(row + static_cast<int64_t>(r));
        }
      }
  }

  template <class Position>
  static HWY_INLINE void columns_of(const ReduceTile& tile, T* best, int64_t* positions, const Position& position) {
    Local index[kColumnChunk];
    const auto stride = static_cast<size_t>(tile.row_stride);
    for (int64_t first = 0; first < tile.cols; first += kColumnChunk) {
      const int64_t n = std::min(kColumnChunk, tile.cols - first);
      const T* p = static_cast<const T*>(tile.data) + first;
      T* out = best + first;
      std::copy(p, p + n, out);
      std::fill_n(index, n, Local(0));
      int64_t r = 1;
      for (; r + 4 <= tile.rows; r += 4) column_group<4>(p + static_cast<size_t>(r) * stride, stride, n, r, out, index);
      for (; r < tile.rows; ++r) column_group<1>(p + static_cast<size_t>(r) * stride, stride, n, r, out, index);
      for (int64_t c = 0; c < n; ++c) positions[first + c] = position(first + c, index[c]);
    }
  }

  static void columns(const ReduceTile& tile, const States& s) {
    columns_of(tile, field<T>(s, 0), field<int64_t>(s, 1), [&](int64_t c, Local index) {
      return tile.first + static_cast<int64_t>(index) * tile.row_step + c * tile.col_step;
    });
  }

  static void merge(const States& into, const States& from, int64_t n) {
    T* a = field<T>(into, 0);
    const T* b = field<T>(from, 0);
    int64_t* ia = field<int64_t>(into, 1);
    const int64_t* ib = field<int64_t>(from, 1);
    for (int64_t i = 0; i < n; ++i) {
      const bool equal = a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]);
      const bool take = equal ? ib[i] < ia[i] : beats(b[i], a[i]);
      a[i] = take ? b[i] : a[i];
      ia[i] = take ? ib[i] : ia[i];
    }
  }

  static constexpr ReduceKernel kernel(bool with_value) {
    ReduceKernel k = kernel_table<PositionKernel>(sizeof(T), sizeof(int64_t));
    k.result_field[0] = with_value ? 0 : 1;
    k.result_field[1] = 1;
    return k;
  }
};

template <class Fold, bool with_value>
struct PositionFamily {
  template <class T>
  struct Kernel {
    static constexpr ReduceKernel kernel() { return PositionKernel<Fold, T>::kernel(with_value); }
  };
};
template <class Fold, bool with_value>
const ReduceKernel* positions(CType type) {
  return kernel_among<PositionFamily<Fold, with_value>, float, double, int32_t, int64_t, uint64_t, uint8_t>(type);
}

}  // namespace

const ReduceKernel* position_kernel(ReduceOp op, CType type) {
  switch (op) {
    case ReduceOp::ArgMax: return positions<MaxFold, false>(type);
    case ReduceOp::ArgMin: return positions<MinFold, false>(type);
    case ReduceOp::MaxWithIndex: return positions<MaxFold, true>(type);
    case ReduceOp::MinWithIndex: return positions<MinFold, true>(type);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

HWY_EXPORT(position_kernel);
const ReduceKernel* position_kernel_now(ReduceOp op, CType type) {
  return HWY_DYNAMIC_DISPATCH(position_kernel)(op, type);
}

}  // namespace facula::cpu
#endif
