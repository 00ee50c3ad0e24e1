// A pointwise expression of several operations, run as one pass over memory: each element is loaded once, goes through
// all operations in the cache, and is stored once.
//
//   Fused f;
//   auto x = f.input(kFloat), y = f.input(kFloat);
//   f.output(f.apply("mul", {f.apply("sigmoid", {x}), y}));
//   Tensor z = f({a, b});
#pragma once

#include <facula/tensor.h>

#include <memory>

namespace facula {

class FACULA_API Fused {
 public:
  // A value inside the expression.
  struct Value {
    uint16_t id;
  };

  Fused();
  ~Fused();
  Fused(Fused&&) noexcept;
  Fused& operator=(Fused&&) noexcept;

  // The next tensor of a call.
  Value input(ScalarType dtype);
  // A number that is the same for all elements, computed with as `dtype`.
  Value constant(const Scalar& value, ScalarType dtype);
  // A scalar operation by name ("add", "tanh", "where", ...). Operands promote as dtypes do.
  Value apply(std::string_view op, std::initializer_list<Value> operands);
  // The result, in the dtype that promotion gives, or in `dtype`. One output per expression.
  void output(Value value, std::optional<ScalarType> dtype = std::nullopt);

  // Inputs broadcast; the result has their common shape.
  Tensor operator()(std::initializer_list<Tensor> inputs) const;
  // One line per step.
  std::string str() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace facula
