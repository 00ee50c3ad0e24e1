// The small types that calls are spelt with: dtype, device, layout, memory_format, Size, Generator.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/core/device.h>
#include <facula/core/dtype.h>
#include <facula/core/memory_format.h>

namespace facula::python {

// There is one object for each dtype, layout and memory format, so `is` compares them.
struct DtypeValue {
  ScalarType type;
};
struct LayoutValue {
  Layout layout;
};
struct MemoryFormatValue {
  MemoryFormat format;
};

}  // namespace facula::python
