// Modules as functions of their parameters: calls with other tensors in place of the registered ones, and the functions of
// func.h over named tensors.
//
//   Tensor y = func::functional_call(net, {{"weight", w}}, x);
//   auto loss = [&](const nn::NamedTensors& p, const Tensor& x) { return func::functional_call(net, p, x).sum(); };
//   nn::NamedTensors gradients = func::grad_dict(loss)(net->named_parameters(), x);
//   nn::NamedTensors per_sample = func::vmap_dict(func::grad_dict(loss), {std::nullopt, 0})(net->named_parameters(), xs);
#pragma once

#include <facula/func.h>
#include <facula/nn/module.h>

#include <concepts>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace facula::func {

struct FunctionalCallOptions {
  // A parameter with several names is replaced under all of them when one is given. Off, a call that would have to tell
  // such names apart is an error: modules share the tensor itself.
  bool tie_weights = true;
  // Every parameter and buffer must be given.
  bool strict = false;
};

// Tensors by name: a state dict, any map from strings to tensors, or a list in braces.
class FACULA_API Replacements {
 public:
  using Pair = std::pair<std::string, Tensor>;
  Replacements(std::initializer_list<Pair> pairs);
  Replacements(const nn::NamedTensors& named);
  template <class Map>
    requires(std::is_convertible_v<typename Map::key_type, std::string> &&
             std::is_same_v<typename Map::mapped_type, Tensor>)
  Replacements(const Map& map) : all_(map.begin(), map.end()) {}
  const std::vector<Pair>& all() const { return all_; }

 private:
  std::vector<Pair> all_;
};

namespace detail {

// While it lives, parameters and buffers of a module show other tensors: elements, history, tangents, batch. Every handle
// to them does, also those that modules keep as members. Ends in the reverse of the order in which it began.
class FACULA_API ReplacedTensors {
 public:
  ReplacedTensors(const nn::Module& module, const Replacements& with, const FunctionalCallOptions& options);
  ~ReplacedTensors();
  ReplacedTensors(const ReplacedTensors&) = delete;
  ReplacedTensors& operator=(const ReplacedTensors&) = delete;

  // A result that is a parameter itself, or a view of one, becomes what was given for it.
  void leave(Tensor& result) const;
  // All tensors in a result: in ranges, maps, pairs, tuples, optionals and variants, inside of each other at will, and in
  // classes for which `visit_tensors(result, visit)` is found beside them; it calls `visit` with every part that holds
  // tensors. Results of other types stay as they are.
  template <class T>
  void leave([[maybe_unused]] T& result) const {
    [[maybe_unused]] const auto visit = [this](auto& part) { this->leave(part); };
    if constexpr (std::is_const_v<T> || std::is_scalar_v<T>) return;
    else if constexpr (std::is_base_of_v<Tensor, T>) leave(static_cast<Tensor&>(result));
    else if constexpr (requires { visit_tensors(result, visit); }) visit_tensors(result, visit);
    else if constexpr (requires { result.key(), visit(result.value()); }) visit(result.value());  // of OrderedDict
    else if constexpr (requires { result.has_value(), visit(*result); }) {
      if (result.has_value()) visit(*result);
    } else if constexpr (requires { result.valueless_by_exception(), std::variant_size<T>::value; }) {
      if (!result.valueless_by_exception()) std::visit(visit, result);
    } else if constexpr (requires { std::begin(result) != std::end(result); }) {
      using Each = decltype(*std::begin(result));
      // A range of itself, as a path is, holds no tensors.
      if constexpr (std::is_lvalue_reference_v<Each> && !std::is_same_v<std::remove_cvref_t<Each>, T> &&
                    !std::is_scalar_v<std::remove_cvref_t<Each>>)
        for (auto& each : result) visit(each);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([&](auto&... each) { (visit(each), ...); }, result);
    }
  }

 private:
  struct One {
    Tensor target;       // the module's
    Tensor given, root;  // and what that is a view of, or itself
    Tensor inside;       // an alias of `given`; holds what is the target's own meanwhile
  };
  std::vector<One> all_;
};

template <class M>
auto& module_of(M& module) {
  if constexpr (std::is_base_of_v<nn::Module, std::remove_const_t<M>>) return module;
  else return *module;
}

template <class M, class... Args>
auto call_replaced(M& module, const Replacements& params, const FunctionalCallOptions& options, Args&&... args) {
  const auto call = [&]() -> decltype(auto) {
    if constexpr (sizeof...(Args) == 1 && (std::is_invocable_v<Args, M&> && ...)) return (args(module), ...);
    else return module.forward(std::forward<Args>(args)...);
  };
  const ReplacedTensors replaced(module, params, options);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
  } else {
    auto result = call();
    replaced.leave(result);
    return result;
  }
}

