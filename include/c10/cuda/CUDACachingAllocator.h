// Device memory under libtorch's names. Forwards to Facula.
#pragma once

#include <torch/torch.h>

namespace facula::cuda::CUDACachingAllocator {

inline void emptyCache() { empty_cache(); }
inline void* raw_alloc(size_t bytes) { return caching_allocator_alloc(bytes); }
inline void raw_delete(void* data) { caching_allocator_delete(data); }
inline void resetPeakStats(DeviceIndex device) { reset_peak_memory_stats(device); }
inline void setMemoryFraction(double fraction, DeviceIndex device) {
  set_per_process_memory_fraction(fraction, device);
}

}  // namespace facula::cuda::CUDACachingAllocator
