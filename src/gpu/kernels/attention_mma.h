// Attention of 16-bit floats on tensor cores, forward, and what the backward pass (attention_mma_backward.h) shares
// with it. Rows of queries, keys and values lie in shared memory as they came, kD elements each, with 16 bytes between
// them so that eight rows of a block meet no bank twice. Scores stay in the registers in which the products leave them,
// which is also how the next product wants its left operand.
#pragma once

#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/tensor_core.h"

#if FACULA_TENSOR_CORES || FACULA_IMITATED_CORES

namespace facula {
namespace attention_kernels {

inline constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;

template <DType t>
struct Cores {
  using Format = Memory<t>;
  static FACULA_DEVICE void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (t == DType::Half) tensor_core::multiply_add_half(sum, a, b0, b1);
    else tensor_core::multiply_add_bfloat16(sum, a, b0, b1);
  }
  static FACULA_DEVICE unsigned pair(float low, float high) {
    if constexpr (Format::kPairs) return Format::pair_from_floats(low, high);
    else return Format::from_float(low) | (Format::from_float(high) << 16);
  }
};

FACULA_DEVICE int warp_index() { return static_cast<int>(threadIdx.x) / 32; }

// Rows of kD elements in shared memory, for blocks of kThreads.
template <int kD, int kThreads>
struct Rows {
  static constexpr int kPitch = 2 * kD + 16, kChunks = kD / 8;

  // `rows` rows of `width` elements are there; zeros take the place of all others.
  template <int kRows>
  static FACULA_DEVICE void fetch(char* to, const uint16_t* from, int64_t stride, int rows, int width) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kThreads % kChunks == 0) {
      // A thread stays in its column.
      constexpr int kStep = kThreads / kChunks;
      const int row = thread / kChunks, chunk = thread % kChunks;
      const int left = chunk * 8 < width ? rows - row : 0;
      const uint16_t* at = from + row * stride + chunk * 8;
      char* there = to + row * kPitch + chunk * 16;
      FACULA_UNROLL
      for (int p = 0; p < kRows / kStep + (kRows % kStep != 0); ++p) {
        if (kRows % kStep != 0 && row + p * kStep >= kRows) break;
        const bool live = p * kStep < left;
        tensor_core::copy_async(there + p * kStep * kPitch, live ? at : from, live ? 16 : 0);
        at += kStep * stride;
      }
    } else {
      constexpr int kAll = kRows * kChunks, kPasses = (kAll + kThreads - 1) / kThreads;
      FACULA_UNROLL
      for (int p = 0; p < kPasses; ++p) {
        const int index = thread + p * kThreads, row = index / kChunks, chunk = index % kChunks;
        if (kAll % kThreads != 0 && index >= kAll) break;
        const bool live = row < rows && chunk * 8 < width;
        tensor_core::copy_async(to + row * kPitch + chunk * 16, live ? from + row * stride + chunk * 8 : from,
                                live ? 16 : 0);
      }
    }
  }

  // Where this lane's row begins of four blocks of eight rows by 16 bytes: the left operand (rows first, then depth),
  // the right one with its columns as rows, and the right one with its depth as rows.
  static FACULA_DEVICE int left() {
    const int lane = lane_index();
    return (lane % 16) * kPitch + lane / 16 * 16;
  }
  static FACULA_DEVICE int right() {
    const int lane = lane_index();
    return (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 16;
  }
  static FACULA_DEVICE int right_turned() { return left(); }
};

// sums[i][n] += rows of x times rows of y: kBlocks blocks of 16 rows of x, kColumns rows of y, kD deep.
template <DType t, int kD, int kPitch, int kBlocks, int kColumns>
FACULA_DEVICE void multiply_rows(float (&sums)[kBlocks][kColumns / 8][4], const char* x, const char* y) {
  FACULA_UNROLL
  for (int step = 0; step < kD / 16; ++step) {
    unsigned left[kBlocks][4];
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) tensor_core::load_blocks(left[i], x + i * 16 * kPitch + step * 32);
    FACULA_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned right[4];
      tensor_core::load_blocks(right, y + n * 16 * kPitch + step * 32);
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        Cores<t>::multiply(sums[i][2 * n], left[i], right[0], right[1]);
        Cores<t>::multiply(sums[i][2 * n + 1], left[i], right[2], right[3]);
      }
    }
  }
}

