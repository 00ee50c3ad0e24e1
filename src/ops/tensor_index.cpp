// C++ indexing: x[i], x.index({...}), x.index_put_({...}, value). Integers, slices, None and "..." become views; what
// tensors select is left to the ops index and index_put_.
#include "ops/shape_checks.h"

#include <limits>
#include <ostream>

namespace facula {

namespace indexing {

Slice::Slice(std::optional<int64_t> start, std::optional<int64_t> stop, std::optional<int64_t> step)
    : start_(start.value_or(0)), stop_(stop.value_or(std::numeric_limits<int64_t>::max())), step_(step.value_or(1)) {}

TensorIndex::TensorIndex(const char* text) : kind_(Kind::Rest) {
  FACULA_CHECK(text && std::string_view(text) == "...", ValueError,
               "index: Expected \"...\" to represent an ellipsis index, but got \"", text ? text : "", "\"");
}

std::ostream& operator<<(std::ostream& out, const Slice& slice) {
  return out << slice.start() << ":" << slice.stop() << ":" << slice.step();
}

std::ostream& operator<<(std::ostream& out, const TensorIndex& index) {
  switch (index.kind()) {
    case TensorIndex::Kind::NewDim: return out << "None";
    case TensorIndex::Kind::Rest: return out << "...";
    case TensorIndex::Kind::Integer: return out << index.integer();
    case TensorIndex::Kind::Boolean: return out << (index.boolean() ? "true" : "false");
    case TensorIndex::Kind::Range: return out << index.slice();
    case TensorIndex::Kind::Positions: return out << index.tensor();
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& indices) {
  out << "(";
  for (size_t i = 0; i < indices.size(); ++i) out << (i > 0 ? ", " : "") << indices[i];
  return out << ")";
}

}  // namespace indexing

namespace {

using indexing::TensorIndex;
using Kind = TensorIndex::Kind;

bool is_mask(const Tensor& t) { return t.impl()->dtype == ScalarType::Bool || t.impl()->dtype == ScalarType::Byte; }

Tensor select_checked(const Tensor& t, int64_t dim, int64_t index, int64_t named_dim, const char* op) {
  const int64_t size = t.impl()->sizes[usize(dim)];
  if (index < -size || index >= size) raise_out_of_bounds(str(op, ": ").c_str(), index, named_dim, size);
  return facula::select(t, dim, index);
}

// The view that the basic parts of an index expression make, and the tensors that are left to index it with.
struct Applied {
  Tensor view;
  std::vector<std::optional<Tensor>> tensors;

