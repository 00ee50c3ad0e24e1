// Sorting one row: values become keys, a key and its index share 64 bits, and these numbers are sorted, by insertion, by rank or by radix.
// The index breaks ties, so every path is stable and all paths agree.
#include "cpu/sort_row.h"

#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/sort_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

namespace facula::detail {
namespace {

constexpr int kMaxDigit = 11;
constexpr int kMaxPasses = 4;

// How `bits` bits are split into digits. Wide digits mean fewer passes, but more counters to add up.
struct Digits {
  Digits(int bits, int64_t n) {
    const int most = n < 1024 ? 8 : kMaxDigit;
    passes = (bits + most - 1) / most;
    width = passes == 0 ? 0 : (bits + passes - 1) / passes;
  }
  int passes, width;
};

template <class T>
void gather_typed(const uint64_t* sorted, int64_t n, const void* src, void* values, int64_t* indices) {
  const T* in = static_cast<const T*>(src);
  T* out = static_cast<T*>(values);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t at = static_cast<uint32_t>(sorted[i]);
    indices[i] = at;
    out[i] = in[at];
  }
}

void gather_sorted(const uint64_t* sorted, int64_t n, const void* src, void* values, int64_t* indices, size_t elem) {
  switch (elem) {
    case 1: return gather_typed<uint8_t>(sorted, n, src, values, indices);
    case 2: return gather_typed<uint16_t>(sorted, n, src, values, indices);
    case 4: return gather_typed<uint32_t>(sorted, n, src, values, indices);
    default: return gather_typed<uint64_t>(sorted, n, src, values, indices);
  }
}

void insertion_sort(uint64_t* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t v = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1] > v; --j) a[j] = a[j - 1];
    a[j] = v;
  }
}

// Sorts by the bits from 32 on; `a` is ordered by index already. The result is in the returned array, which is `a` or `b`.
uint64_t* radix_sort(uint64_t* a, uint64_t* b, int64_t n, int bits) {
  const Digits digits(bits, n);
  uint32_t counts[kMaxPasses][1 << kMaxDigit];
  const uint32_t mask = (1u << digits.width) - 1;
  for (int p = 0; p < digits.passes; ++p) std::fill_n(counts[p], size_t{mask} + 1, 0u);
  const int w = digits.width;
  switch (digits.passes) {
    case 0: return a;
    case 1:
      for (int64_t i = 0; i < n; ++i) ++counts[0][static_cast<uint32_t>(a[i] >> 32) & mask];
      break;
    case 2:
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t key = static_cast<uint32_t>(a[i] >> 32);
        ++counts[0][key & mask];
        ++counts[1][(key >> w) & mask];
      }
      break;
    case 3:
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t key = static_cast<uint32_t>(a[i] >> 32);
        ++counts[0][key & mask];
        ++counts[1][(key >> w) & mask];
        ++counts[2][(key >> 2 * w) & mask];
      }
      break;
    default:
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t key = static_cast<uint32_t>(a[i] >> 32);
        ++counts[0][key & mask];
        ++counts[1][(key >> w) & mask];
        ++counts[2][(key >> 2 * w) & mask];
        ++counts[3][(key >> 3 * w) & mask];
      }
  }
  for (int p = 0; p < digits.passes; ++p) {
    uint32_t* count = counts[p];
    const int shift = 32 + p * w;
    if (count[static_cast<uint32_t>(a[0] >> shift) & mask] == static_cast<uint32_t>(n)) continue;
    uint32_t sum = 0;
    for (uint32_t d = 0; d <= mask; ++d) sum += std::exchange(count[d], sum);
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t v = a[i];
      b[count[static_cast<uint32_t>(v >> shift) & mask]++] = v;
    }
    std::swap(a, b);
  }
  return a;
}

// A key and its index share 64 bits: of a 64-bit key the 32 bits below the highest one in which keys differ are taken.
template <class K>
struct Window {
  explicit Window(KeyRange<K> range) : min(range.min) {
    const int width = static_cast<int>(std::bit_width(static_cast<K>(range.max - range.min)));
    shift = std::max(0, width - 32);
    bits = width - shift;
  }
  K min;
  int shift, bits;
};

