// Walks programs with a reduction over tiles. Pointwise programs are in executor.cpp, the reduction of one tile in
// simd/reduce_ops*.cpp.
//
// An output is reduced in a fixed tree: its elements are cut into leaves whose size follows from the geometry alone,
// and the states of leaves merge pairwise in groups that are aligned to powers of two. Threads take outputs or, where
// there are few of them, aligned groups of leaves, so that the result depends neither on their number nor on who ran
// what.
#include "core/shape.h"
#include "core/sort_few.h"
#include "cpu/executor.h"
#include "cpu/parallel.h"
#include "cpu/simd/reduce_ops.h"
#include "cpu/tile_eval.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace facula {
namespace {

using cpu::ReduceKernel;
using cpu::ReduceTile;
using cpu::States;

constexpr size_t kMaxArrays = 33;              // loads, positions, stores
constexpr int64_t kLeafBytes = 16 << 10;       // of a leaf that is read in place
constexpr int64_t kExactLeafBytes = 64 << 10;  // likewise, where nothing is rounded
constexpr int64_t kLeavesAtOnce = 16;          // that one call of a kernel reduces
constexpr int64_t kLeafRows = 64;              // of a leaf whose columns are outputs
constexpr int64_t kMostOutputs = 1024;         // that a thread takes at once
constexpr int64_t kFewColumns = 16;            // below: another dim, or several rows at once, make better columns
constexpr int64_t kWideColumns = 256;

// The kept or the reduced dims, sorted from slow to fast and merged, with the strides of all arrays.
struct Dims {
  size_t count = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxArrays][kMaxDims];

  int64_t numel() const {
    int64_t n = 1;
    for (size_t d = 0; d < count; ++d) n *= sizes[d];
    return n;
  }
  // Adds the offsets of element `index` in row-major order of all dims but two (SIZE_MAX for none).
  void locate(int64_t index, size_t skip_a, size_t skip_b, size_t arrays, int64_t* offsets) const {
    for (size_t d = count; d-- > 0 && index != 0;) {
      if (d == skip_a || d == skip_b) continue;
      int64_t at = index % sizes[d];
      index /= sizes[d];
      for (size_t a = 0; a < arrays; ++a) offsets[a] += at * strides[a][d];
    }
  }
};

void build_dims(Dims& dims, IntArrayRef sizes, uint64_t mask, const int64_t* const* strides, size_t arrays) {
  size_t order[kMaxDims], n = 0;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1 && (mask >> d & 1)) order[n++] = d;
  // Broadcast dims come first: nothing new is read along them.
  auto key = [&](size_t d) { return strides[0][d] == 0 ? INT64_MAX : std::abs(strides[0][d]); };
  sort_few(order, order + n, [&](size_t a, size_t b) { return key(a) > key(b); });
  dims.count = 0;
  for (size_t k = 0; k < n; ++k) {
    size_t d = order[k], last = dims.count - 1;
    bool merge = dims.count > 0;
    for (size_t a = 0; merge && a < arrays; ++a) merge = dims.strides[a][last] == strides[a][d] * sizes[d];
    if (!merge) last = dims.count++;
    dims.sizes[last] = merge ? dims.sizes[last] * sizes[d] : sizes[d];
    for (size_t a = 0; a < arrays; ++a) dims.strides[a][last] = strides[a][d];
  }
  if (dims.count == 0) {
    dims.count = 1;
    dims.sizes[0] = 1;
    for (size_t a = 0; a < arrays; ++a) dims.strides[a][0] = 0;
  }
}

// Whether no step of a reduction rounds, so that long leaves lose nothing.
bool is_exact(ReduceOp op, CType type) {
  switch (op) {
    case ReduceOp::Max:
    case ReduceOp::Min:
    case ReduceOp::Any:
    case ReduceOp::All: return true;
    case ReduceOp::Sum:
    case ReduceOp::Prod: return type == CType::I32 || type == CType::I64 || type == CType::U64;
    default: return false;
  }
}

