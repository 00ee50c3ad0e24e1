// Writes at indices that fold what they find: sums, products, extremes. Entries are sorted by the place that they go to, so that one team
// of threads folds all that goes to one place, in the order of the entries: the same result in every run.
#pragma once

#include "gpu/kernels/index.h"

namespace facula {

enum class Combine { Set, Add, Mul, Max, Min };

// Bool: or, and. NaN wins over every number.
template <Combine c, class C>
FACULA_DEVICE C folded(C a, C b) {
  if constexpr (c == Combine::Add) {
    if constexpr (kIsBool<C>) return static_cast<C>(a | b);
    else return expr::op::add::eval(a, b);
  } else if constexpr (c == Combine::Mul) {
    if constexpr (kIsBool<C>) return static_cast<C>(a & b);
    else return expr::op::mul::eval(a, b);
  } else if constexpr (c == Combine::Max) {
    return b > a || b != b ? b : a;
  } else {
    return b < a || b != b ? b : a;
  }
}

// The keys of the entries: their offset in self, as a multiple of `unit`. A bad index gets the key `none`.
struct FoldKeyArgs {
  IndexArgs<int64_t> walk;
  void* keys;
  uint64_t none;
  Divider<int64_t> unit;
};
template <class Key>
FACULA_DEVICE void fold_keys(const FoldKeyArgs& args) {
  const int64_t number = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (number >= args.walk.count) return;
  auto place = index_place<kMostIndexDims>(args.walk.dims, args.walk.dim_count, number);
  const bool good = add_terms<kMostIndexTerms>(args.walk, place);
  static_cast<Key*>(args.keys)[number] =
      static_cast<Key>(good ? static_cast<uint64_t>(args.unit.quotient(place.self)) : args.none);
}

// Entries of one place are folded in pieces of this many; where there are more, the pieces are folded afterwards.
inline constexpr int64_t kFoldPiece = 64;

// The order of members is what gpu/primitives/index_fold.cpp writes.
struct FoldArgs {
  void* self;
  const void* other;  // null: `value`
  const void* keys;
  const uint32_t* places;  // entries in the order of their keys
  void* partials;          // [2 pieces][rest] in the compute type
  uint64_t none, skipped;  // keys whose entries do not count
  int64_t unit;
  int64_t entries;
  int64_t rest;              // elements that belong to an entry, in packs
  IndexDims<int64_t> walk;   // of the entries
  IndexDims<int64_t> inner;  // of the rest
  Word16 value;
  int32_t walk_dims, inner_dims;
  int32_t width_shift;   // log2 of the threads of a team
  int32_t by_frequency;  // what goes to one place is divided by how much it is
};
template <class Key>
FACULA_DEVICE bool is_skipped(const FoldArgs& args, Key key) {
  return static_cast<uint64_t>(key) == args.none || static_cast<uint64_t>(key) == args.skipped;
}
template <class C>
FACULA_DEVICE C divided(C sum, int64_t count) {
  if constexpr (kIsFloat<C>) return sum / static_cast<C>(count);
  else return sum;
}

// Of the entries with one key: the piece that begins at entry i, if one does.
struct FoldPiece {
  int64_t end;
  bool begins, first, last;
};
template <class Key>
FACULA_DEVICE FoldPiece piece_at(const Key* keys, int64_t i, int64_t entries) {
  const Key key = keys[i];
  FoldPiece piece{i, true, i == 0 || keys[i - 1] != key, i + kFoldPiece >= entries || keys[i + kFoldPiece] != key};
  if (!piece.first) {
    piece.begins = false;
    if (i < kFoldPiece || keys[i - kFoldPiece] != key) return piece;
    // The first entry with this key.
    int64_t low = 0, high = i - kFoldPiece;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle] < key) low = middle + 1;
      else high = middle;
    }
    piece.begins = (i - low) % kFoldPiece == 0;
  }
  if (!piece.begins) return piece;
  piece.end = i + kFoldPiece;
  if (piece.last) {
    int64_t low = i + 1, high = piece.end < entries ? piece.end : entries;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (keys[middle] == key) low = middle + 1;
      else high = middle;
    }
    piece.end = low;
  }
  return piece;
}
// Pieces that begin in one stretch of kFoldPiece entries and are folded afterwards: at most one that is not the last of its place.
FACULA_DEVICE int64_t partial_slot(int64_t i, bool last) { return 2 * (i / kFoldPiece) + (last ? 1 : 0); }

template <DType t, int N>
struct FoldMemory {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  static FACULA_DEVICE void read(const Bits* from, C (&values)[N]) {
    Pack<Bits, N> pack;
    pack.read(from);
    unpack<M>(pack, values);
  }
  static FACULA_DEVICE void write(Bits* to, const C (&values)[N]) {
    Pack<Bits, N> pack;
    pack_values<M>(values, pack);
    pack.write(to);
  }
};

// Where a team and its members stand.
struct FoldTeam {
  int64_t entry;
  int member, width;
};
FACULA_DEVICE FoldTeam fold_team(const FoldArgs& args) {
  const int thread = static_cast<int>(threadIdx.x);
  FoldTeam team;
  team.width = 1 << args.width_shift;
  team.member = thread & (team.width - 1);
  team.entry = static_cast<int64_t>(blockIdx.x) * (static_cast<int>(blockDim.x) >> args.width_shift) +
               (thread >> args.width_shift);
  return team;
}

