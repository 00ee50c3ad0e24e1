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
#include <facula/tensor.h>

#include <any>
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

  // Values of any kind.
  std::map<std::string, std::any> saved_data;

  // Inputs and outputs that backward reads. In-place changes of them are noticed.
  void save_for_backward(variable_list tensors);
  variable_list get_saved_variables() const;
  // Inputs that forward wrote to.
  void mark_dirty(const variable_list& inputs);
  // Outputs that no gradient flows through.
  void mark_non_differentiable(const variable_list& outputs);
  // Whether backward gets zeros (true, as at first) or undefined tensors for outputs that nothing came for.
  void set_materialize_grads(bool materialize);
  // Whether the gradient of an input (counting tensors only) is asked for.
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
// Runs `forward` and records it as one node over `inputs`.
FACULA_API variable_list apply_custom(const CustomFunction& function, const variable_list& inputs,
                                      const std::function<variable_list(AutogradContext*)>& forward);
FACULA_API std::string readable_type(const char* name);

inline void collect(variable_list&) {}
template <class First, class... Rest>
void collect(variable_list& list, const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, Tensor>) list.push_back(first);
  else if constexpr (std::is_same_v<First, std::optional<Tensor>>) list.push_back(first.value_or(Tensor()));
  else if constexpr (std::is_same_v<First, variable_list>) list.insert(list.end(), first.begin(), first.end());
  collect(list, rest...);
}

}  // namespace custom

template <class Self>
struct Function {
  template <class X = Self, class... Args>
  static auto apply(Args&&... args) {
    using Result =
        std::decay_t<decltype(X::forward(static_cast<AutogradContext*>(nullptr), std::forward<Args>(args)...))>;
    variable_list inputs;
    custom::collect(inputs, static_cast<const std::decay_t<Args>&>(args)...);
    const custom::CustomFunction function{
        custom::readable_type(typeid(X).name()),
        [](AutogradContext* context, variable_list grads) { return X::backward(context, std::move(grads)); }};
    variable_list outputs = custom::apply_custom(function, inputs, [&](AutogradContext* context) {
      auto result = X::forward(context, args...);
      if constexpr (std::is_same_v<Result, Tensor>) return variable_list{std::move(result)};
      else return variable_list(std::move(result));
    });
    if constexpr (std::is_same_v<Result, Tensor>) return std::move(outputs[0]);
    else return outputs;
  }
};

}  // namespace facula::autograd
