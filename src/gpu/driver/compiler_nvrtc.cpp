// NVIDIA's run-time compiler (NVRTC) behind Compiler: machine code for the chip, or PTX where it cannot be had.
#include "gpu/driver/compiler_run.h"
#include "gpu/driver/driver_open.h"
#include "gpu/driver/library.h"

#include <facula/core/error.h>

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace facula::gpu {

namespace {

using Program = CompilerProgram;

// X(required or optional, exported name, parameters); all return a result, 0 when all is well.
#define FACULA_NVRTC_ENTRY_POINTS(X)                                                                 \
  X(required, nvrtcVersion, (int* major, int* minor))                                                \
  X(required, nvrtcCreateProgram,                                                                    \
    (Program * program, const char* source, const char* name, int headers, const char* const* texts, \
     const char* const* names))                                                                      \
  X(required, nvrtcDestroyProgram, (Program * program))                                              \
  X(required, nvrtcCompileProgram, (Program program, int count, const char* const* options))         \
  X(required, nvrtcGetProgramLogSize, (Program program, size_t * bytes))                             \
  X(required, nvrtcGetProgramLog, (Program program, char* log))                                      \
  X(required, nvrtcGetCUBINSize, (Program program, size_t * bytes))                                  \
  X(required, nvrtcGetCUBIN, (Program program, char* binary))                                        \
  X(required, nvrtcGetPTXSize, (Program program, size_t * bytes))                                    \
  X(required, nvrtcGetPTX, (Program program, char* text))                                            \
  X(optional, nvrtcGetNumSupportedArchs, (int* count))                                               \
  X(optional, nvrtcGetSupportedArchs, (int* numbers))

struct Table {
#define FACULA_POINTER(need, name, parameters) int(*name) parameters = nullptr;
  FACULA_NVRTC_ENTRY_POINTS(FACULA_POINTER)
#undef FACULA_POINTER
  const char* (*nvrtcGetErrorString)(int result) = nullptr;
};

constexpr int kBuiltinsFailure = 7;

std::string load_table(const Library& library, Table& table) {
  std::string missing;
  enum Need { required, optional };
#define FACULA_LOAD(need, name, parameters)                   \
  if (!library.load(table.name, #name) && (need) == required) \
    missing += (missing.empty() ? "" : ", ") + std::string(#name);
  FACULA_NVRTC_ENTRY_POINTS(FACULA_LOAD)
#undef FACULA_LOAD
  library.load(table.nvrtcGetErrorString, "nvrtcGetErrorString");
  return missing.empty() ? std::string() : "it lacks " + missing + "; CUDA 11.2 or newer has them";
}

// The number in "sm_90"; 0 when there is none.
int chip_number(std::string_view chip) {
  int number = 0;
  if (chip.starts_with("sm_")) std::from_chars(chip.data() + 3, chip.data() + chip.size(), number);
  return number;
}

// The part of an option that names it: "--fmad" of "--fmad=false".
std::string_view option_name(std::string_view option) { return option.substr(0, option.find('=')); }

class Nvrtc final : public Compiler {
 public:
  Nvrtc(const Library& library, const Table& table) : table_(table), path_(library.path()) {
    int major = 0, minor = 0;
    table_.nvrtcVersion(&major, &minor);
    version_ = str("nvrtc ", major, ".", minor);
    if (major > 12 || (major == 12 && minor >= 1)) argument_bytes_ = 32764;
    // The compiler looks for its built-in functions by name only; in a Python package they lie next to it.
    const std::string folder = path_.substr(0, path_.rfind('/') + 1);
    if (!folder.empty())
      ::dlopen(str(folder, "libnvrtc-builtins.so.", major, ".", minor).c_str(), RTLD_NOW | RTLD_LOCAL);
    int count = 0;
    if (table_.nvrtcGetNumSupportedArchs && table_.nvrtcGetSupportedArchs &&
        table_.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
      chips_.resize(static_cast<size_t>(count));
      if (table_.nvrtcGetSupportedArchs(chips_.data()) != 0) chips_.clear();
      std::sort(chips_.begin(), chips_.end());
    }
  }

  const std::string& version() const override { return version_; }
  const std::string& path() const override { return path_; }
  size_t argument_bytes() const override { return argument_bytes_; }

  CompileResult compile(const std::string& name, const std::string& source, std::span<const SourceHeader> headers,
                        const std::string& chip, std::span<const std::string> options) override {
    const auto asks = [&](std::string_view option) {
      return std::find(options.begin(), options.end(), option) != options.end();
    };
    const int number = chip_number(chip);
    const int nearest = nearest_chip(number);
    if (number == 0 || nearest == 0) return cannot(chip);
    // A chip that is newer than the compiler gets PTX of the newest that the compiler knows; the driver translates it.
    const bool machine_code = nearest == number && !asks(kOptionPortable);
    const bool specific = asks(kOptionChipSpecific) && number >= 90 && nearest == number;

    std::vector<std::string> all = {
        str("--gpu-architecture=", machine_code ? "sm_" : "compute_", nearest, specific ? "a" : "")};
    for (const char* option : {"-std=c++17", "--fmad=false", "-default-device"})
      if (std::none_of(options.begin(), options.end(),
                       [&](const std::string& given) { return option_name(given) == option_name(option); }))
        all.emplace_back(option);
    for (const std::string& option : options)
      if (!option.starts_with("facula:")) all.push_back(option);
    return run(name, source, headers, all, machine_code);
  }

 private:
  // The newest known chip that is not newer than `number`; 0 when all are newer.
  int nearest_chip(int number) const {
    if (chips_.empty()) return number;
    const auto after = std::upper_bound(chips_.begin(), chips_.end(), number);
    return after == chips_.begin() ? 0 : *(after - 1);
  }

  CompileResult cannot(const std::string& chip) const {
    CompileResult result;
    result.log = str(version_, " (", path_, ") does not compile for ", chip);
    if (!chips_.empty()) result.log += str(", only for sm_", chips_.front(), " to sm_", chips_.back());
    result.log += "; install another version of NVRTC, for example the Python package nvidia-cuda-nvrtc-cu12";
    return result;
  }

  CompileResult run(const std::string& name, const std::string& source, std::span<const SourceHeader> headers,
                    const std::vector<std::string>& options, bool machine_code) const {
    int code = 0;
    CompileResult result =
        run_compiler({.create = table_.nvrtcCreateProgram,
                      .compile = table_.nvrtcCompileProgram,
                      .log_size = table_.nvrtcGetProgramLogSize,
                      .log = table_.nvrtcGetProgramLog,
                      .binary_size = machine_code ? table_.nvrtcGetCUBINSize : table_.nvrtcGetPTXSize,
                      .binary = machine_code ? table_.nvrtcGetCUBIN : table_.nvrtcGetPTX,
                      .destroy = table_.nvrtcDestroyProgram,
                      .error_text = table_.nvrtcGetErrorString},
                     version_, name + ".cu", source, headers, options, code);
    if (code == kBuiltinsFailure)
      result.log += str("\nthe file libnvrtc-builtins belongs next to ", path_, "; install NVRTC again");
    return result;
  }

  Table table_;
  std::string path_, version_;
  size_t argument_bytes_ = 4096;
  std::vector<int> chips_;  // numbers of the chips it knows, ascending; empty when it does not tell
};

}  // namespace

CompilerOpening open_nvrtc(int driver_version) {
  CompilerOpening opening;
  constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so.14",
                                    "libnvrtc.so"};
  Table table;
  const int driver_major = driver_version / 1000;
  const auto look = [&](bool newer_too) {
    return find_library({.what = newer_too ? "NVRTC, any version" : "NVRTC",
                         .sonames = kNames,
                         .refuse = [&](const Library& library) -> std::string {
                           table = {};
                           std::string missing = load_table(library, table);
                           if (!missing.empty()) return missing;
                           int major = 0, minor = 0;
                           table.nvrtcVersion(&major, &minor);
                           if (newer_too || driver_major == 0 || major <= driver_major) return {};
                           return str("version ", major, ".", minor, " is newer than the driver, which is of CUDA ",
                                      driver_major, ".", driver_version % 1000 / 10);
                         }});
  };
  Library library = look(false);
  // What a driver of an older CUDA makes of a newer compiler's code is found out when a kernel is loaded.
  if (!library && driver_major != 0) library = look(true);
  if (!library) {
    opening.why_not = str("NVIDIA's run-time compiler is not there (", library.why_not(),
                          "); install it with `pip install nvidia-cuda-nvrtc", driver_major == 12 ? "-cu12" : "",
                          "` or the CUDA toolkit, or name its folder in FACULA_GPU_LIBRARY_PATH");
    return opening;
  }
  opening.compiler = std::make_unique<Nvrtc>(library, table);
  return opening;
}

}  // namespace facula::gpu
