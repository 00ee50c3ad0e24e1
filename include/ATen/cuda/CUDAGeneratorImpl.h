// Forwards to Facula. Generators are made by at::cuda::detail::createCUDAGenerator; what kernels need of them is not public.
#pragma once

#include <torch/torch.h>
