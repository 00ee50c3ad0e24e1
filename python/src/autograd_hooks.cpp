// Python's callables as hooks: on gradients, on nodes, after accumulation, around saved tensors. And what the garbage
// collector sees of those that a tensor holds.
#include <facula/autograd/autograd.h>

#include <vector>

#include "autograd_nodes.h"
#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
using autograd::HookHandle;
using autograd::Node;
using autograd::variable_list;

namespace {

// Removes a hook; a second time does nothing.
class RemovableHandle {
 public:
  explicit RemovableHandle(HookHandle handle) : handle_(std::move(handle)) {}
  void remove() {
    if (removed_) return;
    removed_ = true;
    try {
      handle_.remove();
    } catch (const Error&) {
      // The garbage collector was quicker.
    }
  }

 private:
  HookHandle handle_;
  bool removed_ = false;
};

PyObject* handle_object(const std::shared_ptr<Hook>& hook, HookHandle handle) {
  hook->handle = handle;
  return nb::cast(RemovableHandle(std::move(handle))).release().ptr();
}

void check_callable(PyObject* callable, const char* where) {
  if (!PyCallable_Check(callable))
    throw TypeMismatch(str(where, ": the hook must be callable, not ", Py_TYPE(callable)->tp_name));
}

Tensor gradient_from(PyObject* result, const char* where) {
  if (!is_tensor(result))
    throw TypeMismatch(str(where, ": expected the hook to return a Tensor or None, got ", Py_TYPE(result)->tp_name));
  return tensor_of(result);
}

Tensor run_tensor_hook(const Hook& hook, const Tensor& grad) {
  const Locked lock;
  const nb::object given = checked(wrap(grad));
  const nb::object result = checked(PyObject_CallOneArg(hook.callable(), given.ptr()));
  return result.is_none() ? Tensor() : gradient_from(result.ptr(), "register_hook");
}

variable_list gradients_from(PyObject* result, const variable_list& before, const char* where) {
  if (result == Py_None) return before;
  if (is_tensor(result) && before.size() == 1) return {tensor_of(result)};
  if (!PyTuple_Check(result) && !PyList_Check(result))
    throw TypeMismatch(
        str(where, ": expected the hook to return a tuple of gradients or None, got ", Py_TYPE(result)->tp_name));
  return tensors_from(result, where);
}

// The node that a hook on the gradient of `tensor` sits on; call after one was asked for, so that it exists.
const Node* node_for_hooks(const Tensor& tensor) {
  const auto [made_by, accumulator] = nodes_held_by(tensor.impl());
  return made_by ? made_by : accumulator;
}

}  // namespace

PyObject* add_tensor_hook(const Tensor& tensor, PyObject* callable) {
  check_callable(callable, "register_hook");
  FACULA_CHECK(tensor.requires_grad(), Error,
               "register_hook: cannot register a hook on a tensor that doesn't require gradient; call "
               "requires_grad_() first");
  auto hook = std::make_shared<Hook>(node_for_hooks(tensor), callable);
  HookHandle handle = tensor.register_hook(
      std::function<Tensor(const Tensor&)>([hook](const Tensor& grad) { return run_tensor_hook(*hook, grad); }));
  return handle_object(hook, std::move(handle));
}

PyObject* add_accumulated_hook(const Tensor& tensor, PyObject* callable) {
  check_callable(callable, "register_post_accumulate_grad_hook");
  const Node* accumulator = nodes_held_by(tensor.impl()).second;
  auto hook = std::make_shared<Hook>(accumulator, callable);
  HookHandle handle = tensor.register_post_accumulate_grad_hook([hook](const Tensor& leaf) {
    const Locked lock;
    const nb::object given = checked(wrap(leaf));
    const nb::object result = checked(PyObject_CallOneArg(hook->callable(), given.ptr()));
    FACULA_CHECK(result.is_none(), Error,
                 "register_post_accumulate_grad_hook: hooks after accumulation should return None");
  });
  return handle_object(hook, std::move(handle));
}

PyObject* add_node_hook(const intrusive_ptr<Node>& node, PyObject* callable) {
  check_callable(callable, "register_hook");
  auto hook = std::make_shared<Hook>(node.get(), callable);
  HookHandle handle = node->add_post_hook([hook](const variable_list& outputs, const variable_list& inputs) {
    const Locked lock;
    const nb::object went = checked(tuple_of(outputs)), came = checked(tuple_of(inputs));
    const nb::object result = checked(PyObject_CallFunctionObjArgs(hook->callable(), went.ptr(), came.ptr(), nullptr));
    return gradients_from(result.ptr(), outputs, "register_hook");
  });
  return handle_object(hook, std::move(handle));
}

