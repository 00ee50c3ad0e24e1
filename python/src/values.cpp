// Python's values as C++ values: numbers, lists, arrays of NumPy. The types of our own are in value_types.cpp.
#include "values.h"

#include <cstring>

#include "errors.h"
#include "exchange.h"
#include "tensor_object.h"
#include "value_types.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

// NumPy's types are looked up when NumPy is there already: an array cannot exist before.
struct NumpyTypes {
  PyObject *array = nullptr, *generic = nullptr, *integer = nullptr, *floating = nullptr, *complex = nullptr,
           *boolean = nullptr;
};

const NumpyTypes* numpy_types() {
  static NumpyTypes types;
  if (types.array) return &types;
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");  // borrowed
  if (!numpy) return nullptr;
  NumpyTypes found;
  auto get = [&](const char* name) { return PyObject_GetAttrString(numpy, name); };
  found.generic = get("generic");
  found.integer = get("integer");
  found.floating = get("floating");
  found.complex = get("complexfloating");
  found.boolean = get("bool_");
  found.array = get("ndarray");
  if (!found.array || !found.generic || !found.integer || !found.floating || !found.complex || !found.boolean) {
    PyErr_Clear();  // NumPy is being imported right now
    return nullptr;
  }
  types = found;
  return &types;
}

bool is_instance(PyObject* object, PyObject* type) {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(type));
}

// Python's own scalars, lists and so on are never NumPy's; this spares the look.
bool may_be_numpy(PyObject* object) {
  const PyTypeObject* type = Py_TYPE(object);
  return type != &PyLong_Type && type != &PyFloat_Type && type != &PyTuple_Type && type != &PyList_Type &&
         type != &PyUnicode_Type && type != &PyBool_Type && object != Py_None;
}

const Tensor* number_tensor(PyObject* object) {
  if (!is_tensor(object)) return nullptr;
  const Tensor& t = tensor_of(object);
  return t.dim() == 0 && !t.requires_grad() ? &t : nullptr;
}

// The items of a list or tuple, borrowed.
struct Items {
  explicit Items(PyObject* sequence)
      : items(PySequence_Fast_ITEMS(sequence)), count(static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence))) {}
  PyObject** items;
  size_t count;
};
bool is_sequence(PyObject* object) { return PyTuple_Check(object) || PyList_Check(object); }

}  // namespace

bool is_bool(PyObject* object) {
  if (PyBool_Check(object)) return true;
  if (!may_be_numpy(object)) return false;
  const NumpyTypes* numpy = numpy_types();
  return numpy && is_instance(object, numpy->boolean);
}

bool is_integer(PyObject* object, Lenient lenient) {
  if (PyLong_Check(object)) return !PyBool_Check(object);
  if (!may_be_numpy(object)) return false;
  if (lenient == Lenient::Yes)
    if (const Tensor* t = number_tensor(object)) return isIntegralType(t->scalar_type(), false);
  const NumpyTypes* numpy = numpy_types();
  return numpy && is_instance(object, numpy->integer);
}

bool is_real(PyObject* object, Lenient lenient) {
  if (PyFloat_Check(object) || is_integer(object, lenient)) return true;
  if (!may_be_numpy(object)) return false;
  if (lenient == Lenient::Yes)
    if (const Tensor* t = number_tensor(object)) return !t->is_complex();
  const NumpyTypes* numpy = numpy_types();
  return numpy && is_instance(object, numpy->floating);
}

bool is_number(PyObject* object, Lenient lenient) {
  if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object)) return true;
  if (!may_be_numpy(object)) return false;
  if (lenient == Lenient::Yes && number_tensor(object)) return true;
  const NumpyTypes* numpy = numpy_types();
  return numpy && is_instance(object, numpy->generic) &&
         (is_instance(object, numpy->integer) || is_instance(object, numpy->floating) ||
          is_instance(object, numpy->complex) || is_instance(object, numpy->boolean));
}

