// Calls of modules with other tensors in place of the registered ones. A module's members are handles to the registered
// tensors, so the handles stay and what they show is exchanged.
#include "core/tensor_impl.h"
#include "nn/names.h"
#include "nn/tensor_contents.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/functional_call.h>

#include <algorithm>
#include <unordered_map>

namespace facula::func {

Replacements::Replacements(std::initializer_list<Pair> pairs) : all_(pairs) {}
Replacements::Replacements(const nn::NamedTensors& named) : all_(named.pairs()) {}

namespace detail {

namespace {

using nn::quoted;

// Every tensor of a module under every name.
nn::NamedTensors all_names(const nn::Module& module) {
  nn::NamedTensors all = module.named_parameters(true, false);
  for (const auto& item : module.named_buffers(true, false)) {
    FACULA_CHECK(!all.contains(item.key()), ValueError, "functional_call: ", module.name(),
                 " has a parameter and a buffer of the name \"", item.key(), "\"; rename one of them");
    all.insert(item.key(), *item);
  }
  return all;
}

using NamesOf = std::unordered_map<const TensorImpl*, std::vector<std::string>>;

NamesOf names_by_tensor(const nn::NamedTensors& all) {
  NamesOf names;
  for (const auto& item : all) names[item->impl()].push_back(item.key());
  return names;
}

}  // namespace

ReplacedTensors::ReplacedTensors(const nn::Module& module, const Replacements& with,
                                 const FunctionalCallOptions& options) {
  const nn::NamedTensors own = all_names(module);
  std::unordered_map<const TensorImpl*, size_t> place;  // in all_
  std::vector<std::string> unknown;
  for (const auto& [name, given] : with.all()) {
    const Tensor* target = own.find(name);
    if (!target) {
      unknown.push_back(name);
      continue;
    }
    FACULA_CHECK(given.defined(), ValueError, "functional_call: the tensor for \"", name, "\" is undefined");
    const auto [at, fresh] = place.emplace(target->impl(), all_.size());
    if (fresh) all_.push_back({*target, given, given.is_view() ? given._base() : given, {}});
    FACULA_CHECK(all_[at->second].given.is_same(given), ValueError, "functional_call: got different tensors for ",
                 quoted(names_by_tensor(own)[target->impl()]), " of ", module.name(),
                 ", which are one tensor under several names; give one of the names only");
  }
  FACULA_CHECK(unknown.empty(), ValueError, "functional_call: Unexpected key(s): ", quoted(unknown), ". ",
               module.name(), " has ", own.is_empty() ? std::string("no parameters or buffers") : quoted(own.keys()));
  if (!options.tie_weights) {
    const NamesOf names = names_by_tensor(own);
    for (const One& one : all_) {
      const std::vector<std::string>& tied = names.at(one.target.impl());
      const auto is_given = [&](const std::string& name) {
        return std::any_of(with.all().begin(), with.all().end(), [&](const auto& pair) { return pair.first == name; });
      };
      FACULA_CHECK(std::all_of(tied.begin(), tied.end(), is_given), NotSupportedError,
                   "functional_call: ", quoted(tied), " of ", module.name(),
                   " are one tensor, and with tie_weights=false all of these names must be given");
    }
  }
  if (options.strict) {
    std::vector<std::string> missing;
    for (const auto& item : own)
      if (!place.contains(item->impl())) missing.push_back(item.key());
    FACULA_CHECK(missing.empty(), ValueError, "functional_call: Missing key(s): ", quoted(missing), " of ",
                 module.name(), "; give them, or call without strict");
  }

  // A tensor that is given for itself stays.
  std::erase_if(all_, [](const One& one) { return one.given.is_same(one.target); });
  // An alias has its history in a node, which recorded ops refer to. A leaf's is in the tensor itself: the tape would save
  // the handle, and find something else behind it when the call has ended.
  for (One& one : all_) {
    const EnableGradGuard record;
    one.inside = one.given.alias();
    nn::prepare_swap(one.target);
    nn::prepare_swap(one.inside);
  }
  for (const One& one : all_) {
    // What is given may be another tensor of the same module, which is about to change.
    TensorImpl* inside = one.inside.impl();
    if (!inside->base || !place.contains(inside->base.get())) continue;
    inside->base.reset();
    inside->tracking &= ~facula::detail::kTracksView;
  }
  for (const One& one : all_) nn::swap_contents(one.target, one.inside);
}

ReplacedTensors::~ReplacedTensors() {
  for (const One& one : all_) nn::swap_contents(one.target, one.inside);
}

void ReplacedTensors::leave(Tensor& result) const {
  if (!result.defined()) return;
  for (const One& one : all_) {
    if (result.is_same(one.target)) {
      result = one.given;
      return;
    }
    // A view, made in this call, of what was given as another tensor of the module; see the constructor.
    TensorImpl *view = result.impl(), *target = one.target.impl();
    if (view->base.get() != target || !(view->storage == target->storage)) continue;
    view->base = intrusive_ptr<TensorImpl>::borrow(one.root.impl());
    return;
  }
}

nn::NamedTensors named(const std::vector<std::string>& names, const variable_list& values) {
  nn::NamedTensors all;
  all.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) all.insert(names[i], values.at(i));
  return all;
}

std::pair<Tensor, nn::NamedTensors> value_and_grad_dict(const std::function<Tensor(const nn::NamedTensors&)>& f,
                                                        const nn::NamedTensors& by) {
  const std::vector<std::string> names = by.keys();
  const auto [results, pull] =
      vjp([&](const variable_list& inner) { return variable_list{f(named(names, inner))}; }, by.values());
  const Tensor& value = results.at(0);
  FACULA_CHECK(value.numel() == 1, ShapeError,
               "grad_dict: Expected the function to return a scalar tensor, got tensor with ", value.dim(),
               " dims of sizes ", to_text(value.sizes()), "; reduce it, e.g. with sum()");
  return {value, named(names, pull({ones_like(value)}))};
}

std::pair<nn::NamedTensors, nn::NamedTensors> stack_module_state(const std::vector<const nn::Module*>& all) {
  FACULA_CHECK(!all.empty(), ValueError, "stack_module_state: no modules; give at least one");
  const NoGradGuard quiet;
  const auto stacked = [&](const auto& list_of, bool leaves) {
    const nn::NamedTensors first = list_of(*all[0]);
    std::vector<nn::NamedTensors> lists;
    for (const nn::Module* module : all) {
      lists.push_back(list_of(*module));
      FACULA_CHECK(lists.back().keys() == first.keys(), ValueError, "stack_module_state: module ", lists.size() - 1,
                   " has ", quoted(lists.back().keys()), " where the first has ", quoted(first.keys()),
                   "; stack modules of one kind");
      FACULA_CHECK(module->is_training() == all[0]->is_training(), ValueError, "stack_module_state: module ",
                   lists.size() - 1, " is ", module->is_training() ? "" : "not ",
                   "in training mode, unlike the first; call train() or eval() on all of them");
    }
    nn::NamedTensors result;
    for (const auto& item : first) {
      std::vector<Tensor> entries;
      for (const nn::NamedTensors& list : lists) entries.push_back(list[item.key()].detach());
      Tensor whole = stack(entries);
      if (leaves) whole.set_requires_grad(item->requires_grad());
      result.insert(item.key(), std::move(whole));
    }
    return result;
  };
  return {stacked([](const nn::Module& m) { return m.named_parameters(); }, true),
          stacked([](const nn::Module& m) { return m.named_buffers(); }, false)};
}

VmapOptions with_dims_of_names(VmapOptions options, size_t count) {
  if (InDims& dims = options.in_dims; !dims.empty()) {
    const std::optional<int64_t> of_named = dims.front();
    dims.erase(dims.begin());
    dims.insert(dims.begin(), count, of_named);
  }
  return options;
}

}  // namespace detail
}  // namespace facula::func
