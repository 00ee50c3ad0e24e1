// The properties of derivatives that every op must have, run over the gradient cases of its record. As in
// record_properties.h, complaints are returned in words.
#pragma once

#include "cpp/case_file.h"

#include <string>
#include <vector>

namespace facula::testing {

// Flags of a case in a file NAME.gradients; tests/truth/case_file.py writes them.
enum GradientFlag : uint32_t {
  kDifferentiable = 1,
  kMayRefuse = 2,    // the op may refuse the dtype
  kSecondOrder = 4,  // the gradient can be differentiated
  kUnchecked = 8,    // differences do not show the derivative; that there is a gradient is still checked
  kFirstHeld = 256,  // the first float64 or complex128 tensor does not move; the next bits are about the next ones
};

struct GradientFindings {
  std::vector<std::string> complaints;
  bool compared = false;  // whether the case has shown a derivative
};

GradientFindings check_gradients(const std::string& op, const Case& one, uint64_t seed);
// The same cases over batches: what vmap computes is what a loop does.
std::vector<std::string> check_batches(const std::string& op, const Case& one, uint64_t seed);

}  // namespace facula::testing
