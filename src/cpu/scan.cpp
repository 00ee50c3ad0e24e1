// The CPU kernels of scans: walks rows, brings entries into their compute type and hands them to the loops of scan_ops.h.
#include "core/kernel_table.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/scan_ops.h"

#include <facula/tensor.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace facula {
namespace {

using namespace detail;

constexpr int64_t kTile = 2048;      // entries of a tile
constexpr int64_t kTileWidth = 64;   // rows side by side, when they go through a tile
constexpr int64_t kMaxWidth = 1024;  // rows side by side, when they are used in place

// One tensor of a scan: entries along the row and rows are `along` and `across` elements apart.
struct Side {
  Side(const RowWalk& walk, int i, ScalarType t, CType type)
      : dtype(t),
        along(walk.along[i]),
        across(walk.row_stride(i)),
        elem(walk.elem[i]),
        natural(compute_type(t) == type && load_fn(t) == nullptr) {}
  ScalarType dtype;
  int64_t along, across, elem;
  bool natural;  // memory holds the compute type

  // Whether pieces of the rows can be used where they are.
  bool in_place(bool side_by_side, int64_t width) const {
    return natural && (side_by_side ? across == 1 || width == 1 : along == 1);
  }
};

class Scan {
 public:
  Scan(ScanOp op, const ScanKernel& kernel, const Tensor& self, const Tensor& values, const Tensor* indices,
       const RowWalk& walk)
      : op_(op),
        kernel_(kernel),
        walk_(walk),
        in_(walk, 0, self.impl()->dtype, kernel.type),
        out_(walk, 1, values.impl()->dtype, kernel.type),
        n_(walk.length[0]) {
    if (indices) index_.emplace(walk, 2, kLong, CType::I64);
    const CType from = compute_type(in_.dtype);
    cast_ = from == kernel.type ? nullptr : cast_fn(from, kernel.type);
    const CType to = compute_type(out_.dtype);
    cast_store_ = to == kernel.type ? nullptr : cast_store_fn(kernel.type, out_.dtype);
  }

  void run() const {
    const bool side_by_side = walk_.inner() >= 8 && std::abs(in_.across) < std::abs(in_.along);
    if (side_by_side) return run_side_by_side();
    const bool few_rows = walk_.rows < get_num_threads() && n_ >= 4 * kScanBlock && !in_parallel_region();
    if (few_rows && op_ == ScanOp::Sum) {
      for (int64_t r = 0; r < walk_.rows; ++r) run_in_blocks(row_block(walk_, 1, r));
      return;
    }
    const int64_t cost = op_ == ScanOp::LogSumExp ? 8 : 1;
    parallel_for(0, walk_.rows, std::max<int64_t>(1, 32768 / (n_ * cost)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        ScanCarry carry = {};
        along(row_block(walk_, 1, r), 0, n_, &carry, true);
      }
    });
  }

 private:
  // Bytes of a buffer of `entries` entries, in any type.
  static size_t tile_bytes(int64_t entries) { return round_up_64(static_cast<size_t>(entries) * 16); }

  // A piece of the input in the compute type: `rows` times `cols` entries in `tile`; `spare` is used on the way.
  void load(const char* src, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, char* tile,
            char* spare) const {
    load_block(src, in_.dtype, rows, cols, row_stride, col_stride, cast_ ? spare : tile);
    if (cast_) cast_(spare, tile, static_cast<size_t>(rows * cols));
  }
  void store(const char* tile, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, char* dst,
             char* spare) const {
    if (!cast_store_) return store_block(tile, out_.dtype, rows, cols, row_stride, col_stride, dst);
    cast_store_(tile, spare, static_cast<size_t>(rows * cols));
    copy_block({dst, spare, rows, cols, row_stride, col_stride, cols, 1}, static_cast<size_t>(out_.elem), false);
  }

