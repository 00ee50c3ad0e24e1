// One index per entry along a dimension: gather, the scatters, take_along_dim.
#include "ops/index_checks.h"

#include <limits>

namespace facula::meaning {

namespace {

// Self, index and the other side (result or source) of a gather or scatter, as a walk over the index's entries.
// `source` is undefined for one element in memory of the cpu, at `other`.
GatherWalk make_walk(const Tensor& self, size_t dim, const Tensor& index, const Tensor& source, char* other,
                     IntArrayRef other_strides, const char* prefix) {
  AtLeastVector s(*self.impl()), i(*index.impl());
  GatherWalk w;
  w.error = {prefix, static_cast<int64_t>(dim)};
  w.memory.add({&self, &index, &source});
  w.value = !source.defined();
  w.self = self.impl()->data();
  w.other = other;
  w.index = reinterpret_cast<const int64_t*>(index.impl()->data());
  w.size = s.sizes[dim];
  w.stride = s.strides[dim];
  w.length = i.sizes[dim];
  w.other_step = other_strides[dim];
  w.index_step = i.strides[dim];
  for (size_t d = 0; d < i.sizes.size(); ++d)
    if (d != dim) w.rest.add(i.sizes[d], s.strides[d], other_strides[d], i.strides[d]);
  return w;
}

// The index may be shorter than a tensor in every dim but `dim`.
void check_index_fits(const Tensor& t, size_t dim, const Tensor& index, bool also_dim, const char* op,
                      const char* name) {
  AtLeastVector a(*t.impl()), i(*index.impl());
  FACULA_CHECK(a.sizes.size() == i.sizes.size(), ShapeError, op,
               ": Index tensor must have the same number of dimensions as ", name, " tensor, but index has sizes ",
               to_text(index.sizes()), " and ", name, " has ", to_text(t.sizes()));
  for (size_t d = 0; d < i.sizes.size(); ++d)
    FACULA_CHECK((d == dim && !also_dim) || i.sizes[d] <= a.sizes[d], ShapeError, op,
                 ": Size does not match at dimension ", d, ": expected index ", to_text(index.sizes()),
                 " to be no larger than ", name, " ", to_text(t.sizes()),
                 also_dim ? std::string() : str(" apart from dimension ", dim));
}

// What a scatter checks before it writes; `src` is null for one value.
struct ScatterArguments {
  ScatterArguments(Tensor& self, int64_t dim_in, const Tensor& index_in, const Tensor* src, const char* op)
      : dim(static_cast<size_t>(wrap_dim(dim_in, impl_of(self, op).dim(), op))),
        index(checked_index(index_in, IndexTypes::LongOrInt, op)) {
    if (src) {
      impl_of(*src, op);
      same_device({&self, &index_in, src}, op);
      check_same_dtype(self, *src, op, "src");
      check_writable(self, {src, &index_in}, op);
    } else {
      same_device({&self, &index_in}, op);
      check_writable(self, {&index_in}, op);
    }
    if (index.impl()->numel == 0) return;
    check_index_fits(self, dim, index, false, op, "self");
    if (src) check_index_fits(*src, dim, index, true, op, "src");
  }
  size_t dim;
  Tensor index;
};

void run(Tensor& self, const ScatterArguments& a, const Tensor& source, char* other, IntArrayRef other_strides,
         const char* prefix, Combine combine) {
  if (a.index.impl()->numel == 0 || self.impl()->device.is_meta()) return;
  GatherWalk w = make_walk(self, a.dim, a.index, source, other, other_strides, prefix);
  w.rest.normalise(0);
  call_kernel<ScatterKernel>(OpId::scatter, device_type(self), w, self.impl()->dtype, combine);
}

void scatter_tensor(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const char* op,
                    const char* prefix, Combine combine) {
  ScatterArguments a(self, dim, index, &src, op);
  AtLeastVector from(*src.impl());
  run(self, a, src, src.impl()->data(), from.strides, prefix, combine);
  mark_written(self);
}

void scatter_number(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, Combine combine) {
  ScatterArguments a(self, dim, index, nullptr, "scatter_");
  Element element(value, self.scalar_type(), "scatter_");
  run(self, a, Tensor(), element.data(), DimVector(std::max<size_t>(1, self.sizes().size()), 0), "scatter_: ", combine);
  mark_written(self);
}

Combine add_or_multiply(std::string_view reduce) {
  if (reduce == "add") return Combine::Add;
  FACULA_CHECK(reduce == "multiply", ValueError, "scatter_: reduce argument must be either add or multiply, got '",
               reduce, "'");
  return Combine::Mul;
}

// The number that changes nothing when folded into.
Scalar identity(Combine combine, ScalarType dtype) {
  if (combine == Combine::Add) return 0;
  if (combine == Combine::Mul) return 1;
  const bool lowest = combine == Combine::Max;
  switch (dtype) {
    case ScalarType::Bool: return !lowest;
    case ScalarType::Byte: return lowest ? 0 : 255;
    case ScalarType::UInt16: return lowest ? 0 : 65535;
    case ScalarType::UInt32: return lowest ? int64_t{0} : int64_t{4294967295};
    case ScalarType::UInt64: return lowest ? uint64_t{0} : std::numeric_limits<uint64_t>::max();
    case ScalarType::Char: return lowest ? -128 : 127;
    case ScalarType::Short: return lowest ? -32768 : 32767;
    case ScalarType::Int: return lowest ? std::numeric_limits<int32_t>::lowest() : std::numeric_limits<int32_t>::max();
    case ScalarType::Long: return lowest ? std::numeric_limits<int64_t>::lowest() : std::numeric_limits<int64_t>::max();
    // The one float without an infinity.
    case ScalarType::Float8_e4m3fn: return lowest ? -448.0 : 448.0;
    default: return lowest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
}

}  // namespace

Tensor gather(const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad) {
  constexpr const char* kOp = "gather";
  const TensorImpl& s = impl_of(self, kOp);
  const size_t d = usize(wrap_dim(dim, s.dim(), kOp));
  const Tensor places = checked_index(index, IndexTypes::LongOrInt, kOp);
  same_device({&self, &index}, kOp);
  if (places.impl()->numel != 0) check_index_fits(self, d, places, false, kOp, "input");
  Tensor result = new_tensor(places.impl()->sizes, s.dtype, s.device, kOp);
  if (s.device.is_meta() || places.impl()->numel == 0) return result;
  AtLeastVector to(*result.impl());
  GatherWalk w = make_walk(self, d, places, result, result.impl()->data(), to.strides, "gather: ");
  w.rest.normalise(1);
  call_kernel<GatherKernel>(OpId::gather, device_type(self), w, elementSize(s.dtype));
  return result;
}

void scatter_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  scatter_tensor(self, dim, index, src, "scatter_", "scatter_: ", Combine::Set);
}

void scatter_(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  scatter_number(self, dim, index, value, Combine::Set);
}

void scatter_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  scatter_tensor(self, dim, index, src, "scatter_", "scatter_: ", add_or_multiply(reduce));
}

