// A node of the tape: edges to where gradients go, what the forward outputs looked like, hooks. Generated nodes (one for each
// differentiable op), accumulators of leaves and custom functions derive from it; src/autograd/engine.cpp walks them.
#pragma once

#include "core/device_memory.h"
#include "core/dim_vector.h"
#include "core/small_vector.h"
#include "core/tensor_impl.h"

#include <facula/autograd/node.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace facula::autograd {

class GraphTask;

// Shape and kind of one forward output: gradients that come for it are made to fit.
struct OutputInfo {
  DimVector sizes;
  ScalarType dtype = ScalarType::Undefined;
  Device device{kCPU};
};

// Where `.grad` lives: shared by the tensor and by whoever writes it in backward, so that neither keeps the other alive.
struct GradSlot final : RefCounted {
  Tensor grad;
  std::mutex mutex;
};

using TensorHook = std::function<Tensor(const Tensor&)>;

// The hooks of a node. Threads add, remove and run them at the same time; handles know them weakly.
struct NodeHooks {
  // What all kinds have in common: a number, and a hook that copies share.
  template <class F>
  struct Numbered {
    uint32_t number;
    uint32_t output;  // of hooks on tensors
    std::shared_ptr<const F> hook;
  };
  using Pre = std::function<variable_list(const variable_list&)>;
  using Post = std::function<variable_list(const variable_list&, const variable_list&)>;
  using Accumulated = std::function<void(const Tensor&)>;
  template <class F>
  using List = std::vector<Numbered<F>>;
  struct Retained {
    uint32_t output;
    intrusive_ptr<GradSlot> slot;
  };

  template <class F>
  uint32_t add(List<F> NodeHooks::*list, F hook, uint32_t output = 0) {
    auto shared = std::make_shared<const F>(std::move(hook));
    const std::lock_guard lock(mutex);
    (this->*list).push_back({next_number, output, std::move(shared)});
    return next_number++;
  }
  // False when there is none of this number (any more).
  bool remove(uint32_t number);
  // Hooks may add and remove hooks: whoever runs them runs a copy.
  template <class T>
  T copy_of(T NodeHooks::*list) {
    const std::lock_guard lock(mutex);
    return this->*list;
  }

  std::mutex mutex;
  uint32_t next_number = 0;
  List<TensorHook> on_output;
  std::vector<Retained> retained;
  List<Pre> pre;
  List<Post> post;
  List<Accumulated> accumulated;  // of a leaf
};

// What few nodes have.
struct NodeExtras {
  std::shared_ptr<NodeHooks> hooks = std::make_shared<NodeHooks>();
  std::vector<Tensor> keep_alive;  // leaves whose hooks after accumulation need them
  std::vector<void*> called_from;  // anomaly mode: return addresses of the forward call,
  std::string called_in;           // and the backward pass that it belonged to
};

class TapeNode : public Node {
 public:
  TapeNode();
  ~TapeNode() override;

  // Gradients of the inputs from gradients of the outputs. `grads` has an entry for each output, undefined where nothing
  // came; `out` has one for each edge and is written where `needs` says so.
  virtual void run(ArrayRef<Tensor> grads, Tensor* out) = 0;
  // Lets go of what was saved for backward.
  virtual void release_saved() {}
  // Accumulators run before anything else, so that gradients are not held longer than needed.
  virtual bool is_accumulator() const { return false; }
  // Whether every output depends on the input entry at the same place only, so that `run` also yields the derivative in
  // a direction (real numbers).
  virtual bool elementwise() const { return false; }
  // Whether a user wrote `run`: then nobody knows that it consists of ops that the tape can record.
  virtual bool written_by_user() const { return false; }

  // Whether the gradient of input `i` is asked for: there is somewhere to send it, unless a `Wanted` says otherwise.
  bool needs(size_t i) const { return selection.node == this ? selection.wanted[i] : edges[i].is_valid(); }

  void add_edge(Edge edge) {
    if (edge.function) {
      const auto below = static_cast<const TapeNode*>(edge.function.get())->topological;
      if (below >= topological) topological = below + 1;
    }
    edges.push_back(std::move(edge));
  }
  uint32_t add_output(const TensorImpl& result) {
    OutputInfo& info = outputs.emplace_back();
    info.sizes = result.sizes;
    info.dtype = result.dtype;
    info.device = result.device;
    if (result.device.is_cuda()) stream = device_stream_hooks->current(result.device);
    return static_cast<uint32_t>(outputs.size() - 1);
  }
  // Made when asked for, by any thread.
  NodeExtras& extras();
  const NodeExtras* extras_if_any() const { return extras_.load(std::memory_order_acquire); }
  NodeHooks& hooks() { return *extras().hooks; }

  SmallVector<Edge, 3> edges;
  SmallVector<OutputInfo, 1> outputs;
  uint64_t sequence = 0;
  uint64_t topological = 0;
  int64_t stream = 0;  // of a GPU, where the forward operation was queued; its gradient follows it there

 private:
  friend class GraphTask;
  void destroy() noexcept override;

  friend class Wanted;
  struct Selection {
    const TapeNode* node = nullptr;
    const bool* wanted = nullptr;
  };
  static constinit thread_local Selection selection __attribute__((tls_model("initial-exec")));

  std::atomic<NodeExtras*> extras_{nullptr};
  // The backward pass that has its bookkeeping for this node at `place_in_task_`; others keep theirs in a map.
  std::atomic<GraphTask*> task_{nullptr};
  uint32_t place_in_task_ = 0;
};

// While it lives, this thread asks `node` for the gradients of the chosen inputs.
class Wanted {
 public:
  Wanted(const TapeNode* node, const bool* wanted) : before_(TapeNode::selection) {
    TapeNode::selection = {node, wanted};
  }
  ~Wanted() { TapeNode::selection = before_; }
  Wanted(const Wanted&) = delete;
  Wanted& operator=(const Wanted&) = delete;

 private:
  TapeNode::Selection before_;
};

inline TapeNode* tape_node(const intrusive_ptr<Node>& node) { return static_cast<TapeNode*>(node.get()); }

// Adds what comes to a leaf's `.grad`.
class AccumulateGrad final : public TapeNode {
 public:
  AccumulateGrad(TensorImpl& leaf, intrusive_ptr<GradSlot> slot);
  std::string name() const override { return "AccumulateGrad"; }
  void run(ArrayRef<Tensor> grads, Tensor* out) override;
  bool is_accumulator() const override { return true; }
  // The leaf died.
  void forget_leaf();
  // Its last known reference is going: false when a backward pass has taken one meanwhile, else it is forgotten.
  bool leaf_ends(const TensorImpl& leaf);
  // The leaf has another shape, dtype or device.
  void leaf_changed(const TensorImpl& leaf);
  // Whether somebody waits for the leaf after its `.grad` was written.
  bool has_accumulated_hooks() const {
    const NodeExtras* extras = extras_if_any();
    return extras && !extras->hooks->copy_of(&NodeHooks::accumulated).empty();
  }

 private:
  intrusive_ptr<GradSlot> slot_;
  DimVector strides_;
  bool dense_;
  TensorImpl* leaf_;
};

}  // namespace facula::autograd
