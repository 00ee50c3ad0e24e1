// Anomaly mode: where a node was recorded, and which node gave the first NaN.
#pragma once

#include "autograd/tape_node.h"

#include <string>
#include <string_view>

namespace facula::autograd {

// In anomaly mode: remembers in `node` who calls the op that is being recorded, and its name where the node has another.
void remember_place(TapeNode& node, std::string_view op = {});

// Who calls the library now, as `function at file:line`; empty where nothing is known but the file of the program.
std::string calling_place();

// All entries of a batch; other tensors are themselves.
Tensor without_batch(const Tensor& t);

// Whether a tensor of floats holds NaN; that of a batch, whether one of its entries does.
bool has_nan(const Tensor& t);

// Runs a node: an error of it says where it was recorded, and so does NaN among its gradients. Nodes that are recorded
// meanwhile name it as their origin.
void run_watched(TapeNode& node, ArrayRef<Tensor> incoming, Tensor* gradients);

}  // namespace facula::autograd
