// Sorting: keys in the order of a dtype's values, short lines in shared memory, long ones by digits of their keys. Every sort is stable.
// NaN comes last, both zeros are equal (cpu/sort_keys.h).
#pragma once

#include "gpu/kernels/lines.h"

namespace facula {

// ---- keys ---------------------------------------------------------------------------------------------------------------------

template <int kBytes>
struct UnsignedOf {
  using type = uint64_t;
};
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};

// The magnitude of infinity, or of the largest number where there is none; 0 for integers.
FACULA_DEVICE constexpr uint64_t top_magnitude(DType t) {
  return t == DType::Half            ? 0x7c00ull
         : t == DType::BFloat16      ? 0x7f80ull
         : t == DType::Float         ? 0x7f800000ull
         : t == DType::Double        ? 0x7ff0000000000000ull
         : t == DType::Float8_e5m2   ? 0x7cull
         : t == DType::Float8_e4m3fn ? 0x7eull
                                     : 0ull;
}
FACULA_DEVICE constexpr bool has_sign(DType t) {
  return t == DType::Char || t == DType::Short || t == DType::Int || t == DType::Long;
}

template <DType t>
struct SortKey {
  using Bits = typename UnsignedOf<static_cast<int>(sizeof(typename Memory<t>::Bits))>::type;
  // Eight bytes have keys of 64 bits, all others keys of 32.
  using Key = typename UnsignedOf<sizeof(Bits) == 8 ? 8 : 4>::type;
  static constexpr Bits kSign = static_cast<Bits>(Bits(1) << (8 * sizeof(Bits) - 1));
  static constexpr Key kAll = static_cast<Key>(static_cast<Bits>(~Bits(0)));

  static FACULA_DEVICE Key of(Bits bits, bool descending) {
    Key key;
    if constexpr (top_magnitude(t) != 0) {
      const Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
      key = (bits & kSign) != 0 ? static_cast<Bits>(kSign - magnitude) : static_cast<Bits>(kSign | magnitude);
      key = magnitude > static_cast<Bits>(top_magnitude(t)) ? kAll : key;
    } else if constexpr (t == DType::Bool) {
      key = bits != 0;
    } else {
      key = static_cast<Bits>(bits ^ (has_sign(t) ? kSign : Bits(0)));
    }
    return descending ? static_cast<Key>(key ^ kAll) : key;
  }
};

// ---- short lines --------------------------------------------------------------------------------------------------------------

// The order of members is what gpu/primitives/sort.cpp writes.
struct SortArgs {
  Lines lines;             // input, values, indices
  const uint32_t* places;  // of long lines: which entry comes where
  void* keys;
  int64_t first, count;  // of the sorted entries, those that are written
  int64_t first_line;    // long lines: that of the launch
  int32_t length_shift;  // log2 of the room for a line (short lines)
  int32_t room;          // entries of a block (short lines)
  int32_t descending;
};

// A block sorts as many lines as it has room for, by comparing and exchanging.
template <DType t>
FACULA_DEVICE void sort_short(const SortArgs& args) {
  using S = SortKey<t>;
  using Key = typename S::Key;
  FACULA_DYNAMIC_SHARED(Key, keys);
  uint32_t* places = reinterpret_cast<uint32_t*>(keys + args.room);
  const Lines& lines = args.lines;
  const int n = static_cast<int>(lines.n), length = 1 << args.length_shift, per_block = args.room >> args.length_shift;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int64_t first_line = static_cast<int64_t>(blockIdx.x) * per_block;
  FACULA_NO_UNROLL
  for (int i = thread; i < args.room; i += threads) {
    const int64_t number = first_line + (i >> args.length_shift);
    const int at = i & (length - 1);
    Key key = static_cast<Key>(~Key(0));  // what is not there comes last, since its place is beyond all others
    if (number < lines.count && at < n)
      key = S::of(lines.line<typename S::Bits>(0, number)[at * lines.along[0]], args.descending != 0);
    keys[i] = key;
    places[i] = static_cast<uint32_t>(at);
  }
  block_barrier();
  FACULA_NO_UNROLL
  for (int size = 2; size <= length; size *= 2) {
    FACULA_NO_UNROLL
    for (int distance = size / 2; distance > 0; distance /= 2) {
      FACULA_NO_UNROLL
      for (int pair = thread; pair < args.room / 2; pair += threads) {
        const int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
        const bool up = (low & (length - 1) & size) == 0;
        const Key a = keys[low], b = keys[high];
        const uint32_t p = places[low], q = places[high];
        const bool after = a > b || (a == b && p > q);
        if (after == up) {
          keys[low] = b;
          keys[high] = a;
          places[low] = q;
          places[high] = p;
        }
      }
      block_barrier();
    }
  }
  FACULA_NO_UNROLL
  for (int i = thread; i < args.room; i += threads) {
    const int64_t number = first_line + (i >> args.length_shift);
    const int64_t at = (i & (length - 1)) - args.first;
    if (number >= lines.count || at < 0 || at >= args.count) continue;
    const int64_t place = places[i];
    lines.line<typename S::Bits>(1, number)[at * lines.along[1]] =
        lines.line<typename S::Bits>(0, number)[place * lines.along[0]];
    lines.line<int64_t>(2, number)[at * lines.along[2]] = place;
  }
}

