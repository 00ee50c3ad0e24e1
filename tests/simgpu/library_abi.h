// What a library that sits on the driver (a BLAS) needs of the engine: its work in the order of a stream. Exported by the libraries
// of both shapes.
#pragma once

#include <cstddef>

extern "C" {

// Queues `run(data, device)` on a stream of the current device, or captures it. `data` is freed with `drop` when it is no longer
// needed. Gives a code of the driver.
int simgpu_enqueue(void* stream, const char* label, int (*run)(void* data, void* device), void* data,
                   void (*drop)(void*));
// While it runs: whether the device may read (or write) these bytes. A code that is not 0 is a fault, which was reported; the work
// gives it back.
int simgpu_touch(void* device, const void* address, size_t bytes, int write, const char* label);

}  // extern "C"
