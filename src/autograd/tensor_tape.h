// What the tape knows about one tensor: its gradient, the node that made it, and the tangents of forward mode.
#pragma once

#include "autograd/tape_node.h"

#include <vector>

namespace facula::autograd {

// Tangents of a tensor by level of forward mode, lowest first. Shared between a tensor and the copies that the tape saved.
struct Tangents final : RefCounted {
  struct One {
    uint32_t level;
    Tensor tangent;
  };
  std::vector<One> all;
};

// A batch that looks like one of its entries (vmap): the value has one more dimension, at `dim`.
struct BatchInfo {
  Tensor value;
  int64_t dim;
  uint32_t level;
};

struct Tape final : TensorTape {
  ~Tape() override;
  bool ends(const TensorImpl& impl) override { return !accumulator || accumulator->leaf_ends(impl); }
  void geometry_changed(const TensorImpl& impl) override {
    if (accumulator) accumulator->leaf_changed(impl);
  }
  bool requires_grad = false;  // of a leaf
  bool retains_grad = false;
  uint32_t output_nr = 0;
  uint32_t version_at_history = 0;  // of a view: the version of its storage when grad_fn was set
  intrusive_ptr<TapeNode> grad_fn;
  intrusive_ptr<AccumulateGrad> accumulator;
  intrusive_ptr<GradSlot> slot;
  intrusive_ptr<Tangents> tangents;
  std::unique_ptr<BatchInfo> batch;
  std::string name;
};

inline Tape* tape_of(const TensorImpl* impl) { return static_cast<Tape*>(impl->tape.get()); }
inline Tape* tape_of(const Tensor& t) { return t.defined() ? tape_of(t.impl()) : nullptr; }
Tape& ensure_tape(const Tensor& t);
// Where `.grad` of a tensor is kept; made when asked for.
GradSlot& ensure_slot(const Tensor& t);

// Whether gradients flow to `t`, after what was written to the base of a view has been taken into account.
bool requires_grad(const Tensor& t);
// The node that made `t`, brought up to date for a view whose base was written to; null for leaves.
intrusive_ptr<TapeNode> grad_fn_of(const Tensor& t);
// Where the gradient of `t` goes: its node, or its accumulator; invalid when `t` requires none.
Edge gradient_edge(const Tensor& t);

// Who keeps `.grad` of a tensor that is no leaf keeps it for output `output` of `to`.
void move_retained(Tape& tape, const intrusive_ptr<TapeNode>& to, uint32_t output);
// Makes output `result` of `node`.
void set_history(const Tensor& result, const intrusive_ptr<TapeNode>& node);
// As set_history for a tensor that an in-place op has written: its base, if it has one, gets the history.
void rebase_history(const Tensor& self, const intrusive_ptr<TapeNode>& node);

// The same elements without history, tangents or base.
Tensor detached_alias(const Tensor& t);

}  // namespace facula::autograd
