// Python's values as C++ values, one pair of functions for each type of the op book: `is_...` asks whether an object can be
// one, `to_...` makes it. Numbers of NumPy and tensors without dims count as numbers.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/core/error.h>
#include <facula/core/generator.h>
#include <facula/tensor.h>

#include <optional>
#include <string_view>

namespace facula::python {

// Whether 0-dim tensors count as numbers: they do once no overload takes the tensor itself.
enum class Lenient : bool { No, Yes };

bool is_integer(PyObject* object, Lenient lenient);
bool is_real(PyObject* object, Lenient lenient);
bool is_number(PyObject* object, Lenient lenient);
bool is_bool(PyObject* object);
bool is_integer_list(PyObject* object);
bool is_tensor_list(PyObject* object);
bool is_optional_tensor_list(PyObject* object);
bool is_dtype(PyObject* object);
bool is_device(PyObject* object);
bool is_memory_format(PyObject* object);
bool is_layout(PyObject* object);
bool is_generator(PyObject* object);
bool is_ndarray(PyObject* object);

// An integer of Python that does not fit 64 bits. Who knows the op adds its name.
class IntegerTooWide : public ValueError {
  using ValueError::ValueError;
};

// These throw nanobind::python_error or a typed Error when the value does not fit.
int64_t to_integer(PyObject* object);
double to_real(PyObject* object);
Scalar to_scalar(PyObject* object);
bool to_bool(PyObject* object);
ScalarType to_dtype(PyObject* object);
Device to_device(PyObject* object);
MemoryFormat to_memory_format(PyObject* object);
Generator to_generator(PyObject* object);
// A seed; negative ones wrap, as in PyTorch.
uint64_t to_seed(PyObject* object);
std::string_view to_text_view(PyObject* object);
// A tensor, or an array of NumPy as a tensor over its memory.
Tensor to_tensor(PyObject* object);

// New references.
PyObject* from_scalar(const Scalar& value);
PyObject* from_dtype(ScalarType dtype);
PyObject* from_device(Device device);
PyObject* from_memory_format(MemoryFormat format);
PyObject* from_layout();
// A facula.Size, which is a tuple.
PyObject* from_sizes(IntArrayRef sizes);

// Makes dtype, device, layout, memory_format, Size, Generator, finfo and iinfo.
void add_value_types(nanobind::module_& module);

}  // namespace facula::python
