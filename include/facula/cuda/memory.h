// Memory of GPUs: how much is used and kept, limits, history.
#pragma once

#include <facula/cuda/stream.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace facula::cuda {

// Bytes in tensors, and bytes taken from the driver; -1 is the current device.
FACULA_API int64_t memory_allocated(int64_t device = -1);
FACULA_API int64_t max_memory_allocated(int64_t device = -1);
FACULA_API int64_t memory_reserved(int64_t device = -1);
FACULA_API int64_t max_memory_reserved(int64_t device = -1);
FACULA_API void reset_peak_memory_stats(int64_t device = -1);
FACULA_API void reset_accumulated_memory_stats(int64_t device = -1);
// All there is to know, by name: "allocated_bytes.all.current", "num_ooms", ...
using MemoryStats = std::vector<std::pair<std::string, int64_t>>;
FACULA_API MemoryStats memory_stats(int64_t device = -1);
// The same of page-locked memory of the cpu.
FACULA_API MemoryStats host_memory_stats();
// A table for people.
FACULA_API std::string memory_summary(int64_t device = -1, bool abbreviated = false);

// Free and total bytes of the device, as the driver sees them.
struct MemoryInfo {
  size_t free, total;
};
FACULA_API MemoryInfo mem_get_info(int64_t device = -1);
// Gives memory that is kept for reuse back to the driver.
FACULA_API void empty_cache();
// Of all memory of the device, for this process.
FACULA_API void set_per_process_memory_fraction(double fraction, int64_t device = -1);
FACULA_API double get_per_process_memory_fraction(int64_t device = -1);
// Off: every tensor's memory comes from the driver and goes back to it.
FACULA_API void caching_allocator_enable(bool enabled);
FACULA_API bool caching_allocator_is_enabled();

// Remembers allocations, so that a snapshot can tell who holds what.
struct RecordHistoryOptions {
  bool enabled = true;
  bool call_sites = true;
  size_t max_entries = 100000;
};
FACULA_API void record_memory_history(const RecordHistoryOptions& options = {});
// Where the history gets the caller's stack from, as text: one frame a line, the innermost first, "file:line function". nullptr: the
// functions of the program itself, named as far as its symbols and debug information (and addr2line) tell.
FACULA_API void set_stack_source(std::string (*source)());
// Peaks and sums of page-locked memory begin anew.
FACULA_API void reset_peak_host_memory_stats();
FACULA_API void reset_accumulated_host_memory_stats();
FACULA_API std::string memory_snapshot();                // JSON
FACULA_API void dump_snapshot(const std::string& path);  // .html: a page that shows it; else JSON

// Memory without a tensor, on a stream (the current one without).
FACULA_API void* caching_allocator_alloc(size_t bytes, int64_t device = -1);
FACULA_API void* caching_allocator_alloc(size_t bytes, const CUDAStream& stream);
FACULA_API void caching_allocator_delete(void* data);

// Memory apart from all other. What is allocated while a MemPoolContext lives comes from its pool.
class FACULA_API MemPool {
 public:
  MemPool();
  ~MemPool();
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;
  std::pair<uint64_t, uint64_t> id() const { return {0, id_}; }

 private:
  friend class MemPoolContext;
  uint64_t id_;
  std::vector<int> devices_;  // where it was used
};
class FACULA_API MemPoolContext {
 public:
  explicit MemPoolContext(MemPool& pool, int64_t device = -1);
  ~MemPoolContext();
  MemPoolContext(const MemPoolContext&) = delete;
  MemPoolContext& operator=(const MemPoolContext&) = delete;

 private:
  MemPool& pool_;
  int device_;
};

}  // namespace facula::cuda
