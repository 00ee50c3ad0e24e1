// Matrix products on tensor cores: 16-bit floats, and floats whose products may be rounded to TF32. Tiles travel to
// shared memory in copies that run beside the arithmetic. Chips without tensor cores compute the same tiles in plain
// arithmetic.
#pragma once

#include "gpu/kernels/matmul.h"
#include "gpu/kernels/tensor_core.h"

namespace facula {
namespace matmul_kernels {

#if FACULA_TENSOR_CORES

// How an element type is multiplied; `turned` blocks exist for 16-bit elements only.
template <class E>
struct Cores;
template <>
struct Cores<Half> {
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    tensor_core::multiply_add_half(sum, a, b0, b1);
  }
};
template <>
struct Cores<BFloat16> {
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    tensor_core::multiply_add_bfloat16(sum, a, b0, b1);
  }
};
template <>
struct Cores<Float32> {
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const unsigned rounded[4] = {tensor_core::round_to_tf32(a[0]), tensor_core::round_to_tf32(a[1]),
                                 tensor_core::round_to_tf32(a[2]), tensor_core::round_to_tf32(a[3])};
    tensor_core::multiply_add_tf32(sum, rounded, tensor_core::round_to_tf32(b0), tensor_core::round_to_tf32(b1));
  }
};

// A tile of kRows by 64 bytes of depth. It lies as it came: [row][depth] or [depth][row], in chunks of 16 bytes whose
// order within a row is mixed so that eight threads that read down a column of chunks meet no bank twice.
template <class E, int kRows>
struct CoreTile {
  using In = typename E::In;
  static constexpr int kSize = (int)sizeof(In), kChunk = 16 / kSize, kDepth = 64 / kSize;
  static constexpr int kBytes = kRows * 64;
  static constexpr int kRowChunks = kRows * kSize / 16;  // chunks of one depth, where rows lie side by side

  static FACULA_DEVICE int by_depth(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }
  static FACULA_DEVICE int by_rows(int depth, int chunk) {
    return depth * kRowChunks * 16 + ((chunk ^ (kSize == 2 ? depth & 7 : (depth & 3) * 2)) << 4);
  }

  static FACULA_DEVICE void fetch(const Operand& m, const In* data, long long row0, long long depth0, long long rows,
                                  long long depths, char* tile) {
    const bool along_rows = (m.fetch & kAlongRows) != 0, wide = (m.fetch & kWide) != 0;
    FACULA_UNROLL
    for (int p = 0; p < kBytes / 16 / kThreads; ++p) {
      const int index = (int)threadIdx.x + p * kThreads;
      const int row = along_rows ? index % kRowChunks * kChunk : index / 4;
      const int depth = along_rows ? index / kRowChunks : index % 4 * kChunk;
      char* to = tile + (along_rows ? by_rows(depth, index % kRowChunks) : by_depth(row, index % 4));
      const long long r = row0 + row, d = depth0 + depth;
      const long long left = r < rows && d < depths ? (along_rows ? rows - r : depths - d) : 0;
      const In* from = data + (left > 0 ? r * m.row_stride + d * m.depth_stride : 0);
      if (wide) {
        tensor_core::copy_async(to, from, left >= kChunk ? 16 : (int)left * kSize);
      } else {
        const long long step = along_rows ? m.row_stride : m.depth_stride;
        Pack<In, kChunk> piece;
        FACULA_UNROLL
        for (int i = 0; i < kChunk; ++i) {
          piece.x[i] = In{};
          if (i < left) piece.x[i] = from[i * step];
        }
        *reinterpret_cast<Pack<In, kChunk>*>(to) = piece;
      }
    }
  }

  // Four blocks of 8 rows by 16 bytes of depth, as two by two: rows from `row`, depth from chunk 2 * step on.
  // `rows_first` says whether the second block lies below the first or beside it.
  static FACULA_DEVICE void load(unsigned (&words)[4], const char* tile, bool along_rows, int row, int step,
                                 bool rows_first) {
    const int lane = (int)threadIdx.x % 32, block = lane / 8, within = lane % 8;
    const int block_row = rows_first ? block & 1 : block >> 1, block_depth = rows_first ? block >> 1 : block & 1;
    if (!along_rows) {
      tensor_core::load_blocks(words, tile + by_depth(row + block_row * 8 + within, step * 2 + block_depth));
    } else if constexpr (kSize == 2) {
      const int depth = step * 16 + block_depth * 8 + within;
      tensor_core::load_blocks_turned(words, tile + by_rows(depth, (row + block_row * 8) / kChunk));
    } else {
      FACULA_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int r = row + (rows_first ? j & 1 : j >> 1) * 8 + lane / 4;
        const int depth = step * 8 + (rows_first ? j >> 1 : j & 1) * 4 + lane % 4;
        words[j] = *reinterpret_cast<const unsigned*>(tile + by_rows(depth, r / kChunk) + r % kChunk * kSize);
      }
    }
  }
};

