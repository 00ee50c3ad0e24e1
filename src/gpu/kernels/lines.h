// The lines along one dim of up to three arrays with any strides, and prefixes over the threads of a block: what scans and sorts
// share.
#pragma once

#include "gpu/kernels/layout.h"

namespace facula {

inline constexpr int kMostLineDims = 12;

// The order of members is what gpu/primitives/lines.h writes. Strides are in elements; dims are numbered from the innermost.
struct Lines {
  void* data[3];
  int64_t count;  // lines
  int64_t n;      // entries of a line of the first array
  int64_t along[3];
  int64_t strides[3][kMostLineDims];
  Divider<int64_t> sizes[kMostLineDims];
  int32_t dims;
  int32_t arrays;

  FACULA_DEVICE int64_t offset(int array, int64_t line) const {
    int64_t sum = 0;
    FACULA_NO_UNROLL
    for (int d = 0; d < dims; ++d) sum += divide(line, sizes[d]) * strides[array][d];
    return sum;
  }
  template <class T>
  FACULA_DEVICE T* line(int array, int64_t number) const {
    return static_cast<T*>(data[array]) + offset(array, number);
  }
};

inline constexpr int kScanLanes = 32;  // threads that scan by shuffles, whatever the width of a warp is

// The merge of the values of all threads before this one, `none` for the first, and of all threads. Every thread of the block takes
// part; `room` has a place for every kScanLanes threads. merge(a, b): a comes first.
template <class T>
struct BlockPrefix {
  T before, all;
};
template <class T, class Merge>
FACULA_DEVICE BlockPrefix<T> block_prefix(T value, T none, T* room, Merge merge) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (kScanLanes - 1), group = thread / kScanLanes;
  const int groups = (static_cast<int>(blockDim.x) + kScanLanes - 1) / kScanLanes;
  T sum = value;
  FACULA_UNROLL
  for (int distance = 1; distance < kScanLanes; distance *= 2) {
    const T other = lane_up(sum, distance);
    if (lane >= distance) sum = merge(other, sum);
  }
  T before = lane_up(sum, 1);
  if (lane == 0) before = none;
  block_barrier();  // what an earlier call left has been read
  if (lane == kScanLanes - 1) room[group] = sum;
  block_barrier();
  BlockPrefix<T> result{none, none};
  FACULA_NO_UNROLL
  for (int g = 0; g < groups; ++g) {
    if (g == group) result.before = result.all;
    result.all = merge(result.all, room[g]);
  }
  result.before = merge(result.before, before);
  return result;
}

struct AddCounts {
  template <class T>
  FACULA_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

}  // namespace facula
