// Convolutions as matrix products whose operands are gathered on their way to shared memory; no unfolded window is
// ever in memory. The output, the gradient of the input and that of the weight, in plain arithmetic and for any
// strides; tensor cores are in `conv_mma.h`. Sums have a fixed order.
#pragma once

#include "gpu/kernels/conv_params.h"
#include "gpu/kernels/matmul.h"

namespace facula {
namespace conv_kernels {

using matmul_kernels::kThreads;
using matmul_kernels::Pack;
// Far outside of space, from either side of a sum. Sizes and reaches are below 2^28.
inline constexpr int kNowhere = -(1 << 29);

FACULA_DEVICE int quotient(int n, const FastDivisor& d) {
  const unsigned u = (unsigned)n;
  return (int)((multiply_high(u, d.magic) + u) >> d.shift);
}
FACULA_DEVICE int divide(int& n, const FastDivisor& d) {  // the rest; n becomes the quotient
  const int q = quotient(n, d), rest = n - q * (int)d.divisor;
  n = q;
  return rest;
}

// ---- places and taps of a phase -------------------------------------------------------------------------------------

// Place t meets tap j at t * stride + start + j * step; tap j is tap first_tap + j * tap_step of the kernel, place t is
// place to_first + t * to_step of what is computed.
struct Line {
  int count, taps, stride, start, step, first_tap, tap_step, to_first, to_step;
  FastDivisor by_count, by_taps;
};

FACULA_DEVICE Line line_of(const Dim& d, bool turned, int phase) {
  if (!turned) return {d.to_size, d.kernel, d.stride, -d.padding, d.dilation, 0, 1, 0, 1, d.counts[1], d.taps[1]};
  Line l;
  const int whole = d.to_size / d.stride;
  const bool more = phase < d.to_size - whole * d.stride;
  l.count = whole + more;
  l.by_count = d.counts[more ? 0 : 1];
  l.stride = 1;
  l.to_first = phase;
  l.to_step = d.stride;
  l.tap_step = d.tap_step;
  l.step = -(d.tap_step * d.dilation / d.stride);
  int first = 0;
  while (first < d.tap_step && (phase + d.padding - first * d.dilation) % d.stride != 0) ++first;
  const int all = d.kernel / d.tap_step;
  const bool one_more = first < d.kernel - all * d.tap_step;
  l.taps = first < d.tap_step ? all + one_more : 0;
  l.by_taps = d.taps[one_more ? 0 : 1];
  l.first_tap = first;
  l.start = (phase + d.padding - first * d.dilation) / d.stride;
  return l;
}

// ---- operands of products -------------------------------------------------------------------------------------------

// What is read of `from`: rows are places, depth is (tap, channel).
template <class E>
struct Gathered {
  using In = typename E::In;
  struct Row {
    long long base;
    int at[3];
  };
  struct Depth {
    int offset, at[3];
  };
  const GatherParams& p;
  const Line* lines;
  const In* data;
  int rows;

  FACULA_DEVICE Row row(int r) const {
    if (r >= rows) return {0, {kNowhere, 0, 0}};
    Row row;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i) row.at[i] = divide(r, lines[i].by_count) * lines[i].stride + lines[i].start;
    row.base = r * p.from_sample;
    return row;
  }
  FACULA_DEVICE Depth depth(int d, int end) const {
    if (d >= end) return {0, {kNowhere, 0, 0}};
    Depth depth;
    depth.offset = divide(d, p.by_channels) * p.from_channel;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i) depth.at[i] = divide(d, lines[i].by_taps) * lines[i].step;
    return depth;
  }
  // nullptr where there is nothing.
  FACULA_DEVICE const In* at(const Row& r, const Depth& d) const {
    int offset = d.offset;
    bool there = true;
    FACULA_UNROLL
    for (int i = 0; i < 3; ++i) {
      const int place = r.at[i] + d.at[i];
      there = there && (unsigned)place < (unsigned)p.dims[i].from_size;
      offset += there ? place * p.dims[i].from_stride : 0;
    }
    return there ? data + r.base + offset : nullptr;
  }
};

// The weight: rows are columns of the result, depth is (tap, channel).
template <class E>
struct Weights {
  using In = typename E::In;
  struct Row {
    int offset;  // negative outside
  };
  struct Depth {
    int offset;
  };
  const GatherParams& p;
  const Line* lines;
  const In* data;
  int rows;

