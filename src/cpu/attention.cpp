// Attention on the CPU, in tiles: a block of queries meets one block of keys after the other, keeps the largest score and the sum of exponentials of each row so
// far, and never holds more scores than one tile. The backward pass computes the scores again. Compiled once per instruction set.
#include "cpu/attention.h"

#include "core/generator_impl.h"
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/matmul.h"
#include "cpu/parallel.h"
#include "cpu/random.h"
#include "cpu/rows.h"
#include "cpu/small_gemm.h"
#include "program/random_bits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention.cpp"
#include "cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/elementary-inl.h"
#include "cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace facula {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kQueries = 64, kKeys = 128;  // of a tile
constexpr int64_t kWidth = kKeys;              // of a row of a tile in memory

template <class T>
void product(int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t a_row, int64_t a_col, const T* b,
             int64_t b_row, int64_t b_col, T beta, T* c, int64_t c_row) {
  if constexpr (sizeof(T) == 8) gemm_f64(m, n, k, alpha, a, a_row, a_col, b, b_row, b_col, beta, c, c_row);
  else small_gemm({m, n, k, a, a_row, a_col, b, b_row, b_col, c, c_row, alpha, beta});
}

// row = exp(row - shift); gives the sum, in an order that the width of vectors does not change.
template <class T>
HWY_INLINE T exp_row(T* row, int64_t n, T shift) {
  using L = Lane<T>;
  constexpr int64_t kStep = static_cast<int64_t>(L::kSize);
  const L by = splat<L>(static_cast<double>(shift));
  for (int64_t i = 0; i < n; i += kStep)
    store(m::exp(load(row + i) - by), row + i);  // rows have room for whole vectors
  T lanes[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t k = 0; k < 16; ++k) lanes[k] += row[i + k];
  for (int64_t k = 0; i < n; ++i, ++k) lanes[k] += row[i];
  for (int64_t width = 8; width > 0; width /= 2)
    for (int64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  return lanes[0];
}

template <class T>
HWY_INLINE T largest(const T* row, int64_t n) {
  T lanes[16];
  std::fill_n(lanes, 16, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t k = 0; k < 16; ++k) lanes[k] = row[i + k] > lanes[k] ? row[i + k] : lanes[k];
  for (int64_t k = 0; i < n; ++i, ++k) lanes[k] = row[i] > lanes[k] ? row[i] : lanes[k];
  T top = lanes[0];
  for (int64_t k = 1; k < 16; ++k) top = lanes[k] > top ? lanes[k] : top;
  return top;
}

// A block of rows in the compute type: where it lies, or a converted copy.
template <class T>
struct Block {
  const T* data;
  int64_t stride;
};

// One (B, H, L, E) tensor.
template <class T>
struct Operand {
  const char* data = nullptr;
  ScalarType dtype{};
  int64_t element = 0, batch = 0, head = 0, row = 0, width = 0;
  ConvertFn load = nullptr;

  Operand() = default;
  explicit Operand(const Tensor& t) {
    const TensorImpl& x = *t.impl();
    data = x.data();
    dtype = x.dtype;
    element = static_cast<int64_t>(elementSize(x.dtype));
    batch = x.strides[0];
    head = x.strides[1];
    row = x.strides[2];
    width = x.sizes[3];
    load = load_fn(x.dtype);
  }
  char* at(int64_t b, int64_t h, int64_t r) const {
    return const_cast<char*>(data) + (b * batch + h * head + r * row) * element;
  }
  Block<T> block(int64_t b, int64_t h, int64_t first, int64_t rows, T* room) const {
    if (!load) return {reinterpret_cast<const T*>(at(b, h, first)), row};
    load_block(at(b, h, first), dtype, rows, width, row, 1, room);
    return {room, width};
  }
};

// The scores of a tile after the product: mask, and -inf for what must not be seen.
template <class T>
void hide(const AttentionArgs& a, int64_t b, int64_t h, int64_t q, int64_t rows, int64_t k, int64_t cols, T* tile,
          char* room) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  if (a.mask.defined()) {
    const TensorImpl& m = *a.mask.impl();
    const char* from = m.data() + (b * m.strides[0] + h * m.strides[1] + q * m.strides[2] + k * m.strides[3]) *
                                      static_cast<int64_t>(elementSize(m.dtype));
    load_block(from, m.dtype, rows, cols, m.strides[2], m.strides[3], room);
    for (int64_t r = 0; r < rows; ++r) {
      T* row = tile + r * kWidth;
      if (m.dtype == kBool) {
        const auto* seen = reinterpret_cast<const uint8_t*>(room) + r * cols;
        for (int64_t c = 0; c < cols; ++c) row[c] = seen[c] ? row[c] : kNever;
      } else {
        const T* add = reinterpret_cast<const T*>(room) + r * cols;
        for (int64_t c = 0; c < cols; ++c) row[c] += add[c];
      }
    }
  }
  if (a.causal && k + cols - 1 > q)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = std::max<int64_t>(0, q + r + 1 - k); c < cols; ++c) tile[r * kWidth + c] = kNever;
}

