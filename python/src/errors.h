// From C++ errors to Python's exceptions and back.
#pragma once

#include <nanobind/nanobind.h>

#include <facula/core/error.h>

namespace facula::python {

// Makes the exception types of the module. They derive from Python's own of the matching kind and, where PyTorch raises
// RuntimeError, from that too.
void add_errors(nanobind::module_& module);

// Sets Python's error from the C++ exception in flight; for use in a catch (...) block.
void set_python_error() noexcept;

// Runs `call` and gives its result; a C++ exception becomes Python's error and `failed`.
template <class F, class R = std::invoke_result_t<F>>
R guarded(F&& call, R failed = R()) noexcept {
  try {
    return call();
  } catch (...) {
    set_python_error();
    return failed;
  }
}

// A function with any parameters as the type that Python's tables hold; the flags next to it say what it takes.
template <class F>
PyCFunction python_function(F* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// A call with arguments of the wrong kind: becomes Python's TypeError.
class TypeMismatch : public Error {
 public:
  using Error::Error;
  const char* type_name() const noexcept override { return "TypeError"; }
};

}  // namespace facula::python
