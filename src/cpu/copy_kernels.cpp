// Copies of two-dimensional blocks, compiled once per instruction set: contiguous rows, transposes in registers,
// interleaving of few channels, and single elements for what is left.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/copy_kernels.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/copy_kernels.h"
#include "cpu/parallel.h"

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace facula::detail {
namespace HWY_NAMESPACE {
namespace {

// Sixteen bytes with the alignment of their halves: std::complex<double> asks for no more.
struct Sixteen {
  uint64_t a, b;
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr int kVectorBytes = 64;
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Edge of the square that is transposed in registers; at most 16, the number of registers of most instruction sets.
template <class E>
constexpr int kEdge = std::min<int>(16, kVectorBytes / static_cast<int>(sizeof(E)));

template <class E, int N>
using Vec __attribute__((vector_size(N * sizeof(E)))) = E;

// Swaps the off-diagonal K x K squares of each 2K x 2K square of the rows a and b, which are K apart.
template <int K, int N, class V, size_t... J>
HWY_INLINE void exchange(V& a, V& b, std::index_sequence<J...>) {
  const V low = __builtin_shufflevector(a, b, ((J & K) != 0 ? N + J - K : J)...);
  const V high = __builtin_shufflevector(a, b, ((J & K) != 0 ? N + J : J + K)...);
  a = low;
  b = high;
}

template <int K, int N, class V, size_t... P>
HWY_INLINE void exchange_all(V (&v)[N], std::index_sequence<P...>) {
  // Pair P joins the rows whose numbers are P with a 0 or a 1 put in at bit K.
  (exchange<K, N>(v[(P & (K - 1)) | ((P & ~size_t(K - 1)) << 1)], v[(P & (K - 1)) | ((P & ~size_t(K - 1)) << 1) | K],
                  std::make_index_sequence<N>()),
   ...);
}

template <class V>
HWY_INLINE void stream_vector(void* dst, const V& v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(dst), (__m512i)v);
#endif
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if constexpr (sizeof(V) == 32) return _mm256_stream_si256(static_cast<__m256i*>(dst), (__m256i)v);
#endif
  std::memcpy(dst, &v, sizeof(V));
}

// dst[r][c] = src[c][r] for an N x N square.
template <bool kStream, class E, int N>
HWY_INLINE void transpose_square(E* HWY_RESTRICT dst, int64_t dst_row, const E* HWY_RESTRICT src, int64_t src_col) {
  using V = Vec<E, N>;
  V v[N];
  for (int c = 0; c < N; ++c) std::memcpy(&v[c], src + c * src_col, sizeof(V));
  constexpr auto kPairs = std::make_index_sequence<N / 2>();
  if constexpr (N > 8) exchange_all<8, N>(v, kPairs);
  if constexpr (N > 4) exchange_all<4, N>(v, kPairs);
  if constexpr (N > 2) exchange_all<2, N>(v, kPairs);
  exchange_all<1, N>(v, kPairs);
  for (int r = 0; r < N; ++r) {
    if constexpr (kStream) stream_vector(dst + r * dst_row, v[r]);
    else std::memcpy(dst + r * dst_row, &v[r], sizeof(V));
  }
}

template <class E>
void copy_elements(E* dst, int64_t dst_row, int64_t dst_col, const E* src, int64_t src_row, int64_t src_col,
                   int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) dst[r * dst_row + c * dst_col] = src[r * src_row + c * src_col];
  }
}

// dst[r][c] = src[c][r], both with a stride of 1 in their last dimension.
template <bool kStream, class E>
void transpose(E* dst, int64_t dst_row, const E* src, int64_t src_col, int64_t rows, int64_t cols) {
  constexpr int N = kEdge<E>;
  // A panel of whole cache lines of the source, so that each is read once while it is at hand.
  constexpr int64_t kPanel = std::max<int64_t>(N, 64 / static_cast<int64_t>(sizeof(E)));
  for (int64_t r0 = 0; r0 < rows; r0 += kPanel) {
    const int64_t r1 = std::min(rows, r0 + kPanel);
    int64_t c = 0;
    for (; c + N <= cols; c += N) {
      int64_t r = r0;
      for (; r + N <= r1; r += N) {
        transpose_square<kStream, E, N>(dst + r * dst_row + c, dst_row, src + c * src_col + r, src_col);
      }
      copy_elements(dst + r * dst_row + c, dst_row, 1, src + c * src_col + r, 1, src_col, r1 - r, N);
    }
    copy_elements(dst + r0 * dst_row + c, dst_row, 1, src + c * src_col + r0, 1, src_col, r1 - r0, cols - c);
  }
  if constexpr (kStream) end_stream();
}

// Whether every row of a square is one whole cache line; streaming less than a line is slower than not streaming.
template <class E>
bool can_stream(const E* dst, int64_t dst_row) {
  return kEdge<E> * sizeof(E) == 64 && reinterpret_cast<uintptr_t>(dst) % 64 == 0 && dst_row * sizeof(E) % 64 == 0;
}

// Bytes to an address of any alignment, whole cache lines past the cache.
void stream_row(char* dst, const char* src, int64_t n) {
  const int64_t head = std::min<int64_t>(n, -reinterpret_cast<uintptr_t>(dst) & 63);
  std::memcpy(dst, src, head);
  int64_t i = head;
  using V = Vec<uint64_t, kVectorBytes / 8>;
  for (; i + 64 <= n; i += 64) {
    for (int64_t k = 0; k < 64; k += kVectorBytes) {
      V v;
      std::memcpy(&v, src + i + k, sizeof(V));
      stream_vector(dst + i + k, v);
    }
  }
  std::memcpy(dst + i, src + i, n - i);
}

// A transpose through a buffer in L1, whose rows are then streamed: for destinations that do not start at cache
// lines, and for elements so small that a square in registers is narrower than a line.
template <class E>
void transpose_staged(E* dst, int64_t dst_row, const E* src, int64_t src_col, int64_t rows, int64_t cols) {
  constexpr int64_t kRows = 64 / sizeof(E) < 32 ? 32 : 64 / sizeof(E);
  constexpr int64_t kCols = (24 << 10) / sizeof(E) / kRows / 16 * 16;
  alignas(64) E buffer[kRows * kCols];
  for (int64_t c = 0; c < cols; c += kCols) {
    const int64_t n = std::min(kCols, cols - c);
    for (int64_t r = 0; r < rows; r += kRows) {
      const int64_t m = std::min(kRows, rows - r);
      transpose<false>(buffer, kCols, src + c * src_col + r, src_col, m, n);
      for (int64_t i = 0; i < m; ++i) {
        stream_row(reinterpret_cast<char*>(dst + (r + i) * dst_row + c),
                   reinterpret_cast<const char*>(buffer + i * kCols), n * static_cast<int64_t>(sizeof(E)));
      }
    }
  }
  end_stream();
}

// dst[C * i + k] = src[k * channel + i] for k < C: planes to pixels.
template <int C, class E>
void interleave(E* HWY_RESTRICT dst, const E* HWY_RESTRICT src, int64_t channel, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < C; ++k) dst[C * i + k] = src[k * channel + i];
  }
}

