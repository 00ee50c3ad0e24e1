// Nodes of the tape as Python's objects: one type for each kind of node, named after it.
#include "autograd_nodes.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
using autograd::Node;

PyTypeObject* node_type = nullptr;

namespace {

// What Python has to do with a node.
struct Entry {
  PyObject* object = nullptr;  // not owned
  bool is_context = false;
  std::vector<Hook*> hooks;
  bool empty() const { return !object && hooks.empty(); }
};

// Guarded by a mutex of its own, which is held for looks and changes only: nodes end in threads without the
// interpreter's lock.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const Node*, Entry> entries;
  // Hooks and contexts: with none of them the garbage collector need not look.
  std::atomic<int64_t> owned{0};
};
Registry& registry() {
  static Registry* all = new Registry();
  return *all;
}

NodeObject* as_node(PyObject* self) { return reinterpret_cast<NodeObject*>(self); }

thread_local uint64_t current_pass = 0;
std::atomic<uint64_t> next_pass{1};

}  // namespace

PassNumber::PassNumber() : before_(current_pass) { current_pass = next_pass.fetch_add(1); }
PassNumber::~PassNumber() { current_pass = before_; }
uint64_t PassNumber::current() { return current_pass; }

Hook::Hook(const Node* node, PyObject* callable) : node_(node), callable_(callable) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.entries[node].hooks.push_back(this);
  ++all.owned;
}

Hook::~Hook() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(node_);
  if (found == all.entries.end()) return;
  if (std::erase(found->second.hooks, this)) --all.owned;
  if (found->second.empty()) all.entries.erase(found);
}

void set_node_object(const Node* node, PyObject* object, bool is_context) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Entry& entry = all.entries[node];
  entry.object = object;
  entry.is_context = is_context;
  if (is_context) ++all.owned;
}

void forget_node_object(const Node* node, PyObject* object) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(node);
  if (found == all.entries.end() || found->second.object != object) return;
  if (found->second.is_context) --all.owned;
  found->second.object = nullptr;
  found->second.is_context = false;
  if (found->second.empty()) all.entries.erase(found);
}

PyObject* node_object(const Node* node) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(node);
  return found == all.entries.end() ? nullptr : found->second.object;
}

int visit_node(const Node* node, visitproc visit, void* arg) {
  Registry& all = registry();
  // Somebody else who holds the node may be outside of what the collector sees.
  if (!node || all.owned.load(std::memory_order_relaxed) == 0 || node->use_count() != 1) return 0;
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(node);
  if (found == all.entries.end()) return 0;
  for (const Hook* hook : found->second.hooks) Py_VISIT(hook->callable());
  if (found->second.is_context) Py_VISIT(found->second.object);
  return 0;
}

void clear_node(const Node* node) {
  Registry& all = registry();
  if (!node || all.owned.load(std::memory_order_relaxed) == 0 || node->use_count() != 1) return;
  std::vector<autograd::HookHandle> handles;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.entries.find(node);
    if (found == all.entries.end()) return;
    for (const Hook* hook : found->second.hooks) handles.push_back(hook->handle);
  }
  for (autograd::HookHandle& handle : handles) {
    try {
      handle.remove();
    } catch (const Error&) {
      // Removed already: nothing is left to do.
    }
  }
}

PyTypeObject* add_type(nb::module_& module, PyType_Spec& spec, PyTypeObject* base) {
  nb::object bases = base ? checked(PyTuple_Pack(1, base)) : nb::object();
  nb::object type = checked(PyType_FromSpecWithBases(&spec, bases.ptr()));
  std::string name = spec.name;
  name = name.substr(name.rfind('.') + 1);
  module.attr((name[0] == '_' ? name : "_" + name).c_str()) = type;
  return reinterpret_cast<PyTypeObject*>(type.release().ptr());
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  NodeObject* object = as_node(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object->dict);
  return object->owns ? visit_node(object->node, visit, arg) : 0;
}

int node_clear(PyObject* self) {
  NodeObject* object = as_node(self);
  Py_CLEAR(object->dict);
  if (object->owns) clear_node(object->node);
  return 0;
}

void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  NodeObject* object = as_node(self);
  Node* node = object->node;
  if (node && object->owns) forget_node_object(node, self);
  if (object->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(object->dict);
  if (node && object->owns) node->release();
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

intrusive_ptr<Node> node_of(PyObject* object) {
  Node* node = as_node(object)->node;
  FACULA_CHECK(node, Error, Py_TYPE(object)->tp_name,
               ": the node of this function is gone, or forward has not returned yet; it lives as long as an output of "
               "the function or a graph over it");
  return intrusive_ptr<Node>::borrow(node);
}

namespace {

// The types of kinds of nodes, by name; they live as long as the process.
PyTypeObject* type_named(const std::string& name) {
  static auto* types = new std::map<std::string, PyTypeObject*>();
  PyTypeObject*& type = (*types)[name];
  if (type) return type;
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                         {0, nullptr}};
  static auto* names = new std::vector<std::unique_ptr<std::string>>();  // a type borrows its name
  names->push_back(std::make_unique<std::string>("facula.autograd.graph." + name));
  PyType_Spec spec = {names->back()->c_str(), sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  const nb::object bases = checked(PyTuple_Pack(1, node_type));
  type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.ptr()));
  if (!type) throw nb::python_error();
  return type;
}

