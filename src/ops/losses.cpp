// Losses: the entries' losses and their mean or sum, formed in one pass.
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"
#include "ops/terms.h"

#include "cpu/convert.h"

#include <facula/reduction.h>

namespace facula::meaning {
namespace {

enum Family : uint64_t { kMse = 0xe1, kL1, kSmoothL1, kHuber, kCrossEntropy };

void check_reduction(int64_t reduction, const char* op) {
  FACULA_CHECK(reduction >= Reduction::None && reduction <= Reduction::Sum, ValueError, op, ": ", reduction,
               " is not a valid value for reduction. Use Reduction::None, Reduction::Mean or Reduction::Sum");
}

void check_both(const Tensor& self, const Tensor& target, const char* op) {
  FACULA_CHECK(self.defined() && target.defined(), ValueError, op,
               ": an input is an undefined tensor; assign a tensor to it first");
}

uint64_t all_dims(size_t rank) { return rank >= 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1; }

uint64_t code(ScalarType t) { return static_cast<uint64_t>(t); }

// `term` adds to the program what gives the loss of one entry from values in the compute type; the parameters follow the loads. With
// Mean the last parameter is the number of entries.
template <class Term>
Tensor run_loss(Family family, std::span<const Tensor> tensors, ScalarType dtype, int64_t reduction,
                std::initializer_list<double> params, IntArrayRef sizes, const char* op, const Term& term) {
  const CType type = compute_type(dtype);
  const size_t count = tensors.size();
  auto build = [&](Program& g) {
    Value x[4], p[4];
    for (size_t i = 0; i < count; ++i) x[i] = g.cast(g.load(tensors[i].impl()->dtype), type);
    for (size_t i = 0; i < params.size(); ++i) p[i] = g.param(type);
    Value loss = term(g, x, p);
    if (reduction != Reduction::None) {
      const Value entries = reduction == Reduction::Mean ? p[params.size() - 1] : loss;
      loss = g.reduce(ReduceOp::Sum, loss);
      if (reduction == Reduction::Mean) loss = g.apply(ScalarOp::div, loss, entries);
    }
    g.store(loss, dtype);
  };
  uint64_t key = terms_key(family, {static_cast<uint64_t>(reduction), code(dtype)});
  // Five bits hold a dtype; a missing tensor is none of them.
  for (size_t i = 0; i < 4; ++i) key = key << 5 | (i < count ? code(tensors[i].impl()->dtype) : 31);
  const Terms terms{key, build, tensors, params, dtype, op};
  return reduction == Reduction::None ? compute_terms(terms, sizes)
                                      : reduce_terms(terms, sizes, all_dims(sizes.size()), false);
}

double count_of(IntArrayRef sizes) {
  double n = 1;
  for (int64_t s : sizes) n *= static_cast<double>(s);
  return n;
}

struct Pair {
  ScalarType dtype;
  DimVector sizes;
};

// What losses of a difference check. Without `integers` only floats are allowed.
Pair check_difference(const Tensor& self, const Tensor& target, int64_t reduction, bool integers, const char* op) {
  check_both(self, target, op);
  check_reduction(reduction, op);
  const Operand operands[] = {self, target};
  const ScalarType t = result_type(operands, op);
  FACULA_CHECK(is_computed_float(t) || (integers && isIntegralType(t) && reduction != Reduction::Mean), DTypeError, op,
               ": \"", op, "\" not implemented for '", toString(t), "'. Convert the inputs to float or double first");
  return {t, broadcast_sizes(sizes_of(self), sizes_of(target), op)};
}

Tensor mean_or_sum(const Tensor& losses, int64_t reduction) {
  return reduction == Reduction::Mean ? losses.mean() : reduction == Reduction::Sum ? losses.sum() : losses;
}

// m (z - m / 2) with z = |x - y| and m = min(z, bound); the parameters are the bound and 1/2.
Value huber_term(Program& g, const Value* x, const Value* p) {
  const Value z = g.apply(ScalarOp::abs, g.apply(ScalarOp::sub, x[0], x[1]));
  const Value m = g.apply(ScalarOp::minimum, z, p[0]);
  return g.apply(ScalarOp::mul, m, g.apply(ScalarOp::sub, z, g.apply(ScalarOp::mul, m, p[1])));
}

}  // namespace

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  const Pair pair = check_difference(self, target, reduction, true, "mse_loss");
  if (isIntegralType(pair.dtype) && reduction == Reduction::Sum)
    return meaning::mse_loss(self, target, Reduction::None).sum();
  const Tensor tensors[] = {self, target};
  return run_loss(kMse, tensors, pair.dtype, reduction, {count_of(pair.sizes)}, pair.sizes, "mse_loss",
                  [](Program& g, const Value* x, const Value*) {
                    return g.apply(ScalarOp::square, g.apply(ScalarOp::sub, x[0], x[1]));
                  });
}

