// Views of one tensor: other sizes and strides over the same storage, and the few ops that fall back to a copy when no
// view exists. Ops that take a tensor apart into several live in shape.cpp. Those that the op book marks `grad by parts`
// call others by their public names, so that whoever watches sees the parts.
#include "ops/shape_checks.h"

#include <algorithm>

namespace facula::meaning {

namespace {

Tensor same_geometry(const Tensor& self) {
  const TensorImpl* i = self.impl();
  return view_of(self, i->sizes, i->strides, i->storage_offset);
}

// A view of the same bytes as another dtype. Offset and strides are in elements of that dtype.
Tensor retyped(const Tensor& self, ScalarType dtype, IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  const TensorImpl* s = self.impl();
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(s->storage, dtype, s->device));
  impl->set_geometry(sizes, strides, offset);
  impl->set_base(self.impl());
  return Tensor(std::move(impl));
}

void check_rank(size_t rank, const char* op) {
  FACULA_CHECK(rank <= usize(kMaxDims), ShapeError, op, ": ", rank, " dimensions are more than the ", kMaxDims,
               " that a tensor may have");
}

// A view without the dims for which `drop` says so.
template <class Drop>
Tensor without_dims(const Tensor& self, Drop drop) {
  const TensorImpl* i = self.impl();
  DimVector sizes, strides;
  for (size_t d = 0; d < i->sizes.size(); ++d) {
    if (drop(d)) continue;
    sizes.push_back(i->sizes[d]);
    strides.push_back(i->strides[d]);
  }
  return view_of(self, sizes, strides, i->storage_offset);
}

Tensor permuted(const Tensor& self, IntArrayRef order) {
  const TensorImpl* i = self.impl();
  DimVector sizes(order.size()), strides(order.size());
  for (size_t d = 0; d < order.size(); ++d) {
    sizes[d] = i->sizes[usize(order[d])];
    strides[d] = i->strides[usize(order[d])];
  }
  return view_of(self, sizes, strides, i->storage_offset);
}

Tensor expanded(const Tensor& self, IntArrayRef size) {
  const char* op = "expand";
  const TensorImpl& i = impl_of(self, op);
  size_t rank = size.size(), old = i.sizes.size();
  FACULA_CHECK(rank >= old, ShapeError, op, ": the number of sizes provided (", rank,
               ") must be greater or equal to the number of dimensions in the tensor (", old, "); target sizes ",
               to_text(size), ", tensor sizes ", to_text(i.sizes));
  check_rank(rank, op);
  DimVector sizes(rank), strides(rank);
  for (size_t k = 0; k < rank; ++k) {
    size_t d = rank - 1 - k;
    bool exists = k < old;
    int64_t have = exists ? i.sizes[old - 1 - k] : 1;
    int64_t stride = exists ? i.strides[old - 1 - k] : d + 1 < rank ? sizes[d + 1] * strides[d + 1] : 1;
    int64_t want = size[d];
    if (want == -1) {
      FACULA_CHECK(exists, ShapeError, op,
                   ": The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension ", d,
                   "; target sizes ", to_text(size), ", tensor sizes ", to_text(i.sizes));
      want = have;
    }
    FACULA_CHECK(want >= 0, ShapeError, op, ": the expanded size ", want, " at dimension ", d, " of ", to_text(size),
                 " is negative; -1 keeps a size");
    FACULA_CHECK(want == have || have == 1, ShapeError, op, ": The expanded size of the tensor (", want,
                 ") must match the existing size (", have, ") at non-singleton dimension ", d,
                 ".  Target sizes: ", to_text(size), ".  Tensor sizes: ", to_text(i.sizes),
                 ".  Only sizes of 1 expand; repeat() copies others");
    sizes[d] = want;
    strides[d] = want == have ? stride : 0;
  }
  checked_numel(sizes, elementSize(i.dtype), op);
  return view_of(self, sizes, strides, i.storage_offset);
}

// The source of an in-range slice: `start` and `length` are checked already.
Tensor sliced(const Tensor& self, size_t dim, int64_t start, int64_t length, int64_t step) {
  const TensorImpl* i = self.impl();
  DimVector sizes(i->sizes), strides(i->strides);
  sizes[dim] = length;
  int64_t offset = i->storage_offset + start * strides[dim];
  // A stride is only ever used between two entries; with fewer, a huge step must not overflow it.
  strides[dim] = length > 1 ? strides[dim] * step : strides[dim];
  return view_of(self, sizes, strides, offset);
}

}  // namespace

