// Devices and streams as threads see them: which device is current, which stream of it, and what a failed call means.
#pragma once

#include "gpu/driver/driver.h"

#include <facula/core/device.h>
#include <facula/core/error.h>

#include <atomic>

namespace facula::gpu {

inline constexpr int kMaxDevices = 64;

// Number of usable devices, 0 where there is no driver. Never throws.
int device_count();
// The driver; throws DeviceError with cause and cure where there is none. `op` begins the text.
Driver& need_driver(const char* op);
const DeviceProperties& properties(int device);

// The current device of this thread, 0 at first.
int current_device();
void set_current_device(int device);  // DeviceError when there is no such device
// "cuda" with the current device's index filled in, checked; other devices as they are. DeviceError names what is there.
Device resolve(Device device, const char* op);

// Makes `device` the driver's current one on this thread: cheap when it is already. Throws when the device was lost, and in a
// process that was forked after the driver had started.
void enter(int device, const char* op = "cuda");

// Makes another device current for a while.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : before_(current_device()) {
    if (device >= 0 && device != before_) set_current_device(device);
  }
  ~DeviceScope() {
    if (current_device() != before_) set_current_device(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_;
};

// A stream of a device. `id` is 0 for the default stream, and tells others apart.
struct StreamRef {
  int device = 0;
  int64_t id = 0;
  StreamHandle handle = nullptr;
  bool operator==(const StreamRef& other) const { return device == other.device && handle == other.handle; }
};

StreamRef default_stream(int device);
StreamRef current_stream(int device);
void set_current_stream(StreamRef stream);  // of its device, for this thread
// One of 32 streams of that priority, round robin, which live for ever.
StreamRef stream_from_pool(int device, int priority);
StreamRef external_stream(int device, StreamHandle handle);
// The stream that has this id, as another thread or language remembers it.
StreamRef stream_from_id(int device, int64_t id);
int stream_priority(const StreamRef& stream);
// The least and the greatest priority that streams can have; smaller numbers go first.
void stream_priority_range(int device, int& least, int& greatest);
// What is queued on `waiting` from now on runs after what is queued on `before` by now.
void order_streams(const StreamRef& waiting, const StreamRef& before, const char* op);
// Events without timing, for the order of streams; kept for reuse.
EventHandle take_event(int device, const char* op);
void give_event(int device, EventHandle event) noexcept;

// Throws what a status means: OutOfMemoryError is the allocator's own business, everything else becomes a DeviceError
// that names `op`, the driver's words, and what can be done. A lost context is remembered: later calls say so at once.
[[noreturn]] void fail(Status status, const char* op, const std::string& detail = "");
inline void check(Status status, const char* op) {
  if (!status.ok()) [[unlikely]]
    fail(status, op);
}

// Whether the stream is being captured into a graph. The library knows without asking the driver: captures begin here.
bool is_capturing(const StreamRef& stream);
// As above, and the capture's number, by which streams that joined it are told from others; 0 outside of captures.
uint64_t capture_id(const StreamRef& stream);
// The number of captures under way in this process, so that others ask no further while there are none.
extern std::atomic<int> active_captures;
// Calls of the driver that are not allowed in a capture although they do no harm there (allocations, loading kernels) stand in
// such a scope.
class RelaxedCapture {
 public:
  RelaxedCapture() {
    if (active_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
      relax();
  }
  ~RelaxedCapture() {
    if (relaxed_) [[unlikely]]
      restore();
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void relax();
  void restore();

  bool relaxed_ = false;
  CaptureMode before_ = CaptureMode::Global;
};
// Throws for a call that waits for the GPU while the current stream is captured; `op` names the call. Then looks at the fault
// buffer. Every call that waits for the GPU goes through here before (`begin_wait`) and after (`end_wait`) it.
void begin_wait(int device, const char* op);
void begin_wait(const StreamRef& stream, const char* op);  // neither the current stream nor this one
void end_wait(int device, const char* op);
// Waits for the stream, with the checks above.
void synchronize(const StreamRef& stream, const char* op);
void synchronize_device(int device);

// The fault buffer: where kernels of a device leave word of bad values (an index out of range, a division by zero). The context
// lives on; the next call that waits throws IndexError or ValueError with op, value and bound, once.
//   device text: facula_report(fault_buffer, kind, op_id, value, bound)   (kernels/faults.h)
enum class ReportKind : uint32_t { None, IndexOutOfRange, DivisionByZero, UserAssert };
struct FaultRecord {  // the layout that kernels write
  uint32_t taken;     // 0 until the first report begins, 2 when it is complete
  uint32_t kind;
  int64_t op;  // the pointer of the op's static name, as an integer
  int64_t value;
  int64_t bound;
};
FaultRecord* fault_buffer(int device);  // as kernels see it

// Whether this process was forked after the driver had started: then every call fails with a text that says to spawn instead.
bool forked_after_start();
bool is_started();  // whether any call has reached a GPU
// Whether launches wait for the GPU, so that an error shows in the op that caused it (FACULA_LAUNCH_BLOCKING=1).
bool launch_blocking();

}  // namespace facula::gpu
