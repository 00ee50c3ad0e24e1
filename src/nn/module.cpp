// What modules register, the lists of it, and what is done to all of it: modes, casts, gradients, printing.
#include "core/demangle.h"

#include <facula/core/warning.h>
#include <facula/facula.h>
#include <facula/nn/module.h>

#include <atomic>
#include <cctype>
#include <memory>
#include <mutex>
#include <ostream>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

namespace facula {

void detail::refuse_empty_holder() {
  throw ValueError(
      "Accessing empty ModuleHolder: it was made with nullptr and nothing was assigned since; assign a module, e.g. "
      "what register_module gives back");
}

namespace nn {

namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

// The C++ name of a type; those of this library have the names that programs and printed modules know them by.
std::string readable(const std::type_info& type) {
  std::string name = facula::detail::demangled(type.name());
  constexpr std::string_view ours = "facula::nn::", known = "torch::nn::";
  for (size_t at = 0; (at = name.find(ours, at)) != std::string::npos; at += known.size()) {
    const bool whole = at == 0 || !(std::isalnum(static_cast<unsigned char>(name[at - 1])) || name[at - 1] == '_' ||
                                    name[at - 1] == ':');
    if (whole) name.replace(at, ours.size(), known);
  }
  return name;
}

void check_name(const char* kind, const std::string& name) {
  FACULA_CHECK(!name.empty(), ValueError, kind, " name must not be empty");
  FACULA_CHECK(name.find('.') == std::string::npos, ValueError, kind, " name must not contain a dot (got '", name,
               "'): dots stand between the names of modules");
}

// The defined tensors of `all`, under their names behind `prefix`. `seen` leaves out those that it has, when given.
void collect(const NamedTensors& all, const std::string& prefix, std::unordered_set<TensorImpl*>* seen,
             NamedTensors& into) {
  for (const auto& item : all) {
    if (!item->defined() || (seen && !seen->insert(item->impl()).second)) continue;
    into.insert(joined(prefix, item.key()), *item);
  }
}

}  // namespace

Module::Module() : parameters_("Parameter"), buffers_("Buffer"), children_("Submodule") {}
Module::Module(std::string name) : Module() { name_ = std::move(name); }
Module::~Module() {
  for (const auto& child : children_) let_go_of(**child);
}
Module::Module(const Module&) = default;
Module& Module::operator=(const Module& other) {
  if (this == &other) return *this;
  for (const auto& child : children_) let_go_of(**child);
  parameters_ = other.parameters_;
  buffers_ = other.buffers_;
  children_ = other.children_;
  for (const auto& child : children_) (*child)->parent_.module = this;
  pre_hooks_ = other.pre_hooks_;
  hooks_ = other.hooks_;
  name_ = other.name_;
  is_training_ = other.is_training_;
  return *this;
}

const std::string& Module::name() const noexcept {
  if (name_) return *name_;
  static std::mutex mutex;
  static std::unordered_map<std::type_index, std::string> names;
  const std::lock_guard lock(mutex);
  const std::type_info& type = typeid(*this);
  const auto found = names.find(type);
  return found != names.end() ? found->second : names.emplace(type, readable(type)).first->second;
}

std::string Module::path() const {
  std::string text;
  for (const Module* at = this; at->parent_.module; at = at->parent_.module)
    for (const auto& child : at->parent_.module->children_)
      if (child->get() == at) {
        text = text.empty() ? child.key() : child.key() + '.' + text;
        break;
      }
  return text;
}

void Module::let_go_of(const Module& child) const {
  if (child.parent_.module == this) const_cast<Module&>(child).parent_.module = nullptr;
}

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("Parameter", name);
  FACULA_CHECK(!parameters_.contains(name), ValueError, "Parameter '", name, "' already defined in ", this->name(),
               "; give each parameter a name of its own");
  if (tensor.defined()) tensor.set_requires_grad(requires_grad);
  else if (requires_grad)
    warn(Warning({"register_parameter", __FILE__, __LINE__},
                 str("An undefined tensor cannot require grad: parameter '", name,
                     "' is registered without. Give requires_grad=false to say so")));
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name("Buffer", name);
  FACULA_CHECK(!buffers_.contains(name), ValueError, "Buffer '", name, "' already defined in ", this->name(),
               "; give each buffer a name of its own");
  return buffers_.insert(std::move(name), std::move(tensor));
}

