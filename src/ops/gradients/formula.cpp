// Running formulas as programs.
#include "ops/gradients/formula.h"

#include "ops/executable.h"
#include "ops/out.h"
#include "program/compute_type.h"

#include <mutex>

namespace facula::detail {

namespace {

struct Compiled {
  Executable program;
  std::vector<double> constants;
  CType type;
};

constexpr size_t kMaxTensors = 6, kMaxParams = 32;

}  // namespace

bool formula_fuses(std::span<const Tensor* const> tensors, uint32_t masks) {
  const TensorImpl* first = tensors[0]->impl();
  if (!isDifferentiableType(first->dtype) || isComplexType(first->dtype) || first->device.is_meta()) return false;
  uint8_t flags = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorImpl* t = tensors[i]->impl();
    const ScalarType wanted = masks >> i & 1 ? ScalarType::Bool : first->dtype;
    if (t->dtype != wanted || t->device != first->device) return false;
    flags |= t->tracking;
  }
  return (flags & thread_modes.mask & static_cast<uint8_t>(~(kTracksView | autograd::kTracksPending))) == 0;
}

Tensor run_formula(FormulaCache& cache, FormulaBuild build, std::span<const Tensor* const> tensors,
                   std::span<const double> numbers) {
  const ScalarType dtype = tensors[0]->scalar_type();
  std::atomic<const void*>& slot = cache[static_cast<size_t>(dtype)];
  const auto* compiled = static_cast<const Compiled*>(slot.load(std::memory_order_acquire));
  if (!compiled) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    compiled = static_cast<const Compiled*>(slot.load(std::memory_order_acquire));
    if (!compiled) {
      Lane::Builder builder;
      builder.type = compute_type(dtype);
      std::vector<Lane> lanes;
      for (const Tensor* t : tensors) lanes.emplace_back(&builder, builder.program.load(t->scalar_type()));
      for (size_t i = 0; i < numbers.size(); ++i) lanes.emplace_back(&builder, builder.program.param(builder.type));
      const Lane result = build(lanes);
      builder.program.store(result.value(), dtype);
      FACULA_INTERNAL_CHECK(tensors.size() <= kMaxTensors && numbers.size() + builder.constants.size() <= kMaxParams);
      compiled = new Compiled{Executable(std::move(builder.program)), std::move(builder.constants), builder.type};
      slot.store(compiled, std::memory_order_release);
    }
  }
  ParamValue params[kMaxParams];
  size_t count = 0;
  for (const double number : numbers) params[count++] = param_value(number, compiled->type);
  for (const double number : compiled->constants) params[count++] = param_value(number, compiled->type);
  const TensorImpl* first = tensors[0]->impl();
  bool flat = first->contiguous, same = true;
  for (const Tensor* t : tensors.subspan(1)) {
    flat &= t->impl()->contiguous;
    same &= IntArrayRef(first->sizes) == sizes_of(*t);
  }
  StorageImpl* storages[kMaxTensors + 1];
  for (size_t i = 0; i < tensors.size(); ++i) storages[i] = tensors[i]->impl()->storage.get();
  auto place = [&](const Tensor& result) {
    storages[tensors.size()] = result.impl()->storage.get();
    return RunPlace{first->device, "gradient", {storages, tensors.size() + 1}};
  };
  if (flat && same) {
    Tensor result = new_tensor(first->sizes, dtype, first->device, "gradient");
    const void* loads[kMaxTensors];
    for (size_t i = 0; i < tensors.size(); ++i) loads[i] = tensors[i]->impl()->data();
    void* const store = result.impl()->data();
    compiled->program.run_contiguous(first->numel, loads, params, &store, place(result));
    return result;
  }
  DimVector sizes(first->sizes);
  if (!same)
    for (const Tensor* t : tensors.subspan(1))
      if (IntArrayRef(sizes) != sizes_of(*t)) sizes = broadcast_sizes(sizes, sizes_of(*t), "gradient");
  Tensor result = laid_out_as_first(*first, sizes)
                      ? new_tensor_strided(sizes, first->strides, dtype, first->device, "gradient")
                      : new_tensor(sizes, dtype, first->device, "gradient");
  if (result.impl()->numel == 0) return result;
  DimVector strides[kMaxTensors];
  ArrayArg loads[kMaxTensors];
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorImpl* t = tensors[i]->impl();
    strides[i] = broadcast_strides(t->sizes, t->strides, sizes);
    loads[i] = {t->data(), strides[i].data()};
  }
  const ArrayArg store{result.impl()->data(), result.impl()->strides.data()};
  compiled->program.run(sizes, {loads, tensors.size()}, {params, count}, {&store, 1}, place(result));
  return result;
}

}  // namespace facula::detail
