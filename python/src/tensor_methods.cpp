// Methods of tensors that no schema of the op book can say: what a tensor is, conversions, Python's protocols.
// Gradients have theirs in autograd.cpp; indexing, exchange and lists are in files of their own.
#include <facula/facula.h>

#include "arguments.h"
#include "exchange.h"
#include "from_python.h"
#include "keywords.h"
#include "tensor_methods.h"
#include "waiting.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

// ---- What it is.

template <auto F>
PyObject* asked(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return result(F(tensor_of(self))); });
}

int64_t dim(const Tensor& t) { return t.dim(); }
int64_t numel(const Tensor& t) { return t.numel(); }
int64_t element_size(const Tensor& t) { return t.element_size(); }
int64_t storage_offset(const Tensor& t) { return t.storage_offset(); }
int64_t get_device(const Tensor& t) { return t.get_device(); }
bool is_floating_point(const Tensor& t) { return t.is_floating_point(); }
bool is_complex(const Tensor& t) { return t.is_complex(); }
bool is_signed(const Tensor& t) { return t.is_signed(); }
bool never(const Tensor&) { return false; }
bool is_pinned(const Tensor& t) { return t.is_pinned(); }
const Tensor& itself(const Tensor& t) { return t; }
Tensor adjoint(const Tensor& t) { return t.is_complex() ? t.mT().conj() : t.mT(); }

PyObject* pin_memory(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return wrap(tensor_of(self).pin_memory()); });
}

PyObject* data_ptr(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return PyLong_FromVoidPtr(tensor_of(self).data_ptr()); });
}

PyObject* item(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return from_scalar(item_of(tensor_of(self))); });
}

PyObject* tolist(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return list_from_tensor(tensor_of(self)); });
}

PyObject* size(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"dim"};
    const Slots slots("size", kNames, 1, given, count, keywords);
    const Tensor& t = tensor_of(self);
    return slots.has(0) ? PyLong_FromLongLong(t.size(to_integer(slots[0]))) : from_sizes(t.sizes());
  });
}

PyObject* stride(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"dim"};
    const Slots slots("stride", kNames, 1, given, count, keywords);
    const Tensor& t = tensor_of(self);
    if (slots.has(0)) return PyLong_FromLongLong(t.stride(to_integer(slots[0])));
    const IntArrayRef strides = t.strides();
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(strides.size())));
    for (size_t i = 0; tuple && i < strides.size(); ++i) {
      PyObject* value = PyLong_FromLongLong(strides[i]);
      if (!value) return nullptr;
      PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), value);
    }
    return tuple.release().ptr();
  });
}

PyObject* is_contiguous(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"memory_format"};
    const Slots slots("is_contiguous", kNames, 1, given, count, keywords);
    return result(tensor_of(self).is_contiguous(slots.memory_format(0).value_or(MemoryFormat::Contiguous)));
  });
}

const Tensor& other_tensor(PyObject* object, const char* function) {
  if (!is_tensor(object))
    throw TypeMismatch(
        str(function, "(): argument 'other' (position 1) must be Tensor, not ", Py_TYPE(object)->tp_name));
  return tensor_of(object);
}

PyObject* is_same_size(PyObject* self, PyObject* other) {
  return guarded(
      [&]() -> PyObject* { return result(tensor_of(self).sizes() == other_tensor(other, "is_same_size").sizes()); });
}

PyObject* is_set_to(PyObject* self, PyObject* object) {
  return guarded([&]() -> PyObject* {
    const Tensor &a = tensor_of(self), &b = other_tensor(object, "is_set_to");
    return result(a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
                  a.strides() == b.strides());
  });
}

PyObject* reshape_as(PyObject* self, PyObject* other) {
  return guarded(
      [&]() -> PyObject* { return wrap(tensor_of(self).reshape(other_tensor(other, "reshape_as").sizes())); });
}

// ---- Conversions.

