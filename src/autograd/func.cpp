// Functions of functions over the tape, dual numbers and batches.
#include "autograd/batch.h"
#include "autograd/call.h"
#include "core/shape.h"

#include <facula/autograd/forward.h>
#include <facula/func.h>

#include <atomic>
#include <unordered_set>

namespace facula::func::detail {

using namespace autograd;

namespace {

std::atomic<uint32_t> next_batch_level{1};

// A tensor to differentiate by that stays connected to whatever tracks `x` outside.
Tensor fresh_input(const Tensor& x, const char* op) {
  FACULA_CHECK(x.defined(), ValueError, op, ": an argument is undefined");
  FACULA_CHECK(isDifferentiableType(x.scalar_type()), DTypeError, op,
               ": only tensors of floating point and complex dtype have gradients, the argument is ",
               toString(x.scalar_type()), "; convert it with .to(kFloat) first");
  FACULA_CHECK(
      GradMode::is_enabled(), Error, op,
      ": gradients cannot be computed in inference mode; leave it, or use NoGradGuard instead of InferenceMode");
  Tensor inner = x.alias();
  if (!autograd::requires_grad(inner)) {
    if (inner.impl()->base) inner.impl()->base.reset();
    inner.requires_grad_(true);
  }
  return inner;
}

// Whether the history of `t` leads to anything but `ours`.
bool depends_on_others(const Tensor& t, const variable_list& ours) {
  const Edge root = gradient_edge(t);
  if (!root.function) return false;
  std::unordered_set<const Node*> seen;
  std::unordered_set<const Node*> own;
  for (const Tensor& each : ours) {
    const Edge edge = gradient_edge(each);
    if (edge.function && tape_node(edge.function)->is_accumulator()) own.insert(edge.function.get());
  }
  std::vector<TapeNode*> stack{tape_node(root.function)};
  seen.insert(stack[0]);
  while (!stack.empty()) {
    TapeNode* node = stack.back();
    stack.pop_back();
    if (node->is_accumulator() && !own.contains(node)) return true;
    for (const Edge& edge : node->edges)
      if (edge.function && seen.insert(edge.function.get()).second) stack.push_back(tape_node(edge.function));
  }
  return false;
}

// Results leave the function: history that only leads to its own inputs ends here.
Tensor release(const Tensor& t, const variable_list& ours) {
  if (!t.defined() || !autograd::requires_grad(t) || depends_on_others(t, ours)) return t;
  // The history of batched values and tangents belongs to outer levels: only that of the tensor itself goes.
  Tensor free = detached_alias(t);
  if (const Tape* tape = tape_of(t); tape->tangents) {
    ensure_tape(free).tangents = tape->tangents;
    free.impl()->tracking |= facula::detail::kTracksTangent;
  }
  return free;
}

}  // namespace

std::pair<Tensor, Tensor> value_and_grad(const Fn& f, const variable_list& args, size_t argnum) {
  FACULA_CHECK(argnum < args.size(), IndexError, "grad: argnum ", argnum, " of ", args.size(), " arguments");
  const EnableGradGuard record;
  variable_list inner = args;
  inner[argnum] = fresh_input(args[argnum], "grad");
  const variable_list results = f(inner);
  FACULA_CHECK(results.size() == 1 && results[0].defined(), ValueError, "grad: the function gave ", results.size(),
               " results; give one tensor of one element");
  const Tensor& value = results[0];
  FACULA_CHECK(value.dim() == 0 || value.numel() == 1, ShapeError,
               "grad: Expected the function to return a scalar tensor, got tensor with ", value.dim(),
               " dims of sizes ", to_text(value.sizes()), "; reduce it, e.g. with sum(), or use jacrev");
  const variable_list ours{inner[argnum]};
  if (!autograd::requires_grad(value)) return {value, zeros_like(args[argnum])};
  Tensor gradient = autograd::grad({value}, ours, {}, true, true, true)[0];
  if (!gradient.defined()) gradient = zeros_like(args[argnum]);
  return {release(value, ours), release(gradient, ours)};
}

variable_list vmap(const Fn& f, const variable_list& args, const InDims& in_dims, int64_t out_dim) {
  FACULA_CHECK(in_dims.empty() || in_dims.size() == args.size(), ValueError, "vmap: ", in_dims.size(), " in_dims for ",
               args.size(), " arguments; give one for each, or none at all for dimension 0 of each");
  const uint32_t level = next_batch_level.fetch_add(1);
  variable_list batches;
  std::optional<int64_t> size;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::optional<int64_t> in = in_dims.empty() ? std::optional<int64_t>(0) : in_dims[i];
    if (!in) {
      batches.push_back(args[i]);
      continue;
    }
    FACULA_CHECK(args[i].defined() && args[i].dim() > 0, ShapeError, "vmap: argument ", i,
                 " has no dimension to run over; give std::nullopt as its in_dim");
    const int64_t dim = wrap_dim(*in, args[i].dim(), "vmap");
    FACULA_CHECK(!size || *size == args[i].size(dim), ShapeError,
                 "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes ",
                 size.value_or(0), " and ", args[i].size(dim), " for the mapped dimension");
    size = args[i].size(dim);
    batches.push_back(make_batched(args[i], dim, level));
  }
  FACULA_CHECK(size, ValueError, "vmap: at least one argument must be mapped over; give it an in_dim");
  variable_list results = f(batches);
  for (Tensor& result : results) {
    FACULA_CHECK(result.defined(), ValueError, "vmap: the function gave an undefined tensor");
    const BatchInfo* batch = batch_of(result);
    if (batch && batch->level == level) {
      const int64_t dim = wrap_dim(out_dim, batch->value.dim(), "vmap");
      const Tensor value = batch->value;
      const int64_t at = batch->dim;
      result = at == dim ? value : value.movedim(at, dim);
    } else {
      // All entries have the same result.
      const int64_t dim = wrap_dim(out_dim, result.dim() + 1, "vmap");
      std::vector<int64_t> sizes = result.sizes().vec();
      sizes.insert(sizes.begin() + dim, *size);
      result = result.unsqueeze(dim).expand(sizes);
    }
  }
  return results;
}

