// The true entries of a mask on a GPU: how many, and where.
#pragma once

#include "core/function_ref.h"
#include "gpu/primitives/launching.h"

namespace facula::gpu {

// A mask of n bytes, with the numbers of its true entries. Finding these waits for the GPU.
class MaskTiles {
 public:
  MaskTiles(const void* mask, int64_t n, const Work& work);
  int64_t total() const { return total_; }
  // Their positions, in order.
  void write_positions(int64_t* to) const;
  // One column of coordinates for each dim of `sizes`.
  void write_coordinates(int64_t* to, int64_t row_step, int64_t column_step, IntArrayRef sizes) const;
  // Elements of `bytes` bytes: taken from where the mask is true, or put there.
  void select(const void* from, void* to, size_t bytes) const;
  void scatter(const void* from, void* to, size_t bytes) const;

 private:
  const void* mask_;
  int64_t n_, tiles_;
  Work work_;
  DeviceScratch starts_;
  int64_t total_ = 0;
};

}  // namespace facula::gpu
