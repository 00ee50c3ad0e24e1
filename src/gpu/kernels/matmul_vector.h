// A matrix times a vector: every element of the matrix is read once, 16 bytes at a time, with several reads under way.
#pragma once

#include "gpu/kernels/matmul.h"

namespace facula {
namespace matmul_kernels {

template <class E>
FACULA_DEVICE void put_vector_result(const VectorParams& p, long long batch, long long split, long long row,
                                     typename E::Compute sum) {
  if (p.splits > 1) {
    static_cast<typename E::Compute*>(p.partial)[(split * p.batch + batch) * p.rows + row] = sum;
    return;
  }
  auto* at =
      static_cast<typename E::Out*>(p.y) + batch_offset(batch, p.batch_sizes, p.y_batch_strides) + row * p.y_stride;
  const auto* bias = static_cast<const typename E::Out*>(p.bias);
  *at = finished<E>(sum, p.alpha, p.beta, p.add_y != 0, at, bias ? bias + row * p.bias_stride : nullptr);
}

// Which matrix and which part of the sum: blocks lie in y over batch and split.
struct Part {
  long long batch, split, first, end;
  FACULA_DEVICE Part(const VectorParams& p, long long which) {
    batch = p.splits > 1 ? which / p.splits : which;
    split = p.splits > 1 ? which % p.splits : 0;
    first = split * p.split_depth;
    end = first + p.split_depth < p.depth ? first + p.split_depth : p.depth;
  }
};

template <class E>
inline constexpr int kVectorWidth = 16 / (int)sizeof(typename E::In) < 1 ? 1 : 16 / (int)sizeof(typename E::In);

// 16 bytes that are used once: they need no room in the caches that keep the vector.
template <class Piece>
FACULA_DEVICE Piece read_once(const void* from) {
#if FACULA_PTX >= 700
  if constexpr (sizeof(Piece) == 16) {
    union {
      unsigned words[4];
      Piece piece;
    } read;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(read.words[0]), "=r"(read.words[1]), "=r"(read.words[2]), "=r"(read.words[3])
                 : "l"(from));
    return read.piece;
  }
#endif
  return *static_cast<const Piece*>(from);
}

// The sum over kCount neighbouring lanes, in all of them.
template <int kCount, class T>
FACULA_DEVICE T lanes_sum(T value) {
  FACULA_UNROLL
  for (int mask = kCount / 2; mask > 0; mask /= 2) value = plus(value, lane_xor(value, mask));
  return value;
}

// kGroup threads, a part of a warp or all of the block, walk along kRows rows. `shared` has kRows * kThreads / 32 numbers of E::Compute.
template <class E, int kGroup, int kRows>
FACULA_DEVICE void vector_by_rows(const VectorParams& p, void* shared) {
  using In = typename E::In;
  using Compute = typename E::Compute;
  constexpr int kVec = kVectorWidth<E>, kAhead = kRows > 2 ? 2 : 4;
  constexpr int kTogether = kGroup < kLanes ? kGroup : kLanes;  // lanes of a warp on the same rows
  using Piece = Pack<In, kVec>;
  Compute* sums = static_cast<Compute*>(shared);
  const int within = (int)threadIdx.x % kGroup, group = (int)threadIdx.x / kGroup;
  const long long row0 = ((long long)blockIdx.x * (kThreads / kGroup) + group) * kRows;
  const bool wide = (p.a.fetch & kWide) != 0;

  for (long long which = blockIdx.y; which < p.batch * p.splits; which += gridDim.y) {
    const Part part(p, which);
    const In* a = static_cast<const In*>(p.a.data) + batch_offset(part.batch, p.batch_sizes, p.a.batch_strides);
    const In* x = static_cast<const In*>(p.x) + batch_offset(part.batch, p.batch_sizes, p.x_batch_strides);
    const In* row[kRows];
    FACULA_UNROLL
    for (int r = 0; r < kRows; ++r) {
      // Rows that do not exist are read like the last one and dropped.
      const long long at = row0 + r < p.rows ? row0 + r : p.rows - 1;
      row[r] = a + at * p.a.row_stride;
    }
    Compute sum[kRows];
    FACULA_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = zero_of(Compute());

    long long d = part.first + within * kVec;
    if (wide && p.wide_x) {
      for (; d + ((kAhead - 1) * kGroup + 1) * kVec <= part.end; d += kAhead * kGroup * kVec) {
        Piece m[kAhead][kRows];
        FACULA_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          FACULA_UNROLL
          for (int r = 0; r < kRows; ++r) m[u][r] = read_once<Piece>(row[r] + d + u * kGroup * kVec);
        }
        FACULA_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          const Piece y = *reinterpret_cast<const Piece*>(x + d + u * kGroup * kVec);  // in the cache, and soon there
          FACULA_UNROLL
          for (int i = 0; i < kVec; ++i) {
            const Compute factor = E::load(y.x[i]);
            FACULA_UNROLL
            for (int r = 0; r < kRows; ++r) sum[r] = multiply_add(E::load(m[u][r].x[i]), factor, sum[r]);
          }
        }
      }
    }
    for (; d < part.end; d += kGroup * kVec) {
      const int count = part.end - d < kVec ? (int)(part.end - d) : kVec;
      for (int i = 0; i < count; ++i) {
        const Compute factor = E::load(x[(d + i) * p.x_stride]);
        FACULA_UNROLL
        for (int r = 0; r < kRows; ++r)
          sum[r] = multiply_add(E::load(row[r][(d + i) * p.a.depth_stride]), factor, sum[r]);
      }
    }

