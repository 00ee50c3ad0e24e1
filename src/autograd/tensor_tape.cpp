// The history of tensors: which node made them, what writing in place does to it, and views.
#include "autograd/tensor_tape.h"

#include "autograd/call.h"

#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <mutex>
#include <utility>

namespace facula::autograd {

namespace {

// The gradient of a tensor of which a part was overwritten by an in-place op on a view: the part's gradient goes through
// the op's node, the rest passes.
class CopySlices final : public TapeNode {
 public:
  CopySlices(const TensorImpl& base, const TensorImpl& view, intrusive_ptr<TapeNode> fn)
      : base_sizes_(base.sizes),
        base_strides_(base.strides),
        view_sizes_(view.sizes),
        view_strides_(view.strides),
        offset_(view.storage_offset - base.storage_offset),
        fn_(std::move(fn)) {}

  std::string name() const override { return "CopySlices"; }

  void run(ArrayRef<Tensor> grads, Tensor* out) override {
    if (!grads[0].defined()) return;
    const intrusive_ptr<TapeNode> fn = held_fn();
    FACULA_CHECK(fn, Error,
                 "CopySlices: Trying to backward through the graph a second time. Saved values of the graph are freed "
                 "when backward has run; call it with retain_graph=True if it must run again");
    SmallVector<bool, 4> wanted;
    for (size_t i = 0; i < fn->edges.size(); ++i) wanted.push_back(i < edges.size() && needs(i));
    SmallVector<Tensor, 4> inner(fn->edges.size());
    const auto run_inner = [&](const Tensor& slice) {
      const Wanted choice(fn.get(), wanted.data());
      fn->run(ArrayRef<Tensor>(&slice, 1), inner.data());
    };
    const Tensor& grad = grads[0];
    if (by_entry(grad)) {
      const Tensor at = places(grad.device());
      run_inner(grad.reshape({-1}).index_select(0, at).reshape(view_sizes_));
      if (needs(0)) out[0] = replaced(grad, at, inner);
    } else {
      Tensor whole = empty_strided(base_sizes_, base_strides_, grad.options());
      whole.copy_(grad);
      Tensor part = whole.as_strided(view_sizes_, view_strides_, whole.storage_offset() + offset_);
      run_inner(part.clone());
      if (!inner.empty() && inner[0].defined() && by_entry(inner[0])) {
        out[0] = replaced(grad, places(grad.device()), inner);
      } else {
        if (!inner.empty() && inner[0].defined()) part.copy_(inner[0]);
        else part.zero_();
        out[0] = whole;
      }
    }
    for (size_t i = 1; i < inner.size(); ++i) out[i] = inner[i];
  }
  void release_saved() override {
    intrusive_ptr<TapeNode> fn;
    {
      const std::lock_guard lock(mutex_);
      fn = std::move(fn_);
    }
    // A gradient that was recorded may lead to the result that the op saved, and so to its node; that one runs later.
    if (fn && fn->use_count() == 1) fn->release_saved();
  }

 private:
  // Another thread may free what this one runs.
  intrusive_ptr<TapeNode> held_fn() {
    const std::lock_guard lock(mutex_);
    return fn_;
  }
  // Batches and dual numbers are not written to.
  static bool by_entry(const Tensor& t) {
    return (t.impl()->tracking & (detail::kTracksBatch | detail::kTracksTangent)) != 0;
  }
  // Where the entries of the view are among those of the base.
  Tensor places(Device device) const {
    Tensor numbers =
        empty_strided(base_sizes_, base_strides_, TensorOptions(kLong).device(std::optional<Device>(device)));
    numbers.copy_(arange(numbers.numel(), numbers.options()).reshape(base_sizes_));
    return numbers.as_strided(view_sizes_, view_strides_, numbers.storage_offset() + offset_).reshape({-1});
  }
  // `grad` with the gradient of the part before the write in the places of the part.
  Tensor replaced(const Tensor& grad, const Tensor& at, const SmallVector<Tensor, 4>& inner) const {
    const Tensor flat = grad.reshape({-1});
    if (inner.empty() || !inner[0].defined()) return flat.index_fill(0, at, 0).reshape(base_sizes_);
    const Tensor before = inner[0].expand(view_sizes_).reshape({-1}).to(grad.scalar_type());
    return flat.index_copy(0, at, before).reshape(base_sizes_);
  }

