// Custom functions that are written in Python: their context, and the way from `apply` to the tape and back.
#include <facula/autograd/autograd.h>
#include <facula/autograd/function.h>

#include <optional>
#include <vector>

#include "autograd_nodes.h"
#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
using autograd::AutogradContext;
using autograd::variable_list;

namespace {

// `ctx` of forward and backward, which is the `grad_fn` of the outputs too. The node owns it.
struct ContextObject {
  NodeObject node;
  AutogradContext* context;  // of the node; null once that is gone
  PyObject* function;        // the subclass of Function
  PyObject* for_forward;     // what save_for_forward was given; null until then
  bool in_jvp;               // then saved_tensors are those
  bool materialize;
  std::vector<bool>* is_tensor;  // of each argument of forward
  std::vector<bool>* has_grad;   // of each output of forward: whether it is a tensor
};

PyTypeObject* context_type = nullptr;

ContextObject* as_context(PyObject* self) { return reinterpret_cast<ContextObject*>(self); }

// What the node keeps; ends with it.
class Keeper {
 public:
  explicit Keeper(PyObject* context) : context_(context) {}
  ~Keeper() {
    ContextObject* object = as_context(context_.get());
    if (object->node.node) forget_node_object(object->node.node, context_.get());
    object->node.node = nullptr;
    object->context = nullptr;
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  PyObject* get() const { return context_.get(); }

 private:
  Held context_;
};
constexpr const char* kKeeper = "python";

std::shared_ptr<Keeper> kept_in(const AutogradContext& context) {
  return context.saved_data.at(kKeeper).get<std::shared_ptr<Keeper>>();
}
void keep_in(AutogradContext& context, std::shared_ptr<Keeper> keeper) {
  context.saved_data[kKeeper] = autograd::SavedValue::of(std::move(keeper));
}
variable_list apply_recorded(const autograd::custom::CustomFunction& function, variable_list inputs,
                             const std::function<variable_list(AutogradContext*)>& forward) {
  autograd::custom::Arguments arguments;
  for (const Tensor& input : inputs) arguments.add(input);
  return autograd::custom::apply_custom(function, arguments, forward);
}

AutogradContext& context_of(PyObject* self, const char* what) {
  AutogradContext* context = as_context(self)->context;
  FACULA_CHECK(context, Error, what,
               ": this context belongs to no running function and no graph any more; what it saved is freed");
  return *context;
}

PyObject* context_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);  // zeros
  if (!self) return nullptr;
  ContextObject* object = as_context(self);
  object->materialize = true;
  object->is_tensor = new std::vector<bool>();
  object->has_grad = new std::vector<bool>();
  return self;
}

int context_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_context(self)->function);
  Py_VISIT(as_context(self)->for_forward);
  return node_traverse(self, visit, arg);
}
int context_clear(PyObject* self) {
  Py_CLEAR(as_context(self)->for_forward);
  return node_clear(self);
}
void context_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  ContextObject* object = as_context(self);
  Py_CLEAR(object->function);
  Py_CLEAR(object->for_forward);
  delete object->is_tensor;
  delete object->has_grad;
  node_dealloc(self);
}

PyObject* save_for_backward(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    context_of(self, "save_for_backward").save_for_backward(tensors_from(args, "save_for_backward"));
    Py_RETURN_NONE;
  });
}
PyObject* save_for_forward(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    tensors_from(args, "save_for_forward");
    Py_XSETREF(as_context(self)->for_forward, Py_NewRef(args));
    Py_RETURN_NONE;
  });
}
PyObject* mark_dirty(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    context_of(self, "mark_dirty").mark_dirty(tensors_from(args, "mark_dirty"));
    Py_RETURN_NONE;
  });
}
PyObject* mark_non_differentiable(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    context_of(self, "mark_non_differentiable").mark_non_differentiable(tensors_from(args, "mark_non_differentiable"));
    Py_RETURN_NONE;
  });
}
PyObject* set_materialize_grads(PyObject* self, PyObject* value) {
  return guarded([&]() -> PyObject* {
    const int truth = PyObject_IsTrue(value);
    if (truth < 0) throw nb::python_error();
    context_of(self, "set_materialize_grads").set_materialize_grads(truth != 0);
    as_context(self)->materialize = truth != 0;
    Py_RETURN_NONE;
  });
}

PyObject* get_saved_tensors(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    ContextObject* object = as_context(self);
    if (object->in_jvp) return object->for_forward ? Py_NewRef(object->for_forward) : PyTuple_New(0);
    AutogradContext& context = context_of(self, "saved_tensors");
    // Unpacking may wait for another thread, which may need the lock.
    return tuple_of(without_lock([&] { return context.get_saved_variables(); }));
  });
}
PyObject* get_needs_input_grad(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const AutogradContext& context = context_of(self, "needs_input_grad");
    const std::vector<bool>& is_tensor = *as_context(self)->is_tensor;
    nb::object needs = checked(PyTuple_New(static_cast<Py_ssize_t>(is_tensor.size())));
    for (size_t i = 0, tensor = 0; i < is_tensor.size(); ++i)
      PyTuple_SET_ITEM(needs.ptr(), static_cast<Py_ssize_t>(i),
                       PyBool_FromLong(is_tensor[i] && context.needs_input_grad(tensor++)));
    return needs.release().ptr();
  });
}
PyObject* get_in_jvp(PyObject* self, void*) { return PyBool_FromLong(as_context(self)->in_jvp); }
int set_in_jvp(PyObject* self, PyObject* value, void*) {
  as_context(self)->in_jvp = value == Py_True;
  return 0;
}
PyObject* get_materialize(PyObject* self, void*) { return PyBool_FromLong(as_context(self)->materialize); }

PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS,
     "Keeps inputs, outputs and other tensors for backward. In-place changes of them are noticed."},
    {"save_for_forward", save_for_forward, METH_VARARGS, "Keeps tensors for jvp."},
    {"mark_dirty", mark_dirty, METH_VARARGS, "Names the inputs that forward has written to."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS, "Names outputs that no gradient flows through."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "Whether backward gets zeros (as at first) or None for outputs that no gradient came for."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef context_properties[] = {
    {"saved_tensors", get_saved_tensors, nullptr, "What save_for_backward was given.", nullptr},
    {"needs_input_grad", get_needs_input_grad, nullptr, "For each argument of forward, whether its gradient is wanted.",
     nullptr},
    {"materialize_grads", get_materialize, nullptr, nullptr, nullptr},
    {"_in_jvp", get_in_jvp, set_in_jvp, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// What backward gave, one for each tensor among the arguments of forward.
variable_list gradients_from(const ContextObject& object, const char* name, PyObject* result) {
  const size_t expected = object.is_tensor->size();
  PyObject** items = PySequence_Fast_ITEMS(result);
  size_t count = static_cast<size_t>(PySequence_Fast_GET_SIZE(result));
  const size_t given = count;
  while (count > expected && items[count - 1] == Py_None) --count;
  FACULA_CHECK(count == expected, Error, "function ", name, " returned an incorrect number of gradients (expected ",
               expected, ", got ", given, "); give one for each argument of forward, None where there is none");
  variable_list grads;
  for (size_t i = 0; i < count; ++i) {
    if (!(*object.is_tensor)[i]) {
      FACULA_CHECK(items[i] == Py_None, Error, "function ", name,
                   " returned a gradient different from None at position ", i + 1,
                   ", but the corresponding forward input was not a Tensor");
      continue;
    }
    if (items[i] != Py_None && !is_tensor(items[i]))
      throw TypeMismatch(str("function ", name, ": expected Tensor or None (got ", Py_TYPE(items[i])->tp_name,
                             ") at position ", i + 1));
    grads.push_back(items[i] == Py_None ? Tensor() : tensor_of(items[i]));
  }
  return grads;
}

// Backward, called by the engine.
variable_list run_backward(AutogradContext* context, variable_list grads) {
  const Locked lock;
  const std::shared_ptr<Keeper> keeper = kept_in(*context);
  PyObject* self = keeper->get();
  const ContextObject* object = as_context(self);
  const nb::object args = checked(PyTuple_New(static_cast<Py_ssize_t>(object->has_grad->size() + 1)));
  PyTuple_SET_ITEM(args.ptr(), 0, Py_NewRef(self));
  for (size_t i = 0, tensor = 0; i < object->has_grad->size(); ++i) {
    const nb::object grad = (*object->has_grad)[i] ? checked(wrap(std::move(grads[tensor++]))) : nb::none();
    PyTuple_SET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i + 1), Py_NewRef(grad.ptr()));
  }
  grads.clear();
  const nb::object backward = checked(PyObject_GetAttrString(object->function, "backward"));
  nb::object result = checked(PyObject_Call(backward.ptr(), args.ptr(), nullptr));
  if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) result = checked(PyTuple_Pack(1, result.ptr()));
  return gradients_from(*object, Py_TYPE(self)->tp_name, result.ptr());
}

// Runs forward and takes the tensors out of what it gives.
variable_list run_forward(PyObject* self, bool sets_up, PyObject* args, nb::object& result) {
  ContextObject* object = as_context(self);
  const nb::object forward = checked(PyObject_GetAttrString(object->function, "forward"));
  if (sets_up) {
    result = checked(PyObject_Call(forward.ptr(), args, nullptr));
    const nb::object set_up = checked(PyObject_GetAttrString(object->function, "setup_context"));
    checked(PyObject_CallFunctionObjArgs(set_up.ptr(), self, args, result.ptr(), nullptr));
  } else {
    const nb::object first = checked(PyTuple_Pack(1, self));
    const nb::object all = checked(PySequence_Concat(first.ptr(), args));
    result = checked(PyObject_Call(forward.ptr(), all.ptr(), nullptr));
  }
  variable_list outputs;
  if (is_tensor(result.ptr())) {
    object->has_grad->assign(1, true);
    outputs.push_back(tensor_of(result.ptr()));
    return outputs;
  }
  if (!PyTuple_Check(result.ptr()))
    throw TypeMismatch(str(Py_TYPE(self)->tp_name, ": forward: expected Tensor or tuple of Tensor (got ",
                           Py_TYPE(result.ptr())->tp_name, ") for return value 0"));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.ptr()); ++i) {
    PyObject* each = PyTuple_GET_ITEM(result.ptr(), i);
    object->has_grad->push_back(is_tensor(each));
    if (is_tensor(each)) outputs.push_back(tensor_of(each));
  }
  return outputs;
}