PyObject* converted(const Tensor& t, const TensorOptions& options, bool non_blocking, bool copy,
                    std::optional<MemoryFormat> format) {
  Tensor made;
  {
    const Released released(reading_work(t));
    made = t.to(options, non_blocking, copy, format);
  }
  return wrap(std::move(made));
}

// Three forms: (dtype, ...), (device, dtype, ...), (tensor, ...); the first argument tells which.
PyObject* to(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    TensorOptions options;
    const bool by_position = count > 0;
    if (by_position && is_dtype(given[0])) {
      static constexpr const char* kNames[] = {"dtype", "non_blocking", "copy", "memory_format"};
      const Slots slots("to", kNames, 3, given, count, keywords);
      return converted(t, options.dtype(slots.dtype(0)), slots.boolean(1, false), slots.boolean(2, false),
                       slots.memory_format(3));
    }
    if (by_position && is_tensor(given[0])) {
      static constexpr const char* kNames[] = {"other", "non_blocking", "copy", "memory_format"};
      const Slots slots("to", kNames, 3, given, count, keywords);
      return converted(t, tensor_of(slots[0]).options(), slots.boolean(1, false), slots.boolean(2, false),
                       slots.memory_format(3));
    }
    if (by_position && given[0] != Py_None && !is_device(given[0]))
      throw TypeMismatch(
          str("to() received an invalid combination of arguments - got ", Py_TYPE(given[0])->tp_name,
              ", but expected one of:\n * (facula.dtype dtype, bool non_blocking=False, bool copy=False, *, "
              "facula.memory_format memory_format=None)\n * (facula.device device=None, facula.dtype "
              "dtype=None, bool non_blocking=False, bool copy=False, *, facula.memory_format "
              "memory_format=None)\n * (Tensor other, bool non_blocking=False, bool copy=False, *, "
              "facula.memory_format memory_format=None)"));
    static constexpr const char* kNames[] = {"device", "dtype", "non_blocking", "copy", "memory_format", "other"};
    const Slots slots("to", kNames, 4, given, count, keywords);
    if (slots.has(5)) options = other_tensor(slots[5], "to").options();
    if (slots.has(0)) options = options.device(slots.device(0));
    if (slots.has(1)) options = options.dtype(slots.dtype(1));
    return converted(t, options, slots.boolean(2, false), slots.boolean(3, false), slots.memory_format(4));
  });
}

template <ScalarType kType>
PyObject* as_type(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"memory_format"};
    const Slots slots(dtype_name(kType), kNames, 1, given, count, keywords);
    return converted(tensor_of(self), TensorOptions(kType), false, false, slots.memory_format(0));
  });
}

template <DeviceType kType>
PyObject* on_device(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"device", "non_blocking", "memory_format"};
    const Slots slots(kType == kCPU ? "cpu" : "cuda", kNames, kType == kCPU ? 0 : 2, given, count, keywords);
    Device device(kType);
    if (slots.has(0) && kType != kCPU) device = to_device(slots[0]);
    FACULA_CHECK(device.type() == kType, DeviceError, "cuda(): Invalid device, must be cuda device, got ",
                 device.str());
    return converted(tensor_of(self), TensorOptions(device), slots.boolean(1, false), false, slots.memory_format(2));
  });
}

// "facula.FloatTensor": the old names of dtypes.
ScalarType type_of_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name.remove_prefix(dot + 1);
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto t = static_cast<ScalarType>(i);
    if (name == str(toString(t), "Tensor")) return t;
  }
  throw ValueError(str("invalid type: '", name, "'; give a dtype, e.g. facula.float32"));
}

// A dtype, or a type that names one: facula.FloatTensor.
ScalarType dtype_named_by(PyObject* object) {
  if (PyType_Check(object) && PyObject_HasAttrString(object, "dtype")) {
    const nb::object named = checked(PyObject_GetAttrString(object, "dtype"));
    if (is_dtype(named.ptr())) return to_dtype(named.ptr());
  }
  if (!is_dtype(object))
    throw TypeMismatch(str("type(): argument 'dtype' must be facula.dtype or str, not ", Py_TYPE(object)->tp_name));
  return to_dtype(object);
}

