// What every kernel starts from: integers of fixed width, lanes and shuffles, shared memory, bits. Read by the run-time compilers
// of both vendors, and by the host compiler for the software GPU (SIMGPU).
#pragma once

#if defined(__HIPCC_RTC__) || defined(__HIP_PLATFORM_AMD__) || defined(__HIP__)
#define FACULA_HIP 1
#else
#define FACULA_HIP 0
#endif
// Whether inline PTX and what it needs are there.
#if !FACULA_HIP && !defined(SIMGPU) && defined(__CUDA_ARCH__)
#define FACULA_PTX __CUDA_ARCH__
#else
#define FACULA_PTX 0
#endif

// Of our own namespace: compilers differ in what they declare globally.
namespace facula {
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
}  // namespace facula
#define FACULA_EXPR_INTS_

#include "program/expr_scalar.h"

#if defined(SIMGPU)
#define FACULA_UNROLL
#define FACULA_NO_UNROLL
#else
#define FACULA_UNROLL _Pragma("unroll")
#define FACULA_NO_UNROLL _Pragma("unroll 1")
#endif

// Shared memory whose size the launch says; aligned for 16-byte accesses. One for each kernel.
#if defined(SIMGPU)
#define FACULA_DYNAMIC_SHARED(type, name) type* name = (type*)simgpu_dynamic_shared()
#else
#define FACULA_DYNAMIC_SHARED(type, name)                \
  extern __shared__ uint4 facula_dynamic_shared_bytes[]; \
  type* name = reinterpret_cast<type*>(facula_dynamic_shared_bytes)
#endif

namespace facula {

using expr::Complex;

// Threads of a warp; differs between chips of one vendor, whose compiler says it.
#ifndef FACULA_LANES
#if FACULA_HIP && defined(__AMDGCN_WAVEFRONT_SIZE)
#define FACULA_LANES __AMDGCN_WAVEFRONT_SIZE
#else
#define FACULA_LANES 32
#endif
#endif
inline constexpr int kLanes = FACULA_LANES;

FACULA_DEVICE int lane_index() { return static_cast<int>(threadIdx.x) & (kLanes - 1); }
FACULA_DEVICE void block_barrier() { __syncthreads(); }

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

template <int k>
struct Int {
  static constexpr int value = k;
};
// f(Int<0>()), f(Int<1>()), ...: loops whose index chooses types.
template <int kEnd, int k = 0, class F>
FACULA_DEVICE void for_each_index(F&& f) {
  if constexpr (k < kEnd) {
    f(Int<k>());
    for_each_index<kEnd, k + 1>(f);
  }
}

// The bits of a value as another type of the same size.
template <class To, class From>
FACULA_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits_as: sizes differ");
  union Both {
    From from;
    To to;
    FACULA_DEVICE Both() {}
  } both;
  both.from = from;
  return both.to;
}
FACULA_DEVICE uint32_t float_bits(float x) {
#if defined(SIMGPU)
  return bits_as<uint32_t>(x);
#else
  return static_cast<uint32_t>(__float_as_int(x));
#endif
}
FACULA_DEVICE float float_of_bits(uint32_t x) {
#if defined(SIMGPU)
  return bits_as<float>(x);
#else
  return __int_as_float(static_cast<int>(x));
#endif
}
FACULA_DEVICE uint64_t double_bits(double x) {
#if defined(SIMGPU)
  return bits_as<uint64_t>(x);
#else
  return static_cast<uint64_t>(__double_as_longlong(x));
#endif
}

// 2 to the power of x, to 22 bits; 0 in place of what is subnormal.
FACULA_DEVICE float short_exp2(float x) {
#if FACULA_PTX
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return ::exp2f(x);
#endif
}

// High halves of products.
FACULA_DEVICE uint32_t multiply_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
FACULA_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) {
#if defined(SIMGPU)
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#else
  return __umul64hi(a, b);
#endif
}

// What another lane of the warp holds, for values of any type. All lanes of the warp must take part.
namespace detail {
#if FACULA_HIP
FACULA_DEVICE int word_xor(int word, int mask) { return __shfl_xor(word, mask, kLanes); }
FACULA_DEVICE int word_down(int word, int distance) { return __shfl_down(word, distance, kLanes); }
FACULA_DEVICE int word_up(int word, int distance) { return __shfl_up(word, distance, kLanes); }
FACULA_DEVICE int word_from(int word, int lane) { return __shfl(word, lane, kLanes); }
#else
FACULA_DEVICE int word_xor(int word, int mask) { return __shfl_xor_sync(0xffffffffu, word, mask); }
FACULA_DEVICE int word_down(int word, int distance) {
  return __shfl_down_sync(0xffffffffu, word, static_cast<unsigned>(distance));
}
FACULA_DEVICE int word_up(int word, int distance) {
  return __shfl_up_sync(0xffffffffu, word, static_cast<unsigned>(distance));
}
FACULA_DEVICE int word_from(int word, int lane) { return __shfl_sync(0xffffffffu, word, lane); }
#endif

// f over the value's words of four bytes.
template <class T, class F>
FACULA_DEVICE T by_words(T value, F f) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  union Both {
    T value;
    int words[kWords];
    FACULA_DEVICE Both() {}
  } both;
  if constexpr (sizeof(T) % 4 != 0) both.words[kWords - 1] = 0;
  both.value = value;
  FACULA_UNROLL
  for (int k = 0; k < kWords; ++k) both.words[k] = f(both.words[k]);
  return both.value;
}
}  // namespace detail

template <class T>
FACULA_DEVICE T lane_xor(T value, int mask) {
  return detail::by_words(value, [mask](int word) { return detail::word_xor(word, mask); });
}
template <class T>
FACULA_DEVICE T lane_down(T value, int distance) {
  return detail::by_words(value, [distance](int word) { return detail::word_down(word, distance); });
}
template <class T>
FACULA_DEVICE T lane_up(T value, int distance) {
  return detail::by_words(value, [distance](int word) { return detail::word_up(word, distance); });
}
// What `lane` holds, given to all.
template <class T>
FACULA_DEVICE T lane_from(T value, int lane) {
  return detail::by_words(value, [lane](int word) { return detail::word_from(word, lane); });
}

}  // namespace facula
