// Programs over many sets of arrays in one launch: what optimizers do to all parameters. Every block works on one set, which it
// finds by its number.
//
//   struct L {
//     static constexpr int kItems = 16, kVector = 4, kUnroll = 2, kPointers = 4;
//     static constexpr Access kAccess[] = {Access::Next, Access::Next, Access::Constant, Access::Next};
//     static constexpr int kPointer[] = {0, 1, 2, 0};  // where the address of each array is: a store is often one of the loads
//     static constexpr bool kReduces = false, kMax = false;  // the last store is combined instead: its sum, or its largest value
//   };
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

// The order of members is what gpu/program/program_list.cpp writes.
template <class P, class L>
struct ListArgs {
  Faults faults;
  // Of a reduction: one result for each block, and the elements that a block combines.
  void* partials;
  int64_t stretch;
  int64_t counts[L::kItems];
  void* data[L::kPointers][L::kItems];
  int32_t first_block[L::kItems];
  int32_t items;
  alignas(8) typename P::Params params;
};

// The last item whose first block does not come after this one.
template <class P, class L>
FACULA_DEVICE int item_of_block(const ListArgs<P, L>& args, int block) {
  int item = 0, last = args.items - 1;
  while (item < last) {
    const int middle = (item + last + 1) / 2;
    if (args.first_block[middle] <= block) item = middle;
    else last = middle - 1;
  }
  return item;
}

template <class P, class L, int N>
FACULA_DEVICE void read_item(const ListArgs<P, L>& args, int item, int64_t at,
                             typename Elements<P, L, N>::LoadPacks& packs) {
  for_each_index<P::kLoads>([&](auto index) {
    constexpr int k = decltype(index)::value;
    using Bits = typename LoadMemory<P, k>::type::Bits;
    const Bits* from = static_cast<const Bits*>(args.data[L::kPointer[k]][item]);
    if constexpr (L::kAccess[k] == Access::Next) from += at;
    Elements<P, L, N>::template read<k>(packs, from, 1);
  });
}

template <class P, class L, int N>
FACULA_DEVICE void write_item(const ListArgs<P, L>& args, int item, int64_t at,
                              const typename Elements<P, L, N>::LoadPacks& packs,
                              typename Elements<P, L, N>::StoreValues& results) {
  Elements<P, L, N>::compute(packs, args.params, args.faults, results);
  for_each_index<L::kReduces ? P::kStores - 1 : P::kStores>([&](auto index) {
    constexpr int k = decltype(index)::value;
    using Bits = typename StoreMemory<P, k>::type::Bits;
    Elements<P, L, N>::template write<k>(results, static_cast<Bits*>(args.data[L::kPointer[P::kLoads + k]][item]) + at,
                                         1);
  });
}

template <class P, class L>
FACULA_DEVICE void pointwise_list(const ListArgs<P, L>& args) {
  constexpr int N = L::kVector, U = L::kUnroll;
  const int block = static_cast<int>(blockIdx.x), item = item_of_block(args, block);
  const int64_t count = args.counts[item], chunks = count / N, width = static_cast<int64_t>(blockDim.x);
  const int64_t first =
      static_cast<int64_t>(block - args.first_block[item]) * (width * U) + static_cast<int64_t>(threadIdx.x);
  typename Elements<P, L, N>::LoadPacks packs[U];
  FACULA_UNROLL
  for (int u = 0; u < U; ++u)
    if (first + u * width < chunks) read_item<P, L, N>(args, item, (first + u * width) * N, packs[u]);
  FACULA_UNROLL
  for (int u = 0; u < U; ++u)
    if (first + u * width < chunks) {
      typename Elements<P, L, N>::StoreValues results;
      write_item<P, L, N>(args, item, (first + u * width) * N, packs[u], results);
    }
  // What does not fill a chunk, one element a thread of the item's first block.
  if constexpr (N > 1) {
    const int64_t at = chunks * N + static_cast<int64_t>(threadIdx.x);
    if (block == args.first_block[item] && at < count) {
      typename Elements<P, L, 1>::LoadPacks single;
      typename Elements<P, L, 1>::StoreValues results;
      read_item<P, L, 1>(args, item, at, single);
      write_item<P, L, 1>(args, item, at, single, results);
    }
  }
}

template <bool kMax, class T>
FACULA_DEVICE T combine(T a, T b) {
  if constexpr (kMax) return a > b || a != a ? a : b;
  else return a + b;
}

// Every block walks one stretch of an item, and its threads combine what they have seen in a fixed tree.
template <class P, class L>
FACULA_DEVICE void reduce_list(const ListArgs<P, L>& args) {
  constexpr int N = L::kVector, U = L::kUnroll, kLast = P::kStores - 1;
  using T = typename ValueOf<P::kStoreValues[kLast]>::type;
  const int block = static_cast<int>(blockIdx.x), item = item_of_block(args, block);
  const int64_t from = static_cast<int64_t>(block - args.first_block[item]) * args.stretch;
  const int64_t left = args.counts[item] - from, count = left < args.stretch ? left : args.stretch;
  const int64_t chunks = count / N, width = static_cast<int64_t>(blockDim.x);
  T seen = L::kMax ? -expr::m::infinity(T(0)) : T(0);
  for (int64_t first = static_cast<int64_t>(threadIdx.x); first < chunks; first += width * U) {
    typename Elements<P, L, N>::LoadPacks packs[U];
    FACULA_UNROLL
    for (int u = 0; u < U; ++u)
      if (first + u * width < chunks) read_item<P, L, N>(args, item, from + (first + u * width) * N, packs[u]);
    FACULA_UNROLL
    for (int u = 0; u < U; ++u)
      if (first + u * width < chunks) {
        typename Elements<P, L, N>::StoreValues results;
        write_item<P, L, N>(args, item, from + (first + u * width) * N, packs[u], results);
        FACULA_UNROLL
        for (int e = 0; e < N; ++e) seen = combine<L::kMax>(seen, results.template get<kLast>().at[e]);
      }
  }
  if constexpr (N > 1) {
    const int64_t at = chunks * N + static_cast<int64_t>(threadIdx.x);
    if (at < count) {
      typename Elements<P, L, 1>::LoadPacks single;
      typename Elements<P, L, 1>::StoreValues results;
      read_item<P, L, 1>(args, item, from + at, single);
      write_item<P, L, 1>(args, item, from + at, single, results);
      seen = combine<L::kMax>(seen, results.template get<kLast>().at[0]);
    }
  }
  FACULA_DYNAMIC_SHARED(T, room);
  room[threadIdx.x] = seen;
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    block_barrier();
    if (static_cast<int>(threadIdx.x) < half)
      room[threadIdx.x] = combine<L::kMax>(room[threadIdx.x], room[threadIdx.x + static_cast<unsigned>(half)]);
  }
  if (threadIdx.x == 0) static_cast<T*>(args.partials)[block] = room[0];
}

}  // namespace facula
