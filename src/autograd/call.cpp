// The work around a tracked call that does not depend on the op.
#include "autograd/call.h"

#include "autograd/anomaly.h"
#include "core/shape.h"

#include <facula/autograd/autograd.h>
#include <facula/tensors.h>

#include <algorithm>

namespace facula::autograd {

const Tensor& Inputs::undefined() {
  static const Tensor none;
  return none;
}

namespace {

// The tangents of what `t` is a view of, null when there are none.
const Tangents* tangents_of_base(const Tensor& t) {
  if (!t.defined() || !t.impl()->base || !(t.impl()->base->tracking & detail::kTracksTangent)) return nullptr;
  const Tape* tape = tape_of(t.impl()->base.get());
  return tape ? tape->tangents.get() : nullptr;
}

}  // namespace

void Call::examine() {
  const size_t count = inputs_.size();
  if (detail::thread_modes.grad && (flags_ & (detail::kTracksGrad | detail::kTracksView)))
    for (size_t i = 0; i < count && !records_; ++i) records_ = requires_grad(inputs_[i]);
  wants_node_ = records_;
  bool dual_base = false;  // views have the tangents of their bases, even if those came later
  if (flags_ & detail::kTracksView)
    for (size_t i = 0; i < count; ++i) dual_base |= tangents_of_base(inputs_[i]) != nullptr;
  if (!(flags_ & detail::kTracksTangent) && !(dual_base && (detail::thread_modes.mask & detail::kTracksTangent)))
      [[likely]]
    return;
  find_levels(inputs_, levels_, wanted_);
  for (size_t i = 0; i < count; ++i) wanted_[i] = wanted_[i] || (records_ && requires_grad(inputs_[i]));
  wants_node_ = records_ || dual();
}

void find_levels(const Inputs& inputs, SmallVector<uint32_t, 2>& levels, SmallVector<bool, 8>& dual) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool any = false;
    const auto look = [&](const Tangents* tangents) {
      if (!tangents) return;
      for (size_t k = 0; k < tangents->all.size(); ++k) {
        const uint32_t level = tangents->all[k].level;
        if (!tangent_of(inputs[i], level).defined()) continue;
        any = true;
        if (std::find(levels.begin(), levels.end(), level) == levels.end()) levels.push_back(level);
      }
    };
    look(tangents_of_base(inputs[i]));
    if (const Tape* tape = tape_of(inputs[i])) look(tape->tangents.get());
    dual.push_back(any);
  }
  std::sort(levels.begin(), levels.end());
}

void Call::prepare(TapeNode& node) {
  node.edges.reserve(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& input = inputs_[i];
    node.add_edge(records_ ? gradient_edge(input) : Edge{});
    if (const Tape* tape = tape_of(input); tape && tape->accumulator && tape->accumulator->has_accumulated_hooks())
      node.extras().keep_alive.push_back(input);
  }
  if (dual()) choice_.emplace(&node, wanted_.data());
  if (AnomalyMode::is_enabled()) [[unlikely]]
    remember_place(node, op_name(op_));
}

void Call::check_inplace(const Tensor& self) const {
  const TensorImpl* impl = self.impl();
  const std::string_view op = op_name(op_);
  FACULA_CHECK(
      !(impl->tracking & detail::kTracksInference) || detail::thread_modes.inference, Error, op,
      ": Inplace update to inference tensor outside InferenceMode is not allowed. Make a clone to get a normal "
      "tensor before writing to it");
  if (!detail::thread_modes.grad) return;
  const Tape* tape = tape_of(impl);
  FACULA_CHECK(!(tape && tape->requires_grad && !tape->grad_fn), Error, op,
               ": a leaf Variable that requires grad is being used in an in-place operation. Write to it under "
               "no_grad (NoGradGuard), or use the form that is not in place");
  if (!impl->base) return;
  const Tape* base = tape_of(impl->base.get());
  const bool of_recorded = base && (base->requires_grad || base->grad_fn);
  FACULA_CHECK(
      impl->view_kind != ViewKind::Unrecorded || !(records_ || of_recorded), Error, op,
      ": A view was created in no_grad mode and is being modified inplace with grad mode enabled. Make the view "
      "outside of no_grad (NoGradGuard), or write under it");
  if (!records_) return;
  FACULA_CHECK(
      impl->view_kind != ViewKind::Custom, Error, op,
      ": this tensor is a view that a custom function returned, and is being modified inplace. The gradient of "
      "the write would take the place of that function's own backward; clone what the function returns first");
  FACULA_CHECK(
      !(base && base->requires_grad && !base->grad_fn), Error, op,
      ": a view of a leaf Variable that requires grad is being used in an in-place operation. Write to it under "
      "no_grad (NoGradGuard), or clone the leaf first");
  FACULA_CHECK(impl->dtype == impl->base->dtype, NotSupportedError, op,
               ": in-place writing through a view of another dtype is not recorded; write to the viewed tensor (",
               toString(impl->base->dtype), ") instead");
}

