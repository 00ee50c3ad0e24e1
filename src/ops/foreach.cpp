#include "ops/foreach.h"

#include "core/shape.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "ops/executable.h"
#include "ops/out.h"

#include <facula/tensors.h>

#include <algorithm>
#include <cmath>

namespace facula {
namespace {

constexpr size_t kMostArrays = 32;

// Whether tensors of equal sizes can be walked as flat arrays side by side.
bool same_layout(const TensorImpl* a, const TensorImpl* b) {
  if (a->contiguous && b->contiguous) return true;
  for (size_t d = 0; d < a->sizes.size(); ++d)
    if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
  return true;
}
bool flat(const Tensor& t) { return t.impl()->contiguous || t.is_non_overlapping_and_dense(); }

}  // namespace

Foreach::Foreach(const char* op, size_t items, ScalarType dtype) : op_(op), items_(items), type_(compute_type(dtype)) {
  FACULA_INTERNAL_CHECK(type_ == CType::F32 || type_ == CType::F64);
}

Term Foreach::add_load(const Column& column, bool constant) {
  FACULA_INTERNAL_CHECK(column.one || column.tensors.size() == items_);
  FACULA_INTERNAL_CHECK(loads_.size() < kMostArrays);
  const ScalarType dtype = items_ == 0 ? kFloat : column.tensors[0].scalar_type();
  if (constant) constant_ |= uint64_t{1} << loads_.size();
  loads_.push_back(column);
  return {this, program_.cast(program_.load(dtype), type_)};
}
Term Foreach::load(TensorList column) { return add_load({column, false}, false); }
Term Foreach::load_one(TensorList column) { return add_load({column, false}, true); }
Term Foreach::number(const Tensor& value) { return add_load({TensorList(&value, 1), true}, true); }
Term Foreach::number(double value) {
  params_.push_back(param_value(value, type_));
  return {this, program_.param(type_)};
}
void Foreach::store(Term value, TensorList column) {
  FACULA_INTERNAL_CHECK(column.size() == items_);
  program_.store(value.value, items_ == 0 ? kFloat : column[0].scalar_type());
  stores_.push_back({column, false});
}
Term Foreach::apply(ScalarOp op, Term a) { return {this, program_.apply(op, a.value)}; }
Term Foreach::apply(ScalarOp op, Term a, Term b) { return {this, program_.apply(op, a.value, b.value)}; }
Term Foreach::apply(ScalarOp op, Term a, Term b, Term c) {
  return {this, program_.apply(op, a.value, b.value, c.value)};
}

void Foreach::check_columns() const {
  const auto columns = [&](auto test) {
    for (const Column& c : loads_)
      for (const Tensor& t : c.tensors) test(c, t);
    for (const Column& c : stores_)
      for (const Tensor& t : c.tensors) test(c, t);
  };
  const Device device = stores_.empty() ? loads_[0].tensors[0].device() : stores_[0].tensors[0].device();
  columns([&](const Column& c, const Tensor& t) {
    FACULA_CHECK(t.defined(), ValueError, op_, ": a tensor of the list is undefined");
    FACULA_CHECK(t.device() == device, DeviceError, op_, ": expected all tensors to be on ", device.str(),
                 ", but one is on ", t.device().str(), "; move it with .to(device)");
    FACULA_INTERNAL_CHECK(t.scalar_type() == c.tensors[0].scalar_type());
  });
}

void Foreach::execute(const ListReduce* reduce, Tensor* partials) {
  if (items_ == 0) return;
  check_columns();
  const size_t loads = loads_.size(), arrays = loads + stores_.size();
  const auto tensor_at = [&](size_t a, size_t i) -> const Tensor& {
    const Column& c = a < loads ? loads_[a] : stores_[a - loads];
    return c.tensors[c.one ? 0 : i];
  };
  const auto constant = [&](size_t a) { return a < loads && (constant_ >> a & 1) != 0; };
  size_t widest = 0;  // the first array that is not one element a set
  while (constant(widest)) ++widest;

  std::vector<ListItem> items;
  std::vector<void*> addresses(items_ * arrays);
  std::vector<StorageImpl*> storages;
  std::vector<Tensor> kept;  // copies with a flat layout
  std::vector<size_t> apart;
  items.reserve(items_);
  storages.reserve(items_ * arrays + 1);
  for (size_t i = 0; i < items_; ++i) {
    const TensorImpl* like = tensor_at(widest, i).impl();
    if (like->numel == 0) continue;
    bool together = flat(tensor_at(widest, i));
    for (size_t a = 0; a < arrays; ++a) {
      const TensorImpl* t = tensor_at(a, i).impl();
      if (constant(a)) {
        FACULA_CHECK(t->numel == 1, ShapeError, op_, ": expected a tensor of one element, got ", to_text(t->sizes));
      } else {
        FACULA_CHECK(IntArrayRef(t->sizes) == IntArrayRef(like->sizes), ShapeError, op_, ": tensor ", i,
                     " of a list has sizes ", to_text(t->sizes), " where another one has ", to_text(like->sizes));
        together &= same_layout(like, t);
      }
    }
    if (!together && !reduce) {
      apart.push_back(i);
      continue;
    }
    for (size_t a = 0; a < arrays; ++a) {
      const TensorImpl* t = tensor_at(a, i).impl();
      if (!together && !constant(a)) {
        FACULA_CHECK(a < loads && stores_.empty(), NotSupportedError, op_,
                     ": tensors of one set have different layouts; make them contiguous");
        kept.push_back(tensor_at(a, i).contiguous());
        t = kept.back().impl();
      }
      addresses[i * arrays + a] = t->data();
      storages.push_back(t->storage.get());
    }
    items.push_back({like->numel, &addresses[i * arrays]});
  }

  const Device device = tensor_at(widest, 0).device();
  const Executable& program = kept_program(program_);
  if (reduce) {
    int64_t count = 0;
    for (const ListItem& item : items) count += list_stretches(item.count);
    *partials = new_tensor({count}, type_ == CType::F64 ? kDouble : kFloat, device, op_);
    if (device.is_meta() || count == 0) return;
    storages.push_back(partials->impl()->storage.get());
    program.reduce_list(items, constant_, params_.data(), *reduce, partials->impl()->data(), {device, op_, storages});
  } else if (!device.is_meta()) {
    program.run_list(items, constant_, params_.data(), {device, op_, storages});
    for (size_t i : apart) {
      const TensorImpl* like = tensor_at(widest, i).impl();
      const DimVector zeros(like->sizes.size(), 0);
      ArrayArg arguments[kMostArrays];
      storages.clear();
      for (size_t a = 0; a < arrays; ++a) {
        const TensorImpl* t = tensor_at(a, i).impl();
        arguments[a] = {t->data(), constant(a) ? zeros.data() : t->strides.data()};
        storages.push_back(t->storage.get());
      }
      program.run(like->sizes, {arguments, loads}, params_, {arguments + loads, stores_.size()},
                  {device, op_, storages});
    }
  }
  for (const Column& c : stores_)
    for (const Tensor& t : c.tensors) t.impl()->bump_version();
}

void Foreach::run() { execute(nullptr, nullptr); }

Tensor Foreach::run_and_reduce(Term value, ListReduce reduce) {
  program_.store(value.value, type_ == CType::F64 ? kDouble : kFloat);
  Tensor partials;
  execute(&reduce, &partials);
  return partials;
}

namespace {

// Calls f with those tensors of a list that have one device and one dtype, group by group.
template <class F>
void by_kind(TensorList tensors, F f) {
  std::vector<bool> done(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (done[i]) continue;
    std::vector<Tensor> group;
    for (size_t j = i; j < tensors.size(); ++j) {
      if (done[j] || tensors[j].scalar_type() != tensors[i].scalar_type() || tensors[j].device() != tensors[i].device())
        continue;
      done[j] = true;
      group.push_back(tensors[j]);
    }
    f(group);
  }
}

// Complex tensors as their parts.
std::vector<Tensor> real_parts(TensorList tensors, const char* op) {
  std::vector<Tensor> all;
  all.reserve(tensors.size());
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.defined(), ValueError, op, ": a tensor of the list is undefined");
    FACULA_CHECK(t.is_floating_point() || t.is_complex(), DTypeError, op,
                 ": expected floating point or complex tensors, ", "got ", toString(t.scalar_type()));
    all.push_back(t.is_complex() ? view_as_real(t.detach()) : t);
  }
  return all;
}

}  // namespace

