// The run-time compiler of the software GPU: text of a kernel in, a shared library of the host (behind a header) out.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace simgpu {

struct CompileJob {
  std::string name, source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> options;
  std::vector<std::string> expressions;  // kernels to instantiate, "add<float>"
  bool hip = false;
  int lanes = 32;
  std::string default_chip;
  int version = 12040;

  // What came of it.
  bool ok = false;
  bool bad_option = false;
  std::string log, binary;
  bool is_ptx = false;
};

void compile(CompileJob& job);
// The symbol of the n-th expression.
std::string lowered_name(size_t n);

// ---- kernel_text.cpp
// A kernel that a text defines.
struct FoundKernel {
  std::string name, bounds;  // bounds: what __launch_bounds__ was given, "" without one
};
// What host compilers do not accept but device compilers do, written in a way that both understand. `all` are the texts that
// define the macros.
std::vector<std::string> force_inline_words(const std::vector<const std::string*>& all);
std::string adapt_text(const std::string& text, const std::vector<std::string>& inline_words);
// Kernels after the word `marker`; templates are left out.
std::vector<FoundKernel> find_kernels(const std::string& text, const std::string& marker,
                                      const std::string& bounds_word);
// The lines of includes and definitions that a text begins with, and where they end.
std::string leading_lines(const std::string& text, size_t& end);
// Names of headers that a text includes in quotes.
std::vector<std::string> included_names(const std::string& text);
bool defines_with(const std::string& text, const std::string& word);  // in a #define

}  // namespace simgpu
