// The limit that FACULA_SIMD puts on vector instructions. What is compiled at all is said in targets.h.
#pragma once

namespace facula::cpu {

enum class SimdLimit { None, Sse4, Avx2, Avx512, Neon };

// What the environment said when the library was loaded. Highway's dispatch follows it from then on; oneDNN is told in
// onednn.cpp.
SimdLimit simd_limit();

}  // namespace facula::cpu
