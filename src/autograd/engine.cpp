// The engine: walks the tape backwards in the calling thread. Every node runs once, when the gradients of all its outputs have
// come; no recursion, so the depth of a graph is limited by memory only.
#include "autograd/engine.h"

#include "autograd/anomaly.h"
#include "autograd/autocast.h"
#include "autograd/call.h"
#include "autograd/pending.h"

#include <facula/autograd/autograd.h>
#include <facula/core/warning.h>
#include <facula/tensors.h>

#include <algorithm>
#include <unordered_map>

namespace facula::autograd {

namespace {
constinit thread_local bool frees_saved = false;
}
bool saved_is_freed_after() { return frees_saved; }

// The bookkeeping of one backward pass. Most passes have the nodes of their graph for themselves and find their records
// through the nodes; a node that another pass (of another thread, or one that runs inside a node) has claimed is looked up
// in a map.
class GraphTask {
 public:
  GraphTask(BackwardOptions options, bool pruned)
      : options_(options),
        pruned_(pruned),
        least_fused_(options.create_graph || AnomalyMode::is_enabled() ? INT64_MAX : least_fused_elements()) {}
  ~GraphTask() {
    for (const Record& r : records_)
      if (r.node->task_.load(std::memory_order_relaxed) == this)
        r.node->task_.store(nullptr, std::memory_order_release);
  }
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;

  void find_nodes(ArrayRef<Edge> roots);
  void mark_needed(ArrayRef<Edge> captures);
  void seed(const Edge& edge, const Tensor& grad);
  void run();
  std::vector<Tensor> captured;

 private:
  struct Record {
    TapeNode* node;
    uint32_t waiting_for = 0;  // gradients that must come before the node runs
    bool needed = true;
    bool captures = false;
    SmallVector<Tensor, 1> grads;
  };

  uint32_t place_of(TapeNode* node, bool& is_new);
  uint32_t place_of(TapeNode* node) {
    bool is_new;
    return place_of(node, is_new);
  }
  bool runs_later(uint32_t a, uint32_t b) const {
    const TapeNode *x = records_[a].node, *y = records_[b].node;
    if (x->is_accumulator() != y->is_accumulator()) return y->is_accumulator();
    return x->sequence < y->sequence;
  }
  void make_ready(uint32_t place);
  void add_gradient(uint32_t place, uint32_t output, Tensor grad);
  void run_node(uint32_t place);
  void run_waiting();
  bool waits(uint32_t place);
  bool takes_pending(const TapeNode& node, const Tensor& grad) const;
  void follow_stream(const TapeNode& node);
  void return_to_streams();

  BackwardOptions options_;
  bool pruned_;
  const int64_t least_fused_;  // gradients from this size on may wait, so that a chain of nodes runs as one program
  PendingGradients pending_;
  std::vector<uint32_t> waiting_;  // accumulators whose gradients are pending
  std::vector<Record> records_;
  std::unordered_map<TapeNode*, uint32_t> others_;
  std::vector<uint32_t> ready_;  // a heap: what was recorded last runs first
  struct Capture {
    uint32_t place, output;
    size_t index;
  };
  std::vector<Capture> captures_;
  std::vector<std::pair<Device, int64_t>> callers_streams_;  // what was current before the engine followed others
};

uint32_t GraphTask::place_of(TapeNode* node, bool& is_new) {
  is_new = false;
  GraphTask* owner = node->task_.load(std::memory_order_acquire);
  if (owner == this) return node->place_in_task_;
  const auto place = static_cast<uint32_t>(records_.size());
  // A node once looked up in the map stays there, even if its owner lets go of it meanwhile.
  if (!owner && (others_.empty() || !others_.contains(node)) &&
      node->task_.compare_exchange_strong(owner, this, std::memory_order_acq_rel)) {
    node->place_in_task_ = place;
  } else {
    const auto [found, inserted] = others_.try_emplace(node, place);
    if (!inserted) return found->second;
  }
  is_new = true;
  Record& fresh = records_.emplace_back();
  fresh.node = node;
  return place;
}

void GraphTask::find_nodes(ArrayRef<Edge> roots) {
  SmallVector<TapeNode*, 16> stack;
  for (const Edge& root : roots) {
    bool is_new;
    place_of(tape_node(root.function), is_new);
    if (is_new) stack.push_back(tape_node(root.function));
  }
  while (!stack.empty()) {
    TapeNode* node = stack.back();
    stack.resize(stack.size() - 1);
    for (const Edge& edge : node->edges) {
      if (!edge.function) continue;
      bool is_new;
      const uint32_t place = place_of(tape_node(edge.function), is_new);
      ++records_[place].waiting_for;
      if (is_new) stack.push_back(tape_node(edge.function));
    }
  }
}

void GraphTask::mark_needed(ArrayRef<Edge> captures) {
  captured.resize(captures.size());
  for (Record& r : records_) r.needed = false;
  for (size_t i = 0; i < captures.size(); ++i) {
    bool is_new;
    const uint32_t place = place_of(tape_node(captures[i].function), is_new);
    records_[place].captures = true;
    captures_.push_back({place, captures[i].input_nr, i});
  }
  // Every edge leads to a node of a lower topological number.
  std::vector<uint32_t> order(records_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return records_[a].node->topological < records_[b].node->topological; });
  for (const uint32_t place : order) {
    for (const Edge& edge : records_[place].node->edges) {
      if (!edge.function) continue;
      const Record& next = records_[place_of(tape_node(edge.function))];
      if (next.needed || next.captures) {
        records_[place].needed = true;
        break;
      }
    }
  }
}

