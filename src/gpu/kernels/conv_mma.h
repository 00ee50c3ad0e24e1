// Convolutions of 16-bit floats on tensor cores, for tensors whose channels lie side by side. Tiles are gathered by
// copies that run beside the arithmetic, 16 bytes at a time where channels allow it.
#pragma once

#include "gpu/kernels/conv.h"
#include "gpu/kernels/tensor_core.h"

#if FACULA_TENSOR_CORES || FACULA_IMITATED_CORES

namespace facula {
namespace conv_kernels {

inline constexpr int kStages = 3, kCoreDepth = 32, kChunk = 8;

template <class E>
struct Cores;
template <>
struct Cores<matmul_kernels::Half> {
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    tensor_core::multiply_add_half(sum, a, b0, b1);
  }
};
template <>
struct Cores<matmul_kernels::BFloat16> {
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    tensor_core::multiply_add_bfloat16(sum, a, b0, b1);
  }
};

// A tile of kRows by 32 elements of depth. It lies as it is gathered: [row][depth], or along rows [depth][row], in
// chunks of 16 bytes whose order within a row is mixed so that eight threads that read down a column of chunks meet no
// bank twice.
template <class E, class Source, int kRows, bool kAlongRows>
struct CoreGather {
  using In = typename E::In;
  static constexpr int kBytes = kRows * 64, kPieces = kBytes / 16 / kThreads;
  static constexpr int kChunks = kAlongRows ? kRows / kChunk : kCoreDepth / kChunk;  // side by side
  static_assert(kPieces > 0 && kThreads % kChunks == 0, "a thread stays in its column of chunks");

  typename Source::Row rows[kAlongRows ? 1 : kPieces];

  static FACULA_DEVICE int by_depth(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }
  static FACULA_DEVICE int by_rows(int depth, int chunk) { return depth * kRows * 2 + ((chunk ^ (depth & 7)) << 4); }
  static FACULA_DEVICE int my_chunk() { return (int)threadIdx.x % kChunks; }
  static FACULA_DEVICE int my_line(int piece) { return ((int)threadIdx.x + piece * kThreads) / kChunks; }

  FACULA_DEVICE void begin(const Source& source, int row0) {
    if constexpr (kAlongRows) {
      rows[0] = source.row(row0 + my_chunk() * kChunk);
    } else {
      FACULA_UNROLL
      for (int p = 0; p < kPieces; ++p) rows[p] = source.row(row0 + my_line(p));
    }
  }

  // `wide`: a chunk lies in one piece of memory, 16 bytes from a multiple of 16 on, and is there as a whole or not at
  // all.
  FACULA_DEVICE void fetch(const Source& source, bool wide, int row0, int depth0, int end, char* tile) const {
    if (wide) {
      FACULA_UNROLL
      for (int p = 0; p < kPieces; ++p) {
        const In* from;
        if constexpr (kAlongRows) from = source.at(rows[0], source.depth(depth0 + my_line(p), end));
        else from = source.at(rows[p], source.depth(depth0 + my_chunk() * kChunk, end));
        tensor_core::copy_async(place(tile, p), from ? from : source.data, from ? 16 : 0);
      }
      return;
    }
    FACULA_NO_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      Pack<In, kChunk> piece;
      if constexpr (kAlongRows) {
        const typename Source::Depth depth = source.depth(depth0 + my_line(p), end);
        FACULA_UNROLL
        for (int i = 0; i < kChunk; ++i) {
          const In* from = source.at(source.row(row0 + my_chunk() * kChunk + i), depth);
          piece.x[i] = In{};
          if (from) piece.x[i] = *from;
        }
      } else {
        const typename Source::Row row = source.row(row0 + my_line(p));
        FACULA_UNROLL
        for (int i = 0; i < kChunk; ++i) {
          const In* from = source.at(row, source.depth(depth0 + my_chunk() * kChunk + i, end));
          piece.x[i] = In{};
          if (from) piece.x[i] = *from;
        }
      }
      *reinterpret_cast<Pack<In, kChunk>*>(place(tile, p)) = piece;
    }
  }
  static FACULA_DEVICE char* place(char* tile, int piece) {
    const int line = my_line(piece);
    return tile + (kAlongRows ? by_rows(line, my_chunk()) : by_depth(line, my_chunk()));
  }

  // Four blocks of 8 rows by 8 elements of depth, as two by two: rows from `row`, depth from 16 * step on. `rows_first`
  // says whether the second block lies below the first or beside it.
  static FACULA_DEVICE void load(unsigned (&words)[4], const char* tile, int row, int step, bool rows_first) {
    const int lane = (int)threadIdx.x % 32, block = lane / 8, within = lane % 8;
    const int block_row = rows_first ? block & 1 : block >> 1, block_depth = rows_first ? block >> 1 : block & 1;
    if constexpr (kAlongRows)
      tensor_core::load_blocks_turned(
          words, tile + by_rows(step * 16 + block_depth * 8 + within, (row + block_row * 8) / kChunk));
    else tensor_core::load_blocks(words, tile + by_depth(row + block_row * 8 + within, step * 2 + block_depth));
  }
};

template <int kTile>
inline constexpr int kCoreBytes = kStages * 2 * kTile * 64;

