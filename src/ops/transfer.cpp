#include "ops/transfer.h"

#include "core/device_memory.h"
#include "cpu/convert.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"
#include "ops/common.h"
#include "ops/executable.h"
#include "ops/pointwise.h"

#include <cstring>

namespace facula {
namespace {

// How src/core reaches memory of GPUs.
const DeviceMemoryHooks kHooks = {
    .allocate = [](size_t nbytes, Device device, const char* op) -> DeviceMemory {
      gpu::Allocation a = gpu::allocate(gpu::resolve(device, op).index(), nbytes, op);
      return {a.data, a.block};
    },
    .free = [](void* block) noexcept { gpu::free(static_cast<gpu::Block*>(block)); },
    .copy =
        [](const DeviceMemory& to, const DeviceMemory& from, size_t nbytes, Device device) {
          gpu::copy_on_device(to.data, from.data, nbytes, {"resize_", device.index()});
        },
    .allocate_pinned = [](size_t nbytes, const char* op) { return gpu::allocate_pinned(nbytes, op); },
    .free_pinned = [](void* data) noexcept { gpu::free_pinned(data); },
};
const DeviceStreamHooks kStreamHooks = {
    .current = [](Device device) { return gpu::current_stream(device.index()).id; },
    .follow =
        [](Device device, int64_t stream) {
          const gpu::StreamRef next = gpu::stream_from_id(device.index(), stream);
          gpu::order_streams(next, gpu::current_stream(device.index()), "backward");
          gpu::set_current_stream(next);
        },
};

const bool hooks_are_set = [] {
  device_memory_hooks = &kHooks;
  device_stream_hooks = &kStreamHooks;
  return true;
}();

size_t bytes_of(const TensorImpl* t) { return static_cast<size_t>(t->numel) * elementSize(t->dtype); }

// Both run through the same memory in the same order, without gaps.
bool alike(const TensorImpl* a, const TensorImpl* b) {
  if (a->dtype != b->dtype) return false;
  if (a->contiguous && b->contiguous) return true;
  return IntArrayRef(a->strides) == IntArrayRef(b->strides) && is_non_overlapping_and_dense(a->sizes, a->strides);
}

void copy_within(const Tensor& target, const Tensor& source) {
  const TensorImpl *t = target.impl(), *s = source.impl();
  if (alike(t, s)) {
    StorageImpl* storages[] = {t->storage.get(), s->storage.get()};
    return gpu::copy_on_device(t->data(), s->data(), bytes_of(t), {"copy_", t->device.index(), storages});
  }
  Program p;
  p.store(p.load(s->dtype), t->dtype);
  run_program_into(p, {&source, 1}, {}, {&target, 1}, "copy_");
}

// The source as memory of its own device that is laid out as the target is, in the dtype in which it shall travel.
Tensor packed_like(const Tensor& target, const Tensor& source, ScalarType dtype) {
  const TensorImpl *t = target.impl(), *s = source.impl();
  const bool dense = is_non_overlapping_and_dense(t->sizes, t->strides);
  const bool fits =
      s->dtype == dtype &&
      (dense ? IntArrayRef(s->strides) == IntArrayRef(t->strides) || (s->contiguous && t->contiguous) : s->contiguous);
  if (fits) return source;
  Tensor packed = dense && !t->contiguous ? new_tensor_strided(t->sizes, t->strides, dtype, s->device, "copy_")
                                          : new_tensor(t->sizes, dtype, s->device, "copy_");
  copy_values(packed, source);
  return packed;
}

// The target itself where packed values can go straight into it, else memory on its device that they can.
Tensor landing(const Tensor& target, const Tensor& packed) {
  const TensorImpl *t = target.impl(), *p = packed.impl();
  if (alike(t, p)) return target;
  return p->contiguous ? new_tensor(p->sizes, p->dtype, t->device, "copy_")
                       : new_tensor_strided(p->sizes, p->strides, p->dtype, t->device, "copy_");
}

}  // namespace

void transfer_values(const Tensor& target, const Tensor& source, bool non_blocking) {
  const TensorImpl *t = target.impl(), *s = source.impl();
  if (t->device == s->device) return copy_within(target, source);
  // The narrower of the two dtypes travels.
  const ScalarType dtype = elementSize(s->dtype) <= elementSize(t->dtype) ? s->dtype : t->dtype;
  const Tensor packed = packed_like(target, source, dtype), landed = landing(target, packed);
  const TensorImpl *from = packed.impl(), *to = landed.impl();
  const size_t bytes = bytes_of(to);
  if (s->device.is_cpu()) {
    StorageImpl* storages[] = {to->storage.get()};
    // A copy that was made here for the way must outlast it.
    const bool wait = !non_blocking || (!packed.is_same(source) && from->storage->is_pinned());
    gpu::copy_to_device(to->data(), from->data(), bytes, wait, {"copy_", t->device.index(), storages});
  } else if (t->device.is_cpu()) {
    StorageImpl* storages[] = {from->storage.get()};
    const bool wait = !non_blocking || !landed.is_same(target) || !to->storage->is_pinned();
    gpu::copy_to_host(to->data(), from->data(), bytes, wait, {"copy_", s->device.index(), storages});
  } else {
    StorageImpl* storages[] = {from->storage.get(), to->storage.get()};
    gpu::copy_between_devices(to->data(), t->device.index(), from->data(), s->device.index(), bytes,
                              {"copy_", s->device.index(), storages});
  }
  if (!landed.is_same(target)) copy_values(target, landed);
}

void fill_on_gpu(const Tensor& target, const void* element) {
  const TensorImpl* t = target.impl();
  StorageImpl* storages[] = {t->storage.get()};
  const char* bytes = static_cast<const char*>(element);
  bool same = true;
  for (size_t k = 1; k < elementSize(t->dtype); ++k) same &= bytes[k] == bytes[0];
  if (same && is_non_overlapping_and_dense(t->sizes, t->strides))
    return gpu::fill_bytes(t->data(), static_cast<uint8_t>(bytes[0]), bytes_of(t),
                           {"fill_", t->device.index(), storages});
  // The number in its compute type, which holds every value of the dtype.
  ParamValue value{};
  if (const ConvertFn load = load_fn(t->dtype)) load(element, &value, 1);
  else std::memcpy(&value, element, elementSize(t->dtype));
  Program p;
  p.store(p.param(compute_type(t->dtype)), t->dtype);
  const ArrayArg store{t->data(), t->strides.data()};
  kept_program(p).run(t->sizes, {}, {&value, 1}, {&store, 1}, {t->device, "fill_", storages});
}

Tensor carried_to(Device device, const Tensor& made) {
  if (device == made.device()) return made;
  Tensor there = new_tensor(made.sizes(), made.scalar_type(), device);
  copy_values(there, made);
  return there;
}

}  // namespace facula