    FACULA_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = lanes_sum<kTogether>(sum[r]);
    if constexpr (kGroup > kLanes) {
      constexpr int kWarps = kThreads / kLanes;
      if (lane_index() == 0) {
        FACULA_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r * kWarps + (int)threadIdx.x / kLanes] = sum[r];
      }
      __syncthreads();
      if (within == 0) {
        FACULA_UNROLL
        for (int r = 0; r < kRows; ++r) {
          sum[r] = sums[r * kWarps];
          for (int w = 1; w < kWarps; ++w) sum[r] = plus(sum[r], sums[r * kWarps + w]);
        }
      }
    }
    if (within == 0) {
      FACULA_UNROLL
      for (int r = 0; r < kRows; ++r)
        if (row0 + r < p.rows) put_vector_result<E>(p, part.batch, part.split, row0 + r, sum[r]);
    }
    if constexpr (kGroup > kLanes) __syncthreads();
  }
}

// Rows lie side by side: a thread takes kVec neighbours, 32 threads a strip of the matrix, the 8 strips of a block
// every eighth column. `shared` has kThreads * kVec numbers of E::Compute.
template <class E>
FACULA_DEVICE void vector_by_columns(const VectorParams& p, void* shared) {
  using In = typename E::In;
  using Compute = typename E::Compute;
  constexpr int kVec = kVectorWidth<E>, kAcross = 32, kDown = kThreads / kAcross, kAhead = 4;
  using Piece = Pack<In, kVec>;
  Compute* sums = static_cast<Compute*>(shared);
  const int across = (int)threadIdx.x % kAcross, down = (int)threadIdx.x / kAcross;
  const long long row0 = ((long long)blockIdx.x * kAcross + across) * kVec;
  const long long left = p.rows - row0;  // rows of this thread
  const bool wide = (p.a.fetch & kWide) != 0 && left >= kVec;

  for (long long which = blockIdx.y; which < p.batch * p.splits; which += gridDim.y) {
    const Part part(p, which);
    const In* a = static_cast<const In*>(p.a.data) + batch_offset(part.batch, p.batch_sizes, p.a.batch_strides) +
                  row0 * p.a.row_stride;
    const In* x = static_cast<const In*>(p.x) + batch_offset(part.batch, p.batch_sizes, p.x_batch_strides);
    Compute sum[kVec];
    FACULA_UNROLL
    for (int i = 0; i < kVec; ++i) sum[i] = zero_of(Compute());

    long long d = part.first + down;
    if (wide) {
      for (; d + (kAhead - 1) * kDown < part.end; d += kAhead * kDown) {
        Piece m[kAhead];
        In y[kAhead];
        FACULA_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          m[u] = read_once<Piece>(a + (d + u * kDown) * p.a.depth_stride);
          y[u] = x[(d + u * kDown) * p.x_stride];
        }
        FACULA_UNROLL
        for (int u = 0; u < kAhead; ++u) {
          const Compute factor = E::load(y[u]);
          FACULA_UNROLL
          for (int i = 0; i < kVec; ++i) sum[i] = multiply_add(E::load(m[u].x[i]), factor, sum[i]);
        }
      }
    }
    for (; d < part.end; d += kDown) {
      const Compute factor = E::load(x[d * p.x_stride]);
      FACULA_UNROLL
      for (int i = 0; i < kVec; ++i)
        if (i < left) sum[i] = multiply_add(E::load(a[i * p.a.row_stride + d * p.a.depth_stride]), factor, sum[i]);
    }

    FACULA_UNROLL
    for (int i = 0; i < kVec; ++i) sums[i * kThreads + threadIdx.x] = sum[i];
    for (int width = kDown / 2; width > 0; width /= 2) {
      __syncthreads();
      if (down < width) {
        FACULA_UNROLL
        for (int i = 0; i < kVec; ++i) {
          Compute* at = sums + i * kThreads + threadIdx.x;
          *at = plus(at[0], at[width * kAcross]);
        }
      }
    }
    if (down == 0) {
      FACULA_UNROLL
      for (int i = 0; i < kVec; ++i)
        if (i < left) put_vector_result<E>(p, part.batch, part.split, row0 + i, sums[i * kThreads + threadIdx.x]);
    }
    __syncthreads();
  }
}

}  // namespace matmul_kernels
}  // namespace facula
