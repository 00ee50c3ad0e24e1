// The gradients of reductions.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"
#include "ops/gradients/pieces.h"

#include <algorithm>
#include <cmath>

namespace facula::vjp {

Tensor sum_self(const Tensor& grad, IntArrayRef self_sizes) { return grad.expand(self_sizes); }
Tensor sum_self(const Tensor& grad, IntArrayRef self_sizes, OptionalIntArrayRef dim, bool keepdim) {
  return restored(grad, self_sizes, dim, keepdim).expand(self_sizes);
}

Tensor mean_self(const Tensor& grad, IntArrayRef self_sizes) {
  return (grad / reduced_entries(self_sizes, {})).expand(self_sizes);
}
Tensor mean_self(const Tensor& grad, IntArrayRef self_sizes, OptionalIntArrayRef dim, bool keepdim) {
  return (restored(grad, self_sizes, dim, keepdim) / reduced_entries(self_sizes, dim)).expand(self_sizes);
}

Tensor nansum_self(const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim, bool keepdim) {
  return facula::where(self.isnan(), 0, restored(grad, self.sizes(), dim, keepdim));
}

Tensor nanmean_self(const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim, bool keepdim) {
  const Tensor missing = self.isnan();
  const Tensor count = missing.logical_not().sum(dim, true);
  return facula::where(missing, 0, restored(grad, self.sizes(), dim, keepdim) / count);
}

namespace {

// For each entry the product of the others along `dim`. Zeros are counted rather than divided by: with one of them only its own
// place has a product, with more none. That holds for the values, not for their derivatives; those take running products
// from both ends.
Tensor product_of_others(const Tensor& x, int64_t dim) {
  if (!watched(x)) {
    const Tensor zero = x == 0;
    const Tensor zeros = zero.sum(dim, true), rest = facula::where(zero, 1, x);
    const Tensor product = rest.prod(dim, true);
    const Tensor alone = facula::where(zero.logical_and(zeros == 1), product, 0);
    return facula::where(zeros == 0, product / rest, alone);
  }
  const int64_t n = x.size(dim);
  if (n == 0) return x;
  const Tensor one = facula::ones_like(x.narrow(dim, 0, 1));
  const Tensor before = facula::cat({one, x.narrow(dim, 0, n - 1)}, dim).cumprod(dim);
  const Tensor after = facula::cat({one, x.narrow(dim, 1, n - 1).flip(dim)}, dim).cumprod(dim).flip(dim);
  return before * after;
}

}  // namespace

Tensor prod_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  if (self.dim() == 0) return grad;
  const Tensor x = self.to(result.scalar_type()).reshape({-1});
  return (grad * conjugate(product_of_others(x, 0))).reshape(self.sizes());
}
Tensor prod_self(const Tensor& grad, const Tensor& self, int64_t dim, bool keepdim, const Tensor& result) {
  if (self.dim() == 0) return grad;
  const int64_t d = wrapped(dim, self.sizes().size());
  const Tensor x = self.to(result.scalar_type());
  return restored(grad, self.sizes(), d, keepdim) * conjugate(product_of_others(x, d));
}

namespace {

// Entries that are equal to the result share its gradient.
Tensor shared_among_equals(const Tensor& grad, const Tensor& self, const Tensor& result, OptionalIntArrayRef dim,
                           bool keepdim) {
  const Tensor g = restored(grad, self.sizes(), dim, keepdim), y = restored(result, self.sizes(), dim, keepdim);
  const Tensor count = self.eq(y).sum(dim, true).to(grad.scalar_type());
  return formula([](auto g1, auto x, auto y1, auto n) { return where(x == y1, g1 / n, 0.0); }, g, self, y, count);
}

}  // namespace

Tensor amax_self(const Tensor& grad, const Tensor& self, const Tensor& result, IntArrayRef dim, bool keepdim) {
  return shared_among_equals(grad, self, result, dim, keepdim);
}
Tensor amin_self(const Tensor& grad, const Tensor& self, const Tensor& result, IntArrayRef dim, bool keepdim) {
  return shared_among_equals(grad, self, result, dim, keepdim);
}
Tensor aminmax_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& min, const Tensor& max,
                    std::optional<int64_t> dim, bool keepdim) {
  const OptionalIntArrayRef dims = dim ? OptionalIntArrayRef(*dim) : OptionalIntArrayRef();
  Tensor low, high;
  if (grads[0].defined()) low = shared_among_equals(grads[0], self, min, dims, keepdim);
  if (grads[1].defined()) high = shared_among_equals(grads[1], self, max, dims, keepdim);
  if (!low.defined()) return high;
  return high.defined() ? low + high : low;
}

