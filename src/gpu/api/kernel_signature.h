// What the text of a kernel says of its parameters, so that arguments that do not fit are refused: a launch takes addresses of bytes
// on trust, and would read past them or take one type for another.
#pragma once

#include <facula/cuda/kernel.h>

#include <optional>
#include <string>
#include <vector>

namespace facula::cuda {

struct Parameter {
  enum class Class : uint8_t { Unknown, Integer, Floating };
  std::string text;         // as it is written, "const float* x"
  bool known = false;       // whether the rest is; types that are not of the language are not looked up
  bool is_pointer = false;  // then what follows is about what it points to
  Class kind = Class::Unknown;
  size_t bytes = 0;  // 0: unknown
};

// The parameters of `name` in the order of the text. Nothing where the text cannot be read without a compiler: macros in the list,
// several functions of that name.
std::optional<std::vector<Parameter>> read_parameters(const std::string& source, const std::string& name);

// Throws for arguments that the kernel would misread.
void check_arguments(const char* op, const std::vector<Parameter>& parameters, const KernelArgument* args,
                     size_t count);

}  // namespace facula::cuda
