// Searching in sorted sequences, and counting: searchsorted, isin, bincount, histc.
#pragma once

#include "gpu/kernels/faults.h"
#include "gpu/kernels/rows.h"

namespace facula {

inline constexpr int kSearchThreads = 256;

// The order of members is what gpu/primitives/search.cpp writes.
struct SearchArgs {
  const void* sequence;   // ascending
  const int64_t* sorter;  // or null: the sequence in its order
  const void* values;
  void* out;
  int64_t n;           // entries of a sequence
  int64_t row;         // values that are looked up in one sequence
  int64_t total;       // values
  FaculaFault* fault;  // where a sorter that points nowhere is reported, and for which op
  int64_t op;
  int32_t right;  // behind equal entries
  int32_t invert;
};

// How many entries come before x; all of them before NaN.
template <DType t, bool kSorter>
FACULA_DEVICE int64_t entries_before(const SearchArgs& args, const typename Memory<t>::Bits* sequence,
                                     const int64_t* sorter, typename Memory<t>::Compute x, bool right) {
  const int64_t n = args.n;
  if (x != x) return n;
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    int64_t at = middle;
    if constexpr (kSorter) {
      at = sorter[middle];
      if (at < 0 || at >= n) {
        facula_report(args.fault, kFaculaIndexOutOfRange, args.op, at, n);
        return 0;
      }
    }
    const auto entry = Memory<t>::load(sequence[at]);
    if (right ? entry <= x : entry < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

template <DType t, class Out, bool kSorter>
FACULA_DEVICE void search_sorted(const SearchArgs& args) {
  using M = Memory<t>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.total) return;
  const int64_t row = i / args.row;
  const auto* sequence = static_cast<const typename M::Bits*>(args.sequence) + row * args.n;
  const int64_t* sorter = kSorter ? args.sorter + row * args.n : nullptr;
  static_cast<Out*>(args.out)[i] = static_cast<Out>(entries_before<t, kSorter>(
      args, sequence, sorter, M::load(static_cast<const typename M::Bits*>(args.values)[i]), args.right != 0));
}

template <DType t>
FACULA_DEVICE void is_in(const SearchArgs& args) {
  using M = Memory<t>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.total) return;
  const auto* sequence = static_cast<const typename M::Bits*>(args.sequence);
  const auto x = M::load(static_cast<const typename M::Bits*>(args.values)[i]);
  const int64_t place = entries_before<t, false>(args, sequence, nullptr, x, false);
  const bool found = place < args.n && M::load(sequence[place]) == x;
  static_cast<uint8_t*>(args.out)[i] = found != (args.invert != 0) ? 1 : 0;
}

// ---- counting -----------------------------------------------------------------------------------------------------------------

// The order of members is what gpu/primitives/search.cpp writes.
struct CountArgs {
  const void* in;
  int64_t n;
  void* out;  // extremes: two values for each block. Counts: one for each bin, 0 at first
  int64_t bins;
  double low, high;
  int32_t in_shared;  // a block counts in shared memory first
};

// The least and the greatest, NaN where there is one.
template <class V>
struct Extremes {
  V least, most;
  FACULA_DEVICE void add(V x) {
    least = x < least || x != x ? x : least;
    most = x > most || x != x ? x : most;
  }
};
struct MergeExtremes {
  static constexpr bool kCommutes = false;
  template <class V>
  FACULA_DEVICE Extremes<V> operator()(Extremes<V> a, const Extremes<V>& b) const {
    a.add(b.least);
    const V most = a.most;
    a.most = b.most > most || b.most != b.most ? b.most : most;
    return a;
  }
};
template <class V, class Load>
FACULA_DEVICE void find_extremes(const CountArgs& args, Load load) {
  __shared__ Extremes<V> room[kMostRowGroups];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const V some = load(0);
  Extremes<V> found{some, some};
  FACULA_NO_UNROLL
  for (int64_t i = first; i < args.n; i += static_cast<int64_t>(gridDim.x) * blockDim.x) found.add(load(i));
  found = team_all(found, static_cast<int>(blockDim.x), room, MergeExtremes());
  if (threadIdx.x == 0) static_cast<Extremes<V>*>(args.out)[blockIdx.x] = found;
}
// Of elements, and then of what the blocks left.
template <DType t, class V>
FACULA_DEVICE void extremes_of(const CountArgs& args) {
  find_extremes<V>(args, [&](int64_t i) {
    return static_cast<V>(Memory<t>::load(static_cast<const typename Memory<t>::Bits*>(args.in)[i]));
  });
}
template <class V>
FACULA_DEVICE void extremes_of_blocks(const CountArgs& args) {
  __shared__ Extremes<V> room[kMostRowGroups];
  const Extremes<V>* parts = static_cast<const Extremes<V>*>(args.in);
  Extremes<V> found = parts[0];
  FACULA_NO_UNROLL
  for (int64_t i = threadIdx.x; i < args.n; i += blockDim.x) found = MergeExtremes()(found, parts[i]);
  found = team_all(found, static_cast<int>(blockDim.x), room, MergeExtremes());
  if (threadIdx.x == 0) static_cast<Extremes<V>*>(args.out)[0] = found;
}

// bin(i): the bin of an element, or -1.
template <class Bin>
FACULA_DEVICE void count_bins(const CountArgs& args, Bin bin) {
  FACULA_DYNAMIC_SHARED(uint32_t, counters);
  unsigned long long* out = static_cast<unsigned long long*>(args.out);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if (args.in_shared == 0) {
    FACULA_NO_UNROLL
    for (int64_t i = first; i < args.n; i += step) {
      const int64_t b = bin(i);
      if (b >= 0) atomicAdd(&out[b], 1ull);
    }
    return;
  }
  const int bins = static_cast<int>(args.bins), threads = static_cast<int>(blockDim.x);
  FACULA_NO_UNROLL
  for (int b = static_cast<int>(threadIdx.x); b < bins; b += threads) counters[b] = 0;
  block_barrier();
  FACULA_NO_UNROLL
  for (int64_t i = first; i < args.n; i += step) {
    const int64_t b = bin(i);
    if (b >= 0) atomicAdd(&counters[b], 1u);
  }
  block_barrier();
  FACULA_NO_UNROLL
  for (int b = static_cast<int>(threadIdx.x); b < bins; b += threads)
    if (counters[b] != 0) atomicAdd(&out[b], static_cast<unsigned long long>(counters[b]));
}
FACULA_DEVICE void count_numbers(const CountArgs& args) {
  count_bins(args, [&](int64_t i) { return static_cast<const int64_t*>(args.in)[i]; });
}
template <DType t>
FACULA_DEVICE void histogram(const CountArgs& args) {
  const double width = args.high - args.low, scale = static_cast<double>(args.bins);
  count_bins(args, [&](int64_t i) {
    const double x = static_cast<double>(Memory<t>::load(static_cast<const typename Memory<t>::Bits*>(args.in)[i]));
    if (!(x >= args.low && x <= args.high)) return int64_t(-1);
    const int64_t b = static_cast<int64_t>((x - args.low) / width * scale);
    return b < args.bins ? b : args.bins - 1;
  });
}

}  // namespace facula
