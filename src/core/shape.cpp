#include "core/shape.h"

#include "core/sort_few.h"
#include "core/tensor_impl.h"

#include <facula/core/error.h>

#include <numeric>
#include <vector>

namespace facula {

int64_t checked_numel(IntArrayRef sizes, size_t element_size, const char* op) {
  FACULA_CHECK(sizes.size() <= static_cast<size_t>(kMaxDims), ShapeError, op, ": ", sizes.size(),
               " dimensions are more than the ", kMaxDims, " that a tensor may have");
  int64_t count = 1;
  bool overflow = false, empty = false;
  for (int64_t s : sizes) {
    FACULA_CHECK(
        s >= 0, ShapeError, op, ": Trying to create tensor with negative dimension ", s, ": ", to_text(sizes),
        s == INT64_MIN
            ? ". That number is what a NaN or an infinity becomes as an integer; check the arithmetic that produced it"
            : ". Sizes must be 0 or more");
    empty |= s == 0;
    overflow |= __builtin_mul_overflow(count, s == 0 ? 1 : s, &count);
  }
  int64_t bytes;
  overflow |= __builtin_mul_overflow(count, static_cast<int64_t>(element_size ? element_size : 1), &bytes);
  FACULA_CHECK(!overflow, ShapeError, op, ": the number of bytes of sizes ", to_text(sizes),
               " overflows 64 bits. Check the arithmetic that produced them");
  return empty ? 0 : count;
}

DimVector contiguous_strides(IntArrayRef sizes) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

namespace {

// Channels-last: dim 1 moves behind the spatial dims.
DimVector channels_last_strides(IntArrayRef sizes) {
  DimVector strides(sizes.size());
  int64_t step = 1;
  strides[1] = step;
  step *= std::max<int64_t>(sizes[1], 1);
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = step;
    step *= std::max<int64_t>(sizes[i], 1);
  }
  strides[0] = step;
  return strides;
}

bool matches(IntArrayRef sizes, IntArrayRef strides, IntArrayRef expected) {
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && strides[i] != expected[i]) return false;
  return true;
}

// Dims from the largest stride to the smallest, without those of size 1.
DimVector dims_by_stride(IntArrayRef sizes, IntArrayRef strides) {
  DimVector order;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) order.push_back(static_cast<int64_t>(i));
  sort_few(order.begin(), order.end(),
           [&](int64_t a, int64_t b) { return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)]; });
  return order;
}

}  // namespace

DimVector strides_for(IntArrayRef sizes, MemoryFormat format, const char* op) {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      FACULA_CHECK(sizes.size() == 4, ShapeError, op, ": channels_last needs a tensor of 4 dimensions, got ",
                   to_text(sizes));
      return channels_last_strides(sizes);
    case MemoryFormat::ChannelsLast3d:
      FACULA_CHECK(sizes.size() == 5, ShapeError, op, ": channels_last_3d needs a tensor of 5 dimensions, got ",
                   to_text(sizes));
      return channels_last_strides(sizes);
    default: return contiguous_strides(sizes);
  }
}

