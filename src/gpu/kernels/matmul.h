// Matrix products in plain arithmetic, for every element type and any strides: tiles in shared memory, a block of
// numbers in the registers of each thread. Tensor cores are in `matmul_mma.h`, products with a vector in
// `matmul_vector.h`.
#pragma once

#include "gpu/kernels/matmul_types.h"

#if defined(SIMGPU)
#define FACULA_UNROLL_8
#else
#define FACULA_UNROLL_8 _Pragma("unroll 8")
#endif

namespace facula {
namespace matmul_kernels {

inline constexpr int kThreads = 256;

// A tile of `kRows` by `kDepth` of an operand on its way to shared memory, where it lies by depth: [kDepth][kPitch]. A
// thread holds kPieces times kVec elements between the two. By default kPad keeps 16 bytes aligned and puts rows of
// different depth into different banks.
template <class E, int kRows, int kDepth,
          int kPad = (16 / sizeof(typename E::Compute) < 1 ? 1 : 16 / sizeof(typename E::Compute))>
struct TileFetch {
  using In = typename E::In;
  using Compute = typename E::Compute;
  static constexpr int kCount = kRows * kDepth / kThreads;
  static constexpr int kFit = 16 / (int)sizeof(In) < 1 ? 1 : 16 / (int)sizeof(In);
  static constexpr int kVec = kFit < kCount ? kFit : kCount;
  static constexpr int kPieces = kCount / kVec;
  static constexpr int kPitch = kRows + kPad;
  static_assert(kCount * kThreads == kRows * kDepth && kPieces * kVec == kCount,
                "every thread fetches the same number");

  Pack<In, kVec> held[kPieces];

  FACULA_DEVICE static void place(int piece, bool along_rows, int& row, int& depth) {
    const int index = (int)threadIdx.x + piece * kThreads;
    if (along_rows) {
      depth = index / (kRows / kVec);
      row = index % (kRows / kVec) * kVec;
    } else {
      row = index / (kDepth / kVec);
      depth = index % (kDepth / kVec) * kVec;
    }
  }

  // Elements outside of the matrix count as zero.
  template <class Matrix, class Index>
  FACULA_DEVICE void fetch(const Matrix& m, const In* data, Index row0, Index depth0, Index rows, Index depths) {
    const bool along_rows = (m.fetch & kAlongRows) != 0, wide = (m.fetch & kWide) != 0;
    FACULA_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      int row, depth;
      place(p, along_rows, row, depth);
      const Index r = row0 + row, d = depth0 + depth;
      const In* from = data + r * m.row_stride + d * m.depth_stride;
      const Index left = along_rows ? rows - r : depths - d;
      const bool inside = r < rows && d < depths;
      if (wide && inside && left >= kVec) {
        held[p] = *reinterpret_cast<const Pack<In, kVec>*>(from);
      } else {
        const Index step = along_rows ? m.row_stride : m.depth_stride;
        FACULA_UNROLL
        for (int i = 0; i < kVec; ++i) {
          held[p].x[i] = In{};
          if (inside && i < left) held[p].x[i] = from[i * step];
        }
      }
    }
  }

  template <class Matrix>
  FACULA_DEVICE void put(const Matrix& m, Compute* tile) const {
    const bool along_rows = (m.fetch & kAlongRows) != 0;
    FACULA_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      int row, depth;
      place(p, along_rows, row, depth);
      FACULA_UNROLL
      for (int i = 0; i < kVec; ++i) {
        if (along_rows) tile[depth * kPitch + row + i] = E::load(held[p].x[i]);
        else tile[(depth + i) * kPitch + row] = E::load(held[p].x[i]);
      }
    }
  }
};

template <class E, int kTileM, int kTileN, int kTileK>
inline constexpr int kTileBytes =
    2 * kTileK * (TileFetch<E, kTileM, kTileK>::kPitch + TileFetch<E, kTileN, kTileK>::kPitch) *
    (int)sizeof(typename E::Compute);