  DimVector base_sizes_, base_strides_, view_sizes_, view_strides_;
  int64_t offset_;
  std::mutex mutex_;
  intrusive_ptr<TapeNode> fn_;
};

}  // namespace

void move_retained(Tape& tape, const intrusive_ptr<TapeNode>& to, uint32_t output) {
  if (!tape.retains_grad || !tape.slot) return;
  if (tape.grad_fn) {
    NodeHooks& before = tape.grad_fn->hooks();
    const std::lock_guard lock(before.mutex);
    std::erase_if(before.retained, [&](const auto& r) { return r.slot == tape.slot; });
  }
  NodeHooks& hooks = to->hooks();
  const std::lock_guard lock(hooks.mutex);
  hooks.retained.push_back({output, tape.slot});
}

Tape::~Tape() {
  if (accumulator) accumulator->forget_leaf();
}

Tape& ensure_tape(const Tensor& t) {
  TensorImpl* impl = t.impl();
  if (!impl->tape) impl->tape.offer(std::make_unique<Tape>());
  return *tape_of(impl);
}

GradSlot& ensure_slot(const Tensor& t) {
  Tape& tape = ensure_tape(t);
  if (!tape.slot) tape.slot = intrusive_ptr<GradSlot>::adopt(new GradSlot());
  return *tape.slot;
}

namespace {

// The view again, from what its base is now. Between complex numbers and pairs of real ones the dtype may differ.
Tensor view_again(const TensorImpl& view) {
  const Tensor base(view.base);
  if (view.dtype == view.base->dtype) return base.as_strided(view.sizes, view.strides, view.storage_offset);
  if (toRealValueType(view.base->dtype) == view.dtype)
    return view_as_real(base).as_strided(view.sizes, view.strides, view.storage_offset);
  FACULA_CHECK(toRealValueType(view.dtype) == view.base->dtype, NotSupportedError,
               "autograd: the base of a view of another dtype (", toString(view.dtype), " of ",
               toString(view.base->dtype),
               ") was written to, and its history cannot be followed; make the view again after writing");
  DimVector sizes(view.sizes), strides;
  sizes.push_back(2);
  for (const int64_t s : view.strides) strides.push_back(2 * s);
  strides.push_back(1);
  return view_as_complex(base.as_strided(sizes, strides, 2 * view.storage_offset));
}

// Threads may look at one view at the same time, and the first of them gives it its new history.
std::mutex& lock_of_view(const TensorImpl* view) {
  static std::mutex locks[64];
  return locks[(reinterpret_cast<uintptr_t>(view) >> 6) % 64];
}

// Whether something was written to the base of a view since it got its history. Call with its lock held.
bool is_stale(const TensorImpl& view) {
  const Tape *tape = tape_of(&view), *base = tape_of(view.base.get());
  if (!base || !(base->grad_fn || base->requires_grad)) return false;
  return tape && tape->grad_fn ? tape->version_at_history != view.version() : base->grad_fn.get() != nullptr;
}

// The beginning of an error about a view that a custom function gave.
std::string custom_view_text(const TensorImpl& view) {
  const Tape* tape = tape_of(&view);
  return str("output ", tape->output_nr, " of ", tape->grad_fn ? tape->grad_fn->name() : "a custom function",
             " is a view");
}

}  // namespace

intrusive_ptr<TapeNode> grad_fn_of(const Tensor& t) {
  TensorImpl* impl = t.impl();
  const auto known = [&] {
    const Tape* tape = tape_of(impl);
    return tape ? tape->grad_fn : nullptr;
  };
  if (!impl->base || impl->view_kind == ViewKind::Unrecorded) return known();
  {
    const std::lock_guard lock(lock_of_view(impl));
    // A write that was not recorded leaves the function's own history as right as it was.
    if (!is_stale(*impl) || (impl->view_kind == ViewKind::Custom && !tape_of(impl->base.get())->grad_fn))
      return known();
  }
  FACULA_CHECK(impl->view_kind != ViewKind::Custom, Error, "autograd: ", custom_view_text(*impl),
               " and its base or another view of its base has been modified inplace. The gradient of the write would "
               "take the place of that function's own backward; clone what the function returns, or write before it "
               "is called");
  // The history of the view begins at its base now. Made without the lock, which recording takes for other views.
  const AutoGradMode record(true);
  const Tensor again = view_again(*impl);
  intrusive_ptr<TapeNode> before;  // ends without the lock: its hooks may hold anything, and look at this view
  const std::lock_guard lock(lock_of_view(impl));
  if (is_stale(*impl)) {
    Tape &mine = ensure_tape(t), &fresh = *tape_of(again);
    move_retained(mine, fresh.grad_fn, fresh.output_nr);
    before = std::exchange(mine.grad_fn, fresh.grad_fn);
    mine.output_nr = fresh.output_nr;
    mine.version_at_history = impl->version();
    impl->tracking |= detail::kTracksGrad;
  }
  return known();
}

bool requires_grad(const Tensor& t) {
  if (!t.defined() || !(t.impl()->tracking & (detail::kTracksGrad | detail::kTracksView))) return false;
  if (grad_fn_of(t)) return true;
  const Tape* tape = tape_of(t);
  return tape && tape->requires_grad;
}

Edge gradient_edge(const Tensor& t) {
  if (!t.defined() || !(t.impl()->tracking & (detail::kTracksGrad | detail::kTracksView))) return {};
  intrusive_ptr<TapeNode> made = grad_fn_of(t);
  const Tape* tape = tape_of(t);
  if (made) return {intrusive_ptr<Node>::borrow(made.get()), tape->output_nr};
  if (!tape || !tape->requires_grad) return {};
  return {intrusive_ptr<Node>::borrow(tape->accumulator.get()), 0};
}

void set_history(const Tensor& result, const intrusive_ptr<TapeNode>& node) {
  TensorImpl* impl = result.impl();
  const uint32_t output = node->add_output(*impl);
  if (!isDifferentiableType(impl->dtype)) return;
  Tape& tape = ensure_tape(result);
  move_retained(tape, node, output);
  tape.grad_fn = node;
  tape.output_nr = output;
  tape.version_at_history = impl->version();
  impl->tracking |= detail::kTracksGrad;
}

void rebase_history(const Tensor& self, const intrusive_ptr<TapeNode>& node) {
  TensorImpl* impl = self.impl();
  node->add_output(*impl);
  if (!isDifferentiableType(impl->dtype)) return;
  Tape& tape = ensure_tape(self);
  impl->tracking |= detail::kTracksGrad;
  if (!impl->base) {
    move_retained(tape, node, 0);
    tape.grad_fn = node;
    tape.output_nr = 0;
    tape.requires_grad = false;
    tape.version_at_history = impl->version();
    return;
  }
  const Tensor base(impl->base);
  auto slices = intrusive_ptr<TapeNode>::adopt(new CopySlices(*impl->base, *impl, node));
  slices->add_edge(gradient_edge(base));
  for (size_t i = 1; i < node->edges.size(); ++i) slices->add_edge(node->edges[i]);
  slices->add_output(*impl->base);
  Tape& whole = ensure_tape(base);
  move_retained(whole, slices, 0);
  whole.grad_fn = slices;
  whole.output_nr = 0;
  impl->base->tracking |= detail::kTracksGrad;
  tape.version_at_history = impl->version() - 1;  // so that the next look goes by way of the base
  if (!tape.grad_fn) return;
  grad_fn_of(self);
}

Tensor detached_alias(const Tensor& t) {
  const TensorImpl* from = t.impl();
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(from->storage, from->dtype, from->device));
  impl->sizes = from->sizes;
  impl->strides = from->strides;
  impl->storage_offset = from->storage_offset;
  impl->numel = from->numel;
  impl->contiguous = from->contiguous;
  impl->tracking = from->tracking & detail::kTracksInference;
  impl->own_version = from->own_version;
  if (from->tracking & detail::kTracksBatch) {
    auto tape = std::make_unique<Tape>();
    tape->batch = std::make_unique<BatchInfo>(*tape_of(from)->batch);
    impl->tape = std::move(tape);
    impl->tracking |= detail::kTracksBatch;
  }
  return Tensor(std::move(impl));
}

}  // namespace facula::autograd