// Where keys were cut to a window: orders the entries whose windows are equal by their whole keys.
template <class K>
void order_runs(uint64_t* sorted, int64_t begin, int64_t end, const K* keys) {
  for (int64_t i = begin; i + 1 < end;) {
    int64_t j = i + 1;
    while (j < end && (sorted[j] >> 32) == (sorted[i] >> 32)) ++j;
    if (j - i > 1) {
      std::sort(sorted + i, sorted + j, [keys](uint64_t x, uint64_t y) {
        const K kx = keys[static_cast<uint32_t>(x)], ky = keys[static_cast<uint32_t>(y)];
        return kx != ky ? kx < ky : x < y;
      });
    }
    i = j;
  }
}

template <class K>
size_t row_bytes(int64_t n) {
  return 2 * round_up_64(static_cast<size_t>(n) * sizeof(uint64_t)) + round_up_64(static_cast<size_t>(n) * sizeof(K));
}

template <class K>
void sort_typed(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* work, void* values,
                int64_t* indices) {
  const size_t elem = elementSize(t);
  const size_t part = round_up_64(static_cast<size_t>(n) * sizeof(uint64_t));
  uint64_t* a = static_cast<uint64_t*>(work);
  uint64_t* b = reinterpret_cast<uint64_t*>(static_cast<char*>(work) + part);
  K* keys = reinterpret_cast<K*>(static_cast<char*>(work) + 2 * part);
  load_keys(t, src, n, descending, keys);
  constexpr int64_t kInsertion = 12;
  if (n <= kMaxRankSort && sizeof(K) == 4) {
    pack_keys(keys, n, K{0}, 0, 0, a);
    if (n <= kInsertion) {
      insertion_sort(a, n);
    } else {
      rank_sort(a, n, b);
      a = b;
    }
    return gather_sorted(a, keep, src, values, indices, elem);
  }
  const Window<K> window(key_range(keys, n));
  pack_keys(keys, n, window.min, window.shift, 0, a);
  if (n <= kInsertion) {
    insertion_sort(a, n);
  } else if (n <= kMaxRankSort) {
    rank_sort(a, n, b);
    a = b;
  } else if (!std::is_sorted(keys, keys + n)) {
    a = radix_sort(a, b, n, window.bits);
  }
  if (window.shift != 0) order_runs(a, 0, n, keys);
  gather_sorted(a, keep, src, values, indices, elem);
}

template <class K>
void sort_by_comparison(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                        int64_t* indices) {
  const size_t elem = elementSize(t);
  const size_t part = round_up_64(static_cast<size_t>(n) * sizeof(int64_t));
  Scratch scratch(part + static_cast<size_t>(n) * sizeof(K));
  int64_t* order = scratch.as<int64_t>();
  K* keys = scratch.as<K>(part);
  load_keys(t, src, n, descending, keys);
  std::iota(order, order + n, int64_t{0});
  std::sort(order, order + n, [keys](int64_t x, int64_t y) { return keys[x] != keys[y] ? keys[x] < keys[y] : x < y; });
  for (int64_t i = 0; i < keep; ++i) {
    const char* from = static_cast<const char*>(src) + static_cast<size_t>(order[i]) * elem;
    std::memcpy(static_cast<char*>(values) + static_cast<size_t>(i) * elem, from, elem);
    indices[i] = order[i];
  }
}

// One radix pass over a long row: every thread counts its part, and writes it to where its share of each bucket begins.
void radix_pass_parallel(const uint64_t* a, uint64_t* b, int64_t n, int shift, int width, int threads,
                         uint32_t* counts) {
  const uint32_t buckets = 1u << width, mask = buckets - 1;
  const auto part = [&](int t) { return n * t / threads; };
  parallel_threads(threads, [&](int t) {
    uint32_t* count = counts + static_cast<size_t>(t) * buckets;
    std::fill_n(count, buckets, 0u);
    for (int64_t i = part(t), end = part(t + 1); i < end; ++i) ++count[static_cast<uint32_t>(a[i] >> shift) & mask];
  });
  uint32_t sum = 0;
  for (uint32_t d = 0; d < buckets; ++d)
    for (int t = 0; t < threads; ++t) sum += std::exchange(counts[static_cast<size_t>(t) * buckets + d], sum);
  parallel_threads(threads, [&](int t) {
    uint32_t* count = counts + static_cast<size_t>(t) * buckets;
    for (int64_t i = part(t), end = part(t + 1); i < end; ++i) {
      const uint64_t v = a[i];
      b[count[static_cast<uint32_t>(v >> shift) & mask]++] = v;
    }
  });
}

