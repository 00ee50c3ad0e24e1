// The caching allocator: blocks are found in the free lists of their stream, split, given back and merged with their
// neighbours. What is asked of the driver is in allocator_segments.cpp.
#include "gpu/memory/allocator_impl.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "core/env.h"

namespace facula::gpu {

namespace {

constexpr uint64_t kEventsEvery = 8;  // a query costs more than an allocation, so not each of them asks
constexpr size_t kSlabNodes = 256;

std::atomic<DeviceHeap*> heaps[kMaxDevices];
std::atomic<bool> process_leaves{false};

// What the first of these variables that is set says.
bool switched_on(std::initializer_list<EnvVar> variables) {
  for (EnvVar variable : variables)
    if (const auto text = env(variable)) return *text != "0";
  return false;
}

std::atomic<bool>& caching_flag() {
  static auto* flag = new std::atomic<bool>(!switched_on({EnvVar::NoCudaCaching, EnvVar::TorchNoCudaCaching}));
  return *flag;
}

[[noreturn]] void throw_forked(const char* op) {
  need_driver(op);
  throw DeviceError(str(op,
                        ": this process was forked after the GPU had been used, and a GPU does not survive a fork; ",
                        "start processes with the method 'spawn' instead"));
}

void check_index(int device, const char* op) {
  FACULA_CHECK(device >= 0 && device < kMaxDevices, DeviceError, op, ": there is no device cuda:", device);
}

size_t rounded_size(size_t bytes, const AllocatorConfig& config) {
  if (config.rounds_up) [[unlikely]] {
    const uint32_t divisions = config.roundup_divisions[std::bit_width(bytes | 1) - 1];
    if (divisions > 1 && bytes > kMinBlock * divisions) return round_up(bytes, std::bit_floor(bytes) / divisions);
  }
  return (bytes + kMinBlock - 1) & ~(kMinBlock - 1);
}

// Keeps a private pool alive while the lock is let go in between.
class UsedPool {
 public:
  explicit UsedPool(PrivatePool* pool) : pool_(pool) {
    if (pool_) ++pool_->users;
  }
  ~UsedPool() {
    if (pool_) --pool_->users;
  }
  UsedPool(const UsedPool&) = delete;
  UsedPool& operator=(const UsedPool&) = delete;

