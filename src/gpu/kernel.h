// Kernels: text that is compiled once for each chip and kept, in memory and on disk.
#pragma once

#include "gpu/driver/driver.h"
#include "gpu/runtime.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace facula::gpu {

// A kernel by its text. Compiled for a device when it is first asked for there; then a load of one pointer.
class Kernel {
 public:
  // `name` is the `extern "C" __global__` function. The text may include the headers of src/gpu/kernels and src/program by
  // name ("gpu/kernels/pointwise.h", "program/expr.h"); `options` go to the compiler.
  Kernel(std::string name, std::string source, std::vector<std::string> options = {});
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  // For the device, which must be the driver's current one (`enter`). Throws with the compiler's log, which names `op`.
  FunctionHandle on(int device, const char* op) const {
    FunctionHandle f = functions_[static_cast<size_t>(device)].load(std::memory_order_acquire);
    if (f) [[likely]]
      return f;
    return load(device, op);
  }
  // Blocks get more than the usual shared memory only when the function was marked, once on each device.
  void allow_shared(uint32_t bytes, int device, const char* op) const {
    if (bytes > allowed_shared_[static_cast<size_t>(device)].load(std::memory_order_relaxed)) [[unlikely]]
      mark_shared(bytes, device, op);
  }

 private:
  FunctionHandle load(int device, const char* op) const;
  void mark_shared(uint32_t bytes, int device, const char* op) const;

  std::string name_, source_;
  std::vector<std::string> options_;
  mutable std::atomic<FunctionHandle> functions_[kMaxDevices] = {};
  mutable std::atomic<uint32_t> allowed_shared_[kMaxDevices] = {};
};

// The binary of a text for a chip: from memory, from disk, or from the compiler, in this order. Throws Error with the
// compiler's log. What is on disk is checked (owner, mode, hash) before it is used, and thrown away when it does not fit.
// Threads that ask for the same text at the same time share one compilation.
std::vector<char> compiled_binary(const std::string& name, const std::string& source, const std::string& chip,
                                  std::span<const std::string> options, const char* op);

// What the arguments of a kernel may take on a device, as far as chip, driver and compiler go.
size_t argument_bytes(int device);

// The headers that every kernel may include, embedded in the library.
std::span<const SourceHeader> kernel_headers();

// Where binaries are kept: FACULA_CACHE_DIR, else $XDG_CACHE_HOME/facula, else ~/.cache/facula; "" when it cannot be used.
const std::string& cache_folder();
struct CacheStats {
  int64_t memory_hits = 0, disk_hits = 0, compiled = 0, rejected = 0, write_failures = 0;
};
CacheStats cache_stats();

// Every text that was compiled is also written into the folder FACULA_KERNEL_DUMP, one file each: tests give them to other
// compilers. Lines that begin with "// facula:" name kernel, options and headers.
}  // namespace facula::gpu
