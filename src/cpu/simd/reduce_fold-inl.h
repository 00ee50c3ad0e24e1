// What reduction kernels share: folding a row or the columns of a tile with one binary operation, and turning narrow
// rows into columns. The reductions themselves are in `reduce_ops_*.cpp`.
//
// Included once per instruction set, like lanes-inl.h. A fold has two parts that do not depend on the width of vectors:
// element i of a row goes to virtual lane i modulo the number of lanes (256 bytes of them), then neighbouring lanes are
// combined pairwise.
#if defined(FACULA_REDUCE_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_REDUCE_FOLD_INL_H_
#undef FACULA_REDUCE_FOLD_INL_H_
#else
#define FACULA_REDUCE_FOLD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/simd/reduce_ops.h"

HWY_BEFORE_NAMESPACE();
namespace facula::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Wide = hn::ScalableTag<T>;
template <class T>
using WideVec = hn::Vec<Wide<T>>;
template <class T>
inline constexpr size_t kLanes = HWY_LANES(T);
template <class T>
inline constexpr size_t kVirtualLanes = 256 / sizeof(T);

// Rows up to this length are handled many at a time.
inline constexpr int64_t kNarrow = 32;
// Columns that kernels with temporary arrays take at a time.
inline constexpr int64_t kColumnChunk = 256;

template <class T>
inline constexpr T kLowest =
    std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
template <class T>
inline constexpr T kHighest =
    std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();

// -0 is what adds nothing: +0 would turn a sum of -0 into +0, and only where a row is padded.
struct AddFold {
  template <class T>
  static constexpr T kIdentity = std::is_floating_point_v<T> ? T(-0.0) : T(0);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    return hn::Add(a, b);
  }
};

struct MulFold {
  template <class T>
  static constexpr T kIdentity = T(1);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else return a * b;
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    return hn::Mul(a, b);
  }
};

// A NaN stays once it is there. x86's instruction returns its second operand when either is NaN; others return a NaN by
// themselves.
struct MaxFold {
  template <class T>
  static constexpr T kIdentity = kLowest<T>;
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return b > a || b != b ? (a != a ? a : b) : a;
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::IfThenElse(hn::Eq(b, b), hn::Max(b, a), b);
    else return hn::Max(a, b);
  }
};

struct MinFold {
  template <class T>
  static constexpr T kIdentity = kHighest<T>;
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return b < a || b != b ? (a != a ? a : b) : a;
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::IfThenElse(hn::Eq(b, b), hn::Min(b, a), b);
    else return hn::Min(a, b);
  }
};

