// What the host hands to the kernels of convolutions, read by both sides. Strides are in elements; space has three
// dims, of which the first ones may have size 1.
#pragma once

namespace facula {
namespace conv_kernels {

// n / divisor for 0 <= n < 2^31, by a multiplication.
struct FastDivisor {
  unsigned divisor, magic, shift;
};

// One dim of space. A convolution has `to_size` places, and place t meets tap k at t * stride - padding + k * dilation
// of what it reads. The turned one (the gradient of the input) has the places that a convolution reads: place q meets
// tap k where q + padding - k * dilation is a multiple of the stride. Places that leave the same rest (a phase) meet
// the same taps, `tap_step` apart.
struct Dim {
  int from_size, to_size;  // what is read, what is computed
  int kernel, stride, padding, dilation, tap_step;
  int from_stride, to_stride, weight_stride;
  // By the number of places and of taps of a phase: the larger of the two numbers that occur, then the smaller.
  FastDivisor counts[2], taps[2];
};

// The output, or turned the gradient of the input: rows are (sample, place), columns are channels of `to`, the sum runs
// over (tap, channel of `from`). Pointers are those of the first group.
struct GatherParams {
  const void* from;
  const void* weight;
  void* to;
  const void* bias;  // one for each channel of `to`; may be null
  long long from_sample, to_sample;
  int from_channel, to_channel;
  int weight_row, weight_channel;  // from one column to the next, from one channel of `from` to the next
  long long from_group, weight_group, to_group;
  int samples, channels, columns, groups;  // channels and columns of one group
  int turned;
  int wide;  // whether `from` and `weight` may be fetched 16 bytes at a time along channels
  int phases[3];
  int tiles_places, tiles_columns;
  FastDivisor by_channels;
  Dim dims[3];
};

// The gradient of the weight: rows are channels of the output, columns are (tap, channel of the input), the sum runs
// over (sample, place).
struct WeightParams {
  const void* input;
  const void* output;
  void* weight;
  void* partial;  // [splits][groups][rows][columns] where there is more than one split
  long long input_sample, output_sample;
  int input_channel, output_channel, output_space;  // places of the output lie `output_space` apart
  int weight_row, weight_channel;
  long long input_group, output_group, weight_group;
  int samples, channels, rows, groups, columns, depth;
  int wide_input, wide_output;  // whether channels may be fetched 16 bytes at a time
  int splits, split_depth;
  int tiles_rows, tiles_columns;
  FastDivisor by_places, by_channels;
  Dim dims[3];  // `from` is the input, `to` the output
};

// Adds one number for each channel, where a library left that to us. Places of a channel lie side by side, or channels
// of a place do.
struct BiasParams {
  void* to;
  const void* bias;
  long long count, channels, space;
  int by_channels, reserved;
};

}  // namespace conv_kernels
}  // namespace facula
