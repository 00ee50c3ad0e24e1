// Facula under the names of libtorch: `torch`, `at` and `c10` are the same namespace.
#pragma once

#include <facula/facula.h>

#include <facula/torch_compat.h>

#include <ATen/Dispatch.h>

#include <sstream>