 private:
  PrivatePool* pool_;
};

bool is_split(const Block* block) {
  return (block->before && block->before->state != BlockState::Unmapped) ||
         (block->after && block->after->state != BlockState::Unmapped);
}

}  // namespace

void note_exit() {
  static const bool registered = std::atexit([] { process_leaves.store(true, std::memory_order_relaxed); }) == 0;
  static_cast<void>(registered);
}

bool leaving() { return process_leaves.load(std::memory_order_relaxed); }

DeviceHeap* existing_heap(int device, const char* op) {
  check_index(device, op);
  return heaps[device].load(std::memory_order_acquire);
}

DeviceHeap& device_heap(int device, const char* op) {
  if (DeviceHeap* heap = existing_heap(device, op)) [[likely]]
    return *heap;
  static auto* making = new std::mutex;
  std::lock_guard lock(*making);
  if (DeviceHeap* heap = heaps[device].load(std::memory_order_acquire)) return *heap;
  note_exit();
  FACULA_CHECK(device < device_count(), DeviceError, op, ": there is no device cuda:", device, "; this machine has ",
               device_count());
  auto* heap = new DeviceHeap(device, op);  // never destroyed: blocks may be freed at any time
  heaps[device].store(heap, std::memory_order_release);
  return *heap;
}

DeviceHeap::DeviceHeap(int device_index, const char* op) : device(device_index), driver(need_driver(op)) {
  const DeviceProperties& known = properties(device);
  total_memory = known.total_memory;
  maps_memory = known.maps_memory;
  fraction = allocator_config().memory_fraction;
  limit = static_cast<size_t>(static_cast<double>(total_memory) * fraction);
}

// Public functions.

Allocation allocate(int device, size_t bytes, const char* op) {
  if (bytes == 0) return {};
  if (forked_after_start()) [[unlikely]]
    throw_forked(op);
  DeviceHeap& heap = device_heap(device, op);
  StackText stack;
  if (history_enabled.load(std::memory_order_relaxed)) [[unlikely]]
    stack = current_stack();
  return heap.allocate(bytes, current_stream(device), op, std::move(stack));
}

void free(Block* block) noexcept {
  // After a fork the lock may be held by a thread that is not there, and at exit the driver may be gone.
  if (!block || leaving() || forked_after_start()) return;
  const int device = block->segment->pool->stream.device;
  heaps[device].load(std::memory_order_acquire)->free(block);
}

void record_stream(Block* block, const StreamRef& stream) {
  if (!block || forked_after_start()) return;
  const StreamRef& own = block->segment->pool->stream;
  if (own == stream) return;
  heaps[own.device].load(std::memory_order_acquire)->record_stream(block, stream);
}

StreamHandle stream_of(const Block* block) { return block->segment->pool->stream.handle; }
int device_of(const Block* block) { return block->segment->pool->stream.device; }

void set_caching(bool enabled) { caching_flag().store(enabled, std::memory_order_relaxed); }
bool caching() { return caching_flag().load(std::memory_order_relaxed); }

void empty_cache() {
  if (forked_after_start()) return;
  for (auto& slot : heaps) {
    DeviceHeap* heap = slot.load(std::memory_order_acquire);
    if (!heap) continue;
    try {
      enter(heap->device, "empty_cache");
    } catch (const DeviceError&) {
      continue;  // lost, and its memory with it; the others are not
    }
    std::unique_lock lock(heap->mutex);
    if (heap->captures()) continue;
    heap->wait_for_events(lock);
    heap->release_cached();
  }
}

void set_memory_fraction(int device, double fraction) {
  FACULA_CHECK(fraction >= 0 && fraction <= 1, ValueError,
               "set_per_process_memory_fraction: the fraction must be from 0 to 1, got ", fraction);
  DeviceHeap& heap = device_heap(device, "set_per_process_memory_fraction");
  std::lock_guard lock(heap.mutex);
  heap.fraction = fraction;
  heap.limit = static_cast<size_t>(static_cast<double>(heap.total_memory) * fraction);
}

double memory_fraction(int device) {
  DeviceHeap* heap = existing_heap(device, "get_per_process_memory_fraction");
  if (!heap) return allocator_config().memory_fraction;
  std::lock_guard lock(heap->mutex);
  return heap->fraction;
}

// Pools of their own.

PoolId new_pool_id() {
  static std::atomic<PoolId> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void begin_pool(int device, PoolId pool, const StreamRef* only_on) {
  DeviceHeap& heap = device_heap(device, "begin_pool");
  std::lock_guard lock(heap.mutex);
  auto found = std::find_if(heap.private_pools.begin(), heap.private_pools.end(),
                            [&](const auto& one) { return one->id == pool; });
  if (found == heap.private_pools.end()) {
    heap.private_pools.push_back(std::make_unique<PrivatePool>());
    found = heap.private_pools.end() - 1;
    (*found)->id = pool;
  }
  ++(*found)->users;
  heap.scopes.push_back(
      {found->get(), only_on ? std::optional<StreamRef>(*only_on) : std::nullopt, std::this_thread::get_id()});
}

void end_pool(int device, PoolId pool) {
  DeviceHeap& heap = device_heap(device, "end_pool");
  std::lock_guard lock(heap.mutex);
  auto scope = std::find_if(heap.scopes.rbegin(), heap.scopes.rend(),
                            [&](const DeviceHeap::Scope& one) { return one.pool->id == pool; });
  FACULA_CHECK(scope != heap.scopes.rend(), ValueError, "end_pool: pool ", pool, " was not begun on cuda:", device);
  heap.scopes.erase(std::next(scope).base());
  heap.record_deferred();
}

void release_pool(int device, PoolId pool) {
  DeviceHeap& heap = device_heap(device, "release_pool");
  std::lock_guard lock(heap.mutex);
  auto found = std::find_if(heap.private_pools.begin(), heap.private_pools.end(),
                            [&](const auto& one) { return one->id == pool; });
  FACULA_CHECK(found != heap.private_pools.end() && (*found)->users > 0, ValueError, "release_pool: pool ", pool,
               " of cuda:", device, " is not in use");
  if (--(*found)->users == 0) heap.drop_dead_pools();
}

// Blocks.

Allocation DeviceHeap::allocate(size_t bytes, const StreamRef& stream, const char* op, StackText stack) {
  Request request{bytes, bytes, op, std::move(stack)};
  const bool cached = caching();
  std::unique_lock lock(mutex);
  ++allocations;
  if (pending && allocations % kEventsEvery == 0) [[unlikely]]
    process_events();
  if (bytes <= kMostBytes) request.size = rounded_size(bytes, allocator_config());
  Pool& pool = pool_for(stream, request.size);
  Block* block = cached || pool.owner ? take_cached(pool, request.size) : nullptr;
  if (!block) [[unlikely]]
    block = allocate_slow(pool, request, lock);
  hand_out(pool, block, std::move(request));
  return {block->data, block};
}

Pool& DeviceHeap::pool_for(const StreamRef& stream, size_t size) {
  StreamPools* pools = last_pools;
  if (!scopes.empty()) [[unlikely]] {
    // Streams that a captured one has drawn into its capture belong to it too.
    const Scope* scope = nullptr;
    const uint64_t capture = capture_id(stream);
    for (const Scope& one : scopes) {
      const bool fits = one.only_on ? *one.only_on == stream || (capture && capture == capture_id(*one.only_on))
                                    : one.thread == std::this_thread::get_id();
      if (fits) scope = &one;
    }
    pools = scope ? &stream_pools(scope->pool->streams, stream, scope->pool) : &stream_pools(streams, stream, nullptr);
  } else if (!pools || pools->small.stream.handle != stream.handle) {
    pools = last_pools = &stream_pools(streams, stream, nullptr);
  }
  return size <= kSmallLimit ? pools->small : pools->large;
}

StreamPools& DeviceHeap::stream_pools(std::vector<std::unique_ptr<StreamPools>>& among, const StreamRef& stream,
                                      PrivatePool* owner) {
  for (const auto& pools : among)
    if (pools->small.stream.handle == stream.handle) return *pools;
  among.push_back(std::make_unique<StreamPools>());
  StreamPools& pools = *among.back();
  pools.large.kind = kLargePool;
  for (Pool* pool : {&pools.small, &pools.large}) {
    pool->stream = stream;
    pool->stream.device = device;
    pool->owner = owner;
  }
  return pools;
}

// The smallest block that fits. The last one before unmapped addresses can grow, so that it counts as larger than all
// others.
Block* DeviceHeap::take_cached(Pool& pool, size_t size) {
  Block* block = pool.bins.best_fit(size);
  if (block && !block->segment->growing) {
    // Huge blocks are not cut up for small requests, nor wasted on much smaller ones.
    const size_t max_split = allocator_config().max_split_size;
    if (block->size >= max_split && (size < max_split || block->size >= size + kLargeSegment)) block = nullptr;
  }
  if (!block && pool.growing) {
    for (Block* unmapped = pool.growing->first_unmapped; unmapped; unmapped = unmapped->next_size) {
      Block* edge = unmapped->before;
      if (edge && edge->state == BlockState::Free && edge->size >= size) {
        block = edge;
        break;
      }
    }
  }
  if (block) remove_free(block);
  return block;
}

// A block out of the free lists, or OutOfMemoryError after all that can be given back was given back.
Block* DeviceHeap::allocate_slow(Pool& pool, const Request& request, std::unique_lock<std::mutex>& lock) {
  enter(device, request.op);
  const bool cached = caching() || pool.owner;
  const auto attempt = [&](Block*& block) {
    if (cached) {
      process_events();
      block = take_cached(pool, request.size);
      if (block) return Status{};
    }
    return grow(pool, request, block);
  };
  // The lock is let go on the way; the pool must not end meanwhile.
  const UsedPool used(pool.owner);
  Block* block = nullptr;
  Status status = attempt(block);
  if (status.fault == Fault::OutOfMemory && !captures()) {
    ++counts.num_alloc_retries;
    wait_for_events(lock);
    release_cached();
    status = attempt(block);
  }
  if (status.ok()) return block;
  if (status.fault != Fault::OutOfMemory)
    fail(status, request.op, "while " + bytes_text(request.bytes) + " of device memory were allocated");
  ++counts.num_ooms;
  size_t device_free = 0, device_total = 0;
  if (!driver.memory_info(device_free, device_total).ok()) device_free = 0;
  remember(TraceAction::OutOfMemory, nullptr, request.bytes, pool.stream.handle, request.op, request.stack,
           device_free);
  throw OutOfMemoryError(out_of_memory_text(request, pool, device_free));
}

// `block` is out of the free lists; what it has too much goes back there.
void DeviceHeap::hand_out(Pool& pool, Block* block, Request&& request) {
  const size_t rest = block->size - request.size;
  const bool fine = pool.kind == kSmallPool || block->segment->growing;
  if (fine ? rest >= kMinBlock : rest > kSmallLimit && request.size < allocator_config().max_split_size)
    insert_free(split(block, request.size));
  block->state = BlockState::Allocated;
  block->requested = request.bytes;
  block->op = request.op;
  if (request.stack) [[unlikely]]
    block->stack = std::move(request.stack);
  increase(counts.allocation, pool.kind, 1);
  increase(counts.active, pool.kind, 1);
  const auto size = static_cast<int64_t>(block->size);
  increase(counts.allocated_bytes, pool.kind, size);
  increase(counts.active_bytes, pool.kind, size);
  increase(counts.requested_bytes, pool.kind, static_cast<int64_t>(request.bytes));
  block->oversize = block->size >= allocator_config().max_split_size;
  if (block->oversize) [[unlikely]]
    increase(counts.oversize_allocations, 1);
  if (history_enabled.load(std::memory_order_relaxed)) [[unlikely]]
    remember(TraceAction::Alloc, block->data, block->size, pool.stream.handle, block->op, block->stack);
}

void DeviceHeap::free(Block* block) noexcept {
  std::lock_guard lock(mutex);
  if (block->state != BlockState::Allocated) return;
  const StatPool kind = block->segment->pool->kind;
  decrease(counts.allocation, kind, 1);
  decrease(counts.allocated_bytes, kind, static_cast<int64_t>(block->size));
  if (block->oversize) [[unlikely]]
    decrease(counts.oversize_allocations, 1);
  if (history_enabled.load(std::memory_order_relaxed)) [[unlikely]]
    remember(TraceAction::FreeRequested, block->data, block->size, block->segment->pool->stream.handle, block->op,
             block->stack);
  if (!block->uses) [[likely]]
    return release_block(block);
  block->state = BlockState::Pending;
  if (captures()) {
    deferred.push_back(block);
    ++pending;
  } else {
    record_events(block);
  }
}

void DeviceHeap::record_stream(Block* block, const StreamRef& stream) {
  std::lock_guard lock(mutex);
  if (!block->uses) block->uses = std::make_unique<std::vector<StreamRef>>();
  auto& uses = *block->uses;
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
}

// Nobody works on the block any more.
void DeviceHeap::release_block(Block* block) noexcept {
  Segment* segment = block->segment;
  const Pool& pool = *segment->pool;
  if (history_enabled.load(std::memory_order_relaxed)) [[unlikely]]
    remember(TraceAction::FreeCompleted, block->data, block->size, pool.stream.handle, block->op, block->stack);
  decrease(counts.active, pool.kind, 1);
  decrease(counts.active_bytes, pool.kind, static_cast<int64_t>(block->size));
  decrease(counts.requested_bytes, pool.kind, static_cast<int64_t>(block->requested));
  block->state = BlockState::Free;
  block->op = nullptr;
  if (block->stack) [[unlikely]]
    block->stack.reset();
  block = merge_free(block);
  block->freed_at = allocations;
  insert_free(block);
  if (segment->direct && !captures() && releasable(block)) [[unlikely]] {
    try {
      enter(device);
      release_memory(block);
    } catch (const Error&) {
      // The device is lost: the block stays in the lists, where nobody will ask for it.
    }
  }
}

void DeviceHeap::insert_free(Block* block) {
  Pool& pool = *block->segment->pool;
  if (is_split(block)) {
    block->counted_inactive = true;
    increase(counts.inactive_split, pool.kind, 1);
    increase(counts.inactive_split_bytes, pool.kind, static_cast<int64_t>(block->size));
  }
  const bool edge = block->after && block->after->state == BlockState::Unmapped;
  if (!edge) pool.bins.insert(block);
}

void DeviceHeap::remove_free(Block* block) {
  Pool& pool = *block->segment->pool;
  if (block->counted_inactive) {
    block->counted_inactive = false;
    decrease(counts.inactive_split, pool.kind, 1);
    decrease(counts.inactive_split_bytes, pool.kind, static_cast<int64_t>(block->size));
  }
  if (block->in_bins) pool.bins.remove(block);
}

Block* DeviceHeap::split(Block* block, size_t size) {
  Block* rest = new_node();
  rest->segment = block->segment;
  rest->state = BlockState::Free;
  rest->data = block->data + size;
  rest->size = block->size - size;
  rest->freed_at = block->freed_at;
  rest->before = block;
  rest->after = block->after;
  if (block->after) block->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

Block* DeviceHeap::merge_free(Block* block) {
  if (block->after && block->after->state == BlockState::Free) {
    remove_free(block->after);
    merge_after(block);
  }
  if (block->before && block->before->state == BlockState::Free) {
    block = block->before;
    remove_free(block);
    merge_after(block);
  }
  return block;
}

void DeviceHeap::merge_after(Block* block) {
  Block* gone = block->after;
  block->size += gone->size;
  block->after = gone->after;
  if (gone->after) gone->after->before = block;
  recycle_node(gone);
}

Block* DeviceHeap::new_node() {
  if (!spare_nodes) [[unlikely]] {
    node_slabs.push_back(std::make_unique<Block[]>(kSlabNodes));
    for (size_t i = 0; i < kSlabNodes; ++i) recycle_node(&node_slabs.back()[i]);
  }
  Block* node = spare_nodes;
  spare_nodes = node->after;
  return node;
}

void DeviceHeap::recycle_node(Block* block) {
  block->state = BlockState::Unused;
  block->after = spare_nodes;
  spare_nodes = block;
}

// Events.

// The block is free when what the other streams have queued until now is done.
void DeviceHeap::record_events(Block* block) noexcept {
  const std::unique_ptr<std::vector<StreamRef>> uses = std::move(block->uses);
  block->events = 1;  // until all are recorded
  for (const StreamRef& stream : *uses) {
    try {
      EventHandle event = take_event(stream.device, "record_stream");  // enters the device
      if (driver.record_event(event, stream.handle).ok()) {
        auto queue = std::find_if(queues.begin(), queues.end(), [&](const auto& one) { return one.stream == stream; });
        if (queue == queues.end()) queue = queues.insert(queues.end(), EventQueue{stream, {}});
        queue->waiting.emplace_back(event, block);
        ++pending;
        ++block->events;
        continue;
      }
      // Without an event there is only waiting. When that fails too, the device is lost, and nobody works on the block.
      static_cast<void>(driver.synchronize_stream(stream.handle));
    } catch (const Error&) {
    }
  }
  if (--block->events == 0) release_block(block);
}

// Blocks that were given back during a capture, now that it is over.
void DeviceHeap::record_deferred() noexcept {
  if (deferred.empty() || captures()) return;
  std::vector<Block*> blocks;
  blocks.swap(deferred);
  pending -= blocks.size();
  for (Block* block : blocks) record_events(block);
}

void DeviceHeap::process_events() noexcept {
  if (!pending || captures()) return;
  record_deferred();
  try {
    enter(device);
  } catch (const Error&) {
    return;  // the device is lost; whoever asks it for memory will hear of it
  }
  for (EventQueue& queue : queues) {
    while (!queue.waiting.empty()) {
      const auto [event, block] = queue.waiting.front();
      const Status status = driver.query_event(event);
      if (status.fault == Fault::NotReady || status.fault == Fault::Capture) break;
      queue.waiting.pop_front();
      --pending;
      if (status.ok()) give_event(queue.stream.device, event);
      if (--block->events == 0) release_block(block);
    }
  }
}

// Waits for all that blocks wait for, without the lock: what is waited for may need this allocator to go on.
void DeviceHeap::wait_for_events(std::unique_lock<std::mutex>& lock) {
  record_deferred();
  if (!pending || captures()) return;
  ++counts.num_sync_all_streams;
  std::vector<EventQueue> waited;
  waited.swap(queues);
  pending = 0;
  lock.unlock();
  for (EventQueue& queue : waited)
    for (auto& [event, block] : queue.waiting)
      if (driver.synchronize_event(event).ok()) give_event(queue.stream.device, event);
  lock.lock();
  for (EventQueue& queue : waited)
    for (auto& [event, block] : queue.waiting)
      if (--block->events == 0) release_block(block);
}

}  // namespace facula::gpu
