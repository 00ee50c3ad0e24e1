// How teams of threads are laid over rows of contiguous tensors (kernels/rows.h). Follows from sizes and addresses alone, never from the
// chip: the tree of a sum is the same on every machine.
#pragma once

#include "gpu/primitives/launching.h"

#include <algorithm>

namespace facula::gpu {

// Float, double and the two half types, as tables number them.
inline size_t float_number(ScalarType t) { return t == kHalf ? 0 : t == kBFloat16 ? 1 : t == kFloat ? 2 : 3; }

// Elements of a pack that fills 16 bytes of the widest dtype, 1 where the arrays do not stand alike towards such packs.
struct PackArray {
  const void* data;
  ScalarType dtype;
};
inline int pack_of(std::initializer_list<PackArray> arrays) {
  size_t widest = 1;
  for (const PackArray& a : arrays) widest = std::max(widest, elementSize(a.dtype));
  const size_t pack = 16 / widest;
  size_t first = SIZE_MAX;
  for (const PackArray& a : arrays) {
    const size_t bytes = elementSize(a.dtype), address = reinterpret_cast<uintptr_t>(a.data);
    const size_t place = address / bytes % pack;
    if (address % bytes != 0 || (first != SIZE_MAX && place != first)) return 1;
    first = place;
  }
  return static_cast<int>(pack);
}

// A block is no larger than its teams need: what is done at its barriers is waited for by few.
inline constexpr int kRowThreads = 128;

// A team of 1 << width_shift threads with `packs` packs of `pack` elements each; no packs: the row is too long for registers.
struct RowTeam {
  int pack, packs, width_shift;
  int threads() const { return std::max(kRowThreads, 1 << width_shift); }
  uint32_t blocks(int64_t rows, const char* op) const { return blocks_for(rows, threads() >> width_shift, op); }
};
// `aligned`: every row begins at an address that packs may have. A thread holds at most `most_values` elements.
inline RowTeam row_team(int64_t n, int pack, bool aligned, int most_values) {
  const int64_t packs = aligned ? ceil_div(n, pack) : (n + 2 * pack - 2) / pack;
  const int most = std::min(8, most_values / pack);
  const auto up = [](int64_t x) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(x))); };
  if (packs > 1024 * most) return {pack, 0, 10};
  const int64_t width =
      packs <= 32 ? up(packs) : std::min<int64_t>(1024, std::max<int64_t>(32, up(ceil_div(packs, std::min(most, 4)))));
  return {pack, static_cast<int>(up(ceil_div(packs, width))), std::countr_zero(static_cast<uint64_t>(width))};
}
// Whether rows of n elements all begin like the first one, which does at `data`.
inline bool rows_aligned(const void* data, ScalarType dtype, int64_t n, int pack) {
  return n % pack == 0 && reinterpret_cast<uintptr_t>(data) % (static_cast<size_t>(pack) * elementSize(dtype)) == 0;
}

// What kernels that round their results to 16 bits or fewer begin with: the exponential may be a short one.
inline const char* short_exponential(ScalarType to) {
  return elementSize(to) <= 2 ? "#define FACULA_NARROW_RESULTS 1\n" : "";
}

// Blocks that walk a row twice (kernels/rows.h).
inline constexpr int kWalkThreads = 512;
inline constexpr const char* kWalkBounds = "512, 2";
// Shared memory for the packs of a row of n elements: 0 where two such blocks have no room on a multiprocessor.
inline uint32_t kept_bytes(int64_t n, int pack, size_t element, int threads, int device) {
  constexpr int64_t kMost = 112 << 10;
  const int64_t packs = (n + 2 * pack - 2) / pack;
  const int64_t bytes = ceil_div(packs, threads) * threads * pack * static_cast<int64_t>(element);
  return bytes <= std::min<int64_t>(kMost, properties(device).shared_memory_per_block_optin - 2048)
             ? static_cast<uint32_t>(bytes)
             : 0;
}

}  // namespace facula::gpu
