// AMD's run-time compiler (hipRTC) behind Compiler.
#include "gpu/driver/compiler_run.h"
#include "gpu/driver/driver_open.h"
#include "gpu/driver/library.h"

#include <facula/core/error.h>

#include <algorithm>
#include <mutex>
#include <string_view>

namespace facula::gpu {

namespace {

using Program = CompilerProgram;

// X(exported name, parameters); all return a result, 0 when all is well.
#define FACULA_HIPRTC_ENTRY_POINTS(X)                                                           \
  X(hiprtcVersion, (int* major, int* minor))                                                    \
  X(hiprtcCreateProgram, (Program * program, const char* source, const char* name, int headers, \
                          const char* const* texts, const char* const* names))                  \
  X(hiprtcDestroyProgram, (Program * program))                                                  \
  X(hiprtcCompileProgram, (Program program, int count, const char* const* options))             \
  X(hiprtcGetProgramLogSize, (Program program, size_t * bytes))                                 \
  X(hiprtcGetProgramLog, (Program program, char* log))                                          \
  X(hiprtcGetCodeSize, (Program program, size_t * bytes))                                       \
  X(hiprtcGetCode, (Program program, char* binary))

struct Table {
#define FACULA_POINTER(name, parameters) int(*name) parameters = nullptr;
  FACULA_HIPRTC_ENTRY_POINTS(FACULA_POINTER)
#undef FACULA_POINTER
  const char* (*hiprtcGetErrorString)(int result) = nullptr;
  int (*hipRuntimeGetVersion)(int* version) = nullptr;  // where the compiler lives in the runtime's library
};

std::string load_table(const Library& library, Table& table) {
  std::string missing;
#define FACULA_LOAD(name, parameters) \
  if (!library.load(table.name, #name)) missing += (missing.empty() ? "" : ", ") + std::string(#name);
  FACULA_HIPRTC_ENTRY_POINTS(FACULA_LOAD)
#undef FACULA_LOAD
  library.load(table.hiprtcGetErrorString, "hiprtcGetErrorString");
  library.load(table.hipRuntimeGetVersion, "hipRuntimeGetVersion");
  return missing.empty() ? std::string() : "it lacks " + missing;
}

// The chips of HIP 5.2, which ends the process when it is asked for another one. Newer versions answer with an error.
constexpr std::string_view kChipsOfHip52[] = {
    "gfx700",  "gfx701",  "gfx702",  "gfx703",  "gfx704",  "gfx705",  "gfx801",  "gfx802",  "gfx803", "gfx805",
    "gfx810",  "gfx900",  "gfx902",  "gfx904",  "gfx906",  "gfx908",  "gfx909",  "gfx90a",  "gfx90c", "gfx1010",
    "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035"};
constexpr int kHip53 = 50300000;

class HipRtc final : public Compiler {
 public:
  HipRtc(const Library& library, const Table& table) : table_(table), path_(library.path()) {
    int major = 0, minor = 0;
    table_.hiprtcVersion(&major, &minor);
    // Old versions call themselves 9.0, whatever they are; the file's name tells more.
    version_ = str("hiprtc ", major, ".", minor, " of ", path_.substr(path_.rfind('/') + 1));
    int runtime = 0;
    if (table_.hipRuntimeGetVersion && table_.hipRuntimeGetVersion(&runtime) == 0)
      knows_few_chips_ = runtime > 0 && runtime < kHip53;
  }

  const std::string& version() const override { return version_; }
  const std::string& path() const override { return path_; }

  CompileResult compile(const std::string& name, const std::string& source, std::span<const SourceHeader> headers,
                        const std::string& chip, std::span<const std::string> options) override {
    if (!chip.starts_with("gfx") || (knows_few_chips_ && std::find(std::begin(kChipsOfHip52), std::end(kChipsOfHip52),
                                                                   chip) == std::end(kChipsOfHip52))) {
      CompileResult result;
      result.log = str(version_, " (", path_, ") does not compile for ", chip, "; install a newer ROCm");
      return result;
    }
    std::vector<std::string> all = {"--gpu-architecture=" + chip, "-std=c++17", "-O3", "-ffp-contract=off"};
    for (const std::string& option : options)
      if (!option.starts_with("facula:")) all.push_back(option);
    return run(name, source, headers, all);
  }

 private:
  CompileResult run(const std::string& name, const std::string& source, std::span<const SourceHeader> headers,
                    const std::vector<std::string>& options) {
    std::lock_guard lock(mutex_);  // old versions share state between programs
    int code = 0;
    return run_compiler({.create = table_.hiprtcCreateProgram,
                         .compile = table_.hiprtcCompileProgram,
                         .log_size = table_.hiprtcGetProgramLogSize,
                         .log = table_.hiprtcGetProgramLog,
                         .binary_size = table_.hiprtcGetCodeSize,
                         .binary = table_.hiprtcGetCode,
                         .destroy = table_.hiprtcDestroyProgram,
                         .error_text = table_.hiprtcGetErrorString},
                        version_, name + ".hip", source, headers, options, code);
  }

  Table table_;
  std::string path_, version_;
  bool knows_few_chips_ = false;
  std::mutex mutex_;
};

}  // namespace

CompilerOpening open_hiprtc(const std::string& driver_path) {
  CompilerOpening opening;
  // A library of its own since HIP 5.3; before, a part of the runtime's.
  constexpr const char* kNames[] = {"libhiprtc.so.7",   "libhiprtc.so.6",   "libhiprtc.so.5",   "libhiprtc.so",
                                    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
  Table table;
  const Library library = find_library({.what = "hipRTC",
                                        .sonames = kNames,
                                        .beside = driver_path.substr(0, driver_path.rfind('/')),
                                        .refuse = [&](const Library& found) {
                                          table = {};
                                          return load_table(found, table);
                                        }});
  if (!library) {
    opening.why_not = str("AMD's run-time compiler is not there (", library.why_not(),
                          "); install hipRTC with ROCm, or name its folder in FACULA_GPU_LIBRARY_PATH");
    return opening;
  }
  opening.compiler = std::make_unique<HipRtc>(library, table);
  return opening;
}

}  // namespace facula::gpu
