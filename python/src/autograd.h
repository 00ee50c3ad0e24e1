// Gradients as Python sees them: what the tensor's type and the module take from the autograd files.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/tensor.h>

namespace facula::python {

// Properties of a tensor.
PyObject* get_grad(PyObject* self, void*);
int set_grad(PyObject* self, PyObject* value, void*);
PyObject* get_requires_grad(PyObject* self, void*);
int set_requires_grad(PyObject* self, PyObject* value, void*);
PyObject* get_grad_fn(PyObject* self, void*);
PyObject* get_is_leaf(PyObject* self, void*);
PyObject* get_retains_grad(PyObject* self, void*);
PyObject* get_output_nr(PyObject* self, void*);
PyObject* get_version(PyObject* self, void*);
PyObject* get_base(PyObject* self, void*);

// Methods of a tensor; ends with an entry without a name.
extern PyMethodDef autograd_methods[];

// Anomaly mode: keeps the lines of Python that made `result` with its node. `wrap` calls it while `keeps_places` is
// set.
extern bool keeps_places;
void remember_python_place(const Tensor& result) noexcept;

// Adds backward, grad, modes, nodes, hooks, custom functions and the functions of functions.
void add_autograd(nanobind::module_& module);

}  // namespace facula::python
