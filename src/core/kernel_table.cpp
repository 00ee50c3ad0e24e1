#include "core/kernel_table.h"

#include <ostream>

namespace facula::detail {

KernelEntry& kernel_entry(OpId op, DeviceType device) {
  // A function-local static: registrations run before main in any order.
  static KernelEntry table[kOpCount][kDeviceTypes];
  return table[static_cast<size_t>(op)][static_cast<size_t>(device)];
}

void missing_kernel(OpId op, DeviceType device) {
  throw NotSupportedError(str(op_name(op), ": not available on device '", Device(device).str(),
                              "'. Move the tensors with .to(\"cpu\") first"));
}

}  // namespace facula::detail
