// Attention in tiles and plain arithmetic, for every dtype, size and chip. A block of 16 by 16 threads computes the
// scores of a square tile, several side by side in each thread, and multiplies them on from shared memory. Widths have
// no limit: outputs wider than kColumns are shared by several blocks (blockIdx.y), each of which computes the scores
// itself.
#pragma once

#include "gpu/kernels/attention_params.h"

namespace facula {
namespace attention_kernels {

FACULA_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
FACULA_DEVICE double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// Tiles of kSide by kSide scores; a thread has kEach by kEach of them, and as many rows of kColumns sums.
template <DType t, int kColumns>
struct Tiles {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  static constexpr int kThreads = 256, kDepth = 16;
  static constexpr int kSide = sizeof(C) == 8 ? 32 : 64, kEach = kSide / 16, kWide = kColumns / 16;
  static constexpr int kPitch = kSide + kEach, kTilePitch = kSide + 1;
  static constexpr int kPairRoom = 2 * kDepth * kPitch, kChunkRoom = kDepth * kColumns;
  static constexpr int kStageRoom = kPairRoom > kChunkRoom ? kPairRoom : kChunkRoom;
  using Scores = C[kEach][kEach];
  using Sums = C[kEach][kWide];
  struct alignas(16) Several {
    C x[kEach];
  };
  struct alignas(16) Room {
    C stage[kStageRoom];
    C tile[kSide * kTilePitch];
  };

  static FACULA_DEVICE int across() { return static_cast<int>(threadIdx.x) % 16; }
  static FACULA_DEVICE int down() { return static_cast<int>(threadIdx.x) / 16; }

  template <int kRows, int kCols>
  static FACULA_DEVICE void clear(C (&x)[kRows][kCols]) {
    FACULA_UNROLL
    for (int r = 0; r < kRows; ++r) FACULA_UNROLL
    for (int c = 0; c < kCols; ++c) x[r][c] = C(0);
  }

  // kSide rows of kDepth entries, turned.
  static FACULA_DEVICE void fetch_turned(const Bits* from, int64_t stride, int64_t rows, int columns, C* to) {
    FACULA_UNROLL
    for (int p = 0; p < kSide * kDepth / kThreads; ++p) {
      const int index = static_cast<int>(threadIdx.x) + p * kThreads, row = index / kDepth, column = index % kDepth;
      to[column * kPitch + row] = row < rows && column < columns ? M::load(from[row * stride + column]) : C(0);
    }
  }

  // scores[r][c] = row r of a times row c of b; `rows` are there.
  static FACULA_DEVICE void multiply_rows(const Bits* a, int64_t a_stride, int64_t a_rows, const Bits* b,
                                          int64_t b_stride, int64_t b_rows, int width, Room& room, Scores& scores) {
    clear(scores);
    C *left = room.stage, *right = room.stage + kDepth * kPitch;
    FACULA_NO_UNROLL
    for (int first = 0; first < width; first += kDepth) {
      block_barrier();
      fetch_turned(a + first, a_stride, a_rows, width - first, left);
      fetch_turned(b + first, b_stride, b_rows, width - first, right);
      block_barrier();
      FACULA_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        const Several x = *reinterpret_cast<const Several*>(left + d * kPitch + down() * kEach);
        const Several y = *reinterpret_cast<const Several*>(right + d * kPitch + across() * kEach);
        FACULA_UNROLL
        for (int r = 0; r < kEach; ++r) FACULA_UNROLL
        for (int c = 0; c < kEach; ++c) scores[r][c] = multiply_add(x.x[r], y.x[c], scores[r][c]);
      }
    }
  }

  static FACULA_DEVICE void put_tile(Room& room, const Scores& scores) {
    FACULA_UNROLL
    for (int r = 0; r < kEach; ++r) FACULA_UNROLL
    for (int c = 0; c < kEach; ++c) room.tile[(down() * kEach + r) * kTilePitch + across() * kEach + c] = scores[r][c];
  }