States advance(const ReduceKernel& kernel, const States& s, int64_t n) {
  States result;
  for (int k = 0; k < kernel.fields; ++k) result.field[k] = static_cast<char*>(s.field[k]) + n * kernel.field_bytes[k];
  return result;
}

int64_t bytes_of(const ReduceKernel& kernel, int64_t n) {
  int64_t bytes = 0;
  for (int k = 0; k < kernel.fields; ++k) bytes += (n * kernel.field_bytes[k] + 63) / 64 * 64;
  return bytes;
}

States states_at(const ReduceKernel& kernel, char* memory, int64_t n) {
  States s;
  for (int k = 0; k < kernel.fields; ++k) {
    s.field[k] = memory;
    memory += (n * kernel.field_bytes[k] + 63) / 64 * 64;
  }
  return s;
}

// Merges a stream of states pairwise: after n of them the stack holds one subtree for each bit of n.
class Tree {
 public:
  explicit Tree(const ReduceKernel& kernel, int64_t outputs) : kernel_(kernel), outputs_(outputs) {}
  States& slot() { return stack_[depth_]; }
  int depth() const { return depth_; }
  void push() {
    ++depth_;
    for (uint64_t n = ++count_; (n & 1) == 0; n >>= 1) merge_top();
  }
  // Everything ends in the first slot.
  void close() {
    while (depth_ > 1) merge_top();
  }

 private:
  void merge_top() {
    kernel_.merge(stack_[depth_ - 2], stack_[depth_ - 1], outputs_);
    --depth_;
  }
  const ReduceKernel& kernel_;
  int64_t outputs_;
  States stack_[66];
  int depth_ = 0;
  uint64_t count_ = 0;
};

// How the axes of a tile map to the dims. Outputs are along one kept dim.
enum class Layout : uint8_t {
  RowsAreOutputs,  // columns run along the fast reduced dim
  RowsAreReduced,  // the same, and rows along another reduced dim: for few outputs
  ColumnsAreOutputs,
  WideColumns,  // several rows of few outputs, one after the other in memory, are one row
};

class Reduction {
 public:
  Reduction(const CpuProgram& program, const ReduceKernel& kernel, IntArrayRef sizes, uint64_t reduced,
            std::span<const ArrayArg> loads, std::span<const ParamValue> params, std::span<const ArrayArg> stores);
  void run();

 private:
  void choose_layout();
  void choose_blocks();
  class Worker;
  struct Unit {
    int64_t outer, first, count;  // index over the other kept dims; range of outputs along the block dim
  };
  // Elements of the largest tile that is evaluated.
  int64_t tile_limit() const { return direct_ ? 1 : program_.plan().tile_elements; }
  Unit unit(int64_t u) const {
    int64_t blocks = (block_size_ + block_ - 1) / block_;
    int64_t first = u % blocks * block_;
    return {u / blocks, first, std::min(block_, block_size_ - first)};
  }
  void run_units();
  void run_groups();

  const CpuProgram& program_;
  const ReduceKernel& kernel_;
  std::span<const ArrayArg> loads_;
  std::span<const ParamValue> params_;
  std::span<const ArrayArg> stores_;
  size_t position_ = 0, arrays_ = 0;  // index of the positions' strides; number of arrays
  int64_t width_[kMaxArrays];         // bytes of an element of each load
  Dims kept_, reduced_;
  bool empty_ = false;
  bool direct_ = false;                     // tiles are used where they lie
  const ReduceKernel* widening_ = nullptr;  // used when they do and memory is not in the compute type
  size_t direct_load_ = 0;
  Layout layout_ = Layout::RowsAreOutputs;
  size_t fast_ = 0;       // the reduced dim that columns (RowsAre...) or rows run along
  size_t cut_ = 0;        // the reduced dim that is cut into leaves
  size_t block_dim_ = 0;  // the kept dim that outputs of a block run along
  int64_t block_size_ = 1;
  int64_t leaf_ = 1;  // entries of the cut dim in a leaf
  int64_t cuts_ = 1, leaves_ = 1;
  int64_t group_ = 1;  // WideColumns: rows that make one
  int64_t sub_ = 1;    // outputs of a tile
  int64_t block_ = 1;  // outputs of a unit
  int64_t units_ = 1;
  int64_t work_ = 0;  // elements in all
};

