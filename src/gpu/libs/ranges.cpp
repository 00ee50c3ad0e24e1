// NVTX and rocTX. A profiler of NVIDIA names a library in NVTX_INJECTION64_PATH that wants to fill in a table of functions; older
// toolkits and AMD's have libraries that export them.
#include "gpu/libs/ranges.h"

#include "core/env.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/library.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace facula::gpu {

namespace {

// The tables that NVTX 3 hands to a profiler: for each module an array of places where it may put functions.
namespace nvtx {

using AnyFunction = void (*)();
constexpr int kModules = 7;                                            // numbered from 1
constexpr unsigned kSizes[kModules] = {0, 16, 9, 15, 7, 16, 7};        // core, cuda, opencl, cudart, core2, sync
constexpr int kCore = 1, kMarkA = 2, kRangePushA = 9, kRangePop = 11;  // numbers in the module "core"
constexpr uint32_t kCallbacksTable = 1, kVersionTable = 3;

AnyFunction functions[kModules][16] = {};
AnyFunction* places[kModules][17] = {};

int module_table(int module, AnyFunction*** table, unsigned* size) {
  if (module < 1 || module >= kModules) return 0;
  if (table) *table = places[module];
  if (size) *size = kSizes[module];
  return 1;
}
void ignore_version(uint32_t) {}

struct Callbacks {
  size_t struct_size = sizeof(Callbacks);
  int (*module_table)(int, AnyFunction***, unsigned*) = nvtx::module_table;
};
struct Version {
  size_t struct_size = sizeof(Version);
  uint32_t version = 3;
  uint32_t reserved = 0;
  void (*set_injection_version)(uint32_t) = ignore_version;
};
Callbacks callbacks;
Version version;

const void* export_table(uint32_t id) {
  if (id == kCallbacksTable) return &callbacks;
  if (id == kVersionTable) return &version;
  return nullptr;
}

RangeFunctions from_profiler(const std::string& path) {
  // Other paths would be looked up in the working directory.
  if (path.empty() || path[0] != '/') return {};
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) return {};
  using Initialize = int (*)(const void* (*)(uint32_t));
  auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialize) return {};
  for (int m = 1; m < kModules; ++m)
    for (unsigned f = 1; f < kSizes[m]; ++f) places[m][f] = &functions[m][f];
  if (initialize(export_table) == 0) return {};
  return {reinterpret_cast<int (*)(const char*)>(functions[kCore][kRangePushA]),
          reinterpret_cast<int (*)()>(functions[kCore][kRangePop]),
          reinterpret_cast<void (*)(const char*)>(functions[kCore][kMarkA])};
}

}  // namespace nvtx

RangeFunctions from_library(const char* what, std::span<const char* const> names, const char* push, const char* pop,
                            const char* mark) {
  const Library library = find_library({what, names});
  RangeFunctions found;
  if (library && library.load(found.push, push) && library.load(found.pop, pop) && library.load(found.mark, mark))
    return found;
  return {};
}

RangeFunctions find() {
  if (const auto path = env(EnvVar::NvtxInjection))
    if (const RangeFunctions found = nvtx::from_profiler(std::string(*path)); found.push) return found;
  Driver* table = driver();
  if (!table) return {};
  if (table->vendor() == Vendor::Cuda) {
    static constexpr const char* kNames[] = {"libnvToolsExt.so.1"};
    return from_library("NVTX", kNames, "nvtxRangePushA", "nvtxRangePop", "nvtxMarkA");
  }
  // Newer profilers watch another library than older ones: the one that is loaded already is the one that is watched.
  static constexpr const char* kOld[] = {"libroctx64.so.4"};
  static constexpr const char* kNew[] = {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0"};
  bool new_one_loaded = false;
  for (const char* name : kNew) new_one_loaded = new_one_loaded || dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  const auto find_new = [] { return from_library("rocTX", kNew, "roctxRangePushA", "roctxRangePop", "roctxMarkA"); };
  if (new_one_loaded) return find_new();
  const RangeFunctions found = from_library("rocTX", kOld, "roctxRangePushA", "roctxRangePop", "roctxMarkA");
  return found.push ? found : find_new();
}

}  // namespace

const RangeFunctions& range_functions() {
  static const auto* found = new RangeFunctions([]() noexcept -> RangeFunctions {
    try {
      return find();
    } catch (...) {  // ranges are for people who look on; a program does not fail for them
      return {};
    }
  }());
  return *found;
}

}  // namespace facula::gpu
