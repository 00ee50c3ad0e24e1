// Ops of users with a gradient of their own.
//
//   struct Cube : Function<Cube> {
//     static Tensor forward(AutogradContext* ctx, Tensor x) {
//       ctx->save_for_backward({x});
//       return x * x * x;
//     }
//     static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
//       Tensor x = ctx->get_saved_variables()[0];
//       return {grads[0] * 3 * x * x};
//     }
//   };
//   Tensor y = Cube::apply(x);
#pragma once

#include <facula/autograd/node.h>
#include <facula/autograd/saved_value.h>
#include <facula/tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace facula::autograd {

class CustomNode;

// What forward leaves for backward.
class FACULA_API AutogradContext {
 public:
  AutogradContext();
  ~AutogradContext();
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  // Values that are no tensors of the tape: numbers, text, lists. `SavedValue::of` takes any type.
  std::map<std::string, SavedValue> saved_data;

  // Inputs and outputs that backward reads. In-place changes of them are noticed.
  void save_for_backward(variable_list tensors);
  variable_list get_saved_variables() const;
  // Inputs that forward wrote to.
  void mark_dirty(const variable_list& inputs);
  // Outputs that no gradient flows through.
  void mark_non_differentiable(const variable_list& outputs);
  // Whether backward gets zeros (true, as at first) or undefined tensors for outputs that nothing came for.
  void set_materialize_grads(bool materialize);
  // Whether the gradient of an input is asked for. Only tensors count, those in lists one by one.
  bool needs_input_grad(size_t index) const;

 private:
  friend class CustomNode;
  struct State;
  std::unique_ptr<State> state_;
};

namespace custom {

struct CustomFunction {
  std::string name;
  variable_list (*backward)(AutogradContext*, variable_list);
};
// What a function was called with. A list of tensors counts as its elements, an empty optional as no tensor.
struct Arguments {
  variable_list tensors;
  std::vector<bool> is_tensor;  // of every argument

  void add(const Tensor& t) {
    tensors.push_back(t);
    is_tensor.push_back(true);
  }
  template <class T>
  void collect(const T& argument) {
    if constexpr (std::is_same_v<T, Tensor>) add(argument);
    else if constexpr (std::is_same_v<T, std::optional<Tensor>>) {
      if (argument && argument->defined()) add(*argument);
      else is_tensor.push_back(false);
    } else if constexpr (std::is_same_v<T, variable_list> || std::is_same_v<T, TensorList>) {
      for (const Tensor& t : argument) add(t);
    } else {
      is_tensor.push_back(false);
    }
  }
};
// Runs `forward` and records it as one node over the tensors of `arguments`.
FACULA_API variable_list apply_custom(const CustomFunction& function, const Arguments& arguments,
                                      const std::function<variable_list(AutogradContext*)>& forward);
FACULA_API std::string readable_type(const char* name);

}  // namespace custom

// Derive from it as `struct F : Function<F>`, with two static functions. `forward` takes the context and what `apply` was
// called with; `backward` gives one gradient for each argument of forward, undefined ones for arguments that are no tensors,
// or one for each tensor alone.
template <class Self>
struct Function {
  template <class X = Self, class... Args>
  static auto apply(Args&&... args) {
    using Result =
        std::decay_t<decltype(X::forward(static_cast<AutogradContext*>(nullptr), std::forward<Args>(args)...))>;
    custom::Arguments arguments;
    (arguments.collect(static_cast<const std::decay_t<Args>&>(args)), ...);
    const custom::CustomFunction function{
        custom::readable_type(typeid(X).name()),
        [](AutogradContext* context, variable_list grads) { return X::backward(context, std::move(grads)); }};
    variable_list outputs = custom::apply_custom(function, arguments, [&](AutogradContext* context) {
      auto result = X::forward(context, args...);
      if constexpr (std::is_same_v<Result, Tensor>) return variable_list{std::move(result)};
      else return variable_list(std::move(result));
    });
    if constexpr (std::is_same_v<Result, Tensor>) return std::move(outputs[0]);
    else return outputs;
  }
};

}  // namespace facula::autograd
