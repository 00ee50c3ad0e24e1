// The loops of scans: what one step of cumsum, cumprod, cummax, cummin and logcumsumexp does to rows in their compute type. Strides,
// dtypes and threads are the business of scan.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/scalar_ops.h"

namespace facula::detail {

enum class ScanOp : uint8_t { Sum, Prod, Max, Min, LogSumExp };

// Running sums along a row restart every kScanBlock entries and add what came before to the restarted sum. Blocks of one row can so be
// computed apart, with the same result whatever computes them.
constexpr int64_t kScanBlock = 16384;

// What a row carries from one piece to the next.
struct alignas(16) ScanCarry {
  char bytes[32];
};

struct ScanKernel {
  CType type;         // of the entries, in and out
  size_t carry_size;  // bytes of carry for each row of `across`; `along` has a ScanCarry
  // Entries [first, first + n) of one row. `indices` is nullptr but for Max and Min. At first = 0 the carry is set up.
  void (*along)(const void* in, void* out, int64_t* indices, int64_t first, int64_t n, ScanCarry* carry);
  // Entries [first, first + n) of `width` rows that lie side by side: entry i of the rows begins at in + i * in_stride.
  void (*across)(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t* indices,
                 int64_t index_stride, int64_t first, int64_t n, int64_t width, void* carry);
};

// nullptr where there is none.
const ScanKernel* scan_kernel(ScanOp op, CType type);

// Turns the carries that blocks of a sum end with, each begun at 0, into the carries they begin with when all follow one another. The
// last block's own sum is not looked at.
void chain_sums(CType type, ScanCarry* carries, int64_t blocks);

}  // namespace facula::detail