void Call::check_out() const {
  FACULA_CHECK(
      !(flags_ & detail::kTracksBatch), NotSupportedError, op_name(op_),
      ": out=... is not possible inside vmap, where a tensor stands for every entry of a batch; use the form that "
      "returns its result");
  if (!detail::thread_modes.grad || !records_) return;
  throw Error(
      str(op_name(op_),
          "(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
          "requires grad. Use the form that returns its result, or call it under no_grad (NoGradGuard)"));
}

// Ops that have nothing to do may give their input back; it has its history already.
bool Call::is_input(const Tensor& result) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (result.is_same(inputs_[i])) return true;
  return false;
}

void Call::finish(const intrusive_ptr<TapeNode>& node, const Tensor& result) {
  finish(node, ArrayRef<Tensor>(&result, 1));
}

void Call::finish(const intrusive_ptr<TapeNode>& node, ArrayRef<Tensor> results) {
  if (!node) return;
  for (const Tensor& result : results) {
    // Some ops give a view of a temporary: nobody else has that, and history belongs to the result.
    TensorImpl* impl = result.impl();
    if (!impl || !impl->base) continue;
    impl->base.reset();
    impl->tracking &= static_cast<uint8_t>(~detail::kTracksView);
  }
  choice_.reset();
  if (records_)
    for (const Tensor& result : results)
      if (!is_input(result)) set_history(result, node);
  if (dual()) push_all(*node, inputs_, ArrayRef<uint32_t>(levels_.data(), levels_.size()), results, {}, records_);
}

void Call::finish_view(const intrusive_ptr<TapeNode>& node, const Tensor& result,
                       FunctionRef<Tensor(const Tensor&)> again) {
  TensorImpl* impl = result.impl();
  if (impl->base) impl->set_view_kind(inputs_[0].impl(), detail::thread_modes.grad);
  if (!node) return;
  choice_.reset();
  if (is_input(result)) return;
  if (records_) {
    set_history(result, node);
    // What as_strided shows of memory need not be part of the view that it was called on: the history begins at the base.
    if (op_ == OpId::as_strided && inputs_[0].impl()->base && impl->view_kind == ViewKind::Recorded && impl->base)
      --tape_of(impl)->version_at_history;
  }
  for (const uint32_t level : levels_) {
    const Tensor tangent = tangent_of(inputs_[0], level);
    if (tangent.defined()) set_tangent(result, level, again(tangent));
  }
}

void Call::finish_view(const intrusive_ptr<TapeNode>& node, const std::vector<Tensor>& results,
                       FunctionRef<std::vector<Tensor>(const Tensor&)> again) {
  for (const Tensor& result : results)
    if (result.impl()->base) result.impl()->set_view_kind(inputs_[0].impl(), detail::thread_modes.grad);
  if (!node) return;
  choice_.reset();
  if (records_)
    for (const Tensor& result : results) set_history(result, node);
  for (const uint32_t level : levels_) {
    const Tensor tangent = tangent_of(inputs_[0], level);
    if (!tangent.defined()) continue;
    const std::vector<Tensor> parts = again(tangent);
    for (size_t i = 0; i < results.size(); ++i) set_tangent(results[i], level, parts[i]);
  }
}

