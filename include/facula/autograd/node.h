// A recorded operation as users see it: its name, where its gradients go, and hooks around its run in backward.
#pragma once

#include <facula/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
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

struct NodeHooks;

// Removes a hook, from any thread. Removing it twice is a ValueError; once its tensor or node is gone there is nothing left
// to remove, and that is fine.
class FACULA_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<NodeHooks> hooks, uint32_t number)
      : hooks_(std::move(hooks)), number_(number), given_(true) {}
  void remove();
  // For `Tensor::remove_hook`, as libtorch counts hooks.
  operator unsigned() const { return number_; }

 private:
  std::weak_ptr<NodeHooks> hooks_;
  uint32_t number_ = 0;
  bool given_ = false;
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
