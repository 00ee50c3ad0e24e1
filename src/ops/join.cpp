// Joining tensors: cat, stack and what is made of them. Rows of memory are copied by several threads; inputs with other
// strides or dtypes go through the general copy.
#include "ops/shape_checks.h"

#include "cpu/copy_kernels.h"
#include "cpu/parallel.h"

#include <algorithm>
#include <cstring>

namespace facula::meaning {

namespace {

constexpr int64_t kGrainBytes = 128 << 10;
constexpr int64_t kSmallPiece = 256;  // below this a call of memcpy for every piece costs more than the copying
constexpr int64_t kBlockBytes = 16 << 10;

// What one input contributes to every row of the output.
struct Piece {
  const char* data;
  int64_t bytes;
  int64_t offset;  // in the row
};

// A list of pieces that stays on the stack for few inputs.
class Pieces {
 public:
  explicit Pieces(size_t count) {
    if (count > kInline) {
      heap_.resize(count);
      data_ = heap_.data();
    }
  }
  Piece& add() { return data_[size_++]; }
  size_t size() const { return size_; }
  const Piece* begin() const { return data_; }
  const Piece* end() const { return data_ + size_; }

 private:
  static constexpr size_t kInline = 16;
  Piece inline_[kInline];
  std::vector<Piece> heap_;
  Piece* data_ = inline_;
  size_t size_ = 0;
};

template <size_t N>
void copy_column(char* dst, int64_t dst_step, const char* src, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += N) std::memcpy(dst, src, N);
}

void copy_column(char* dst, int64_t dst_step, const char* src, int64_t bytes, int64_t rows) {
  switch (bytes) {
    case 1: return copy_column<1>(dst, dst_step, src, rows);
    case 2: return copy_column<2>(dst, dst_step, src, rows);
    case 4: return copy_column<4>(dst, dst_step, src, rows);
    case 8: return copy_column<8>(dst, dst_step, src, rows);
    case 12: return copy_column<12>(dst, dst_step, src, rows);
    case 16: return copy_column<16>(dst, dst_step, src, rows);
    case 32: return copy_column<32>(dst, dst_step, src, rows);
    case 64: return copy_column<64>(dst, dst_step, src, rows);
    default:
      for (int64_t r = 0; r < rows; ++r, dst += dst_step, src += bytes) std::memcpy(dst, src, usize(bytes));
  }
}

// Row r of `dst` is made of bytes [r * bytes, (r + 1) * bytes) of each piece, one after another.
void interleave_rows(char* dst, int64_t rows, int64_t row_bytes, const Pieces& pieces) {
  const int64_t total = rows * row_bytes;
  if (total == 0) return;
  const int64_t average = row_bytes / static_cast<int64_t>(pieces.size());
  if (average < kSmallPiece && rows > 1) {
    // Blocks of rows that stay in the cache while every piece is put into them.
    const int64_t block = std::max<int64_t>(1, kBlockBytes / row_bytes);
    parallel_for(0, rows, std::max<int64_t>(1, kGrainBytes / 2 / row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += block) {
        const int64_t n = std::min(block, end - r);
        for (const Piece& p : pieces)
          copy_column(dst + r * row_bytes + p.offset, row_bytes, p.data + r * p.bytes, p.bytes, n);
      }
    });
    return;
  }
  // Threads take equal shares of the output's bytes, whatever rows and pieces these fall into.
  const bool stream = detail::worth_streaming(total);
  parallel_for(0, total, kGrainBytes, [&](int64_t begin, int64_t end) {
    int64_t row = begin / row_bytes, at = begin % row_bytes;
    const Piece* p = std::upper_bound(pieces.begin(), pieces.end(), at,
                                      [](int64_t v, const Piece& x) { return v < x.offset + x.bytes; });
    for (int64_t done = begin; done < end;) {
      int64_t skip = at - p->offset;
      int64_t n = std::min(p->bytes - skip, end - done);
      const char* from = p->data + row * p->bytes + skip;
      if (stream) detail::stream_bytes(dst + done, from, n);
      else std::memcpy(dst + done, from, usize(n));
      done += n;
      at += n;
      ++p;
      if (p == pieces.end()) {
        p = pieces.begin();
        at = 0;
        ++row;
      }
    }
    if (stream) detail::end_stream();
  });
}

