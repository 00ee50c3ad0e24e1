// How threads of a kernel wait for each other. A member of an archive of its own: a kernel's library exports these names only when
// the kernel uses them, which tells the engine how to run it.
#include "device_abi.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" __attribute__((visibility("hidden"))) const simgpu_services* simgpu_engine;

EXPORTED int simgpu_barrier(int op, int predicate) { return simgpu_engine->barrier(op, predicate); }
EXPORTED unsigned long long simgpu_warp(int op, unsigned long long mask, const void* value, void* result, int bytes,
                                        int lane, int width) {
  return simgpu_engine->warp(op, mask, value, result, bytes, lane, width);
}
