// Slices of a matrix put in order, entry after entry: the keys of one column in the order so far, and what a sort by them does to it.
#pragma once

#include "gpu/kernels/sort.h"

namespace facula {

// The order of members is what gpu/primitives/unique.cpp writes.
struct SliceArgs {
  const void* items;       // n slices of m entries
  const uint32_t* before;  // the order so far, or null: as they are
  const uint32_t* places;  // what the sort by this column says of it
  uint32_t* after;
  void* keys;
  void* sorted;
  int64_t* order;
  int64_t n, m, column;
};

FACULA_DEVICE int64_t slice_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

template <DType t>
FACULA_DEVICE void slice_keys(const SliceArgs& args) {
  using S = SortKey<t>;
  const int64_t i = slice_thread();
  if (i >= args.n) return;
  const int64_t slice = args.before ? args.before[i] : i;
  static_cast<typename S::Key*>(args.keys)[i] =
      S::of(static_cast<const typename S::Bits*>(args.items)[slice * args.m + args.column], false);
}
FACULA_DEVICE void slice_compose(const SliceArgs& args) {
  const int64_t i = slice_thread();
  if (i >= args.n) return;
  const uint32_t place = args.places[i];
  args.after[i] = args.before ? args.before[place] : place;
}
FACULA_DEVICE void slice_order(const SliceArgs& args) {
  const int64_t i = slice_thread();
  if (i < args.n) args.order[i] = args.before[i];
}
template <int kBytes>
FACULA_DEVICE void slice_values(const SliceArgs& args) {
  using Bits = typename UnsignedOf<kBytes>::type;
  const int64_t i = slice_thread();
  if (i >= args.n * args.m) return;
  const int64_t slice = i / args.m;
  static_cast<Bits*>(args.sorted)[i] =
      static_cast<const Bits*>(args.items)[static_cast<int64_t>(args.before[slice]) * args.m + (i - slice * args.m)];
}

}  // namespace facula
