// How a tensor reads: repr() and str(). The text is made in Python (facula/_print.py).
#include "errors.h"
#include "tensor_object.h"

namespace facula::python {

PyObject* tensor_repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    nanobind::object module = nanobind::steal(PyImport_ImportModule("facula._print"));
    return module ? PyObject_CallMethod(module.ptr(), "tensor_text", "O", self) : nullptr;
  });
}

}  // namespace facula::python
