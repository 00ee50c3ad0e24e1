// The gradients of views and of what rearranges or joins entries. Those of strided views are in as_strided.cpp.
#include "ops/generated/gradients.h"
#include "ops/gradients/pieces.h"

#include <algorithm>

namespace facula::vjp {

Tensor view_self(const Tensor& grad, IntArrayRef self_sizes) { return grad.reshape(self_sizes); }

Tensor view_self(const Tensor& grad, ScalarType self_dtype) {
  if (grad.scalar_type() == self_dtype) return grad;
  // Complex numbers read as pairs of reals, or the other way round; other readings of bits have no derivative.
  if (toRealValueType(grad.scalar_type()) != toRealValueType(self_dtype)) return {};
  return grad.contiguous().view(self_dtype);
}

Tensor reshape_self(const Tensor& grad, IntArrayRef self_sizes) { return grad.reshape(self_sizes); }
Tensor expand_self(const Tensor& grad) { return grad; }

Tensor permute_self(const Tensor& grad, IntArrayRef dims) {
  DimVector back(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    back[static_cast<size_t>(wrapped(dims[d], dims.size()))] = static_cast<int64_t>(d);
  return grad.permute(back);
}

Tensor transpose_self(const Tensor& grad, int64_t dim0, int64_t dim1) { return grad.transpose(dim0, dim1); }
Tensor t_self(const Tensor& grad) { return grad.t(); }
Tensor squeeze_self(const Tensor& grad, IntArrayRef self_sizes) { return grad.reshape(self_sizes); }
Tensor unsqueeze_self(const Tensor& grad, int64_t dim) { return grad.squeeze(dim); }

Tensor select_self(const Tensor& grad, IntArrayRef self_sizes, int64_t dim, int64_t index) {
  const int64_t d = wrapped(dim, self_sizes.size()), size = size_at(self_sizes, d);
  const int64_t before = index < 0 ? index + size : index;
  return padded(grad.unsqueeze(d), d, before, size - 1 - before);
}

namespace {

// The entries along `d` put `step` apart, with zeros between and after them.
Tensor spread_apart(const Tensor& t, int64_t d, int64_t step) {
  if (step == 1) return t;
  DimVector sizes(t.sizes());
  sizes[static_cast<size_t>(d)] *= step;
  return padded(t.unsqueeze(d + 1), d + 1, 0, step - 1).reshape(sizes);
}

}  // namespace

Tensor slice_self(const Tensor& grad, IntArrayRef self_sizes, int64_t dim, std::optional<int64_t> start,
                  std::optional<int64_t>, int64_t step) {
  const int64_t d = wrapped(dim, self_sizes.size()), size = size_at(self_sizes, d), length = grad.size(d);
  const int64_t given = start.value_or(0), first = std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
  if (length <= 1) return padded(grad, d, first, size - first - length);  // whatever the step
  const Tensor apart = spread_apart(grad, d, step);
  return padded(apart, d, first, size - first - apart.size(d));
}

Tensor diagonal_self(const Tensor& grad, IntArrayRef self_sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  if (grad.size(-1) == 0) return grad.new_zeros(self_sizes);
  const int64_t a = wrapped(dim1, self_sizes.size()), b = wrapped(dim2, self_sizes.size());
  // A square that holds the diagonal; what it lacks or has too much of is zero.
  const Tensor square = facula::diag_embed(grad, offset, a, b);
  const int64_t side = square.size(a);
  return padded(padded(square, a, 0, size_at(self_sizes, a) - side), b, 0, size_at(self_sizes, b) - side);
}

Tensor unfold_self(const Tensor& grad, IntArrayRef self_sizes, int64_t dimension, int64_t size, int64_t step) {
  if (self_sizes.empty()) return grad.sum();  // one entry, or none
  const int64_t d = wrapped(dimension, self_sizes.size()), total = size_at(self_sizes, d), windows = grad.size(d);
  const Tensor inside = grad.movedim(-1, d + 1);  // each window's entries after the window
  DimVector sizes(self_sizes);
  const auto flat = [&](const Tensor& t) {
    sizes[static_cast<size_t>(d)] = t.size(d) * t.size(d + 1);
    return t.reshape(sizes);
  };
  if (windows == 1 || step >= size) {
    const Tensor apart = flat(windows == 1 ? inside : padded(inside, d + 1, 0, step - size));
    return padded(apart, d, 0, total - apart.size(d));
  }
  const TensorOptions longs = TensorOptions(kLong).device(std::optional<Device>(grad.device()));
  const Tensor index =
      ((facula::arange(windows, longs) * step).unsqueeze(1) + facula::arange(size, longs)).reshape({-1});
  const Tensor zeros = grad.new_zeros(self_sizes), source = flat(inside);
  if (watched(grad)) return zeros.index_add(d, index, source);
  return zeros.index_add_(d, index, source);
}

Tensor alias_self(const Tensor& grad) { return grad; }
Tensor view_as_real_self(const Tensor& grad) { return facula::view_as_complex(grad.contiguous()); }
Tensor view_as_complex_self(const Tensor& grad) { return facula::view_as_real(grad); }

namespace {

// The gradients of parts along `dim` joined. One part alone is padded, so that the zeros of the others are not made twice.
Tensor joined(ArrayRef<Tensor> parts, IntArrayRef lengths, IntArrayRef whole, int64_t dim, ScalarType dtype) {
  const Tensor* one = nullptr;
  size_t defined = 0;
  int64_t before = 0, start = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].defined()) {
      one = &parts[k];
      before = start;
      ++defined;
    }
    start += lengths[k];
  }
  if (!one) return {};
  if (defined == 1) return padded(*one, dim, before, size_at(whole, dim) - before - one->size(dim));
  std::vector<Tensor> all(parts.begin(), parts.end());
  DimVector sizes(whole);
  for (size_t k = 0; k < all.size(); ++k) {
    if (all[k].defined()) continue;
    sizes[static_cast<size_t>(dim)] = lengths[k];
    all[k] = one->new_zeros(sizes, TensorOptions(dtype));
  }
  return facula::cat(all, dim);
}

}  // namespace

