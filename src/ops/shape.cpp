// Ops that take tensors apart into several views, and those that bring several tensors to one shape. Nothing here
// copies. Views of one tensor live in views.cpp. Most are made of other ops under their public names, so that whoever
// watches sees the parts.
#include "ops/shape_checks.h"

#include <algorithm>

namespace facula::meaning {

namespace {

// Consecutive parts along `dim`; the lengths add up to its size.
class Cutter {
 public:
  Cutter(const Tensor& self, size_t dim)
      : self_(self), dim_(dim), sizes_(self.impl()->sizes), offset_(self.impl()->storage_offset) {}

  Tensor next(int64_t length) {
    const TensorImpl* i = self_.impl();
    sizes_[dim_] = length;
    Tensor part = view_of(self_, sizes_, i->strides, offset_);
    offset_ += length * i->strides[dim_];
    return part;
  }

 private:
  const Tensor& self_;
  size_t dim_;
  DimVector sizes_;
  int64_t offset_;
};

std::vector<Tensor> cut(const Tensor& self, IntArrayRef lengths, int64_t dim) {
  const char* op = "split_with_sizes";
  const TensorImpl& i = impl_of(self, op);
  FACULA_CHECK(i.dim() > 0, ShapeError, op, ": split expects at least a 1-dimensional tensor");
  size_t d = usize(wrap_dim(dim, i.dim(), op));
  int64_t rest = i.sizes[d];
  for (int64_t length : lengths) {
    FACULA_CHECK(length >= 0, ValueError, op,
                 ": split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=",
                 to_text(lengths));
    rest = length > rest ? -1 : rest - length;
    if (rest < 0) break;
  }
  FACULA_CHECK(rest == 0, ValueError, op, ": split_with_sizes expects split_sizes to sum exactly to ", i.sizes[d],
               " (input tensor's size at dimension ", d, "), but got split_sizes=", to_text(lengths));
  std::vector<Tensor> parts;
  parts.reserve(lengths.size());
  Cutter cutter(self, d);
  for (int64_t length : lengths) parts.push_back(cutter.next(length));
  return parts;
}

std::vector<Tensor> cut_evenly(const Tensor& self, size_t dim, int64_t step, int64_t count) {
  DimVector lengths(usize(count), step);
  if (count > 0) lengths.back() = self.impl()->sizes[dim] - step * (count - 1);
  return self.split_with_sizes(lengths, static_cast<int64_t>(dim));
}

template <class One>
std::vector<Tensor> each(TensorList tensors, One one) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& t : tensors) result.push_back(one(t));
  return result;
}

}  // namespace

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  const TensorImpl& i = impl_of(self, "chunk");
  FACULA_CHECK(i.dim() > 0, ShapeError, "chunk: chunk expects at least a 1-dimensional tensor");
  FACULA_CHECK(chunks > 0, ValueError, "chunk: chunk expects `chunks` to be greater than 0, got: ", chunks);
  size_t d = usize(wrap_dim(dim, i.dim(), "chunk"));
  int64_t size = i.sizes[d];
  // Of an empty dimension the caller still gets as many parts as asked for.
  if (size == 0) return cut_evenly(self, d, 0, chunks);
  int64_t step = size / chunks + (size % chunks != 0);
  return cut_evenly(self, d, step, (size - 1) / step + 1);
}

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) {
  const TensorImpl& i = impl_of(self, "split");
  FACULA_CHECK(i.dim() > 0, ShapeError, "split: split expects at least a 1-dimensional tensor");
  FACULA_CHECK(split_size >= 0, ValueError,
               "split: split expects split_size be non-negative, but got split_size=", split_size);
  size_t d = usize(wrap_dim(dim, i.dim(), "split"));
  int64_t size = i.sizes[d];
  FACULA_CHECK(split_size > 0 || size == 0, ValueError,
               "split: split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  return cut_evenly(self, d, split_size, size == 0 ? 1 : (size - 1) / split_size + 1);
}

std::vector<Tensor> split(const Tensor& self, IntArrayRef split_size, int64_t dim) {
  return self.split_with_sizes(split_size, dim);
}

std::vector<Tensor> split_with_sizes(const Tensor& self, IntArrayRef split_sizes, int64_t dim) {
  return cut(self, split_sizes, dim);
}

std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim) {
  const TensorImpl& i = impl_of(self, "tensor_split");
  FACULA_CHECK(i.dim() > 0, ShapeError,
               "tensor_split: tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  FACULA_CHECK(sections > 0, ValueError, "tensor_split: number of sections must be larger than 0, got ", sections);
  size_t d = usize(wrap_dim(dim, i.dim(), "tensor_split"));
  int64_t small = i.sizes[d] / sections, larger = i.sizes[d] % sections;
  DimVector lengths(usize(sections), small);
  for (int64_t k = 0; k < larger; ++k) ++lengths[usize(k)];
  return self.split_with_sizes(lengths, static_cast<int64_t>(d));
}

std::vector<Tensor> tensor_split(const Tensor& self, IntArrayRef indices, int64_t dim) {
  const TensorImpl& i = impl_of(self, "tensor_split");
  FACULA_CHECK(i.dim() > 0, ShapeError,
               "tensor_split: tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  wrap_dim(dim, i.dim(), "tensor_split");
  std::vector<Tensor> parts;
  parts.reserve(indices.size() + 1);
  int64_t start = 0;
  for (int64_t end : indices) {
    parts.push_back(self.slice(dim, start, end));
    start = end;
  }
  parts.push_back(self.slice(dim, start));
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& tensor_indices_or_sections, int64_t dim) {
  const TensorImpl& i = impl_of(tensor_indices_or_sections, "tensor_split");
  FACULA_CHECK(!i.device.is_meta(), DeviceError,
               "tensor_split: tensor_split expected tensor_indices_or_sections to be on cpu, but it's on ",
               i.device.str());
  FACULA_CHECK(i.dtype == kLong, DTypeError,
               "tensor_split: tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
               toString(i.dtype));
  FACULA_CHECK(i.dim() <= 1, ShapeError,
               "tensor_split: tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
               "one-dimensional tensor, but "
               "got a tensor with ",
               i.dim(), " dims");
  FACULA_CHECK(
      !(i.tracking & detail::kTracksBatch), NotSupportedError,
      "tensor_split: inside vmap a tensor stands for every entry of a batch, which may ask for different parts; "
      "give the indices or the number of sections as numbers");
  Tensor values = as_contiguous(tensor_indices_or_sections.cpu());
  const int64_t* data = reinterpret_cast<const int64_t*>(values.impl()->data());
  if (i.dim() == 0) return meaning::tensor_split(self, *data, dim);
  return meaning::tensor_split(self, IntArrayRef(data, usize(i.numel)), dim);
}

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  const TensorImpl& i = impl_of(self, "unbind");
  FACULA_CHECK(i.dim() > 0, IndexError, "unbind: Dimension specified as ", dim, " but tensor has no dimensions");
  size_t d = usize(wrap_dim(dim, i.dim(), "unbind"));
  DimVector sizes(i.sizes), strides(i.strides);
  sizes.erase(d);
  strides.erase(d);
  std::vector<Tensor> parts;
  parts.reserve(usize(i.sizes[d]));
  for (int64_t k = 0; k < i.sizes[d]; ++k)
    parts.push_back(view_of(self, sizes, strides, i.storage_offset + k * i.strides[d]));
  return parts;
}

std::vector<Tensor> broadcast_tensors(TensorList tensors) {
  DimVector sizes;
  for (const Tensor& t : tensors)
    sizes = broadcast_sizes(sizes, impl_of(t, "broadcast_tensors").sizes, "broadcast_tensors");
  return each(tensors, [&](const Tensor& t) { return t.expand(sizes); });
}

Tensor atleast_1d(const Tensor& self) { return impl_of(self, "atleast_1d").dim() == 0 ? self.reshape({1}) : self; }

Tensor atleast_2d(const Tensor& self) {
  switch (impl_of(self, "atleast_2d").dim()) {
    case 0: return self.reshape({1, 1});
    case 1: return self.unsqueeze(0);
    default: return self;
  }
}

Tensor atleast_3d(const Tensor& self) {
  switch (impl_of(self, "atleast_3d").dim()) {
    case 0: return self.reshape({1, 1, 1});
    case 1: return self.unsqueeze(0).unsqueeze(-1);
    case 2: return self.unsqueeze(-1);
    default: return self;
  }
}

std::vector<Tensor> atleast_1d(TensorList tensors) {
  return each(tensors, [](const Tensor& t) { return meaning::atleast_1d(t); });
}
std::vector<Tensor> atleast_2d(TensorList tensors) {
  return each(tensors, [](const Tensor& t) { return meaning::atleast_2d(t); });
}
std::vector<Tensor> atleast_3d(TensorList tensors) {
  return each(tensors, [](const Tensor& t) { return meaning::atleast_3d(t); });
}

}  // namespace facula::meaning
