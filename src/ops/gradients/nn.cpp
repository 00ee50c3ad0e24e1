// The gradients of softmax, the normalisations and the distances; the first two are ops themselves (ops/nn_backward.cpp). Those of losses are in losses.cpp.
#include "autograd/engine.h"
#include "gpu/primitives/loss.h"
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"

#include <facula/reduction.h>

#include <algorithm>

namespace facula::vjp {

Tensor softmax_self(const Tensor& grad, const Tensor& result, int64_t dim) {
  return facula::_softmax_backward_data(grad, result, dim, result.scalar_type());
}

Tensor log_softmax_self(const Tensor& grad, const Tensor& result, int64_t dim) {
  return facula::_log_softmax_backward_data(grad, result, dim, result.scalar_type());
}

std::array<Tensor, 3> layer_norm(std::array<bool, 3> needs, const Tensor& grad, const Tensor& input,
                                 IntArrayRef normalized_shape, const std::optional<Tensor>& weight,
                                 const std::optional<Tensor>&, double eps) {
  if (!needs[0] && !needs[1]) return {Tensor(), Tensor(), needs[2] ? grad : Tensor()};
  const auto [grad_input, grad_weight, grad_bias] =
      facula::_layer_norm_backward(grad, input, normalized_shape, weight, eps);
  return {needs[0] ? grad_input : Tensor(), needs[1] ? grad_weight : Tensor(), needs[2] ? grad_bias : Tensor()};
}

std::array<Tensor, 2> rms_norm(std::array<bool, 2> needs, const Tensor& grad, const Tensor& input,
                               IntArrayRef normalized_shape, const std::optional<Tensor>& weight,
                               std::optional<double> eps) {
  const auto [grad_input, grad_weight] = facula::_rms_norm_backward(grad, input, normalized_shape, weight, eps);
  return {needs[0] ? grad_input : Tensor(), needs[1] ? grad_weight : Tensor()};
}

std::array<Tensor, 3> native_batch_norm(std::array<bool, 3> needs, ArrayRef<Tensor> grads, const Tensor& input,
                                        const std::optional<Tensor>& weight, const Tensor& save_mean,
                                        const Tensor& save_invstd, bool training) {
  std::array<Tensor, 3> result;
  if (grads[0].defined()) {
    const auto [grad_input, grad_weight, grad_bias] =
        facula::_batch_norm_backward(grads[0], input, weight, save_mean, save_invstd, training);
    result = {needs[0] ? grad_input : Tensor(), needs[1] ? grad_weight : Tensor(), needs[2] ? grad_bias : Tensor()};
  }
  if (!needs[0] || !training || (!grads[1].defined() && !grads[2].defined())) return result;
  // What mean and 1 / sqrt(variance + eps) themselves say about the input.
  DimVector along(input.sizes().size(), 1);
  along[1] = input.size(1);
  const double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  const auto add = [&](const Tensor& part) { result[0] = result[0].defined() ? result[0] + part : part; };
  if (grads[1].defined()) add((grads[1] / count).reshape(along).expand(input.sizes()).to(input.scalar_type()));
  if (grads[2].defined()) {
    const Tensor slope = (grads[2] * save_invstd.pow(3) / -count).reshape(along);
    add(((input.to(slope.scalar_type()) - save_mean.reshape(along)) * slope).to(input.scalar_type()));
  }
  return result;
}

Tensor _cross_entropy_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& target,
                           const std::optional<Tensor>& weight, const Tensor& logsumexp, const Tensor& total,
                           int64_t reduction, int64_t ignore_index, double label_smoothing) {
  Tensor result;
  if (grads[0].defined())
    result = facula::_cross_entropy_backward(grads[0], self, target, weight, logsumexp, total, reduction, ignore_index,
                                             label_smoothing);
  if (grads[1].defined()) {
    const Tensor part = self.softmax(1) * grads[1].to(self.scalar_type()).unsqueeze(1);
    result = result.defined() ? result + part : part;
  }
  return result;
}

Tensor _cross_entropy_with_slope_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& target,
                                      const std::optional<Tensor>& weight, const Tensor& logsumexp, const Tensor& total,
                                      const Tensor& slope, int64_t reduction, int64_t ignore_index,
                                      double label_smoothing) {
  const Tensor& grad = grads[0];
  Tensor result;
  if (grad.defined() && reduction != Reduction::None && !watched(grad, self, weight, logsumexp, total, slope) &&
      slope.is_cuda() && autograd::saved_is_freed_after() && slope.use_count() <= 2 &&
      slope.impl()->storage->use_count() == 1) {
    // Nobody will look at the slope again: there are the tape's handle and this one. Should backward fail after this, a
    // second try is told that it was changed.
    gpu::multiply_unless_one(slope, grad);
    slope.impl()->bump_version();
    result = slope;
    if (!grads[1].defined() && !grads[3].defined()) return result;
  }
  const Tensor first = result.defined() ? Tensor() : grad;
  const Tensor part = _cross_entropy_self({first, grads[1], grads[2]}, self, target, weight, logsumexp, total,
                                          reduction, ignore_index, label_smoothing);
  if (part.defined()) result = result.defined() ? result + part : part;
  if (!grads[3].defined()) return result;
  // The slope of a row is a multiple of its softmax, and something that does not depend on it.
  const ScalarType work = working_dtype(self.scalar_type());
  const Tensor counted = target.ne(ignore_index).to(work);
  Tensor factor = counted * (1 - label_smoothing);
  const bool weighted = weight && weight->defined();
  if (weighted) factor = factor * weight->to(work).index_select(0, target.masked_fill(target.eq(ignore_index), 0));
  if (label_smoothing != 0) {
    const Scalar spread = label_smoothing / static_cast<double>(self.size(1));
    factor = factor + (weighted ? counted * (weight->to(work).sum() * spread) : counted * label_smoothing);
  }
  if (reduction == Reduction::Mean) factor = factor / total.to(work);
  const Tensor p = (self.to(work) - logsumexp.to(work).unsqueeze(1)).exp(), along = grads[3].to(work) * p;
  const Tensor bent = ((along - p * along.sum(1, true)) * factor.unsqueeze(1)).to(self.scalar_type());
  return result.defined() ? result + bent : bent;
}

