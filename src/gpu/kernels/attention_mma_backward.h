// The gradients of attention of 16-bit floats on tensor cores. One kernel has a tile of keys and meets all queries, the
// other a tile of queries and meets all keys: nothing is added to memory that another block adds to, so results do not
// depend on who is first.
#pragma once

#include "gpu/kernels/attention_mma.h"

#if FACULA_TENSOR_CORES || FACULA_IMITATED_CORES

namespace facula {
namespace attention_kernels {

// Which of a lane's four scores stay, as bits, where its rows are keys (key and key + 8) and its columns two
// neighbouring queries, `row` and row + 1 of all. Four lanes need the same four blocks of random words: each computes
// one and hands the words on.
FACULA_DEVICE unsigned kept_by_key(const Args& a, int64_t row, int64_t key) {
  const int me = lane_index() / 4 % 4;  // the word that this lane's keys have
  const PhiloxBlock own = random_words(a, row + (me & 1), key + me / 2 * 8);
  const auto pick = [&own](int i) {
    return i == 0 ? own.word[0] : i == 1 ? own.word[1] : i == 2 ? own.word[2] : own.word[3];
  };
  unsigned bits = static_cast<unsigned>(stays(a, pick(me))) << me;
  FACULA_UNROLL
  for (int by = 1; by < 4; ++by) bits |= static_cast<unsigned>(stays(a, lane_xor(pick(me ^ by), by * 4))) << (me ^ by);
  return bits;
}

// Scores in the units of powers of two, with the mask, where rows are keys.
template <DType t, int kBlocks, int kColumns>
FACULA_DEVICE void mask_by_key(const Args& a, const Mask<t>& mask, float unit, int query, int key,
                               float (&scores)[kBlocks][kColumns][4]) {
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int n = 0; n < kColumns; ++n) FACULA_UNROLL
  for (int e = 0; e < 4; ++e) {
    const int q = query + n * 8 + e % 2, k = key + i * 16 + e / 2 * 8;
    const bool there = q < a.length && k < a.keys && a.mask_kind != kNoMask;
    scores[i][n][e] = fmaf(scores[i][n][e], unit, there ? mask.at(q, k) * kLog2E : 0.0f);
  }
}

struct alignas(8) Level {
  float whole, dot;  // the logarithm of the row's sum in powers of two, and the level
};

// A score becomes its share, times whether it stays, and `slope` the slope of the score before `scale`.
FACULA_DEVICE void to_share(float& score, float& slope, float unit, const Level& level, bool stay, float keep_scale) {
  const float share = short_exp2(fmaf(score, unit, -level.whole));
  slope = share * fmaf(slope, stay ? keep_scale : 0.0f, -level.dot);
  score = stay ? share : 0.0f;
}

// A block has kWarps * kBlocks * 16 keys of one head and meets kQueries queries at a time, of all heads that share the
// keys. It writes kColumns columns of their gradients; blockIdx.y says which. Scores lie turned: rows are keys.
template <DType t, int kD, int kColumns, int kBlocks, int kWarps, int kQueries, int kStages, bool kExtras>
FACULA_DEVICE void core_key_gradients(const Args& a, char* shared) {
  using R = Rows<kD, kWarps * 32>;
  constexpr int kPitch = R::kPitch, kKeys = kWarps * kBlocks * 16;
  constexpr int kStageBytes = 2 * kQueries * kPitch + kQueries * static_cast<int>(sizeof(Level));
  char *keys = shared, *values = keys + kKeys * kPitch, *stages = values + kKeys * kPitch;
  const Place place = place_of(a, a.key_heads, false);
  const int64_t k0 = place.tile * kKeys;
  const int lane = lane_index(), own = warp_index() * kBlocks * 16;
  const int key = static_cast<int>(k0) + own + lane / 4;  // the lane's first
  const int length = static_cast<int>(a.length);
  const int column = static_cast<int>(blockIdx.y) * kColumns;
  const int group = static_cast<int>(a.heads / a.key_heads);
  const float unit = static_cast<float>(a.scale) * kLog2E, keep_scale = static_cast<float>(a.keep_scale);
  // Queries before the first key see none of them.
  const int first = a.causal != 0 ? static_cast<int>(k0) / kQueries * kQueries : 0;
  const int past_head = static_cast<int>(place.head + 1) * group;

  const auto fetch = [&](int head, int q, int stage) {
    char* to = stages + stage * kStageBytes;
    R::template fetch<kQueries>(to, at_row<const uint16_t>(a.query, place.batch, head, q), a.query.row, length - q,
                                a.width);
    R::template fetch<kQueries>(to + kQueries * kPitch, at_row<const uint16_t>(a.grad, place.batch, head, q),
                                a.grad.row, length - q, a.wide);
    // Queries that are not there get zeros, as do their gradients: nothing comes of them.
    const Level* levels = static_cast<const Level*>(a.levels) + (place.batch * a.heads + head) * a.length + q;
    for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kWarps * 32)
      tensor_core::copy_async_8(to + 2 * kQueries * kPitch + i * 8, q + i < length ? levels + i : levels,
                                q + i < length);
  };

