// Gradients of reading and writing at indices and masks: what was read from a place adds up there, what was overwritten
// gets nothing.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

#include "autograd/call.h"
#include "core/shape.h"

#include <facula/tensors.h>

namespace facula::vjp {

namespace {

// Whether somebody follows what is computed from these. Otherwise fresh zeros are written to in place, which saves a copy.
template <class... Tensors>
bool watched(const Tensors&... tensors) {
  return (autograd::tracked(tensors...) & static_cast<uint8_t>(~detail::kTracksView)) != 0;
}

// Zeros of these sizes with the entries of `source` added where the index says.
Tensor scatter_into_zeros(IntArrayRef sizes, int64_t dim, const Tensor& index, const Tensor& source) {
  Tensor zeros = source.new_zeros(sizes);
  if (watched(index, source)) return zeros.scatter_add(dim, index, source);
  return zeros.scatter_add_(dim, index, source);
}
Tensor add_into_zeros(IntArrayRef sizes, int64_t dim, const Tensor& index, const Tensor& source) {
  Tensor zeros = source.new_zeros(sizes);
  if (watched(index, source)) return zeros.index_add(dim, index, source);
  return zeros.index_add_(dim, index, source);
}

// A scatter reads as much of its source as the index is long in each dim: that part, and back.
Tensor read_part(const Tensor& source, IntArrayRef index_sizes) {
  if (source.sizes() == index_sizes) return source;
  // A zero-dim tensor and a vector go together.
  if (source.sizes().size() != index_sizes.size())
    return source.reshape({source.numel()}).slice(0, 0, 1).reshape(index_sizes);
  Tensor part = source;
  for (size_t d = 0; d < index_sizes.size(); ++d)
    if (source.sizes()[d] != index_sizes[d]) part = part.slice(static_cast<int64_t>(d), 0, index_sizes[d]);
  return part;
}
Tensor filled_up(const Tensor& part, IntArrayRef sizes) {
  if (part.sizes() == sizes) return part;
  if (part.numel() == 0) return part.new_zeros(sizes);
  if (sizes.empty()) return part.reshape(sizes);
  const Tensor from = part.dim() == 0 ? part.reshape({1}) : part;
  DimVector pad;
  for (size_t d = sizes.size(); d-- > 0;) {
    pad.push_back(0);
    pad.push_back(sizes[d] - from.sizes()[d]);
  }
  return constant_pad_nd(from, pad, 0);
}

// The product that each source entry is a factor of, without it: self is one of the factors, unless undefined.
Tensor product_of_others(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         const Tensor& like) {
  const Tensor zero = source == 0, factors = where(zero, 1, source);
  const Tensor base = self.defined() ? self : ones_like(like);
  const Tensor product = base.scatter(dim, index, factors, "multiply").gather(dim, index);
  const Tensor zeros_there =
      zeros_like(like, kLong).scatter_add(dim, index, zero.to(kLong)).gather(dim, index) - zero.to(kLong);
  return (product / factors).masked_fill(zeros_there > 0, 0);
}

// Source entries of a fold, without the part of the source that is not read.
Tensor folded_source(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return grad.gather(dim, index) * product_of_others(self, dim, index, source, grad).conj();
}

}  // namespace

Tensor gather_self(const Tensor& grad, IntArrayRef self_sizes, int64_t dim, const Tensor& index) {
  return scatter_into_zeros(self_sizes, dim, index, grad);
}

Tensor scatter_self(const Tensor& grad, int64_t dim, const Tensor& index) { return grad.scatter(dim, index, 0); }
Tensor scatter_src(const Tensor& grad, IntArrayRef src_sizes, int64_t dim, const Tensor& index) {
  return filled_up(grad.gather(dim, index), src_sizes);
}

Tensor scatter_self(const Tensor& grad, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  return reduce == "add" ? grad : grad.scatter(dim, index, conjugate(src), "multiply");
}
Tensor scatter_src(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                   std::string_view reduce) {
  if (reduce == "add" || index.numel() == 0) return scatter_src(grad, src.sizes(), dim, index);
  return filled_up(folded_source(grad, self, dim, index, read_part(src, index.sizes())), src.sizes());
}
Tensor scatter_self(const Tensor& grad, int64_t dim, const Tensor& index, const Scalar& value,
                    std::string_view reduce) {
  return reduce == "add" ? grad : grad.scatter(dim, index, conjugate(value), "multiply");
}

Tensor scatter_add_self(const Tensor& grad) { return grad; }
Tensor scatter_add_src(const Tensor& grad, IntArrayRef src_sizes, int64_t dim, const Tensor& index) {
  return scatter_src(grad, src_sizes, dim, index);
}

std::array<Tensor, 2> scatter_reduce(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self, int64_t dim,
                                     const Tensor& index, const Tensor& src, std::string_view reduce, bool include_self,
                                     const Tensor& result) {
  Tensor to_self, to_src;
  if (index.numel() == 0) {
    if (needs[0]) to_self = grad;
    if (needs[1]) to_src = grad.new_zeros(src.sizes());
    return {to_self, to_src};
  }
  const Tensor source = read_part(src, index.sizes());
  if (reduce == "sum") {
    to_self = grad;
    if (needs[1]) to_src = grad.gather(dim, index);
  } else if (reduce == "mean") {
    Tensor count = include_self ? ones_like(grad) : zeros_like(grad);
    count = count.scatter(dim, index, 1, "add");
    if (!include_self) count = count.masked_fill(count == 0, 1);
    to_self = grad / count;
    if (needs[1]) to_src = to_self.gather(dim, index);
  } else if (reduce == "prod") {
    if (needs[0]) to_self = include_self ? grad.scatter(dim, index, conjugate(source), "multiply") : grad;
    if (needs[1]) to_src = folded_source(grad, include_self ? self : Tensor(), dim, index, source);
  } else {
    // The largest (smallest) entries of a place share its gradient.
    Tensor self_holds = self == result;
    if (!include_self) self_holds = self_holds.scatter(dim, index, 0);
    const Tensor src_holds = source == result.gather(dim, index);
    const Tensor count = self_holds.to(grad.scalar_type()).scatter_add(dim, index, src_holds.to(grad.scalar_type()));
    const Tensor each = grad / count.masked_fill(count == 0, 1);
    if (needs[0]) to_self = each.masked_fill(logical_not(self_holds), 0);
    if (needs[1]) to_src = each.gather(dim, index).masked_fill(logical_not(src_holds), 0);
  }
  if (needs[0] && !include_self) to_self = to_self.scatter(dim, index, 0);
  if (!needs[0]) to_self = {};
  if (needs[1]) to_src = filled_up(to_src, src.sizes());
  return {to_self, to_src};
}

Tensor index_select_self(const Tensor& grad, IntArrayRef self_sizes, int64_t dim, const Tensor& index) {
  return add_into_zeros(self_sizes, dim, index, grad);
}

Tensor index_add_self(const Tensor& grad) { return grad; }
Tensor index_add_source(const Tensor& grad, IntArrayRef source_sizes, int64_t dim, const Tensor& index,
                        const Scalar& alpha) {
  const Tensor slices = index_copy_source(grad, source_sizes, dim, index);
  return alpha.equal_int(1) ? slices : slices * conjugate(alpha);
}

Tensor index_copy_self(const Tensor& grad, int64_t dim, const Tensor& index) { return grad.index_fill(dim, index, 0); }
Tensor index_copy_source(const Tensor& grad, IntArrayRef source_sizes, int64_t dim, const Tensor& index) {
  const Tensor slices = grad.index_select(dim, index);
  return slices.sizes() == source_sizes ? slices : slices.reshape(source_sizes);
}

Tensor index_fill_self(const Tensor& grad, int64_t dim, const Tensor& index) { return grad.index_fill(dim, index, 0); }
// A slice that is named twice was written once.
Tensor index_fill_value(const Tensor& grad, int64_t dim, const Tensor& index) {
  const int64_t rank = std::max<int64_t>(1, grad.dim());
  DimVector sizes(static_cast<size_t>(rank), 1);
  const auto at = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  sizes[at] = grad.dim() == 0 ? 1 : grad.size(dim);
  const Tensor filled = grad.new_zeros(sizes, kBool).index_fill(static_cast<int64_t>(at), index, 1);
  return where(filled, grad, 0);
}

Tensor index_self(const Tensor& grad, IntArrayRef self_sizes, ArrayRef<std::optional<Tensor>> indices) {
  Tensor zeros = grad.new_zeros(self_sizes);
  if (watched(grad, indices)) return facula::index_put(zeros, indices, grad, true);
  return facula::index_put_(zeros, indices, grad, true);
}

Tensor index_put_self(const Tensor& grad, ArrayRef<std::optional<Tensor>> indices, bool accumulate) {
  return accumulate ? grad : facula::index_put(grad, indices, grad.new_zeros({}));
}
Tensor index_put_values(const Tensor& grad, ArrayRef<std::optional<Tensor>> indices) {
  return facula::index(grad, indices);
}

Tensor masked_fill_self(const Tensor& grad, const Tensor& mask) {
  return formula([](auto g, auto m) { return where(m, 0.0, g); }, grad, Mask{mask});
}
Tensor masked_fill_value(const Tensor& grad, const Tensor& mask) { return where(mask, grad, 0); }

Tensor masked_select_self(const Tensor& grad, IntArrayRef self_sizes, const Tensor& mask) {
  const DimVector sizes = broadcast_sizes(self_sizes, mask.sizes(), "masked_select");
  return grad.new_zeros({}).expand(sizes).masked_scatter(mask, grad);
}

Tensor masked_scatter_self(const Tensor& grad, const Tensor& mask) { return grad.masked_fill(mask, 0); }
Tensor masked_scatter_source(const Tensor& grad, IntArrayRef source_sizes, const Tensor& mask) {
  if (grad.is_meta()) return grad.new_zeros(source_sizes);  // how much of the source was used, nobody knows
  const Tensor used = grad.masked_select(mask);
  int64_t count = 1;
  for (const int64_t s : source_sizes) count *= s;
  if (used.numel() == count) return used.reshape(source_sizes);
  return cat({used, grad.new_zeros({count - used.numel()})}).reshape(source_sizes);
}

Tensor take_self(const Tensor& grad, IntArrayRef self_sizes, const Tensor& index) {
  Tensor zeros = grad.new_zeros(self_sizes);
  if (watched(grad, index)) return zeros.put(index, grad, true);
  return zeros.put_(index, grad, true);
}

Tensor put_self(const Tensor& grad, const Tensor& index, bool accumulate) {
  return accumulate ? grad : grad.put(index, grad.new_zeros(index.sizes()));
}
Tensor put_source(const Tensor& grad, IntArrayRef source_sizes, const Tensor& index) {
  const Tensor taken = grad.take(index);
  return taken.sizes() == source_sizes ? taken : taken.reshape(source_sizes);
}

Tensor embedding_weight(const Tensor& grad, IntArrayRef weight_sizes, const Tensor& indices, int64_t padding_idx,
                        bool scale_grad_by_freq) {
  return facula::embedding_dense_backward(grad, indices, weight_sizes[0], padding_idx, scale_grad_by_freq);
}

// The rows at the indices, as far as they counted.
Tensor embedding_dense_backward_grad_output(const Tensor& grad, const Tensor& indices, int64_t num_weights,
                                            int64_t padding_idx, bool scale_grad_by_freq) {
  Tensor rows = facula::embedding(grad, indices, -1, false, false);
  if (padding_idx >= 0) rows = rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0);
  if (!scale_grad_by_freq) return rows;
  const Tensor places = indices.reshape({indices.numel()});
  const Tensor count = add_into_zeros({num_weights}, 0, places, ones_like(places, kLong));
  return rows / count.index_select(0, places).reshape(indices.sizes()).unsqueeze(-1);
}

}  // namespace facula::vjp
