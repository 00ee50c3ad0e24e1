// Activations that are made of other ops, and the forms of dropout that treat whole channels or keep the statistics of selu.
#include "ops/shape_checks.h"

#include <cmath>

namespace facula::meaning {

Tensor glu(const Tensor& self, int64_t dim) {
  const TensorImpl& x = impl_of(self, "glu");
  FACULA_CHECK(x.dim() > 0, ShapeError, "glu: does not support 0-dimensional tensors");
  const int64_t d = wrap_dim(dim, x.dim(), "glu"), size = x.sizes[usize(d)];
  FACULA_CHECK(size % 2 == 0, ShapeError, "glu: Halving dimension must be even, but dimension ", d, " is size ", size);
  return self.narrow(d, 0, size / 2) * self.narrow(d, size / 2, size / 2).sigmoid();
}

Tensor prelu(const Tensor& self, const Tensor& weight) {
  const TensorImpl &x = impl_of(self, "prelu"), &w = impl_of(weight, "prelu");
  FACULA_CHECK(w.dim() <= 1, ShapeError,
               "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", w.dim());
  FACULA_CHECK(x.dtype == w.dtype, DTypeError, "prelu: Type promoting not supported. Got ", toString(x.dtype), " and ",
               toString(w.dtype), "; convert one with .to(dtype)");
  same_device({&self, &weight}, "prelu");
  Tensor slope = weight;
  if (w.numel != 1) {
    FACULA_CHECK(x.dim() > 0, ShapeError, "prelu: Not allow zero-dim input tensor with ", w.numel, " weights");
    const int64_t channels = x.dim() > 1 ? x.sizes[1] : 1;
    FACULA_CHECK(w.numel == channels, ShapeError,
                 "prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = ", w.numel,
                 " and channel size = ", channels, ".");
    DimVector along(x.sizes.size(), 1);
    along[1] = channels;
    slope = weight.view(along);
  } else if (w.dim() == 1) {
    slope = weight.view(IntArrayRef());
  }
  return facula::where(self > 0, self, slope * self);
}

namespace {

void check_probability(double p, const char* op) {
  FACULA_CHECK(p >= 0 && p <= 1, ValueError, op, ": dropout probability has to be between 0 and 1, but got ", p);
}

// Ones and zeros, 0 with probability p, for whole channels of samples.
Tensor kept_channels(const Tensor& input, double p, const char* op) {
  FACULA_CHECK(input.dim() >= 2, ShapeError, op, ": Feature dropout requires at least 2 dimensions in the input, got ",
               to_text(input.sizes()));
  DimVector sizes(input.sizes().size(), 1);
  sizes[0] = input.size(0);
  sizes[1] = input.size(1);
  // One entry of each channel, so that a batch of inputs is a batch here as well.
  const Tensor channels = input.detach().reshape({sizes[0], sizes[1], -1}).select(2, 0);
  return facula::bernoulli(channels, 1 - p).reshape(sizes);
}

// Where `kept` is 0 the entry becomes the lower bound of selu; the affine map restores mean 0 and variance 1.
Tensor alpha_dropped(const Tensor& input, const Tensor& kept, double p) {
  constexpr double kBound = 1.7580993408473766;
  const double a = 1 / std::sqrt((kBound * kBound * p + 1) * (1 - p));
  return input * (kept * a) + ((kept - 1) * (kBound * a) + kBound * a * p);
}

}  // namespace

Tensor feature_dropout(const Tensor& input, double p, bool train) {
  impl_of(input, "feature_dropout");
  check_probability(p, "feature_dropout");
  if (!train || p == 0 || input.numel() == 0) return input;
  const Tensor kept = kept_channels(input, p, "feature_dropout");
  return p == 1 ? input * kept : input * (kept * (1 / (1 - p)));
}

Tensor alpha_dropout(const Tensor& input, double p, bool train) {
  impl_of(input, "alpha_dropout");
  check_probability(p, "alpha_dropout");
  if (!train || p == 0 || input.numel() == 0) return input;
  if (p == 1) return input * 0;
  return alpha_dropped(input, facula::empty_like(input).detach().bernoulli_(1 - p), p);
}

Tensor feature_alpha_dropout(const Tensor& input, double p, bool train) {
  impl_of(input, "feature_alpha_dropout");
  check_probability(p, "feature_alpha_dropout");
  if (!train || p == 0 || input.numel() == 0) return input;
  const Tensor kept = kept_channels(input, p, "feature_alpha_dropout");
  if (p == 1) return input * 0;
  return alpha_dropped(input, kept, p);
}

}  // namespace facula::meaning
