// Pooling over up to three dims of space: the largest entry of windows and its place, means of windows, and the gradients of both. A thread
// makes one element, or N neighbours where channels lie side by side. Tensors are (N, C, space) or (N, space, C) in memory.
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

// The windows along one dim (cpu/pool.h). Those of an even share (`kernel` 0) begin at floor(o in / out) and end before
// ceil((o + 1) in / out).
struct PoolDim {
  int64_t in, out, kernel, stride, padding, dilation;

  FACULA_DEVICE int64_t begin(int64_t o) const { return kernel == 0 ? o * in / out : o * stride - padding; }
  FACULA_DEVICE int64_t end(int64_t o) const {
    return kernel == 0 ? ((o + 1) * in + out - 1) / out : begin(o) + (kernel - 1) * dilation + 1;
  }
  // The first entry of a window that lies inside.
  FACULA_DEVICE int64_t first_inside(int64_t o) const {
    const int64_t i = begin(o);
    return i >= 0 ? i : i + (-i + dilation - 1) / dilation * dilation;
  }
  FACULA_DEVICE int64_t last_inside(int64_t o) const {
    const int64_t e = end(o);
    return e < in ? e : in;
  }
  // The windows that reach over entry i: [first_window, last_window). Those with gaps may leave it out.
  FACULA_DEVICE int64_t first_window(int64_t i) const {
    if (kernel == 0) return i * out / in;
    const int64_t o = i + padding - (kernel - 1) * dilation;
    return o <= 0 ? 0 : (o + stride - 1) / stride;
  }
  FACULA_DEVICE int64_t last_window(int64_t i) const {
    const int64_t o = kernel == 0 ? ((i + 1) * out + in - 1) / in : (i + padding) / stride + 1;
    return o < out ? o : out;
  }
};

// The order of members is what gpu/primitives/pool.cpp writes.
struct PoolArgs {
  const void* from;
  void* to;
  int64_t* indices;
  int64_t count;  // of what threads make
  PoolDim dims[3];
  Divider<int64_t> channels, sizes[3];  // channels in groups of N; sizes of `to`
  int64_t divisor;                      // what sums are divided by; 0: the number of entries
  int32_t channels_last;
  int32_t count_padding;
};

// What a thread makes: its place in space, and where its plane begins in `from`, whose entries are `step` apart.
struct PoolPlace {
  int64_t at[3], base, step;
};
template <int N>
FACULA_DEVICE PoolPlace pool_place(const PoolArgs& args, int64_t number, int64_t plane) {
  PoolPlace place;
  int64_t channel = 0;
  if (args.channels_last != 0) channel = divide(number, args.channels) * N;
  FACULA_UNROLL
  for (int d = 2; d >= 0; --d) place.at[d] = divide(number, args.sizes[d]);
  place.step = args.channels_last != 0 ? static_cast<int64_t>(args.channels.divisor) * N : 1;
  place.base = number * plane * place.step + channel;
  return place;
}
FACULA_DEVICE int64_t pool_number() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

template <class M, int N>
FACULA_DEVICE void read_values(const typename M::Bits* from, typename M::Compute (&values)[N]) {
  Pack<typename M::Bits, N> pack;
  pack.read(from);
  unpack<M>(pack, values);
}
template <class M, int N>
FACULA_DEVICE void write_values(typename M::Bits* to, const typename M::Compute (&values)[N]) {
  Pack<typename M::Bits, N> pack;
  pack_values<M>(values, pack);
  pack.write(to);
}
// Places travel two at a time.
template <int N>
inline constexpr int kPlacesAtOnce = N > 1 ? 2 : 1;

template <DType t, int N>
FACULA_DEVICE void max_pool(const PoolArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const int64_t number = pool_number();
  if (number >= args.count) return;
  const PoolDim &dd = args.dims[0], &dh = args.dims[1], &dw = args.dims[2];
  const PoolPlace p = pool_place<N>(args, number, dd.in * dh.in * dw.in);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.from) + p.base;
  const int64_t z0 = dd.first_inside(p.at[0]), y0 = dh.first_inside(p.at[1]), x0 = dw.first_inside(p.at[2]);
  const int64_t z1 = dd.last_inside(p.at[0]), y1 = dh.last_inside(p.at[1]), x1 = dw.last_inside(p.at[2]);
  C best[N];
  int32_t place[N];  // planes have fewer entries than that counts
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) {
    best[e] = -expr::m::infinity(C(0));
    place[e] = static_cast<int32_t>((z0 * dh.in + y0) * dw.in + x0);
  }
  FACULA_NO_UNROLL
  for (int64_t z = z0; z < z1; z += dd.dilation) {
    FACULA_NO_UNROLL
    for (int64_t y = y0; y < y1; y += dh.dilation) {
      FACULA_NO_UNROLL
      for (int64_t x = x0; x < x1; x += dw.dilation) {
        const int64_t at = (z * dh.in + y) * dw.in + x;
        C values[N];
        read_values<M>(from + at * p.step, values);
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) {
          const bool take = values[e] > best[e] || values[e] != values[e];  // NaN wins, and stays
          best[e] = take ? values[e] : best[e];
          place[e] = take ? static_cast<int32_t>(at) : place[e];
        }
      }
    }
  }
  write_values<M>(static_cast<typename M::Bits*>(args.to) + number * N, best);
  FACULA_UNROLL
  for (int e = 0; e < N; e += kPlacesAtOnce<N>) {
    Pack<int64_t, kPlacesAtOnce<N>> places;
    FACULA_UNROLL
    for (int i = 0; i < kPlacesAtOnce<N>; ++i) places.at[i] = place[e + i];
    places.write(args.indices + number * N + e);
  }
}

