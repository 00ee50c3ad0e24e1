// Rules of single ops on batches that need more than an expression: products, indexing, losses. Which op uses which is in
// tools/opgen_batch.py.
#include "autograd/batch.h"
#include "core/shape.h"

namespace facula::autograd {
namespace {

// `value`, whose entries have `from` dimensions, with entries of `to` dimensions: new ones of size 1 come first.
Tensor with_entry_rank(const Tensor& value, int64_t from, int64_t to) {
  if (from >= to) return value;
  DimVector sizes;
  sizes.push_back(value.size(0));
  for (int64_t d = from; d < to; ++d) sizes.push_back(1);
  for (int64_t d = 1; d < value.dim(); ++d) sizes.push_back(value.size(d));
  return value.reshape(sizes);
}

// The product of entries; `a` and `b` say whether there is a batch in front of each.
Tensor product(Tensor x, bool a, int64_t x_rank, Tensor y, bool b, int64_t y_rank) {
  if (x_rank == 1 && y_rank == 1) {
    if (a && b) return facula::matmul(x.unsqueeze(-2), y.unsqueeze(-1)).squeeze(-1).squeeze(-1);
    return facula::matmul(a ? x : y, a ? y : x);
  }
  // One matrix and many vectors are one product of two matrices.
  if (!a && x_rank == 2 && b && y_rank == 1) return facula::matmul(y, x.transpose(0, 1));
  const bool row = a && x_rank == 1, column = b && y_rank == 1;
  if (row && !b && y_rank == 2) return facula::matmul(x, y);
  if (row) x = x.unsqueeze(-2);
  if (column) y = y.unsqueeze(-1);
  const int64_t rank = std::max({x_rank, y_rank, int64_t(2)});
  if (a) x = with_entry_rank(x, std::max<int64_t>(x_rank, 2), rank);
  if (b) y = with_entry_rank(y, std::max<int64_t>(y_rank, 2), rank);
  Tensor result = facula::matmul(x, y);
  if (row) result = result.squeeze(-2);
  if (column) result = result.squeeze(-1);
  return result;
}

}  // namespace

Tensor batch_matmul(const BatchCall& call) {
  return product(call.front(0), call.batched(0), call[0].dim(), call.front(1), call.batched(1), call[1].dim());
}

Tensor batch_linear(const BatchCall& call) {
  const int64_t rank = call[0].dim();
  Tensor result = call.batched(1)
                      ? product(call.front(0), call.batched(0), rank, call.front(1).transpose(-2, -1), true, 2)
                      : facula::linear(call.front(0), call[1]);
  return call[2].defined() ? result.add(call.front_of_rank(2, rank)) : result;
}

Tensor batch_baddbmm(const BatchCall& call, const Scalar& beta, const Scalar& alpha) {
  const int64_t outer = call.size(), count = call[1].size(0), n = call[1].size(1), p = call[2].size(2);
  const Tensor a = call.full(1).reshape({outer * count, n, call[1].size(2)});
  const Tensor b = call.full(2).reshape({outer * count, call[2].size(1), p});
  const Tensor self = call.front_of_rank(0, 3).expand({outer, count, n, p}).reshape({outer * count, n, p});
  return facula::baddbmm(self, a, b, beta, alpha).reshape({outer, count, n, p});
}

Tensor batch_affine(const BatchCall& call, const Tensor& normalized) {
  Tensor result = normalized;
  const int64_t rank = call[0].dim();
  if (call.count() > 1 && call[1].defined()) result = result.mul(call.front_of_rank(1, rank));
  if (call.count() > 2 && call[2].defined()) result = result.add(call.front_of_rank(2, rank));
  return result;
}

Tensor batch_index_select(const BatchCall& call, int64_t dim) {
  const int64_t rank = call[0].dim(), at = wrap_dim(dim, rank, "index_select") + 1;
  if (!call.batched(1)) return facula::index_select(call.front(0), at, call[1]);
  std::vector<int64_t> ones(static_cast<size_t>(rank) + 1, 1), wanted = call.sizes(call[0].sizes());
  ones[0] = call.size();
  ones[static_cast<size_t>(at)] = wanted[static_cast<size_t>(at)] = call[1].numel();
  return facula::gather(call.full(0), at, call.front(1).to(kLong).reshape(ones).expand(wanted));
}

Tensor batch_take(const BatchCall& call) {
  const Tensor places = call.rows(1), entries = call.rows(0);
  const Tensor from_start = facula::where(places.lt(0), places.add(call[0].numel()), places);
  return facula::gather(entries, 1, from_start).reshape(call.sizes(call[1].sizes()));
}

Tensor batch_nll_loss(const BatchCall& call, const std::optional<Tensor>& weight, int64_t reduction,
                      int64_t ignore_index) {
  const int64_t classes = call[0].size(-1), count = call[1].numel(), outer = call.size();
  const Tensor input = call.full(0).reshape({outer * count, classes});
  const Tensor target = call.full(1).reshape({outer * count});
  const auto losses = [&](const Tensor& of) {
    return facula::nll_loss(of, target, weight, Reduction::None, ignore_index).reshape({outer, count});
  };
  const Tensor each = losses(input);
  if (reduction == Reduction::None) return each.reshape(call.sizes(call[1].sizes()));
  if (reduction == Reduction::Sum) return each.sum(1);
  // The weights of the targets that count are the losses of logarithms -1.
  return each.sum(1).div(losses(facula::full_like(input, -1)).sum(1));
}

std::tuple<Tensor, Tensor> batch_dropout(const RandomCall& call, double p) {
  const auto [scale, mask] = facula::native_dropout(facula::ones_like(call.like()), p, true);
  const Tensor input = call.front(0);
  return {call.wrap(facula::where(mask, input, facula::zeros_like(input)).mul(scale)), mask};
}

// Indexing.

namespace {

// Index tensors of a call, in terms of an entry.
struct IndexPlan {
  size_t first = 0, last = 0;  // places of the first and the last index tensor
  size_t count = 0;            // of the list
  int64_t rank = 0;            // of the indices together
  int64_t taken = 0;           // dimensions of self that they stand for
  int64_t whole = 0;           // dimensions in the list without an index
  bool masks = false, batched = false, adjacent = true;
};

IndexPlan plan_of(const BatchCall& call, size_t count) {
  IndexPlan plan{.count = count};
  size_t found = 0;
  for (size_t k = 0; k < count; ++k) {
    const Tensor& index = call[k + 1];
    if (!index.defined()) {
      ++plan.whole;
      continue;
    }
    if (found++ == 0) plan.first = k;
    plan.last = k;
    const bool mask = index.scalar_type() == kBool || index.scalar_type() == kByte;
    plan.masks |= mask;
    plan.batched |= call.batched(k + 1);
    plan.rank = std::max(plan.rank, mask ? int64_t(1) : index.dim());
    plan.taken += mask ? index.dim() : 1;
  }
  plan.adjacent = found > 0 && plan.last - plan.first + 1 == found;
  return plan;
}

// The indices of values with the batch in front. Where some are batched the batch itself is indexed, so that entry i of the
// batch meets its own indices.
std::vector<std::optional<Tensor>> value_indices(const BatchCall& call, const IndexPlan& plan) {
  std::vector<std::optional<Tensor>> list(plan.count + 1);
  for (size_t k = 0; k < plan.count; ++k)
    if (call[k + 1].defined()) list[k + 1] = call.front_of_rank(k + 1, plan.rank);
  if (!plan.batched) return list;
  std::vector<int64_t> ones(static_cast<size_t>(plan.rank) + 1, 1);
  ones[0] = call.size();
  list[0] =
      facula::arange(call.size(), TensorOptions(kLong).device(std::optional<Device>(call[0].device()))).reshape(ones);
  return list;
}

// From dimensions [batch, before, of the indices, after] to [batch, of the indices, before, after], or back.
std::vector<int64_t> indices_first(int64_t before, int64_t indices, int64_t rank, bool back) {
  std::vector<int64_t> order{0};
  for (int64_t d = 0; d < indices; ++d) order.push_back(1 + before + d);
  for (int64_t d = 0; d < before; ++d) order.push_back(1 + d);
  for (int64_t d = before + indices; d < rank; ++d) order.push_back(1 + d);
  if (!back) return order;
  std::vector<int64_t> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return inverse;
}

}  // namespace

bool can_batch_index(const BatchCall& call) {
  const IndexPlan plan = plan_of(call, call.count() - 1);
  return plan.taken > 0 && plan.taken + plan.whole <= call[0].dim() && !(plan.masks && plan.batched);
}

Tensor batch_index(const BatchCall& call) {
  const IndexPlan plan = plan_of(call, call.count() - 1);
  std::vector<std::optional<Tensor>> indices = value_indices(call, plan);
  if (!call.batched(0)) {
    indices.erase(indices.begin());
    const Tensor result = facula::index(call[0], indices);
    return plan.adjacent ? result.movedim(static_cast<int64_t>(plan.first), 0) : result;
  }
  const Tensor result = facula::index(call.front(0), indices);
  // Indices that are apart put their dimensions first, even before the batch.
  if (!plan.batched) return plan.adjacent ? result : result.movedim(plan.rank, 0);
  if (!plan.adjacent || plan.first == 0) return result;
  return result.permute(indices_first(static_cast<int64_t>(plan.first), plan.rank, result.dim() - 1, true));
}

bool can_batch_index_put(const BatchCall& call) {
  const size_t count = call.count() - 2;
  const IndexPlan plan = plan_of(call, count);
  return plan.taken > 0 && plan.taken + plan.whole <= call[0].dim() && !(plan.masks && plan.batched) &&
         (plan.batched || plan.adjacent) && call[count + 1].dim() <= call[0].dim() - plan.taken + plan.rank;
}

Tensor batch_index_put(const BatchCall& call, bool accumulate) {
  const size_t count = call.count() - 2;
  const IndexPlan plan = plan_of(call, count);
  const int64_t rank = call[0].dim() - plan.taken + plan.rank;  // of what one entry writes
  Tensor values = call.front(count + 1);
  if (plan.batched && plan.adjacent && plan.first != 0) {
    if (!call.batched(count + 1)) values = values.unsqueeze(0);
    values = with_entry_rank(values, call[count + 1].dim(), rank)
                 .permute(indices_first(static_cast<int64_t>(plan.first), plan.rank, rank, false));
  } else {
    values = call.front_of_rank(count + 1, rank);
  }
  return facula::index_put(call.full(0), value_indices(call, plan), values, accumulate);
}

bool is_number_for(const BatchCall& call, size_t from) {
  return call[from].dim() == 0 && (!isComplexType(call[from].scalar_type()) || isComplexType(call[0].scalar_type()));
}

bool plain_format(std::optional<MemoryFormat> format) {
  return !format || *format == MemoryFormat::Contiguous || *format == MemoryFormat::Preserve;
}

}  // namespace facula::autograd
