// Exchanging what two tensors show while the handles to them stay.
#pragma once

#include <facula/tensor.h>

namespace facula::nn {

// Call for both before swap_contents: gives a tensor what must exist to be exchanged.
void prepare_swap(const Tensor& t);
// Exchanges everything but the count of handles, the name and the Python object.
void swap_contents(const Tensor& a, const Tensor& b) noexcept;

}  // namespace facula::nn
