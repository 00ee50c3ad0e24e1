// Programs over arrays whose innermost dim is walked in packs. A chunk is one pack of each array: neighbours along dim 0. Every
// thread takes kUnroll chunks, a block's width apart, and loads all of them before it computes.
//
//   struct L {
//     static constexpr int kDims = 2, kVector = 4, kUnroll = 4;
//     using Index = int32_t;
//     static constexpr Access kAccess[] = {Access::Next, Access::Constant, Access::Next};
//   };
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

template <class L, int kArrays>
FACULA_DEVICE constexpr bool any_apart() {
  for (int a = 0; a < kArrays; ++a)
    if (L::kAccess[a] == Access::Apart) return true;
  return false;
}
template <class P, class L>
inline constexpr bool kHasStrides = L::kDims > 1 || any_apart<L, P::kLoads + P::kStores>();

// The order of members is what gpu/program/program_pointwise.cpp writes.
template <class P, class L, bool kStrides = kHasStrides<P, L>>
struct PointwiseArgs {
  void* data[P::kLoads + P::kStores];
  Faults faults;
  typename L::Index chunks;
  int32_t tail;  // elements after the last whole chunk; only where kDims == 1
  alignas(8) typename P::Params params;

  FACULA_DEVICE typename L::Index stride(int, int d) const { return d == 0 ? 1 : 0; }
};
template <class P, class L>
struct PointwiseArgs<P, L, true> {
  void* data[P::kLoads + P::kStores];
  Faults faults;
  typename L::Index chunks;
  int32_t tail;
  // Chunks of dim 0, sizes of dims 1, 2, ... but not of the last, which needs no division.
  alignas(8) Divider<typename L::Index> sizes[L::kDims > 1 ? L::kDims - 1 : 1];
  typename L::Index strides[P::kLoads + P::kStores][L::kDims];
  alignas(8) typename P::Params params;

  FACULA_DEVICE typename L::Index stride(int a, int d) const { return strides[a][d]; }
};

// Coordinates of a chunk's first element.
template <class P, class L>
struct Place {
  typename L::Index at[L::kDims];

  FACULA_DEVICE void find(const PointwiseArgs<P, L>& args, typename L::Index chunk) {
    if constexpr (L::kDims > 1) {
      FACULA_UNROLL
      for (int d = 0; d + 1 < L::kDims; ++d) at[d] = divide(chunk, args.sizes[d]);
      at[L::kDims - 1] = chunk;
    } else {
      at[0] = chunk;
    }
    at[0] *= L::kVector;
  }
  template <int a>
  FACULA_DEVICE typename L::Index offset(const PointwiseArgs<P, L>& args) const {
    typename L::Index sum = 0;
    if constexpr (L::kAccess[a] == Access::Next) sum = at[0];
    if constexpr (L::kAccess[a] == Access::Apart) sum = at[0] * args.stride(a, 0);
    if constexpr (L::kDims > 1) {
      FACULA_UNROLL
      for (int d = 1; d < L::kDims; ++d) sum += at[d] * args.stride(a, d);
    }
    return sum;
  }
};

template <class P, class L, int N>
FACULA_DEVICE void read_loads(const PointwiseArgs<P, L>& args, const Place<P, L>& place,
                              typename Elements<P, L, N>::LoadPacks& packs) {
  if constexpr (P::kLoads > 0)
    for_each_index<P::kLoads>([&](auto index) {
      constexpr int k = decltype(index)::value;
      using Bits = typename LoadMemory<P, k>::type::Bits;
      Elements<P, L, N>::template read<k>(
          packs, static_cast<const Bits*>(args.data[k]) + place.template offset<k>(args), args.stride(k, 0));
    });
}

template <class P, class L, int N>
FACULA_DEVICE void compute_and_store(const PointwiseArgs<P, L>& args, const Place<P, L>& place,
                                     const typename Elements<P, L, N>::LoadPacks& packs) {
  typename Elements<P, L, N>::StoreValues results;
  Elements<P, L, N>::compute(packs, args.params, args.faults, results);
  for_each_index<P::kStores>([&](auto index) {
    constexpr int k = decltype(index)::value, a = P::kLoads + k;
    using Bits = typename StoreMemory<P, k>::type::Bits;
    Elements<P, L, N>::template write<k>(results, static_cast<Bits*>(args.data[a]) + place.template offset<a>(args),
                                         args.stride(a, 0));
  });
}

template <class P, class L>
FACULA_DEVICE void pointwise(const PointwiseArgs<P, L>& args) {
  constexpr int N = L::kVector, U = L::kUnroll;
  using Index = typename L::Index;
  const Index width = static_cast<Index>(blockDim.x);
  const Index first = static_cast<Index>(blockIdx.x) * (width * U) + static_cast<Index>(threadIdx.x);
  Place<P, L> places[U];
  typename Elements<P, L, N>::LoadPacks packs[U];
  FACULA_UNROLL
  for (int u = 0; u < U; ++u) {
    places[u].find(args, first + u * width);
    if (first + u * width < args.chunks) read_loads<P, L, N>(args, places[u], packs[u]);
  }
  FACULA_UNROLL
  for (int u = 0; u < U; ++u)
    if (first + u * width < args.chunks) compute_and_store<P, L, N>(args, places[u], packs[u]);
  // What does not fill a chunk, one element a thread.
  if constexpr (N > 1 && L::kDims == 1) {
    if (blockIdx.x == 0 && static_cast<int32_t>(threadIdx.x) < args.tail) {
      Place<P, L> place;
      place.at[0] = args.chunks * N + static_cast<Index>(threadIdx.x);
      typename Elements<P, L, 1>::LoadPacks single;
      read_loads<P, L, 1>(args, place, single);
      compute_and_store<P, L, 1>(args, place, single);
    }
  }
}

}  // namespace facula
