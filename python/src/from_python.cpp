// Tensors from Python's numbers and nested lists, and back: facula.tensor, as_tensor, asarray, Tensor.new_tensor,
// Tensor.tolist. Memory that is shared with others is in exchange.cpp.
#include "from_python.h"

#include <facula/facula.h>

#include <utility>

#include "arguments.h"
#include "core/dispatch.h"
#include "exchange.h"
#include "keywords.h"
#include "waiting.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

constexpr size_t kMostDims = 64;

// ---- Nested data. A list within a list is a dim more, which bounds the depth of every recursion here.

// The items of a list or tuple, or of another sequence as a list of its own.
class Items {
 public:
  explicit Items(PyObject* sequence) {
    if (PyList_Check(sequence) || PyTuple_Check(sequence)) list_ = nb::borrow(sequence);
    else list_ = nb::steal(PySequence_List(sequence));
    if (!list_) throw nb::python_error();
  }
  int64_t size() const { return PySequence_Fast_GET_SIZE(list_.ptr()); }
  // Reading a number may run code of the user's, which may shorten the list.
  PyObject* operator[](int64_t i) const {
    FACULA_CHECK(i < size(), ValueError, "tensor(): the list changed while it was read");
    return PySequence_Fast_ITEMS(list_.ptr())[i];
  }

 private:
  nb::object list_;
};

bool is_block(PyObject* object) { return is_tensor(object) || is_ndarray(object); }

bool is_nested(PyObject* object) {
  if (PyList_Check(object) || PyTuple_Check(object)) return true;
  return !PyUnicode_Check(object) && !is_number(object, Lenient::No) && PySequence_Check(object);
}

// A tensor or an array as a tensor without history.
Tensor block_of(PyObject* object) {
  return is_tensor(object) ? tensor_of(object).detach() : tensor_from_array(object, Share::Read);
}

struct Sizes {
  int64_t values[kMostDims];
  size_t count = 0;

  void add(int64_t size, PyObject* of) {
    FACULA_CHECK(count < kMostDims, ValueError, "too many dimensions '", Py_TYPE(of)->tp_name,
                 "'; a tensor has at most ", kMostDims);
    values[count++] = size;
  }
  IntArrayRef from(size_t level) const { return {values + level, count - level}; }
};

// The sizes that the first of each nested sequence gives; the others are held to them when they are read.
Sizes find_sizes(PyObject* data) {
  Sizes sizes;
  nb::object at = nb::borrow(data);
  while (true) {
    if (is_block(at.ptr())) {
      for (int64_t s : block_of(at.ptr()).sizes()) sizes.add(s, at.ptr());
      return sizes;
    }
    if (!is_nested(at.ptr())) return sizes;
    const Items items(at.ptr());
    sizes.add(items.size(), at.ptr());
    if (items.size() == 0) return sizes;
    at = nb::borrow(items[0]);
  }
}

// ---- The dtype of nested data.

// The dtypes of NumPy's scalars are few, and asking for one is slow.
ScalarType numpy_scalar_dtype(PyObject* object) {
  static struct {
    PyTypeObject* type;
    ScalarType dtype;
  } known[24];
  for (auto& k : known) {
    if (k.type == Py_TYPE(object)) return k.dtype;
    if (k.type) continue;
    const ScalarType found = tensor_from_array(object, Share::Read).scalar_type();
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) return found;  // such a type may go
    k.dtype = found;
    k.type = Py_TYPE(object);
    return found;
  }
  return tensor_from_array(object, Share::Read).scalar_type();
}

class DtypeFinder {
 public:
  void look(PyObject* object, size_t level = 0) {
    const PyTypeObject* type = Py_TYPE(object);
    if (type == &PyFloat_Type) float_ = true;
    else if (type == &PyLong_Type) integer_ = true;
    else if (type == &PyBool_Type) bool_ = true;
    else if (type == &PyComplex_Type) complex_ = true;
    else if (is_tensor(object)) join(tensor_of(object).scalar_type());
    else look_further(object, level);
  }
  // Undefined for data without numbers.
  ScalarType found() {
    if (bool_) join(kBool);
    if (integer_) join(kLong);
    if (float_) join(get_default_dtype());
    if (complex_) join(default_complex());
    return found_;
  }

