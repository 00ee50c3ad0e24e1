// Functions of functions: gradients, directional derivatives, batches. They nest at will.
//
//   auto f = [](const Tensor& w, const Tensor& x) { return (w * x).sin().sum(); };
//   Tensor dw = func::grad(f)(w, x);                                  // by the first argument
//   Tensor per_sample = func::vmap(func::grad(f), {std::nullopt, 0})(w, xs);
//   Tensor h = func::hessian(f)(w, x);
//   Tensor noisy = func::vmap([](const Tensor& x) { return x + randn({3}); }, 0, 0, "different")(xs);
#pragma once

#include <facula/autograd/autograd.h>
#include <facula/tensor.h>

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
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

// Where the batch goes in the results: one dimension for all, or one for each. None gives a result as it is, which must be
// the same for all entries then.
class OutDims {
 public:
  OutDims(int64_t all = 0) : all_(all) {}
  OutDims(std::initializer_list<std::optional<int64_t>> each) : each_(each), listed_(true) {}
  OutDims(std::vector<std::optional<int64_t>> each) : each_(std::move(each)), listed_(true) {}
  bool listed() const { return listed_; }
  size_t size() const { return each_.size(); }
  std::optional<int64_t> operator[](size_t result) const { return listed_ ? each_.at(result) : all_; }

 private:
  int64_t all_ = 0;
  std::vector<std::optional<int64_t>> each_;
  bool listed_ = false;
};

// How vmap runs. `randomness` says what random ops do inside: "error" refuses them, "same" draws once for all entries,
// "different" draws for each. With a `chunk_size` at most that many entries run at once.
struct VmapOptions {
  InDims in_dims = {};  // none at all: `in_dim` of every argument
  int64_t in_dim = 0;
  OutDims out_dims = 0;
  std::string randomness = "error";
  std::optional<int64_t> chunk_size = std::nullopt;
};

namespace detail {

FACULA_API std::pair<Tensor, Tensor> value_and_grad(const Fn& f, const variable_list& args, size_t argnum);
FACULA_API variable_list vmap(const Fn& f, const variable_list& args, const VmapOptions& options);
inline variable_list vmap(const Fn& f, const variable_list& args, InDims in_dims, OutDims out_dims) {
  return vmap(f, args, VmapOptions{.in_dims = std::move(in_dims), .out_dims = std::move(out_dims)});
}
FACULA_API std::pair<variable_list, variable_list> jvp(const Fn& f, const variable_list& args,
                                                       const variable_list& tangents);
FACULA_API std::pair<variable_list, std::function<variable_list(const variable_list&)>> vjp(const Fn& f,
                                                                                            const variable_list& args);
FACULA_API Tensor jacrev(const Fn& f, const variable_list& args, size_t argnum);
FACULA_API Tensor jacfwd(const Fn& f, const variable_list& args, size_t argnum, const std::string& randomness);

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

template <class F>
auto mapped(F f, VmapOptions options) {
  return [f = std::move(f), options = std::move(options)](const auto&... args) {
    using R = std::decay_t<decltype(f(args...))>;
    return from_list<R>(vmap(over_list(f, args...), {args...}, options));
  };
}

// Whether `f` takes `N` tensors, and the lowest such `N` that is not 0; 0 when there is none up to the limit.
inline constexpr size_t kMostTensors = 16;
template <class F, size_t N>
constexpr bool takes_tensors() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<const F&, std::enable_if_t<(I < N), const Tensor&>...>;
  }
  (std::make_index_sequence<N>());
}
template <class F, size_t N = 1>
constexpr size_t least_tensors() {
  if constexpr (N > kMostTensors) return 0;
  else if constexpr (takes_tensors<F, N>()) return N;
  else return least_tensors<F, N + 1>();
}
// Whether `f` takes a list. A function with `auto` parameters is not asked: its body might not compile for a list.
template <class F>
constexpr bool takes_list() {
  if constexpr (std::is_class_v<F> && !requires { &F::operator(); }) return least_tensors<F>() == 0;
  else return std::is_invocable_v<const F&, const variable_list&>;
}

FACULA_API void check_argument_count(const char* name, size_t given, size_t wanted);

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
auto vmap(F f, InDims in_dims = {}, OutDims out_dims = 0, std::string randomness = "error",
          std::optional<int64_t> chunk_size = std::nullopt) {
  return detail::mapped(std::move(f), VmapOptions{.in_dims = std::move(in_dims),
                                                  .out_dims = std::move(out_dims),
                                                  .randomness = std::move(randomness),
                                                  .chunk_size = chunk_size});
}
// The same with all options by name: `vmap(f, VmapOptions{.chunk_size = 64})`.
template <class F, std::same_as<VmapOptions> Options>
auto vmap(F f, Options options) {
  return detail::mapped(std::move(f), std::move(options));
}
// The same with one dimension for all arguments.
template <class F, class Dim>
  requires std::is_integral_v<Dim>
auto vmap(F f, Dim in_dim, OutDims out_dims = 0, std::string randomness = "error",
          std::optional<int64_t> chunk_size = std::nullopt) {
  return detail::mapped(std::move(f), VmapOptions{.in_dim = static_cast<int64_t>(in_dim),
                                                  .out_dims = std::move(out_dims),
                                                  .randomness = std::move(randomness),
                                                  .chunk_size = chunk_size});
}

// Value and derivative in the direction of `tangents`, one for each argument. `f` takes a list, or as many tensors as there
// are primals; then both are what `f` gives, a tensor, a pair, a tuple or a list.
template <class F>
auto jvp(const F& f, const variable_list& primals, const variable_list& tangents) {
  if constexpr (detail::takes_list<F>()) {
    return detail::jvp([&](const variable_list& args) { return detail::as_list(f(args)); }, primals, tangents);
  } else {
    constexpr size_t count = detail::least_tensors<F>();
    static_assert(count > 0, "jvp takes functions of tensors, or of one list of tensors");
    detail::check_argument_count("jvp", primals.size(), count);
    return [&]<size_t... I>(std::index_sequence<I...> places) {
      using R = std::decay_t<decltype(f(primals[I]...))>;
      auto [values, derivatives] = detail::jvp(detail::over_list(f, places), primals, tangents);
      return std::pair<R, R>(detail::from_list<R>(std::move(values)), detail::from_list<R>(std::move(derivatives)));
    }
    (std::make_index_sequence<count>());
  }
}

// Value, and a function from gradients of the results to gradients of the arguments.
template <class F, class... Args>
auto vjp(const F& f, const Args&... args) {
  return detail::vjp(detail::over_list(f, args...), {args...});
}

// The matrix of derivatives of a function with one tensor as result: sizes of the result, then of the argument. jacrev takes
// a backward pass for each entry of the result, jacfwd a forward pass for each entry of the argument, all in one batch; what
// random ops do in that batch is said as for vmap.
template <class F>
auto jacrev(F f, size_t argnum = 0) {
  return [f = std::move(f), argnum](const auto&... args) -> Tensor {
    return detail::jacrev(detail::over_list(f, args...), {args...}, argnum);
  };
}
template <class F>
auto jacfwd(F f, size_t argnum = 0, std::string randomness = "error") {
  return [f = std::move(f), argnum, randomness = std::move(randomness)](const auto&... args) -> Tensor {
    return detail::jacfwd(detail::over_list(f, args...), {args...}, argnum, randomness);
  };
}
template <class F>
auto hessian(F f, size_t argnum = 0) {
  return jacfwd(jacrev(std::move(f), argnum), argnum);
}

}  // namespace facula::func
