// The ops as Python's tables of functions and methods; the families' parts are generated.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace facula::python {

// Ends with an entry without a name.
const PyMethodDef* op_methods();
const PyMethodDef* op_functions();
// The types of results with names.
struct NamedResult;
std::vector<NamedResult*> op_results();

}  // namespace facula::python
