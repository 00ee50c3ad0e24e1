// Reading and writing slices at index tensors: index, index_put, index_select, index_add, index_copy, index_fill,
// take, put, embedding. All of them are one walk over places and the dims that are taken whole. One index per entry
// (gather, scatter) lives in scatter.cpp, masks in masked.cpp, the C++ syntax in tensor_index.cpp.
#include "cpu/convert.h"
#include "cpu/executor.h"
#include "ops/index_checks.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"
#include "ops/transfer.h"

#include <algorithm>
#include <vector>

namespace facula {

Element::Element(const Scalar& value, ScalarType dtype, const char* op) {
  FACULA_CHECK(!value.isComplex() || isComplexType(dtype), DTypeError, op, ": value cannot be converted to type ",
               toString(dtype), " without losing its imaginary part: ", value.str());
  check_fits_integers(value, dtype, op);
  const CType type = value.isComplex()                  ? CType::C128
                     : value.isFloatingPoint()          ? CType::F64
                     : value.tag() == Scalar::Tag::UInt ? CType::U64
                     : value.isBoolean()                ? CType::B8
                                                        : CType::I64;
  const ParamValue wide = param_value(value, type);
  cast_store_fn(type, dtype)(&wide, bytes_, 1);
}

namespace {

// Index tensors brought into the form of a walk: masks replaced by positions, shapes broadcast, everything int64.
class Places {
 public:
  Places(const Tensor& self, ArrayRef<std::optional<Tensor>> indices, const char* op) : op_(op), self_(*self.impl()) {
    sizes_ = self_.sizes;
    strides_ = self_.strides;
    entries_.reserve(indices.size());
    collect(indices);
    broadcast();
    place();
  }

  // Sizes of what the indices select.
  const DimVector& result_sizes() const { return result_sizes_; }

  // Fills the walk in, all but `other`'s data. `other_strides` belong to result_sizes(); false when the places are not
  // one run there.
  bool fill(IndexWalk& w, IntArrayRef other_strides) {
    const size_t shape_dims = shape_.size();
    w.count = 1;
    for (int64_t s : shape_) w.count *= s;
    if (w.count > 1 && count_between(result_sizes_, 0, result_sizes_.size()) > 0) {
      int64_t one[] = {w.count};
      auto step = view_strides(shape_, other_strides.slice(at_, shape_dims), one);
      if (!step) return false;
      w.other_step = (*step)[0];
    }
    w.self = self_.data();
    for (size_t d = 0, k = 0, r = 0; d < sizes_.size(); ++d) {
      if (k < entries_.size() && entries_[k].dim == d) {
        ++k;
        continue;
      }
      if (r == at_) r += shape_dims;
      w.rest.add(sizes_[d], strides_[d], other_strides[r++]);
    }
    for (Entry& e : entries_) {
      w.term[w.terms++] = term(e);
      w.memory.add({&e.index});
    }
    return true;
  }

 private:
  struct Entry {
    Tensor index;
    size_t dim;        // of sizes_
    int64_t self_dim;  // as errors name it
  };

  void collect(ArrayRef<std::optional<Tensor>> indices) {
    size_t d = 0;      // in sizes_, which differ from self's once masks have joined or added dims
    int64_t used = 0;  // dims of self
    for (size_t k = 0; k < indices.size(); ++k) {
      const bool given = indices[k].has_value() && indices[k]->defined();
      const TensorImpl* i = given ? indices[k]->impl() : nullptr;
      const bool mask = given && (i->dtype == ScalarType::Bool || i->dtype == ScalarType::Byte);
      const int64_t takes = mask ? i->dim() : 1;
      FACULA_CHECK(used + takes <= self_.dim(), IndexError, op_, ": too many indices for tensor of dimension ",
                   self_.dim());
      if (mask) {
        add_mask(*indices[k], d, used, k);
      } else if (given) {
        FACULA_CHECK(i->dtype == ScalarType::Long || i->dtype == ScalarType::Int, IndexError, op_,
                     ": tensors used as indices must be long, int, byte or bool tensors, but index ", k, " is ",
                     toString(i->dtype), "; convert it to int64");
        entries_.push_back({as_dtype(*indices[k], ScalarType::Long), d++, used});
      } else {
        ++d;
      }
      used += takes;
    }
    FACULA_CHECK(!entries_.empty(), ValueError, op_, ": at least one index tensor is needed");
  }

