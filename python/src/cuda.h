// GPUs for Python: the functions under facula.cuda.
#pragma once

#include <nanobind/nanobind.h>

namespace facula::python {

void add_cuda(nanobind::module_& module);

}  // namespace facula::python