// Over bytes that are 0 or 1.
struct OrFold {
  template <class T>
  static constexpr T kIdentity = T(0);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    return hn::Or(a, b);
  }
};
struct AndFold {
  template <class T>
  static constexpr T kIdentity = T(1);
  template <class T>
  static HWY_INLINE T scalar(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class V>
  static HWY_INLINE V vec(V a, V b) {
    return hn::And(a, b);
  }
};

// Highway 1.0 multiplies no 64-bit integers; its order of unsigned 64-bit ones is not on every target.
template <class Fold, class T>
inline constexpr bool kHasVector =
    std::is_same_v<Fold, MulFold> ? std::is_floating_point_v<T>
                                  : !std::is_same_v<T, uint64_t> || std::is_same_v<Fold, AddFold>;

// Combines neighbours: the lower half of the result comes from `lo`, the upper from `hi`.
template <class Fold, class T>
HWY_INLINE WideVec<T> fold_pairs(WideVec<T> hi, WideVec<T> lo) {
  const Wide<T> d;
  return Fold::vec(hn::ConcatEven(d, hi, lo), hn::ConcatOdd(d, hi, lo));
}

// Folds `count` (a power of two) consecutive groups of neighbours held in `count` vectors into one vector.
template <class Fold, class T, size_t kCount>
HWY_INLINE WideVec<T> fold_vectors(const WideVec<T>* v) {
  if constexpr (kCount == 1) return v[0];
  else
    return fold_pairs<Fold, T>(fold_vectors<Fold, T, kCount / 2>(v + kCount / 2), fold_vectors<Fold, T, kCount / 2>(v));
}

template <class Fold, class T>
HWY_INLINE T fold_lanes(WideVec<T> v) {
  for (size_t n = kLanes<T>; n > 1; n /= 2) v = fold_pairs<Fold, T>(v, v);
  return hn::GetLane(v);
}

// The same tree in scalars, for any count up to the virtual lanes; `lanes` is overwritten.
template <class Fold, class T>
HWY_INLINE T fold_scalars(T* lanes, size_t n) {
  while (n > 1) {
    size_t half = n / 2;
    for (size_t i = 0; i < half; ++i) lanes[i] = Fold::scalar(lanes[2 * i], lanes[2 * i + 1]);
    if (n % 2) lanes[half++] = lanes[n - 1];
    n = half;
  }
  return lanes[0];
}

// How elements come from memory: as they are, or widened from 16 bits.
template <class T>
struct PlainLoad {
  using Memory = T;
  static HWY_INLINE WideVec<T> load(const T* p) { return hn::LoadU(Wide<T>(), p); }
  static HWY_INLINE T scalar(T v) { return v; }
};
struct BFloatLoad {
  using Memory = uint16_t;
  static HWY_INLINE WideVec<float> load(const uint16_t* p) {
    const Wide<uint32_t> d;
    return hn::BitCast(Wide<float>(),
                       hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint16_t, Wide<uint32_t>>(), p))));
  }
  static HWY_INLINE float scalar(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }
};

// Whether a fold asks for lines 8 KB before it needs them, where memory goes on behind its row: where a vector takes several instructions, as maxima do
// for NaN, these fill what a processor sees ahead before enough loads are on their way to keep memory busy. With one, more requests help nothing.
template <class Fold, class T>
inline constexpr bool kAsksAhead =
    std::is_floating_point_v<T> && (std::is_same_v<Fold, MaxFold> || std::is_same_v<Fold, MinFold>);

// Asks for the line before vector k of a step. The address may lie behind all memory, so it is no pointer before it is asked for.
template <class T, class Memory>
HWY_INLINE void ask_ahead(const Memory* p, size_t k) {
  constexpr uintptr_t kAhead = 8192, kLine = 64;
  if (k * kLanes<T> * sizeof(Memory) % kLine == 0)
    hwy::Prefetch(reinterpret_cast<const Memory*>(reinterpret_cast<uintptr_t>(p) + kAhead));
}

// The fold of n elements. `Map` turns a vector of elements into the vector that is folded.
struct NoMap {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};

template <class Fold, class T, class Map = NoMap, class Load = PlainLoad<T>, bool kAhead = false>
HWY_INLINE T fold_row(const typename Load::Memory* p, size_t n, const Map& map = {}) {
  const Wide<T> d;
  constexpr size_t kVectors = kVirtualLanes<T> / kLanes<T>;
  WideVec<T> acc[kVectors];
  for (size_t k = 0; k < kVectors; ++k) acc[k] = hn::Set(d, Fold::template kIdentity<T>);
  size_t i = 0;
  if (n >= kVirtualLanes<T>) {
    for (size_t k = 0; k < kVectors; ++k) acc[k] = map(Load::load(p + k * kLanes<T>));
    for (i = kVirtualLanes<T>; i + kVirtualLanes<T> <= n; i += kVirtualLanes<T>)
      for (size_t k = 0; k < kVectors; ++k) {
        if constexpr (kAhead) ask_ahead<T>(p + i + k * kLanes<T>, k);
        acc[k] = Fold::vec(acc[k], map(Load::load(p + i + k * kLanes<T>)));
      }
  }
  if (i < n) {
    // What is left goes through memory: the accumulators keep their registers in the loop above.
    alignas(64) T folded[kVirtualLanes<T>];
    alignas(64) T rest[kVirtualLanes<T>];
    for (size_t k = 0; k < kVectors; ++k) hn::Store(acc[k], d, folded + k * kLanes<T>);
    size_t whole = (n - i) / kLanes<T>, k = 0;
    for (; k < whole; ++k) {
      T* f = folded + k * kLanes<T>;
      hn::Store(Fold::vec(hn::Load(d, f), map(Load::load(p + i + k * kLanes<T>))), d, f);
    }
    size_t left = n - i - whole * kLanes<T>;
    if (left) {
      T* f = folded + k * kLanes<T>;
      hn::Store(hn::Set(d, Load::scalar(p[n - 1])), d, rest);
      for (size_t j = 0; j < left; ++j) rest[j] = Load::scalar(p[n - left + j]);
      WideVec<T> v =
          hn::IfThenElse(hn::FirstN(d, left), map(hn::Load(d, rest)), hn::Set(d, Fold::template kIdentity<T>));
      hn::Store(Fold::vec(hn::Load(d, f), v), d, f);
    }
    for (size_t j = 0; j < kVectors; ++j) acc[j] = hn::Load(d, folded + j * kLanes<T>);
  }
  return fold_lanes<Fold, T>(fold_vectors<Fold, T, kVectors>(acc));
}