// `from` is the gradient of the largest entries, `to` that of the input: an entry collects from those windows it lies in that took it.
template <DType t, int N>
FACULA_DEVICE void max_pool_backward(const PoolArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const int64_t number = pool_number();
  if (number >= args.count) return;
  const PoolDim &dd = args.dims[0], &dh = args.dims[1], &dw = args.dims[2];
  const PoolPlace p = pool_place<N>(args, number, dd.out * dh.out * dw.out);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.from) + p.base;
  const int64_t own = (p.at[0] * dh.in + p.at[1]) * dw.in + p.at[2];
  C sums[N];
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) sums[e] = C(0);
  FACULA_NO_UNROLL
  for (int64_t z = dd.first_window(p.at[0]); z < dd.last_window(p.at[0]); ++z) {
    FACULA_NO_UNROLL
    for (int64_t y = dh.first_window(p.at[1]); y < dh.last_window(p.at[1]); ++y) {
      FACULA_NO_UNROLL
      for (int64_t x = dw.first_window(p.at[2]); x < dw.last_window(p.at[2]); ++x) {
        const int64_t at = ((z * dh.out + y) * dw.out + x) * p.step;
        C values[N];
        read_values<M>(from + at, values);
        FACULA_UNROLL
        for (int e = 0; e < N; e += kPlacesAtOnce<N>) {
          Pack<int64_t, kPlacesAtOnce<N>> places;
          places.read(args.indices + p.base + at + e);
          FACULA_UNROLL
          for (int i = 0; i < kPlacesAtOnce<N>; ++i) sums[e + i] += places.at[i] == own ? values[e + i] : C(0);
        }
      }
    }
  }
  write_values<M>(static_cast<typename M::Bits*>(args.to) + number * N, sums);
}

// How many entries the sum of a window is divided by: padding counts where it shall, but not what a window reaches beyond it.
FACULA_DEVICE int64_t pool_divisor(const PoolArgs& args, const int64_t (&o)[3]) {
  if (args.divisor != 0) return args.divisor;
  int64_t count = 1;
  FACULA_UNROLL
  for (int d = 0; d < 3; ++d) {
    const PoolDim& dim = args.dims[d];
    int64_t begin = dim.begin(o[d]), end = dim.end(o[d]);
    const int64_t most = args.count_padding != 0 ? dim.in + dim.padding : dim.in;
    if (args.count_padding == 0 && begin < 0) begin = 0;
    end = end < most ? end : most;
    count *= end - begin;
  }
  return count;
}

template <DType t, int N>
FACULA_DEVICE void avg_pool(const PoolArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const int64_t number = pool_number();
  if (number >= args.count) return;
  const PoolDim &dd = args.dims[0], &dh = args.dims[1], &dw = args.dims[2];
  const PoolPlace p = pool_place<N>(args, number, dd.in * dh.in * dw.in);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.from) + p.base;
  C sums[N];
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) sums[e] = C(0);
  FACULA_NO_UNROLL
  for (int64_t z = dd.first_inside(p.at[0]); z < dd.last_inside(p.at[0]); ++z) {
    FACULA_NO_UNROLL
    for (int64_t y = dh.first_inside(p.at[1]); y < dh.last_inside(p.at[1]); ++y) {
      const int64_t row = (z * dh.in + y) * dw.in;
      FACULA_NO_UNROLL
      for (int64_t x = dw.first_inside(p.at[2]); x < dw.last_inside(p.at[2]); ++x) {
        C values[N];
        read_values<M>(from + (row + x) * p.step, values);
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) sums[e] += values[e];
      }
    }
  }
  const C divisor = static_cast<C>(pool_divisor(args, p.at));
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) sums[e] /= divisor;
  write_values<M>(static_cast<typename M::Bits*>(args.to) + number * N, sums);
}

// `from` is the gradient of the means, `to` that of the input: an entry collects from the windows that it lies in.
template <DType t, int N>
FACULA_DEVICE void avg_pool_backward(const PoolArgs& args) {
  using M = Memory<t>;
  using C = typename M::Compute;
  const int64_t number = pool_number();
  if (number >= args.count) return;
  const PoolDim &dd = args.dims[0], &dh = args.dims[1], &dw = args.dims[2];
  const PoolPlace p = pool_place<N>(args, number, dd.out * dh.out * dw.out);
  const typename M::Bits* from = static_cast<const typename M::Bits*>(args.from) + p.base;
  C sums[N];
  FACULA_UNROLL
  for (int e = 0; e < N; ++e) sums[e] = C(0);
  int64_t o[3];
  FACULA_NO_UNROLL
  for (o[0] = dd.first_window(p.at[0]); o[0] < dd.last_window(p.at[0]); ++o[0]) {
    FACULA_NO_UNROLL
    for (o[1] = dh.first_window(p.at[1]); o[1] < dh.last_window(p.at[1]); ++o[1]) {
      FACULA_NO_UNROLL
      for (o[2] = dw.first_window(p.at[2]); o[2] < dw.last_window(p.at[2]); ++o[2]) {
        const int64_t at = (o[0] * dh.out + o[1]) * dw.out + o[2];
        const C divisor = static_cast<C>(pool_divisor(args, o));
        C values[N];
        read_values<M>(from + at * p.step, values);
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) sums[e] += values[e] / divisor;
      }
    }
  }
  write_values<M>(static_cast<typename M::Bits*>(args.to) + number * N, sums);
}

}  // namespace facula
