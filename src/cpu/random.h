// Fills arrays with random numbers. Element i of an array depends on seed, offset and i alone.
#pragma once

#include <facula/core/dtype.h>

#include <cstdint>

namespace facula {

enum class Distribution : uint8_t { Uniform, Normal, Exponential, Bernoulli, Integer, Geometric, Cauchy, LogNormal };

struct RandomFill {
  Distribution distribution;
  // Uniform: from a to b. Normal, LogNormal: mean a, deviation b. Exponential: rate a. Bernoulli, Geometric: probability a.
  // Cauchy: median a, width b.
  double a = 0, b = 1;
  // Integer: from `low`, `range` values; range 0 means all 2^64.
  int64_t low = 0;
  uint64_t range = 0;
  uint64_t seed = 0, offset = 0;
};

// Whether a draw takes 64 random bits (two elements a block) instead of 32 (four).
bool wide_draws(const RandomFill& fill, ScalarType dtype);
// Blocks of the stream that `count` elements take.
uint64_t random_blocks(const RandomFill& fill, ScalarType dtype, int64_t count);

// The largest value of the dtype below b, for uniform numbers in 32 bits: the upper end of an open interval must not come
// out, not by rounding either.
float largest_below(ScalarType dtype, double b);

// Fills `count` contiguous elements.
void random_fill(const RandomFill& fill, ScalarType dtype, void* data, int64_t count);

// The raw words of blocks [first, first + blocks): 4 a block.
void philox_words(uint64_t seed, uint64_t first, int64_t blocks, uint32_t* words);

}  // namespace facula