FACULA_API std::pair<Tensor, nn::NamedTensors> value_and_grad_dict(
    const std::function<Tensor(const nn::NamedTensors&)>& f, const nn::NamedTensors& named);
FACULA_API std::pair<nn::NamedTensors, nn::NamedTensors> stack_module_state(const std::vector<const nn::Module*>& all);
// The first of `values` under `names`.
FACULA_API nn::NamedTensors named(const std::vector<std::string>& names, const variable_list& values);
// The first dim is for each of so many named tensors.
FACULA_API VmapOptions with_dims_of_names(VmapOptions options, size_t count);
// A result as a list, and the names of its tensors if it has names.
inline variable_list as_list_with_names(const nn::NamedTensors& result, std::vector<std::string>& names) {
  names = result.keys();
  return result.values();
}
template <class R>
variable_list as_list_with_names(R result, std::vector<std::string>&) {
  return as_list(std::move(result));
}

}  // namespace detail

// `module.forward(args...)` with the tensors of `params` in place of parameters and buffers of these names, or `f(module)`
// when a function of the module is given. The module is as before when the call ends, also by an exception. `module` is a
// module, a pointer to one or a holder. While a call runs, the module belongs to its thread.
template <class M, class... Args>
auto functional_call(M&& module, const Replacements& params, const FunctionalCallOptions& options, Args&&... args) {
  return detail::call_replaced(detail::module_of(module), params, options, std::forward<Args>(args)...);
}
template <class M, class... Args>
  requires(!std::is_same_v<std::decay_t<std::tuple_element_t<0, std::tuple<Args..., void>>>, FunctionalCallOptions>)
auto functional_call(M&& module, const Replacements& params, Args&&... args) {
  return detail::call_replaced(detail::module_of(module), params, FunctionalCallOptions(), std::forward<Args>(args)...);
}

// Gradients by each of the named tensors, of a function `f(named, tensors...)` with one real number as result.
template <class F>
auto value_and_grad_dict(F f) {
  return [f = std::move(f)](const nn::NamedTensors& named, const auto&... args) {
    return detail::value_and_grad_dict([&](const nn::NamedTensors& inner) -> Tensor { return f(inner, args...); },
                                       named);
  };
}
template <class F>
auto grad_dict(F f) {
  return [g = value_and_grad_dict(std::move(f))](const nn::NamedTensors& named, const auto&... args) {
    return g(named, args...).second;
  };
}

// As vmap, for a function `f(named, tensors...)`. The first of `in_dims` is for all of the named tensors.
template <class F, std::same_as<VmapOptions> Options>
auto vmap_dict(F f, Options options) {
  return [f = std::move(f), options = std::move(options)](const nn::NamedTensors& named, const auto&... args) {
    using R = std::decay_t<decltype(f(named, args...))>;
    const std::vector<std::string> names = named.keys();
    variable_list all = named.values();
    (all.push_back(args), ...);
    const VmapOptions for_list = detail::with_dims_of_names(options, names.size());
    std::vector<std::string> result_names;
    const Fn over_list = [&](const variable_list& list) -> variable_list {
      const auto call = [&]<size_t... I>(std::index_sequence<I...>) {
        return f(detail::named(names, list), list[names.size() + I]...);
      };
      return detail::as_list_with_names(call(std::make_index_sequence<sizeof...(args)>()), result_names);
    };
    variable_list results = detail::vmap(over_list, all, for_list);
    if constexpr (std::is_same_v<R, nn::NamedTensors>) return detail::named(result_names, results);
    else return detail::from_list<R>(std::move(results));
  };
}
template <class F>
auto vmap_dict(F f, InDims in_dims = {}, OutDims out_dims = 0, std::string randomness = "error",
               std::optional<int64_t> chunk_size = std::nullopt) {
  return vmap_dict(std::move(f), VmapOptions{.in_dims = std::move(in_dims),
                                             .out_dims = std::move(out_dims),
                                             .randomness = std::move(randomness),
                                             .chunk_size = chunk_size});
}

// Parameters and buffers of equal modules, stacked along a new first dimension: what vmap_dict runs an ensemble over. The
// stacked parameters are leaves that require gradients as the first module's do.
template <class M>
std::pair<nn::NamedTensors, nn::NamedTensors> stack_module_state(const std::vector<M>& modules) {
  std::vector<const nn::Module*> all;
  for (const M& each : modules) all.push_back(&detail::module_of(each));
  return detail::stack_module_state(all);
}

}  // namespace facula::func
