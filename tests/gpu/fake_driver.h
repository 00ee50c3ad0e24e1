// A driver of pretended devices for tests of the allocator: memory is address space, streams finish when a test says
// so, calls fail on request, and whatever a real driver would not forgive is counted as misuse.
#pragma once

#include "gpu/driver/driver.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <set>

namespace facula::gpu::fake {

inline constexpr int kDevices = 2;

struct FakeEvent {
  StreamHandle stream = nullptr;
  int device = 0;
  uint64_t ticket = 0;
};

class FakeDriver final : public Driver {
 public:
  // What tests turn and read.
  std::atomic<size_t> capacity{size_t{1} << 30};  // of each device
  std::atomic<bool> can_map{true};
  std::atomic<int64_t> fail_memory_in{-1};  // the n-th call for memory from now fails (0: the next), then none
  std::atomic<bool> lost{false};
  std::atomic<bool> capturing{false};  // waiting and asking is a misuse then
  std::atomic<bool> finishes_at_once{false};
  std::atomic<int64_t> misuse{0}, memory_calls{0}, queries{0}, synchronizations{0}, live_allocations{0};

  size_t used(int device) {
    std::lock_guard lock(mutex_);
    return used_[device];
  }
  size_t host_used() {
    std::lock_guard lock(mutex_);
    return host_used_;
  }
  // Work is put on a stream, and is done. Work that names its memory hinders nothing else from being unmapped.
  void enqueue(StreamHandle stream, const void* data = nullptr, size_t bytes = SIZE_MAX) {
    std::lock_guard lock(mutex_);
    Queue& queue = streams_[stream];
    while (!queue.work.empty() && queue.work.front().ticket <= queue.done) queue.work.pop_front();
    queue.work.push_back({++queue.queued, reinterpret_cast<uintptr_t>(data), bytes});
  }
  void finish(StreamHandle stream) {
    std::lock_guard lock(mutex_);
    streams_[stream].done = streams_[stream].queued;
  }
  void finish_all() {
    std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_) state.done = state.queued;
  }
  // How much was put on a stream by now, and whether that much is done.
  uint64_t ticket(StreamHandle stream) {
    std::lock_guard lock(mutex_);
    return streams_[stream].queued;
  }
  bool reached(StreamHandle stream, uint64_t ticket) {
    std::lock_guard lock(mutex_);
    return streams_[stream].done >= ticket;
  }
  bool busy(StreamHandle stream) {
    std::lock_guard lock(mutex_);
    return streams_[stream].done < streams_[stream].queued;
  }

  static thread_local int current;

  Vendor vendor() const override { return Vendor::Cuda; }
  int version() const override { return 13000; }
  const std::string& path() const override {
    static const std::string text = "(pretended)";
    return text;
  }
  std::string describe(Status status) const override { return "status " + std::to_string(status.code); }

  Status device_count(int& count) override { return count = kDevices, Status{}; }
  Status properties(int, DeviceProperties& properties) override {
    properties.name = "Pretended";
    properties.total_memory = capacity;
    properties.maps_memory = can_map;
    return {};
  }
  Status use_device(int device) override {
    if (lost) return kLost;
    current = device;
    return {};
  }
  Status synchronize() override {
    ++synchronizations;
    if (lost) return kLost;
    if (capturing) ++misuse;
    finish_all();
    return {};
  }
  Status can_access_peer(int, int, bool& can) override { return can = true, Status{}; }
  Status enable_peer_access(int) override { return {}; }

