// The loops of softmax, log_softmax, layer_norm and rms_norm, compiled once per instruction set. Sums follow reduce_fold-inl.h, whose order
// of additions does not depend on the width of vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/rowwise_ops.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/elementary-inl.h"
#include "cpu/simd/lanes-inl.h"
#include "cpu/simd/reduce_fold-inl.h"
#include "cpu/simd/rowwise_ops.h"

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
HWY_INLINE WideVec<T> log_of(WideVec<T> x) {
  return lanes::m::log(lanes::Lane<T>{x}).v;
}
template <class T>
HWY_INLINE T log_of_one(T x) {
  return hn::GetLane(log_of<T>(hn::Set(Wide<T>(), x)));
}

template <class T>
struct ExpOfDifference {
  WideVec<T> shift;
  HWY_INLINE WideVec<T> operator()(WideVec<T> x) const { return exp_of<T>(hn::Sub(x, shift)); }
};
template <class T>
struct SquareOfDifference {
  WideVec<T> shift;
  HWY_INLINE WideVec<T> operator()(WideVec<T> x) const {
    const WideVec<T> d = hn::Sub(x, shift);
    return hn::Mul(d, d);
  }
};
struct Square {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return hn::Mul(v, v);
  }
};

// out = f(in), whole vectors and then what is left through a buffer.
template <class T, class F>
HWY_INLINE void map_row(const T* in, T* out, size_t n, const F& f) {
  const Wide<T> d;
  size_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) hn::StoreU(f(hn::LoadU(d, in + i)), d, out + i);
  if (i == n) return;
  alignas(64) T rest[kLanes<T>] = {};
  std::copy(in + i, in + n, rest);
  hn::Store(f(hn::Load(d, rest)), d, rest);
  std::copy(rest, rest + (n - i), out + i);
}

// The fold of `vectors` whole vectors, at most kVirtualLanes entries in all; overwrites them. Room up to the next power of two must be there.
template <class Fold, class T>
HWY_INLINE T fold_buffer(T* p, size_t vectors) {
  const Wide<T> d;
  size_t m = std::bit_ceil(vectors);
  for (size_t k = vectors; k < m; ++k) hn::Store(hn::Set(d, Fold::template kIdentity<T>), d, p + k * kLanes<T>);
  for (; m > 1; m /= 2) {
    for (size_t k = 0; k < m / 2; ++k)
      hn::Store(fold_pairs<Fold, T>(hn::Load(d, p + (2 * k + 1) * kLanes<T>), hn::Load(d, p + 2 * k * kLanes<T>)), d,
                p + k * kLanes<T>);
  }
  return fold_lanes<Fold, T>(hn::Load(d, p));
}

// Rows that fit the virtual lanes stay in registers and a small buffer.
template <class T, bool kLog>
HWY_INLINE void short_softmax(const T* in, T* out, size_t n) {
  const Wide<T> d;
  alignas(64) T x[kVirtualLanes<T>];
  alignas(64) T e[kVirtualLanes<T>];
  const size_t vectors = (n + kLanes<T> - 1) / kLanes<T>;
  hn::Store(hn::Set(d, kLowest<T>), d, x + (vectors - 1) * kLanes<T>);
  std::memcpy(x, in, n * sizeof(T));
  WideVec<T> top = hn::Load(d, x);
  for (size_t k = 1; k < vectors; ++k) top = MaxFold::vec(top, hn::Load(d, x + k * kLanes<T>));
  const WideVec<T> shift = hn::Set(d, fold_lanes<MaxFold, T>(top));
  for (size_t k = 0; k < vectors; ++k)
    hn::Store(exp_of<T>(hn::Sub(hn::Load(d, x + k * kLanes<T>), shift)), d, e + k * kLanes<T>);
  if constexpr (!kLog) std::memcpy(x, e, vectors * kLanes<T> * sizeof(T));
  const WideVec<T> sum = hn::Set(d, fold_buffer<AddFold, T>(e, vectors));
  const WideVec<T> log = kLog ? log_of<T>(sum) : sum;
  for (size_t k = 0; k < vectors; ++k) {
    const WideVec<T> v = hn::Load(d, x + k * kLanes<T>);
    hn::Store(kLog ? hn::Sub(hn::Sub(v, shift), log) : hn::Div(v, sum), d, x + k * kLanes<T>);
  }
  std::memcpy(out, x, n * sizeof(T));
}

