// Python's objects in the hands of C++: held by threads that may not have the interpreter's lock, and let go of by
// them.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/tensor.h>

#include <utility>
#include <vector>

namespace facula::python {

// Drops one reference, now where this thread has the interpreter's lock, else soon. It never waits for the lock: the
// caller may hold a mutex that somebody with the lock waits for.
void let_go(PyObject* object) noexcept;
// Drops what threads without the lock have let go of. Needs the lock.
void drop_let_go() noexcept;

// The same for whatever `end` ends with the lock held.
void let_go(void* what, void (*end)(void*)) noexcept;

// Once, at import: learns which thread will end the interpreter.
void watch_for_the_end();
// Whether the interpreter ends. From then on it takes no thread back.
bool is_shutting_down() noexcept;
// The ways of a thread back to the interpreter. When it ends meanwhile they never return: the thread sleeps until the
// process is gone, because the interpreter would end it on the spot, through frames of C++ that cannot be left so.
void return_to_python(PyThreadState* state) noexcept;
class Locked {
 public:
  Locked() noexcept;
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

// A reference that any thread may end.
class Held {
 public:
  explicit Held(PyObject* object) : object_(Py_NewRef(object)) {}
  ~Held() { let_go(object_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// Runs `work` without the interpreter's lock, then drops what was let go of meanwhile.
template <class F>
auto without_lock(F&& work) {
  struct Unlocked {
    PyThreadState* state = PyEval_SaveThread();
    ~Unlocked() {
      return_to_python(state);
      drop_let_go();
    }
  };
  const Unlocked unlocked;
  return work();
}

// Lists of tensors. An undefined tensor is None, and the other way round.
PyObject* tuple_of(const std::vector<Tensor>& tensors);
// From a tuple or list; `what` names it in errors.
std::vector<Tensor> tensors_from(PyObject* sequence, const char* what);
// From one tensor, or a tuple or list.
std::vector<Tensor> tensors_or_one(PyObject* object, const char* what);

// What a call gave; throws Python's error when it failed.
inline nanobind::object checked(PyObject* result) {
  if (!result) throw nanobind::python_error();
  return nanobind::steal(result);
}

}  // namespace facula::python
