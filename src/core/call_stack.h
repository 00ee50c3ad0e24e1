// Who calls the library: return addresses, which cost little to take, and what they mean, which costs more and is looked up when
// somebody wants to read it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace facula::detail {

// Of the functions that are running in this thread, the innermost first.
std::vector<void*> return_addresses();

// Whether code lies outside of the library, in a file that is known.
bool is_outside_library(void* address);
// Those outside of the library; all where the library is linked into the program itself and cannot be told apart.
std::vector<void*> callers_of_library(std::span<void* const> addresses);

// Empty is what is not known. `line` is FILE:NUMBER from the program's debug information.
struct CodePlace {
  std::string program, function, line;
};
// Of calls, by their return addresses. Asks the binutils tool addr2line where it is installed, once for each program.
std::vector<CodePlace> places_of(std::span<void* const> addresses);

}  // namespace facula::detail
