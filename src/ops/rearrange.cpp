// Ops that put the entries of one tensor into another order or repeat them: flip, roll, repeat, triangles and
// diagonals. Each is one or a few strided copies, without index arithmetic for single entries. Padding lives in
// pad.cpp.
#include "ops/shape_checks.h"

#include "cpu/copy.h"
#include "cpu/copy_kernels.h"
#include "cpu/parallel.h"
#include "ops/pointwise.h"
#include "ops/transfer.h"

#include <algorithm>
#include <cstring>

namespace facula::meaning {

namespace {

constexpr int64_t kGrainBytes = 64 << 10;

int64_t element_bytes(const TensorImpl& t) { return static_cast<int64_t>(elementSize(t.dtype)); }

// A fresh tensor in the memory order of `self`.
Tensor fresh_like(const TensorImpl& i, const char* op) {
  if (i.contiguous) return new_tensor(i.sizes, i.dtype, i.device, op);
  return new_tensor_strided(i.sizes, preserved_strides(i.sizes, i.strides), i.dtype, i.device, op);
}

// ---- roll

// Rolls along at most four dims at once: every dim cuts the tensor into two parts that change places.
Tensor rolled(const Tensor& self, IntArrayRef dims, IntArrayRef shifts) {
  const TensorImpl& i = *self.impl();
  Tensor out = fresh_like(i, "roll");
  const TensorImpl& o = *out.impl();
  if (o.device.is_meta() || o.numel == 0) return out;
  for (uint64_t part = 0; part < (uint64_t{1} << dims.size()); ++part) {
    DimVector sizes(i.sizes);
    int64_t from = 0, to = 0;
    for (size_t k = 0; k < dims.size(); ++k) {
      size_t d = usize(dims[k]);
      int64_t head = i.sizes[d] - shifts[k];  // entries that move towards the end
      if ((part >> k) & 1) {
        sizes[d] = shifts[k];
        from += head * i.strides[d];
      } else {
        sizes[d] = head;
        to += shifts[k] * o.strides[d];
      }
    }
    copy_part(out, to, o.strides, self, from, i.strides, sizes);
  }
  return out;
}

// ---- repeat_interleave

// The pieces [begin, end) of all rows, each repeated. N is the size of a piece where it is that of an element, else 0.
template <size_t N, class Starts>
void repeat_range(char* dst, const char* src, int64_t begin, int64_t end, int64_t count, int64_t piece, int64_t total,
                  Starts starts) {
  const size_t bytes = N ? N : usize(piece);
  int64_t row = begin / count, k = begin % count;
  const char* from = src + usize(begin) * bytes;
  for (int64_t r = begin; r < end; ++r, from += bytes) {
    int64_t first = starts(k), times = starts(k + 1) - first;
    char* to = dst + usize(row * total + first) * bytes;
    if (N && times > 16) {
      detail::fill_row(to, from, times, bytes);
    } else {
      for (int64_t n = 0; n < times; ++n, to += bytes) std::memcpy(to, from, bytes);
    }
    if (++k == count) {
      k = 0;
      ++row;
    }
  }
}

// dst gets, for every row of `outer` and every entry k of `count`, `piece` bytes repeated from `starts(k)` up to
// `starts(k + 1)`.
template <class Starts>
void repeat_pieces(char* dst, const char* src, int64_t outer, int64_t count, int64_t piece, int64_t total,
                   Starts starts) {
  int64_t average = std::max<int64_t>(1, total / count) * piece;
  parallel_for(0, outer * count, std::max<int64_t>(1, kGrainBytes / average), [&](int64_t begin, int64_t end) {
    switch (piece) {
      case 1: return repeat_range<1>(dst, src, begin, end, count, piece, total, starts);
      case 2: return repeat_range<2>(dst, src, begin, end, count, piece, total, starts);
      case 4: return repeat_range<4>(dst, src, begin, end, count, piece, total, starts);
      case 8: return repeat_range<8>(dst, src, begin, end, count, piece, total, starts);
      case 16: return repeat_range<16>(dst, src, begin, end, count, piece, total, starts);
      default: return repeat_range<0>(dst, src, begin, end, count, piece, total, starts);
    }
  });
}

// The counts as int64, checked to be 0 or more, and where each entry's run starts; the last number is the length of the
// result.
std::vector<int64_t> run_starts(const Tensor& repeats, int64_t count, std::optional<int64_t> output_size) {
  Tensor counts = as_contiguous(as_dtype(repeats, kLong));
  const int64_t* data = reinterpret_cast<const int64_t*>(counts.impl()->data());
  int64_t step = counts.impl()->numel == 1 ? 0 : 1;
  std::vector<int64_t> starts(usize(count) + 1, 0);
  for (int64_t k = 0; k < count; ++k) {
    int64_t n = data[k * step];
    FACULA_CHECK(n >= 0, ValueError, "repeat_interleave: repeats can not be negative, but entry ", k * step, " is ", n);
    FACULA_CHECK(!__builtin_add_overflow(starts[usize(k)], n, &starts[usize(k) + 1]), ShapeError,
                 "repeat_interleave: the sum of repeats overflows 64 bits");
  }
  FACULA_CHECK(!output_size || *output_size == starts.back(), ValueError,
               "repeat_interleave: allocated size does not match required size: output_size is ",
               output_size.value_or(0), " but the repeats add up to ", starts.back());
  return starts;
}

// The same on a GPU: which entry comes where is found by searching among the ends of runs. Only the length of the result
// must be known here. Where the caller tells it, nothing waits: repeats that do not fit then give an index beyond all
// entries, which is the error of a later call as any other wrong index is.
Tensor interleaved_on_gpu(const Tensor& input, const Tensor& repeats, int64_t dim, std::optional<int64_t> output_size) {
  const Device device = input.device();
  const int64_t count = input.size(dim);
  const Tensor counts = carried_to(device, as_dtype(repeats, kLong)).expand({count});
  if (count == 0) {
    run_starts(counts.cpu(), count, output_size);
    return new_tensor(input.sizes(), input.scalar_type(), device, "repeat_interleave");
  }
  const Tensor ends = counts.cumsum(0), total = ends.select(0, count - 1);
  // A sum beyond 64 bits is negative where it first happens.
  const Tensor least = facula::minimum(counts.amin(), ends.amin());
  const bool told = output_size.value_or(0) > 0;
  const int64_t length = told ? *output_size : facula::where(least.lt(0), least, total).item().toLong();
  if (length < 0 || (!told && output_size && *output_size != length)) run_starts(counts.cpu(), count, output_size);
  const Tensor each = facula::arange(Scalar(length), TensorOptions(kLong).device(std::optional<Device>(device)));
  Tensor index = facula::searchsorted(ends, each, false, true);
  if (told) index = facula::where(least.ge(0).logical_and(total.eq(length)), index, Scalar(count));
  return input.index_select(dim, index);
}

void check_repeats(const TensorImpl& r) {
  FACULA_CHECK(r.dtype == kLong || r.dtype == kInt, DTypeError,
               "repeat_interleave: repeats has to be Long or Int tensor, got ", toString(r.dtype));
}

// ---- triangles

Tensor triangle(const Tensor& self, int64_t diagonal, bool upper, const char* op) {
  const TensorImpl& given = impl_of(self, op);
  FACULA_CHECK(given.dim() >= 2, ShapeError, op, ": input tensor must have at least 2 dimensions, got sizes ",
               to_text(given.sizes));
  Tensor out = new_tensor(given.sizes, given.dtype, given.device, op);
  if (given.device.is_meta() || given.numel == 0) return out;
  if (given.device.is_cuda()) {
    const TensorOptions where(given.device);
    const Tensor row = facula::arange(given.sizes[given.sizes.size() - 2], where.dtype(kLong)).unsqueeze(1);
    const Tensor distance = facula::arange(given.sizes.back(), where.dtype(kLong)).sub(row);
    const Tensor gone = upper ? distance.lt(diagonal) : distance.gt(diagonal);
    return pointwise(ScalarOp::where, {gone, Scalar(false), self}, Out::fresh(), op);
  }
  // Rows must lie in one piece; everything else about the strides is free.
  Tensor source = given.strides.back() == 1 || given.sizes.back() == 1 ? self : as_contiguous(self);
  const TensorImpl& i = *source.impl();
  size_t rank = i.sizes.size();
  int64_t rows = i.sizes[rank - 2], cols = i.sizes[rank - 1], element = element_bytes(i), row_bytes = cols * element;
  int64_t shift = std::clamp<int64_t>(diagonal, -rows, cols);
  char* dst = out.impl()->data();
  parallel_for(0, i.numel / cols, std::max<int64_t>(1, kGrainBytes / row_bytes), [&](int64_t begin, int64_t end) {
    const char* matrix = nullptr;
    for (int64_t r = begin; r < end; ++r) {
      int64_t row = r % rows;
      if (!matrix || row == 0) {
        int64_t batch = r / rows, offset = 0;
        for (size_t d = rank - 2; d-- > 0;) {
          offset += batch % i.sizes[d] * i.strides[d];
          batch /= i.sizes[d];
        }
        matrix = i.data() + offset * element;
      }
      const char* from = matrix + row * i.strides[rank - 2] * element;
      char* to = dst + r * row_bytes;
      // Upper: entries from `cut` on are kept; lower: those before it.
      size_t cut = usize(std::clamp<int64_t>(row + shift + (upper ? 0 : 1), 0, cols) * element), all = usize(row_bytes);
      if (upper) {
        std::memset(to, 0, cut);
        std::memcpy(to + cut, from + cut, all - cut);
      } else {
        std::memcpy(to, from, cut);
        std::memset(to + cut, 0, all - cut);
      }
    }
  });
  return out;
}

}  // namespace

Tensor flip(const Tensor& self, IntArrayRef dims) {
  const TensorImpl& i = impl_of(self, "flip");
  DimVector flipped = wrap_dims(dims, i.dim(), "flip");
  Tensor out = fresh_like(i, "flip");
  const TensorImpl& o = *out.impl();
  if (o.device.is_meta() || o.numel == 0) return out;
  // A walk from the other end: the same strides with the other sign.
  DimVector strides(i.strides);
  int64_t offset = 0;
  if (i.dim() > 0)
    for (int64_t d : flipped) {
      offset += (i.sizes[usize(d)] - 1) * strides[usize(d)];
      strides[usize(d)] = -strides[usize(d)];
    }
  copy_part(out, 0, o.strides, self, offset, strides, i.sizes);
  return out;
}

Tensor fliplr(const Tensor& self) {
  FACULA_CHECK(impl_of(self, "fliplr").dim() >= 2, ShapeError, "fliplr: Input must be >= 2-d, got sizes ",
               to_text(self.sizes()));
  return self.flip({1});
}

Tensor flipud(const Tensor& self) {
  FACULA_CHECK(impl_of(self, "flipud").dim() >= 1, ShapeError, "flipud: Input must be >= 1-d.");
  return self.flip({0});
}

Tensor roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  const TensorImpl& i = impl_of(self, "roll");
  FACULA_CHECK(!shifts.empty(), ValueError, "roll: `shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Tensor flat = meaning::reshape(as_contiguous(self), {-1});
    return meaning::reshape(meaning::roll(flat, shifts, {0}), i.sizes);
  }
  FACULA_CHECK(shifts.size() == dims.size(), ValueError,
               "roll: shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  DimVector total(i.sizes.size(), 0);
  for (size_t k = 0; k < dims.size(); ++k) {
    size_t d = usize(wrap_dim(dims[k], i.dim(), "roll"));
    if (i.dim() == 0) continue;
    int64_t size = i.sizes[d];
    if (size > 0) total[d] = (total[d] + shifts[k] % size + size) % size;
  }
  DimVector rolled_dims, rolled_shifts;
  Tensor result = self;
  bool fresh = false;
  for (size_t d = 0; d <= total.size(); ++d) {
    bool last = d == total.size();
    if (!last && total[d] != 0) {
      rolled_dims.push_back(static_cast<int64_t>(d));
      rolled_shifts.push_back(total[d]);
    }
    if (rolled_dims.size() == 4 || (last && (!rolled_dims.empty() || !fresh))) {
      result = rolled(result, rolled_dims, rolled_shifts);
      fresh = true;
      rolled_dims.clear();
      rolled_shifts.clear();
    }
  }
  return result;
}

Tensor rot90(const Tensor& self, int64_t k, IntArrayRef dims) {
  const TensorImpl& i = impl_of(self, "rot90");
  FACULA_CHECK(dims.size() == 2, ValueError, "rot90: expected total rotation dims == 2, but got dims = ", dims.size());
  FACULA_CHECK(i.dim() >= 2, ShapeError, "rot90: expected total dims >= 2, but got total dims = ", i.dim());
  int64_t a = wrap_dim(dims[0], i.dim(), "rot90"), b = wrap_dim(dims[1], i.dim(), "rot90");
  FACULA_CHECK(a != b, ValueError, "rot90: expected rotation dims to be different, but got dim0 = ", dims[0],
               " and dim1 = ", dims[1]);
  switch (((k % 4) + 4) % 4) {
    case 1: return self.flip({b}).transpose(a, b);
    case 2: return self.flip({a, b});
    case 3: return self.flip({a}).transpose(a, b);
    default: return self.clone(MemoryFormat::Contiguous);
  }
}

Tensor repeat(const Tensor& self, IntArrayRef repeats) {
  const TensorImpl& i = impl_of(self, "repeat");
  FACULA_CHECK(
      repeats.size() >= i.sizes.size(), ShapeError,
      "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor; repeats ",
      to_text(repeats), ", tensor sizes ", to_text(i.sizes));
  FACULA_CHECK(repeats.size() <= usize(kMaxDims), ShapeError, "repeat: ", repeats.size(),
               " dimensions are more than the ", kMaxDims, " that a tensor may have");
  size_t rank = repeats.size(), extra = rank - i.sizes.size();
  DimVector sizes(rank);
  for (size_t d = 0; d < rank; ++d) {
    int64_t have = d < extra ? 1 : i.sizes[d - extra];
    FACULA_CHECK(repeats[d] >= 0, ShapeError, "repeat: Trying to create tensor with negative dimension ", repeats[d],
                 ": repeats ", to_text(repeats));
    FACULA_CHECK(!__builtin_mul_overflow(have, repeats[d], &sizes[d]), ShapeError, "repeat: the sizes ",
                 to_text(i.sizes), " times ", to_text(repeats), " overflow 64 bits");
  }
  Tensor out = new_tensor(sizes, i.dtype, i.device, "repeat");
  const TensorImpl& o = *out.impl();
  if (o.device.is_meta() || o.numel == 0) return out;
  // Each dim becomes two: which repetition, which entry. Along the first the source stands still. Sizes of 1 are left
  // out, and as the others multiply up to the number of elements there are at most 62 of them.
  DimVector both, to, from;
  for (size_t d = 0; d < rank; ++d) {
    int64_t have = d < extra ? 1 : i.sizes[d - extra];
    if (repeats[d] != 1) {
      both.push_back(repeats[d]);
      to.push_back(o.strides[d] * have);
      from.push_back(0);
    }
    if (have != 1) {
      both.push_back(have);
      to.push_back(o.strides[d]);
      from.push_back(i.strides[d - extra]);
    }
  }
  copy_part(out, 0, to, self, 0, from, both);
  return out;
}

Tensor tile(const Tensor& self, IntArrayRef dims) {
  const TensorImpl& i = impl_of(self, "tile");
  DimVector repeats(i.sizes.size() > dims.size() ? i.sizes.size() - dims.size() : 0, 1);
  for (int64_t n : dims) repeats.push_back(n);
  return self.repeat(repeats);
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  const TensorImpl& r = impl_of(repeats, "repeat_interleave");
  FACULA_CHECK(r.dim() == 1, ShapeError,
               "repeat_interleave: repeat_interleave only accept 1D vector as repeat, got sizes ", to_text(r.sizes));
  check_repeats(r);
  if (r.device.is_meta()) {
    FACULA_CHECK(output_size, NotSupportedError,
                 "repeat_interleave: cannot repeat_interleave a meta tensor without output_size");
    return new_tensor(IntArrayRef(*output_size), r.dtype, r.device, "repeat_interleave");
  }
  Tensor index = facula::arange(Scalar(r.numel), TensorOptions(r.dtype).device(std::optional<Device>(r.device)));
  return meaning::repeat_interleave(index, repeats, 0, output_size);
}

Tensor repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  const TensorImpl &given = impl_of(self, "repeat_interleave"), &r = impl_of(repeats, "repeat_interleave");
  check_repeats(r);
  Tensor input = dim && given.dim() > 0 ? self : meaning::reshape(self, {-1});
  const TensorImpl& i = *input.impl();
  size_t d = usize(wrap_dim(dim.value_or(0), given.dim() == 0 || !dim ? 1 : given.dim(), "repeat_interleave"));
  int64_t count = i.sizes[d];
  FACULA_CHECK(
      r.dim() == 0 || (r.dim() == 1 && (r.numel == 1 || r.numel == count)), ShapeError,
      "repeat_interleave: repeats must be 0-dim or 1-dim tensor with the same size as input along dim, got sizes ",
      to_text(r.sizes), " for input sizes ", to_text(i.sizes), " and dim ", d);
  // One number of repeats may come from the cpu, whatever the device.
  const Device device =
      r.dim() == 0 && r.device.is_cpu() ? i.device : same_device({&input, &repeats}, "repeat_interleave");
  DimVector sizes(i.sizes);
  if (device.is_meta()) {
    FACULA_CHECK(output_size, NotSupportedError,
                 "repeat_interleave: cannot repeat_interleave a meta tensor without output_size");
    sizes[d] = *output_size;
    return new_tensor(sizes, i.dtype, i.device, "repeat_interleave");
  }
  if (device.is_cuda()) return interleaved_on_gpu(input, repeats, static_cast<int64_t>(d), output_size);
  std::vector<int64_t> starts = run_starts(repeats, count, output_size);
  sizes[d] = starts.back();
  Tensor out = new_tensor(sizes, i.dtype, i.device, "repeat_interleave");
  if (out.impl()->numel == 0) return out;
  Tensor source = as_contiguous(input);
  repeat_pieces(out.impl()->data(), source.impl()->data(), count_between(sizes, 0, d), count,
                count_between(sizes, d + 1, sizes.size()) * element_bytes(i), starts.back(),
                [&](int64_t k) { return starts[usize(k)]; });
  return out;
}

Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  const TensorImpl& given = impl_of(self, "repeat_interleave");
  FACULA_CHECK(repeats >= 0, ValueError, "repeat_interleave: Repeats must be non-negative, got ", repeats);
  Tensor input = dim && given.dim() > 0 ? self : meaning::reshape(self, {-1});
  const TensorImpl& i = *input.impl();
  size_t d = usize(wrap_dim(dim.value_or(0), given.dim() == 0 || !dim ? 1 : given.dim(), "repeat_interleave"));
  DimVector sizes(i.sizes);
  FACULA_CHECK(!__builtin_mul_overflow(i.sizes[d], repeats, &sizes[d]), ShapeError, "repeat_interleave: size ",
               i.sizes[d], " times ", repeats, " overflows 64 bits");
  FACULA_CHECK(!output_size || *output_size == sizes[d], ValueError,
               "repeat_interleave: Invalid output_size, expected ", sizes[d], " but got ", output_size.value_or(0));
  Tensor out = new_tensor(sizes, i.dtype, i.device, "repeat_interleave");
  if (i.device.is_meta() || out.impl()->numel == 0) return out;
  if (i.device.is_cuda()) {
    // Each entry along the dim becomes a dim of its own, along which the source stands still.
    DimVector both(i.sizes), to(out.impl()->strides), from(i.strides);
    both.insert(d + 1, repeats);
    to.insert(d, to[d] * repeats);
    from.insert(d + 1, 0);
    copy_part(out, 0, to, input, 0, from, both);
    return out;
  }
  Tensor source = as_contiguous(input);
  repeat_pieces(out.impl()->data(), source.impl()->data(), count_between(sizes, 0, d), i.sizes[d],
                count_between(sizes, d + 1, sizes.size()) * element_bytes(i), sizes[d],
                [&](int64_t k) { return k * repeats; });
  return out;
}

