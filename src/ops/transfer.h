// Values on their way from one device to another.
#pragma once

#include <facula/tensor.h>

namespace facula {

// Copies values between tensors of equal sizes of which at least one is on a GPU, with any strides and dtypes.
// `non_blocking`: the caller does not wait where the memory of the cpu is page-locked.
void transfer_values(const Tensor& target, const Tensor& source, bool non_blocking);

// Fills a tensor on a GPU with one element, given as its dtype has it in memory.
void fill_on_gpu(const Tensor& target, const void* element);

// What was made on the cpu, where it belongs: the tensor itself, or its copy on another device.
Tensor carried_to(Device device, const Tensor& made);

}  // namespace facula