  void set(int64_t dim, Tensor t) {
    if (tensors.size() <= usize(dim)) tensors.resize(usize(dim) + 1);
    tensors[usize(dim)] = std::move(t);
  }
};

// Dims of self that one part of an expression speaks of.
int64_t dims_of(const TensorIndex& i, const char* op) {
  switch (i.kind()) {
    case Kind::Integer:
    case Kind::Range: return 1;
    case Kind::Positions: return is_mask((impl_of(i.tensor(), op), i.tensor())) ? i.tensor().dim() : 1;
    case Kind::Rest:
    case Kind::NewDim:
    case Kind::Boolean: break;
  }
  return 0;
}

// Dims of self that the expression speaks of. An ellipsis stands for the others.
int64_t named_dims(ArrayRef<TensorIndex> indices, const char* op) {
  int64_t count = 0, ellipses = 0;
  for (const TensorIndex& i : indices) {
    count += dims_of(i, op);
    ellipses += i.kind() == Kind::Rest;
  }
  FACULA_CHECK(ellipses <= 1, IndexError, op, ": an index can only have a single ellipsis ('...'), got ", ellipses);
  return count;
}

// A lone true or false: a new dim, of which the one entry is taken or not.
Tensor boolean_index(bool value, Device device) {
  Tensor t = new_tensor({value ? 1 : 0}, ScalarType::Long, device, "index");
  fill_values(t, 0);
  return t;
}

Applied apply(const Tensor& self, ArrayRef<TensorIndex> indices, const char* op) {
  const TensorImpl& s = impl_of(self, op);
  const int64_t named = named_dims(indices, op);
  FACULA_CHECK(named <= s.dim(), IndexError, op, ": too many indices for tensor of dimension ", s.dim(), " (got ",
               named, ")");
  Applied a{self, {}};
  int64_t dim = 0;       // in the view
  int64_t self_dim = 0;  // as errors name it
  for (const TensorIndex& i : indices) {
    switch (i.kind()) {
      case Kind::NewDim: a.view = facula::unsqueeze(a.view, dim++); break;
      case Kind::Rest:
        dim += s.dim() - named;
        self_dim += s.dim() - named;
        break;
      case Kind::Integer: a.view = select_checked(a.view, dim, i.integer(), self_dim++, op); break;
      case Kind::Boolean:
        a.view = facula::unsqueeze(a.view, dim);
        a.set(dim++, boolean_index(i.boolean(), s.device));
        break;
      case Kind::Range: {
        const indexing::Slice& r = i.slice();
        FACULA_CHECK(r.step() > 0, ValueError, op, ": step must be greater than zero, got ", r.step(),
                     "; use flip for the reverse order");
        if (r.start() != 0 || r.stop() != std::numeric_limits<int64_t>::max() || r.step() != 1)
          a.view = facula::slice(a.view, dim, r.start(), r.stop(), r.step());
        ++dim;
        ++self_dim;
        break;
      }
      case Kind::Positions: {
        const Tensor& t = i.tensor();
        const bool mask = is_mask(t);
        if (t.dim() == 0 && !t.is_meta() && isIntegralType(t.scalar_type(), true)) {
          if (mask) {
            a.view = facula::unsqueeze(a.view, dim);
            a.set(dim++, boolean_index(!t.item().is_zero(), s.device));
          } else {
            a.view = select_checked(a.view, dim, t.item().toLong(), self_dim++, op);
          }
          break;
        }
        a.set(dim, t);
        // A mask takes several dims; the op that reads the list counts them itself, so the entries between stay out.
        if (mask) {
          dim += t.dim();
          self_dim += t.dim();
        } else {
          ++dim;
          ++self_dim;
        }
        break;
      }
    }
  }
  return a;
}

// The op's list has one entry per index, not per dim: entries behind a mask of several dims move up.
std::vector<std::optional<Tensor>> index_list(const Applied& a) {
  std::vector<std::optional<Tensor>> list;
  list.reserve(a.tensors.size());
  for (size_t d = 0; d < a.tensors.size();) {
    list.push_back(a.tensors[d]);
    d += a.tensors[d] && is_mask(*a.tensors[d]) ? std::max<size_t>(1, a.tensors[d]->sizes().size()) : 1;
  }
  return list;
}

// An integer that differs between the entries of a batch (vmap) selects no view. It is taken out of the expression: what is
// left indexes what it selects along `dim` of self.
struct BatchedInteger {
  std::vector<std::optional<Tensor>> list;  // as the ops index and index_put_ take it
  std::vector<TensorIndex> rest;
};

bool is_batched_integer(const TensorIndex& i, const char* op) {
  if (i.kind() != Kind::Positions) return false;
  const TensorImpl& t = impl_of(i.tensor(), op);
  return (t.tracking & detail::kTracksBatch) && t.dim() == 0 && isIntegralType(t.dtype, false) &&
         t.dtype != ScalarType::Byte;
}

std::optional<BatchedInteger> batched_integer(const Tensor& self, ArrayRef<TensorIndex> indices, const char* op) {
  size_t at = 0;
  while (at < indices.size() && !is_batched_integer(indices[at], op)) ++at;
  if (at == indices.size()) [[likely]]
    return std::nullopt;
  const int64_t rank = impl_of(self, op).dim(), named = named_dims(indices, op);
  FACULA_CHECK(named <= rank, IndexError, op, ": too many indices for tensor of dimension ", rank, " (got ", named,
               ")");
  BatchedInteger found;
  int64_t dim = 0;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (k < at) dim += indices[k].kind() == Kind::Rest ? rank - named : dims_of(indices[k], op);
    if (k != at) found.rest.push_back(indices[k]);
  }
  found.list.resize(usize(dim));
  found.list.emplace_back(indices[at].tensor());
  return found;
}

// Leading dims of size 1 do not count when a value is assigned.
Tensor without_leading_ones(const Tensor& value, int64_t dims) {
  const TensorImpl* v = value.impl();
  size_t skip = 0;
  while (v->dim() - static_cast<int64_t>(skip) > dims && v->sizes[skip] == 1) ++skip;
  if (skip == 0) return value;
  return value.view(IntArrayRef(v->sizes).slice(skip));
}

}  // namespace

Tensor Tensor::operator[](int64_t i) const {
  FACULA_CHECK(impl_of(*this, "index").dim() > 0, IndexError,
               "index: invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number");
  return select_checked(*this, 0, i, 0, "index");
}

Tensor Tensor::operator[](const Tensor& i) const { return index({TensorIndex(i)}); }

Tensor Tensor::operator[](const Scalar& i) const {
  FACULA_CHECK(i.isIntegral(false), IndexError, "index: Can only index tensors with integral scalars, got ", i.str());
  return (*this)[i.toLong()];
}

Tensor Tensor::index(ArrayRef<TensorIndex> indices) const {
  if (const auto one = batched_integer(*this, indices, "index")) [[unlikely]] {
    const Tensor part = facula::index(*this, one->list);
    return one->rest.empty() ? part : part.index(one->rest);
  }
  Applied a = apply(*this, indices, "index");
  if (!a.tensors.empty()) return facula::index(a.view, index_list(a));
  return a.view.is_same(*this) ? facula::alias(*this) : a.view;
}

Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return index(ArrayRef<TensorIndex>(indices.begin(), indices.size()));
}

