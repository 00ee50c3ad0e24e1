// What a program is run on, the same for every device: arrays and parameters.
#pragma once

#include "program/scalar_ops.h"

#include <facula/core/scalar.h>

#include <cstdint>

namespace facula {

// One array that a program loads from or stores to. Strides are in elements, one for each dim of the iteration space
// (0 along broadcast dims, and along reduced dims for a store).
struct ArrayArg {
  void* data = nullptr;
  const int64_t* strides = nullptr;
};

// A parameter in its compute type.
union ParamValue {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
  uint64_t u64;
  uint8_t b8;
  float c64[2];
  double c128[2];
};
ParamValue param_value(const Scalar& scalar, CType type);

}  // namespace facula
