// x[...] and x[...] = value. Integers, slices, None and "..." go straight to views; what tensors, masks, lists and
// arrays select is left to the library's own indexing.
#include <facula/facula.h>

#include "arguments.h"
#include "core/shape.h"
#include "exchange.h"
#include "from_python.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

using indexing::TensorIndex;

// Kinds that make a view and can be told by one comparison. A bool is an int, but not exactly one.
bool is_basic(PyObject* item) {
  return PyLong_CheckExact(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis;
}

int64_t position(PyObject* integer) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  FACULA_CHECK(overflow == 0, IndexError, "index: cannot fit 'int' into an index-sized integer");
  return value;
}

struct Range {
  Py_ssize_t start, stop, step;
  bool everything() const { return start == 0 && stop == PY_SSIZE_T_MAX && step == 1; }
};

Range read_slice(PyObject* slice) {
  Range r;
  if (PySlice_Unpack(slice, &r.start, &r.stop, &r.step) < 0) throw nb::python_error();
  FACULA_CHECK(r.step > 0, ValueError, "index: step must be greater than zero, got ", static_cast<int64_t>(r.step),
               "; use flip() for the reverse order");
  return r;
}

// `named` is the dim as the user counts it.
Tensor selected(const Tensor& t, size_t dim, int64_t index, size_t named) {
  const int64_t size = t.impl()->sizes[dim];
  if (index < -size || index >= size) raise_out_of_bounds("index: ", index, static_cast<int64_t>(named), size);
  return facula::select(t, static_cast<int64_t>(dim), index);
}

Tensor sliced(const Tensor& t, size_t dim, const Range& r) {
  return facula::slice(t, static_cast<int64_t>(dim), r.start, r.stop, r.step);
}

void check_dims(const Tensor& self, size_t named) {
  const size_t dims = self.impl()->sizes.size();
  FACULA_CHECK(named <= dims || dims > 0, IndexError,
               "index: invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a number");
  FACULA_CHECK(named <= dims, IndexError, "index: too many indices for tensor of dimension ", dims, " (got ", named,
               ")");
}

// The view that a tuple of integers, slices, None and "..." makes; `self` itself where it takes everything. False when
// there is anything else in it.
bool basic_view(const Tensor& self, PyObject* const* items, size_t count, Tensor& view) {
  size_t named = 0, ellipses = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!is_basic(items[i])) return false;
    if (items[i] == Py_Ellipsis) ++ellipses;
    else if (items[i] != Py_None) ++named;
  }
  FACULA_CHECK(ellipses <= 1, IndexError, "index: an index can only have a single ellipsis ('...'), got ", ellipses);
  check_dims(self, named);
  view = self;
  size_t dim = 0, self_dim = 0;
  const size_t rest = self.impl()->sizes.size() - named;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (PyLong_CheckExact(item)) {
      view = selected(view, dim, position(item), self_dim++);
    } else if (item == Py_None) {
      view = facula::unsqueeze(view, static_cast<int64_t>(dim++));
    } else if (item == Py_Ellipsis) {
      dim += rest;
      self_dim += rest;
    } else {
      const Range r = read_slice(item);
      if (!r.everything()) view = sliced(view, dim, r);
      ++dim;
      ++self_dim;
    }
  }
  return true;
}

bool basic_view(const Tensor& self, PyObject* index, Tensor& view) {
  if (PyTuple_Check(index))
    return basic_view(self, PySequence_Fast_ITEMS(index), static_cast<size_t>(PyTuple_GET_SIZE(index)), view);
  return basic_view(self, &index, 1, view);
}

Tensor index_tensor(const Tensor& given) {
  const ScalarType t = given.scalar_type();
  if (t == kLong || t == kBool || t == kByte) return given;
  FACULA_CHECK(isIntegralType(t, false) || given.numel() == 0, IndexError,
               "index: tensors used as indices must be long, int, byte or bool tensors, got ", dtype_name(t),
               "; convert it to int64");
  return given.to(kLong);
}

TensorIndex to_index(PyObject* item) {
  if (is_tensor(item)) return tensor_of(item);
  if (item == Py_None) return indexing::None;
  if (item == Py_Ellipsis) return indexing::Ellipsis;
  if (PySlice_Check(item)) {
    const Range r = read_slice(item);
    return indexing::Slice(r.start, r.stop, r.step);
  }
  if (is_bool(item)) return to_bool(item);
  if (PyLong_Check(item)) return position(item);
  // The tape may keep the indices, and the array may change meanwhile.
  if (is_ndarray(item)) return index_tensor(tensor_from_array(item).clone());
  if (PyIndex_Check(item)) {
    nb::object integer = nb::steal(PyNumber_Index(item));
    if (!integer) throw nb::python_error();
    return position(integer.ptr());
  }
  if (PySequence_Check(item) && !PyUnicode_Check(item) && !PyBytes_Check(item))
    return index_tensor(tensor_from_data(item, std::nullopt, std::nullopt));
  throw IndexError(
      str("index: only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
          "(got ",
          Py_TYPE(item)->tp_name, ")"));
}