PyObject* type(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"dtype", "non_blocking", "memory_format"};
    const Slots slots("type", kNames, 2, given, count, keywords);
    const Tensor& t = tensor_of(self);
    if (!slots.has(0)) {
      const char* module = t.is_cuda() ? "facula.cuda." : "facula.";
      return PyUnicode_FromString(str(module, toString(t.scalar_type()), "Tensor").c_str());
    }
    const ScalarType wanted =
        PyUnicode_Check(slots[0]) ? type_of_name(to_text_view(slots[0])) : dtype_named_by(slots[0]);
    return converted(t, TensorOptions(wanted), slots.boolean(1, false), false, slots.memory_format(2));
  });
}

// ---- Other sizes, other memory.

// The sizes that are given one by one, or as one tuple or list.
std::vector<int64_t> sizes_of(const char* function, PyObject* const* given, Py_ssize_t count) {
  if (count == 1 && (PyTuple_Check(given[0]) || PyList_Check(given[0]))) {
    count = PySequence_Fast_GET_SIZE(given[0]);
    given = PySequence_Fast_ITEMS(given[0]);
  }
  std::vector<int64_t> sizes;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_integer(given[i], Lenient::Yes))
      throw TypeMismatch(str(function, "(): argument 'size' must be tuple of ints, but element ", i, " is ",
                             Py_TYPE(given[i])->tp_name));
    sizes.push_back(to_integer(given[i]));
  }
  return sizes;
}

PyObject* resize_(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"size", "memory_format"};
    const Slots slots("resize_", kNames, 0, given + count, 0, keywords);
    PyObject* named = slots[0];
    if (!named == !count) throw TypeMismatch("resize_() needs the sizes, by position or as the argument 'size'");
    tensor_of(self).resize_(named ? sizes_of("resize_", &named, 1) : sizes_of("resize_", given, count),
                            slots.memory_format(1));
    return Py_NewRef(self);
  });
}

PyObject* resize_as_(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"other", "memory_format"};
    const Slots slots("resize_as_", kNames, 1, given, count, keywords);
    if (!slots[0]) throw TypeMismatch("resize_as_() missing 1 required argument: 'other'");
    tensor_of(self).resize_(other_tensor(slots[0], "resize_as_").sizes(), slots.memory_format(1));
    return Py_NewRef(self);
  });
}

PyObject* set_(PyObject* self, PyObject* source) {
  return guarded([&]() -> PyObject* {
    tensor_of(self).set_(other_tensor(source, "set_"));
    return Py_NewRef(self);
  });
}

// ---- Elements.

std::vector<std::optional<Tensor>> index_list(PyObject* indices) {
  if (!is_optional_tensor_list(indices))
    throw TypeMismatch(
        str("index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not ", Py_TYPE(indices)->tp_name));
  std::vector<std::optional<Tensor>> list;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(indices); ++i) {
    PyObject* each = PySequence_Fast_ITEMS(indices)[i];
    list.push_back(each == Py_None ? std::nullopt : std::optional(tensor_of(each)));
  }
  return list;
}

template <bool kInPlace>
PyObject* index_put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"indices", "values", "accumulate"};
    const Slots slots(kInPlace ? "index_put_" : "index_put", kNames, 3, given, count, keywords);
    if (!slots[0] || !slots[1]) throw TypeMismatch("index_put_() needs the arguments 'indices' and 'values'");
    Tensor& t = tensor_of(self);
    const auto indices = index_list(slots[0]);
    const Tensor& values = other_tensor(slots[1], "index_put_");
    const bool accumulate = slots.boolean(2, false);
    Tensor made;
    {
      const Released released(t.impl()->numel);
      if constexpr (kInPlace) facula::index_put_(t, indices, values, accumulate);
      else made = facula::index_put(t, indices, values, accumulate);
    }
    return kInPlace ? Py_NewRef(self) : wrap(std::move(made));
  });
}

