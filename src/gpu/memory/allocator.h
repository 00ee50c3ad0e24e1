// Device memory: blocks of cached segments, in the order of streams. A freed block is at once ready for the stream that
// it was made on; other streams that used it are waited for with events.
#pragma once

#include "gpu/runtime.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace facula::gpu {

struct Block;  // a piece of a segment that a tensor holds

struct Allocation {
  void* data = nullptr;
  Block* block = nullptr;
};

// Memory for the current stream of `device`. Zero bytes give {nullptr, nullptr}. Throws OutOfMemoryError after the
// caches were emptied; `op` begins its text and is what the history remembers.
Allocation allocate(int device, size_t bytes, const char* op);
void free(Block* block) noexcept;
// `stream` uses the block too: it is reused only when what was queued there until free() is done.
void record_stream(Block* block, const StreamRef& stream);
// The stream it was made on, for the encoder's comparison.
StreamHandle stream_of(const Block* block);
int device_of(const Block* block);

struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
enum StatPool { kAllPools = 0, kSmallPool = 1, kLargePool = 2 };
struct AllocatorStats {
  Stat allocation[3], segment[3], active[3], inactive_split[3];  // counts
  Stat allocated_bytes[3], reserved_bytes[3], active_bytes[3], inactive_split_bytes[3], requested_bytes[3];
  Stat oversize_allocations, oversize_segments;
  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
  int64_t max_split_size = -1;
};
AllocatorStats stats(int device);
void reset_peak_stats(int device);
void reset_accumulated_stats(int device);
void empty_cache();                                     // every device
void set_memory_fraction(int device, double fraction);  // of total memory, for this process
double memory_fraction(int device);
void set_caching(bool enabled);  // off: every block goes to the driver and back
bool caching();                  // FACULA_NO_CUDA_MEMORY_CACHING, PYTORCH_NO_CUDA_MEMORY_CACHING

// Settings in the words of FACULA_CUDA_ALLOC_CONF ("expandable_segments:False,max_split_size_mb:256"), from now on.
// ValueError names what is not known.
void set_allocator_settings(const std::string& text);
// Kernels of `peer` may reach memory of `device`: mapped memory needs to be told, now and as it grows.
// False when the driver refuses; copies then go another way.
bool allow_peer(int device, int peer);

// Pools of their own: what a graph uses while it is captured and replayed.
using PoolId = uint64_t;
PoolId new_pool_id();
// Allocations go there: those of one stream and of streams that joined its capture, or (nullptr) those of this thread.
void begin_pool(int device, PoolId pool, const StreamRef* only_on);
void end_pool(int device, PoolId pool);
void release_pool(int device, PoolId pool);  // counted: the last one frees it

// History and snapshots.
struct HistoryOptions {
  bool enabled = true;
  bool call_sites = true;  // where in the program
  size_t max_entries = 100000;
};
void record_history(const HistoryOptions& options);
// Python gives the stack of the caller as text: one frame a line, the innermost first, "file:line function". Called
// while history is on, for each allocation, with no lock held. nullptr: the functions of the program itself.
void set_stack_source(std::string (*source)());
std::string snapshot_json();  // segments, blocks, history: documented in docs/gpu.md
std::string snapshot_html();  // the same as a page that needs nothing else
std::string summary(int device, bool abbreviated);

// Page-locked host memory, cached by size; a block is reused when the copies that were queued with it are done. `device` is whom it
// is for, so that it can be had while another device is lost; -1: the current one.
void* allocate_pinned(size_t bytes, const char* op, int device = -1);
void free_pinned(void* data) noexcept;
bool is_pinned(const void* data);
// A copy on `stream` uses this pinned block (any address inside it).
void record_pinned_use(const void* data, const StreamRef& stream);
struct PinnedStats {
  Stat allocation, segment, allocated_bytes, reserved_bytes;
  int64_t num_host_alloc = 0, num_host_free = 0;
};
PinnedStats pinned_stats();
void reset_peak_pinned_stats();
void reset_accumulated_pinned_stats();
void empty_pinned_cache();

}  // namespace facula::gpu
