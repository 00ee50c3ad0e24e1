// The CPU kernels of topk and kthvalue: the best entries of each row without sorting the row.
#include "core/kernel_table.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/sort_keys.h"
#include "cpu/sort_row.h"

#include <facula/tensor.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace facula {
namespace {

using namespace detail;

// A key and where it stands, in the order in which results come: smallest key first, then the first index.
template <class K>
struct Entry {
  K key;
  int64_t index;
  bool operator<(const Entry& o) const { return key != o.key ? key < o.key : index < o.index; }
};

// The k smallest entries of a sequence that is seen in chunks. Takes in half as many again before it drops the worst, so each entry that
// gets in costs a constant on average; most of a random row fails the test against the bound.
template <class K>
class BestOf {
 public:
  explicit BestOf(int64_t k) : k_(k), room_(2 * k + 2 * kChunk) { entries_.reserve(static_cast<size_t>(room_)); }

  // Looks at n values from position `first` on.
  void see(ScalarType t, const char* src, int64_t n, bool largest, int64_t first) {
    const int64_t elem = static_cast<int64_t>(elementSize(t));
    K keys[kChunk];
    uint32_t positions[kChunk];
    // The first entries come in without a test: few, so that there is a bound soon.
    const int64_t untested = std::clamp<int64_t>(2 * k_, 32, kChunk);
    for (int64_t i = 0, count = 0; i < n; i += count) {
      count = std::min<int64_t>(bounded_ ? kChunk : untested, n - i);
      load_keys(t, src + i * elem, count, largest, keys);
      if (static_cast<int64_t>(entries_.size()) + count > room_) shrink();
      if (!bounded_) {
        for (int64_t j = 0; j < count; ++j) entries_.push_back({keys[j], first + i + j});
        if (static_cast<int64_t>(entries_.size()) >= k_) shrink();
        continue;
      }
      // Later entries equal to the bound lose the tie, so only smaller ones matter.
      const int64_t hits = collect_below(keys, count, bound_, positions);
      for (int64_t h = 0; h < hits; ++h) entries_.push_back({keys[positions[h]], first + i + positions[h]});
      if (static_cast<int64_t>(entries_.size()) - k_ >= std::max<int64_t>(k_ / 2, 8)) shrink();
    }
  }

  void join(const BestOf& other) {
    entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
    shrink();
  }

  // The k entries, in order.
  const std::vector<Entry<K>>& finish() {
    shrink();
    std::sort(entries_.begin(), entries_.end());
    return entries_;
  }
  void clear() {
    entries_.clear();
    bounded_ = false;
  }

 private:
  static constexpr int64_t kChunk = 512;

  void shrink() {
    if (static_cast<int64_t>(entries_.size()) < k_) return;
    if (k_ == 1) {
      entries_[0] = *std::min_element(entries_.begin(), entries_.end());
    } else {
      std::nth_element(entries_.begin(), entries_.begin() + (k_ - 1), entries_.end());
    }
    entries_.resize(static_cast<size_t>(k_));
    bound_ = entries_[static_cast<size_t>(k_ - 1)].key;
    bounded_ = true;
  }