 private:
  static ScalarType default_complex() {
    return toComplexType(get_default_dtype()) == kComplexDouble ? kComplexDouble : kComplexFloat;
  }

  void join(ScalarType t) {
    if (found_ == ScalarType::Undefined || found_ == t) {
      found_ = t;
      return;
    }
    const ScalarType made = promoteTypes(found_, t);
    FACULA_CHECK(made != ScalarType::Undefined, DTypeError, "tensor(): ", dtype_name(found_), " and ", dtype_name(t),
                 " have no common type; give the dtype");
    found_ = made;
  }

  void look_further(PyObject* object, size_t level) {
    if (is_ndarray(object)) {
      join(tensor_from_array(object, Share::Read).scalar_type());
    } else if (is_nested(object)) {
      FACULA_CHECK(level < kMostDims, ValueError, "too many dimensions '", Py_TYPE(object)->tp_name,
                   "'; a tensor has at most ", kMostDims);
      const Items items(object);
      for (int64_t i = 0; i < items.size(); ++i) look(items[i], level + 1);
    } else if (is_numpy_scalar(object)) {
      join(numpy_scalar_dtype(object));
    } else if (PyFloat_Check(object)) {
      float_ = true;
    } else if (PyLong_Check(object) || PyIndex_Check(object)) {
      integer_ = true;
    } else if (PyComplex_Check(object)) {
      complex_ = true;
    } else if (PyUnicode_Check(object)) {
      throw TypeMismatch(str("new(): invalid data type '", Py_TYPE(object)->tp_name, "'; tensors hold numbers"));
    } else {
      throw TypeMismatch(str("Could not infer dtype of ", Py_TYPE(object)->tp_name, "; tensors hold numbers"));
    }
  }

  static bool is_numpy_scalar(PyObject* object) {
    return Py_TYPE(object) != &PyFloat_Type && is_number(object, Lenient::No) &&
           PyObject_HasAttrString(object, "dtype");
  }

  bool bool_ = false, integer_ = false, float_ = false, complex_ = false;
  ScalarType found_ = ScalarType::Undefined;
};

// ---- The values of nested data.

Scalar number_of(PyObject* object) {
  if (is_tensor(object)) return item_of(tensor_of(object));
  if (is_number(object, Lenient::No)) return to_scalar(object);
  if (PyIndex_Check(object)) {
    nb::object integer = nb::steal(PyNumber_Index(object));
    if (!integer) throw nb::python_error();
    return to_scalar(integer.ptr());
  }
  if (is_ndarray(object)) return tensor_from_array(object, Share::Read).item();
  throw TypeMismatch(str("'", Py_TYPE(object)->tp_name,
                         "' object cannot be read as a number; all sequences of one dim must have the same depth"));
}

template <class T>
T real_number(double value) {
  if constexpr (sizeof(T) >= 4) return static_cast<T>(value);
  else return T(static_cast<float>(value));
}