bool is_ndarray(PyObject* object) {
  if (!may_be_numpy(object)) return false;
  const NumpyTypes* numpy = numpy_types();
  return numpy && is_instance(object, numpy->array);
}

bool is_integer_list(PyObject* object) {
  if (!is_sequence(object)) return false;
  const Items list(object);
  for (size_t i = 0; i < list.count; ++i)
    if (!is_integer(list.items[i], Lenient::Yes)) return false;
  return true;
}

bool is_tensor_list(PyObject* object) {
  if (!is_sequence(object)) return false;
  const Items list(object);
  for (size_t i = 0; i < list.count; ++i)
    if (!is_tensor(list.items[i]) && !is_ndarray(list.items[i])) return false;
  return true;
}

bool is_optional_tensor_list(PyObject* object) {
  if (!is_sequence(object)) return false;
  const Items list(object);
  for (size_t i = 0; i < list.count; ++i)
    if (list.items[i] != Py_None && !is_tensor(list.items[i])) return false;
  return true;
}

namespace {

[[noreturn]] void does_not_fit(PyObject* integer) {
  const nb::object text = nb::steal(PyObject_Repr(integer));
  if (!text) PyErr_Clear();  // Python writes out no numbers of very many digits
  const std::string_view digits = text ? to_text_view(text.ptr()) : std::string_view();
  const bool shown = !digits.empty() && digits.size() <= 40;
  throw IntegerTooWide(str("the integer ", shown ? str(digits, " ") : "", "does not fit 64 bits"));
}

}  // namespace

int64_t to_integer(PyObject* object) {
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) does_not_fit(object);
    return value;
  }
  if (is_tensor(object)) return tensor_of(object).item().toLong();
  nb::object index = nb::steal(PyNumber_Index(object));
  if (!index) throw nb::python_error();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow) does_not_fit(index.ptr());
  return value;
}

double to_real(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (is_tensor(object)) return tensor_of(object).item().toDouble();
  const double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

bool to_bool(PyObject* object) {
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw nb::python_error();
  return value != 0;
}

Scalar to_scalar(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) return static_cast<int64_t>(value);
    const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : 0;
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_Clear();
      does_not_fit(object);
    }
    return static_cast<uint64_t>(large);
  }
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyComplex_Check(object)) return complex<double>(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
  if (is_tensor(object)) return tensor_of(object).item();
  const NumpyTypes* numpy = numpy_types();
  if (numpy && is_instance(object, numpy->boolean)) return to_bool(object);
  if (numpy && is_instance(object, numpy->integer)) {
    nb::object index = nb::steal(PyNumber_Index(object));
    if (!index) throw nb::python_error();
    return to_scalar(index.ptr());
  }
  if (numpy && is_instance(object, numpy->complex)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    if (PyErr_Occurred()) throw nb::python_error();
    return complex<double>(value.real, value.imag);
  }
  return to_real(object);
}

std::string_view to_text_view(PyObject* object) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) throw nb::python_error();
  return {text, static_cast<size_t>(length)};
}

Tensor to_tensor(PyObject* object) {
  if (is_tensor(object)) return tensor_of(object);
  return tensor_from_array(object);
}

PyObject* from_scalar(const Scalar& value) {
  switch (value.tag()) {
    case Scalar::Tag::Bool: return PyBool_FromLong(value.toBool());
    case Scalar::Tag::Int: return PyLong_FromLongLong(value.toLong());
    case Scalar::Tag::UInt: return PyLong_FromUnsignedLongLong(value.toUInt64());
    case Scalar::Tag::Double: return PyFloat_FromDouble(value.toDouble());
    case Scalar::Tag::Complex: {
      const auto z = value.toComplexDouble();
      return PyComplex_FromDoubles(z.real(), z.imag());
    }
  }
  return nullptr;
}

}  // namespace facula::python
