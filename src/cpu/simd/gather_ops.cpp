#include "cpu/simd/gather_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/gather_ops.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Index and distance to the end are both non-negative exactly when the index is in range.
template <class D, class V>
HWY_INLINE V out_of_range_bits(D d, V index, V last) {
  return hn::Or(index, hn::Sub(last, index));
}

template <class T>
HWY_INLINE bool gather_rest(const T* self, const int64_t* index, T* other, int64_t n, int64_t size) {
  for (int64_t j = 0; j < n; ++j) {
    if (static_cast<uint64_t>(index[j]) >= static_cast<uint64_t>(size)) return false;
    other[j] = self[index[j]];
  }
  return true;
}

HWY_ATTR bool gather_4(const uint32_t* self, const int64_t* index, uint32_t* other, int64_t n, int64_t size) {
  int64_t j = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  // Gathers take 32-bit indices here.
  if (size <= INT32_MAX) {
    const hn::ScalableTag<int32_t> d32;
    const hn::ScalableTag<int64_t> d64;
    const hn::RebindToUnsigned<decltype(d64)> du64;
    const hn::RebindToUnsigned<decltype(d32)> du;
    const hn::Half<decltype(du)> half;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d32));
    const auto last = hn::Set(d64, size - 1);
    for (; j + lanes <= n; j += lanes) {
      const auto low = hn::LoadU(d64, index + j), high = hn::LoadU(d64, index + j + lanes / 2);
      const auto bad = hn::Or(out_of_range_bits(d64, low, last), out_of_range_bits(d64, high, last));
      if (!hn::AllFalse(d64, hn::Lt(bad, hn::Zero(d64)))) return false;
      const auto narrow =
          hn::Combine(du, hn::TruncateTo(half, hn::BitCast(du64, high)), hn::TruncateTo(half, hn::BitCast(du64, low)));
      hn::StoreU(hn::GatherIndex(du, self, hn::BitCast(d32, narrow)), du, other + j);
    }
  }
#endif
  return gather_rest(self, index + j, other + j, n - j, size);
}

HWY_ATTR bool gather_8(const uint64_t* self, const int64_t* index, uint64_t* other, int64_t n, int64_t size) {
  int64_t j = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::ScalableTag<int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto last = hn::Set(d, size - 1);
  for (; j + lanes <= n; j += lanes) {
    const auto at = hn::LoadU(d, index + j);
    if (!hn::AllFalse(d, hn::Lt(out_of_range_bits(d, at, last), hn::Zero(d)))) return false;
    hn::StoreU(hn::GatherIndex(du, self, at), du, other + j);
  }
#endif
  return gather_rest(self, index + j, other + j, n - j, size);
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