inline constexpr int kStages = 3;

// A block computes kTile by kTile numbers; each of its eight warps a half of the rows and a quarter of the columns.
template <class E, int kTile>
FACULA_DEVICE void core_product(const Params& p, char* shared) {
  using Tile = CoreTile<E, kTile>;
  constexpr int kBlocksM = kTile / 2 / 16, kBlocksN = kTile / 4 / 8;
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int warp_row = warp / 4 * (kTile / 2), warp_col = warp % 4 * (kTile / 4);
  const bool a_along_rows = (p.a.fetch & kAlongRows) != 0, b_along_rows = (p.b.fetch & kAlongRows) != 0;
  long long tile_m, tile_n;
  tile_place(blockIdx.x, p.tiles_m, p.tiles_n, tile_m, tile_n);
  const long long row0 = tile_m * kTile, col0 = tile_n * kTile;

  for (long long which = blockIdx.y; which < p.batch * p.splits; which += gridDim.y) {
    const long long batch = p.splits > 1 ? which / p.splits : which;
    const long long split = p.splits > 1 ? which % p.splits : 0;
    const long long first = split * p.split_depth;
    const long long end = first + p.split_depth < p.k ? first + p.split_depth : p.k;
    const auto* a =
        static_cast<const typename E::In*>(p.a.data) + batch_offset(batch, p.batch_sizes, p.a.batch_strides);
    const auto* b =
        static_cast<const typename E::In*>(p.b.data) + batch_offset(batch, p.batch_sizes, p.b.batch_strides);
    auto fetch = [&](long long depth, int stage) {
      char* to = shared + stage * 2 * Tile::kBytes;
      if (depth < end) {
        Tile::fetch(p.a, a, row0, depth, p.m, end, to);
        Tile::fetch(p.b, b, col0, depth, p.n, end, to + Tile::kBytes);
      }
      tensor_core::commit_copies();  // an empty group too: groups are counted
    };

    float sum[kBlocksM][kBlocksN][4];
    FACULA_UNROLL
    for (int i = 0; i < kBlocksM; ++i) FACULA_UNROLL
    for (int j = 0; j < kBlocksN; ++j) FACULA_UNROLL
    for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;

    FACULA_UNROLL
    for (int s = 0; s < kStages - 1; ++s) fetch(first + s * Tile::kDepth, s);
    int stage = 0;
    for (long long depth = first; depth < end; depth += Tile::kDepth) {
      tensor_core::wait_copies<kStages - 2>();
      __syncthreads();
      fetch(depth + (kStages - 1) * Tile::kDepth, stage == 0 ? kStages - 1 : stage - 1);
      const char* tile_a = shared + stage * 2 * Tile::kBytes;
      const char* tile_b = tile_a + Tile::kBytes;
      FACULA_UNROLL
      for (int step = 0; step < 2; ++step) {
        unsigned x[kBlocksM][4], y[kBlocksN / 2][4];
        FACULA_UNROLL
        for (int i = 0; i < kBlocksM; ++i) Tile::load(x[i], tile_a, a_along_rows, warp_row + i * 16, step, true);
        FACULA_UNROLL
        for (int j = 0; j < kBlocksN / 2; ++j) Tile::load(y[j], tile_b, b_along_rows, warp_col + j * 16, step, false);
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
    auto* c = static_cast<typename E::Out*>(p.c) + batch_offset(batch, p.batch_sizes, p.c_batch_strides);
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
      for (int e = (int)threadIdx.x * 2; e < 32 * kTile; e += 2 * kThreads) {
        const int r = e / kTile, col = e % kTile;
        const long long row = row0 + r / 16 * (kTile / 2) + pass * 16 + r % 16;
        if (row < p.m) put_pair<E>(p, batch, split, c, row, col0 + col, staged + r * kPitch + col);
      }
    }
    __syncthreads();  // the tiles are filled anew for the next matrix
  }
}

#endif  // FACULA_TENSOR_CORES

// The product with 256 threads and square tiles of `kTile`; `shared` has kCoreBytes bytes.
template <class E, int kTile>
inline constexpr int kCoreDepth = sizeof(typename E::In) == 4 && kTile == 128 ? 8 : 16;
template <class E, int kTile>
inline constexpr int kCoreBytes =
#if FACULA_TENSOR_CORES
    kStages * 2 * CoreTile<E, kTile>::kBytes;
#else
    kTileBytes<E, kTile, kTile, kCoreDepth<E, kTile>>;
#endif

template <class E, int kTile>
FACULA_DEVICE void square_product(const Params& p, void* shared) {
#if FACULA_TENSOR_CORES
  core_product<E, kTile>(p, static_cast<char*>(shared));
#else
  tile_product<E, kTile, kTile, kCoreDepth<E, kTile>, kTile / 16, kTile / 16>(p, shared);
#endif
}

}  // namespace matmul_kernels
}  // namespace facula