// sums[i][n] += scores times rows of y, whose columns [0, kColumns) are meant; scores are rounded to the elements'
// type.
template <DType t, int kPitch, int kBlocks, int kDepth, int kColumns>
FACULA_DEVICE void multiply_scores(float (&sums)[kBlocks][kColumns / 8][4],
                                   const float (&scores)[kBlocks][kDepth / 8][4], const char* y) {
  FACULA_UNROLL
  for (int step = 0; step < kDepth / 16; ++step) {
    unsigned left[kBlocks][4];
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) {
      const float(&near)[4] = scores[i][2 * step];
      const float(&far)[4] = scores[i][2 * step + 1];
      left[i][0] = Cores<t>::pair(near[0], near[1]);
      left[i][1] = Cores<t>::pair(near[2], near[3]);
      left[i][2] = Cores<t>::pair(far[0], far[1]);
      left[i][3] = Cores<t>::pair(far[2], far[3]);
    }
    FACULA_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned right[4];
      tensor_core::load_blocks_turned(right, y + step * 16 * kPitch + n * 32);
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        Cores<t>::multiply(sums[i][2 * n], left[i], right[0], right[1]);
        Cores<t>::multiply(sums[i][2 * n + 1], left[i], right[2], right[3]);
      }
    }
  }
}

template <int kBlocks, int kColumns>
FACULA_DEVICE void clear(float (&sums)[kBlocks][kColumns][4]) {
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int n = 0; n < kColumns; ++n) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) sums[i][n][e] = 0.0f;
}

// Sums of 16 rows a block leave through `room`, rows of shared memory that are this warp's alone by now; `rows` of them
// and `width` columns exist in memory. All warps of the block call this together. Entries are multiplied by
// factors[i][half].
template <DType t, int kPitch, int kBlocks, int kColumns>
FACULA_DEVICE void write_rows(const float (&sums)[kBlocks][kColumns / 8][4], const float (&factors)[kBlocks][2],
                              char* room, uint16_t* to, int64_t stride, int64_t rows, int width) {
  const int lane = lane_index();
  __syncthreads();
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int n = 0; n < kColumns / 8; ++n) FACULA_UNROLL
  for (int half = 0; half < 2; ++half)
    *reinterpret_cast<unsigned*>(room + (i * 16 + half * 8 + lane / 4) * kPitch + n * 16 + lane % 4 * 4) =
        Cores<t>::pair(sums[i][n][2 * half] * factors[i][half], sums[i][n][2 * half + 1] * factors[i][half]);
  __syncthreads();
  constexpr int kChunks = kColumns / 8;
  FACULA_UNROLL
  for (int p = 0; p < kBlocks * 16 * kChunks / 32; ++p) {
    const int index = lane + p * 32, row = index / kChunks, chunk = index % kChunks;
    if (row < rows && chunk * 8 < width)
      *reinterpret_cast<uint4*>(to + row * stride + chunk * 8) =
          *reinterpret_cast<const uint4*>(room + row * kPitch + chunk * 16);
  }
}

// Which of a lane's four scores stay, as bits, where its rows are queries (row and row + 8) and its columns two
// neighbouring keys. Two lanes need the same two blocks of random words: each computes one.
FACULA_DEVICE unsigned kept_by_query(const Args& a, int64_t row, int64_t key) {
  const bool odd = (lane_index() & 1) != 0;
  const PhiloxBlock own = random_words(a, odd ? row + 8 : row, key);
  const uint32_t other0 = lane_xor(odd ? own.word[0] : own.word[2], 1);
  const uint32_t other1 = lane_xor(odd ? own.word[1] : own.word[3], 1);
  const uint32_t words[4] = {odd ? other0 : own.word[0], odd ? other1 : own.word[1], odd ? own.word[2] : other0,
                             odd ? own.word[3] : other1};
  unsigned bits = 0;
  FACULA_UNROLL
  for (int e = 0; e < 4; ++e) bits |= static_cast<unsigned>(stays(a, words[e])) << e;
  return bits;
}

// Scores in the units of powers of two, with the mask: the lane's first ones are those of `query` and `key`.
template <DType t, int kBlocks, int kColumns>
FACULA_DEVICE void mask_by_query(const Args& a, const Mask<t>& mask, float unit, int query, int key,
                                 float (&scores)[kBlocks][kColumns][4]) {
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int n = 0; n < kColumns; ++n) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) {
    const int q = query + i * 16 + e / 2 * 8, k = key + n * 8 + e % 2;
    const bool there = q < a.length && k < a.keys && a.mask_kind != kNoMask;
    scores[i][n][e] = fmaf(scores[i][n][e], unit, there ? mask.at(q, k) * kLog2E : 0.0f);
  }
}

