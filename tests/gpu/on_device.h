// Tensors to and from a GPU as they lie in memory: the whole storage is copied as one row of elements, gaps included, so that
// no kernel that moves strided elements has a part in it.
#pragma once

#include <facula/facula.h>

namespace facula::testing {

inline Tensor whole_storage(const Tensor& tensor) {
  const auto length = static_cast<int64_t>(tensor.storage().nbytes() / elementSize(tensor.scalar_type()));
  return tensor.as_strided({length}, {1}, 0);
}

inline Tensor moved(const Tensor& tensor, const Device& device) {
  if (!tensor.defined()) return tensor;
  return whole_storage(tensor).to(device).as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

inline Tensor to_gpu(const Tensor& tensor, const Device& device = Device("cuda:0")) { return moved(tensor, device); }
inline Tensor to_host(const Tensor& tensor) {
  return tensor.defined() && tensor.is_cuda() ? moved(tensor, Device("cpu")) : tensor;
}

}  // namespace facula::testing
