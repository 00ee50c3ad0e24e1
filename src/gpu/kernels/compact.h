// What follows the true entries of a mask: their number, their positions, and values that are taken from or put to them. The mask is cut
// into tiles; the numbers of true entries in these, added up, tell each tile where its entries begin.
#pragma once

#include "gpu/kernels/lines.h"

namespace facula {

inline constexpr int kCompactThreads = 256, kCompactEach = 16, kCompactTile = kCompactThreads * kCompactEach;

// The order of members is what gpu/primitives/compact.cpp writes.
struct CompactArgs {
  const uint8_t* mask;
  int64_t n;
  int64_t* starts;  // [tiles + 1]: of the tiles, and all
  int64_t tiles;
  const void* from;
  void* to;
  int64_t row_step, column_step;          // of positions
  Divider<int64_t> sizes[kMostLineDims];  // of the mask, from the innermost
  int32_t dims;                           // 0: positions are flat
};

// The mask bytes of a thread, 0 beyond the end.
FACULA_DEVICE void read_mask(const CompactArgs& args, int64_t first, Pack<uint8_t, kCompactEach>& bytes) {
  if (first + kCompactEach <= args.n && (reinterpret_cast<unsigned long long>(args.mask) & 15) == 0) {
    bytes.read(args.mask + first);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < kCompactEach; ++e) bytes.at[e] = first + e < args.n ? args.mask[first + e] : uint8_t(0);
  }
}
FACULA_DEVICE int count_mask(const Pack<uint8_t, kCompactEach>& bytes) {
  int count = 0;
  FACULA_UNROLL
  for (int e = 0; e < kCompactEach; ++e) count += bytes.at[e] != 0 ? 1 : 0;
  return count;
}

FACULA_DEVICE void compact_count(const CompactArgs& args) {
  __shared__ int room[32];
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * kCompactTile + static_cast<int64_t>(threadIdx.x) * kCompactEach;
  Pack<uint8_t, kCompactEach> bytes;
  read_mask(args, first, bytes);
  const BlockPrefix<int> prefix = block_prefix(count_mask(bytes), 0, room, AddCounts());
  if (threadIdx.x == 0) args.starts[blockIdx.x] = prefix.all;
}

// One block: numbers become starts.
FACULA_DEVICE void compact_starts(const CompactArgs& args) {
  __shared__ int64_t room[32];
  int64_t carry = 0;
  FACULA_NO_UNROLL
  for (int64_t first = 0; first < args.tiles; first += static_cast<int64_t>(blockDim.x)) {
    const int64_t i = first + threadIdx.x;
    const int64_t count = i < args.tiles ? args.starts[i] : 0;
    const BlockPrefix<int64_t> prefix = block_prefix(count, int64_t(0), room, AddCounts());
    if (i < args.tiles) args.starts[i] = carry + prefix.before;
    carry += prefix.all;
  }
  if (threadIdx.x == 0) args.starts[args.tiles] = carry;
}

// Calls f(position, rank) for the true entries of this thread.
template <class F>
FACULA_DEVICE void each_true(const CompactArgs& args, F f) {
  __shared__ int room[32];
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * kCompactTile + static_cast<int64_t>(threadIdx.x) * kCompactEach;
  Pack<uint8_t, kCompactEach> bytes;
  read_mask(args, first, bytes);
  int64_t rank = args.starts[blockIdx.x] + block_prefix(count_mask(bytes), 0, room, AddCounts()).before;
  FACULA_UNROLL
  for (int e = 0; e < kCompactEach; ++e)
    if (bytes.at[e] != 0) f(first + e, rank++);
}

FACULA_DEVICE void compact_positions(const CompactArgs& args) {
  int64_t* to = static_cast<int64_t*>(args.to);
  each_true(args, [&](int64_t position, int64_t rank) {
    int64_t* row = to + rank * args.row_step;
    if (args.dims == 0) {
      row[0] = position;
      return;
    }
    FACULA_NO_UNROLL
    for (int d = 0; d < args.dims; ++d) row[(args.dims - 1 - d) * args.column_step] = divide(position, args.sizes[d]);
  });
}
// Values of kBytes bytes from where the mask is true, one after another.
template <int kBytes>
FACULA_DEVICE void compact_select(const CompactArgs& args) {
  using Word = typename WordOf<kBytes>::type;
  each_true(args, [&](int64_t position, int64_t rank) {
    static_cast<Word*>(args.to)[rank] = static_cast<const Word*>(args.from)[position];
  });
}
// The other way.
template <int kBytes>
FACULA_DEVICE void compact_scatter(const CompactArgs& args) {
  using Word = typename WordOf<kBytes>::type;
  each_true(args, [&](int64_t position, int64_t rank) {
    static_cast<Word*>(args.to)[position] = static_cast<const Word*>(args.from)[rank];
  });
}

// ---- runs of equal neighbours among n slices of m entries ----------------------------------------------------------------------------

// The order of members is what gpu/primitives/unique.cpp writes.
struct RunArgs {
  const void* items;
  uint8_t* begins;        // whether a slice is the first of its run
  const int64_t* starts;  // of the runs: the slice that they begin with
  const int64_t* order;   // number that a slice had, or null
  void* values;           // the first slice of each run
  int64_t* counts;        // lengths, or null
  int64_t* inverse;       // the run of each slice, or null
  int64_t n, m, runs;
};

template <DType t>
FACULA_DEVICE bool differ(typename Memory<t>::Bits a, typename Memory<t>::Bits b) {
  const auto x = Memory<t>::load(a), y = Memory<t>::load(b);
  if constexpr (kIsComplex<typename Memory<t>::Compute>) return !(x.re == y.re && x.im == y.im);
  else return !(x == y);
}
template <DType t>
FACULA_DEVICE void run_begins(const RunArgs& args) {
  using Bits = typename Memory<t>::Bits;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.n) return;
  bool begins = i == 0;
  if (i > 0) {
    const Bits* row = static_cast<const Bits*>(args.items) + i * args.m;
    FACULA_NO_UNROLL
    for (int64_t j = 0; j < args.m && !begins; ++j) begins = differ<t>(row[j], row[j - args.m]);
  }
  args.begins[i] = begins ? 1 : 0;
}
// What is known when the runs have been found: entries of values by threads.
template <int kBytes>
FACULA_DEVICE void run_values(const RunArgs& args) {
  using Word = typename WordOf<kBytes>::type;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.runs * args.m) return;
  const int64_t run = i / args.m;
  static_cast<Word*>(args.values)[i] =
      static_cast<const Word*>(args.items)[args.starts[run] * args.m + (i - run * args.m)];
}
FACULA_DEVICE void run_counts(const RunArgs& args) {
  const int64_t run = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (run >= args.runs) return;
  args.counts[run] = (run + 1 < args.runs ? args.starts[run + 1] : args.n) - args.starts[run];
}
// The run that slice i belongs to: the last that begins at it or before.
FACULA_DEVICE void run_inverse(const RunArgs& args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.n) return;
  int64_t low = 0, high = args.runs;
  while (low + 1 < high) {
    const int64_t middle = (low + high) / 2;
    if (args.starts[middle] <= i) low = middle;
    else high = middle;
  }
  args.inverse[args.order ? args.order[i] : i] = low;
}

}  // namespace facula