  FACULA_DEVICE Row row(int r) const { return {r < rows ? r * p.weight_row : -1}; }
  FACULA_DEVICE Depth depth(int d, int end) const {
    if (d >= end) return {-1};
    int offset = divide(d, p.by_channels) * p.weight_channel;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i)
      offset += (lines[i].first_tap + divide(d, lines[i].by_taps) * lines[i].tap_step) * p.dims[i].weight_stride;
    return {offset};
  }
  FACULA_DEVICE const In* at(const Row& r, const Depth& d) const {
    return r.offset >= 0 && d.offset >= 0 ? data + r.offset + d.offset : nullptr;
  }
};

// For the gradient of the weight: rows are channels of the output, depth is (sample, place).
template <class E>
struct OutputRows {
  using In = typename E::In;
  struct Row {
    int offset;
  };
  struct Depth {
    long long offset;
  };
  const WeightParams& p;
  const In* data;

  FACULA_DEVICE Row row(int r) const { return {r < p.rows ? r * p.output_channel : -1}; }
  FACULA_DEVICE Depth depth(int d, int end) const {
    if (d >= end) return {-1};
    const int place = divide(d, p.by_places);
    return {d * p.output_sample + (long long)place * p.output_space};
  }
  FACULA_DEVICE const In* at(const Row& r, const Depth& d) const {
    return r.offset >= 0 && d.offset >= 0 ? data + r.offset + d.offset : nullptr;
  }
};

// Rows are (tap, channel) of the input, depth is (sample, place of the output).
template <class E>
struct InputRows {
  using In = typename E::In;
  struct Row {
    int offset, at[3];
  };
  struct Depth {
    long long base;
    int at[3];
  };
  const WeightParams& p;
  const In* data;

  FACULA_DEVICE Row row(int r) const {
    if (r >= p.columns) return {0, {kNowhere, 0, 0}};
    Row row;
    row.offset = divide(r, p.by_channels) * p.input_channel;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i) row.at[i] = divide(r, p.dims[i].taps[1]) * p.dims[i].dilation - p.dims[i].padding;
    return row;
  }
  FACULA_DEVICE Depth depth(int d, int end) const {
    if (d >= end) return {0, {kNowhere, 0, 0}};
    Depth depth;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i) depth.at[i] = divide(d, p.dims[i].counts[1]) * p.dims[i].stride;
    depth.base = d * p.input_sample;
    return depth;
  }
  FACULA_DEVICE const In* at(const Row& r, const Depth& d) const {
    int offset = r.offset;
    bool there = true;
    FACULA_UNROLL
    for (int i = 0; i < 3; ++i) {
      const int place = r.at[i] + d.at[i];
      there = there && (unsigned)place < (unsigned)p.dims[i].from_size;
      offset += there ? place * p.dims[i].from_stride : 0;
    }
    return there ? data + d.base + offset : nullptr;
  }
};

// ---- tiles in plain arithmetic --------------------------------------------------------------------------------------

// A tile of an operand on its way to shared memory, where it lies by depth: [kDepth][kPitch]. Neighbouring threads take
// neighbouring rows, or neighbouring depths, and stay with them.
template <class E, class Source, int kRows, int kDepth, bool kAlongRows>
struct TileGather {
  using Compute = typename E::Compute;
  static constexpr int kCount = kRows * kDepth / kThreads;
  static constexpr int kStep = kAlongRows ? kThreads / kRows : kThreads / kDepth;
  static constexpr int kPitch = kRows + (16 / (int)sizeof(Compute) < 1 ? 1 : 16 / (int)sizeof(Compute));
  static_assert(kThreads % kRows == 0 && kThreads % kDepth == 0 && kCount > 0, "every thread fetches the same number");

  typename Source::Row rows[kAlongRows ? 1 : kCount];
  typename E::In held[kCount];