template <class T>
T value_of(PyObject* object) {
  if constexpr (std::is_same_v<T, bool>) {
    if (object == Py_True) return true;
    if (object == Py_False) return false;
    return !number_of(object).is_zero();
  } else if constexpr (std::is_integral_v<T>) {
    if (PyLong_CheckExact(object)) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow == 0 && std::in_range<T>(value)) return static_cast<T>(value);
    }
    const Scalar number = number_of(object);
    FACULA_CHECK(std::is_signed_v<T> || number.tag() != Scalar::Tag::Int || number.toLong() >= 0, ValueError, "value ",
                 number.str(), " cannot be converted to type ", dtype_name(scalar_type_of<T>()), " without overflow");
    return number.to<T>();
  } else if constexpr (requires { typename T::value_type; }) {
    using R = typename T::value_type;
    if (PyFloat_CheckExact(object)) return T(real_number<R>(PyFloat_AS_DOUBLE(object)), R(0.0f));
    const auto z = number_of(object).toComplexDouble();
    return T(real_number<R>(z.real()), real_number<R>(z.imag()));
  } else {
    if (PyFloat_CheckExact(object)) return real_number<T>(PyFloat_AS_DOUBLE(object));
    if (PyLong_CheckExact(object)) {
      const double value = PyLong_AsDouble(object);
      if (value == -1 && PyErr_Occurred()) throw nb::python_error();
      return real_number<T>(value);
    }
    const Scalar number = number_of(object);
    if (number.isComplex()) throw TypeMismatch("can't convert complex to float; give a complex dtype");
    return real_number<T>(number.toDouble());
  }
}

// Writes `count` numbers in a row; of `single` when there is no list.
template <class T>
void write_numbers(const Items* items, PyObject* single, int64_t count, char* out) {
  T* place = reinterpret_cast<T*>(out);
  if (!items) {
    *place = value_of<T>(single);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    PyObject* item = (*items)[i];
    // Reading Python's own numbers runs no code of others.
    if (PyFloat_CheckExact(item) || PyLong_CheckExact(item)) place[i] = value_of<T>(item);
    else place[i] = value_of<T>(nb::borrow(item).ptr());
  }
}

class Writer {
 public:
  Writer(const Sizes& sizes, ScalarType dtype, char* out)
      : sizes_(sizes),
        dtype_(dtype),
        out_(out),
        numbers_(dispatch_dtype(dtype, []<class T>() { return &write_numbers<T>; })) {}

  void write(PyObject* data, size_t level) {
    const auto element = static_cast<int64_t>(elementSize(dtype_));
    if (is_block(data) && (level < sizes_.count || !is_tensor(data))) {
      write_block(block_of(data), level);
      return;
    }
    if (level == sizes_.count) {
      numbers_(nullptr, data, 1, out_);
      out_ += element;
      return;
    }
    if (!is_nested(data))
      throw TypeMismatch(str("not a sequence: expected a sequence of length ", sizes_.values[level], " at dim ", level,
                             ", got '", Py_TYPE(data)->tp_name, "'"));
    const Items items(data);
    const int64_t count = sizes_.values[level];
    FACULA_CHECK(items.size() == count, ValueError, "expected sequence of length ", count, " at dim ", level, " (got ",
                 items.size(), ")");
    if (level + 1 == sizes_.count) {
      numbers_(&items, nullptr, count, out_);
      out_ += count * element;
      return;
    }
    for (int64_t i = 0; i < count; ++i) write(nb::borrow(items[i]).ptr(), level + 1);
  }

 private:
  void write_block(const Tensor& block, size_t level) {
    const IntArrayRef wanted = sizes_.from(level);
    FACULA_CHECK(block.sizes() == wanted, ValueError, "expected sequence of sizes ", wanted, " at dim ", level,
                 " (got a tensor or array of sizes ", block.sizes(), ")");
    if (block.numel() == 0) return;
    facula::from_blob(out_, wanted, TensorOptions(dtype_)).copy_(block);
    out_ += static_cast<int64_t>(block.numel()) * static_cast<int64_t>(elementSize(dtype_));
  }

  const Sizes& sizes_;
  ScalarType dtype_;
  char* out_;
  void (*numbers_)(const Items*, PyObject*, int64_t, char*);
};

Tensor moved(const Tensor& made, std::optional<Device> device) {
  return device && *device != made.device() ? made.to(*device) : made;
}

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw nb::python_error();
}

void warn_of_copy(const char* function) {
  warn(str("To copy construct from a tensor, it is recommended to use source.detach().clone() or "
           "source.detach().clone().requires_grad_(True), rather than ",
           function, "(source).")
           .c_str());
}

