#include "ops/executable.h"

#include "gpu/program/program.h"

#include <mutex>
#include <unordered_map>

namespace facula {

Executable::Executable(Program program) : cpu_(std::move(program)) {}
Executable::~Executable() { delete gpu_.load(std::memory_order_relaxed); }
Executable::Executable(Executable&& other) noexcept
    : cpu_(std::move(other.cpu_)), gpu_(other.gpu_.exchange(nullptr, std::memory_order_relaxed)) {}

const gpu::GpuProgram& Executable::on_gpu() const {
  gpu::GpuProgram* found = gpu_.load(std::memory_order_acquire);
  if (found) [[likely]]
    return *found;
  auto made = std::make_unique<gpu::GpuProgram>(program());
  if (gpu_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *found;
}

namespace {
gpu::Work work_at(const RunPlace& place) { return {place.op, place.device.index(), place.storages}; }
}  // namespace

void Executable::run_on_gpu(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
                            std::span<const ArrayArg> stores, const RunPlace& place) const {
  on_gpu().run(sizes, loads, params, stores, work_at(place));
}

void Executable::run_contiguous_on_gpu(int64_t count, const void* const* loads, const ParamValue* params,
                                       void* const* stores, const RunPlace& place) const {
  on_gpu().run_contiguous(count, loads, params, stores, work_at(place));
}

void Executable::run_reduction_on_gpu(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                                      std::span<const ParamValue> params, std::span<const ArrayArg> stores,
                                      const RunPlace& place) const {
  on_gpu().run_reduction(sizes, reduced, loads, params, stores, work_at(place));
}

void Executable::run_list_on_gpu(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                                 const RunPlace& place) const {
  on_gpu().run_list(items, constant, params, work_at(place));
}

void Executable::reduce_list_on_gpu(std::span<const ListItem> items, uint64_t constant, const ParamValue* params,
                                    ListReduce reduce, void* partials, const RunPlace& place) const {
  on_gpu().reduce_list(items, constant, params, reduce, partials, work_at(place));
}

const Executable& kept_program(const Program& program) {
  static std::mutex mutex;
  static auto* programs = new std::unordered_multimap<size_t, std::unique_ptr<Executable>>;
  size_t hash = program.hash();
  std::lock_guard lock(mutex);
  auto [begin, end] = programs->equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->program() == program) return *it->second;
  return *programs->emplace(hash, std::make_unique<Executable>(program))->second;
}

}  // namespace facula