  FACULA_DEVICE void begin(const Source& source, int row0) {
    if constexpr (kAlongRows) {
      rows[0] = source.row(row0 + (int)threadIdx.x % kRows);
    } else {
      FACULA_UNROLL
      for (int e = 0; e < kCount; ++e) rows[e] = source.row(row0 + (int)threadIdx.x / kDepth + e * kStep);
    }
  }
  FACULA_DEVICE void fetch(const Source& source, int depth0, int end) {
    if constexpr (kAlongRows) {
      FACULA_UNROLL
      for (int e = 0; e < kCount; ++e)
        take(e, source.at(rows[0], source.depth(depth0 + (int)threadIdx.x / kRows + e * kStep, end)));
    } else {
      const typename Source::Depth depth = source.depth(depth0 + (int)threadIdx.x % kDepth, end);
      FACULA_UNROLL
      for (int e = 0; e < kCount; ++e) take(e, source.at(rows[e], depth));
    }
  }
  FACULA_DEVICE void take(int e, const typename E::In* from) {
    held[e] = typename E::In{};
    if (from) held[e] = *from;
  }
  FACULA_DEVICE void put(Compute* tile) const {
    FACULA_UNROLL
    for (int e = 0; e < kCount; ++e) {
      const int row = kAlongRows ? (int)threadIdx.x % kRows : (int)threadIdx.x / kDepth + e * kStep;
      const int depth = kAlongRows ? (int)threadIdx.x / kRows + e * kStep : (int)threadIdx.x % kDepth;
      tile[depth * kPitch + row] = E::load(held[e]);
    }
  }
};

template <class E, int kTile>
inline constexpr int kTileDepth = kTile == 128 ? 8 : 16;
template <class E, int kTile>
inline constexpr int kPlainBytes =
    4 * kTileDepth<E, kTile> * TileGather<E, Weights<E>, kTile, kTileDepth<E, kTile>, false>::kPitch *
    (int)sizeof(typename E::Compute);

// One tile of the product of `a` and `b` over depth [first, end). `put(row, column, sum)` gets every number of it,
// neighbouring threads with neighbouring columns.
template <class E, int kTile, bool kAlongA, bool kAlongB, class A, class B, class Put>
FACULA_DEVICE void plain_tile(const A& a, const B& b, int row0, int col0, int first, int end, void* shared,
                              const Put& put) {
  using Compute = typename E::Compute;
  constexpr int kDepth = kTileDepth<E, kTile>, kEach = kTile / 16;
  using FetchA = TileGather<E, A, kTile, kDepth, kAlongA>;
  using FetchB = TileGather<E, B, kTile, kDepth, kAlongB>;
  constexpr int kPitch = FetchA::kPitch;
  // Numbers that a thread reads at once from shared memory; its rows lie in groups of so many.
  constexpr int kFit = 16 / (int)sizeof(Compute) < 1 ? 1 : 16 / (int)sizeof(Compute);
  constexpr int kVec = kFit < kEach ? kFit : kEach, kStep = 16 * kVec;
  Compute* tile_a = static_cast<Compute*>(shared);
  Compute* tile_b = tile_a + 2 * kDepth * kPitch;
  const int my_row = (int)threadIdx.x / 16 * kVec, my_col = (int)threadIdx.x % 16 * kVec;

  Compute sum[kEach][kEach];
  FACULA_UNROLL
  for (int i = 0; i < kEach; ++i) FACULA_UNROLL
  for (int j = 0; j < kEach; ++j) sum[i][j] = matmul_kernels::zero_of(Compute());

  FetchA next_a;
  FetchB next_b;
  next_a.begin(a, row0);
  next_b.begin(b, col0);
  next_a.fetch(a, first, end);
  next_b.fetch(b, first, end);
  next_a.put(tile_a);
  next_b.put(tile_b);
  __syncthreads();
  int now = 0;
  for (int depth = first; depth < end; depth += kDepth) {
    const bool more = depth + kDepth < end;
    if (more) {
      next_a.fetch(a, depth + kDepth, end);
      next_b.fetch(b, depth + kDepth, end);
    }
    const Compute* use_a = tile_a + now * kDepth * kPitch;
    const Compute* use_b = tile_b + now * kDepth * kPitch;
    FACULA_UNROLL_8
    for (int d = 0; d < kDepth; ++d) {
      Pack<Compute, kVec> x[kEach / kVec], y[kEach / kVec];
      FACULA_UNROLL
      for (int i = 0; i < kEach / kVec; ++i) {
        x[i] = *reinterpret_cast<const Pack<Compute, kVec>*>(use_a + d * kPitch + i * kStep + my_row);
        y[i] = *reinterpret_cast<const Pack<Compute, kVec>*>(use_b + d * kPitch + i * kStep + my_col);
      }
      FACULA_UNROLL
      for (int i = 0; i < kEach; ++i) FACULA_UNROLL
      for (int j = 0; j < kEach; ++j)
        sum[i][j] = matmul_kernels::multiply_add(x[i / kVec].x[i % kVec], y[j / kVec].x[j % kVec], sum[i][j]);
    }
    if (more) {
      now ^= 1;
      next_a.put(tile_a + now * kDepth * kPitch);
      next_b.put(tile_b + now * kDepth * kPitch);
      __syncthreads();
    }
  }

  // Results leave through shared memory, one row of each thread at a time, so that neighbours store side by side.
  Compute* staged = static_cast<Compute*>(shared);
  for (int pass = 0; pass < kEach; ++pass) {
    __syncthreads();
    FACULA_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (i != pass) continue;
      FACULA_UNROLL
      for (int j = 0; j < kEach; ++j)
        staged[(int)threadIdx.x / 16 * kTile + j / kVec * kStep + my_col + j % kVec] = sum[i][j];
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < 16 * kTile; e += kThreads)
      put(row0 + pass / kVec * kStep + e / kTile * kVec + pass % kVec, col0 + e % kTile, staged[e]);
  }
}

