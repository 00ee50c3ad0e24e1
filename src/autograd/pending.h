// Gradients that are known but not computed yet. While the engine walks pointwise nodes, their formulas are strung together, and
// what flows along the edges are tensors with a geometry and no memory; one program then computes all that is still wanted
// (src/ops/gradients/pending.cpp). Any op that is given such a tensor settles first, so nobody else needs to know.
#pragma once

#include "core/tensor_impl.h"

#include <cstdint>
#include <memory>

namespace facula::autograd {

using detail::kTracksPending;

inline bool is_pending(const Tensor& t) { return t.defined() && (t.impl()->tracking & kTracksPending); }

// The pending gradients of one backward pass. All of them have one shape, one dtype and one device.
class PendingGradients {
 public:
  struct Chain;
  PendingGradients();
  ~PendingGradients();
  PendingGradients(const PendingGradients&) = delete;
  PendingGradients& operator=(const PendingGradients&) = delete;

  // Whether formulas wait to be run.
  bool any() const { return any_; }
  // Runs them: every pending tensor that somebody still holds has its memory afterwards.
  void settle();
  // The sum of two gradients of one shape, of which one is pending; undefined when they cannot be added in this chain.
  Tensor sum(const Tensor& a, const Tensor& b);
  // Whether a formula that waits will read this memory.
  bool reads(const StorageImpl* storage) const;

  // The gradient that the running node was given, if what is computed from it may wait.
  const TensorImpl* incoming = nullptr;
  std::unique_ptr<Chain> chain;

 private:
  bool any_ = false;
  friend struct Chain;
};

// Those of the backward pass that runs in this thread, null where there is none.
extern constinit thread_local PendingGradients* pending_gradients __attribute__((tls_model("initial-exec")));

// Before anything that may change or look at memory of which the engine does not know: hooks, foreign code.
inline void settle_pending() {
  if (pending_gradients && pending_gradients->any()) pending_gradients->settle();
}

// Gradients of fewer elements are computed node by node: there the work saved is less than the bookkeeping.
// INT64_MAX computes all of them so.
int64_t least_fused_elements();
void set_least_fused_elements(int64_t count);

// How many programs this thread has run for gradients so far, and how many formulas were part of them.
struct GradientPrograms {
  uint64_t programs = 0, formulas = 0;
};
GradientPrograms gradient_programs();

}  // namespace facula::autograd
