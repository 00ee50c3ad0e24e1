// Picks conversion functions, and loads and stores strided blocks with them. The loops themselves are in
// convert_kernels.cpp.
#include "cpu/convert.h"

#include <algorithm>
#include <cstring>

#include "cpu/convert_table.h"
#include "cpu/copy_kernels.h"

namespace facula {

namespace {

constexpr size_t index(ScalarType t) { return static_cast<size_t>(t); }
constexpr size_t index(CType t) { return static_cast<size_t>(t); }

constexpr bool holds_compute_type(ScalarType t) { return elementSize(t) == size_of(compute_type(t)) && t != kUInt32; }

template <size_t kSize>
void copy_elements(const void* src, void* dst, size_t n) {
  std::memmove(dst, src, n * kSize);
}

ConvertFn plain_copy(size_t elem_size) {
  switch (elem_size) {
    case 1: return copy_elements<1>;
    case 2: return copy_elements<2>;
    case 4: return copy_elements<4>;
    case 8: return copy_elements<8>;
    default: return copy_elements<16>;
  }
}

// Room for elements on their way between strided memory and a converting pass.
constexpr int64_t kStaged = 1024;
struct alignas(64) Staging {
  char bytes[kStaged * 16];
};

// Loads the one row or column of n elements at a stride.
void load_row(const char* src, ScalarType mem, ConvertFn load, int64_t n, int64_t stride, char* tile) {
  const int64_t elem = static_cast<int64_t>(elementSize(mem));
  const size_t out = size_of(compute_type(mem));
  if (stride == 1) {
    if (load != nullptr) load(src, tile, static_cast<size_t>(n));
    else std::memcpy(tile, src, static_cast<size_t>(n * elem));
    return;
  }
  if (load == nullptr) {
    detail::copy_block({tile, src, 1, n, 0, 1, 0, stride}, static_cast<size_t>(elem), false);
    return;
  }
  Staging staging;
  for (int64_t i = 0; i < n; i += kStaged) {
    const int64_t m = std::min(kStaged, n - i);
    detail::copy_block({staging.bytes, src + i * stride * elem, 1, m, 0, 1, 0, stride}, static_cast<size_t>(elem),
                       false);
    load(staging.bytes, tile + static_cast<size_t>(i) * out, static_cast<size_t>(m));
  }
}

// Each row is one element, repeated.
void load_repeated(const char* src, ScalarType mem, ConvertFn load, int64_t rows, int64_t cols, int64_t row_stride,
                   char* tile) {
  const size_t out = size_of(compute_type(mem));
  if (row_stride == 0) rows *= cols, cols = rows, rows = 1;
  Staging staging;
  for (int64_t r = 0; r < rows; r += kStaged) {
    const int64_t m = std::min(kStaged, rows - r);
    load_row(src + r * row_stride * static_cast<int64_t>(elementSize(mem)), mem, load, m, row_stride, staging.bytes);
    detail::fill_rows(tile + static_cast<size_t>(r * cols) * out, staging.bytes, m, cols, out);
  }
}

}  // namespace

ScalarType dtype_of(CType t) {
  constexpr ScalarType kTypes[kCTypeCount] = {kFloat,  kDouble, kInt,          kLong,
                                              kUInt64, kBool,   kComplexFloat, kComplexDouble};
  return kTypes[index(t)];
}

ConvertFn load_fn(ScalarType mem) {
  return holds_compute_type(mem) ? nullptr : detail::convert_table().load[index(mem)];
}

ConvertFn store_fn(ScalarType mem) {
  return holds_compute_type(mem) ? nullptr : detail::convert_table().cast_store[index(compute_type(mem))][index(mem)];
}

ConvertFn cast_fn(CType from, CType to) {
  return from == to ? nullptr : detail::convert_table().cast_store[index(from)][index(dtype_of(to))];
}

ConvertFn cast_store_fn(CType from, ScalarType to) {
  return detail::convert_table().cast_store[index(from)][index(to)];
}

ConvertFn convert_fn(ScalarType from, ScalarType to) {
  if (from == to) return plain_copy(elementSize(from));
  if (holds_compute_type(from)) return cast_store_fn(compute_type(from), to);
  if (dtype_of(compute_type(from)) == to) return load_fn(from);
  return detail::convert_table().direct[index(from)][index(to)];
}

void convert_streamed(ConvertFn convert, const void* src, size_t src_width, void* dst, size_t dst_width, size_t n) {
  Staging staging;
  const size_t most = sizeof(staging) / 2 / dst_width;
  for (size_t i = 0; i < n; i += most) {
    const size_t m = std::min(most, n - i);
    convert(static_cast<const char*>(src) + i * src_width, staging.bytes, m);
    detail::stream_bytes(static_cast<char*>(dst) + i * dst_width, staging.bytes, static_cast<int64_t>(m * dst_width));
  }
}

void load_block(const void* src, ScalarType mem, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                void* tile) {
  if (rows <= 0 || cols <= 0) return;
  const ConvertFn load = load_fn(mem);
  const int64_t elem = static_cast<int64_t>(elementSize(mem));
  const int64_t out = static_cast<int64_t>(size_of(compute_type(mem)));
  const char* s = static_cast<const char*>(src);
  char* t = static_cast<char*>(tile);
  if (rows == 1 && cols > 1 && col_stride == 0) return load_repeated(s, mem, load, 1, cols, 0, t);
  if (rows == 1) return load_row(s, mem, load, cols, col_stride, t);
  if (cols == 1) return load_row(s, mem, load, rows, row_stride, t);
  if (row_stride == col_stride * cols && col_stride != 0) return load_row(s, mem, load, rows * cols, col_stride, t);
  if (col_stride == 0) return load_repeated(s, mem, load, rows, cols, row_stride, t);
  if (row_stride == 0) {
    load_row(s, mem, load, cols, col_stride, t);
    for (int64_t r = 1; r < rows; ++r) std::memcpy(t + r * cols * out, t, static_cast<size_t>(cols * out));
    return;
  }
  if (col_stride == 1 && load != nullptr) {
    for (int64_t r = 0; r < rows; ++r) load(s + r * row_stride * elem, t + r * cols * out, static_cast<size_t>(cols));
    return;
  }
  if (load == nullptr) {
    return detail::copy_block({t, s, rows, cols, cols, 1, row_stride, col_stride}, static_cast<size_t>(elem), false);
  }
  if (cols > kStaged) {
    for (int64_t r = 0; r < rows; ++r)
      load_row(s + r * row_stride * elem, mem, load, cols, col_stride, t + r * cols * out);
    return;
  }
  Staging staging;
  const int64_t step = kStaged / cols;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t m = std::min(step, rows - r);
    detail::copy_block({staging.bytes, s + r * row_stride * elem, m, cols, cols, 1, row_stride, col_stride},
                       static_cast<size_t>(elem), false);
    load(staging.bytes, t + r * cols * out, static_cast<size_t>(m * cols));
  }
}