void GraphTask::make_ready(uint32_t place) {
  ready_.push_back(place);
  std::push_heap(ready_.begin(), ready_.end(), [&](uint32_t a, uint32_t b) { return runs_later(a, b); });
}

void GraphTask::add_gradient(uint32_t place, uint32_t output, Tensor grad) {
  if (!grad.defined()) return;
  Record& record = records_[place];
  if (record.grads.empty()) record.grads.resize(record.node->outputs.size());
  Tensor& held = record.grads[output];
  if (!held.defined()) {
    held = std::move(grad);
    return;
  }
  if (is_pending(held) || is_pending(grad)) {
    if (Tensor sum = pending_.sum(held, grad); sum.defined()) {
      held = std::move(sum);
      return;
    }
    pending_.settle();
  }
  const TensorImpl* h = held.impl();
  const bool own = !options_.create_graph && held.use_count() == 1 && h->storage->use_count() == 1 && h->contiguous &&
                   h->tracking == 0 && grad.impl()->tracking == 0 && grad.impl()->dtype == h->dtype;
  if (own) held.add_(grad);
  else held = held + grad;
}

void GraphTask::seed(const Edge& edge, const Tensor& grad) {
  add_gradient(place_of(tape_node(edge.function)), edge.input_nr, grad);
}

void GraphTask::run() {
  const size_t count = records_.size();
  for (uint32_t place = 0; place < count; ++place)
    if (records_[place].waiting_for == 0 && !records_[place].grads.empty()) make_ready(place);
  struct Current {
    PendingGradients* before;
    bool freed_before;
    Current(PendingGradients* now, bool freed)
        : before(std::exchange(pending_gradients, now)), freed_before(std::exchange(frees_saved, freed)) {}
    ~Current() {
      pending_gradients = before;
      frees_saved = freed_before;
    }
  } const current(&pending_, !options_.keep_graph);
  try {
    for (;;) {
      while (!ready_.empty()) {
        std::pop_heap(ready_.begin(), ready_.end(), [&](uint32_t a, uint32_t b) { return runs_later(a, b); });
        const uint32_t place = ready_.back();
        ready_.pop_back();
        const bool later = waits(place);
        if (!waiting_.empty() && !pending_.any()) [[unlikely]]
          run_waiting();
        if (!later) run_node(place);
      }
      if (!pending_.any() && waiting_.empty()) return return_to_streams();
      pending_.settle();
      run_waiting();
    }
  } catch (...) {
    // Leaves whose gradients had come get them: how far a pass came must not depend on what waited.
    pending_.incoming = nullptr;
    pending_.settle();
    run_waiting();
    return_to_streams();
    throw;
  }
}

// After settling: the leaves that waited.
void GraphTask::run_waiting() {
  while (!waiting_.empty()) {
    const uint32_t place = waiting_.back();
    waiting_.pop_back();
    // Where the program itself has failed there is nothing to add.
    if (!records_[place].grads.empty() && is_pending(records_[place].grads[0])) continue;
    run_node(place);
  }
}

// Gradients are pending while the engine walks pointwise nodes, of which nobody sees more than what comes out at the end.
// Leaves wait with them. Everything else settles first: hooks and foreign code may change memory that a formula reads, and a
// kernel needs memory of its own. What nodes have saved is thus kept no longer than until the first node that is not
// pointwise.
bool GraphTask::waits(uint32_t place) {
  if (!pending_.any()) return false;
  const Record& record = records_[place];
  if (record.node->is_accumulator()) {
    if (!record.node->extras_if_any()) {
      if (record.grads.empty() || !is_pending(record.grads[0])) return false;
      waiting_.push_back(place);
      return true;
    }
  } else if (record.node->elementwise() && !record.node->extras_if_any()) {
    return false;
  }
  pending_.settle();
  return false;
}