Reduction::Reduction(const CpuProgram& program, const ReduceKernel& kernel, IntArrayRef sizes, uint64_t reduced,
                     std::span<const ArrayArg> loads, std::span<const ParamValue> params,
                     std::span<const ArrayArg> stores)
    : program_(program), kernel_(kernel), loads_(loads), params_(params), stores_(stores) {
  position_ = loads.size();
  arrays_ = loads.size() + 1 + stores.size();
  const int64_t* strides[kMaxArrays];
  for (size_t a = 0; a < loads.size(); ++a) {
    strides[a] = loads[a].strides;
    width_[a] = static_cast<int64_t>(elementSize(program.program().loads()[a]));
  }
  // Positions count the reduced dims in the caller's order.
  int64_t positions[kMaxDims];
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    const bool is_reduced = reduced >> d & 1;
    positions[d] = is_reduced ? step : 0;
    if (is_reduced) step *= sizes[d];
  }
  strides[position_] = positions;
  for (size_t k = 0; k < stores.size(); ++k) strides[position_ + 1 + k] = stores[k].strides;
  build_dims(kept_, sizes, ~reduced, strides, arrays_);
  build_dims(reduced_, sizes, reduced, strides, position_ + 1);
  work_ = kept_.numel() * reduced_.numel();
  empty_ = reduced_.numel() == 0;
  if (kept_.numel() == 0) {
    units_ = 0;
    return;
  }
  choose_layout();
  choose_blocks();
}