std::vector<TensorIndex> to_indices(PyObject* index) {
  std::vector<TensorIndex> indices;
  if (PyTuple_Check(index)) {
    const Py_ssize_t count = PyTuple_GET_SIZE(index);
    indices.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) indices.push_back(to_index(PyTuple_GET_ITEM(index, i)));
  } else {
    indices.push_back(to_index(index));
  }
  return indices;
}

// Leading dims of size 1 do not count when a value is assigned.
Tensor without_leading_ones(const Tensor& value, size_t dims) {
  const IntArrayRef sizes = value.sizes();
  size_t skip = 0;
  while (sizes.size() - skip > dims && sizes[skip] == 1) ++skip;
  return skip == 0 ? value : value.view(sizes.slice(skip));
}

// A mask of the tensor's own sizes and one number: needs no positions.
bool fills_by_mask(const Tensor& self, PyObject* index, const Scalar& value) {
  if (!is_tensor(index)) return false;
  const Tensor& mask = tensor_of(index);
  const ScalarType t = self.scalar_type();
  const bool fits = isComplexType(t) || (isFloatingType(t) && !value.isComplex()) || value.isBoolean();
  return mask.scalar_type() == kBool && fits && mask.dim() > 0 && mask.sizes() == self.sizes();
}

void assign_number(Tensor& self, PyObject* index, const Scalar& value) {
  Tensor view;
  if (basic_view(self, index, view)) {
    const Released released(view.impl()->numel);
    view.fill_(value);
  } else if (fills_by_mask(self, index, value)) {
    const Tensor mask = tensor_of(index);
    const Released released(self.impl()->numel);
    self.masked_fill_(mask, value);
  } else {
    const std::vector<TensorIndex> indices = to_indices(index);
    const Released released(self.impl()->numel);
    self.index_put_(indices, value);
  }
}

void assign_tensor(Tensor& self, PyObject* index, const Tensor& value) {
  Tensor view;
  if (basic_view(self, index, view)) {
    const Tensor source = without_leading_ones(value, view.impl()->sizes.size());
    const Released released(view.impl()->numel);
    view.copy_(source);
  } else {
    const std::vector<TensorIndex> indices = to_indices(index);
    // Indexing by tensors does not convert by itself.
    const Tensor source = value.scalar_type() == self.scalar_type() ? value : value.to(self.scalar_type());
    const Released released(self.impl()->numel);
    self.index_put_(indices, source);
  }
}

}  // namespace

PyObject* tensor_subscript(PyObject* self_object, PyObject* index) {
  return guarded([&]() -> PyObject* {
    const Tensor& self = tensor_of(self_object);
    if (PyLong_CheckExact(index)) {
      check_dims(self, 1);
      return wrap(selected(self, 0, position(index), 0));
    }
    if (PySlice_Check(index)) {
      check_dims(self, 1);
      return wrap(sliced(self, 0, read_slice(index)));
    }
    Tensor found;
    if (basic_view(self, index, found)) return wrap(found.is_same(self) ? facula::alias(self) : std::move(found));
    const std::vector<TensorIndex> indices = to_indices(index);
    {
      const Released released(self.impl()->numel);
      found = self.index(indices);
    }
    return wrap(std::move(found));
  });
}

int tensor_assign_subscript(PyObject* self_object, PyObject* index, PyObject* value) {
  return guarded(
      [&]() -> int {
        if (!value) throw TypeMismatch("Tensor does not support deleting items");
        Tensor& self = tensor_of(self_object);
        if (is_tensor(value)) assign_tensor(self, index, Tensor(tensor_of(value)));
        else if (is_number(value, Lenient::No)) assign_number(self, index, to_scalar(value));
        else if (is_ndarray(value)) assign_tensor(self, index, tensor_from_array(value));
        else if (PySequence_Check(value) && !PyUnicode_Check(value))
          assign_tensor(self, index, tensor_from_data(value, self.scalar_type(), self.device()));
        else
          throw TypeMismatch(str("can't assign a ", Py_TYPE(value)->tp_name, " to a facula.",
                                 toString(self.scalar_type()), "Tensor; give a tensor, a number, a list or an array"));
        return 0;
      },
      -1);
}

Py_ssize_t tensor_length(PyObject* self) {
  return guarded(
      [&]() -> Py_ssize_t {
        const TensorImpl* impl = tensor_of(self).impl();
        if (impl->sizes.size() == 0) throw TypeMismatch("len() of a 0-d tensor");
        return impl->sizes[0];
      },
      Py_ssize_t{-1});
}

}  // namespace facula::python
