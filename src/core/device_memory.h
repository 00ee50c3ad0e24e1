// Memory and streams of devices other than the cpu, for storages and the tape. src/gpu enters its functions here; core knows no more of GPUs.
#pragma once

#include <facula/core/device.h>

#include <cstddef>
#include <cstdint>

namespace facula {

struct DeviceMemory {
  void* data = nullptr;
  void* block = nullptr;  // what the allocator knows the memory by
};

struct DeviceMemoryHooks {
  // For the device's current stream. Throws OutOfMemoryError, DeviceError; `op` begins the text.
  DeviceMemory (*allocate)(size_t nbytes, Device device, const char* op);
  void (*free)(void* block) noexcept;
  // Copies within a device, in the order of its current stream.
  void (*copy)(const DeviceMemory& to, const DeviceMemory& from, size_t nbytes, Device device);
  // Page-locked memory of the cpu.
  void* (*allocate_pinned)(size_t nbytes, const char* op);
  void (*free_pinned)(void* data) noexcept;
};

// nullptr until a GPU's functions are entered.
extern const DeviceMemoryHooks* device_memory_hooks;

// Streams of GPUs, for whoever must go on where work was queued before.
struct DeviceStreamHooks {
  // The number of the stream that this thread queues work of `device` on.
  int64_t (*current)(Device device);
  // Makes another one current, which goes on after all that is queued on the one before.
  void (*follow)(Device device, int64_t stream);
};
extern const DeviceStreamHooks* device_stream_hooks;

}  // namespace facula
