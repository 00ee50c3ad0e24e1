// Sums over lanes of a fixed number, whatever the width of vectors: the same numbers on every machine.
#if defined(FACULA_SUM_OVER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACULA_SUM_OVER_INL_H_
#undef FACULA_SUM_OVER_INL_H_
#else
#define FACULA_SUM_OVER_INL_H_
#endif

#include "hwy/highway.h"

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

// term(0) + ... + term(n - 1)
template <class T, class F>
HWY_INLINE T sum_over(int64_t n, const F& term) {
  constexpr int64_t kLanes = 32;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  for (int64_t k = 0; i < n; ++i, ++k) lanes[k] += term(i);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();
#endif
