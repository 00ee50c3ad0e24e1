// One compilation by a vendor's run-time compiler: the two have the same calls under names of their own.
#pragma once

#include "gpu/driver/driver.h"

#include <span>
#include <string>
#include <vector>

namespace facula::gpu {

using CompilerProgram = struct CompilerProgramTag*;

// All return 0 when all is well.
struct CompilerCalls {
  int (*create)(CompilerProgram* program, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*compile)(CompilerProgram program, int count, const char* const* options);
  int (*log_size)(CompilerProgram program, size_t* bytes);
  int (*log)(CompilerProgram program, char* text);
  int (*binary_size)(CompilerProgram program, size_t* bytes);
  int (*binary)(CompilerProgram program, char* bytes);
  int (*destroy)(CompilerProgram* program);
  const char* (*error_text)(int code);  // null where there is none
};

// `code` is what the last call returned. `compiler` stands in front of the log of a failure.
CompileResult run_compiler(const CompilerCalls& calls, const std::string& compiler, const std::string& name,
                           const std::string& source, std::span<const SourceHeader> headers,
                           const std::vector<std::string>& options, int& code);

}  // namespace facula::gpu
