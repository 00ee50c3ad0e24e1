// One pointwise program over many sets of tensors: one parallel region on the cpu, as few launches as the arguments of a kernel
// allow on a GPU. Optimizers write their rules with it, gradient clipping and scaling too.
//
//   Foreach rule("sgd", parameters.size(), kFloat);
//   Term p = rule.load(parameters), g = rule.load(gradients);
//   rule.store(p - rule.number(lr) * g, parameters);
//   rule.run();
#pragma once

#include "program/arguments.h"
#include "program/program.h"

#include <facula/tensor.h>

#include <vector>

namespace facula {

class Foreach;

// A value inside the program of a Foreach.
struct Term {
  Foreach* of;
  Value value;
};

class Foreach {
 public:
  // Computes `items` sets in the compute type of `dtype`, a floating one.
  Foreach(const char* op, size_t items, ScalarType dtype);

  // Tensor i of the column belongs to set i. All tensors of a column have one dtype, all columns one device; the tensors of a
  // set have equal sizes. Columns must live until `run`.
  Term load(TensorList column);
  // One element for the whole of a set.
  Term load_one(TensorList column);
  // A number, or a tensor of one element that serves all sets.
  Term number(double value);
  Term number(const Tensor& value);
  // Into a column that was loaded, or another one.
  void store(Term value, TensorList column);
  Term apply(ScalarOp op, Term a);
  Term apply(ScalarOp op, Term a, Term b);
  Term apply(ScalarOp op, Term a, Term b, Term c);

  // Computes, and marks what was stored to as written. Sets whose tensors have different layouts are computed one by one.
  void run();
  // The same, and combines the values of a term over all sets: a tensor of partial results, for a last reduction.
  Tensor run_and_reduce(Term value, ListReduce reduce);

 private:
  struct Column {
    TensorList tensors;
    bool one;  // a single tensor for all sets
  };
  Term add_load(const Column& column, bool constant);
  void check_columns() const;
  void execute(const ListReduce* reduce, Tensor* partials);

  const char* op_;
  size_t items_;
  CType type_;
  Program program_;
  std::vector<Column> loads_, stores_;
  uint64_t constant_ = 0;
  std::vector<ParamValue> params_;
};

inline Term operator+(Term a, Term b) { return a.of->apply(ScalarOp::add, a, b); }
inline Term operator-(Term a, Term b) { return a.of->apply(ScalarOp::sub, a, b); }
inline Term operator*(Term a, Term b) { return a.of->apply(ScalarOp::mul, a, b); }
inline Term operator/(Term a, Term b) { return a.of->apply(ScalarOp::div, a, b); }
inline Term operator-(Term a) { return a.of->apply(ScalarOp::neg, a); }
inline Term sqrt(Term a) { return a.of->apply(ScalarOp::sqrt, a); }
inline Term square(Term a) { return a.of->apply(ScalarOp::square, a); }
inline Term maximum(Term a, Term b) { return a.of->apply(ScalarOp::maximum, a, b); }
inline Term pow(Term a, Term b) { return a.of->apply(ScalarOp::pow, a, b); }
// a + alpha * b and a - alpha * b, one instruction.
inline Term add_scaled(Term a, Term b, Term alpha) { return a.of->apply(ScalarOp::add_alpha, a, b, alpha); }
inline Term sub_scaled(Term a, Term b, Term alpha) { return a.of->apply(ScalarOp::sub_alpha, a, b, alpha); }

// The norm of all tensors together, a number on their device that no wait is needed for: powers of `ord` are summed in float (in
// double for doubles) by a fixed tree. `ord` may be infinite. No tensors give zero.
FACULA_API Tensor foreach_norm(TensorList tensors, double ord, const char* op);
// Multiplies all tensors by a tensor of one element, in place.
FACULA_API void foreach_scale_(TensorList tensors, const Tensor& factor, const char* op);
// Scales all tensors, whose norm is known, down to `max_norm`, in place; nothing is asked of a device.
FACULA_API void foreach_clip_(TensorList tensors, const Tensor& norm, double max_norm, const char* op);
// Multiplies all tensors by a factor of one element, in place, and sets the float `found_inf` to one where a product, or what
// it was made of, is infinite or NaN.
FACULA_API void foreach_unscale_(TensorList tensors, const Tensor& found_inf, const Tensor& factor, const char* op);

}  // namespace facula
