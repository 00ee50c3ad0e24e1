// A module by the name that users write: `Linear` holds a shared `LinearImpl`. Copies of a holder share the module.
#pragma once

#include <facula/core/export.h>

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <type_traits>
#include <utility>

namespace facula {

namespace detail {

// What all holders derive from, whatever they hold.
struct ModuleHolderIndicator {};

template <class T>
using is_module_holder = std::is_base_of<ModuleHolderIndicator, std::decay_t<T>>;

// The module type that a type names: what a holder holds, else the type itself.
template <class T>
struct ModuleNamed {
  using type = T;
};
template <class T>
  requires is_module_holder<T>::value
struct ModuleNamed<T> {
  using type = typename T::ContainedType;
};

[[noreturn]] FACULA_API void refuse_empty_holder();

}  // namespace detail

namespace nn {

namespace detail {
template <class M, class... Args>
auto call_with_hooks(M& module, Args&&... args);  // in module.h
}

// Holds no std::shared_ptr of the type that it contains: making one for each of the modules in the headers is what costs every
// program that includes them most of the time to compile.
template <class Contained>
class ModuleHolder : facula::detail::ModuleHolderIndicator {
 public:
  using ContainedType = Contained;

  ModuleHolder() {
    static_assert(std::is_default_constructible_v<Contained>,
                  "This module has no default constructor. Begin empty, `Linear linear = nullptr;` instead of "
                  "`Linear linear;`, and assign later.");
    if constexpr (std::is_default_constructible_v<Contained>) hold(std::make_shared<Contained>());
  }
  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) { hold(std::move(module)); }
  // Makes the module from the arguments.
  template <class Head, class... Tail>
    requires(sizeof...(Tail) > 0 || !std::is_base_of_v<ModuleHolder, std::remove_cvref_t<Head>>)
  explicit ModuleHolder(Head&& head, Tail&&... tail) {
    hold(std::shared_ptr<Contained>(new Contained(std::forward<Head>(head), std::forward<Tail>(tail)...)));
  }

  bool is_empty() const noexcept { return owner_ == nullptr; }
  explicit operator bool() const noexcept { return !is_empty(); }

  // All but `is_empty` want a module.
  Contained* get() { return checked(); }
  const Contained* get() const { return checked(); }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  std::shared_ptr<Contained> ptr() const { return {owner_, checked()}; }

  // For modules that have a `forward`; runs the module's hooks.
  template <class... Args, class M = Contained>
  auto operator()(Args&&... args) -> decltype(std::declval<M&>().forward(std::forward<Args>(args)...)) {
    if constexpr (!std::is_reference_v<decltype(std::declval<M&>().forward(std::forward<Args>(args)...))>)
      if (get()->has_forward_hooks()) [[unlikely]]
        return detail::call_with_hooks(*get(), std::forward<Args>(args)...);
    return get()->forward(std::forward<Args>(args)...);
  }
  template <class Arg>
  decltype(auto) operator[](Arg&& arg) {
    return (*get())[std::forward<Arg>(arg)];
  }

 private:
  void hold(std::shared_ptr<Contained> module) {
    module_ = module.get();
    owner_ = std::move(module);
  }
  Contained* checked() const {
    if (!owner_) facula::detail::refuse_empty_holder();
    return module_;
  }

  std::shared_ptr<void> owner_;
  Contained* module_ = nullptr;  // means something while there is an owner
};

template <class Contained>
std::ostream& operator<<(std::ostream& out, const ModuleHolder<Contained>& module) {
  return out << *module;
}

}  // namespace nn
}  // namespace facula

// `FACULA_MODULE(Net)` makes the holder `Net` of `NetImpl`.
#define FACULA_MODULE_IMPL(Name, ImplType)                    \
  class Name : public ::facula::nn::ModuleHolder<ImplType> {  \
   public:                                                    \
    using ::facula::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl [[maybe_unused]] = ImplType;                   \
  }
#define FACULA_MODULE(Name) FACULA_MODULE_IMPL(Name, Name##Impl)
