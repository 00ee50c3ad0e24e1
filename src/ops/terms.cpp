// Running and caching the programs of terms.h.
#include "ops/terms.h"

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/executor.h"
#include "ops/out.h"

#include <facula/core/error.h>

#include <memory>
#include <mutex>
#include <unordered_map>

namespace facula {
namespace {

constexpr size_t kMaxTensors = 4, kMaxParams = 4;

const CpuProgram& cached_program(const Terms& terms) {
  struct Entry {
    uint64_t key = UINT64_MAX;
    const CpuProgram* program = nullptr;
  };
  thread_local Entry recent[16];
  Entry& entry = recent[(terms.key * 0x9e3779b97f4a7c15ULL) >> 60];
  if (entry.key == terms.key) [[likely]]
    return *entry.program;
  static std::mutex mutex;
  // Never destroyed: other threads may still run when static objects go.
  static auto* programs = new std::unordered_map<uint64_t, std::unique_ptr<CpuProgram>>;
  std::lock_guard lock(mutex);
  auto& slot = (*programs)[terms.key];
  if (!slot) {
    Program p;
    terms.build(p);
    slot = std::make_unique<CpuProgram>(std::move(p));
  }
  entry = {terms.key, slot.get()};
  return *slot;
}

struct Arguments {
  DimVector strides[kMaxTensors];
  ArrayArg loads[kMaxTensors];
  ParamValue params[kMaxParams];

  Arguments(const Terms& terms, IntArrayRef sizes) {
    FACULA_INTERNAL_CHECK(terms.tensors.size() <= kMaxTensors && terms.params.size() <= kMaxParams);
    for (size_t i = 0; i < terms.tensors.size(); ++i) {
      const TensorImpl* t = terms.tensors[i].impl();
      strides[i] = broadcast_strides(t->sizes, t->strides, sizes);
      loads[i] = {t->data(), strides[i].data()};
    }
    const CType type = compute_type(terms.dtype);
    size_t next = 0;
    for (double p : terms.params) params[next++] = param_value(p, type);
  }
};

}  // namespace

Tensor compute_terms(const Terms& terms, IntArrayRef sizes) {
  const Device device = common_device(TensorList(terms.tensors.data(), terms.tensors.size()), terms.op);
  Tensor result = new_tensor(sizes, terms.dtype, device, terms.op);
  if (device.is_meta() || result.impl()->numel == 0) return result;
  const Arguments arguments(terms, sizes);
  const ArrayArg store{result.impl()->data(), result.impl()->strides.data()};
  cached_program(terms).run(sizes, {arguments.loads, terms.tensors.size()}, {arguments.params, terms.params.size()},
                            {&store, 1});
  return result;
}

Tensor reduce_terms(const Terms& terms, IntArrayRef sizes, uint64_t mask, bool keepdim) {
  const Device device = common_device(TensorList(terms.tensors.data(), terms.tensors.size()), terms.op);
  DimVector kept;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if ((mask >> d & 1) == 0) kept.push_back(sizes[d]);
    else if (keepdim) kept.push_back(1);
  }
  Tensor result = new_tensor(kept, terms.dtype, device, terms.op);
  if (device.is_meta() || result.impl()->numel == 0) return result;
  const Arguments arguments(terms, sizes);
  DimVector strides(sizes.size());
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool gone = mask >> d & 1;
    strides[d] = gone ? 0 : result.impl()->strides[next];
    if (!gone || keepdim) ++next;
  }
  const ArrayArg store{result.impl()->data(), strides.data()};
  cached_program(terms).run_reduction(sizes, mask, {arguments.loads, terms.tensors.size()},
                                      {arguments.params, terms.params.size()}, {&store, 1});
  return result;
}

}  // namespace facula
