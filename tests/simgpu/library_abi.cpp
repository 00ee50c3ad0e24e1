// The engine's side of libraries that sit on the driver.
#include "library_abi.h"
#include "engine.h"

using namespace simgpu;

#define EXPORT extern "C" __attribute__((visibility("default"))) int

EXPORT simgpu_enqueue(void* handle, const char* label, int (*run)(void* data, void* device), void* data,
                      void (*drop)(void*)) {
  std::shared_ptr<void> kept(data, drop);
  const int device = current_device_of_thread();
  if (device < 0) return kInvalidContext;
  if (Code code = enter("library", device)) return code;
  Lock lock(engine().mutex);
  Stream* stream = find_stream(lock, device, handle);
  if (!stream) return kInvalidHandle;
  return enqueue(lock, stream, "library", label,
                 [run, kept](Device& on) { return static_cast<Code>(run(kept.get(), &on)); });
}

EXPORT simgpu_touch(void* device, const void* address, size_t bytes, int write, const char* label) {
  if (bytes == 0) return kSuccess;
  std::string why;
  const Code code =
      check_access(*static_cast<Device*>(device), reinterpret_cast<uintptr_t>(address), bytes, write, false, why);
  if (code)
    report(std::string(label) + ": " + (write ? "store" : "load") + " of " + std::to_string(bytes) + " bytes: " + why);
  return code;
}
