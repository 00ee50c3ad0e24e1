// layer_norm and rms_norm over rows of contiguous tensors, and their gradients. Rows that fit into the registers of a team are read once
// and written once.
#pragma once

#include "gpu/kernels/rows.h"

namespace facula {

// The order of members is what gpu/primitives/norm.cpp writes. Weight and bias are of one dtype, or null.
struct NormArgs {
  const void* in;
  const void* grad;  // backward only
  const void* weight;
  const void* bias;
  void* out;       // the result, or the gradient of the input; backward: may be null
  void* partials;  // backward: [blocks][2][n] sums of the gradients of weight and bias, or null
  void* stats;     // backward of long rows: mean and inverse deviation of each row
  int64_t rows;
  int64_t n;
  double eps;
  int32_t width_shift;
  int32_t aligned;  // weight and bias may be read in packs
};

// N elements of a weight from `at` on, 0 outside of the row.
template <class W, int N, class Index>
FACULA_DEVICE void read_weight_bits(const void* weight, Index at, Index n, bool aligned,
                                    Pack<typename W::Bits, N>& pack) {
  const typename W::Bits* from = static_cast<const typename W::Bits*>(weight);
  if (aligned && at + N <= n) {
    pack.read(from + at);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) pack.at[e] = is_part(at + e, n) ? from[at + e] : W::store(typename W::Compute(0));
  }
}
template <class W, int N, class Index>
FACULA_DEVICE void read_weight(const void* weight, Index at, Index n, bool aligned, typename W::Compute (&values)[N]) {
  Pack<typename W::Bits, N> pack;
  read_weight_bits<W>(weight, at, n, aligned, pack);
  unpack<W>(pack, values);
}

// x becomes (x - mean) r, times the weight, plus the bias.
template <class W, class C, int N>
FACULA_DEVICE void scale_and_shift(const NormArgs& args, C mean, C r, const Pack<typename W::Bits, N>& weight,
                                   const Pack<typename W::Bits, N>& bias, C (&x)[N]) {
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) x[e] = (x[e] - mean) * r;
  if (args.weight && args.bias) {
    C w[N], b[N];
    unpack<W>(weight, w);
    unpack<W>(bias, b);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[e] = expr::m::fma(x[e], w[e], b[e]);
  } else if (args.weight) {
    C w[N];
    unpack<W>(weight, w);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[e] *= w[e];
  } else if (args.bias) {
    C b[N];
    unpack<W>(bias, b);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[e] += b[e];
  }
}
// The same for K packs that begin at at(0), at(1), ...: the weights of two come at once, where registers have room for them.
template <class W, class C, int N, int K, class At, class Index>
FACULA_DEVICE void scale_and_shift(const NormArgs& args, At at, Index n, C mean, C r, C (&x)[K][N]) {
  constexpr int kAtOnce = sizeof(typename W::Bits) <= 2 && K % 2 == 0 ? 2 : 1;
  Pack<typename W::Bits, N> weights[kAtOnce], biases[kAtOnce];
  FACULA_UNROLL
  for (int first = 0; first < K; first += kAtOnce) {
    FACULA_UNROLL
    for (int k = 0; k < kAtOnce; ++k) {
      if (args.weight) read_weight_bits<W>(args.weight, at(first + k), n, args.aligned != 0, weights[k]);
      if (args.bias) read_weight_bits<W>(args.bias, at(first + k), n, args.aligned != 0, biases[k]);
    }
    FACULA_UNROLL
    for (int k = 0; k < kAtOnce; ++k) scale_and_shift<W>(args, mean, r, weights[k], biases[k], x[first + k]);
  }
}

// The sum of squares of a thread's elements less their mean. kWhole: all of them lie in the row, or none.
template <bool kWhole = false, class C, int N, class Index>
FACULA_DEVICE C squares(const C (&x)[N], C mean, Index at, Index n) {
  C sum = C(0);
  if constexpr (kWhole) {
    if (at >= n) return sum;
  }
  if (kWhole || (at >= 0 && at + N <= n)) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum = expr::m::fma(x[e] - mean, x[e] - mean, sum);
  } else {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e)
      if (is_part(at + e, n)) sum = expr::m::fma(x[e] - mean, x[e] - mean, sum);
  }
  return sum;
}

