// Nodes: order of creation, hooks, and an end without recursion. The accumulator of leaves is here too.
#include "autograd/tape_node.h"

#include "autograd/call.h"
#include "core/shape.h"

#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <algorithm>
#include <utility>

namespace facula::autograd {

constinit thread_local TapeNode::Selection TapeNode::selection;

namespace {

std::atomic<uint64_t> next_sequence{0};
thread_local std::vector<TapeNode*>* doomed = nullptr;

// Takes the hook of this number out of the list.
template <class List>
bool take(List& list, uint32_t number, std::shared_ptr<const void>& hook) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.number == number; });
  if (found == list.end()) return false;
  hook = std::move(found->hook);
  list.erase(found);
  return true;
}

}  // namespace

TapeNode::TapeNode() : sequence(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

TapeNode::~TapeNode() { delete extras_.load(std::memory_order_relaxed); }

NodeExtras& TapeNode::extras() {
  NodeExtras* known = extras_.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = std::make_unique<NodeExtras>();
  if (extras_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

bool NodeHooks::remove(uint32_t number) {
  std::shared_ptr<const void> gone;  // ends without the lock: it may hold anything
  const std::lock_guard lock(mutex);
  return take(on_output, number, gone) || take(pre, number, gone) || take(post, number, gone) ||
         take(accumulated, number, gone);
}

void TapeNode::destroy() noexcept {
  // A chain of nodes would end in as many nested destructors; the outermost one takes them in turn instead.
  if (doomed) {
    doomed->push_back(this);
    return;
  }
  std::vector<TapeNode*> waiting;
  doomed = &waiting;
  delete this;
  while (!waiting.empty()) {
    TapeNode* next = waiting.back();
    waiting.pop_back();
    delete next;
  }
  doomed = nullptr;
}

void HookHandle::remove() {
  FACULA_CHECK(given_, ValueError, "HookHandle::remove: this handle holds no hook; keep the one that registering gave");
  const std::shared_ptr<NodeHooks> hooks = hooks_.lock();
  FACULA_CHECK(!hooks || hooks->remove(number_), ValueError,
               "HookHandle::remove: this hook has been removed already; remove each hook once");
}

uint32_t Node::num_inputs() const { return static_cast<uint32_t>(static_cast<const TapeNode*>(this)->outputs.size()); }
uint32_t Node::num_outputs() const { return static_cast<uint32_t>(static_cast<const TapeNode*>(this)->edges.size()); }
Edge Node::next_edge(size_t index) const {
  const auto* node = static_cast<const TapeNode*>(this);
  FACULA_CHECK(index < node->edges.size(), IndexError, "next_edge: ", name(), " has ", node->edges.size(),
               " edges, index ", index, " is none of them");
  return node->edges[index];
}
edge_list Node::next_edges() const {
  const auto* node = static_cast<const TapeNode*>(this);
  return edge_list(node->edges.begin(), node->edges.end());
}
uint64_t Node::sequence_nr() const { return static_cast<const TapeNode*>(this)->sequence; }
uint64_t Node::topological_nr() const { return static_cast<const TapeNode*>(this)->topological; }

HookHandle Node::add_pre_hook(std::function<variable_list(const variable_list&)> hook) {
  FACULA_CHECK(hook, ValueError, "add_pre_hook: the hook is empty; give a function");
  const std::shared_ptr<NodeHooks>& hooks = static_cast<TapeNode*>(this)->extras().hooks;
  return {hooks, hooks->add(&NodeHooks::pre, std::move(hook))};
}
HookHandle Node::add_post_hook(std::function<variable_list(const variable_list&, const variable_list&)> hook) {
  FACULA_CHECK(hook, ValueError, "add_post_hook: the hook is empty; give a function");
  const std::shared_ptr<NodeHooks>& hooks = static_cast<TapeNode*>(this)->extras().hooks;
  return {hooks, hooks->add(&NodeHooks::post, std::move(hook))};
}

variable_list Node::operator()(variable_list&& grads) {
  auto* node = static_cast<TapeNode*>(this);
  grads.resize(node->outputs.size());
  variable_list out(node->edges.size());
  node->run(grads, out.data());
  return out;
}

AccumulateGrad::AccumulateGrad(TensorImpl& leaf, intrusive_ptr<GradSlot> slot)
    : slot_(std::move(slot)),
      strides_(leaf.strides),
      dense_(leaf.contiguous || is_non_overlapping_and_dense(leaf.sizes, leaf.strides)),
      leaf_(&leaf) {
  add_output(leaf);
}

void AccumulateGrad::forget_leaf() {
  const std::lock_guard lock(slot_->mutex);
  leaf_ = nullptr;
}

bool AccumulateGrad::leaf_ends(const TensorImpl& leaf) {
  const std::lock_guard lock(slot_->mutex);
  if (leaf.use_count() != 1) return false;
  leaf_ = nullptr;
  return true;
}

void AccumulateGrad::leaf_changed(const TensorImpl& leaf) {
  const std::lock_guard lock(slot_->mutex);
  leaf_ = const_cast<TensorImpl*>(&leaf);  // contents may have been handed from one tensor to another
  OutputInfo& info = outputs[0];
  info.sizes = leaf.sizes;
  info.dtype = leaf.dtype;
  info.device = leaf.device;
}

void AccumulateGrad::run(ArrayRef<Tensor> grads, Tensor*) {
  const Tensor& grad = grads[0];
  if (!grad.defined()) return;
  Tensor leaf, before;  // end without the lock: freeing memory may run code of the user's
  {
    std::unique_lock lock(slot_->mutex);
    Tensor& held = slot_->grad;
    if (held.defined() && pending_gradients && pending_gradients->reads(held.impl()->storage.get())) [[unlikely]] {
      lock.unlock();  // as above: formulas let go of what they have read
      settle_pending();
      lock.lock();
    }
    FACULA_CHECK(
        !(grad.impl()->tracking & facula::detail::kTracksBatch) ||
            (leaf_ && (leaf_->tracking & facula::detail::kTracksBatch)),
        NotSupportedError,
        "backward: inside vmap every entry of the batch has a gradient of its own, which .grad of a tensor from "
        "outside cannot hold; use grad of func or of autograd there");
    if (held.defined()) {
      if (GradMode::is_enabled()) before = std::exchange(held, held + grad);
      else held.add_(grad);
    } else {
      // The layout of the gradient is the parameter's, so that optimizers walk both in step.
      const IntArrayRef strides = leaf_ ? IntArrayRef(leaf_->strides) : IntArrayRef(strides_);
      const bool dense = leaf_ ? leaf_->contiguous || is_non_overlapping_and_dense(leaf_->sizes, strides) : dense_;
      const TensorImpl* g = grad.impl();
      const bool own = grad.use_count() == 1 && g->storage->use_count() == 1 &&
                       (dense ? IntArrayRef(g->strides) == strides : g->contiguous);
      if (GradMode::is_enabled()) {
        held = grad.clone();
      } else if (own && !(g->tracking & detail::kTracksTangent)) {
        held = detached_alias(grad);
      } else if (dense && IntArrayRef(g->strides) != strides) {
        held = empty_strided(grad.sizes(), strides, grad.options());
        held.copy_(grad);
      } else {
        held = dense ? grad.detach().clone() : grad.detach().contiguous();
        if (held.impl()->storage.get() == g->storage.get()) held = held.clone();
      }
    }
    // The leaf may be about to die in another thread, which then waits for this lock.
    if (extras_if_any() && leaf_ && leaf_->try_retain()) leaf = Tensor(intrusive_ptr<TensorImpl>::adopt(leaf_));
  }
  if (!leaf.defined()) return;
  for (const auto& each : hooks().copy_of(&NodeHooks::accumulated)) (*each.hook)(leaf);
}

}  // namespace facula::autograd
