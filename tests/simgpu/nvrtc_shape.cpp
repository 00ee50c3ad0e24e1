// NVRTC's entry points over the compiler of the software GPU: `libnvrtc.so.12`.
#include "compiler.h"
#include "engine.h"

#include <algorithm>
#include <cstring>

using namespace simgpu;

namespace {

constexpr int kOk = 0, kOutOfMemory_ = 1, kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5,
              kCompilationError = 6;
constexpr int kNoNameExpressions = 8, kNameNotValid = 10;
constexpr int kChips[] = {70, 75, 80, 86, 89, 90};

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

extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int result) {
  static const char* const kNames[] = {"NVRTC_SUCCESS",
                                       "NVRTC_ERROR_OUT_OF_MEMORY",
                                       "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                       "NVRTC_ERROR_INVALID_INPUT",
                                       "NVRTC_ERROR_INVALID_PROGRAM",
                                       "NVRTC_ERROR_INVALID_OPTION",
                                       "NVRTC_ERROR_COMPILATION",
                                       "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                       "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                       "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                       "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                       "NVRTC_ERROR_INTERNAL_ERROR"};
  return result >= 0 && result < static_cast<int>(std::size(kNames)) ? kNames[result] : "NVRTC_ERROR unknown";
}

EXPORT nvrtcVersion(int* major, int* minor) {
  if (!major || !minor) return kInvalidInput;
  *major = 12;
  *minor = 4;
  return kOk;
}
EXPORT nvrtcGetNumSupportedArchs(int* count) {
  if (!count) return kInvalidInput;
  *count = static_cast<int>(std::size(kChips));
  return kOk;
}
EXPORT nvrtcGetSupportedArchs(int* numbers) {
  if (!numbers) return kInvalidInput;
  std::copy(std::begin(kChips), std::end(kChips), numbers);
  return kOk;
}
EXPORT nvrtcCreateProgram(Program** program, const char* source, const char* name, int headers,
                          const char* const* texts, const char* const* names) {
  if (!program || !source || headers < 0) return kInvalidInput;
  auto* p = new Program;
  p->job.source = source;
  p->job.name = name && *name ? name : "default_program";
  for (int i = 0; i < headers; ++i) p->job.headers.emplace_back(names[i], texts[i]);
  p->job.lanes = options().lanes;
  p->job.default_chip = "compute_52";
  *program = p;
  return kOk;
}
EXPORT nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kOk;
}
EXPORT nvrtcAddNameExpression(Program* program, const char* expression) {
  if (!program) return kInvalidProgram;
  if (program->job.ok) return kNoNameExpressions;
  program->job.expressions.emplace_back(expression);
  return kOk;
}
EXPORT nvrtcGetLoweredName(Program* program, const char* expression, const char** name) {
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
EXPORT nvrtcCompileProgram(Program* program, int count, const char* const* given) {
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
EXPORT nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  if (!program) return kInvalidProgram;
  *bytes = program->job.log.size() + 1;
  return kOk;
}
EXPORT nvrtcGetProgramLog(Program* program, char* log) {
  if (!program || !log) return kInvalidInput;
  std::memcpy(log, program->job.log.c_str(), program->job.log.size() + 1);
  return kOk;
}
EXPORT nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  if (!program || !program->job.ok) return kInvalidProgram;
  *bytes = program->job.is_ptx ? 0 : program->job.binary.size();
  return kOk;
}
EXPORT nvrtcGetCUBIN(Program* program, char* binary) {
  if (!program || !program->job.ok || program->job.is_ptx) return kInvalidProgram;
  return copy_out(program->job.binary, binary);
}
EXPORT nvrtcGetPTXSize(Program* program, size_t* bytes) {
  if (!program || !program->job.ok) return kInvalidProgram;
  *bytes = program->job.binary.size();
  return kOk;
}
EXPORT nvrtcGetPTX(Program* program, char* text) {
  if (!program || !program->job.ok) return kInvalidProgram;
  return copy_out(program->job.binary, text);
}