Tensor split_with_sizes_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, ScalarType self_dtype,
                             IntArrayRef split_sizes, int64_t dim) {
  return joined(grads, split_sizes, self_sizes, wrapped(dim, self_sizes.size()), self_dtype);
}

Tensor unbind_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, ScalarType self_dtype, int64_t dim) {
  const int64_t d = wrapped(dim, self_sizes.size());
  std::vector<Tensor> slices(grads.begin(), grads.end());
  for (Tensor& slice : slices)
    if (slice.defined()) slice = slice.unsqueeze(d);
  return joined(slices, DimVector(slices.size(), 1), self_sizes, d, self_dtype);
}

Tensor clone_self(const Tensor& grad) { return grad; }
Tensor copy_src(const Tensor& grad) { return grad; }
Tensor _to_copy_self(const Tensor& grad) { return grad; }

std::vector<Tensor> cat_tensors(const Tensor& grad, ArrayRef<DimVector> tensors_sizes, int64_t dim) {
  const size_t rank = grad.sizes().size();
  const int64_t d = wrapped(dim, rank);
  std::vector<Tensor> parts(tensors_sizes.size());
  int64_t start = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const IntArrayRef sizes = tensors_sizes[k];
    if (sizes.size() != rank) {  // an empty vector, which joins anything
      parts[k] = grad.new_zeros(sizes);
      continue;
    }
    // A vector without entries also has the rank when it is joined with vectors.
    const int64_t length = size_at(sizes, d);
    parts[k] = grad.narrow(d, start, length);
    start += length;
  }
  return parts;
}

std::vector<Tensor> stack_tensors(const Tensor& grad, int64_t dim) { return grad.unbind(dim); }

namespace {

DimVector negated(IntArrayRef values) {
  DimVector result(values);
  for (int64_t& v : result) v = -v;
  return result;
}

}  // namespace

Tensor constant_pad_nd_self(const Tensor& grad, IntArrayRef pad) { return facula::constant_pad_nd(grad, negated(pad)); }