bool is_contiguous(IntArrayRef sizes, IntArrayRef strides, MemoryFormat format) {
  for (int64_t s : sizes)
    if (s == 0) return true;
  switch (format) {
    case MemoryFormat::ChannelsLast: return sizes.size() == 4 && matches(sizes, strides, channels_last_strides(sizes));
    case MemoryFormat::ChannelsLast3d:
      return sizes.size() == 5 && matches(sizes, strides, channels_last_strides(sizes));
    default: break;
  }
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

DimVector preserved_strides(IntArrayRef sizes, IntArrayRef strides) {
  if (!is_non_overlapping_and_dense(sizes, strides)) {
    // Keep the order of dims where it is a permutation; broadcast dims (stride 0) carry no order.
    for (int64_t s : strides)
      if (s == 0) return contiguous_strides(sizes);
    DimVector order = dims_by_stride(sizes, strides), result(sizes.size(), 1);
    int64_t step = 1;
    for (size_t i = order.size(); i-- > 0;) {
      size_t d = static_cast<size_t>(order[i]);
      result[d] = step;
      step *= sizes[d];
    }
    // Dims of size 1 get the stride that a row-major walk would give them.
    for (size_t i = sizes.size(); i-- > 0;)
      if (sizes[i] == 1) result[i] = i + 1 < sizes.size() ? result[i + 1] * sizes[i + 1] : 1;
    return result;
  }
  return DimVector(strides);
}

bool is_non_overlapping_and_dense(IntArrayRef sizes, IntArrayRef strides) {
  for (int64_t s : sizes)
    if (s == 0) return true;
  DimVector order = dims_by_stride(sizes, strides);
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    size_t d = static_cast<size_t>(order[i]);
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

int64_t storage_extent(IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    int64_t step;
    bool overflow = __builtin_mul_overflow(sizes[i] - 1, strides[i], &step);
    overflow |= __builtin_add_overflow(last, step, &last);
    FACULA_CHECK(!overflow, ShapeError, "sizes ", to_text(sizes), " with strides ", to_text(strides),
                 " address memory beyond 64 bits");
  }
  return last + 1;
}

int64_t wrap_dim(int64_t dim, int64_t rank, const char* op) {
  int64_t bound = std::max<int64_t>(rank, 1);
  FACULA_CHECK(dim >= -bound && dim < bound, IndexError, op, ": Dimension out of range (expected to be in range of [",
               -bound, ", ", bound - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + bound : dim;
}

std::string allowed_indices(int64_t size, bool wraps) {
  if (size == 0) return "there is nothing to index";
  return str("it must lie in [", wraps ? -size : 0, ", ", size - 1, "]");
}

void raise_out_of_bounds(const char* prefix, int64_t index, int64_t dim, int64_t size, bool wraps) {
  throw IndexError(str(prefix, "index ", index, " is out of bounds for dimension ", dim, " with size ", size, "; ",
                       allowed_indices(size, wraps)));
}

DimVector wrap_dims(IntArrayRef dims, int64_t rank, const char* op) {
  DimVector wrapped;
  DimMask seen;
  for (int64_t d : dims) {
    int64_t w = wrap_dim(d, rank, op);
    FACULA_CHECK(!seen[static_cast<size_t>(w)], ValueError, op, ": dim ", w,
                 " appears multiple times in the list of dims ", to_text(dims));
    seen.set(static_cast<size_t>(w));
    wrapped.push_back(w);
  }
  return wrapped;
}

DimMask dim_mask(IntArrayRef dims, int64_t rank, const char* op) {
  DimMask mask;
  if (dims.empty()) {
    for (int64_t i = 0; i < rank; ++i) mask.set(static_cast<size_t>(i));
    return mask;
  }
  for (int64_t d : wrap_dims(dims, rank, op)) mask.set(static_cast<size_t>(d));
  return mask;
}

DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b, const char* op) {
  if (a.equals(b)) return DimVector(a);
  size_t rank = std::max(a.size(), b.size());
  DimVector out(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    FACULA_CHECK(x == y || x == 1 || y == 1, ShapeError, op, ": The size of tensor a (", x,
                 ") must match the size of tensor b (", y, ") at non-singleton dimension ", rank - 1 - i,
                 "; shapes are ", to_text(a), " and ", to_text(b),
                 ". Sizes broadcast when they are equal or 1, counted from the last dimension");
    out[rank - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

DimVector broadcast_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef target) {
  DimVector out(target.size(), 0);
  size_t shift = target.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) out[i + shift] = sizes[i] == 1 && target[i + shift] != 1 ? 0 : strides[i];
  return out;
}

std::optional<DimVector> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef target) {
  int64_t numel = 1;
  for (int64_t s : sizes) numel *= s;
  if (numel == 0) return sizes.equals(target) ? DimVector(strides) : contiguous_strides(target);
  DimVector out(target.size());
  // Walk both shapes from the right: each run of old dims that is contiguous among itself may be cut anew.
  int64_t view = static_cast<int64_t>(target.size()) - 1;
  int64_t base_stride = sizes.empty() ? 1 : strides.back();
  int64_t old_run = 1, new_run = 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    size_t u = static_cast<size_t>(d);
    old_run *= sizes[u];
    bool run_ends = d == 0 || (sizes[u - 1] != 1 && strides[u - 1] != old_run * base_stride);
    if (!run_ends) continue;
    while (view >= 0 && (new_run < old_run || target[static_cast<size_t>(view)] == 1)) {
      out[static_cast<size_t>(view)] = new_run * base_stride;
      new_run *= target[static_cast<size_t>(view)];
      --view;
    }
    if (new_run != old_run) return std::nullopt;
    if (d > 0) {
      base_stride = strides[u - 1];
      old_run = new_run = 1;
    }
  }
  for (; view >= 0; --view) out[static_cast<size_t>(view)] = 1;  // only sizes of 1 are left (a zero-dim source)
  return out;
}

