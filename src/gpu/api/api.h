// What the files of the public API share.
#pragma once

#include "gpu/runtime.h"

#include <facula/cuda/stream.h>

#include <cstdint>

namespace facula::cuda {

// -1 is the current device. Throws DeviceError when there is no such device.
int device_index(int64_t device, const char* op);
int device_index(Device device, const char* op);

inline CUDAStream wrap(const gpu::StreamRef& stream) {
  return {static_cast<DeviceIndex>(stream.device), stream.id, stream.handle};
}
inline gpu::StreamRef unwrap(const CUDAStream& stream) {
  return {stream.device_index(), stream.id(), stream.stream().get()};
}

}  // namespace facula::cuda