// ---- long lines: their keys, and what comes of sorted places -----------------------------------------------------------------------

template <DType t>
FACULA_DEVICE void sort_keys(const SortArgs& args) {
  using S = SortKey<t>;
  const Lines& lines = args.lines;
  const int64_t number = blockIdx.y, line = args.first_line + number;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= lines.n) return;
  static_cast<typename S::Key*>(args.keys)[number * lines.n + i] =
      S::of(lines.line<typename S::Bits>(0, line)[i * lines.along[0]], args.descending != 0);
}
template <int kBytes>
FACULA_DEVICE void sort_results(const SortArgs& args) {
  using Bits = typename UnsignedOf<kBytes>::type;
  const Lines& lines = args.lines;
  const int64_t number = blockIdx.y, line = args.first_line + number;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.count) return;
  const int64_t place = args.places[number * lines.n + args.first + i];
  lines.line<Bits>(1, line)[i * lines.along[1]] = lines.line<Bits>(0, line)[place * lines.along[0]];
  lines.line<int64_t>(2, line)[i * lines.along[2]] = place;
}

// ---- one digit of the keys ----------------------------------------------------------------------------------------------------

inline constexpr int kRadixThreads = 256, kRadixRounds = 16, kRadixGroups = kRadixThreads / kScanLanes;
inline constexpr int kRadixTile = kRadixThreads * kRadixRounds, kDigits = 256;

// The order of members is what gpu/primitives/radix.cpp writes.
struct RadixArgs {
  const void* keys;
  const uint32_t* places;  // null: every key is where it was
  void* sorted_keys;
  uint32_t* sorted_places;
  uint32_t* counts;  // [lines][kDigits][tiles]: of the tiles, then where the tile's keys with a digit begin
  int64_t n;
  int32_t tiles;
  int32_t shift;  // of the digit
};

// Which of the kScanLanes threads of a group say yes.
FACULA_DEVICE uint32_t group_ballot(bool yes) {
#if FACULA_HIP
  return static_cast<uint32_t>(__ballot(yes) >> (lane_index() & ~(kScanLanes - 1)));
#else
  return __ballot_sync(0xffffffffu, yes);
#endif
}
// The threads of a group whose digit is this one's; those without a key are among themselves.
FACULA_DEVICE uint32_t same_digit(uint32_t digit, bool live) {
  uint32_t peers = group_ballot(live);
  if (!live) peers = ~peers;
  FACULA_UNROLL
  for (int bit = 0; bit < 8; ++bit) {
    const bool set = (digit >> bit & 1u) != 0;
    const uint32_t with = group_ballot(set);
    peers &= set ? with : ~with;
  }
  return peers;
}

// Entry of a tile that a thread has in a round: groups take stretches, so that rounds and lanes go in the order of memory.
FACULA_DEVICE int radix_entry(int round) {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / kScanLanes * (kScanLanes * kRadixRounds) + round * kScanLanes + (thread & (kScanLanes - 1));
}

template <class Key>
FACULA_DEVICE uint32_t digit_of(Key key, int shift) {
  return static_cast<uint32_t>(key >> shift) & (kDigits - 1);
}