// Which tile a block computes: eight rows of tiles at a time, so that neighbours share operands in the cache.
FACULA_DEVICE void tile_place(unsigned index, unsigned tiles_m, unsigned tiles_n, long long& tile_m,
                              long long& tile_n) {
  const unsigned group = 8 * tiles_n, first = index / group * 8;
  const unsigned height = tiles_m - first < 8 ? tiles_m - first : 8;
  const unsigned within = index % group;
  tile_m = first + within % height;
  tile_n = within / height;
}

// One number of C, or of its part where k is split.
template <class E>
FACULA_DEVICE void put_result(const Params& p, long long batch, long long split, typename E::Out* c, long long row,
                              long long col, typename E::Compute sum) {
  if (p.splits > 1) {
    static_cast<typename E::Compute*>(p.partial)[((split * p.batch + batch) * p.m + row) * p.n + col] = sum;
    return;
  }
  typename E::Out* at = c + row * p.c_row_stride + col;
  const typename E::Out* bias = static_cast<const typename E::Out*>(p.bias);
  *at = finished<E>(sum, p.alpha, p.beta, p.add_c != 0, at, bias ? bias + col : nullptr);
}

// Two neighbours in a row of C; the second may lie outside.
template <class E>
FACULA_DEVICE void put_pair(const Params& p, long long batch, long long split, typename E::Out* c, long long row,
                            long long col, const typename E::Compute* sums) {
  if (p.pairs && p.splits == 1 && col + 1 < p.n) {
    using Out = typename E::Out;
    Out* at = c + row * p.c_row_stride + col;
    const Out* bias = static_cast<const Out*>(p.bias);
    Pack<Out, 2> pair;
    if (p.add_c) pair = *reinterpret_cast<const Pack<Out, 2>*>(at);
    FACULA_NO_UNROLL
    for (int i = 0; i < 2; ++i)
      pair.x[i] = finished<E>(sums[i], p.alpha, p.beta, p.add_c != 0, &pair.x[i], bias ? bias + col + i : nullptr);
    *reinterpret_cast<Pack<Out, 2>*>(at) = pair;
    return;
  }
  FACULA_NO_UNROLL
  for (int i = 0; i < 2; ++i)
    if (col + i < p.n) put_result<E>(p, batch, split, c, row, col + i, sums[i]);
}

