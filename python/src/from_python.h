// Tensors from Python's numbers and nested lists, and the other way round.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/tensor.h>

#include <optional>

namespace facula::python {

// A new tensor that holds a copy of `data`: numbers, nested sequences of numbers, tensors and arrays, or one of these. The
// dtype follows from the values unless it is given.
Tensor tensor_from_data(PyObject* data, std::optional<ScalarType> dtype, std::optional<Device> device);

// Nested lists of Python's numbers, or one number for a tensor without dims (new reference).
PyObject* list_from_tensor(const Tensor& tensor);

// tensor.new_tensor(data, ...), as a method with keywords.
PyObject* tensor_new_tensor(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords);

void add_from_python(nanobind::module_& module);

}  // namespace facula::python
