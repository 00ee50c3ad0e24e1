// Storage and its memory.
#include <facula/core/error.h>

#include "core/device_memory.h"
#include "core/host_allocator.h"
#include "core/lent_memory.h"
#include "core/storage_impl.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace facula {

constinit const DeviceMemoryHooks* device_memory_hooks = nullptr;
constinit const DeviceStreamHooks* device_stream_hooks = nullptr;

namespace {

// Small blocks follow their header in one allocation: two mallocs less for every scalar.
constexpr size_t kInlineBytes = 1024;
constexpr size_t kHeaderBytes = (sizeof(StorageImpl) + 63) / 64 * 64;

[[noreturn]] void out_of_memory(const char* op, size_t nbytes) {
  auto stats = host_memory_stats();
  throw OutOfMemoryError(str(op, ": cannot allocate ", nbytes, " bytes (", nbytes >> 20, " MiB) on cpu; ",
                             stats.in_use_bytes >> 20, " MiB are in use by large tensors, ", stats.cached_bytes >> 20,
                             " MiB in the cache (emptied before giving up). Free tensors or use smaller sizes"));
}

}  // namespace

intrusive_ptr<StorageImpl> StorageImpl::allocate(size_t nbytes, Device device, const char* op) {
  if (device.is_meta()) return intrusive_ptr<StorageImpl>::adopt(new StorageImpl(nullptr, nbytes, device, Kind::None));
  if (!device.is_cpu()) {
    const DeviceMemory memory = device_memory_hooks->allocate(nbytes, device, op);
    auto impl = intrusive_ptr<StorageImpl>::adopt(new StorageImpl(memory.data, nbytes, device, Kind::Device));
    impl->block_ = memory.block;
    return impl;
  }
  if (nbytes <= kInlineBytes) {
    void* block = std::malloc(kHeaderBytes + nbytes);
    if (!block) out_of_memory(op, nbytes);
    void* data = nbytes ? static_cast<char*>(block) + kHeaderBytes : nullptr;
    return intrusive_ptr<StorageImpl>::adopt(new (block) StorageImpl(data, nbytes, device, Kind::Inline));
  }
  void* data = host_allocate(nbytes);
  if (!data) out_of_memory(op, nbytes);
  return intrusive_ptr<StorageImpl>::adopt(new StorageImpl(data, nbytes, device, Kind::Heap));
}

intrusive_ptr<StorageImpl> StorageImpl::allocate_pinned(size_t nbytes, const char* op) {
  void* data = nbytes ? device_memory_hooks->allocate_pinned(nbytes, op) : nullptr;
  return intrusive_ptr<StorageImpl>::adopt(new StorageImpl(data, nbytes, Device(kCPU), Kind::Pinned));
}

intrusive_ptr<StorageImpl> StorageImpl::wrap(void* data, size_t nbytes, Device device, Deleter deleter) {
  auto impl = intrusive_ptr<StorageImpl>::adopt(new StorageImpl(data, nbytes, device, Kind::Foreign));
  impl->deleter_ = std::move(deleter);
  return impl;
}

StorageImpl::~StorageImpl() { free_data(); }

void StorageImpl::destroy() noexcept {
  // The header of an inline block came from malloc.
  static_assert(alignof(StorageImpl) <= alignof(std::max_align_t));
  bool from_malloc = kind_ == Kind::Inline || inline_header_;
  if (from_malloc) {
    this->~StorageImpl();
    std::free(static_cast<void*>(this));
  } else {
    delete this;
  }
}

void StorageImpl::free_data() noexcept {
  if (kind_ == Kind::Heap) host_free(data_, nbytes_);
  if (kind_ == Kind::Foreign && deleter_) deleter_(data_);
  if (kind_ == Kind::Device && block_) device_memory_hooks->free(block_);
  if (kind_ == Kind::Pinned && data_) device_memory_hooks->free_pinned(data_);
  data_ = nullptr;
}

void StorageImpl::resize(size_t nbytes) {
  FACULA_CHECK(resizable(), ValueError,
               "resize_: this tensor's memory belongs to somebody else (from_blob or DLPack) and cannot grow from ",
               nbytes_, " to ", nbytes, " bytes; clone the tensor first");
  FACULA_CHECK(
      nbytes_ == 0 || !is_lent(*this), ValueError,
      "resize_: this tensor's memory is lent to somebody (an array of NumPy, a buffer or DLPack), who expects it "
      "to stay where it is, and so cannot become ",
      nbytes, " instead of ", nbytes_, " bytes; let go of what was lent first, or clone the tensor");
  if (kind_ == Kind::None) {
    nbytes_ = nbytes;
    return;
  }
  if (kind_ == Kind::Device) {
    const DeviceMemory fresh = device_memory_hooks->allocate(nbytes, device_, "resize_"), old{data_, block_};
    if (nbytes && nbytes_) device_memory_hooks->copy(fresh, old, nbytes < nbytes_ ? nbytes : nbytes_, device_);
    if (block_) device_memory_hooks->free(block_);
    data_ = fresh.data;
    block_ = fresh.block;
    nbytes_ = nbytes;
    return;
  }
  if (kind_ == Kind::Pinned) {
    void* fresh = nbytes ? device_memory_hooks->allocate_pinned(nbytes, "resize_") : nullptr;
    if (nbytes && nbytes_) std::memcpy(fresh, data_, nbytes < nbytes_ ? nbytes : nbytes_);
    if (data_) device_memory_hooks->free_pinned(data_);
    data_ = fresh;
    nbytes_ = nbytes;
    return;
  }
  void* fresh = nbytes ? host_allocate(nbytes) : nullptr;
  if (nbytes && !fresh) out_of_memory("resize_", nbytes);
  if (nbytes && nbytes_) std::memcpy(fresh, data_, nbytes < nbytes_ ? nbytes : nbytes_);
  if (kind_ == Kind::Inline) inline_header_ = true;
  else host_free(data_, nbytes_);
  data_ = fresh;
  nbytes_ = nbytes;
  kind_ = Kind::Heap;
}

Storage::Storage() = default;
Storage::Storage(intrusive_ptr<StorageImpl> impl) : impl_(std::move(impl)) {}
Storage::Storage(const Storage& other) = default;
Storage::Storage(Storage&& other) noexcept = default;
Storage& Storage::operator=(const Storage& other) = default;
Storage& Storage::operator=(Storage&& other) noexcept = default;
Storage::~Storage() = default;

void* Storage::data() const { return impl_ ? impl_->data() : nullptr; }
size_t Storage::nbytes() const { return impl_ ? impl_->nbytes() : 0; }
Device Storage::device() const { return impl_ ? impl_->device() : Device(kCPU); }
int64_t Storage::use_count() const { return impl_ ? impl_->use_count() : 0; }

}  // namespace facula
