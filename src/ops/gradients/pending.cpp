// Stringing formulas together and running them as one program. Programs are kept by what they are made of, so that a training
// loop builds each of its chains once.
#include "core/hash.h"
#include "core/shape.h"
#include "ops/executable.h"
#include "ops/gradients/chain.h"
#include "program/compute_type.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace facula::autograd {

constinit thread_local PendingGradients* pending_gradients = nullptr;

namespace {

std::atomic<int64_t> least_elements{4096};
constinit thread_local GradientPrograms programs_run;

}  // namespace

int64_t least_fused_elements() { return least_elements.load(std::memory_order_relaxed); }
void set_least_fused_elements(int64_t count) { least_elements.store(count, std::memory_order_relaxed); }
GradientPrograms gradient_programs() { return programs_run; }

PendingGradients::PendingGradients() = default;
PendingGradients::~PendingGradients() = default;

void PendingGradients::settle() {
  if (any_) chain->run();
}

bool PendingGradients::reads(const StorageImpl* storage) const {
  return any_ && std::any_of(chain->operands.begin(), chain->operands.end(),
                             [&](const Tensor& t) { return t.impl()->storage.get() == storage; });
}

Tensor PendingGradients::sum(const Tensor& a, const Tensor& b) {
  const Tensor* both[] = {&a, &b};
  if (a.sizes() != b.sizes() || !detail::formula_fuses(both, 0)) return {};
  constexpr auto add = [](auto x, auto y) { return x + y; };
  return chain->append(detail::build_formula<decltype(add), 2>, both, {});
}

namespace {

bool same_memory(const TensorImpl& a, const TensorImpl& b) {
  return a.storage.get() == b.storage.get() && a.storage_offset == b.storage_offset && a.dtype == b.dtype &&
         IntArrayRef(a.sizes) == IntArrayRef(b.sizes) && IntArrayRef(a.strides) == IntArrayRef(b.strides);
}

}  // namespace

PendingGradients::Chain::Source PendingGradients::Chain::source_of(const Tensor& t) {
  if (is_pending(t)) {
    size_t i = steps.size();
    while (i-- > 0)
      if (steps[i].result.impl() == t.impl()) return {true, static_cast<uint16_t>(i)};
    FACULA_INTERNAL_CHECK(false);
  }
  for (size_t i = 0; i < operands.size(); ++i)
    if (same_memory(*operands[i].impl(), *t.impl())) return {false, static_cast<uint16_t>(i)};
  operands.push_back(t);
  return {false, static_cast<uint16_t>(operands.size() - 1)};
}

Tensor PendingGradients::Chain::append(detail::FormulaBuild build, std::span<const Tensor* const> tensors,
                                       std::span<const double> given) {
  const TensorImpl* first = tensors[0]->impl();
  DimVector common(first->sizes);
  for (const Tensor* t : tensors.subspan(1))
    if (IntArrayRef(common) != sizes_of(*t)) common = broadcast_sizes(common, sizes_of(*t), "gradient");
  const bool full = steps.size() >= kMaxSteps || operands.size() + tensors.size() > kMaxOperands;
  if (!steps.empty() &&
      (full || IntArrayRef(common) != IntArrayRef(sizes) || first->dtype != dtype || first->device != device))
    run();
  if (steps.empty()) {
    sizes = common;
    dtype = first->dtype;
    device = first->device;
  }
  Step step;
  step.build = build;
  step.first_source = static_cast<uint16_t>(sources.size());
  step.source_count = static_cast<uint16_t>(tensors.size());
  step.first_number = static_cast<uint16_t>(numbers.size());
  step.number_count = static_cast<uint16_t>(given.size());
  for (const Tensor* t : tensors) sources.push_back(source_of(*t));
  numbers.insert(numbers.end(), given.begin(), given.end());
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(nullptr, dtype, device));
  if (detail::laid_out_as_first(*first, sizes)) impl->set_geometry(sizes, first->strides, 0);
  else impl->set_contiguous(sizes);
  impl->tracking |= kTracksPending;
  step.result = Tensor(std::move(impl));
  Tensor result = step.result;
  steps.push_back(std::move(step));
  owner.any_ = true;
  return result;
}