  // Entries [begin, end) of one row. With `keep` unset only the carry matters.
  void along(const RowBlock& row, int64_t begin, int64_t end, ScanCarry* carry, bool keep) const {
    const bool in_direct = in_.in_place(false, 1), out_direct = keep && out_.in_place(false, 1);
    const bool index_direct = !index_ || index_->along == 1;
    if (in_direct && out_direct && index_direct) {
      int64_t* indices = index_ ? reinterpret_cast<int64_t*>(row.data[2]) + begin : nullptr;
      return kernel_.along(row.data[0] + begin * in_.elem, row.data[1] + begin * out_.elem, indices, begin, end - begin,
                           carry);
    }
    const size_t part = tile_bytes(std::min(kTile, end - begin));
    Scratch tiles((index_ ? 4 : 3) * part);
    char* in_tile = tiles.data();
    char* out_tile = in_tile + part;
    char* spare = out_tile + part;
    int64_t* index_tile = tiles.as<int64_t>(3 * part);
    for (int64_t p = begin; p < end; p += kTile) {
      const int64_t count = std::min(kTile, end - p);
      const char* in = row.data[0] + p * in_.along * in_.elem;
      char* out = row.data[1] + p * out_.along * out_.elem;
      if (!in_direct) load(in, 1, count, 0, in_.along, in_tile, spare);
      int64_t* indices = !index_ ? nullptr : index_direct ? reinterpret_cast<int64_t*>(row.data[2]) + p : index_tile;
      kernel_.along(in_direct ? in : in_tile, out_direct ? out : out_tile, indices, p, count, carry);
      if (keep && !out_direct) store(out_tile, 1, count, 0, out_.along, out, spare);
      if (index_ && !index_direct) {
        copy_block({row.data[2] + p * index_->along * 8, index_tile, 1, count, 0, index_->along, count, 1}, 8, false);
      }
    }
  }

  // One long row: threads find the sums of blocks, these are added up, and threads do the blocks.
  void run_in_blocks(const RowBlock& row) const {
    const int64_t blocks = (n_ + kScanBlock - 1) / kScanBlock;
    Scratch carries(static_cast<size_t>(blocks) * sizeof(ScanCarry));
    ScanCarry* carry = carries.as<ScanCarry>();
    const auto block_end = [&](int64_t b) { return std::min(n_, (b + 1) * kScanBlock); };
    parallel_for(0, blocks - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        carry[b] = {};
        along(row, b * kScanBlock, block_end(b), &carry[b], false);
      }
    });
    // carry[b] holds the sum of block b; it becomes what the block finds when all before it are done.
    chain_sums(kernel_.type, carry, blocks);
    parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) along(row, b * kScanBlock, block_end(b), &carry[b], true);
    });
  }

  void run_side_by_side() const {
    const bool direct_in = in_.in_place(true, 2), direct_out = out_.in_place(true, 2);
    const bool direct_index = !index_ || index_->across == 1;
    const bool direct = direct_in && direct_out && direct_index;
    const int64_t share = (walk_.inner() / get_num_threads() + 63) / 64 * 64;
    const int64_t width = std::min(walk_.inner(), direct ? std::clamp<int64_t>(share, 64, kMaxWidth) : kTileWidth);
    const int64_t cost = op_ == ScanOp::LogSumExp ? 8 : 1;
    const int64_t grain = std::max<int64_t>(1, 32768 / (n_ * width * cost));
    parallel_for(0, walk_.block_count(width), grain, [&](int64_t begin, int64_t end) {
      const size_t carry_bytes = round_up_64(kernel_.carry_size * static_cast<size_t>(width));
      const size_t tiles_bytes = direct ? 0 : 4 * tile_bytes(std::min(kTile, n_ * width));
      Scratch scratch(carry_bytes + tiles_bytes);
      for (int64_t b = begin; b < end; ++b) {
        across(row_block(walk_, width, b), direct_in, direct_out, direct_index, scratch.data(),
               scratch.data() + carry_bytes);
      }
    });
  }

  void across(const RowBlock& block, bool direct_in, bool direct_out, bool direct_index, void* carry,
              char* tiles) const {
    const int64_t w = block.rows;
    if (direct_in && direct_out && direct_index) {
      return kernel_.across(block.data[0], in_.along, block.data[1], out_.along,
                            reinterpret_cast<int64_t*>(block.data[2]), index_ ? index_->along : 0, 0, n_, w, carry);
    }
    const size_t part = tile_bytes(std::min(kTile, n_ * w));
    char* in_tile = tiles;
    char* out_tile = in_tile + part;
    char* spare = out_tile + part;
    int64_t* index_tile = reinterpret_cast<int64_t*>(spare + part);
    const int64_t step = std::max<int64_t>(1, kTile / w);
    for (int64_t p = 0; p < n_; p += step) {
      const int64_t count = std::min(step, n_ - p);
      const char* in = block.data[0] + p * in_.along * in_.elem;
      char* out = block.data[1] + p * out_.along * out_.elem;
      if (!direct_in) load(in, count, w, in_.along, in_.across, in_tile, spare);
      int64_t* index_at = index_ ? reinterpret_cast<int64_t*>(block.data[2]) + p * index_->along : nullptr;
      kernel_.across(direct_in ? in : in_tile, direct_in ? in_.along : w, direct_out ? out : out_tile,
                     direct_out ? out_.along : w, !index_ || direct_index ? index_at : index_tile,
                     direct_index ? (index_ ? index_->along : 0) : w, p, count, w, carry);
      if (!direct_out) store(out_tile, count, w, out_.along, out_.across, out, spare);
      if (!direct_index) copy_block({index_at, index_tile, count, w, index_->along, index_->across, w, 1}, 8, false);
    }
  }

  ScanOp op_;
  const ScanKernel& kernel_;
  const RowWalk& walk_;
  Side in_, out_;
  std::optional<Side> index_;
  int64_t n_;
  ConvertFn cast_, cast_store_;
};

