// A program that runs wherever its tensors are: the executors of all devices behind one call. What a device needs for it is
// worked out when it is first asked for.
#pragma once

#include "core/storage_impl.h"
#include "cpu/executor.h"

#include <facula/core/device.h>

#include <atomic>
#include <memory>
#include <span>

namespace facula {

namespace gpu {
class GpuProgram;
}

// Where a program runs, and for whom. Storages are those of all its arrays; the cpu does not look at them.
struct RunPlace {
  Device device;
  const char* op;
  std::span<StorageImpl* const> storages = {};
};

class Executable {
 public:
  explicit Executable(Program program);
  ~Executable();
  Executable(Executable&& other) noexcept;

  const Program& program() const { return cpu_.program(); }

  // See CpuProgram.
  void run(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
           std::span<const ArrayArg> stores, const RunPlace& place) const {
    if (place.device.is_cpu()) [[likely]]
      return cpu_.run(sizes, loads, params, stores);
    run_on_gpu(sizes, loads, params, stores, place);
  }
  void run_contiguous(int64_t count, const void* const* loads, const ParamValue* params, void* const* stores,
                      const RunPlace& place) const {
    if (place.device.is_cpu()) [[likely]]
      return cpu_.run_contiguous(count, loads, params, stores);
    run_contiguous_on_gpu(count, loads, params, stores, place);
  }
  void run_reduction(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                     std::span<const ParamValue> params, std::span<const ArrayArg> stores,
                     const RunPlace& place) const {
    if (place.device.is_cpu()) [[likely]]
      return cpu_.run_reduction(sizes, reduced, loads, params, stores);
    run_reduction_on_gpu(sizes, reduced, loads, params, stores, place);
  }

  // One launch, or one parallel region, over many sets of arrays.
  void run_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                const RunPlace& place) const {
    if (place.device.is_cpu()) return cpu_.run_list(items, constant, params);
    run_list_on_gpu(items, constant, params, place);
  }

  void reduce_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params, ListReduce reduce,
                   void* partials, const RunPlace& place) const {
    if (place.device.is_cpu()) return cpu_.reduce_list(items, constant, params, reduce, partials);
    reduce_list_on_gpu(items, constant, params, reduce, partials, place);
  }

 private:
  void reduce_list_on_gpu(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                          ListReduce reduce, void* partials, const RunPlace& place) const;
  void run_list_on_gpu(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                       const RunPlace& place) const;
  void run_on_gpu(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
                  std::span<const ArrayArg> stores, const RunPlace& place) const;
  void run_contiguous_on_gpu(int64_t count, const void* const* loads, const ParamValue* params, void* const* stores,
                             const RunPlace& place) const;
  void run_reduction_on_gpu(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                            std::span<const ParamValue> params, std::span<const ArrayArg> stores,
                            const RunPlace& place) const;
  const gpu::GpuProgram& on_gpu() const;

  CpuProgram cpu_;
  mutable std::atomic<gpu::GpuProgram*> gpu_{nullptr};
};

// The executable of a program that is put together anew at each call: kept by what it holds.
const Executable& kept_program(const Program& program);

}  // namespace facula
