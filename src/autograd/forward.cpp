// Levels of forward mode as users see them.
#include "autograd/call.h"

#include <facula/autograd/forward.h>
#include <facula/tensors.h>

namespace facula::autograd {

DualLevel::DualLevel() : level_(open_level()) {}
DualLevel::~DualLevel() { close_level(level_); }

Tensor DualLevel::make_dual(const Tensor& primal, const Tensor& tangent) const {
  FACULA_CHECK(primal.defined() && tangent.defined(), ValueError,
               "make_dual: primal and tangent must be defined tensors");
  FACULA_CHECK(isDifferentiableType(primal.scalar_type()), DTypeError,
               "make_dual: only tensors of floating point and complex dtype have tangents, this one is ",
               toString(primal.scalar_type()), "; convert it to float32 first");
  FACULA_CHECK(primal.sizes() == tangent.sizes(), ShapeError, "make_dual: the tangent is ", to_text(tangent.sizes()),
               " for a primal of ", to_text(primal.sizes()), "; they must be the same");
  FACULA_CHECK(primal.scalar_type() == tangent.scalar_type(), DTypeError, "make_dual: the tangent is ",
               toString(tangent.scalar_type()), " for a primal of ", toString(primal.scalar_type()),
               "; convert it with .to(...)");
  FACULA_CHECK(!tangent_of(primal, level_).defined(), ValueError,
               "make_dual: the tensor has a tangent of this level already; unpack_dual gives it without");
  const Tensor dual = primal.alias();
  set_tangent(dual, level_, tangent);
  return dual;
}

std::pair<Tensor, Tensor> DualLevel::unpack_dual(const Tensor& dual) const {
  FACULA_CHECK(dual.defined(), ValueError, "unpack_dual: the tensor is undefined");
  const Tensor tangent = tangent_of(dual, level_);
  if (!tangent.defined()) return {dual, tangent};
  const Tensor primal = dual.alias();
  Tape& tape = *tape_of(primal);
  // The alias has a list of its own; this level leaves it.
  std::erase_if(tape.tangents->all, [&](const auto& one) { return one.level == level_; });
  return {primal, tangent};
}

}  // namespace facula::autograd