  // sums += the tile, turned or not, times kSide rows of b, of which `rows` are there, and `columns` of their columns.
  template <bool kTurned>
  static FACULA_DEVICE void multiply_tile(const Bits* b, int64_t stride, int64_t rows, int columns, Room& room,
                                          Sums& sums) {
    constexpr int kRowStep = kTurned ? 1 : kTilePitch, kInnerStep = kTurned ? kTilePitch : 1;
    FACULA_NO_UNROLL
    for (int first = 0; first < kSide; first += kDepth) {
      if (first > 0 && first >= rows) break;  // the barriers below are met by all threads alike
      block_barrier();
      FACULA_UNROLL
      for (int p = 0; p < kChunkRoom / kThreads; ++p) {
        const int index = static_cast<int>(threadIdx.x) + p * kThreads, row = index / kColumns;
        const int column = index % kColumns;
        room.stage[index] = first + row < rows && column < columns ? M::load(b[(first + row) * stride + column]) : C(0);
      }
      block_barrier();
      FACULA_UNROLL
      for (int i = 0; i < kDepth; ++i) {
        C x[kEach];
        FACULA_UNROLL
        for (int r = 0; r < kEach; ++r) x[r] = room.tile[(down() * kEach + r) * kRowStep + (first + i) * kInnerStep];
        FACULA_UNROLL
        for (int c = 0; c < kWide; ++c) {
          const C y = room.stage[i * kColumns + across() + 16 * c];
          FACULA_UNROLL
          for (int r = 0; r < kEach; ++r) sums[r][c] = multiply_add(x[r], y, sums[r][c]);
        }
      }
    }
  }

  // Writes the columns of this block of kSide rows.
  static FACULA_DEVICE void write(Bits* to, int64_t stride, int64_t rows, int columns, const Sums& sums, C factor) {
    FACULA_UNROLL
    for (int r = 0; r < kEach; ++r) {
      if (down() * kEach + r >= rows) continue;
      FACULA_UNROLL
      for (int c = 0; c < kWide; ++c) {
        const int column = across() + 16 * c;
        if (column < columns) to[(down() * kEach + r) * stride + column] = M::store(sums[r][c] * factor);
      }
    }
  }

  // Scale, mask, and -inf for what is not seen; the tile begins at (q, k).
  static FACULA_DEVICE void finish_scores(const Args& a, const Mask<t>& mask, int64_t q, int64_t k, Scores& scores) {
    const C scale = static_cast<C>(a.scale);
    FACULA_UNROLL
    for (int r = 0; r < kEach; ++r) {
      const int64_t query = q + down() * kEach + r;
      const int64_t end = query < a.length ? keys_of(a, query) : 0;
      FACULA_UNROLL
      for (int c = 0; c < kEach; ++c) {
        const int64_t key = k + across() * kEach + c;
        const C scaled = scores[r][c] * scale;
        scores[r][c] = key < end ? (a.mask_kind != kNoMask ? scaled + mask.at(query, key) : scaled) : never<C>();
      }
    }
  }

