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
// One set of arrays of a run over many sets: loads first, then stores, each contiguous over `count` elements or, where the
// run says so, one element that serves all of them.
struct ListItem {
  int64_t count = 0;
  void* const* arrays = nullptr;
};

// A run over a list may also reduce: what the program's last store holds is not stored but combined, one result for each stretch
// of kListStretch elements of an item. The stretches depend on counts alone, so the results do too.
enum class ListReduce : uint8_t { Sum, Max };  // Max keeps NaN
inline constexpr int64_t kListStretch = 16384;
constexpr int64_t list_stretches(int64_t count) {
  return count <= kListStretch ? 1 : (count + kListStretch - 1) / kListStretch;
}

ParamValue param_value(const Scalar& scalar, CType type);

}  // namespace facula
