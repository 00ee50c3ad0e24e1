// Batch norm and its gradients over tensors that are (N, C, S) in memory ("planes") or (N, S, C) ("rows" of channels):
// two numbers for each channel from one pass over the elements, then a second pass that writes. Blocks share the
// elements of a channel and leave what they found; how they are cut follows from sizes and addresses alone.
#pragma once

#include "gpu/kernels/layout.h"
#include "gpu/kernels/rows.h"

namespace facula {

inline constexpr int kChannelThreadsShift = 8, kChannelThreads = 1 << kChannelThreadsShift;
inline constexpr int kChannelLoads = 4;  // packs that a thread asks for before it works on them

// The order of members is what gpu/primitives/batch_norm.cpp writes. What belongs to channels is of the compute type.
struct BatchNormArgs {
  const void* in;
  const void* grad;    // gradients
  const void* weight;  // or null
  const void* bias;    // or null
  void* mean;
  void* invstd;
  void* running_mean;  // or null
  void* running_var;   // or null
  void* out;
  void* to_weight;
  void* to_bias;
  void* partials;  // [parts][2][channels]
  void* slopes;    // [3][channels]: what gradients are multiplied by, and what is taken from them
  int64_t channels;
  int64_t samples, space;           // rows: all of them, and 1
  int64_t sample_each, space_each;  // of a part
  double eps, momentum;
  Divider<int64_t> by_channels;
  int32_t sample_parts, space_parts;
  int32_t tiles;  // rows: blocks side by side
  int32_t width_shift;
};

// What a part holds of every channel.
struct ChannelPart {
  int64_t sample, past_sample, place, size;  // samples [sample, past_sample), `size` places of each from `place` on
};
FACULA_DEVICE ChannelPart channel_part(const BatchNormArgs& args, int part) {
  const int64_t a = part % args.sample_parts, b = part / args.sample_parts;
  ChannelPart p;
  p.sample = a * args.sample_each;
  p.past_sample = p.sample + args.sample_each < args.samples ? p.sample + args.sample_each : args.samples;
  p.place = b * args.space_each;
  p.size = (p.place + args.space_each < args.space ? p.place + args.space_each : args.space) - p.place;
  return p;
}

// Mean of some elements and the sum of squared distances to it. Elements come in groups that are in registers, groups
// merge by Chan's rule.
template <class C>
struct ChannelMoments {
  C count, mean, squares;
  FACULA_DEVICE void reset() { count = mean = squares = C(0); }
  FACULA_DEVICE void take(C n, C center, C around) {
    if (n == C(0)) return;
    const C all = count + n, part = n / all, apart = center - mean;
    mean += apart * part;
    squares += around + apart * apart * (count * part);
    count = all;
  }
  // Those of N elements from place `at` on that lie in [0, n).
  template <int N>
  FACULA_DEVICE void add(const C (&x)[N], int64_t at, int64_t n) {
    C sum = C(0), some = C(0), around = C(0);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      const bool in = is_part(at + e, n);
      sum += in ? x[e] : C(0);
      some += in ? C(1) : C(0);
    }
    if (some == C(0)) return;
    const C center = sum / some;
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) around += is_part(at + e, n) ? (x[e] - center) * (x[e] - center) : C(0);
    take(some, center, around);
  }
  template <int K, int N>
  FACULA_DEVICE void add_all(const C (&x)[K][N]) {
    C sum = C(0), around = C(0);
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) sum += x[k][e];
    }
    const C center = sum * C(1.0 / (K * N));
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) around += (x[k][e] - center) * (x[k][e] - center);
    }
    take(C(K * N), center, around);
  }
};
struct MergeMoments {
  static constexpr bool kCommutes = false;
  template <class C>
  FACULA_DEVICE ChannelMoments<C> operator()(ChannelMoments<C> a, const ChannelMoments<C>& b) const {
    a.take(b.count, b.mean, b.squares);
    return a;
  }
};

template <class C>
FACULA_DEVICE void write_partial(const BatchNormArgs& args, int part, int64_t channel, C first, C second) {
  C* out = static_cast<C*>(args.partials) + static_cast<int64_t>(part) * 2 * args.channels + channel;
  out[0] = first;
  out[args.channels] = second;
}