Tensor view(const Tensor& self, IntArrayRef size) {
  const TensorImpl& i = impl_of(self, "view");
  DimVector target = infer_size(size, i.numel, "view");
  check_rank(target.size(), "view");
  auto strides = view_strides(i.sizes, i.strides, target);
  FACULA_CHECK(
      strides, ShapeError,
      "view: view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
      "contiguous subspaces). Use .reshape(...) instead. Sizes ",
      to_text(i.sizes), ", strides ", to_text(i.strides), ", view sizes ", to_text(target));
  return view_of(self, target, *strides, i.storage_offset);
}

Tensor view(const Tensor& self, ScalarType dtype) {
  const TensorImpl& i = impl_of(self, "view");
  FACULA_CHECK(dtype != ScalarType::Undefined, DTypeError, "view: the dtype is undefined");
  int64_t from = static_cast<int64_t>(elementSize(i.dtype)), to = static_cast<int64_t>(elementSize(dtype));
  if (from == to) return retyped(self, dtype, i.sizes, i.strides, i.storage_offset);
  FACULA_CHECK(i.dim() > 0, ShapeError, "view: self.dim() cannot be 0 to view ", toString(i.dtype), " as ",
               toString(dtype), " (different element sizes)");
  FACULA_CHECK(i.strides.back() == 1, ShapeError, "view: self.stride(-1) must be 1 to view ", toString(i.dtype), " as ",
               toString(dtype), " (different element sizes), but got ", i.strides.back());
  DimVector sizes(i.sizes), strides(i.strides);
  size_t last = sizes.size() - 1;
  if (from > to) {
    int64_t ratio = from / to;
    for (size_t d = 0; d < last; ++d) strides[d] *= ratio;
    sizes[last] *= ratio;
    return retyped(self, dtype, sizes, strides, i.storage_offset * ratio);
  }
  int64_t ratio = to / from;
  FACULA_CHECK(sizes[last] % ratio == 0, ShapeError, "view: self.size(-1) must be divisible by ", ratio, " to view ",
               toString(i.dtype), " as ", toString(dtype), " (different element sizes), but got ", sizes[last]);
  FACULA_CHECK(i.storage_offset % ratio == 0, ShapeError, "view: self.storage_offset() must be divisible by ", ratio,
               " to view ", toString(i.dtype), " as ", toString(dtype), " (different element sizes), but got ",
               i.storage_offset);
  for (size_t d = 0; d < last; ++d) {
    FACULA_CHECK(strides[d] % ratio == 0, ShapeError, "view: self.stride(", d, ") must be divisible by ", ratio,
                 " to view ", toString(i.dtype), " as ", toString(dtype), " (different element sizes), but got ",
                 strides[d]);
    strides[d] /= ratio;
  }
  sizes[last] /= ratio;
  return retyped(self, dtype, sizes, strides, i.storage_offset / ratio);
}

Tensor reshape(const Tensor& self, IntArrayRef shape) {
  const TensorImpl& i = impl_of(self, "reshape");
  DimVector target = infer_size(shape, i.numel, "reshape");
  check_rank(target.size(), "reshape");
  if (auto strides = view_strides(i.sizes, i.strides, target)) return view_of(self, target, *strides, i.storage_offset);
  Tensor copy = as_contiguous(self);
  copy.impl()->set_contiguous(target);  // the copy is nobody else's, and no view
  return copy;
}