void Reduction::choose_layout() {
  const TilePlan& plan = program_.plan();
  const Program& p = program_.program();
  const auto& source = p.values()[p.reduced_value()];
  direct_load_ = source.index;
  const bool is_load = source.source == Program::Source::Load;
  const bool natural = is_load && !load_fn(p.loads()[source.index]);
  if (is_load && !natural) widening_ = cpu::reduce_kernel_in_place(p.reduction(), p.loads()[source.index]);
  const bool in_place = natural || widening_;
  auto speed = [&](const Dims& dims) {
    int64_t s = dims.strides[0][dims.count - 1];
    return s == 0 ? INT64_MAX : std::abs(s);
  };
  fast_ = cut_ = reduced_.count - 1;
  const int64_t element = static_cast<int64_t>(ctype_size(plan.types[p.reduced_value()]));
  const int64_t tile = plan.tile_elements;

  // Outputs of a block lie along the fastest kept dim, unless that is short and another is longer.
  block_dim_ = kept_.count - 1;
  auto prefer_longer = [&] {
    if (kept_.sizes[block_dim_] >= kFewColumns) return;
    for (size_t d = 0; d < kept_.count; ++d)
      if (kept_.sizes[d] > kept_.sizes[block_dim_]) block_dim_ = d;
  };

  const int64_t fast_size = reduced_.sizes[fast_];
  if (kept_.numel() == 1 || (fast_size > 1 && speed(reduced_) < speed(kept_))) {
    prefer_longer();
    // Many short rows are faster in a tile of their own.
    const bool wanted = natural || (widening_ && fast_size > 32);
    direct_ = wanted && (reduced_.strides[direct_load_][fast_] == 1 || fast_size == 1);
    const int64_t most = direct_ ? kLeafBytes / element : std::min(kLeafBytes / element, tile / 64 * 64);
    const int64_t rows = std::max<int64_t>(1, most / std::max<int64_t>(fast_size, 1));
    block_size_ = kept_.sizes[block_dim_];
    layout_ = Layout::RowsAreOutputs;
    // A leaf ends with steps that wait for each other; sums are rounded less in short ones.
    const bool long_leaves = direct_ && is_exact(p.reduction(), plan.types[p.reduced_value()]);
    leaf_ = std::min(std::max<int64_t>(fast_size, 1), long_leaves ? kExactLeafBytes / element : most);
    sub_ = std::min({rows, block_size_, kMostOutputs, tile});
    if (reduced_.count > 1 && block_size_ < rows / 2) {
      layout_ = Layout::RowsAreReduced;
      cut_ = reduced_.count - 2;
      for (size_t d = 0; d < fast_; ++d)
        if (reduced_.sizes[d] > reduced_.sizes[cut_]) cut_ = d;
      leaf_ = std::min(rows, std::max<int64_t>(reduced_.sizes[cut_], 1));
      sub_ = 1;
    }
  } else {
    const int64_t columns = kept_.sizes[block_dim_];
    bool joined = columns < kWideColumns / 2 && kernel_.field_bytes[0] != 0 && fast_size >= 4 * kWideColumns / columns;
    // Kernels of positions know one position per row only.
    joined = joined && kernel_.result_field[1] == 0 && kernel_.result_field[0] == 0;
    for (size_t a = 0; joined && a < loads_.size(); ++a)
      joined = reduced_.strides[a][fast_] == columns * kept_.strides[a][block_dim_];
    if (joined) {
      layout_ = Layout::WideColumns;
      direct_ = in_place && (kept_.strides[direct_load_][block_dim_] == 1 || columns == 1);
      group_ = std::min(kWideColumns, tile) / columns;
      const int64_t wide = group_ * columns;
      leaf_ = group_ * (direct_ ? kLeafRows : std::max<int64_t>(1, std::min(kLeafRows, tile / wide)));
      sub_ = columns;
    } else {
      layout_ = Layout::ColumnsAreOutputs;
      prefer_longer();
      const int64_t size = kept_.sizes[block_dim_];
      direct_ = in_place && (kept_.strides[direct_load_][block_dim_] == 1 || size == 1);
      if (direct_) {
        sub_ = std::min({size, kMostOutputs, tile});
        leaf_ = std::clamp<int64_t>(4096 / size, kLeafRows, 512);
      } else {
        sub_ = std::min(size, std::max<int64_t>(1, tile / 16));
        leaf_ = std::clamp<int64_t>(tile / sub_, 1, 512);
      }
    }
    block_size_ = kept_.sizes[block_dim_];
  }
  cuts_ = (reduced_.sizes[cut_] + leaf_ - 1) / leaf_;
  leaves_ = cuts_;
  for (size_t d = 0; d < reduced_.count; ++d)
    if (d != cut_ && !(layout_ == Layout::RowsAreReduced && d == fast_)) leaves_ *= reduced_.sizes[d];
}

// Everything here may depend on the number of threads: it changes who computes an output, not how.
void Reduction::choose_blocks() {
  const int64_t outer = kept_.numel() / block_size_;
  const int64_t each = std::max<int64_t>(reduced_.numel(), 1);
  auto units = [&] { return outer * ((block_size_ + block_ - 1) / block_); };
  block_ = sub_;
  if (layout_ == Layout::RowsAreOutputs || layout_ == Layout::RowsAreReduced) {
    const int64_t wanted =
        std::clamp<int64_t>((1 << 16) / each, 1, std::min(kMostOutputs, program_.plan().tile_elements));
    block_ = std::min(block_size_, std::max(sub_, wanted / sub_ * sub_));
    // Rows that are used where they lie need no tile, and a kernel that has several of them starts on the next while it ends one.
    if (direct_ && leaves_ == 1 && layout_ == Layout::RowsAreOutputs) sub_ = block_;
  } else if (layout_ == Layout::ColumnsAreOutputs && worth_a_team(work_, program_.plan().grain)) {
    while (block_ > 256 && units() < 2 * get_num_threads()) block_ = sub_ = (block_ / 2 + 63) / 64 * 64;
  }
  units_ = units();
}