namespace {

// A chain with what does not change from run to run worked out.
struct Compiled {
  Executable program;
  std::vector<double> constants;  // the parameters after the numbers of the formulas
  CType type;
  bool only_computed;  // nothing that was loaded is stored as it is
};

using Key = std::vector<uint64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t h = key.size();
    for (const uint64_t part : key) h = detail::hash_combine(h, part);
    return h;
  }
};

// Programs by their keys. A network has few; whoever makes ever new ones is not given more memory than this.
template <class Make>
std::shared_ptr<const Compiled> compiled_chain(const Key& key, const Make& make) {
  constexpr size_t kMost = 1024;
  static std::mutex mutex;
  // Never destroyed: other threads may still run when static objects go.
  static auto* cache = new std::unordered_map<Key, std::shared_ptr<const Compiled>, KeyHash>;
  const std::lock_guard lock(mutex);
  if (const auto found = cache->find(key); found != cache->end()) return found->second;
  if (cache->size() >= kMost) cache->clear();
  return (*cache)[key] = make();
}

// Whether the memory of an operand that nobody else holds can take a result that is laid out like it.
bool can_take_over(const Tensor& operand, const TensorImpl& result) {
  const TensorImpl* t = operand.impl();
  const bool fits = operand.use_count() == 1 && t->storage->use_count() == 1 && t->storage->resizable() &&
                    t->dtype == result.dtype && t->storage_offset == 0 &&
                    IntArrayRef(t->sizes) == IntArrayRef(result.sizes) &&
                    IntArrayRef(t->strides) == IntArrayRef(result.strides) &&
                    t->storage->nbytes() == static_cast<size_t>(t->numel) * elementSize(t->dtype);
#ifndef FACULA_TSAN  // which does not know fences
  // Another thread may have held it until just now: what that has read comes before what is written here.
  if (fits) std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return fits;
}

}  // namespace

void PendingGradients::Chain::run() {
  struct Clear {
    Chain& chain;
    ~Clear() {
      chain.operands.clear();
      chain.steps.clear();
      chain.sources.clear();
      chain.numbers.clear();
      chain.owner.any_ = false;
    }
  } clear{*this};
  // Only what somebody still holds is stored, and only what that depends on is computed.
  uint8_t needed[kMaxSteps] = {}, stored[kMaxSteps] = {};
  bool any = false;
  for (size_t i = steps.size(); i-- > 0;) {
    stored[i] = steps[i].result.use_count() > 1;
    needed[i] |= stored[i];
    any |= stored[i] != 0;
    if (!needed[i]) continue;
    for (size_t s = 0; s < steps[i].source_count; ++s) {
      const Source& source = sources[steps[i].first_source + s];
      if (source.computed) needed[source.index] = 1;
    }
  }
  if (any) run_live(std::span(needed, steps.size()), std::span(stored, steps.size()));
}

