// The lines along one dim of up to three tensors, as kernels/lines.h takes them.
#pragma once

#include "cpu/rows.h"
#include "gpu/primitives/launching.h"

namespace facula::gpu {

inline constexpr size_t kMostLineDims = 12;

// The order of members is that of kernels/lines.h.
struct Lines {
  void* data[3] = {};
  int64_t count = 0, n = 0;
  int64_t along[3] = {};
  int64_t strides[3][kMostLineDims] = {};
  Divider64 sizes[kMostLineDims] = {};
  int32_t dims = 0, arrays = 0;

  Lines(const detail::RowWalk& walk, const char* op) {
    FACULA_CHECK(walk.sizes.size() <= kMostLineDims, NotSupportedError, op, ": the tensor has ", walk.sizes.size(),
                 " dimensions that do not lie after one another in memory; on a GPU at most ", kMostLineDims,
                 " are possible. Call .contiguous() first");
    count = walk.rows;
    n = walk.length[0];
    arrays = walk.operands;
    dims = static_cast<int32_t>(walk.sizes.size());
    for (int a = 0; a < arrays; ++a) {
      data[a] = walk.data[a];
      along[a] = walk.along[a];
      for (size_t d = 0; d < walk.sizes.size(); ++d) strides[a][d] = walk.strides[a][walk.sizes.size() - 1 - d];
    }
    for (size_t d = 0; d < walk.sizes.size(); ++d)
      sizes[d] = divider64(static_cast<uint64_t>(walk.sizes[walk.sizes.size() - 1 - d]));
  }
};

}  // namespace facula::gpu
