// Functions of functions: gradients, directional derivatives, batches. They nest at will.
//
//   auto f = [](const Tensor& w, const Tensor& x) { return (w * x).sin().sum(); };
//   Tensor dw = func::grad(f)(w, x);                                  // by the first argument
//   Tensor per_sample = func::vmap(func::grad(f), {std::nullopt, 0})(w, xs);
//   Tensor h = func::hessian(f)(w, x);
#pragma once

#include <facula/autograd/autograd.h>
#include <facula/tensor.h>

#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace facula::func {

using autograd::variable_list;
// What the functions below work on; lambdas over tensors are turned into it.
using Fn = std::function<variable_list(const variable_list&)>;
// The dimension of each argument that runs over the batch; none for an argument that all entries share.
using InDims = std::vector<std::optional<int64_t>>;

namespace detail {

FACULA_API std::pair<Tensor, Tensor> value_and_grad(const Fn& f, const variable_list& args, size_t argnum);
FACULA_API variable_list vmap(const Fn& f, const variable_list& args, const InDims& in_dims, int64_t out_dim);
FACULA_API std::pair<variable_list, variable_list> jvp(const Fn& f, const variable_list& args,
                                                       const variable_list& tangents);
FACULA_API std::pair<variable_list, std::function<variable_list(const variable_list&)>> vjp(const Fn& f,
                                                                                            const variable_list& args);
FACULA_API Tensor jacrev(const Fn& f, const variable_list& args, size_t argnum);
FACULA_API Tensor jacfwd(const Fn& f, const variable_list& args, size_t argnum);

inline variable_list as_list(Tensor t) { return {std::move(t)}; }
inline variable_list as_list(variable_list list) { return list; }
template <class... Ts>
variable_list as_list(const std::tuple<Ts...>& results) {
  return std::apply([](const auto&... each) { return variable_list{each...}; }, results);
}
template <class A, class B>
variable_list as_list(const std::pair<A, B>& results) {
  return {results.first, results.second};
}
template <class R>
R from_list(variable_list list) {
  if constexpr (std::is_same_v<R, Tensor>) return std::move(list.at(0));
  else if constexpr (std::is_same_v<R, variable_list>) return list;
  else return [&]<size_t... I>(std::index_sequence<I...>) {
      return R(list.at(I)...);
    }
  (std::make_index_sequence<std::tuple_size_v<R>>());
}

// `f` over a list of `sizeof...(I)` tensors.
template <class F, size_t... I>
Fn over_list(const F& f, std::index_sequence<I...>) {
  return [&f](const variable_list& args) { return as_list(f(args[I]...)); };
}
template <class F, class... Args>
Fn over_list(const F& f, const Args&...) {
  return over_list(f, std::index_sequence_for<Args...>());
}

}  // namespace detail

// The gradient of a function with one real number as result.
template <class F>
auto grad(F f, size_t argnum = 0) {
  return [f = std::move(f), argnum](const auto&... args) -> Tensor {
    return detail::value_and_grad(detail::over_list(f, args...), {args...}, argnum).second;
  };
}
template <class F>
auto value_and_grad(F f, size_t argnum = 0) {
  return [f = std::move(f), argnum](const auto&... args) -> std::pair<Tensor, Tensor> {
    return detail::value_and_grad(detail::over_list(f, args...), {args...}, argnum);
  };
}

// `f` for each entry of a batch, as one call over whole batches.
template <class F>
auto vmap(F f, InDims in_dims = {}, int64_t out_dim = 0) {
  return [f = std::move(f), in_dims = std::move(in_dims), out_dim](const auto&... args) {
    using R = std::decay_t<decltype(f(args...))>;
    return detail::from_list<R>(detail::vmap(detail::over_list(f, args...), {args...}, in_dims, out_dim));
  };
}

// Value and derivative in the direction of `tangents`, one for each argument.
template <class F>
auto jvp(const F& f, const variable_list& primals, const variable_list& tangents) {
  if constexpr (std::is_invocable_v<F, const variable_list&>) {
    return detail::jvp([&](const variable_list& args) { return detail::as_list(f(args)); }, primals, tangents);
  } else {
    const auto [values, derivatives] =
        detail::jvp([&](const variable_list& args) { return detail::as_list(f(args.at(0))); }, primals, tangents);
    return std::pair<Tensor, Tensor>(values.at(0), derivatives.at(0));
  }
}

// Value, and a function from gradients of the results to gradients of the arguments.
template <class F, class... Args>
auto vjp(const F& f, const Args&... args) {
  return detail::vjp(detail::over_list(f, args...), {args...});
}

// The matrix of derivatives of a function with one tensor as result: sizes of the result, then of the argument. jacrev takes
// a backward pass for each entry of the result, jacfwd a forward pass for each entry of the argument, all in one batch.
template <class F>
auto jacrev(F f, size_t argnum = 0) {
  return [f = std::move(f), argnum](const auto&... args) -> Tensor {
    return detail::jacrev(detail::over_list(f, args...), {args...}, argnum);
  };
}
template <class F>
auto jacfwd(F f, size_t argnum = 0) {
  return [f = std::move(f), argnum](const auto&... args) -> Tensor {
    return detail::jacfwd(detail::over_list(f, args...), {args...}, argnum);
  };
}
template <class F>
auto hessian(F f, size_t argnum = 0) {
  return jacfwd(jacrev(std::move(f), argnum), argnum);
}

}  // namespace facula::func
