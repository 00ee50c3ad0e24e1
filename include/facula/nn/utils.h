// What training loops do to the parameters of a whole network: bound gradients, see all parameters as one vector.
#pragma once

#include <facula/tensor.h>

#include <vector>

namespace facula::nn::utils {

// Scales gradients down so that the norm of all of them together is at most `max_norm`. Gives back the norm that they had. With
// `error_if_nonfinite` a norm that is infinite or NaN is an error, and nothing is scaled.
FACULA_API double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2.0,
                                  bool error_if_nonfinite = false);
FACULA_API double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type = 2.0,
                                  bool error_if_nonfinite = false);

// Clamps each gradient to the range from -clip_value to clip_value.
FACULA_API void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
FACULA_API void clip_grad_value_(const Tensor& parameter, double clip_value);

// All parameters behind each other, and back: the slices of the vector become the contents of the parameters.
FACULA_API Tensor parameters_to_vector(const std::vector<Tensor>& parameters);
FACULA_API void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters);

}  // namespace facula::nn::utils