Tensor with_grad(Tensor t, bool requires_grad) {
  if (requires_grad) t.set_requires_grad(true);
  return t;
}

// ---- Lists of a tensor's values.

template <class T>
PyObject* python_number(const T& value) {
  if constexpr (std::is_same_v<T, bool>) return PyBool_FromLong(value);
  else if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(value);
  else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(value);
  else if constexpr (std::is_same_v<T, double>) return PyFloat_FromDouble(value);
  else if constexpr (requires { typename T::value_type; }) {
    using R = typename T::value_type;
    using Wide = std::conditional_t<std::is_same_v<R, double>, double, float>;
    return PyComplex_FromDoubles(static_cast<Wide>(value.real()), static_cast<Wide>(value.imag()));
  } else return PyFloat_FromDouble(static_cast<float>(value));
}

// `count` numbers that are `stride` bytes apart; one number by itself when the stride is 0 and the count -1.
template <class T>
PyObject* number_list(const char* data, int64_t count, int64_t stride) {
  if (count < 0) return python_number(*reinterpret_cast<const T*>(data));
  nb::object list = nb::steal(PyList_New(count));
  if (!list) return nullptr;
  for (int64_t i = 0; i < count; ++i) {
    PyObject* number = python_number(*reinterpret_cast<const T*>(data + i * stride));
    if (!number) return nullptr;
    PyList_SET_ITEM(list.ptr(), i, number);
  }
  return list.release().ptr();
}

struct ListMaker {
  PyObject* (*numbers)(const char*, int64_t, int64_t);
  IntArrayRef sizes, strides;
  int64_t element;

  PyObject* make(const char* data, size_t level) const {
    if (sizes.empty()) return numbers(data, -1, 0);
    const int64_t count = sizes[level], stride = strides[level] * element;
    if (level + 1 == sizes.size()) return numbers(data, count, stride);
    nb::object list = nb::steal(PyList_New(count));
    if (!list) return nullptr;
    for (int64_t i = 0; i < count; ++i) {
      PyObject* part = make(data ? data + i * stride : nullptr, level + 1);
      if (!part) return nullptr;
      PyList_SET_ITEM(list.ptr(), i, part);
    }
    return list.release().ptr();
  }
};

// ---- Functions of the module.

PyObject* make_tensor(PyObject*, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"data", "dtype", "device", "requires_grad", "pin_memory"};
    const Slots slots("tensor", kNames, 1, given, count, keywords);
    if (!slots[0]) throw TypeMismatch("tensor(): missing 1 required positional argument: \"data\"");
    if (is_tensor(slots[0])) warn_of_copy("facula.tensor");
    return wrap(with_grad(tensor_from_data(slots[0], slots.dtype(1), slots.device(2)), slots.boolean(3, false)));
  });
}

TensorOptions options_of(nb::handle dtype, nb::handle device) {
  TensorOptions options;
  if (!dtype.is_none()) options = options.dtype(to_dtype(dtype.ptr()));
  if (!device.is_none()) options = options.device(std::optional(to_device(device.ptr())));
  return options;
}

Tensor as_tensor(nb::handle data, nb::handle dtype, nb::handle device) {
  const TensorOptions options = options_of(dtype, device);
  if (is_tensor(data.ptr())) return tensor_of(data.ptr()).to(options);
  if (is_ndarray(data.ptr())) return tensor_from_array(data.ptr(), Share::Write).to(options);
  return tensor_from_data(data.ptr(), options.dtype_opt(), options.device_opt());
}