  R::template fetch<kKeys>(keys, at_row<const uint16_t>(a.key, place.batch, place.head, k0), a.key.row,
                           static_cast<int>(a.keys - k0), a.width);
  R::template fetch<kKeys>(values, at_row<const uint16_t>(a.value, place.batch, place.head, k0), a.value.row,
                           static_cast<int>(a.keys - k0), a.wide);
  int head = past_head - group, q = first, stage = 0;
  if (q < length) fetch(head, q, 0);
  tensor_core::commit_copies();

  float to_key[kBlocks][kColumns / 8][4], to_value[kBlocks][kColumns / 8][4];
  clear(to_key);
  clear(to_value);
  FACULA_NO_UNROLL
  while (first < length) {
    const bool last_of_head = q + kQueries >= length;
    const int next_q = last_of_head ? first : q + kQueries, next_head = head + last_of_head;
    tensor_core::wait_copies<0>();
    __syncthreads();
    if (kStages == 2 && next_head < past_head) {
      fetch(next_head, next_q, stage ^ 1);
      tensor_core::commit_copies();
    }
    const char* queries = stages + stage * kStageBytes;
    const char* grads = queries + kQueries * kPitch;
    const Level* levels = reinterpret_cast<const Level*>(grads + kQueries * kPitch) + lane % 4 * 2;

    float scores[kBlocks][kQueries / 8][4], slopes[kBlocks][kQueries / 8][4];
    clear(scores);
    multiply_rows<t, kD, kPitch, kBlocks, kQueries>(scores, keys + own * kPitch + R::left(), queries + R::right());
    if constexpr (kExtras) mask_by_key(a, Mask<t>(a, place.batch, head), unit, q + lane % 4 * 2, key, scores);
    if (a.causal != 0 && q < static_cast<int>(k0) + own + kBlocks * 16 - 1) {  // some query sees not all keys
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
      for (int n = 0; n < kQueries / 8; ++n) FACULA_UNROLL
      for (int e = 0; e < 4; ++e)
        if (q + n * 8 + lane % 4 * 2 + e % 2 < key + i * 16 + e / 2 * 8) scores[i][n][e] = never<float>();
    }
    clear(slopes);
    multiply_rows<t, kD, kPitch, kBlocks, kQueries>(slopes, values + own * kPitch + R::left(), grads + R::right());
    FACULA_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      const Level level[2] = {levels[n * 8], levels[n * 8 + 1]};
      FACULA_UNROLL
      for (int i = 0; i < kBlocks; ++i) {
        unsigned bits = 15u;
        if (kExtras && a.dropout != 0)
          bits = kept_by_key(a, (place.batch * a.heads + head) * a.length + q + n * 8 + lane % 4 * 2, key + i * 16);
        FACULA_UNROLL
        for (int e = 0; e < 4; ++e)
          to_share(scores[i][n][e], slopes[i][n][e], kExtras ? 1.0f : unit, level[e % 2], (bits >> e & 1u) != 0,
                   kExtras ? keep_scale : 1.0f);
      }
    }
    multiply_scores<t, kPitch, kBlocks, kQueries, kColumns>(to_value, scores, grads + column * 2 + R::right_turned());
    multiply_scores<t, kPitch, kBlocks, kQueries, kColumns>(to_key, slopes, queries + column * 2 + R::right_turned());
    if (next_head == past_head) break;
    if (kStages == 1) {
      __syncthreads();
      fetch(next_head, next_q, 0);
      tensor_core::commit_copies();
    } else {
      stage ^= 1;
    }
    head = next_head;
    q = next_q;
  }
  tensor_core::wait_copies<0>();
  const float scale = static_cast<float>(a.scale);
  float key_factors[kBlocks][2], value_factors[kBlocks][2];
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    key_factors[i][half] = scale;
    value_factors[i][half] = keep_scale;
  }
  write_rows<t, kPitch, kBlocks, kColumns>(to_key, key_factors, keys + own * kPitch,
                                           at_row<uint16_t>(a.to_key, place.batch, place.head, k0 + own) + column,
                                           a.to_key.row, a.keys - k0 - own, a.width - column);
  write_rows<t, kPitch, kBlocks, kColumns>(to_value, value_factors, values + own * kPitch,
                                           at_row<uint16_t>(a.to_value, place.batch, place.head, k0 + own) + column,
                                           a.to_value.row, a.keys - k0 - own, a.wide - column);
}

