#include "cpu/small_gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/small_gemm.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
constexpr int kMostRows = 8;
#else
constexpr int kMostRows = 4;
#endif

// A block of kRows x (kVectors vectors) of C, kept in registers over all of k.
template <int kRows, int kVectors>
HWY_ATTR void block(const SmallGemm& g, int64_t i, int64_t j) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[kRows][kVectors];
  for (auto& row : acc)
    for (auto& v : row) v = hn::Zero(d);
  const float* a = g.a + i * g.a_row;
  const float* b = g.b + j;
  for (int64_t p = 0; p < g.k; ++p) {
    hn::Vec<decltype(d)> y[kVectors];
    for (int v = 0; v < kVectors; ++v) y[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r * g.a_row]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, y[v], acc[r][v]);
    }
    a += g.a_col;
    b += g.b_row;
  }
  const auto alpha = hn::Set(d, g.alpha), beta = hn::Set(d, g.beta);
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* c = g.c + (i + r) * g.c_row + j + v * lanes;
      const auto scaled = hn::Mul(acc[r][v], alpha);
      hn::StoreU(g.beta == 0 ? scaled : hn::MulAdd(hn::LoadU(d, c), beta, scaled), d, c);
    }
}

// Columns that do not fill a vector.
template <int kRows>
HWY_ATTR void columns_left(const SmallGemm& g, int64_t i, int64_t j) {
  for (; j < g.n; ++j)
    for (int r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += g.a[(i + r) * g.a_row + p * g.a_col] * g.b[p * g.b_row + j];
      float* c = g.c + (i + r) * g.c_row + j;
      *c = g.alpha * sum + (g.beta == 0 ? 0.0f : g.beta * *c);
    }
}

template <int kRows>
HWY_ATTR int64_t rows_of(const SmallGemm& g, int64_t i) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  for (; i + kRows <= g.m; i += kRows) {
    int64_t j = 0;
    for (; j + 2 * lanes <= g.n; j += 2 * lanes) block<kRows, 2>(g, i, j);
    for (; j + lanes <= g.n; j += lanes) block<kRows, 1>(g, i, j);
    columns_left<kRows>(g, i, j);
  }
  return i;
}

HWY_ATTR void product(const SmallGemm& g) {
  int64_t i = rows_of<kMostRows>(g, 0);
  i = rows_of<2>(g, i);
  rows_of<1>(g, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

HWY_EXPORT(product);
void small_gemm(const SmallGemm& g) { HWY_DYNAMIC_DISPATCH(product)(g); }

}  // namespace facula
#endif
