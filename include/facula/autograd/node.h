// A recorded operation as users see it: its name, where its gradients go, and hooks around its run in backward.
#pragma once

#include <facula/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace facula::autograd {

class Node;
using Variable = Tensor;
using variable_list = std::vector<Tensor>;
using tensor_list = std::vector<Tensor>;

// One input of a recorded operation: the operation that made it (or the accumulator of a leaf), and which of its outputs.
struct Edge {
  intrusive_ptr<Node> function;
  uint32_t input_nr = 0;
  bool is_valid() const { return static_cast<bool>(function); }
};
using edge_list = std::vector<Edge>;

// Removes a hook; `remove` twice is an error, and so is removing after the tensor or node is gone only where it had not
// been removed before: then nothing is left to do.
class FACULA_API HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<bool()> remove) : remove_(std::move(remove)) {}
  void remove();

 private:
  std::function<bool()> remove_;
};

class FACULA_API Node : public RefCounted {
 public:
  virtual std::string name() const = 0;
  // Gradients come in for the outputs of the forward operation and go out to its inputs.
  uint32_t num_inputs() const;
  uint32_t num_outputs() const;
  Edge next_edge(size_t index) const;
  edge_list next_edges() const;
  uint64_t sequence_nr() const;
  uint64_t topological_nr() const;
  // Sees, and may replace, the incoming gradients before the node runs.
  HookHandle add_pre_hook(std::function<variable_list(const variable_list& grads)> hook);
  // Sees, and may replace, the outgoing gradients; the second argument is what came in.
  HookHandle add_post_hook(
      std::function<variable_list(const variable_list& outputs, const variable_list& inputs)> hook);
  // Runs this node alone.
  variable_list operator()(variable_list&& grads);

 private:
  friend class TapeNode;
  Node() = default;
};

}  // namespace facula::autograd

namespace facula {

// Lambdas: those that return nothing only look.
template <class F>
autograd::HookHandle Tensor::register_hook(F hook) const {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const Tensor&>>)
    return register_hook(std::function<void(const Tensor&)>(std::move(hook)));
  else return register_hook(std::function<Tensor(const Tensor&)>(std::move(hook)));
}

}  // namespace facula