Tensor l1_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  check_both(self, target, "l1_loss");
  if (self.is_complex() || target.is_complex()) {
    check_reduction(reduction, "l1_loss");
    return mean_or_sum((self - target).abs(), reduction);
  }
  const Pair pair = check_difference(self, target, reduction, true, "l1_loss");
  if (isIntegralType(pair.dtype) && reduction == Reduction::Sum)
    return meaning::l1_loss(self, target, Reduction::None).sum();
  const Tensor tensors[] = {self, target};
  return run_loss(kL1, tensors, pair.dtype, reduction, {count_of(pair.sizes)}, pair.sizes, "l1_loss",
                  [](Program& g, const Value* x, const Value*) {
                    return g.apply(ScalarOp::abs, g.apply(ScalarOp::sub, x[0], x[1]));
                  });
}

Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  const char* op = "smooth_l1_loss";
  const Pair pair = check_difference(self, target, reduction, false, op);
  FACULA_CHECK(beta >= 0, ValueError, op, ": smooth_l1_loss does not support negative values for beta, got ", beta);
  if (beta == 0) return meaning::l1_loss(self, target, reduction);
  const Tensor tensors[] = {self, target};
  // With m = min(z, beta) one formula serves both sides: m (z - m / 2) / beta.
  return run_loss(
      kSmoothL1, tensors, pair.dtype, reduction, {beta, 0.5, 1 / beta, count_of(pair.sizes)}, pair.sizes, op,
      [](Program& g, const Value* x, const Value* p) { return g.apply(ScalarOp::mul, huber_term(g, x, p), p[2]); });
}

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  const char* op = "huber_loss";
  const Pair pair = check_difference(self, target, reduction, false, op);
  FACULA_CHECK(delta > 0, ValueError, op, ": huber_loss does not support non-positive values for delta, got ", delta);
  const Tensor tensors[] = {self, target};
  return run_loss(kHuber, tensors, pair.dtype, reduction, {delta, 0.5, count_of(pair.sizes)}, pair.sizes, op,
                  &huber_term);
}

// With s = log(1 + exp(-|x|)): -log(sigmoid(x)) is max(-x, 0) + s and -log(1 - sigmoid(x)) is max(x, 0) + s; nothing overflows or cancels.
Tensor binary_cross_entropy_with_logits(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight,
                                        const std::optional<Tensor>& pos_weight, int64_t reduction) {
  const char* op = "binary_cross_entropy_with_logits";
  check_both(self, target, op);
  check_reduction(reduction, op);
  FACULA_CHECK(sizes_of(self) == sizes_of(target), ShapeError, op, ": target size ", to_text(sizes_of(target)),
               " must be the same as input size ", to_text(sizes_of(self)));
  const bool weighted = weight && weight->defined(), pos_weighted = pos_weight && pos_weight->defined();
  Tensor tensors[4] = {self, target};
  size_t count = 2;
  if (pos_weighted) tensors[count++] = *pos_weight;
  if (weighted) tensors[count++] = *weight;
  DimVector sizes(sizes_of(self));
  ScalarType t = self.impl()->dtype;
  for (size_t i = 1; i < count; ++i) {
    sizes = broadcast_sizes(sizes, sizes_of(tensors[i]), op);
    const Operand operands[] = {tensors[0], tensors[i]};
    t = promoteTypes(t, result_type(operands, op));
  }
  check_computed_float(t, op, "Convert the inputs to float or double first");
  const Family family = static_cast<Family>(kCrossEntropy + (weighted ? 1 : 0) + (pos_weighted ? 2 : 0));
  return run_loss(
      family, {tensors, count}, t, reduction, {0.0, 1.0, count_of(sizes)}, sizes, op,
      [&](Program& g, const Value* x, const Value* p) {
        const Value s =
            g.apply(ScalarOp::log1p, g.apply(ScalarOp::exp, g.apply(ScalarOp::neg, g.apply(ScalarOp::abs, x[0]))));
        const Value zero = p[0], one = p[1];
        const Value if_true = g.apply(ScalarOp::add, g.apply(ScalarOp::maximum, g.apply(ScalarOp::neg, x[0]), zero), s);
        const Value if_false = g.apply(ScalarOp::add, g.apply(ScalarOp::maximum, x[0], zero), s);
        Value positive = g.apply(ScalarOp::mul, x[1], if_true);
        if (pos_weighted) positive = g.apply(ScalarOp::mul, positive, x[2]);
        const Value loss =
            g.apply(ScalarOp::add, positive, g.apply(ScalarOp::mul, g.apply(ScalarOp::sub, one, x[1]), if_false));
        return weighted ? g.apply(ScalarOp::mul, loss, x[pos_weighted ? 3 : 2]) : loss;
      });
}

