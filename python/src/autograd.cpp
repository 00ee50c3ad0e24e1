// Backward passes from Python, and what a tensor tells about its place on the tape.
#include "autograd.h"

#include <facula/autograd/autograd.h>
#include <facula/autograd/checkpoint.h>

#include <string>
#include <vector>

#include "autograd_nodes.h"
#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
using autograd::variable_list;

bool keeps_places = false;

namespace {

std::optional<bool> optional_truth(PyObject* object) {
  if (!object || object == Py_None) return std::nullopt;
  const int truth = PyObject_IsTrue(object);
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

}  // namespace

PyObject* get_grad(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    Tensor grad = t.grad();
    if (!grad.defined() && !t.is_leaf() && !t.retains_grad() &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                     "won't be populated during autograd.backward(); call .retain_grad() on it if it shall be.",
                     1) < 0)
      return nullptr;
    return wrap(std::move(grad));
  });
}

int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        const Tensor& t = tensor_of(self);
        Tensor grad;
        if (value && value != Py_None) {
          if (!is_tensor(value))
            throw TypeMismatch(str("assigned grad expected to be a Tensor or None but got grad of type '",
                                   Py_TYPE(value)->tp_name, "'"));
          FACULA_CHECK(value != self, Error, "can't assign a Tensor as its own grad; assign a clone of it");
          grad = tensor_of(value);
        }
        // What was there before ends after set_grad has let go of its lock: it may run anything.
        const Tensor before = t.grad();
        t.set_grad(grad);
        return 0;
      },
      -1);
}

PyObject* get_requires_grad(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(tensor_of(self).requires_grad()); });
}

int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&] {
        if (!value || !PyBool_Check(value)) throw TypeMismatch("requires_grad must be a bool");
        tensor_of(self).requires_grad_(value == Py_True);
        return 0;
      },
      -1);
}

PyObject* get_grad_fn(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return wrap_node(tensor_of(self).grad_fn()); });
}
PyObject* get_is_leaf(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(tensor_of(self).is_leaf()); });
}
PyObject* get_retains_grad(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(tensor_of(self).retains_grad()); });
}
PyObject* get_output_nr(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return PyLong_FromLongLong(tensor_of(self).output_nr()); });
}
PyObject* get_version(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return PyLong_FromLongLong(tensor_of(self)._version()); });
}
PyObject* get_base(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    return t.is_view() ? wrap(t._base()) : Py_NewRef(Py_None);
  });
}

namespace {

PyObject* tensor_backward(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"gradient", "retain_graph", "create_graph", "inputs", nullptr};
    PyObject *gradient = Py_None, *retain_graph = Py_None, *inputs = Py_None;
    int create_graph = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OOpO:backward", const_cast<char**>(names), &gradient,
                                     &retain_graph, &create_graph, &inputs))
      throw nb::python_error();
    variable_list grads, only;
    if (gradient != Py_None) grads = tensors_or_one(gradient, "backward: gradient");
    if (inputs != Py_None) {
      only = tensors_or_one(inputs, "backward: inputs");
      FACULA_CHECK(!only.empty(), Error,
                   "backward: 'inputs' argument to backward() cannot be empty; leave it out for all");
    }
    const variable_list outputs{tensor_of(self)};
    const std::optional<bool> retain = optional_truth(retain_graph);
    run_engine([&] { autograd::backward(outputs, grads, retain, create_graph != 0, only); });
    Py_RETURN_NONE;
  });
}

PyObject* tensor_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* { return add_tensor_hook(tensor_of(self), hook); });
}
PyObject* tensor_register_accumulated_hook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* { return add_accumulated_hook(tensor_of(self), hook); });
}
PyObject* tensor_retain_grad(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    tensor_of(self).retain_grad();
    Py_RETURN_NONE;
  });
}
PyObject* tensor_requires_grad_(PyObject* self, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"requires_grad", nullptr};
    int requires_grad = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:requires_grad_", const_cast<char**>(names), &requires_grad))
      throw nb::python_error();
    tensor_of(self).requires_grad_(requires_grad != 0);
    return Py_NewRef(self);
  });
}
PyObject* tensor_detach(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return wrap(tensor_of(self).detach()); });
}
PyObject* tensor_detach_(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    tensor_of(self).detach_();
    return Py_NewRef(self);
  });
}
PyObject* tensor_is_inference(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(tensor_of(self).is_inference()); });
}
PyObject* tensor_is_view(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return PyBool_FromLong(tensor_of(self).is_view()); });
}

PyCFunction with_keywords(PyObject* (*f)(PyObject*, PyObject*, PyObject*)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

}  // namespace

