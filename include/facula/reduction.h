// How a loss folds its entries: the values that the `reduction` argument of the losses takes.
#pragma once

#include <cstdint>

namespace facula::Reduction {

enum Reduction : int64_t {
  None = 0,  // keep one loss per entry
  Mean = 1,  // average over the entries
  Sum = 2,   // add the entries
};

}  // namespace facula::Reduction