// dst[k * channel + i] = src[C * i + k] for k < C: pixels to planes.
template <int C, class E>
void deinterleave(E* HWY_RESTRICT dst, const E* HWY_RESTRICT src, int64_t channel, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < C; ++k) dst[k * channel + i] = src[C * i + k];
  }
}

template <class E>
void fill(E* dst, E value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = value;
}

// One row with a fixed source stride, for which the compiler knows shuffles.
template <int kStride, class E>
void gather_row(E* HWY_RESTRICT dst, const E* HWY_RESTRICT src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = src[i * kStride];
}

template <class E>
void copy_rows(const Block2d& b, E* dst, const E* src, bool stream) {
  const auto row_bytes = b.cols * static_cast<int64_t>(sizeof(E));
  if (stream && b.src_col == 1 && row_bytes >= kStreamedRow) {
    for (int64_t r = 0; r < b.rows; ++r)
      stream_row(reinterpret_cast<char*>(dst + r * b.dst_row), reinterpret_cast<const char*>(src + r * b.src_row),
                 row_bytes);
    return end_stream();
  }
  for (int64_t r = 0; r < b.rows; ++r) {
    E* d = dst + r * b.dst_row;
    const E* s = src + r * b.src_row;
    switch (b.src_col) {
      case 1: {
        if (b.cols * sizeof(E) >= 64) {
          std::memcpy(d, s, b.cols * sizeof(E));
        } else {
          for (int64_t c = 0; c < b.cols; ++c) d[c] = s[c];
        }
        break;
      }
      case 0: fill(d, *s, b.cols); break;
      case 2: gather_row<2>(d, s, b.cols); break;
      case -1: gather_row<-1>(d, s, b.cols); break;
      default: copy_elements(d, 0, 1, s, 0, b.src_col, 1, b.cols);
    }
  }
}

