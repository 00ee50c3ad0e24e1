// Products of a warpgroup (four warps) on the tensor cores of Hopper chips: 64 rows at a time, asynchronously, the
// right operand and perhaps the left one in shared memory. FACULA_WARPGROUPS says whether; the software GPU imitates
// them.
//
// Tiles in shared memory are panels of 64 16-bit elements a row: 128 bytes, whose eight pieces of 16 bytes change
// places with the row, so that the same piece of eight rows meets no bank twice. A panel begins at a multiple of 1024
// bytes.
#pragma once

#include "gpu/kernels/memory.h"
#include "gpu/kernels/tensor_core.h"

#if FACULA_PTX == 900 && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FACULA_WARPGROUPS 1
#elif FACULA_IMITATED_CORES
#define FACULA_WARPGROUPS 1
#else
#define FACULA_WARPGROUPS 0
#endif

#if FACULA_WARPGROUPS

namespace facula {
namespace warpgroup {

// Where a row's piece of 16 bytes lies within a panel.
FACULA_DEVICE int piece_offset(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

// An operand in shared memory. Rows of depth: `step` bytes lie between groups of eight rows. Turned, rows are depths
// and columns lie along them: `panel` bytes lie between panels of 64 columns, `step` between groups of eight depths.
struct Operand {
  const char* start;
  int panel, step;
};

#if FACULA_PTX
FACULA_DEVICE unsigned long long described(const Operand& x) {
  const unsigned long long address = (tensor_core::shared_address(x.start) & 0x3ffffu) >> 4;
  return address | static_cast<unsigned long long>(x.panel >> 4) << 16 |
         static_cast<unsigned long long>(x.step >> 4) << 32 | 1ull << 62;
}

// Before the first product, and after registers of a product were written.
FACULA_DEVICE void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FACULA_DEVICE void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
FACULA_DEVICE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// What was written to shared memory by ordinary means is seen by products that follow the next barrier.
FACULA_DEVICE void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Sums are not looked at before this.
template <int kWide>
FACULA_DEVICE void settle(float (&sum)[kWide][4]) {
  FACULA_UNROLL
  for (int n = 0; n < kWide; ++n) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sum[n][e])::"memory");
}

#define FACULA_SUMS_4(x, n) "+f"(x[n][0]), "+f"(x[n][1]), "+f"(x[n][2]), "+f"(x[n][3])
#define FACULA_SUMS_16(x, n) \
  FACULA_SUMS_4(x, n), FACULA_SUMS_4(x, n + 1), FACULA_SUMS_4(x, n + 2), FACULA_SUMS_4(x, n + 3)
#define FACULA_SUMS_32(x) FACULA_SUMS_16(x, 0), FACULA_SUMS_16(x, 4)
#define FACULA_SUMS_64(x) FACULA_SUMS_32(x), FACULA_SUMS_16(x, 8), FACULA_SUMS_16(x, 12)
#define FACULA_NAMES_32                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FACULA_NAMES_64                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FACULA_ROWS_64(type)                                                           \
  asm volatile(                                                                        \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                     \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" FACULA_NAMES_32 \
      "}, "                                                                            \
      "%32, %33, p, 1, 1, 0, 0;\n}\n"                                                  \
      : FACULA_SUMS_32(sum)                                                            \
      : "l"(described(a)), "l"(described(b)), "r"(add ? 1 : 0))
#define FACULA_ROWS_128(type)                                                           \
  asm volatile(                                                                         \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                      \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" FACULA_NAMES_64 \
      "}, "                                                                             \
      "%64, %65, p, 1, 1, 0, 0;\n}\n"                                                   \
      : FACULA_SUMS_64(sum)                                                             \
      : "l"(described(a)), "l"(described(b)), "r"(add ? 1 : 0))
#define FACULA_TURNED_64(type)                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" FACULA_NAMES_32 \
               "}, "                                                                            \
               "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"                                       \
               : FACULA_SUMS_32(sum)                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(described(b)))
#define FACULA_TURNED_128(type)                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" FACULA_NAMES_64 \
               "}, "                                                                             \
               "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"                                        \
               : FACULA_SUMS_64(sum)                                                             \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(described(b)))