PyObject* add_node_prehook(const intrusive_ptr<Node>& node, PyObject* callable) {
  check_callable(callable, "register_prehook");
  auto hook = std::make_shared<Hook>(node.get(), callable);
  HookHandle handle = node->add_pre_hook([hook](const variable_list& grads) {
    const Locked lock;
    const nb::object came = checked(tuple_of(grads));
    const nb::object result = checked(PyObject_CallOneArg(hook->callable(), came.ptr()));
    return gradients_from(result.ptr(), grads, "register_prehook");
  });
  return handle_object(hook, std::move(handle));
}

// The garbage collector. A tensor's hooks live in the tape; they are part of what Python's object holds only as long as
// nobody else holds the tensor or the node.

int traverse_hooks(TensorObject* self, visitproc visit, void* arg) {
  const TensorImpl* impl = self->tensor.impl();
  if (!impl || impl->use_count() != 1) return 0;
  const auto [made_by, accumulator] = nodes_held_by(impl);
  if (const int stop = visit_node(made_by, visit, arg)) return stop;
  return visit_node(accumulator, visit, arg);
}

void clear_hooks(TensorObject* self) {
  const TensorImpl* impl = self->tensor.impl();
  if (!impl || impl->use_count() != 1) return;
  const auto [made_by, accumulator] = nodes_held_by(impl);
  clear_node(made_by);
  clear_node(accumulator);
}

void free_hooks(TensorObject*) {}

namespace {

// Hooks around saved tensors of this thread, for a `with` block.
class SavedHooks {
 public:
  SavedHooks(nb::object pack, nb::object unpack)
      : pack_(std::make_shared<Held>(pack.ptr())), unpack_(std::make_shared<Held>(unpack.ptr())) {}
  SavedHooks(const SavedHooks&) = delete;
  SavedHooks& operator=(const SavedHooks&) = delete;

  void enter() {
    active_.push_back(std::make_unique<autograd::SavedTensorHooks>(
        [pack = pack_](const Tensor& tensor) -> autograd::SavedTensorHooks::Packed {
          const Locked lock;
          const nb::object given = checked(wrap(tensor));
          const int64_t version = tensor._version();
          const nb::object packed = checked(PyObject_CallOneArg(pack->get(), given.ptr()));
          FACULA_CHECK(
              tensor._version() == version, Error,
              "saved_tensors_hooks: a saved tensor pack hook is modifying its input in place. Tensors provided as "
              "input to pack hook can not be modified by in-place operations");
          return std::make_shared<Held>(packed.ptr());
        },
        [unpack = unpack_](const autograd::SavedTensorHooks::Packed& packed) {
          const Locked lock;
          PyObject* given = static_cast<const Held*>(packed.get())->get();
          const nb::object back = checked(PyObject_CallOneArg(unpack->get(), given));
          if (!is_tensor(back.ptr()))
            throw TypeMismatch(
                str("saved_tensors_hooks: Output of saved tensor unpack_hook expected to be a Tensor but got ",
                    Py_TYPE(back.ptr())->tp_name));
          return tensor_of(back.ptr());
        }));
  }
  void leave() {
    FACULA_CHECK(!active_.empty(), Error, "saved_tensors_hooks: the block was left already");
    active_.pop_back();
  }

 private:
  std::shared_ptr<Held> pack_, unpack_;
  std::vector<std::unique_ptr<autograd::SavedTensorHooks>> active_;
};

}  // namespace

void add_hooks(nb::module_& module) {
  nb::class_<RemovableHandle>(module, "_RemovableHandle",
                              "Removes a hook: with remove(), or at the end of a with block.",
                              nb::is_weak_referenceable())
      .def("remove", &RemovableHandle::remove, "Removes the hook; once it is gone this does nothing.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](RemovableHandle& self, nb::args) { self.remove(); });
  nb::class_<SavedHooks>(module, "_SavedHooks")
      .def(nb::init<nb::object, nb::object>())
      .def("enter", &SavedHooks::enter)
      .def("leave", &SavedHooks::leave);
  module.def("_current_pass", &PassNumber::current,
             "The number of the backward pass that runs in this thread; 0 outside of one.");
}

}  // namespace facula::python