void store_block(const void* tile, ScalarType mem, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride,
                 void* dst) {
  if (rows <= 0 || cols <= 0) return;
  const ConvertFn store = store_fn(mem);
  const int64_t elem = static_cast<int64_t>(elementSize(mem));
  const int64_t in = static_cast<int64_t>(size_of(compute_type(mem)));
  const char* t = static_cast<const char*>(tile);
  char* d = static_cast<char*>(dst);
  if (rows == 1) row_stride = cols * col_stride;
  if (cols == 1) col_stride = row_stride, cols = rows, rows = 1;
  if (rows > 1 && row_stride == cols * col_stride) cols *= rows, rows = 1;
  if (store == nullptr) {
    return detail::copy_block({d, t, rows, cols, row_stride, col_stride, cols, 1}, static_cast<size_t>(elem), false);
  }
  if (col_stride == 1) {
    for (int64_t r = 0; r < rows; ++r) store(t + r * cols * in, d + r * row_stride * elem, static_cast<size_t>(cols));
    return;
  }
  Staging staging;
  const int64_t width = std::min(cols, kStaged);
  const int64_t step = width == cols ? kStaged / cols : 1;
  for (int64_t r = 0; r < rows; r += step) {
    for (int64_t c = 0; c < cols; c += width) {
      const int64_t m = std::min(step, rows - r);
      const int64_t n = std::min(width, cols - c);
      store(t + (r * cols + c) * in, staging.bytes, static_cast<size_t>(m * n));
      detail::copy_block(
          {d + (r * row_stride + c * col_stride) * elem, staging.bytes, m, n, row_stride, col_stride, n, 1},
          static_cast<size_t>(elem), false);
    }
  }
}

}  // namespace facula
