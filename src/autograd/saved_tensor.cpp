// Saved tensors: versions, hooks that pack them, and what a freed graph says.
#include "autograd/saved_tensor.h"

#include "autograd/pending.h"

#include <facula/autograd/autograd.h>
#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>
#include <utility>

namespace facula::autograd {

namespace {

struct OpenHooks {
  const SavedTensorHooks* owner;
  std::shared_ptr<const PackHooks> hooks;
};
thread_local std::vector<OpenHooks> pack_hooks;

// An alias that still has the tangents of `t`.
Tensor alias_with_tangents(const Tensor& t) {
  Tensor alias = detached_alias(t);
  if (t.impl()->tracking & detail::kTracksTangent) {
    ensure_tape(alias).tangents = tape_of(t)->tangents;
    alias.impl()->tracking |= detail::kTracksTangent;
  }
  return alias;
}

// `t`, which has no history, with one; a leaf's accumulator counts as such.
Tensor with_history(Tensor t, const Edge& edge) {
  Tape& tape = ensure_tape(t);
  tape.grad_fn = intrusive_ptr<TapeNode>::borrow(tape_node(edge.function));
  tape.output_nr = edge.input_nr;
  tape.version_at_history = t.impl()->version();
  t.impl()->tracking |= detail::kTracksGrad;
  return t;
}

void check_can_save(const Tensor& t) {
  FACULA_CHECK(
      !(t.impl()->tracking & detail::kTracksInference), Error,
      "Inference tensors cannot be saved for backward. Make a clone outside of inference mode, or compute under "
      "no_grad (NoGradGuard) instead of inference mode");
}

}  // namespace

SavedTensorHooks::SavedTensorHooks(std::function<Packed(const Tensor&)> pack,
                                   std::function<Tensor(const Packed&)> unpack) {
  pack_hooks.push_back({this, std::make_shared<const PackHooks>(PackHooks{std::move(pack), std::move(unpack)})});
}
SavedTensorHooks::~SavedTensorHooks() {
  // Most often the innermost. One that ends too early, or in another thread, leaves the others as they are.
  const auto mine = std::find_if(pack_hooks.rbegin(), pack_hooks.rend(),
                                 [this](const OpenHooks& each) { return each.owner == this; });
  if (mine == pack_hooks.rend()) return;
  const std::shared_ptr<const PackHooks> gone = std::move(mine->hooks);  // ends after the list is in order again
  pack_hooks.erase(std::next(mine).base());
}

void SavedTensor::save(const Tensor& input) {
  if (!input.defined()) {
    kind_ = Kind::Undefined;
    return;
  }
  check_can_save(input);
  TensorImpl* impl = input.impl();
  const Tape* tape = tape_of(impl);
  version_ = impl->version();
  const bool leaf = tape && tape->requires_grad && !grad_fn_of(input);
  kind_ = leaf ? Kind::Leaf : Kind::Input;
  if (leaf) storage_ = impl->storage.get();
  if (!leaf || !pack_hooks.empty()) {
    history_ = gradient_edge(input);
    output_nr_ = history_.input_nr;
  }
  data_ = leaf ? input : alias_with_tangents(input);
  // A packed tensor would lose its tangents: what forward mode still reads stays as it is.
  if (!pack_hooks.empty() && !(data_.impl()->tracking & detail::kTracksTangent)) [[unlikely]] {
    const std::shared_ptr<const PackHooks> hooks = pack_hooks.back().hooks;
    const Tensor plain = detached_alias(data_);
    const NoGradGuard quiet;
    auto outer = std::exchange(pack_hooks, {});
    struct Restore {
      std::vector<OpenHooks>& saved;
      ~Restore() { pack_hooks = std::move(saved); }
    } restore{outer};
    packed_ = std::make_shared<const PackedTensor>(PackedTensor{hooks->pack(plain), hooks});
    data_ = Tensor();
  }
}

void SavedTensor::save_output(const Tensor& result, uint32_t output_nr, bool dual) {
  if (!result.defined()) {
    kind_ = Kind::Undefined;
    return;
  }
  if (!isDifferentiableType(result.scalar_type())) {
    save(result);  // positions and the like have no history
    return;
  }
  if (dual) {
    Tape& tape = ensure_tape(result);
    if (!tape.tangents) tape.tangents = intrusive_ptr<Tangents>::adopt(new Tangents());
    result.impl()->tracking |= detail::kTracksTangent;
  }
  save(alias_with_tangents(result));
  kind_ = Kind::Output;
  output_nr_ = output_nr;
}

void SavedTensor::save_copy(const Tensor& input) { save(input.clone()); }

namespace {

// Passes of several threads over one graph: one may free what another reads. Held for a few copies of pointers only.
class BriefLock {
 public:
  explicit BriefLock(const void* of)
      : flag_(flags[reinterpret_cast<uintptr_t>(of) / alignof(SavedTensor) % std::size(flags)]) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~BriefLock() { flag_.clear(std::memory_order_release); }
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

