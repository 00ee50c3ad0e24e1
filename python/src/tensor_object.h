// The Python object that stands for a tensor. A tensor has at most one: the tensor points back to it, so that `x.grad is
// x.grad`. It is a type of its own and not one of nanobind's, because making one is half of what a small op costs.
#pragma once

#include <nanobind/nanobind.h>

#include <structmember.h>

#include "core/tensor_impl.h"

// The names since Python 3.12.
#ifndef Py_T_PYSSIZET
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

namespace facula::python {

struct TensorHooks;  // Python's callables that the tape holds for a tensor (autograd.cpp)

struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;  // attributes that users set; null until then
  PyObject* weak_references;
  TensorHooks* hooks;
};

extern PyTypeObject* tensor_type;

// Tensors cannot be subclassed, so one comparison tells.
inline bool is_tensor(PyObject* object) { return Py_TYPE(object) == tensor_type; }
inline Tensor& tensor_of(PyObject* object) { return reinterpret_cast<TensorObject*>(object)->tensor; }

// A new reference to the object of a tensor; None for an undefined one.
PyObject* wrap(Tensor tensor);

// Adds the type to the module, with the generated methods and those written by hand.
void add_tensor_type(nanobind::module_& module);

// Parts of the type that live in other files.
extern PyMethodDef tensor_hand_methods[];                     // tensor_methods.cpp
extern PyGetSetDef tensor_properties[];                       // tensor_properties.cpp
extern PyType_Slot tensor_operator_slots[];                   // operators.cpp; ends with {0, nullptr}
PyObject* tensor_subscript(PyObject* self, PyObject* index);  // indexing.cpp
int tensor_assign_subscript(PyObject* self, PyObject* index, PyObject* value);
Py_ssize_t tensor_length(PyObject* self);
PyObject* tensor_repr(PyObject* self);                              // print.cpp
int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags);  // exchange.cpp
void tensor_release_buffer(PyObject* self, Py_buffer* view);
int traverse_hooks(TensorObject* self, visitproc visit, void* arg);  // autograd.cpp
void clear_hooks(TensorObject* self);
void free_hooks(TensorObject* self);

}  // namespace facula::python

// Lets functions that are bound with nanobind take and give tensors.
namespace nanobind::detail {

template <>
struct type_caster<facula::Tensor> {
  NB_TYPE_CASTER(facula::Tensor, const_name("facula.Tensor"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!facula::python::is_tensor(source.ptr())) return false;
    value = facula::python::tensor_of(source.ptr());
    return true;
  }
  static handle from_cpp(const facula::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return facula::python::wrap(tensor);
  }
};

}  // namespace nanobind::detail
