// The device language as a host compiler sees it: included before every kernel that the software GPU compiles. Includes no system
// header, as the real run-time compilers do not; declares what kernels may use and nothing more.
#pragma once
#include "device_abi.h"

#define SIMGPU 1
#if defined(SIMGPU_HIP)
#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define __HIP_PLATFORM_AMD__ 1
#define __HIP__ 1
#define __AMDGCN_WAVEFRONT_SIZE SIMGPU_LANES
#define __AMDGCN__ 1
#else
#define __CUDACC_RTC__ 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ SIMGPU_ARCH
#endif

#define __device__
#define __host__
// Explicit instantiation aside, kernels are named in the text; the preprocessor's output is searched for this word.
#if defined(SIMGPU_LIST_KERNELS)
#define __global__ simgpu_global_function
#define __launch_bounds__(...) simgpu_launch_bounds(__VA_ARGS__)
#else
#define __launch_bounds__(...)
#define __global__ __attribute__((noinline))
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __shared__ static thread_local
#define __constant__
#define __managed__
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__

extern "C" __attribute__((visibility("hidden"))) simgpu_place simgpu_here;
// What the engine does for a kernel (device_runtime.cpp).
extern "C" int simgpu_barrier(int op, int predicate);
extern "C" unsigned long long simgpu_warp(int op, unsigned long long mask, const void* value, void* result, int bytes,
                                          int lane, int width);
#pragma GCC visibility push(hidden)
extern "C" {
unsigned long long simgpu_active_lanes();
void* simgpu_dynamic_shared();
long long simgpu_clock();
void simgpu_assert_failed(const char* condition, const char* file, int line);
void simgpu_trap();
void simgpu_check_atomic(unsigned long address, unsigned long bytes);
void* simgpu_copy_bytes(void* to, const void* from, unsigned long bytes);
void* simgpu_fill_bytes(void* to, int value, unsigned long bytes);
}
#pragma GCC visibility pop

typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;
#define NULL nullptr

// Vectors.
#define SIMGPU_VECTOR(type, name, align1, align2, align3, align4)             \
  struct __attribute__((aligned(align1))) name##1 { type x; };                \
  struct __attribute__((aligned(align2))) name##2 { type x, y; };             \
  struct __attribute__((aligned(align3))) name##3 { type x, y, z; };          \
  struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };       \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
SIMGPU_VECTOR(signed char, char, 1, 2, 1, 4)
SIMGPU_VECTOR(unsigned char, uchar, 1, 2, 1, 4)
SIMGPU_VECTOR(short, short, 2, 4, 2, 8)
SIMGPU_VECTOR(unsigned short, ushort, 2, 4, 2, 8)
SIMGPU_VECTOR(int, int, 4, 8, 4, 16)
SIMGPU_VECTOR(long, long, 8, 16, 8, 16)
SIMGPU_VECTOR(unsigned long, ulong, 8, 16, 8, 16)
SIMGPU_VECTOR(long long, longlong, 8, 16, 8, 16)
SIMGPU_VECTOR(unsigned long long, ulonglong, 8, 16, 8, 16)
SIMGPU_VECTOR(float, float, 4, 8, 4, 16)
SIMGPU_VECTOR(double, double, 8, 16, 8, 16)
#undef SIMGPU_VECTOR
struct __attribute__((aligned(4))) uint1 {
  unsigned x;
};
struct __attribute__((aligned(8))) uint2 {
  unsigned x, y;
};
typedef simgpu_dim3 uint3;
struct __attribute__((aligned(16))) uint4 {
  unsigned x, y, z, w;
};
inline uint1 make_uint1(unsigned x) { return {x}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
struct dim3 : simgpu_dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : simgpu_dim3{x_, y_, z_} {}
  constexpr dim3(uint3 v) : simgpu_dim3(v) {}
};

// A thread's place. Read only.
#define threadIdx (static_cast<const uint3&>(simgpu_here.thread))
#define blockIdx (static_cast<const uint3&>(simgpu_here.block))
#define blockDim (static_cast<const uint3&>(simgpu_here.block_size))
#define gridDim (static_cast<const uint3&>(simgpu_here.grid_size))
#define warpSize SIMGPU_LANES