// Memory that a thread keeps between runs.
char* thread_memory(size_t bytes) {
  struct Memory {
    std::unique_ptr<char[]> data;
    size_t size = 0;
  };
  thread_local Memory memory;
  if (bytes + 64 > memory.size) {
    memory.size = bytes + 64;
    memory.data = std::make_unique_for_overwrite<char[]>(memory.size);
  }
  auto address = reinterpret_cast<uintptr_t>(memory.data.get());
  return memory.data.get() + ((address + 63) / 64 * 64 - address);
}

// What one thread needs to reduce blocks of outputs.
class Reduction::Worker {
 public:
  explicit Worker(const Reduction& r)
      : r_(r),
        kernel_(r.direct_ && r.widening_ ? *r.widening_ : r.kernel_),
        eval_(r.program_, r.params_.data(), std::max(r.tile_limit(), r.block_)) {
    levels_ = r.leaves_ > 1 ? std::bit_width(static_cast<uint64_t>(r.leaves_)) + 1 : 1;
    leaves_are_rows_ = r.direct_ && r.layout_ == Layout::RowsAreOutputs && r.sub_ == 1 && r.reduced_.count == 1;
    const int64_t grouped_states = r.layout_ == Layout::WideColumns      ? r.group_ * r.sub_
                                   : r.layout_ == Layout::RowsAreReduced ? r.leaf_
                                   : leaves_are_rows_                    ? kLeavesAtOnce
                                                                         : 0;
    const int64_t block_bytes = bytes_of(kernel_, r.block_), sub_bytes = bytes_of(kernel_, r.sub_),
                  group_bytes = bytes_of(kernel_, grouped_states);
    const int64_t result_bytes = kernel_.finish ? (r.block_ * 16 + 63) / 64 * 64 : 0;
    char* memory =
        thread_memory(static_cast<size_t>(block_bytes + levels_ * sub_bytes + group_bytes + 2 * result_bytes));
    block_ = states_at(kernel_, memory, r.block_);
    memory += block_bytes;
    level_memory_ = memory;
    level_bytes_ = sub_bytes;
    memory += levels_ * sub_bytes;
    group_ = states_at(kernel_, memory, grouped_states);
    memory += group_bytes;
    results_[0] = memory;
    results_[1] = memory + result_bytes;
  }

  // The whole of unit u, results stored.
  void run_unit(int64_t u) {
    const Unit unit = r_.unit(u);
    locate(unit);
    reduce(unit, 0, r_.leaves_, block_);
    store(unit, block_);
  }
  // Leaves [first, last) of unit u.
  void run_part(int64_t u, int64_t first, int64_t last, const States& out) {
    const Unit unit = r_.unit(u);
    locate(unit);
    reduce(unit, first, last, out);
  }
  void store_unit(int64_t u, const States& states) {
    const Unit unit = r_.unit(u);
    locate(unit);
    store(unit, states);
  }
  void store_empty(int64_t u) {
    const Unit unit = r_.unit(u);
    locate(unit);
    kernel_.empty(block_, unit.count);
    store(unit, block_);
  }

 private:
  void locate(const Unit& unit) {
    std::fill_n(base_, r_.arrays_, int64_t{0});
    r_.kept_.locate(unit.outer, r_.block_dim_, SIZE_MAX, r_.arrays_, base_);
    for (size_t a = 0; a < r_.arrays_; ++a) base_[a] += unit.first * r_.kept_.strides[a][r_.block_dim_];
  }

  void reduce(const Unit& unit, int64_t first, int64_t last, const States& out) {
    for (int64_t i = 0; i < unit.count; i += r_.sub_) {
      const int64_t n = std::min(r_.sub_, unit.count - i);
      Tree tree(kernel_, n);
      for (int64_t leaf = first; leaf < last;) {
        const int64_t together = leaves_are_rows_ ? whole_leaves(leaf, last) : 1;
        if (together > 1) run_leaves(leaf, together, i);
        for (int64_t k = 0; k < together; ++k, ++leaf) {
          tree.slot() = tree.depth() == 0 ? advance(kernel_, out, i)
                                          : states_at(kernel_, level_memory_ + tree.depth() * level_bytes_, r_.sub_);
          if (together > 1) copy_states(advance(kernel_, group_, k), 1, tree.slot());
          else run_leaf(leaf, i, n, tree.slot());
          tree.push();
        }
      }
      tree.close();
    }
  }