// -inf for keys that the query does not see, or that are not there.
template <int kBlocks, int kColumns>
FACULA_DEVICE void hide(const Args& a, int query, int key, float (&scores)[kBlocks][kColumns][4]) {
  const int keys = static_cast<int>(a.keys);
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int seen = query + i * 16 + half * 8 + 1, end = a.causal != 0 && seen < keys ? seen : keys;
    FACULA_UNROLL
    for (int n = 0; n < kColumns; ++n) FACULA_UNROLL
    for (int e = 0; e < 2; ++e)
      if (key + n * 8 + e >= end) scores[i][n][half * 2 + e] = never<float>();
  }
}

// Over the four lanes that share a row.
FACULA_DEVICE float quad_sum(float x) {
  x += lane_xor(x, 1);
  return x + lane_xor(x, 2);
}
FACULA_DEVICE float quad_largest(float x) {
  x = fmaxf(x, lane_xor(x, 1));
  return fmaxf(x, lane_xor(x, 2));
}

// ---- forward --------------------------------------------------------------------------------------------------------

// The running softmax of the rows of a warp: row i * 16 + half * 8 + lane / 4. Sums are relative to `used`, which
// follows the largest score so far only when it is left behind by more than kSlack powers of two: most tiles then need
// no correction of what was summed before.
inline constexpr float kSlack = 8.0f;

template <int kBlocks>
struct Running {
  float used[kBlocks][2], total[kBlocks][2];  // of this lane's columns only
  FACULA_DEVICE Running() {
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
    for (int half = 0; half < 2; ++half) {
      used[i][half] = never<float>();
      total[i][half] = 0.0f;
    }
  }
  // Where nothing was seen yet the shift must not be -inf.
  FACULA_DEVICE float base(int i, int half) const { return used[i][half] == never<float>() ? 0.0f : used[i][half]; }

  // Scores become powers of two of their distance, times `factor`, to `used`. True where `used` moved for one of the
  // warp's rows: all that was summed before must be multiplied by `shrink`.
  template <int kKeys>
  FACULA_DEVICE bool add(float (&scores)[kBlocks][kKeys][4], float factor, float slack, float (&shrink)[kBlocks][2]) {
    float largest[kBlocks][2];
    bool behind = false;
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = never<float>();
      FACULA_UNROLL
      for (int n = 0; n < kKeys; ++n) most = fmaxf(most, fmaxf(scores[i][n][2 * half], scores[i][n][2 * half + 1]));
      largest[i][half] = quad_largest(most);
      behind |= largest[i][half] > used[i][half] + slack;
    }
    const bool moved = __any_sync(0xffffffffu, behind) != 0;
    if (moved) {
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float before = used[i][half];
        used[i][half] = fmaxf(before, largest[i][half]);
        shrink[i][half] = short_exp2((before - base(i, half)) * factor);
        total[i][half] *= shrink[i][half];
      }
    }
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float shift = -base(i, half) * factor;
      FACULA_UNROLL
      for (int n = 0; n < kKeys; ++n) FACULA_UNROLL
      for (int e = 0; e < 2; ++e) {
        float& score = scores[i][n][2 * half + e];
        score = short_exp2(fmaf(score, factor, shift));
        total[i][half] += score;
      }
    }
    return moved;
  }

  // The logarithm of a row's sum, which is `whole` over all lanes of the row. `factor` is that of `add`.
  FACULA_DEVICE float logarithm(int i, int half, float whole, float factor) const {
    return whole == 0.0f ? never<float>() : fmaf(base(i, half) * factor, kLn2, expr::m::log(whole));
  }
};

template <int kBlocks, int kWide>
FACULA_DEVICE void rescale(float (&sums)[kBlocks][kWide][4], const float (&shrink)[kBlocks][2]) {
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int n = 0; n < kWide; ++n) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) sums[i][n][e] *= shrink[i][e / 2];
}

