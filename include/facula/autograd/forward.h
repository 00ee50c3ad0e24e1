// Forward mode: tensors that carry a tangent, and ops that carry it on.
#pragma once

#include <facula/tensor.h>

#include <utility>

namespace facula::autograd {

// A level of forward mode, open while it lives. Levels nest: a tangent may have tangents of outer levels.
class FACULA_API DualLevel {
 public:
  DualLevel();
  ~DualLevel();
  DualLevel(const DualLevel&) = delete;
  DualLevel& operator=(const DualLevel&) = delete;

  // A tensor with the elements of `primal` that moves in the direction `tangent`.
  Tensor make_dual(const Tensor& primal, const Tensor& tangent) const;
  // The tensor without its tangent of this level, and the tangent, undefined when it has none.
  std::pair<Tensor, Tensor> unpack_dual(const Tensor& dual) const;

 private:
  uint32_t level_;
};

}  // namespace facula::autograd
