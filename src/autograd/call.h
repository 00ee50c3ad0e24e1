// What generated calls do around the computation of an op when one of its tensors is tracked: make the node, check in-place
// writes, connect results, compute tangents. See docs/autograd.md.
#pragma once

#include "autograd/pending.h"
#include "autograd/saved_tensor.h"
#include "autograd/tensor_tape.h"
#include "core/function_ref.h"
#include "core/generated/op_ids.h"
#include "core/tracking.h"

#include <initializer_list>

namespace facula::autograd {

inline uint8_t tracking_of(const Tensor& t) { return t.defined() ? uint8_t(t.impl()->tracking) : uint8_t(0); }
inline uint8_t tracking_of(const std::optional<Tensor>& t) { return t ? tracking_of(*t) : uint8_t(0); }
inline uint8_t tracking_of(TensorList list) {
  uint8_t all = 0;
  for (const Tensor& t : list) all |= tracking_of(t);
  return all;
}
inline uint8_t tracking_of(ArrayRef<std::optional<Tensor>> list) {
  uint8_t all = 0;
  for (const auto& t : list) all |= tracking_of(t);
  return all;
}
// The flags of the arguments that count in this thread.
template <class... Args>
uint8_t tracked(const Args&... args) {
  const uint8_t flags = (tracking_of(args) | ...);
  if (flags == 0) [[likely]]
    return 0;
  if (flags & kTracksPending) [[unlikely]]
    settle_pending();
  return flags & detail::thread_modes.mask & static_cast<uint8_t>(~kTracksPending);
}

// The tensors of one call that gradients can flow to, in the order of the node's edges.
class Inputs {
 public:
  void add(const Tensor& t) { list_.push_back(&t); }
  void add(const std::optional<Tensor>& t) { list_.push_back(t ? &*t : &undefined()); }
  void add(TensorList list) {
    for (const Tensor& t : list) list_.push_back(&t);
  }
  size_t size() const { return list_.size(); }
  void reserve(size_t count) { list_.reserve(count); }
  const Tensor& operator[](size_t i) const { return *list_[i]; }

 private:
  static const Tensor& undefined();
  SmallVector<const Tensor*, 4> list_;
};

// The node of an op that overwrites `self` with what does not depend on it.
class CutNode final : public TapeNode {
 public:
  std::string name() const override { return "CutBackward0"; }
  void run(ArrayRef<Tensor>, Tensor*) override {}
};

// One tracked call. The generated code makes it, asks it for a node, saves into the node, computes with watching switched
// off, and hands the results over.
class Call {
 public:
  template <class... Args>
  Call(OpId op, uint8_t flags, const Args&... differentiable) : op_(op), flags_(flags) {
    (inputs_.add(differentiable), ...);
    examine();
  }
  // A node of type N when the tape or forward mode wants one, else null.
  template <class N>
  intrusive_ptr<N> node() {
    if (!wants_node_) return nullptr;
    auto made = intrusive_ptr<N>::adopt(new N());
    prepare(*made);
    return made;
  }
  const Inputs& inputs() const { return inputs_; }
  // Whether results will get tangents.
  bool dual() const { return !levels_.empty(); }
  // Before an in-place op: refuses leaves and other tensors that must not be written.
  void check_inplace(const Tensor& self) const;
  // Whether what is written belongs to a base that gets the history: then the result is computed first and copied into the
  // view, so that copying is all that happens to a part of a tensor.
  bool writes_through_view(const Tensor& self) const { return wants_node_ && self.impl()->base; }
  // Before an op with `out=`: refuses tensors that require gradients.
  void check_out() const;

  // After the computation.
  void finish(const intrusive_ptr<TapeNode>& node, const Tensor& result);
  void finish(const intrusive_ptr<TapeNode>& node, ArrayRef<Tensor> results);
  template <class... Ts>
  void finish(const intrusive_ptr<TapeNode>& node, const std::tuple<Ts...>& results) {
    std::apply(
        [&](const auto&... each) {
          const Tensor all[] = {each...};
          finish(node, ArrayRef<Tensor>(all));
        },
        results);
  }
  // A result that is a view of the first input; `again` makes the same view of a tangent.
  void finish_view(const intrusive_ptr<TapeNode>& node, const Tensor& result, FunctionRef<Tensor(const Tensor&)> again);
  void finish_view(const intrusive_ptr<TapeNode>& node, const std::vector<Tensor>& results,
                   FunctionRef<std::vector<Tensor>(const Tensor&)> again);
  void finish_inplace(const intrusive_ptr<TapeNode>& node, const Tensor& self);
  // In-place change of geometry only (`t_`, `squeeze_`).
  void finish_inplace_view(const intrusive_ptr<TapeNode>& node, const Tensor& self,
                           FunctionRef<Tensor(const Tensor&)> again);

 private:
  void examine();
  bool is_input(const Tensor& result) const;
  void prepare(TapeNode& node);

  OpId op_;
  uint8_t flags_;
  bool records_ = false;  // the tape wants a node
  bool wants_node_ = false;
  Inputs inputs_;
  SmallVector<uint32_t, 2> levels_;  // of forward mode, lowest first
  SmallVector<bool, 8> wanted_;
  std::optional<Wanted> choice_;
};

// The tangents of the results of `node` in one level, from the tangents of its inputs (undefined where there is none).
std::vector<Tensor> push_forward(TapeNode& node, const Inputs& inputs, ArrayRef<Tensor> tangents,
                                 ArrayRef<Tensor> results);

// A gradient made to fit the tensor it is for: broadcasting undone, dtype and realness taken over.
// `node` and `index` say in errors where it came from.
Tensor fit_gradient(const Tensor& grad, const OutputInfo& info, const TapeNode& node, size_t index);

// The tangent of `t` at `level`, undefined when there is none; and the levels of forward mode that are open.
Tensor tangent_of(const Tensor& t, uint32_t level);
// Whether `t` has a tangent that is not its base's.
bool has_own_tangent(const Tensor& t, uint32_t level);
void set_tangent(const Tensor& t, uint32_t level, const Tensor& tangent);
uint32_t open_level();
void close_level(uint32_t level) noexcept;
// The levels at which one of `inputs` has a tangent, lowest first, and by input whether it has any.
void find_levels(const Inputs& inputs, SmallVector<uint32_t, 2>& levels, SmallVector<bool, 8>& dual);
// Gives `results` of `node` their tangents of these levels. Input `written`, if any, is the first result, written in place.
// Undefined results get none.
void push_all(TapeNode& node, const Inputs& inputs, ArrayRef<uint32_t> levels, ArrayRef<Tensor> results,
              std::optional<size_t> written, bool recorded);

// While it lives, tangents of the levels that are open now do not count in this thread: for the inside of a function whose
// derivative comes from elsewhere. Levels that open meanwhile count.
class HideTangents : detail::KeepModes {
 public:
  HideTangents();
};

}  // namespace facula::autograd