  int64_t k_, room_;
  std::vector<Entry<K>> entries_;
  K bound_ = 0;
  bool bounded_ = false;
};

template <class K>
void write_entries(const std::vector<Entry<K>>& entries, const char* src, int64_t elem, char* values,
                   int64_t* indices) {
  for (size_t j = 0; j < entries.size(); ++j) {
    std::memcpy(values + static_cast<int64_t>(j) * elem, src + entries[j].index * elem, static_cast<size_t>(elem));
    indices[j] = entries[j].index;
  }
}

// Few rows, each long: threads see parts of one row.
template <class K>
void select_long_row(ScalarType t, const char* src, int64_t n, int64_t k, bool largest, char* values,
                     int64_t* indices) {
  const int64_t elem = static_cast<int64_t>(elementSize(t));
  const int threads = static_cast<int>(std::min<int64_t>(get_num_threads(), n / (2 * k) + 1));
  std::vector<BestOf<K>> parts(static_cast<size_t>(threads), BestOf<K>(k));
  parallel_threads(threads, [&](int thread) {
    const int64_t begin = n * thread / threads, end = n * (thread + 1) / threads;
    parts[static_cast<size_t>(thread)].see(t, src + begin * elem, end - begin, largest, begin);
  });
  for (size_t p = 1; p < parts.size(); ++p) parts[0].join(parts[p]);
  write_entries(parts[0].finish(), src, elem, values, indices);
}

// How the rows of the input and the results lie: in place, or copied through a buffer that holds `block_rows` rows.
struct RowPlan {
  explicit RowPlan(const RowWalk& walk) : direct(walk.rows_contiguous()) {
    const int64_t fit = std::max<int64_t>(1, (int64_t{1} << 21) / (walk.length[0] * walk.elem[0]));
    block_rows = direct ? 1 : std::min<int64_t>({16, walk.inner(), fit});
    input_bytes = direct ? 0 : round_up_64(static_cast<size_t>(block_rows * walk.length[0] * walk.elem[0]));
    value_bytes = direct ? 0 : round_up_64(static_cast<size_t>(block_rows * walk.length[1] * walk.elem[1]));
    index_bytes = direct ? 0 : round_up_64(static_cast<size_t>(block_rows * walk.length[2] * walk.elem[2]));
  }
  size_t bytes() const { return input_bytes + value_bytes + index_bytes; }
  bool direct;
  int64_t block_rows;
  size_t input_bytes, value_bytes, index_bytes;
};

// Calls f(input row, values row, indices row) with contiguous rows.
template <class F>
void for_rows(const RowWalk& walk, const RowPlan& plan, int64_t begin, int64_t end, const F& f) {
  Scratch buffer(plan.bytes());
  for (int64_t b = begin; b < end; ++b) {
    const RowBlock block = row_block(walk, plan.block_rows, b);
    if (plan.direct) {
      f(block.data[0], block.data[1], reinterpret_cast<int64_t*>(block.data[2]));
      continue;
    }
    char* input = buffer.data();
    char* values = input + plan.input_bytes;
    int64_t* indices = reinterpret_cast<int64_t*>(values + plan.value_bytes);
    gather_rows(walk, block, 0, input);
    for (int64_t r = 0; r < block.rows; ++r) {
      f(input + r * walk.length[0] * walk.elem[0], values + r * walk.length[1] * walk.elem[1],
        indices + r * walk.length[2]);
    }
    scatter_rows(walk, block, 1, values);
    scatter_rows(walk, block, 2, indices);
  }
}

template <class K>
void topk_typed(const RowWalk& walk, ScalarType t, int64_t k, bool largest) {
  const int64_t n = walk.length[0], elem = walk.elem[0];
  const RowPlan plan(walk);
  constexpr int64_t kLongRow = 1 << 16;
  const bool by_row = walk.rows >= get_num_threads() || n < kLongRow || in_parallel_region();
  // Sorting wins where much of the row is asked for, and where a row is so short that setting up is what counts.
  const bool by_sort = k > n / 8 || n <= kMaxRankSort;
  const int64_t blocks = walk.block_count(plan.block_rows);
  if (!by_row) {
    return for_rows(walk, plan, 0, blocks, [&](const char* src, char* values, int64_t* indices) {
      if (by_sort) return sort_row_parallel(t, src, n, largest, k, values, indices);
      select_long_row<K>(t, src, n, k, largest, values, indices);
    });
  }
  const int64_t grain = std::max<int64_t>(1, (by_sort ? 8192 : 32768) / (n * plan.block_rows));
  parallel_for(0, blocks, grain, [&](int64_t begin, int64_t end) {
    if (by_sort) {
      Scratch work(sort_row_bytes(t, n));
      return for_rows(walk, plan, begin, end, [&](const char* src, char* values, int64_t* indices) {
        sort_row(t, src, n, largest, k, work.data(), values, indices);
      });
    }
    BestOf<K> best(k);
    for_rows(walk, plan, begin, end, [&](const char* src, char* values, int64_t* indices) {
      best.clear();
      best.see(t, src, n, largest, 0);
      write_entries(best.finish(), src, elem, values, indices);
    });
  });
}

void topk_cpu(const Tensor& self, int64_t k, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
  if (values.impl()->numel == 0) return;
  const RowWalk walk({&self, &values, &indices}, dim);
  const ScalarType t = self.impl()->dtype;
  if (has_wide_keys(t)) return topk_typed<uint64_t>(walk, t, k, largest);
  topk_typed<uint32_t>(walk, t, k, largest);
}

// The position of the entry that sorting would put at `rank`, first of equals first. Looks at digits from the top: counts how many keys
// have each, keeps those with the digit in which the rank falls. `keys` is used up.
template <class K>
int64_t select_rank(K* keys, int64_t n, int64_t rank, K* spare) {
  constexpr int kDigit = 11;
  const K* all = keys;
  K* candidates = spare;
  const K* from = all;
  int64_t count = n, left = rank;
  KeyRange<K> range = key_range(all, n);
  while (range.min != range.max && count > 64) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<K>(range.max - range.min))) - kDigit);
    int64_t counts[1 << kDigit] = {};
    for (int64_t i = 0; i < count; ++i) ++counts[static_cast<size_t>(static_cast<K>(from[i] - range.min) >> shift)];
    size_t digit = 0;
    while (left >= counts[digit]) left -= counts[digit++];
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
      const K key = from[i];
      candidates[kept] = key;
      kept += static_cast<size_t>(static_cast<K>(key - range.min) >> shift) == digit;
    }
    from = candidates;
    count = kept;
    range = key_range(from, count);
  }
  K wanted = range.min;
  if (range.min != range.max) {
    if (from != candidates) std::memcpy(candidates, from, static_cast<size_t>(count) * sizeof(K));
    std::nth_element(candidates, candidates + left, candidates + count);
    wanted = candidates[left];
    left -= std::count_if(candidates, candidates + count, [wanted](K key) { return key < wanted; });
  }
  // The left-th of those equal to it, in the order of the row.
  for (int64_t i = 0; i < n; ++i) {
    if (all[i] == wanted && left-- == 0) return i;
  }
  return n - 1;
}

