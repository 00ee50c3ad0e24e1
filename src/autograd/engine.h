// One backward pass.
#pragma once

#include "autograd/tape_node.h"

namespace facula::autograd {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
};

// Whether what the node that runs now has saved is freed right after it, so that its formula may write to it. Of the
// pass that runs in this thread; false where there is none.
bool saved_is_freed_after();

// Walks from `roots` with their gradients. Without `captures` the gradients are added to the leaves; with them only the
// gradients that arrive at those edges are collected, in their order (undefined where none arrives).
std::vector<Tensor> run_backward(ArrayRef<Edge> roots, ArrayRef<Tensor> grads, ArrayRef<Edge> captures, bool capture,
                                 BackwardOptions options);

}  // namespace facula::autograd
