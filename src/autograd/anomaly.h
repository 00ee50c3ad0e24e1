// Anomaly mode: where a node was recorded, and which node gave the first NaN.
#pragma once

#include "autograd/tape_node.h"

namespace facula::autograd {

// In anomaly mode: remembers in `node` who calls the op that is being recorded.
void remember_place(TapeNode& node);

// Runs a node: an error of it says where it was recorded, and so does NaN among its gradients. Nodes that are recorded
// meanwhile name it as their origin.
void run_watched(TapeNode& node, ArrayRef<Tensor> incoming, Tensor* gradients);

}  // namespace facula::autograd