// A block has kWarps * kBlocks * 16 queries and meets kKeys keys at a time.
template <DType t, int kD, int kBlocks, int kWarps, int kKeys, int kStages, bool kExtras>
FACULA_DEVICE void core_query_gradients(const Args& a, char* shared) {
  using R = Rows<kD, kWarps * 32>;
  constexpr int kPitch = R::kPitch, kQueries = kWarps * kBlocks * 16, kStageBytes = 2 * kKeys * kPitch;
  char *queries = shared, *grads = queries + kQueries * kPitch, *stages = grads + kQueries * kPitch;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q0 = place.tile * kQueries, kv = place.head / (a.heads / a.key_heads);
  const int64_t first_row = (place.batch * a.heads + place.head) * a.length;
  const int lane = lane_index(), own = warp_index() * kBlocks * 16;
  const int query = static_cast<int>(q0) + own + lane / 4;
  const int length = static_cast<int>(a.length), all_keys = static_cast<int>(a.keys);
  const int end = static_cast<int>(keys_before(a, q0 + kQueries < length ? q0 + kQueries : length));
  const Mask<t> mask(a, place.batch, place.head);
  const float unit = static_cast<float>(a.scale) * kLog2E, factor = kExtras ? 1.0f : unit;
  const float keep_scale = kExtras ? static_cast<float>(a.keep_scale) : 1.0f;

  const auto fetch = [&](int k, int stage) {
    char* to = stages + stage * kStageBytes;
    R::template fetch<kKeys>(to, at_row<const uint16_t>(a.key, place.batch, kv, k), a.key.row, all_keys - k, a.width);
    R::template fetch<kKeys>(to + kKeys * kPitch, at_row<const uint16_t>(a.value, place.batch, kv, k), a.value.row,
                             all_keys - k, a.wide);
  };
  R::template fetch<kQueries>(queries, at_row<const uint16_t>(a.query, place.batch, place.head, q0), a.query.row,
                              static_cast<int>(a.length - q0), a.width);
  R::template fetch<kQueries>(grads, at_row<const uint16_t>(a.grad, place.batch, place.head, q0), a.grad.row,
                              static_cast<int>(a.length - q0), a.wide);
  fetch(0, 0);
  tensor_core::commit_copies();
  Level levels[kBlocks][2];
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int q = query + i * 16 + half * 8;
    levels[i][half] = static_cast<const Level*>(a.levels)[first_row + (q < length ? q : length - 1)];
  }

  float sums[kBlocks][kD / 8][4];
  clear(sums);
  int stage = 0;
  FACULA_NO_UNROLL
  for (int k = 0; k < end; k += kKeys) {
    tensor_core::wait_copies<0>();
    __syncthreads();
    if (kStages == 2 && k + kKeys < end) {
      fetch(k + kKeys, stage ^ 1);
      tensor_core::commit_copies();
    }
    const char *keys = stages + stage * kStageBytes, *values = keys + kKeys * kPitch;
    float scores[kBlocks][kKeys / 8][4], slopes[kBlocks][kKeys / 8][4];
    clear(scores);
    multiply_rows<t, kD, kPitch, kBlocks, kKeys>(scores, queries + own * kPitch + R::left(), keys + R::right());
    clear(slopes);
    multiply_rows<t, kD, kPitch, kBlocks, kKeys>(slopes, grads + own * kPitch + R::left(), values + R::right());
    if constexpr (kExtras) mask_by_query(a, mask, unit, query, k + lane % 4 * 2, scores);
    if (k + kKeys > all_keys || (a.causal != 0 && k + kKeys - 1 > static_cast<int>(q0) + own))
      hide(a, query, k + lane % 4 * 2, scores);
    FACULA_UNROLL
    for (int i = 0; i < kBlocks; ++i) FACULA_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) {
      unsigned bits = 15u;
      if (kExtras && a.dropout != 0) bits = kept_by_query(a, first_row + query + i * 16, k + n * 8 + lane % 4 * 2);
      FACULA_UNROLL
      for (int e = 0; e < 4; ++e)
        to_share(scores[i][n][e], slopes[i][n][e], factor, levels[i][e / 2], (bits >> e & 1u) != 0, keep_scale);
    }
    multiply_scores<t, kPitch, kBlocks, kKeys, kD>(sums, slopes, keys + R::right_turned());
    if (kStages == 2) {
      stage ^= 1;
    } else if (k + kKeys < end) {
      __syncthreads();
      fetch(k + kKeys, 0);
      tensor_core::commit_copies();
    }
  }
  tensor_core::wait_copies<0>();
  float by[kBlocks][2];
  FACULA_UNROLL
  for (int i = 0; i < kBlocks; ++i) by[i][0] = by[i][1] = static_cast<float>(a.scale);
  write_rows<t, kPitch, kBlocks, kD>(sums, by, queries + own * kPitch,
                                     at_row<uint16_t>(a.to_query, place.batch, place.head, q0 + own), a.to_query.row,
                                     a.length - q0 - own, a.width);
}

}  // namespace attention_kernels
}  // namespace facula

#endif
