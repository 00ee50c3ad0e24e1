// Which function carries out a primitive on which device. Folders with kernels register, src/ops calls. Absence is data:
// an op asks `has_kernel` and takes its composite, or the error names op and device.
#pragma once

#include <facula/core/device.h>
#include <facula/core/error.h>

#include "core/generated/op_ids.h"

#include <typeinfo>

namespace facula {

class Tensor;

namespace detail {
struct KernelEntry {
  void (*function)() = nullptr;
  const std::type_info* signature = nullptr;
};
KernelEntry& kernel_entry(OpId op, DeviceType device);
[[noreturn]] void missing_kernel(OpId op, DeviceType device);
// A kernel reads its tensors where they lie: throws DeviceError when that is not its device.
void check_kernel_device(OpId op, DeviceType device, const Tensor& t);
template <class T>
void check_kernel_device(OpId, DeviceType, const T&) {}
}  // namespace detail

// A static object of this type in a kernel file enters the kernel into the table:
//   static KernelRegistration sort_kernel(OpId::sort, DeviceType::CPU, &sort_cpu);
class KernelRegistration {
 public:
  template <class R, class... Args>
  KernelRegistration(OpId op, DeviceType device, R (*function)(Args...)) {
    detail::kernel_entry(op, device) = {reinterpret_cast<void (*)()>(function), &typeid(R(Args...))};
  }
};

inline bool has_kernel(OpId op, DeviceType device) { return detail::kernel_entry(op, device).function != nullptr; }

// Calls a kernel; `Signature` must be the registered function's type, which is checked:
//   call_kernel<void(const Tensor&, Tensor&)>(OpId::sort, device, input, output);
template <class Signature, class... Args>
decltype(auto) call_kernel(OpId op, DeviceType device, Args&&... args) {
  const detail::KernelEntry& entry = detail::kernel_entry(op, device);
  if (!entry.function) [[unlikely]]
    detail::missing_kernel(op, device);
  FACULA_INTERNAL_CHECK(*entry.signature == typeid(Signature));
  (detail::check_kernel_device(op, device, args), ...);
  return reinterpret_cast<Signature*>(entry.function)(std::forward<Args>(args)...);
}

}  // namespace facula