ScalarType joined_dtype(TensorList tensors, const char* op) {
  ScalarType dtype = tensors[0].impl()->dtype;
  for (const Tensor& t : tensors) {
    if (t.impl()->dtype == dtype) continue;
    ScalarType wider = promoteTypes(dtype, t.impl()->dtype);
    FACULA_CHECK(wider != ScalarType::Undefined, DTypeError, op, ": Promotion for ", toString(dtype), " and ",
                 toString(t.impl()->dtype), " is not supported; convert the tensors to one dtype with .to(...)");
    dtype = wider;
  }
  return dtype;
}

void check_list(TensorList tensors, const char* op) {
  FACULA_CHECK(!tensors.empty(), ValueError, op, ": expected a non-empty list of Tensors");
  Device device = impl_of(tensors[0], op).device;
  for (const Tensor& t : tensors)
    FACULA_CHECK(impl_of(t, op).device == device, DeviceError, op,
                 ": Expected all tensors to be on the same device, but found at least two devices, ", device.str(),
                 " and ", t.impl()->device.str(), "! Move them to one with .to(device)");
}

// A vector without entries joins tensors of any rank and adds nothing.
bool is_skipped(const TensorImpl& t) { return t.sizes.size() == 1 && t.sizes[0] == 0; }

// The memory format that all joined tensors share, row-major when they do not share one.
MemoryFormat joined_format(TensorList tensors) {
  std::optional<MemoryFormat> common;
  for (const Tensor& t : tensors) {
    if (is_skipped(*t.impl())) continue;
    MemoryFormat format = t.suggest_memory_format();
    if (format == MemoryFormat::Contiguous || (common && *common != format)) return MemoryFormat::Contiguous;
    common = format;
  }
  return common.value_or(MemoryFormat::Contiguous);
}

Tensor joined(TensorList tensors, int64_t dim) {
  const char* op = "cat";
  check_list(tensors, op);
  ScalarType dtype = joined_dtype(tensors, op);
  Device device = tensors[0].impl()->device;
  const TensorImpl* first = nullptr;
  size_t first_index = 0;
  for (size_t k = 0; k < tensors.size() && !first; ++k) {
    const TensorImpl* t = tensors[k].impl();
    FACULA_CHECK(t->dim() > 0, ShapeError, op, ": zero-dimensional tensor (at position ", k,
                 ") cannot be concatenated; use stack");
    if (!is_skipped(*t)) first = t, first_index = k;
  }
  if (!first) {
    wrap_dim(dim, 1, op);
    return new_tensor({0}, dtype, device, op);
  }
  size_t d = usize(wrap_dim(dim, first->dim(), op));
  DimVector sizes(first->sizes);
  bool plain = first->contiguous && first->dtype == dtype;  // every input is row-major and of the result's dtype
  for (size_t k = first_index + 1; k < tensors.size(); ++k) {
    const TensorImpl* t = tensors[k].impl();
    FACULA_CHECK(t->dim() > 0, ShapeError, op, ": zero-dimensional tensor (at position ", k,
                 ") cannot be concatenated; use stack");
    if (is_skipped(*t)) continue;
    FACULA_CHECK(t->sizes.size() == sizes.size(), ShapeError, op, ": Tensors must have same number of dimensions: got ",
                 first->dim(), " and ", t->dim(), " (sizes ", to_text(first->sizes), " and ", to_text(t->sizes),
                 " for tensor number ", k, "); unsqueeze adds a dimension of size 1");
    for (size_t j = 0; j < sizes.size(); ++j)
      FACULA_CHECK(j == d || t->sizes[j] == sizes[j], ShapeError, op,
                   ": Sizes of tensors must match except in dimension ", d, ". Expected size ", sizes[j],
                   " but got size ", t->sizes[j], " for tensor number ", k, " in the list. The shapes are ",
                   to_text(first->sizes), " and ", to_text(t->sizes), "; only dimension ", d, " may differ");
    FACULA_CHECK(!__builtin_add_overflow(sizes[d], t->sizes[d], &sizes[d]), ShapeError, op,
                 ": the joined size overflows 64 bits");
    plain &= t->contiguous && t->dtype == dtype;
  }
  MemoryFormat format = plain ? MemoryFormat::Contiguous : joined_format(tensors);
  Tensor out = format == MemoryFormat::Contiguous
                   ? new_tensor(sizes, dtype, device, op)
                   : new_tensor_strided(sizes, strides_for(sizes, format, op), dtype, device, op);
  if (device.is_meta() || out.impl()->numel == 0) return out;

  // Where `dim` stands in the order of memory: entries along dims before it are rows, those after it lie within a
  // piece.
  int64_t rows = 1, inner = static_cast<int64_t>(elementSize(dtype));
  if (format == MemoryFormat::Contiguous) {
    rows = count_between(sizes, 0, d);
    inner *= count_between(sizes, d + 1, sizes.size());
  } else {
    const DimVector& strides = out.impl()->strides;
    for (size_t j = 0; j < sizes.size(); ++j) {
      if (j == d) continue;
      if (strides[j] > strides[d]) rows *= sizes[j];
      else inner *= sizes[j];
    }
    // Dims of size 1 have strides that say nothing of their order, but they count for nothing either.
  }
  bool direct = device.is_cpu();
  if (!plain)
    for (const Tensor& t : tensors)
      direct &= is_skipped(*t.impl()) || (t.impl()->dtype == dtype && t.is_contiguous(format));
  if (direct) {
    Pieces pieces(tensors.size());
    int64_t offset = 0;
    for (const Tensor& t : tensors) {
      if (t.impl()->numel == 0) continue;
      int64_t bytes = t.impl()->sizes[d] * inner;
      pieces.add() = {t.impl()->data(), bytes, offset};
      offset += bytes;
    }
    interleave_rows(out.impl()->data(), rows, offset, pieces);
    return out;
  }
  int64_t start = 0;
  for (const Tensor& t : tensors) {
    const TensorImpl* i = t.impl();
    if (is_skipped(*i)) continue;
    copy_values(view_of(out, i->sizes, out.impl()->strides, start * out.impl()->strides[d]), t);
    start += i->sizes[d];
  }
  return out;
}

}  // namespace

