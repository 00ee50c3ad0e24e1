// What gradients of reductions, scans, sorts and shapes share: places of reduced dims, zeros with something written into
// them. Pointwise formulas are in formula.h.
#pragma once

#include "autograd/call.h"
#include "core/dim_vector.h"
#include "core/shape.h"

#include <facula/tensors.h>

namespace facula::vjp {

// Whether the tape, forward mode or a batch watches: then nothing is written in place.
template <class... Tensors>
bool watched(const Tensors&... tensors) {
  return (autograd::tracked(tensors...) & static_cast<uint8_t>(~detail::kTracksView)) != 0;
}

inline int64_t wrapped(int64_t dim, size_t rank) {
  return dim < 0 ? dim + static_cast<int64_t>(rank == 0 ? 1 : rank) : dim;
}
inline int64_t size_at(IntArrayRef sizes, int64_t dim) { return sizes[static_cast<size_t>(dim)]; }

inline bool reduces_all(OptionalIntArrayRef dim) { return !dim.has_value() || dim->empty(); }

// A result of a reduction of `sizes` with its reduced dims back in place, as dims of size 1. Of a reduction of everything
// the zero-dim result stays: it broadcasts as well.
inline Tensor restored(const Tensor& t, IntArrayRef sizes, OptionalIntArrayRef dim, bool keepdim) {
  if (keepdim || sizes.empty() || reduces_all(dim)) return t;
  DimVector kept(sizes);
  for (const int64_t d : *dim) kept[static_cast<size_t>(wrapped(d, sizes.size()))] = 1;
  return t.view(kept);
}

// How many entries become one.
inline double reduced_entries(IntArrayRef sizes, OptionalIntArrayRef dim) {
  double count = 1;
  if (reduces_all(dim)) {
    for (const int64_t size : sizes) count *= static_cast<double>(size);
  } else if (!sizes.empty()) {
    for (const int64_t d : *dim) count *= static_cast<double>(size_at(sizes, wrapped(d, sizes.size())));
  }
  return count;
}

// Zeros of `sizes` with the entries of `values` at `index` along `dim`; where an index occurs twice, `add` adds.
Tensor scattered(IntArrayRef sizes, int64_t dim, const Tensor& index, const Tensor& values, bool add);
// The gradient of what `indices` chose along a dim: by sorting, or one entry of a row when the dim is reduced.
Tensor chosen(ArrayRef<Tensor> grads, IntArrayRef sizes, const Tensor& indices, int64_t dim);
Tensor chosen_one(ArrayRef<Tensor> grads, IntArrayRef sizes, const Tensor& indices, int64_t dim, bool keepdim);

// Zeros before and after along one dim (not negative); negative numbers cut.
Tensor padded(const Tensor& t, int64_t dim, int64_t before, int64_t after);

// s[i] = b[i] + a[i] s[i + 1] along `dim`, from the end; what stands after the last entry counts as 0. In log2(n) steps, each
// of which doubles how far an entry sees: no division, and it can be differentiated.
Tensor recurrence_from_end(Tensor b, Tensor a, int64_t dim);

}  // namespace facula::vjp
