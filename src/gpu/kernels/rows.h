// Rows of contiguous tensors that a team of threads works on: which part of a row belongs to which thread, and values that the whole
// team agrees on. A team is a power of two of neighbouring threads.
//
// A row is cut at addresses that packs may have, so that rows of any length are read in whole packs: the first and the last pack of a row
// may reach over its ends.
#pragma once

#include "gpu/kernels/memory.h"

namespace facula {

inline constexpr int kRowLanes = 32;  // threads that agree by shuffles, whatever the width of a warp is

// op over the values of a team of `width` threads, the same bits for each of them. All threads of the block take part; `room` has a
// place for every kRowLanes threads. The tree follows from the width alone.
template <class T, class Op>
FACULA_DEVICE T team_all(T value, int width, T* room, Op op) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto merge = [&](int count) {
    FACULA_NO_UNROLL
    for (int distance = 1; distance < count; distance *= 2) {
      const T other = lane_xor(value, distance);
      value = (thread & distance) != 0 ? op(other, value) : op(value, other);
    }
  };
  merge(width < kRowLanes ? width : kRowLanes);
  if (width <= kRowLanes) return value;
  const int groups = width / kRowLanes, first = (thread & ~(width - 1)) / kRowLanes;
  block_barrier();  // what an earlier call left has been read
  if ((thread & (kRowLanes - 1)) == 0) room[thread / kRowLanes] = value;
  block_barrier();
  value = room[first + (thread & (groups - 1))];
  merge(groups);
  return value;
}

// Two sums at once.
template <class C>
struct Two {
  C a, b;
};

struct AddValues {
  template <class C>
  FACULA_DEVICE C operator()(C a, C b) const {
    return a + b;
  }
  template <class C>
  FACULA_DEVICE Two<C> operator()(Two<C> x, Two<C> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};
struct LargerValue {
  template <class C>
  FACULA_DEVICE C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

// Places of `room` that a block of any size needs.
inline constexpr int kMostRowGroups = 1024 / kRowLanes;

template <class C>
FACULA_DEVICE C lowest_value() {
  return -expr::m::infinity(C(0));
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
  template <int N>
  FACULA_DEVICE void add(const C (&x)[N]) {
    C most = top;
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) most = x[e] > most ? x[e] : most;
    const C before = top;
    top = most;
    const C now = base();
    if (most > before) sum = sum * expr::m::exp(before - now);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum += expr::m::exp(x[e] - now);
  }
};
struct MergeExpStates {
  template <class C>
  FACULA_DEVICE ExpState<C> operator()(const ExpState<C>& a, const ExpState<C>& b) const {
    ExpState<C> all;
    all.top = b.top > a.top ? b.top : a.top;
    const C base = all.base();
    all.sum = a.sum * expr::m::exp(a.top - base) + b.sum * expr::m::exp(b.top - base);
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

}  // namespace facula
