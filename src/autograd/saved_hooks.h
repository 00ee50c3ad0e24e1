// The pair of functions that SavedTensorHooks puts around saved tensors.
#pragma once

#include <facula/autograd/autograd.h>

namespace facula::autograd {

struct PackHooks {
  std::function<SavedTensorHooks::Packed(const Tensor&)> pack;
  std::function<Tensor(const SavedTensorHooks::Packed&)> unpack;
};

// What pack gave, with the functions that know how to undo it.
struct PackedTensor {
  SavedTensorHooks::Packed packed;
  std::shared_ptr<const PackHooks> hooks;
};

}  // namespace facula::autograd