// ---- two numbers for each channel -----------------------------------------------------------------------------------

// (N, C, S): a block for each part of a channel; teams of threads take the planes in it by turns. Forward: moments.
// Backward: sums of the gradient, and of its products with the distances to the mean.
template <DType t, int N, bool kBackward>
FACULA_DEVICE void plane_sums(const BatchNormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) % args.channels;
  const int part = static_cast<int>(static_cast<int64_t>(blockIdx.x) / args.channels);
  const ChannelPart p = channel_part(args, part);
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const int member = thread & (width - 1), teams = kChannelThreads >> args.width_shift;
  const int64_t step = static_cast<int64_t>(width) * N;
  const C center = kBackward ? static_cast<const C*>(args.mean)[channel] : C(0);
  ChannelMoments<C> moments;
  moments.reset();
  Two<C> sums{C(0), C(0)};
  FACULA_NO_UNROLL
  for (int64_t sample = p.sample + (thread >> args.width_shift); sample < p.past_sample; sample += teams) {
    const int64_t start = (sample * args.channels + channel) * args.space + p.place;
    const Bits* from = static_cast<const Bits*>(args.in) + start;
    const Bits* grad = static_cast<const Bits*>(args.grad) + start;
    int64_t at = static_cast<int64_t>(member) * N - elements_before<N>(from);
    if constexpr (kBackward) {
      FACULA_NO_UNROLL
      for (; at < p.size; at += 2 * step) {
        C x[2][N], g[2][N];
        FACULA_UNROLL
        for (int k = 0; k < 2; ++k) {
          read_part<M>(from, at + k * step, p.size, center, x[k]);
          read_part<M>(grad, at + k * step, p.size, C(0), g[k]);
        }
        FACULA_UNROLL
        for (int k = 0; k < 2; ++k) {
          FACULA_UNROLL
          for (int e = 0; e < N; ++e) {
            sums.a += g[k][e];
            sums.b += g[k][e] * (x[k][e] - center);
          }
        }
      }
    } else {
      C x[kChannelLoads][N];
      FACULA_NO_UNROLL
      for (; at < p.size; at += kChannelLoads * step) {
        FACULA_UNROLL
        for (int k = 0; k < kChannelLoads; ++k) read_part<M>(from, at + k * step, p.size, C(0), x[k]);
        if (at >= 0 && at + (kChannelLoads - 1) * step + N <= p.size) {
          moments.add_all(x);
        } else {
          FACULA_UNROLL
          for (int k = 0; k < kChannelLoads; ++k) moments.add(x[k], at + k * step, p.size);
        }
      }
    }
  }
  if constexpr (kBackward) {
    __shared__ Two<C> room[kMostRowGroups];
    sums = team_all(sums, kChannelThreads, room, AddValues());
    if (thread == 0) write_partial(args, part, channel, sums.a, sums.b);
  } else {
    __shared__ ChannelMoments<C> room[kMostRowGroups];
    moments = team_all(moments, kChannelThreads, room, MergeMoments());
    if (thread == 0) write_partial(args, part, channel, moments.mean, moments.squares);
  }
}

// Which channels and rows of (N S, C) a thread has: N neighbouring channels, every `lanes`-th row.
struct RowTile {
  int64_t channel;
  int place, lane, lanes;  // number of the pack in the block, of the row, and how many rows are taken at a time
  int part;
  bool live;
};
template <int N>
FACULA_DEVICE RowTile row_tile(const BatchNormArgs& args) {
  RowTile tile;
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  tile.place = thread & (width - 1);
  tile.lane = thread >> args.width_shift;
  tile.lanes = kChannelThreads >> args.width_shift;
  const int block = static_cast<int>(blockIdx.x) % args.tiles;
  tile.part = static_cast<int>(blockIdx.x) / args.tiles;
  tile.channel = (static_cast<int64_t>(block) * width + tile.place) * N;
  tile.live = tile.channel < args.channels;
  return tile;
}