// How many elements of a row of n a group of threads holds, in K packs of N each; the row begins `before` elements after its first pack.
template <int N, int K>
FACULA_DEVICE int group_count(int group, int width, int before, int n) {
  const int lanes = width < kRowLanes ? width : kRowLanes;
  int count = 0;
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    const int from = (k * width + group * lanes) * N - before, to = from + lanes * N;
    const int begin = from > 0 ? from : 0, end = to < n ? to : n;
    count += end > begin ? end - begin : 0;
  }
  return count;
}

// What sums are divided by, as factors. A mean is rounded as if it were divided: equal numbers have that number as their mean, and differ
// from it by nothing, where a large inverse deviation would make much of the last bit.
template <class C>
struct NormCount {
  C count, one_over;
  FACULA_DEVICE explicit NormCount(int64_t n) : count(static_cast<C>(n > 0 ? n : 1)), one_over(C(1) / count) {}
  FACULA_DEVICE C mean(C sum) const {
    const C near = sum * one_over;
    return expr::m::fma(expr::m::fma(-near, count, sum), one_over, near);
  }
};

// What a group of kRowLanes threads, or in the end a whole team, finds in its part of a row: the mean, and sums of the squares of what
// differs from it, of v, and of v times what differs, where v is what gradients ask for. Groups find their own and a team joins them: one
// barrier, and no difference of large sums.
template <class C>
struct NormSums {
  C squares, level, slope;
};
template <class C>
struct NormGroup {
  C mean, squares, level, slope;
};
struct AddNormSums {
  static constexpr bool kCommutes = true;
  template <class C>
  FACULA_DEVICE NormSums<C> operator()(const NormSums<C>& a, const NormSums<C>& b) const {
    return {a.squares + b.squares, a.level + b.level, a.slope + b.slope};
  }
};
// The mean of what `lanes` threads hold, `own` elements in all; 0 where rows are not centred.
template <bool kCenter, class C, int N, int K>
FACULA_DEVICE C group_mean(const C (&x)[K][N], int lanes, const NormCount<C>& own) {
  if constexpr (!kCenter) return C(0);
  C sum = C(0);
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) sum += x[k][e];
  }
  return own.mean(lanes_all(sum, lanes, AddValues()));
}
// Makes what a group found that of its team. `room` was not used since the last barrier but one; `count` is that of the group whose part
// this thread reads.
template <bool kCenter, bool kGradient, class C>
FACULA_DEVICE void join_groups(C& mean, NormSums<C>& sums, int width, const NormCount<C>& whole, C count,
                               NormGroup<C>* room) {
  const int thread = static_cast<int>(threadIdx.x);
  const int groups = width / kRowLanes, first = (thread & ~(width - 1)) / kRowLanes;
  if ((thread & (kRowLanes - 1)) == 0) room[thread / kRowLanes] = {mean, sums.squares, sums.level, sums.slope};
  block_barrier();
  const NormGroup<C> part = room[first + (thread & (groups - 1))];
  sums = {part.squares, part.level, part.slope};
  if constexpr (kCenter) {
    mean = whole.mean(lanes_all(part.mean * count, groups, AddValues()));
    const C off = part.mean - mean;
    sums.squares = expr::m::fma(count * off, off, sums.squares);
    sums.slope = expr::m::fma(part.level, off, sums.slope);
  }
  if constexpr (kGradient) sums = lanes_all(sums, groups, AddNormSums());
  else sums.squares = lanes_all(sums.squares, groups, AddValues());
}
#if defined(SIMGPU)
template <class C>
FACULA_DEVICE C inverse_root(C x) {
  return C(1) / expr::m::sqrt(x);
}
#else
FACULA_DEVICE float inverse_root(float x) { return ::rsqrtf(x); }
FACULA_DEVICE double inverse_root(double x) { return ::rsqrt(x); }
#endif

// ---- forward ------------------------------------------------------------------------------------------------------------------

