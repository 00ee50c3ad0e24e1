// Parts of Python's protocols that the type of tensors has slots for.
#pragma once

#include <nanobind/nanobind.h>

namespace facula::python {

PyObject* tensor_iterate(PyObject* self);
int tensor_contains(PyObject* self, PyObject* element);

}  // namespace facula::python