// A block has kWarps * kBlocks * 16 queries and meets kKeys keys at a time. kExtras: there may be a mask or dropout.
template <DType t, int kD, int kBlocks, int kWarps, int kKeys, bool kExtras>
FACULA_DEVICE void core_forward(const Args& a, char* shared) {
  using R = Rows<kD, kWarps * 32>;
  constexpr int kPitch = R::kPitch, kQueries = kWarps * kBlocks * 16;
  char *queries = shared, *keys = queries + kQueries * kPitch, *values = keys + kKeys * kPitch;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q0 = place.tile * kQueries, kv = place.head / (a.heads / a.key_heads);
  const int lane = lane_index(), own = warp_index() * kBlocks * 16;  // the warp's first row
  const int query = static_cast<int>(q0) + own + lane / 4;           // the lane's first
  const int length = static_cast<int>(a.length), all_keys = static_cast<int>(a.keys);
  const uint16_t* key = at_row<const uint16_t>(a.key, place.batch, kv, 0);
  const uint16_t* value = at_row<const uint16_t>(a.value, place.batch, kv, 0);
  const int end = static_cast<int>(keys_before(a, q0 + kQueries < length ? q0 + kQueries : length));
  const Mask<t> mask(a, place.batch, place.head);
  const float unit = static_cast<float>(a.scale) * kLog2E, factor = kExtras ? 1.0f : unit;

  R::template fetch<kQueries>(queries, at_row<const uint16_t>(a.query, place.batch, place.head, q0), a.query.row,
                              static_cast<int>(a.length - q0), a.width);
  R::template fetch<kKeys>(keys, key, a.key.row, all_keys, a.width);
  tensor_core::commit_copies();

  float sums[kBlocks][kD / 8][4];
  clear(sums);
  Running<kBlocks> running;
  const char* left = queries + own * kPitch + R::left();
  FACULA_NO_UNROLL
  for (int k = 0; k < end; k += kKeys) {
    tensor_core::wait_copies<0>();
    __syncthreads();  // the keys are there, and nobody reads the values of before
    R::template fetch<kKeys>(values, value + static_cast<int64_t>(k) * a.value.row, a.value.row, all_keys - k, a.wide);
    tensor_core::commit_copies();

    float scores[kBlocks][kKeys / 8][4];
    clear(scores);
    multiply_rows<t, kD, kPitch, kBlocks, kKeys>(scores, left, keys + R::right());
    if constexpr (kExtras) mask_by_query(a, mask, unit, query, k + lane % 4 * 2, scores);
    if (k + kKeys > all_keys || (a.causal != 0 && k + kKeys - 1 > static_cast<int>(q0) + own))
      hide(a, query, k + lane % 4 * 2, scores);

    tensor_core::wait_copies<0>();
    __syncthreads();  // the values are there, and nobody reads the keys any more
    if (k + kKeys < end) {
      R::template fetch<kKeys>(keys, key + static_cast<int64_t>(k + kKeys) * a.key.row, a.key.row, all_keys - k - kKeys,
                               a.width);
      tensor_core::commit_copies();
    }
    float shrink[kBlocks][2];
    if (running.add(scores, factor, kExtras ? kSlack : kSlack / unit, shrink)) rescale(sums, shrink);
    if (kExtras && a.dropout != 0) {
      const int64_t row = (place.batch * a.heads + place.head) * a.length + query;
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
      for (int n = 0; n < kKeys / 8; ++n) {
        const unsigned bits = kept_by_query(a, row + i * 16, k + n * 8 + lane % 4 * 2);
        FACULA_UNROLL
        for (int e = 0; e < 4; ++e) scores[i][n][e] = (bits >> e & 1u) != 0 ? scores[i][n][e] : 0.0f;
      }
    }
    multiply_scores<t, kPitch, kBlocks, kKeys, kD>(sums, scores, values + R::right_turned());
  }

  float by[kBlocks][2];
  const float keep_scale = kExtras ? static_cast<float>(a.keep_scale) : 1.0f;
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float total = quad_sum(running.total[i][half]);
    by[i][half] = total == 0.0f ? 0.0f : keep_scale / total;
    const int q = query + i * 16 + half * 8;
    if (lane % 4 == 0 && q < length)
      static_cast<float*>(a.logsumexp)[(place.batch * a.heads + place.head) * a.length + q] =
          running.logarithm(i, half, total, factor);
  }
  tensor_core::wait_copies<0>();
  write_rows<t, kPitch, kBlocks, kD>(sums, by, queries + own * kPitch,
                                     at_row<uint16_t>(a.out, place.batch, place.head, q0 + own), a.out.row,
                                     a.length - q0 - own, a.wide);
}

}  // namespace attention_kernels
}  // namespace facula

#endif
