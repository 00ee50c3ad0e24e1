// Attention of 16-bit floats on Hopper chips, forward: two warpgroups have 64 queries each and meet kKeys keys at a
// time. While one product of scores with values is under way, the scores of the next keys become shares.
#pragma once

#include "gpu/kernels/attention_mma.h"
#include "gpu/kernels/warpgroup.h"

#if FACULA_WARPGROUPS

namespace facula {
namespace attention_kernels {

// A tile of kRows rows of kD elements, as kernels/warpgroup.h says.
template <int kD, int kRows>
struct Panels {
  static constexpr int kThreads = 256, kPanels = kD / 64, kPanelBytes = kRows * 128, kBytes = kPanels * kPanelBytes;

  // `rows` rows of `width` elements are there; zeros take the place of all others.
  static FACULA_DEVICE void fetch(char* to, const uint16_t* from, int64_t stride, int rows, int width) {
    constexpr int kPieces = kD / 8, kStep = kThreads / kPieces;
    const int thread = static_cast<int>(threadIdx.x), row = thread / kPieces, piece = thread % kPieces;
    const int left = piece * 8 < width ? rows - row : 0;
    const uint16_t* at = from + row * stride + piece * 8;
    // Rows of a thread lie kStep apart, a multiple of eight: its piece keeps its place.
    static_assert(kStep % 8 == 0 && kRows % kStep == 0, "whole groups of eight rows");
    char* there = to + piece / 8 * kPanelBytes + warpgroup::piece_offset(row, piece % 8);
    FACULA_UNROLL
    for (int p = 0; p < kRows / kStep; ++p) {
      const bool live = p * kStep < left;
      tensor_core::copy_async(there + p * kStep * 128, live ? at : from, live ? 16 : 0);
      at += kStep * stride;
    }
  }
  // Rows from `row` on, a multiple of eight, and 16 depths of step number `step`.
  static FACULA_DEVICE warpgroup::Operand rows(const char* tile, int row, int step) {
    return {tile + step / 4 * kPanelBytes + row * 128 + step % 4 * 32, 16, 1024};
  }
  // 16 rows as depths, all columns.
  static FACULA_DEVICE warpgroup::Operand turned(const char* tile, int step) {
    return {tile + step * 2048, kPanelBytes, 1024};
  }
};

// Dynamic shared memory from where panels may begin; 1024 bytes more than they need are asked for.
FACULA_DEVICE char* panel_room(char* shared) {
#if FACULA_PTX
  shared += (1024u - (tensor_core::shared_address(shared) & 1023u)) & 1023u;
#endif
  return shared;
}

// What was copied is there, for all threads of the block and for products.
FACULA_DEVICE void arrive() {
  tensor_core::wait_copies<0>();
  warpgroup::publish();
  __syncthreads();
}

// Numbers of 16 rows a warp as left operands.
template <DType t, int kColumns>
FACULA_DEVICE void round_to(unsigned (&to)[kColumns / 2][4], const float (&from)[kColumns][4]) {
  FACULA_UNROLL
  for (int n = 0; n < kColumns; ++n) FACULA_UNROLL
  for (int half = 0; half < 2; ++half)
    to[n / 2][n % 2 * 2 + half] = Cores<t>::pair(from[n][2 * half], from[n][2 * half + 1]);
}

// `shared` is kQueries rows and 2 * 2 * kKeys rows of kD elements, and 1024 bytes more.
template <DType t, int kD, int kKeys>
FACULA_DEVICE void group_forward(const Args& a, char* shared) {
  constexpr int kQueries = 128, kPitch = 2 * kD + 16;
  using Q = Panels<kD, kQueries>;
  using K = Panels<kD, kKeys>;
  char* base = panel_room(shared);
  char *queries = base, *keys = queries + Q::kBytes, *values = keys + 2 * K::kBytes;
  const Place place = place_of(a, a.heads, a.causal != 0);
  const int64_t q0 = place.tile * kQueries, kv = place.head / (a.heads / a.key_heads);
  const int lane = lane_index(), own = warp_index() * 16, group = warp_index() / 4 * 64;
  const int query = static_cast<int>(q0) + own + lane / 4;
  const int length = static_cast<int>(a.length), all_keys = static_cast<int>(a.keys);
  const uint16_t* key = at_row<const uint16_t>(a.key, place.batch, kv, 0);
  const uint16_t* value = at_row<const uint16_t>(a.value, place.batch, kv, 0);
  const int end = static_cast<int>(keys_before(a, q0 + kQueries < length ? q0 + kQueries : length));
  const int tiles = (end + kKeys - 1) / kKeys;
  const float factor = static_cast<float>(a.scale) * kLog2E, slack = kSlack / factor;

  const auto fetch_keys = [&](int tile) {
    const int k = tile * kKeys;
    if (tile < tiles)
      K::fetch(keys + (tile & 1) * K::kBytes, key + static_cast<int64_t>(k) * a.key.row, a.key.row, all_keys - k,
               a.width);
  };
  const auto fetch_values = [&](int tile) {
    const int k = tile * kKeys;
    K::fetch(values + (tile & 1) * K::kBytes, value + static_cast<int64_t>(k) * a.value.row, a.value.row, all_keys - k,
             a.wide);
  };
  float scores[1][kKeys / 8][4], sums[1][kD / 8][4];
  const auto multiply_keys = [&](int tile) {
    const char* right = keys + (tile & 1) * K::kBytes;
    FACULA_UNROLL
    for (int step = 0; step < kD / 16; ++step)
      warpgroup::multiply_rows<t>(scores[0], Q::rows(queries, group, step), K::rows(right, 0, step), step > 0);
    warpgroup::commit();
  };
  unsigned shares[kKeys / 16][4];
  const auto multiply_values = [&](int tile) {
    const char* right = values + (tile & 1) * K::kBytes;
    FACULA_UNROLL
    for (int step = 0; step < kKeys / 16; ++step)
      warpgroup::multiply_turned<t>(sums[0], shares[step], K::turned(right, step));
    warpgroup::commit();
  };
  Running<1> running;
  float shrink[1][2];
  const auto to_shares = [&](int tile) {
    const int k = tile * kKeys;
    if (k + kKeys > all_keys || (a.causal != 0 && k + kKeys - 1 > static_cast<int>(q0) + own))
      hide(a, query, k + lane % 4 * 2, scores);
    return running.add(scores, factor, slack, shrink);
  };

  clear(sums);
  Q::fetch(queries, at_row<const uint16_t>(a.query, place.batch, place.head, q0), a.query.row,
           static_cast<int>(a.length - q0), a.width);
  fetch_keys(0);
  tensor_core::commit_copies();
  arrive();
  fetch_keys(1);
  fetch_values(0);
  tensor_core::commit_copies();
  warpgroup::begin();
  multiply_keys(0);
  warpgroup::wait<0>();
  warpgroup::settle(scores[0]);
  to_shares(0);
  round_to<t>(shares, scores[0]);
  FACULA_NO_UNROLL
  for (int tile = 1; tile < tiles; ++tile) {
    arrive();  // these keys and the values of before; nobody reads the keys of before and the values before those
    fetch_keys(tile + 1);
    fetch_values(tile);
    tensor_core::commit_copies();
    warpgroup::begin();
    multiply_keys(tile);
    multiply_values(tile - 1);
    warpgroup::wait<1>();
    warpgroup::settle(scores[0]);
    const bool moved = to_shares(tile);
    warpgroup::settle(scores[0]);
    // Behind a branch, since compilers put a wait at the begin of its block, and powers shall be computed while the
    // other product is under way.
    if (moved) {
      warpgroup::wait<0>();
      warpgroup::settle(sums[0]);
      rescale(sums, shrink);
    }
    warpgroup::wait<0>();
    warpgroup::settle(sums[0]);
    round_to<t>(shares, scores[0]);
  }
  arrive();
  warpgroup::begin();
  multiply_values(tiles - 1);
  warpgroup::wait<0>();
  warpgroup::settle(sums[0]);

  float by[1][2];
  FACULA_UNROLL
  for (int half = 0; half < 2; ++half) {
    const float total = quad_sum(running.total[0][half]);
    by[0][half] = total == 0.0f ? 0.0f : 1.0f / total;
    const int q = query + half * 8;
    if (lane % 4 == 0 && q < length)
      static_cast<float*>(a.logsumexp)[(place.batch * a.heads + place.head) * a.length + q] =
          running.logarithm(0, half, total, factor);
  }
  write_rows<t, kPitch, 1, kD>(sums, by, base + own * kPitch,
                               at_row<uint16_t>(a.out, place.batch, place.head, q0 + own), a.out.row,
                               a.length - q0 - own, a.wide);
}

}  // namespace attention_kernels
}  // namespace facula

#endif
