// The functions of runtime.h that the allocator calls, over the pretended driver.
#include "fake_driver.h"
#include "gpu/runtime.h"

namespace facula::gpu {

namespace fake {

thread_local int FakeDriver::current = -1;
std::atomic<bool> pretend_forked{false};
std::atomic<uint64_t> pretended_capture{0};
std::atomic<StreamHandle> captured_stream{nullptr}, joined_stream{nullptr};

namespace {
thread_local StreamHandle current_streams[kDevices] = {};
}

FakeDriver& fake_driver() {
  static auto* one = new FakeDriver;
  return *one;
}

void set_fake_stream(int device, StreamHandle stream) { current_streams[device] = stream; }

}  // namespace fake

std::atomic<int> active_captures{0};

int device_count() { return fake::kDevices; }
Driver& need_driver(const char*) { return fake::fake_driver(); }
Driver* driver() { return &fake::fake_driver(); }
const DeviceProperties& properties(int device) {
  static DeviceProperties all[fake::kDevices];
  static_cast<void>(fake::fake_driver().properties(device, all[device]));
  return all[device];
}
void enter(int device, const char* op) {
  if (fake::FakeDriver::current != device) check(fake::fake_driver().use_device(device), op);
  if (fake::fake_driver().lost) fail({999, Fault::DeviceLost}, op);
}
int current_device() { return fake::FakeDriver::current < 0 ? 0 : fake::FakeDriver::current; }
StreamRef current_stream(int device) { return {device, 0, fake::current_streams[device]}; }
EventHandle take_event(int device, const char* op) {
  enter(device, op);
  EventHandle event = nullptr;
  check(fake::fake_driver().create_event(event, false, false, false), op);
  return event;
}
void give_event(int, EventHandle event) noexcept { static_cast<void>(fake::fake_driver().destroy_event(event)); }
void fail(Status status, const char* op, const std::string& detail) {
  throw DeviceError(str(op, ": driver status ", status.code, " ", detail));
}
uint64_t capture_id(const StreamRef& stream) {
  const bool inside = stream.handle && (stream.handle == fake::captured_stream || stream.handle == fake::joined_stream);
  return inside ? fake::pretended_capture.load() : 0;
}
bool is_capturing(const StreamRef& stream) { return capture_id(stream) != 0; }
void RelaxedCapture::relax() { relaxed_ = true; }
void RelaxedCapture::restore() {}
bool forked_after_start() { return fake::pretend_forked.load(std::memory_order_relaxed); }
bool is_started() { return true; }

}  // namespace facula::gpu
