// Loops over sort keys, compiled once per instruction set. They are plain C++ that compilers vectorise.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/sort_ops.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "core/dispatch.h"
#include "cpu/sort_keys.h"

HWY_BEFORE_NAMESPACE();
namespace facula::detail {
namespace HWY_NAMESPACE {
namespace {

// The pattern of a float's infinity, or of its largest number where there is none: magnitudes above are NaN.
template <class T>
constexpr uint64_t kTopMagnitude = 0;
template <>
constexpr uint64_t kTopMagnitude<float> = 0x7F80'0000u;
template <>
constexpr uint64_t kTopMagnitude<double> = 0x7FF0'0000'0000'0000u;
template <>
constexpr uint64_t kTopMagnitude<Half> = 0x7C00;
template <>
constexpr uint64_t kTopMagnitude<BFloat16> = 0x7F80;
template <>
constexpr uint64_t kTopMagnitude<Float8_e5m2> = 0x7C;
template <>
constexpr uint64_t kTopMagnitude<Float8_e4m3fn> = 0x7E;

template <size_t>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};

// Keys keep the width of T, so that radix passes over the upper bytes of small types fall away.
template <class T, class K>
HWY_INLINE void load_typed(const void* HWY_RESTRICT src, int64_t n, K flip, K* HWY_RESTRICT keys) {
  using U = typename UnsignedOf<sizeof(T)>::type;
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  const U* HWY_RESTRICT in = static_cast<const U*>(src);
  if constexpr (kTopMagnitude<T> != 0) {
    constexpr U kTop = static_cast<U>(kTopMagnitude<T>);
    for (int64_t i = 0; i < n; ++i) {
      const U bits = in[i];
      const U magnitude = static_cast<U>(bits & static_cast<U>(~kSign));
      U key =
          static_cast<U>((bits & kSign) != 0 ? static_cast<U>(kSign - magnitude) : static_cast<U>(kSign | magnitude));
      key = magnitude > kTop ? static_cast<U>(~U{0}) : key;
      keys[i] = static_cast<K>(key) ^ flip;
    }
  } else {
    constexpr U kBias = std::is_signed_v<T> ? kSign : U{0};
    for (int64_t i = 0; i < n; ++i) keys[i] = static_cast<K>(static_cast<U>(in[i] ^ kBias)) ^ flip;
  }
}

template <class K>
HWY_INLINE void load_any(ScalarType t, const void* src, int64_t n, bool descending, K* keys) {
  dispatch_real(t, [&]<class T>() {
    using U = typename UnsignedOf<sizeof(T)>::type;
    if constexpr ((sizeof(T) == 8) == (sizeof(K) == 8)) {
      load_typed<T, K>(src, n, descending ? static_cast<K>(static_cast<U>(~U{0})) : K{0}, keys);
    }
  });
}

template <class K>
HWY_INLINE KeyRange<K> range_of(const K* HWY_RESTRICT keys, int64_t n) {
  K low = static_cast<K>(~K{0}), high = 0;
  for (int64_t i = 0; i < n; ++i) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  return {low, high};
}

template <class K>
HWY_INLINE void pack_any(const K* HWY_RESTRICT keys, int64_t n, K min, int shift, uint32_t first,
                         uint64_t* HWY_RESTRICT packed) {
  for (int64_t i = 0; i < n; ++i) {
    packed[i] =
        (static_cast<uint64_t>(static_cast<K>(keys[i] - min) >> shift) << 32) | (first + static_cast<uint32_t>(i));
  }
}

template <class K>
HWY_INLINE int64_t collect_any(const K* HWY_RESTRICT keys, int64_t n, K bound, uint32_t* HWY_RESTRICT positions) {
  // Hits are rare once the bound is good: a whole group is looked at before any single key is.
  constexpr int64_t kGroup = 64 / sizeof(K);
  int64_t count = 0, i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    K hits = 0;
    for (int64_t j = 0; j < kGroup; ++j) hits |= static_cast<K>(keys[i + j] < bound);
    if (HWY_LIKELY(hits == 0)) continue;
    for (int64_t j = 0; j < kGroup; ++j) {
      positions[count] = static_cast<uint32_t>(i + j);
      count += keys[i + j] < bound;
    }
  }
  for (; i < n; ++i) {
    if (keys[i] < bound) positions[count++] = static_cast<uint32_t>(i);
  }
  return count;
}

}  // namespace