namespace {

void check_nll(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight, const char* op) {
  const TensorImpl *x = self.impl(), *y = target.impl();
  check_computed_float(x->dtype, op, "Convert the input to float or double first", "nll_loss");
  FACULA_CHECK(y->dtype == kLong || y->dtype == kByte, DTypeError, op,
               ": expected target of scalar type Long but found ", toString(y->dtype), ". Convert it to int64");
  FACULA_CHECK(x->dim() > 0, ShapeError, op, ": expected an input with a dim of classes, got a zero-dim tensor");
  DimVector wanted;
  for (size_t d = 0; d < x->sizes.size(); ++d)
    if (d != (x->sizes.size() == 1 ? size_t{0} : size_t{1})) wanted.push_back(x->sizes[d]);
  FACULA_CHECK(IntArrayRef(y->sizes) == IntArrayRef(wanted), ShapeError, op,
               ": size mismatch (got input: ", to_text(IntArrayRef(x->sizes)),
               ", target: ", to_text(IntArrayRef(y->sizes)), "); the target must have shape ",
               to_text(IntArrayRef(wanted)));
  if (!weight || !weight->defined()) return;
  const TensorImpl* w = weight->impl();
  const int64_t classes = x->sizes[x->sizes.size() == 1 ? 0 : 1];
  FACULA_CHECK(w->dim() == 1 && w->numel == classes, ShapeError, op,
               ": weight tensor should be defined either for all ", classes,
               " classes or no classes but got weight tensor of shape: ", to_text(IntArrayRef(w->sizes)));
  FACULA_CHECK(w->dtype == x->dtype, DTypeError, op, ": expected weight of scalar type ", toString(x->dtype),
               " but found ", toString(w->dtype), ". Convert it with .to(input.scalar_type())");
}

}  // namespace

Tensor nll_loss(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight, int64_t reduction,
                int64_t ignore_index) {
  const char* op = "nll_loss";
  check_both(self, target, op);
  check_reduction(reduction, op);
  check_nll(self, target, weight, op);
  const TensorImpl* x = self.impl();
  const bool weighted = weight && weight->defined();
  same_device({&self, &target, weighted ? &*weight : nullptr}, op);
  if (x->device.is_meta())
    return new_tensor(reduction == Reduction::None ? sizes_of(target) : IntArrayRef(), x->dtype, x->device, op);
  if (has_kernel(OpId::nll_loss, x->device.type())) [[likely]] {
    Tensor result =
        new_tensor(reduction == Reduction::None ? sizes_of(target) : IntArrayRef(), x->dtype, x->device, op);
    call_kernel<void(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, const Tensor&)>(
        OpId::nll_loss, x->device.type(), x->dim() > 2 ? as_contiguous(self) : self,
        as_contiguous(as_dtype(target, kLong)), weighted ? as_contiguous(*weight) : Tensor(), reduction, ignore_index,
        result);
    return result;
  }
  const int64_t class_dim = x->dim() == 1 ? 0 : 1, classes = x->sizes[static_cast<size_t>(class_dim)];
  const Tensor labels = as_dtype(target, kLong);
  const Tensor counted = labels.ne(ignore_index);
  const Tensor index = labels.masked_fill(counted.logical_not(), 0);
  // Sums of half types stay in float until the end.
  const ScalarType work = x->dtype == kDouble ? kDouble : kFloat;
  Tensor losses, share;
  if (index.numel() == 0) {
    losses = new_tensor(sizes_of(target), work, x->device, op);
    share = losses;
  } else {
    FACULA_CHECK(classes > 0, IndexError, op, ": Target is out of bounds for 0 classes");
    losses = as_dtype(self.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim), work).neg();
    if (weighted) {
      share = as_dtype(weight->index_select(0, index.reshape({-1})).reshape(sizes_of(index)), work)
                  .masked_fill(counted.logical_not(), 0);
      losses = losses * share;
    }
    // What is ignored counts 0 even where the input is infinite.
    losses = losses.masked_fill(counted.logical_not(), 0);
  }
  if (reduction == Reduction::None) return as_dtype(losses, x->dtype);
  Tensor total = losses.sum();
  if (reduction == Reduction::Mean) total = total / (weighted ? share.sum() : counted.sum());
  return as_dtype(total, x->dtype);
}

}  // namespace facula::meaning
