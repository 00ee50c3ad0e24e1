// The gradients of attention of 16-bit floats on Hopper chips: as kernels/attention_mma_backward.h, with products of
// two warpgroups.
#pragma once

#include "gpu/kernels/attention_mma_backward.h"
#include "gpu/kernels/attention_wgmma.h"

#if FACULA_WARPGROUPS

namespace facula {
namespace attention_kernels {

// Each warpgroup has 64 keys of one head and meets 64 queries at a time, of all heads that share the keys. Scores lie
// turned: rows are keys. `shared` is 2 * 128 rows and 2 * 2 * 64 rows of kD elements, 2 * 64 levels, and 1024 bytes
// more.
template <DType t, int kD>
FACULA_DEVICE void group_key_gradients(const Args& a, char* shared) {
  constexpr int kKeys = 128, kQueries = 64, kPitch = 2 * kD + 16;
  using K = Panels<kD, kKeys>;
  using Q = Panels<kD, kQueries>;
  constexpr int kStageBytes = 2 * Q::kBytes;
  char* base = panel_room(shared);
  char *keys = base, *values = keys + K::kBytes, *stages = values + K::kBytes;
  Level* all_levels = reinterpret_cast<Level*>(stages + 2 * kStageBytes);
  const Place place = place_of(a, a.key_heads, false);
  const int64_t k0 = place.tile * kKeys;
  const int lane = lane_index(), own = warp_index() * 16, side = warp_index() / 4 * 64;
  const int key = static_cast<int>(k0) + own + lane / 4;
  const int length = static_cast<int>(a.length), group = static_cast<int>(a.heads / a.key_heads);
  const float unit = static_cast<float>(a.scale) * kLog2E;
  const int first = a.causal != 0 ? static_cast<int>(k0) : 0;  // queries before the first key see none of them
  const int past_head = static_cast<int>(place.head + 1) * group;

  const auto fetch = [&](int head, int q, int stage) {
    char* to = stages + stage * kStageBytes;
    Q::fetch(to, at_row<const uint16_t>(a.query, place.batch, head, q), a.query.row, length - q, a.width);
    Q::fetch(to + Q::kBytes, at_row<const uint16_t>(a.grad, place.batch, head, q), a.grad.row, length - q, a.wide);
    // Queries that are not there get zeros, as do their gradients: nothing comes of them.
    const Level* levels = static_cast<const Level*>(a.levels) + (place.batch * a.heads + head) * a.length + q;
    const int i = static_cast<int>(threadIdx.x);
    if (i < kQueries)
      tensor_core::copy_async_8(all_levels + stage * kQueries + i, q + i < length ? levels + i : levels,
                                q + i < length);
  };
  K::fetch(keys, at_row<const uint16_t>(a.key, place.batch, place.head, k0), a.key.row, static_cast<int>(a.keys - k0),
           a.width);
  K::fetch(values, at_row<const uint16_t>(a.value, place.batch, place.head, k0), a.value.row,
           static_cast<int>(a.keys - k0), a.wide);
  int head = past_head - group, q = first, stage = 0;
  if (q < length) fetch(head, q, 0);
  tensor_core::commit_copies();

  float to_key[1][kD / 8][4], to_value[1][kD / 8][4];
  clear(to_key);
  clear(to_value);
  FACULA_NO_UNROLL
  while (first < length) {
    const bool last_of_head = q + kQueries >= length;
    const int next_q = last_of_head ? first : q + kQueries, next_head = head + last_of_head;
    arrive();
    if (next_head < past_head) {
      fetch(next_head, next_q, stage ^ 1);
      tensor_core::commit_copies();
    }
    const char *queries = stages + stage * kStageBytes, *grads = queries + Q::kBytes;
    const Level* levels = all_levels + stage * kQueries + lane % 4 * 2;

    float scores[1][kQueries / 8][4], slopes[1][kQueries / 8][4];
    warpgroup::begin();
    FACULA_UNROLL
    for (int step = 0; step < kD / 16; ++step)
      warpgroup::multiply_rows<t>(scores[0], K::rows(keys, side, step), Q::rows(queries, 0, step), step > 0);
    warpgroup::commit();
    FACULA_UNROLL
    for (int step = 0; step < kD / 16; ++step)
      warpgroup::multiply_rows<t>(slopes[0], K::rows(values, side, step), Q::rows(grads, 0, step), step > 0);
    warpgroup::commit();
    warpgroup::wait<1>();
    warpgroup::settle(scores[0]);
    if (a.causal != 0 && q < static_cast<int>(k0) + own + 15) {  // some query sees not all keys
      FACULA_UNROLL
      for (int n = 0; n < kQueries / 8; ++n) FACULA_UNROLL
      for (int e = 0; e < 4; ++e)
        if (q + n * 8 + lane % 4 * 2 + e % 2 < key + e / 2 * 8) scores[0][n][e] = never<float>();
    }
    FACULA_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) FACULA_UNROLL
    for (int e = 0; e < 4; ++e) scores[0][n][e] = short_exp2(fmaf(scores[0][n][e], unit, -levels[n * 8 + e % 2].whole));
    unsigned shares[kQueries / 16][4], rounded[kQueries / 16][4];
    round_to<t>(shares, scores[0]);
    warpgroup::wait<0>();
    warpgroup::settle(slopes[0]);
    warpgroup::begin();
    FACULA_UNROLL
    for (int step = 0; step < kQueries / 16; ++step)
      warpgroup::multiply_turned<t>(to_value[0], shares[step], Q::turned(grads, step));
    warpgroup::commit();
    FACULA_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) FACULA_UNROLL
    for (int e = 0; e < 4; ++e) slopes[0][n][e] = scores[0][n][e] * (slopes[0][n][e] - levels[n * 8 + e % 2].dot);
    round_to<t>(rounded, slopes[0]);
    warpgroup::begin();
    FACULA_UNROLL
    for (int step = 0; step < kQueries / 16; ++step)
      warpgroup::multiply_turned<t>(to_key[0], rounded[step], Q::turned(queries, step));
    warpgroup::commit();
    warpgroup::wait<0>();
    warpgroup::settle(to_value[0]);
    warpgroup::settle(to_key[0]);
    if (next_head == past_head) break;
    stage ^= 1;
    head = next_head;
    q = next_q;
  }
  tensor_core::wait_copies<0>();
  const float scale = static_cast<float>(a.scale), key_factors[1][2] = {{scale, scale}},
              value_factors[1][2] = {{1.0f, 1.0f}};
  write_rows<t, kPitch, 1, kD>(to_key, key_factors, base + own * kPitch,
                               at_row<uint16_t>(a.to_key, place.batch, place.head, k0 + own), a.to_key.row,
                               a.keys - k0 - own, a.width);
  write_rows<t, kPitch, 1, kD>(to_value, value_factors, base + own * kPitch,
                               at_row<uint16_t>(a.to_value, place.batch, place.head, k0 + own), a.to_value.row,
                               a.keys - k0 - own, a.wide);
}

