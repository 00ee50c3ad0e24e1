// Reads FACULA_SIMD when the library is loaded and keeps Highway from picking wider instructions.
#include "cpu/simd/simd_limit.h"

#include "core/env.h"
#include "cpu/simd/targets.h"

#include <hwy/highway.h>

#include <cstdio>
#include <string>

namespace facula::cpu {
namespace {

// A wrong value is told and not raised: nobody can catch what is thrown while a library is loaded.
SimdLimit read_limit() {
  const auto text = env(EnvVar::Simd);
  if (!text) return SimdLimit::None;
#if HWY_ARCH_X86
  if (*text == "sse4") return SimdLimit::Sse4;
  if (*text == "avx2") return SimdLimit::Avx2;
  if (*text == "avx512") return SimdLimit::Avx512;
  constexpr const char* kValues = "sse4, avx2 or avx512";
#else
  if (*text == "neon") return SimdLimit::Neon;
  constexpr const char* kValues = "neon";
#endif
  std::fprintf(stderr,
               "facula: environment variable FACULA_SIMD must be %s on this machine, got \"%s\"; it is ignored\n",
               kValues, std::string(*text).c_str());
  return SimdLimit::None;
}

// Highway numbers its targets from the best on, so everything better than one lies below its bit.
SimdLimit apply_limit() {
  const SimdLimit limit = read_limit();
  switch (limit) {
    case SimdLimit::None: break;
    case SimdLimit::Sse4: hwy::DisableTargets(HWY_SSE4 - 1); break;
    case SimdLimit::Avx2: hwy::DisableTargets(HWY_AVX2 - 1); break;
    case SimdLimit::Avx512: hwy::DisableTargets(HWY_AVX3 - 1); break;
    case SimdLimit::Neon: hwy::DisableTargets(HWY_NEON - 1); break;
  }
  return limit;
}

const SimdLimit limit_at_start = apply_limit();

}  // namespace

SimdLimit simd_limit() { return limit_at_start; }

}  // namespace facula::cpu
