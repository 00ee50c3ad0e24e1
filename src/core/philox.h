// Philox 4x32-10: random words from a key and a counter, without a state. Valid device code.
#pragma once

#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
#define FACULA_PHILOX_FN __device__ __forceinline__  // kernels bring the integer types
#define FACULA_PHILOX_UNROLL _Pragma("unroll")
#else
#include <cstdint>
#define FACULA_PHILOX_FN inline
#define FACULA_PHILOX_UNROLL
#endif

namespace facula {

struct PhiloxBlock {
  uint32_t word[4];
};

// The keys of the ten rounds: the halves of the seed, moved on by two Weyl sequences.
struct PhiloxKeys {
  uint32_t low[10], high[10];
};
FACULA_PHILOX_FN PhiloxKeys philox_keys(uint64_t seed) {
  PhiloxKeys keys;
  FACULA_PHILOX_UNROLL
  for (uint32_t round = 0; round < 10; ++round) {
    keys.low[round] = static_cast<uint32_t>(seed) + round * 0x9E3779B9u;
    keys.high[round] = static_cast<uint32_t>(seed >> 32) + round * 0xBB67AE85u;
  }
  return keys;
}

// Both halves of a product. Compilers for GPUs turn this into one wide multiplication, and a product of 64-bit numbers into more.
FACULA_PHILOX_FN void philox_multiply(uint32_t a, uint32_t b, uint32_t& low, uint32_t& high) {
#if defined(__CUDACC_RTC__) || defined(__HIPCC_RTC__)
  low = a * b;
  high = __umulhi(a, b);
#else
  const uint64_t product = static_cast<uint64_t>(a) * b;
  low = static_cast<uint32_t>(product);
  high = static_cast<uint32_t>(product >> 32);
#endif
}

// Block `counter` of a stream: four independent 32-bit words. The upper half of Philox's 128-bit counter is `stream`, 0 unless an
// op needs several streams.
FACULA_PHILOX_FN PhiloxBlock philox_block(const PhiloxKeys& keys, uint64_t counter, uint64_t stream) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  FACULA_PHILOX_UNROLL
  for (int round = 0; round < 10; ++round) {
    uint32_t low0, high0, low1, high1;
    philox_multiply(c0, 0xD2511F53u, low0, high0);
    philox_multiply(c2, 0xCD9E8D57u, low1, high1);
    c0 = high1 ^ c1 ^ keys.low[round];
    c2 = high0 ^ c3 ^ keys.high[round];
    c1 = low1;
    c3 = low0;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace facula
