// The public functions about memory of devices.
#include "gpu/memory/allocator.h"
#include "gpu/api/api.h"

#include <facula/cuda/memory.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_map>

namespace facula::cuda {

namespace {

// Before anything was done on a GPU nothing is used, and asking for figures should not start one.
gpu::AllocatorStats stats_of(int64_t device, const char* op) {
  if (!gpu::is_started()) return {};
  return gpu::stats(device_index(device, op));
}

void add(MemoryStats& list, const std::string& name, const gpu::Stat& stat) {
  list.emplace_back(name + ".current", stat.current);
  list.emplace_back(name + ".peak", stat.peak);
  list.emplace_back(name + ".allocated", stat.allocated);
  list.emplace_back(name + ".freed", stat.freed);
}

void add(MemoryStats& list, const std::string& name, const gpu::Stat (&stats)[3]) {
  add(list, name + ".all", stats[gpu::kAllPools]);
  add(list, name + ".small_pool", stats[gpu::kSmallPool]);
  add(list, name + ".large_pool", stats[gpu::kLargePool]);
}

}  // namespace

int64_t memory_allocated(int64_t device) {
  return stats_of(device, "memory_allocated").allocated_bytes[gpu::kAllPools].current;
}
int64_t max_memory_allocated(int64_t device) {
  return stats_of(device, "max_memory_allocated").allocated_bytes[gpu::kAllPools].peak;
}
int64_t memory_reserved(int64_t device) {
  return stats_of(device, "memory_reserved").reserved_bytes[gpu::kAllPools].current;
}
int64_t max_memory_reserved(int64_t device) {
  return stats_of(device, "max_memory_reserved").reserved_bytes[gpu::kAllPools].peak;
}
void reset_peak_memory_stats(int64_t device) {
  const int index = device_index(device, "reset_peak_memory_stats");
  if (gpu::is_started()) gpu::reset_peak_stats(index);
}
void reset_accumulated_memory_stats(int64_t device) {
  const int index = device_index(device, "reset_accumulated_memory_stats");
  if (gpu::is_started()) gpu::reset_accumulated_stats(index);
}

MemoryStats memory_stats(int64_t device) {
  const gpu::AllocatorStats s = stats_of(device, "memory_stats");
  MemoryStats list;
  add(list, "active", s.active);
  add(list, "active_bytes", s.active_bytes);
  add(list, "allocated_bytes", s.allocated_bytes);
  add(list, "allocation", s.allocation);
  add(list, "inactive_split", s.inactive_split);
  add(list, "inactive_split_bytes", s.inactive_split_bytes);
  list.emplace_back("max_split_size", s.max_split_size);
  list.emplace_back("num_alloc_retries", s.num_alloc_retries);
  list.emplace_back("num_device_alloc", s.num_device_alloc);
  list.emplace_back("num_device_free", s.num_device_free);
  list.emplace_back("num_ooms", s.num_ooms);
  list.emplace_back("num_sync_all_streams", s.num_sync_all_streams);
  add(list, "oversize_allocations", s.oversize_allocations);
  add(list, "oversize_segments", s.oversize_segments);
  add(list, "requested_bytes", s.requested_bytes);
  add(list, "reserved_bytes", s.reserved_bytes);
  add(list, "segment", s.segment);
  return list;
}

MemoryStats host_memory_stats() {
  const gpu::PinnedStats s = gpu::pinned_stats();
  MemoryStats list;
  add(list, "allocated_bytes", s.allocated_bytes);
  add(list, "allocations", s.allocation);
  list.emplace_back("num_host_alloc", s.num_host_alloc);
  list.emplace_back("num_host_free", s.num_host_free);
  add(list, "reserved_bytes", s.reserved_bytes);
  add(list, "segments", s.segment);
  return list;
}

void reset_peak_host_memory_stats() { gpu::reset_peak_pinned_stats(); }
void reset_accumulated_host_memory_stats() { gpu::reset_accumulated_pinned_stats(); }

std::string memory_summary(int64_t device, bool abbreviated) {
  return gpu::summary(device_index(device, "memory_summary"), abbreviated);
}

MemoryInfo mem_get_info(int64_t device) {
  const char* const op = "mem_get_info";
  gpu::enter(device_index(device, op), op);
  MemoryInfo info{0, 0};
  gpu::check(gpu::need_driver(op).memory_info(info.free, info.total), op);
  return info;
}

void empty_cache() {
  if (gpu::is_started()) gpu::empty_cache();
}

void set_per_process_memory_fraction(double fraction, int64_t device) {
  FACULA_CHECK(fraction >= 0 && fraction <= 1, ValueError,
               "set_per_process_memory_fraction: expected a fraction from 0 to 1, got ", fraction);
  gpu::set_memory_fraction(device_index(device, "set_per_process_memory_fraction"), fraction);
}
double get_per_process_memory_fraction(int64_t device) {
  return gpu::memory_fraction(device_index(device, "get_per_process_memory_fraction"));
}

void caching_allocator_enable(bool enabled) { gpu::set_caching(enabled); }
bool caching_allocator_is_enabled() { return gpu::caching(); }

void record_memory_history(const RecordHistoryOptions& options) {
  gpu::record_history({options.enabled, options.call_sites, options.max_entries});
}
void set_stack_source(std::string (*source)()) { gpu::set_stack_source(source); }
std::string memory_snapshot() { return gpu::snapshot_json(); }

void dump_snapshot(const std::string& path) {
  const std::string text = path.ends_with(".html") ? gpu::snapshot_html() : gpu::snapshot_json();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  FACULA_CHECK(file, ValueError, "dump_snapshot: cannot write ", path, "; is the folder there and writable?");
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  FACULA_CHECK(written && closed, ValueError, "dump_snapshot: could not write all of ", path, "; is the disk full?");
}

// Memory without a tensor is known by its address.

namespace {

struct Loose {
  std::mutex mutex;
  std::unordered_map<void*, gpu::Block*> blocks;
};
Loose& loose() {
  static auto* all = new Loose;
  return *all;
}

}  // namespace

void* caching_allocator_alloc(size_t bytes, int64_t device) {
  const char* const op = "caching_allocator_alloc";
  const gpu::Allocation made = gpu::allocate(device_index(device, op), bytes, op);
  if (!made.block) return nullptr;
  std::lock_guard lock(loose().mutex);
  loose().blocks[made.data] = made.block;
  return made.data;
}

void* caching_allocator_alloc(size_t bytes, const CUDAStream& stream) {
  CUDAStreamGuard guard(stream);
  return caching_allocator_alloc(bytes, int64_t{stream.device_index()});
}

void caching_allocator_delete(void* data) {
  if (!data) return;
  gpu::Block* block = nullptr;
  {
    std::lock_guard lock(loose().mutex);
    const auto found = loose().blocks.find(data);
    FACULA_CHECK(found != loose().blocks.end(), ValueError,
                 "caching_allocator_delete: this address did not come from caching_allocator_alloc, or was deleted");
    block = found->second;
    loose().blocks.erase(found);
  }
  gpu::free(block);
}

// Pools.

MemPool::MemPool() : id_(gpu::new_pool_id()) {}

MemPool::~MemPool() {
  for (int device : devices_) gpu::release_pool(device, id_);
}

MemPoolContext::MemPoolContext(MemPool& pool, int64_t device)
    : pool_(pool), device_(device_index(device, "use_mem_pool")) {
  gpu::begin_pool(device_, pool_.id_, nullptr);
  pool_.devices_.push_back(device_);
}

MemPoolContext::~MemPoolContext() { gpu::end_pool(device_, pool_.id_); }

}  // namespace facula::cuda
