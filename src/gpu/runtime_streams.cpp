// Streams and events: pools of both, the current stream of each thread and
// device, captures, and waiting.
#include "gpu/runtime.h"
#include "gpu/thread_state.h"

#include <algorithm>
#include <mutex>

namespace facula::gpu {

std::atomic<int> active_captures{0};
std::atomic<int> device_captures[kMaxDevices] = {};

namespace {

constexpr int kStreamsPerPool = 32;
constexpr int kPriorities = 4;  // 0, -1, -2, -3; what is beyond the driver's range is cut to it

struct StreamPool {
  std::atomic<StreamHandle> streams[kStreamsPerPool] = {};
  std::atomic<uint32_t> next{0};
};

struct DeviceStreams {
  std::mutex mutex;
  bool range_known = false;
  int least = 0, greatest = 0;
  StreamPool pools[kPriorities];
  std::vector<EventHandle> free_events;
};

DeviceStreams& streams_of(int device) {
  static auto* all = new DeviceStreams[kMaxDevices];
  return all[device];
}

// Ids: 0 is the default stream, odd numbers are streams of the pools, and even
// ones the handles of streams that were made elsewhere, which are addresses.
int64_t pool_id(int priority_class, int index) { return (int64_t{index} << 5) | (priority_class + 1) << 1 | 1; }

Driver& driver_on(int device, const char* op) {
  enter(thread_state(), device, op);
  return *entered_driver.load(std::memory_order_relaxed);
}

void read_range(DeviceStreams& streams, Driver& table) {
  if (streams.range_known) return;
  int least = 0, greatest = 0;
  if (!table.stream_priorities(least, greatest).ok()) least = greatest = 0;
  streams.least = least;
  streams.greatest = greatest;
  streams.range_known = true;
}

StreamHandle pool_stream(int device, int priority_class, int index) {
  DeviceStreams& streams = streams_of(device);
  std::atomic<StreamHandle>& slot = streams.pools[priority_class].streams[index];
  if (StreamHandle made = slot.load(std::memory_order_acquire)) return made;
  Driver& table = driver_on(device, "Stream");
  std::lock_guard lock(streams.mutex);
  if (StreamHandle made = slot.load(std::memory_order_acquire)) return made;
  read_range(streams, table);
  RelaxedCapture relaxed;
  StreamHandle fresh = nullptr;
  check(table.create_stream(fresh, std::clamp(-priority_class, streams.greatest, std::max(streams.least, 0))),
        "Stream");
  slot.store(fresh, std::memory_order_release);
  return fresh;
}

}  // namespace

StreamRef default_stream(int device) { return {device, 0, nullptr}; }

StreamRef current_stream(int device) { return thread_state().streams[device]; }

void set_current_stream(StreamRef stream) {
  FACULA_INTERNAL_CHECK(stream.device >= 0 && stream.device < kMaxDevices);
  thread_state().streams[stream.device] = stream;
}

StreamRef stream_from_pool(int device, int priority) {
  device = resolve(Device(kCUDA, static_cast<DeviceIndex>(device)), "Stream").index();
  FACULA_CHECK(priority <= 0, ValueError, "Stream: priorities are 0 (normal) or negative (sooner), got ", priority);
  const int priority_class = std::min(-priority, kPriorities - 1);
  StreamPool& pool = streams_of(device).pools[priority_class];
  const int index = static_cast<int>(pool.next.fetch_add(1, std::memory_order_relaxed) % kStreamsPerPool);
  return {device, pool_id(priority_class, index), pool_stream(device, priority_class, index)};
}

StreamRef external_stream(int device, StreamHandle handle) {
  device = resolve(Device(kCUDA, static_cast<DeviceIndex>(device)), "ExternalStream").index();
  return {device, static_cast<int64_t>(reinterpret_cast<intptr_t>(handle)), handle};
}

StreamRef stream_from_id(int device, int64_t id) {
  if (id == 0) return default_stream(device);
  if ((id & 1) == 0) return external_stream(device, reinterpret_cast<StreamHandle>(static_cast<intptr_t>(id)));
  device = resolve(Device(kCUDA, static_cast<DeviceIndex>(device)), "Stream").index();
  const int priority_class = static_cast<int>((id >> 1) & 15) - 1;
  const int64_t index = id >> 5;
  FACULA_CHECK(priority_class >= 0 && priority_class < kPriorities && index >= 0 && index < kStreamsPerPool, ValueError,
               "Stream: no stream has the id ", id, "; ids come from Stream.stream_id");
  return {device, id, pool_stream(device, priority_class, static_cast<int>(index))};
}

int stream_priority(const StreamRef& stream) {
  if ((stream.id & 1) == 0) return 0;
  int least = 0, greatest = 0;
  stream_priority_range(stream.device, least, greatest);
  return std::max(1 - static_cast<int>((stream.id >> 1) & 15), greatest);
}

void stream_priority_range(int device, int& least, int& greatest) {
  Driver& table = driver_on(device, "Stream");
  DeviceStreams& streams = streams_of(device);
  std::lock_guard lock(streams.mutex);
  read_range(streams, table);
  least = streams.least;
  greatest = streams.greatest;
}

EventHandle take_event(int device, const char* op) {
  Driver& table = driver_on(device, op);
  DeviceStreams& streams = streams_of(device);
  {
    std::lock_guard lock(streams.mutex);
    if (!streams.free_events.empty()) {
      EventHandle event = streams.free_events.back();
      streams.free_events.pop_back();
      return event;
    }
  }
  EventHandle event = nullptr;
  check(table.create_event(event, false, false, false), op);
  return event;
}

void give_event(int device, EventHandle event) noexcept {
  DeviceStreams& streams = streams_of(device);
  std::lock_guard lock(streams.mutex);
  streams.free_events.push_back(event);
}

void order_streams(const StreamRef& waiting, const StreamRef& before, const char* op) {
  if (waiting == before) return;
  EventHandle event = take_event(before.device, op);
  Driver& table = *entered_driver.load(std::memory_order_relaxed);
  Status status = table.record_event(event, before.handle);
  if (status.ok()) {
    driver_on(waiting.device, op);
    // A wait refers to what was recorded when it was queued: the event is free
    // again.
    status = table.wait_event(waiting.handle, event);
  }
  give_event(before.device, event);
  check(status, op);
}

uint64_t capture_id(const StreamRef& stream) {
  if (active_captures.load(std::memory_order_acquire) == 0) [[likely]]
    return 0;
  if (!stream.handle) return 0;  // default streams cannot be captured
  Driver& table = driver_on(stream.device, "capture");
  CaptureStatus status = CaptureStatus::None;
  uint64_t id = 0;
  check(table.capture_status(stream.handle, status, id), "capture");
  if (status == CaptureStatus::None) return 0;
  return id ? id : ~uint64_t{0};
}

bool is_capturing(const StreamRef& stream) { return capture_id(stream) != 0; }

void RelaxedCapture::relax() {
  Driver* table = entered_driver.load(std::memory_order_acquire);
  before_ = CaptureMode::Relaxed;
  relaxed_ = table && table->exchange_capture_mode(before_).ok();
}

void RelaxedCapture::restore() {
  // The driver has just taken another mode, so that it takes this one as well.
  static_cast<void>(entered_driver.load(std::memory_order_acquire)->exchange_capture_mode(before_));
}

namespace {
void check_not_captured(const StreamRef& stream, const char* op) {
  FACULA_CHECK(!is_capturing(stream), DeviceError, op,
               ": waits for the GPU, which cannot be done while the stream is "
               "captured into a graph: what is captured runs "
               "only when the graph is launched. Move it (item(), copies to "
               "the cpu, synchronize()) out of the capture");
}
}  // namespace

void begin_wait(int device, const char* op) {
  ThreadState& state = thread_state();
  enter(state, device, op);
  if (active_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    check_not_captured(state.streams[device], op);
}

void begin_wait(const StreamRef& stream, const char* op) {
  begin_wait(stream.device, op);
  if (active_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    check_not_captured(stream, op);
}

void synchronize(const StreamRef& stream, const char* op) {
  begin_wait(stream, op);
  check(entered_driver.load(std::memory_order_relaxed)->synchronize_stream(stream.handle), op);
  end_wait(stream.device, op);
}

void synchronize_device(int device) {
  const char* const op = "synchronize";
  begin_wait(device, op);
  // Waiting for all of a device would break captures on any of its streams.
  FACULA_CHECK(device_captures[device].load(std::memory_order_acquire) == 0, DeviceError, op,
               ": a stream of cuda:", device,
               " is captured into a graph, so that nobody can wait for the "
               "whole device. Synchronize a stream or an event, or "
               "wait until the capture has ended");
  check(entered_driver.load(std::memory_order_relaxed)->synchronize(), op);
  end_wait(device, op);
}

}  // namespace facula::gpu