// Borders give their gradient to the entries that they were copied from.
Tensor pad_self(const Tensor& grad, IntArrayRef self_sizes, IntArrayRef pad, std::string_view mode) {
  if (mode == "constant") return facula::constant_pad_nd(grad, negated(pad));
  if (grad.numel() == 0) return grad.new_zeros(self_sizes);
  const size_t dims = pad.size() / 2;
  Tensor sum = grad;
  // The last dim was padded first, so that the borders of the others are made from its borders too.
  for (size_t k = dims; k-- > 0;) {
    const int64_t d = static_cast<int64_t>(self_sizes.size() - 1 - k);
    const int64_t before = std::max<int64_t>(pad[2 * k], 0), after = std::max<int64_t>(pad[2 * k + 1], 0);
    const int64_t kept = sum.size(d) - before - after;
    const Tensor front = sum.narrow(d, 0, before), back = sum.narrow(d, before + kept, after);
    Tensor middle = sum.narrow(d, before, kept);
    if (mode == "replicate") {
      if (before > 0) middle = middle + padded(front.sum(d, true), d, 0, kept - 1);
      if (after > 0) middle = middle + padded(back.sum(d, true), d, kept - 1, 0);
    } else if (mode == "reflect") {
      if (before > 0) middle = middle + padded(front.flip(d), d, 1, kept - 1 - before);
      if (after > 0) middle = middle + padded(back.flip(d), d, kept - 1 - after, 1);
    } else {
      if (before > 0) middle = middle + padded(front, d, kept - before, 0);
      if (after > 0) middle = middle + padded(back, d, 0, kept - after);
    }
    sum = padded(middle, d, std::max<int64_t>(-pad[2 * k], 0), std::max<int64_t>(-pad[2 * k + 1], 0));
  }
  return sum;
}

Tensor flip_self(const Tensor& grad, IntArrayRef dims) { return grad.flip(dims); }
Tensor roll_self(const Tensor& grad, IntArrayRef shifts, IntArrayRef dims) { return grad.roll(negated(shifts), dims); }

Tensor repeat_self(const Tensor& grad, IntArrayRef self_sizes, IntArrayRef repeats) {
  const size_t extra = repeats.size() - self_sizes.size();
  if (grad.numel() == 0) return grad.new_zeros(self_sizes);
  // Each dim as two: which repetition, which entry. Sizes of 1 are left out to stay within the rank a tensor may have.
  DimVector sizes, summed;
  for (size_t d = 0; d < repeats.size(); ++d) {
    if (repeats[d] != 1) {
      summed.push_back(static_cast<int64_t>(sizes.size()));
      sizes.push_back(repeats[d]);
    }
    if (d >= extra && self_sizes[d - extra] != 1) sizes.push_back(self_sizes[d - extra]);
  }
  if (summed.empty()) return grad.reshape(self_sizes);
  return grad.reshape(sizes).sum(IntArrayRef(summed)).reshape(self_sizes);
}

namespace {

// Sizes of what repeat_interleave repeated, and along which dim: a vector when none was given.
struct Interleaved {
  DimVector sizes;
  int64_t dim;
  Interleaved(IntArrayRef self_sizes, std::optional<int64_t> given) : sizes(self_sizes), dim(0) {
    if (given && !self_sizes.empty()) {
      dim = wrapped(*given, self_sizes.size());
      return;
    }
    int64_t count = 1;
    for (const int64_t size : self_sizes) count *= size;
    sizes = IntArrayRef(count);
  }
};

}  // namespace

Tensor repeat_interleave_self(const Tensor& grad, IntArrayRef self_sizes, const Tensor& repeats,
                              std::optional<int64_t> dim) {
  const Interleaved from(self_sizes, dim);
  const int64_t count = size_at(from.sizes, from.dim);
  const Tensor each = repeats.numel() == 1 ? repeats.reshape({1}).expand({count}) : repeats;
  const Tensor index = facula::repeat_interleave(each, std::optional<int64_t>(grad.size(from.dim)));
  const Tensor zeros = grad.new_zeros(from.sizes);
  const Tensor sum =
      watched(grad, repeats) ? zeros.index_add(from.dim, index, grad) : zeros.index_add_(from.dim, index, grad);
  return sum.reshape(self_sizes);
}

Tensor repeat_interleave_self(const Tensor& grad, IntArrayRef self_sizes, int64_t repeats, std::optional<int64_t> dim) {
  if (grad.numel() == 0) return grad.new_zeros(self_sizes);
  Interleaved from(self_sizes, dim);
  from.sizes.insert(static_cast<size_t>(from.dim) + 1, repeats);
  return grad.reshape(from.sizes).sum(from.dim + 1).reshape(self_sizes);
}

Tensor tril_self(const Tensor& grad, int64_t diagonal) { return grad.tril(diagonal); }
Tensor triu_self(const Tensor& grad, int64_t diagonal) { return grad.triu(diagonal); }

Tensor diag_embed_self(const Tensor& grad, int64_t offset, int64_t dim1, int64_t dim2) {
  return grad.diagonal(offset, dim1, dim2);
}

}  // namespace facula::vjp
