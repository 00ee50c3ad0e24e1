// Sum, Prod, Max, Min, Any and All over tiles: reductions whose state is one value.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/reduce_ops_fold.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/reduce_fold-inl.h"
#include "cpu/simd/reduce_tables.h"

HWY_BEFORE_NAMESPACE();
namespace facula::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct Pair {
  T re, im;
};

struct ComplexAdd {
  template <class P>
  static constexpr P kIdentity = P{0, 0};
  template <class P>
  static HWY_INLINE P scalar(P a, P b) {
    return {a.re + b.re, a.im + b.im};
  }
};
struct ComplexMul {
  template <class P>
  static constexpr P kIdentity = P{1, 0};
  template <class P>
  static HWY_INLINE P scalar(P a, P b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

template <class T>
inline constexpr bool kIsPair = false;
template <class T>
inline constexpr bool kIsPair<Pair<T>> = true;

template <class Fold, class T>
struct FoldKernel {
  static void empty(const States& s, int64_t n) {
    // A sum of nothing is +0, though what adds nothing is -0.
    constexpr T kResult = std::is_same_v<Fold, AddFold> ? T{} : Fold::template kIdentity<T>;
    std::fill_n(field<T>(s, 0), n, kResult);
  }

  static void rows(const ReduceTile& tile, const States& s) {
    const T* p = static_cast<const T*>(tile.data);
    const auto cols = static_cast<size_t>(tile.cols);
    T* out = field<T>(s, 0);
    if constexpr (!kIsPair<T> && sizeof(T) > 1) {
      if constexpr (kHasVector<Fold, T>) {
        // Many short rows at once. Rarer types go row by row: their order of operations does not matter.
        if constexpr (!std::is_same_v<T, int32_t> && !std::is_same_v<T, uint64_t>)
          if (tile.rows > 1 && tile.cols <= kNarrow)
            return fold_narrow<Fold, T>(p, static_cast<size_t>(tile.rows), cols, static_cast<size_t>(tile.row_stride),
                                        out);
        fold_rows<Fold, T, PlainLoad<T>, kAsksAhead<Fold, T>>(tile, out);
        return;
      }
    }
    for (int64_t r = 0; r < tile.rows; ++r) out[r] = fold_row_plain<Fold, T>(p + r * tile.row_stride, cols);
  }

  static void columns(const ReduceTile& tile, const States& s) {
    const T* p = static_cast<const T*>(tile.data);
    T* out = field<T>(s, 0);
    if constexpr (kIsPair<T>) {
      for (int64_t r = 0; r < tile.rows; ++r) {
        const T* row = p + r * tile.row_stride;
        if (r == 0) std::copy(row, row + tile.cols, out);
        else
          for (int64_t c = 0; c < tile.cols; ++c) out[c] = Fold::scalar(out[c], row[c]);
      }
    } else {
      fold_columns<Fold, T>(p, static_cast<size_t>(tile.rows), static_cast<size_t>(tile.row_stride),
                            static_cast<size_t>(tile.cols), out);
    }
  }

  static void merge(const States& into, const States& from, int64_t n) {
    T* a = field<T>(into, 0);
    const T* b = field<T>(from, 0);
    if constexpr (kIsPair<T>) {
      for (int64_t i = 0; i < n; ++i) a[i] = Fold::scalar(a[i], b[i]);
    } else {
      fold_arrays<Fold, T>(a, b, static_cast<size_t>(n));
    }
  }

  static constexpr ReduceKernel kernel() { return kernel_table<FoldKernel>(sizeof(T)); }
};

// Sums of complex numbers are sums of floats with every second one apart.
template <class T>
struct ComplexSumKernel : FoldKernel<ComplexAdd, Pair<T>> {
  static void rows(const ReduceTile& tile, const States& s) {
    const Wide<T> d;
    constexpr size_t kCount = kVirtualLanes<T>, kVectors = kCount / kLanes<T>;
    Pair<T>* out = field<Pair<T>>(s, 0);
    const size_t n = 2 * static_cast<size_t>(tile.cols);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const T* p = static_cast<const T*>(tile.data) + 2 * r * tile.row_stride;
      alignas(64) T folded[kCount];
      if (n <= kCount) {
        std::copy(p, p + n, folded);
      } else {
        WideVec<T> acc[kVectors];
        for (size_t k = 0; k < kVectors; ++k) acc[k] = hn::LoadU(d, p + k * kLanes<T>);
        size_t i = kCount;
        for (; i + kCount <= n; i += kCount)
          for (size_t k = 0; k < kVectors; ++k) acc[k] = hn::Add(acc[k], hn::LoadU(d, p + i + k * kLanes<T>));
        for (size_t k = 0; k < kVectors; ++k) hn::Store(acc[k], d, folded + k * kLanes<T>);
        for (size_t k = 0; i < n; ++i, ++k) folded[k] += p[i];
      }
      out[r] = n == 0 ? Pair<T>{0, 0}
                      : fold_scalars<ComplexAdd>(reinterpret_cast<Pair<T>*>(folded), std::min(n, kCount) / 2);
    }
  }
  static void columns(const ReduceTile& tile, const States& s) {
    fold_columns<AddFold, T>(static_cast<const T*>(tile.data), static_cast<size_t>(tile.rows),
                             2 * static_cast<size_t>(tile.row_stride), 2 * static_cast<size_t>(tile.cols),
                             field<T>(s, 0));
  }
  static void merge(const States& into, const States& from, int64_t n) {
    fold_arrays<AddFold, T>(field<T>(into, 0), field<T>(from, 0), 2 * static_cast<size_t>(n));
  }
  static constexpr ReduceKernel kernel() {
    ReduceKernel k = FoldKernel<ComplexAdd, Pair<T>>::kernel();
    k.rows = &rows;
    k.columns = &columns;
    k.merge = &merge;
    return k;
  }
};

// Bytes of 0 and 1. Rows are read in long runs and the answer is looked for once in each.
template <class Fold>
struct BoolKernel : FoldKernel<Fold, uint8_t> {
  static void rows(const ReduceTile& tile, const States& s) {
    const Wide<uint8_t> d;
    uint8_t* out = field<uint8_t>(s, 0);
    for (int64_t r = 0; r < tile.rows; ++r) {
      const uint8_t* p = static_cast<const uint8_t*>(tile.data) + r * tile.row_stride;
      size_t i = 0, n = static_cast<size_t>(tile.cols);
      uint8_t result = Fold::template kIdentity<uint8_t>;
      if (n >= kLanes<uint8_t>) {
        WideVec<uint8_t> acc = hn::LoadU(d, p);
        for (i = kLanes<uint8_t>; i + kLanes<uint8_t> <= n; i += kLanes<uint8_t>)
          acc = Fold::vec(acc, hn::LoadU(d, p + i));
        alignas(64) uint8_t lanes[kLanes<uint8_t>];
        hn::Store(acc, d, lanes);
        for (uint8_t lane : lanes) result = Fold::scalar(result, lane);
      }
      for (; i < n; ++i) result = Fold::scalar(result, p[i]);
      out[r] = result;
    }
  }
  static constexpr ReduceKernel kernel() {
    ReduceKernel k = FoldKernel<Fold, uint8_t>::kernel();
    k.rows = &rows;
    return k;
  }
};

// Reads bfloat16 where it lies, without a tile of floats in between. Widening takes instructions too, so it asks ahead.
template <class Fold>
struct BFloatKernel : FoldKernel<Fold, float> {
  static void rows(const ReduceTile& tile, const States& s) {
    fold_rows<Fold, float, BFloatLoad, true>(tile, field<float>(s, 0));
  }
  static void columns(const ReduceTile& tile, const States& s) {
    fold_columns<Fold, float, BFloatLoad>(static_cast<const uint16_t*>(tile.data), static_cast<size_t>(tile.rows),
                                          static_cast<size_t>(tile.row_stride), static_cast<size_t>(tile.cols),
                                          field<float>(s, 0));
  }
  static constexpr ReduceKernel kernel() {
    ReduceKernel k = FoldKernel<Fold, float>::kernel();
    k.rows = &rows;
    k.columns = &columns;
    return k;
  }
};

template <class Fold>
struct FoldFamily {
  template <class T>
  using Kernel = FoldKernel<Fold, T>;
};
template <class Fold>
const ReduceKernel* ordered(CType type) {
  return kernel_among<FoldFamily<Fold>, float, double, int32_t, int64_t, uint64_t>(type);
}

}  // namespace