bool GraphTask::takes_pending(const TapeNode& node, const Tensor& grad) const {
  return grad.defined() && grad.impl()->numel >= least_fused_ && node.elementwise();
}

namespace {

// What a hook gave instead of the gradient of output `output`.
Tensor fit_hooked(const Tensor& grad, const TapeNode& node, uint32_t output) {
  const OutputInfo& info = node.outputs[output];
  try {
    return fit_gradient(grad, info, node, output);
  } catch (const ShapeError&) {
    throw ShapeError(str(node.name(), ": a hook gave a gradient of shape ", to_text(grad.sizes()), " for output ",
                         output, " of shape ", to_text(info.sizes),
                         "; give one of that shape, or nothing to leave it as it is"));
  }
}

// Adds to a `.grad` that other threads may look at. What was there ends without the lock: freeing memory may run code of the
// user's, which may ask for this very gradient.
void add_to_slot(GradSlot& slot, const Tensor& grad) {
  Tensor before;
  const std::lock_guard lock(slot.mutex);
  // The first is copied: it may belong to others, or be one number spread over all entries.
  if (!slot.grad.defined()) slot.grad = (GradMode::is_enabled() ? grad : grad.detach()).clone(MemoryFormat::Contiguous);
  else before = std::exchange(slot.grad, slot.grad + grad);
}

// Hooks on tensors, and who keeps their gradients. They come before everything else, so that `grad` gives what they give.
void run_tensor_hooks(NodeHooks& hooks, SmallVector<Tensor, 1>& grads, const TapeNode& node) {
  for (const auto& each : hooks.copy_of(&NodeHooks::on_output)) {
    Tensor& grad = grads[each.output];
    if (!grad.defined()) continue;
    const Tensor changed = (*each.hook)(grad);
    if (changed.defined()) grad = fit_hooked(changed, node, each.output);
  }
  for (const auto& each : hooks.copy_of(&NodeHooks::retained)) {
    const Tensor& grad = grads[each.output];
    if (grad.defined()) add_to_slot(*each.slot, grad);
  }
}

void run_pre_hooks(NodeHooks& hooks, SmallVector<Tensor, 1>& grads, const TapeNode& node) {
  for (const auto& each : hooks.copy_of(&NodeHooks::pre)) {
    variable_list list = (*each.hook)(variable_list(grads.begin(), grads.end()));
    FACULA_CHECK(list.size() == grads.size(), ValueError, node.name(), ": a pre hook gave ", list.size(),
                 " gradients for ", grads.size(), "; give one for each, undefined ones included");
    for (uint32_t i = 0; i < grads.size(); ++i) grads[i] = list[i].defined() ? fit_hooked(list[i], node, i) : Tensor();
  }
}

void run_post_hooks(NodeHooks& hooks, SmallVector<Tensor, 4>& out, const variable_list& came, const TapeNode& node) {
  for (const auto& each : hooks.copy_of(&NodeHooks::post)) {
    variable_list list = (*each.hook)(variable_list(out.begin(), out.end()), came);
    FACULA_CHECK(list.size() == out.size(), ValueError, node.name(), ": a post hook gave ", list.size(),
                 " gradients for ", out.size(), "; give one for each, undefined ones included");
    for (size_t i = 0; i < out.size(); ++i) out[i] = std::move(list[i]);
  }
}

}  // namespace

// Gradients are computed on the stream of the forward operation, after what was computed so far.
void GraphTask::follow_stream(const TapeNode& node) {
  const Device device = node.outputs[0].device;
  const int64_t now = device_stream_hooks->current(device);
  if (now == node.stream) return;
  pending_.settle();
  bool known = false;
  for (const auto& each : callers_streams_) known |= each.first == device;
  if (!known) callers_streams_.emplace_back(device, now);
  device_stream_hooks->follow(device, node.stream);
}

void GraphTask::return_to_streams() {
  for (const auto& [device, stream] : callers_streams_) device_stream_hooks->follow(device, stream);
  callers_streams_.clear();
}