void Call::finish_inplace(const intrusive_ptr<TapeNode>& node, const Tensor& self) {
  if (!node) return;
  choice_.reset();
  if (records_) rebase_history(self, node);
  if (dual())
    push_all(*node, inputs_, ArrayRef<uint32_t>(levels_.data(), levels_.size()), ArrayRef<Tensor>(&self, 1), 0,
             records_);
}

void Call::finish_inplace_view(const intrusive_ptr<TapeNode>& node, const Tensor& self,
                               FunctionRef<Tensor(const Tensor&)> again) {
  if (!node) return;
  choice_.reset();
  if (records_) set_history(self, node);
  for (const uint32_t level : levels_) {
    const Tensor tangent = tangent_of(self, level);
    if (tangent.defined()) set_tangent(self, level, again(tangent));
  }
}

// Forward mode.

namespace {

thread_local std::vector<uint32_t> open_levels;
// Tangents that recorded nodes share with the results they saved. The history of such a tangent may lead back to the node:
// the end of the level cuts that circle.
thread_local std::vector<intrusive_ptr<Tangents>> shared_tangents;
std::atomic<uint32_t> next_level{1};

class TangentLimit {
 public:
  explicit TangentLimit(uint32_t level) : before_(detail::thread_modes.tangent_limit) {
    detail::thread_modes.tangent_limit = std::min(before_, level);
  }
  ~TangentLimit() { detail::thread_modes.tangent_limit = before_; }
  TangentLimit(const TangentLimit&) = delete;
  TangentLimit& operator=(const TangentLimit&) = delete;

 private:
  uint32_t before_;
};

bool all_real(const Inputs& inputs, ArrayRef<Tensor> results) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].is_complex()) return false;
  for (const Tensor& r : results)
    if (r.defined() && r.is_complex()) return false;
  return true;
}

}  // namespace

HideTangents::HideTangents() { detail::thread_modes.tangent_floor = next_level.load(); }

uint32_t open_level() {
  const uint32_t level = next_level.fetch_add(1);
  open_levels.push_back(level);
  return level;
}
void close_level(uint32_t level) noexcept {
  // Most often the innermost. One that ends too early, or in another thread, leaves the others as they are.
  std::erase(open_levels, level);
  const auto shared = open_levels.empty() ? std::exchange(shared_tangents, {}) : shared_tangents;
  for (const auto& each : shared) {
    std::vector<Tensor> gone;  // freed after the list is in order again
    std::erase_if(each->all, [&](const Tangents::One& one) {
      if (one.level == level) gone.push_back(one.tangent);
      return one.level == level;
    });
  }
}

namespace {

const Tensor* find_level(const Tangents& tangents, uint32_t level) {
  for (const auto& one : tangents.all)
    if (one.level == level) return &one.tangent;
  return nullptr;
}

// Memory that lies as that of `base` does, with `entries` where its view `part` is and zeros elsewhere: the whole, and the
// part of it.
std::pair<Tensor, Tensor> tangent_around(const Tensor& base, const Tensor& part, const Tensor& entries) {
  const int64_t extent = storage_extent(base.sizes(), base.strides(), 0);
  const int64_t offset = part.storage_offset() - base.storage_offset();
  Tensor memory = zeros({extent}, entries.options());
  if (entries.impl()->tracking & detail::kTracksBatch) {
    const Tensor places =
        arange(extent, entries.options().dtype(kLong)).as_strided(part.sizes(), part.strides(), offset);
    memory = memory.index_copy(0, places.reshape({-1}), entries.reshape({-1}));
  } else {
    memory.as_strided(part.sizes(), part.strides(), offset).copy_(entries);
  }
  const int64_t start = memory.storage_offset();
  return {memory.as_strided(base.sizes(), base.strides(), start),
          memory.as_strided(part.sizes(), part.strides(), start + offset)};
}

}  // namespace

bool has_own_tangent(const Tensor& t, uint32_t level) {
  const Tape* tape = tape_of(t);
  return tape && tape->tangents && find_level(*tape->tangents, level);
}

