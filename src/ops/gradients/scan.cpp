// The gradients of scans.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"

namespace facula::vjp {

namespace {

Tensor sums_from_end(const Tensor& t, int64_t dim) { return t.flip(dim).cumsum(dim).flip(dim); }

}  // namespace

Tensor cumsum_self(const Tensor& grad, int64_t dim) {
  return grad.dim() == 0 || grad.size(dim) <= 1 ? grad : sums_from_end(grad, dim);
}

// The sum over k >= i of g[k] times the product of x[0] ... x[k] without x[i].
Tensor cumprod_self(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (grad.dim() == 0 || grad.numel() == 0) return grad;
  const bool complex = result.is_complex();
  const Tensor same = self.to(result.scalar_type());
  const Tensor x = complex ? same.conj() : same;
  const int64_t d = wrapped(dim, grad.sizes().size()), n = x.size(d);
  if (watched(grad, self)) {
    // The product before i, times s[i] = g[i] + x[i + 1] s[i + 1]: without division, so that derivatives hold at zeros too.
    const Tensor one = facula::ones_like(x.narrow(d, 0, 1));
    const Tensor before = facula::cat({one, x.narrow(d, 0, n - 1)}, d).cumprod(d);
    return before * recurrence_from_end(grad, padded(x, d, -1, 1), d);
  }
  // Before the first zero the full products can be divided by x[i]; at the first zero the products are those of the others; after
  // it nothing matters.
  const Tensor zero = x == 0, zeros = zero.cumsum(d);
  const Tensor first = zero.logical_and(zeros == 1);
  const Tensor skipped = facula::where(first, 1, x);
  const Tensor ahead = sums_from_end(grad * (complex ? result.conj() : result), d) / facula::where(zero, 1, x);
  const Tensor at_first = sums_from_end(grad * skipped.cumprod(d), d);
  return facula::where(zeros == 0, ahead, facula::where(first, at_first, 0));
}

Tensor cummax_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim) {
  if (!grads[0].defined() || self_sizes.empty()) return grads[0];
  return scattered(self_sizes, dim, indices, grads[0], true);
}
Tensor cummin_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim) {
  return cummax_self(grads, self_sizes, indices, dim);
}

// exp(x[i] - y[i]) s[i] with s[i] = g[i] + exp(y[i] - y[i + 1]) s[i + 1]. As y never falls, no exponential exceeds 1.
Tensor logcumsumexp_self(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (grad.numel() == 0) return grad;
  // Where all so far is -inf, the weights are 0 rather than the exponential of -inf + inf.
  const Tensor y = facula::where(result.isneginf(), 0, result);
  if (grad.dim() == 0) return grad * (self - y).exp();
  const int64_t d = wrapped(dim, grad.sizes().size());
  const int64_t n = grad.size(d);
  const Tensor fall =
      formula([](auto a, auto b) { return exp(a - b); }, result.narrow(d, 0, n - 1), y.narrow(d, 1, n - 1));
  return formula([](auto s, auto x, auto y1) { return s * exp(x - y1); },
                 recurrence_from_end(grad, padded(fall, d, 0, 1), d), self, y);
}

}  // namespace facula::vjp