// (N S, C). The threads of a block that have the same channels put their numbers together in shared memory.
template <DType t, int N, bool kBackward>
FACULA_DEVICE void row_sums(const BatchNormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  constexpr int K = kBackward ? kChannelLoads / 2 : kChannelLoads;
  __shared__ C room[2][kChannelThreads * N];
  const RowTile tile = row_tile<N>(args);
  const ChannelPart p = channel_part(args, tile.part);
  C first[N], second[N], center[N];
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    first[e] = second[e] = C(0);
    center[e] = kBackward && tile.live ? static_cast<const C*>(args.mean)[tile.channel + e] : C(0);
  }
  if (tile.live) {
    C count = C(0);
    const auto take = [&](int64_t row, auto rows) {
      constexpr int R = decltype(rows)::value;
      C x[R][N], g[R][N];
      FACULA_UNROLL
      for (int k = 0; k < R; ++k) {
        const int64_t at = (row + k * tile.lanes) * args.channels + tile.channel;
        Pack<Bits, N> pack;
        pack.read(static_cast<const Bits*>(args.in) + at);
        unpack<M>(pack, x[k]);
        if constexpr (kBackward) {
          pack.read(static_cast<const Bits*>(args.grad) + at);
          unpack<M>(pack, g[k]);
        }
      }
      if constexpr (kBackward) {
        FACULA_UNROLL
        for (int k = 0; k < R; ++k) {
          FACULA_UNROLL
          for (int e = 0; e < N; ++e) {
            first[e] += g[k][e];
            second[e] += g[k][e] * (x[k][e] - center[e]);
          }
        }
      } else {
        // All channels have seen equally many rows.
        const C all = count + C(R), part = C(R) / all, weight = count * part;
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) {
          C mean = x[0][e], around = C(0);
          FACULA_UNROLL
          for (int k = 1; k < R; ++k) mean += x[k][e];
          mean *= C(1.0 / R);
          FACULA_UNROLL
          for (int k = 0; k < R; ++k) around += (x[k][e] - mean) * (x[k][e] - mean);
          const C apart = mean - first[e];
          first[e] += apart * part;
          second[e] += around + apart * apart * weight;
        }
        count = all;
      }
    };
    int64_t row = p.sample + tile.lane;
    FACULA_NO_UNROLL
    for (; row + (K - 1) * tile.lanes < p.past_sample; row += K * tile.lanes) take(row, Int<K>());
    FACULA_NO_UNROLL
    for (; row < p.past_sample; row += tile.lanes) take(row, Int<1>());
  }
  const int across = N << args.width_shift;
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    room[0][tile.lane * across + tile.place * N + e] = first[e];
    room[1][tile.lane * across + tile.place * N + e] = second[e];
  }
  block_barrier();
  const int own = static_cast<int>(threadIdx.x);
  const int64_t channel = tile.channel - static_cast<int64_t>(tile.place) * N + own;
  if (own >= across || channel >= args.channels) return;
  const int64_t rows = p.past_sample - p.sample;
  const auto rows_of = [&](int lane) {
    return static_cast<C>((rows - lane + tile.lanes - 1) >> (kChannelThreadsShift - args.width_shift));
  };
  C a = C(0), b = C(0);
  if constexpr (kBackward) {
    FACULA_NO_UNROLL
    for (int k = 0; k < tile.lanes; ++k) {
      a += room[0][k * across + own];
      b += room[1][k * across + own];
    }
  } else {
    FACULA_NO_UNROLL
    for (int k = 0; k < tile.lanes; ++k) a += rows_of(k) * room[0][k * across + own];
    a = a / static_cast<C>(rows);
    FACULA_NO_UNROLL
    for (int k = 0; k < tile.lanes; ++k) {
      const C apart = room[0][k * across + own] - a;
      b += room[1][k * across + own] + rows_of(k) * (apart * apart);
    }
  }
  write_partial(args, tile.part, channel, a, b);
}

inline constexpr int kFinishChannels = 8, kFinishShares = kChannelThreads / kFinishChannels;