// Keys that a block of queries can see.
int64_t keys_seen(const AttentionArgs& a, int64_t keys, int64_t past_query) {
  return a.causal ? std::min(keys, past_query) : keys;
}

template <class T>
void forward(const AttentionArgs& a, const Tensor& output, const Tensor& logsumexp) {
  const Operand<T> query(a.query), key(a.key), value(a.value), out(output);
  const TensorImpl& qi = *a.query.impl();
  const int64_t heads = qi.sizes[1], length = qi.sizes[2], keys = a.key.impl()->sizes[2], width = query.width,
                wide = value.width;
  const int64_t group = heads / a.key.impl()->sizes[1], blocks = (length + kQueries - 1) / kQueries;
  T* lse = reinterpret_cast<T*>(logsumexp.impl()->data());
  const ConvertFn narrow = store_fn(qi.dtype);
  const T scale = static_cast<T>(a.scale), keep_scale = static_cast<T>(a.dropout < 1 ? 1 / (1 - a.dropout) : 0);
  const int64_t work = std::min(kQueries, length) * std::max<int64_t>(keys, 1) * width;
  parallel_for(0, qi.sizes[0] * heads * blocks, std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    const size_t tile_size = static_cast<size_t>(kQueries * kWidth), sum_size = static_cast<size_t>(kQueries * wide);
    const size_t copies = query.load ? static_cast<size_t>(kQueries * width + kKeys * width + kKeys * wide) : 0;
    detail::Scratch scratch((tile_size * 2 + sum_size + copies + 2 * kQueries) * sizeof(T) + tile_size);
    T *tile = scratch.as<T>(), *mask_room = tile + tile_size, *sums = mask_room + tile_size, *top = sums + sum_size;
    T *total = top + kQueries, *query_room = total + kQueries;
    T *key_room = query_room + (query.load ? kQueries * width : 0),
      *value_room = key_room + (query.load ? kKeys * width : 0);
    auto* keep = reinterpret_cast<uint8_t*>(value_room + (query.load ? kKeys * wide : 0));
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t q = unit % blocks * kQueries, h = unit / blocks % heads, b = unit / blocks / heads;
      const int64_t rows = std::min(kQueries, length - q), kv = h / group;
      const Block<T> x = query.block(b, h, q, rows, query_room);
      std::fill_n(top, rows, -std::numeric_limits<T>::infinity());
      std::fill_n(total, rows, T(0));
      std::fill_n(sums, rows * wide, T(0));
      for (int64_t k = 0; k < keys_seen(a, keys, q + rows); k += kKeys) {
        const int64_t cols = std::min(kKeys, keys - k);
        const Block<T> y = key.block(b, kv, k, cols, key_room), v = value.block(b, kv, k, cols, value_room);
        product<T>(rows, cols, width, scale, x.data, x.stride, 1, y.data, 1, y.stride, T(0), tile, kWidth);
        hide<T>(a, b, h, q, rows, k, cols, tile, reinterpret_cast<char*>(mask_room));
        for (int64_t r = 0; r < rows; ++r) {
          T* row = tile + r * kWidth;
          const T higher = std::max(top[r], largest<T>(row, cols));
          // Where nothing was seen yet the shift must not be -inf.
          const T shift = higher == -std::numeric_limits<T>::infinity() ? T(0) : higher;
          const T shrink = std::exp(top[r] - shift);
          const T sum = exp_row<T>(row, cols, shift);
          total[r] = total[r] * shrink + sum;
          top[r] = higher;
          if (shrink != T(1))
            for (int64_t c = 0; c < wide; ++c) sums[r * wide + c] *= shrink;
          if (a.dropout > 0) {
            attention_keep(a, (b * heads + h) * length + q + r, keys, k, cols, keep);
            for (int64_t c = 0; c < cols; ++c) row[c] = keep[c] ? row[c] * keep_scale : T(0);
          }
        }
        product<T>(rows, wide, cols, T(1), tile, kWidth, 1, v.data, v.stride, 1, T(1), sums, wide);
      }
      for (int64_t r = 0; r < rows; ++r) {
        T* sum = sums + r * wide;
        const T by = total[r] == T(0) ? T(0) : T(1) / total[r];
        for (int64_t c = 0; c < wide; ++c) sum[c] *= by;
        lse[(b * heads + h) * length + q + r] =
            total[r] == T(0) ? -std::numeric_limits<T>::infinity() : top[r] + std::log(total[r]);
        char* to = out.at(b, h, q + r);
        if (narrow) narrow(sum, to, static_cast<size_t>(wide));
        else std::copy(sum, sum + wide, reinterpret_cast<T*>(to));
      }
    }
  });
}