template <class E>
void copy_transposed(const Block2d& b, E* dst, const E* src, bool stream) {
  if (b.cols <= 4 && b.dst_row == b.cols) {
    if (b.cols == 2) return interleave<2>(dst, src, b.src_col, b.rows);
    if (b.cols == 3) return interleave<3>(dst, src, b.src_col, b.rows);
    if (b.cols == 4) return interleave<4>(dst, src, b.src_col, b.rows);
  }
  if (b.rows <= 4 && b.src_col == b.rows) {
    if (b.rows == 2) return deinterleave<2>(dst, src, b.dst_row, b.cols);
    if (b.rows == 3) return deinterleave<3>(dst, src, b.dst_row, b.cols);
    if (b.rows == 4) return deinterleave<4>(dst, src, b.dst_row, b.cols);
  }
  if constexpr (sizeof(E) <= 8) {
    if (stream && can_stream(dst, b.dst_row)) return transpose<true>(dst, b.dst_row, src, b.src_col, b.rows, b.cols);
    if (stream && kVectorBytes >= 32) return transpose_staged(dst, b.dst_row, src, b.src_col, b.rows, b.cols);
    transpose<false>(dst, b.dst_row, src, b.src_col, b.rows, b.cols);
  } else {
    for (int64_t r0 = 0; r0 < b.rows; r0 += 4) {
      copy_elements(dst + r0 * b.dst_row, b.dst_row, 1, src + r0, 1, b.src_col, std::min<int64_t>(4, b.rows - r0),
                    b.cols);
    }
  }
}

template <class E>
void copy_typed(Block2d b, bool stream) {
  if (b.dst_col != 1 && (b.dst_row == 1 || b.cols == 1)) {
    std::swap(b.rows, b.cols);
    std::swap(b.dst_row, b.dst_col);
    std::swap(b.src_row, b.src_col);
  }
  E* dst = static_cast<E*>(b.dst);
  const E* src = static_cast<const E*>(b.src);
  if (b.dst_col == 1 && b.src_row == 1 && b.src_col != 1 && b.rows > 1) return copy_transposed(b, dst, src, stream);
  if (b.dst_col == 1) return copy_rows(b, dst, src, stream);
  copy_elements(dst, b.dst_row, b.dst_col, src, b.src_row, b.src_col, b.rows, b.cols);
}

}  // namespace

void copy(const Block2d& block, size_t elem_size, bool stream) {
  switch (elem_size) {
    case 1: return copy_typed<uint8_t>(block, stream);
    case 2: return copy_typed<uint16_t>(block, stream);
    case 4: return copy_typed<uint32_t>(block, stream);
    case 8: return copy_typed<uint64_t>(block, stream);
    default: return copy_typed<Sixteen>(block, stream);
  }
}

