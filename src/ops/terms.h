// Expressions of several tensors that are computed, and often summed, in one pass: what losses and distances are made of.
#pragma once

#include "core/dim_vector.h"
#include "core/function_ref.h"
#include "program/program.h"

#include <facula/tensor.h>

#include <initializer_list>
#include <span>

namespace facula {

// One expression over broadcast tensors.
struct Terms {
  // Names the program among all others; includes every dtype and choice that `build` depends on.
  uint64_t key;
  // Adds loads (in the order of the tensors), parameters, a reduction or none, and one store.
  FunctionRef<void(Program&)> build;
  std::span<const Tensor> tensors;
  std::initializer_list<double> params;  // in the compute type of `dtype`
  ScalarType dtype;                      // of the result
  const char* op;
};

// The expression for each index of `sizes`, to which the tensors broadcast.
Tensor compute_terms(const Terms& terms, IntArrayRef sizes);
// The same with a program that reduces; bit i of `mask` stands for dim i.
Tensor reduce_terms(const Terms& terms, IntArrayRef sizes, uint64_t mask, bool keepdim);

// Parts of a key: eight bits for the family, then whatever tells programs of a family apart.
constexpr uint64_t terms_key(uint64_t family, std::initializer_list<uint64_t> parts) {
  uint64_t key = family;
  for (uint64_t p : parts) key = key << 8 | (p & 255);
  return key;
}

}  // namespace facula
