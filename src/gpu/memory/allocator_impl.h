// The inside of the caching allocator: pools of blocks by stream, segments of the driver, and what is shared by the
// files allocator*.cpp and snapshot.cpp. Everything of a DeviceHeap is guarded by its mutex.
#pragma once

#include "gpu/memory/allocator_blocks.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

namespace facula::gpu {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kSmallLimit = kMiB;  // requests up to here come from small segments
inline constexpr size_t kSmallSegment = 2 * kMiB;
inline constexpr size_t kLargeSegment = 20 * kMiB;  // for requests below kLargeLimit
inline constexpr size_t kLargeLimit = 10 * kMiB;
inline constexpr size_t kSegmentRounding = 2 * kMiB;
inline constexpr size_t kMostBytes = size_t{1} << 46;  // more than any device has, and safe to round up

inline constexpr size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// What FACULA_CUDA_ALLOC_CONF says.
struct AllocatorConfig {
  bool expandable_segments = true;
  size_t max_split_size = SIZE_MAX;
  double garbage_collection_threshold = 0;  // 0: none
  double memory_fraction = 1;
  // Divisions of a power of two that sizes are rounded up to, for sizes from 2^n: 0 is no rounding.
  std::array<uint32_t, 64> roundup_divisions{};
  bool rounds_up = false;
  std::string text;  // as it was given
};
// Raises ValueError that names `source`, the wrong part and what is known.
AllocatorConfig parse_allocator_config(std::string_view text, std::string_view source);
const AllocatorConfig& allocator_config();

struct PrivatePool;

// Blocks of one stream and one class of sizes.
struct Pool {
  FreeBins bins;
  StreamRef stream;
  StatPool kind = kSmallPool;
  PrivatePool* owner = nullptr;  // nullptr: a pool for everybody
  Segment* growing = nullptr;

  size_t piece() const { return kind == kSmallPool ? kSmallSegment : kLargeSegment; }
};

struct StreamPools {
  Pool small, large;
};

struct PrivatePool {
  PoolId id = 0;
  int64_t users = 0;
  size_t segments = 0;
  std::vector<std::unique_ptr<StreamPools>> streams;
};

// Memory of the driver: one allocation, or a reserved range into which memory is mapped as it is needed.
struct Segment {
  Pool* pool = nullptr;
  char* data = nullptr;
  size_t size = 0;   // of the allocation or of the range
  size_t index = 0;  // in DeviceHeap::segments
  Block* first = nullptr;
  bool direct = false;  // goes back to the driver as soon as it is free: caching was off
  bool growing = false;
  bool oversize = false;               // larger than max_split_size when it was allocated
  size_t mapped = 0;                   // growing: bytes that have memory
  std::vector<PhysicalHandle> pieces;  // growing: by place, as far as they were ever mapped; 0 where there is none
  Block* first_unmapped = nullptr;     // growing: in order of address
  StackText stack;
};

enum class TraceAction : uint8_t {
  Alloc,
  FreeRequested,
  FreeCompleted,
  SegmentAlloc,
  SegmentFree,
  SegmentMap,
  SegmentUnmap,
  OutOfMemory,
  Snapshot
};

struct TraceEntry {
  TraceAction action = TraceAction::Alloc;
  const void* data = nullptr;
  size_t size = 0;
  StreamHandle stream = nullptr;
  int64_t time_us = 0;
  size_t device_free = 0;  // of an OutOfMemory
  const char* op = nullptr;
  StackText stack;
};

// What was asked for, on the way through the slow path.
struct Request {
  size_t bytes = 0;  // as asked
  size_t size = 0;   // rounded
  const char* op = nullptr;
  StackText stack;
};

struct DeviceHeap {
  explicit DeviceHeap(int device_index, const char* op);

  // The hot path.
  Allocation allocate(size_t bytes, const StreamRef& stream, const char* op, StackText stack);
  void free(Block* block) noexcept;
  void record_stream(Block* block, const StreamRef& stream);

  // Finding and giving back blocks (allocator.cpp).
  Pool& pool_for(const StreamRef& stream, size_t size);
  StreamPools& stream_pools(std::vector<std::unique_ptr<StreamPools>>& among, const StreamRef& stream,
                            PrivatePool* owner);
  Block* take_cached(Pool& pool, size_t size);
  Block* allocate_slow(Pool& pool, const Request& request, std::unique_lock<std::mutex>& lock);
  void hand_out(Pool& pool, Block* block, Request&& request);
  void release_block(Block* block) noexcept;
  void insert_free(Block* block);
  void remove_free(Block* block);
  Block* new_node();
  void recycle_node(Block* block);
  Block* split(Block* block, size_t size);  // the part behind the first `size` bytes
  void merge_after(Block* block);           // swallows the neighbour behind
  Block* merge_free(Block* block);          // with free neighbours; what came of it is in no list yet

