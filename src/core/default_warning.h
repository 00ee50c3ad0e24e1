// The handler of warnings for threads that have set none: how a language that is bound to the library gets them all.
#pragma once

#include <facula/core/warning.h>

namespace facula {

// nullptr sets the one that prints to stderr. The handler must live as long as the process; it may be called from any thread and
// may throw, which ends the call that warned.
FACULA_API void set_default_warning_handler(WarningHandler* handler) noexcept;

}  // namespace facula