  void add_mask(const Tensor& mask, size_t& d, int64_t used, size_t number) {
    const TensorImpl* m = mask.impl();
    const size_t dims = m->sizes.size();
    for (size_t j = 0; j < dims; ++j)
      FACULA_CHECK(m->sizes[j] == sizes_[d + j], IndexError, op_, ": The shape of the mask ", to_text(m->sizes),
                   " at index ", j, " does not match the shape of the indexed tensor ", to_text(self_.sizes),
                   " at index ", static_cast<size_t>(used) + j, " (index number ", number,
                   "); a mask must have the sizes of the dimensions that it selects from");
    FACULA_CHECK(!m->device.is_meta(), NotSupportedError, op_,
                 ": the shape of the result depends on the values of a mask, which a meta tensor does not have");
    const Tensor bytes = as_contiguous(mask);
    if (dims == 0) {
      // One entry or none along a new dim.
      sizes_.insert(d, 1);
      strides_.insert(d, 0);
      entries_.push_back({positions(bytes.reshape({1}), true), d++, used});
      return;
    }
    const auto joined = joined_stride(d, dims);
    if (joined) {
      sizes_[d] = m->numel;
      strides_[d] = *joined;
      for (size_t j = 1; j < dims; ++j) {
        sizes_.erase(d + 1);
        strides_.erase(d + 1);
      }
      entries_.push_back({positions(bytes, true), d++, used});
      return;
    }
    const Tensor columns = positions(bytes, false);
    for (size_t j = 0; j < dims; ++j, ++d)
      entries_.push_back({columns.select(0, static_cast<int64_t>(j)), d, used + static_cast<int64_t>(j)});
  }

  // The stride of dims [d, d + count) seen as one, where they can be.
  std::optional<int64_t> joined_stride(size_t d, size_t count) const {
    int64_t one[] = {count_between(sizes_, d, d + count)};
    if (one[0] == 0) return 0;
    auto strides = view_strides(IntArrayRef(sizes_).slice(d, count), IntArrayRef(strides_).slice(d, count), one);
    if (!strides) return std::nullopt;
    return (*strides)[0];
  }

  // Flat positions of true entries, or one row of coordinates per dim.
  static Tensor positions(const Tensor& mask, bool flat) {
    auto make = [&](int64_t count) {
      if (flat) return new_tensor({count}, ScalarType::Long, mask.impl()->device, "index");
      Tensor rows = new_tensor({mask.dim(), count}, ScalarType::Long, mask.impl()->device, "index");
      return view_of(rows, {count, mask.dim()}, {1, count}, 0);
    };
    Tensor result =
        call_kernel<NonzeroKernel>(OpId::nonzero, device_type(mask), mask, flat, FunctionRef<Tensor(int64_t)>(make));
    if (flat) return result;
    const TensorImpl* r = result.impl();
    return view_of(result, {r->sizes[1], r->sizes[0]}, {r->strides[1], r->strides[0]}, 0);
  }

  void broadcast() {
    shape_ = entries_[0].index.impl()->sizes;
    for (size_t k = 1; k < entries_.size(); ++k) {
      const DimVector& other = entries_[k].index.impl()->sizes;
      if (IntArrayRef(other) == IntArrayRef(shape_)) continue;
      while (shape_.size() < other.size()) shape_.insert(0, 1);
      const size_t lead = shape_.size() - other.size();
      for (size_t j = 0; j < other.size(); ++j) {
        if (other[j] == shape_[lead + j] || other[j] == 1) continue;
        if (shape_[lead + j] != 1) raise_mismatch();
        shape_[lead + j] = other[j];
      }
    }
  }

  [[noreturn]] void raise_mismatch() const {
    std::string text = str(op_, ": shape mismatch: indexing tensors could not be broadcast together with shapes ");
    for (size_t k = 0; k < entries_.size(); ++k) text += (k ? ", " : "") + to_text(entries_[k].index.impl()->sizes);
    throw IndexError(text);
  }