void PendingGradients::Chain::run_live(std::span<const uint8_t> needed, std::span<const uint8_t> stored) {
  uint16_t load_of[kMaxOperands], place_of[kMaxSteps];
  std::fill_n(load_of, kMaxOperands, UINT16_MAX);
  uint16_t loads[kMaxOperands];
  size_t load_count = 0, step_count = 0;
  Key key;
  key.reserve(64);
  key.push_back(static_cast<uint64_t>(dtype));
  std::vector<double> values;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!needed[i]) continue;
    const Step& step = steps[i];
    key.push_back(reinterpret_cast<uintptr_t>(step.build));
    uint64_t parts = stored[i];
    for (size_t s = 0; s < step.source_count; ++s) {
      const Source& source = sources[step.first_source + s];
      if (!source.computed && load_of[source.index] == UINT16_MAX) {
        load_of[source.index] = static_cast<uint16_t>(load_count);
        loads[load_count++] = source.index;
      }
      const uint16_t place = source.computed ? place_of[source.index] : load_of[source.index];
      parts = parts << 8 | (source.computed ? 0x80u : 0u) | place;
    }
    key.push_back(parts);
    place_of[i] = static_cast<uint16_t>(step_count++);
    for (size_t n = 0; n < step.number_count; ++n) values.push_back(numbers[step.first_number + n]);
  }

  const auto make = [&] {
    Lane::Builder builder;
    builder.type = compute_type(dtype);
    std::vector<Lane> loaded, given, results, arguments;
    for (size_t k = 0; k < load_count; ++k)
      loaded.emplace_back(&builder, builder.program.load(operands[loads[k]].scalar_type()));
    for (size_t n = 0; n < values.size(); ++n) given.emplace_back(&builder, builder.program.param(builder.type));
    size_t number = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!needed[i]) continue;
      arguments.clear();
      for (size_t s = 0; s < steps[i].source_count; ++s) {
        const Source& source = sources[steps[i].first_source + s];
        arguments.push_back(source.computed ? results[place_of[source.index]] : loaded[load_of[source.index]]);
      }
      for (size_t n = 0; n < steps[i].number_count; ++n) arguments.push_back(given[number++]);
      results.push_back(steps[i].build(arguments));
    }
    bool only_computed = true;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!stored[i]) continue;
      const Value value = results[place_of[i]].value();
      only_computed &= builder.program.values()[value.id].source == Program::Source::Instruction;
      builder.program.store(value, dtype);
    }
    return std::shared_ptr<const Compiled>(new Compiled{Executable(std::move(builder.program)),
                                                        std::move(builder.constants), builder.type, only_computed});
  };
  const std::shared_ptr<const Compiled> compiled = compiled_chain(key, make);

  DimVector strides[kMaxOperands];
  ArrayArg in[kMaxOperands], out[kMaxSteps];
  StorageImpl* storages[kMaxOperands + kMaxSteps];
  for (size_t k = 0; k < load_count; ++k) {
    const TensorImpl* t = operands[loads[k]].impl();
    strides[k] = broadcast_strides(t->sizes, t->strides, sizes);
    in[k] = {t->data(), strides[k].data()};
    storages[k] = t->storage.get();
  }
  std::vector<ParamValue> params;
  params.reserve(values.size() + compiled->constants.size());
  for (const double number : values) params.push_back(param_value(number, compiled->type));
  for (const double number : compiled->constants) params.push_back(param_value(number, compiled->type));
  size_t store_count = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!stored[i]) continue;
    TensorImpl* result = steps[i].result.impl();
    if (compiled->only_computed)
      for (size_t k = 0; k < operands.size() && !result->storage; ++k)
        if (can_take_over(operands[k], *result)) result->storage = operands[k].impl()->storage;
    if (!result->storage)
      result->storage =
          StorageImpl::allocate(static_cast<size_t>(result->numel) * elementSize(dtype), device, "gradient");
    storages[load_count + store_count] = result->storage.get();
    out[store_count++] = {result->data(), result->strides.data()};
  }
  compiled->program.run(sizes, {in, load_count}, params, {out, store_count},
                        {device, "gradient", {storages, load_count + store_count}});
  for (size_t i = 0; i < steps.size(); ++i)
    if (stored[i]) steps[i].result.impl()->tracking &= static_cast<uint8_t>(~kTracksPending);
  ++programs_run.programs;
  programs_run.formulas += step_count;
}

}  // namespace facula::autograd

namespace facula::detail {

Tensor append_formula(FormulaBuild build, std::span<const Tensor* const> tensors, std::span<const double> numbers) {
  autograd::PendingGradients& pending = *autograd::pending_gradients;
  if (!pending.chain) pending.chain = std::make_unique<autograd::PendingGradients::Chain>(pending);
  return pending.chain->append(build, tensors, numbers);
}

}  // namespace facula::detail
