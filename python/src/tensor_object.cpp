// The Python object that stands for a tensor: life, identity, garbage collection.
#include "tensor_object.h"

#include <cstddef>
#include <vector>

#include "autograd.h"
#include "errors.h"
#include "op_table.h"
#include "tensor_methods.h"

namespace facula::python {
namespace nb = nanobind;

PyTypeObject* tensor_type = nullptr;

namespace {

TensorObject* object_of(PyObject* self) { return reinterpret_cast<TensorObject*>(self); }

void forget(TensorObject* self) {
  // A tensor without an object may get another one; it must not be handed this one, which is going.
  if (TensorImpl* impl = self->tensor.impl(); impl && impl->python_object == self) impl->python_object = nullptr;
}

void tensor_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  TensorObject* object = object_of(self);
  forget(object);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  if (object->hooks) free_hooks(object);
  Py_CLEAR(object->dict);
  object->tensor.~Tensor();
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  TensorObject* object = object_of(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object->dict);
  return object->hooks || object->tensor.impl()->tape ? traverse_hooks(object, visit, arg) : 0;
}

int tensor_clear(PyObject* self) {
  TensorObject* object = object_of(self);
  Py_CLEAR(object->dict);
  clear_hooks(object);
  return 0;
}

// Equal tensors may be different keys: a tensor is a key by itself, as long as it lives.
Py_hash_t tensor_hash(PyObject* self) {
  const auto address = reinterpret_cast<uintptr_t>(tensor_of(self).impl());
  return static_cast<Py_hash_t>(address >> 4);
}

PyMemberDef members[] = {
    {"__dictoffset__", Py_T_PYSSIZET, offsetof(TensorObject, dict), Py_READONLY, nullptr},
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(TensorObject, weak_references), Py_READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyObject* wrap(Tensor tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl) Py_RETURN_NONE;
  if (impl->python_object) return Py_NewRef(static_cast<PyObject*>(impl->python_object));
  if (keeps_places) [[unlikely]]
    remember_python_place(tensor);
  TensorObject* object = PyObject_GC_New(TensorObject, tensor_type);
  if (!object) return nullptr;
  new (&object->tensor) Tensor(std::move(tensor));
  object->dict = object->weak_references = nullptr;
  object->hooks = nullptr;
  impl->python_object = object;
  PyObject_GC_Track(reinterpret_cast<PyObject*>(object));
  return reinterpret_cast<PyObject*>(object);
}

namespace {

// Tensor(...): sizes or data.
PyObject* tensor_new(PyTypeObject*, PyObject* given, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const nb::object module = nb::steal(PyImport_ImportModule("facula._legacy"));
    if (!module) return nullptr;
    const nb::object make = nb::steal(PyObject_GetAttrString(module.ptr(), "make_tensor"));
    return make ? PyObject_Call(make.ptr(), given, keywords) : nullptr;
  });
}

}  // namespace

void add_tensor_type(nb::module_& module) {
  // The table outlives the type.
  static std::vector<PyMethodDef> methods;
  for (const PyMethodDef* table : {op_methods(), static_cast<const PyMethodDef*>(tensor_hand_methods),
                                   static_cast<const PyMethodDef*>(autograd_methods)})
    for (; table->ml_name; ++table) methods.push_back(*table);
  methods.push_back({nullptr, nullptr, 0, nullptr});

  std::vector<PyType_Slot> slots = {
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_hash, reinterpret_cast<void*>(tensor_hash)},
      {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
      {Py_tp_methods, methods.data()},
      {Py_tp_getset, tensor_properties},
      {Py_tp_members, members},
      {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_assign_subscript)},
      {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
      {Py_tp_iter, reinterpret_cast<void*>(tensor_iterate)},
      {Py_sq_contains, reinterpret_cast<void*>(tensor_contains)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(tensor_get_buffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_release_buffer)},
      {Py_tp_doc,
       const_cast<char*>("An array of numbers of one dtype on one device. Made by facula.tensor, facula.zeros "
                         "and so on.")},
  };
  for (const PyType_Slot* slot = tensor_operator_slots; slot->slot; ++slot) slots.push_back(*slot);
  slots.push_back({0, nullptr});
  PyType_Spec spec = {"facula.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots.data()};
  tensor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!tensor_type) throw nb::python_error();
  module.attr("Tensor") = nb::borrow(reinterpret_cast<PyObject*>(tensor_type));
}

}  // namespace facula::python