DimVector infer_size(IntArrayRef target, int64_t numel, const char* op) {
  DimVector out(target);
  std::optional<size_t> hole;
  int64_t known = 1;
  bool overflow = false;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == -1) {
      FACULA_CHECK(!hole, ShapeError, op, ": only one dimension can be inferred, but ", to_text(target),
                   " has several -1; give all sizes but one");
      hole = i;
    } else {
      FACULA_CHECK(target[i] >= 0, ShapeError, op, ": invalid shape dimension ", target[i], " in ", to_text(target),
                   "; sizes must be 0 or more, and one may be -1");
      overflow |= __builtin_mul_overflow(known, target[i], &known);
    }
  }
  if (hole && !overflow && known != 0 && numel % known == 0) {
    out[*hole] = numel / known;
    return out;
  }
  FACULA_CHECK(!(hole && known == 0 && numel == 0), ShapeError, op, ": cannot reshape tensor of ", numel,
               " elements into shape ", to_text(target),
               " because the unspecified dimension size -1 can be any value and is ambiguous; give that size");
  FACULA_CHECK(!overflow && !hole && known == numel, ShapeError, op, ": shape '", to_text(target),
               "' is invalid for input of size ", numel,
               hole ? "; the sizes that are given must divide it" : "; the sizes must multiply to it");
  return out;
}

bool has_internal_overlap(IntArrayRef sizes, IntArrayRef strides) {
  for (int64_t s : sizes)
    if (s == 0) return false;
  // Sorted by stride, each dim must step over everything that the smaller ones span. This is exact for views made by
  // slicing, permuting and expanding; exotic as_strided layouts that interleave count as overlapping.
  DimVector order = dims_by_stride(sizes, strides);
  int64_t span = 0;
  for (size_t i = order.size(); i-- > 0;) {
    size_t d = static_cast<size_t>(order[i]);
    if (strides[d] <= span) return true;
    span += strides[d] * (sizes[d] - 1);
  }
  return false;
}

namespace {

// Whether `distance` is p_x - p_y for positions p_x in x and p_y in y, dims in descending order of their common strides. The
// smaller dims together span less than a stride, so that only the two nearest multiples can do.
bool is_position_difference(int64_t distance, const TensorImpl& x, const TensorImpl& y, const DimVector& order,
                            size_t at) {
  if (at == order.size()) return distance == 0;
  auto d = static_cast<size_t>(order[at]);
  int64_t stride = x.strides[d];
  int64_t below = distance >= 0 ? distance / stride : -((-distance + stride - 1) / stride);
  for (int64_t steps = below; steps <= below + 1; ++steps)
    if (steps <= x.sizes[d] - 1 && steps >= -(y.sizes[d] - 1) &&
        is_position_difference(distance - steps * stride, x, y, order, at + 1))
      return true;
  return false;
}

}  // namespace

