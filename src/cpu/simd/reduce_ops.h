// The table of reduction kernels: one per (reduction, compute type), compiled for each instruction set and chosen at
// start. Kernels reduce one tile; which tiles there are and in which order their states merge is
// `cpu/executor_reduce.cpp`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"

namespace facula::cpu {

// What a reduction remembers between tiles, for many outputs at once: one array per field. Fields that a kernel lacks
// are not set.
struct States {
  static constexpr int kMax = 3;
  void* field[kMax];
};

// A block of elements in the compute type: rows of `cols` contiguous elements. Positions serve the reductions that
// yield an index: element (r, c) stands at first + r * row_step + c * col_step, where steps are not negative.
struct ReduceTile {
  const void* data = nullptr;
  int64_t rows = 0, cols = 0, row_stride = 0;
  int64_t first = 0, row_step = 0, col_step = 0;
  bool goes_on = false;  // what lies behind a row is mostly read next
};

// Every function but those of LogSumExp gives the same bits with every instruction set: sums run in a number of virtual
// lanes that does not depend on the width of vectors, and multiplications are never fused with additions.
struct ReduceKernel {
  int fields = 0;
  uint8_t field_bytes[States::kMax] = {};
  // Results are fields of the state where `finish` is null.
  uint8_t result_field[2] = {};
  // The state over no element.
  void (*empty)(const States& states, int64_t n) = nullptr;
  // One state for each row of the tile.
  void (*rows)(const ReduceTile& tile, const States& states) = nullptr;
  // One state for each column of the tile.
  void (*columns)(const ReduceTile& tile, const States& states) = nullptr;
  // into[i] becomes the state over the elements of both.
  void (*merge)(const States& into, const States& from, int64_t n) = nullptr;
  void (*finish)(const States& states, int64_t n, void* first, void* second) = nullptr;
};

// Null when the reduction does not exist for the type: Sum and Prod take every number, Max, Min and the positions what
// has an order, Any and All B8, Moments and LogSumExp floats. Follows the instruction set in use at each call.
const ReduceKernel* reduce_kernel(ReduceOp op, CType type);

// The same kernel over elements of a dtype that is not its own compute type, read where they lie; same states and
// results. Null for most dtypes and reductions: these go through a tile in the compute type.
const ReduceKernel* reduce_kernel_in_place(ReduceOp op, ScalarType dtype);

}  // namespace facula::cpu
