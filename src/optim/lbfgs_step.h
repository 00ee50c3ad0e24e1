// One step of L-BFGS over a list of parameters. The classes of C++ and of Python keep the state and bring the closure.
#pragma once

#include <facula/optim/lbfgs.h>

namespace facula::optim {

// Gives the loss of the first call of the closure.
FACULA_API Tensor lbfgs_step(TensorList params, const LBFGSOptions& options, LBFGSParamState& state,
                             const Optimizer::LossClosure& closure);

}  // namespace facula::optim
