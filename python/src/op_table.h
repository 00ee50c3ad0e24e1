// The ops as Python's tables of functions and methods; the families' parts are generated.
#pragma once

#include <nanobind/nanobind.h>

namespace facula::python {

// Ends with an entry without a name.
const PyMethodDef* op_methods();
const PyMethodDef* op_functions();

}  // namespace facula::python