PyObject* node_repr(PyObject* self) {
  const char* name = Py_TYPE(self)->tp_name;
  const char* dot = std::strrchr(name, '.');
  return PyUnicode_FromFormat("<%s object at %p>", dot ? dot + 1 : name, self);
}

// `x + 1` is recorded as the sum with a number (AddBackward1). PyTorch's Python makes a tensor of the number first, so
// there people know it by the name of the sum of tensors.
std::string name_in_python(const Node& node) {
  std::string name = node.name();
  for (const char* with_number : {"AddBackward1", "SubBackward1", "MulBackward1", "DivBackward1"})
    if (name == with_number) name.back() = '0';
  return name;
}

PyObject* node_name(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return PyUnicode_FromString(name_in_python(*node_of(self)).c_str()); });
}

PyObject* node_next_functions(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const autograd::edge_list edges = node_of(self)->next_edges();
    nb::object list = checked(PyTuple_New(static_cast<Py_ssize_t>(edges.size())));
    for (size_t i = 0; i < edges.size(); ++i) {
      nb::object next = checked(wrap_node(edges[i].function));
      PyTuple_SET_ITEM(
          list.ptr(), static_cast<Py_ssize_t>(i),
          checked(Py_BuildValue("(Ok)", next.ptr(), static_cast<unsigned long>(edges[i].input_nr))).release().ptr());
    }
    return list.release().ptr();
  });
}

PyObject* node_metadata(PyObject* self, void*) {
  NodeObject* object = as_node(self);
  if (!object->dict && !(object->dict = PyDict_New())) return nullptr;
  PyObject* known = PyDict_GetItemString(object->dict, "_metadata");  // borrowed
  if (known) return Py_NewRef(known);
  PyObject* made = PyDict_New();
  if (made && PyDict_SetItemString(object->dict, "_metadata", made) < 0) Py_CLEAR(made);
  return made;
}

PyObject* node_register_hook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* { return add_node_hook(node_of(self), hook); });
}
PyObject* node_register_prehook(PyObject* self, PyObject* hook) {
  return guarded([&]() -> PyObject* { return add_node_prehook(node_of(self), hook); });
}
PyObject* node_sequence_nr(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* { return PyLong_FromUnsignedLongLong(node_of(self)->sequence_nr()); });
}

PyObject* node_call(PyObject* self, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    const intrusive_ptr<Node> node = node_of(self);
    std::vector<Tensor> grads = tensors_from(args, "the gradients");
    const std::vector<Tensor> found = run_engine([&] { return (*node)(std::move(grads)); });
    return found.size() == 1 ? wrap(found[0]) : tuple_of(found);
  });
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "The name of the operation, such as AddBackward0."},
    {"register_hook", node_register_hook, METH_O,
     "Calls hook(grad_inputs, grad_outputs) after the node has run in backward; a result takes the place of "
     "grad_inputs."},
    {"register_prehook", node_register_prehook, METH_O,
     "Calls hook(grad_outputs) before the node runs in backward; a result takes their place."},
    {"_sequence_nr", node_sequence_nr, METH_NOARGS, "Nodes are numbered in the order in which they were recorded."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef node_properties[] = {
    {"next_functions", node_next_functions, nullptr,
     "Where gradients go next: a pair of node and output number for each input.", nullptr},
    {"metadata", node_metadata, nullptr, "A dict for whatever users want to note about the node.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef node_members[] = {
    {"__dictoffset__", Py_T_PYSSIZET, offsetof(NodeObject, dict), Py_READONLY, nullptr},
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(NodeObject, weak_references), Py_READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

}  // namespace

PyObject* wrap_node(const intrusive_ptr<Node>& node) {
  if (!node) Py_RETURN_NONE;
  if (PyObject* known = node_object(node.get())) return Py_NewRef(known);
  PyTypeObject* type = type_named(name_in_python(*node));
  NodeObject* object = PyObject_GC_New(NodeObject, type);
  if (!object) throw nb::python_error();
  node->retain();
  object->node = node.get();
  object->owns = true;
  object->dict = object->weak_references = nullptr;
  PyObject* made = reinterpret_cast<PyObject*>(object);
  set_node_object(node.get(), made, false);
  PyObject_GC_Track(made);
  return made;
}

void add_nodes(nb::module_& module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
      {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
      {Py_tp_call, reinterpret_cast<void*>(node_call)},
      {Py_tp_methods, node_methods},
      {Py_tp_getset, node_properties},
      {Py_tp_members, node_members},
      {Py_tp_doc, const_cast<char*>("A recorded operation.")},
      {0, nullptr},
  };
  PyType_Spec spec = {"facula.autograd.graph.Node", sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  node_type = add_type(module, spec, nullptr);
}

}  // namespace facula::python