// out = exp(in - shift) and its sum.
template <class T>
HWY_NOINLINE T exp_row(const T* in, T* out, size_t n, T top) {
  const Wide<T> d;
  constexpr size_t kVectors = kVirtualLanes<T> / kLanes<T>;
  const WideVec<T> shift = hn::Set(d, top);
  alignas(64) T sums[kVirtualLanes<T>] = {};
  size_t i = 0;
  for (; i + kVirtualLanes<T> <= n; i += kVirtualLanes<T>) {
    for (size_t k = 0; k < kVirtualLanes<T>; k += kLanes<T>) {
      const WideVec<T> e = exp_of<T>(hn::Sub(hn::LoadU(d, in + i + k), shift));
      hn::StoreU(e, d, out + i + k);
      hn::Store(hn::Add(hn::Load(d, sums + k), e), d, sums + k);
    }
  }
  size_t k = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>, k += kLanes<T>) {
    const WideVec<T> e = exp_of<T>(hn::Sub(hn::LoadU(d, in + i), shift));
    hn::StoreU(e, d, out + i);
    hn::Store(hn::Add(hn::Load(d, sums + k), e), d, sums + k);
  }
  if (i < n) {
    alignas(64) T rest[kLanes<T>];
    hn::Store(hn::Set(d, in[n - 1]), d, rest);
    std::copy(in + i, in + n, rest);
    const WideVec<T> e = hn::IfThenElseZero(hn::FirstN(d, n - i), exp_of<T>(hn::Sub(hn::Load(d, rest), shift)));
    hn::Store(e, d, rest);
    std::copy(rest, rest + (n - i), out + i);
    hn::Store(hn::Add(hn::Load(d, sums + k), e), d, sums + k);
  }
  return fold_buffer<AddFold, T>(sums, kVectors);
}

template <class T>
void softmax(const void* in_any, void* out_any, int64_t count) {
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  const auto n = static_cast<size_t>(count);
  if (n <= kVirtualLanes<T>) return short_softmax<T, false>(in, out, n);
  const WideVec<T> sum = hn::Set(Wide<T>(), exp_row<T>(in, out, n, fold_row<MaxFold, T>(in, n)));
  map_row<T>(out, out, n, [&](WideVec<T> e) HWY_ATTR { return hn::Div(e, sum); });
}

template <class T>
HWY_INLINE void subtract_both(const T* in, T* out, size_t n, T first, T second) {
  const Wide<T> d;
  const WideVec<T> a = hn::Set(d, first), b = hn::Set(d, second);
  map_row<T>(in, out, n, [&](WideVec<T> x) HWY_ATTR { return hn::Sub(hn::Sub(x, a), b); });
}

template <class T>
void log_softmax(const void* in_any, void* out_any, int64_t count) {
  const T* in = static_cast<const T*>(in_any);
  const auto n = static_cast<size_t>(count);
  if (n <= kVirtualLanes<T>) return short_softmax<T, true>(in, static_cast<T*>(out_any), n);
  const T top = fold_row<MaxFold, T>(in, n);
  const T sum = fold_row<AddFold, T>(in, n, ExpOfDifference<T>{hn::Set(Wide<T>(), top)});
  subtract_both<T>(in, static_cast<T*>(out_any), n, top, log_of_one(sum));
}

// The extremes stand for infinities: -inf and +inf less a finite shift are themselves, so that sums become 0 and inf.
template <class T>
void state_of(const void* in_any, int64_t count, void* state_any) {
  constexpr T kLargest = std::numeric_limits<T>::max();
  const T* in = static_cast<const T*>(in_any);
  T* state = static_cast<T*>(state_any);
  const auto n = static_cast<size_t>(count);
  const T top = fold_row<MaxFold, T>(in, n);
  state[0] = top != top ? T(0) : std::clamp(top, -kLargest, kLargest);
  state[1] = fold_row<AddFold, T>(in, n, ExpOfDifference<T>{hn::Set(Wide<T>(), state[0])});
}

template <class T>
void merge_states(const void* states_any, int64_t count, void* state_any) {
  const T* states = static_cast<const T*>(states_any);
  T* state = static_cast<T*>(state_any);
  const Wide<T> d;
  T top = states[0];
  for (int64_t i = 1; i < count; ++i) top = std::max(top, states[2 * i]);
  T sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += states[2 * i + 1] * hn::GetLane(exp_of<T>(hn::Set(d, states[2 * i] - top)));
  state[0] = top;
  // With +inf among the entries every quotient is NaN, as it is when the largest entry itself is subtracted.
  state[1] = sum > std::numeric_limits<T>::max() ? std::numeric_limits<T>::quiet_NaN() : sum;
}