  // Neighbouring indices keep their place; others go to the front.
  void place() {
    const bool adjacent = entries_.back().dim - entries_.front().dim + 1 == entries_.size();
    at_ = adjacent ? entries_.front().dim : 0;
    for (size_t d = 0, k = 0; d < sizes_.size(); ++d) {
      if (k < entries_.size() && entries_[k].dim == d) ++k;
      else result_sizes_.push_back(sizes_[d]);
    }
    for (size_t j = 0; j < shape_.size(); ++j) result_sizes_.insert(at_ + j, shape_[j]);
    FACULA_CHECK(static_cast<int64_t>(result_sizes_.size()) <= kMaxDims, ShapeError, op_, ": the result would have ",
                 result_sizes_.size(), " dimensions; at most ", kMaxDims, " are possible");
  }

  IndexWalk::Term term(Entry& e) {
    const TensorImpl* i = e.index.impl();
    const bool single = i->numel == 1;
    if (!single && (!i->contiguous || IntArrayRef(i->sizes) != IntArrayRef(shape_))) {
      e.index =
          as_contiguous(view_of(e.index, shape_, broadcast_strides(i->sizes, i->strides, shape_), i->storage_offset));
      i = e.index.impl();
    }
    return {reinterpret_cast<const int64_t*>(i->data()), single ? 0 : 1, sizes_[e.dim], strides_[e.dim], e.self_dim};
  }

  const char* op_;
  const TensorImpl& self_;
  DimVector sizes_, strides_;
  std::vector<Entry> entries_;
  DimVector shape_;  // of the indices
  size_t at_ = 0;    // where it begins in the result
  DimVector result_sizes_;
};

// The indices on the device of what they point into: a GPU's tensor takes indices of the cpu too.
class IndicesBeside {
 public:
  IndicesBeside(const Tensor& self, ArrayRef<std::optional<Tensor>> indices, const char* op) : indices_(indices) {
    const Device device = impl_of(self, op).device;
    for (size_t k = 0; k < indices.size(); ++k) {
      const auto& i = indices[k];
      if (!i || !i->defined()) continue;
      if (device.is_cuda() && i->is_cpu()) {
        if (carried_.empty()) carried_.assign(indices.begin(), indices.end());
        carried_[k] = carried_to(device, *i);
      } else {
        same_device({&self, &*i}, op);
      }
    }
    if (!carried_.empty()) indices_ = carried_;
  }
  operator ArrayRef<std::optional<Tensor>>() const { return indices_; }