// ---- what a block computes ------------------------------------------------------------------------------------------

// The group, phase and tile of a block, and what follows from them.
template <class E>
struct GatherBlock {
  const GatherParams& p;
  Line lines[3];
  int group, places, depth;
  long long tile_places, tile_columns;

  // `by_places` says whether places are rows of the product, or columns.
  FACULA_DEVICE GatherBlock(const GatherParams& params, bool by_places) : p(params) {
    const unsigned tiles = (unsigned)(p.tiles_places * p.tiles_columns);
    int which = (int)(blockIdx.x / tiles);
    if (by_places)
      matmul_kernels::tile_place(blockIdx.x % tiles, (unsigned)p.tiles_places, (unsigned)p.tiles_columns, tile_places,
                                 tile_columns);
    else
      matmul_kernels::tile_place(blockIdx.x % tiles, (unsigned)p.tiles_columns, (unsigned)p.tiles_places, tile_columns,
                                 tile_places);
    group = which % p.groups;
    which /= p.groups;
    places = p.samples;
    depth = p.channels;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i) {
      lines[i] = line_of(p.dims[i], p.turned != 0, which % p.phases[i]);
      which /= p.phases[i];
      places *= lines[i].count;
      depth *= lines[i].taps;
    }
  }
  FACULA_DEVICE Gathered<E> gathered() const {
    return {p, lines, static_cast<const typename E::In*>(p.from) + group * p.from_group, places};
  }
  FACULA_DEVICE Weights<E> weights() const {
    return {p, lines, static_cast<const typename E::In*>(p.weight) + group * p.weight_group, p.columns};
  }
  FACULA_DEVICE void put(int place, int column, typename E::Compute sum) const {
    if (place >= places || column >= p.columns) return;
    if (p.bias)
      sum = matmul_kernels::plus(sum,
                                 E::load_out(static_cast<const typename E::Out*>(p.bias)[group * p.columns + column]));
    long long offset = group * p.to_group + (long long)column * p.to_channel;
    FACULA_UNROLL
    for (int i = 2; i >= 0; --i)
      offset +=
          (long long)(lines[i].to_first + divide(place, lines[i].by_count) * lines[i].to_step) * p.dims[i].to_stride;
    static_cast<typename E::Out*>(p.to)[offset + place * p.to_sample] = E::store(sum);
  }
};

// Tensors by channels (channels-last): places are rows, and threads read along channels. Others: places are columns,
// and threads read along them.
template <class E, int kTile, bool kByChannels>
FACULA_DEVICE void gather_product(const GatherParams& p, void* shared) {
  const GatherBlock<E> block(p, kByChannels);
  const int place0 = (int)block.tile_places * kTile, column0 = (int)block.tile_columns * kTile;
  if (place0 >= block.places) return;
  if constexpr (kByChannels) {
    plain_tile<E, kTile, false, false>(
        block.gathered(), block.weights(), place0, column0, 0, block.depth, shared,
        [&](int row, int column, typename E::Compute sum) { block.put(row, column, sum); });
  } else {
    plain_tile<E, kTile, false, true>(
        block.weights(), block.gathered(), column0, place0, 0, block.depth, shared,
        [&](int row, int column, typename E::Compute sum) { block.put(column, row, sum); });
  }
}

