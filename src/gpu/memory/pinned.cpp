// Page-locked host memory. Locking pages takes the driver milliseconds, so that blocks are kept by size class; a block
// whose copies are still under way waits for their events.
#include "gpu/memory/allocator_impl.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

namespace facula::gpu {

namespace {

constexpr size_t kSmallestClass = 4096;  // a page: the driver gives no less
constexpr size_t kFineClassesFrom = size_t{1}
                                    << 20;  // above, four classes for each power of two: at most a quarter is wasted

struct PinnedBlock {
  char* data = nullptr;
  size_t size = 0;
  bool allocated = false;
  int32_t events = 0;
  std::vector<StreamRef> uses;
};

size_t size_class(size_t bytes) {
  if (bytes <= kSmallestClass) return kSmallestClass;
  if (bytes <= kFineClassesFrom) return std::bit_ceil(bytes);
  return round_up(bytes, std::bit_floor(bytes - 1) / 4);
}

class PinnedHeap {
 public:
  void* allocate(size_t bytes, const char* op, int device);
  void free(void* data) noexcept;
  bool holds(const void* data);
  void record_use(const void* data, const StreamRef& stream);
  PinnedStats stats() {
    std::lock_guard lock(mutex_);
    return counts_;
  }
  void reset_peaks() {
    std::lock_guard lock(mutex_);
    for (Stat* stat : all_stats()) stat->peak = stat->current;
  }
  void reset_totals() {
    std::lock_guard lock(mutex_);
    for (Stat* stat : all_stats()) stat->allocated = stat->freed = 0;
    counts_.num_host_alloc = counts_.num_host_free = 0;
  }
  void empty() {
    std::unique_lock lock(mutex_);
    process_events();
    release_cached();
  }

 private:
  PinnedBlock* find(const void* data);
  PinnedBlock* take(size_t size);
  void record_events(PinnedBlock* block) noexcept;
  void process_events() noexcept;
  void wait_for_events(std::unique_lock<std::mutex>& lock);
  void release_block(PinnedBlock* block) { free_[block->size].push_back(block); }
  void release_cached();
  std::array<Stat*, 4> all_stats() {
    return {&counts_.allocation, &counts_.segment, &counts_.allocated_bytes, &counts_.reserved_bytes};
  }