// Mean and inverse deviation of the row whose parts a team holds in x. This thread's group has `own` elements, that whose part it reads when
// groups are joined `other`; the row has `live` elements, or 0 where there is none.
template <bool kCenter, bool kWhole, class C, int N, int K, class At>
FACULA_DEVICE C norm_moments(const NormArgs& args, const C (&x)[K][N], At at, int live, const NormCount<C>& whole,
                             const NormCount<C>& own, C other, NormGroup<C>* room, C& mean) {
  const int width = 1 << args.width_shift, lanes = width < kRowLanes ? width : kRowLanes;
  mean = group_mean<kCenter>(x, lanes, own);
  NormSums<C> sums{C(0), C(0), C(0)};
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) sums.squares += squares<kWhole>(x[k], mean, at(k), live);
  sums.squares = lanes_all(sums.squares, lanes, AddValues());
  if (width > kRowLanes) join_groups<kCenter, false>(mean, sums, width, whole, other, room);
  return inverse_root(expr::m::fma(sums.squares, whole.one_over, static_cast<C>(args.eps)));
}

// Rows of which every one begins where packs may: a block walks many of them, the weights stay in registers, and the parts of a row are on
// their way while the one before is worked on. Packs lie in the row or do not. What all blocks hold at once has fewer than 2^31 elements.
template <DType t, DType w, int N, int K, bool kCenter>
FACULA_DEVICE void norm_walk(const NormArgs& args) {
  using M = Memory<t>;
  using W = Memory<w>;
  using C = typename M::Compute;
  __shared__ NormGroup<C> rooms[2][kMostRowGroups];  // in turn: one barrier a row is enough
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const int member = thread & (width - 1), n = static_cast<int>(args.n), groups = width / kRowLanes;
  const auto at = [&](int k) { return (k * width + member) * N; };
  Pack<typename W::Bits, N> weights[K], biases[K];
  Pack<typename M::Bits, N> next[K];
  const int teams = static_cast<int>(blockDim.x) >> args.width_shift, step = static_cast<int>(gridDim.x) * teams;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * teams, row = first + (thread >> args.width_shift);
  int rounds = static_cast<int>((args.rows - first + step - 1) / step);                  // of the block
  int lives = row < args.rows ? static_cast<int>((args.rows - row - 1) / step) + 1 : 0;  // of this team
  int64_t offset = row * args.n + member * N;
  const auto fetch = [&](bool live) {
    FACULA_UNROLL
    for (int k = 0; k < K; ++k)
      if (live && at(k) < n) next[k].read(static_cast<const typename M::Bits*>(args.in) + offset + k * width * N);
  };
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) next[k].clear();
  fetch(lives > 0);
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    if (at(k) >= n) continue;
    if (args.weight) weights[k].read(static_cast<const typename W::Bits*>(args.weight) + at(k));
    if (args.bias) biases[k].read(static_cast<const typename W::Bits*>(args.bias) + at(k));
  }
  const NormCount<C> whole(n), own(group_count<N, K>(member / kRowLanes, width, 0, n));
  const C other = static_cast<C>(groups > 1 ? group_count<N, K>(thread & (groups - 1), width, 0, n) : n);
  FACULA_NO_UNROLL
  for (; rounds > 0; --rounds, --lives) {
    C x[K][N], mean;
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) unpack<M>(next[k], x[k]);
    offset += step * n;
    fetch(lives > 1);
    const C r = norm_moments<kCenter, true>(args, x, at, n, whole, own, other, rooms[rounds & 1], mean);
    if (lives <= 0) continue;
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      if (at(k) >= n) continue;
      weights[k].stay_packed();
      biases[k].stay_packed();
      scale_and_shift<W>(args, mean, r, weights[k], biases[k], x[k]);
      Pack<typename M::Bits, N> pack;
      pack_values<M, true>(x[k], pack);
      pack.write(static_cast<typename M::Bits*>(args.out) + (offset - step * n) + k * width * N);
    }
  }
}