void GraphTask::run_node(uint32_t place) {
  SmallVector<Tensor, 1> grads = std::move(records_[place].grads);
  TapeNode* node = records_[place].node;
  const bool needed = records_[place].needed, captures = records_[place].captures;
  if (grads.empty()) grads.resize(node->outputs.size());
  const NodeExtras* extras = node->extras_if_any();
  if (extras) [[unlikely]] {
    pending_.settle();  // another thread may have added a hook since `waits` looked
    run_tensor_hooks(*extras->hooks, grads, *node);
  }
  if (captures)
    for (const Capture& each : captures_)
      if (each.place == place && grads[each.output].defined()) captured[each.index] = grads[each.output];
  if (!needed) return;
  if (extras) [[unlikely]]
    run_pre_hooks(*extras->hooks, grads, *node);

  const size_t edge_count = node->edges.size();
  SmallVector<Tensor, 4> out(edge_count);
  bool any = false;
  for (const Tensor& g : grads) any |= g.defined();
  if (any) {
    SmallVector<bool, 8> wanted;
    std::optional<Wanted> choice;
    if (pruned_) {
      for (const Edge& edge : node->edges) {
        bool wants = false;
        if (edge.function) {
          const Record& next = records_[place_of(tape_node(edge.function))];
          wants = next.needed || next.captures;
        }
        wanted.push_back(wants);
      }
      choice.emplace(node, wanted.data());
    }
    const ArrayRef<Tensor> in(grads.data(), grads.size());
    if (node->outputs[0].device.is_cuda() && !node->is_accumulator()) [[unlikely]]
      follow_stream(*node);
    if (takes_pending(*node, grads[0])) pending_.incoming = grads[0].impl();
    if (AnomalyMode::is_enabled()) [[unlikely]]
      run_watched(*node, in, out.data());
    else node->run(in, out.data());
    pending_.incoming = nullptr;
    choice.reset();
    if (extras) [[unlikely]] {
      pending_.settle();
      run_post_hooks(*extras->hooks, out, variable_list(grads.begin(), grads.end()), *node);
    }
  }
  grads.clear();
  if (!options_.keep_graph) node->release_saved();

  for (size_t i = 0; i < edge_count; ++i) {
    const Edge& edge = node->edges[i];
    if (!edge.function) continue;
    TapeNode* next = tape_node(edge.function);
    const uint32_t next_place = place_of(next);
    if (pruned_ && !records_[next_place].needed && !records_[next_place].captures) continue;
    if (out[i].defined()) {
      FACULA_CHECK(edge.input_nr < next->outputs.size(), Error, next->name(), ": has no output ", edge.input_nr);
      add_gradient(next_place, edge.input_nr, fit_gradient(out[i], next->outputs[edge.input_nr], *node, i));
      out[i].reset();
    }
    if (--records_[next_place].waiting_for == 0) make_ready(next_place);
  }
}

std::vector<Tensor> run_backward(ArrayRef<Edge> roots, ArrayRef<Tensor> grads, ArrayRef<Edge> captures, bool capture,
                                 BackwardOptions options) {
  const AutoGradMode mode(options.create_graph);
  const detail::AutocastOff no_casts;  // gradients have the types of the forward pass
  GraphTask task(options, capture);
  task.find_nodes(roots);
  if (capture) task.mark_needed(captures);
  for (size_t i = 0; i < roots.size(); ++i) task.seed(roots[i], grads[i]);
  task.run();
  return std::move(task.captured);
}