// With c = x1 . x2 / (n1 n2): x2 / (n1 n2) - x1 c / n1^2; the second part only where the length is not held at eps.
std::array<Tensor, 2> cosine_similarity(std::array<bool, 2> needs, const Tensor& grad, const Tensor& x1,
                                        const Tensor& x2, int64_t dim, double eps) {
  std::array<Tensor, 2> result;
  const DimVector sizes = broadcast_sizes(x1.sizes(), x2.sizes(), "cosine_similarity");
  const ScalarType work = working_dtype(grad.scalar_type());
  const int64_t d = wrapped(dim, sizes.size());
  const bool number = sizes.empty();
  const auto spread = [&](const Tensor& t) {
    const Tensor all = t.to(work).expand(sizes);
    return number ? all.unsqueeze(0) : all;
  };
  const Tensor a = spread(x1), b = spread(x2), g = grad.to(work).unsqueeze(d);
  const Tensor dot = (a * b).sum(d, true), length_a = a.norm(2, d, true), length_b = b.norm(2, d, true);
  const Tensor na = length_a.clamp_min(eps), nb = length_b.clamp_min(eps);
  const Tensor across = g / (na * nb), cosine = dot / (na * nb);
  const auto part = [&](const Tensor& x, const Tensor& other, const Tensor& length, const Tensor& n) {
    const Tensor along = facula::where(length >= eps, g * cosine / (n * n), 0);
    const Tensor all = formula([](auto x3, auto y, auto c, auto s) { return y * c - x3 * s; }, x, other, across, along);
    return number ? all.squeeze(0) : all;
  };
  if (needs[0]) result[0] = part(a, b, length_a, na);
  if (needs[1]) result[1] = part(b, a, length_b, nb);
  return result;
}

std::array<Tensor, 2> pairwise_distance(std::array<bool, 2> needs, const Tensor& grad, const Tensor& x1,
                                        const Tensor& x2, double p, double eps, bool keepdim) {
  std::array<Tensor, 2> result;
  const ScalarType work = grad.scalar_type();
  Tensor difference = x1.to(work) - x2.to(work) + eps;
  const bool number = difference.dim() == 0;
  if (number) difference = difference.unsqueeze(0);
  if (difference.size(-1) == 0 || p == 0) return result;
  const int64_t last = difference.dim() - 1;
  Tensor d =
      norm_self(grad, difference, difference.norm(p, last, keepdim && !number), Scalar(p), last, keepdim && !number);
  if (number) d = d.squeeze(0);
  if (needs[0]) result[0] = d;
  if (needs[1]) result[1] = -d;
  return result;
}

namespace {

// With w the gradient over the distance: the sum over j of w[i, j] (x[i] - y[j]), by one matrix product.
Tensor pulled_apart(const Tensor& w, const Tensor& x, const Tensor& y) { return x * w.sum(-1, true) - w.matmul(y); }

// Differences that are made at once hold about so many numbers.
constexpr int64_t kDifferences = int64_t{1} << 22;

}  // namespace

std::array<Tensor, 2> cdist(std::array<bool, 2> needs, const Tensor& grad, const Tensor& x1, const Tensor& x2, double p,
                            const Tensor& result) {
  std::array<Tensor, 2> found;
  const ScalarType work = grad.scalar_type();
  const Tensor a = x1.to(work), b = x2.to(work);
  const int64_t rows = a.size(-2), others = b.size(-2), columns = a.size(-1);
  if (grad.numel() == 0 || columns == 0 || p == 0) return found;
  if (p == 2 && (rows > 25 || others > 25)) {
    const Tensor w =
        formula([](auto g, auto y) { return where(y == 0.0, 0.0, g / where(y == 0.0, 1.0, y)); }, grad, result);
    if (needs[0]) found[0] = pulled_apart(w, a, b);
    if (needs[1]) found[1] = pulled_apart(w.transpose(-2, -1), b, a);
    return found;
  }
  // In stretches of rows, so that the differences of all rows need not exist at once.
  const int64_t per_row = grad.numel() / rows * columns;
  const int64_t step = std::max<int64_t>(1, kDifferences / per_row);
  std::vector<Tensor> of_rows;
  for (int64_t start = 0; start < rows; start += step) {
    const int64_t count = std::min(step, rows - start);
    const Tensor difference = a.narrow(-2, start, count).unsqueeze(-2) - b.unsqueeze(-3);
    const int64_t last = difference.dim() - 1;
    const Tensor d =
        norm_self(grad.narrow(-2, start, count), difference, result.narrow(-2, start, count), Scalar(p), last, false);
    if (needs[0]) of_rows.push_back(d.sum(-2));
    if (needs[1]) {
      const Tensor part = d.sum(-3);
      found[1] = found[1].defined() ? found[1] - part : -part;
    }
  }
  if (needs[0]) found[0] = of_rows.size() == 1 ? of_rows[0] : facula::cat(of_rows, -2);
  return found;
}

}  // namespace facula::vjp
