// Arguments of the functions that are written by hand: positions and keywords sorted into slots by name. Ops of the op book
// go through arguments.h instead.
#pragma once

#include <nanobind/nanobind.h>

#include <cstring>

#include "errors.h"
#include "values.h"

namespace facula::python {

// One slot for each name, null where the caller gave nothing. The first `positional` may be given by position.
template <size_t N>
class Slots {
 public:
  Slots(const char* function, const char* const (&names)[N], size_t positional, PyObject* const* given,
        Py_ssize_t count, PyObject* keywords) {
    const auto n = static_cast<size_t>(count);
    if (n > positional)
      throw TypeMismatch(str(function, "() takes ", positional, " positional argument", positional == 1 ? "" : "s",
                             " but ", n, " were given"));
    for (size_t i = 0; i < n; ++i) slots_[i] = given[i];
    const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t k = 0; k < named; ++k) {
      const std::string_view key = to_text_view(PyTuple_GET_ITEM(keywords, k));
      size_t place = 0;
      while (place < N && key != names[place]) ++place;
      if (place == N) throw TypeMismatch(str(function, "() got an unexpected keyword argument '", key, "'"));
      if (slots_[place]) throw TypeMismatch(str(function, "() got multiple values for argument '", key, "'"));
      slots_[place] = given[n + static_cast<size_t>(k)];
    }
  }

  PyObject* operator[](size_t i) const { return slots_[i]; }
  // Neither left out nor None.
  bool has(size_t i) const { return slots_[i] && slots_[i] != Py_None; }
  bool boolean(size_t i, bool otherwise) const { return has(i) ? to_bool(slots_[i]) : otherwise; }
  std::optional<ScalarType> dtype(size_t i) const { return has(i) ? std::optional(to_dtype(slots_[i])) : std::nullopt; }
  std::optional<Device> device(size_t i) const { return has(i) ? std::optional(to_device(slots_[i])) : std::nullopt; }
  std::optional<MemoryFormat> memory_format(size_t i) const {
    return has(i) ? std::optional(to_memory_format(slots_[i])) : std::nullopt;
  }

 private:
  PyObject* slots_[N] = {};
};

// What PyMethodDef wants; a function with keywords has another type than it says.
using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
inline PyCFunction as_method(FastCall function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace facula::python