// The values that `function` gives for each element, and for each of `with` where there is one.
PyObject* apply_function(PyObject* self, const Tensor* with, PyObject* function, const char* name) {
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(!t.requires_grad() && !(with && with->requires_grad()), Error, "Can't call ", name,
               "() on Variable that requires grad. Use var.detach().", name, "() instead.");
  FACULA_CHECK(t.is_cpu(), DeviceError, name, "() is only implemented on CPU tensors, this one is on ",
               t.device().str());
  auto flat = [](const Tensor& x) { return nb::steal(list_from_tensor(x.reshape({-1}))); };
  nb::object values = flat(t), others = with ? flat(with->expand(t.sizes())) : nb::object();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values.ptr()); ++i) {
    PyObject* value = PyList_GET_ITEM(values.ptr(), i);
    PyObject* made = with ? PyObject_CallFunctionObjArgs(function, value, PyList_GET_ITEM(others.ptr(), i), nullptr)
                          : PyObject_CallOneArg(function, value);
    if (!made) return nullptr;
    PyList_SetItem(values.ptr(), i, made);
  }
  t.copy_(tensor_from_data(values.ptr(), t.scalar_type(), std::nullopt).view(t.sizes()));
  return Py_NewRef(self);
}

PyObject* apply_(PyObject* self, PyObject* function) {
  return guarded([&]() -> PyObject* { return apply_function(self, nullptr, function, "apply_"); });
}

PyObject* map_(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"tensor", "callable"};
    const Slots slots("map_", kNames, 2, given, count, keywords);
    if (!slots[0] || !slots[1]) throw TypeMismatch("map_() needs the arguments 'tensor' and 'callable'");
    return apply_function(self, &other_tensor(slots[0], "map_"), slots[1], "map_");
  });
}

// ---- Python's protocols.

// Calls a function of facula/_rebuild.py with the tensor.
PyObject* rebuild(const char* function, PyObject* self, PyObject* argument) {
  return guarded([&]() -> PyObject* {
    nb::object module = nb::steal(PyImport_ImportModule("facula._rebuild"));
    return module ? PyObject_CallMethod(module.ptr(), function, "OO", self, argument) : nullptr;
  });
}

PyObject* deepcopy(PyObject* self, PyObject* memo) { return rebuild("deepcopy_tensor", self, memo); }
PyObject* reduce(PyObject* self, PyObject* protocol) { return rebuild("reduce_tensor", self, protocol); }

// Another object over the same memory; attributes that users set come along.
PyObject* shallow_copy(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    Tensor made = t.detach();
    if (t.requires_grad()) made.set_requires_grad(true);
    PyObject* object = wrap(std::move(made));
    if (PyObject* attributes = reinterpret_cast<TensorObject*>(self)->dict; object && attributes)
      reinterpret_cast<TensorObject*>(object)->dict = PyDict_Copy(attributes);
    return object;
  });
}

PyObject* format(PyObject* self, PyObject* how) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (t.dim() == 0 && !t.is_meta()) {
      nb::object number = nb::steal(from_scalar(t.item()));
      return number ? PyObject_Format(number.ptr(), how) : nullptr;
    }
    if (!to_text_view(how).empty()) throw TypeMismatch("unsupported format string passed to Tensor.__format__");
    return PyObject_Str(self);
  });
}

PyObject* to_complex(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(t.numel() == 1, ValueError,
                 "only one element tensors can be converted to Python scalars; this one has sizes ", t.sizes());
    const auto z = t.item().toComplexDouble();
    return PyComplex_FromDoubles(z.real(), z.imag());
  });
}

PyObject* reversed(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    return wrap(t.dim() == 0 ? t : t.flip({0}));
  });
}

