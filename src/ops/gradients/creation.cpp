// Gradients of the ops that make complex numbers of real ones.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

namespace facula::vjp {

Tensor complex_real(const Tensor& grad) { return real(grad); }
Tensor complex_imag(const Tensor& grad) { return imag(grad); }

// z = abs (cos + i sin): the part of the gradient that points along z, and the part that points along i z.
Tensor polar_abs(const Tensor& grad, const Tensor& angle) {
  return formula([](auto re, auto im, auto t) { return re * cos(t) + im * sin(t); }, real(grad), imag(grad), angle);
}
Tensor polar_angle(const Tensor& grad, const Tensor& result) {
  return formula([](auto re, auto im, auto x, auto y) { return im * x - re * y; }, real(grad), imag(grad), real(result),
                 imag(result));
}

}  // namespace facula::vjp
