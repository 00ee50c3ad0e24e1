// The gradients of losses.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"

#include <facula/reduction.h>

namespace facula::vjp {

namespace {

// What a mean divides by.
double divisor(IntArrayRef sizes, int64_t reduction) {
  return reduction == Reduction::Mean ? reduced_entries(sizes, {}) : 1.0;
}

double divisor(const Tensor& self, const Tensor& target, int64_t reduction) {
  return divisor(broadcast_sizes(self.sizes(), target.sizes(), "loss"), reduction);
}

// A loss of the difference pulls both sides with the same force.
std::array<Tensor, 2> both_sides(std::array<bool, 2> needs, const Tensor& pull) {
  return {needs[0] ? pull : Tensor(), needs[1] ? -pull : Tensor()};
}

}  // namespace

std::array<Tensor, 2> mse_loss(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self, const Tensor& target,
                               int64_t reduction) {
  return both_sides(needs, formula([](auto g, auto x, auto y, auto scale) { return (x - y) * (g * scale); }, grad, self,
                                   target, 2.0 / divisor(self, target, reduction)));
}

std::array<Tensor, 2> l1_loss(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self, const Tensor& target,
                              int64_t reduction) {
  return both_sides(needs, formula([](auto g, auto x, auto y, auto scale) { return sgn(x - y) * (g * scale); }, grad,
                                   self, target, 1.0 / divisor(self, target, reduction)));
}

std::array<Tensor, 2> smooth_l1_loss(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self,
                                     const Tensor& target, int64_t reduction, double beta) {
  if (beta == 0) return l1_loss(needs, grad, self, target, reduction);
  return both_sides(needs, formula(
                               [](auto g, auto x, auto y, auto scale, auto bound) {
                                 const auto z = x - y;
                                 return where(abs(z) < bound, z / bound, sgn(z)) * (g * scale);
                               },
                               grad, self, target, 1.0 / divisor(self, target, reduction), beta));
}

std::array<Tensor, 2> huber_loss(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self,
                                 const Tensor& target, int64_t reduction, double delta) {
  return both_sides(needs, formula(
                               [](auto g, auto x, auto y, auto scale, auto bound) {
                                 const auto z = x - y;
                                 return where(abs(z) < bound, z, sgn(z) * bound) * (g * scale);
                               },
                               grad, self, target, 1.0 / divisor(self, target, reduction), delta));
}

// The loss is w (p y softplus(-x) + (1 - y) softplus(x)).
std::array<Tensor, 4> binary_cross_entropy_with_logits(std::array<bool, 4> needs, const Tensor& grad,
                                                       const Tensor& self, const Tensor& target,
                                                       const std::optional<Tensor>& weight,
                                                       const std::optional<Tensor>& pos_weight, int64_t reduction) {
  std::array<Tensor, 4> result;
  const bool weighted = weight && weight->defined(), pos_weighted = pos_weight && pos_weight->defined();
  DimVector sizes(self.sizes());
  if (weighted) sizes = broadcast_sizes(sizes, weight->sizes(), "loss");
  if (pos_weighted) sizes = broadcast_sizes(sizes, pos_weight->sizes(), "loss");
  const double scale = 1.0 / divisor(sizes, reduction);
  const Tensor g = weighted ? grad * *weight : grad;
  if (needs[0]) {
    result[0] = pos_weighted ? formula(
                                   [](auto g1, auto x, auto y, auto p, auto k) {
                                     const auto positive = p * y;
                                     return (sigmoid(x) * (1.0 - y + positive) - positive) * (g1 * k);
                                   },
                                   g, self, target, *pos_weight, scale)
                             : formula([](auto g1, auto x, auto y, auto k) { return (sigmoid(x) - y) * (g1 * k); }, g,
                                       self, target, scale);
  }
  if (needs[1] && !pos_weighted) {
    // softplus(-x) - softplus(x) = -x
    result[1] = formula([](auto g1, auto x, auto k) { return -x * (g1 * k); }, g, self, scale);
  }
  const bool terms = needs[2] || needs[3] || (needs[1] && pos_weighted);
  if (!terms) return result;
  Tensor if_true = -facula::log_sigmoid(self);
  const Tensor if_false = -facula::log_sigmoid(-self);
  if (needs[3]) result[3] = g * scale * target * if_true;
  if (pos_weighted) if_true = if_true * *pos_weight;
  if (needs[1] && pos_weighted) result[1] = g * scale * (if_true - if_false);
  if (needs[2]) result[2] = grad * scale * (target * if_true + (1 - target) * if_false);
  return result;
}

Tensor nll_loss_self(const Tensor& grad, IntArrayRef self_sizes, const Tensor& target,
                     const std::optional<Tensor>& weight, int64_t reduction, int64_t ignore_index) {
  if (target.numel() == 0) return grad.new_zeros(self_sizes);
  const int64_t classes = self_sizes.size() == 1 ? 0 : 1;
  const Tensor labels = target.to(kLong), ignored = labels == ignore_index;
  const Tensor index = labels.masked_fill(ignored, 0);
  Tensor share, total;
  if (weight && weight->defined()) {
    share = weight->index_select(0, index.reshape({-1})).reshape(index.sizes()).masked_fill(ignored, 0);
    total = share.sum();
  } else {
    const Tensor counted = ignored.logical_not();
    share = counted.to(grad.scalar_type());
    total = counted.sum();
  }
  const Tensor g = reduction == Reduction::Mean ? grad / total : grad;
  return scattered(self_sizes, classes, index.unsqueeze(classes), (share * -g).unsqueeze(classes), false);
}

}  // namespace facula::vjp