Overlap memory_overlap(const Tensor& a, const Tensor& b) {
  const TensorImpl *x = a.impl(), *y = b.impl();
  if (x->numel == 0 || y->numel == 0 || x->device.is_meta() || y->device.is_meta()) return Overlap::None;
  auto range = [](const TensorImpl* t) {
    auto first = reinterpret_cast<uintptr_t>(t->data());
    int64_t extent = storage_extent(t->sizes, t->strides, 0);
    return std::pair(first, first + static_cast<uintptr_t>(extent) * elementSize(t->dtype));
  };
  auto [x0, x1] = range(x);
  auto [y0, y1] = range(y);
  if (x1 <= y0 || y1 <= x0) return Overlap::None;
  if (x == y) return Overlap::Full;
  if (x0 == y0 && x1 == y1 && IntArrayRef(x->sizes) == IntArrayRef(y->sizes) &&
      IntArrayRef(x->strides) == IntArrayRef(y->strides) && x->dtype == y->dtype)
    return Overlap::Full;
  if (is_non_overlapping_and_dense(x->sizes, x->strides) && is_non_overlapping_and_dense(y->sizes, y->strides))
    return Overlap::Partial;
  // Views of one buffer with the same strides (columns of a matrix, for one): the distance of their first elements must
  // not be a difference of two positions.
  if (x->dtype == y->dtype && IntArrayRef(x->strides) == IntArrayRef(y->strides) &&
      !has_internal_overlap(x->sizes, x->strides) && !has_internal_overlap(y->sizes, y->strides)) {
    auto bytes = static_cast<int64_t>(y0) - static_cast<int64_t>(x0);
    auto width = static_cast<int64_t>(elementSize(x->dtype));
    if (bytes % width != 0) return Overlap::Partial;
    DimVector order = dims_by_stride(x->sizes, x->strides);
    for (size_t d = 0; d < y->sizes.size(); ++d)
      if (x->sizes[d] == 1 && y->sizes[d] != 1) order.push_back(static_cast<int64_t>(d));
    sort_few(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      return x->strides[static_cast<size_t>(i)] > x->strides[static_cast<size_t>(j)];
    });
    return is_position_difference(bytes / width, *x, *y, order, 0) ? Overlap::Partial : Overlap::None;
  }
  return Overlap::Unknown;
}

void check_no_internal_overlap(const Tensor& target, const char* op) {
  const TensorImpl* t = target.impl();
  if (t->contiguous) return;
  FACULA_CHECK(
      !has_internal_overlap(t->sizes, t->strides), ValueError, op,
      ": unsupported operation: more than one element of the written-to tensor refers to a single memory location "
      "(sizes ",
      to_text(t->sizes), ", strides ", to_text(t->strides),
      "). Please clone() the tensor before performing the operation");
}

namespace {

// The addresses of all elements, sorted.
std::vector<const char*> element_addresses(const TensorImpl& t) {
  std::vector<const char*> out{t.data()};
  out.reserve(static_cast<size_t>(t.numel));
  auto width = static_cast<int64_t>(elementSize(t.dtype));
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    size_t count = out.size();
    for (int64_t i = 1; i < t.sizes[d]; ++i)
      for (size_t k = 0; k < count; ++k) out.push_back(out[k] + i * t.strides[d] * width);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Layouts that no rule decides are compared element by element, up to a size where that is still cheap.
bool share_elements(const TensorImpl& x, const TensorImpl& y) {
  constexpr int64_t kMostElements = 1 << 18;
  if (x.numel > kMostElements || y.numel > kMostElements) return true;
  std::vector<const char*> a = element_addresses(x), b = element_addresses(y);
  auto x_width = static_cast<std::ptrdiff_t>(elementSize(x.dtype)),
       y_width = static_cast<std::ptrdiff_t>(elementSize(y.dtype));
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] + x_width <= b[j]) ++i;
    else if (b[j] + y_width <= a[i]) ++j;
    else return true;
  }
  return false;
}

bool share_memory(Overlap overlap, const Tensor& a, const Tensor& b) {
  return overlap == Overlap::Unknown ? share_elements(*a.impl(), *b.impl()) : overlap != Overlap::None;
}

}  // namespace

bool share_memory(const Tensor& a, const Tensor& b) { return share_memory(memory_overlap(a, b), a, b); }

void check_no_partial_overlap(const Tensor& target, const Tensor& input, const char* op) {
  const Overlap overlap = memory_overlap(target, input);
  FACULA_CHECK(overlap == Overlap::Full || !share_memory(overlap, target, input), ValueError, op,
               ": unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
               "memory location. Please clone() the tensor before performing the operation");
}

void check_no_overlap(const Tensor& target, const Tensor& input, const char* op) {
  FACULA_CHECK(!share_memory(target, input), ValueError, op,
               ": unsupported operation: the input tensor and the written-to tensor share memory. Please clone() the "
               "input before performing the operation");
}

}  // namespace facula