void Module::check_child(const char* method, const std::string& name, const Module* module) const {
  FACULA_CHECK(module, ValueError, method, ": the module for '", name, "' is null; make it first");
  bool circle = module == this;
  if (!circle) module->apply([&](const std::string&, const Module& below) { circle |= &below == this; });
  FACULA_CHECK(!circle, ValueError, method, ": ", module->name(), " as '", name, "' of ", this->name(),
               " would contain itself; modules form a tree");
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name("Submodule", name);
  FACULA_CHECK(!children_.contains(name), ValueError, "Submodule '", name, "' already defined in ", this->name(),
               "; use replace_module to put another in its place");
  check_child("register_module", name, module.get());
  module->parent_.module = this;
  children_.insert(std::move(name), std::move(module));
}

void Module::exchange_child(const std::string& name, std::shared_ptr<Module> module) {
  FACULA_CHECK(children_.contains(name), ValueError, "Submodule '", name, "' is not defined in ", this->name(),
               "; use register_module for a new one");
  check_child("replace_module", name, module.get());
  let_go_of(*children_[name]);
  module->parent_.module = this;
  children_[name] = std::move(module);
}

void Module::unregister_module(const std::string& name) {
  FACULA_CHECK(children_.contains(name), ValueError, "No Module with name `", name, "` is registered in ",
               this->name());
  let_go_of(*children_[name]);
  children_.erase(name);
}

NamedTensors Module::named_parameters(bool recurse, bool remove_duplicate) const {
  NamedTensors all("Parameter");
  std::unordered_set<TensorImpl*> seen;
  const auto add = [&](const std::string& prefix, const Module& module) {
    collect(module.parameters_, prefix, remove_duplicate ? &seen : nullptr, all);
  };
  if (recurse) apply(ConstNamedModuleApplyFunction(add));
  else add("", *this);
  return all;
}

NamedTensors Module::named_buffers(bool recurse, bool remove_duplicate) const {
  NamedTensors all("Buffer");
  std::unordered_set<TensorImpl*> seen;
  const auto add = [&](const std::string& prefix, const Module& module) {
    collect(module.buffers_, prefix, remove_duplicate ? &seen : nullptr, all);
  };
  if (recurse) apply(ConstNamedModuleApplyFunction(add));
  else add("", *this);
  return all;
}

std::vector<Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }
std::vector<std::shared_ptr<Module>> Module::children() const { return children_.values(); }
OrderedDict<std::string, std::shared_ptr<Module>> Module::named_children() const { return children_; }

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  std::vector<std::shared_ptr<Module>> all;
  if (include_self) all.push_back(shared());
  visit_below([&](const std::string&, const std::shared_ptr<Module>& module) { all.push_back(module); }, "");
  return all;
}

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& name_prefix,
                                                                        bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> all("Submodule");
  if (include_self) all.insert(name_prefix, shared());
  visit_below([&](const std::string& name, const std::shared_ptr<Module>& module) { all.insert(name, module); },
              name_prefix);
  return all;
}

void Module::visit_below(const NamedModulePointerApplyFunction& function, const std::string& name_prefix) const {
  for (const auto& child : children_) {
    const std::string name = joined(name_prefix, child.key());
    function(name, *child);
    (*child)->visit_below(function, name);
  }
}

void Module::apply(const ModuleApplyFunction& function) {
  function(*this);
  visit_below([&](const std::string&, const std::shared_ptr<Module>& module) { function(*module); }, "");
}
void Module::apply(const ConstModuleApplyFunction& function) const {
  function(*this);
  visit_below([&](const std::string&, const std::shared_ptr<Module>& module) { function(*module); }, "");
}
void Module::apply(const NamedModuleApplyFunction& function, const std::string& name_prefix) {
  function(name_prefix, *this);
  visit_below([&](const std::string& name, const std::shared_ptr<Module>& module) { function(name, *module); },
              name_prefix);
}
void Module::apply(const ConstNamedModuleApplyFunction& function, const std::string& name_prefix) const {
  function(name_prefix, *this);
  visit_below([&](const std::string& name, const std::shared_ptr<Module>& module) { function(name, *module); },
              name_prefix);
}
void Module::apply(const ModulePointerApplyFunction& function) const {
  function(shared());
  visit_below([&](const std::string&, const std::shared_ptr<Module>& module) { function(module); }, "");
}
void Module::apply(const NamedModulePointerApplyFunction& function, const std::string& name_prefix) const {
  function(name_prefix, shared());
  visit_below(function, name_prefix);
}

std::shared_ptr<Module> Module::shared() const {
  // Handing out modules of a constant module is what libtorch does too: lists of modules are for changing them.
  std::shared_ptr<Module> self = const_cast<Module*>(this)->weak_from_this().lock();
  FACULA_CHECK(self, Error, name(),
               " is asked for as a shared_ptr, but it is not stored in a shared_ptr. Make it with ",
               "std::make_shared<", name(), ">(...), or leave it out: modules(/*include_self=*/false)");
  return self;
}