template <class T>
void finish_softmax(const void* in, void* out, int64_t n, const void* state_any) {
  const Wide<T> d;
  const T* state = static_cast<const T*>(state_any);
  const WideVec<T> shift = hn::Set(d, state[0]), sum = hn::Set(d, state[1]);
  map_row<T>(static_cast<const T*>(in), static_cast<T*>(out), static_cast<size_t>(n),
             [&](WideVec<T> x) HWY_ATTR { return hn::Div(exp_of<T>(hn::Sub(x, shift)), sum); });
}

template <class T>
void finish_log_softmax(const void* in, void* out, int64_t n, const void* state_any) {
  const T* state = static_cast<const T*>(state_any);
  subtract_both<T>(static_cast<const T*>(in), static_cast<T*>(out), static_cast<size_t>(n), state[0],
                   log_of_one(state[1]));
}

// Calls f(in, out, c) for each vector of a row; a row that is no whole number of vectors goes through `room`.
template <class T, class F>
HWY_INLINE void row_of_columns(const T* in, T* out, size_t cols, size_t whole, T* room, const F& f) {
  if (cols == whole) {
    for (size_t c = 0; c < whole; c += kLanes<T>) f(in + c, out + c, c);
    return;
  }
  std::memcpy(room, in, cols * sizeof(T));
  for (size_t c = 0; c < whole; c += kLanes<T>) f(room + c, room + c, c);
  std::memcpy(out, room, cols * sizeof(T));
}

template <class T, bool kLog>
void softmax_columns(const void* in_any, int64_t in_step, void* out_any, int64_t out_step, int64_t count,
                     int64_t all_cols) {
  constexpr size_t kGroup = 32;  // rows that are added up before they join the total: keeps the error small
  const Wide<T> d;
  const auto n = static_cast<size_t>(count), in_stride = static_cast<size_t>(in_step),
             out_stride = static_cast<size_t>(out_step);
  alignas(64) T shift[kColumnChunk], total[kColumnChunk], group[kColumnChunk], room[kColumnChunk];
  std::fill_n(room, kColumnChunk, T(0));
  for (int64_t first = 0; first < all_cols; first += kColumnChunk) {
    const auto cols = static_cast<size_t>(std::min(kColumnChunk, all_cols - first));
    const size_t whole = (cols + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    const T* in = static_cast<const T*>(in_any) + first;
    T* out = static_cast<T*>(out_any) + first;
    std::fill_n(shift, whole, T(0));
    fold_columns<MaxFold, T>(in, n, in_stride, cols, shift);
    std::fill_n(total, whole, T(0));
    for (size_t begin = 0; begin < n; begin += kGroup) {
      std::fill_n(group, whole, T(0));
      for (size_t r = begin; r < std::min(n, begin + kGroup); ++r) {
        T* target = kLog ? room : out + r * out_stride;
        auto add = [&](const T* x, T* y, size_t c) HWY_ATTR {
          const WideVec<T> e = exp_of<T>(hn::Sub(hn::LoadU(d, x), hn::Load(d, shift + c)));
          if constexpr (!kLog) hn::StoreU(e, d, y);
          hn::Store(hn::Add(hn::Load(d, group + c), e), d, group + c);
        };
        if constexpr (kLog) {
          const T* x = in + r * in_stride;
          if (cols != whole) x = static_cast<const T*>(std::memcpy(room, x, cols * sizeof(T)));
          for (size_t c = 0; c < whole; c += kLanes<T>) add(x + c, target, c);
        } else {
          row_of_columns<T>(in + r * in_stride, target, cols, whole, room, add);
        }
      }
      for (size_t c = 0; c < whole; c += kLanes<T>)
        hn::Store(hn::Add(hn::Load(d, total + c), hn::Load(d, group + c)), d, total + c);
    }
    if constexpr (kLog) {
      for (size_t c = 0; c < whole; c += kLanes<T>) hn::Store(log_of<T>(hn::Load(d, total + c)), d, total + c);
    }
    for (size_t r = 0; r < n; ++r) {
      const T* source = kLog ? in + r * in_stride : out + r * out_stride;
      row_of_columns<T>(source, out + r * out_stride, cols, whole, room, [&](const T* x, T* y, size_t c) HWY_ATTR {
        const WideVec<T> v = hn::LoadU(d, x), s = hn::Load(d, total + c);
        hn::StoreU(kLog ? hn::Sub(hn::Sub(v, hn::Load(d, shift + c)), s) : hn::Div(v, s), d, y);
      });
    }
  }
}

// out = (in - mean) * scale * weight + bias. Products and sums are rounded one by one on every machine.
template <class T, bool kShift, bool kWeight, bool kBias>
HWY_INLINE void scale_row(const T* in, T* out, size_t n, T mean, T scale, const T* weight, const T* bias) {
  const Wide<T> d;
  const WideVec<T> m = hn::Set(d, mean), s = hn::Set(d, scale);
  size_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    WideVec<T> v = hn::LoadU(d, in + i);
    if constexpr (kShift) v = hn::Sub(v, m);
    v = hn::Mul(v, s);
    if constexpr (kWeight) v = hn::Mul(v, hn::LoadU(d, weight + i));
    if constexpr (kBias) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, out + i);
  }
  for (; i < n; ++i) {
    T v = in[i];
    if constexpr (kShift) v = v - mean;
    v = v * scale;
    if constexpr (kWeight) v = v * weight[i];
    if constexpr (kBias) v = v + bias[i];
    out[i] = v;
  }
}

