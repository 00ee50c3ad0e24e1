// hipRTC's entry points over the compiler of the software GPU: `libhiprtc.so.5`.
#include "compiler.h"
#include "engine.h"

#include <algorithm>
#include <cstring>

using namespace simgpu;

namespace {

constexpr int kOk = 0, kOutOfMemory_ = 1, kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5,
              kCompilationError = 6;
constexpr int kNoNameExpressions = 8, kNameNotValid = 10;

struct Program {
  CompileJob job;
  std::vector<std::string> lowered;
};

int copy_out(const std::string& text, char* to) {
  if (!to) return kInvalidInput;
  std::memcpy(to, text.data(), text.size());
  return kOk;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) const char* simgpu_control(const char* command) {
  return control(command);
}

extern "C" __attribute__((visibility("default"))) const char* hiprtcGetErrorString(int result) {
  static const char* const kNames[] = {"HIPRTC_SUCCESS",
                                       "HIPRTC_ERROR_OUT_OF_MEMORY",
                                       "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                       "HIPRTC_ERROR_INVALID_INPUT",
                                       "HIPRTC_ERROR_INVALID_PROGRAM",
                                       "HIPRTC_ERROR_INVALID_OPTION",
                                       "HIPRTC_ERROR_COMPILATION",
                                       "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                       "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                       "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                       "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                       "HIPRTC_ERROR_INTERNAL_ERROR"};
  return result >= 0 && result < static_cast<int>(std::size(kNames)) ? kNames[result] : "HIPRTC_ERROR unknown";
}

EXPORT hiprtcVersion(int* major, int* minor) {
  if (!major || !minor) return kInvalidInput;
  *major = 9;  // what HIP 5 says of itself
  *minor = 0;
  return kOk;
}
EXPORT hiprtcCreateProgram(Program** program, const char* source, const char* name, int headers,
                           const char* const* texts, const char* const* names) {
  if (!program || !source || headers < 0) return kInvalidInput;
  auto* p = new Program;
  p->job.source = source;
  p->job.name = name && *name ? name : "default_program";
  for (int i = 0; i < headers; ++i) p->job.headers.emplace_back(names[i], texts[i]);
  p->job.lanes = options().lanes;
  p->job.hip = true;
  p->job.version = 50221153;
  p->job.default_chip = options().chip;
  *program = p;
  return kOk;
}
EXPORT hiprtcDestroyProgram(Program** program) {
  if (!program || !*program) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kOk;
}
EXPORT hiprtcAddNameExpression(Program* program, const char* expression) {
  if (!program) return kInvalidProgram;
  if (program->job.ok) return kNoNameExpressions;
  program->job.expressions.emplace_back(expression);
  return kOk;
}
EXPORT hiprtcGetLoweredName(Program* program, const char* expression, const char** name) {
  if (!program || !program->job.ok) return kInvalidProgram;
  const auto& all = program->job.expressions;
  const auto found = std::find(all.begin(), all.end(), expression);
  if (found == all.end()) return kNameNotValid;
  program->lowered.resize(all.size());
  const auto index = static_cast<size_t>(found - all.begin());
  program->lowered[index] = lowered_name(index);
  *name = program->lowered[index].c_str();
  return kOk;
}
EXPORT hiprtcCompileProgram(Program* program, int count, const char* const* given) {
  if (!program) return kInvalidProgram;
  program->job.options.assign(given, given + count);
  if (Code code = inject("compile", -1)) {
    program->job.log = "error: a compile failure was asked for";
    return code == kOutOfMemory ? kOutOfMemory_ : kCompilationError;
  }
  compile(program->job);
  if (program->job.bad_option) return kInvalidOption;
  return program->job.ok ? kOk : kCompilationError;
}
EXPORT hiprtcGetProgramLogSize(Program* program, size_t* bytes) {
  if (!program) return kInvalidProgram;
  *bytes = program->job.log.size() + 1;
  return kOk;
}
EXPORT hiprtcGetProgramLog(Program* program, char* log) {
  if (!program || !log) return kInvalidInput;
  std::memcpy(log, program->job.log.c_str(), program->job.log.size() + 1);
  return kOk;
}
EXPORT hiprtcGetCodeSize(Program* program, size_t* bytes) {
  if (!program || !program->job.ok) return kInvalidProgram;
  *bytes = program->job.binary.size();
  return kOk;
}
EXPORT hiprtcGetCode(Program* program, char* binary) {
  if (!program || !program->job.ok) return kInvalidProgram;
  return copy_out(program->job.binary, binary);
}