Tensor max_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return shared_among_equals(grad, self, result, {}, false);
}
Tensor max_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim, bool keepdim) {
  return chosen_one(grads, self_sizes, indices, dim, keepdim);
}
std::array<Tensor, 2> max(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self, const Tensor& other) {
  return {needs[0] ? maximum_self(grad, self, other) : Tensor(),
          needs[1] ? maximum_other(grad, self, other) : Tensor()};
}

Tensor min_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return shared_among_equals(grad, self, result, {}, false);
}
Tensor min_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim, bool keepdim) {
  return chosen_one(grads, self_sizes, indices, dim, keepdim);
}
std::array<Tensor, 2> min(std::array<bool, 2> needs, const Tensor& grad, const Tensor& self, const Tensor& other) {
  return {needs[0] ? minimum_self(grad, self, other) : Tensor(),
          needs[1] ? minimum_other(grad, self, other) : Tensor()};
}

Tensor median_self(const Tensor& grad, const Tensor& self, const Tensor& result) {
  return shared_among_equals(grad, self, result, {}, false);
}
Tensor median_self(ArrayRef<Tensor> grads, IntArrayRef self_sizes, const Tensor& indices, int64_t dim, bool keepdim) {
  return chosen_one(grads, self_sizes, indices, dim, keepdim);
}

// Variance and deviation.

namespace {

double correction_of(const std::optional<Scalar>& correction) { return correction ? correction->toDouble() : 1.0; }

double divisor(const Tensor& self, OptionalIntArrayRef dim, double correction) {
  return std::max(0.0, reduced_entries(self.sizes(), dim) - correction);
}

Tensor var_over(const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim, double correction, bool keepdim) {
  return formula([](auto g, auto x, auto m, auto scale) { return g * ((x - m) * scale); },
                 restored(grad, self.sizes(), dim, keepdim), self, self.mean(dim, true),
                 2.0 / divisor(self, dim, correction));
}

Tensor std_over(const Tensor& grad, const Tensor& self, const Tensor& result, OptionalIntArrayRef dim,
                double correction, bool keepdim) {
  const Tensor scaled =
      formula([](auto g, auto s, auto scale) { return where(s == 0.0, 0.0, g * scale / where(s == 0.0, 1.0, s)); },
              grad, result, 1.0 / divisor(self, dim, correction));
  return formula([](auto g, auto x, auto m) { return g * (x - m); }, restored(scaled, self.sizes(), dim, keepdim), self,
                 self.mean(dim, true));
}

// The gradient of the first result, if any, with that of the mean.
Tensor with_mean(const Tensor& spread, const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim, bool keepdim) {
  if (!grad.defined()) return spread;
  const Tensor share = restored(grad, self.sizes(), dim, keepdim) / reduced_entries(self.sizes(), dim);
  return spread.defined() ? spread + share : share.expand(self.sizes());
}

Tensor std_mean_over(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& result, OptionalIntArrayRef dim,
                     double correction, bool keepdim) {
  const Tensor spread = grads[0].defined() ? std_over(grads[0], self, result, dim, correction, keepdim) : Tensor();
  return with_mean(spread, grads[1], self, dim, keepdim);
}

Tensor var_mean_over(ArrayRef<Tensor> grads, const Tensor& self, OptionalIntArrayRef dim, double correction,
                     bool keepdim) {
  const Tensor spread = grads[0].defined() ? var_over(grads[0], self, dim, correction, keepdim) : Tensor();
  return with_mean(spread, grads[1], self, dim, keepdim);
}

}  // namespace

