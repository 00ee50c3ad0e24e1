// What Python's operators mean for tensors. The other operand may be a tensor, a number or an array of NumPy; for
// anything else the operand's own reflected operator is asked.
#include <facula/facula.h>

#include "arguments.h"
#include "waiting.h"

namespace facula::python {
namespace {

int64_t work_of(const Tensor& a, const Tensor& b) { return a.impl()->numel + b.impl()->numel; }

// An array as an operand next to `tensor`. It changes without the tape's knowledge, so the tape keeps a copy.
Tensor from_array(PyObject* array, const Tensor& tensor) {
  Tensor made = to_tensor(array);
  return GradMode::is_enabled() && tensor.requires_grad() ? made.clone() : made;
}

// `op` is an object with two calls: (Tensor, Tensor) and (Tensor, Scalar), and `reflected` for (Scalar, Tensor).
template <class Op>
PyObject* binary(PyObject* left, PyObject* right) {
  return guarded([&]() -> PyObject* {
    const bool left_is = is_tensor(left), right_is = is_tensor(right);
    if (left_is && right_is) {
      const Tensor &a = tensor_of(left), &b = tensor_of(right);
      Tensor made;
      {
        const Released released(work_of(a, b));
        made = Op::call(a, b);
      }
      return wrap(std::move(made));
    }
    PyObject* other = left_is ? right : left;
    const Tensor& tensor = tensor_of(left_is ? left : right);
    if (is_number(other, Lenient::No)) {
      const Scalar number = to_scalar(other);
      Tensor made;
      {
        const Released released(tensor.impl()->numel);
        made = left_is ? Op::call(tensor, number) : Op::reflected(number, tensor);
      }
      return wrap(std::move(made));
    }
    if (is_ndarray(other)) {
      const Tensor converted = from_array(other, tensor);
      return wrap(left_is ? Op::call(tensor, converted) : Op::call(converted, tensor));
    }
    Py_RETURN_NOTIMPLEMENTED;
  });
}

// In place: `a += b` keeps the object.
template <class Op>
PyObject* inplace(PyObject* left, PyObject* right) {
  return guarded([&]() -> PyObject* {
    if (!is_tensor(left)) Py_RETURN_NOTIMPLEMENTED;
    Tensor& self = tensor_of(left);
    if (is_tensor(right)) {
      const Released released(self.impl()->numel);
      Op::call_(self, tensor_of(right));
    } else if (is_number(right, Lenient::No)) {
      const Scalar number = to_scalar(right);
      const Released released(self.impl()->numel);
      Op::call_(self, number);
    } else if (is_ndarray(right)) {
      Op::call_(self, from_array(right, self));
    } else {
      Py_RETURN_NOTIMPLEMENTED;
    }
    return Py_NewRef(left);
  });
}

#define FACULA_OPERATOR(Name, function, symbol)                                             \
  struct Name {                                                                             \
    static Tensor call(const Tensor& a, const Tensor& b) { return facula::function(a, b); } \
    static Tensor call(const Tensor& a, const Scalar& b) { return facula::function(a, b); } \
    static Tensor reflected(const Scalar& a, const Tensor& b) { return a symbol b; }        \
    template <class T>                                                                      \
    static void call_(Tensor& self, const T& b) {                                           \
      facula::function##_(self, b);                                                         \
    }                                                                                       \
  };
FACULA_OPERATOR(Add, add, +)
FACULA_OPERATOR(Sub, sub, -)
FACULA_OPERATOR(Mul, mul, *)
FACULA_OPERATOR(Div, div, /)
FACULA_OPERATOR(And, bitwise_and, &)
FACULA_OPERATOR(Or, bitwise_or, |)
FACULA_OPERATOR(Xor, bitwise_xor, ^)
FACULA_OPERATOR(ShiftLeft, bitwise_left_shift, <<)
FACULA_OPERATOR(ShiftRight, bitwise_right_shift, >>)
FACULA_OPERATOR(Remainder, remainder, %)
#undef FACULA_OPERATOR

struct FloorDivide {
  template <class T>
  static Tensor call(const Tensor& a, const T& b) {
    return facula::floor_divide(a, b);
  }
  static Tensor reflected(const Scalar& a, const Tensor& b) { return facula::floor_divide(a, b); }
  template <class T>
  static void call_(Tensor& self, const T& b) {
    facula::floor_divide_(self, b);
  }
};

struct Matmul {
  static Tensor call(const Tensor& a, const Tensor& b) { return facula::matmul(a, b); }
  static Tensor call(const Tensor&, const Scalar&) {
    throw TypeMismatch("matmul(): argument 'other' (position 1) must be Tensor, not a number; use * to scale");
  }
  static Tensor reflected(const Scalar&, const Tensor& b) { return call(b, Scalar(0)); }
};

template <int kOp>
Tensor compared(const Tensor& a, const auto& b) {
  if constexpr (kOp == Py_EQ) return facula::eq(a, b);
  else if constexpr (kOp == Py_NE) return facula::ne(a, b);
  else if constexpr (kOp == Py_LT) return facula::lt(a, b);
  else if constexpr (kOp == Py_LE) return facula::le(a, b);
  else if constexpr (kOp == Py_GT) return facula::gt(a, b);
  else return facula::ge(a, b);
}
template <int kOp>
struct Compare {
  static Tensor call(const Tensor& a, const auto& b) { return compared<kOp>(a, b); }
  static Tensor reflected(const Scalar& a, const Tensor& b) {
    constexpr int kMirror = kOp == Py_LT   ? Py_GT
                            : kOp == Py_GT ? Py_LT
                            : kOp == Py_LE ? Py_GE
                            : kOp == Py_GE ? Py_LE
                                           : kOp;
    return compared<kMirror>(b, a);
  }
};

PyObject* rich_compare(PyObject* left, PyObject* right, int op) {
  switch (op) {
    case Py_EQ: return binary<Compare<Py_EQ>>(left, right);
    case Py_NE: return binary<Compare<Py_NE>>(left, right);
    case Py_LT: return binary<Compare<Py_LT>>(left, right);
    case Py_LE: return binary<Compare<Py_LE>>(left, right);
    case Py_GT: return binary<Compare<Py_GT>>(left, right);
    default: return binary<Compare<Py_GE>>(left, right);
  }
}

struct Power {
  static Tensor call(const Tensor& a, const Tensor& b) { return facula::pow(a, b); }
  static Tensor call(const Tensor& a, const Scalar& b) { return facula::pow(a, b); }
  static Tensor reflected(const Scalar& a, const Tensor& b) { return facula::pow(a, b); }
  template <class T>
  static void call_(Tensor& self, const T& b) {
    self.pow_(b);
  }
};

PyObject* power(PyObject* left, PyObject* right, PyObject* modulus) {
  return guarded([&]() -> PyObject* {
    if (modulus != Py_None) throw TypeMismatch("pow(): tensors take no modulus; use (a ** b) % m");
    return binary<Power>(left, right);
  });
}

PyObject* inplace_power(PyObject* left, PyObject* right, PyObject*) { return inplace<Power>(left, right); }

template <Tensor (*op)(const Tensor&)>
PyObject* unary(PyObject* self) {
  return guarded([&]() -> PyObject* {
    Tensor made;
    {
      const Released released(tensor_of(self).impl()->numel);
      made = op(tensor_of(self));
    }
    return wrap(std::move(made));
  });
}
Tensor negative(const Tensor& t) { return -t; }
Tensor positive(const Tensor& t) {
  FACULA_CHECK(t.scalar_type() != kBool, DTypeError, "positive: a bool tensor has no sign; convert it first");
  return t;
}
Tensor inverted(const Tensor& t) { return ~t; }
Tensor absolute(const Tensor& t) { return facula::abs(t); }

Scalar only_element(const Tensor& t, const char* what) {
  FACULA_CHECK(t.numel() == 1, ValueError, "only one element tensors can be converted to ", what,
               "; this one has sizes ", t.sizes());
  return item_of(t);
}

int to_truth(PyObject* self) {
  return guarded(
      [&]() -> int {
        const Tensor& t = tensor_of(self);
        if (t.numel() == 0)
          throw Error("Boolean value of Tensor with no values is ambiguous; ask t.numel() > 0 instead");
        if (t.numel() > 1)
          throw Error("Boolean value of Tensor with more than one value is ambiguous; use t.any() or t.all()");
        return item_of(t).is_zero() ? 0 : 1;
      },
      -1);
}

PyObject* to_python_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = only_element(tensor_of(self), "Python scalars");
    if (value.isComplex()) throw TypeMismatch("can't convert a complex tensor to int; take .real or .abs() first");
    if (value.isFloatingPoint()) return PyLong_FromDouble(value.toDouble());
    if (value.tag() == Scalar::Tag::UInt) return PyLong_FromUnsignedLongLong(value.toUInt64());
    return PyLong_FromLongLong(value.toLong());
  });
}
PyObject* to_python_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = only_element(tensor_of(self), "Python scalars");
    if (value.isComplex()) throw TypeMismatch("can't convert a complex tensor to float; take .real or .abs() first");
    return PyFloat_FromDouble(value.toDouble());
  });
}
PyObject* to_python_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (!isIntegralType(t.scalar_type(), true) || t.numel() != 1)
      throw TypeMismatch("only integer tensors of a single element can be converted to an index");
    const Scalar value = item_of(t);
    if (value.tag() == Scalar::Tag::UInt) return PyLong_FromUnsignedLongLong(value.toUInt64());
    return PyLong_FromLongLong(value.toLong());
  });
}

