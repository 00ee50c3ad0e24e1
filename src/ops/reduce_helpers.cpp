// Dims, shapes and programs of reductions. What each op means is in reduce.cpp and reduce_stats.cpp.
#include "ops/reduce_helpers.h"

#include "cpu/convert.h"
#include "ops/program_cache.h"

#include <facula/core/error.h>

namespace facula {

void check_defined(const Tensor& self, const char* op) {
  FACULA_CHECK(self.defined(), ValueError, op, ": the input is an undefined tensor; assign a tensor to it first");
}

uint64_t reduced_dims(const Tensor& self, OptionalIntArrayRef dim, const char* op) {
  const int64_t rank = self.impl()->dim();
  const uint64_t all = rank >= 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
  if (!dim.has_value() || dim->empty()) return all;
  uint64_t mask = 0;
  for (int64_t d : *dim) {
    const int64_t wrapped = wrap_dim(d, rank, op);
    FACULA_CHECK((mask >> wrapped & 1) == 0, ValueError, op, ": dim ", wrapped,
                 " appears multiple times in the list of dims ", to_text(*dim), "; name each dim once");
    mask |= uint64_t{1} << wrapped;
  }
  return mask & all;
}

DimVector reduced_sizes(const Tensor& self, uint64_t mask, bool keepdim) {
  DimVector sizes;
  const DimVector& from = self.impl()->sizes;
  for (size_t d = 0; d < from.size(); ++d) {
    if ((mask >> d & 1) == 0) sizes.push_back(from[d]);
    else if (keepdim) sizes.push_back(1);
  }
  return sizes;
}

int64_t reduced_count(const Tensor& self, uint64_t mask) {
  int64_t count = 1;
  const DimVector& sizes = self.impl()->sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (mask >> d & 1) count *= sizes[d];
  return count;
}

void check_not_empty(const Tensor& self, uint64_t mask, bool all, const char* op) {
  const TensorImpl* t = self.impl();
  if (t->numel != 0) [[likely]]
    return;
  FACULA_CHECK(!all, IndexError, op,
               "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
               "'dim' argument.");
  for (size_t d = 0; d < t->sizes.size(); ++d)
    FACULA_CHECK((mask >> d & 1) == 0 || t->sizes[d] != 0, IndexError, op, "(): Expected reduction dim ",
                 static_cast<int64_t>(d), " to have non-zero size. The input has shape ",
                 to_text(IntArrayRef(t->sizes)));
}

namespace {

struct ProgramKey {
  Reduce kind;
  ScalarType input, compute, first, second;
  uint64_t packed() const {
    uint64_t k = static_cast<uint64_t>(kind);
    for (ScalarType t : {input, compute, first, second}) k = k << 8 | static_cast<uint8_t>(t);
    return k;
  }
};

// Sums of integers run in 64 bits.
CType sum_type(CType type) { return type == CType::I32 || type == CType::B8 ? CType::I64 : type; }

Executable make_program(const ProgramKey& key) {
  Program p;
  const CType type = compute_type(key.compute);
  const Value raw = p.load(key.input);
  auto x = [&] { return p.cast(raw, type); };
  auto truth = [&] { return p.cast(raw, CType::B8); };
  auto magnitude = [&] { return p.apply(ScalarOp::abs, x()); };
  auto finish = [&](Value v) { p.store(v, key.first); };
  auto sum = [&](Value v) { return p.reduce(ReduceOp::Sum, p.cast(v, sum_type(v.type))); };
  auto divided = [&](Value v) { return p.apply(ScalarOp::div, v, p.param(v.type)); };
  auto second = [](Value v, CType t) { return Value{static_cast<uint16_t>(v.id + 1), t}; };
  switch (key.kind) {
    case Reduce::Sum: finish(type == CType::B8 ? p.reduce(ReduceOp::Any, truth()) : sum(x())); break;
    case Reduce::NanSum: {
      const Value zero = p.param(type);
      finish(sum(p.apply(ScalarOp::replace_nan, x(), zero)));
      break;
    }
    case Reduce::NotNanCount: finish(sum(p.apply(ScalarOp::logical_not, p.apply(ScalarOp::isnan, x())))); break;
    case Reduce::CountNonzero: finish(sum(truth())); break;
    case Reduce::Mean: finish(divided(sum(x()))); break;
    case Reduce::Prod:
      finish(type == CType::B8 ? p.reduce(ReduceOp::All, truth())
                               : p.reduce(ReduceOp::Prod, p.cast(x(), sum_type(type))));
      break;
    case Reduce::Max: finish(p.reduce(ReduceOp::Max, x())); break;
    case Reduce::Min: finish(p.reduce(ReduceOp::Min, x())); break;
    case Reduce::ArgMax: finish(p.reduce(ReduceOp::ArgMax, x())); break;
    case Reduce::ArgMin: finish(p.reduce(ReduceOp::ArgMin, x())); break;
    case Reduce::MaxIndex:
    case Reduce::MinIndex: {
      const Value v = p.reduce(key.kind == Reduce::MaxIndex ? ReduceOp::MaxWithIndex : ReduceOp::MinWithIndex, x());
      finish(v);
      p.store(second(v, CType::I64), key.second);
      break;
    }
    case Reduce::Any: finish(p.reduce(ReduceOp::Any, truth())); break;
    case Reduce::All: finish(p.reduce(ReduceOp::All, truth())); break;
    case Reduce::Var:
    case Reduce::Std:
    case Reduce::VarMean:
    case Reduce::StdMean:
    case Reduce::VarReal:
    case Reduce::VarImag: {
      Value v = x();
      if (key.kind == Reduce::VarReal) v = p.apply(ScalarOp::real, v);
      if (key.kind == Reduce::VarImag) v = p.apply(ScalarOp::imag, v);
      const Value mean = p.reduce(ReduceOp::Moments, v);
      Value spread = divided(second(mean, mean.type));
      if (key.kind == Reduce::Std || key.kind == Reduce::StdMean) spread = p.apply(ScalarOp::sqrt, spread);
      finish(spread);
      if (key.kind == Reduce::VarMean || key.kind == Reduce::StdMean) p.store(mean, key.second);
      break;
    }
    case Reduce::LogSumExp: finish(p.reduce(ReduceOp::LogSumExp, x())); break;
    case Reduce::Norm0: finish(sum(p.cast(truth(), real_of(type)))); break;
    case Reduce::Norm1: finish(sum(magnitude())); break;
    case Reduce::Norm2: finish(p.apply(ScalarOp::sqrt, sum(p.apply(ScalarOp::abs2, x())))); break;
    case Reduce::NormP: {
      const Value exponent = p.param(real_of(type)), inverse = p.param(real_of(type));
      finish(p.apply(ScalarOp::pow, sum(p.apply(ScalarOp::pow, magnitude(), exponent)), inverse));
      break;
    }
    case Reduce::NormInf: finish(p.reduce(ReduceOp::Max, magnitude())); break;
    case Reduce::NormNegInf: finish(p.reduce(ReduceOp::Min, magnitude())); break;
  }
  return Executable(std::move(p));
}

const Executable& program_of(const ProgramKey& key) {
  return cached_program<6>(key.packed(), [&] { return make_program(key); });
}

}  // namespace

void run_reduce(const char* op, Reduce kind, const Tensor& self, ScalarType compute, uint64_t mask, bool keepdim,
                std::span<const ParamValue> params, std::span<const Tensor> targets) {
  const TensorImpl* t = self.impl();
  if (t->device.is_meta()) return;
  const ScalarType second = targets.size() > 1 ? targets[1].impl()->dtype : ScalarType::Undefined;
  const ProgramKey key{kind, t->dtype, compute, targets[0].impl()->dtype, second};
  const Executable& program = program_of(key);
  int64_t strides[2][kMaxDims];
  ArrayArg stores[2];
  for (size_t k = 0; k < targets.size(); ++k) {
    const DimVector& from = targets[k].impl()->strides;
    size_t next = 0;
    for (size_t d = 0; d < t->sizes.size(); ++d) {
      const bool gone = mask >> d & 1;
      strides[k][d] = gone ? 0 : from[next];
      if (!gone || keepdim) ++next;
    }
    stores[k] = {targets[k].impl()->data(), strides[k]};
  }
  const ArrayArg load{t->data(), t->strides.data()};
  StorageImpl* storages[3] = {t->storage.get()};
  for (size_t k = 0; k < targets.size(); ++k) storages[1 + k] = targets[k].impl()->storage.get();
  program.run_reduction(t->sizes, mask, {&load, 1}, params, {stores, targets.size()},
                        {t->device, op, {storages, 1 + targets.size()}});
}

Tensor reduce(Reduce kind, const Tensor& self, ScalarType compute, ScalarType dtype, uint64_t mask, bool keepdim,
              std::span<const ParamValue> params, const Out& out, const char* op) {
  const DimVector sizes = reduced_sizes(self, mask, keepdim);
  if (!out.is_fresh()) {
    const Tensor* inputs[] = {&self};
    if (out.resizes_an_input(sizes, inputs)) {
      Tensor fresh = reduce(kind, self, compute, dtype, mask, keepdim, params, Out::fresh(), op);
      return meaning::write_out(*out.target(), fresh, op);
    }
    // An element of the result is written before all of the input is read.
    if (out.target()->defined()) check_no_overlap(*out.target(), self, op);
  }
  Tensor target = out.prepare(sizes, dtype, self.impl()->device, op);
  if (!out.is_fresh()) check_no_overlap(target, self, op);  // now of the size it has got
  run_reduce(op, kind, self, compute, mask, keepdim, params, {&target, 1});
  out.written(target);
  return target;
}

}  // namespace facula
