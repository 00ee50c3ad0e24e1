// What tests of the allocator over the pretended driver share: a clean start and end, and a look at every invariant.
#pragma once

#include <gtest/gtest.h>

#include "fake_driver.h"
#include "gpu/memory/allocator_impl.h"

namespace facula::gpu::fake {

inline const StreamHandle kStreamA = reinterpret_cast<void*>(0x10), kStreamB = reinterpret_cast<void*>(0x20);

// Walks all that a device holds and compares it with its lists and statistics.
inline void validate(int device = 0) {
  DeviceHeap& heap = device_heap(device, "test");
  std::lock_guard lock(heap.mutex);
  int64_t blocks[3] = {}, allocated[3] = {}, active[3] = {}, inactive[3] = {}, inactive_bytes[3] = {}, reserved[3] = {},
          segments[3] = {}, requested[3] = {};
  std::map<const Pool*, std::set<size_t>> sizes_in_bins;
  for (size_t i = 0; i < heap.segments.size(); ++i) {
    const Segment& segment = *heap.segments[i];
    const StatPool kind = segment.pool->kind;
    ASSERT_EQ(segment.index, i);
    const char* at = segment.data;
    size_t mapped = 0;
    const Block* next_unmapped = segment.first_unmapped;
    for (const Block* block = segment.first; block; block = block->after) {
      ASSERT_EQ(block->data, at) << "a gap or an overlap";
      ASSERT_EQ(block->segment, &segment);
      ASSERT_GT(block->size, 0u);
      ASSERT_EQ(block->size % kMinBlock, 0u);
      if (block->after) {
        ASSERT_EQ(block->after->before, block);
      }
      at += block->size;
      if (block->state == BlockState::Unmapped) {
        ASSERT_EQ(block, next_unmapped) << "the list of unmapped blocks is out of order";
        next_unmapped = block->next_size;
        ASSERT_EQ(static_cast<size_t>(block->data - segment.data) % segment.pool->piece(), 0u);
        ASSERT_EQ(block->size % segment.pool->piece(), 0u);
        ASSERT_FALSE(block->after && block->after->state == BlockState::Unmapped);
        continue;
      }
      mapped += block->size;
      if (block->state == BlockState::Free) {
        ASSERT_FALSE(block->after && block->after->state == BlockState::Free) << "neighbours did not merge";
        const bool edge = block->after && block->after->state == BlockState::Unmapped;
        ASSERT_EQ(block->in_bins, !edge);
        ASSERT_FALSE(block->uses);
        if (!edge) sizes_in_bins[segment.pool].insert(block->size);
        const bool split = (block->before && block->before->state != BlockState::Unmapped) ||
                           (block->after && block->after->state != BlockState::Unmapped);
        ASSERT_EQ(split, block->counted_inactive);
        inactive[kind] += split;
        inactive_bytes[kind] += split ? static_cast<int64_t>(block->size) : 0;
        continue;
      }
      ASSERT_TRUE(block->state == BlockState::Allocated || block->state == BlockState::Pending);
      ASSERT_GE(block->size, block->requested);
      active[kind] += static_cast<int64_t>(block->size);
      requested[kind] += static_cast<int64_t>(block->requested);
      if (block->state == BlockState::Allocated) {
        ++blocks[kind];
        allocated[kind] += static_cast<int64_t>(block->size);
      }
    }
    ASSERT_EQ(at, segment.data + segment.size);
    ASSERT_EQ(next_unmapped, nullptr);
    ASSERT_TRUE(!segment.growing || segment.mapped == mapped);
    reserved[kind] += static_cast<int64_t>(mapped);
    segments[kind] += mapped > 0;
  }
  for (const auto& [pool, sizes] : sizes_in_bins) {
    std::set<size_t> probes = {kMinBlock, kSmallLimit, kLargeSegment};
    for (const size_t size : sizes) probes.insert({size, size + kMinBlock});
    for (const size_t probe : probes) {
      const auto expected = sizes.lower_bound(probe);
      const Block* fit = pool->bins.best_fit(probe);
      ASSERT_EQ(fit ? fit->size : 0, expected == sizes.end() ? 0 : *expected) << "not the best fit for " << probe;
    }
  }
  for (int64_t* one : {blocks, allocated, active, inactive, inactive_bytes, reserved, segments, requested})
    one[kAllPools] = one[kSmallPool] + one[kLargePool];
  for (const int kind : {kAllPools, kSmallPool, kLargePool}) {
    ASSERT_EQ(heap.counts.allocation[kind].current, blocks[kind]);
    ASSERT_EQ(heap.counts.allocated_bytes[kind].current, allocated[kind]);
    ASSERT_EQ(heap.counts.active_bytes[kind].current, active[kind]);
    ASSERT_EQ(heap.counts.requested_bytes[kind].current, requested[kind]);
    ASSERT_EQ(heap.counts.inactive_split[kind].current, inactive[kind]);
    ASSERT_EQ(heap.counts.inactive_split_bytes[kind].current, inactive_bytes[kind]);
    ASSERT_EQ(heap.counts.reserved_bytes[kind].current, reserved[kind]);
    ASSERT_EQ(heap.counts.segment[kind].current, segments[kind]);
    for (const auto* group : {&heap.counts.allocated_bytes, &heap.counts.reserved_bytes, &heap.counts.active}) {
      const Stat& stat = (*group)[kind];
      ASSERT_GE(stat.peak, stat.current);
    }
  }
  ASSERT_EQ(static_cast<size_t>(reserved[kAllPools]), fake_driver().used(device));
}

class HeapTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { fake_driver().capacity = size_t{1} << 30; }
  void SetUp() override {
    set_allocator_settings("");
    for (int device = 0; device < kDevices; ++device) {
      device_heap(device, "test");
      set_fake_stream(device, nullptr);
      set_memory_fraction(device, 1);
      reset_peak_stats(device);
    }
    fake_driver().misuse = 0;
  }
  void TearDown() override {
    set_fake_stream(0, nullptr);
    fake_driver().finish_all();
    empty_cache();
    for (int device = 0; device < kDevices; ++device) {
      validate(device);
      EXPECT_EQ(stats(device).reserved_bytes[kAllPools].current, 0) << "something was not given back";
      EXPECT_EQ(fake_driver().used(device), 0u);
      reset_accumulated_stats(device);
    }
    EXPECT_EQ(fake_driver().misuse, 0);
    set_caching(true);
  }
};

}  // namespace facula::gpu::fake