 private:
  std::vector<std::optional<Tensor>> carried_;
  ArrayRef<std::optional<Tensor>> indices_;
};

bool is_mask(const std::optional<Tensor>& index) {
  if (!index || !index->defined()) return false;
  const ScalarType t = index->impl()->dtype;
  return t == ScalarType::Bool || t == ScalarType::Byte;
}

// One mask over the leading dims, as it is used most: fills need no positions.
bool is_masked_fill(const TensorImpl& self, ArrayRef<std::optional<Tensor>> indices, const TensorImpl& values) {
  if (indices.size() != 1 || !is_mask(indices[0]) || indices[0]->impl()->dtype != ScalarType::Bool || values.numel != 1)
    return false;
  const DimVector& mask = indices[0]->impl()->sizes;
  return !mask.empty() && mask.size() <= self.sizes.size() && values.sizes.empty() &&
         IntArrayRef(self.sizes).slice(0, mask.size()) == IntArrayRef(mask);
}

}  // namespace

namespace meaning {

Tensor index(const Tensor& self, ArrayRef<std::optional<Tensor>> given) {
  const IndicesBeside beside(self, given, "index");
  const ArrayRef<std::optional<Tensor>> indices = beside;
  const TensorImpl* s = self.impl();
  if (indices.size() == 1 && is_mask(indices[0]) && indices[0]->impl()->dtype == ScalarType::Bool && s->dim() > 0 &&
      IntArrayRef(indices[0]->impl()->sizes) == IntArrayRef(s->sizes) && !s->device.is_meta())
    return meaning::masked_select(self, *indices[0]);
  Places places(self, indices, "index");
  Tensor result = new_tensor(places.result_sizes(), s->dtype, s->device, "index");
  if (s->device.is_meta()) return result;
  IndexWalk w;
  w.error.prefix = "index: ";
  places.fill(w, result.impl()->strides);
  w.other = result.impl()->data();
  w.memory.add({&self, &result});
  w.rest.normalise(1);
  call_kernel<IndexKernel>(OpId::index, device_type(self), w, elementSize(s->dtype));
  return result;
}

void index_put_(Tensor& self, ArrayRef<std::optional<Tensor>> given, const Tensor& values, bool accumulate) {
  constexpr const char* kOp = "index_put_";
  const IndicesBeside beside(self, given, kOp);
  const ArrayRef<std::optional<Tensor>> indices = beside;
  // A number of the cpu may be written into any device's tensor.
  const bool number_of_cpu = impl_of(values, kOp).dim() == 0 && values.is_cpu() && !self.is_cpu();
  if (!number_of_cpu) same_device({&self, &values}, kOp);
  const TensorImpl* s = self.impl();
  FACULA_CHECK(s->dtype == values.impl()->dtype, DTypeError, kOp,
               ": Index put requires the source and destination dtypes match, got ", toString(s->dtype),
               " for the destination and ", toString(values.impl()->dtype),
               " for the source; convert the values with .to(self.scalar_type())");
  check_writable(self, {&values}, kOp);
  for (const auto& i : indices)
    if (i && i->defined() && !is_mask(i))
      check_writable(self, {&*i}, kOp);  // masks become positions before anything is written
  if (!accumulate && is_masked_fill(*s, indices, *values.impl()) && !s->device.is_meta()) {
    const TensorImpl* m = indices[0]->impl();
    DimVector sizes(m->sizes), strides(m->strides);
    sizes.resize(s->sizes.size(), 1);
    strides.resize(s->sizes.size(), 0);
    pointwise(ScalarOp::where, {view_of(*indices[0], sizes, strides, m->storage_offset), values, self},
              Out::inplace(self), kOp);
    return;
  }
  Places places(self, indices, kOp);
  const DimVector& target = places.result_sizes();
  const TensorImpl* v = values.impl();
  bool fits = v->sizes.size() <= target.size();
  for (size_t j = 1; fits && j <= v->sizes.size(); ++j) {
    const int64_t have = v->sizes[v->sizes.size() - j];
    fits = have == 1 || have == target[target.size() - j];
  }
  FACULA_CHECK(fits, ShapeError, kOp, ": shape mismatch: value tensor of shape ", to_text(v->sizes),
               " cannot be broadcast to indexing result of shape ", to_text(target),
               "; it may not have more dimensions, and its sizes must be equal or 1, counted from the last");
  if (s->device.is_meta()) return mark_written(self);
  IndexWalk w;
  w.error.prefix = "index_put_: ";
  Tensor source = values;
  if (number_of_cpu) {
    source = new_tensor({}, v->dtype, s->device, kOp);
    fill_values(source, values.item());
  }
  DimVector strides = broadcast_strides(v->sizes, v->strides, target);
  if (!places.fill(w, strides)) {
    source = as_contiguous(view_of(source, target, strides, source.impl()->storage_offset));
    FACULA_INTERNAL_CHECK(places.fill(w, source.impl()->strides));
  }
  w.other = source.impl()->data();
  w.memory.add({&self, &source});
  w.rest.normalise(0);
  call_kernel<IndexPutKernel>(OpId::index_put, device_type(self), w, s->dtype,
                              accumulate ? Combine::Add : Combine::Set);
  mark_written(self);
}

namespace {

// A vector of indices along one dim: how index_select and its kin see their arguments.
struct SliceArguments {
  SliceArguments(const Tensor& self, int64_t dim_in, const Tensor& index_in, IndexTypes types, const char* op)
      : index(checked_index(index_in, types, op)), view(impl_of(self, op)) {
    FACULA_CHECK(index.dim() <= 1, ShapeError, op, ": Index is supposed to be a vector, but got sizes ",
                 to_text(index.sizes()), "; flatten it first");
    dim = static_cast<size_t>(wrap_dim(dim_in, self.dim(), op));
    count = index.impl()->numel;
    if (!index.impl()->device.is_meta()) index = as_contiguous(index);
  }

  // A walk over self's slices, all but `other`.
  void fill(IndexWalk& w, const Tensor& self, IntArrayRef other_strides, const char* prefix) const {
    w.error = {prefix, static_cast<int64_t>(dim)};
    w.wrap = false;
    w.self = self.impl()->data();
    w.count = count;
    w.other_step = other_strides[dim];
    for (size_t d = 0; d < view.sizes.size(); ++d)
      if (d != dim) w.rest.add(view.sizes[d], view.strides[d], other_strides[d]);
    w.terms = 1;
    w.term[0] = {reinterpret_cast<const int64_t*>(index.impl()->data()), count == 1 ? 0 : 1, view.sizes[dim],
                 view.strides[dim], static_cast<int64_t>(dim)};
    w.memory.add({&self, &index});
  }