Tensor expand(const Tensor& self, IntArrayRef size, bool) { return expanded(self, size); }
Tensor expand_as(const Tensor& self, const Tensor& other) { return self.expand(impl_of(other, "expand_as").sizes); }
Tensor broadcast_to(const Tensor& self, IntArrayRef size) { return self.expand(size); }
Tensor view_as(const Tensor& self, const Tensor& other) {
  return self.view(IntArrayRef(impl_of(other, "view_as").sizes));
}

Tensor permute(const Tensor& self, IntArrayRef dims) {
  const TensorImpl& i = impl_of(self, "permute");
  FACULA_CHECK(dims.size() == i.sizes.size(), ShapeError,
               "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
               "dimensions "
               "i.e. input.dim() = ",
               i.dim(), " is not equal to len(dims) = ", dims.size());
  return permuted(self, wrap_dims(dims, i.dim(), "permute"));
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  const TensorImpl& i = impl_of(self, "transpose");
  size_t a = usize(wrap_dim(dim0, i.dim(), "transpose")), b = usize(wrap_dim(dim1, i.dim(), "transpose"));
  if (a == b) return same_geometry(self);
  DimVector sizes(i.sizes), strides(i.strides);
  std::swap(sizes[a], sizes[b]);
  std::swap(strides[a], strides[b]);
  return view_of(self, sizes, strides, i.storage_offset);
}

Tensor t(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "t");
  FACULA_CHECK(i.dim() <= 2, ShapeError, "t: t() expects a tensor with <= 2 dimensions, but self is ", i.dim(),
               "D; use transpose(dim0, dim1) or mT()");
  return i.dim() < 2 ? same_geometry(self) : meaning::transpose(self, 0, 1);
}

Tensor mT(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "mT");
  FACULA_CHECK(i.dim() != 1, ShapeError,
               "mT: tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
  return i.dim() == 0 ? self.alias() : self.transpose(-2, -1);
}

Tensor numpy_T(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "numpy_T");
  DimVector order(i.sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(order.size() - 1 - d);
  return self.permute(order);
}

Tensor movedim(const Tensor& self, IntArrayRef source, IntArrayRef destination) {
  const TensorImpl& i = impl_of(self, "movedim");
  FACULA_CHECK(source.size() == destination.size(), ShapeError, "movedim: Invalid source or destination dims: source (",
               to_text(source), " dims) should contain the same number of dims as destination (", to_text(destination),
               " dims)");
  DimVector from = wrap_dims(source, i.dim(), "movedim");
  DimVector to = wrap_dims(destination, i.dim(), "movedim");
  if (i.dim() == 0) return self.alias();
  DimVector order(i.sizes.size(), -1);
  DimMask moved;
  for (size_t k = 0; k < from.size(); ++k) {
    order[usize(to[k])] = from[k];
    moved.set(usize(from[k]));
  }
  int64_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (moved[usize(next)]) ++next;
    place = next++;
  }
  return self.permute(order);
}

Tensor movedim(const Tensor& self, int64_t source, int64_t destination) {
  return meaning::movedim(self, IntArrayRef(source), IntArrayRef(destination));
}

Tensor squeeze(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "squeeze");
  return without_dims(self, [&](size_t d) { return i.sizes[d] == 1; });
}

Tensor squeeze(const Tensor& self, int64_t dim) {
  const TensorImpl& i = impl_of(self, "squeeze");
  size_t wrapped = usize(wrap_dim(dim, i.dim(), "squeeze"));
  return without_dims(self, [&](size_t d) { return d == wrapped && i.sizes[d] == 1; });
}

