// Initial values for parameters. Each function writes to the tensor without recording it, and gives it back.
#pragma once

#include <facula/core/scalar.h>
#include <facula/nn/enum.h>
#include <facula/tensor.h>

#include <cstdint>
#include <tuple>

namespace facula::nn::init {

using NonlinearityType = Choice<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D,
                                enumtype::kConvTranspose1D, enumtype::kConvTranspose2D, enumtype::kConvTranspose3D,
                                enumtype::kSigmoid, enumtype::kTanh, enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = Choice<enumtype::kFanIn, enumtype::kFanOut>;

// By how much a nonlinearity shrinks what passes through it, so that weights can make up for it. `param` is the slope of
// kLeakyReLU.
FACULA_API double calculate_gain(NonlinearityType nonlinearity, double param = 0.01);

FACULA_API Tensor constant_(Tensor tensor, const Scalar& value);
FACULA_API Tensor ones_(Tensor tensor);
FACULA_API Tensor zeros_(Tensor tensor);
FACULA_API Tensor uniform_(Tensor tensor, double low = 0, double high = 1);
FACULA_API Tensor normal_(Tensor tensor, double mean = 0, double std = 1);
// Normal numbers, drawn again where they lie outside of [low, high].
FACULA_API Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double low = -2, double high = 2);

// The unit matrix.
FACULA_API Tensor eye_(Tensor matrix);
// Filters that give back their input, for as many channels as there are.
FACULA_API Tensor dirac_(Tensor tensor, int64_t groups = 1);
// Rows or columns, whichever are fewer, that are orthogonal and of length `gain`.
FACULA_API Tensor orthogonal_(Tensor tensor, double gain = 1.0);
// Normal numbers, and zeros for the share `sparsity` of each column.
FACULA_API Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01);

// Weights that keep the size of what passes forward (kFanIn) or backward (kFanOut).
FACULA_API Tensor kaiming_uniform_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                   NonlinearityType nonlinearity = kLeakyReLU);
FACULA_API Tensor kaiming_normal_(Tensor tensor, double a = 0, FanModeType mode = kFanIn,
                                  NonlinearityType nonlinearity = kLeakyReLU);
// Weights that balance both.
FACULA_API Tensor xavier_uniform_(Tensor tensor, double gain = 1.0);
FACULA_API Tensor xavier_normal_(Tensor tensor, double gain = 1.0);

// How many inputs an output has, and how many outputs an input has.
FACULA_API std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor);

// How biases begin: uniform within 1 / sqrt(count), where `count` is a number or the inputs that an output of `weight` has.
FACULA_API Tensor uniform_by_(Tensor tensor, int64_t count);
FACULA_API Tensor fan_in_uniform_(Tensor tensor, const Tensor& weight);

}  // namespace facula::nn::init