// What the numbers of all parts say, in double. Some threads share the parts of a channel.
template <class C, bool kBackward>
FACULA_DEVICE void channel_finish(const BatchNormArgs& args) {
  __shared__ double room[2][kFinishShares][kFinishChannels];
  const int lane = static_cast<int>(threadIdx.x) & (kFinishChannels - 1);
  const int share = static_cast<int>(threadIdx.x) / kFinishChannels;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kFinishChannels + lane;
  const bool live = channel < args.channels;
  const C* partials = static_cast<const C*>(args.partials) + (live ? channel : 0);
  const int parts = args.sample_parts * args.space_parts;
  const double count = static_cast<double>(args.samples) * static_cast<double>(args.space);
  const auto first = [&](int part) {
    return static_cast<double>(partials[static_cast<int64_t>(part) * 2 * args.channels]);
  };
  const auto second = [&](int part) {
    return static_cast<double>(partials[(static_cast<int64_t>(part) * 2 + 1) * args.channels]);
  };
  const auto size = [&](int part) {
    const ChannelPart p = channel_part(args, part);
    return static_cast<double>(p.past_sample - p.sample) * static_cast<double>(p.size);
  };
  const auto all_shares = [&](int which) {
    double sum = 0;
    FACULA_NO_UNROLL
    for (int k = 0; k < kFinishShares; ++k) sum += room[which][k][lane];
    return sum;
  };
  double a = 0, b = 0;
  for (int part = share; part < parts; part += kFinishShares) a += kBackward ? first(part) : size(part) * first(part);
  room[0][share][lane] = a;
  block_barrier();
  a = all_shares(0);
  const double mean = a / count;
  for (int part = share; part < parts; part += kFinishShares) {
    if constexpr (kBackward) {
      b += second(part);
    } else {
      const double apart = first(part) - mean;
      b += second(part) + size(part) * (apart * apart);
    }
  }
  room[1][share][lane] = b;
  block_barrier();
  if (share != 0 || !live) return;
  b = all_shares(1);
  if constexpr (kBackward) {
    const double inverse = static_cast<double>(static_cast<const C*>(args.invstd)[channel]);
    const double k = args.weight ? inverse * static_cast<double>(static_cast<const C*>(args.weight)[channel]) : inverse;
    static_cast<C*>(args.to_bias)[channel] = static_cast<C>(a);
    static_cast<C*>(args.to_weight)[channel] = static_cast<C>(b * inverse);
    C* slopes = static_cast<C*>(args.slopes) + channel;
    slopes[0] = static_cast<C>(k);
    slopes[args.channels] = static_cast<C>(k * b * inverse * inverse / count);
    slopes[2 * args.channels] = static_cast<C>(k * a / count);
  } else {
    const double variance = b / count;
    static_cast<C*>(args.mean)[channel] = static_cast<C>(mean);
    static_cast<C*>(args.invstd)[channel] = static_cast<C>(1.0 / ::sqrt(variance + args.eps));
    const auto move = [&](void* running, double now) {
      if (!running) return;
      C& r = static_cast<C*>(running)[channel];
      r = static_cast<C>((1.0 - args.momentum) * static_cast<double>(r) + args.momentum * now);
    };
    move(args.running_mean, mean);
    move(args.running_var, variance * (count / (count - 1.0)));
  }
}

// ---- the pass that writes -------------------------------------------------------------------------------------------

enum class BatchNormPass { Forward, Backward, BackwardFixed };  // fixed: statistics that do not depend on the input

// What happens to the elements of a channel.
template <class C, BatchNormPass kPass>
struct ChannelMap {
  C center, scale, tilt, level;
  FACULA_DEVICE void read(const BatchNormArgs& args, int64_t channel) {
    if constexpr (kPass == BatchNormPass::Forward) {
      center = static_cast<const C*>(args.mean)[channel];
      scale = static_cast<const C*>(args.invstd)[channel];
      if (args.weight) scale *= static_cast<const C*>(args.weight)[channel];
      level = args.bias ? static_cast<const C*>(args.bias)[channel] : C(0);
    } else {
      const C* slopes = static_cast<const C*>(args.slopes) + channel;
      scale = slopes[0];
      if constexpr (kPass == BatchNormPass::Backward) {
        center = static_cast<const C*>(args.mean)[channel];
        tilt = slopes[args.channels];
        level = slopes[2 * args.channels];
      }
    }
  }
  FACULA_DEVICE C of(C x, C g) const {
    if constexpr (kPass == BatchNormPass::Forward) return (x - center) * scale + level;
    else if constexpr (kPass == BatchNormPass::Backward) return g * scale - level - (x - center) * tilt;
    else return g * scale;
  }
};