Tensor squeeze(const Tensor& self, IntArrayRef dim) {
  const TensorImpl& i = impl_of(self, "squeeze");
  DimMask named;
  for (int64_t d : wrap_dims(dim, i.dim(), "squeeze")) named.set(usize(d));
  return without_dims(self, [&](size_t d) { return named[d] && i.sizes[d] == 1; });
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  const TensorImpl& i = impl_of(self, "unsqueeze");
  size_t at = usize(wrap_dim(dim, i.dim() + 1, "unsqueeze"));
  check_rank(i.sizes.size() + 1, "unsqueeze");
  DimVector sizes(i.sizes), strides(i.strides);
  int64_t stride = at < sizes.size() ? sizes[at] * strides[at] : 1;
  sizes.insert(at, 1);
  strides.insert(at, stride);
  return view_of(self, sizes, strides, i.storage_offset);
}

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  const TensorImpl& i = impl_of(self, "select");
  FACULA_CHECK(i.dim() > 0, IndexError, "select: select() cannot be applied to a 0-dim tensor; use item() to read it");
  size_t d = usize(wrap_dim(dim, i.dim(), "select"));
  int64_t size = i.sizes[d];
  FACULA_CHECK(index >= -size && index < size, IndexError, "select: select(): index ", index,
               " out of range for tensor of size ", to_text(i.sizes), " at dimension ", d, "; ", allowed_indices(size));
  DimVector sizes(i.sizes), strides(i.strides);
  int64_t offset = i.storage_offset + (index < 0 ? index + size : index) * strides[d];
  sizes.erase(d);
  strides.erase(d);
  return view_of(self, sizes, strides, offset);
}

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  const TensorImpl& i = impl_of(self, "narrow");
  FACULA_CHECK(i.dim() > 0, ShapeError, "narrow: narrow() cannot be applied to a 0-dim tensor.");
  FACULA_CHECK(length >= 0, ValueError, "narrow: length must be non-negative, got ", length);
  size_t d = usize(wrap_dim(dim, i.dim(), "narrow"));
  int64_t size = i.sizes[d];
  FACULA_CHECK(start >= -size && start <= size, IndexError, "narrow: start ", start, " is out of range; expected [",
               -size, ", ", size, "] for sizes ", to_text(i.sizes), " at dimension ", d);
  int64_t first = start < 0 ? start + size : start;
  FACULA_CHECK(length <= size - first, IndexError, "narrow: start (", first, ") + length (", length,
               ") exceeds dimension size (", size, ").");
  return self.slice(static_cast<int64_t>(d), first, first + length);
}

Tensor narrow(const Tensor& self, int64_t dim, const Tensor& start, int64_t length) {
  const TensorImpl& s = impl_of(start, "narrow");
  FACULA_CHECK(s.dim() == 0 && isIntegralType(s.dtype, false), DTypeError,
               "narrow: start must be an 0-dim integral Tensor, got sizes ", to_text(s.sizes), " and dtype ",
               toString(s.dtype));
  return meaning::narrow(self, dim, start.item().toLong(), length);
}

Tensor slice(const Tensor& self, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  const TensorImpl& i = impl_of(self, "slice");
  FACULA_CHECK(i.dim() > 0, ShapeError, "slice: slice() cannot be applied to a 0-dim tensor.");
  FACULA_CHECK(step > 0, ValueError, "slice: slice step must be positive, got ", step,
               "; use flip for the reverse order");
  size_t d = usize(wrap_dim(dim, i.dim(), "slice"));
  int64_t size = i.sizes[d];
  auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
  int64_t first = bound(start.value_or(0)), last = end ? bound(*end) : size;
  int64_t span = std::max<int64_t>(last - first, 0);
  return sliced(self, d, first, span / step + (span % step != 0), step);
}

