// Modules and parameters in order or by name, and modules of any type.
#include "core/demangle.h"

#include <facula/facula.h>
#include <facula/nn/containers.h>

#include <algorithm>
#include <ostream>

namespace facula::nn {

namespace {

std::string type_text(const std::type_info& type) {
  std::string name = facula::detail::demangled(type.name());
  for (const std::string_view ours : {"facula::nn::", "facula::"})
    for (size_t at = 0; (at = name.find(ours, at)) != std::string::npos;)
      name.replace(at, ours.size(), ours == "facula::" ? "torch::" : "torch::nn::");
  return name;
}

}  // namespace

void detail::refuse_cast(const char* what, const std::type_info& held, const std::type_info& wanted) {
  throw ValueError(
      str("The type of the ", what, " is ", type_text(held), ", but you asked for type ", type_text(wanted)));
}

void detail::refuse_argument(size_t index, const std::type_info& wanted, const std::type_info& received) {
  throw ValueError(str("Expected argument #", index, " to be of type ", type_text(wanted),
                       ", but received value of type ", type_text(received)));
}

void detail::refuse_argument_count(const std::string& module, size_t wanted, size_t required, size_t received) {
  throw ValueError(str(module, "'s forward() method expects ", wanted, " argument(s), ", required,
                       " of them without defaults, but received ", received,
                       ". If it has default arguments, name them with FORWARD_HAS_DEFAULT_ARGS"));
}

void detail::refuse_empty_any_module(const char* method) {
  throw ValueError(str("Cannot call ", method, "() on an empty AnyModule; give it a module first"));
}

AnyModule AnyModule::clone(std::optional<Device> device) const {
  AnyModule copy;
  if (is_empty()) return copy;
  copy.module_ = module_->clone(device);
  copy.self_ = type_->cast(*copy.module_);
  copy.type_ = type_;
  if (const Module& made = *copy.module_; !copy.self_) detail::refuse_cast("clone", typeid(made), *type_->info);
  return copy;
}

AnyValue AnyModule::call(std::vector<AnyValue> arguments) {
  if (is_empty()) detail::refuse_empty_any_module("forward");
  return type_->call(self_, std::move(arguments));
}

std::shared_ptr<Module> AnyModule::ptr() const {
  if (is_empty()) detail::refuse_empty_any_module("ptr");
  return module_;
}

const std::type_info& AnyModule::type_info() const {
  if (is_empty()) detail::refuse_empty_any_module("type_info");
  return *type_->info;
}

void* AnyModule::checked(const std::type_info& wanted) const {
  if (is_empty()) detail::refuse_empty_any_module("get");
  if (*type_->info != wanted) detail::refuse_cast("module in the AnyModule", *type_->info, wanted);
  return self_;
}

NamedAnyModule::NamedAnyModule(std::string name, AnyModule module)
    : name_(std::move(name)), module_(std::move(module)) {}

SequentialImpl::SequentialImpl(OrderedDict<std::string, AnyModule>&& ordered) {
  for (auto& item : ordered) push_back(item.key(), std::move(item.value()));
}

SequentialImpl::SequentialImpl(std::initializer_list<NamedAnyModule> named) {
  for (const NamedAnyModule& each : named) push_back(each);
}

std::shared_ptr<Module> SequentialImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  const std::vector<std::string> names = named_children().keys();
  for (size_t i = 0; i < modules_.size(); ++i) copy->push_back(names[i], modules_[i].clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

void SequentialImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::Sequential"; }

AnyValue SequentialImpl::any_forward(std::vector<AnyValue> arguments) {
  FACULA_CHECK(!is_empty(), ValueError, "Cannot call forward() on an empty Sequential; push_back modules first");
  AnyValue value = modules_[0].call(std::move(arguments));
  for (size_t i = 1; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
  return value;
}

std::shared_ptr<Module> SequentialImpl::ptr(size_t index) const { return modules_[checked(index)].ptr(); }

void SequentialImpl::push_back(const NamedAnyModule& named) { push_back(named.name(), named.module()); }

void SequentialImpl::push_back(AnyModule any_module) {
  push_back(std::to_string(modules_.size()), std::move(any_module));
}

void SequentialImpl::push_back(std::string name, AnyModule any_module) {
  register_module(std::move(name), any_module.ptr());
  modules_.push_back(std::move(any_module));
}

size_t SequentialImpl::checked(size_t index) const {
  FACULA_CHECK(index < size(), IndexError, "Sequential: index ", index, " is out of range of ", size(), " modules");
  return index;
}

Sequential::Sequential(std::initializer_list<NamedAnyModule> named)
    : ModuleHolder(std::make_shared<SequentialImpl>(named)) {}

std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

void ModuleListImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::ModuleList"; }

std::shared_ptr<Module> ModuleListImpl::ptr(size_t index) const { return modules_[checked(index)]; }

void ModuleListImpl::push_back(std::shared_ptr<Module> module) {
  register_module(std::to_string(modules_.size()), module);
  modules_.push_back(std::move(module));
}

// Names are places: those behind the new module move on by one.
void ModuleListImpl::insert(size_t index, std::shared_ptr<Module> module) {
  FACULA_CHECK(index <= size(), IndexError, "ModuleList: cannot insert at ", index, " into ", size(), " modules");
  if (index == size()) return push_back(std::move(module));
  modules_.insert(modules_.begin() + static_cast<std::ptrdiff_t>(index), std::move(module));
  for (size_t i = index; i + 1 < modules_.size(); ++i) (void)replace_module(std::to_string(i), modules_[i]);
  register_module(std::to_string(modules_.size() - 1), modules_.back());
}

size_t ModuleListImpl::checked(size_t index) const {
  FACULA_CHECK(index < size(), IndexError, "ModuleList: index ", index, " is out of range of ", size(), " modules");
  return index;
}

ModuleDictImpl::ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
  update(modules);
}

ModuleDictImpl::ModuleDictImpl(const Modules& modules) { update(modules); }

std::shared_ptr<Module> ModuleDictImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& item : modules_) copy->put(item.key(), item.value()->clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

void ModuleDictImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::ModuleDict"; }

std::vector<std::pair<std::string, std::shared_ptr<Module>>> ModuleDictImpl::items() const { return modules_.pairs(); }
std::vector<std::string> ModuleDictImpl::keys() const { return modules_.keys(); }
std::vector<std::shared_ptr<Module>> ModuleDictImpl::values() const { return modules_.values(); }
bool ModuleDictImpl::contains(const std::string& key) const noexcept { return modules_.contains(key); }
std::shared_ptr<Module> ModuleDictImpl::ptr(const std::string& key) const { return modules_[key]; }
void ModuleDictImpl::update(const Modules& modules) { update(modules.pairs()); }

void ModuleDictImpl::put(const std::string& key, std::shared_ptr<Module> module) {
  if (modules_.contains(key)) {
    (void)replace_module(key, module);
    modules_[key] = std::move(module);
  } else {
    register_module(key, module);
    modules_.insert(key, std::move(module));
  }
}

void ModuleDictImpl::update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
  for (const auto& [key, module] : modules) put(key, module);
}

std::shared_ptr<Module> ModuleDictImpl::pop(const std::string& key) {
  std::shared_ptr<Module> module = modules_[key];
  modules_.erase(key);
  unregister_module(key);
  return module;
}

void ModuleDictImpl::clear() {
  for (const std::string& key : keys()) pop(key);
}

std::shared_ptr<Module> ParameterListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ParameterListImpl>();
  for (const auto& item : parameters_) {
    const Tensor value = device ? item->detach().to(*device).clone() : item->detach().clone();
    copy->register_parameter(item.key(), value, item->requires_grad());
  }
  if (!is_training()) copy->eval();
  return copy;
}

void ParameterListImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterList(\n";
  for (const auto& item : parameters_)
    stream << "(" << item.key() << "): Parameter containing: [" << toString(item->scalar_type()) << " of size "
           << to_text(item->sizes()) << "]\n";
  stream << ")";
}

void ParameterListImpl::append(Tensor parameter) {
  const bool requires_grad = parameter.requires_grad();
  register_parameter(std::to_string(parameters_.size()), std::move(parameter), requires_grad);
}

void ParameterListImpl::append(const OrderedDict<std::string, Tensor>::Item& pair) { append(pair.value()); }

Tensor& ParameterListImpl::at(size_t index) {
  FACULA_CHECK(index < size(), IndexError, "ParameterList: index ", index, " is out of range of ", size(),
               " parameters");
  return parameters_[std::to_string(index)];
}
const Tensor& ParameterListImpl::at(size_t index) const { return const_cast<ParameterListImpl*>(this)->at(index); }

ParameterDictImpl::ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) { update(parameters); }

std::shared_ptr<Module> ParameterDictImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ParameterDictImpl>();
  for (const auto& item : parameters_) {
    const Tensor value = device ? item->detach().to(*device).clone() : item->detach().clone();
    copy->register_parameter(item.key(), value, item->requires_grad());
  }
  if (!is_training()) copy->eval();
  return copy;
}

void ParameterDictImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterDict(\n";
  for (const auto& item : parameters_)
    stream << "(" << item.key() << "): Parameter containing: [" << toString(item->scalar_type()) << " of size "
           << to_text(item->sizes()) << "]\n";
  stream << ")";
}

std::vector<std::string> ParameterDictImpl::keys() const { return parameters_.keys(); }
std::vector<Tensor> ParameterDictImpl::values() const { return parameters_.values(); }
void ParameterDictImpl::clear() { parameters_.clear(); }
bool ParameterDictImpl::contains(const std::string& key) const noexcept { return parameters_.contains(key); }
Tensor& ParameterDictImpl::get(const std::string& key) { return parameters_[key]; }
const Tensor& ParameterDictImpl::get(const std::string& key) const { return parameters_[key]; }

Tensor& ParameterDictImpl::insert(std::string key, Tensor parameter) {
  const bool requires_grad = parameter.requires_grad();
  return register_parameter(std::move(key), std::move(parameter), requires_grad);
}

Tensor ParameterDictImpl::pop(const std::string& key) {
  Tensor parameter = parameters_[key];
  parameters_.erase(key);
  return parameter;
}

void ParameterDictImpl::put(const std::string& key, const Tensor& parameter) {
  if (Tensor* found = parameters_.find(key)) *found = parameter;
  else insert(key, parameter);
}

FunctionalImpl::FunctionalImpl(Function function) : function_(std::move(function)) {}
void FunctionalImpl::pretty_print(std::ostream& stream) const { stream << "torch::nn::Functional()"; }

Tensor FunctionalImpl::forward(Tensor input) {
  FACULA_CHECK(function_, ValueError, "Functional: the function is empty");
  return function_(std::move(input));
}

}  // namespace facula::nn