  // How many leaves from this one on are whole: the last of an output may be shorter.
  int64_t whole_leaves(int64_t leaf, int64_t last) const {
    return std::clamp<int64_t>(std::min(last, r_.reduced_.sizes[r_.cut_] / r_.leaf_) - leaf, 1, kLeavesAtOnce);
  }

  // Reduces some whole leaves of output i of the block, which lie one after the other, into group_. A kernel that has several starts on the next
  // while it ends one.
  void run_leaves(int64_t leaf, int64_t count, int64_t i) {
    int64_t at[kMaxArrays];
    find_leaf(leaf, i, at);
    kernel_.rows(tile(
                     at, count, r_.leaf_, [&](size_t a) { return r_.leaf_ * r_.reduced_.strides[a][r_.cut_]; },
                     [&](size_t a) { return r_.reduced_.strides[a][r_.fast_]; }),
                 group_);
  }

  // Offsets of a leaf of output i of the block, in elements of each load, and its position.
  void find_leaf(int64_t leaf, int64_t i, int64_t* at) const {
    const size_t loads = r_.position_;
    for (size_t a = 0; a < loads; ++a) at[a] = base_[a] + i * r_.kept_.strides[a][r_.block_dim_];
    at[loads] = 0;
    const int64_t begin = leaf % r_.cuts_ * r_.leaf_;
    for (size_t a = 0; a <= loads; ++a) at[a] += begin * r_.reduced_.strides[a][r_.cut_];
    if (leaf >= r_.cuts_)
      r_.reduced_.locate(leaf / r_.cuts_, r_.cut_, r_.layout_ == Layout::RowsAreReduced ? r_.fast_ : SIZE_MAX,
                         loads + 1, at);
  }

  void copy_states(const States& from, int64_t n, const States& to) const {
    for (int k = 0; k < kernel_.fields; ++k)
      if (to.field[k] != from.field[k])
        std::memcpy(to.field[k], from.field[k], static_cast<size_t>(n * kernel_.field_bytes[k]));
  }

  // Reduces one leaf of n outputs, the first of which is number i of the block.
  void run_leaf(int64_t leaf, int64_t i, int64_t n, const States& out) {
    const size_t loads = r_.position_;
    int64_t at[kMaxArrays];
    find_leaf(leaf, i, at);
    const int64_t length = std::min(r_.leaf_, r_.reduced_.sizes[r_.cut_] - leaf % r_.cuts_ * r_.leaf_);

    auto reduced_stride = [&](size_t a) { return r_.reduced_.strides[a][r_.fast_]; };
    auto kept_stride = [&](size_t a) { return a < loads ? r_.kept_.strides[a][r_.block_dim_] : 0; };
    switch (r_.layout_) {
      case Layout::RowsAreOutputs: kernel_.rows(tile(at, n, length, kept_stride, reduced_stride), out); break;
      case Layout::ColumnsAreOutputs: kernel_.columns(tile(at, length, n, reduced_stride, kept_stride), out); break;
      case Layout::RowsAreReduced: {
        auto cut_stride = [&](size_t a) { return r_.reduced_.strides[a][r_.cut_]; };
        const States& states = length > 1 ? group_ : out;
        kernel_.rows(tile(at, length, r_.reduced_.sizes[r_.fast_], cut_stride, reduced_stride), states);
        if (length > 1) fold(length, 1, out);
        break;
      }
      case Layout::WideColumns: {
        const int64_t whole = length / r_.group_, left = length % r_.group_;
        auto wide_stride = [&](size_t a) { return r_.group_ * reduced_stride(a); };
        if (whole > 0) {
          kernel_.columns(tile(at, whole, r_.group_ * n, wide_stride, kept_stride), group_);
          fold(r_.group_, n, out);
        }
        if (left > 0) {
          for (size_t a = 0; a < loads; ++a) at[a] += whole * r_.group_ * reduced_stride(a);
          kernel_.columns(tile(at, 1, left * n, wide_stride, kept_stride), group_);
          if (whole > 0) {
            fold(left, n, group_);
            kernel_.merge(out, group_, n);
          } else {
            fold(left, n, out);
          }
        }
        break;
      }
    }
  }