Tensor diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const TensorImpl& i = impl_of(self, "diagonal");
  size_t a = usize(wrap_dim(dim1, i.dim(), "diagonal")), b = usize(wrap_dim(dim2, i.dim(), "diagonal"));
  FACULA_CHECK(i.dim() >= 2, ShapeError, "diagonal: a tensor of at least 2 dimensions is needed, got sizes ",
               to_text(i.sizes));
  FACULA_CHECK(a != b, ValueError, "diagonal: diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  int64_t rows = i.sizes[a], cols = i.sizes[b];
  // Clamped before the arithmetic: an offset beyond the matrix is an empty diagonal, however large.
  int64_t shift = std::clamp<int64_t>(offset, -rows, cols);
  int64_t length = shift >= 0 ? std::min(rows, cols - shift) : std::min(rows + shift, cols);
  length = std::max<int64_t>(length, 0);
  int64_t storage_offset = i.storage_offset;
  if (length > 0) storage_offset += shift >= 0 ? shift * i.strides[b] : -shift * i.strides[a];
  DimVector sizes, strides;
  for (size_t d = 0; d < i.sizes.size(); ++d) {
    if (d == a || d == b) continue;
    sizes.push_back(i.sizes[d]);
    strides.push_back(i.strides[d]);
  }
  sizes.push_back(length);
  strides.push_back(i.strides[a] + i.strides[b]);
  return view_of(self, sizes, strides, storage_offset);
}

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  const TensorImpl& i = impl_of(self, "flatten");
  size_t first = usize(wrap_dim(start_dim, i.dim(), "flatten")), last = usize(wrap_dim(end_dim, i.dim(), "flatten"));
  FACULA_CHECK(first <= last, ValueError,
               "flatten: flatten() has invalid args: start_dim cannot come after end_dim; got ", start_dim, " and ",
               end_dim, " for ", i.dim(), " dimensions");
  if (i.dim() == 0) return self.reshape({1});
  if (first == last) return self;
  DimVector shape;
  for (size_t d = 0; d < i.sizes.size(); ++d) {
    if (d > first && d <= last) shape.back() *= i.sizes[d];
    else shape.push_back(i.sizes[d]);
  }
  return self.reshape(shape);
}

Tensor unflatten(const Tensor& self, int64_t dim, IntArrayRef sizes) {
  const TensorImpl& i = impl_of(self, "unflatten");
  size_t d = usize(wrap_dim(dim, i.dim(), "unflatten"));
  FACULA_CHECK(!sizes.empty(), ValueError, "unflatten: sizes must be non-empty");
  FACULA_CHECK(i.dim() > 0, ShapeError, "unflatten: the tensor has no dimension to split");
  int64_t product = 1;
  bool overflow = false, hole = false;
  for (int64_t s : sizes) {
    hole |= s == -1;
    if (s != -1) overflow |= __builtin_mul_overflow(product, s, &product);
  }
  bool fits = !overflow && (hole ? product != 0 && i.sizes[d] % product == 0 : product == i.sizes[d]);
  FACULA_CHECK(fits, ShapeError, "unflatten: Provided sizes ", to_text(sizes), " don't multiply up to the size of dim ",
               d, " (", i.sizes[d], ") in the input tensor");
  DimVector inner = infer_size(sizes, i.sizes[d], "unflatten"), shape;
  for (size_t k = 0; k < i.sizes.size(); ++k) {
    if (k != d) {
      shape.push_back(i.sizes[k]);
      continue;
    }
    for (int64_t size : inner) shape.push_back(size);
  }
  check_rank(shape.size(), "unflatten");
  return self.view(shape);
}

Tensor ravel(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "ravel");
  return self.contiguous().view(IntArrayRef(i.numel));
}

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const TensorImpl& i = impl_of(self, "unfold");
  size_t d = usize(wrap_dim(dimension, i.dim(), "unfold"));
  int64_t most = i.dim() == 0 ? 1 : i.sizes[d];
  FACULA_CHECK(size >= 0, ValueError, "unfold: size is ", size, " but must be >= 0");
  FACULA_CHECK(size <= most, ValueError, "unfold: maximum size for tensor at dimension ", d, " is ", most,
               " but size is ", size);
  FACULA_CHECK(step > 0, ValueError, "unfold: step is ", step, " but must be > 0");
  check_rank(i.sizes.size() + 1, "unfold");
  DimVector sizes(i.sizes), strides(i.strides);
  sizes.push_back(size);
  strides.push_back(i.dim() == 0 ? 1 : strides[d]);
  if (i.dim() > 0) {
    sizes[d] = (most - size) / step + 1;
    if (sizes[d] > 1) strides[d] *= step;
  }
  return view_of(self, sizes, strides, i.storage_offset);
}

