// Nodes of the tape as Python's objects, and which of Python's callables a node keeps alive. The latter is what the
// garbage collector must know to find circles that lead through the tape.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/autograd/function.h>
#include <facula/autograd/node.h>

#include <memory>

#include "autograd/tensor_tape.h"
#include "references.h"

namespace facula::python {

// What stands for a node. There is at most one for each, so that `y.grad_fn is y.grad_fn`.
struct NodeObject {
  PyObject_HEAD autograd::Node* node;  // null when the node of a context is gone
  bool owns;                           // a context does not own its node: the node owns it
  PyObject* dict;
  PyObject* weak_references;
};

extern PyTypeObject* node_type;
inline bool is_node(PyObject* object) { return PyObject_TypeCheck(object, node_type); }
// A new reference; None for null. For the node of a custom function it is the function's context.
PyObject* wrap_node(const intrusive_ptr<autograd::Node>& node);
// The node, held; throws when it is gone.
intrusive_ptr<autograd::Node> node_of(PyObject* object);

// For types that derive from `node_type`.
int node_traverse(PyObject* self, visitproc visit, void* arg);
int node_clear(PyObject* self);
void node_dealloc(PyObject* self);

// A Python callable that a node holds as a hook.
class Hook {
 public:
  Hook(const autograd::Node* node, PyObject* callable);
  ~Hook();
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  PyObject* callable() const { return callable_.get(); }
  autograd::HookHandle handle;

 private:
  const autograd::Node* node_;
  Held callable_;
};

// Tells that `object` stands for `node`, and that it no longer does.
void set_node_object(const autograd::Node* node, PyObject* object, bool is_context);
void forget_node_object(const autograd::Node* node, PyObject* object) noexcept;
// The object that stands for a node, borrowed; null when there is none.
PyObject* node_object(const autograd::Node* node);

// For the garbage collector: what a node holds that nobody but the caller holds.
int visit_node(const autograd::Node* node, visitproc visit, void* arg);
void clear_node(const autograd::Node* node);

// The nodes that a tensor holds: the one that made it, and the accumulator of a leaf. Looks only, computes nothing.
inline std::pair<autograd::Node*, autograd::Node*> nodes_held_by(const TensorImpl* impl) {
  const autograd::Tape* tape = autograd::tape_of(impl);
  if (!tape) return {nullptr, nullptr};
  return {tape->grad_fn.get(), tape->accumulator.get()};
}

// Adds hooks to a node and gives handles that remove them.
PyObject* add_tensor_hook(const Tensor& tensor, PyObject* callable);
PyObject* add_accumulated_hook(const Tensor& tensor, PyObject* callable);
PyObject* add_node_hook(const intrusive_ptr<autograd::Node>& node, PyObject* callable);
PyObject* add_node_prehook(const intrusive_ptr<autograd::Node>& node, PyObject* callable);

// Runs a backward pass without the interpreter's lock.
template <class F>
auto run_engine(F&& pass);

void add_nodes(nanobind::module_& module);
void add_hooks(nanobind::module_& module);
void add_custom_functions(nanobind::module_& module);
void add_grad_modes(nanobind::module_& module);
void add_func(nanobind::module_& module);

// The number of the innermost backward pass of this thread that Python started; 0 outside of them.
class PassNumber {
 public:
  PassNumber();
  ~PassNumber();
  PassNumber(const PassNumber&) = delete;
  PassNumber& operator=(const PassNumber&) = delete;
  static uint64_t current();

 private:
  uint64_t before_;
};

template <class F>
auto run_engine(F&& pass) {
  const PassNumber number;
  return without_lock(std::forward<F>(pass));
}

// Makes a type from its parts and adds it to the module under its last name, with a leading underscore.
PyTypeObject* add_type(nanobind::module_& module, PyType_Spec& spec, PyTypeObject* base);

}  // namespace facula::python