template <class Key>
FACULA_DEVICE void radix_count(const RadixArgs& args) {
  __shared__ uint32_t counts[kDigits];
  const int thread = static_cast<int>(threadIdx.x);
  counts[thread] = 0;
  block_barrier();
  const int64_t line = blockIdx.y, begin = static_cast<int64_t>(blockIdx.x) * kRadixTile;
  const Key* keys = static_cast<const Key*>(args.keys) + line * args.n;
  FACULA_NO_UNROLL
  for (int round = 0; round < kRadixRounds; ++round) {
    const int64_t i = begin + round * kRadixThreads + thread;
    if (i < args.n) atomicAdd(&counts[digit_of(keys[i], args.shift)], 1u);
  }
  block_barrier();
  args.counts[(line * kDigits + thread) * args.tiles + blockIdx.x] = counts[thread];
}

// One block a line: counts become the numbers of keys that come before.
FACULA_DEVICE void radix_offsets(const RadixArgs& args) {
  __shared__ uint32_t room[32];
  const int64_t total = static_cast<int64_t>(kDigits) * args.tiles;
  uint32_t* counts = args.counts + static_cast<int64_t>(blockIdx.x) * total;
  uint32_t carry = 0;
  constexpr int kEach = 4;
  FACULA_NO_UNROLL
  for (int64_t first = 0; first < total; first += static_cast<int64_t>(blockDim.x) * kEach) {
    const int64_t i = first + static_cast<int64_t>(threadIdx.x) * kEach;
    uint32_t x[kEach], sum = 0;
    FACULA_UNROLL
    for (int e = 0; e < kEach; ++e) {
      x[e] = i + e < total ? counts[i + e] : 0u;
      sum += x[e];
    }
    const BlockPrefix<uint32_t> prefix = block_prefix(sum, 0u, room, AddCounts());
    uint32_t before = carry + prefix.before;
    FACULA_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if (i + e < total) counts[i + e] = before;
      before += x[e];
    }
    carry += prefix.all;
  }
}

template <class Key>
FACULA_DEVICE void radix_place(const RadixArgs& args) {
  __shared__ uint32_t counters[kRadixGroups][kDigits];
  const int thread = static_cast<int>(threadIdx.x), group = thread / kScanLanes, lane = thread & (kScanLanes - 1);
  FACULA_UNROLL
  for (int g = 0; g < kRadixGroups; ++g) counters[g][thread] = 0;
  block_barrier();
  const int64_t line = blockIdx.y, begin = static_cast<int64_t>(blockIdx.x) * kRadixTile;
  const Key* keys = static_cast<const Key*>(args.keys) + line * args.n;
  const uint32_t before_me = (1u << lane) - 1u;
  Key own[kRadixRounds];
  uint32_t ranks[kRadixRounds];  // among the keys of the group with this digit
  FACULA_UNROLL
  for (int round = 0; round < kRadixRounds; ++round) {
    const int64_t i = begin + radix_entry(round);
    own[round] = i < args.n ? keys[i] : Key(0);
  }
  FACULA_UNROLL
  for (int round = 0; round < kRadixRounds; ++round) {
    const bool live = begin + radix_entry(round) < args.n;
    const uint32_t digit = digit_of(own[round], args.shift);
    const uint32_t peers = same_digit(digit, live);
    const int leader = __ffs(static_cast<int>(peers)) - 1;
    uint32_t base = 0;
    if (live && lane == leader) base = atomicAdd(&counters[group][digit], static_cast<uint32_t>(__popc(peers)));
    base = lane_from(base, (lane_index() & ~(kScanLanes - 1)) + leader);
    ranks[round] = base + static_cast<uint32_t>(__popc(peers & before_me));
  }
  block_barrier();
  // Where the keys of each group with a digit begin in the sorted line.
  uint32_t start = args.counts[(line * kDigits + thread) * args.tiles + blockIdx.x];
  FACULA_UNROLL
  for (int g = 0; g < kRadixGroups; ++g) {
    const uint32_t count = counters[g][thread];
    counters[g][thread] = start;
    start += count;
  }
  block_barrier();
  Key* sorted = static_cast<Key*>(args.sorted_keys) + line * args.n;
  uint32_t* places = args.sorted_places + line * args.n;
  FACULA_UNROLL
  for (int round = 0; round < kRadixRounds; ++round) {
    const int64_t i = begin + radix_entry(round);
    if (i >= args.n) continue;
    const int64_t to = counters[group][digit_of(own[round], args.shift)] + ranks[round];
    sorted[to] = own[round];
    places[to] = args.places ? args.places[line * args.n + i] : static_cast<uint32_t>(i);
  }
}

}  // namespace facula