// A block computes kTileM by kTileN numbers, a thread kThreadM by kThreadN of them. Blocks: x over the tiles, y over
// batch and split. `shared` has kTileBytes bytes.
template <class E, int kTileM, int kTileN, int kTileK, int kThreadM, int kThreadN>
FACULA_DEVICE void tile_product(const Params& p, void* shared) {
  using Compute = typename E::Compute;
  using FetchA = TileFetch<E, kTileM, kTileK>;
  using FetchB = TileFetch<E, kTileN, kTileK>;
  constexpr int kAcross = kTileN / kThreadN;  // threads side by side
  static_assert(kTileM / kThreadM * kAcross == kThreads, "the tile is shared out among all threads");
  // Numbers that a thread reads at once from shared memory; its rows lie in groups of so many.
  constexpr int kFit = 16 / (int)sizeof(Compute) < 1 ? 1 : 16 / (int)sizeof(Compute);
  constexpr int kVecM = kFit < kThreadM ? kFit : kThreadM, kVecN = kFit < kThreadN ? kFit : kThreadN;
  constexpr int kStepM = kTileM / kThreadM * kVecM, kStepN = kAcross * kVecN;

  Compute* tile_a = static_cast<Compute*>(shared);
  Compute* tile_b = tile_a + 2 * kTileK * FetchA::kPitch;

  long long tile_m, tile_n;
  tile_place(blockIdx.x, p.tiles_m, p.tiles_n, tile_m, tile_n);
  const long long row0 = tile_m * kTileM, col0 = tile_n * kTileN;
  const int my_row = (int)threadIdx.x / kAcross * kVecM, my_col = (int)threadIdx.x % kAcross * kVecN;

  for (long long which = blockIdx.y; which < p.batch * p.splits; which += gridDim.y) {
    const long long batch = p.splits > 1 ? which / p.splits : which;
    const long long split = p.splits > 1 ? which % p.splits : 0;
    const long long first = split * p.split_depth;
    const long long end = first + p.split_depth < p.k ? first + p.split_depth : p.k;
    const auto* a =
        static_cast<const typename E::In*>(p.a.data) + batch_offset(batch, p.batch_sizes, p.a.batch_strides);
    const auto* b =
        static_cast<const typename E::In*>(p.b.data) + batch_offset(batch, p.batch_sizes, p.b.batch_strides);

    Compute sum[kThreadM][kThreadN];
    FACULA_UNROLL
    for (int i = 0; i < kThreadM; ++i) FACULA_UNROLL
    for (int j = 0; j < kThreadN; ++j) sum[i][j] = zero_of(Compute());

    FetchA next_a;
    FetchB next_b;
    next_a.fetch(p.a, a, row0, first, p.m, end);
    next_b.fetch(p.b, b, col0, first, p.n, end);
    next_a.put(p.a, tile_a);
    next_b.put(p.b, tile_b);
    __syncthreads();
    int now = 0;
    for (long long depth = first; depth < end; depth += kTileK) {
      const bool more = depth + kTileK < end;
      if (more) {
        next_a.fetch(p.a, a, row0, depth + kTileK, p.m, end);
        next_b.fetch(p.b, b, col0, depth + kTileK, p.n, end);
      }
      const Compute* use_a = tile_a + now * kTileK * FetchA::kPitch;
      const Compute* use_b = tile_b + now * kTileK * FetchB::kPitch;
      FACULA_UNROLL_8
      for (int d = 0; d < kTileK; ++d) {
        Pack<Compute, kVecM> x[kThreadM / kVecM];
        Pack<Compute, kVecN> y[kThreadN / kVecN];
        FACULA_UNROLL
        for (int i = 0; i < kThreadM / kVecM; ++i)
          x[i] = *reinterpret_cast<const Pack<Compute, kVecM>*>(use_a + d * FetchA::kPitch + i * kStepM + my_row);
        FACULA_UNROLL
        for (int j = 0; j < kThreadN / kVecN; ++j)
          y[j] = *reinterpret_cast<const Pack<Compute, kVecN>*>(use_b + d * FetchB::kPitch + j * kStepN + my_col);
        FACULA_UNROLL
        for (int i = 0; i < kThreadM; ++i) FACULA_UNROLL
        for (int j = 0; j < kThreadN; ++j)
          sum[i][j] = multiply_add(x[i / kVecM].x[i % kVecM], y[j / kVecN].x[j % kVecN], sum[i][j]);
      }
      if (more) {
        now ^= 1;
        next_a.put(p.a, tile_a + now * kTileK * FetchA::kPitch);
        next_b.put(p.b, tile_b + now * kTileK * FetchB::kPitch);
        __syncthreads();
      }
    }

    // Results leave through shared memory, one row of each thread at a time: what is done to a number is then written
    // once in the program, and neighbours store side by side.
    auto* c = static_cast<typename E::Out*>(p.c) + batch_offset(batch, p.batch_sizes, p.c_batch_strides);
    Compute* staged = static_cast<Compute*>(shared);
    for (int pass = 0; pass < kThreadM; ++pass) {
      __syncthreads();
      FACULA_UNROLL
      for (int i = 0; i < kThreadM; ++i) {
        if (i != pass) continue;
        FACULA_UNROLL
        for (int j = 0; j < kThreadN; ++j)
          staged[(int)threadIdx.x / kAcross * kTileN + j / kVecN * kStepN + my_col + j % kVecN] = sum[i][j];
      }
      __syncthreads();
      for (int e = (int)threadIdx.x * 2; e < kTileM / kThreadM * kTileN; e += 2 * kThreads) {
        const long long row = row0 + pass / kVecM * kStepM + e / kTileN * kVecM + pass % kVecM;
        if (row < p.m) put_pair<E>(p, batch, split, c, row, col0 + e % kTileN, staged + e);
      }
    }
    __syncthreads();  // the tiles are filled anew for the next matrix
  }
}