std::pair<variable_list, variable_list> jvp(const Fn& f, const variable_list& args, const variable_list& tangents) {
  FACULA_CHECK(args.size() == tangents.size(), ValueError, "jvp: ", tangents.size(), " tangents for ", args.size(),
               " arguments; give one for each");
  const DualLevel level;
  variable_list duals;
  for (size_t i = 0; i < args.size(); ++i) duals.push_back(level.make_dual(args[i], tangents[i]));
  variable_list values = f(duals), derivatives;
  for (Tensor& value : values) {
    auto [primal, tangent] = level.unpack_dual(value);
    derivatives.push_back(tangent.defined() ? tangent : zeros_like(primal));
    value = primal;
  }
  return {std::move(values), std::move(derivatives)};
}

std::pair<variable_list, std::function<variable_list(const variable_list&)>> vjp(const Fn& f,
                                                                                 const variable_list& args) {
  const EnableGradGuard record;
  variable_list inner;
  for (const Tensor& arg : args) inner.push_back(fresh_input(arg, "vjp"));
  variable_list results = f(inner);
  const auto pull = [inner, results](const variable_list& grads) {
    variable_list outputs, weights;
    FACULA_CHECK(grads.size() == results.size(), ValueError, "vjp: ", grads.size(), " gradients for ", results.size(),
                 " results; give one for each");
    for (size_t i = 0; i < results.size(); ++i) {
      if (!autograd::requires_grad(results[i])) continue;
      outputs.push_back(results[i]);
      weights.push_back(grads[i]);
    }
    variable_list found(inner.size());
    const EnableGradGuard again;
    if (!outputs.empty()) found = autograd::grad(outputs, inner, weights, true, true, true);
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) found[i] = zeros_like(inner[i].detach());
      found[i] = release(found[i], inner);
    }
    return found;
  };
  for (Tensor& result : results) result = release(result, inner);
  return {std::move(results), pull};
}

namespace {

const Tensor& only_result(const variable_list& results, const char* op) {
  FACULA_CHECK(results.size() == 1, ValueError, op, ": the function gave ", results.size(),
               " results; give one tensor");
  return results[0];
}

// Unit vectors of the shape of `like`, one for each of its entries.
Tensor basis(const Tensor& like) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes.insert(sizes.begin(), like.numel());
  return eye(like.numel(), TensorOptions().dtype(like.scalar_type()).device(std::optional<Device>(like.device())))
      .reshape(sizes);
}

std::vector<int64_t> joined(IntArrayRef a, IntArrayRef b) {
  std::vector<int64_t> all = a.vec();
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Tensor jacrev(const Fn& f, const variable_list& args, size_t argnum) {
  FACULA_CHECK(argnum < args.size(), IndexError, "jacrev: argnum ", argnum, " of ", args.size(), " arguments");
  const Tensor& x = args[argnum];
  const Fn by_one = [&](const variable_list& one) {
    variable_list all = args;
    all[argnum] = one[0];
    return f(all);
  };
  const auto [results, pull] = detail::vjp(by_one, {x});
  const Tensor& y = only_result(results, "jacrev");
  if (y.numel() == 0 || x.numel() == 0) return zeros(joined(y.sizes(), x.sizes()), x.options());
  const auto& back = pull;
  const variable_list rows = vmap([&](const variable_list& unit) { return back({unit[0]}); }, {basis(y)}, {}, 0);
  return rows[0].reshape(joined(y.sizes(), x.sizes()));
}

Tensor jacfwd(const Fn& f, const variable_list& args, size_t argnum) {
  FACULA_CHECK(argnum < args.size(), IndexError, "jacfwd: argnum ", argnum, " of ", args.size(), " arguments");
  const Tensor& x = args[argnum];
  const Fn by_one = [&](const variable_list& one) {
    variable_list all = args;
    all[argnum] = one[0];
    return f(all);
  };
  if (x.numel() == 0) {
    const Tensor y = only_result(f(args), "jacfwd");
    return zeros(joined(y.sizes(), x.sizes()), x.options());
  }
  const variable_list columns = vmap(
      [&](const variable_list& unit) {
        auto [values, derivatives] = detail::jvp(by_one, {x}, {unit[0]});
        return variable_list{only_result(derivatives, "jacfwd")};
      },
      {basis(x)}, {}, -1);
  std::vector<int64_t> sizes = columns[0].sizes().vec();
  sizes.pop_back();
  return columns[0].reshape(joined(sizes, x.sizes()));
}

}  // namespace facula::func::detail
