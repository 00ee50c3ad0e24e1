// Modes of a thread as context managers: whether the tape records, and inference.
#include <facula/autograd/modes.h>

#include <memory>
#include <vector>

#include "autograd_nodes.h"
#include "errors.h"

namespace facula::python {
namespace nb = nanobind;

namespace {

// What no_grad and enable_grad derive from. Subclasses say in `_records` what they do, and in `__call__` how they
// decorate.
struct GradGuardObject {
  PyObject_HEAD bool records;
  uint32_t depth;   // how often it was entered and not left
  uint64_t before;  // a bit for each time
};
constexpr uint32_t kMostDepth = 64;

GradGuardObject* as_guard(PyObject* self) { return reinterpret_cast<GradGuardObject*>(self); }

PyObject* guard_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  PyObject* records = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "_records");
  if (!records) return nullptr;
  const bool enabled = records == Py_True;
  Py_DECREF(records);
  const Py_ssize_t given = PyTuple_GET_SIZE(args);
  if (given > 1 || (given == 1 && !PyCallable_Check(PyTuple_GET_ITEM(args, 0))) ||
      (keywords && PyDict_GET_SIZE(keywords) > 0)) {
    PyErr_Format(PyExc_TypeError, "%s() takes no arguments; use it as `with %s():` or as a decorator", type->tp_name,
                 type->tp_name);
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  as_guard(self)->records = enabled;
  if (given == 0) return self;
  // A decorator without parentheses.
  PyObject* decorated = PyObject_CallOneArg(self, PyTuple_GET_ITEM(args, 0));
  Py_DECREF(self);
  return decorated;
}

int guard_init(PyObject*, PyObject*, PyObject*) { return 0; }

void guard_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* guard_enter(PyObject* self, PyObject*) {
  GradGuardObject* guard = as_guard(self);
  if (guard->depth == kMostDepth) {
    PyErr_Format(PyExc_RuntimeError, "%s: one object was entered %d times; make a new one for each block",
                 Py_TYPE(self)->tp_name, static_cast<int>(kMostDepth));
    return nullptr;
  }
  const uint64_t bit = uint64_t{1} << guard->depth++;
  guard->before = GradMode::is_enabled() ? guard->before | bit : guard->before & ~bit;
  GradMode::set_enabled(guard->records);
  Py_RETURN_NONE;
}

PyObject* guard_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  GradGuardObject* guard = as_guard(self);
  if (guard->depth == 0) {
    PyErr_Format(PyExc_RuntimeError, "%s: left a block that was not entered", Py_TYPE(self)->tp_name);
    return nullptr;
  }
  GradMode::set_enabled((guard->before >> --guard->depth) & 1);
  Py_RETURN_NONE;
}

PyMethodDef guard_methods[] = {
    {"__enter__", guard_enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(guard_exit)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(GradMode::is_enabled()); }
PyObject* is_inference_mode_enabled(PyObject*, PyObject*) { return PyBool_FromLong(InferenceMode::is_enabled()); }
// Gives what it was before.
PyObject* swap_grad_enabled(PyObject*, PyObject* enabled) {
  const int truth = PyObject_IsTrue(enabled);
  if (truth < 0) return nullptr;
  const bool before = GradMode::is_enabled();
  GradMode::set_enabled(truth != 0);
  return PyBool_FromLong(before);
}

PyMethodDef functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are recorded in this thread."},
    {"is_inference_mode_enabled", is_inference_mode_enabled, METH_NOARGS, "Whether this thread is in inference mode."},
    {"_swap_grad_enabled", swap_grad_enabled, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_grad_modes(nb::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(guard_new)},
      {Py_tp_init, reinterpret_cast<void*>(guard_init)},
      {Py_tp_dealloc, reinterpret_cast<void*>(guard_dealloc)},
      {Py_tp_methods, guard_methods},
      {0, nullptr},
  };
  PyType_Spec spec = {"facula._native._GradGuard", sizeof(GradGuardObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots};
  add_type(module, spec, nullptr);
  if (PyModule_AddFunctions(module.ptr(), functions) < 0) throw nb::python_error();

  nb::class_<InferenceMode>(module, "_InferenceGuard").def(nb::init<bool>());
}

}  // namespace facula::python