  // Which scores of a thread's row stay: a bit each. Its keys share a block of random words.
  static FACULA_DEVICE uint32_t kept(const Args& a, int64_t row, int64_t key) {
    const PhiloxBlock block = random_words(a, row, key);
    uint32_t bits = 0;
    FACULA_UNROLL
    for (int c = 0; c < kEach; ++c) {
      const int which = static_cast<int>(key % 4) + c;
      const uint32_t word = which == 0   ? block.word[0]
                            : which == 1 ? block.word[1]
                            : which == 2 ? block.word[2]
                                         : block.word[3];
      bits |= static_cast<uint32_t>(stays(a, word)) << c;
    }
    return bits;
  }
};

// Over the 16 threads that share a row.
template <class C>
FACULA_DEVICE C row_sum(C x) {
  FACULA_UNROLL
  for (int mask = 8; mask > 0; mask /= 2) x += lane_xor(x, mask);
  return x;
}
template <class C>
FACULA_DEVICE C row_largest(C x) {
  FACULA_UNROLL
  for (int mask = 8; mask > 0; mask /= 2) {
    const C other = lane_xor(x, mask);
    x = other > x ? other : x;
  }
  return x;
}

template <DType t, int kColumns>
FACULA_DEVICE void forward(const Args& a) {
  using T = Tiles<t, kColumns>;
  using C = typename T::C;
  using Bits = typename T::Bits;
  __shared__ typename T::Room room;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q = place.tile * T::kSide, kv = place.head / (a.heads / a.key_heads);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  const int64_t rows = a.length - q, first_row = (place.batch * a.heads + place.head) * a.length + q;
  const Bits* query = at_row<const Bits>(a.query, place.batch, place.head, q);
  const Mask<t> mask(a, place.batch, place.head);
  C top[T::kEach], total[T::kEach];
  typename T::Sums sums;
  T::clear(sums);
  FACULA_UNROLL
  for (int r = 0; r < T::kEach; ++r) {
    top[r] = never<C>();
    total[r] = C(0);
  }
  const int64_t end = keys_before(a, q + (rows < T::kSide ? rows : T::kSide));
  FACULA_NO_UNROLL
  for (int64_t k = 0; k < end; k += T::kSide) {
    typename T::Scores scores;
    T::multiply_rows(query, a.query.row, rows, at_row<const Bits>(a.key, place.batch, kv, k), a.key.row, a.keys - k,
                     a.width, room, scores);
    T::finish_scores(a, mask, q, k, scores);
    FACULA_UNROLL
    for (int r = 0; r < T::kEach; ++r) {
      C most = top[r];
      FACULA_UNROLL
      for (int c = 0; c < T::kEach; ++c) most = scores[r][c] > most ? scores[r][c] : most;
      most = row_largest(most);
      // Where nothing was seen yet the shift must not be -inf.
      const C shift = most == never<C>() ? C(0) : most;
      const C shrink = expr::m::exp(top[r] - shift);
      C sum = C(0);
      FACULA_UNROLL
      for (int c = 0; c < T::kEach; ++c) {
        scores[r][c] = expr::m::exp(scores[r][c] - shift);
        sum += scores[r][c];
      }
      total[r] = total[r] * shrink + row_sum(sum);
      top[r] = most;
      FACULA_UNROLL
      for (int c = 0; c < T::kWide; ++c) sums[r][c] *= shrink;
      if (a.dropout != 0) {
        const int at = T::down() * T::kEach + r;
        const uint32_t bits = T::kept(a, first_row + at, k + T::across() * T::kEach);
        FACULA_UNROLL
        for (int c = 0; c < T::kEach; ++c) scores[r][c] = (bits >> c & 1u) != 0 ? scores[r][c] : C(0);
      }
    }
    T::put_tile(room, scores);
    T::template multiply_tile<false>(at_row<const Bits>(a.value, place.batch, kv, k) + column, a.value.row, a.keys - k,
                                     a.wide - column, room, sums);
  }
  const C keep_scale = static_cast<C>(a.keep_scale);
  FACULA_UNROLL
  for (int r = 0; r < T::kEach; ++r) {
    const int at = T::down() * T::kEach + r;
    const C by = total[r] == C(0) ? C(0) : keep_scale / total[r];
    FACULA_UNROLL
    for (int c = 0; c < T::kWide; ++c) sums[r][c] *= by;
    if (at < rows && T::across() == 0 && blockIdx.y == 0)
      static_cast<C*>(a.logsumexp)[first_row + at] = total[r] == C(0) ? never<C>() : top[r] + expr::m::log(total[r]);
  }
  T::write(at_row<Bits>(a.out, place.batch, place.head, q) + column, a.out.row, rows, a.wide - column, sums, C(1));
}

// ---- backward -------------------------------------------------------------------------------------------------------

// The levels that the backward pass needs of each row: 16 threads have one.
template <DType t>
FACULA_DEVICE void levels(const Args& a) {
  using M = Memory<t>;
  using C = typename M::Compute;
  using Bits = typename M::Bits;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 16 + threadIdx.x / 16;
  const bool live = row < a.batches * a.heads * a.length;
  C sum = C(0);
  if (live) {
    const int64_t head = row / a.length, query = row - head * a.length, batch = head / a.heads;
    const Bits* grad = at_row<const Bits>(a.grad, batch, head - batch * a.heads, query);
    const Bits* out = at_row<const Bits>(a.out, batch, head - batch * a.heads, query);
    for (int c = static_cast<int>(threadIdx.x) % 16; c < a.wide; c += 16)
      sum = multiply_add(M::load(grad[c]), M::load(out[c]), sum);
  }
  sum = row_sum(sum);
  if (!live || threadIdx.x % 16 != 0) return;
  const C whole = static_cast<const C*>(a.logsumexp)[row];
  C* to = static_cast<C*>(a.levels) + row * 2;
  // Where nothing was seen all shares must come out as zero.
  to[0] = whole == never<C>() ? -never<C>() : whole * static_cast<C>(a.level_factor);
  to[1] = sum;
}

// A tile of scores becomes the shares that reached the values, and the slopes of the scores before `scale`.
template <DType t, int kColumns>
FACULA_DEVICE void shares_and_slopes(const Args& a, const Mask<t>& mask, int64_t first_row, int64_t q, int64_t k,
                                     typename Tiles<t, kColumns>::Scores& scores,
                                     typename Tiles<t, kColumns>::Scores& slopes) {
  using T = Tiles<t, kColumns>;
  using C = typename T::C;
  T::finish_scores(a, mask, q, k, scores);
  const C keep_scale = static_cast<C>(a.keep_scale);
  FACULA_UNROLL
  for (int r = 0; r < T::kEach; ++r) {
    const int at = T::down() * T::kEach + r;
    const bool live = q + at < a.length;
    const C* level = static_cast<const C*>(a.levels) + (first_row + (live ? at : 0)) * 2;
    const C whole = level[0], dot = level[1];
    uint32_t bits = ~0u;
    if (a.dropout != 0 && live) bits = T::kept(a, first_row + at, k + T::across() * T::kEach);
    FACULA_UNROLL
    for (int c = 0; c < T::kEach; ++c) {
      const C share = expr::m::exp(scores[r][c] - whole), factor = (bits >> c & 1u) != 0 ? keep_scale : C(0);
      slopes[r][c] = share * multiply_add(slopes[r][c], factor, -dot);
      scores[r][c] = share * factor;
    }
  }
}

// A block has a tile of keys and meets all queries of all heads that share them.
template <DType t, int kColumns>
FACULA_DEVICE void key_gradients(const Args& a) {
  using T = Tiles<t, kColumns>;
  using C = typename T::C;
  using Bits = typename T::Bits;
  __shared__ typename T::Room room;
  const Place place = place_of(a, a.key_heads, false);
  const int64_t k = place.tile * T::kSide, keys = a.keys - k, group = a.heads / a.key_heads;
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  const Bits* key = at_row<const Bits>(a.key, place.batch, place.head, k);
  const Bits* value = at_row<const Bits>(a.value, place.batch, place.head, k);
  typename T::Sums to_key, to_value;
  T::clear(to_key);
  T::clear(to_value);
  for (int64_t head = place.head * group; head < (place.head + 1) * group; ++head) {
    const Mask<t> mask(a, place.batch, head);
    FACULA_NO_UNROLL
    for (int64_t q = a.causal != 0 ? k : 0; q < a.length; q += T::kSide) {
      const int64_t rows = a.length - q;
      const Bits* query = at_row<const Bits>(a.query, place.batch, head, q);
      const Bits* grad = at_row<const Bits>(a.grad, place.batch, head, q);
      typename T::Scores scores, slopes;
      T::multiply_rows(query, a.query.row, rows, key, a.key.row, keys, a.width, room, scores);
      T::multiply_rows(grad, a.grad.row, rows, value, a.value.row, keys, a.wide, room, slopes);
      shares_and_slopes<t, kColumns>(a, mask, (place.batch * a.heads + head) * a.length + q, q, k, scores, slopes);
      T::put_tile(room, scores);
      T::template multiply_tile<true>(grad + column, a.grad.row, rows, a.wide - column, room, to_value);
      block_barrier();
      T::put_tile(room, slopes);
      T::template multiply_tile<true>(query + column, a.query.row, rows, a.width - column, room, to_key);
    }
  }
  T::write(at_row<Bits>(a.to_key, place.batch, place.head, k) + column, a.to_key.row, keys, a.width - column, to_key,
           static_cast<C>(a.scale));
  T::write(at_row<Bits>(a.to_value, place.batch, place.head, k) + column, a.to_value.row, keys, a.wide - column,
           to_value, C(1));
}

// A block has a tile of queries and meets all keys that they see.
template <DType t, int kColumns>
FACULA_DEVICE void query_gradients(const Args& a) {
  using T = Tiles<t, kColumns>;
  using C = typename T::C;
  using Bits = typename T::Bits;
  __shared__ typename T::Room room;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q = place.tile * T::kSide, rows = a.length - q, kv = place.head / (a.heads / a.key_heads);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  const Bits* query = at_row<const Bits>(a.query, place.batch, place.head, q);
  const Bits* grad = at_row<const Bits>(a.grad, place.batch, place.head, q);
  const Mask<t> mask(a, place.batch, place.head);
  typename T::Sums sums;
  T::clear(sums);
  const int64_t end = keys_before(a, q + (rows < T::kSide ? rows : T::kSide));
  FACULA_NO_UNROLL
  for (int64_t k = 0; k < end; k += T::kSide) {
    const int64_t keys = a.keys - k;
    const Bits* key = at_row<const Bits>(a.key, place.batch, kv, k);
    typename T::Scores scores, slopes;
    T::multiply_rows(query, a.query.row, rows, key, a.key.row, keys, a.width, room, scores);
    T::multiply_rows(grad, a.grad.row, rows, at_row<const Bits>(a.value, place.batch, kv, k), a.value.row, keys, a.wide,
                     room, slopes);
    shares_and_slopes<t, kColumns>(a, mask, (place.batch * a.heads + place.head) * a.length + q, q, k, scores, slopes);
    T::put_tile(room, slopes);
    T::template multiply_tile<false>(key + column, a.key.row, keys, a.width - column, room, sums);
  }
  T::write(at_row<Bits>(a.to_query, place.batch, place.head, q) + column, a.to_query.row, rows, a.width - column, sums,
           static_cast<C>(a.scale));
}

}  // namespace attention_kernels
}  // namespace facula