Tensor foreach_norm(TensorList tensors, double ord, const char* op) {
  FACULA_CHECK(ord > 0, ValueError, op, ": expected a norm of positive order, got ", ord);
  const NoGradGuard no_grad;
  const bool infinite = std::isinf(ord);
  std::vector<Tensor> parts;  // one number for each kind
  const bool any_complex = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.is_complex(); });
  std::vector<Tensor> real;
  if (any_complex && ord != 2) {
    for (const Tensor& t : tensors) real.push_back(t.is_complex() ? t.detach().abs() : t);
  } else {
    real = real_parts(tensors, op);
  }
  by_kind(real, [&](const std::vector<Tensor>& group) {
    Foreach f(op, group.size(), group[0].scalar_type());
    const Term x = f.load(group);
    Term magnitude = ord == 2 ? square(x) : f.apply(ScalarOp::abs, x);
    if (!infinite && ord != 1 && ord != 2) magnitude = pow(magnitude, f.number(ord));
    const Tensor partials = f.run_and_reduce(magnitude, infinite ? ListReduce::Max : ListReduce::Sum);
    if (partials.numel() > 0) parts.push_back(infinite ? partials.amax() : partials.sum());
  });
  if (parts.empty()) return zeros({}, tensors.empty() ? TensorOptions() : TensorOptions().device(tensors[0].device()));
  Tensor total = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const Tensor next = parts[i].to(total.device());
    total = infinite ? maximum(total, next) : total + next;
  }
  if (infinite || ord == 1) return total;
  return ord == 2 ? total.sqrt() : total.pow(1 / ord);
}

