// The small types that calls are spelt with: dtype, device, layout, memory_format, Size, Generator, finfo, iinfo.
#include "value_types.h"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <facula/facula.h>

#include <cmath>
#include <limits>

#include "errors.h"
#include "tensor_object.h"
#include "values.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

PyTypeObject *dtype_type, *device_type, *layout_type, *format_type, *generator_type, *size_type;
PyObject* dtype_objects[kNumScalarTypes];
PyObject* layout_object;
PyObject* format_objects[4];

struct FormatName {
  MemoryFormat format;
  const char* name;
};
constexpr FormatName kFormats[] = {{MemoryFormat::Contiguous, "contiguous_format"},
                                   {MemoryFormat::Preserve, "preserve_format"},
                                   {MemoryFormat::ChannelsLast, "channels_last"},
                                   {MemoryFormat::ChannelsLast3d, "channels_last_3d"}};

PyObject* keep(nb::object object) { return object.release().ptr(); }

// Whether an object of one of our types was really made: `dtype.__new__(dtype)` is none.
bool is_ready(PyObject* object) {
  if (nb::inst_ready(object)) return true;
  throw TypeMismatch(str("the ", Py_TYPE(object)->tp_name, " was never initialised"));
}

PyTypeObject* type_of(const nb::object& type) { return reinterpret_cast<PyTypeObject*>(type.ptr()); }

void add_dtype(nb::module_& m) {
  auto type =
      nb::class_<DtypeValue>(m, "dtype", nb::is_final(), "The type of the elements of a tensor.")
          .def_prop_ro(
              "is_floating_point", [](const DtypeValue& d) { return isFloatingType(d.type); },
              "Whether it is a floating-point one.")
          .def_prop_ro(
              "is_complex", [](const DtypeValue& d) { return isComplexType(d.type); }, "Whether it is a complex one.")
          .def_prop_ro(
              "is_signed", [](const DtypeValue& d) { return isSignedType(d.type); }, "Whether it has negative numbers.")
          .def_prop_ro(
              "itemsize", [](const DtypeValue& d) { return elementSize(d.type); }, "Bytes of one element.")
          .def("to_real", [](const DtypeValue& d) { return nb::steal(from_dtype(toRealValueType(d.type))); })
          .def("to_complex",
               [](const DtypeValue& d) {
                 const ScalarType t = toComplexType(d.type);
                 FACULA_CHECK(t != ScalarType::Undefined, DTypeError, "to_complex(): ", dtype_name(d.type),
                              " has no complex counterpart");
                 return nb::steal(from_dtype(t));
               })
          .def("__repr__", [](const DtypeValue& d) { return str("facula.", dtype_name(d.type)); })
          // A global name: pickling and copying give the same object back.
          .def("__reduce__", [](const DtypeValue& d) { return std::string(dtype_name(d.type)); })
          .def("__copy__", [](nb::handle self) { return nb::borrow(self); })
          .def("__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); });
  dtype_type = type_of(type);
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto t = static_cast<ScalarType>(i);
    nb::object object = nb::cast(DtypeValue{t});
    dtype_objects[i] = object.ptr();
    m.attr(dtype_name(t)) = object;
    keep(object);
  }
  constexpr std::pair<const char*, ScalarType> kAliases[] = {
      {"float", kFloat},       {"double", kDouble},       {"half", kHalf},
      {"int", kInt},           {"long", kLong},           {"short", kShort},
      {"chalf", kComplexHalf}, {"cfloat", kComplexFloat}, {"cdouble", kComplexDouble}};
  for (const auto& [name, t] : kAliases) m.attr(name) = nb::borrow(dtype_objects[static_cast<int>(t)]);
}