// Products so small that most of their time is the launch and the way of the first numbers: a block computes 16 by 16
// numbers, and four groups of threads share the depth of each. Blocks: x over columns of tiles, y over rows, z over the
// batch. `shared` has kSmallBytes bytes.
inline constexpr int kSmallDepth = 64, kSmallShares = 4;
template <class E>
using SmallFetch = TileFetch<E, kSmallSide, kSmallDepth, 2>;
template <class E>
inline constexpr int kSmallBytes = 4 * kSmallDepth * SmallFetch<E>::kPitch * (int)sizeof(typename E::Compute);

template <class E>
FACULA_DEVICE void small_product(const SmallParams& p, void* shared) {
  using In = typename E::In;
  using Compute = typename E::Compute;
  using Fetch = SmallFetch<E>;
  constexpr int kTile = kSmallDepth * Fetch::kPitch, kDepth = kSmallDepth / kSmallShares, kAcross = kSmallSide / 2;
  static_assert(kThreads == kSmallSide * kSmallSide && kThreads == kSmallShares * kAcross * kAcross,
                "the tile is shared out among all threads");
  Compute* tiles = static_cast<Compute*>(shared);  // A and B, then those of the next depth
  const int thread = (int)threadIdx.x, row0 = (int)blockIdx.y * kSmallSide, col0 = (int)blockIdx.x * kSmallSide;
  const long long batch = blockIdx.z;
  const In* a = static_cast<const In*>(p.a.data) + batch * p.a.batch_stride;
  const In* b = static_cast<const In*>(p.b.data) + batch * p.b.batch_stride;
  Fetch next_a, next_b;
  next_a.fetch(p.a, a, row0, 0, p.m, p.k);
  next_b.fetch(p.b, b, col0, 0, p.n, p.k);

  const int row = row0 + thread / kSmallSide, col = col0 + thread % kSmallSide;  // of what this thread writes
  const bool inside = row < p.m && col < p.n;
  typename E::Out* to = static_cast<typename E::Out*>(p.c) + batch * p.c_batch_stride + row * p.c_row_stride + col;
  Compute add = zero_of(Compute());
  if (inside && p.add_c) add = scale(p.beta, E::load_out(*to));
  if (inside && p.bias) add = plus(add, E::load_out(static_cast<const typename E::Out*>(p.bias)[col]));

  const int share = thread / (kAcross * kAcross), within = thread % (kAcross * kAcross);
  const int my_row = within / kAcross * 2, my_col = within % kAcross * 2;
  Compute sum[2][2];
  FACULA_UNROLL
  for (int i = 0; i < 4; ++i) sum[i / 2][i % 2] = zero_of(Compute());
  int now = 0;
  FACULA_NO_UNROLL
  for (int depth = 0; depth < p.k; depth += kSmallDepth) {
    Compute* tile = tiles + now * 2 * kTile;
    next_a.put(p.a, tile);
    next_b.put(p.b, tile + kTile);
    __syncthreads();
    if (depth + kSmallDepth < p.k) {
      next_a.fetch(p.a, a, row0, depth + kSmallDepth, p.m, p.k);
      next_b.fetch(p.b, b, col0, depth + kSmallDepth, p.n, p.k);
    }
    const Compute* at = tile + share * kDepth * Fetch::kPitch;
    FACULA_UNROLL
    for (int d = 0; d < kDepth; ++d) {
      const auto x = *reinterpret_cast<const Pack<Compute, 2>*>(at + d * Fetch::kPitch + my_row);
      const auto y = *reinterpret_cast<const Pack<Compute, 2>*>(at + kTile + d * Fetch::kPitch + my_col);
      FACULA_UNROLL
      for (int i = 0; i < 2; ++i) FACULA_UNROLL
      for (int j = 0; j < 2; ++j) sum[i][j] = multiply_add(x.x[i], y.x[j], sum[i][j]);
    }
    now ^= 1;
  }
  // The shares of a number are added in order. Nobody reads the tiles of this half any more.
  Compute* staged = tiles + now * 2 * kTile;
  FACULA_UNROLL
  for (int i = 0; i < 2; ++i) FACULA_UNROLL
  for (int j = 0; j < 2; ++j) staged[share * kThreads + (my_row + i) * kSmallSide + my_col + j] = sum[i][j];
  __syncthreads();
  if (!inside) return;
  Compute all = staged[thread];
  FACULA_UNROLL
  for (int s = 1; s < kSmallShares; ++s) all = plus(all, staged[s * kThreads + thread]);
  all = plus(scale(p.alpha, all), add);
  if (p.relu && all <= zero_of(all)) all = zero_of(all);
  *to = E::store(all);
}

