// Walks a pointwise program over many sets of arrays in one parallel region: what optimizers do to all parameters.
#include "cpu/executor.h"
#include "cpu/parallel.h"
#include "cpu/tile_eval.h"

#include <facula/core/error.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace facula {
namespace {

constexpr size_t kMostStores = 16;

// Brings the tiles of one item to an evaluator. `stores` may be fewer than the program has: the rest is only computed.
class ItemTiles {
 public:
  ItemTiles(const CpuProgram& program, TileEval& eval, const ListItem& item, uint64_t constant, size_t stores)
      : program_(program), eval_(eval), item_(item), constant_(constant), stores_(stores) {
    for (size_t k = 0; k < stores; ++k) direct_[k] = may_write_directly(k);
  }

  // Computes the `n` elements from `at` on.
  void run(int64_t at, int64_t n) {
    const Program& p = program_.program();
    const size_t loads = p.loads().size();
    eval_.begin(1, n);
    for (size_t k = 0; k < loads; ++k) {
      const bool one = constant_ >> k & 1;
      const auto* from = static_cast<const char*>(item_.arrays[k]);
      if (!one) from += at * static_cast<int64_t>(elementSize(p.loads()[k]));
      eval_.bind_load(k, from, one ? 0 : n, one ? 0 : 1);
    }
    const auto address = [&](size_t k) {
      return static_cast<char*>(item_.arrays[loads + k]) + at * static_cast<int64_t>(elementSize(p.stores()[k].dtype));
    };
    for (size_t k = 0; k < stores_; ++k)
      if (p.values()[p.stores()[k].value].source == Program::Source::Instruction)
        eval_.redirect(p.stores()[k].value, direct_[k] ? address(k) : eval_.buffer_of(p.stores()[k].value));
    eval_.run_prologue();
    for (size_t k = 0; k < stores_; ++k) eval_.store(p.stores()[k].value, p.stores()[k].dtype, address(k), 1, n, n, 1);
  }

 private:
  // Whether the step that computes store k may write to memory at once. It may, unless a conversion is needed or a later step
  // still reads a load that lies there.
  bool may_write_directly(size_t k) const {
    const Program& p = program_.program();
    const TilePlan& plan = program_.plan();
    const Program::Store& store = p.stores()[k];
    bool may = p.values()[store.value].source == Program::Source::Instruction &&
               compute_type(store.dtype) == plan.types[store.value] && !store_fn(store.dtype);
    for (size_t other = 0; may && other < p.stores().size(); ++other)
      may = other == k || p.stores()[other].value != store.value;
    bool computed = false;
    for (const TileStep& step : plan.prologue) {
      if (computed)
        for (uint16_t operand : step.operands)
          for (size_t j = 0; j < p.loads().size(); ++j)
            may &= operand != plan.load_values[j] || item_.arrays[j] != item_.arrays[p.loads().size() + k];
      computed |= step.result == store.value;
    }
    return may;
  }

  const CpuProgram& program_;
  TileEval& eval_;
  const ListItem& item_;
  const uint64_t constant_;
  const size_t stores_;
  bool direct_[kMostStores] = {};
};

int64_t longest_of(std::span<const ListItem> items) {
  int64_t longest = 0;
  for (const ListItem& item : items) longest = std::max(longest, item.count);
  return longest;
}

// How many parts come before each item when items are cut as `parts_of` says.
template <class F>
std::vector<int64_t> parts_before(std::span<const ListItem> items, F parts_of) {
  std::vector<int64_t> first(items.size() + 1, 0);
  for (size_t i = 0; i < items.size(); ++i) first[i + 1] = first[i] + parts_of(items[i].count);
  return first;
}
size_t item_of(const std::vector<int64_t>& first, int64_t part) {
  return static_cast<size_t>(std::upper_bound(first.begin(), first.end(), part) - first.begin()) - 1;
}

// Combines values in eight strands, which the compiler makes one vector of.
template <class T>
struct Combined {
  static constexpr size_t kStrands = 8;
  explicit Combined(ListReduce reduce) : reduce_(reduce) {
    std::fill(strands_, strands_ + kStrands, reduce == ListReduce::Sum ? T(0) : -std::numeric_limits<T>::infinity());
  }
  void add(const T* x, size_t n) {
    const size_t whole = n / kStrands * kStrands;
    if (reduce_ == ListReduce::Sum) {
      for (size_t i = 0; i < whole; i += kStrands)
        for (size_t s = 0; s < kStrands; ++s) strands_[s] += x[i + s];
    } else {
      for (size_t i = 0; i < whole; i += kStrands)
        for (size_t s = 0; s < kStrands; ++s) strands_[s] = larger(strands_[s], x[i + s]);
    }
    for (size_t i = whole; i < n; ++i)
      strands_[i - whole] = reduce_ == ListReduce::Sum ? strands_[i - whole] + x[i] : larger(strands_[i - whole], x[i]);
  }
  T result() const {
    T all = strands_[0];
    for (size_t s = 1; s < kStrands; ++s)
      all = reduce_ == ListReduce::Sum ? all + strands_[s] : larger(all, strands_[s]);
    return all;
  }

