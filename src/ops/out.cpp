#include "ops/out.h"

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "gpu/runtime.h"
#include "ops/common.h"
#include "ops/shape_checks.h"

#include <vector>

namespace facula {

Device plain_device(Device device, const char* op) {
  return device.is_cuda() ? gpu::resolve(device, op) : Device(device.type());
}

Tensor new_tensor(IntArrayRef sizes, ScalarType dtype, Device device, const char* op) {
  FACULA_CHECK(dtype != ScalarType::Undefined, DTypeError, op, ": the dtype is undefined");
  int64_t numel = checked_numel(sizes, elementSize(dtype), op);
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(
      StorageImpl::allocate(static_cast<size_t>(numel) * elementSize(dtype), device, op), dtype, device));
  impl->set_contiguous(sizes);
  return Tensor(std::move(impl));
}

Tensor new_tensor_strided(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype, Device device, const char* op) {
  checked_numel(sizes, elementSize(dtype), op);
  int64_t extent = storage_extent(sizes, strides, 0);
  int64_t one[] = {extent};
  checked_numel(one, elementSize(dtype), op);
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(
      StorageImpl::allocate(static_cast<size_t>(extent) * elementSize(dtype), device, op), dtype, device));
  impl->set_geometry(sizes, strides, 0);
  return Tensor(std::move(impl));
}

Tensor view_of(const Tensor& base, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset) {
  const TensorImpl* b = base.impl();
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(b->storage, b->dtype, b->device));
  impl->set_geometry(sizes, strides, storage_offset);
  impl->set_base(base.impl());
  return Tensor(std::move(impl));
}

namespace {

void join_device(std::optional<Device>& device, bool& from_scalar, const Tensor& t, const char* op,
                 bool numbers_join = true) {
  if (!t.defined()) return;
  Device d = t.impl()->device;
  bool scalar = numbers_join && t.impl()->dim() == 0 && d.is_cpu();
  if (!device || (from_scalar && !scalar)) {
    device = d;
    from_scalar = scalar;
    return;
  }
  FACULA_CHECK(scalar || *device == d, DeviceError, op,
               ": Expected all tensors to be on the same device, but found at least two devices, ", device->str(),
               " and ", d.str(), "! Move them to one with .to(device)");
}

}  // namespace

Device common_device(std::initializer_list<const Tensor*> tensors, const char* op) {
  std::optional<Device> device;
  bool from_scalar = false;
  for (const Tensor* t : tensors)
    if (t) join_device(device, from_scalar, *t, op);
  return device.value_or(Device(kCPU));
}

Device same_device(std::initializer_list<const Tensor*> tensors, const char* op) {
  std::optional<Device> device;
  bool from_scalar = false;
  for (const Tensor* t : tensors)
    if (t) join_device(device, from_scalar, *t, op, false);
  return device.value_or(Device(kCPU));
}

Device common_device(TensorList tensors, const char* op) {
  std::optional<Device> device;
  bool from_scalar = false;
  for (const Tensor& t : tensors) join_device(device, from_scalar, t, op);
  return device.value_or(Device(kCPU));
}

void Out::check(IntArrayRef sizes, ScalarType dtype, Device device, const char* op) const {
  if (mode_ == Mode::Fresh) return;
  const Tensor& target = *target_;
  FACULA_CHECK(target.defined(), ValueError, op, ": the output tensor is undefined; create it with empty({0}) first");
  TensorImpl* t = target.impl();
  FACULA_CHECK(t->device == device, DeviceError, op, ": Expected ", mode_ == Mode::InPlace ? "self" : "out tensor",
               " to be on device ", device.str(), ", but got ", t->device.str(), " instead. Use one that lies there");
  FACULA_CHECK(canCast(dtype, t->dtype), DTypeError, op, ": result type ", toString(dtype),
               " can't be cast to the desired output type ", toString(t->dtype),
               mode_ == Mode::InPlace ? ". Convert the tensor first, or use the form that is not in place"
                                      : ". Use an out tensor of the result's dtype");
  bool same = IntArrayRef(t->sizes) == sizes;
  if (mode_ == Mode::InPlace) {
    FACULA_CHECK(same, ShapeError, op, ": output with shape ", to_text(t->sizes), " doesn't match the broadcast shape ",
                 to_text(sizes),
                 ". An in-place operation cannot change the shape of self; use the form that is not in place");
  }
  // What is resized lies side by side then.
  if (same) check_no_internal_overlap(target, op);
}

