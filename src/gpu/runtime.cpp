// Devices: how many there are, which one is current on a thread, and what
// becomes of them after a fork.
#include "gpu/runtime.h"

#include "core/env.h"
#include "gpu/memory/allocator.h"
#include "gpu/thread_state.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>

namespace facula::gpu {

constinit thread_local ThreadState* thread_state_pointer __attribute__((tls_model("initial-exec"))) = nullptr;
std::atomic<bool> trouble{false};
std::atomic<Driver*> entered_driver{nullptr};

namespace {

std::atomic<bool> driver_loaded{false};
std::atomic<bool> forked{false};

// Runs in the child of a fork, on its only thread. Threads, locks and contexts
// of the driver have stayed with the parent.
void after_fork() {
  if (!driver_loaded.load(std::memory_order_relaxed)) return;
  forked.store(true, std::memory_order_relaxed);
  trouble.store(true, std::memory_order_relaxed);
}

// The driver of this machine; from then on forks are noticed.
Driver* loaded_driver() {
  Driver* found = driver();
  if (found && !driver_loaded.load(std::memory_order_acquire)) {
    static const int registered = pthread_atfork(nullptr, nullptr, after_fork);
    static_cast<void>(registered);
    driver_loaded.store(true, std::memory_order_release);
  }
  return found;
}

// Device and stream of threads that end are of no use to others; their
// page-locked slots are.
void end_of_thread(void* state) {
  thread_state_pointer = nullptr;
  auto* ended = static_cast<ThreadState*>(state);
  if (ended->pinned_slot && !forked_after_start()) free_pinned(ended->pinned_slot);
  delete ended;
}

std::string names_of_devices(int count) {
  if (count == 1) return "1 device, cuda:0";
  return str(count, " devices, cuda:0 to cuda:", count - 1);
}

[[noreturn]] void no_such_device(int device, int count, const char* op) {
  throw DeviceError(str(op, ": there is no device cuda:", device, "; this machine has ", names_of_devices(count),
                        ". Devices can be hidden by CUDA_VISIBLE_DEVICES or "
                        "HIP_VISIBLE_DEVICES"));
}

void check_device(int device, const char* op) {
  const int count = device_count();
  if (device >= 0 && device < count) [[likely]]
    return;
  need_driver(op);
  no_such_device(device, count, op);
}

}  // namespace

bool forked_after_start() { return forked.load(std::memory_order_relaxed); }
bool is_started() { return entered_driver.load(std::memory_order_acquire) != nullptr; }

ThreadState& make_thread_state() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    FACULA_CHECK(pthread_key_create(&made, end_of_thread) == 0, InternalError,
                 "cuda: this process has no keys for thread data left");
    return made;
  }();
  auto* state = new ThreadState;
  for (int d = 0; d < kMaxDevices; ++d) state->streams[d].device = d;
  pthread_setspecific(key, state);
  thread_state_pointer = state;
  return *state;
}

int device_count() {
  static std::atomic<int> known{-1};
  int count = known.load(std::memory_order_acquire);
  if (count >= 0) return count;
  count = 0;
  if (Driver* found = loaded_driver(); found && !found->device_count(count).ok()) count = 0;
  count = std::clamp(count, 0, kMaxDevices);
  known.store(count, std::memory_order_release);
  return count;
}

Driver& need_driver(const char* op) {
  FACULA_CHECK(!forked_after_start(), DeviceError, op,
               ": cannot use a GPU in a forked process that was started after the GPU's "
               "driver had been initialised; use "
               "the 'spawn' start method (in Python: "
               "multiprocessing.set_start_method('spawn')), or fork before the first "
               "call that reaches a GPU");
  Driver* found = loaded_driver();
  FACULA_CHECK(found, DeviceError, op, ": device cuda is not available: ", why_no_driver(),
               ". Use device 'cpu'; cuda::describe_search() tells what was looked for (`python -m facula --gpu`)");
  FACULA_CHECK(device_count() > 0, DeviceError, op, ": the driver (", found->path(),
               ") shows no GPU. Look at CUDA_VISIBLE_DEVICES, "
               "HIP_VISIBLE_DEVICES and the permissions of the device files");
  return *found;
}

const DeviceProperties& properties(int device) {
  static std::atomic<const DeviceProperties*> known[kMaxDevices] = {};
  static std::mutex* mutex = new std::mutex;
  if (device >= 0 && device < kMaxDevices) [[likely]]
    if (const DeviceProperties* found = known[device].load(std::memory_order_acquire)) return *found;
  const char* const op = "get_device_properties";
  check_device(device, op);
  Driver& table = need_driver(op);
  std::lock_guard lock(*mutex);
  if (const DeviceProperties* found = known[device].load(std::memory_order_acquire)) return *found;
  auto fresh = std::make_unique<DeviceProperties>();
  check(table.properties(device, *fresh), op);
  known[device].store(fresh.get(), std::memory_order_release);
  return *fresh.release();
}

int current_device() { return thread_state().current_device; }

void set_current_device(int device) {
  check_device(device, "set_device");
  thread_state().current_device = device;
}

Device resolve(Device device, const char* op) {
  if (!device.is_cuda()) return device;
  const int index = device.has_index() ? device.index() : thread_state().current_device;
  check_device(index, op);
  return Device(kCUDA, static_cast<DeviceIndex>(index));
}

void enter_slowly(ThreadState& state, int device, const char* op) {
  Driver& table = need_driver(op);
  check_device(device, op);
  check_not_lost(device, op);
  if (state.driver_device == device) return;
  state.driver_device = -1;
  const Status status = table.use_device(device);
  if (!status.ok()) fail_on(device, status, op);
  state.driver_device = device;
  entered_driver.store(&table, std::memory_order_release);
}

void enter(int device, const char* op) { enter(thread_state(), device, op); }

bool launch_blocking() {
  static const bool blocking = [] {
    for (EnvVar name : {EnvVar::LaunchBlocking, EnvVar::CudaLaunchBlocking})
      if (const auto value = env(name)) return *value != "0";
    return false;
  }();
  return blocking;
}

}  // namespace facula::gpu