void add_device(nb::module_& m) {
  auto type =
      nb::class_<Device>(m, "device", nb::is_final(), "Where a tensor lives: 'cpu', 'cuda', 'cuda:1', 'meta'.")
          .def(
              "__init__",
              [](Device* self, nb::handle text, nb::handle index) {
                if (text.is_none()) throw TypeMismatch("device(): missing 1 required positional argument: \"type\"");
                if (index.is_none()) {
                  new (self) Device(to_device(text.ptr()));
                  return;
                }
                if (!PyUnicode_Check(text.ptr()))
                  throw TypeMismatch(
                      str("device(): argument 'type' (position 1) must be str, not ", Py_TYPE(text.ptr())->tp_name));
                if (!is_integer(index.ptr(), Lenient::No))
                  throw TypeMismatch(
                      str("device(): argument 'index' (position 2) must be int, not ", Py_TYPE(index.ptr())->tp_name));
                const Device named(to_text_view(text.ptr()));
                FACULA_CHECK(!named.has_index(), ValueError, "device(): '", named.str(),
                             "' already has an index; give it once");
                const int64_t number = to_integer(index.ptr());
                FACULA_CHECK(number >= 0 && number < 128, ValueError, "device(): the index ", number,
                             " is out of range; it must be 0 to 127");
                new (self) Device(named.type(), static_cast<DeviceIndex>(number));
              },
              nb::arg("type") = nb::none(), nb::arg("index") = nb::none())
          .def_prop_ro(
              "type", [](const Device& d) { return Device(d.type()).str(); }, "The kind: 'cpu', 'cuda', 'meta'.")
          .def_prop_ro(
              "index", [](const Device& d) { return d.has_index() ? std::optional<int>(d.index()) : std::nullopt; },
              "Which one of its kind, or None.")
          .def(
              "__eq__", [](const Device& a, const Device& b) { return a == b; }, nb::is_operator())
          .def("__hash__", [](const Device& d) { return static_cast<int>(d.type()) * 1000 + d.index(); })
          .def("__str__", [](const Device& d) { return d.str(); })
          .def("__repr__",
               [](const Device& d) {
                 return d.has_index() ? str("device(type='", Device(d.type()).str(),
                                            "', index=", static_cast<int>(d.index()), ")")
                                      : str("device(type='", d.str(), "')");
               })
          .def("__reduce__", [](nb::handle self) {
            return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(device_type)),
                                  nb::make_tuple(nb::str(nb::cast<const Device&>(self).str().c_str())));
          });
  device_type = type_of(type);
}

void add_layout_and_format(nb::module_& m) {
  auto layout = nb::class_<LayoutValue>(m, "layout", nb::is_final(), "How the elements of a tensor are kept.")
                    .def("__repr__", [](const LayoutValue&) { return "facula.strided"; })
                    .def("__reduce__", [](const LayoutValue&) { return "strided"; });
  layout_type = type_of(layout);
  nb::object strided = nb::cast(LayoutValue{kStrided});
  layout_object = strided.ptr();
  m.attr("strided") = strided;
  keep(strided);

  auto format = nb::class_<MemoryFormatValue>(m, "memory_format", nb::is_final(), "The order of the dims in memory.");
  auto name_of = [](const MemoryFormatValue& f) {
    for (const FormatName& each : kFormats)
      if (each.format == f.format) return std::string(each.name);
    return std::string("?");
  };
  format.def("__repr__", [name_of](const MemoryFormatValue& f) { return "facula." + name_of(f); });
  format.def("__reduce__", name_of);
  format_type = type_of(format);
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    nb::object object = nb::cast(MemoryFormatValue{kFormats[i].format});
    format_objects[i] = object.ptr();
    m.attr(kFormats[i].name) = object;
    keep(object);
  }
}

void add_generator(nb::module_& m) {
  auto type =
      nb::class_<Generator>(m, "Generator", nb::is_final(), "A stream of random numbers: a seed and a position.")
          .def(
              "__init__",
              [](Generator* self, nb::handle device) {
                const Device where = to_device(device.ptr());
                FACULA_CHECK(!where.is_meta(), DeviceError, "Generator(): device '", where.str(),
                             "' has no generator; use 'cpu' or 'cuda'");
                new (self) Generator(make_generator(kDefaultSeed, where));
              },
              nb::arg("device") = "cpu")
          .def(
              "manual_seed",
              [](nb::object self, nb::handle seed) {
                nb::cast<Generator&>(self).set_current_seed(to_seed(seed.ptr()));
                return self;
              },
              nb::arg("seed") = nb::none())
          .def("seed", &Generator::seed)
          .def("initial_seed", &Generator::current_seed)
          .def("get_state", &Generator::get_state)
          .def("set_state",
               [](nb::object self, const Tensor& state) {
                 nb::cast<Generator&>(self).set_state(state);
                 return self;
               })
          .def("clone_state", &Generator::clone)
          .def("__reduce__",
               [](const Generator& self) {
                 nb::object rebuild = nb::module_::import_("facula._rebuild").attr("rebuild_generator");
                 return nb::make_tuple(rebuild, nb::make_tuple(self.device().str(), self.get_state()));
               })
          .def_prop_ro("device", &Generator::device, "Where its numbers are made.");
  generator_type = type_of(type);
  m.attr("default_generator") = nb::cast(default_generator());
}

// Size: a tuple of ints that knows how many elements it spans.

PyObject* size_numel(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject* product = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); ++i) {
      PyObject* next = PyNumber_Multiply(product, PyTuple_GET_ITEM(self, i));
      Py_DECREF(product);
      product = next;
    }
    return product;
  });
}