Tensor Out::prepare(IntArrayRef sizes, ScalarType dtype, Device device, const char* op,
                    const DimVector* strides) const {
  if (mode_ == Mode::Fresh)
    return strides ? new_tensor_strided(sizes, *strides, dtype, device, op) : new_tensor(sizes, dtype, device, op);
  check(sizes, dtype, device, op);
  const Tensor& target = *target_;
  if (IntArrayRef(target.impl()->sizes) != sizes) target.resize_(sizes);
  return target;
}

bool Out::resizes_an_input(IntArrayRef sizes, std::span<const Tensor* const> inputs) const {
  if (mode_ != Mode::Given || !target_->defined() || IntArrayRef(target_->impl()->sizes) == sizes) return false;
  for (const Tensor* t : inputs)
    if (t->is_alias_of(*target_)) return true;
  return false;
}

void Out::check_input(const Tensor& target, const Tensor& input, const char* op) const {
  if (mode_ != Mode::Fresh && input.defined()) check_no_partial_overlap(target, input, op);
}

void Out::written(const Tensor& target) const {
  if (mode_ != Mode::Fresh) target.impl()->bump_version();
}

namespace meaning {

Tensor& write_inplace(const Tensor& self, const Tensor& result, const char* op) {
  Out out = Out::inplace(self);
  Tensor target = out.prepare(result.sizes(), result.scalar_type(), result.device(), op);
  copy_values(target, result);
  out.written(target);
  return *out.target();
}

Tensor& write_out(Tensor& out_tensor, const Tensor& result, const char* op) {
  Out out = Out::given(out_tensor);
  Tensor target = out.prepare(result.sizes(), result.scalar_type(), result.device(), op);
  copy_values(target, result);
  out.written(target);
  return out_tensor;
}

void check_out_apart(const Tensor& out, const Tensor& input, const char* op) {
  if (out.defined() && input.defined()) check_no_partial_overlap(out, input, op);
}
void check_out_apart(const Tensor& out, const std::optional<Tensor>& input, const char* op) {
  if (input) check_out_apart(out, *input, op);
}
void check_out_apart(const Tensor& out, TensorList inputs, const char* op) {
  for (const Tensor& input : inputs) check_out_apart(out, input, op);
}
void check_out_apart(const Tensor& out, ArrayRef<std::optional<Tensor>> inputs, const char* op) {
  for (const auto& input : inputs) check_out_apart(out, input, op);
}

void write_outs(std::initializer_list<std::pair<Tensor*, const Tensor*>> outs, const char* op) {
  bool resized = false;
  for (const auto& [target, result] : outs) {
    Out::given(*target).check(result->sizes(), result->scalar_type(), result->device(), op);
    resized |= target->sizes() != result->sizes();
  }
  for (auto a = outs.begin(); a != outs.end(); ++a)
    for (auto b = a + 1; b != outs.end(); ++b) {
      if (!a->first->is_alias_of(*b->first)) continue;
      FACULA_CHECK(!resized && !share_memory(*a->first, *b->first), ValueError, op,
                   ": unsupported operation: two of the output tensors share memory. Give each a tensor of its own");
    }
  // Room for all, before anything is written: the last may refuse to grow, or there may be no memory for it. Then those
  // before it are given back the sizes they had.
  struct Geometry {
    DimVector sizes, strides;
    int64_t offset;
  };
  std::vector<Geometry> before;
  for (const auto& [target, result] : outs) {
    const TensorImpl* t = target->impl();
    before.push_back({t->sizes, t->strides, t->storage_offset});
  }
  try {
    for (const auto& [target, result] : outs)
      Out::given(*target).prepare(result->sizes(), result->scalar_type(), result->device(), op);
  } catch (...) {
    auto geometry = before.begin();
    for (const auto& [target, result] : outs) {
      target->impl()->set_geometry(geometry->sizes, geometry->strides, geometry->offset);
      ++geometry;
    }
    throw;
  }
  for (const auto& [target, result] : outs) write_out(*target, *result, op);
}

Tensor& set_geometry(const Tensor& self, const Tensor& view) {
  const TensorImpl* v = view.impl();
  TensorImpl* impl = self.impl();
  impl->set_geometry(DimVector(v->sizes), DimVector(v->strides), v->storage_offset);
  if (impl->tape) impl->tape.get()->geometry_changed(*impl);
  impl->bump_version();
  return const_cast<Tensor&>(self);
}

}  // namespace meaning
}  // namespace facula
