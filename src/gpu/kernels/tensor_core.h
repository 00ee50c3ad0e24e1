// The instructions of tensor cores and of copies that run beside the arithmetic, for chips that have them.
// FACULA_TENSOR_CORES says whether. The software GPU imitates those for 16-bit elements (FACULA_IMITATED_CORES), so
// that kernels which consist of nothing else can be tried there.
#pragma once

#include "gpu/kernels/device.h"

#if FACULA_PTX >= 800
#define FACULA_TENSOR_CORES 1
#define FACULA_IMITATED_CORES 0

namespace facula {
namespace tensor_core {

// Where an address of shared memory lies, as instructions name it.
FACULA_DEVICE unsigned shared_address(const void* pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }

// Copies the first `bytes` of 16 from global to shared memory, zeros behind them; both addresses are multiples of 16.
FACULA_DEVICE void copy_async(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
// The same for 8 bytes, all or none.
FACULA_DEVICE void copy_async_8(void* to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(there ? 8 : 0)
               : "memory");
}
FACULA_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending groups of copies of this thread are under way.
template <int kPending>
FACULA_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four blocks of eight rows of 16 bytes. Lane l names row l % 8 of block l / 8, and gets word l % 4 of row l / 4 of
// each.
FACULA_DEVICE void load_blocks(unsigned (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same for blocks of 16-bit elements that lie turned.
FACULA_DEVICE void load_blocks_turned(unsigned (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

// sum += A B for 16 by 16 elements of A and 16 by 8 of B.
FACULA_DEVICE void multiply_add_half(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, "
      "%3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FACULA_DEVICE void multiply_add_bfloat16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, "
      "%2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same for 16 by 8 and 8 by 8 floats, whose mantissas are cut to ten bits.
FACULA_DEVICE void multiply_add_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, "
      "%2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FACULA_DEVICE unsigned round_to_tf32(unsigned bits) {
  unsigned rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(float_of_bits(bits)));
  return rounded;
}

}  // namespace tensor_core
}  // namespace facula
#elif defined(SIMGPU) && !FACULA_HIP
#define FACULA_TENSOR_CORES 0
#define FACULA_IMITATED_CORES 1

#include "gpu/kernels/memory.h"

namespace facula {
namespace tensor_core {

struct alignas(16) Words4 {
  unsigned word[4];
};
struct alignas(8) Words2 {
  unsigned word[2];
};

// Copies arrive at once: a thread that reads them too early is found by the check for races.
FACULA_DEVICE void copy_async(void* to, const void* from, int bytes) {
  Words4 all = {};
  if (bytes == 16) all = *static_cast<const Words4*>(from);
  else
    for (int i = 0; i < bytes; ++i)
      reinterpret_cast<unsigned char*>(&all)[i] = static_cast<const unsigned char*>(from)[i];
  *static_cast<Words4*>(to) = all;
}
FACULA_DEVICE void copy_async_8(void* to, const void* from, bool there) {
  *static_cast<Words2*>(to) = there ? *static_cast<const Words2*>(from) : Words2{};
}
FACULA_DEVICE void commit_copies() {}
template <int kPending>
FACULA_DEVICE void wait_copies() {}

FACULA_DEVICE void load_blocks(unsigned (&words)[4], const void* row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int block = 0; block < 4; ++block) {
    const char* from = static_cast<const char*>(__shfl_sync(~0u, row, block * 8 + lane / 4));
    words[block] = *reinterpret_cast<const unsigned*>(from + lane % 4 * 4);
  }
}
FACULA_DEVICE void load_blocks_turned(unsigned (&words)[4], const void* row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int block = 0; block < 4; ++block) {
    unsigned both = 0;
    for (int i = 0; i < 2; ++i) {
      const char* from = static_cast<const char*>(__shfl_sync(~0u, row, block * 8 + lane % 4 * 2 + i));
      both |= static_cast<unsigned>(*reinterpret_cast<const uint16_t*>(from + lane / 4 * 2)) << (16 * i);
    }
    words[block] = both;
  }
}

template <class Format>
FACULA_DEVICE void multiply_add_as(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane / 4, pair = lane % 4;
  const Words4 mine = {{a[0], a[1], a[2], a[3]}};
  const Words2 mine_b = {{b0, b1}};
  double total[4] = {sum[0], sum[1], sum[2], sum[3]};
  const auto element = [](unsigned word, int i) {
    return static_cast<double>(Format::to_float((word >> (16 * i)) & 0xffffu));
  };
  for (int k = 0; k < 4; ++k) {  // depths 2 k, 2 k + 1 and the same plus 8
    const Words4 left = __shfl_sync(~0u, mine, row * 4 + k);
    for (int column = 0; column < 2; ++column) {
      const Words2 right = __shfl_sync(~0u, mine_b, (pair * 2 + column) * 4 + k);
      for (int lower = 0; lower < 2; ++lower)
        for (int far = 0; far < 2; ++far)
          for (int i = 0; i < 2; ++i)
            total[lower * 2 + column] += element(left.word[far * 2 + lower], i) * element(right.word[far], i);
    }
  }
  for (int e = 0; e < 4; ++e) sum[e] = static_cast<float>(total[e]);
}
FACULA_DEVICE void multiply_add_half(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  multiply_add_as<HalfFormat>(sum, a, b0, b1);
}
FACULA_DEVICE void multiply_add_bfloat16(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  multiply_add_as<BFloat16Format>(sum, a, b0, b1);
}

}  // namespace tensor_core
}  // namespace facula
#else
#define FACULA_TENSOR_CORES 0
#define FACULA_IMITATED_CORES 0
#endif
