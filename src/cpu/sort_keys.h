// Keys: unsigned integers in the order of a dtype's values, and the SIMD loops over them. NaN gets the greatest key, both zeros the same.
// Sorting itself lives in sort.cpp, selection in topk.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <facula/core/dtype.h>

namespace facula::detail {

// Dtypes of eight bytes have keys of 64 bits, all others keys of 32 bits.
inline bool has_wide_keys(ScalarType t) { return elementSize(t) == 8; }

// The keys of n contiguous values; complemented when `descending`, so that ascending keys are descending values.
void load_keys(ScalarType t, const void* src, int64_t n, bool descending, uint32_t* keys);
void load_keys(ScalarType t, const void* src, int64_t n, bool descending, uint64_t* keys);

template <class K>
struct KeyRange {
  K min, max;
};
KeyRange<uint32_t> key_range(const uint32_t* keys, int64_t n);
KeyRange<uint64_t> key_range(const uint64_t* keys, int64_t n);

// packed[i] = the low 32 bits of ((keys[i] - min) >> shift), then first_index + i. Ordered as key, then index.
void pack_keys(const uint32_t* keys, int64_t n, uint32_t min, int shift, uint32_t first_index, uint64_t* packed);
void pack_keys(const uint64_t* keys, int64_t n, uint64_t min, int shift, uint32_t first_index, uint64_t* packed);

// Sorts n <= kMaxRankSort different numbers by counting for each how many are smaller.
constexpr int64_t kMaxRankSort = 96;
void rank_sort(const uint64_t* packed, int64_t n, uint64_t* sorted);

// Writes the positions of keys below `bound` to `positions`, which has room for n; returns how many.
int64_t collect_below(const uint32_t* keys, int64_t n, uint32_t bound, uint32_t* positions);
int64_t collect_below(const uint64_t* keys, int64_t n, uint64_t bound, uint32_t* positions);

}  // namespace facula::detail