Tensor tril(const Tensor& self, int64_t diagonal) { return triangle(self, diagonal, false, "tril"); }
Tensor triu(const Tensor& self, int64_t diagonal) { return triangle(self, diagonal, true, "triu"); }

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const TensorImpl& i = impl_of(self, "diag_embed");
  FACULA_CHECK(i.dim() > 0, ShapeError, "diag_embed: a tensor of at least 1 dimension is needed");
  int64_t a = wrap_dim(dim1, i.dim() + 1, "diag_embed"), b = wrap_dim(dim2, i.dim() + 1, "diag_embed");
  FACULA_CHECK(a != b, ValueError, "diag_embed: diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  int64_t side;
  FACULA_CHECK(offset > INT64_MIN && !__builtin_add_overflow(offset < 0 ? -offset : offset, i.sizes.back(), &side),
               ShapeError, "diag_embed: offset ", offset, " makes a matrix beyond 64 bits");
  DimVector sizes(i.sizes);
  sizes.pop_back();
  sizes.insert(usize(std::min(a, b)), side);
  sizes.insert(usize(std::max(a, b)), side);
  Tensor out = meaning::zeros(sizes, TensorOptions(i.dtype).device(std::optional<Device>(i.device)));
  copy_values(meaning::diagonal(out, offset, a, b), self);
  return out;
}

Tensor diag(const Tensor& self, int64_t diagonal) {
  const TensorImpl& i = impl_of(self, "diag");
  FACULA_CHECK(i.dim() == 1 || i.dim() == 2, ShapeError, "diag: diag(): Supports 1D or 2D tensors. Got ", i.dim(), "D");
  if (i.dim() == 1) return self.diag_embed(diagonal, 0, 1);
  return self.diagonal(diagonal).clone(MemoryFormat::Contiguous);
}

Tensor trace(const Tensor& self) {
  FACULA_CHECK(impl_of(self, "trace").dim() == 2, ShapeError, "trace: expected a matrix, but got tensor with dim ",
               self.dim());
  return self.diagonal().sum();
}

}  // namespace facula::meaning