namespace {

int64_t next_hook_handle() {
  static std::atomic<int64_t> next{1};
  return next++;
}

}  // namespace

int64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  FACULA_CHECK(hook, ValueError, "register_forward_pre_hook: the hook of ", name(), " is empty");
  return pre_hooks_.emplace_back(next_hook_handle(), std::move(hook)).first;
}

int64_t Module::register_forward_hook(ForwardHook hook) {
  FACULA_CHECK(hook, ValueError, "register_forward_hook: the hook of ", name(), " is empty");
  return hooks_.emplace_back(next_hook_handle(), std::move(hook)).first;
}

void Module::remove_hook(int64_t handle) {
  const auto mine = [&](const auto& hook) { return hook.first == handle; };
  const size_t gone = std::erase_if(pre_hooks_, mine) + std::erase_if(hooks_, mine);
  FACULA_CHECK(gone > 0, ValueError, "remove_hook: ", name(), " has no hook ", handle);
}

// A hook may remove itself or add others: what runs is what was there when the call began.
void Module::run_forward_pre_hooks(std::span<Tensor* const> inputs) {
  const auto now = pre_hooks_;
  for (const auto& [handle, hook] : now) hook(*this, inputs);
}
void Module::run_forward_hooks(std::span<Tensor* const> inputs, std::span<Tensor* const> outputs) {
  const auto now = hooks_;
  for (const auto& [handle, hook] : now) hook(*this, inputs, outputs);
}

void Module::train(bool on) {
  for (auto& child : children_) (*child)->train(on);
  is_training_ = on;
}

void Module::to(Device device, ScalarType dtype, bool non_blocking) {
  check_dtype(dtype);
  for (auto& child : children_) (*child)->to(device, dtype, non_blocking);
  convert_own(device, dtype, non_blocking);
}
void Module::to(ScalarType dtype, bool non_blocking) {
  check_dtype(dtype);
  for (auto& child : children_) (*child)->to(dtype, non_blocking);
  convert_own(std::nullopt, dtype, non_blocking);
}
void Module::to(Device device, bool non_blocking) {
  for (auto& child : children_) (*child)->to(device, non_blocking);
  convert_own(device, std::nullopt, non_blocking);
}

// Before anything is cast, since a failed cast must not leave a part of the module in another dtype.
void Module::check_dtype(ScalarType dtype) const {
  if (isDifferentiableType(dtype)) return;
  for (const auto& item : named_parameters())
    FACULA_CHECK(!item->requires_grad(), DTypeError, "to: parameter '", item.key(), "' of ", name(),
                 " requires gradients, and data set to a tensor that requires gradients must be floating point or "
                 "complex dtype, not ",
                 toString(dtype), "; call requires_grad_(false) on it first");
}

void Module::convert_own(const std::optional<Device>& device, const std::optional<ScalarType>& dtype,
                         bool non_blocking) {
  const auto converted = [&](const Tensor& t) {
    TensorOptions options;
    if (device) options = options.device(device);
    if (dtype && (isDifferentiableType(t.scalar_type()) || !isDifferentiableType(*dtype)))
      options = options.dtype(*dtype);
    return t.detach().to(options, non_blocking);
  };
  const auto convert = [&](const Tensor& t) {
    if (!t.defined()) return;
    const Tensor grad = t.grad();
    const Tensor moved = converted(t);
    const Tensor moved_grad = grad.defined() ? converted(grad) : Tensor();
    if (!moved.is_alias_of(t)) t.set_data(moved);
    if (grad.defined() && !moved_grad.is_alias_of(grad)) t.mutable_grad() = moved_grad;
  };
  for (auto& item : parameters_) convert(*item);
  for (auto& item : buffers_) convert(*item);
}

void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) (*child)->zero_grad(set_to_none);
  for (auto& item : parameters_) {
    if (!item->defined() || !item->grad().defined()) continue;
    Tensor& grad = item->mutable_grad();
    if (set_to_none) {
      grad = Tensor();
    } else {
      grad = grad.detach();
      grad.zero_();
    }
  }
}

void Module::pretty_print(std::ostream& stream) const { stream << name(); }

void Module::print_with_children(std::ostream& stream, const std::string& indentation) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  const std::string deeper = indentation + "  ";
  stream << "(\n";
  for (const auto& child : children_) {
    stream << deeper << '(' << child.key() << "): ";
    (*child)->print_with_children(stream, deeper);
    stream << '\n';
  }
  stream << indentation << ')';
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.print_with_children(stream, "");
  return stream;
}

}  // namespace nn
}  // namespace facula