// The results of forward with the tensors that the tape made of its outputs.
nb::object with_outputs(const nb::object& result, const variable_list& outputs) {
  if (is_tensor(result.ptr())) return checked(wrap(outputs[0]));
  const Py_ssize_t count = PyTuple_GET_SIZE(result.ptr());
  nb::object all = checked(PyTuple_New(count));
  size_t tensor = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* each = PyTuple_GET_ITEM(result.ptr(), i);
    PyTuple_SET_ITEM(all.ptr(), i,
                     is_tensor(each) ? checked(wrap(outputs[tensor++])).release().ptr() : Py_NewRef(each));
  }
  return all;
}

bool flag(PyObject* function, const char* name) {
  const nb::object value = checked(PyObject_GetAttrString(function, name));
  return value.ptr() == Py_True;
}

// Result and context of one call; the context is null when `want_context` is not set.
nb::object apply(PyObject* function, PyObject* const* given, Py_ssize_t count, nb::object* context) {
  const nb::object type = checked(PyObject_GetAttrString(function, "_backward_cls"));
  if (!PyType_Check(type.ptr()) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), context_type))
    throw TypeMismatch("Function.apply: the first argument must be a subclass of facula.autograd.Function");
  const nb::object self = checked(context_new(reinterpret_cast<PyTypeObject*>(type.ptr()), nullptr, nullptr));
  ContextObject* object = as_context(self.ptr());
  object->function = Py_NewRef(function);
  const nb::object args = checked(PyTuple_New(count));
  variable_list inputs;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(args.ptr(), i, Py_NewRef(given[i]));
    object->is_tensor->push_back(is_tensor(given[i]));
    if (is_tensor(given[i])) inputs.push_back(tensor_of(given[i]));
  }
  const bool sets_up = flag(function, "_sets_up_context");
  const std::string name = reinterpret_cast<PyTypeObject*>(type.ptr())->tp_name;
  nb::object result;
  const variable_list outputs =
      apply_recorded({name, run_backward}, std::move(inputs), [&](AutogradContext* made) -> variable_list {
        object->context = made;
        keep_in(*made, std::make_shared<Keeper>(self.ptr()));
        return run_forward(self.ptr(), sets_up, args.ptr(), result);
      });
  // The context lives on when an output has the node for its history.
  if (object->context) {
    for (const Tensor& output : outputs) {
      const intrusive_ptr<autograd::Node> node = output.defined() ? output.grad_fn() : nullptr;
      if (!node || node->name() != name) continue;
      object->node.node = node.get();
      set_node_object(node.get(), self.ptr(), true);
      break;
    }
  }
  if (context) *context = self;
  return with_outputs(result, outputs);
}

bool has_tangents(PyObject* const* given, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < count; ++i)
    if (is_tensor(given[i]) && (tensor_of(given[i]).impl()->tracking & facula::detail::kTracksTangent)) return true;
  return false;
}

PyObject* apply_function(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count < 1) throw TypeMismatch("Function.apply: the class is missing");
    if (has_tangents(given + 1, count - 1) && flag(given[0], "_has_jvp")) {
      const nb::object dual = checked(PyObject_GetAttrString(given[0], "_apply_dual"));
      return checked(PyObject_Vectorcall(dual.ptr(), given + 1, static_cast<size_t>(count - 1), nullptr))
          .release()
          .ptr();
    }
    return apply(given[0], given + 1, count - 1, nullptr).release().ptr();
  });
}

// A pair of result and context; tangents are none of its business.
PyObject* apply_with_context(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count < 1) throw TypeMismatch("Function.apply: the class is missing");
    nb::object context;
    const nb::object result = apply(given[0], given + 1, count - 1, &context);
    return PyTuple_Pack(2, result.ptr(), context.ptr());
  });
}

PyMethodDef functions[] = {
    {"_apply_function", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(apply_function)), METH_FASTCALL, nullptr},
    {"_apply_with_context", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(apply_with_context)), METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_custom_functions(nb::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(context_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(context_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(context_clear)},
      {Py_tp_methods, context_methods},
      {Py_tp_getset, context_properties},
      {Py_tp_doc, const_cast<char*>("What forward of a custom function leaves for backward.")},
      {0, nullptr},
  };
  PyType_Spec spec = {"facula.autograd.function.FunctionCtx", sizeof(ContextObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  context_type = add_type(module, spec, node_type);
  if (PyModule_AddFunctions(module.ptr(), functions) < 0) throw nb::python_error();
}

}  // namespace facula::python
