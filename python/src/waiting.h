// Reading a tensor of a GPU waits for what is queued there; Python's other threads go on meanwhile.
#pragma once

#include "arguments.h"

namespace facula::python {

// For Released: how much work it is to read a tensor.
inline int64_t reading_work(const Tensor& tensor) {
  return tensor.device().is_cuda() ? kAlwaysRelease : tensor.impl()->numel;
}

inline Scalar item_of(const Tensor& tensor) {
  const Released released(reading_work(tensor));
  return tensor.item();
}

}  // namespace facula::python
