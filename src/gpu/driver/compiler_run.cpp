#include "gpu/driver/compiler_run.h"

#include <facula/core/error.h>

namespace facula::gpu {

CompileResult run_compiler(const CompilerCalls& calls, const std::string& compiler, const std::string& name,
                           const std::string& source, std::span<const SourceHeader> headers,
                           const std::vector<std::string>& options, int& code) {
  const auto error_text = [&] {
    const char* text = calls.error_text ? calls.error_text(code) : nullptr;
    return text ? std::string(text) : str("error ", code);
  };
  CompileResult result;
  std::vector<const char*> texts, names, arguments;
  for (const SourceHeader& header : headers) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  for (const std::string& option : options) arguments.push_back(option.c_str());

  CompilerProgram program = nullptr;
  code =
      calls.create(&program, source.c_str(), name.c_str(), static_cast<int>(texts.size()), texts.data(), names.data());
  if (code != 0) {
    result.log = str(compiler, " cannot take the text: ", error_text());
    return result;
  }
  code = calls.compile(program, static_cast<int>(arguments.size()), arguments.data());
  size_t bytes = 0;
  if (calls.log_size(program, &bytes) == 0 && bytes > 1) {
    result.log.resize(bytes);
    if (calls.log(program, result.log.data()) != 0) result.log.clear();
    while (!result.log.empty() && (result.log.back() == '\0' || result.log.back() == '\n')) result.log.pop_back();
  }
  if (code == 0) code = calls.binary_size(program, &bytes);
  if (code == 0) {
    result.binary.resize(bytes);
    code = calls.binary(program, result.binary.data());
  }
  calls.destroy(&program);
  result.ok = code == 0 && !result.binary.empty();
  if (!result.ok) {
    result.binary.clear();
    result.log = str(compiler, ": ", error_text(), "\n", result.log);
  }
  return result;
}

}  // namespace facula::gpu
