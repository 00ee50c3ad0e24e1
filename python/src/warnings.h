// Warnings of the library as Python's.
#pragma once

namespace facula::python {

// Once, at import: from now on the library's warnings are UserWarnings.
void pass_on_warnings();

}  // namespace facula::python