// The fold of every row of a tile: out[r]. `kAhead`: ask for memory ahead where it goes on behind the rows.
template <class Fold, class T, class Load, bool kAhead>
HWY_INLINE void fold_rows(const ReduceTile& tile, T* out) {
  const auto* p = static_cast<const typename Load::Memory*>(tile.data);
  const auto cols = static_cast<size_t>(tile.cols);
  if constexpr (kAhead)
    if (tile.goes_on) {
      for (int64_t r = 0; r < tile.rows; ++r)
        out[r] = fold_row<Fold, T, NoMap, Load, true>(p + r * tile.row_stride, cols);
      return;
    }
  for (int64_t r = 0; r < tile.rows; ++r) out[r] = fold_row<Fold, T, NoMap, Load>(p + r * tile.row_stride, cols);
}

// The fold of a row without vectors.
template <class Fold, class T>
HWY_INLINE T fold_row_plain(const T* p, size_t n) {
  constexpr size_t kCount = 8;
  T acc[kCount];
  if (n < kCount) {
    std::copy(p, p + n, acc);
    return n ? fold_scalars<Fold, T>(acc, n) : Fold::template kIdentity<T>;
  }
  for (size_t k = 0; k < kCount; ++k) acc[k] = p[k];
  size_t i = kCount;
  for (; i + kCount <= n; i += kCount)
    for (size_t k = 0; k < kCount; ++k) acc[k] = Fold::scalar(acc[k], p[i + k]);
  for (size_t k = 0; i < n; ++i, ++k) acc[k] = Fold::scalar(acc[k], p[i]);
  return fold_scalars<Fold, T>(acc, kCount);
}

// Vectors of `kWidth` times as many rows of `kWidth` elements, folded into one element for each row.
template <class Fold, class T, size_t kWidth>
HWY_INLINE WideVec<T> fold_narrow_vectors(const T* p) {
  if constexpr (kWidth == 1) return hn::LoadU(Wide<T>(), p);
  else
    return fold_pairs<Fold, T>(fold_narrow_vectors<Fold, T, kWidth / 2>(p + kWidth / 2 * kLanes<T>),
                               fold_narrow_vectors<Fold, T, kWidth / 2>(p));
}

template <class Fold, class T, size_t kWidth>
HWY_NOINLINE void fold_narrow_dense(const T* p, size_t rows, T* out) {
  const Wide<T> d;
  size_t r = 0;
  for (; r + kLanes<T> <= rows; r += kLanes<T>)
    hn::StoreU(fold_narrow_vectors<Fold, T, kWidth>(p + r * kWidth), d, out + r);
  if (r == rows) return;
  alignas(64) T last[kWidth * kLanes<T>];
  alignas(64) T folded[kLanes<T>];
  std::fill(std::copy(p + r * kWidth, p + rows * kWidth, last), last + kWidth * kLanes<T>, Fold::template kIdentity<T>);
  hn::Store(fold_narrow_vectors<Fold, T, kWidth>(last), d, folded);
  std::copy(folded, folded + (rows - r), out + r);
}

