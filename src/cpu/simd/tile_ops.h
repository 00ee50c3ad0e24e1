// The table of tile functions: one per (scalar operation, compute type), compiled for each instruction set and chosen at start.
// Formulas are in `program/expr.h`; loads from and stores to memory dtypes are the executor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/scalar_ops.h"

namespace facula::cpu {

// Runs an operation over n elements. Inputs and output are contiguous arrays of the compute type, except: the output is B8 when the
// result is bool, the real type for RealOf, the complex type for ComplexOf; the first input of `where` is B8. Bytes of B8 are 0 or 1.
// `out` may be exactly one of the inputs when the element sizes agree; otherwise it overlaps none. No alignment is asked for, and
// nothing past n elements is read or written. Unused inputs are ignored (may be null).
using TileFn = void (*)(const void* a, const void* b, const void* c, void* out, size_t n);

// Null when the operation does not exist for the type.
TileFn tile_fn(ScalarOp op, CType type);

// An input whose rows are contiguous and lie `apart` bytes from each other (0: every row is the same one), or, as a second input, one whose
// rows are a single element each: x - mean over a row, for one.
struct TileRows {
  const void* data;
  ptrdiff_t apart;
  bool one_element = false;
};

// The same over rows x cols elements for a binary operation of a few instructions; the output's rows follow each other. Null for others.
using TileRowsFn = void (*)(TileRows a, TileRows b, void* out, size_t rows, size_t cols);
TileRowsFn tile_fn_rows(ScalarOp op, CType type);

// A binary operation of a few instructions on contiguous arrays whose result goes to memory past the cache. `out` is at a cache line and the result
// whole lines; the caller ends the stream. Where both inputs come from memory, going through a buffer takes a third more time. Null for other operations.
TileFn tile_fn_streamed(ScalarOp op, CType type);
inline constexpr int64_t kLineBytes = 64;

// The operation on float with inputs and output that are bfloat16 in memory. Null for operations beside which conversions are cheap.
TileFn tile_fn_bfloat16(ScalarOp op);

// Sets n elements at `out` to the one element at `value`.
void fill_tile(CType type, const void* value, void* out, size_t n);

// Name of the instruction set in use: "AVX3", "AVX2", "SSE4", "NEON", ...
const char* active_target();

// Integer division by zero cannot throw inside a tile: such elements come out as 0 and this counter of the calling thread goes up.
// Read it, in the thread that runs the tile, before and after div_floor, div_trunc, remainder or fmod over integers; raise when it moved.
uint64_t division_faults();

// For tests: the instruction sets this machine can run, best first, and the table of each.
std::vector<int64_t> available_targets();
const char* target_name(int64_t target);
TileFn tile_fn_for_target(int64_t target, ScalarOp op, CType type);
TileRowsFn tile_fn_rows_for_target(int64_t target, ScalarOp op, CType type);
TileFn tile_fn_bfloat16_for_target(int64_t target, ScalarOp op);

}  // namespace facula::cpu
