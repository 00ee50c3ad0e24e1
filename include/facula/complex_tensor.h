// `complex(real, imag)` for tensors. The name belongs to the number type complex<T>, and a function cannot share it with a
// class template, so the call constructs this specialisation: a Tensor that knows how to be made of two parts.
#pragma once

#include <facula/core/number_types.h>
#include <facula/generated/functions.h>

namespace facula {

template <>
struct complex<Tensor> : Tensor {
  complex(const Tensor& real_part, const Tensor& imag_part) : Tensor(complex_tensor(real_part, imag_part)) {}
};

}  // namespace facula