  Status allocate(void*& data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (Status status = take(bytes); !status.ok()) return status;
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    allocations_[data] = {bytes, current};
    ++live_allocations;
    return {};
  }
  Status free(void* data) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    if (capturing) return wrong("free during a capture");
    const auto found = allocations_.find(data);
    if (found == allocations_.end()) return wrong("free of something else");
    for (auto& [stream, state] : streams_) state.done = state.queued;  // as the real one waits
    munmap(data, found->second.bytes);
    used_[found->second.device] -= found->second.bytes;
    allocations_.erase(found);
    --live_allocations;
    return {};
  }
  Status memory_info(size_t& free_bytes, size_t& total_bytes) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    total_bytes = capacity;
    free_bytes = capacity - std::min<size_t>(capacity, used_[current]);
    return {};
  }
  Status allocate_host(void*& data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    if (fails()) return kNoMemory;
    if (host_used_ + bytes > capacity) return kNoMemory;
    host_used_ += bytes;
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    host_[data] = bytes;
    return {};
  }
  Status free_host(void* data) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    const auto found = host_.find(data);
    if (found == host_.end()) return wrong("free_host of something else");
    munmap(data, found->second);
    host_used_ -= found->second;
    host_.erase(found);
    return {};
  }
  Status register_host(void*, size_t) override { return {}; }
  Status unregister_host(void*) override { return {}; }
  Status device_pointer(void* host, void*& device) override { return device = host, Status{}; }
  PointerInfo pointer_info(const void*) override { return {}; }

  Status map_granularity(int, size_t& bytes) override { return bytes = size_t{2} << 20, Status{}; }
  Status reserve(void*& data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    data = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ranges_[data] = bytes;
    return {};
  }
  Status unreserve(void* data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto found = ranges_.find(data);
    if (found == ranges_.end() || found->second != bytes) return wrong("unreserve of something else");
    const auto mapped = mapped_.lower_bound(static_cast<char*>(data));
    if (mapped != mapped_.end() && mapped->first < static_cast<char*>(data) + bytes)
      return wrong("unreserve of mapped memory");
    munmap(data, bytes);
    ranges_.erase(found);
    return {};
  }
  Status create_physical(PhysicalHandle& handle, size_t bytes, int device) override {
    std::lock_guard lock(mutex_);
    const int before = current;
    current = device;
    const Status status = take(bytes);
    current = before;
    if (!status.ok()) return status;
    handle = ++last_physical_;
    physical_[handle] = {bytes, device};
    ++live_allocations;
    return {};
  }
  Status release_physical(PhysicalHandle handle) override {
    std::lock_guard lock(mutex_);
    const auto found = physical_.find(handle);
    if (found == physical_.end()) return wrong("release of something else");
    for (const auto& [data, piece] : mapped_)
      if (piece.handle == handle) return wrong("release of mapped memory");
    used_[found->second.device] -= found->second.bytes;
    physical_.erase(found);
    --live_allocations;
    return {};
  }
  Status map(void* data, size_t bytes, PhysicalHandle handle) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    if (fails()) return kNoMemory;
    const auto memory = physical_.find(handle);
    if (memory == physical_.end() || memory->second.bytes != bytes) return wrong("map of something else");
    auto range = ranges_.upper_bound(data);
    if (range == ranges_.begin()) return wrong("map outside of a range");
    --range;
    if (static_cast<char*>(data) + bytes > static_cast<char*>(range->first) + range->second)
      return wrong("map outside");
    auto next = mapped_.lower_bound(static_cast<char*>(data));
    if (next != mapped_.end() && next->first < static_cast<char*>(data) + bytes) return wrong("mapped twice");
    mapped_[static_cast<char*>(data)] = {bytes, handle};
    return {};
  }
  Status unmap(void* data, size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    if (capturing) return wrong("unmap during a capture");
    const auto found = mapped_.find(static_cast<char*>(data));
    if (found == mapped_.end() || found->second.bytes != bytes) return wrong("unmap of something else");
    // Unlike free, unmap does not wait.
    const auto first = reinterpret_cast<uintptr_t>(data);
    for (const auto& [stream, queue] : streams_)
      for (const Work& work : queue.work)
        if (work.ticket > queue.done && work.data < first + bytes && first < work.data + work.bytes)
          return wrong("unmap while a stream works with it");
    mmap(data, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mapped_.erase(found);
    return {};
  }
  Status set_access(void* data, size_t bytes, int) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    return mprotect(data, bytes, PROT_READ | PROT_WRITE) == 0 ? Status{} : wrong("access");
  }

  Status copy(void*, const void*, size_t, CopyKind, StreamHandle) override { return {}; }
  Status copy_peer(void*, int, const void*, int, size_t, StreamHandle) override { return {}; }
  Status fill(void*, uint32_t, int, size_t, StreamHandle) override { return {}; }

  Status stream_priorities(int& least, int& greatest) override { return least = greatest = 0, Status{}; }
  Status create_stream(StreamHandle& stream, int) override { return stream = nullptr, Status{}; }
  Status destroy_stream(StreamHandle) override { return {}; }
  Status synchronize_stream(StreamHandle stream) override {
    if (lost) return kLost;
    if (capturing) ++misuse;
    finish(stream);
    return {};
  }
  Status query_stream(StreamHandle stream) override { return busy(stream) ? kNotReady : Status{}; }
  Status wait_event(StreamHandle, EventHandle) override { return {}; }
  Status add_callback(StreamHandle, void (*)(void*), void*) override { return {}; }
  Status create_event(EventHandle& event, bool, bool, bool) override {
    if (lost) return kLost;
    return event = new FakeEvent, Status{};
  }
  Status destroy_event(EventHandle event) override {
    delete static_cast<FakeEvent*>(event);
    return {};
  }
  Status record_event(EventHandle event, StreamHandle stream) override {
    std::lock_guard lock(mutex_);
    if (lost) return kLost;
    if (capturing) return wrong("record_event during a capture");
    *static_cast<FakeEvent*>(event) = {stream, current, streams_[stream].queued};
    return {};
  }
  Status query_event(EventHandle event) override {
    std::lock_guard lock(mutex_);
    ++queries;
    if (lost) return kLost;
    if (capturing) return wrong("query_event during a capture");
    const auto* one = static_cast<FakeEvent*>(event);
    Queue& state = streams_[one->stream];
    if (finishes_at_once) state.done = state.queued;
    return state.done >= one->ticket ? Status{} : kNotReady;
  }
  Status synchronize_event(EventHandle event) override {
    std::lock_guard lock(mutex_);
    ++synchronizations;
    if (lost) return kLost;
    if (capturing) return wrong("synchronize_event during a capture");
    const auto* one = static_cast<FakeEvent*>(event);
    streams_[one->stream].done = std::max(streams_[one->stream].done, one->ticket);
    return {};
  }
  Status elapsed_ms(EventHandle, EventHandle, float& ms) override { return ms = 0, Status{}; }

  Status load_module(ModuleHandle&, const void*) override { return kNotSupported; }
  Status unload_module(ModuleHandle) override { return kNotSupported; }
  Status function(FunctionHandle&, ModuleHandle, const char*) override { return kNotSupported; }
  Status global(void*&, size_t&, ModuleHandle, const char*) override { return kNotSupported; }
  Status allow_shared_memory(FunctionHandle, int) override { return kNotSupported; }
  Status function_registers(FunctionHandle, int&, int&) override { return kNotSupported; }
  Status occupancy(FunctionHandle, int, size_t, int&) override { return kNotSupported; }
  Status launch(FunctionHandle, Dim3, Dim3, uint32_t, StreamHandle, void**) override { return kNotSupported; }
  Status begin_capture(StreamHandle, CaptureMode) override { return capturing = true, Status{}; }
  Status end_capture(StreamHandle, GraphHandle&) override { return capturing = false, Status{}; }
  Status capture_status(StreamHandle, CaptureStatus& status, uint64_t& id) override {
    status = CaptureStatus::None;
    id = 0;
    return {};
  }
  Status instantiate(GraphExecHandle&, GraphHandle) override { return kNotSupported; }
  Status launch_graph(GraphExecHandle, StreamHandle) override { return kNotSupported; }
  Status destroy_graph(GraphHandle) override { return kNotSupported; }
  Status destroy_graph_exec(GraphExecHandle) override { return kNotSupported; }
  Status graph_to_dot(GraphHandle, const char*) override { return kNotSupported; }

 private:
  static constexpr Status kLost{999, Fault::DeviceLost}, kNoMemory{2, Fault::OutOfMemory},
      kNotReady{600, Fault::NotReady}, kNotSupported{801, Fault::NotSupported};
  struct Memory {
    size_t bytes;
    int device;
  };
  struct Piece {
    size_t bytes;
    PhysicalHandle handle;
  };
  struct Work {
    uint64_t ticket;
    uintptr_t data;
    size_t bytes;
  };
  struct Queue {
    uint64_t queued = 0, done = 0;
    std::deque<Work> work;
  };

  Status wrong(const char* what) {
    ++misuse;
    std::fprintf(stderr, "the pretended driver was misused: %s\n", what);
    return {1, Fault::InvalidValue};
  }
  bool fails() {
    ++memory_calls;
    const int64_t countdown = fail_memory_in.load();
    if (countdown < 0) return false;
    fail_memory_in = countdown - 1;
    return countdown == 0;
  }
  Status take(size_t bytes) {
    if (lost) return kLost;
    if (fails() || used_[current] + bytes > capacity) return kNoMemory;
    used_[current] += bytes;
    return {};
  }

  std::mutex mutex_;
  std::map<void*, Memory> allocations_;
  std::map<void*, size_t> host_, ranges_;
  std::map<PhysicalHandle, Memory> physical_;
  std::map<char*, Piece> mapped_;
  std::map<StreamHandle, Queue> streams_;
  size_t used_[kDevices] = {}, host_used_ = 0;
  PhysicalHandle last_physical_ = 0;
};

// The one driver of the test program.
FakeDriver& fake_driver();
// What the pretended runtime says.
void set_fake_stream(int device, StreamHandle stream);  // of this thread
extern std::atomic<bool> pretend_forked;
extern std::atomic<uint64_t> pretended_capture;  // the capture that `captured_stream` is in, 0 for none
extern std::atomic<StreamHandle> captured_stream, joined_stream;

}  // namespace facula::gpu::fake
