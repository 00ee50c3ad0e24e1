// From C++ errors to Python's exceptions and back.
#include "errors.h"

#include <cstring>
#include <new>
#include <stdexcept>

namespace facula::python {
namespace {

struct ExceptionType {
  const char* name;  // in C++
  PyObject* type;
};
// Filled by add_errors; the types live as long as the process.
ExceptionType exceptions[] = {{"Error", nullptr},       {"ShapeError", nullptr},       {"DTypeError", nullptr},
                              {"DeviceError", nullptr}, {"OutOfMemoryError", nullptr}, {"NotSupportedError", nullptr},
                              {"FormatError", nullptr}, {"InternalError", nullptr},    {"ValueError", nullptr},
                              {"NanError", nullptr}};

PyObject* type_for(const char* name) {
  if (std::strcmp(name, "IndexError") == 0) return PyExc_IndexError;
  if (std::strcmp(name, "TypeError") == 0) return PyExc_TypeError;
  for (const ExceptionType& e : exceptions)
    if (std::strcmp(e.name, name) == 0 && e.type) return e.type;
  return exceptions[0].type ? exceptions[0].type : PyExc_RuntimeError;
}

}  // namespace

void add_errors(nanobind::module_& module) {
  auto add = [&](ExceptionType& e, const char* doc, std::initializer_list<PyObject*> bases) {
    nanobind::object tuple = nanobind::steal(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
    Py_ssize_t i = 0;
    for (PyObject* base : bases) PyTuple_SET_ITEM(tuple.ptr(), i++, Py_NewRef(base));
    // Python's own ValueError keeps its name in the module.
    const char* name = std::strcmp(e.name, "ValueError") == 0 ? "ArgumentError" : e.name;
    const std::string qualified = std::string("facula.") + name;
    e.type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, tuple.ptr(), nullptr);
    if (!e.type) throw nanobind::python_error();
    module.attr(name) = nanobind::borrow(e.type);
  };
  add(exceptions[0], "What every error of Facula is.", {PyExc_RuntimeError});
  PyObject* error = exceptions[0].type;
  add(exceptions[1], "Sizes that do not fit each other or the op.", {error, PyExc_ValueError});
  add(exceptions[2], "A dtype that the op does not take.", {error, PyExc_TypeError});
  add(exceptions[3], "A device that is absent or does not match.", {error});
  add(exceptions[4], "Memory that cannot be had.", {error, PyExc_MemoryError});
  add(exceptions[5], "What does not exist for these arguments.", {error, PyExc_NotImplementedError});
  add(exceptions[6], "Data from outside that is not what it claims to be.", {error, PyExc_ValueError});
  add(exceptions[7], "A mistake of Facula itself.", {error});
  add(exceptions[8], "A value that the op does not take.", {error, PyExc_ValueError});
  add(exceptions[9], "NaN that anomaly mode found.", {error, PyExc_FloatingPointError});
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (nanobind::python_error& e) {
    e.restore();
  } catch (const Error& e) {
    PyErr_SetString(type_for(e.type_name()), e.what());
  } catch (const std::bad_alloc& e) {
    PyErr_SetString(PyExc_MemoryError, e.what());
  } catch (const std::out_of_range& e) {
    PyErr_SetString(PyExc_IndexError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an error of unknown kind");
  }
}

}  // namespace facula::python
