// What attention kernels are told, and what all of them share: masks, the random words of dropout, places of tiles.
// Scores of a query and a key never reach memory: every kernel computes those of its tiles again.
#pragma once

#include "gpu/kernels/memory.h"

#include "core/philox.h"
#include "program/random_bits.h"

namespace facula {
namespace attention_kernels {

// A tensor [batch][head][row][...]: strides in elements, 1 along the last dim.
struct Array {
  void* data;
  int64_t batch, head, row;
};

enum MaskKind : int32_t { kNoMask = 0, kBoolMask = 1, kAddedMask = 2 };

// The order of members is what gpu/primitives/attention.cpp writes.
struct Args {
  Array query, key, value, out;
  Array grad, to_query, to_key, to_value;  // of the backward pass
  const void* mask;
  int64_t mask_strides[4];
  void* logsumexp;  // [batch][head][query], in the compute type
  void* levels;     // pairs of the compute type, of the same shape: logsumexp times level_factor, and the level
  int64_t batches, heads, key_heads, length, keys;
  int64_t tiles;  // of queries or of keys, whichever blocks are laid over
  uint64_t offset;
  double scale, keep_scale, level_factor;
  PhiloxKeys philox;
  float keep_bound;
  int32_t width, wide;  // of a query or key, and of a value
  int32_t causal, mask_kind, dropout;
};

// The score of a key that is not seen.
template <class C>
FACULA_DEVICE C never() {
  return -expr::m::infinity(C(0));
}

// Which tile of which head a block has: tiles of one head lie side by side. The longest ones first, where later queries
// see more.
struct Place {
  int64_t batch, head, tile;
};
FACULA_DEVICE Place place_of(const Args& a, int64_t heads, bool last_first) {
  const int64_t unit = blockIdx.x, row = unit / a.tiles, tile = unit - row * a.tiles;
  Place p;
  p.batch = row / heads;
  p.head = row - p.batch * heads;
  p.tile = last_first ? a.tiles - 1 - tile : tile;
  return p;
}

template <class T>
FACULA_DEVICE T* at_row(const Array& array, int64_t batch, int64_t head, int64_t row) {
  return static_cast<T*>(array.data) + batch * array.batch + head * array.head + row * array.row;
}

// How many keys the query sees, and how many the last of the queries before `past` does.
FACULA_DEVICE int64_t keys_of(const Args& a, int64_t query) {
  return a.causal != 0 && query + 1 < a.keys ? query + 1 : a.keys;
}
FACULA_DEVICE int64_t keys_before(const Args& a, int64_t past) {
  return a.causal != 0 && past < a.keys ? past : a.keys;
}

// The mask of one head; `at` is what is added to a score, -inf where a key is not seen.
template <DType t>
struct Mask {
  using M = Memory<t>;
  using C = typename M::Compute;
  const void* data;
  int64_t first, query_stride, key_stride;
  int32_t kind;

  FACULA_DEVICE Mask(const Args& a, int64_t batch, int64_t head)
      : data(a.mask),
        first(batch * a.mask_strides[0] + head * a.mask_strides[1]),
        query_stride(a.mask_strides[2]),
        key_stride(a.mask_strides[3]),
        kind(a.mask_kind) {}
  FACULA_DEVICE C at(int64_t query, int64_t key) const {
    if (kind == kNoMask) return C(0);
    const int64_t place = first + query * query_stride + key * key_stride;
    if (kind == kBoolMask) return static_cast<const uint8_t*>(data)[place] != 0 ? C(0) : never<C>();
    return M::load(static_cast<const typename M::Bits*>(data)[place]);
  }
};

// Dropout: a score's word of the stream follows from its query (`row` of all) and its key; four keys share a block.
FACULA_DEVICE PhiloxBlock random_words(const Args& a, int64_t row, int64_t key) {
  const uint64_t blocks = static_cast<uint64_t>((a.keys + 3) / 4);
  return philox_block(a.philox, a.offset + static_cast<uint64_t>(row) * blocks + static_cast<uint64_t>(key / 4), 0);
}
FACULA_DEVICE bool stays(const Args& a, uint32_t word) { return random_bits::uniform(word) < a.keep_bound; }

}  // namespace attention_kernels
}  // namespace facula
