// Inputs of the cases and samples of their results, through raw pointers: both libraries get the same bits, and what is
// checked does not pass through an operation of the library that is checked.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "library.h"
#include "plugin.h"

using Sizes = std::vector<int64_t>;

// A bijection of 24-bit numbers: up to 16 M entries are all distinct, so sorting and argmax have one right answer.
inline uint32_t shuffle24(uint32_t value, uint32_t seed) {
  constexpr uint32_t kMask = (1u << 24) - 1;
  value = (value + seed * 0x9E3779u) & kMask;
  for (uint32_t factor : {0xD168ADu, 0xAF251Bu, 0x5BF03Du}) {
    value ^= value >> 13;
    value = (value * factor) & kMask;
  }
  return value ^ (value >> 12);
}

// Exact in float, all values in [-1, 1).
inline float unit_value(int64_t index, uint32_t seed) {
  return static_cast<float>(static_cast<int32_t>(shuffle24(static_cast<uint32_t>(index), seed)) - (1 << 23)) *
         (1.0f / (1 << 23));
}

inline uint16_t bfloat16_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float from_bfloat16_bits(uint16_t half) {
  uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// A contiguous tensor: floats in [-scale, scale), integers in [0, scale), booleans half of them true.
inline lib::Tensor input(const Sizes& sizes, lib::ScalarType dtype, uint32_t seed = 1, float scale = 2.0f) {
  lib::Tensor tensor = lib::empty(sizes, dtype);
  const int64_t count = tensor.numel();
  void* data = tensor.data_ptr();
  const auto whole = [&](int64_t i) { return (static_cast<double>(unit_value(i, seed)) + 1.0) * 0.5 * scale; };
  if (dtype == lib::kFloat32) {
    for (int64_t i = 0; i < count; ++i) static_cast<float*>(data)[i] = unit_value(i, seed) * scale;
  } else if (dtype == lib::kBFloat16) {
    for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(data)[i] = bfloat16_bits(unit_value(i, seed) * scale);
  } else if (dtype == lib::kInt64) {
    for (int64_t i = 0; i < count; ++i) static_cast<int64_t*>(data)[i] = static_cast<int64_t>(whole(i));
  } else if (dtype == lib::kUInt8) {
    for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(whole(i));
  } else if (dtype == lib::kBool) {
    for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(data)[i] = unit_value(i, seed) < 0.0f;
  } else {
    throw std::runtime_error("no input of this dtype");
  }
  return tensor;
}

struct DTypeFacts {
  const char* name;
  int bits;
  double tolerance;  // default of the check, relative to the largest sample
};

inline DTypeFacts dtype_facts(lib::ScalarType dtype) {
  if (dtype == lib::kFloat32) return {"float32", 32, 2e-5};
  if (dtype == lib::kFloat64) return {"float64", 64, 1e-12};
  if (dtype == lib::kBFloat16) return {"bfloat16", 16, 1e-2};
  if (dtype == lib::kInt64) return {"int64", 64, 0.0};
  if (dtype == lib::kUInt8) return {"uint8", 8, 0.0};
  if (dtype == lib::kBool) return {"bool", 8, 0.0};
  throw std::runtime_error("no sampling of this dtype");
}

inline double element(const void* data, lib::ScalarType dtype, int64_t offset) {
  if (dtype == lib::kFloat32) return static_cast<const float*>(data)[offset];
  if (dtype == lib::kFloat64) return static_cast<const double*>(data)[offset];
  if (dtype == lib::kBFloat16) return from_bfloat16_bits(static_cast<const uint16_t*>(data)[offset]);
  if (dtype == lib::kInt64) return static_cast<double>(static_cast<const int64_t*>(data)[offset]);
  return static_cast<const uint8_t*>(data)[offset];
}

// All elements when they fit, otherwise the first and the last 64 and scattered ones between.
inline void sample(const lib::Tensor& tensor, BenchSamples& samples) {
  constexpr int64_t kCapacity = sizeof samples.values / sizeof samples.values[0];
  constexpr int64_t kScattered = 1 << 14, kEdge = 64;
  const lib::ScalarType dtype = tensor.scalar_type();
  const DTypeFacts facts = dtype_facts(dtype);
  const void* data = tensor.data_ptr();
  const int64_t total = tensor.numel();
  if (tensor.dim() > 8) throw std::runtime_error("a result has too many dimensions to sample");
  samples.dim = static_cast<int32_t>(tensor.dim());
  samples.dtype_bits = facts.bits;
  samples.tolerance = facts.tolerance;
  std::strncpy(samples.dtype, facts.name, sizeof samples.dtype - 1);
  samples.dtype[sizeof samples.dtype - 1] = '\0';
  int64_t strides[8] = {};
  for (int d = 0; d < samples.dim; ++d) {
    samples.sizes[d] = tensor.size(d);
    strides[d] = tensor.stride(d);
  }
  samples.count = 0;
  const auto take = [&](int64_t position) {
    int64_t offset = 0;
    for (int d = samples.dim - 1; d >= 0; --d) {
      offset += position % samples.sizes[d] * strides[d];
      position /= samples.sizes[d];
    }
    samples.values[samples.count++] = element(data, dtype, offset);
  };
  if (total <= kCapacity) {
    for (int64_t i = 0; i < total; ++i) take(i);
    return;
  }
  for (int64_t i = 0; i < kEdge; ++i) take(i);
  uint64_t state = 12345;
  for (int64_t i = 0; i < kScattered; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    take(static_cast<int64_t>((state >> 20) % static_cast<uint64_t>(total)));
  }
  for (int64_t i = total - kEdge; i < total; ++i) take(i);
}
