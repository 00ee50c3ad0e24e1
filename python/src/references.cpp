// Python's objects in the hands of C++.
#include "references.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

struct Ending {
  void* what;
  void (*end)(void*);
};
struct LetGo {
  std::mutex mutex;
  std::vector<Ending> objects;
};
// Lives to the end of the process: threads may let go of objects while others end.
LetGo& waiting() {
  static LetGo* list = new LetGo();
  return *list;
}

[[noreturn]] void sleep_forever() noexcept {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

// Told by atexit, before the interpreter begins to end: the thread that ends it runs on to the last.
std::atomic<bool> ending_known{false};
thread_local bool ends_the_interpreter = false;

bool is_left_behind() noexcept { return is_shutting_down() && ending_known && !ends_the_interpreter; }

int drop_when_called(void*) {
  drop_let_go();
  return 0;
}

}  // namespace

void watch_for_the_end() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    ends_the_interpreter = true;
    ending_known = true;
  }));
}

bool is_shutting_down() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

void return_to_python(PyThreadState* state) noexcept {
  if (is_left_behind()) sleep_forever();
  try {
    PyEval_RestoreThread(state);
  } catch (...) {  // the interpreter ended while this thread waited for the lock, and ends the thread
    sleep_forever();
  }
}

Locked::Locked() noexcept {
  if (is_left_behind()) sleep_forever();
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    sleep_forever();
  }
}

void let_go(void* what, void (*end)(void*)) noexcept {
  if (!what || !Py_IsInitialized()) return;  // the interpreter is gone, and the object with it
  if (PyGILState_Check()) {
    end(what);
    return;
  }
  LetGo& list = waiting();
  bool first;
  {
    const std::lock_guard lock(list.mutex);
    first = list.objects.empty();
    list.objects.push_back({what, end});
  }
  if (first) Py_AddPendingCall(drop_when_called, nullptr);
}

void let_go(PyObject* object) noexcept {
  let_go(object, [](void* o) { Py_DECREF(static_cast<PyObject*>(o)); });
}

void drop_let_go() noexcept {
  LetGo& list = waiting();
  std::vector<Ending> objects;
  {
    const std::lock_guard lock(list.mutex);
    if (list.objects.empty()) return;
    objects.swap(list.objects);
  }
  // An error that is on its way stays as it is, whatever the ends of objects do.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  for (const Ending& each : objects) each.end(each.what);
  PyErr_Restore(type, value, trace);
}

PyObject* tuple_of(const std::vector<Tensor>& tensors) {
  nb::object tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyObject* each = wrap(tensors[i]);
    if (!each) throw nb::python_error();
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), each);
  }
  return tuple.release().ptr();
}

std::vector<Tensor> tensors_from(PyObject* sequence, const char* what) {
  if (!PyTuple_Check(sequence) && !PyList_Check(sequence))
    throw TypeMismatch(str(what, " must be a tensor, or a tuple or list of tensors, not ", Py_TYPE(sequence)->tp_name));
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
  PyObject** items = PySequence_Fast_ITEMS(sequence);
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (items[i] == Py_None) {
      tensors.emplace_back();
      continue;
    }
    if (!is_tensor(items[i]))
      throw TypeMismatch(
          str(what, ": element ", static_cast<int64_t>(i), " is ", Py_TYPE(items[i])->tp_name, ", expected a tensor"));
    tensors.push_back(tensor_of(items[i]));
  }
  return tensors;
}

std::vector<Tensor> tensors_or_one(PyObject* object, const char* what) {
  if (is_tensor(object)) return {tensor_of(object)};
  return tensors_from(object, what);
}

}  // namespace facula::python
