// FACULA_SIMD: the limit holds for every kernel, whatever was asked before. It is read when the library is loaded, so each case is a process of its own.
#include "cpp/child.h"
#include "cpu/simd/simd_limit.h"
#include "cpu/simd/targets.h"
#include "cpu/simd/tile_ops.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <string>

namespace facula {
namespace {

// The place in the tables of functions that Highway's dispatch takes now, and the one that the limit allows.
size_t chosen() { return hwy::GetChosenTarget().GetIndex(); }
size_t allowed() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return chosen();
}

// The other half of what follows; runs in the child only.
TEST(SimdLimit, DISABLED_Child) {
  ASSERT_NE(cpu::simd_limit(), cpu::SimdLimit::None);
  const size_t wanted = allowed();
  const std::string best = cpu::target_name(cpu::available_targets().front());
  EXPECT_EQ(chosen(), wanted) << "after a look at what there is";
  const Tensor x = randn({70, 130});
  x.sum(1), x.mean(), x.var(0), layer_norm(x, {130}), (x + x).exp(), gather(x, 1, x.argsort(1)), x.t().contiguous();
  EXPECT_EQ(chosen(), wanted) << "after some ops";
  EXPECT_EQ(cpu::active_target(), best);
  const std::string limit = std::getenv("FACULA_SIMD");
  EXPECT_TRUE(best == "SSE4" || best == "NEON" || (limit != "sse4" && best == "AVX2") || limit == "avx512") << best;
}

TEST(SimdLimit, HoldsForEveryKernel) {
#if HWY_ARCH_X86
  for (const char* limit : {"sse4", "avx2", "avx512"}) {
#else
  for (const char* limit : {"neon"}) {
#endif
    const auto child = testing::run_in_child("SimdLimit.DISABLED_Child", std::string("FACULA_SIMD=") + limit);
    EXPECT_EQ(child.status, 0) << limit << ": " << child.output;
    EXPECT_NE(child.output.find("[  PASSED  ] 1 test"), std::string::npos) << child.output;
  }
}

}  // namespace
}  // namespace facula
