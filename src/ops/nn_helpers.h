// What the ops of networks share.
#pragma once

#include "ops/common.h"

#include <limits>
#include <optional>

namespace facula {

inline bool present(const std::optional<Tensor>& t) { return t && t->defined(); }

// Half types compute in float.
constexpr ScalarType working_dtype(ScalarType t) { return t == kDouble ? kDouble : kFloat; }

// Half types compute in float, but kernels of GPUs read weights as they are.
inline ScalarType weight_dtype(const Tensor& weight, ScalarType input) {
  return weight.is_cuda() && weight.scalar_type() == input ? input : working_dtype(input);
}

// -count, ..., -1
inline DimVector last_dims(size_t count) {
  DimVector dims;
  for (size_t d = count; d > 0; --d) dims.push_back(-static_cast<int64_t>(d));
  return dims;
}

constexpr double machine_epsilon(ScalarType t) {
  switch (t) {
    case kHalf: return 0x1p-10;
    case kBFloat16: return 0x1p-7;
    case kDouble: return std::numeric_limits<double>::epsilon();
    default: return std::numeric_limits<float>::epsilon();
  }
}

}  // namespace facula
