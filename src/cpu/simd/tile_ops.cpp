// Puts the table of tile functions together for the best instruction set of the machine. The functions are in tile_ops_*.cpp.
#include "cpu/simd/tile_ops.h"

#include <cstring>

#include "cpu/simd/targets.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "cpu/simd/tile_table.h"

namespace facula::cpu {
namespace {

thread_local uint64_t division_fault_count = 0;

constexpr int64_t kTargetsBestFirst[] = {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON};

TileTable make_table(int64_t target) {
  TileTable table;
  fill_arithmetic_float(target, table);
  fill_arithmetic_int(target, table);
  fill_compare(target, table);
  fill_explog(target, table);
  fill_trig(target, table);
  fill_activation(target, table);
  fill_special(target, table);
  fill_complex(target, table);
  return table;
}

int64_t best_target() {
  static const int64_t target = available_targets().front();
  return target;
}

const TileTable& best_table() {
  static const TileTable table = make_table(best_target());
  return table;
}

template <class T>
void fill_with(const void* value, void* out, size_t n) {
  T x;
  std::memcpy(&x, value, sizeof(T));
  T* p = static_cast<T*>(out);
  for (size_t i = 0; i < n; ++i) p[i] = x;
}
struct Bytes16 {
  uint64_t low, high;
};

}  // namespace

TileFn tile_fn(ScalarOp op, CType type) { return best_table().fn[static_cast<size_t>(op)][static_cast<size_t>(type)]; }
TileRowsFn tile_fn_rows(ScalarOp op, CType type) {
  return best_table().fn_rows[static_cast<size_t>(op)][static_cast<size_t>(type)];
}

TileFn tile_fn_streamed(ScalarOp op, CType type) {
  return best_table().fn_streamed[static_cast<size_t>(op)][static_cast<size_t>(type)];
}

TileFn tile_fn_bfloat16(ScalarOp op) { return best_table().fn_bfloat16[static_cast<size_t>(op)]; }

void fill_tile(CType type, const void* value, void* out, size_t n) {
  switch (size_of(type)) {
    case 1: return fill_with<uint8_t>(value, out, n);
    case 4: return fill_with<uint32_t>(value, out, n);
    case 8: return fill_with<uint64_t>(value, out, n);
    default: return fill_with<Bytes16>(value, out, n);
  }
}

const char* active_target() { return target_name(best_target()); }

void note_division_fault() { ++division_fault_count; }
uint64_t division_faults() { return division_fault_count; }

std::vector<int64_t> available_targets() {
  std::vector<int64_t> targets;
  // Highway looks at the processor again and forgets which targets were disabled in what it calls from then on; it is told once more.
  const int64_t allowed = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(allowed);
  const int64_t supported = allowed & (HWY_TARGETS | HWY_ATTAINABLE_TARGETS);
  for (const int64_t target : kTargetsBestFirst) {
    if (supported & target) targets.push_back(target);
  }
  if (targets.empty()) targets.push_back(HWY_STATIC_TARGET);
  return targets;
}

const char* target_name(int64_t target) { return hwy::TargetName(target); }

TileFn tile_fn_for_target(int64_t target, ScalarOp op, CType type) {
  const TileTable table = make_table(target);
  return table.fn[static_cast<size_t>(op)][static_cast<size_t>(type)];
}

TileRowsFn tile_fn_rows_for_target(int64_t target, ScalarOp op, CType type) {
  return make_table(target).fn_rows[static_cast<size_t>(op)][static_cast<size_t>(type)];
}

TileFn tile_fn_bfloat16_for_target(int64_t target, ScalarOp op) {
  return make_table(target).fn_bfloat16[static_cast<size_t>(op)];
}

}  // namespace facula::cpu