void load_keys_narrow(ScalarType t, const void* src, int64_t n, bool descending, uint32_t* keys) {
  load_any<uint32_t>(t, src, n, descending, keys);
}
void load_keys_wide(ScalarType t, const void* src, int64_t n, bool descending, uint64_t* keys) {
  load_any<uint64_t>(t, src, n, descending, keys);
}
void range_narrow(const uint32_t* keys, int64_t n, KeyRange<uint32_t>* range) { *range = range_of(keys, n); }
void range_wide(const uint64_t* keys, int64_t n, KeyRange<uint64_t>* range) { *range = range_of(keys, n); }
void pack_narrow(const uint32_t* keys, int64_t n, uint32_t min, int shift, uint32_t first, uint64_t* packed) {
  pack_any(keys, n, min, shift, first, packed);
}
void pack_wide(const uint64_t* keys, int64_t n, uint64_t min, int shift, uint32_t first, uint64_t* packed) {
  pack_any(keys, n, min, shift, first, packed);
}
int64_t collect_narrow(const uint32_t* keys, int64_t n, uint32_t bound, uint32_t* positions) {
  return collect_any(keys, n, bound, positions);
}
int64_t collect_wide(const uint64_t* keys, int64_t n, uint64_t bound, uint32_t* positions) {
  return collect_any(keys, n, bound, positions);
}

void rank_sort_row(const uint64_t* HWY_RESTRICT packed, int64_t n, uint64_t* HWY_RESTRICT sorted) {
  // Padding with the greatest number leaves all ranks as they are and makes the inner loop whole vectors.
  alignas(64) uint64_t all[kMaxRankSort + 8];
  const int64_t whole = (n + 7) & ~int64_t{7};
  std::memcpy(all, packed, static_cast<size_t>(n) * sizeof(uint64_t));
  for (int64_t i = n; i < whole; ++i) all[i] = ~uint64_t{0};
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t own = all[i];
    uint64_t rank = 0;
    for (int64_t j = 0; j < whole; ++j) rank += static_cast<uint64_t>(all[j] < own);
    sorted[rank] = own;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::detail {

HWY_EXPORT(load_keys_narrow);
HWY_EXPORT(load_keys_wide);
HWY_EXPORT(range_narrow);
HWY_EXPORT(range_wide);
HWY_EXPORT(pack_narrow);
HWY_EXPORT(pack_wide);
HWY_EXPORT(collect_narrow);
HWY_EXPORT(collect_wide);
HWY_EXPORT(rank_sort_row);

void load_keys(ScalarType t, const void* src, int64_t n, bool descending, uint32_t* keys) {
  HWY_DYNAMIC_DISPATCH(load_keys_narrow)(t, src, n, descending, keys);
}
void load_keys(ScalarType t, const void* src, int64_t n, bool descending, uint64_t* keys) {
  HWY_DYNAMIC_DISPATCH(load_keys_wide)(t, src, n, descending, keys);
}
KeyRange<uint32_t> key_range(const uint32_t* keys, int64_t n) {
  KeyRange<uint32_t> range;
  HWY_DYNAMIC_DISPATCH(range_narrow)(keys, n, &range);
  return range;
}
KeyRange<uint64_t> key_range(const uint64_t* keys, int64_t n) {
  KeyRange<uint64_t> range;
  HWY_DYNAMIC_DISPATCH(range_wide)(keys, n, &range);
  return range;
}
void pack_keys(const uint32_t* keys, int64_t n, uint32_t min, int shift, uint32_t first_index, uint64_t* packed) {
  HWY_DYNAMIC_DISPATCH(pack_narrow)(keys, n, min, shift, first_index, packed);
}
void pack_keys(const uint64_t* keys, int64_t n, uint64_t min, int shift, uint32_t first_index, uint64_t* packed) {
  HWY_DYNAMIC_DISPATCH(pack_wide)(keys, n, min, shift, first_index, packed);
}
void rank_sort(const uint64_t* packed, int64_t n, uint64_t* sorted) {
  HWY_DYNAMIC_DISPATCH(rank_sort_row)(packed, n, sorted);
}
int64_t collect_below(const uint32_t* keys, int64_t n, uint32_t bound, uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(collect_narrow)(keys, n, bound, positions);
}
int64_t collect_below(const uint64_t* keys, int64_t n, uint64_t bound, uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(collect_wide)(keys, n, bound, positions);
}

}  // namespace facula::detail
#endif