void foreach_scale_(TensorList tensors, const Tensor& factor, const char* op) {
  const NoGradGuard no_grad;
  for (const Tensor& t : tensors) check_no_internal_overlap(t, op);
  by_kind(real_parts(tensors, op), [&](const std::vector<Tensor>& group) {
    const Tensor here = factor.to(group[0].device());
    Foreach f(op, group.size(), group[0].scalar_type());
    f.store(f.load(group) * f.number(here), group);
    f.run();
  });
}

void foreach_clip_(TensorList tensors, const Tensor& norm, double max_norm, const char* op) {
  const NoGradGuard no_grad;
  const std::vector<Tensor> norms = {norm.detach()}, factors = {empty_like(norms[0])};
  Foreach f(op, 1, norm.scalar_type());
  const Term factor = f.number(max_norm) / (f.load(norms) + f.number(1e-6));
  f.store(f.apply(ScalarOp::minimum, factor, f.number(1.0)), factors);  // NaN stays NaN
  f.run();
  foreach_scale_(tensors, factors[0], op);
}

void foreach_unscale_(TensorList tensors, const Tensor& found_inf, const Tensor& factor, const char* op) {
  const NoGradGuard no_grad;
  std::vector<Tensor> dense;
  for (Tensor& t : real_parts(tensors, op)) {
    if (flat(t)) {
      dense.push_back(t);
      continue;
    }
    const Tensor whole = t.contiguous();
    foreach_unscale_({whole}, found_inf, factor, op);
    t.copy_(whole);
  }
  by_kind(dense, [&](const std::vector<Tensor>& group) {
    const Tensor here = factor.to(group[0].device());
    Foreach f(op, group.size(), group[0].scalar_type());
    const Term g = f.load(group);
    f.store(g * f.number(here), group);
    // x - x is zero for finite numbers and NaN for the others.
    const Term bad = f.apply(ScalarOp::abs, g - g);
    const Tensor partials = f.run_and_reduce(bad, ListReduce::Max);
    if (partials.numel() == 0) return;
    found_inf.copy_(maximum(found_inf, isnan(partials.amax()).to(found_inf.device(), found_inf.scalar_type())));
  });
}

}  // namespace facula
