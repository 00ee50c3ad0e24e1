#include "cpu/simd/gather_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/gather_ops.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include <bit>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Takes kCount elements. One by one: the instructions that gather them take as long on some processors and twice as long on others. Two of 4 bytes
// are stored at once, which saves more than putting them together costs.
template <int64_t kCount, class T>
HWY_INLINE HWY_ATTR void take(const T* self, const int64_t* index, T* other) {
  if constexpr (sizeof(T) == 4 && std::endian::native == std::endian::little) {
    for (int64_t k = 0; k < kCount; k += 2) {
      const uint64_t pair = self[index[k]] | static_cast<uint64_t>(self[index[k + 1]]) << 32;
      std::memcpy(other + k, &pair, sizeof pair);
    }
  } else {
    for (int64_t k = 0; k < kCount; ++k) other[k] = self[index[k]];
  }
}

// What scatter.cpp does for any strides, in half the time or less: full vectors check 64 indices, and a loop of fixed length takes the elements.
template <class T>
HWY_INLINE HWY_ATTR bool gather_checked(const T* self, const int64_t* index, T* other, int64_t n, int64_t size) {
  constexpr int64_t kBlock = 64;
  const hn::ScalableTag<int64_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto last = hn::Set(d, size - 1);
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    // Index and distance to the end are both non-negative exactly when the index is in range.
    auto bits = hn::Zero(d);
    for (int64_t k = 0; k < kBlock; k += lanes) {
      const auto at = hn::LoadU(d, index + j + k);
      bits = hn::Or(bits, hn::Or(at, hn::Sub(last, at)));
    }
    if (!hn::AllFalse(d, hn::Lt(bits, hn::Zero(d)))) return false;
    take<kBlock>(self, index + j, other + j);
  }
  for (; j < n; ++j) {
    if (static_cast<uint64_t>(index[j]) >= static_cast<uint64_t>(size)) return false;
    other[j] = self[index[j]];
  }
  return true;
}

HWY_ATTR bool gather_4(const uint32_t* self, const int64_t* index, uint32_t* other, int64_t n, int64_t size) {
  return gather_checked(self, index, other, n, size);
}

HWY_ATTR bool gather_8(const uint64_t* self, const int64_t* index, uint64_t* other, int64_t n, int64_t size) {
  return gather_checked(self, index, other, n, size);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(gather_4);
HWY_EXPORT(gather_8);

bool gather_elements(const uint32_t* self, const int64_t* index, uint32_t* other, int64_t n, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(gather_4)(self, index, other, n, size);
}
bool gather_elements(const uint64_t* self, const int64_t* index, uint64_t* other, int64_t n, int64_t size) {
  return HWY_DYNAMIC_DISPATCH(gather_8)(self, index, other, n, size);
}

}  // namespace facula
#endif
