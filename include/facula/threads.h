// How many threads an operation may use.
#pragma once

#include <facula/core/export.h>

namespace facula {

FACULA_API int get_num_threads();
FACULA_API void set_num_threads(int count);

}  // namespace facula