// One tile of the product of `a` and `b` over depth [first, end), which begins at a multiple of 8; each of eight warps
// has a half of the rows and a quarter of the columns. `put` as in plain_tile.
template <class E, int kTile, bool kAlongRows, class A, class B, class Put>
FACULA_DEVICE void core_tile(const A& a, const B& b, bool wide_a, bool wide_b, int row0, int col0, int first, int end,
                             void* shared_room, const Put& put) {
  using TileA = CoreGather<E, A, kTile, kAlongRows>;
  using TileB = CoreGather<E, B, kTile, kAlongRows>;
  constexpr int kBlocksM = kTile / 2 / 16, kBlocksN = kTile / 4 / 8;
  char* shared = static_cast<char*>(shared_room);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int warp_row = warp / 4 * (kTile / 2), warp_col = warp % 4 * (kTile / 4);
  TileA from_a;
  TileB from_b;
  from_a.begin(a, row0);
  from_b.begin(b, col0);
  auto fetch = [&](int depth, int stage) {
    char* to = shared + stage * 2 * TileA::kBytes;
    if (depth < end) {
      from_a.fetch(a, wide_a, row0, depth, end, to);
      from_b.fetch(b, wide_b, col0, depth, end, to + TileA::kBytes);
    }
    tensor_core::commit_copies();  // an empty group too: groups are counted
  };

  float sum[kBlocksM][kBlocksN][4];
  FACULA_UNROLL
  for (int i = 0; i < kBlocksM; ++i) FACULA_UNROLL
  for (int j = 0; j < kBlocksN; ++j) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;

  FACULA_UNROLL
  for (int s = 0; s < kStages - 1; ++s) fetch(first + s * kCoreDepth, s);
  int stage = 0;
  for (int depth = first; depth < end; depth += kCoreDepth) {
    tensor_core::wait_copies<kStages - 2>();
    __syncthreads();
    fetch(depth + (kStages - 1) * kCoreDepth, stage == 0 ? kStages - 1 : stage - 1);
    const char* tile_a = shared + stage * 2 * TileA::kBytes;
    const char* tile_b = tile_a + TileA::kBytes;
    FACULA_UNROLL
    for (int step = 0; step < 2; ++step) {
      unsigned x[kBlocksM][4], y[kBlocksN / 2][4];
      FACULA_UNROLL
      for (int i = 0; i < kBlocksM; ++i) TileA::load(x[i], tile_a, warp_row + i * 16, step, true);
      FACULA_UNROLL
      for (int j = 0; j < kBlocksN / 2; ++j) TileB::load(y[j], tile_b, warp_col + j * 16, step, false);
      FACULA_UNROLL
      for (int i = 0; i < kBlocksM; ++i) FACULA_UNROLL
      for (int j = 0; j < kBlocksN; ++j)
        Cores<E>::multiply(sum[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  tensor_core::wait_copies<0>();

  // Results leave through shared memory, 16 rows of each warp at a time, so that neighbours store side by side.
  constexpr int kPitch = kTile + 8;
  float* staged = reinterpret_cast<float*>(shared);
  for (int pass = 0; pass < kBlocksM; ++pass) {
    __syncthreads();
    FACULA_UNROLL
    for (int i = 0; i < kBlocksM; ++i) {
      if (i != pass) continue;
      FACULA_UNROLL
      for (int j = 0; j < kBlocksN; ++j) FACULA_UNROLL
      for (int half = 0; half < 2; ++half) {
        float* to = staged + (warp / 4 * 16 + half * 8 + lane / 4) * kPitch + warp_col + j * 8 + lane % 4 * 2;
        to[0] = sum[i][j][half * 2];
        to[1] = sum[i][j][half * 2 + 1];
      }
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < 32 * kTile; e += kThreads) {
      const int r = e / kTile, column = e % kTile;
      put(row0 + r / 16 * (kTile / 2) + pass * 16 + r % 16, col0 + column, staged[r * kPitch + column]);
    }
  }
}

// `kByChannels` says how the result lies, as in gather_product; what is read lies by channels.
template <class E, int kTile, bool kByChannels>
FACULA_DEVICE void gather_cores(const GatherParams& p, void* shared) {
  const GatherBlock<E> block(p, kByChannels);
  const int place0 = (int)block.tile_places * kTile, column0 = (int)block.tile_columns * kTile;
  if (place0 >= block.places) return;
  const bool wide = p.wide != 0;
  if constexpr (kByChannels) {
    core_tile<E, kTile, false>(block.gathered(), block.weights(), wide, wide, place0, column0, 0, block.depth, shared,
                               [&](int row, int column, float sum) { block.put(row, column, sum); });
  } else {
    core_tile<E, kTile, false>(block.weights(), block.gathered(), wide, wide, column0, place0, 0, block.depth, shared,
                               [&](int row, int column, float sum) { block.put(column, row, sum); });
  }
}

template <class E, int kTile>
FACULA_DEVICE void weight_cores(const WeightParams& p, void* shared) {
  const WeightBlock<E> block(p);
  core_tile<E, kTile, true>(block.output(), block.input(), p.wide_output != 0, p.wide_input != 0,
                            (int)block.tile_rows * kTile, (int)block.tile_columns * kTile, block.first, block.end,
                            shared, [&](int row, int column, float sum) { block.put(row, column, sum); });
}

}  // namespace conv_kernels
}  // namespace facula

#endif  // FACULA_TENSOR_CORES || FACULA_IMITATED_CORES