Tensor asarray(nb::handle object, nb::handle dtype, nb::handle device, nb::handle copy, bool requires_grad) {
  const TensorOptions options = options_of(dtype, device);
  const bool never = !copy.is_none() && !to_bool(copy.ptr()), always = !copy.is_none() && !never;
  PyObject* data = object.ptr();
  Tensor given;
  if (is_tensor(data)) given = tensor_of(data);
  else if (is_ndarray(data)) given = tensor_from_array(data, always ? Share::Read : Share::Write);
  else if (PyCapsule_CheckExact(data)) given = tensor_from_dlpack(data);
  else if (!is_number(data, Lenient::No) && PyObject_CheckBuffer(data))
    given = tensor_from_buffer(data, options.dtype(), -1, 0, always ? Share::Read : Share::Write);
  if (!given.defined()) {
    FACULA_CHECK(!never, ValueError,
                 "asarray(): can't alias arbitrary sequence; it is always copied, so leave copy out");
    return with_grad(tensor_from_data(data, options.dtype_opt(), options.device_opt()), requires_grad);
  }
  Tensor made = given.to(options);
  FACULA_CHECK(!never || made.is_same(given), ValueError, "asarray(): can't alias a tensor of dtype ",
               dtype_name(given.scalar_type()), " on ", given.device().str(), " as ", dtype_name(made.scalar_type()),
               " on ", made.device().str(), "; allow the copy with copy=None");
  if (always && made.is_same(given)) made = given.clone();
  if (!requires_grad) return made.requires_grad() ? made.detach() : made;
  if (!made.requires_grad()) made.set_requires_grad(true);
  return made;
}

}  // namespace

Tensor tensor_from_data(PyObject* data, std::optional<ScalarType> dtype, std::optional<Device> device) {
  if (is_block(data)) {
    TensorOptions options;
    options = options.dtype(dtype).device(device);
    return block_of(data).to(options, false, true);
  }
  const Sizes sizes = find_sizes(data);
  if (!dtype) {
    DtypeFinder finder;
    finder.look(data);
    const ScalarType found = finder.found();
    dtype = found == ScalarType::Undefined ? get_default_dtype() : found;
  }
  Tensor made = facula::empty(sizes.from(0), TensorOptions(*dtype));
  Writer(sizes, *dtype, static_cast<char*>(made.data_ptr())).write(data, 0);
  return moved(made, device);
}

PyObject* list_from_tensor(const Tensor& tensor) {
  const TensorImpl* impl = tensor.impl();
  FACULA_CHECK(!impl->device.is_meta(), NotSupportedError, "tolist(): Cannot copy out of meta tensor; no data!");
  Tensor host = tensor;
  if (!impl->device.is_cpu()) {
    const Released released(reading_work(tensor));
    host = tensor.cpu();
  }
  const auto* data = static_cast<const char*>(host.data_ptr());
  return ListMaker{dispatch_dtype(impl->dtype, []<class T>() { return &number_list<T>; }), host.sizes(), host.strides(),
                   static_cast<int64_t>(elementSize(impl->dtype))}
      .make(data, 0);
}

PyObject* tensor_new_tensor(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"data", "dtype", "device", "requires_grad", "layout", "pin_memory"};
    const Slots slots("new_tensor", kNames, 1, given, count, keywords);
    if (!slots[0]) throw TypeMismatch("new_tensor() missing 1 required argument: 'data'");
    if (is_tensor(slots[0])) warn_of_copy("new_tensor");
    const Tensor& like = tensor_of(self);
    return wrap(with_grad(tensor_from_data(slots[0], slots.dtype(1).value_or(like.scalar_type()),
                                           slots.device(2).value_or(like.device())),
                          slots.boolean(3, false)));
  });
}

void add_from_python(nb::module_& m) {
  static PyMethodDef functions[] = {
      {"tensor", as_method(make_tensor), METH_FASTCALL | METH_KEYWORDS,
       "tensor($module, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
       "A new tensor that holds a copy of the data: numbers, nested lists, arrays, tensors."},
      {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(m.ptr(), functions) < 0) throw nb::python_error();
  m.def("as_tensor", as_tensor, nb::arg("data").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        "The data as a tensor. Tensors stay what they are and arrays share their memory where dtype and device allow "
        "it.");
  m.def("asarray", asarray, nb::arg("obj").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
        nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(), nb::arg("requires_grad") = false,
        "The object as a tensor, over the same memory where that is possible.");
}

}  // namespace facula::python
