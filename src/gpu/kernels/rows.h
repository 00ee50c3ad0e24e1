// Rows of contiguous tensors that a team of threads works on: which part of a row belongs to which thread, and values that the whole
// team agrees on. A team is a power of two of neighbouring threads.
//
// A row is cut at addresses that packs may have, so that rows of any length are read in whole packs: the first and the last pack of a row
// may reach over its ends.
#pragma once

#include "gpu/kernels/memory.h"

namespace facula {

inline constexpr int kRowLanes = 32;  // threads that agree by shuffles, whatever the width of a warp is

// op over the values of the first `count` threads of each kRowLanes, the same bits for each of them.
template <class T, class Op>
FACULA_DEVICE T lanes_all(T value, int count, Op op) {
  const auto join = [&](int distance) {
    const T other = lane_xor(value, distance);
    if constexpr (Op::kCommutes) value = op(value, other);
    else value = (static_cast<int>(threadIdx.x) & distance) != 0 ? op(other, value) : op(value, other);
  };
  if (count == kRowLanes) {
    FACULA_UNROLL
    for (int distance = 1; distance < kRowLanes; distance *= 2) join(distance);
  } else {
    FACULA_NO_UNROLL
    for (int distance = 1; distance < count; distance *= 2) join(distance);
  }
  return value;
}

// op over the values of a team of `width` threads, the same bits for each of them. All threads of the block take part; `room` has a
// place for every kRowLanes threads. The tree follows from the width alone. kFresh: nobody has used the room before.
template <bool kFresh = false, class T, class Op>
FACULA_DEVICE T team_all(T value, int width, T* room, Op op) {
  const int thread = static_cast<int>(threadIdx.x);
  value = lanes_all(value, width < kRowLanes ? width : kRowLanes, op);
  if (width <= kRowLanes) return value;
  const int groups = width / kRowLanes, first = (thread & ~(width - 1)) / kRowLanes;
  if constexpr (!kFresh) block_barrier();  // what an earlier call left has been read
  if ((thread & (kRowLanes - 1)) == 0) room[thread / kRowLanes] = value;
  block_barrier();
  return lanes_all(room[first + (thread & (groups - 1))], groups, op);
}

// Two sums at once.
template <class C>
struct Two {
  C a, b;
};

struct AddValues {
  static constexpr bool kCommutes = true;
  template <class C>
  FACULA_DEVICE C operator()(C a, C b) const {
    return a + b;
  }
  template <class C>
  FACULA_DEVICE Two<C> operator()(Two<C> x, Two<C> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};
// The larger of two, the other one of NaN.
FACULA_DEVICE float larger(float a, float b) { return ::fmaxf(a, b); }
FACULA_DEVICE double larger(double a, double b) { return ::fmax(a, b); }
struct LargerValue {
  static constexpr bool kCommutes = true;
  template <class C>
  FACULA_DEVICE C operator()(C a, C b) const {
    return larger(a, b);
  }
};

// Places of `room` that a block of any size needs.
inline constexpr int kMostRowGroups = 1024 / kRowLanes;

template <class C>
FACULA_DEVICE C lowest_value() {
  return -expr::m::infinity(C(0));
}

// The exponential in rows whose results are rounded to 16 bits may be the short one; what would be subnormal is 0 there.
template <class C>
FACULA_DEVICE C row_exp(C x) {
#if defined(FACULA_NARROW_RESULTS)
  if constexpr (kSame<C, float>) return short_exp2(x * 1.44269504f);
#endif
  return expr::m::exp(x);
}

// The largest value so far, and the sum of exponentials relative to it.
template <class C>
struct ExpState {
  C top, sum;
  FACULA_DEVICE void reset() {
    top = lowest_value<C>();
    sum = C(0);
  }
  // What values are taken relative to: never infinite downward, so that a row of nothing but -inf so far adds zeros.
  FACULA_DEVICE C base() const { return top == lowest_value<C>() ? C(0) : top; }
  // Takes `most`, the largest of what is added next; returns what that is taken relative to.
  FACULA_DEVICE C rise(C most) {
    const C before = top;
    top = larger(top, most);
    const C now = base();
    if (top > before) sum = sum * row_exp(before - now);
    return now;
  }
  template <int N>
  FACULA_DEVICE void add(const C (&x)[N]) {
    C most = x[0];
    FACULA_UNROLL
    for (int e = 1; e < N; ++e) most = larger(most, x[e]);
    const C now = rise(most);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum += row_exp(x[e] - now);
  }
};
struct MergeExpStates {
  static constexpr bool kCommutes = true;
  template <class C>
  FACULA_DEVICE ExpState<C> operator()(const ExpState<C>& a, const ExpState<C>& b) const {
    ExpState<C> all;
    all.top = larger(a.top, b.top);
    const C base = all.base();
    all.sum = a.sum * row_exp(a.top - base) + b.sum * row_exp(b.top - base);
    return all;
  }
};

// Where a thread stands in its row.
struct RowPlace {
  int64_t row;
  int width;   // threads of a team
  int member;  // number in the team
  bool live;   // there is such a row
};
FACULA_DEVICE RowPlace row_place(int64_t rows, int width_shift) {
  RowPlace place;
  const int thread = static_cast<int>(threadIdx.x);
  place.width = 1 << width_shift;
  place.member = thread & (place.width - 1);
  place.row =
      static_cast<int64_t>(blockIdx.x) * (static_cast<int>(blockDim.x) >> width_shift) + (thread >> width_shift);
  place.live = place.row < rows;
  return place;
}

// Elements from an address that packs may have to that of a row.
template <int N, class Bits>
FACULA_DEVICE int elements_before(const Bits* row) {
  if constexpr (N == 1) return 0;
  return static_cast<int>((reinterpret_cast<unsigned long long>(row) / sizeof(Bits)) & (N - 1));
}

// Whether an element lies in a row of n.
template <class Index>
FACULA_DEVICE bool is_part(Index at, Index n) {
  return at >= 0 && at < n;
}

// N elements of a row from `at` on as values; those outside of [0, n) become `fill`.
template <class M, int N, class Index>
FACULA_DEVICE void read_part(const typename M::Bits* row, Index at, Index n, typename M::Compute fill,
                             typename M::Compute (&values)[N]) {
  if (at >= 0 && at + N <= n) {
    Pack<typename M::Bits, N> pack;
    pack.read(row + at);
    unpack<M>(pack, values);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) values[e] = is_part(at + e, n) ? M::load(row[at + e]) : fill;
  }
}
// The same without a change of what memory holds.
template <class M, int N, class Index>
FACULA_DEVICE void read_bits(const typename M::Bits* row, Index at, Index n, typename M::Bits fill,
                             Pack<typename M::Bits, N>& pack) {
  if (at >= 0 && at + N <= n) {
    pack.read(row + at);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) pack.at[e] = is_part(at + e, n) ? row[at + e] : fill;
  }
}
// K packs from at(0), at(1), ... on as values: all are on their way before the first is looked at.
template <class M, int N, int K, class At>
FACULA_DEVICE void read_row(const typename M::Bits* row, At at, int n, typename M::Compute fill,
                            typename M::Compute (&values)[K][N]) {
  Pack<typename M::Bits, N> packs[K];
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) read_bits<M>(row, at(k), n, M::store(fill), packs[k]);
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) unpack<M>(packs[k], values[k]);
}
// Writes those of N values that lie in the row.
template <class M, int N, class Index, class S>
FACULA_DEVICE void write_part(typename M::Bits* row, Index at, Index n, const S (&values)[N]) {
  if (at >= 0 && at + N <= n) {
    Pack<typename M::Bits, N> pack;
    pack_values<M>(values, pack);
    pack.write(row + at);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e)
      if (is_part(at + e, n)) row[at + e] = M::store(values[e]);
  }
}

