// Memory of the first GPU for tests of what lies below tensors.
#pragma once

#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"

#include <cstring>
#include <vector>

namespace facula::testing {

class DeviceMemory {
 public:
  // Bytes of the host, `offset` bytes after an aligned address.
  DeviceMemory(const void* bytes, size_t size, size_t offset = 0)
      : size_(size), offset_(offset), memory_(gpu::allocate(0, size + offset, "test")) {
    if (size > 0) gpu::copy_to_device(data(), bytes, size, true, {"test", 0});
  }
  explicit DeviceMemory(const std::vector<char>& bytes, size_t offset = 0)
      : DeviceMemory(bytes.data(), bytes.size(), offset) {}
  ~DeviceMemory() { gpu::free(memory_.block); }
  DeviceMemory(const DeviceMemory&) = delete;

  void* data() const { return static_cast<char*>(memory_.data) + offset_; }
  std::vector<char> bytes() const {
    std::vector<char> result(size_);
    if (size_ > 0) gpu::copy_to_host(result.data(), data(), size_, true, {"test", 0});
    return result;
  }

 private:
  size_t size_, offset_;
  gpu::Allocation memory_;
};

}  // namespace facula::testing