// Rows that begin anywhere, one for each team.
template <DType t, DType w, int N, int K, bool kCenter>
FACULA_DEVICE void norm_rows(const NormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ NormGroup<C> room[kMostRowGroups];
  const RowPlace place = row_place(args.rows, args.width_shift);
  const int n = place.live ? static_cast<int>(args.n) : 0, groups = place.width / kRowLanes;
  const int64_t start = (place.live ? place.row : 0) * args.n;
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.in) + start;
  const int before = elements_before<N>(from);
  const auto at = [&](int k) { return (k * place.width + place.member) * N - before; };
  C x[K][N], mean;
  read_row<M>(from, at, n, C(0), x);
  const auto count_of = [&](int group) {
    return group_count<N, K>(group, place.width, before, static_cast<int>(args.n));
  };
  const C other = static_cast<C>(count_of(static_cast<int>(threadIdx.x) & (groups > 1 ? groups - 1 : 0)));
  const C r = norm_moments<kCenter, false>(args, x, at, n, NormCount<C>(args.n),
                                           NormCount<C>(count_of(place.member / kRowLanes)), other, room, mean);
  if (!place.live) return;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + start;
  scale_and_shift<Memory<w>>(args, at, n, mean, r, x);
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) write_part<M>(to, at(k), n, x[k]);
}

// One block a row, of any length: the row is read three times.
template <DType t, DType w, int N, bool kCenter>
FACULA_DEVICE void norm_long(const NormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C room[kMostRowGroups];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * args.n, n = args.n;
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.in) + start;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + start;
  const int before = elements_before<N>(from);
  const NormCount<C> whole(n);
  const auto over = [&](auto f) {
    FACULA_NO_UNROLL
    for (int64_t at = static_cast<int64_t>(threadIdx.x) * N - before; at < n;
         at += static_cast<int64_t>(blockDim.x) * N) {
      C x[1][N];
      read_part<M>(from, at, n, C(0), x[0]);
      f(at, x);
    }
  };
  C mean = C(0);
  if constexpr (kCenter) {
    over([&](int64_t, C(&x)[1][N]) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) mean += x[0][e];
    });
    mean = whole.mean(team_all(mean, static_cast<int>(blockDim.x), room, AddValues()));
  }
  C sum = C(0);
  over([&](int64_t at, C(&x)[1][N]) { sum += squares(x[0], mean, at, n); });
  const C variance = team_all(sum, static_cast<int>(blockDim.x), room, AddValues()) * whole.one_over;
  const C r = inverse_root(variance + static_cast<C>(args.eps));
  over([&](int64_t at, C(&x)[1][N]) {
    scale_and_shift<Memory<w>>(
        args, [at](int) { return at; }, n, mean, r, x);
    write_part<M>(to, at, n, x[0]);
  });
}

// ---- gradients ----------------------------------------------------------------------------------------------------------------
// With h = (x - mean) r and v = grad times weight: (v - mean of v - h mean of v h) r for the input; sums over the rows of grad h and
// of grad for weight and bias. A block walks many rows and keeps its part of these sums in registers.

