// Cross entropy of classes, of probabilities, and the divergence of distributions. The losses of single numbers are in losses.cpp.
#include "autograd/autocast.h"
#include "autograd/call.h"
#include "ops/gradients/pieces.h"
#include "ops/nn_helpers.h"
#include "ops/shape_checks.h"

#include <facula/autograd/modes.h>
#include <facula/reduction.h>

namespace facula::meaning {
namespace {

void check_reduction(int64_t reduction, const char* op) {
  FACULA_CHECK(reduction >= Reduction::None && reduction <= Reduction::Sum, ValueError, op, ": ", reduction,
               " is not a valid value for reduction. Use Reduction::None, Reduction::Mean or Reduction::Sum");
}

void check_float(const Tensor& self, const char* op) {
  check_computed_float(impl_of(self, op).dtype, op, "Convert the input to float or double first");
}

Tensor folded(const Tensor& losses, int64_t reduction) {
  return reduction == Reduction::Mean ? losses.mean() : reduction == Reduction::Sum ? losses.sum() : losses;
}

// Of every row: its target as an index that can be looked up, whether it counts, and the weight of its class.
struct Targets {
  Tensor index, counted, share;
  Targets(const Tensor& target, const std::optional<Tensor>& weight, int64_t ignore_index, ScalarType work) {
    counted = target.ne(ignore_index);
    index = target.masked_fill(counted.logical_not(), 0);
    share = present(weight) ? weight->to(work).index_select(0, index) : facula::ones_like(index, work);
    share = share.masked_fill(counted.logical_not(), 0);
  }
};

const Tensor* weight_of(const std::optional<Tensor>& weight) { return weight ? &*weight : nullptr; }

void check_matrix(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight, const char* op) {
  check_float(self, op);
  const TensorImpl &x = *self.impl(), &y = impl_of(target, op);
  FACULA_CHECK(x.dim() == 2 && y.dim() == 1 && x.sizes[0] == y.sizes[0] && y.dtype == kLong, ShapeError, op,
               ": expected a matrix and one int64 class for each row, got ", to_text(IntArrayRef(x.sizes)), " and ",
               to_text(IntArrayRef(y.sizes)), " of ", toString(y.dtype));
  FACULA_CHECK(x.sizes[1] > 0 || x.sizes[0] == 0, ShapeError, op, ": the input has no classes");
  same_device({&self, &target, weight_of(weight)}, op);
  if (!present(weight)) return;
  FACULA_CHECK(weight->dim() == 1 && weight->size(0) == x.sizes[1], ShapeError, op, ": weight must have ", x.sizes[1],
               " entries, got ", to_text(weight->sizes()));
}

Tensor prepared(const std::optional<Tensor>& weight, ScalarType work) {
  return present(weight) ? as_contiguous(as_dtype(*weight, work)) : Tensor();
}

struct EntropyResults {
  Tensor loss, logsumexp, total;
  EntropyResults(const TensorImpl& x, int64_t reduction, std::optional<ScalarType> dtype, const char* op) {
    const ScalarType work = working_dtype(x.dtype), of_loss = dtype.value_or(x.dtype);
    FACULA_CHECK(of_loss == x.dtype || of_loss == work, DTypeError, op, ": the loss of a matrix of ", toString(x.dtype),
                 " can be of that dtype or of ", toString(work), ", not of ", toString(of_loss));
    const DimVector rows = {x.sizes[0]};
    loss = new_tensor(reduction == Reduction::None ? IntArrayRef(rows) : IntArrayRef(), of_loss, x.device, op);
    logsumexp = new_tensor(rows, work, x.device, op);
    total = new_tensor({}, work, x.device, op);
  }
};

// Whether the gradient is computed together with the loss: where a kernel does so and backward will come, with one
// number for all rows. The narrow exponent of half needs that number before it rounds.
bool wants_slope(const Tensor& rows, int64_t reduction) {
  return reduction != Reduction::None && rows.scalar_type() != kHalf && GradMode::is_enabled() &&
         rows.requires_grad() && has_kernel(OpId::_cross_entropy_with_slope, device_type(rows));
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> _cross_entropy(const Tensor& self, const Tensor& target,
                                                  const std::optional<Tensor>& weight, int64_t reduction,
                                                  int64_t ignore_index, double label_smoothing,
                                                  std::optional<ScalarType> dtype) {
  const char* op = "cross_entropy_loss";
  check_reduction(reduction, op);
  check_matrix(self, target, weight, op);
  const TensorImpl& x = *self.impl();
  const ScalarType work = working_dtype(x.dtype);
  const EntropyResults r(x, reduction, dtype, op);
  if (x.device.is_meta()) return {r.loss, r.logsumexp, r.total};
  if (has_kernel(OpId::_cross_entropy, x.device.type()) && x.numel > 0) {
    call_kernel<void(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, double, const Tensor&,
                     const Tensor&, const Tensor&)>(OpId::_cross_entropy, x.device.type(), as_contiguous(self),
                                                    as_contiguous(target), prepared(weight, work), reduction,
                                                    ignore_index, label_smoothing, r.loss, r.logsumexp, r.total);
    return {r.loss, r.logsumexp, r.total};
  }
  const Targets t(target, weight, ignore_index, work);
  const Tensor wide = as_dtype(self, work), lse = wide.logsumexp(1), logs = wide - lse.unsqueeze(1);
  Tensor each =
      x.numel == 0 ? lse : -(logs.gather(1, t.index.unsqueeze(1)).squeeze(1) * t.share * (1 - label_smoothing));
  if (label_smoothing != 0 && x.numel > 0) {
    const Tensor spread = (present(weight) ? logs * as_dtype(*weight, work) : logs).sum(1) *
                          (label_smoothing / static_cast<double>(x.sizes[1]));
    each = each - spread;
  }
  each = each.masked_fill(t.counted.logical_not(), 0);
  const Tensor counted = t.share.sum();
  const Tensor folded_loss = reduction == Reduction::None  ? each
                             : reduction == Reduction::Sum ? each.sum()
                                                           : each.sum() / counted;
  return {as_dtype(folded_loss, r.loss.scalar_type()), lse, counted};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> _cross_entropy_with_slope(const Tensor& self, const Tensor& target,
                                                                     const std::optional<Tensor>& weight,
                                                                     int64_t reduction, int64_t ignore_index,
                                                                     double label_smoothing,
                                                                     std::optional<ScalarType> dtype) {
  const char* op = "cross_entropy_loss";
  check_reduction(reduction, op);
  check_matrix(self, target, weight, op);
  const TensorImpl& x = *self.impl();
  if (has_kernel(OpId::_cross_entropy_with_slope, x.device.type()) && x.numel > 0) {
    const EntropyResults r(x, reduction, dtype, op);
    Tensor slope = new_tensor(x.sizes, x.dtype, x.device, op);
    call_kernel<void(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, double, const Tensor&,
                     const Tensor&, const Tensor&, const Tensor&)>(
        OpId::_cross_entropy_with_slope, x.device.type(), as_contiguous(self), as_contiguous(target),
        prepared(weight, working_dtype(x.dtype)), reduction, ignore_index, label_smoothing, r.loss, r.logsumexp,
        r.total, slope);
    return {r.loss, r.logsumexp, r.total, slope};
  }
  const auto [loss, logsumexp, total] =
      facula::_cross_entropy(self, target, weight, reduction, ignore_index, label_smoothing, dtype);
  if (x.device.is_meta()) return {loss, logsumexp, total, new_tensor(x.sizes, x.dtype, x.device, op)};
  const Tensor slope = facula::_cross_entropy_backward(facula::ones_like(loss), self, target, weight, logsumexp, total,
                                                       reduction, ignore_index, label_smoothing);
  return {loss, logsumexp, total, slope};
}

Tensor _cross_entropy_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                               const std::optional<Tensor>& weight, const Tensor& logsumexp, const Tensor& total,
                               int64_t reduction, int64_t ignore_index, double label_smoothing) {
  const char* op = "_cross_entropy_backward";
  check_matrix(self, target, weight, op);
  const ScalarType dtype = self.scalar_type(), work = working_dtype(dtype);
  const IntArrayRef sizes = self.sizes();
  FACULA_CHECK(grad_output.numel() == (reduction == Reduction::None ? sizes[0] : 1), ShapeError, op,
               ": the gradient must have the loss's shape, not ", to_text(grad_output.sizes()));
  if (!vjp::watched(grad_output, self, target, weight, logsumexp, total) && !self.is_meta() && self.numel() > 0 &&
      has_kernel(OpId::_cross_entropy_backward, device_type(self))) {
    Tensor result = new_tensor(sizes, dtype, self.device(), op);
    call_kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t,
                     int64_t, double, const Tensor&)>(
        OpId::_cross_entropy_backward, device_type(self), as_contiguous(as_dtype(grad_output, work)),
        as_contiguous(self), as_contiguous(target), prepared(weight, work), as_contiguous(as_dtype(logsumexp, work)),
        as_contiguous(as_dtype(total, work)), reduction, ignore_index, label_smoothing, result);
    return result;
  }
  if (self.numel() == 0) return facula::zeros_like(self);
  const Targets t(target, weight, ignore_index, work);
  Tensor g = grad_output.to(work);
  if (reduction == Reduction::Mean) g = g / total.to(work);
  g = g.expand({sizes[0]});
  const Tensor hit = (g * t.share * (1 - label_smoothing)).unsqueeze(1);
  const Tensor ones = facula::zeros_like(self, work).scatter(1, t.index.unsqueeze(1), 1.0);
  const Tensor probabilities = (self.to(work) - logsumexp.to(work).unsqueeze(1)).exp();
  Tensor result = (probabilities - ones) * hit;
  if (label_smoothing != 0) {
    const Tensor weights = present(weight) ? weight->to(work) : facula::ones({sizes[1]}, ones.options());
    const Tensor spread =
        (g * (label_smoothing / static_cast<double>(sizes[1]))).masked_fill(t.counted.logical_not(), 0).unsqueeze(1);
    result = result + spread * (probabilities * weights.sum() - weights);
  }
  return result.to(dtype);
}

Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                          int64_t reduction, int64_t ignore_index, double label_smoothing) {
  const char* op = "cross_entropy_loss";
  check_float(self, op);
  impl_of(target, op);
  check_reduction(reduction, op);
  FACULA_CHECK(label_smoothing >= 0 && label_smoothing <= 1, ValueError, op,
               ": label_smoothing must be between 0.0 and 1.0. Got: ", label_smoothing);
  FACULA_CHECK(self.dim() > 0, ShapeError, op,
               ": the input needs a dimension of classes, got a tensor without dimensions");
  same_device({&self, &target, weight_of(weight)}, op);
  const int64_t dim = self.dim() == 1 ? 0 : 1, classes = self.size(dim);
  if (present(weight))
    FACULA_CHECK(weight->dim() == 1 && weight->numel() == classes, ShapeError, op,
                 ": weight tensor should be defined either for all ", classes,
                 " classes or no classes but got weight tensor of shape: ", to_text(weight->sizes()));
  if (target.is_floating_point()) {
    FACULA_CHECK(target.sizes() == self.sizes(), ShapeError, op,
                 ": expected target with class probabilities to have the input's shape ", to_text(self.sizes()),
                 ", got ", to_text(target.sizes()));
    FACULA_CHECK(ignore_index < 0, ValueError, op, ": ignore_index is not supported for floating point target");
    if (detail::autocast_active()) {
      // Autocast wants float32 here; class numbers below lead to ops that are on its lists.
      const detail::AutocastCall cast(detail::CastPolicy::Float32, detail::CastPolicy::Float32, self, target, weight);
      if (cast)
        return facula::cross_entropy_loss(cast(self), cast(target), cast(weight), reduction, ignore_index,
                                          label_smoothing);
    }
    Tensor shares =
        label_smoothing == 0 ? target : target * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
    if (present(weight)) {
      DimVector along(self.sizes().size(), 1);
      along[usize(dim)] = classes;
      shares = shares * weight->view(along);
    }
    const Tensor losses = -(facula::log_softmax(self, dim) * shares).sum(dim);
    // A mean over distributions, whatever their weights.
    return folded(losses, reduction);
  }
  FACULA_CHECK(target.scalar_type() == kLong || target.scalar_type() == kByte || target.scalar_type() == kInt,
               DTypeError, op,
               ": expected target of scalar type Long, or class probabilities of a floating point type, but found ",
               toString(target.scalar_type()), ". Convert it with .to(kLong)");
  DimVector wanted;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != dim) wanted.push_back(self.size(d));
  FACULA_CHECK(target.sizes() == IntArrayRef(wanted), ShapeError, op,
               ": size mismatch (got input: ", to_text(self.sizes()), ", target: ", to_text(target.sizes()),
               "); the target must have shape ", to_text(IntArrayRef(wanted)));
  const Tensor labels = target.to(kLong).reshape({target.numel()});
  // Classes last, everything else in rows.
  const Tensor rows = self.dim() == 1   ? self.unsqueeze(0)
                      : self.dim() == 2 ? self
                                        : self.movedim(1, -1).reshape({target.numel(), classes});
  const Tensor loss =
      wants_slope(rows, reduction)
          ? std::get<0>(
                facula::_cross_entropy_with_slope(rows, labels, weight, reduction, ignore_index, label_smoothing))
          : std::get<0>(facula::_cross_entropy(rows, labels, weight, reduction, ignore_index, label_smoothing));
  return reduction == Reduction::None ? loss.reshape(wanted) : loss;
}

Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                            int64_t reduction) {
  const char* op = "binary_cross_entropy";
  check_float(self, op);
  impl_of(target, op);
  check_reduction(reduction, op);
  FACULA_CHECK(self.sizes() == target.sizes(), ShapeError, op, ": using a target size (", to_text(target.sizes()),
               ") that is different to the input size (", to_text(self.sizes()),
               ") is not supported; give them the same size");
  // What bounds the slope is too small for half types.
  const ScalarType work = working_dtype(self.scalar_type());
  const Tensor x = self.to(work), fixed = x.detach(), aim = target.to(work);
  if (!self.is_meta() && !(autograd::tracked(self) & detail::kTracksBatch) && self.numel() > 0) {
    const Tensor inside = (fixed >= 0).logical_and(fixed <= 1).all();
    FACULA_CHECK(
        inside.item<bool>(), ValueError, op,
        ": all elements of input should be between 0 and 1; apply sigmoid, or use binary_cross_entropy_with_logits");
  }
  // Close to 0 and 1 the logarithms have no usable slope: there the loss is a line with a bounded one.
  const Tensor spread = fixed * (1 - fixed), edge = spread < 1e-12;
  const Tensor safe = facula::where(edge, 0.5, x);
  const Tensor inner = -(aim * safe.log() + (1 - aim) * (-safe).log1p());
  Tensor line = -(aim * fixed.log().clamp_min(-100) + (1 - aim) * (-fixed).log1p().clamp_min(-100));
  line = line + (fixed - aim.detach()) / spread.clamp_min(1e-12) * (x - fixed);
  Tensor losses = facula::where(edge, line, inner);
  if (present(weight)) losses = losses * weight->to(work);
  return folded(losses, reduction).to(self.scalar_type());
}

Tensor kl_div(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  const char* op = "kl_div";
  check_float(self, op);
  impl_of(target, op);
  check_reduction(reduction, op);
  const Tensor losses = log_target ? target.exp() * (target - self) : facula::xlogy(target, target) - target * self;
  return folded(losses, reduction);
}

}  // namespace facula::meaning