template <class E>
struct WeightBlock {
  const WeightParams& p;
  int group, split, first, end;
  long long tile_rows, tile_columns;

  FACULA_DEVICE explicit WeightBlock(const WeightParams& params) : p(params) {
    const unsigned tiles = (unsigned)(p.tiles_rows * p.tiles_columns);
    const int which = (int)(blockIdx.x / tiles);
    matmul_kernels::tile_place(blockIdx.x % tiles, (unsigned)p.tiles_rows, (unsigned)p.tiles_columns, tile_rows,
                               tile_columns);
    group = which % p.groups;
    split = which / p.groups;
    first = split * p.split_depth;
    end = p.depth - first < p.split_depth ? p.depth : first + p.split_depth;
  }
  FACULA_DEVICE OutputRows<E> output() const {
    return {p, static_cast<const typename E::In*>(p.output) + group * p.output_group};
  }
  FACULA_DEVICE InputRows<E> input() const {
    return {p, static_cast<const typename E::In*>(p.input) + group * p.input_group};
  }
  FACULA_DEVICE void put(int row, int column, typename E::Compute sum) const;
};

// Where a number of the weight's gradient goes.
template <class E>
FACULA_DEVICE void put_weight(const WeightParams& p, int group, int row, int column, typename E::Compute sum) {
  long long offset = group * p.weight_group + (long long)row * p.weight_row +
                     (long long)divide(column, p.by_channels) * p.weight_channel;
  FACULA_UNROLL
  for (int i = 2; i >= 0; --i) offset += divide(column, p.dims[i].taps[1]) * p.dims[i].weight_stride;
  static_cast<typename E::Out*>(p.weight)[offset] = E::store(sum);
}

template <class E>
FACULA_DEVICE void WeightBlock<E>::put(int row, int column, typename E::Compute sum) const {
  if (row >= p.rows || column >= p.columns) return;
  if (p.splits == 1) return put_weight<E>(p, group, row, column, sum);
  static_cast<typename E::Compute*>(
      p.partial)[(((long long)split * p.groups + group) * p.rows + row) * p.columns + column] = sum;
}

template <class E, int kTile, bool kByChannels>
FACULA_DEVICE void weight_product(const WeightParams& p, void* shared) {
  const WeightBlock<E> block(p);
  plain_tile<E, kTile, kByChannels, kByChannels>(
      block.output(), block.input(), (int)block.tile_rows * kTile, (int)block.tile_columns * kTile, block.first,
      block.end, shared, [&](int row, int column, typename E::Compute sum) { block.put(row, column, sum); });
}

// Adds the parts of the weight's gradient, in order. A thread takes every so-many-th number.
template <class E>
FACULA_DEVICE void finish_weight(const WeightParams& p) {
  const long long each = (long long)p.groups * p.rows * p.columns;
  const auto* partial = static_cast<const typename E::Compute*>(p.partial);
  for (long long i = (long long)blockIdx.x * kThreads + threadIdx.x; i < each; i += (long long)gridDim.x * kThreads) {
    typename E::Compute sum = partial[i];
    for (int s = 1; s < p.splits; ++s) sum = matmul_kernels::plus(sum, partial[s * each + i]);
    const long long row = i / p.columns;
    put_weight<E>(p, (int)(row / p.rows), (int)(row % p.rows), (int)(i % p.columns), sum);
  }
}

// ---- few channels in a group ----------------------------------------------------------------------------------------

