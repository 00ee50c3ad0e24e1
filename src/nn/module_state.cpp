// Copies of modules and of their values: clones and state dicts.
#include "core/tensor_impl.h"
#include "nn/names.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/cloneable.h>
#include <facula/nn/module.h>

#include <algorithm>
#include <unordered_set>

namespace facula::nn {

std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  throw NotSupportedError(str("clone() has not been implemented for ", name(), ". Derive from torch::nn::Cloneable<",
                              name(), "> instead of torch::nn::Module, and register in reset()"));
}

void detail::refuse_clone_into(const Module& from, const Module& into) {
  throw Error(str("clone: reset() made a submodule of type ", into.name(), " where the original has one of type ",
                  from.name(), ", a different type; register the same types in reset()"));
}

void Module::forget_registered() {
  for (const auto& child : children_) let_go_of(**child);
  parameters_.clear();
  buffers_.clear();
  children_.clear();
}

namespace {

// What a clone registered has the names of what the original has.
template <class Dict>
void check_same_names(const Dict& mine, const Dict& theirs, const std::string& module, const char* kind,
                      const char* registered_by) {
  bool same = mine.size() == theirs.size();
  for (const auto& item : theirs) same = same && mine.contains(item.key());
  FACULA_CHECK(same, Error, "clone: The cloned module ", module, " does not have the same number of ", kind,
               " as the original module after calling reset(), or not under the same names: ", mine.size(),
               " instead of ", theirs.size(), ". Call ", registered_by, "() in reset() and not in the constructor");
}

void copy_into(const NamedTensors& mine, const NamedTensors& theirs, const std::optional<Device>& device) {
  for (const auto& item : theirs) {
    if (!item->defined()) continue;
    const Tensor& target = mine[item.key()];
    FACULA_CHECK(target.defined(), Error, "clone: reset() registered '", item.key(),
                 "' as an undefined tensor, while the original has one of sizes ", to_text(item->sizes()));
    if (target.is_same(*item)) continue;
    const Tensor from = item->detach();
    const bool elsewhere = device && from.device() != *device;
    const bool wanted = item->requires_grad();
    // Data without gradients can only be given to a tensor that asks for none.
    if (!wanted && target.is_leaf()) target.set_requires_grad(false);
    target.set_data(elsewhere ? from.to(TensorOptions().device(device)) : from.clone());
    if (wanted && target.is_leaf()) target.set_requires_grad(true);
  }
}

}  // namespace

void Module::take_tensors(const Module& other, const std::optional<Device>& device) {
  check_same_names(parameters_, other.parameters_, name(), "parameters", "register_parameter");
  copy_into(parameters_, other.parameters_, device);
  check_same_names(buffers_, other.buffers_, name(), "buffers", "register_buffer");
  copy_into(buffers_, other.buffers_, device);
}

void Module::take_state(const Module& other, const std::optional<Device>& device) {
  const NoGradGuard quiet;
  take_tensors(other, device);
  check_same_names(children_, other.children_, name(), "child modules", "register_module");
  for (const auto& child : other.children_) children_[child.key()]->clone_(**child, device);
  is_training_ = other.is_training_;
}

// A module that is not Cloneable: reset() of the one that has it has made it, its values are taken over by name.
void Module::clone_(Module& other, const std::optional<Device>& device) {
  if (this != &other) take_state(other, device);
}

NamedTensors Module::state_dict() const {
  NamedTensors all("Key");
  const auto add = [&](const std::string& prefix, const Module& module) {
    const auto put = [&](const NamedTensors& named) {
      for (const auto& item : named)
        if (item->defined()) all.insert(prefix.empty() ? item.key() : prefix + '.' + item.key(), item->detach());
    };
    put(module.parameters_);
    put(module.buffers_);
  };
  apply(ConstNamedModuleApplyFunction(add));
  return all;
}

namespace {

bool is_same_memory(const Tensor& a, const Tensor& b) {
  return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

// Whether writing to `t` would go to one place several times.
bool is_expanded(const Tensor& t) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.stride(d) == 0 && t.size(d) > 1) return true;
  return false;
}

// Why `source` cannot be copied into `target`; empty when it can.
std::string complaint(const std::string& name, const Tensor& target, const Tensor& source) {
  if (!source.defined()) return str("undefined tensor for ", name, ": give one of shape ", to_text(target.sizes()));
  if (source.sizes() != target.sizes())
    return str("size mismatch for ", name, ": copying a param with shape ", to_text(source.sizes()),
               " from the state dict, the shape in the current model is ", to_text(target.sizes()));
  if (source.is_meta() != target.is_meta())
    return str("no data for ", name, ": the ", source.is_meta() ? "tensor in the state dict" : "module's tensor",
               " is on the meta device, which holds none; make it on a device with memory first");
  if (source.is_complex() && !target.is_complex())
    return str("dtype mismatch for ", name, ": ", toString(source.scalar_type()), " numbers do not fit into ",
               toString(target.scalar_type()), "; take their real part first");
  if (target.is_inference() && !InferenceMode::is_enabled())
    return str(name, " of the module is an inference tensor, which is written in InferenceMode only");
  if (is_expanded(target)) return str(name, " of the module is expanded and cannot be written; register a clone of it");
  return {};
}

}  // namespace

IncompatibleKeys Module::load_state_dict(const NamedTensors& state, bool strict) {
  const NamedTensors own = state_dict();
  IncompatibleKeys keys;
  std::vector<std::string> complaints;
  for (const auto& item : own) {
    const Tensor* source = state.find(item.key());
    if (!source) keys.missing_keys.push_back(item.key());
    else if (std::string found = complaint(item.key(), *item, *source); !found.empty())
      complaints.push_back(std::move(found));
  }
  for (const auto& item : state)
    if (!own.contains(item.key())) keys.unexpected_keys.push_back(item.key());
  if (strict && !keys.unexpected_keys.empty())
    complaints.insert(complaints.begin(), str("Unexpected key(s) in state_dict: ", quoted(keys.unexpected_keys)));
  if (strict && !keys.missing_keys.empty())
    complaints.insert(complaints.begin(), str("Missing key(s) in state_dict: ", quoted(keys.missing_keys)));
  if (!complaints.empty()) {
    std::string text = str("load_state_dict: Error(s) in loading state_dict for ", name(), ", which is unchanged:");
    for (const std::string& each : complaints) text += "\n\t" + each + '.';
    throw ValueError(text);
  }

  const NoGradGuard quiet;
  std::unordered_set<const StorageImpl*> written;
  for (const auto& item : own) written.insert(item->impl()->storage.get());
  // Copied aside first: what must be converted, and what the module itself would overwrite before it is read.
  std::vector<std::pair<Tensor, Tensor>> pairs;
  for (const auto& item : own) {
    const Tensor* source = state.find(item.key());
    if (!source) continue;
    Tensor from = source->detach();
    if (from.device() != item->device()) from = from.to(TensorOptions().device(std::optional<Device>(item->device())));
    else if (written.contains(from.impl()->storage.get()) && !is_same_memory(from, *item)) from = from.clone();
    pairs.emplace_back(*item, from);
  }
  for (auto& [target, from] : pairs)
    if (!is_same_memory(from, target)) target.copy_(from);
  return keys;
}

}  // namespace facula::nn
