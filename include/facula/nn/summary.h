// A network at a glance: its modules, their tensors and how many parameters there are.
#pragma once

#include <facula/core/export.h>

#include <cstdint>
#include <string>

namespace facula::nn {

class Module;

struct ModuleSize {
  int64_t parameters = 0;  // numbers in parameters, each tensor counted once
  int64_t trainable = 0;   // of these, in parameters that require gradients
  int64_t buffers = 0;     // numbers in buffers
  int64_t bytes = 0;       // of parameters and buffers
};

FACULA_API ModuleSize module_size(const Module& module);
// A table with a line for each module: where it is, what it is, the shapes of its own tensors, and the number of its own
// parameters. Below it are the sums.
FACULA_API std::string summary(const Module& module);

}  // namespace facula::nn