Tensor as_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset) {
  const TensorImpl& i = impl_of(self, "as_strided");
  int64_t offset = storage_offset.value_or(i.storage_offset);
  FACULA_CHECK(size.size() == stride.size(), ShapeError, "as_strided: mismatch in length of strides and shape: sizes ",
               to_text(size), ", strides ", to_text(stride));
  checked_numel(size, elementSize(i.dtype), "as_strided");
  for (int64_t s : stride)
    FACULA_CHECK(s >= 0, ValueError,
                 "as_strided: Negative strides are not supported at the moment, got strides: ", to_text(stride));
  FACULA_CHECK(offset >= 0, ValueError, "as_strided: Tensor: invalid storage offset ", offset,
               "; it must be 0 or more");
  int64_t last = offset;
  bool overflow = false, empty = false;
  for (size_t d = 0; d < size.size(); ++d) {
    int64_t span = 0;
    empty |= size[d] == 0;
    overflow |= __builtin_mul_overflow(std::max<int64_t>(size[d], 1) - 1, stride[d], &span);
    overflow |= __builtin_add_overflow(last, span, &last);
  }
  int64_t bytes = 0, element = static_cast<int64_t>(elementSize(i.dtype));
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, element, &bytes);
  FACULA_CHECK(
      empty || (!overflow && static_cast<uint64_t>(bytes) <= i.storage->nbytes()), IndexError, "as_strided: sizes ",
      to_text(size), ", strides ", to_text(stride), ", storage offset ", offset, ", and itemsize ", element,
      overflow ? std::string(" address memory beyond 64 bits and") : str(" requiring a storage size of ", bytes),
      " are out of bounds for storage of size ", i.storage->nbytes(),
      overflow ? ". Take a smaller view" : ". Take a smaller view, or resize_ the tensor first");
  return view_of(self, size, stride, offset);
}

Tensor alias(const Tensor& self) {
  impl_of(self, "alias");
  return same_geometry(self);
}

Tensor view_as_real(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "view_as_real");
  FACULA_CHECK(isComplexType(i.dtype), DTypeError,
               "view_as_real: view_as_real is only supported for complex tensors, got ", toString(i.dtype));
  check_rank(i.sizes.size() + 1, "view_as_real");
  DimVector sizes(i.sizes), strides(i.strides);
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return retyped(self, toRealValueType(i.dtype), sizes, strides, i.storage_offset * 2);
}

Tensor view_as_complex(const Tensor& self) {
  const TensorImpl& i = impl_of(self, "view_as_complex");
  FACULA_CHECK(i.dtype == kFloat || i.dtype == kDouble || i.dtype == kHalf, DTypeError,
               "view_as_complex: view_as_complex is only supported for half, float and double tensors, but got a "
               "tensor of scalar type: ",
               toString(i.dtype));
  FACULA_CHECK(i.dim() > 0, ShapeError, "view_as_complex: Input tensor must have one or more dimensions");
  FACULA_CHECK(i.sizes.back() == 2, ShapeError,
               "view_as_complex: Tensor must have a last dimension of size 2, got sizes ", to_text(i.sizes));
  FACULA_CHECK(i.strides.back() == 1, ShapeError,
               "view_as_complex: Tensor must have a last dimension with stride 1, got strides ", to_text(i.strides),
               "; use contiguous() first");
  DimVector sizes(i.sizes), strides(i.strides);
  sizes.pop_back();
  strides.pop_back();
  for (int64_t& s : strides) {
    FACULA_CHECK(s % 2 == 0, ShapeError,
                 "view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension, got ",
                 to_text(i.strides));
    s /= 2;
  }
  FACULA_CHECK(i.storage_offset % 2 == 0, ShapeError,
               "view_as_complex: Tensor must have a storage_offset divisible by 2, got ", i.storage_offset);
  return retyped(self, toComplexType(i.dtype), sizes, strides, i.storage_offset / 2);
}

}  // namespace facula::meaning
