// A Program: a straight list of scalar operations over typed loads, parameters and stores, with at most one reduction and
// an epilogue. It says what is computed for one element; shapes, strides and memory belong to whoever runs it
// (`cpu/executor.h`). Eager runs programs of one operation, fused code longer ones.
#pragma once

#include "program/scalar_ops.h"

#include <facula/core/dtype.h>

#include <cstdint>
#include <string>
#include <vector>

namespace facula {

// Reductions combine values of one compute type in a fixed tree. Sum, Prod, Max, Min, Any and All keep one value of the
// operand's type. ArgMax and ArgMin produce an I64 position, MaxWithIndex and MinWithIndex the value and the position.
// Moments produces the mean and the sum of squared deviations (floats only).
enum class ReduceOp : uint8_t {
  None,
  Sum,
  Prod,
  Max,
  Min,
  Any,
  All,
  ArgMax,
  ArgMin,
  MaxWithIndex,
  MinWithIndex,
  Moments,
  LogSumExp
};

// A value inside a program: a load, a parameter, or the result of an instruction.
struct Value {
  uint16_t id = 0;
  CType type = CType::F32;
};

class Program {
 public:
  enum class Source : uint8_t { Load, Param, Instruction, Reduced };

  struct Instruction {
    ScalarOp op;  // ignored for a cast
    bool is_cast;
    CType type;  // compute type of the operands (of the operand of a cast)
    CType result;
    uint16_t operands[3];
    bool operator==(const Instruction&) const = default;
  };
  struct Store {
    uint16_t value;
    ScalarType dtype;
    bool operator==(const Store&) const = default;
  };
  struct ValueInfo {
    Source source;
    uint16_t index;  // which load, parameter, instruction or reduction result
    CType type;
    bool operator==(const ValueInfo&) const = default;
  };

  // What a builder adds. Values are numbered in the order of the calls.
  Value load(ScalarType dtype);
  Value param(CType type);
  // Checks arity and types: InternalError on misuse. The first operand of `where` is B8, the others share one type.
  Value apply(ScalarOp op, Value a);
  Value apply(ScalarOp op, Value a, Value b);
  Value apply(ScalarOp op, Value a, Value b, Value c);
  // The value itself when it has the type already.
  Value cast(Value v, CType type);
  // At most one reduction; instructions after it are the epilogue and see reduced values and parameters only. The second
  // result (index, or sum of squares) is the value with the next id.
  Value reduce(ReduceOp op, Value v);
  // `dtype` may differ from the value's compute type: the store converts, rounding once.
  void store(Value v, ScalarType dtype);

  const std::vector<ScalarType>& loads() const { return loads_; }
  const std::vector<CType>& params() const { return params_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<Store>& stores() const { return stores_; }
  const std::vector<ValueInfo>& values() const { return values_; }
  ReduceOp reduction() const { return reduction_; }
  uint16_t reduced_value() const { return reduced_value_; }
  // Instructions before this one are the prologue.
  size_t epilogue_begin() const { return reduction_ == ReduceOp::None ? instructions_.size() : epilogue_begin_; }

  size_t hash() const;
  bool operator==(const Program&) const = default;
  // One line per step: "v2 = add.F32 v0 v1".
  std::string to_string() const;

 private:
  Value add_value(Source source, size_t index, CType type);
  Value add_instruction(const Instruction& instruction);

  std::vector<ScalarType> loads_;
  std::vector<CType> params_;
  std::vector<Instruction> instructions_;
  std::vector<Store> stores_;
  std::vector<ValueInfo> values_;
  ReduceOp reduction_ = ReduceOp::None;
  uint16_t reduced_value_ = 0;
  size_t epilogue_begin_ = 0;
};

const char* name_of(CType type);
const char* name_of(ReduceOp op);

}  // namespace facula
