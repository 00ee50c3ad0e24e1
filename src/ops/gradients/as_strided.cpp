// The gradient of as_strided: a view by sizes, strides and offset of the storage, whatever the geometry of the base is. Entries
// that share memory share what they are, so that gradients meet in a picture of the storage.
#include "ops/generated/gradients.h"
#include "ops/gradients/pieces.h"

#include <algorithm>

namespace facula::vjp {

namespace {

bool has_entries(IntArrayRef sizes) { return std::find(sizes.begin(), sizes.end(), 0) == sizes.end(); }

// Where in a flat piece of storage, from `start` on, the entries of a geometry lie, in row-major order.
Tensor places(IntArrayRef sizes, IntArrayRef strides, int64_t offset, int64_t extent, Device device) {
  const TensorOptions longs = TensorOptions(kLong).device(std::optional<Device>(device));
  return facula::arange(extent, longs).as_strided(sizes, strides, offset).reshape({-1});
}

}  // namespace

Tensor as_strided_self(const Tensor& grad, IntArrayRef self_sizes, IntArrayRef self_strides, int64_t self_offset,
                       IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset) {
  if (!has_entries(self_sizes) || !has_entries(size)) return grad.new_zeros(self_sizes);
  const int64_t given = storage_offset.value_or(self_offset), start = std::min(given, self_offset);
  const int64_t offset = given - start, own_offset = self_offset - start;
  const int64_t extent =
      std::max(storage_extent(size, stride, offset), storage_extent(self_sizes, self_strides, own_offset));
  const bool overlaps = has_internal_overlap(size, stride),
             own_overlaps = has_internal_overlap(self_sizes, self_strides);
  const bool seen = watched(grad);

  // Gradients of entries that are one place in memory are added.
  Tensor flat = grad.new_zeros({extent});
  if (!overlaps && !seen) {
    flat.as_strided(size, stride, offset).copy_(grad);
  } else {
    const Tensor index = places(size, stride, offset, extent, grad.device()), values = grad.reshape({-1});
    flat = seen ? flat.index_add(0, index, values) : flat.index_add_(0, index, values);
  }
  if (!own_overlaps && !seen) return flat.as_strided(self_sizes, self_strides, own_offset);
  const Tensor own = places(self_sizes, self_strides, own_offset, extent, grad.device());
  if (own_overlaps) {
    // Entries of the base that are one place each get their share, so that together they get it once.
    const Tensor ones = grad.new_ones(own.sizes(), TensorOptions(toRealValueType(grad.scalar_type())));
    const Tensor zeros = ones.new_zeros({extent});
    flat = flat / zeros.index_add(0, own, ones).clamp_min(1);
  }
  return flat.index_select(0, own).reshape(self_sizes);
}

}  // namespace facula::vjp
