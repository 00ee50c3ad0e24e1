// What the losses say of a label that is no class.
#pragma once
#include <facula/core/error.h>

#include <cstdint>

namespace facula {

[[noreturn]] inline void raise_no_class(const char* op, int64_t label, int64_t classes) {
  throw IndexError(str(op, ": Target ", label, " is out of bounds for ", classes,
                       " classes. Targets are class numbers from 0 to ", classes - 1, ", or ignore_index"));
}

}  // namespace facula