// Rows of a tensor in the compute type, added to in place where that is its dtype.
template <class T>
void write_rows(const Operand<T>& to, int64_t b, int64_t h, int64_t first, int64_t rows, const T* from) {
  const ConvertFn narrow = store_fn(to.dtype);
  for (int64_t r = 0; r < rows; ++r) {
    char* at = to.at(b, h, first + r);
    if (narrow) narrow(from + r * to.width, at, static_cast<size_t>(to.width));
    else std::copy(from + r * to.width, from + (r + 1) * to.width, reinterpret_cast<T*>(at));
  }
}

template <class T>
void backward(const AttentionArgs& a, const Tensor& grad_output, const Tensor& output, const Tensor& logsumexp,
              const Tensor& grad_query, const Tensor& grad_key, const Tensor& grad_value) {
  const Operand<T> query(a.query), key(a.key), value(a.value), out(output), grad(grad_output);
  const Operand<T> to_query(grad_query), to_key(grad_key), to_value(grad_value);
  const TensorImpl& qi = *a.query.impl();
  const int64_t heads = qi.sizes[1], length = qi.sizes[2], keys = a.key.impl()->sizes[2], width = query.width,
                wide = value.width;
  const int64_t shared = a.key.impl()->sizes[1], group = heads / shared;
  const T* lse = reinterpret_cast<const T*>(logsumexp.impl()->data());
  const T scale = static_cast<T>(a.scale), keep_scale = static_cast<T>(a.dropout < 1 ? 1 / (1 - a.dropout) : 0);
  // One unit has the keys and values of one head to itself, so that nobody else adds to their gradients.
  parallel_for(0, qi.sizes[0] * shared, 1, [&](int64_t begin, int64_t end) {
    const auto tile_size = static_cast<size_t>(kQueries * kWidth);
    const auto key_size = static_cast<size_t>(keys * width), value_size = static_cast<size_t>(keys * wide);
    const size_t copies = query.load ? static_cast<size_t>((kQueries + kKeys) * (width + wide) + kQueries * wide) : 0;
    detail::Scratch scratch(
        (tile_size * 3 + key_size + value_size + static_cast<size_t>(kQueries * (width + 1)) + copies) * sizeof(T) +
        tile_size);
    T *tile = scratch.as<T>(), *slope = tile + tile_size, *mask_room = slope + tile_size,
      *key_sums = mask_room + tile_size;
    T *value_sums = key_sums + key_size, *query_sums = value_sums + value_size, *level = query_sums + kQueries * width;
    T* room = level + kQueries;
    T *query_room = room, *key_room = query_room, *value_room = query_room, *grad_room = query_room,
      *out_room = query_room;
    auto* keep = reinterpret_cast<uint8_t*>(room);
    if (query.load) {
      key_room = query_room + kQueries * width;
      value_room = key_room + kKeys * width;
      grad_room = value_room + kKeys * wide;
      out_room = grad_room + kQueries * wide;
      keep = reinterpret_cast<uint8_t*>(out_room + kQueries * wide);
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t kv = unit % shared, b = unit / shared;
      std::fill_n(key_sums, key_size, T(0));
      std::fill_n(value_sums, value_size, T(0));
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        for (int64_t q = 0; q < length; q += kQueries) {
          const int64_t rows = std::min(kQueries, length - q), first_row = (b * heads + h) * length + q;
          const Block<T> x = query.block(b, h, q, rows, query_room), g = grad.block(b, h, q, rows, grad_room),
                         o = out.block(b, h, q, rows, out_room);
          std::fill_n(query_sums, rows * width, T(0));
          for (int64_t r = 0; r < rows; ++r) {
            T lanes[16] = {};
            const T *gr = g.data + r * g.stride, *orow = o.data + r * o.stride;
            int64_t c = 0;
            for (; c + 16 <= wide; c += 16)
              for (int64_t i = 0; i < 16; ++i) lanes[i] += gr[c + i] * orow[c + i];
            for (int64_t i = 0; c < wide; ++c, ++i) lanes[i] += gr[c] * orow[c];
            level[r] = 0;
            for (int64_t i = 0; i < 16; ++i) level[r] += lanes[i];
          }
          for (int64_t k = 0; k < keys_seen(a, keys, q + rows); k += kKeys) {
            const int64_t cols = std::min(kKeys, keys - k);
            const Block<T> y = key.block(b, kv, k, cols, key_room), v = value.block(b, kv, k, cols, value_room);
            product<T>(rows, cols, width, scale, x.data, x.stride, 1, y.data, 1, y.stride, T(0), tile, kWidth);
            hide<T>(a, b, h, q, rows, k, cols, tile, reinterpret_cast<char*>(mask_room));
            product<T>(rows, cols, wide, T(1), g.data, g.stride, 1, v.data, 1, v.stride, T(0), slope, kWidth);
            for (int64_t r = 0; r < rows; ++r) {
              T *p = tile + r * kWidth, *s = slope + r * kWidth;
              const T sum = lse[first_row + r];
              if (sum == -std::numeric_limits<T>::infinity()) {  // nothing was seen: no slope
                std::fill_n(p, cols, T(0));
                std::fill_n(s, cols, T(0));
                continue;
              }
              exp_row<T>(p, cols, sum);
              const T l = level[r];
              if (a.dropout > 0) {
                attention_keep(a, first_row + r, keys, k, cols, keep);
                for (int64_t c = 0; c < cols; ++c) {
                  const T stays = keep[c] ? keep_scale : T(0);
                  s[c] = p[c] * (s[c] * stays - l) * scale;
                  p[c] *= stays;
                }
              } else {
                for (int64_t c = 0; c < cols; ++c) s[c] = p[c] * (s[c] - l) * scale;
              }
            }
            product<T>(cols, wide, rows, T(1), tile, 1, kWidth, g.data, g.stride, 1, T(1), value_sums + k * wide, wide);
            product<T>(cols, width, rows, T(1), slope, 1, kWidth, x.data, x.stride, 1, T(1), key_sums + k * width,
                       width);
            product<T>(rows, width, cols, T(1), slope, kWidth, 1, y.data, y.stride, 1, T(1), query_sums, width);
          }
          write_rows<T>(to_query, b, h, q, rows, query_sums);
        }
      }
      write_rows<T>(to_key, b, kv, 0, keys, key_sums);
      write_rows<T>(to_value, b, kv, 0, keys, value_sums);
    }
  });
}

}  // namespace