// Each warpgroup has 64 queries and meets kKeys keys at a time. `shared` is 2 * 128 rows and 2 * 2 * kKeys rows of kD
// elements, and 1024 bytes more.
template <DType t, int kD, int kKeys>
FACULA_DEVICE void group_query_gradients(const Args& a, char* shared) {
  constexpr int kQueries = 128, kPitch = 2 * kD + 16;
  using Q = Panels<kD, kQueries>;
  using K = Panels<kD, kKeys>;
  constexpr int kStageBytes = 2 * K::kBytes;
  char* base = panel_room(shared);
  char *queries = base, *grads = queries + Q::kBytes, *stages = grads + Q::kBytes;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q0 = place.tile * kQueries, kv = place.head / (a.heads / a.key_heads);
  const int64_t first_row = (place.batch * a.heads + place.head) * a.length;
  const int lane = lane_index(), own = warp_index() * 16, side = warp_index() / 4 * 64;
  const int query = static_cast<int>(q0) + own + lane / 4;
  const int length = static_cast<int>(a.length), all_keys = static_cast<int>(a.keys);
  const int end = static_cast<int>(keys_before(a, q0 + kQueries < length ? q0 + kQueries : length));
  const float unit = static_cast<float>(a.scale) * kLog2E;

  const auto fetch = [&](int k, int stage) {
    char* to = stages + stage * kStageBytes;
    K::fetch(to, at_row<const uint16_t>(a.key, place.batch, kv, k), a.key.row, all_keys - k, a.width);
    K::fetch(to + K::kBytes, at_row<const uint16_t>(a.value, place.batch, kv, k), a.value.row, all_keys - k, a.wide);
  };
  Q::fetch(queries, at_row<const uint16_t>(a.query, place.batch, place.head, q0), a.query.row,
           static_cast<int>(a.length - q0), a.width);
  Q::fetch(grads, at_row<const uint16_t>(a.grad, place.batch, place.head, q0), a.grad.row,
           static_cast<int>(a.length - q0), a.wide);
  fetch(0, 0);
  tensor_core::commit_copies();
  Level levels[2];
  FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int q = query + half * 8;
    levels[half] = static_cast<const Level*>(a.levels)[first_row + (q < length ? q : length - 1)];
  }

  float sums[1][kD / 8][4];
  clear(sums);
  int stage = 0;
  FACULA_NO_UNROLL
  for (int k = 0; k < end; k += kKeys) {
    arrive();
    if (k + kKeys < end) {
      fetch(k + kKeys, stage ^ 1);
      tensor_core::commit_copies();
    }
    const char *keys = stages + stage * kStageBytes, *values = keys + K::kBytes;
    float scores[1][kKeys / 8][4], slopes[1][kKeys / 8][4];
    warpgroup::begin();
    FACULA_UNROLL
    for (int step = 0; step < kD / 16; ++step)
      warpgroup::multiply_rows<t>(scores[0], Q::rows(queries, side, step), K::rows(keys, 0, step), step > 0);
    warpgroup::commit();
    FACULA_UNROLL
    for (int step = 0; step < kD / 16; ++step)
      warpgroup::multiply_rows<t>(slopes[0], Q::rows(grads, side, step), K::rows(values, 0, step), step > 0);
    warpgroup::commit();
    warpgroup::wait<1>();
    warpgroup::settle(scores[0]);
    if (k + kKeys > all_keys || (a.causal != 0 && k + kKeys - 1 > static_cast<int>(q0) + own))
      hide(a, query, k + lane % 4 * 2, scores);
    FACULA_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) FACULA_UNROLL
    for (int e = 0; e < 4; ++e) scores[0][n][e] = short_exp2(fmaf(scores[0][n][e], unit, -levels[e / 2].whole));
    warpgroup::settle(scores[0]);
    warpgroup::wait<0>();
    warpgroup::settle(slopes[0]);
    FACULA_UNROLL
    for (int n = 0; n < kKeys / 8; ++n) FACULA_UNROLL
    for (int e = 0; e < 4; ++e) slopes[0][n][e] = scores[0][n][e] * (slopes[0][n][e] - levels[e / 2].dot);
    unsigned rounded[kKeys / 16][4];
    round_to<t>(rounded, slopes[0]);
    warpgroup::begin();
    FACULA_UNROLL
    for (int step = 0; step < kKeys / 16; ++step)
      warpgroup::multiply_turned<t>(sums[0], rounded[step], K::turned(keys, step));
    warpgroup::commit();
    warpgroup::wait<0>();
    warpgroup::settle(sums[0]);
    stage ^= 1;
  }
  tensor_core::wait_copies<0>();
  const float scale = static_cast<float>(a.scale), by[1][2] = {{scale, scale}};
  write_rows<t, kPitch, 1, kD>(sums, by, base + own * kPitch,
                               at_row<uint16_t>(a.to_query, place.batch, place.head, q0 + own), a.to_query.row,
                               a.length - q0 - own, a.width);
}

}  // namespace attention_kernels
}  // namespace facula

#endif
