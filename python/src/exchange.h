// Tensors over the memory of others and the other way round: NumPy's arrays, the buffer protocol, DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/tensor.h>

namespace facula::python {

// What the tensor over somebody's memory is for. One that is only read may lie over memory that must not be written, and an
// array that cannot be shared is copied for it.
enum class Share : bool { Read, Write };

// A tensor over the memory of an array of NumPy, which lives as long as the tensor; a scalar of NumPy becomes a 0-dim
// tensor of its own.
Tensor tensor_from_array(PyObject* array, Share share = Share::Read);
// A tensor of one dim over the memory of an object with the buffer protocol. A count of -1 takes everything.
Tensor tensor_from_buffer(PyObject* object, ScalarType dtype, int64_t count, int64_t offset, Share share);
// A tensor over what a capsule of DLPack, or an object that gives one, describes.
Tensor tensor_from_dlpack(PyObject* object);
// An array of NumPy over the memory of a tensor (new reference).
PyObject* array_from_tensor(const Tensor& tensor);

// Methods of tensors, with keywords.
PyObject* tensor_numpy(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords);
PyObject* tensor_array(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords);
PyObject* tensor_array_wrap(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords);
PyObject* tensor_dlpack(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords);
PyObject* tensor_dlpack_device(PyObject* self, PyObject*);
// The property __cuda_array_interface__, which only tensors on a GPU have (new reference).
PyObject* cuda_array_interface(const Tensor& tensor);

void add_exchange(nanobind::module_& module);

}  // namespace facula::python
