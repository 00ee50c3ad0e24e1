// The conversion functions of one instruction set: between convert.cpp, which picks from it, and convert_kernels.cpp,
// which fills it.
#pragma once

#include "cpu/convert.h"

namespace facula::detail {

struct ConvertTable {
  ConvertFn load[kNumScalarTypes];                     // memory -> its compute type
  ConvertFn cast_store[kCTypeCount][kNumScalarTypes];  // compute type -> memory
  ConvertFn direct[kNumScalarTypes][kNumScalarTypes];  // memory -> memory where `load` is not a plain copy; mostly null
};

// The table of the best instruction set this machine has.
const ConvertTable& convert_table();

}  // namespace facula::detail
