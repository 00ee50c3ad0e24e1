// How the tile functions of several translation units come together in one table per instruction set. Private to `cpu/simd`.
#pragma once

#include "cpu/simd/tile_ops.h"

namespace facula::cpu {

struct TileTable {
  TileFn fn[kScalarOpCount][kCTypeCount] = {};
  TileRowsFn fn_rows[kScalarOpCount][kCTypeCount] = {};  // binary operations on rows that lie apart or repeat
  TileFn fn_streamed[kScalarOpCount][kCTypeCount] = {};  // binary operations whose result goes past the cache
  TileFn fn_bfloat16[kScalarOpCount] = {};               // float operations on bfloat16 in memory
};

// Each puts its group of operations, compiled for `target` (a HWY_* bit), into the table.
void fill_arithmetic_float(int64_t target, TileTable& table);
void fill_arithmetic_int(int64_t target, TileTable& table);
void fill_compare(int64_t target, TileTable& table);
void fill_explog(int64_t target, TileTable& table);
void fill_trig(int64_t target, TileTable& table);
void fill_activation(int64_t target, TileTable& table);
void fill_special(int64_t target, TileTable& table);
void fill_complex(int64_t target, TileTable& table);

// Called by tiles that met an integer division by zero.
void note_division_fault();

// The copy of a per-target function for `target`; the static target's where it was not compiled.
#define FACULA_CHOOSE_TARGET(target, function)                          \
  ([](int64_t wanted) -> decltype(&HWY_STATIC_DISPATCH(function)) {     \
    decltype(&HWY_STATIC_DISPATCH(function)) chosen = nullptr;          \
    if (wanted == HWY_AVX3) chosen = HWY_CHOOSE_AVX3(function);         \
    if (wanted == HWY_AVX2) chosen = HWY_CHOOSE_AVX2(function);         \
    if (wanted == HWY_SSE4) chosen = HWY_CHOOSE_SSE4(function);         \
    if (wanted == HWY_NEON) chosen = HWY_CHOOSE_NEON(function);         \
    return chosen != nullptr ? chosen : &HWY_STATIC_DISPATCH(function); \
  }(target))

}  // namespace facula::cpu