void scatter_(Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, std::string_view reduce) {
  scatter_number(self, dim, index, value, add_or_multiply(reduce));
}

void scatter_add_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  scatter_tensor(self, dim, index, src, "scatter_add_", "scatter_add_: ", Combine::Add);
}

void scatter_reduce_(Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce,
                     bool include_self) {
  constexpr const char* kOp = "scatter_reduce_";
  constexpr const char* kPrefix = "scatter_reduce_: ";
  const bool mean = reduce == "mean";
  FACULA_CHECK(mean || reduce == "sum" || reduce == "prod" || reduce == "amax" || reduce == "amin", ValueError, kOp,
               ": reduce argument must be either sum, prod, mean, amax or amin, got '", reduce, "'");
  const Combine combine = reduce == "prod"   ? Combine::Mul
                          : reduce == "amax" ? Combine::Max
                          : reduce == "amin" ? Combine::Min
                                             : Combine::Add;
  ScatterArguments a(self, dim, index, &src, kOp);
  const ScalarType dtype = self.scalar_type();
  FACULA_CHECK((combine != Combine::Max && combine != Combine::Min) || !isComplexType(dtype), DTypeError, kOp, ": ",
               reduce, " is not defined for ", toString(dtype), ", which has no order");
  FACULA_CHECK(!mean || dtype != ScalarType::Bool, DTypeError, kOp,
               ": mean is not defined for bool; convert self to float32");
  const DimVector zeros(std::max<size_t>(1, self.sizes().size()), 0);
  if (!include_self) {
    Element neutral(identity(combine, dtype), dtype, kOp);
    run(self, a, Tensor(), neutral.data(), zeros, kPrefix, Combine::Set);
  }
  AtLeastVector from(*src.impl());
  run(self, a, src, src.impl()->data(), from.strides, kPrefix, combine);
  if (mean && !self.impl()->device.is_meta() && a.index.impl()->numel > 0) {
    // How many values went into each place. Places that none went into are divided by one.
    Tensor counts = new_tensor(self.sizes(), ScalarType::Long, self.device(), kOp);
    fill_values(counts, include_self ? 1 : 0);
    Element one(1, ScalarType::Long, kOp);
    run(counts, a, Tensor(), one.data(), zeros, kPrefix, Combine::Add);
    if (!include_self) facula::clamp_min_(counts, 1);
    if (isIntegralType(dtype, true)) facula::div_(self, counts, "floor");
    else facula::div_(self, counts);
    return;  // the division has counted the change
  }
  mark_written(self);
}

Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  constexpr const char* kOp = "take_along_dim";
  impl_of(self, kOp);
  checked_index(indices, IndexTypes::LongOrInt, kOp);
  if (!dim) return facula::gather(self.reshape({-1}), 0, indices.reshape({-1}));
  FACULA_CHECK(self.dim() == indices.dim(), ShapeError, kOp,
               ": input and indices should have the same number of dimensions, but got ", self.dim(),
               " dimensions for input, and ", indices.dim(), " dimensions for indices");
  const size_t d = usize(wrap_dim(*dim, self.dim(), kOp));
  if (self.dim() == 0) return facula::gather(self, 0, indices);
  // Each side takes the other's sizes, but keeps its own along the dim.
  DimVector self_sizes(self.sizes()), index_sizes(indices.sizes());
  self_sizes[d] = index_sizes[d] = 1;
  DimVector common = broadcast_sizes(self_sizes, index_sizes, kOp);
  self_sizes = common;
  self_sizes[d] = self.sizes()[d];
  index_sizes = common;
  index_sizes[d] = indices.sizes()[d];
  return facula::gather(self.expand(self_sizes), *dim, indices.expand(index_sizes));
}

}  // namespace facula::meaning