void attention_any(const AttentionArgs& a, const Tensor& output, const Tensor& logsumexp) {
  a.query.scalar_type() == kDouble ? forward<double>(a, output, logsumexp) : forward<float>(a, output, logsumexp);
}
void attention_backward_any(const AttentionArgs& a, const Tensor& grad_output, const Tensor& output,
                            const Tensor& logsumexp, const Tensor& grad_query, const Tensor& grad_key,
                            const Tensor& grad_value) {
  if (a.query.scalar_type() == kDouble)
    backward<double>(a, grad_output, output, logsumexp, grad_query, grad_key, grad_value);
  else backward<float>(a, grad_output, output, logsumexp, grad_query, grad_key, grad_value);
}

}  // namespace HWY_NAMESPACE
}  // namespace facula
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace facula {

void attention_keep(const AttentionArgs& a, int64_t row, int64_t keys, int64_t first, int64_t count, uint8_t* keep) {
  const uint64_t block =
      a.offset + static_cast<uint64_t>(row) * attention_row_blocks(keys) + static_cast<uint64_t>(first / 4);
  const float bound = static_cast<float>(1 - a.dropout);
  uint32_t words[256];
  for (int64_t done = 0; done < count; done += 256) {
    const int64_t now = std::min<int64_t>(256, count - done);
    philox_words(a.seed, block + static_cast<uint64_t>(done / 4), (now + 3) / 4, words);
    for (int64_t i = 0; i < now; ++i) keep[done + i] = random_bits::uniform(words[i]) < bound;
  }
}

namespace {

HWY_EXPORT(attention_any);
HWY_EXPORT(attention_backward_any);

void attention_cpu(const AttentionArgs& a, const Tensor& output, const Tensor& logsumexp) {
  HWY_DYNAMIC_DISPATCH(attention_any)(a, output, logsumexp);
}
void attention_backward_cpu(const AttentionArgs& a, const Tensor& grad_output, const Tensor& output,
                            const Tensor& logsumexp, const Tensor& grad_query, const Tensor& grad_key,
                            const Tensor& grad_value) {
  HWY_DYNAMIC_DISPATCH(attention_backward_any)(a, grad_output, output, logsumexp, grad_query, grad_key, grad_value);
}

const KernelRegistration attention_registration(OpId::_fused_attention, DeviceType::CPU, &attention_cpu);
const KernelRegistration attention_backward_registration(OpId::_fused_attention_backward, DeviceType::CPU,
                                                         &attention_backward_cpu);

}  // namespace
}  // namespace facula
#endif