template <class K>
void sort_parallel(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                   int64_t* indices) {
  const size_t elem = elementSize(t);
  const size_t part = round_up_64(static_cast<size_t>(n) * sizeof(uint64_t));
  Scratch scratch(row_bytes<K>(n));
  uint64_t* a = scratch.as<uint64_t>();
  uint64_t* b = scratch.as<uint64_t>(part);
  K* keys = scratch.as<K>(2 * part);
  const int threads = static_cast<int>(std::min<int64_t>(get_num_threads(), 64));
  const auto split = [&](int64_t count, int thread) { return count * thread / threads; };
  KeyRange<K> ranges[64];
  parallel_threads(threads, [&](int thread) {
    const int64_t begin = split(n, thread), end = split(n, thread + 1);
    load_keys(t, static_cast<const char*>(src) + static_cast<size_t>(begin) * elem, end - begin, descending,
              keys + begin);
    ranges[thread] = key_range(keys + begin, end - begin);
  });
  for (int thread = 1; thread < threads; ++thread) {
    ranges[0].min = std::min(ranges[0].min, ranges[thread].min);
    ranges[0].max = std::max(ranges[0].max, ranges[thread].max);
  }
  const Window<K> window(ranges[0]);
  parallel_threads(threads, [&](int thread) {
    const int64_t begin = split(n, thread), end = split(n, thread + 1);
    pack_keys(keys + begin, end - begin, window.min, window.shift, static_cast<uint32_t>(begin), a + begin);
  });
  if (!std::is_sorted(keys, keys + n)) {
    // Eight bits: as many buckets as the processor keeps pages and lines of at once.
    const int passes = (window.bits + 7) / 8;
    const int width = passes == 0 ? 0 : (window.bits + passes - 1) / passes;
    Scratch counts((sizeof(uint32_t) << width) * static_cast<size_t>(threads));
    for (int p = 0; p < passes; ++p) {
      radix_pass_parallel(a, b, n, 32 + p * width, width, threads, counts.as<uint32_t>());
      std::swap(a, b);
    }
  }
  if (window.shift != 0) {
    // A run belongs to the thread in whose part it begins.
    int64_t starts[65];
    for (int thread = 0; thread <= threads; ++thread) {
      int64_t i = split(n, thread);
      while (i > 0 && i < n && (a[i] >> 32) == (a[i - 1] >> 32)) ++i;
      starts[thread] = i;
    }
    parallel_threads(threads, [&](int thread) { order_runs(a, starts[thread], starts[thread + 1], keys); });
  }
  parallel_threads(threads, [&](int thread) {
    const int64_t begin = split(keep, thread), end = split(keep, thread + 1);
    gather_sorted(a + begin, end - begin, src, static_cast<char*>(values) + static_cast<size_t>(begin) * elem,
                  indices + begin, elem);
  });
}

}  // namespace

size_t sort_row_bytes(ScalarType t, int64_t n) {
  return has_wide_keys(t) ? row_bytes<uint64_t>(n) : row_bytes<uint32_t>(n);
}

void sort_row(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* work, void* values,
              int64_t* indices) {
  if (n > kMaxPackedRow - 1) return sort_row_by_comparison(t, src, n, descending, keep, values, indices);
  if (has_wide_keys(t)) return sort_typed<uint64_t>(t, src, n, descending, keep, work, values, indices);
  sort_typed<uint32_t>(t, src, n, descending, keep, work, values, indices);
}

void sort_row_parallel(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                       int64_t* indices) {
  if (n > kMaxPackedRow - 1) return sort_row_by_comparison(t, src, n, descending, keep, values, indices);
  if (has_wide_keys(t)) return sort_parallel<uint64_t>(t, src, n, descending, keep, values, indices);
  sort_parallel<uint32_t>(t, src, n, descending, keep, values, indices);
}

void sort_row_by_comparison(ScalarType t, const void* src, int64_t n, bool descending, int64_t keep, void* values,
                            int64_t* indices) {
  if (has_wide_keys(t)) return sort_by_comparison<uint64_t>(t, src, n, descending, keep, values, indices);
  sort_by_comparison<uint32_t>(t, src, n, descending, keep, values, indices);
}

}  // namespace facula::detail
