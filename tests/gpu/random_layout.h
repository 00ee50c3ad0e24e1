// Random shapes and strides, drawn so that every kind of layout comes up: dense, permuted, sliced, broadcast, unaligned.
#pragma once

#include "gpu/device_run.h"

#include <algorithm>
#include <numeric>

namespace facula::testing {

struct LayoutStyle {
  int max_rank = 5;
  int64_t max_elements = 6000;
  bool large_inner = false;  // two dims that fill tiles
};

inline std::vector<int64_t> random_sizes(Values& random, const LayoutStyle& style) {
  const int64_t rank = random.below(style.max_rank + 1);
  std::vector<int64_t> sizes;
  int64_t count = 1;
  if (style.large_inner && rank >= 2) {
    sizes = {60 + random.below(80), 50 + random.below(100)};
    count = sizes[0] * sizes[1];
  }
  constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 16, 17, 32, 64};
  while (static_cast<int64_t>(sizes.size()) < rank) {
    int64_t n = kSizes[random.below(std::size(kSizes))];
    if (count * n > style.max_elements) n = 1 + random.below(2);
    count *= n;
    sizes.push_back(n);
  }
  std::shuffle(sizes.begin(), sizes.end(), std::mt19937_64(random.bits()));
  if (random.chance(0.02) && !sizes.empty()) sizes[0] = 0;
  return sizes;
}

// Strides over `sizes` in some memory order, with steps and gaps; for loads also repeated elements.
inline TestArray random_array(Values& random, ScalarType dtype, const std::vector<int64_t>& sizes, bool load) {
  TestArray a;
  a.dtype = dtype;
  const size_t rank = sizes.size();
  a.strides.assign(rank, 0);
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  std::reverse(order.begin(), order.end());  // the last dim is the fastest
  if (random.chance(0.5)) std::shuffle(order.begin(), order.end(), std::mt19937_64(random.bits()));
  const bool steps = random.chance(0.3), gaps = random.chance(0.3), repeats = load && random.chance(0.35);
  int64_t next = 1, lowest = 0, highest = 0;
  for (size_t d : order) {
    if (repeats && random.chance(0.5)) continue;
    int64_t stride = next * (steps && random.chance(0.5) ? 1 + random.below(3) : 1);
    next = stride * std::max<int64_t>(1, sizes[d]) + (gaps && random.chance(0.5) ? random.below(9) : 0);
    if (steps && random.chance(0.2)) stride = -stride;
    a.strides[d] = stride;
    if (sizes[d] > 1) (stride < 0 ? lowest : highest) += stride * (sizes[d] - 1);
  }
  const int64_t before = random.chance(0.4) ? random.below(9) : 0;
  a.first = before - lowest;
  a.bytes = random.fill(dtype, before + highest - lowest + 1 + random.below(5));
  return a;
}

inline std::string layout_text(const std::vector<int64_t>& sizes, const std::vector<TestArray>& arrays) {
  auto list = [](const std::vector<int64_t>& values) {
    std::string out = "[";
    for (int64_t v : values) out += std::to_string(v) + " ";
    return out + "]";
  };
  std::string out = "sizes " + list(sizes);
  for (const TestArray& a : arrays)
    out += std::string("; ") + dtype_name(a.dtype) + " from " + std::to_string(a.first) + " strides " + list(a.strides);
  return out;
}

}  // namespace facula::testing
