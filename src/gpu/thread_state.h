// What a thread knows of GPUs, and the flags that every call looks at. Only a pointer is thread-local: the library may be loaded
// when little room is left for such data.
#pragma once

#include "gpu/runtime.h"

#include <atomic>

namespace facula::gpu {

struct ThreadState {
  int current_device = 0;
  int driver_device = -1;          // the device that the driver has current on this thread
  void* pinned_slot = nullptr;     // 64 bytes of page-locked memory for values that are read one by one
  StreamRef streams[kMaxDevices];  // the current stream of each device
};

extern constinit thread_local ThreadState* thread_state_pointer __attribute__((tls_model("initial-exec")));
ThreadState& make_thread_state();
inline ThreadState& thread_state() {
  ThreadState* state = thread_state_pointer;
  return state ? *state : make_thread_state();
}

// Set when a device was lost or the process was forked: then `enter` looks closer.
extern std::atomic<bool> trouble;
// The driver, once a device was entered.
extern std::atomic<Driver*> entered_driver;
void enter_slowly(ThreadState& state, int device, const char* op);
inline void enter(ThreadState& state, int device, const char* op) {
  if (state.driver_device != device || trouble.load(std::memory_order_relaxed)) [[unlikely]]
    enter_slowly(state, device, op);
}

// `fail` for a call that was about `device`, whichever the thread has current.
[[noreturn]] void fail_on(int device, Status status, const char* op, const std::string& detail = "");
// Throws when the device was lost by an earlier error.
void check_not_lost(int device, const char* op);
// The driver has a device of its own choice current: somebody else in this process may have changed it.
inline void forget_driver_device() { thread_state().driver_device = -1; }

// Captures under way on a device.
extern std::atomic<int> device_captures[kMaxDevices];

inline constexpr size_t kPinnedSlotBytes = 64;

}  // namespace facula::gpu
