// Files, data loading and reports for Python: what facula.safetensors, facula.save, facula.utils.data, facula.progress and
// facula.utils.tensorboard are made of.
#pragma once

#include <nanobind/nanobind.h>

namespace facula::python {

void add_files(nanobind::module_& module);

}  // namespace facula::python