PyMethodDef autograd_methods[] = {
    {"backward", with_keywords(tensor_backward), METH_VARARGS | METH_KEYWORDS,
     "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n\n"
     "Adds the gradients of this tensor to the .grad of the leaves that it depends on."},
    {"register_hook", tensor_register_hook, METH_O,
     "Calls hook(grad) when the gradient of this tensor is known; a result takes its place."},
    {"register_post_accumulate_grad_hook", tensor_register_accumulated_hook, METH_O,
     "Calls hook(tensor) after the .grad of this leaf was written."},
    {"retain_grad", tensor_retain_grad, METH_NOARGS, "Lets backward fill the .grad of this tensor, which is no leaf."},
    {"requires_grad_", with_keywords(tensor_requires_grad_), METH_VARARGS | METH_KEYWORDS,
     "requires_grad_(requires_grad=True)\n\nSays whether operations on this tensor are recorded."},
    {"detach", tensor_detach, METH_NOARGS, "The same elements without history."},
    {"detach_", tensor_detach_, METH_NOARGS, "Takes the history away from this tensor."},
    {"is_inference", tensor_is_inference, METH_NOARGS, "Whether the tensor was made in inference mode."},
    {"_is_view", tensor_is_view, METH_NOARGS, "Whether the tensor shares the memory of another one, its base."},
    {nullptr, nullptr, 0, nullptr},
};

void remember_python_place(const Tensor& result) noexcept {
  const auto [made_by, accumulator] = nodes_held_by(result.impl());
  if (!made_by || !autograd::AnomalyMode::is_enabled()) return;
  auto* extras = const_cast<autograd::NodeExtras*>(static_cast<const autograd::TapeNode*>(made_by)->extras_if_any());
  if (!extras || extras->called_in.find("\nPython:") != std::string::npos) return;
  try {
    const nb::object lines = nb::module_::import_("traceback").attr("format_stack")();
    extras->called_in += std::string("\nPython:\n") + nb::cast<nb::str>(nb::str("").attr("join")(lines)).c_str();
  } catch (nb::python_error&) {
    // Without the traceback the place in C++ must do.
  }
}

namespace {

void run_backward(nb::handle tensors, nb::handle grads, nb::handle retain_graph, bool create_graph, nb::handle inputs) {
  const variable_list outputs = tensors_from(tensors.ptr(), "backward: tensors"),
                      seeds = tensors_from(grads.ptr(), "backward: grad_tensors"),
                      only = tensors_from(inputs.ptr(), "backward: inputs");
  const std::optional<bool> retain = optional_truth(retain_graph.ptr());
  run_engine([&] { autograd::backward(outputs, seeds, retain, create_graph, only); });
}

nb::object run_grad(nb::handle tensors, nb::handle inputs, nb::handle grads, nb::handle retain_graph, bool create_graph,
                    bool allow_unused) {
  const variable_list outputs = tensors_from(tensors.ptr(), "grad: outputs"),
                      by = tensors_from(inputs.ptr(), "grad: inputs"),
                      seeds = tensors_from(grads.ptr(), "grad: grad_outputs");
  const std::optional<bool> retain = optional_truth(retain_graph.ptr());
  const variable_list found =
      run_engine([&] { return autograd::grad(outputs, by, seeds, retain, create_graph, allow_unused); });
  return checked(tuple_of(found));
}

}  // namespace

void add_autograd(nb::module_& module) {
  add_nodes(module);
  add_hooks(module);
  add_custom_functions(module);
  add_grad_modes(module);
  add_func(module);
  module.def("_backward", run_backward, nb::arg("tensors"), nb::arg("grads"), nb::arg("retain_graph").none(),
             nb::arg("create_graph"), nb::arg("inputs"));
  module.def("_grad", run_grad, nb::arg("outputs"), nb::arg("inputs"), nb::arg("grads"), nb::arg("retain_graph").none(),
             nb::arg("create_graph"), nb::arg("allow_unused"));
  module.def("_gradient_edge", [](const Tensor& t) {
    FACULA_CHECK(t.requires_grad(), Error,
                 "get_gradient_edge: It is not possible to get the gradient edge for a Tensor that does not require "
                 "gradients; call requires_grad_() first");
    const auto [made_by, accumulator] = nodes_held_by(t.impl());
    const nb::object node = checked(wrap_node(intrusive_ptr<autograd::Node>::borrow(made_by ? made_by : accumulator)));
    return nb::make_tuple(node, t.output_nr());
  });
  module.def("_increment_version", &autograd::impl::bump_version);
  module.def("_set_anomaly", [](bool enabled, bool check_nan, bool check_forward) {
    autograd::AnomalyMode::set_enabled(enabled, check_nan, check_forward);
    keeps_places = enabled;
  });
  module.def("_anomaly", [] {
    return nb::make_tuple(autograd::AnomalyMode::is_enabled(), autograd::AnomalyMode::should_check_nan(),
                          autograd::AnomalyMode::should_check_forward());
  });
}

}  // namespace facula::python