void stream_to(void* dst, const void* src, int64_t n) {
  if (n < kStreamedRow) std::memcpy(dst, src, static_cast<size_t>(n));
  else stream_row(static_cast<char*>(dst), static_cast<const char*>(src), n);
}

bool has_streams() { return HWY_ARCH_X86 && kVectorBytes >= 32; }

template <class E>
void fill_typed(void* dst, const void* value, int64_t n) {
  E v;
  std::memcpy(&v, value, sizeof(E));
  fill(static_cast<E*>(dst), v, n);
}

void fill_elements(void* dst, const void* value, int64_t n, size_t elem_size) {
  switch (elem_size) {
    case 1: return fill_typed<uint8_t>(dst, value, n);
    case 2: return fill_typed<uint16_t>(dst, value, n);
    case 4: return fill_typed<uint32_t>(dst, value, n);
    case 8: return fill_typed<uint64_t>(dst, value, n);
    default: return fill_typed<Sixteen>(dst, value, n);
  }
}

template <class E>
void fill_rows_typed(void* dst, const void* values, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    E v;
    std::memcpy(&v, static_cast<const char*>(values) + static_cast<size_t>(r) * sizeof(E), sizeof(E));
    E* row = static_cast<E*>(dst) + r * cols;
    int64_t c = 0;
    if constexpr (std::is_integral_v<E>) {
      // Full vectors: compilers settle for half of them.
      const hwy::HWY_NAMESPACE::ScalableTag<E> d;
      const auto lanes = static_cast<int64_t>(hwy::HWY_NAMESPACE::Lanes(d));
      const auto all = hwy::HWY_NAMESPACE::Set(d, v);
      for (; c + lanes <= cols; c += lanes) hwy::HWY_NAMESPACE::StoreU(all, d, row + c);
    }
    for (; c < cols; ++c) row[c] = v;
  }
}

void fill_each_row(void* dst, const void* values, int64_t rows, int64_t cols, size_t elem_size) {
  switch (elem_size) {
    case 1: return fill_rows_typed<uint8_t>(dst, values, rows, cols);
    case 2: return fill_rows_typed<uint16_t>(dst, values, rows, cols);
    case 4: return fill_rows_typed<uint32_t>(dst, values, rows, cols);
    case 8: return fill_rows_typed<uint64_t>(dst, values, rows, cols);
    default: return fill_rows_typed<Sixteen>(dst, values, rows, cols);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace facula::detail
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula::detail {

HWY_EXPORT(copy);
HWY_EXPORT(fill_elements);
HWY_EXPORT(fill_each_row);
HWY_EXPORT(stream_to);
HWY_EXPORT(has_streams);

void copy_block(const Block2d& block, size_t elem_size, bool stream) {
  HWY_DYNAMIC_DISPATCH(copy)(block, elem_size, stream);
}

bool worth_streaming(int64_t bytes) {
  constexpr int64_t kLeast = 48 << 20, kOfThread = 6 << 20;  // caches grow with the cores
  return bytes >= kLeast && bytes >= get_num_threads() * kOfThread && HWY_DYNAMIC_DISPATCH(has_streams)();
}

void stream_bytes(void* dst, const void* src, int64_t n) { HWY_DYNAMIC_DISPATCH(stream_to)(dst, src, n); }

void end_stream() {
#if HWY_ARCH_X86
  _mm_sfence();
#endif
}

void fill_row(void* dst, const void* value, int64_t n, size_t elem_size) {
  HWY_DYNAMIC_DISPATCH(fill_elements)(dst, value, n, elem_size);
}

void fill_rows(void* dst, const void* values, int64_t rows, int64_t cols, size_t elem_size) {
  HWY_DYNAMIC_DISPATCH(fill_each_row)(dst, values, rows, cols, elem_size);
}

}  // namespace facula::detail
#endif
