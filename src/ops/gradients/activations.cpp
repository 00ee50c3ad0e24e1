// Gradients of the activations of neural networks. At a kink the slope is the one that libtorch takes.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

#include <numbers>

namespace facula::vjp {

Tensor sigmoid_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return g * conjugate(y * (1.0 - y)); }, grad, result);
}
Tensor log_sigmoid_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return g * sigmoid(-x); }, grad, self);
}
Tensor silu_self(const Tensor& grad, const Tensor& self) {
  return formula(
      [](auto g, auto x) {
        const auto s = sigmoid(x);
        return g * conjugate(s * (1.0 + x * (1.0 - s)));
      },
      grad, self);
}
// x w with w = tanh(log(1 + e^x)). In s = sigmoid(x) and r = 1 - s, w is s (1 + r) / (1 + r^2) and its derivative
// 4 s (r / (1 + r^2))^2: nothing overflows or cancels.
Tensor mish_self(const Tensor& grad, const Tensor& self) {
  return formula(
      [](auto g, auto x) {
        const auto s = sigmoid(x), r = 1.0 - s, below = 1.0 + r * r, part = r / below;
        return g * (s * ((1.0 + r) / below + x * 4.0 * (part * part)));
      },
      grad, self);
}
Tensor softplus_self(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold) {
  return formula(
      [](auto g, auto x, auto b, auto bound) {
        const auto t = x * b;
        return where(t > bound, g, g * sigmoid(t));
      },
      grad, self, beta.toDouble(), threshold.toDouble());
}

// The distribution function of the normal distribution and x times its density; erfc keeps the digits of the lower
// tail.
Tensor gelu_self(const Tensor& grad, const Tensor& self, std::string_view approximate) {
  if (approximate == "none") {
    return formula(
        [](auto g, auto x) {
          constexpr double kSqrtHalf = std::numbers::sqrt2 / 2, kDensity = std::numbers::inv_sqrtpi * kSqrtHalf;
          return g * (erfc(x * -kSqrtHalf) * 0.5 + x * (exp(x * x * -0.5) * kDensity));
        },
        grad, self);
  }
  // x s with s = sigmoid(u), u = x (a + b x^2). From 20 on s is 0 or 1, and powers of x may not overflow.
  return formula(
      [](auto g, auto x) {
        constexpr double a = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, b = 0.044715 * a;
        const auto c = clamp(x, -20.0, 20.0), q = c * c, s = sigmoid(c * (a + b * q));
        return g * (s + s * (1.0 - s) * (c * (a + (3 * b) * q)));
      },
      grad, self);
}

Tensor relu_self(const Tensor& grad, const Tensor& result) {
  return formula([](auto g, auto y) { return where(y <= 0.0, 0.0, g); }, grad, result);
}
Tensor leaky_relu_self(const Tensor& grad, const Tensor& self, const Scalar& negative_slope) {
  return formula([](auto g, auto x, auto slope) { return where(x > 0.0, g, g * slope); }, grad, self,
                 negative_slope.toDouble());
}
Tensor threshold_self(const Tensor& grad, const Tensor& self, const Scalar& threshold) {
  return formula([](auto g, auto x, auto bound) { return where(x <= bound, 0.0, g); }, grad, self,
                 threshold.toDouble());
}

namespace {

// `above` for positive x, else `below` times e^(scale x), in which positive x are never seen.
Tensor exponential_unit(const Tensor& grad, const Tensor& self, double above, double below, double scale) {
  return formula(
      [](auto g, auto x, auto upper, auto lower, auto factor) {
        const auto positive = x > 0.0;
        return where(positive, g * upper, g * (exp(where(positive, 0.0, x) * factor) * lower));
      },
      grad, self, above, below, scale);
}

// The gradient strictly between two bounds.
Tensor between(const Tensor& grad, const Tensor& self, double low, double high, double slope) {
  return formula([](auto g, auto x, auto from, auto to,
                    auto factor) { return where(logical_or(x <= from, x >= to), 0.0, g * factor); },
                 grad, self, low, high, slope);
}
Tensor between(const Tensor& grad, const Tensor& self, double low, double high) {
  return formula([](auto g, auto x, auto from, auto to) { return where(logical_or(x <= from, x >= to), 0.0, g); }, grad,
                 self, low, high);
}

// The gradient outside of two bounds.
Tensor beyond(const Tensor& grad, const Tensor& self, double bound) {
  return formula([](auto g, auto x, auto low, auto high) { return where(logical_and(x >= low, x <= high), 0.0, g); },
                 grad, self, -bound, bound);
}

}  // namespace

Tensor elu_self(const Tensor& grad, const Tensor& self, const Scalar& alpha, const Scalar& scale,
                const Scalar& input_scale) {
  const double a = alpha.toDouble(), s = scale.toDouble(), i = input_scale.toDouble();
  return exponential_unit(grad, self, s, s * a * i, i);
}
Tensor selu_self(const Tensor& grad, const Tensor& self) {
  return exponential_unit(grad, self, 1.0507009873554804934, 1.7580993408473768600, 1.0);
}
Tensor celu_self(const Tensor& grad, const Tensor& self, const Scalar& alpha) {
  return exponential_unit(grad, self, 1.0, 1.0, 1 / alpha.toDouble());
}

Tensor relu6_self(const Tensor& grad, const Tensor& self) { return between(grad, self, 0.0, 6.0); }
Tensor hardtanh_self(const Tensor& grad, const Tensor& self, const Scalar& min_val, const Scalar& max_val) {
  return between(grad, self, min_val.toDouble(), max_val.toDouble());
}
Tensor hardsigmoid_self(const Tensor& grad, const Tensor& self) { return between(grad, self, -3.0, 3.0, 1.0 / 6); }
Tensor hardswish_self(const Tensor& grad, const Tensor& self) {
  return formula([](auto g, auto x) { return where(x <= -3.0, 0.0, where(x >= 3.0, g, g * (x * (1.0 / 3) + 0.5))); },
                 grad, self);
}

Tensor hardshrink_self(const Tensor& grad, const Tensor& self, const Scalar& lambd) {
  return beyond(grad, self, lambd.toDouble());
}
Tensor softshrink_self(const Tensor& grad, const Tensor& self, const Scalar& lambd) {
  return beyond(grad, self, lambd.toDouble());
}

}  // namespace facula::vjp
