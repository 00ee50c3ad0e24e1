#include "core/kernel_table.h"

#include "core/tensor_impl.h"

#include <facula/tensor.h>

#include <ostream>

namespace facula::detail {

KernelEntry& kernel_entry(OpId op, DeviceType device) {
  // A function-local static: registrations run before main in any order.
  static KernelEntry table[kOpCount][kDeviceTypes];
  return table[static_cast<size_t>(op)][static_cast<size_t>(device)];
}

void check_kernel_device(OpId op, DeviceType device, const Tensor& t) {
  FACULA_CHECK(!t.defined() || t.impl()->device.type() == device, DeviceError, op_name(op),
               ": Expected all tensors to be on the same device, but found at least two devices, ",
               Device(device).str(), " and ", t.impl()->device.str(), "! Move them to one with .to(device)");
}

void missing_kernel(OpId op, DeviceType device) {
  throw NotSupportedError(str(op_name(op), ": not available on device '", Device(device).str(),
                              "'. Move the tensors with .to(\"cpu\") first"));
}

}  // namespace facula::detail