template <class K>
void kthvalue_typed(const RowWalk& walk, ScalarType t, int64_t k) {
  const int64_t n = walk.length[0], elem = walk.elem[0];
  const RowPlan plan(walk);
  parallel_for(0, walk.block_count(plan.block_rows), std::max<int64_t>(1, 8192 / (n * plan.block_rows)),
               [&](int64_t begin, int64_t end) {
                 // One place more: compaction writes a key before it knows whether to keep it.
                 const size_t part = round_up_64((static_cast<size_t>(n) + 1) * sizeof(K));
                 Scratch scratch(2 * part);
                 K* keys = scratch.as<K>();
                 for_rows(walk, plan, begin, end, [&](const char* src, char* values, int64_t* indices) {
                   load_keys(t, src, n, false, keys);
                   const int64_t at = select_rank(keys, n, k - 1, scratch.as<K>(part));
                   std::memcpy(values, src + at * elem, static_cast<size_t>(elem));
                   *indices = at;
                 });
               });
}

// `values` and `indices` keep the dim with size 1.
void kthvalue_cpu(const Tensor& self, int64_t k, int64_t dim, const Tensor& values, const Tensor& indices) {
  if (values.impl()->numel == 0) return;
  const RowWalk walk({&self, &values, &indices}, dim);
  const ScalarType t = self.impl()->dtype;
  if (has_wide_keys(t)) return kthvalue_typed<uint64_t>(walk, t, k);
  kthvalue_typed<uint32_t>(walk, t, k);
}

const KernelRegistration topk_registration(OpId::topk, DeviceType::CPU, &topk_cpu);
const KernelRegistration kthvalue_registration(OpId::kthvalue, DeviceType::CPU, &kthvalue_cpu);

}  // namespace
}  // namespace facula