const ReduceKernel* fold_kernel(ReduceOp op, CType type) {
  static constexpr ReduceKernel kSumC64 = ComplexSumKernel<float>::kernel(),
                                kSumC128 = ComplexSumKernel<double>::kernel();
  static constexpr ReduceKernel kProdC64 = FoldKernel<ComplexMul, Pair<float>>::kernel(),
                                kProdC128 = FoldKernel<ComplexMul, Pair<double>>::kernel();
  static constexpr ReduceKernel kAny = BoolKernel<OrFold>::kernel(), kAll = BoolKernel<AndFold>::kernel();
  const bool is_bool = type == CType::B8;
  switch (op) {
    case ReduceOp::Sum: return type == CType::C64 ? &kSumC64 : type == CType::C128 ? &kSumC128 : ordered<AddFold>(type);
    case ReduceOp::Prod:
      return type == CType::C64 ? &kProdC64 : type == CType::C128 ? &kProdC128 : ordered<MulFold>(type);
    case ReduceOp::Max: return is_bool ? &kAny : ordered<MaxFold>(type);
    case ReduceOp::Min: return is_bool ? &kAll : ordered<MinFold>(type);
    case ReduceOp::Any: return is_bool ? &kAny : nullptr;
    case ReduceOp::All: return is_bool ? &kAll : nullptr;
    default: return nullptr;
  }
}

const ReduceKernel* bfloat_kernel(ReduceOp op) {
  static constexpr ReduceKernel kSum = BFloatKernel<AddFold>::kernel(), kMax = BFloatKernel<MaxFold>::kernel(),
                                kMin = BFloatKernel<MinFold>::kernel();
  return op == ReduceOp::Sum ? &kSum : op == ReduceOp::Max ? &kMax : op == ReduceOp::Min ? &kMin : nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

HWY_EXPORT(fold_kernel);
const ReduceKernel* fold_kernel_now(ReduceOp op, CType type) { return HWY_DYNAMIC_DISPATCH(fold_kernel)(op, type); }

HWY_EXPORT(bfloat_kernel);
const ReduceKernel* bfloat_kernel_now(ReduceOp op) { return HWY_DYNAMIC_DISPATCH(bfloat_kernel)(op); }

}  // namespace facula::cpu
#endif