// sum (+)= 64 rows of a times 8 kWide rows of b, 16 deep.
template <DType t, int kWide>
FACULA_DEVICE void multiply_rows(float (&sum)[kWide][4], const Operand& a, const Operand& b, bool add) {
  static_assert(kWide == 8 || kWide == 16, "64 or 128 columns");
  if constexpr (kWide == 8 && t == DType::Half) FACULA_ROWS_64("f16");
  else if constexpr (kWide == 8) FACULA_ROWS_64("bf16");
  else if constexpr (t == DType::Half) FACULA_ROWS_128("f16");
  else FACULA_ROWS_128("bf16");
}
// sum += 64 rows in registers, 16 of each warp, times 16 depths of b, turned.
template <DType t, int kWide>
FACULA_DEVICE void multiply_turned(float (&sum)[kWide][4], const unsigned (&a)[4], const Operand& b) {
  static_assert(kWide == 8 || kWide == 16, "64 or 128 columns");
  if constexpr (kWide == 8 && t == DType::Half) FACULA_TURNED_64("f16");
  else if constexpr (kWide == 8) FACULA_TURNED_64("bf16");
  else if constexpr (t == DType::Half) FACULA_TURNED_128("f16");
  else FACULA_TURNED_128("bf16");
}
#undef FACULA_ROWS_64
#undef FACULA_ROWS_128
#undef FACULA_TURNED_64
#undef FACULA_TURNED_128
#undef FACULA_NAMES_32
#undef FACULA_NAMES_64
#undef FACULA_SUMS_64
#undef FACULA_SUMS_32
#undef FACULA_SUMS_16
#undef FACULA_SUMS_4

#else  // imitated: products are done at once

FACULA_DEVICE void begin() {}
FACULA_DEVICE void commit() {}
template <int kPending>
FACULA_DEVICE void wait() {}
FACULA_DEVICE void publish() {}
template <int kWide>
FACULA_DEVICE void settle(float (&)[kWide][4]) {}

// As the chip finds an element: by its place, of which bits 7 to 9 are added to bits 4 to 6 without carry.
template <DType t>
FACULA_DEVICE double element(const char* place) {
  const auto bits = reinterpret_cast<uintptr_t>(place);
  return Memory<t>::load(*reinterpret_cast<const uint16_t*>(bits ^ ((bits >> 7 & 7) << 4)));
}
template <DType t>
FACULA_DEVICE double row_element(const Operand& x, int row, int depth) {
  return element<t>(x.start + row / 8 * x.step + row % 8 * 128 + depth * 2);
}
template <DType t>
FACULA_DEVICE double turned_element(const Operand& x, int depth, int column) {
  return element<t>(x.start + column / 64 * x.panel + column % 64 * 2 + depth / 8 * x.step + depth % 8 * 128);
}

template <DType t, int kWide>
FACULA_DEVICE void multiply_rows(float (&sum)[kWide][4], const Operand& a, const Operand& b, bool add) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
  for (int n = 0; n < kWide; ++n)
    for (int e = 0; e < 4; ++e) {
      double total = add ? sum[n][e] : 0.0f;
      for (int d = 0; d < 16; ++d)
        total += row_element<t>(a, row + e / 2 * 8, d) * row_element<t>(b, n * 8 + lane % 4 * 2 + e % 2, d);
      sum[n][e] = static_cast<float>(total);
    }
}
template <DType t, int kWide>
FACULA_DEVICE void multiply_turned(float (&sum)[kWide][4], const unsigned (&a)[4], const Operand& b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double left[2][16];
  for (int k = 0; k < 4; ++k) {
    const tensor_core::Words4 other = __shfl_sync(~0u, tensor_core::Words4{{a[0], a[1], a[2], a[3]}}, lane / 4 * 4 + k);
    for (int w = 0; w < 4; ++w)
      for (int i = 0; i < 2; ++i)
        left[w % 2][w / 2 * 8 + k * 2 + i] = Memory<t>::load(static_cast<uint16_t>(other.word[w] >> (16 * i)));
  }
  for (int n = 0; n < kWide; ++n)
    for (int e = 0; e < 4; ++e) {
      double total = sum[n][e];
      for (int d = 0; d < 16; ++d) total += left[e / 2][d] * turned_element<t>(b, d, n * 8 + lane % 4 * 2 + e % 2);
      sum[n][e] = static_cast<float>(total);
    }
}
#endif

}  // namespace warpgroup
}  // namespace facula

#endif
