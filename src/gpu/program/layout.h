// The iteration space of a program as kernels see it: dims of size 1 dropped, the rest ordered from the fastest of the first store to
// the slowest, neighbours merged. Decides nothing about kernels.
#pragma once

#include "core/dim_vector.h"
#include "core/shape.h"
#include "program/arguments.h"
#include "program/program.h"

#include <facula/core/array_ref.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace facula::gpu {

inline constexpr size_t kMaxArrays = 32;

// Arrays are numbered loads first, then stores; dim 0 is the innermost. Strides are in elements.
struct Space {
  size_t dims = 0, arrays = 0;
  int64_t count = 1;
  int64_t sizes[kMaxDims];
  void* data[kMaxArrays];
  uint8_t widths[kMaxArrays];  // bytes of an element
  int64_t strides[kMaxArrays][kMaxDims];

  // Drops dim d, at its index `at`: the arrays begin there.
  void fix(size_t d, int64_t at);
  // Makes dim d dim `to`, the others keep their order.
  void move_dim(size_t d, size_t to);
  // Largest distance of an element from the first of its array, in elements.
  int64_t reach() const;
};

// `count` 0 leaves the rest unset. Throws NotSupportedError for more arrays than kMaxArrays.
void build_space(Space& space, const Program& program, IntArrayRef sizes, std::span<const ArrayArg> loads,
                 std::span<const ArrayArg> stores);

// Division by multiplication, for kernels/layout.h: n / divisor for 0 <= n < 2^31 (2^63).
struct Divider32 {
  uint32_t divisor, magic, shift;
};
struct Divider64 {
  uint64_t divisor, magic, shift;
};
Divider32 divider32(uint32_t divisor);
Divider64 divider64(uint64_t divisor);

}  // namespace facula::gpu