template <DType t, DType tw, int N, int K, bool kCenter>
FACULA_DEVICE void norm_backward(const NormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ NormGroup<C> rooms[2][kMostRowGroups];  // in turn: one barrier a row is enough
  FACULA_DYNAMIC_SHARED(C, sums);                    // 2 n, where a block has several teams
  const int thread = static_cast<int>(threadIdx.x), width = 1 << args.width_shift;
  const int member = thread & (width - 1), team = thread >> args.width_shift;
  const int teams = static_cast<int>(blockDim.x) >> args.width_shift;
  const int n = static_cast<int>(args.n), lanes = width < kRowLanes ? width : kRowLanes, groups = width / kRowLanes;
  const auto at = [&](int k) { return (k * width + member) * N; };
  C w[K][N], weight_sum[K][N], bias_sum[K][N];
  FACULA_UNROLL
  for (int k = 0; k < K; ++k) {
    if (args.weight) read_weight<Memory<tw>>(args.weight, at(k), n, args.aligned != 0, w[k]);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      if (!args.weight) w[k][e] = C(1);
      weight_sum[k][e] = bias_sum[k][e] = C(0);
    }
  }
  // The parts of a row are on their way while the one before is worked on. Rows begin where packs may: none reaches over an end.
  Pack<typename M::Bits, N> next_x[K], next_g[K];
  const auto fetch = [&](int64_t row) {
    const typename M::Bits* from = static_cast<const typename M::Bits*>(args.in) + row * args.n;
    const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.grad) + row * args.n;
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      next_x[k].clear();
      next_g[k].clear();
      if (row >= args.rows || at(k) >= n) continue;
      next_x[k].read(from + at(k));
      next_g[k].read(grad + at(k));
    }
  };
  const C other = static_cast<C>(groups > 1 ? group_count<N, K>(thread & (groups - 1), width, 0, n) : n);
  const NormCount<C> whole(n), own(group_count<N, K>(member / kRowLanes, width, 0, n));
  const int64_t step = static_cast<int64_t>(gridDim.x) * teams;
  fetch(static_cast<int64_t>(blockIdx.x) * teams + team);
  int turn_of_room = 0;
  FACULA_NO_UNROLL
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * teams; first < args.rows; first += step) {
    const int64_t row = first + team;
    C x[K][N], g[K][N];
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      unpack<M>(next_x[k], x[k]);
      unpack<M>(next_g[k], g[k]);
    }
    if (first + step < args.rows) fetch(row + step);
    C mean = group_mean<kCenter>(x, lanes, own);
    NormSums<C> found{C(0), C(0), C(0)};
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      if (at(k) >= n) continue;
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) {
        const C d = x[k][e] - mean, v = g[k][e] * w[k][e];
        found.squares = expr::m::fma(d, d, found.squares);
        found.level += v;
        found.slope = expr::m::fma(v, d, found.slope);
      }
    }
    found = lanes_all(found, lanes, AddNormSums());
    if (groups > 1) {
      join_groups<kCenter, true>(mean, found, width, whole, other, rooms[turn_of_room]);
      turn_of_room ^= 1;
    }
    // Behind the last row everything is zero, and stays so without an eps.
    const C variance = found.squares * whole.one_over;
    const C r = row < args.rows ? inverse_root(variance + static_cast<C>(args.eps)) : C(0);
    const C level = kCenter ? found.level * whole.one_over : C(0), slope = found.slope * r * whole.one_over;
    typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + row * args.n;
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) {
        const C h = (x[k][e] - mean) * r;
        weight_sum[k][e] = expr::m::fma(g[k][e], h, weight_sum[k][e]);
        bias_sum[k][e] += g[k][e];
        x[k][e] = expr::m::fma(-h, slope, expr::m::fma(g[k][e], w[k][e], -level)) * r;
      }
      if (!args.out || row >= args.rows || at(k) >= n) continue;
      Pack<typename M::Bits, N> pack;
      pack_values<M, true>(x[k], pack);
      pack.write(to + at(k));
    }
  }
  if (!args.partials) return;
  C* out = static_cast<C*>(args.partials) + static_cast<int64_t>(blockIdx.x) * 2 * args.n;
  // Team after team adds its sums to the first one's, in shared memory.
  FACULA_NO_UNROLL
  for (int turn = 0; turn < teams; ++turn) {
    if (teams > 1) block_barrier();
    if (team != turn) continue;
    FACULA_UNROLL
    for (int k = 0; k < K; ++k) {
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) {
        const int place = at(k) + e;
        if (place >= n) continue;
        if (turn > 0) {
          weight_sum[k][e] += sums[place];
          bias_sum[k][e] += sums[n + place];
        }
        if (turn + 1 < teams) {
          sums[place] = weight_sum[k][e];
          sums[n + place] = bias_sum[k][e];
        } else {
          out[place] = weight_sum[k][e];
          out[n + place] = bias_sum[k][e];
        }
      }
    }
  }
}

