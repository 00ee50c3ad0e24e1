// What attention kernels are asked for, and the random mask of their dropout.
#pragma once

#include <facula/tensor.h>

#include <cstdint>

namespace facula {

// Query (B, H, L, E), key (B, G, S, E), value (B, G, S, V) with G dividing H: any strides but 1 along the last dim, one dtype. The mask broadcasts to
// (B, H, L, S) by strides: bool, the inputs' dtype, or undefined.
struct AttentionArgs {
  Tensor query, key, value, mask;
  double dropout = 0, scale = 1;
  bool causal = false;
  uint64_t seed = 0, offset = 0;  // of dropout
};

// Output (B, H, L, V) in any strides with 1 along the last dim; logsumexp (B, H, L) contiguous in float, or double for double.
using AttentionKernel = void(const AttentionArgs&, const Tensor& output, const Tensor& logsumexp);
// The gradients have any strides with 1 along the last dim.
using AttentionBackwardKernel = void(const AttentionArgs&, const Tensor& grad_output, const Tensor& output,
                                     const Tensor& logsumexp, const Tensor& grad_query, const Tensor& grad_key,
                                     const Tensor& grad_value);

// Dropout: a row of S scores takes this many blocks of the random stream, whichever part of it is asked for.
inline uint64_t attention_row_blocks(int64_t keys) { return static_cast<uint64_t>((keys + 3) / 4); }
// Which of the scores [first, first + count) of row number `row` (of B H L) stay: ones and zeros. `first` is a multiple of 4.
void attention_keep(const AttentionArgs& a, int64_t row, int64_t keys, int64_t first, int64_t count, uint8_t* keep);

}  // namespace facula
