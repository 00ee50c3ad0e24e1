// Products of bfloat16 with the tile registers of AMX. They are our own where the processor has these: the ways of oneDNN's releases with
// them are slower, and some are wrong (see docs/design.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula::amx {

// C = alpha A B + beta C; with beta 0, C is not read. Sums are of float, in an order that depends on k alone and not on how a product is cut into
// rows and columns; the instructions take numbers below the normal ones for zero. Strides in elements; rows of C are contiguous.
struct Product {
  int64_t m, n, k;
  const uint16_t* a;
  int64_t a_row, a_term;
  const uint16_t* b;
  int64_t b_term, b_column;
  uint16_t* c;
  int64_t c_row;
  float alpha, beta;
};

// What is worked on at a time: as many columns of B, and as many sums where the terms come in several stretches, as the second-level cache
// holds. 32 rows of A meet all these columns before the next.
inline constexpr int64_t kPartRows = 256, kPartColumns = 256, kPartTerms = 2048;
inline constexpr size_t kRoomBytes =
    (32 + kPartColumns) * kPartTerms * sizeof(uint16_t) + kPartRows * kPartColumns * sizeof(float);

// Whether this processor has tiles of bfloat16, the system lets us use them and FACULA_SIMD does not forbid it.
bool available();
// Computes with the calling thread. `room` is kRoomBytes of memory, aligned to 64.
void multiply(const Product& product, void* room);

}  // namespace facula::amx