// One thread for each number of the result, in the order of its memory: products of few columns are bound by memory.
template <class E, bool kByChannels>
FACULA_DEVICE void gather_direct(const GatherParams& p) {
  const long long all_columns = (long long)p.groups * p.columns;
  const long long space = (long long)p.dims[0].to_size * p.dims[1].to_size * p.dims[2].to_size;
  const long long index = (long long)blockIdx.x * kThreads + threadIdx.x;
  if (index >= p.samples * all_columns * space) return;
  const long long sample = index / (all_columns * space), within = index % (all_columns * space);
  const int column = (int)(kByChannels ? within % all_columns : within / space);
  int place = (int)(kByChannels ? within / all_columns : within % space);
  int at[3], first[3], taps[3], start[3], step[3];
  Line lines[3];
  FACULA_UNROLL
  for (int i = 2; i >= 0; --i) {
    const Dim& d = p.dims[i];
    at[i] = place % d.to_size;
    place /= d.to_size;
    const int phase = p.turned ? at[i] % d.stride : 0;
    lines[i] = line_of(d, p.turned != 0, phase);
    first[i] = lines[i].first_tap;
    taps[i] = lines[i].taps;
    step[i] = lines[i].step;
    start[i] = (p.turned ? at[i] / d.stride : at[i] * d.stride) + lines[i].start;
  }
  const int group = column / p.columns, own = column % p.columns;
  const auto* from = static_cast<const typename E::In*>(p.from) + group * p.from_group + sample * p.from_sample;
  const auto* weight =
      static_cast<const typename E::In*>(p.weight) + group * p.weight_group + (long long)own * p.weight_row;
  typename E::Compute sum = matmul_kernels::zero_of(typename E::Compute());
  for (int j0 = 0; j0 < taps[0]; ++j0) {
    const int x0 = start[0] + j0 * step[0];
    if ((unsigned)x0 >= (unsigned)p.dims[0].from_size) continue;
    for (int j1 = 0; j1 < taps[1]; ++j1) {
      const int x1 = start[1] + j1 * step[1];
      if ((unsigned)x1 >= (unsigned)p.dims[1].from_size) continue;
      for (int j2 = 0; j2 < taps[2]; ++j2) {
        const int x2 = start[2] + j2 * step[2];
        if ((unsigned)x2 >= (unsigned)p.dims[2].from_size) continue;
        const auto* x = from + x0 * p.dims[0].from_stride + x1 * p.dims[1].from_stride + x2 * p.dims[2].from_stride;
        const auto* w = weight + (first[0] + j0 * lines[0].tap_step) * p.dims[0].weight_stride +
                        (first[1] + j1 * lines[1].tap_step) * p.dims[1].weight_stride +
                        (first[2] + j2 * lines[2].tap_step) * p.dims[2].weight_stride;
        for (int c = 0; c < p.channels; ++c)
          sum = matmul_kernels::multiply_add(E::load(x[(long long)c * p.from_channel]),
                                             E::load(w[(long long)c * p.weight_channel]), sum);
      }
    }
  }
  if (p.bias) sum = matmul_kernels::plus(sum, E::load_out(static_cast<const typename E::Out*>(p.bias)[column]));
  long long offset = sample * p.to_sample + group * p.to_group + (long long)own * p.to_channel;
  FACULA_UNROLL
  for (int i = 0; i < 3; ++i) offset += (long long)at[i] * p.dims[i].to_stride;
  static_cast<typename E::Out*>(p.to)[offset] = E::store(sum);
}

// One block for each number of the weight's gradient.
template <class E>
FACULA_DEVICE void weight_direct(const WeightParams& p) {
  __shared__ typename E::Compute room[kThreads];
  const int column = (int)(blockIdx.x % (unsigned)p.columns), rest = (int)(blockIdx.x / (unsigned)p.columns);
  const int row = rest % p.rows, group = rest / p.rows;
  const OutputRows<E> output{p, static_cast<const typename E::In*>(p.output) + group * p.output_group};
  const InputRows<E> input{p, static_cast<const typename E::In*>(p.input) + group * p.input_group};
  const auto output_row = output.row(row);
  const auto input_row = input.row(column);
  typename E::Compute sum = matmul_kernels::zero_of(typename E::Compute());
  for (int d = (int)threadIdx.x; d < p.depth; d += kThreads)
    if (const auto* x = input.at(input_row, input.depth(d, p.depth)))
      sum = matmul_kernels::multiply_add(E::load(*output.at(output_row, output.depth(d, p.depth))), E::load(*x), sum);
  room[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if ((int)threadIdx.x < half) room[threadIdx.x] = matmul_kernels::plus(room[threadIdx.x], room[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) put_weight<E>(p, group, row, column, room[0]);
}

template <class E>
FACULA_DEVICE void add_bias(const BiasParams& p) {
  const long long i = (long long)blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.count) return;
  const long long channel = p.by_channels ? i % p.channels : i / p.space % p.channels;
  auto* at = static_cast<typename E::Out*>(p.to) + i;
  *at = E::store(
      matmul_kernels::plus(E::load_out(*at), E::load_out(static_cast<const typename E::Out*>(p.bias)[channel])));
}

}  // namespace conv_kernels
}  // namespace facula
