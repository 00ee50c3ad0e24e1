// Memory of the driver: segments that are allocated whole, segments that grow by mapping memory into a reserved range,
// and what is given back.
#include "gpu/memory/allocator_impl.h"

#include <algorithm>

namespace facula::gpu {

namespace {

constexpr Status kOutOfMemory{0, Fault::OutOfMemory};

size_t segment_bytes(size_t size) {
  if (size <= kSmallLimit) return kSmallSegment;
  if (size < kLargeLimit) return kLargeSegment;
  return round_up(size, kSegmentRounding);
}

// What a driver answers that can allocate but not map, whatever it said of itself.
bool cannot_map(Status status) {
  return status.fault == Fault::NotSupported || status.fault == Fault::InvalidValue ||
         status.fault == Fault::InvalidDevice || status.fault == Fault::Other;
}

}  // namespace

// New memory with a block of at least request.size bytes, which is in no free list.
Status DeviceHeap::grow(Pool& pool, const Request& request, Block*& block) {
  if (request.size > total_memory) return kOutOfMemory;
  const bool cached = caching() || pool.owner;
  if (cached && maps_memory && allocator_config().expandable_segments) {
    const Status status = extend(pool, request, block);
    if (!cannot_map(status)) return status;
    maps_memory = false;
  }
  return add_segment(pool, request, cached ? segment_bytes(request.size) : request.size, !cached, block);
}

Status DeviceHeap::add_segment(Pool& pool, const Request& request, size_t bytes, bool direct, Block*& block) {
  if (!direct) collect_garbage(bytes);
  if (static_cast<size_t>(counts.reserved_bytes[kAllPools].current) + bytes > limit) return kOutOfMemory;
  void* data = nullptr;
  {
    RelaxedCapture relaxed;
    const Status status = driver.allocate(data, bytes);
    if (!status.ok()) return status;
  }
  auto* segment = new Segment;
  segment->pool = &pool;
  segment->data = static_cast<char*>(data);
  segment->size = bytes;
  segment->direct = direct;
  segment->stack = request.stack;
  segment->index = segments.size();
  segments.push_back(segment);
  if (pool.owner) ++pool.owner->segments;
  block = new_node();
  block->segment = segment;
  block->state = BlockState::Free;
  block->data = segment->data;
  block->size = bytes;
  block->before = block->after = nullptr;
  segment->first = block;
  ++counts.num_device_alloc;
  increase(counts.segment, pool.kind, 1);
  increase(counts.reserved_bytes, pool.kind, static_cast<int64_t>(bytes));
  segment->oversize = bytes >= allocator_config().max_split_size;
  if (segment->oversize) increase(counts.oversize_segments, 1);
  remember(TraceAction::SegmentAlloc, data, bytes, pool.stream.handle, request.op, request.stack);
  return {};
}

// Growing segments: one range of addresses for each pool, as large as the device and an eighth, so that a hole in it is
// no loss.
Status DeviceHeap::reserve_range(Pool& pool) {
  const size_t piece = pool.piece();
  size_t granularity = 0;
  Status status = driver.map_granularity(device, granularity);
  if (status.ok() && (granularity == 0 || piece % granularity != 0)) status = {0, Fault::NotSupported};
  void* data = nullptr;
  const size_t bytes = round_up(total_memory + total_memory / 8, piece);
  if (status.ok()) {
    RelaxedCapture relaxed;
    status = driver.reserve(data, bytes);
  }
  // Without addresses there is still heap.
  if (!status.ok()) return {status.code, Fault::NotSupported};
  auto* segment = new Segment;
  segment->pool = &pool;
  segment->data = static_cast<char*>(data);
  segment->size = bytes;
  segment->growing = true;
  segment->index = segments.size();
  segments.push_back(segment);
  if (pool.owner) ++pool.owner->segments;
  Block* block = new_node();
  block->segment = segment;
  block->state = BlockState::Unmapped;
  block->data = segment->data;
  block->size = bytes;
  block->before = block->after = nullptr;
  segment->first = block;
  link_unmapped(block);
  pool.growing = segment;
  return {};
}

// Maps memory behind (or between) free blocks until one of them is large enough.
Status DeviceHeap::extend(Pool& pool, const Request& request, Block*& block) {
  if (!pool.growing) {
    const Status status = reserve_range(pool);
    if (!status.ok()) return status;
  }
  const size_t size = request.size, piece = pool.piece();
  // The first place with room, and how much memory has to be mapped there.
  const auto place = [&](size_t& missing) -> Block* {
    for (Block* unmapped = pool.growing->first_unmapped; unmapped; unmapped = unmapped->next_size) {
      Block* first = unmapped->before && unmapped->before->state == BlockState::Free ? unmapped->before : unmapped;
      size_t room = 0;
      missing = 0;
      for (Block* one = first; one && room < size; one = one->after) {
        if (one->state == BlockState::Free) {
          room += one->size;
        } else if (one->state == BlockState::Unmapped) {
          const size_t part = std::min(one->size, round_up(size - room, piece));
          missing += part;
          room += part;
        } else {
          break;
        }
      }
      if (room >= size) return first;
    }
    return nullptr;
  };
  size_t missing = 0;
  Block* first = place(missing);
  if (first && allocator_config().garbage_collection_threshold > 0) {
    collect_garbage(missing);
    first = place(missing);  // the blocks may be others now
  }
  if (!first || static_cast<size_t>(counts.reserved_bytes[kAllPools].current) + missing > limit) return kOutOfMemory;
  Block* free_block = first->state == BlockState::Free ? first : nullptr;
  while (!free_block || free_block->size < size) {
    Block* unmapped = free_block ? free_block->after : first;
    const size_t have = free_block ? free_block->size : 0;
    const size_t part = std::min(unmapped->size, round_up(size - have, piece));
    const Status status = map_front(*pool.growing, unmapped, part, request, free_block);
    if (!status.ok()) return status;  // what was mapped so far is free memory like any other
  }
  remove_free(free_block);
  block = free_block;
  return {};
}

Status DeviceHeap::give_access(void* data, size_t bytes) {
  Status status = driver.set_access(data, bytes, device);
  for (size_t i = 0; status.ok() && i < peers.size(); ++i) status = driver.set_access(data, bytes, peers[i]);
  return status;
}

// Maps the first `bytes` of an unmapped block, as far as there is memory; `block` is the free block that they are now
// part of.
Status DeviceHeap::map_front(Segment& segment, Block* unmapped, size_t bytes, const Request& request, Block*& block) {
  Pool& pool = *segment.pool;
  const size_t piece = pool.piece();
  const size_t first_piece = static_cast<size_t>(unmapped->data - segment.data) / piece;
  const size_t count = bytes / piece;
  if (segment.pieces.size() < first_piece + count) segment.pieces.resize(first_piece + count, 0);
  RelaxedCapture relaxed;
  Status status;
  size_t done = 0;
  for (; done < count; ++done) {
    PhysicalHandle handle = 0;
    status = driver.create_physical(handle, piece, device);
    if (!status.ok()) break;
    status = driver.map(unmapped->data + done * piece, piece, handle);
    if (!status.ok()) {
      static_cast<void>(driver.release_physical(handle));
      break;
    }
    segment.pieces[first_piece + done] = handle;
  }
  if (done > 0) {
    const Status access = give_access(unmapped->data, done * piece);
    if (!access.ok()) {
      for (size_t i = 0; i < done; ++i) {
        static_cast<void>(driver.unmap(unmapped->data + i * piece, piece));
        static_cast<void>(driver.release_physical(segment.pieces[first_piece + i]));
        segment.pieces[first_piece + i] = 0;
      }
      return access;
    }
  }
  if (done == 0) return status;

  const size_t mapped = done * piece;
  if (segment.mapped == 0) increase(counts.segment, pool.kind, 1);
  segment.mapped += mapped;
  if (!segment.stack) segment.stack = request.stack;
  ++counts.num_device_alloc;
  increase(counts.reserved_bytes, pool.kind, static_cast<int64_t>(mapped));
  remember(TraceAction::SegmentMap, unmapped->data, mapped, pool.stream.handle, request.op, request.stack);
  unlink_unmapped(unmapped);
  if (unmapped->size > mapped) {
    Block* rest = split(unmapped, mapped);
    rest->state = BlockState::Unmapped;
    link_unmapped(rest);
  }
  block = unmapped;
  block->state = BlockState::Free;
  block->freed_at = allocations;
  block->op = nullptr;
  block = merge_free(block);
  insert_free(block);
  return status;
}

void DeviceHeap::link_unmapped(Block* block) {
  Segment& segment = *block->segment;
  Block* before = nullptr;
  Block* after = segment.first_unmapped;
  while (after && after->data < block->data) {
    before = after;
    after = after->next_size;
  }
  block->previous_size = before;
  block->next_size = after;
  if (before) before->next_size = block;
  else segment.first_unmapped = block;
  if (after) after->previous_size = block;
}

void DeviceHeap::unlink_unmapped(Block* block) {
  if (block->previous_size) block->previous_size->next_size = block->next_size;
  else block->segment->first_unmapped = block->next_size;
  if (block->next_size) block->next_size->previous_size = block->previous_size;
}

// Giving back.

size_t DeviceHeap::whole_pieces(const Block* block) const {
  const Segment& segment = *block->segment;
  const size_t piece = segment.pool->piece();
  const auto from = static_cast<size_t>(block->data - segment.data);
  const size_t first = round_up(from, piece), last = (from + block->size) / piece * piece;
  return last > first ? last - first : 0;
}

// Whether the driver could have memory of this free block back. A graph may be launched at any time and needs what it
// saw.
bool DeviceHeap::releasable(const Block* block) const {
  if (block->state != BlockState::Free) return false;
  const Segment& segment = *block->segment;
  if (segment.pool->owner && segment.pool->owner->users > 0) return false;
  return segment.growing ? whole_pieces(block) > 0 : !block->before && !block->after;
}

// Gives back what a releasable block holds; the block may be gone afterwards. Returns the bytes. For growing segments
// the device must have finished.
size_t DeviceHeap::release_memory(Block* block) {
  if (block->segment->growing) return unmap_pieces(block);
  const size_t bytes = block->size;
  release_segment(block->segment);
  return bytes;
}

void DeviceHeap::release_segment(Segment* segment) {
  Pool& pool = *segment->pool;
  remember(segment->growing ? TraceAction::SegmentUnmap : TraceAction::SegmentFree, segment->data, segment->size,
           pool.stream.handle, nullptr, segment->stack);
  if (segment->growing) {
    unlink_unmapped(segment->first);
    static_cast<void>(driver.unreserve(segment->data, segment->size));
    pool.growing = nullptr;
  } else {
    remove_free(segment->first);
    static_cast<void>(driver.free(segment->data));  // fails when the device is lost, and the memory with it
    ++counts.num_device_free;
    decrease(counts.segment, pool.kind, 1);
    decrease(counts.reserved_bytes, pool.kind, static_cast<int64_t>(segment->size));
    if (segment->oversize) decrease(counts.oversize_segments, 1);
  }
  recycle_node(segment->first);
  segments[segment->index] = segments.back();
  segments[segment->index]->index = segment->index;
  segments.pop_back();
  if (pool.owner) --pool.owner->segments;
  delete segment;
}

size_t DeviceHeap::unmap_pieces(Block* block) {
  Segment& segment = *block->segment;
  Pool& pool = *segment.pool;
  const size_t piece = pool.piece();
  const auto from = static_cast<size_t>(block->data - segment.data);
  const size_t first = round_up(from, piece), bytes = whole_pieces(block);
  remove_free(block);
  Block* middle = block;
  if (first > from) middle = split(block, first - from);
  Block* rest = middle->size > bytes ? split(middle, bytes) : nullptr;
  for (size_t offset = first; offset < first + bytes; offset += piece) {
    PhysicalHandle& handle = segment.pieces[offset / piece];
    static_cast<void>(driver.unmap(segment.data + offset, piece));
    static_cast<void>(driver.release_physical(handle));
    handle = 0;
  }
  remember(TraceAction::SegmentUnmap, segment.data + first, bytes, pool.stream.handle, nullptr, nullptr);
  ++counts.num_device_free;
  segment.mapped -= bytes;
  if (segment.mapped == 0) {
    decrease(counts.segment, pool.kind, 1);
    segment.stack.reset();
  }
  decrease(counts.reserved_bytes, pool.kind, static_cast<int64_t>(bytes));

  middle->state = BlockState::Unmapped;
  if (middle->after && middle->after->state == BlockState::Unmapped) {
    unlink_unmapped(middle->after);
    merge_after(middle);
  }
  if (middle->before && middle->before->state == BlockState::Unmapped) {
    middle = middle->before;
    unlink_unmapped(middle);
    merge_after(middle);
  }
  link_unmapped(middle);
  if (block != middle && block->state == BlockState::Free) insert_free(block);
  if (rest) insert_free(rest);
  return bytes;
}

size_t DeviceHeap::release_cached() {
  std::vector<Block*> blocks;
  bool unmaps = false;
  for (Segment* segment : segments) {
    for (Block* block = segment->first; block; block = block->after) {
      if (!releasable(block)) continue;
      blocks.push_back(block);
      unmaps |= segment->growing;
    }
  }
  // Unmapping, unlike freeing, does not wait for the work that uses the heap.
  if (unmaps) static_cast<void>(driver.synchronize());
  size_t bytes = 0;
  for (Block* block : blocks) bytes += release_memory(block);
  drop_dead_pools();
  return bytes;
}

// Gives back the blocks that were idle longest until `wanted` more bytes leave the reserved memory below the threshold.
void DeviceHeap::collect_garbage(size_t wanted) {
  const double threshold = allocator_config().garbage_collection_threshold;
  if (threshold <= 0 || captures()) return;
  const auto goal = static_cast<size_t>(threshold * static_cast<double>(limit));
  const size_t reserved = static_cast<size_t>(counts.reserved_bytes[kAllPools].current);
  if (reserved + wanted <= goal) return;
  size_t excess = reserved + wanted - goal;
  std::vector<Block*> blocks;
  bool unmaps = false;
  for (Segment* segment : segments)
    for (Block* block = segment->first; block; block = block->after)
      if (releasable(block)) blocks.push_back(block);
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) { return a->freed_at < b->freed_at; });
  for (Block* block : blocks) {
    if (block->segment->growing && !unmaps) {
      unmaps = true;
      static_cast<void>(driver.synchronize());
    }
    const size_t bytes = release_memory(block);
    if (bytes >= excess) return;
    excess -= bytes;
  }
}

// Private pools that no graph needs and that hold no memory any more.
void DeviceHeap::drop_dead_pools() {
  std::erase_if(private_pools, [&](const std::unique_ptr<PrivatePool>& pool) {
    if (pool->users > 0) return false;
    for (const auto& pools : pool->streams) {
      for (Pool* one : {&pools->small, &pools->large})
        if (one->growing && one->growing->mapped == 0) release_segment(one->growing);
    }
    return pool->segments == 0;
  });
}

bool allow_peer(int device, int peer) {
  DeviceHeap& heap = device_heap(device, "enable_peer_access");
  std::lock_guard lock(heap.mutex);
  if (std::find(heap.peers.begin(), heap.peers.end(), peer) != heap.peers.end()) return true;
  for (const Segment* segment : heap.segments) {
    if (!segment->growing) continue;
    const size_t piece = segment->pool->piece();
    for (size_t i = 0; i < segment->pieces.size(); ++i)
      if (segment->pieces[i] && !heap.driver.set_access(segment->data + i * piece, piece, peer).ok()) return false;
  }
  heap.peers.push_back(peer);
  return true;
}

}  // namespace facula::gpu
