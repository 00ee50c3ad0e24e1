// Which compute type each dtype has: what memory holds is widened to it, and narrowed from it. The conversions themselves
// belong to each device (`cpu/convert.h`).
#pragma once

#include "program/scalar_ops.h"

#include <facula/core/dtype.h>

namespace facula {

// The compute type that holds every value of `t`. Undefined is not allowed.
constexpr CType compute_type(ScalarType t) {
  switch (t) {
    case ScalarType::Double: return CType::F64;
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::UInt16: return CType::I32;
    case ScalarType::Long:
    case ScalarType::UInt32: return CType::I64;
    case ScalarType::UInt64: return CType::U64;
    case ScalarType::Bool: return CType::B8;
    case ScalarType::ComplexHalf:
    case ScalarType::ComplexFloat: return CType::C64;
    case ScalarType::ComplexDouble: return CType::C128;
    default: return CType::F32;
  }
}

}  // namespace facula