// ---- rows that a block walks twice --------------------------------------------------------------------------------------------
// What the first walk reads may be kept in shared memory for the second one: each thread finds there what it put there itself.

inline constexpr int kWalkTogether = 4;  // packs of a thread that are on their way at once

// The state of exponentials of this thread's share of [0, n); also(at, x) sees the values of each pack. `kept` has a place for every
// pack of the row, and for those of a last round that is not full.
template <class M, int N, bool kKeep, class F>
FACULA_DEVICE ExpState<typename M::Compute> walk_first(const typename M::Bits* from, int64_t n,
                                                       Pack<typename M::Bits, N>* kept, F also) {
  using C = typename M::Compute;
  ExpState<C> state;
  state.reset();
  const int threads = static_cast<int>(blockDim.x);
  const int64_t step = static_cast<int64_t>(threads) * N;
  int place = static_cast<int>(threadIdx.x);
  FACULA_NO_UNROLL
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * N - elements_before<N>(from); at < n;
       at += kWalkTogether * step, place += kWalkTogether * threads) {
    Pack<typename M::Bits, N> packs[kWalkTogether];
    FACULA_UNROLL
    for (int k = 0; k < kWalkTogether; ++k) read_bits<M>(from, at + k * step, n, M::store(lowest_value<C>()), packs[k]);
    C most = lowest_value<C>();
    FACULA_UNROLL
    for (int k = 0; k < kWalkTogether; ++k) {
      if constexpr (kKeep) {
        if (at + k * step < n) kept[place + k * threads] = packs[k];
      }
      C x[N];
      unpack<M>(packs[k], x);
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) most = larger(most, x[e]);
    }
    const C now = state.rise(most);
    FACULA_UNROLL
    for (int k = 0; k < kWalkTogether; ++k) {
      C x[N];
      unpack<M>(packs[k], x);
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) state.sum += row_exp(x[e] - now);
      also(at + k * step, x);
    }
  }
  return state;
}
// f(at, x) for each pack again.
template <class M, int N, bool kKeep, class F>
FACULA_DEVICE void walk_second(const typename M::Bits* from, int64_t n, const Pack<typename M::Bits, N>* kept, F f) {
  using C = typename M::Compute;
  const int threads = static_cast<int>(blockDim.x);
  const int64_t step = static_cast<int64_t>(threads) * N;
  int place = static_cast<int>(threadIdx.x);
  FACULA_NO_UNROLL
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * N - elements_before<N>(from); at < n;
       at += step, place += threads) {
    Pack<typename M::Bits, N> pack;
    if constexpr (kKeep) pack = kept[place];
    else read_bits<M>(from, at, n, M::store(C(0)), pack);
    C x[N];
    unpack<M>(pack, x);
    f(at, x);
  }
}

}  // namespace facula
