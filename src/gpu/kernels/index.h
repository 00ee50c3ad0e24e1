// Reading and writing at indices: index, gather and their kin. Every entry of the walk has a place in `other` and one in `self`, which
// index tensors say. Dims are numbered from the innermost, strides are in elements.
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

inline constexpr int kMostIndexDims = 12, kMostIndexTerms = 8;

// A bad index is reported once, and what it would have touched is left alone.
struct IndexFaults {
  FaculaFault* record;
  int64_t op;
  FACULA_DEVICE void report(int64_t index, int64_t size) const {
    // A plain look first: once somebody has reported, millions of others need no atomic.
    if (*static_cast<volatile unsigned int*>(&record->taken) == 0u)
      facula_report(record, kFaculaIndexOutOfRange, op, index, size);
  }
};

// One index tensor: what it says times `stride` is added to the offset in `self`.
struct IndexTerm {
  const int64_t* values;
  int64_t step;  // 0: one value for all entries
  int64_t size;
  int64_t stride;
};

// The order of members is what gpu/primitives/index_walk.h writes.
template <class Index>
struct IndexDims {
  alignas(8) Divider<Index> sizes[kMostIndexDims];
  Index strides[3][kMostIndexDims];  // of self, other, and the index tensors
};
template <class Index>
struct IndexArgs {
  void* self;
  void* other;
  IndexFaults faults;
  const int32_t* winners;  // of the slots: the entry that is written last, where entries may meet; or null
  const uint32_t* slots;   // of the entries
  IndexTerm terms[kMostIndexTerms];
  IndexDims<Index> dims;
  Word16 value;  // what is written everywhere, where other is null
  Index count;
  int32_t dim_count, term_count;
  int32_t wrap;         // negative indices count from the end
  int32_t by_position;  // slots belong to entries of the walk, else to those of the index
};

// Where an entry of the walk stands.
template <class Index>
struct IndexPlace {
  Index self, other, index;
};
// kDims: the number of dims, or kMostIndexDims for any.
template <int kDims, class Index>
FACULA_DEVICE IndexPlace<Index> index_place(const IndexDims<Index>& dims, int count, Index number) {
  IndexPlace<Index> place{0, 0, 0};
  const auto add = [&](int d, Index at) {
    place.self += at * dims.strides[0][d];
    place.other += at * dims.strides[1][d];
    place.index += at * dims.strides[2][d];
  };
  if constexpr (kDims < kMostIndexDims) {
    FACULA_UNROLL
    for (int d = 0; d + 1 < kDims; ++d) add(d, divide(number, dims.sizes[d]));
    add(kDims - 1, number);
  } else {
    FACULA_NO_UNROLL
    for (int d = 0; d < count; ++d) add(d, divide(number, dims.sizes[d]));
  }
  return place;
}

// Adds what the index tensors say to the offset in self; false where an index is out of range.
template <int kTerms, class Args, class Index>
FACULA_DEVICE bool add_terms(const Args& args, IndexPlace<Index>& place) {
  bool good = true;
  const auto add = [&](const IndexTerm& term) {
    const int64_t index = term.values[place.index * term.step];
    const int64_t at = args.wrap != 0 && index < 0 ? index + term.size : index;
    if (at < 0 || at >= term.size) {
      args.faults.report(index, term.size);
      good = false;
    } else {
      place.self += static_cast<Index>(at * term.stride);
    }
  };
  if constexpr (kTerms == 1) {
    add(args.terms[0]);
  } else {
    FACULA_NO_UNROLL
    for (int k = 0; k < args.term_count; ++k) add(args.terms[k]);
  }
  return good;
}

inline constexpr int kIndexThreads = 256, kIndexTogether = 4;

// Moves elements of kBytes bytes from self to other, or (kPut) the other way.
template <int kBytes, class Index, int kDims, int kTerms, bool kPut>
FACULA_DEVICE void index_move(const IndexArgs<Index>& args) {
  using Word = typename WordOf<kBytes>::type;
  const Index first =
      static_cast<Index>(blockIdx.x) * (kIndexThreads * kIndexTogether) + static_cast<Index>(threadIdx.x);
  IndexPlace<Index> places[kIndexTogether];
  bool live[kIndexTogether];
  FACULA_UNROLL
  for (int k = 0; k < kIndexTogether; ++k) {
    const Index number = first + k * kIndexThreads;
    live[k] = number < args.count;
    if (!live[k]) continue;
    places[k] = index_place<kDims>(args.dims, args.dim_count, number);
    live[k] = add_terms<kTerms>(args, places[k]);
    if constexpr (kPut) {
      if (args.winners && live[k]) {
        const Index entry = args.by_position != 0 ? number : places[k].index;
        live[k] = args.winners[args.slots[entry]] == static_cast<int32_t>(entry);
      }
    }
  }
  Word* self = static_cast<Word*>(args.self);
  Word* other = static_cast<Word*>(args.other);
  Word words[kIndexTogether];
  if (kPut && !other) {
    Pack<uint8_t, 16> value;
    value.words[0] = args.value;
    Pack<uint8_t, kBytes> part;
    FACULA_UNROLL
    for (int b = 0; b < kBytes; ++b) part.at[b] = value.at[b];
    FACULA_UNROLL
    for (int k = 0; k < kIndexTogether; ++k)
      if (live[k]) self[places[k].self] = part.words[0];
    return;
  }
  FACULA_UNROLL
  for (int k = 0; k < kIndexTogether; ++k)
    if (live[k]) words[k] = kPut ? other[places[k].other] : self[places[k].self];
  FACULA_UNROLL
  for (int k = 0; k < kIndexTogether; ++k) {
    if (!live[k]) continue;
    if constexpr (kPut) self[places[k].self] = words[k];
    else other[places[k].other] = words[k];
  }
}

// ---- entries that meet --------------------------------------------------------------------------------------------------------

// Where entries write to the same place the last of them wins: each enters its place into a table, by open addressing, and the greatest
// number of those with one place is kept there.
struct ClaimArgs {
  IndexArgs<int64_t> walk;
  unsigned long long* keys;  // filled with ones
  int32_t* winners;          // filled with ones: -1
  uint32_t* slots;
  uint32_t mask;  // of the table's size, a power of two
};
FACULA_DEVICE uint32_t hash_of(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15ull;
  return static_cast<uint32_t>(x >> 32);
}
FACULA_DEVICE void index_claim(const ClaimArgs& args) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= args.walk.count) return;
  auto place = index_place<kMostIndexDims>(args.walk.dims, args.walk.dim_count, number);
  uint32_t slot = 0;
  if (add_terms<kMostIndexTerms>(args.walk, place)) {
    const unsigned long long key = static_cast<unsigned long long>(place.self), empty = ~0ull;
    for (slot = hash_of(key) & args.mask;; slot = (slot + 1) & args.mask) {
      const unsigned long long found = atomicCAS(&args.keys[slot], empty, key);
      if (found == empty || found == key) break;
    }
    atomicMax(&args.winners[slot], static_cast<int32_t>(number));
  }
  args.slots[number] = slot;  // a bad entry has one too: it is not written anyway
}

}  // namespace facula