  std::mutex mutex_;
  std::map<const char*, std::unique_ptr<PinnedBlock>> blocks_;  // by address
  std::map<size_t, std::vector<PinnedBlock*>> free_;
  struct Waiting {
    EventHandle event;
    int device;
    PinnedBlock* block;
  };
  std::vector<Waiting> waiting_;
  std::vector<PinnedBlock*> deferred_;  // given back while a graph was captured
  PinnedStats counts_;
};

PinnedHeap& pinned_heap() {
  // Never destroyed: tensors in static variables may be freed after any destructor of ours.
  static auto* heap = [] {
    note_exit();
    return new PinnedHeap;
  }();
  return *heap;
}

bool captures_under_way() { return active_captures.load(std::memory_order_acquire) != 0; }

void* PinnedHeap::allocate(size_t bytes, const char* op, int device) {
  Driver& driver = need_driver(op);
  FACULA_CHECK(bytes <= kMostBytes, OutOfMemoryError, op, ": ", bytes_text(bytes),
               " of page-locked host memory were asked for");
  const size_t size = size_class(bytes);
  std::unique_lock lock(mutex_);
  process_events();
  PinnedBlock* block = take(size);
  if (!block) {
    enter(device < 0 ? current_device() : device, op);  // the driver wants some device to be current
    RelaxedCapture relaxed;
    void* data = nullptr;
    Status status = driver.allocate_host(data, size);
    if (status.fault == Fault::OutOfMemory && !captures_under_way()) {
      wait_for_events(lock);
      block = take(size);
      if (!block) {
        release_cached();
        status = driver.allocate_host(data, size);
      }
    }
    if (!block) {
      if (status.fault == Fault::OutOfMemory) {
        throw OutOfMemoryError(
            str(op, ": ", bytes_text(bytes), " of page-locked host memory could not be had; this process has ",
                bytes_text(static_cast<size_t>(counts_.reserved_bytes.current)), " of it, ",
                bytes_text(static_cast<size_t>(counts_.allocated_bytes.current)),
                " in use. What helps: pageable memory (pin_memory=False), smaller or fewer pinned tensors, or a higher "
                "limit of locked memory (ulimit -l)"));
      }
      check(status, op);
      auto made = std::make_unique<PinnedBlock>();
      block = made.get();
      block->data = static_cast<char*>(data);
      block->size = size;
      blocks_.emplace(block->data, std::move(made));
      ++counts_.num_host_alloc;
      increase(counts_.segment, 1);
      increase(counts_.reserved_bytes, static_cast<int64_t>(size));
    }
  }
  block->allocated = true;
  increase(counts_.allocation, 1);
  increase(counts_.allocated_bytes, static_cast<int64_t>(size));
  return block->data;
}

PinnedBlock* PinnedHeap::take(size_t size) {
  const auto found = free_.find(size);
  if (found == free_.end() || found->second.empty()) return nullptr;
  PinnedBlock* block = found->second.back();
  found->second.pop_back();
  return block;
}

// The block that `data` lies in, if it is one that somebody holds.
PinnedBlock* PinnedHeap::find(const void* data) {
  const char* address = static_cast<const char*>(data);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  PinnedBlock* block = std::prev(next)->second.get();
  return block->allocated && address < block->data + block->size ? block : nullptr;
}

bool PinnedHeap::holds(const void* data) {
  std::lock_guard lock(mutex_);
  return find(data) != nullptr;
}

void PinnedHeap::record_use(const void* data, const StreamRef& stream) {
  std::lock_guard lock(mutex_);
  PinnedBlock* block = find(data);
  if (!block) return;
  if (std::find(block->uses.begin(), block->uses.end(), stream) == block->uses.end()) block->uses.push_back(stream);
}

void PinnedHeap::free(void* data) noexcept {
  std::lock_guard lock(mutex_);
  PinnedBlock* block = find(data);
  if (!block || block->data != data) return;
  block->allocated = false;
  decrease(counts_.allocation, 1);
  decrease(counts_.allocated_bytes, static_cast<int64_t>(block->size));
  if (block->uses.empty()) release_block(block);
  else if (captures_under_way()) deferred_.push_back(block);
  else record_events(block);
}

void PinnedHeap::record_events(PinnedBlock* block) noexcept {
  std::vector<StreamRef> uses;
  uses.swap(block->uses);
  block->events = 1;  // until all are recorded
  for (const StreamRef& stream : uses) {
    try {
      Driver& driver = need_driver("free_pinned");
      EventHandle event = take_event(stream.device, "free_pinned");  // enters the device
      if (driver.record_event(event, stream.handle).ok()) {
        waiting_.push_back({event, stream.device, block});
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

void PinnedHeap::process_events() noexcept {
  if ((waiting_.empty() && deferred_.empty()) || captures_under_way()) return;
  std::vector<PinnedBlock*> deferred;
  deferred.swap(deferred_);
  for (PinnedBlock* block : deferred) record_events(block);
  Driver* const driver = gpu::driver();
  std::erase_if(waiting_, [&](const Waiting& one) {
    const Status status = driver->query_event(one.event);
    if (status.fault == Fault::NotReady || status.fault == Fault::Capture) return false;
    if (status.ok()) give_event(one.device, one.event);
    if (--one.block->events == 0) release_block(one.block);
    return true;
  });
}

void PinnedHeap::wait_for_events(std::unique_lock<std::mutex>& lock) {
  std::vector<Waiting> waited;
  waited.swap(waiting_);
  Driver* const driver = gpu::driver();
  lock.unlock();
  for (const Waiting& one : waited)
    if (driver->synchronize_event(one.event).ok()) give_event(one.device, one.event);
  lock.lock();
  for (const Waiting& one : waited)
    if (--one.block->events == 0) release_block(one.block);
}

void PinnedHeap::release_cached() {
  if (captures_under_way()) return;
  Driver* const driver = gpu::driver();
  for (auto& [size, blocks] : free_) {
    for (PinnedBlock* block : blocks) {
      static_cast<void>(driver->free_host(block->data));  // fails when the device is lost, and the memory with it
      ++counts_.num_host_free;
      decrease(counts_.segment, 1);
      decrease(counts_.reserved_bytes, static_cast<int64_t>(size));
      blocks_.erase(block->data);
    }
  }
  free_.clear();
}

}  // namespace

void* allocate_pinned(size_t bytes, const char* op, int device) {
  if (bytes == 0) return nullptr;
  need_driver(op);  // also refuses forked processes, whose locks may be held by threads that are not there
  return pinned_heap().allocate(bytes, op, device);
}

void free_pinned(void* data) noexcept {
  if (!data || leaving() || forked_after_start()) return;
  pinned_heap().free(data);
}

bool is_pinned(const void* data) { return data && !forked_after_start() && pinned_heap().holds(data); }

void record_pinned_use(const void* data, const StreamRef& stream) {
  if (data && !forked_after_start()) pinned_heap().record_use(data, stream);
}

PinnedStats pinned_stats() { return forked_after_start() ? PinnedStats{} : pinned_heap().stats(); }

void reset_peak_pinned_stats() {
  if (!forked_after_start()) pinned_heap().reset_peaks();
}

void reset_accumulated_pinned_stats() {
  if (!forked_after_start()) pinned_heap().reset_totals();
}

void empty_pinned_cache() {
  if (!forked_after_start()) pinned_heap().empty();
}

}  // namespace facula::gpu
