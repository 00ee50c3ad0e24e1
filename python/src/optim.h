// The rules of optimizers, gradient norms and autocast for Python: facula._native._optim and facula._native._amp.
#pragma once

#include <nanobind/nanobind.h>

namespace facula::python {

void add_optim(nanobind::module_& module);
void add_amp(nanobind::module_& module);

}  // namespace facula::python
