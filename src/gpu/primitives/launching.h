// What the kernels of primitives share on the host: tables of kernels, the storages of a launch, memory for the length of a call.
#pragma once

#include "core/ceil_div.h"
#include "core/tensor_impl.h"
#include "gpu/encoder.h"
#include "gpu/memory/allocator.h"
#include "gpu/program/layout.h"
#include "gpu/program/render.h"

#include <facula/tensor.h>

#include <atomic>
#include <bit>
#include <initializer_list>
#include <string>

namespace facula::gpu {

inline constexpr int kTeamThreads = 256;  // of a block, unless a row needs more

// Kernels by number, made when first asked for and never destroyed. Read without a lock; the loser of a race throws its copy away.
template <size_t N>
class KernelTable {
 public:
  template <class Make>
  const Kernel& get(size_t number, Make make) {
    std::atomic<const Kernel*>& slot = slots_[number];
    const Kernel* found = slot.load(std::memory_order_acquire);
    if (found) [[likely]]
      return *found;
    const Kernel* made = make();
    if (slot.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *found;
  }

 private:
  std::atomic<const Kernel*> slots_[N] = {};
};

// A kernel that hands its one argument, a struct of `header`, to a function of it: names without the namespace. `bounds` are its threads
// and, after a comma, the blocks that a multiprocessor shall have room for; `before` is text that the header depends on.
inline const Kernel* template_kernel(const char* header, const std::string& name, const std::string& args,
                                     const std::string& function, const std::string& bounds, const char* before = "") {
  return new Kernel(
      name, str(before, "#include \"gpu/kernels/", header, "\"\nextern \"C\" __global__ void __launch_bounds__(",
                bounds, ") ", name, "(const facula::", args, " args) {\n  facula::", function, "(args);\n}\n"));
}
inline const Kernel* template_kernel(const char* header, const std::string& name, const std::string& args,
                                     const std::string& function, int threads) {
  return template_kernel(header, name, args, function, std::to_string(threads));
}

// "facula::DType::Half", for template arguments.
inline std::string dtype_text(ScalarType t) { return str("facula::DType::", toString(t)); }
inline size_t index_of(ScalarType t) { return static_cast<size_t>(t); }

// The work of an op on some tensors; undefined ones are skipped.
class TensorWork {
 public:
  TensorWork(const char* op, std::initializer_list<const Tensor*> tensors) : op_(op) {
    for (const Tensor* t : tensors) {
      if (!t || !t->defined()) continue;
      device_ = t->impl()->device.index();
      storages_[count_++] = t->impl()->storage.get();
    }
  }
  operator Work() const { return {op_, device_, {storages_, count_}}; }
  int device() const { return device_; }
  const char* op() const { return op_; }

 private:
  const char* op_;
  int device_ = 0;
  size_t count_ = 0;
  StorageImpl* storages_[12];
};

// Memory of a device for the length of a call. What was queued with it goes on after it was given back, since the current
// stream comes first in whatever gets the memory next.
class DeviceScratch {
 public:
  DeviceScratch(int device, size_t bytes, const char* op) : allocation_(allocate(device, bytes, op)) {}
  ~DeviceScratch() {
    if (allocation_.block) free(allocation_.block);
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  char* data() const { return static_cast<char*>(allocation_.data); }
  template <class T>
  T* as(size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data() + byte_offset);
  }

 private:
  Allocation allocation_;
};

inline size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

// The blocks of a launch over `count` items; NotSupportedError where one launch cannot take them.
inline uint32_t blocks_for(int64_t count, int64_t each, const char* op) {
  const int64_t blocks = ceil_div(count, each);
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, op, ": ", count,
               " elements are more than one launch on the GPU takes; split the tensor");
  return static_cast<uint32_t>(blocks);
}

template <class Index>
struct DividerFor;
template <>
struct DividerFor<int32_t> {
  static Divider32 of(int64_t divisor) { return divider32(static_cast<uint32_t>(divisor)); }
};
template <>
struct DividerFor<int64_t> {
  static Divider64 of(int64_t divisor) { return divider64(static_cast<uint64_t>(divisor)); }
};

// Where a kernel reports bad values, as KernelArguments takes it. `name` lives for ever.
inline void put_faults(KernelArguments& args, int device, const char* name) {
  args.put(fault_buffer(device));
  args.put(static_cast<int64_t>(reinterpret_cast<intptr_t>(name)));
}

}  // namespace facula::gpu