template <class F>
void* slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyType_Slot tensor_operator_slots[] = {
    {Py_nb_add, slot(binary<Add>)},
    {Py_nb_subtract, slot(binary<Sub>)},
    {Py_nb_multiply, slot(binary<Mul>)},
    {Py_nb_true_divide, slot(binary<Div>)},
    {Py_nb_floor_divide, slot(binary<FloorDivide>)},
    {Py_nb_remainder, slot(binary<Remainder>)},
    {Py_nb_matrix_multiply, slot(binary<Matmul>)},
    {Py_nb_and, slot(binary<And>)},
    {Py_nb_or, slot(binary<Or>)},
    {Py_nb_xor, slot(binary<Xor>)},
    {Py_nb_lshift, slot(binary<ShiftLeft>)},
    {Py_nb_rshift, slot(binary<ShiftRight>)},
    {Py_nb_power, slot(power)},
    {Py_nb_inplace_add, slot(inplace<Add>)},
    {Py_nb_inplace_subtract, slot(inplace<Sub>)},
    {Py_nb_inplace_multiply, slot(inplace<Mul>)},
    {Py_nb_inplace_true_divide, slot(inplace<Div>)},
    {Py_nb_inplace_floor_divide, slot(inplace<FloorDivide>)},
    {Py_nb_inplace_remainder, slot(inplace<Remainder>)},
    {Py_nb_inplace_and, slot(inplace<And>)},
    {Py_nb_inplace_or, slot(inplace<Or>)},
    {Py_nb_inplace_xor, slot(inplace<Xor>)},
    {Py_nb_inplace_lshift, slot(inplace<ShiftLeft>)},
    {Py_nb_inplace_rshift, slot(inplace<ShiftRight>)},
    {Py_nb_inplace_power, slot(inplace_power)},
    {Py_nb_negative, slot(unary<negative>)},
    {Py_nb_positive, slot(unary<positive>)},
    {Py_nb_invert, slot(unary<inverted>)},
    {Py_nb_absolute, slot(unary<absolute>)},
    {Py_nb_bool, slot(to_truth)},
    {Py_nb_int, slot(to_python_int)},
    {Py_nb_float, slot(to_python_float)},
    {Py_nb_index, slot(to_python_index)},
    {Py_tp_richcompare, slot(rich_compare)},
    {0, nullptr},
};

}  // namespace facula::python
