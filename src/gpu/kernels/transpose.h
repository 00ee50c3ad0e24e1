// Programs with loads whose neighbours lie along another dim than those of the stores. A block takes a tile of kRows elements of dim 0
// (where stores run) by kColumns of dim 1 (where turned loads run), brings the turned loads into shared memory along dim 1 and
// computes along dim 0, so that all of memory is read and written in whole lines.
//
//   struct L {
//     static constexpr int kDims = 2, kVector = 4, kTurnedVector = 4;   // packs along dim 0, along dim 1
//     static constexpr int kRows = 64, kColumns = 64, kThreads = 256;
//     static constexpr bool kSwizzled = true;
//     using Index = int32_t;
//     static constexpr Access kAccess[] = {Access::Turned, Access::Next};
//   };
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

// The order of members is what gpu/program/program_pointwise.cpp writes.
template <class P, class L>
struct TransposeArgs {
  void* data[P::kLoads + P::kStores];
  Faults faults;
  typename L::Index size0, size1;
  // Tiles along dims 0 and 1, sizes of dims 2, 3, ... but not of the last.
  alignas(8) Divider<typename L::Index> tiles[L::kDims > 2 ? L::kDims - 1 : 2];
  typename L::Index strides[P::kLoads + P::kStores][L::kDims];
  alignas(8) typename P::Params params;
};

// Where element (row, column) of a load lies in its piece of shared memory, in bytes. Swizzled, units of 16 bytes of a row change
// places by the number of the row's pack: packs are written whole, and neither way meets a bank twice. Otherwise rows are one
// word longer than they need to be.
template <class L, int kBytes>
struct TileOf {
  static constexpr int kRowBytes = L::kColumns * kBytes + (L::kSwizzled ? 0 : kBytes < 4 ? 4 : kBytes);
  static constexpr int kTileBytes = (L::kRows * kRowBytes + 15) / 16 * 16;
  static_assert(!L::kSwizzled || L::kColumns * kBytes >= 128, "a row must have eight units");

  static FACULA_DEVICE int place(int row, int column) {
    if constexpr (L::kSwizzled) {
      // Unsigned, so that divisions are shifts.
      const uint32_t byte = static_cast<uint32_t>(column * kBytes), pack = static_cast<uint32_t>(row) / L::kVector;
      return row * kRowBytes + static_cast<int>(((byte / 16) ^ (pack & 7)) * 16 + byte % 16);
    } else {
      return row * kRowBytes + column * kBytes;
    }
  }
};
template <class P, class L, int k>
using LoadTile = TileOf<L, static_cast<int>(sizeof(typename LoadMemory<P, k>::type::Bits))>;

// Bytes of the turned loads before load k.
template <class P, class L, int k>
FACULA_DEVICE constexpr int tile_begin() {
  if constexpr (k == 0) return 0;
  else return tile_begin<P, L, k - 1>() + (L::kAccess[k - 1] == Access::Turned ? LoadTile<P, L, k - 1>::kTileBytes : 0);
}

template <class P, class L>
struct Transpose {
  using Index = typename L::Index;
  static constexpr int N = L::kVector, V = L::kTurnedVector;
  using E = Elements<P, L, N>;

  const TransposeArgs<P, L>& args;
  char* shared;
  Index at[L::kDims];  // of the tile's first element
  int rows, columns;   // of the tile that exist

  template <int a>
  FACULA_DEVICE Index begin() const {
    Index sum = 0;
    FACULA_UNROLL
    for (int d = 0; d < L::kDims; ++d) sum += at[d] * args.strides[a][d];
    return sum;
  }

  // Elements of load k from memory into its tile, V neighbours along dim 1 at a time.
  template <int k>
  FACULA_DEVICE void bring() const {
    using Bits = typename LoadMemory<P, k>::type::Bits;
    using Tile = LoadTile<P, L, k>;
    constexpr int kAcross = L::kColumns / V, kPacks = L::kRows * kAcross, kSteps = kPacks / L::kThreads;
    constexpr int kBatch = kSteps < 8 ? kSteps : 8;
    static_assert(kPacks % L::kThreads == 0 && kSteps % kBatch == 0, "threads share a tile evenly");
    const Bits* from = static_cast<const Bits*>(args.data[k]) + begin<k>();
    const Index stride = args.strides[k][0];
    char* tile = shared + tile_begin<P, L, k>();
    auto row_of = [](int step) { return static_cast<int>((threadIdx.x + step * L::kThreads) / kAcross); };
    auto column_of = [](int step) { return static_cast<int>((threadIdx.x + step * L::kThreads) % kAcross) * V; };
    FACULA_NO_UNROLL
    for (int step = 0; step < kSteps; step += kBatch) {
      Pack<Bits, V> packs[kBatch];
      FACULA_UNROLL
      for (int s = 0; s < kBatch; ++s) {
        const int row = row_of(step + s), column = column_of(step + s);
        if (row < rows && column < columns) packs[s].read(from + row * stride + column);
      }
      FACULA_UNROLL
      for (int s = 0; s < kBatch; ++s) {
        const int row = row_of(step + s), column = column_of(step + s);
        if (row >= rows || column >= columns) continue;
        if constexpr (L::kSwizzled) {
          packs[s].write(reinterpret_cast<Bits*>(tile + Tile::place(row, column)));
        } else {
          FACULA_UNROLL
          for (int e = 0; e < V; ++e) *reinterpret_cast<Bits*>(tile + Tile::place(row, column + e)) = packs[s].at[e];
        }
      }
    }
  }