Tensor tangent_of(const Tensor& t, uint32_t level) {
  const Tape* tape = tape_of(t);
  if (!t.defined() || level >= detail::thread_modes.tangent_limit || level < detail::thread_modes.tangent_floor)
    return {};
  if (std::find(open_levels.begin(), open_levels.end(), level) == open_levels.end()) return {};
  if (tape && tape->tangents)
    if (const Tensor* own = find_level(*tape->tangents, level)) return *own;
  const Tangents* of_base = tangents_of_base(t);
  const Tensor* whole = of_base ? find_level(*of_base, level) : nullptr;
  if (!whole || !whole->defined()) return {};
  // The base got its tangent after this view was made. Where the two do not lie alike the base takes a copy that does.
  const Tensor base(t.impl()->base);
  Tensor alike = *whole;
  if (alike.strides() != base.strides()) {
    alike = tangent_around(base, base, alike).first;
    set_tangent(base, level, alike);
  }
  const Tensor part =
      alike.as_strided(t.sizes(), t.strides(), alike.storage_offset() + t.storage_offset() - base.storage_offset());
  set_tangent(t, level, part);
  return part;
}

namespace {

// Views of a tensor have the same views of its tangent, so both must lie alike in memory.
Tensor laid_out_as(const Tensor& tangent, const Tensor& t) {
  const TensorImpl *from = tangent.impl(), *to = t.impl();
  if (IntArrayRef(from->strides) == IntArrayRef(to->strides) ||
      ((from->tracking | to->tracking) & detail::kTracksBatch))
    return tangent;
  if (to->contiguous) return tangent.contiguous();
  if (!is_non_overlapping_and_dense(to->sizes, to->strides)) return tangent;
  DimVector order, back(to->sizes.size());
  for (int64_t d = 0; d < to->dim(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return to->strides[static_cast<size_t>(a)] > to->strides[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return tangent.permute(order).contiguous().permute(back);
}

}  // namespace

void set_tangent(const Tensor& t, uint32_t level, const Tensor& given) {
  const Tensor tangent = laid_out_as(given, t);
  Tape& tape = ensure_tape(t);
  if (!tape.tangents) tape.tangents = intrusive_ptr<Tangents>::adopt(new Tangents());
  t.impl()->tracking |= detail::kTracksTangent;
  for (auto& one : tape.tangents->all) {
    if (one.level == level) {
      one.tangent = tangent;
      return;
    }
  }
  tape.tangents->all.push_back({level, tangent});
}

namespace {

// The gradient of input `i` that a user's backward gave is not connected to the incoming ones. That is right when it is zero
// whatever comes in; otherwise its derivative is unknown.
void check_is_zero(TapeNode& node, ArrayRef<Tensor> zero_grads, const SmallVector<bool, 8>& wanted, size_t i) {
  const NoGradGuard quiet;
  std::vector<Tensor> some(zero_grads.size());
  for (size_t j = 0; j < some.size(); ++j) {
    if (!zero_grads[j].defined()) continue;
    const Tensor like = detached_alias(zero_grads[j]);
    some[j] = arange(1, like.numel() + 1, TensorOptions(kDouble)).sqrt().reshape(like.sizes()).to(like.options());
  }
  SmallVector<Tensor, 4> out(wanted.size());
  {
    const Wanted choice(&node, wanted.data());
    node.run(some, out.data());
  }
  FACULA_CHECK(!out[i].defined() || !out[i].ne(0).any().item<bool>(), NotSupportedError, node.name(),
               ": forward mode needs the derivative of backward by the gradients that it gets, and the tape has not "
               "recorded how gradient ",
               i,
               " comes about; write backward with ops (no detach(), no_grad or data pointers), or use reverse mode "
               "(backward, or vjp and jacrev of func)");
}

}  // namespace

std::vector<Tensor> push_forward(TapeNode& node, const Inputs& inputs, ArrayRef<Tensor> tangents,
                                 ArrayRef<Tensor> results) {
  const size_t count = inputs.size();
  std::vector<Tensor> found(results.size());
  if (node.elementwise() && all_real(inputs, results)) {
    // Where every result entry depends on its own input entries, the derivative is symmetric.
    for (size_t i = 0; i < count; ++i) {
      if (!tangents[i].defined()) continue;
      SmallVector<bool, 8> wanted(count);
      wanted[i] = true;
      SmallVector<Tensor, 4> out(count);
      const Wanted choice(&node, wanted.data());
      const Tensor seed[] = {tangents[i].to(results[0].scalar_type())};
      node.run(seed, out.data());
      if (!out[i].defined()) continue;
      found[0] = found[0].defined() ? found[0] + out[i] : out[i];
    }
    if (found[0].defined() && found[0].sizes() != results[0].sizes())
      found[0] = found[0].expand(results[0].sizes()).contiguous();
    if (found[0].defined()) found[0] = found[0].to(results[0].scalar_type());
    return found;
  }
  // Otherwise: gradients are linear in the incoming ones, g -> J^H g; the derivative of that map, applied backwards to the
  // tangents, is J t.
  const bool recording = GradMode::is_enabled();
  std::vector<Tensor> grads(results.size());
  variable_list pulled, weights, seeds;
  {
    const AutoGradMode record(true);
    for (size_t j = 0; j < results.size(); ++j) {
      if (!results[j].defined() || !isDifferentiableType(results[j].scalar_type())) continue;
      grads[j] = zeros_like(detached_alias(results[j]));
      grads[j].requires_grad_(true);
      seeds.push_back(grads[j]);
    }
    SmallVector<bool, 8> wanted(count);
    for (size_t i = 0; i < count; ++i) wanted[i] = tangents[i].defined();
    SmallVector<Tensor, 4> out(count);
    {
      const Wanted choice(&node, wanted.data());
      node.run(grads, out.data());
    }
    for (size_t i = 0; i < count; ++i) {
      if (!out[i].defined() || !wanted[i]) continue;
      OutputInfo info;
      info.sizes = inputs[i].sizes();
      info.dtype = inputs[i].scalar_type();
      info.device = inputs[i].device();
      Tensor fitted = fit_gradient(out[i], info, node, i);
      if (node.written_by_user()) {
        // One by one, since each must turn out to be connected to what came in.
        variable_list by_seed(seeds.size());
        if (requires_grad(fitted)) by_seed = grad({fitted}, seeds, {tangents[i]}, true, recording, true);
        if (std::none_of(by_seed.begin(), by_seed.end(), [](const Tensor& t) { return t.defined(); }))
          check_is_zero(node, grads, wanted, i);
        for (size_t j = 0, k = 0; j < results.size(); ++j) {
          if (!grads[j].defined()) continue;
          const Tensor& part = by_seed[k++];
          if (part.defined()) found[j] = found[j].defined() ? found[j] + part : part;
        }
        continue;
      }
      if (!requires_grad(fitted)) continue;
      pulled.push_back(std::move(fitted));
      weights.push_back(tangents[i]);
    }
  }
  if (pulled.empty()) return found;
  const variable_list pushed = grad(pulled, seeds, weights, false, recording, true);
  for (size_t j = 0, k = 0; j < results.size(); ++j)
    if (grads[j].defined()) found[j] = pushed[k++];
  return found;
}

namespace {

const BatchInfo* batch_in(const Tensor& t) {
  return t.impl()->tracking & detail::kTracksBatch ? tape_of(t)->batch.get() : nullptr;
}

// Whether `t` is a batch at every level where `other` is one.
bool in_batches_of(const Tensor& t, const Tensor& other) {
  for (const BatchInfo* wanted = batch_in(other); wanted; wanted = batch_in(wanted->value)) {
    const BatchInfo* own = batch_in(t);
    while (own && own->level != wanted->level) own = batch_in(own->value);
    if (!own) return false;
  }
  return true;
}

// In-place ops write to the tangents of their tensors: a tangent shares no memory with those it came from, and that of a
// batch is a batch.
Tensor with_own_memory(const Tensor& tangent, ArrayRef<Tensor> sources, const Tensor& result) {
  if (!in_batches_of(tangent, result)) return tangent + zeros_like(result.detach());
  const auto shares = [&](const Tensor& source) {
    return source.defined() && source.impl()->storage.get() == tangent.impl()->storage.get();
  };
  return std::any_of(sources.begin(), sources.end(), shares) ? tangent.clone() : tangent;
}

}  // namespace

void push_all(TapeNode& node, const Inputs& inputs, ArrayRef<uint32_t> levels, ArrayRef<Tensor> results,
              std::optional<size_t> written, bool recorded) {
  if (written) {
    Tape& tape = ensure_tape(results[0]);
    auto fresh = intrusive_ptr<Tangents>::adopt(new Tangents());
    if (tape.tangents) {
      fresh->all = tape.tangents->all;
      if (recorded) shared_tangents.push_back(tape.tangents);
    }
    tape.tangents = fresh;
  }
  for (const uint32_t level : levels) {
    std::vector<Tensor> tangents(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) tangents[i] = tangent_of(inputs[i], level);
    const TangentLimit limit(level);
    // What the tape saves of the tangent that is about to be overwritten must stay.
    Tensor overwritten = written ? tangents[*written] : Tensor();
    if (overwritten.defined() && GradMode::is_enabled()) tangents[*written] = overwritten.clone();
    std::vector<Tensor> pushed = push_forward(node, inputs, tangents, results);
    for (size_t j = 0; j < results.size(); ++j)
      if (pushed[j].defined()) pushed[j] = with_own_memory(pushed[j], tangents, results[j]);
    for (size_t j = 0; j < results.size(); ++j) {
      if (!results[j].defined()) continue;
      if (overwritten.defined()) {
        // Views of the tensor have views of its tangent: write through.
        if (pushed[j].defined()) overwritten.copy_(pushed[j]);
        else overwritten.zero_();
      } else if (pushed[j].defined()) {
        if (written && results[j].impl()->base) {
          // The first tangent that a part of a tensor gets: the whole has one now.
          const Tensor base(results[j].impl()->base);
          const auto [whole, part] = tangent_around(base, results[j], pushed[j]);
          set_tangent(base, level, whole);
          pushed[j] = part;
        }
        set_tangent(results[j], level, pushed[j]);
      }
    }
  }
  if (!recorded) return;
  for (const Tensor& result : results)
    if (const Tape* tape = tape_of(result); tape && tape->tangents) shared_tangents.push_back(tape->tangents);
}

Tensor fit_gradient(const Tensor& grad, const OutputInfo& info, const TapeNode& node, size_t index) {
  Tensor fitted = grad;
  if (grad.sizes() != IntArrayRef(info.sizes)) {
    const IntArrayRef have = grad.sizes(), want = info.sizes;
    bool fits = have.size() >= want.size();
    const size_t extra = fits ? have.size() - want.size() : 0;
    for (size_t d = 0; fits && d < want.size(); ++d) fits = want[d] == have[extra + d] || want[d] == 1;
    FACULA_CHECK(fits, ShapeError, node.name(), ": returned an invalid gradient at index ", index, " - got ",
                 to_text(have), " but expected shape compatible with ", to_text(want),
                 "; give a gradient of the shape of the input");
    DimVector summed;
    for (size_t d = 0; d < have.size(); ++d)
      if (d < extra || want[d - extra] != have[d]) summed.push_back(static_cast<int64_t>(d));
    // A view would share its memory with what it is of, and whoever keeps the gradient would copy it.
    const bool leading_only = summed.size() == extra;
    fitted = fitted.sum(IntArrayRef(summed), !leading_only);
    if (extra && !leading_only) fitted = fitted.view(want);
  }
  if (fitted.scalar_type() != info.dtype) {
    if (fitted.is_complex() && !isComplexType(info.dtype)) fitted = real(fitted);
    if (fitted.scalar_type() != info.dtype) fitted = fitted.to(info.dtype);
  }
  // Ops that copy to another device hand their gradient on as it is.
  if (fitted.device() != info.device && !node.written_by_user()) fitted = fitted.to(info.device);
  FACULA_CHECK(fitted.device() == info.device, DeviceError, node.name(), ": returned a gradient at index ", index,
               " on ", fitted.device().str(), " for a tensor on ", info.device.str(),
               "; move it there with .to(device)");
  return fitted;
}

}  // namespace facula::autograd
