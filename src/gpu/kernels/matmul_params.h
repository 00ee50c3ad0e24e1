// What the host hands to the kernels of matrix products, read by both sides. Strides are in elements.
#pragma once

namespace facula {
namespace matmul_kernels {

inline constexpr int kBatchDims = 4;

// How threads fetch a piece of an operand: neighbours along the depth of the sum or along the rows, 16 bytes at a time
// where every piece that they fetch so is aligned.
enum Fetch : int { kAlongDepth = 0, kAlongRows = 1, kWide = 2 };

// A matrix of `rows` by `depth`: A as it is, B turned.
struct Operand {
  const void* data;
  long long row_stride, depth_stride;
  long long batch_strides[kBatchDims];
  int fetch, reserved;
};

// A number in the type that a kernel computes in. `re` and `im` for floating-point numbers, `bits` for integers.
struct Factor {
  double re, im;
  unsigned long long bits;
};

struct Params {
  Operand a, b;
  void* c;
  const void* bias;  // of n elements, added to each row; may be null
  long long c_row_stride;
  long long c_batch_strides[kBatchDims];
  long long m, n, k;
  long long batch_sizes[kBatchDims];
  long long batch;
  long long tiles_m, tiles_n;
  // With more than one split every block adds up a part of k only and leaves it in `partial`, [splits][batch][m][n].
  long long splits, split_depth;
  void* partial;
  Factor alpha, beta;
  int add_c;  // whether beta is not zero: else C is not read
  int pairs;  // whether two neighbours in a row of C may be stored at once
};

// Products of at most a few tiles, whose sizes and strides fit 32 bits.
inline constexpr int kSmallSide = 16;
struct SmallOperand {
  const void* data;
  long long batch_stride;
  int row_stride, depth_stride;
  int fetch, reserved;
};
struct SmallParams {
  SmallOperand a, b;
  void* c;
  const void* bias;  // as above
  long long c_batch_stride;
  int c_row_stride, m, n, k;
  Factor alpha, beta;
  int add_c;
  int relu;  // whether what is negative becomes zero in the end
};

// y = alpha A x + beta y + bias for one matrix and one vector of each batch; y has one element for each row.
struct VectorParams {
  Operand a;
  const void* x;
  void* y;
  const void* bias;  // one element for each row, or one for all where `bias_stride` is 0
  long long x_stride, y_stride, bias_stride;
  long long x_batch_strides[kBatchDims], y_batch_strides[kBatchDims];
  long long rows, depth;
  long long batch_sizes[kBatchDims];
  long long batch;
  long long splits, split_depth;
  void* partial;  // [splits][batch][rows]
  Factor alpha, beta;
  int add_y, wide_x;
};

// Adds the splits and finishes: C = alpha * sum + beta * C + bias.
struct FinishParams {
  const void* partial;
  void* c;
  const void* bias;
  long long c_row_stride, c_col_stride, bias_stride;
  long long c_batch_strides[kBatchDims];
  long long m, n;
  long long batch_sizes[kBatchDims];
  long long batch, splits;
  Factor alpha, beta;
  int add_c, reserved;
};

// Copies matrices of any strides into row-major ones, one behind the other.
struct PackParams {
  const void* from;
  void* to;
  long long row_stride, col_stride;
  long long batch_strides[kBatchDims];
  long long rows, cols;
  long long batch_sizes[kBatchDims];
  long long batch;
};

}  // namespace matmul_kernels
}  // namespace facula
