// A block of device memory, and the free blocks of one pool, found by size in constant time: bins by size (64 for each
// power of two, exact for small sizes), two levels of bitmaps that tell which bins hold something, and in each bin the
// distinct sizes in order, each with its blocks.
#pragma once

#include "gpu/memory/allocator.h"

#include <array>
#include <bit>
#include <memory>
namespace facula::gpu {

inline constexpr size_t kMinBlock = 512;  // every block is a multiple of it

struct Pool;
struct Segment;
// Where a block was asked for. Equal texts are kept once.
using StackText = std::shared_ptr<const std::string>;

enum class BlockState : uint8_t {
  Free,
  Allocated,
  Pending,   // given back, but other streams may still work on it
  Unmapped,  // addresses of a growing segment with no memory behind them
  Unused     // a node that stands for nothing
};

struct Block {
  char* data = nullptr;
  size_t size = 0;
  size_t requested = 0;
  Segment* segment = nullptr;
  Block *before = nullptr, *after = nullptr;  // neighbours by address
  const char* op = nullptr;
  std::unique_ptr<std::vector<StreamRef>> uses;  // other streams that work on it
  StackText stack;
  uint64_t freed_at = 0;  // in allocations of its device, for the garbage collection
  int32_t events = 0;     // that a pending block waits for
  BlockState state = BlockState::Unused;
  bool in_bins = false, heads_size = false;
  bool oversize = false;          // larger than max_split_size when it was handed out
  bool counted_inactive = false;  // whether the statistics call it a free piece of a split segment
  // Places in the bins, or (`next_size`, `previous_size`) among the unmapped blocks of a segment, by address.
  Block *next_size = nullptr, *previous_size = nullptr;
  Block *next_same = nullptr, *previous_same = nullptr;
};

class FreeBins {
 public:
  void insert(Block* block) {
    const size_t index = index_of(block->size);
    Block* before = nullptr;
    Block* head = heads_[index];
    while (head && head->size < block->size) {
      before = head;
      head = head->next_size;
    }
    block->in_bins = true;
    if (head && head->size == block->size) {
      // Behind the head, so that the chain of sizes stays as it is.
      block->heads_size = false;
      block->previous_same = head;
      block->next_same = head->next_same;
      if (head->next_same) head->next_same->previous_same = block;
      head->next_same = block;
      return;
    }
    block->heads_size = true;
    block->previous_same = block->next_same = nullptr;
    link(index, before, block, head);
    rows_[index / 64] |= uint64_t{1} << index % 64;
    summary_ |= uint32_t{1} << index / 64;
  }

  void remove(Block* block) {
    block->in_bins = false;
    if (!block->heads_size) {
      block->previous_same->next_same = block->next_same;
      if (block->next_same) block->next_same->previous_same = block->previous_same;
      return;
    }
    const size_t index = index_of(block->size);
    if (Block* heir = block->next_same) {
      heir->heads_size = true;
      heir->previous_same = nullptr;
      link(index, block->previous_size, heir, block->next_size);
      return;
    }
    if (block->previous_size) block->previous_size->next_size = block->next_size;
    else heads_[index] = block->next_size;
    if (block->next_size) block->next_size->previous_size = block->previous_size;
    if (heads_[index]) return;
    rows_[index / 64] &= ~(uint64_t{1} << index % 64);
    if (rows_[index / 64] == 0) summary_ &= ~(uint32_t{1} << index / 64);
  }

  // The smallest block of at least `size` bytes, the one freed last among equals; nullptr when there is none.
  Block* best_fit(size_t size) const {
    const size_t index = index_of(size);
    Block* head = heads_[index];
    while (head && head->size < size) head = head->next_size;
    if (!head) head = first_after(index);
    return head && head->next_same ? head->next_same : head;
  }

 private:
  static constexpr size_t kRows = 32;

  static size_t index_of(size_t size) {
    const size_t units = size / kMinBlock;
    const size_t row = units < 64 ? 0 : std::bit_width(units) - 6;
    if (row >= kRows) return kRows * 64 - 1;
    return row == 0 ? units : row * 64 + (units >> (row - 1)) - 64;
  }

  Block* first_after(size_t index) const {
    size_t row = index / 64;
    const size_t column = index % 64;
    uint64_t bits = column == 63 ? 0 : rows_[row] & (~uint64_t{0} << (column + 1));
    if (!bits) {
      const uint32_t later = row == kRows - 1 ? 0 : summary_ & (~uint32_t{0} << (row + 1));
      if (!later) return nullptr;
      row = std::countr_zero(later);
      bits = rows_[row];
    }
    return heads_[row * 64 + std::countr_zero(bits)];
  }

  void link(size_t index, Block* before, Block* block, Block* after) {
    block->previous_size = before;
    block->next_size = after;
    if (before) before->next_size = block;
    else heads_[index] = block;
    if (after) after->previous_size = block;
  }

  std::array<Block*, kRows * 64> heads_{};
  std::array<uint64_t, kRows> rows_{};
  uint32_t summary_ = 0;
};

}  // namespace facula::gpu