Tensor cat(TensorList tensors, int64_t dim) { return joined(tensors, dim); }

Tensor stack(TensorList tensors, int64_t dim) {
  check_list(tensors, "stack");
  const TensorImpl* first = tensors[0].impl();
  size_t d = usize(wrap_dim(dim, first->dim() + 1, "stack"));
  ScalarType dtype = joined_dtype(tensors, "stack");
  bool plain = true;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const TensorImpl* t = tensors[k].impl();
    FACULA_CHECK(IntArrayRef(t->sizes) == IntArrayRef(first->sizes), ShapeError,
                 "stack: stack expects each tensor to be equal size, but got ", to_text(first->sizes),
                 " at entry 0 and ", to_text(t->sizes), " at entry ", k, "; cat joins along an existing dimension");
    plain &= t->contiguous && t->dtype == dtype;
  }
  DimVector sizes(first->sizes);
  sizes.insert(d, static_cast<int64_t>(tensors.size()));
  Tensor out = new_tensor(sizes, dtype, first->device, "stack");
  const TensorImpl* o = out.impl();
  if (o->numel == 0 || o->device.is_meta()) return out;
  if (plain && o->device.is_cpu()) {
    Pieces pieces(tensors.size());
    int64_t rows = count_between(sizes, 0, d),
            bytes = count_between(sizes, d + 1, sizes.size()) * static_cast<int64_t>(elementSize(dtype));
    int64_t offset = 0;
    for (const Tensor& t : tensors) {
      pieces.add() = {t.impl()->data(), bytes, offset};
      offset += bytes;
    }
    interleave_rows(o->data(), rows, offset, pieces);
    return out;
  }
  DimVector strides(o->strides);
  strides.erase(d);
  for (size_t k = 0; k < tensors.size(); ++k)
    copy_values(view_of(out, first->sizes, strides, static_cast<int64_t>(k) * o->strides[d]), tensors[k]);
  return out;
}

Tensor hstack(TensorList tensors) {
  check_list(tensors, "hstack");
  std::vector<Tensor> rows = facula::atleast_1d(tensors);
  return facula::cat(rows, rows[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(TensorList tensors) {
  check_list(tensors, "vstack");
  return facula::cat(facula::atleast_2d(tensors), 0);
}

Tensor dstack(TensorList tensors) {
  check_list(tensors, "dstack");
  return facula::cat(facula::atleast_3d(tensors), 2);
}

}  // namespace facula::meaning