PyObject* size_repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    nb::object list = nb::steal(PySequence_List(self));
    return PyUnicode_FromFormat("facula.Size(%R)", list.ptr());
  });
}

PyObject* as_size(PyObject* tuple) {
  if (!tuple) return nullptr;
  if (!PyTuple_CheckExact(tuple)) return tuple;
  const Py_ssize_t count = PyTuple_GET_SIZE(tuple);
  PyObject* made = size_type->tp_alloc(size_type, count);
  for (Py_ssize_t i = 0; made && i < count; ++i) PyTuple_SET_ITEM(made, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
  Py_DECREF(tuple);
  return made;
}

PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* made = PyTuple_Type.tp_new(type, args, keywords);
  if (!made) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i) {
    PyObject* item = PyTuple_GET_ITEM(made, i);
    if (PyLong_Check(item)) continue;
    PyObject* index = is_integer(item, Lenient::Yes) ? PyNumber_Index(item) : nullptr;
    if (!index) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "Size() takes an iterable of 'int' (item %zd is '%s')", i,
                     Py_TYPE(item)->tp_name);
      Py_DECREF(made);
      return nullptr;
    }
    PyTuple_SET_ITEM(made, i, index);
    Py_DECREF(item);
  }
  return made;
}

PyObject* size_subscript(PyObject* self, PyObject* index) {
  return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(self, index));
}
PyObject* size_concat(PyObject* self, PyObject* other) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(self, other));
}
PyObject* size_repeat(PyObject* self, Py_ssize_t count) {
  return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(self, count));
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::object plain = nb::steal(PySequence_Tuple(nb::steal(PySequence_List(self)).ptr()));
    return Py_BuildValue("(O(O))", size_type, plain.ptr());
  });
}

void add_size(nb::module_& m) {
  static PyMethodDef methods[] = {{"numel", size_numel, METH_NOARGS, "The product of the sizes."},
                                  {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(size_new)},
                         {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
                         {Py_tp_methods, methods},
                         {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
                         {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
                         {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
                         {Py_tp_doc, const_cast<char*>("The sizes of a tensor: a tuple of ints.")},
                         {0, nullptr}};
  PyType_Spec spec = {"facula.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};
  size_type =
      reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(&PyTuple_Type)));
  if (!size_type) throw nb::python_error();
  m.attr("Size") = nb::borrow(reinterpret_cast<PyObject*>(size_type));
}

// What a number format can hold, for facula.finfo and facula.iinfo (_info.py).
nb::dict float_facts(const DtypeValue& dtype) {
  // (bits, bits of the fraction, smallest exponent of a normal number, largest value)
  struct Facts {
    int bits, fraction, lowest;
    double largest;
  };
  const Facts f = [&]() -> Facts {
    switch (toRealValueType(dtype.type)) {
      case kHalf: return {16, 10, -14, 65504.0};
      case kBFloat16: return {16, 7, -126, std::ldexp(255.0, 120)};
      case kFloat8_e4m3fn: return {8, 3, -6, 448.0};
      case kFloat8_e5m2: return {8, 2, -14, 57344.0};
      case kFloat: return {32, 23, -126, static_cast<double>(std::numeric_limits<float>::max())};
      case kDouble: return {64, 52, -1022, std::numeric_limits<double>::max()};
      default:
        throw TypeMismatch(
            str("finfo(): ", dtype_name(dtype.type), " is not a floating-point dtype; use iinfo() for integers"));
    }
  }();
  nb::dict d;
  d["bits"] = f.bits;
  d["eps"] = std::ldexp(1.0, -f.fraction);
  d["max"] = f.largest;
  d["min"] = -f.largest;
  d["tiny"] = std::ldexp(1.0, f.lowest);
  d["smallest_subnormal"] = std::ldexp(1.0, f.lowest - f.fraction);
  d["resolution"] = std::pow(10.0, -std::floor(f.fraction * std::log10(2.0)));
  d["dtype"] = dtype_name(dtype.type);
  return d;
}

nb::dict integer_facts(const DtypeValue& dtype) {
  if (!isIntegralType(dtype.type, false))
    throw TypeMismatch(str("iinfo(): ", dtype_name(dtype.type), " is not an integer dtype; use finfo() for floats"));
  const int bits = static_cast<int>(elementSize(dtype.type)) * 8;
  nb::dict d;
  d["bits"] = bits;
  if (isSignedType(dtype.type)) {
    d["max"] = std::numeric_limits<int64_t>::max() >> (64 - bits);
    d["min"] = std::numeric_limits<int64_t>::min() >> (64 - bits);
  } else {
    d["max"] = std::numeric_limits<uint64_t>::max() >> (64 - bits);
    d["min"] = 0;
  }
  d["dtype"] = dtype_name(dtype.type);
  return d;
}

}  // namespace

void add_value_types(nb::module_& m) {
  add_size(m);
  add_dtype(m);
  add_device(m);
  add_layout_and_format(m);
  add_generator(m);
  // Where users find them, and pickles look for them.
  for (PyTypeObject* type : {dtype_type, device_type, layout_type, format_type, generator_type})
    nb::handle(reinterpret_cast<PyObject*>(type)).attr("__module__") = "facula";
  m.def("_float_facts", float_facts);
  m.def("_integer_facts", integer_facts);
}

bool is_dtype(PyObject* object) {
  return Py_TYPE(object) == dtype_type || object == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
         object == reinterpret_cast<PyObject*>(&PyLong_Type) || object == reinterpret_cast<PyObject*>(&PyBool_Type) ||
         object == reinterpret_cast<PyObject*>(&PyComplex_Type);
}
bool is_device(PyObject* object) {
  return Py_TYPE(object) == device_type || PyUnicode_Check(object) || (PyLong_Check(object) && !PyBool_Check(object));
}
bool is_memory_format(PyObject* object) { return Py_TYPE(object) == format_type; }
bool is_layout(PyObject* object) { return Py_TYPE(object) == layout_type; }
bool is_generator(PyObject* object) { return Py_TYPE(object) == generator_type; }

ScalarType to_dtype(PyObject* object) {
  if (Py_TYPE(object) == dtype_type && is_ready(object)) return nb::inst_ptr<DtypeValue>(object)->type;
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) return kDouble;
  if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) return kLong;
  if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) return kBool;
  if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) return kComplexDouble;
  throw TypeMismatch(str("expected a facula.dtype, not ", Py_TYPE(object)->tp_name));
}