// Rows that do not fit into registers, one block each; leaves mean and inverse deviation for `norm_columns`.
template <DType t, DType tw, int N, bool kCenter>
FACULA_DEVICE void norm_backward_long(const NormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  __shared__ C room[kMostRowGroups];
  __shared__ Two<C> pairs[kMostRowGroups];
  const int64_t row = blockIdx.x, n = args.n, start = row * n;
  const int threads = static_cast<int>(blockDim.x);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.in) + start;
  const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.grad) + start;
  const int before = elements_before<N>(from);
  const NormCount<C> whole(n);
  const auto over = [&](auto f) {
    FACULA_NO_UNROLL
    for (int64_t at = static_cast<int64_t>(threadIdx.x) * N - before; at < n; at += static_cast<int64_t>(threads) * N)
      f(at);
  };
  C mean = C(0), sum = C(0);
  C x[N], g[N], w[N];
  if constexpr (kCenter) {
    over([&](int64_t at) {
      read_part<M>(from, at, n, C(0), x);
      FACULA_UNROLL
      for (int e = 0; e < N; ++e) mean += x[e];
    });
    mean = whole.mean(team_all(mean, threads, room, AddValues()));
  }
  over([&](int64_t at) {
    read_part<M>(from, at, n, C(0), x);
    sum += squares(x, mean, at, n);
  });
  const C r = inverse_root(team_all(sum, threads, room, AddValues()) * whole.one_over + static_cast<C>(args.eps));
  if (threadIdx.x == 0 && args.stats) static_cast<Two<C>*>(args.stats)[row] = {mean, r};
  if (!args.out) return;
  // x becomes h, g becomes the gradient times the weight.
  const auto read_both = [&](int64_t at) {
    read_part<M>(from, at, n, mean, x);
    read_part<M>(grad, at, n, C(0), g);
    if (args.weight) read_weight<Memory<tw>>(args.weight, at, n, args.aligned != 0, w);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      x[e] = (x[e] - mean) * r;
      if (args.weight) g[e] *= w[e];
    }
  };
  Two<C> along = {C(0), C(0)};
  over([&](int64_t at) {
    read_both(at);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) {
      along.a += g[e];
      along.b += g[e] * x[e];
    }
  });
  along = team_all(along, threads, pairs, AddValues());
  const C level = kCenter ? along.a * whole.one_over : C(0), slope = along.b * whole.one_over;
  typename M::Bits* to = static_cast<typename M::Bits*>(args.out) + start;
  over([&](int64_t at) {
    read_both(at);
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) x[e] = (g[e] - level - x[e] * slope) * r;
    write_part<M>(to, at, n, x);
  });
}
// Partial sums over rows for weight and bias: a thread has a column, gridDim.y blocks share the rows.
template <DType t>
FACULA_DEVICE void norm_columns(const NormArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, n = args.n;
  if (column >= n) return;
  const Two<C>* stats = static_cast<const Two<C>*>(args.stats);
  const typename M::Bits* in = static_cast<const typename M::Bits*>(args.in) + column;
  const typename M::Bits* grad = static_cast<const typename M::Bits*>(args.grad) + column;
  C weight_sum = C(0), bias_sum = C(0);
  FACULA_NO_UNROLL
  for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const C g = M::load(grad[row * n]);
    weight_sum += g * ((M::load(in[row * n]) - stats[row].a) * stats[row].b);
    bias_sum += g;
  }
  C* out = static_cast<C*>(args.partials) + static_cast<int64_t>(blockIdx.y) * 2 * n + column;
  out[0] = weight_sum;
  out[n] = bias_sum;
}

// The order of members is what gpu/primitives/norm.cpp writes.
struct ColumnSumArgs {
  const void* in;  // [rows][columns] in the compute type
  void* first;     // sums of the first half of the columns, or null
  void* second;    // of the others, or null
  int64_t rows, columns;
};
inline constexpr int kSumColumns = 32, kSumShares = 8;

template <class C>
FACULA_DEVICE void column_sums(const ColumnSumArgs& args) {
  __shared__ C room[kSumShares][kSumColumns];
  const int lane = static_cast<int>(threadIdx.x) & (kSumColumns - 1),
            share = static_cast<int>(threadIdx.x) / kSumColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + lane, half = args.columns / 2;
  const bool live = column < args.columns;
  C sum = C(0);
  if (live) {
    const C* from = static_cast<const C*>(args.in) + column;
    FACULA_NO_UNROLL
    for (int64_t row = share; row < args.rows; row += 4 * kSumShares) {
      C x[4];
      FACULA_UNROLL
      for (int k = 0; k < 4; ++k)
        x[k] = row + k * kSumShares < args.rows ? from[(row + k * kSumShares) * args.columns] : C(0);
      sum += (x[0] + x[1]) + (x[2] + x[3]);
    }
  }
  room[share][lane] = sum;
  block_barrier();
  if (share != 0 || !live) return;
  FACULA_UNROLL
  for (int k = 1; k < kSumShares; ++k) sum += room[k][lane];
  C* out = static_cast<C*>(column < half ? args.first : args.second);
  if (out) out[column < half ? column : column - half] = sum;
}

}  // namespace facula