// Adds the parts of a split sum, in order. A thread takes every so-many-th number.
template <class E>
FACULA_DEVICE void finish(const FinishParams& p) {
  using Compute = typename E::Compute;
  const long long each = p.m * p.n, total = each * p.batch;
  const Compute* partial = static_cast<const Compute*>(p.partial);
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < total;
       i += (long long)gridDim.x * blockDim.x) {
    Compute sum = partial[i];
    for (long long s = 1; s < p.splits; ++s) sum = plus(sum, partial[s * total + i]);
    const long long batch = i / each, within = i % each, row = within / p.n, col = within % p.n;
    auto* at = static_cast<typename E::Out*>(p.c) + batch_offset(batch, p.batch_sizes, p.c_batch_strides) +
               row * p.c_row_stride + col * p.c_col_stride;
    const auto* bias = static_cast<const typename E::Out*>(p.bias);
    *at = finished<E>(sum, p.alpha, p.beta, p.add_c != 0, at,
                      bias ? bias + (p.n > 1 ? col : row) * p.bias_stride : nullptr);
  }
}

// Copies tiles of 32 by 32 elements through shared memory, so that neither side is read across. 256 threads; T only has
// the width.
template <class T>
FACULA_DEVICE void pack(const PackParams& p, void* shared) {
  constexpr int kSide = 32, kPitch = kSide + 1;
  T* tile = static_cast<T*>(shared);
  const long long tiles_n = (p.cols + kSide - 1) / kSide;
  const long long row0 = blockIdx.x / tiles_n * kSide, col0 = blockIdx.x % tiles_n * kSide;
  const int x = (int)threadIdx.x % kSide, y = (int)threadIdx.x / kSide;
  const bool along_rows = p.row_stride < p.col_stride;
  for (long long batch = blockIdx.y; batch < p.batch; batch += gridDim.y) {
    const T* from = static_cast<const T*>(p.from) + batch_offset(batch, p.batch_sizes, p.batch_strides);
    T* to = static_cast<T*>(p.to) + batch * p.rows * p.cols;
    for (int i = y; i < kSide; i += kThreads / kSide) {
      const int r = along_rows ? x : i, c = along_rows ? i : x;
      if (row0 + r < p.rows && col0 + c < p.cols)
        tile[r * kPitch + c] = from[(row0 + r) * p.row_stride + (col0 + c) * p.col_stride];
    }
    __syncthreads();
    for (int i = y; i < kSide; i += kThreads / kSide)
      if (row0 + i < p.rows && col0 + x < p.cols) to[(row0 + i) * p.cols + col0 + x] = tile[i * kPitch + x];
    __syncthreads();
  }
}

}  // namespace matmul_kernels
}  // namespace facula