// tOther is the dtype of what is folded in; it has the same compute type.
template <DType t, DType tOther, Combine c, class Key, int N>
FACULA_DEVICE void fold_entries(const FoldArgs& args) {
  using F = FoldMemory<t, N>;
  using O = FoldMemory<tOther, N>;
  using C = typename F::C;
  constexpr int kTogether = 4;
  const FoldTeam team = fold_team(args);
  const int64_t i = team.entry;
  if (i >= args.entries) return;
  const Key* keys = static_cast<const Key*>(args.keys);
  if (is_skipped(args, keys[i])) return;
  const FoldPiece piece = piece_at(keys, i, args.entries);
  if (!piece.begins) return;
  const bool whole = piece.first && piece.last;
  typename F::Bits* self = static_cast<typename F::Bits*>(args.self) + static_cast<int64_t>(keys[i]) * args.unit;
  const typename O::Bits* other = static_cast<const typename O::Bits*>(args.other);
  C constant[N];
  if (!other) {
    Pack<uint8_t, 16> bytes;
    bytes.words[0] = args.value;
    Pack<typename F::Bits, 1> one;
    Pack<uint8_t, static_cast<int>(sizeof(typename F::Bits))> part;
    FACULA_UNROLL
    for (int b = 0; b < static_cast<int>(sizeof(typename F::Bits)); ++b) part.at[b] = bytes.at[b];
    one.words[0] = part.words[0];
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) constant[e] = F::M::load(one.at[0]);
  }
  FACULA_NO_UNROLL
  for (int64_t r = team.member; r < args.rest; r += team.width) {
    const auto inner = index_place<kMostIndexDims>(args.inner, args.inner_dims, r);
    C sum[N];
    if (whole) F::read(self + inner.self * N, sum);
    FACULA_NO_UNROLL
    for (int64_t e = i; e < piece.end; e += kTogether) {
      C x[kTogether][N];
      FACULA_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        if (e + k >= piece.end) continue;
        if (other) {
          const int64_t entry = args.places[e + k];
          const auto place = index_place<kMostIndexDims>(args.walk, args.walk_dims, entry);
          O::read(other + place.other + inner.other * N, x[k]);
        } else {
          FACULA_UNROLL
          for (int v = 0; v < N; ++v) x[k][v] = constant[v];
        }
      }
      FACULA_UNROLL
      for (int k = 0; k < kTogether; ++k) {
        if (e + k >= piece.end) continue;
        const bool begin = !whole && e + k == i;
        FACULA_UNROLL
        for (int v = 0; v < N; ++v) sum[v] = begin ? x[k][v] : folded<c>(sum[v], x[k][v]);
      }
    }
    if (whole) {
      if (args.by_frequency != 0) {
        FACULA_UNROLL
        for (int v = 0; v < N; ++v) sum[v] = divided(sum[v], piece.end - i);
      }
      F::write(self + inner.self * N, sum);
    } else {
      C* partial = static_cast<C*>(args.partials) + (partial_slot(i, piece.last) * args.rest + r) * N;
      FACULA_UNROLL
      for (int v = 0; v < N; ++v) partial[v] = sum[v];
    }
  }
}

// The places that have several pieces.
template <DType t, Combine c, class Key, int N>
FACULA_DEVICE void fold_pieces(const FoldArgs& args) {
  using F = FoldMemory<t, N>;
  using C = typename F::C;
  const FoldTeam team = fold_team(args);
  const int64_t i = team.entry;
  if (i >= args.entries) return;
  const Key* keys = static_cast<const Key*>(args.keys);
  const Key key = keys[i];
  const auto goes_on = [&](int64_t at) { return at + kFoldPiece < args.entries && keys[at + kFoldPiece] == key; };
  if (is_skipped(args, key) || (i > 0 && keys[i - 1] == key) || !goes_on(i)) return;
  typename F::Bits* self = static_cast<typename F::Bits*>(args.self) + static_cast<int64_t>(key) * args.unit;
  FACULA_NO_UNROLL
  for (int64_t r = team.member; r < args.rest; r += team.width) {
    const auto inner = index_place<kMostIndexDims>(args.inner, args.inner_dims, r);
    C sum[N];
    F::read(self + inner.self * N, sum);
    bool more = true;
    int64_t at = i;
    FACULA_NO_UNROLL
    for (; more; at += kFoldPiece) {
      more = goes_on(at);
      const C* partial = static_cast<const C*>(args.partials) + (partial_slot(at, !more) * args.rest + r) * N;
      FACULA_UNROLL
      for (int v = 0; v < N; ++v) sum[v] = folded<c>(sum[v], partial[v]);
    }
    if (args.by_frequency != 0) {
      const int64_t count = piece_at(keys, at - kFoldPiece, args.entries).end - i;
      FACULA_UNROLL
      for (int v = 0; v < N; ++v) sum[v] = divided(sum[v], count);
    }
    F::write(self + inner.self * N, sum);
  }
}

}  // namespace facula
