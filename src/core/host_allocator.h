// Host memory for tensors. Large blocks are kept in a cache after use: a fresh block costs page faults that take longer
// than the arithmetic done on it.
#pragma once

#include <facula/core/export.h>

#include <cstddef>

namespace facula {

struct HostMemoryStats {
  size_t in_use_bytes = 0;  // handed out, large blocks only
  size_t cached_bytes = 0;  // kept for reuse
  size_t cache_limit_bytes = 0;
};

// 64-byte aligned. Returns nullptr when the memory cannot be had even after the cache was emptied.
void* host_allocate(size_t nbytes) noexcept;
void host_free(void* data, size_t nbytes) noexcept;

FACULA_API HostMemoryStats host_memory_stats();
// Gives cached blocks back to the system.
FACULA_API void empty_host_cache();

}  // namespace facula