Tensor std_self(const Tensor& grad, const Tensor& self, const Tensor& result, bool unbiased) {
  return std_over(grad, self, result, {}, unbiased, false);
}
Tensor std_self(const Tensor& grad, const Tensor& self, const Tensor& result, OptionalIntArrayRef dim, bool unbiased,
                bool keepdim) {
  return std_over(grad, self, result, dim, unbiased, keepdim);
}
Tensor std_self(const Tensor& grad, const Tensor& self, const Tensor& result, OptionalIntArrayRef dim,
                const std::optional<Scalar>& correction, bool keepdim) {
  return std_over(grad, self, result, dim, correction_of(correction), keepdim);
}
Tensor var_self(const Tensor& grad, const Tensor& self, bool unbiased) {
  return var_over(grad, self, {}, unbiased, false);
}
Tensor var_self(const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim) {
  return var_over(grad, self, dim, unbiased, keepdim);
}
Tensor var_self(const Tensor& grad, const Tensor& self, OptionalIntArrayRef dim,
                const std::optional<Scalar>& correction, bool keepdim) {
  return var_over(grad, self, dim, correction_of(correction), keepdim);
}
Tensor std_mean_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& result0, bool unbiased) {
  return std_mean_over(grads, self, result0, {}, unbiased, false);
}
Tensor std_mean_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& result0, OptionalIntArrayRef dim,
                     bool unbiased, bool keepdim) {
  return std_mean_over(grads, self, result0, dim, unbiased, keepdim);
}
Tensor std_mean_self(ArrayRef<Tensor> grads, const Tensor& self, const Tensor& result0, OptionalIntArrayRef dim,
                     const std::optional<Scalar>& correction, bool keepdim) {
  return std_mean_over(grads, self, result0, dim, correction_of(correction), keepdim);
}
Tensor var_mean_self(ArrayRef<Tensor> grads, const Tensor& self, bool unbiased) {
  return var_mean_over(grads, self, {}, unbiased, false);
}
Tensor var_mean_self(ArrayRef<Tensor> grads, const Tensor& self, OptionalIntArrayRef dim, bool unbiased, bool keepdim) {
  return var_mean_over(grads, self, dim, unbiased, keepdim);
}
Tensor var_mean_self(ArrayRef<Tensor> grads, const Tensor& self, OptionalIntArrayRef dim,
                     const std::optional<Scalar>& correction, bool keepdim) {
  return var_mean_over(grads, self, dim, correction_of(correction), keepdim);
}

// Norms.

namespace {

// With n the norm: sgn(x) (|x| / n)^(p - 1), which is 0 where x or n is.
Tensor norm_over(const Tensor& grad, const Tensor& self, const Tensor& result, double p, OptionalIntArrayRef dim,
                 bool keepdim) {
  const Tensor g = restored(grad, self.sizes(), dim, keepdim), n = restored(result, self.sizes(), dim, keepdim);
  if (p == 0) return {};  // a count does not change
  if (p == 1) return g * self.sgn();
  if (p == 2) {
    const Tensor scaled =
        formula([](auto g1, auto n1) { return where(n1 == 0.0, 0.0, g1 / where(n1 == 0.0, 1.0, n1)); }, g, n);
    return self * scaled;
  }
  if (std::isinf(p)) {
    const Tensor size = self.abs();
    return self.sgn() * shared_among_equals(grad, size, result, dim, keepdim);
  }
  if (self.is_complex()) {
    const Tensor size = self.abs(), zero = size == 0;
    const Tensor ratio = facula::where(zero, 1, size) / facula::where(n == 0, 1, n);
    return self.sgn() * facula::where(zero, 0, g * ratio.pow(p - 1));
  }
  return formula(
      [](auto g1, auto x, auto n1, auto power) {
        const auto ratio = where(x == 0.0, 1.0, abs(x)) / where(n1 == 0.0, 1.0, n1);
        return where(x == 0.0, 0.0, g1 * sgn(x) * pow(ratio, power));
      },
      g, self, n, p - 1);
}

double power_of(const std::optional<Scalar>& p) { return p ? p->toDouble() : 2.0; }

}  // namespace

Tensor norm_self(const Tensor& grad, const Tensor& self, const Tensor& result, const Scalar& p) {
  return norm_over(grad, self, result, p.toDouble(), {}, false);
}
Tensor norm_self(const Tensor& grad, const Tensor& self, const Tensor& result, const std::optional<Scalar>& p) {
  return norm_over(grad, self, result, power_of(p), {}, false);
}
Tensor norm_self(const Tensor& grad, const Tensor& self, const Tensor& result, const std::optional<Scalar>& p,
                 IntArrayRef dim, bool keepdim) {
  return norm_over(grad, self, result, power_of(p), dim, keepdim);
}

Tensor logsumexp_self(const Tensor& grad, const Tensor& self, const Tensor& result, IntArrayRef dim, bool keepdim) {
  // Where every entry is -inf, so is the result; each has a derivative of 0.
  const Tensor y = facula::where(result.isneginf(), 0, result);
  return formula([](auto g, auto x, auto y1) { return g * exp(x - y1); }, restored(grad, self.sizes(), dim, keepdim),
                 self, restored(y, self.sizes(), dim, keepdim));
}

}  // namespace facula::vjp
