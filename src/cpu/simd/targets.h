// Which instruction sets CPU code is compiled for. Include before any Highway header, in every file that includes one, so that all
// translation units agree. Holds macros only.
#pragma once

// The x86 floor is SSE4 (every processor since 2009): anything below would cost compile time and serve no machine of today.
// Variants of AVX-512 beyond HWY_AVX3 bring nothing to arithmetic. SVE vectors have no size at compile time and cannot be members of
// a lane struct. Written as bits since older Highway versions lack the newer names: 0..7 AVX-512 variants, 12..14 below SSE4, 15..27 SVE.
#define HWY_DISABLED_TARGETS (0xFFLL | (7LL << 12) | (0x1FFFLL << 15))
#if defined(__x86_64__) || defined(_M_X64)
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HWY_BASELINE_TARGETS HWY_AVX3
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__) && defined(__F16C__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#else
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#endif