namespace {

// Root edges with the gradients that backward starts from.
void collect_roots(const variable_list& outputs, const variable_list& grads, const char* op, std::vector<Edge>& edges,
                   std::vector<Tensor>& seeds, bool create_graph) {
  FACULA_CHECK(!outputs.empty(), ValueError, op, ": no tensors were given; give at least one output");
  FACULA_CHECK(grads.empty() || grads.size() == outputs.size(), ValueError, op, ": ", grads.size(), " gradients for ",
               outputs.size(), " tensors; give one gradient for each, or none when each has one element");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    FACULA_CHECK(output.defined(), ValueError, op, ": tensor ", i, " is undefined");
    Edge edge = gradient_edge(output);
    FACULA_CHECK(
        edge.function, Error, op, ": element ", i,
        " of tensors does not require grad and does not have a grad_fn. Set requires_grad on the tensors that it "
        "is computed from, outside of no_grad and inference mode");
    Tensor grad = grads.empty() ? Tensor() : grads[i];
    if (!grad.defined()) {
      FACULA_CHECK(output.numel() == 1, ShapeError, op,
                   ": grad can be implicitly created only for scalar outputs, this one is ", to_text(output.sizes()),
                   "; reduce it first, e.g. with sum(), or give a gradient of its shape");
      FACULA_CHECK(!output.is_complex(), DTypeError, op,
                   ": grad can be implicitly created only for real scalar outputs but got ",
                   toString(output.scalar_type()), "; give a gradient, or take a real number of it, e.g. abs()");
      grad = ones(output.sizes(), output.options());
    } else {
      FACULA_CHECK(grad.sizes() == output.sizes(), ShapeError, op, ": Mismatch in shape: grad_output[", i,
                   "] has a shape of ", to_text(grad.sizes()), " and output[", i, "] has a shape of ",
                   to_text(output.sizes()), "; they must be the same");
      FACULA_CHECK(grad.is_complex() == output.is_complex() && isDifferentiableType(grad.scalar_type()), DTypeError, op,
                   ": for ", toString(output.scalar_type()), " output[", i, "] the gradient must be ",
                   output.is_complex() ? "complex" : "real floating point", " but grad_output[", i, "] is ",
                   toString(grad.scalar_type()), "; convert it with .to(...)");
      FACULA_CHECK(grad.device() == output.device(), DeviceError, op, ": grad_output[", i, "] is on ",
                   grad.device().str(), " and output[", i, "] on ", output.device().str(),
                   "; move one with .to(device)");
      if (grad.scalar_type() != output.scalar_type()) {
        const AutoGradMode mode(create_graph);
        grad = grad.to(output.scalar_type());
      }
    }
    edges.push_back(std::move(edge));
    seeds.push_back(std::move(grad));
  }
}

std::vector<Edge> capture_edges(const variable_list& inputs, const char* op) {
  std::vector<Edge> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    FACULA_CHECK(inputs[i].defined(), ValueError, op, ": input ", i, " is undefined");
    Edge edge = gradient_edge(inputs[i]);
    FACULA_CHECK(edge.function, Error, op, ": One of the differentiated Tensors does not require grad (input ", i,
                 ", shape ", to_text(inputs[i].sizes()), "); set requires_grad on it before it is used");
    edges.push_back(std::move(edge));
  }
  return edges;
}

}  // namespace

namespace {

void warn_of_cycles() {
  [[maybe_unused]] static const bool once = [] {
    warn(Warning(
        {"backward", "src/autograd/engine.cpp", __LINE__},
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
        "gradient, which keeps both in memory. Use autograd::grad instead, or set .grad of the parameters to an "
        "undefined tensor afterwards"));
    return true;
  }();
}

}  // namespace

void backward(const variable_list& tensors, const variable_list& grad_tensors, std::optional<bool> retain_graph,
              bool create_graph, const variable_list& inputs) {
  std::vector<Edge> roots;
  std::vector<Tensor> seeds;
  collect_roots(tensors, grad_tensors, "backward", roots, seeds, create_graph);
  const BackwardOptions options{retain_graph.value_or(create_graph), create_graph};
  if (create_graph) warn_of_cycles();
  if (inputs.empty()) {
    run_backward(roots, seeds, {}, false, options);
    return;
  }
  const std::vector<Edge> edges = capture_edges(inputs, "backward");
  seeds = run_backward(roots, seeds, edges, true, options);
  const AutoGradMode mode(create_graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!seeds[i].defined()) continue;
    if (tape_node(edges[i].function)->is_accumulator()) {
      const Tensor one[] = {std::move(seeds[i])};
      tape_node(edges[i].function)->run(one, nullptr);
    } else {
      add_to_slot(ensure_slot(inputs[i]), seeds[i]);
    }
  }
}

variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs,
                   std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  FACULA_CHECK(!inputs.empty(), ValueError,
               "grad: grad requires non-empty inputs; give the tensors to differentiate by");
  std::vector<Edge> roots;
  std::vector<Tensor> seeds;
  collect_roots(outputs, grad_outputs, "grad", roots, seeds, create_graph);
  const std::vector<Edge> edges = capture_edges(inputs, "grad");
  variable_list found = run_backward(roots, seeds, edges, true, {retain_graph.value_or(create_graph), create_graph});
  for (size_t i = 0; i < found.size() && !allow_unused; ++i)
    FACULA_CHECK(found[i].defined(), Error,
                 "grad: One of the differentiated Tensors appears to not have been used in the "
                 "graph (input ",
                 i, ", shape ", to_text(inputs[i].sizes()), "). Set allow_unused=True if this is the desired behavior");
  return found;
}

}  // namespace facula::autograd