 private:
  static T larger(T a, T b) { return a > b || a != a ? a : b; }
  T strands_[kStrands];
  ListReduce reduce_;
};

}  // namespace

void CpuProgram::run_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params) const {
  const int64_t tile = plan_->tile_elements, longest = longest_of(items);
  const size_t stores = program_.stores().size();
  FACULA_INTERNAL_CHECK(stores <= kMostStores && program_.reduction() == ReduceOp::None);
  const auto first = parts_before(items, [&](int64_t count) { return (count + tile - 1) / tile; });
  const auto work = [&](int64_t begin, int64_t end) {
    TileEval eval(*this, params, longest);
    for (size_t item = item_of(first, begin); begin < end; ++item) {
      ItemTiles tiles(*this, eval, items[item], constant, stores);
      for (; begin < std::min(end, first[item + 1]); ++begin) {
        const int64_t at = (begin - first[item]) * tile;
        tiles.run(at, std::min(tile, items[item].count - at));
      }
    }
  };
  const int64_t all = first.back(), grain = std::max<int64_t>(1, plan_->grain / tile);
  if (all == 0) return;
  if (!worth_a_team(all, grain)) return work(0, all);
  parallel_for(0, all, grain, work);
}

void CpuProgram::reduce_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                             ListReduce reduce, void* partials) const {
  const int64_t tile = plan_->tile_elements, longest = longest_of(items);
  const size_t stores = program_.stores().size() - 1;
  const uint16_t reduced = program_.stores()[stores].value;
  const CType type = plan_->types[reduced];
  FACULA_INTERNAL_CHECK(stores < kMostStores && program_.reduction() == ReduceOp::None);
  FACULA_INTERNAL_CHECK(type == compute_type(program_.stores()[stores].dtype));
  const auto first = parts_before(items, list_stretches);
  const auto stretches = [&]<class T>(int64_t begin, int64_t end) {
    TileEval eval(*this, params, longest);
    for (size_t item = item_of(first, begin); begin < end; ++item) {
      ItemTiles tiles(*this, eval, items[item], constant, stores);
      for (; begin < std::min(end, first[item + 1]); ++begin) {
        Combined<T> combined(reduce);
        const int64_t from = (begin - first[item]) * kListStretch;
        const int64_t to = std::min(items[item].count, from + kListStretch);
        for (int64_t at = from; at < to; at += tile) {
          const int64_t n = std::min(tile, to - at);
          tiles.run(at, n);
          combined.add(static_cast<const T*>(eval.value(reduced)), static_cast<size_t>(n));
        }
        static_cast<T*>(partials)[begin] = combined.result();
      }
    }
  };
  if (items.empty()) return;
  parallel_for(0, first.back(), std::max<int64_t>(1, plan_->grain / kListStretch), [&](int64_t begin, int64_t end) {
    if (type == CType::F64) stretches.operator()<double>(begin, end);
    else stretches.operator()<float>(begin, end);
  });
}

}  // namespace facula
