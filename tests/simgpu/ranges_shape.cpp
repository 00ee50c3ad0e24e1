// What a profiler of ranges looks like from a program: NVIDIA's is a library that fills in a table of NVTX 3, AMD's exports rocTX.
// What it is told goes to the file that SIMGPU_RANGES names, a line for each call.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

void tell(const char* what, const char* text) {
  const char* path = getenv("SIMGPU_RANGES");
  FILE* file = path ? fopen(path, "a") : nullptr;
  if (!file) return;
  fprintf(file, "%s%s%s\n", what, text ? " " : "", text ? text : "");
  fclose(file);
}

int depth = 0;

int push(const char* text) {
  tell("push", text);
  return depth++;
}
int pop() {
  tell("pop", nullptr);
  return --depth;
}
void mark(const char* text) { tell("mark", text); }

}  // namespace

#ifdef SIMGPU_SHAPE_CUDA

namespace {

using AnyFunction = void (*)();
struct Callbacks {
  size_t struct_size;
  int (*module_table)(int module, AnyFunction*** table, unsigned* size);
};
constexpr uint32_t kCallbacks = 1;
constexpr int kCore = 1;
constexpr unsigned kMarkA = 2, kRangePushA = 9, kRangePop = 11, kCoreSize = 16;

}  // namespace

EXPORT int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(export_table(kCallbacks));
  AnyFunction** table = nullptr;
  unsigned size = 0;
  if (!callbacks || callbacks->struct_size < sizeof(Callbacks) || !callbacks->module_table(kCore, &table, &size))
    return 0;
  if (size != kCoreSize || !table[kRangePushA] || !table[kRangePop] || !table[kMarkA]) return 0;
  *table[kRangePushA] = reinterpret_cast<AnyFunction>(push);
  *table[kRangePop] = reinterpret_cast<AnyFunction>(pop);
  *table[kMarkA] = reinterpret_cast<AnyFunction>(mark);
  return 1;
}

#else

EXPORT int roctxRangePushA(const char* text) { return push(text); }
EXPORT int roctxRangePop() { return pop(); }
EXPORT void roctxMarkA(const char* text) { mark(text); }

#endif
