// The base class of networks: what a module registers (parameters, buffers, submodules) and what is done to all of it.
// How modules compute is theirs: `forward` is no member of the base.
//
//   struct NetImpl : nn::Module {
//     NetImpl() { weight = register_parameter("weight", randn({3, 4})); }
//     Tensor forward(const Tensor& x) { return x.matmul(weight).relu(); }
//     Tensor weight;
//   };
//   FACULA_MODULE(Net);
#pragma once

#include <facula/nn/module_holder.h>
#include <facula/nn/ordered_dict.h>
#include <facula/tensor.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace facula::nn {

class Module;
using NamedTensors = OrderedDict<std::string, Tensor>;

// The names in which a state dict and a module differ.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     // of the module, not in the state dict
  std::vector<std::string> unexpected_keys;  // in the state dict, not of the module
};

// Functions that run when a module is called, `layer(x)` or inside of a Sequential; `layer->forward(x)` runs none. They get the
// tensors among the arguments, and those of the result, and may put others in their place.
using ForwardPreHook = std::function<void(Module& module, std::span<Tensor* const> inputs)>;
using ForwardHook =
    std::function<void(Module& module, std::span<Tensor* const> inputs, std::span<Tensor* const> outputs)>;

class FACULA_API Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ConstNamedModuleApplyFunction = std::function<void(const std::string&, const Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedModulePointerApplyFunction = std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

  // Without a name, the module is called by its C++ type.
  Module();
  explicit Module(std::string name);
  // A declared destructor and no move: with a virtual base, moving would happen once for every path to it.
  virtual ~Module();
  Module(const Module&);
  Module& operator=(const Module&);

  const std::string& name() const noexcept;
  // Where the module is in its network: the names under which modules registered each other, `encoder.layers.3.linear1`. Empty
  // for a module that none has registered. One that several have registered is where the last of them put it.
  std::string path() const;

  // A deep copy, for modules that derive from Cloneable. On `device` when one is given.
  virtual std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const;

  // Registering. The tensor that comes back is the registered one: keep a copy of the handle as a member. An undefined
  // tensor keeps its name and is listed nowhere.
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <class ModuleType>
  std::shared_ptr<ModuleType> register_module(std::string name, std::shared_ptr<ModuleType> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <class ModuleType>
  std::shared_ptr<ModuleType> register_module(std::string name, ModuleHolder<ModuleType> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class ModuleType>
  std::shared_ptr<ModuleType> replace_module(const std::string& name, std::shared_ptr<ModuleType> module) {
    exchange_child(name, module);
    return module;
  }
  template <class ModuleType>
  std::shared_ptr<ModuleType> replace_module(const std::string& name, ModuleHolder<ModuleType> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name);

  // What is registered, in order: a module's own first, then each child's under "child.". A tensor with several names is
  // listed once, under the first; `remove_duplicate = false` lists all names.
  std::vector<Tensor> parameters(bool recurse = true) const;
  NamedTensors named_parameters(bool recurse = true, bool remove_duplicate = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true, bool remove_duplicate = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const;
  // All modules below, and this one in front with `include_self`, for which it must be in a shared_ptr.
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& name_prefix = std::string(),
                                                                  bool include_self = true) const;

  // Calls `function` with this module and all below it; names are as in named_modules.
  void apply(const ModuleApplyFunction& function);
  void apply(const ConstModuleApplyFunction& function) const;
  void apply(const NamedModuleApplyFunction& function, const std::string& name_prefix = std::string());
  void apply(const ConstNamedModuleApplyFunction& function, const std::string& name_prefix = std::string()) const;
  void apply(const ModulePointerApplyFunction& function) const;
  void apply(const NamedModulePointerApplyFunction& function, const std::string& name_prefix = std::string()) const;

  virtual void train(bool on = true);
  void eval() { train(false); }
  virtual bool is_training() const noexcept { return is_training_; }

  // Moves and casts parameters, their gradients and buffers; handles to them stay what they are. A floating dtype leaves
  // integer tensors as they are.
  virtual void to(Device device, ScalarType dtype, bool non_blocking = false);
  virtual void to(ScalarType dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);

  // Lets gradients go, or fills them with zeros.
  virtual void zero_grad(bool set_to_none = true);

  // All parameters and buffers under all their names, without history. They share memory with the module.
  NamedTensors state_dict() const;
  // Copies values into the module. Names must fit unless `strict` is off, sizes must always; when something does not, the
  // error lists everything that is wrong and the module is as before.
  IncompatibleKeys load_state_dict(const NamedTensors& state, bool strict = true);

  // Hooks, in the order in which they came. What comes back removes the hook.
  int64_t register_forward_pre_hook(ForwardPreHook hook);
  int64_t register_forward_hook(ForwardHook hook);
  void remove_hook(int64_t handle);
  bool has_forward_hooks() const noexcept { return !pre_hooks_.empty() || !hooks_.empty(); }
  void run_forward_pre_hooks(std::span<Tensor* const> inputs);
  void run_forward_hooks(std::span<Tensor* const> inputs, std::span<Tensor* const> outputs);

  // This module as another type, by that type or by its holder; null when it is none.
  template <class ModuleType>
  typename facula::detail::ModuleNamed<ModuleType>::type* as() noexcept {
    return dynamic_cast<typename facula::detail::ModuleNamed<ModuleType>::type*>(this);
  }
  template <class ModuleType>
  const typename facula::detail::ModuleNamed<ModuleType>::type* as() const noexcept {
    return dynamic_cast<const typename facula::detail::ModuleNamed<ModuleType>::type*>(this);
  }

  // What stands for this module when it, or one that has it, is printed; its children follow.
  virtual void pretty_print(std::ostream& stream) const;

 protected:
  NamedTensors parameters_;

 private:
  template <class Derived>
  friend class Cloneable;
  friend FACULA_API std::ostream& operator<<(std::ostream& stream, const Module& module);

  // Makes this module, a child of a fresh clone, a copy of `other`.
  virtual void clone_(Module& other, const std::optional<Device>& device);
  // The two ends of cloning: nothing registered, and the values of `other` in what was registered again.
  void forget_registered();
  void take_state(const Module& other, const std::optional<Device>& device);
  void take_tensors(const Module& other, const std::optional<Device>& device);

  void add_child(std::string name, std::shared_ptr<Module> module);
  void exchange_child(const std::string& name, std::shared_ptr<Module> module);
  void check_child(const char* method, const std::string& name, const Module* module) const;
  void convert_own(const std::optional<Device>& device, const std::optional<ScalarType>& dtype, bool non_blocking);
  void check_dtype(ScalarType dtype) const;
  void print_with_children(std::ostream& stream, const std::string& indentation) const;
  void visit_below(const NamedModulePointerApplyFunction& function, const std::string& name_prefix) const;
  std::shared_ptr<Module> shared() const;

  // Who registered this module. A copy of a module has not been registered by anybody.
  struct ParentLink {
    ParentLink() = default;
    ParentLink(const ParentLink&) {}
    ParentLink& operator=(const ParentLink&) { return *this; }
    const Module* module = nullptr;
  };
  void let_go_of(const Module& child) const;

  NamedTensors buffers_;
  OrderedDict<std::string, std::shared_ptr<Module>> children_;
  ParentLink parent_;
  std::vector<std::pair<int64_t, ForwardPreHook>> pre_hooks_;
  std::vector<std::pair<int64_t, ForwardHook>> hooks_;
  std::optional<std::string> name_;
  bool is_training_ = true;
};

namespace detail {

template <class T>
void collect_tensors(T&, std::vector<Tensor*>&) {}
inline void collect_tensors(Tensor& tensor, std::vector<Tensor*>& into) { into.push_back(&tensor); }
template <class... Parts>
void collect_tensors(std::tuple<Parts...>& parts, std::vector<Tensor*>& into) {
  std::apply([&](auto&... each) { (collect_tensors(each, into), ...); }, parts);
}
// `module.forward(args...)` between its hooks.
template <class M, class... Args>
auto call_with_hooks(M& module, Args&&... args) {
  std::tuple<std::decay_t<Args>...> held(std::forward<Args>(args)...);
  std::vector<Tensor*> inputs, outputs;
  collect_tensors(held, inputs);
  module.run_forward_pre_hooks(inputs);
  const auto call = [&] { return std::apply([&](auto&... each) { return module.forward(each...); }, held); };
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    module.run_forward_hooks(inputs, outputs);
  } else {
    auto result = call();
    collect_tensors(result, outputs);
    module.run_forward_hooks(inputs, outputs);
    return result;
  }
}

}  // namespace detail

// As libtorch prints: the module, then its children, indented.
FACULA_API std::ostream& operator<<(std::ostream& stream, const Module& module);

}  // namespace facula::nn
