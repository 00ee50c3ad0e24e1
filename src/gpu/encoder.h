// How work reaches a stream: launches, copies and fills say what they read and write, and the encoder sees to devices, streams,
// lifetimes on other streams, graphs, ranges and errors. No op knows whether it is captured.
#pragma once

#include "core/storage_impl.h"
#include "gpu/kernel.h"
#include "gpu/runtime.h"

#include <span>

namespace facula::gpu {

struct Work {
  const char* op;  // a string that lives for ever; begins error texts
  int device;
  std::span<StorageImpl* const> storages = {};  // all that is read or written on the device
};

// Queues a kernel on the current stream of work.device.
void launch(const Kernel& kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes, void** arguments, const Work& work);
// The current stream of work.device, after its storages were marked as used there: for library calls (BLAS).
StreamRef encode(const Work& work);

// Bytes between host and device or within a device, in the order of the current stream. Host memory that is not page-locked goes
// through pinned memory in pieces; `blocking` waits until the host memory may be used again (always so for pageable targets).
void copy_to_device(void* to, const void* from, size_t bytes, bool blocking, const Work& work);
void copy_to_host(void* to, const void* from, size_t bytes, bool blocking, const Work& work);
void copy_on_device(void* to, const void* from, size_t bytes, const Work& work);
// Between two devices: ordered after the current stream of each; runs on the source's.
void copy_between_devices(void* to, int to_device, const void* from, int from_device, size_t bytes, const Work& work);
void fill_bytes(void* to, uint8_t value, size_t bytes, const Work& work);
// Up to 64 bytes for item(): through a pinned slot of this thread, one wait for the stream.
void read_small(void* to, const void* from, size_t bytes, const Work& work);

// What becomes of ops that wait for the GPU by themselves (item, copies to the cpu): nothing, a warning, or an error.
enum class ImplicitWaits : int { Allowed, Warned, Refused };
void set_implicit_waits(ImplicitWaits mode);
ImplicitWaits implicit_waits();

}  // namespace facula::gpu
