// The public face of programs: expressions by op name, with promotion between their values.
#include <facula/fused.h>

#include "cpu/convert.h"
#include "ops/common.h"
#include "ops/pointwise.h"

namespace facula {

struct Fused::State {
  Program program;
  std::vector<ScalarType> dtypes;  // by value id
  std::vector<Scalar> params;
  bool finished = false;
};

Fused::Fused() : state_(std::make_unique<State>()) {}
Fused::~Fused() = default;
Fused::Fused(Fused&&) noexcept = default;
Fused& Fused::operator=(Fused&&) noexcept = default;

namespace {

const ScalarOp* find_op(std::string_view name) {
  static const ScalarOp all[] = {
#define FACULA_ONE(op, arity, lanes, promotion, result) ScalarOp::op,
      FACULA_SCALAR_OPS(FACULA_ONE)
#undef FACULA_ONE
  };
  for (const ScalarOp& op : all)
    if (name == info(op).name) return &op;
  return nullptr;
}

}  // namespace

Fused::Value Fused::input(ScalarType dtype) {
  FACULA_CHECK(!state_->finished, ValueError, "Fused: the expression has its output already");
  facula::Value v = state_->program.load(dtype);
  state_->dtypes.resize(v.id + 1u, ScalarType::Undefined);
  state_->dtypes[v.id] = dtype;
  return {v.id};
}

Fused::Value Fused::constant(const Scalar& value, ScalarType dtype) {
  FACULA_CHECK(!state_->finished, ValueError, "Fused: the expression has its output already");
  facula::Value v = state_->program.param(compute_type(dtype));
  state_->params.push_back(value);
  state_->dtypes.resize(v.id + 1u, ScalarType::Undefined);
  state_->dtypes[v.id] = dtype;
  return {v.id};
}

Fused::Value Fused::apply(std::string_view name, std::initializer_list<Value> operands) {
  State& s = *state_;
  const ScalarOp* op = find_op(name);
  FACULA_CHECK(op, ValueError, "Fused: there is no scalar operation '", name, "'; docs/ops lists the pointwise ops");
  const ScalarOpInfo& i = info(*op);
  FACULA_CHECK(operands.size() == i.arity, ValueError, "Fused: ", name, " takes ", static_cast<int>(i.arity),
               " operands, got ", operands.size());
  bool choice = *op == ScalarOp::where;
  ScalarType common = ScalarType::Undefined;
  size_t k = 0;
  for (Value v : operands) {
    FACULA_CHECK(v.id < s.dtypes.size() && s.dtypes[v.id] != ScalarType::Undefined, ValueError, "Fused: value ",
                 static_cast<int>(v.id), " is not part of this expression");
    if (choice && k++ == 0) continue;
    ScalarType t = s.dtypes[v.id];
    common = common == ScalarType::Undefined ? t : promoteTypes(common, t);
    FACULA_CHECK(common != ScalarType::Undefined, DTypeError, "Fused: ", name,
                 ": the operands' dtypes cannot be promoted");
  }
  if (i.promotion == Promotion::IntToFloat) common = float_if_integral(common);
  CType type = compute_type(common);
  FACULA_CHECK(i.exists_for(type), DTypeError, "Fused: \"", name, "\" not implemented for '", toString(common), "'");
  // Values between operations keep the full precision of their compute type; narrow integers would not wrap, so they are
  // refused rather than computed differently from the ops one by one.
  FACULA_CHECK((type != CType::I32 || common == kInt) && common != kUInt32, NotSupportedError, "Fused: ", name, " on ",
               toString(common), " values; convert the inputs to int32 or int64");
  bool divides =
      *op == ScalarOp::div_floor || *op == ScalarOp::div_trunc || *op == ScalarOp::remainder || *op == ScalarOp::fmod;
  FACULA_CHECK(!divides || !isIntegralType(common, true), NotSupportedError, "Fused: ", name,
               " on integers, whose divisors must be checked for zero first; call the op by itself");
  facula::Value in[3];
  k = 0;
  for (Value v : operands) {
    facula::Value x{v.id, s.program.values()[v.id].type};
    in[k] = s.program.cast(x, choice && k == 0 ? CType::B8 : type);
    ++k;
  }
  facula::Value r = i.arity == 1   ? s.program.apply(*op, in[0])
                    : i.arity == 2 ? s.program.apply(*op, in[0], in[1])
                                   : s.program.apply(*op, in[0], in[1], in[2]);
  s.dtypes.resize(s.program.values().size(), ScalarType::Undefined);
  s.dtypes[r.id] = i.result == ResultKind::Bool        ? kBool
                   : i.result == ResultKind::RealOf    ? toRealValueType(common)
                   : i.result == ResultKind::ComplexOf ? toComplexType(common)
                                                       : common;
  return {r.id};
}

void Fused::output(Value value, std::optional<ScalarType> dtype) {
  State& s = *state_;
  FACULA_CHECK(!s.finished, ValueError, "Fused: the expression has its output already");
  FACULA_CHECK(value.id < s.dtypes.size() && s.dtypes[value.id] != ScalarType::Undefined, ValueError, "Fused: value ",
               static_cast<int>(value.id), " is not part of this expression");
  s.program.store({value.id, s.program.values()[value.id].type}, dtype.value_or(s.dtypes[value.id]));
  s.finished = true;
}

Tensor Fused::operator()(std::initializer_list<Tensor> inputs) const {
  FACULA_CHECK(state_->finished, ValueError, "Fused: the expression has no output; call output(value) first");
  FACULA_CHECK(inputs.size() > 0, ValueError, "Fused: a call needs at least one tensor");
  return run_program(state_->program, inputs, std::span<const Scalar>(state_->params), Out::fresh(), "Fused");
}

std::string Fused::str() const { return state_->program.to_string(); }

}  // namespace facula