 private:
  static inline std::atomic_flag flags[61];
  std::atomic_flag& flag_;
};

Tensor unpack_packed(const PackedTensor& packed, const TapeNode& node) {
  const NoGradGuard quiet;
  settle_pending();  // the hook may use the memory again that it gave back last time
  Tensor back = packed.hooks->unpack(packed.packed);
  FACULA_CHECK(back.defined(), ValueError, node.name(),
               ": unpack of SavedTensorHooks gave an undefined tensor; give back what pack was given");
  return back;
}

}  // namespace

Tensor SavedTensor::unpack(TapeNode& node) const {
  Kind kind;
  Tensor data;
  Edge edge;
  std::shared_ptr<const PackedTensor> packed;
  {
    const BriefLock lock(this);
    kind = kind_;
    data = data_;
    packed = packed_;
    if (GradMode::is_enabled()) edge = history(node);
  }
  if (kind == Kind::Undefined || kind == Kind::Empty) return {};
  if (kind == Kind::Freed)
    throw Error(str(node.name(),
                    ": Trying to backward through the graph a second time (or to read saved tensors after they were "
                    "freed). Saved values of the graph are freed when backward has run; call it with "
                    "retain_graph=True if it must run again"));
  if (packed) {
    const Tensor back = unpack_packed(*packed, node);
    // An alias: what the hook gave may be the user's own, and a gradient may write to what only the tape holds.
    return edge.function ? with_history(detached_alias(back), edge) : detached_alias(back);
  }
  const uint32_t now = data.impl()->version();
  FACULA_CHECK(kind != Kind::Leaf || data.impl()->storage.get() == storage_, Error, node.name(),
               ": a leaf that is needed for gradient computation, ", toString(data.scalar_type()), " ",
               to_text(data.sizes()),
               ", was given other data (set_data, set_) after it was used; run backward before that, or use the leaf "
               "again afterwards");
  if (now != version_) [[unlikely]]
    refuse_modified(node, data, now);
  if (kind == Kind::Leaf || !edge.function) return data;
  return with_history(alias_with_tangents(data), edge);
}

void SavedTensor::refuse_modified(TapeNode& node, const Tensor& data, uint32_t now) const {
  Edge from;
  {
    const BriefLock lock(this);
    from = history(node);
  }
  const std::string made_by = kind_ == Kind::Leaf || !from.function
                                  ? ""
                                  : str(", which is output ", output_nr_, " of ", from.function->name(), ",");
  throw Error(
      str(node.name(),
          ": one of the variables needed for gradient computation has been modified by an inplace operation: [",
          toString(data.scalar_type()), " ", to_text(data.sizes()), "]", made_by, " is at version ", now,
          "; expected version ", version_,
          " instead. Write the result of the in-place operation to a new tensor, or clone the tensor before it is "
          "used. Anomaly mode shows where ",
          node.name(), " was recorded"));
}

Edge SavedTensor::history(TapeNode& node) const {
  if (kind_ != Kind::Output) return history_;
  // A node that only forward mode wanted is nobody's history.
  const bool recorded = std::any_of(node.edges.begin(), node.edges.end(), [](const Edge& e) { return e.is_valid(); });
  return recorded ? Edge{intrusive_ptr<Node>::borrow(&node), output_nr_} : Edge();
}

std::optional<Tensor> SavedTensor::unpack_optional(TapeNode& node) const {
  Tensor t = unpack(node);
  return t.defined() ? std::optional<Tensor>(std::move(t)) : std::nullopt;
}

void SavedTensor::reset() {
  // Destroyed after the lock is gone: they may hold other saved tensors.
  Tensor data;
  Edge history;
  std::shared_ptr<const PackedTensor> packed;
  const BriefLock lock(this);
  if (kind_ == Kind::Empty || kind_ == Kind::Undefined) return;
  data = std::move(data_);
  history = std::exchange(history_, {});
  packed = std::move(packed_);
  kind_ = Kind::Freed;
}

}  // namespace facula::autograd