// Waiting for other threads.
inline void __syncthreads() { simgpu_barrier(SIMGPU_BARRIER, 0); }
inline int __syncthreads_count(int p) { return simgpu_barrier(SIMGPU_BARRIER_COUNT, p); }
inline int __syncthreads_and(int p) { return simgpu_barrier(SIMGPU_BARRIER_AND, p); }
inline int __syncthreads_or(int p) { return simgpu_barrier(SIMGPU_BARRIER_OR, p); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define SIMGPU_ALL_LANES (SIMGPU_LANES == 64 ? ~0ull : (1ull << SIMGPU_LANES) - 1)

template <class T>
inline T simgpu_shuffle(int op, unsigned long long mask, T value, int lane, int width) {
  static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes");
  T result;
  simgpu_warp(op, mask, &value, &result, sizeof(T), lane, width);
  return result;
}
inline unsigned long long simgpu_vote(int op, unsigned long long mask, int predicate) {
  return simgpu_warp(op, mask, &predicate, nullptr, sizeof(int), 0, SIMGPU_LANES);
}
#if defined(SIMGPU_HIP)
// Without a mask: the lanes that run together.
template <class T>
inline T __shfl(T v, int lane, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE, 0, v, lane, width);
}
template <class T>
inline T __shfl_up(T v, unsigned by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_UP, 0, v, by, width);
}
template <class T>
inline T __shfl_down(T v, unsigned by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_DOWN, 0, v, by, width);
}
template <class T>
inline T __shfl_xor(T v, int by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_XOR, 0, v, by, width);
}
inline unsigned long long __ballot(int p) { return simgpu_vote(SIMGPU_BALLOT, 0, p); }
inline int __any(int p) { return static_cast<int>(simgpu_vote(SIMGPU_ANY, 0, p)); }
inline int __all(int p) { return static_cast<int>(simgpu_vote(SIMGPU_ALL, 0, p)); }
inline unsigned long long __activemask() { return simgpu_active_lanes(); }
inline unsigned __lane_id() {
  return (simgpu_here.thread.x +
          simgpu_here.block_size.x * (simgpu_here.thread.y + simgpu_here.block_size.y * simgpu_here.thread.z)) %
         SIMGPU_LANES;
}
inline void __builtin_amdgcn_wave_barrier() { simgpu_vote(SIMGPU_SYNC_WARP, 0, 0); }
inline void __builtin_amdgcn_s_barrier() { __syncthreads(); }
#else
template <class T>
inline T __shfl_sync(unsigned mask, T v, int lane, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE, mask, v, lane, width);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_UP, mask, v, by, width);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_DOWN, mask, v, by, width);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = SIMGPU_LANES) {
  return simgpu_shuffle(SIMGPU_SHUFFLE_XOR, mask, v, by, width);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  return static_cast<unsigned>(simgpu_vote(SIMGPU_BALLOT, mask, p));
}
inline int __any_sync(unsigned mask, int p) { return static_cast<int>(simgpu_vote(SIMGPU_ANY, mask, p)); }
inline int __all_sync(unsigned mask, int p) { return static_cast<int>(simgpu_vote(SIMGPU_ALL, mask, p)); }
template <class T>
inline unsigned __match_any_sync(unsigned mask, T v) {
  return static_cast<unsigned>(simgpu_warp(SIMGPU_MATCH, mask, &v, nullptr, sizeof(T), 0, SIMGPU_LANES));
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { simgpu_vote(SIMGPU_SYNC_WARP, mask, 0); }
inline unsigned __activemask() { return static_cast<unsigned>(simgpu_active_lanes()); }
template <class T>
inline T simgpu_reduce(unsigned mask, T v, T (*join)(T, T)) {
  T sum = v;
  bool first = true;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) {
      T other = __shfl_sync(mask, v, lane);
      sum = first ? other : join(sum, other);
      first = false;
    }
  return sum;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned v) {
  return simgpu_reduce<unsigned>(mask, v, [](unsigned a, unsigned b) { return a + b; });
}
inline int __reduce_add_sync(unsigned mask, int v) {
  return simgpu_reduce<int>(mask, v, [](int a, int b) { return a + b; });
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned v) {
  return simgpu_reduce<unsigned>(mask, v, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
inline int __reduce_max_sync(unsigned mask, int v) {
  return simgpu_reduce<int>(mask, v, [](int a, int b) { return a > b ? a : b; });
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned v) {
  return simgpu_reduce<unsigned>(mask, v, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
inline int __reduce_min_sync(unsigned mask, int v) {
  return simgpu_reduce<int>(mask, v, [](int a, int b) { return a < b ? a : b; });
}
#endif

// Bits.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long r = 0;
  for (int i = 0; i < 64; ++i) r |= (x >> i & 1) << (63 - i);
  return r;
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned pick = selector >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(both >> (8 * (pick & 7))) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((static_cast<unsigned long long>(high) << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>((static_cast<__int128>(a) * b) >> 64);
}
inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }

template <class To, class From>
inline To simgpu_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
inline float __int_as_float(int x) { return simgpu_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return simgpu_bits<float>(x); }
inline int __float_as_int(float x) { return simgpu_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return simgpu_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return simgpu_bits<double>(x); }
inline long long __double_as_longlong(double x) { return simgpu_bits<long long>(x); }
inline int __double2hiint(double x) { return static_cast<int>(simgpu_bits<long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(simgpu_bits<long long>(x)); }
inline double __hiloint2double(int hi, int lo) {
  return simgpu_bits<double>(static_cast<long long>(hi) << 32 | static_cast<unsigned>(lo));
}

// Loads with hints.
#define SIMGPU_HINTED_LOAD(name) \
  template <class T>             \
  inline T name(const T* p) {    \
    return *p;                   \
  }
SIMGPU_HINTED_LOAD(__ldg)
SIMGPU_HINTED_LOAD(__ldcs)
SIMGPU_HINTED_LOAD(__ldca)
SIMGPU_HINTED_LOAD(__ldcg)
SIMGPU_HINTED_LOAD(__ldlu)
SIMGPU_HINTED_LOAD(__ldcv)
#undef SIMGPU_HINTED_LOAD
#define SIMGPU_HINTED_STORE(name) \
  template <class T>              \
  inline void name(T* p, T v) {   \
    *p = v;                       \
  }
SIMGPU_HINTED_STORE(__stcs)
SIMGPU_HINTED_STORE(__stcg)
SIMGPU_HINTED_STORE(__stwb)
SIMGPU_HINTED_STORE(__stwt)
#undef SIMGPU_HINTED_STORE
#if !defined(__clang__)  // which has them
template <class T>
inline T __builtin_nontemporal_load(const T* p) {
  return *p;
}
template <class V, class T>
inline void __builtin_nontemporal_store(V v, T* p) {
  *p = v;
}
#endif

// Atomics.
template <class T, class F>
__attribute__((no_sanitize("kernel-address"))) inline T simgpu_atomic(T* p, F next) {
  simgpu_check_atomic(reinterpret_cast<unsigned long>(p), sizeof(T));
  T old = *p, wanted;
  do wanted = next(old);
  while (!__atomic_compare_exchange(p, &old, &wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
#define SIMGPU_ATOMICS(T)                                                \
  inline T atomicAdd(T* p, T v) {                                        \
    return simgpu_atomic(p, [v](T a) { return static_cast<T>(a + v); }); \
  }                                                                      \
  inline T atomicExch(T* p, T v) {                                       \
    return simgpu_atomic(p, [v](T) { return v; });                       \
  }                                                                      \
  inline T atomicAdd_system(T* p, T v) { return atomicAdd(p, v); }       \
  inline T atomicAdd_block(T* p, T v) { return atomicAdd(p, v); }
#define SIMGPU_INTEGER_ATOMICS(T)                                          \
  SIMGPU_ATOMICS(T)                                                        \
  inline T atomicMax(T* p, T v) {                                          \
    return simgpu_atomic(p, [v](T a) { return a > v ? a : v; });           \
  }                                                                        \
  inline T atomicMin(T* p, T v) {                                          \
    return simgpu_atomic(p, [v](T a) { return a < v ? a : v; });           \
  }                                                                        \
  inline T atomicOr(T* p, T v) {                                           \
    return simgpu_atomic(p, [v](T a) { return a | v; });                   \
  }                                                                        \
  inline T atomicAnd(T* p, T v) {                                          \
    return simgpu_atomic(p, [v](T a) { return a & v; });                   \
  }                                                                        \
  inline T atomicXor(T* p, T v) {                                          \
    return simgpu_atomic(p, [v](T a) { return a ^ v; });                   \
  }                                                                        \
  inline T atomicCAS(T* p, T c, T v) {                                     \
    return simgpu_atomic(p, [c, v](T a) { return a == c ? v : a; });       \
  }                                                                        \
  inline T atomicCAS_system(T* p, T c, T v) { return atomicCAS(p, c, v); } \
  inline T atomicExch_system(T* p, T v) { return atomicExch(p, v); }
SIMGPU_INTEGER_ATOMICS(int)
SIMGPU_INTEGER_ATOMICS(unsigned)
SIMGPU_INTEGER_ATOMICS(unsigned long long)
inline long long atomicMax(long long* p, long long v) {
  return simgpu_atomic(p, [v](long long a) { return a > v ? a : v; });
}
inline long long atomicMin(long long* p, long long v) {
  return simgpu_atomic(p, [v](long long a) { return a < v ? a : v; });
}
inline unsigned short atomicCAS(unsigned short* p, unsigned short c, unsigned short v) {
  return simgpu_atomic(p, [c, v](unsigned short a) { return a == c ? v : a; });
}
inline int atomicSub(int* p, int v) { return atomicAdd(p, -v); }
inline unsigned atomicSub(unsigned* p, unsigned v) { return atomicAdd(p, 0u - v); }
inline unsigned atomicInc(unsigned* p, unsigned bound) {
  return simgpu_atomic(p, [bound](unsigned a) { return a >= bound ? 0u : a + 1; });
}
inline unsigned atomicDec(unsigned* p, unsigned bound) {
  return simgpu_atomic(p, [bound](unsigned a) { return a == 0 || a > bound ? bound : a - 1; });
}
SIMGPU_ATOMICS(float)
SIMGPU_ATOMICS(double)
#undef SIMGPU_ATOMICS
#undef SIMGPU_INTEGER_ATOMICS

#include "prelude_math.h"

// Bytes. Sizes that fit a register become plain loads and stores, which are checked as such.
__attribute__((always_inline)) inline void* simgpu_memcpy(void* to, const void* from, unsigned long bytes) {
  if (__builtin_constant_p(bytes) && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8))
    return __builtin_memcpy(to, from, bytes);
  return simgpu_copy_bytes(to, from, bytes);
}
inline void* simgpu_memset(void* to, int value, unsigned long bytes) { return simgpu_fill_bytes(to, value, bytes); }
#define memcpy simgpu_memcpy
#define memmove simgpu_copy_bytes
#define memset simgpu_memset

extern "C" int printf(const char* format, ...);
#define assert(...) ((__VA_ARGS__) ? (void)0 : simgpu_assert_failed(#__VA_ARGS__, __FILE__, __LINE__))
inline void __trap() { simgpu_trap(); }
inline void __builtin_amdgcn_s_trap(int) { simgpu_trap(); }
inline long long clock64() { return simgpu_clock(); }
inline int clock() { return static_cast<int>(simgpu_clock()); }
inline unsigned long long wall_clock64() { return static_cast<unsigned long long>(simgpu_clock()); }
inline void __nanosleep(unsigned) {}
inline void __builtin_amdgcn_s_sleep(int) {}

// How the engine calls a kernel: its arguments lie where the pointers say.
template <unsigned... I>
struct simgpu_indices {};
template <unsigned N, unsigned... I>
struct simgpu_count : simgpu_count<N - 1, N - 1, I...> {};
template <unsigned... I>
struct simgpu_count<0, I...> {
  using type = simgpu_indices<I...>;
};
template <class T>
struct simgpu_bare {
  using type = T;
};
template <class T>
struct simgpu_bare<const T> {
  using type = T;
};
template <auto kernel>
struct simgpu_caller;
template <class... A, void (*kernel)(A...)>
struct simgpu_caller<kernel> {
  static constexpr unsigned kSizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
#if defined(SIMGPU_HIP)
  static constexpr int kMostBytes = 4096;
#else
  static constexpr int kMostBytes = 32764;  // CUDA 12.1 and newer
#endif
  static_assert((sizeof(A) + ... + 0) <= kMostBytes, "the arguments of a kernel are larger than the chip takes");
  template <unsigned... I>
  __attribute__((no_sanitize("kernel-address"))) static void call(void** arguments, simgpu_indices<I...>) {
    kernel(*static_cast<typename simgpu_bare<A>::type*>(arguments[I])...);
  }
  __attribute__((no_sanitize("kernel-address"))) static void run(void** arguments) {
    call(arguments, typename simgpu_count<sizeof...(A)>::type());
  }
  __attribute__((no_sanitize("kernel-address"))) static void run_block(void** arguments) {
    simgpu_dim3& t = simgpu_here.thread;
    const simgpu_dim3 size = simgpu_here.block_size;
    for (t.z = 0; t.z < size.z; ++t.z)
      for (t.y = 0; t.y < size.y; ++t.y)
        for (t.x = 0; t.x < size.x; ++t.x) run(arguments);
  }
  static constexpr simgpu_kernel describe(const char* name, int max_threads) {
    return {name, run, run_block, static_cast<int>(sizeof...(A)), kSizes, max_threads};
  }
};
#define SIMGPU_KERNEL(symbol, name, max_threads)                                                       \
  extern "C" __attribute__((visibility("default"), used)) const simgpu_kernel simgpu_kernel_##symbol = \
      simgpu_caller<&name>::describe(#symbol, max_threads);
// Instances of templates, which have no name that a program could know.
#define SIMGPU_EXPRESSION(symbol, name)                                         \
  extern "C" __attribute__((visibility("default"), used)) const int symbol = 0; \
  SIMGPU_KERNEL(symbol, name, 0)
