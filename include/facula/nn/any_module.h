// Modules and values of any type, for containers: a Sequential holds modules whose `forward` differ in what they take and give.
#pragma once

#include <facula/core/error.h>
#include <facula/nn/module.h>

#include <any>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace facula::nn {

namespace detail {
[[noreturn]] FACULA_API void refuse_cast(const char* what, const std::type_info& held, const std::type_info& wanted);
[[noreturn]] FACULA_API void refuse_argument(size_t index, const std::type_info& wanted,
                                             const std::type_info& received);
[[noreturn]] FACULA_API void refuse_argument_count(const std::string& module, size_t wanted, size_t required,
                                                   size_t received);
[[noreturn]] FACULA_API void refuse_empty_any_module(const char* method);
}  // namespace detail

// A value of any type that can be copied; asked for by its type.
class AnyValue {
 public:
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, AnyValue>)
  explicit AnyValue(T&& value)  // NOLINT(bugprone-forwarding-reference-overload): the constraint leaves copies alone
      : value_(std::forward<T>(value)) {}

  template <class T>
  T* try_get() {
    return std::any_cast<T>(&value_);
  }
  // The value must be of exactly this type.
  template <class T>
  T get() {
    if (T* value = try_get<T>()) return *value;
    detail::refuse_cast("return value", value_.type(), typeid(T));
  }
  const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  std::any value_;
};

namespace detail {

// The argument types of `forward`.
template <class Method>
struct ForwardOf;
template <class M, class Result, class... Args>
struct ForwardOf<Result (M::*)(Args...)> {
  using Arguments = std::tuple<std::decay_t<Args>...>;
  using Return = Result;
};
template <class M, class Result, class... Args>
struct ForwardOf<Result (M::*)(Args...) const> : ForwardOf<Result (M::*)(Args...)> {};

template <class M>
concept HasPlainForward = requires { &M::forward; };
template <class M>
concept TakesAnyValues = requires(M& m, std::vector<AnyValue> values) { m.any_forward(std::move(values)); };

template <class T>
T taken(std::vector<AnyValue>& arguments, size_t index) {
  if (T* value = arguments[index].try_get<T>()) return std::move(*value);
  refuse_argument(index, typeid(T), arguments[index].type_info());
}

template <class M>
AnyValue call_with_values(M& module, std::vector<AnyValue> arguments) {
  if constexpr (HasPlainForward<M>) {
    using Forward = ForwardOf<decltype(&M::forward)>;
    using Arguments = typename Forward::Arguments;
    constexpr size_t wanted = std::tuple_size_v<Arguments>;
    size_t required = wanted;
    if constexpr (requires { M::forward_required_arguments(); }) {
      required = M::forward_required_arguments();
      if (arguments.size() >= required && arguments.size() < wanted) M::forward_add_defaults(arguments);
    }
    if (arguments.size() != wanted) refuse_argument_count(module.name(), wanted, required, arguments.size());
    return [&]<size_t... I>(std::index_sequence<I...>) {
      std::tuple<std::tuple_element_t<I, Arguments>...> held(
          taken<std::tuple_element_t<I, Arguments>>(arguments, I)...);
      const auto call = [&](auto&... each) {
        if (module.has_forward_hooks()) return AnyValue(call_with_hooks(module, each...));
        return AnyValue(module.forward(each...));
      };
      return std::apply(call, held);
    }
    (std::make_index_sequence<wanted>());
  } else {
    static_assert(TakesAnyValues<M>, "a module in an AnyModule needs one `forward` that is no template");
    return module.any_forward(std::move(arguments));
  }
}

// What an AnyModule knows about the type that it holds.
struct AnyModuleType {
  const std::type_info* info;
  AnyValue (*call)(void* module, std::vector<AnyValue> arguments);
  void* (*cast)(Module& module);  // null when it is of another type
};
template <class M>
inline const AnyModuleType any_module_type = {&typeid(M),
                                              [](void* module, std::vector<AnyValue> arguments) {
                                                return call_with_values(*static_cast<M*>(module), std::move(arguments));
                                              },
                                              [](Module& module) -> void* { return dynamic_cast<M*>(&module); }};

}  // namespace detail

class FACULA_API AnyModule {
 public:
  AnyModule() = default;
  template <class M>
    requires std::is_base_of_v<Module, M>
  explicit AnyModule(std::shared_ptr<M> module)
      : module_(module), self_(module.get()), type_(&detail::any_module_type<M>) {}
  template <class M>
    requires(std::is_base_of_v<Module, std::decay_t<M>>)
  explicit AnyModule(M&& module)  // NOLINT(bugprone-forwarding-reference-overload): an AnyModule is no Module
      : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <class M>
    requires(std::is_base_of_v<Module, M>)
  AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }

  AnyModule clone(std::optional<Device> device = std::nullopt) const;

  // The result as it comes, or as one of the type that is asked for.
  template <class... Args>
  AnyValue any_forward(Args&&... args) {
    std::vector<AnyValue> arguments;
    arguments.reserve(sizeof...(Args));
    (arguments.push_back(as_value(std::forward<Args>(args))), ...);
    return call(std::move(arguments));
  }
  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    return any_forward(std::forward<Args>(args)...).template get<Result>();
  }
  AnyValue call(std::vector<AnyValue> arguments);

  // The module as the type that it was put in as.
  template <class M>
    requires(std::is_base_of_v<Module, M>)
  M& get() const {
    return *static_cast<M*>(checked(typeid(M)));
  }
  template <class Holder>
    requires facula::detail::is_module_holder<Holder>::value
  Holder get() const {
    return Holder(ptr<typename Holder::ContainedType>());
  }
  std::shared_ptr<Module> ptr() const;
  template <class M>
    requires(std::is_base_of_v<Module, M>)
  std::shared_ptr<M> ptr() const {
    return std::shared_ptr<M>(module_, static_cast<M*>(checked(typeid(M))));
  }
  const std::type_info& type_info() const;
  bool is_empty() const noexcept { return module_ == nullptr; }

 private:
  void* checked(const std::type_info& wanted) const;
  template <class T>
  static AnyValue as_value(T&& value) {
    if constexpr (std::is_same_v<std::decay_t<T>, AnyValue>) return std::forward<T>(value);
    else return AnyValue(std::forward<T>(value));
  }

  std::shared_ptr<Module> module_;
  void* self_ = nullptr;
  const detail::AnyModuleType* type_ = nullptr;
};

// A module with the name that it gets in a container.
class FACULA_API NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
  NamedAnyModule(std::string name, AnyModule module);
  const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  const AnyModule& module() const noexcept { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

}  // namespace facula::nn

// In a module whose `forward` has default arguments: lets containers call it with fewer. `{1, AnyValue(Tensor())}` is the
// default of argument 1; all that have defaults are given, in order.
// Templates, so that headers pay for them only where they are called.
#define FACULA_FORWARD_HAS_DEFAULT_ARGS(...)                                         \
 public:                                                                             \
  template <class = void>                                                            \
  static size_t forward_required_arguments() {                                       \
    const std::pair<size_t, ::facula::nn::AnyValue> defaults[] = {__VA_ARGS__};      \
    return defaults[0].first;                                                        \
  }                                                                                  \
  template <class = void>                                                            \
  static void forward_add_defaults(std::vector<::facula::nn::AnyValue>& arguments) { \
    const std::pair<size_t, ::facula::nn::AnyValue> defaults[] = {__VA_ARGS__};      \
    for (const auto& [place, value] : defaults)                                      \
      if (place >= arguments.size()) arguments.push_back(value);                     \
  }
