// Numbers that follow from their index.
#pragma once

#include "gpu/kernels/memory.h"

namespace facula {

// The order of members is what gpu/program/copy.cpp writes.
struct AffineArgs {
  void* data;
  int64_t count, anchor;
  double base, step;
};
struct IntegerArgs {
  void* data;
  int64_t count;
  uint64_t start, step;
};

// Calls f(i) for the elements of each pack and writes what it gives; the last pack may be short.
template <DType t, int N, class F>
FACULA_DEVICE void write_sequence(void* data, int64_t count, F f) {
  using M = Memory<t>;
  using Bits = typename M::Bits;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= count) return;
  Bits* to = static_cast<Bits*>(data) + i;
  if (i + N <= count) {
    Pack<Bits, N> pack;
    FACULA_UNROLL
    for (int e = 0; e < N; ++e) pack.at[e] = M::store(f(i + e));
    pack.write(to);
  } else {
    FACULA_NO_UNROLL
    for (int e = 0; e < static_cast<int>(count - i); ++e) to[e] = M::store(f(i + e));
  }
}

template <DType t, int N>
FACULA_DEVICE void affine(const AffineArgs& args) {
  write_sequence<t, N>(args.data, args.count,
                       [&](int64_t i) { return args.base + args.step * static_cast<double>(i - args.anchor); });
}
template <DType t, int N>
FACULA_DEVICE void integers(const IntegerArgs& args) {
  write_sequence<t, N>(args.data, args.count,
                       [&](int64_t i) { return args.start + args.step * static_cast<uint64_t>(i); });
}

}  // namespace facula