  Tensor index;
  AtLeastVector view;
  size_t dim;
  int64_t count;
};

void put_slices(Tensor& self, const SliceArguments& a, const Tensor& source, const char* prefix, Combine combine) {
  if (self.impl()->device.is_meta()) return mark_written(self);
  IndexWalk w;
  AtLeastVector from(*source.impl());
  a.fill(w, self, from.strides, prefix);
  w.other = source.impl()->data();
  w.memory.add({&source});
  w.rest.normalise(0);
  call_kernel<IndexPutKernel>(OpId::index_put, device_type(self), w, self.impl()->dtype, combine);
  mark_written(self);
}

// Checks what index_add and index_copy have in common.
SliceArguments check_source(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, IndexTypes types,
                            const char* op) {
  SliceArguments a(self, dim, index, types, op);
  impl_of(source, op);
  same_device({&self, &index, &source}, op);
  check_same_dtype(self, source, op, "source");
  AtLeastVector from(*source.impl());
  bool fits = from.sizes.size() == a.view.sizes.size();
  for (size_t d = 0; fits && d < from.sizes.size(); ++d) fits = d == a.dim || from.sizes[d] == a.view.sizes[d];
  FACULA_CHECK(fits, ShapeError, op, ": source must have the sizes of self apart from dimension ", a.dim,
               ", but source has sizes ", to_text(source.sizes()), " and self has ", to_text(self.sizes()));
  FACULA_CHECK(from.sizes[a.dim] == a.count, ShapeError, op, ": Number of indices (", a.count,
               ") should be equal to source.size(dim): (", from.sizes[a.dim], ") for dimension ", a.dim);
  check_writable(self, {&source, &index}, op);
  return a;
}

}  // namespace

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  SliceArguments a(self, dim, index, IndexTypes::LongOrInt, "index_select");
  same_device({&self, &index}, "index_select");
  const TensorImpl* s = self.impl();
  FACULA_CHECK(s->dim() > 0 || a.count == 1, ShapeError, "index_select: Index to scalar can have only 1 value, got ",
               a.count, " value(s)");
  DimVector sizes(s->sizes);
  if (!sizes.empty()) sizes[a.dim] = a.count;
  Tensor result = new_tensor(sizes, s->dtype, s->device, "index_select");
  if (s->device.is_meta()) return result;
  IndexWalk w;
  AtLeastVector to(*result.impl());
  a.fill(w, self, to.strides, "index_select: index out of range in self: ");
  w.other = result.impl()->data();
  w.memory.add({&result});
  w.rest.normalise(1);
  call_kernel<IndexKernel>(OpId::index, device_type(self), w, elementSize(s->dtype));
  return result;
}

void index_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  SliceArguments a = check_source(self, dim, index, source, IndexTypes::LongOrInt, "index_add_");
  const Tensor scaled = alpha.equal_int(1) ? source : as_dtype(facula::mul(source, alpha), self.scalar_type());
  put_slices(self, a, scaled, "index_add_: index out of range in self: ", Combine::Add);
}

void index_copy_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  SliceArguments a = check_source(self, dim, index, source, IndexTypes::LongOnly, "index_copy_");
  put_slices(self, a, source, "index_copy_: index out of range in self: ", Combine::Set);
}

void index_fill_(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  constexpr const char* kOp = "index_fill_";
  SliceArguments a(self, dim, index, IndexTypes::LongOnly, kOp);
  same_device({&self, &index}, kOp);
  check_writable(self, {&index}, kOp);
  Element element(value, self.scalar_type(), kOp);
  if (self.impl()->device.is_meta()) return mark_written(self);
  IndexWalk w;
  a.fill(w, self, DimVector(a.view.sizes.size(), 0), "index_fill_: ");
  w.wrap = true;
  w.other = element.data();
  w.value = true;
  w.rest.normalise(0);
  call_kernel<IndexPutKernel>(OpId::index_put, device_type(self), w, self.scalar_type(), Combine::Set);
  mark_written(self);
}