  // N elements along dim 0 of load k.
  template <int k>
  FACULA_DEVICE void read(typename E::LoadPacks& packs, int row, int column) const {
    using Bits = typename LoadMemory<P, k>::type::Bits;
    if constexpr (L::kAccess[k] == Access::Turned) {
      auto& pack = packs.template get<k>();
      const char* tile = shared + tile_begin<P, L, k>();
      FACULA_UNROLL
      for (int e = 0; e < N; ++e)
        pack.at[e] = *reinterpret_cast<const Bits*>(tile + LoadTile<P, L, k>::place(row + e, column));
    } else {
      const Index stride0 = args.strides[k][0];
      E::template read<k>(
          packs, static_cast<const Bits*>(args.data[k]) + begin<k>() + row * stride0 + column * args.strides[k][1],
          stride0);
    }
  }

  FACULA_DEVICE void compute_and_store(const typename E::LoadPacks& packs, int row, int column) const {
    typename E::StoreValues results;
    E::compute(packs, args.params, args.faults, results);
    for_each_index<P::kStores>([&](auto index) {
      constexpr int k = decltype(index)::value, a = P::kLoads + k;
      using Bits = typename StoreMemory<P, k>::type::Bits;
      const Index stride0 = args.strides[a][0];
      E::template write<k>(results,
                           static_cast<Bits*>(args.data[a]) + begin<a>() + row * stride0 + column * args.strides[a][1],
                           stride0);
    });
  }

  FACULA_DEVICE void run() {
    Index rest = static_cast<Index>(blockIdx.x);
    at[0] = divide(rest, args.tiles[0]) * L::kRows;
    at[1] = divide(rest, args.tiles[1]) * L::kColumns;
    FACULA_UNROLL
    for (int d = 2; d + 1 < L::kDims; ++d) at[d] = divide(rest, args.tiles[d]);
    if constexpr (L::kDims > 2) at[L::kDims - 1] = rest;
    rows = args.size0 - at[0] < L::kRows ? static_cast<int>(args.size0 - at[0]) : L::kRows;
    columns = args.size1 - at[1] < L::kColumns ? static_cast<int>(args.size1 - at[1]) : L::kColumns;

    for_each_index<P::kLoads>([&](auto index) {
      if constexpr (L::kAccess[decltype(index)::value] == Access::Turned) bring<decltype(index)::value>();
    });
    block_barrier();

    // Eight threads side by side write a line of 128 bytes where packs are of 16.
    constexpr int kPacks = L::kRows / N, kSide = L::kSwizzled ? 8 : kPacks < 32 ? kPacks : 32;
    constexpr int kSteps = kPacks * L::kColumns / L::kThreads, kBatch = kSteps * N <= 16 ? kSteps : 16 / N;
    static_assert(kSteps % kBatch == 0, "threads share a tile evenly");
    // Neighbouring slots are neighbouring columns, which lie in different banks.
    const uint32_t side = threadIdx.x % kSide, first = threadIdx.x / kSide;
    auto slot_of = [&](int step) { return first + step * (L::kThreads / kSide); };
    auto row_of = [&](int step) { return static_cast<int>((side + slot_of(step) / L::kColumns * kSide) * N); };
    auto column_of = [&](int step) { return static_cast<int>(slot_of(step) % L::kColumns); };
    FACULA_NO_UNROLL
    for (int step = 0; step < kSteps; step += kBatch) {
      typename E::LoadPacks packs[kBatch];
      FACULA_UNROLL
      for (int s = 0; s < kBatch; ++s) {
        const int row = row_of(step + s), column = column_of(step + s);
        if (row < rows && column < columns)
          for_each_index<P::kLoads>([&](auto index) { read<decltype(index)::value>(packs[s], row, column); });
      }
      FACULA_UNROLL
      for (int s = 0; s < kBatch; ++s) {
        const int row = row_of(step + s), column = column_of(step + s);
        if (row < rows && column < columns) compute_and_store(packs[s], row, column);
      }
    }
  }
};

template <class P, class L>
FACULA_DEVICE void transpose(const TransposeArgs<P, L>& args) {
  FACULA_DYNAMIC_SHARED(char, shared);
  Transpose<P, L> t{args, shared, {}, 0, 0};
  t.run();
}

}  // namespace facula