void run_scan(ScanOp op, const Tensor& self, int64_t dim, const Tensor& values, const Tensor* indices) {
  if (self.impl()->numel == 0) return;
  const CType type = op == ScanOp::LogSumExp ? CType::F64 : compute_type(values.impl()->dtype);
  const ScanKernel* kernel = scan_kernel(op, type);
  FACULA_INTERNAL_CHECK(kernel != nullptr);
  const RowWalk walk = indices ? RowWalk({&self, &values, indices}, dim) : RowWalk({&self, &values}, dim);
  Scan(op, *kernel, self, values, indices, walk).run();
}

void cumsum_cpu(const Tensor& self, int64_t dim, const Tensor& out) { run_scan(ScanOp::Sum, self, dim, out, nullptr); }
void cumprod_cpu(const Tensor& self, int64_t dim, const Tensor& out) {
  run_scan(ScanOp::Prod, self, dim, out, nullptr);
}
void logcumsumexp_cpu(const Tensor& self, int64_t dim, const Tensor& out) {
  run_scan(ScanOp::LogSumExp, self, dim, out, nullptr);
}
void cummax_cpu(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  run_scan(ScanOp::Max, self, dim, values, &indices);
}
void cummin_cpu(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  run_scan(ScanOp::Min, self, dim, values, &indices);
}

const KernelRegistration cumsum_registration(OpId::cumsum, DeviceType::CPU, &cumsum_cpu);
const KernelRegistration cumprod_registration(OpId::cumprod, DeviceType::CPU, &cumprod_cpu);
const KernelRegistration logcumsumexp_registration(OpId::logcumsumexp, DeviceType::CPU, &logcumsumexp_cpu);
const KernelRegistration cummax_registration(OpId::cummax, DeviceType::CPU, &cummax_cpu);
const KernelRegistration cummin_registration(OpId::cummin, DeviceType::CPU, &cummin_cpu);

}  // namespace
}  // namespace facula