Device to_device(PyObject* object) {
  if (Py_TYPE(object) == device_type && is_ready(object)) return *nb::inst_ptr<Device>(object);
  if (PyUnicode_Check(object)) return Device(to_text_view(object));
  if (PyLong_Check(object)) {
    const int64_t index = to_integer(object);
    FACULA_CHECK(index >= 0 && index < 128, ValueError, "device index ", index,
                 " is out of range; it must be 0 to 127");
    return Device(kCUDA, static_cast<DeviceIndex>(index));
  }
  throw TypeMismatch(str("expected a facula.device or a str such as 'cpu', not ", Py_TYPE(object)->tp_name));
}

MemoryFormat to_memory_format(PyObject* object) {
  if (Py_TYPE(object) == format_type && is_ready(object)) return nb::inst_ptr<MemoryFormatValue>(object)->format;
  throw TypeMismatch(str("expected a facula.memory_format, not ", Py_TYPE(object)->tp_name));
}

uint64_t to_seed(PyObject* object) {
  if (object == Py_None) throw TypeMismatch("manual_seed(): missing 1 required positional argument: \"seed\"");
  if (!PyIndex_Check(object))
    throw TypeMismatch(str("manual_seed(): argument 'seed' (position 1) must be int, not ", Py_TYPE(object)->tp_name));
  const nb::object index = nb::steal(PyNumber_Index(object));
  if (!index) throw nb::python_error();
  const auto seed = static_cast<uint64_t>(PyLong_AsUnsignedLongLongMask(index.ptr()));
  if (PyErr_Occurred()) throw nb::python_error();
  return seed;
}

Generator to_generator(PyObject* object) {
  if (Py_TYPE(object) == generator_type && is_ready(object)) return *nb::inst_ptr<Generator>(object);
  throw TypeMismatch(str("expected a facula.Generator, not ", Py_TYPE(object)->tp_name));
}

PyObject* from_dtype(ScalarType dtype) { return Py_NewRef(dtype_objects[static_cast<int>(dtype)]); }
PyObject* from_device(Device device) { return nb::cast(device).release().ptr(); }
PyObject* from_layout() { return Py_NewRef(layout_object); }
PyObject* from_memory_format(MemoryFormat format) {
  for (size_t i = 0; i < std::size(kFormats); ++i)
    if (kFormats[i].format == format) return Py_NewRef(format_objects[i]);
  return nullptr;
}

PyObject* from_sizes(IntArrayRef sizes) {
  PyObject* made = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  if (!made) return nullptr;
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(sizes[i]);
    if (!size) {
      Py_DECREF(made);
      return nullptr;
    }
    PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), size);
  }
  return made;
}

}  // namespace facula::python
