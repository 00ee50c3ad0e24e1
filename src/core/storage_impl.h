// The memory block behind tensors: pointer, size, device, how to free it, and the version counter.
#pragma once

#include <facula/core/device.h>
#include <facula/core/intrusive_ptr.h>
#include <facula/core/storage.h>

#include <atomic>
#include <functional>

namespace facula {

class StorageImpl final : public RefCounted {
 public:
  using Deleter = std::function<void(void*)>;

  // New uninitialised memory; on the meta device a size without memory. Throws OutOfMemoryError; `op` names the caller.
  static intrusive_ptr<StorageImpl> allocate(size_t nbytes, Device device, const char* op = "empty");
  // Memory of the cpu that is page-locked, from and to which GPUs copy while the cpu goes on.
  static intrusive_ptr<StorageImpl> allocate_pinned(size_t nbytes, const char* op);
  // Memory of somebody else's; `deleter` may be empty.
  static intrusive_ptr<StorageImpl> wrap(void* data, size_t nbytes, Device device, Deleter deleter);

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  // What the allocator of a GPU knows this memory by; nullptr for memory of the cpu and of somebody else.
  void* device_block() const { return block_; }
  bool is_pinned() const { return kind_ == Kind::Pinned; }
  bool resizable() const { return kind_ != Kind::Foreign; }
  // Grows or shrinks, keeping the common prefix.
  void resize(size_t nbytes);

  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  enum class Kind : uint8_t { Inline, Heap, Foreign, None, Device, Pinned };

  StorageImpl(void* data, size_t nbytes, Device device, Kind kind)
      : data_(data), nbytes_(nbytes), device_(device), kind_(kind) {}
  ~StorageImpl() override;
  void destroy() noexcept override;
  void free_data() noexcept;

  void* data_;
  size_t nbytes_;
  Device device_;
  Kind kind_;
  bool inline_header_ = false;  // was born inline and has been resized since: the header itself came from malloc
  std::atomic<uint32_t> version_{0};
  void* block_ = nullptr;
  Deleter deleter_;
};

}  // namespace facula