Tensor& Tensor::index_put_(ArrayRef<TensorIndex> indices, const Tensor& values) {
  if (const auto one = batched_integer(*this, indices, "index_put_")) [[unlikely]] {
    Tensor part = facula::index(*this, one->list);
    part.index_put_(one->rest, values);
    return facula::index_put_(*this, one->list, part);
  }
  impl_of(values, "index_put_");
  Applied a = apply(*this, indices, "index_put_");
  if (a.tensors.empty()) {
    a.view.copy_(without_leading_ones(values, a.view.dim()));
    return *this;
  }
  // Of a value with more dims than the result only the leading ones of size 1 may go; how many dims that is follows
  // from the indices.
  int64_t dims = a.view.dim(), widest = 0;
  for (const auto& t : a.tensors) {
    if (!t) continue;
    dims -= is_mask(*t) ? t->dim() : 1;
    widest = std::max<int64_t>(widest, is_mask(*t) ? 1 : t->dim());
  }
  facula::index_put_(a.view, index_list(a), without_leading_ones(values, dims + widest));
  return *this;
}

Tensor& Tensor::index_put_(ArrayRef<TensorIndex> indices, const Scalar& value) {
  if (const auto one = batched_integer(*this, indices, "index_put_")) [[unlikely]] {
    Tensor part = facula::index(*this, one->list);
    part.index_put_(one->rest, value);
    return facula::index_put_(*this, one->list, part);
  }
  Applied a = apply(*this, indices, "index_put_");
  if (a.tensors.empty()) {
    a.view.fill_(value);
    return *this;
  }
  FACULA_CHECK(!value.isComplex() || is_complex(), DTypeError, "index_put_: value cannot be converted to type ",
               facula::toString(scalar_type()), " without losing its imaginary part: ", value.str());
  check_fits_integers(value, scalar_type(), "index_put_");
  Tensor element = new_tensor({}, scalar_type(), device(), "index_put_");
  fill_values(element, value);
  facula::index_put_(a.view, index_list(a), element);
  return *this;
}

Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Tensor& values) {
  return index_put_(ArrayRef<TensorIndex>(indices.begin(), indices.size()), values);
}

Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> indices, const Scalar& value) {
  return index_put_(ArrayRef<TensorIndex>(indices.begin(), indices.size()), value);
}

}  // namespace facula
