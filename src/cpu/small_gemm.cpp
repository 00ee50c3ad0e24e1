#include "cpu/small_gemm.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/small_gemm.cpp"
#include "cpu/simd/targets.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Blocks are arrays of vectors; only unrolled loops keep them in registers.
#undef FACULA_UNROLL
#define FACULA_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// The largest blocks of C that fit the registers: rows by columns in vectors.
#if HWY_TARGET == HWY_AVX3
constexpr int kMostVectors = 4;
constexpr int most_rows(int vectors) { return vectors == 4 ? 6 : 8; }
#else
constexpr int kMostVectors = 3;
constexpr int most_rows(int) { return 4; }
#endif
// A panel of B (kDepth x kMostVectors vectors) and the rows of A that meet it stay close to the processor.
constexpr int64_t kDepth = 256;

// What one panel of C needs: k, n and beta are those of the panel.
struct Panel {
  SmallGemm g;
  const float* b;  // rows of whole vectors
  int64_t b_row;
};

// Part of a vector: what lies past it in memory is not touched, and reads as 0.
HWY_ATTR HWY_INLINE hn::Vec<D> load_first(const float* from, int64_t count) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(D(), static_cast<size_t>(count)), D(), from);
#else
  HWY_ALIGN float room[kLanes] = {};
  for (int64_t j = 0; j < count; ++j) room[j] = from[j];
  return hn::Load(D(), room);
#endif
}
HWY_ATTR HWY_INLINE void store_first(hn::Vec<D> v, float* to, int64_t count) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(D(), static_cast<size_t>(count)), D(), to);
#else
  HWY_ALIGN float room[kLanes];
  hn::Store(v, D(), room);
  for (int64_t j = 0; j < count; ++j) to[j] = room[j];
#endif
}

// A block of kRows x (kVectors vectors) of C from row i on, kept in registers over all of k.
template <int kRows, int kVectors>
HWY_ATTR void block(const Panel& panel, int64_t i) {
  const D d;
  const SmallGemm& g = panel.g;
  hn::Vec<D> acc[kRows][kVectors];
  FACULA_UNROLL for (int r = 0; r < kRows; ++r) {
    FACULA_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
  }
  float* c = g.c + i * g.c_row;
  const float *a = g.a + i * g.a_row, *b = panel.b;
  const int64_t a_row = g.a_row, b_row = panel.b_row;
  for (int64_t p = 0; p < g.k; ++p) {
    hn::Vec<D> y[kVectors];
    FACULA_UNROLL for (int v = 0; v < kVectors; ++v) y[v] = hn::LoadU(d, b + v * kLanes);
    FACULA_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r * a_row]);
      FACULA_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(x, y[v], acc[r][v]);
    }
    a += g.a_col;
    b += b_row;
  }
  const int64_t last = g.n - (kVectors - 1) * kLanes;  // columns of the last vector
  const auto alpha = hn::Set(d, g.alpha), beta = hn::Set(d, g.beta);
  FACULA_UNROLL for (int r = 0; r < kRows; ++r) {
    FACULA_UNROLL for (int v = 0; v < kVectors; ++v) {
      float* to = c + v * kLanes;
      const auto scaled = hn::Mul(acc[r][v], alpha);
      if (v + 1 < kVectors || last == kLanes)
        hn::StoreU(g.beta == 0 ? scaled : hn::MulAdd(hn::LoadU(d, to), beta, scaled), d, to);
      else store_first(g.beta == 0 ? scaled : hn::MulAdd(load_first(to, last), beta, scaled), to, last);
    }
    c += g.c_row;
  }
}

// As many blocks of kRows as fit; returns the first row that is left.
template <int kRows, int kVectors>
HWY_ATTR int64_t rows_of(const Panel& panel, int64_t i) {
  for (; i + kRows <= panel.g.m; i += kRows) block<kRows, kVectors>(panel, i);
  return i;
}

template <int kVectors>
HWY_ATTR void all_rows(const Panel& panel) {
  constexpr int kMostRows = most_rows(kVectors);
  int64_t i = rows_of<kMostRows, kVectors>(panel, 0);
  if constexpr (kMostRows > 4) i = rows_of<4, kVectors>(panel, i);
  i = rows_of<2, kVectors>(panel, i);
  rows_of<1, kVectors>(panel, i);
}

// A 4 x 4 block of B, transposed on the way.
HWY_ATTR void pack_turned(const float* from, int64_t column, float* to, int64_t width) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<uint64_t, decltype(d)> pairs;
  const auto x0 = hn::LoadU(d, from), x1 = hn::LoadU(d, from + column), x2 = hn::LoadU(d, from + 2 * column),
             x3 = hn::LoadU(d, from + 3 * column);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, x0, x1)),
             low23 = hn::BitCast(pairs, hn::InterleaveLower(d, x2, x3)),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, x0, x1)),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, x2, x3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * width);
}

// Rows of B become rows of `width` floats, a whole number of vectors, with 0 past n.
HWY_ATTR void pack(const SmallGemm& g, int64_t width, float* packed) {
  const D d;
  if (g.b_col == 1) {
    for (int64_t p = 0; p < g.k; ++p)
      for (int64_t j = 0; j < width; j += kLanes) {
        const float* from = g.b + p * g.b_row + j;
        hn::Store(j + kLanes <= g.n ? hn::LoadU(d, from) : load_first(from, g.n - j), d, packed + p * width + j);
      }
    return;
  }
  const bool turned = g.b_row == 1;
  const int64_t rows = turned ? g.k / 4 * 4 : 0, columns = g.n / 4 * 4;
  for (int64_t p = 0; p < rows; p += 4)
    for (int64_t j = 0; j < columns; j += 4) pack_turned(g.b + p + j * g.b_col, g.b_col, packed + p * width + j, width);
  for (int64_t p = 0; p < g.k; ++p) {
    int64_t j = p < rows ? columns : 0;
    for (; j < g.n; ++j) packed[p * width + j] = g.b[p * g.b_row + j * g.b_col];
    for (; j < width; ++j) packed[p * width + j] = 0;
  }
}

HWY_ATTR void product(const SmallGemm& g) {
  HWY_ALIGN float packed[kDepth * kMostVectors * kLanes];
  const int64_t vectors = (g.n + kLanes - 1) / kLanes, panels = (vectors + kMostVectors - 1) / kMostVectors;
  for (int64_t p = 0; p < g.k; p += kDepth) {
    int64_t j = 0;
    for (int64_t i = 0; i < panels; ++i) {
      // Panels are as equal as can be: a single vector keeps too few sums in flight.
      const int64_t width = (vectors * (i + 1) / panels - vectors * i / panels) * kLanes;
      Panel panel{g, g.b + p * g.b_row + j * g.b_col, g.b_row};
      panel.g.a += p * g.a_col;
      panel.g.b = panel.b;
      panel.g.c += j;
      panel.g.k = std::min(kDepth, g.k - p);
      panel.g.n = std::min(width, g.n - j);
      if (p != 0) panel.g.beta = 1;
      // Rows that lie a multiple of a page apart share few cache sets. Few rows of A do not pay for a copy of B.
      const bool spread = g.b_row >= 1024 && g.m >= 64;
      if (g.b_col != 1 || panel.g.n != width || spread) {
        pack(panel.g, width, packed);
        panel.b = packed;
        panel.b_row = width;
      }
      switch (width / kLanes) {
        case 1: all_rows<1>(panel); break;
        case 2: all_rows<2>(panel); break;
        case 3: all_rows<3>(panel); break;
        default: all_rows<kMostVectors>(panel); break;
      }
      j += width;
    }
  }
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