// Folds rows of a power-of-two width that lie one after the other.
template <class Fold, class T>
void fold_narrow_power(const T* p, size_t rows, size_t width, T* out) {
  switch (width) {
    case 1: std::copy(p, p + rows, out); return;
    case 2: return fold_narrow_dense<Fold, T, 2>(p, rows, out);
    case 4: return fold_narrow_dense<Fold, T, 4>(p, rows, out);
    case 8: return fold_narrow_dense<Fold, T, 8>(p, rows, out);
    case 16: return fold_narrow_dense<Fold, T, 16>(p, rows, out);
    default: return fold_narrow_dense<Fold, T, 32>(p, rows, out);
  }
}

// Rows of any width up to kNarrow: others than powers of two are first padded with the identity.
template <class Fold, class T>
void fold_narrow(const T* p, size_t rows, size_t cols, size_t stride, T* out) {
  const size_t width = std::bit_ceil(cols);
  if (width == cols && stride == cols) return fold_narrow_power<Fold, T>(p, rows, cols, out);
  const Wide<T> d;
  constexpr size_t kRoom = 2048;
  alignas(64) T padded[kRoom + kNarrow];
  const WideVec<T> identity = hn::Set(d, Fold::template kIdentity<T>);
  const size_t chunk = kRoom / width;
  const T* end = p + (rows - 1) * stride + cols;
  for (size_t first = 0; first < rows; first += chunk) {
    const size_t n = std::min(chunk, rows - first);
    for (size_t r = 0; r < n; ++r) {
      const T* row = p + (first + r) * stride;
      T* target = padded + r * width;
      // Whole vectors: what is written past a row is overwritten by the next one. The last rows must not be read past
      // their end.
      if (static_cast<size_t>(end - row) >= width + kLanes<T>) {
        for (size_t c = 0; c < width; c += kLanes<T>) {
          const WideVec<T> v = hn::LoadU(d, row + c);
          hn::StoreU(c + kLanes<T> <= cols ? v : hn::IfThenElse(hn::FirstN(d, cols > c ? cols - c : 0), v, identity), d,
                     target + c);
        }
      } else {
        std::fill(std::copy(row, row + cols, target), target + width, Fold::template kIdentity<T>);
      }
    }
    fold_narrow_power<Fold, T>(padded, n, width, out + first);
  }
}

// Folds every column: eight rows at a time, pairwise, so that the running fold is read and written once for eight.
template <class Fold, class T, size_t kRows, class Load>
HWY_INLINE void fold_row_group(const typename Load::Memory* p, size_t stride, size_t cols, T* out, bool fresh) {
  size_t c = 0;
  if constexpr (kHasVector<Fold, T>) {
    const Wide<T> d;
    for (; c + kLanes<T> <= cols; c += kLanes<T>) {
      WideVec<T> v[kRows];
      for (size_t r = 0; r < kRows; ++r) v[r] = Load::load(p + r * stride + c);
      for (size_t n = kRows / 2; n > 0; n /= 2)
        for (size_t r = 0; r < n; ++r) v[r] = Fold::vec(v[2 * r], v[2 * r + 1]);
      if (!fresh) v[0] = Fold::vec(hn::LoadU(d, out + c), v[0]);
      hn::StoreU(v[0], d, out + c);
    }
  }
  for (; c < cols; ++c) {
    T v[kRows];
    for (size_t r = 0; r < kRows; ++r) v[r] = Load::scalar(p[r * stride + c]);
    for (size_t n = kRows / 2; n > 0; n /= 2)
      for (size_t r = 0; r < n; ++r) v[r] = Fold::scalar(v[2 * r], v[2 * r + 1]);
    out[c] = fresh ? v[0] : Fold::scalar(out[c], v[0]);
  }
}