PyObject* contains(PyObject* self, PyObject* element) {
  const int found = tensor_contains(self, element);
  return found < 0 ? nullptr : PyBool_FromLong(found);
}
PyObject* iterate(PyObject* self, PyObject*) { return tensor_iterate(self); }

constexpr int kKeywords = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

PyObject* tensor_iterate(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (t.dim() == 0) throw TypeMismatch("iteration over a 0-d tensor");
    nb::object tuple = nb::steal(result(t.unbind(0)));
    return tuple ? PyObject_GetIter(tuple.ptr()) : nullptr;
  });
}

int tensor_contains(PyObject* self, PyObject* element) {
  return guarded(
      [&]() -> int {
        const Tensor& t = tensor_of(self);
        if (is_tensor(element)) return t.eq(tensor_of(element)).any().item().toBool();
        if (is_number(element, Lenient::No)) return t.eq(to_scalar(element)).any().item().toBool();
        throw Error(str("Tensor.__contains__ only supports Tensor or scalar, but you passed in a ",
                        Py_TYPE(element)->tp_name, "."));
      },
      -1);
}

// What stands in the op book too has METH_COEXIST, so that this one is taken.
PyMethodDef tensor_hand_methods[] = {
    {"dim", asked<dim>, METH_NOARGS, "How many dims there are."},
    {"ndimension", asked<dim>, METH_NOARGS, "How many dims there are."},
    {"numel", asked<numel>, METH_NOARGS, "How many elements there are."},
    {"nelement", asked<numel>, METH_NOARGS, "How many elements there are."},
    {"element_size", asked<element_size>, METH_NOARGS, "Bytes of one element."},
    {"storage_offset", asked<storage_offset>, METH_NOARGS, "Elements of the memory before the first one."},
    {"get_device", asked<get_device>, METH_NOARGS, "The index of the device; -1 on the cpu."},
    {"is_floating_point", asked<is_floating_point>, METH_NOARGS, "Whether the dtype is a floating-point one."},
    {"is_complex", asked<is_complex>, METH_NOARGS, "Whether the dtype is a complex one."},
    {"is_signed", asked<is_signed>, METH_NOARGS, "Whether the dtype has negative numbers."},
    {"is_conj", asked<never>, METH_NOARGS, "False: conjugates have memory of their own."},
    {"is_neg", asked<never>, METH_NOARGS, "False: negatives have memory of their own."},
    {"is_pinned", asked<is_pinned>, METH_NOARGS, "Whether the memory is page-locked."},
    {"pin_memory", pin_memory, METH_NOARGS, "The tensor in page-locked memory, from which GPUs copy by themselves."},
    {"is_shared", asked<never>, METH_NOARGS, "Whether the memory is shared between processes."},
    {"resolve_conj", asked<itself>, METH_NOARGS, "The tensor itself."},
    {"resolve_neg", asked<itself>, METH_NOARGS, "The tensor itself."},
    {"adjoint", asked<adjoint>, METH_NOARGS, "The conjugate transpose of the last two dims."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"item", item, METH_NOARGS, "The only element as a number of Python."},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists; a number for a tensor without dims."},
    {"size", as_method(size), kKeywords, "size(dim=None)\n\nThe sizes, or the size of one dim."},
    {"stride", as_method(stride), kKeywords, "stride(dim=None)\n\nThe strides, or the stride of one dim."},
    {"is_contiguous", as_method(is_contiguous), kKeywords, "is_contiguous(memory_format=contiguous_format)"},
    {"is_same_size", is_same_size, METH_O, "Whether the other tensor has the same sizes."},
    {"is_set_to", is_set_to, METH_O, "Whether the other tensor is the same view of the same memory."},
    {"resize_", as_method(resize_), kKeywords,
     "resize_(*size, memory_format=contiguous_format)\n\nOther sizes over the same memory, which grows where it is too "
     "small."},
    {"resize_as_", as_method(resize_as_), kKeywords,
     "resize_as_(other, *, memory_format=contiguous_format)\n\nThe sizes of another tensor, as resize_ gives them."},
    {"set_", set_, METH_O, "set_(source)\n\nThe memory and the sizes of another tensor in place of its own."},
    {"reshape_as", reshape_as, METH_O, "The elements in the sizes of the other tensor."},
    {"to", as_method(to), kKeywords | METH_COEXIST,
     "to(dtype, non_blocking=False, copy=False, *, memory_format=None)\nto(device=None, dtype=None, "
     "non_blocking=False, "
     "copy=False, *, memory_format=None)\nto(other, non_blocking=False, copy=False, *, memory_format=None)\n\nThe "
     "elements "
     "in another dtype or on another device; the tensor itself when it is that already."},
    {"type", as_method(type), kKeywords, "type(dtype=None)\n\nThe name of the type, or the tensor in another dtype."},
    {"cpu", as_method(on_device<kCPU>), kKeywords, "The tensor in memory of the cpu."},
    {"cuda", as_method(on_device<kCUDA>), kKeywords, "The tensor in memory of a GPU."},
    {"float", as_method(as_type<kFloat>), kKeywords, "to(facula.float32)"},
    {"double", as_method(as_type<kDouble>), kKeywords, "to(facula.float64)"},
    {"half", as_method(as_type<kHalf>), kKeywords, "to(facula.float16)"},
    {"bfloat16", as_method(as_type<kBFloat16>), kKeywords, "to(facula.bfloat16)"},
    {"int", as_method(as_type<kInt>), kKeywords, "to(facula.int32)"},
    {"long", as_method(as_type<kLong>), kKeywords, "to(facula.int64)"},
    {"short", as_method(as_type<kShort>), kKeywords, "to(facula.int16)"},
    {"char", as_method(as_type<kChar>), kKeywords, "to(facula.int8)"},
    {"byte", as_method(as_type<kByte>), kKeywords, "to(facula.uint8)"},
    {"bool", as_method(as_type<kBool>), kKeywords, "to(facula.bool)"},
    {"chalf", as_method(as_type<kComplexHalf>), kKeywords, "to(facula.complex32)"},
    {"cfloat", as_method(as_type<kComplexFloat>), kKeywords, "to(facula.complex64)"},
    {"cdouble", as_method(as_type<kComplexDouble>), kKeywords, "to(facula.complex128)"},
    {"new_tensor", as_method(tensor_new_tensor), kKeywords,
     "new_tensor(data, *, dtype=None, device=None, requires_grad=False)\n\nA new tensor from data, of this dtype and "
     "device."},
    {"index_put_", as_method(index_put<true>), kKeywords | METH_COEXIST,
     "index_put_(indices, values, accumulate=False)"},
    {"index_put", as_method(index_put<false>), kKeywords | METH_COEXIST,
     "index_put(indices, values, accumulate=False)"},
    {"apply_", apply_, METH_O, "apply_(callable)\n\nReplaces each element by what the function makes of it; slow."},
    {"map_", as_method(map_), kKeywords,
     "map_(tensor, callable)\n\nReplaces each element by what the function makes of it and the other tensor's; slow."},
    {"numpy", as_method(tensor_numpy), kKeywords, "numpy(*, force=False)\n\nAn array of NumPy over the same memory."},
    {"__array__", as_method(tensor_array), kKeywords, nullptr},
    {"__array_wrap__", as_method(tensor_array_wrap), kKeywords, nullptr},
    {"__dlpack__", as_method(tensor_dlpack), kKeywords, nullptr},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, nullptr},
    {"__copy__", shallow_copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deepcopy, METH_O, nullptr},
    {"__reduce_ex__", reduce, METH_O, nullptr},
    {"__format__", format, METH_O, nullptr},
    {"__complex__", to_complex, METH_NOARGS, nullptr},
    {"__reversed__", reversed, METH_NOARGS, nullptr},
    {"__contains__", contains, METH_O, nullptr},
    {"__iter__", iterate, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
