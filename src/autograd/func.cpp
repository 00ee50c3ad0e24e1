// Functions of functions over the tape, dual numbers and batches.
#include "autograd/batch.h"
#include "autograd/call.h"
#include "core/shape.h"

#include <facula/autograd/forward.h>
#include <facula/func.h>

#include <unordered_set>

namespace facula::func::detail {

using namespace autograd;

namespace {

// A tensor to differentiate by that stays connected to whatever tracks `x` outside.
Tensor fresh_input(const Tensor& x, const char* op) {
  FACULA_CHECK(x.defined(), ValueError, op, ": an argument is undefined");
  FACULA_CHECK(isDifferentiableType(x.scalar_type()), DTypeError, op,
               ": only tensors of floating point and complex dtype have gradients, the argument is ",
               toString(x.scalar_type()), "; convert it to float32 first");
  FACULA_CHECK(GradMode::is_enabled(), Error, op,
               ": gradients cannot be computed in inference mode; leave it, or use no_grad (NoGradGuard) instead");
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

// Results leave the function: history that only leads to its own inputs ends here, also that of their tangents, which
// were computed from those inputs. History that leads outside belongs to outer levels and stays.
Tensor release(const Tensor& t, const variable_list& ours) {
  const Tape* tape = tape_of(t);
  if (!tape) return t;
  const bool recorded = autograd::requires_grad(t), leads_outside = recorded && depends_on_others(t, ours);
  Tensor free = recorded && !leads_outside ? detached_alias(t) : t;
  if (tape->batch && !leads_outside) {
    const Tensor value = release(tape->batch->value, ours);
    if (!value.is_same(tape->batch->value)) free = make_batched(value, tape->batch->dim, tape->batch->level);
  }
  if (!tape->tangents) return free;
  auto tangents = intrusive_ptr<Tangents>::adopt(new Tangents);
  bool changed = !free.is_same(t);
  for (const Tangents::One& one : tape->tangents->all) {
    tangents->all.push_back({one.level, release(one.tangent, ours)});
    changed |= !tangents->all.back().tangent.is_same(one.tangent);
  }
  if (!changed) return t;
  if (free.is_same(t)) free = t.alias();  // with the history that leads outside
  ensure_tape(free).tangents = std::move(tangents);
  free.impl()->tracking |= facula::detail::kTracksTangent;
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

namespace {

Randomness randomness_of(const std::string& name) {
  if (name == "error") return Randomness::Error;
  if (name == "same") return Randomness::Same;
  FACULA_CHECK(name == "different", ValueError,
               "vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got ", name);
  return Randomness::Different;
}

// The dimension of each argument that runs over the batch, none for those that all entries share.
InDims mapped_dims(const variable_list& args, const VmapOptions& options) {
  const InDims& given = options.in_dims;
  FACULA_CHECK(given.empty() || given.size() == args.size(), ValueError, "vmap: ", given.size(), " in_dims for ",
               args.size(), " arguments; give one for each, or none at all for dimension 0 of each");
  InDims dims;
  std::optional<int64_t> size;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::optional<int64_t> in = given.empty() ? std::optional<int64_t>(options.in_dim) : given[i];
    dims.push_back(std::nullopt);
    if (!in) continue;
    FACULA_CHECK(args[i].defined() && args[i].dim() > 0, ShapeError, "vmap: argument ", i,
                 " has no dimension to run over; give none as its in_dim");
    dims[i] = wrap_dim(*in, args[i].dim(), "vmap");
    const int64_t mine = args[i].size(*dims[i]);
    FACULA_CHECK(!size || *size == mine, ShapeError,
                 "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes ",
                 size.value_or(0), " and ", mine, " for the mapped dimension");
    size = mine;
  }
  FACULA_CHECK(size, ValueError, "vmap: at least one argument must be mapped over; give it an in_dim");
  return dims;
}

int64_t batch_size(const variable_list& args, const InDims& dims) {
  for (size_t i = 0; i < args.size(); ++i)
    if (dims[i]) return args[i].size(*dims[i]);
  return 0;
}

// What leaves a vmap: the batch goes to `out`, or all entries are the same.
Tensor unbatched(const Tensor& result, size_t number, const BatchLevel& level, int64_t size,
                 std::optional<int64_t> out) {
  FACULA_CHECK(result.defined(), ValueError, "vmap: the function gave an undefined tensor");
  const BatchInfo* batch = batch_of(result);
  if (batch && batch->level == level.level()) {
    FACULA_CHECK(out, ValueError, "vmap: result ", number,
                 " differs between the entries of the batch, while its out_dim is none; say where the batch goes");
    const Tensor value = batch->value;
    const int64_t from = batch->dim, to = wrap_dim(*out, value.dim(), "vmap");
    return from == to ? value : value.movedim(from, to);
  }
  if (!out) return result;
  const int64_t dim = wrap_dim(*out, result.dim() + 1, "vmap");
  std::vector<int64_t> sizes = result.sizes().vec();
  sizes.insert(sizes.begin() + dim, size);
  return result.unsqueeze(dim).expand(sizes);
}

variable_list map_all(const Fn& f, const variable_list& args, const InDims& dims, const OutDims& out_dims,
                      Randomness randomness) {
  const int64_t size = batch_size(args, dims);
  const BatchLevel level(size, randomness);
  variable_list batches = args;
  for (size_t i = 0; i < args.size(); ++i)
    if (dims[i]) batches[i] = make_batched(args[i], *dims[i], level.level());
  variable_list results = f(batches);
  FACULA_CHECK(!out_dims.listed() || out_dims.size() == results.size(), ValueError, "vmap: ", out_dims.size(),
               " out_dims for ", results.size(), " results; give one for each, or one for all");
  for (size_t j = 0; j < results.size(); ++j) results[j] = unbatched(results[j], j, level, size, out_dims[j]);
  return results;
}

}  // namespace

variable_list vmap(const Fn& f, const variable_list& args, const VmapOptions& options) {
  const Randomness randomness = randomness_of(options.randomness);
  const InDims dims = mapped_dims(args, options);
  const int64_t size = batch_size(args, dims), chunk = options.chunk_size.value_or(size);
  FACULA_CHECK(!options.chunk_size || chunk > 0, ValueError, "vmap: chunk_size should be greater than 0. (got ", chunk,
               ")");
  if (chunk >= size) return map_all(f, args, dims, options.out_dims, randomness);
  std::vector<variable_list> parts;  // of each result
  Generator generator = default_generator();
  const Tensor before = generator.get_state();
  for (int64_t start = 0; start < size; start += chunk) {
    if (randomness == Randomness::Same) generator.set_state(before);
    variable_list some = args;
    for (size_t i = 0; i < args.size(); ++i)
      if (dims[i]) some[i] = args[i].narrow(*dims[i], start, std::min(chunk, size - start));
    const variable_list results = map_all(f, some, dims, options.out_dims, randomness);
    parts.resize(results.size());
    for (size_t j = 0; j < results.size(); ++j) parts[j].push_back(results[j]);
  }
  variable_list joined;
  for (size_t j = 0; j < parts.size(); ++j) {
    const std::optional<int64_t> out = options.out_dims[j];
    joined.push_back(out ? cat(parts[j], *out) : parts[j][0]);
  }
  return joined;
}

void check_argument_count(const char* name, size_t given, size_t wanted) {
  FACULA_CHECK(given == wanted, ValueError, name, ": ", given, " arguments were given to a function of ", wanted,
               "; give one for each of its parameters");
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
      if (!grads[i].defined() || !autograd::requires_grad(results[i])) continue;
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
  const variable_list rows = vmap([&](const variable_list& unit) { return back({unit[0]}); }, {basis(y)}, {});
  return rows[0].reshape(joined(y.sizes(), x.sizes()));
}

Tensor jacfwd(const Fn& f, const variable_list& args, size_t argnum, const std::string& randomness) {
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
      {basis(x)}, VmapOptions{.out_dims = -1, .randomness = randomness});
  std::vector<int64_t> sizes = columns[0].sizes().vec();
  sizes.pop_back();
  return columns[0].reshape(joined(sizes, x.sizes()));
}

}  // namespace facula::func::detail