  // Merges `groups` groups of n states in group_ into one, in a tree that their number fixes.
  void fold(int64_t groups, int64_t n, const States& out) {
    while (groups > 1) {
      const int64_t half = (groups + 1) / 2;
      kernel_.merge(group_, advance(kernel_, group_, half * n), (groups - half) * n);
      groups = half;
    }
    copy_states(group_, n, out);
  }

  // The values to reduce of a block of the iteration space.
  template <class RowStride, class ColumnStride>
  ReduceTile tile(const int64_t* at, int64_t rows, int64_t cols, const RowStride& row_stride,
                  const ColumnStride& col_stride) {
    ReduceTile t{nullptr, rows, cols, cols, at[r_.position_], row_stride(r_.position_), col_stride(r_.position_)};
    auto address = [&](size_t a) { return static_cast<const char*>(r_.loads_[a].data) + at[a] * r_.width_[a]; };
    if (r_.direct_) {
      t.data = address(r_.direct_load_);
      t.row_stride = row_stride(r_.direct_load_);
      // A row alone goes on when it is a piece of a longer one, or when nothing but it is reduced.
      t.goes_on = rows == 1 ? r_.cuts_ > 1 || r_.reduced_.count == 1 : t.row_stride == cols;
      return t;
    }
    eval_.begin(rows, cols);
    for (size_t a = 0; a < r_.loads_.size(); ++a) eval_.bind_load(a, address(a), row_stride(a), col_stride(a));
    eval_.run_prologue();
    t.data = eval_.value(r_.program_.program().reduced_value());
    return t;
  }

  void store(const Unit& unit, const States& states) {
    const Program& p = r_.program_.program();
    const void* results[2];
    if (kernel_.finish) {
      kernel_.finish(states, unit.count, results_[0], results_[1]);
      results[0] = results_[0];
      results[1] = results_[1];
    } else {
      for (int k = 0; k < 2; ++k) results[k] = states.field[kernel_.result_field[k]];
    }
    eval_.bind_reduced(0, results[0]);
    eval_.bind_reduced(1, results[1]);
    eval_.run_epilogue(unit.count);
    for (size_t k = 0; k < r_.stores_.size(); ++k) {
      const auto& s = p.stores()[k];
      const size_t a = r_.position_ + 1 + k;
      char* target = static_cast<char*>(r_.stores_[k].data) + base_[a] * static_cast<int64_t>(elementSize(s.dtype));
      eval_.store(s.value, s.dtype, target, 1, unit.count, unit.count, r_.kept_.strides[a][r_.block_dim_]);
    }
  }

  const Reduction& r_;
  const ReduceKernel& kernel_;
  TileEval eval_;
  int64_t base_[kMaxArrays];
  States block_, group_;
  bool leaves_are_rows_ = false;
  char* level_memory_ = nullptr;
  int64_t level_bytes_ = 0;
  int levels_ = 0;
  char* results_[2] = {};
};

void Reduction::run_units() {
  const int64_t grain = std::max<int64_t>(1, program_.plan().grain * units_ / std::max<int64_t>(work_, 1));
  auto work = [&](int64_t first, int64_t last) {
    Worker worker(*this);
    for (int64_t u = first; u < last; ++u)
      if (empty_) worker.store_empty(u);
      else worker.run_unit(u);
  };
  if (!worth_a_team(work_, program_.plan().grain)) return work(0, units_);
  parallel_for(0, units_, grain, work);
}

