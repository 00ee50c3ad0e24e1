// Gradients: backward passes over the tape.
#pragma once

#include <facula/autograd/modes.h>
#include <facula/autograd/node.h>
#include <facula/tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace facula::autograd {

// Adds the gradients of `tensors` to the `.grad` of the leaves they depend on, or of `inputs` only. `grad_tensors` may be
// empty when all tensors have one element.
FACULA_API void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
                         std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                         const variable_list& inputs = {});

// Gradients of `outputs` with respect to `inputs`; `.grad` is left alone. With `allow_unused` inputs that the outputs do
// not depend on get an undefined tensor instead of an error.
FACULA_API variable_list grad(const variable_list& outputs, const variable_list& inputs,
                              const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                              bool create_graph = false, bool allow_unused = false);

// The same elements without history, as a leaf that requires a gradient or does not.
FACULA_API Tensor make_variable(const Tensor& data, bool requires_grad = false,
                                bool allow_tensor_metadata_change = true);

namespace impl {

// Where the gradient of `t` goes: the node that made it, or the accumulator of a leaf; invalid when it requires none.
FACULA_API Edge gradient_edge(const Tensor& t);
// Of a leaf that requires a gradient; null otherwise.
FACULA_API intrusive_ptr<Node> grad_accumulator(const Tensor& t);
FACULA_API void bump_version(const Tensor& t);
FACULA_API void set_name(const Tensor& t, const std::string& name);

}  // namespace impl

// While it lives, tensors that the tape saves in this thread go through `pack` and come back through `unpack`: to disk, to
// another device, compressed.
class FACULA_API SavedTensorHooks {
 public:
  using Packed = std::shared_ptr<void>;
  SavedTensorHooks(std::function<Packed(const Tensor&)> pack, std::function<Tensor(const Packed&)> unpack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;
};

}  // namespace facula::autograd