// (N, C, S): teams of threads have a plane each, or a stretch of one.
template <DType t, int N, BatchNormPass kPass>
FACULA_DEVICE void plane_apply(const BatchNormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  constexpr bool kIn = kPass != BatchNormPass::BackwardFixed, kGrad = kPass != BatchNormPass::Forward;
  constexpr int K = kChannelLoads / 2;
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const int64_t stretch = static_cast<int64_t>(blockIdx.x) % args.space_parts;
  const int64_t plane = static_cast<int64_t>(blockIdx.x) / args.space_parts * (kChannelThreads >> args.width_shift) +
                        (thread >> args.width_shift);
  if (plane >= args.samples * args.channels) return;
  int64_t quotient = plane;
  const int64_t channel = divide(quotient, args.by_channels), place = stretch * args.space_each;
  const int64_t size = (place + args.space_each < args.space ? place + args.space_each : args.space) - place;
  ChannelMap<C, kPass> map;
  map.read(args, channel);
  const int64_t start = plane * args.space + place, step = static_cast<int64_t>(width) * N;
  const Bits* from = static_cast<const Bits*>(args.in) + start;
  const Bits* grad = static_cast<const Bits*>(args.grad) + start;
  Bits* to = static_cast<Bits*>(args.out) + start;
  FACULA_NO_UNROLL
  for (int64_t at = static_cast<int64_t>(thread & (width - 1)) * N - elements_before<N>(to); at < size;
       at += K * step) {
    C x[K][N], g[K][N];
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      if constexpr (kIn) read_part<M>(from, at + k * step, size, C(0), x[k]);
      if constexpr (kGrad) read_part<M>(grad, at + k * step, size, C(0), g[k]);
    }
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) x[k][e] = map.of(kIn ? x[k][e] : C(0), kGrad ? g[k][e] : C(0));
      write_part<M>(to, at + k * step, size, x[k]);
    }
  }
}

// (N S, C): a thread keeps its channels for some rows.
template <DType t, int N, BatchNormPass kPass>
FACULA_DEVICE void row_apply(const BatchNormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  constexpr bool kIn = kPass != BatchNormPass::BackwardFixed, kGrad = kPass != BatchNormPass::Forward;
  const RowTile tile = row_tile<N>(args);
  if (!tile.live) return;
  const ChannelPart p = channel_part(args, tile.part);
  ChannelMap<C, kPass> maps[N];
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) maps[e].read(args, tile.channel + e);
  const auto take = [&](int64_t row, auto rows) {
    constexpr int R = decltype(rows)::value;
    Pack<Bits, N> in[R], grad[R];
    FACULA_UNROLL
    for (int k = 0; k < R; ++k) {
      const int64_t at = (row + k * tile.lanes) * args.channels + tile.channel;
      if constexpr (kIn) in[k].read(static_cast<const Bits*>(args.in) + at);
      if constexpr (kGrad) grad[k].read(static_cast<const Bits*>(args.grad) + at);
    }
    FACULA_UNROLL
    for (int k = 0; k < R; ++k) {
      C x[N], g[N];
      if constexpr (kIn) unpack<M>(in[k], x);
      if constexpr (kGrad) unpack<M>(grad[k], g);
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) x[e] = maps[e].of(kIn ? x[e] : C(0), kGrad ? g[e] : C(0));
      pack_values<M>(x, in[k]);
      in[k].write(static_cast<Bits*>(args.out) + (row + k * tile.lanes) * args.channels + tile.channel);
    }
  };
  constexpr int K = kGrad && kIn ? kChannelLoads / 2 : kChannelLoads;
  int64_t row = p.sample + tile.lane;
  FACULA_NO_UNROLL
  for (; row + (K - 1) * tile.lanes < p.past_sample; row += K * tile.lanes) take(row, Int<K>());
  FACULA_NO_UNROLL
  for (; row < p.past_sample; row += tile.lanes) take(row, Int<1>());
}

}  // namespace facula