  // Events (allocator.cpp). Nothing is asked of the driver while a graph is captured.
  void record_events(Block* block) noexcept;
  void record_deferred() noexcept;
  void process_events() noexcept;
  void wait_for_events(std::unique_lock<std::mutex>& lock);
  static bool captures() { return active_captures.load(std::memory_order_acquire) != 0; }

  // Memory of the driver (allocator_segments.cpp).
  Status grow(Pool& pool, const Request& request, Block*& block);
  Status add_segment(Pool& pool, const Request& request, size_t bytes, bool direct, Block*& block);
  Status extend(Pool& pool, const Request& request, Block*& block);
  Status reserve_range(Pool& pool);
  Status map_front(Segment& segment, Block* unmapped, size_t bytes, const Request& request, Block*& block);
  Status give_access(void* data, size_t bytes);
  bool releasable(const Block* block) const;
  size_t whole_pieces(const Block* block) const;  // bytes of whole pieces inside a free block of a growing segment
  size_t release_memory(Block* block);
  size_t unmap_pieces(Block* block);
  void release_segment(Segment* segment);
  size_t release_cached();
  void collect_garbage(size_t wanted);
  void drop_dead_pools();
  void unlink_unmapped(Block* block);
  void link_unmapped(Block* block);

  // Statistics (allocator_stats.cpp).
  std::string out_of_memory_text(const Request& request, const Pool& pool, size_t device_free);
  void reset_peaks();
  void reset_totals();

  // History (snapshot.cpp).
  void remember(TraceAction action, const void* data, size_t size, StreamHandle stream, const char* op,
                const StackText& stack, size_t device_free = 0);

  const int device;
  Driver& driver;
  size_t total_memory = 0;
  size_t limit = 0;  // bytes that this process may reserve
  double fraction = 1;
  bool maps_memory = false;
  std::mutex mutex;

  AllocatorStats counts;
  std::vector<std::unique_ptr<StreamPools>> streams;
  StreamPools* last_pools = nullptr;
  std::vector<Segment*> segments;
  std::vector<int> peers;  // devices that may reach mapped memory
  uint64_t allocations = 0;

  Block* spare_nodes = nullptr;
  std::vector<std::unique_ptr<Block[]>> node_slabs;

  struct EventQueue {
    StreamRef stream;
    std::deque<std::pair<EventHandle, Block*>> waiting;
  };
  std::vector<EventQueue> queues;
  size_t pending = 0;            // entries of the queues, and deferred blocks
  std::vector<Block*> deferred;  // given back while a graph was captured; their events come afterwards

  struct Scope {
    PrivatePool* pool;
    std::optional<StreamRef> only_on;  // none: all streams, but only of the thread that began it
    std::thread::id thread;
  };
  std::vector<Scope> scopes;
  std::vector<std::unique_ptr<PrivatePool>> private_pools;

  std::vector<TraceEntry> trace;
  size_t trace_next = 0;  // where the next entry goes once the ring is full
};

// The memory of a device, made at its first use.
DeviceHeap& device_heap(int device, const char* op);
// nullptr where nothing was allocated yet. DeviceError when there can be no such device.
DeviceHeap* existing_heap(int device, const char* op);

// Set when the process is leaving: what is freed then is left to the system.
bool leaving();
void note_exit();  // before the first block is handed out

inline void increase(Stat& stat, int64_t amount) {
  stat.current += amount;
  stat.allocated += amount;
  if (stat.current > stat.peak) stat.peak = stat.current;
}
inline void decrease(Stat& stat, int64_t amount) {
  stat.current -= amount;
  stat.freed += amount;
}
inline void increase(Stat (&stat)[3], StatPool kind, int64_t amount) {
  increase(stat[kAllPools], amount);
  increase(stat[kind], amount);
}
inline void decrease(Stat (&stat)[3], StatPool kind, int64_t amount) {
  decrease(stat[kAllPools], amount);
  decrease(stat[kind], amount);
}

// History: a flag of the hot path, and the stack of the caller, taken before any lock.
extern std::atomic<bool> history_enabled;
// Of the caller of the function that calls this.
StackText current_stack();
// Stacks as text, one frame a line, the innermost first. Of functions of the program at most so many are named: that asks another
// process.
std::vector<std::string> readable_stacks(std::span<const std::string* const> stacks, size_t most_frames = SIZE_MAX);

// "1.50 GiB", "512 bytes".
std::string bytes_text(size_t bytes);

}  // namespace facula::gpu