// Mean and sum of squared deviations of rows that fit the virtual lanes; the same bits as fold_row gives.
template <class T, bool kShift>
HWY_INLINE T short_moments(const T* in, size_t n, T& mean) {
  const Wide<T> d;
  alignas(64) T x[kVirtualLanes<T>];
  alignas(64) T e[kVirtualLanes<T>];
  const size_t vectors = (n + kLanes<T> - 1) / kLanes<T>, last = (vectors - 1) * kLanes<T>;
  hn::Store(hn::Set(d, AddFold::kIdentity<T>), d, x + last);
  std::memcpy(x, in, n * sizeof(T));
  if constexpr (kShift) {
    for (size_t k = 0; k <= last; k += kLanes<T>) hn::Store(hn::Load(d, x + k), d, e + k);
    mean = fold_buffer<AddFold, T>(e, vectors) / static_cast<T>(n);
  }
  const WideVec<T> m = hn::Set(d, mean);
  for (size_t k = 0; k <= last; k += kLanes<T>) {
    const WideVec<T> v = hn::Sub(hn::Load(d, x + k), m);
    hn::Store(hn::Mul(v, v), d, e + k);
  }
  hn::Store(hn::IfThenElseZero(hn::FirstN(d, n - last), hn::Load(d, e + last)), d, e + last);
  return fold_buffer<AddFold, T>(e, vectors);
}

template <class T, bool kShift>
void normalize(const void* in_any, void* out_any, int64_t count, const void* weight_any, const void* bias_any,
               double eps) {
  const Wide<T> d;
  const T* in = static_cast<const T*>(in_any);
  T* out = static_cast<T*>(out_any);
  const T *weight = static_cast<const T*>(weight_any), *bias = static_cast<const T*>(bias_any);
  const auto n = static_cast<size_t>(count);
  const T length = static_cast<T>(n);
  T mean = 0, squares;
  if (n <= kVirtualLanes<T>) {
    squares = short_moments<T, kShift>(in, n, mean);
  } else if constexpr (kShift) {
    mean = fold_row<AddFold, T>(in, n) / length;
    squares = fold_row<AddFold, T>(in, n, SquareOfDifference<T>{hn::Set(d, mean)});
  } else {
    squares = fold_row<AddFold, T>(in, n, Square());
  }
  const T scale = T(1) / std::sqrt(squares / length + static_cast<T>(eps));
  if (weight && bias) scale_row<T, kShift, true, true>(in, out, n, mean, scale, weight, bias);
  else if (weight) scale_row<T, kShift, true, false>(in, out, n, mean, scale, weight, bias);
  else if (bias) scale_row<T, kShift, false, true>(in, out, n, mean, scale, weight, bias);
  else scale_row<T, kShift, false, false>(in, out, n, mean, scale, weight, bias);
}

template <class T>
constexpr RowOps ops_of() {
  RowOps o;
  o.softmax = &softmax<T>;
  o.log_softmax = &log_softmax<T>;
  o.softmax_columns = &softmax_columns<T, false>;
  o.log_softmax_columns = &softmax_columns<T, true>;
  o.state_of = &state_of<T>;
  o.merge_states = &merge_states<T>;
  o.finish_softmax = &finish_softmax<T>;
  o.finish_log_softmax = &finish_log_softmax<T>;
  o.layer_norm = &normalize<T, true>;
  o.rms_norm = &normalize<T, false>;
  return o;
}

}  // namespace

const RowOps* row_ops_for(CType type) {
  static constexpr RowOps kF32 = ops_of<float>(), kF64 = ops_of<double>();
  return type == CType::F64 ? &kF64 : &kF32;
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

HWY_EXPORT(row_ops_for);
const RowOps& row_ops(CType type) { return *HWY_DYNAMIC_DISPATCH(row_ops_for)(type); }

}  // namespace facula::cpu
#endif
