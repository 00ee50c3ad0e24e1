// Tile functions: arithmetic, integer powers and activations of integers and bool.
#include "cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/tile_ops_arithmetic_int.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd/tile_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {

void fill_arithmetic_int_tiles(cpu::TileTable& table) {
#define FACULA_ADD(name, arity, lanes, promotion, result) add_op<op::name, ScalarOp::name, kLanesIntBool>(table);
  FACULA_SCALAR_OPS_ARITHMETIC(FACULA_ADD)
  FACULA_SCALAR_OPS_EXPLOG(FACULA_ADD)
  FACULA_SCALAR_OPS_ACTIVATION(FACULA_ADD)
#undef FACULA_ADD
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::cpu {

void fill_arithmetic_int(int64_t target, TileTable& table) {
  FACULA_CHOOSE_TARGET(target, fill_arithmetic_int_tiles)(table);
}

}  // namespace facula::cpu
#endif