template <class Fold, class T, class Load = PlainLoad<T>>
void fold_columns(const typename Load::Memory* p, size_t rows, size_t stride, size_t cols, T* out) {
  size_t r = 0;
  for (; r + 8 <= rows; r += 8) fold_row_group<Fold, T, 8, Load>(p + r * stride, stride, cols, out, r == 0);
  if (rows & 4) fold_row_group<Fold, T, 4, Load>(p + r * stride, stride, cols, out, r == 0), r += 4;
  if (rows & 2) fold_row_group<Fold, T, 2, Load>(p + r * stride, stride, cols, out, r == 0), r += 2;
  if (rows & 1) fold_row_group<Fold, T, 1, Load>(p + r * stride, stride, cols, out, r == 0);
}

template <class Fold, class T>
void fold_arrays(T* into, const T* from, size_t n) {
  size_t i = 0;
  if constexpr (kHasVector<Fold, T>) {
    const Wide<T> d;
    for (; i + kLanes<T> <= n; i += kLanes<T>)
      hn::StoreU(Fold::vec(hn::LoadU(d, into + i), hn::LoadU(d, from + i)), d, into + i);
  }
  for (; i < n; ++i) into[i] = Fold::scalar(into[i], from[i]);
}

// Gives narrow rows to a kernel of columns: turns chunks of rows and calls `f(turned tile, first row)`.
template <class T, class F>
void with_rows_as_columns(const ReduceTile& tile, const F& f) {
  alignas(64) T turned[kNarrow * kColumnChunk];
  const T* p = static_cast<const T*>(tile.data);
  for (int64_t first = 0; first < tile.rows; first += kColumnChunk) {
    const int64_t n = std::min(kColumnChunk, tile.rows - first);
    for (int64_t r = 0; r < n; ++r) {
      const T* row = p + (first + r) * tile.row_stride;
      for (int64_t c = 0; c < tile.cols; ++c) turned[c * n + r] = row[c];
    }
    f(ReduceTile{turned, tile.cols, n, n, 0, tile.col_step, 0}, first);
  }
}

HWY_INLINE States advanced(const States& s, const uint8_t* bytes, int fields, int64_t n) {
  States result;
  for (int k = 0; k < fields; ++k) result.field[k] = static_cast<char*>(s.field[k]) + n * bytes[k];
  return result;
}

template <class T>
HWY_INLINE T* field(const States& s, int k) {
  return static_cast<T*>(s.field[k]);
}

// The table of a kernel class: its functions, and the sizes of the fields of its state.
template <class Kernel, class... Bytes>
constexpr ReduceKernel kernel_table(Bytes... field_bytes) {
  ReduceKernel k;
  for (const size_t bytes : {field_bytes...}) k.field_bytes[k.fields++] = static_cast<uint8_t>(bytes);
  k.empty = &Kernel::empty;
  k.rows = &Kernel::rows;
  k.columns = &Kernel::columns;
  k.merge = &Kernel::merge;
  if constexpr (requires { &Kernel::finish; }) k.finish = &Kernel::finish;
  return k;
}

template <class T>
inline constexpr CType kCTypeOf = std::is_same_v<T, float>      ? CType::F32
                                  : std::is_same_v<T, double>   ? CType::F64
                                  : std::is_same_v<T, int32_t>  ? CType::I32
                                  : std::is_same_v<T, int64_t>  ? CType::I64
                                  : std::is_same_v<T, uint64_t> ? CType::U64
                                                                : CType::B8;

// The table among those of `Family::Kernel<T>` whose T is the type of `type`; null when none is.
template <class Family, class... Ts>
const ReduceKernel* kernel_among(CType type) {
  static constexpr ReduceKernel kTables[] = {Family::template Kernel<Ts>::kernel()...};
  static constexpr CType kTypes[] = {kCTypeOf<Ts>...};
  for (size_t i = 0; i < sizeof...(Ts); ++i)
    if (kTypes[i] == type) return &kTables[i];
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();
#endif