// Few outputs and many leaves: threads take aligned groups of leaves, and one merges the groups of each unit.
void Reduction::run_groups() {
  const int64_t wanted = (4 * get_num_threads() + units_ - 1) / units_;
  const int64_t leaves = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((leaves_ + wanted - 1) / wanted)));
  const int64_t groups = (leaves_ + leaves - 1) / leaves;
  const int64_t bytes = bytes_of(kernel_, block_);
  auto memory = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(units_ * groups * bytes + 64));
  auto address = reinterpret_cast<uintptr_t>(memory.get());
  char* parts = memory.get() + ((address + 63) / 64 * 64 - address);
  auto part = [&](int64_t index) { return states_at(kernel_, parts + index * bytes, block_); };
  parallel_for(0, units_ * groups, 1, [&](int64_t first, int64_t last) {
    Worker worker(*this);
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i % groups * leaves;
      worker.run_part(i / groups, begin, std::min(begin + leaves, leaves_), part(i));
    }
  });
  Worker worker(*this);
  for (int64_t u = 0; u < units_; ++u) {
    Tree tree(kernel_, unit(u).count);
    for (int64_t g = 0; g < groups; ++g) {
      tree.slot() = part(u * groups + g);
      tree.push();
    }
    tree.close();
    worker.store_unit(u, part(u * groups));
  }
}

void Reduction::run() {
  if (units_ == 0) return;
  const bool worth = worth_a_team(work_, program_.plan().grain) && !empty_ && leaves_ > 1;
  if (worth && units_ < 2 * get_num_threads()) return run_groups();
  run_units();
}

// One contiguous row that is a single leaf needs no geometry: most small calls.
bool run_one_leaf(const CpuProgram& program, const ReduceKernel& kernel, IntArrayRef sizes, uint64_t reduced,
                  const ArrayArg& load, const ParamValue* params, std::span<const ArrayArg> stores) {
  const Program& p = program.program();
  const auto& source = p.values()[p.reduced_value()];
  if (source.source != Program::Source::Load || load_fn(p.loads()[0])) return false;
  int64_t count = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if ((reduced >> d & 1) == 0 || (load.strides[d] != count && sizes[d] != 1)) return false;
    count *= sizes[d];
  }
  if (count == 0 || count * static_cast<int64_t>(ctype_size(source.type)) > kLeafBytes) return false;
  alignas(16) char fields[States::kMax][16];
  alignas(16) char finished[2][16];
  const States states{{fields[0], fields[1], fields[2]}};
  kernel.rows(ReduceTile{load.data, 1, count, count, 0, 0, 1}, states);
  if (kernel.finish) kernel.finish(states, 1, finished[0], finished[1]);
  const void* results[2];
  for (int k = 0; k < 2; ++k) results[k] = kernel.finish ? finished[k] : fields[kernel.result_field[k]];
  TileEval eval(program, params, 1);
  eval.bind_reduced(0, results[0]);
  eval.bind_reduced(1, results[1]);
  eval.run_epilogue(1);
  for (size_t k = 0; k < stores.size(); ++k)
    eval.store(p.stores()[k].value, p.stores()[k].dtype, stores[k].data, 1, 1, 1, 1);
  return true;
}

}  // namespace

void CpuProgram::run_reduction(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                               std::span<const ParamValue> params, std::span<const ArrayArg> stores) const {
  FACULA_INTERNAL_CHECK(program_.reduction() != ReduceOp::None && !loads.empty());
  FACULA_CHECK(loads.size() + stores.size() < kMaxArrays, NotSupportedError, "a program may use at most ",
               kMaxArrays - 1, " arrays, this one has ", loads.size() + stores.size(), "; split it");
  const ReduceKernel* kernel = cpu::reduce_kernel(program_.reduction(), plan_->types[program_.reduced_value()]);
  FACULA_INTERNAL_CHECK(kernel != nullptr);
  if (loads.size() == 1 && run_one_leaf(*this, *kernel, sizes, reduced, loads[0], params.data(), stores)) return;
  Reduction(*this, *kernel, sizes, reduced, loads, params, stores).run();
}

}  // namespace facula