void index_fill_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  FACULA_CHECK(impl_of(value, "index_fill_").dim() == 0, ShapeError,
               "index_fill_: index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.dim(),
               " dimension(s).");
  FACULA_CHECK(!value.is_meta() || self.is_meta(), DeviceError,
               "index_fill_: a meta value cannot fill a tensor with memory");
  meaning::index_fill_(self, dim, index, value.is_meta() ? Scalar(0) : value.item());
}

Tensor take(const Tensor& self, const Tensor& index) {
  const TensorImpl& s = impl_of(self, "take");
  Tensor places = checked_index(index, IndexTypes::LongOnly, "take");
  same_device({&self, &index}, "take");
  FACULA_CHECK(s.numel > 0 || places.impl()->numel == 0, IndexError, "take: tried to take from an empty tensor");
  Tensor result = new_tensor(places.impl()->sizes, s.dtype, s.device, "take");
  if (s.device.is_meta()) return result;
  const Tensor flat = as_contiguous(self);
  places = as_contiguous(places);
  IndexWalk w;
  w.error = {"take: ", 0, true};
  w.memory.add({&flat, &places, &result});
  w.self = flat.impl()->data();
  w.other = result.impl()->data();
  w.count = places.impl()->numel;
  w.other_step = 1;
  w.rest.normalise(1);
  w.terms = 1;
  w.term[0] = {reinterpret_cast<const int64_t*>(places.impl()->data()), 1, s.numel, 1, 0};
  call_kernel<IndexKernel>(OpId::index, device_type(self), w, elementSize(s.dtype));
  return result;
}

void put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  const TensorImpl& s = impl_of(self, "put_");
  Tensor places = checked_index(index, IndexTypes::LongOnly, "put_");
  impl_of(source, "put_");
  same_device({&self, &index, &source}, "put_");
  check_same_dtype(self, source, "put_", "source");
  FACULA_CHECK(places.impl()->numel == source.impl()->numel, ShapeError,
               "put_: Expected source and index to have the same number of elements, but got source.numel() = ",
               source.impl()->numel, ", index.numel() = ", places.impl()->numel);
  FACULA_CHECK(s.numel > 0 || places.impl()->numel == 0, IndexError,
               "put_: Tried to put elements into an empty tensor");
  check_writable(self, {&source, &index}, "put_");
  if (s.device.is_meta()) return mark_written(self);
  const Tensor flat = as_contiguous(self), values = as_contiguous(source);
  places = as_contiguous(places);
  IndexWalk w;
  w.error = {"put_: ", 0, true};
  w.memory.add({&flat, &values, &places});
  w.self = flat.impl()->data();
  w.other = values.impl()->data();
  w.count = places.impl()->numel;
  w.other_step = 1;
  w.rest.normalise(0);
  w.terms = 1;
  w.term[0] = {reinterpret_cast<const int64_t*>(places.impl()->data()), 1, s.numel, 1, 0};
  call_kernel<IndexPutKernel>(OpId::index_put, device_type(self), w, s.dtype, accumulate ? Combine::Add : Combine::Set);
  if (!s.contiguous) copy_values(self, flat);
  mark_written(self);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool scale_grad_by_freq,
                 bool sparse) {
  const TensorImpl& table = impl_of(weight, "embedding");
  FACULA_CHECK(table.dim() == 2, ShapeError, "embedding: 'weight' must be 2-D, but got sizes ", to_text(table.sizes));
  Tensor rows = checked_index(indices, IndexTypes::LongOrInt, "embedding");
  same_device({&weight, &indices}, "embedding");
  DimVector sizes(rows.impl()->sizes);
  sizes.push_back(table.sizes[1]);
  Tensor result = new_tensor(sizes, table.dtype, table.device, "embedding");
  if (table.device.is_meta()) return result;
  rows = as_contiguous(rows);
  IndexWalk w;
  w.error = {"embedding: index out of range in self: ", 0};
  w.wrap = false;
  w.memory.add({&weight, &rows, &result});
  w.self = table.data();
  w.other = result.impl()->data();
  w.count = rows.impl()->numel;
  w.other_step = table.sizes[1];
  w.rest.add(table.sizes[1], table.strides[1], 1);
  w.rest.normalise(1);
  w.terms = 1;
  w.term[0] = {reinterpret_cast<const int64_t*>(rows.impl()->data()), 1, table.sizes[0], table.strides[0], 0};
  call_kernel<IndexKernel>(OpId::index, device_type(weight), w, elementSize(table.dtype));
  return result;
}

}  // namespace meaning
}  // namespace facula
