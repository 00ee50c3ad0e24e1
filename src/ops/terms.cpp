// Running and caching the programs of terms.h.
#include "ops/terms.h"

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "ops/executable.h"
#include "ops/out.h"
#include "ops/program_cache.h"
#include "ops/transfer.h"

#include <facula/core/error.h>

namespace facula {
namespace {

constexpr size_t kMaxTensors = 4, kMaxParams = 4;

const Executable& program_of(const Terms& terms) {
  return cached_program<4>(terms.key, [&] {
    Program p;
    terms.build(p);
    return Executable(std::move(p));
  });
}

struct Arguments {
  Tensor carried[kMaxTensors];
  DimVector strides[kMaxTensors];
  ArrayArg loads[kMaxTensors];
  ParamValue params[kMaxParams];
  StorageImpl* storages[kMaxTensors + 1];

  Arguments(const Terms& terms, IntArrayRef sizes, const Tensor& result) {
    FACULA_INTERNAL_CHECK(terms.tensors.size() <= kMaxTensors && terms.params.size() <= kMaxParams);
    for (size_t i = 0; i < terms.tensors.size(); ++i) {
      // Numbers of the cpu may join tensors of another device: they are carried over.
      carried[i] = carried_to(result.device(), terms.tensors[i]);
      const TensorImpl* t = carried[i].impl();
      strides[i] = broadcast_strides(t->sizes, t->strides, sizes);
      loads[i] = {t->data(), strides[i].data()};
      storages[i] = t->storage.get();
    }
    storages[terms.tensors.size()] = result.impl()->storage.get();
    const CType type = compute_type(terms.dtype);
    size_t next = 0;
    for (double p : terms.params) params[next++] = param_value(p, type);
  }

  RunPlace place(const Terms& terms, Device device) const {
    return {device, terms.op, {storages, terms.tensors.size() + 1}};
  }
};

}  // namespace

Tensor compute_terms(const Terms& terms, IntArrayRef sizes) {
  const Device device = common_device(TensorList(terms.tensors.data(), terms.tensors.size()), terms.op);
  Tensor result = new_tensor(sizes, terms.dtype, device, terms.op);
  if (device.is_meta() || result.impl()->numel == 0) return result;
  const Arguments arguments(terms, sizes, result);
  const ArrayArg store{result.impl()->data(), result.impl()->strides.data()};
  program_of(terms).run(sizes, {arguments.loads, terms.tensors.size()}, {arguments.params, terms.params.size()},
                        {&store, 1}, arguments.place(terms, device));
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
  const Arguments arguments(terms, sizes, result);
  DimVector strides(sizes.size());
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool gone = mask >> d & 1;
    strides[d] = gone ? 0 : result.impl()->strides[next];
    if (!gone || keepdim) ++next;
  }
  const ArrayArg store{result.impl()->data(), strides.data()};
  program_of(terms).run_reduction(sizes, mask, {arguments.loads, terms.tensors.size()},
                                  {arguments.params, terms.params.size()}, {&store, 1}, arguments.place(terms, device));
  return result;
}

}  // namespace facula
