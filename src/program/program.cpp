#include "program/program.h"

#include "core/hash.h"
#include "program/compute_type.h"

#include <facula/core/error.h>

namespace facula {
namespace {

constexpr uint16_t kNoOperand = UINT16_MAX;

}  // namespace

const char* name_of(CType type) {
  constexpr const char* kNames[] = {"F32", "F64", "I32", "I64", "U64", "B8", "C64", "C128"};
  return kNames[static_cast<size_t>(type)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* kNames[] = {
      "none",           "sum",     "prod",     "max", "min", "any", "all", "argmax", "argmin", "max_with_index",
      "min_with_index", "moments", "logsumexp"};
  return kNames[static_cast<size_t>(op)];
}

Value Program::add_value(Source source, size_t index, CType type) {
  FACULA_INTERNAL_CHECK(values_.size() < kNoOperand);
  values_.push_back({source, static_cast<uint16_t>(index), type});
  return {static_cast<uint16_t>(values_.size() - 1), type};
}

Value Program::load(ScalarType dtype) {
  loads_.push_back(dtype);
  return add_value(Source::Load, loads_.size() - 1, compute_type(dtype));
}

Value Program::param(CType type) {
  params_.push_back(type);
  return add_value(Source::Param, params_.size() - 1, type);
}

Value Program::add_instruction(const Instruction& instruction) {
  // Equal work is done once: an instruction that is there already is its own result.
  size_t first = reduction_ == ReduceOp::None ? 0 : epilogue_begin_;
  for (size_t id = 0; id < values_.size(); ++id) {
    const ValueInfo& v = values_[id];
    if (v.source == Source::Instruction && v.index >= first && instructions_[v.index] == instruction)
      return {static_cast<uint16_t>(id), v.type};
  }
  instructions_.push_back(instruction);
  return add_value(Source::Instruction, instructions_.size() - 1, instruction.result);
}

Value Program::apply(ScalarOp op, Value a) {
  const ScalarOpInfo& i = info(op);
  FACULA_INTERNAL_CHECK(i.arity == 1 && i.exists_for(a.type));
  return add_instruction({op, false, a.type, result_type(i.result, a.type), {a.id, kNoOperand, kNoOperand}});
}

Value Program::apply(ScalarOp op, Value a, Value b) {
  const ScalarOpInfo& i = info(op);
  FACULA_INTERNAL_CHECK(i.arity == 2 && a.type == b.type && i.exists_for(a.type));
  return add_instruction({op, false, a.type, result_type(i.result, a.type), {a.id, b.id, kNoOperand}});
}

Value Program::apply(ScalarOp op, Value a, Value b, Value c) {
  const ScalarOpInfo& i = info(op);
  CType first = op == ScalarOp::where ? CType::B8 : b.type;
  FACULA_INTERNAL_CHECK(i.arity == 3 && a.type == first && b.type == c.type && i.exists_for(b.type));
  return add_instruction({op, false, b.type, result_type(i.result, b.type), {a.id, b.id, c.id}});
}

Value Program::cast(Value v, CType type) {
  if (v.type == type) return v;
  return add_instruction({ScalarOp::positive, true, v.type, type, {v.id, kNoOperand, kNoOperand}});
}

Value Program::reduce(ReduceOp op, Value v) {
  FACULA_INTERNAL_CHECK(reduction_ == ReduceOp::None && op != ReduceOp::None);
  reduction_ = op;
  reduced_value_ = v.id;
  epilogue_begin_ = instructions_.size();
  bool position = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
  Value first = add_value(Source::Reduced, 0, position ? CType::I64 : v.type);
  if (op == ReduceOp::MaxWithIndex || op == ReduceOp::MinWithIndex) add_value(Source::Reduced, 1, CType::I64);
  if (op == ReduceOp::Moments) add_value(Source::Reduced, 1, v.type);
  return first;
}

void Program::store(Value v, ScalarType dtype) { stores_.push_back({v.id, dtype}); }

size_t Program::hash() const {
  using detail::hash_combine;
  size_t h = hash_combine(loads_.size(), params_.size());
  for (ScalarType t : loads_) h = hash_combine(h, static_cast<size_t>(t));
  for (CType t : params_) h = hash_combine(h, static_cast<size_t>(t));
  for (const Instruction& i : instructions_) {
    h = hash_combine(
        h, static_cast<size_t>(i.op) << 16 | static_cast<size_t>(i.type) << 8 | static_cast<size_t>(i.result));
    h = hash_combine(h, static_cast<size_t>(i.is_cast));
    for (uint16_t operand : i.operands) h = hash_combine(h, operand);
  }
  h = hash_combine(h, static_cast<size_t>(reduction_) << 16 | reduced_value_);
  for (const Store& s : stores_) h = hash_combine(h, static_cast<size_t>(s.value) << 8 | static_cast<size_t>(s.dtype));
  return h;
}

std::string Program::to_string() const {
  std::string out;
  auto line = [&](const auto&... parts) { out += str(parts..., "\n"); };
  for (size_t id = 0; id < values_.size(); ++id) {
    const ValueInfo& v = values_[id];
    switch (v.source) {
      case Source::Load: line("v", id, " = load.", dtype_name(loads_[v.index]), " ", v.index); break;
      case Source::Param: line("v", id, " = param.", name_of(v.type), " ", v.index); break;
      case Source::Reduced:
        if (v.index == 0) line("v", id, " = reduce.", name_of(reduction_), " v", reduced_value_);
        else line("v", id, " = second v", id - 1);
        break;
      case Source::Instruction: {
        const Instruction& i = instructions_[v.index];
        std::string operands;
        for (uint16_t operand : i.operands)
          if (operand != kNoOperand) operands += str(" v", operand);
        if (i.is_cast) line("v", id, " = cast.", name_of(i.type), ".", name_of(i.result), operands);
        else line("v", id, " = ", info(i.op).name, ".", name_of(i.type), operands);
        break;
      }
    }
  }
  for (size_t k = 0; k < stores_.size(); ++k)
    line("store.", dtype_name(stores_[k].dtype), " ", k, " v", stores_[k].value);
  return out;
}

}  // namespace facula
