// Launches, copies and fills on the current stream.
#include "gpu/encoder.h"

#include "cpu/parallel.h"
#include "gpu/memory/allocator.h"
#include "gpu/thread_state.h"

#include <facula/core/warning.h>

#include <algorithm>
#include <cstring>

namespace facula::gpu {

namespace {

// Host memory that is not page-locked goes through buffers of this size, two at
// a time: the GPU copies one while the CPU fills or empties the other.
constexpr size_t kStageBytes = size_t{4} << 20;
// One thread moves less than this sooner than several would.
constexpr int64_t kCopyGrain = 512 << 10;

Driver& table() { return *entered_driver.load(std::memory_order_relaxed); }

// Blocks that were made on another stream must outlive what is queued here.
void mark_used(std::span<StorageImpl* const> storages, const StreamRef& stream) {
  for (StorageImpl* storage : storages) {
    auto* block = storage ? static_cast<Block*>(storage->device_block()) : nullptr;
    if (!block) continue;
    if (stream_of(block) != stream.handle || device_of(block) != stream.device) [[unlikely]]
      record_stream(block, stream);
  }
}

const StreamRef& begin(const Work& work) {
  ThreadState& state = thread_state();
  enter(state, work.device, work.op);
  const StreamRef& stream = state.streams[work.device];
  mark_used(work.storages, stream);
  return stream;
}

// The driver, with the stream's device current. Page-locked memory and events of other devices are taken in between, which may
// have made another one current.
Driver& table_on(const StreamRef& stream, const char* op) {
  enter(thread_state(), stream.device, op);
  return table();
}

// After each piece of work, where FACULA_LAUNCH_BLOCKING asks for it.
void finish(const StreamRef& stream, const char* op) {
  static const bool blocking = launch_blocking();
  if (!blocking || is_capturing(stream)) return;
  check(table_on(stream, op).synchronize_stream(stream.handle), op);
  end_wait(stream.device, op);
}

std::atomic<ImplicitWaits> implicit_wait_mode{ImplicitWaits::Allowed};

[[gnu::cold]] void complain_of_wait(ImplicitWaits mode, const char* op) {
  const std::string text = str(op,
                               ": called a synchronizing operation: it "
                               "waits for the GPU (set_sync_debug_mode)");
  if (mode == ImplicitWaits::Refused) throw DeviceError(text);
  warn(Warning({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text));
}

// Before an op waits that the user has not told to.
void begin_implicit_wait(int device, const char* op) {
  begin_wait(device, op);
  const ImplicitWaits mode = implicit_wait_mode.load(std::memory_order_relaxed);
  if (mode != ImplicitWaits::Allowed) [[unlikely]]
    complain_of_wait(mode, op);
}

uint64_t threads(Dim3 d) { return uint64_t{d.x} * d.y * d.z; }

std::string words(Dim3 d) { return str(d.x, " x ", d.y, " x ", d.z); }

// Why a launch is larger than the chip; empty when it is not.
std::string too_large(FunctionHandle function, Dim3 grid, Dim3 block, uint32_t shared_bytes, int device) {
  const DeviceProperties& chip = properties(device);
  int registers = 0, most_threads = 0;
  if (!table().function_registers(function, registers, most_threads).ok() || most_threads <= 0)
    most_threads = chip.max_threads_per_block;
  const auto beyond = [](uint32_t asked, int most) { return most > 0 && asked > static_cast<uint32_t>(most); };
  const bool large = threads(block) > static_cast<uint64_t>(most_threads) || beyond(grid.x, chip.max_grid[0]) ||
                     beyond(grid.y, chip.max_grid[1]) || beyond(grid.z, chip.max_grid[2]) ||
                     beyond(shared_bytes, chip.shared_memory_per_block_optin);
  if (!large) return {};
  return str("The launch is too large: grid ", words(grid), ", block ", words(block), ", ", shared_bytes,
             " bytes of shared memory. ", chip.name, " takes grids of up to ", chip.max_grid[0], " x ",
             chip.max_grid[1], " x ", chip.max_grid[2], ", blocks of up to ", most_threads,
             " threads for this kernel (", registers, " registers a thread; ", chip.max_threads_per_block,
             " at most) and ", chip.shared_memory_per_block_optin,
             " bytes of shared memory. Use smaller blocks, or more launches");
}

[[gnu::cold]] void launch_failed(Status status, const Kernel& kernel, FunctionHandle function, Dim3 grid, Dim3 block,
                                 uint32_t shared_bytes, void** arguments, const StreamRef& stream, const Work& work) {
  const bool about_arguments = status.fault == Fault::InvalidValue || status.fault == Fault::LaunchTooLarge ||
                               status.fault == Fault::InvalidDevice || status.fault == Fault::Other;
  if (about_arguments) {
    if (const std::string why = too_large(function, grid, block, shared_bytes, work.device); !why.empty())
      fail_on(work.device, {status.code, Fault::LaunchTooLarge}, work.op, why);
    // Code of others in this process may have made another device current on
    // this thread.
    forget_driver_device();
    enter(work.device, work.op);
    status = table().launch(function, grid, block, shared_bytes, stream.handle, arguments);
    if (status.ok()) return;
  }
  if (status.fault == Fault::LaunchTooLarge || status.fault == Fault::InvalidValue)
    fail_on(work.device, status, work.op,
            str("Kernel ", kernel.name(), ", grid ", words(grid), ", block ", words(block), ", ", shared_bytes,
                " bytes of shared memory. Use a smaller grid or block, or less shared memory"));
  fail_on(work.device, status, work.op);
}

}  // namespace

void launch(const Kernel& kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes, void** arguments, const Work& work) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const StreamRef& stream = begin(work);
  FunctionHandle function = kernel.on(work.device, work.op);
  kernel.allow_shared(shared_bytes, work.device, work.op);
  const Status status = table().launch(function, grid, block, shared_bytes, stream.handle, arguments);
  if (!status.ok()) [[unlikely]]
    launch_failed(status, kernel, function, grid, block, shared_bytes, arguments, stream, work);
  finish(stream, work.op);
}

StreamRef encode(const Work& work) { return begin(work); }

void set_implicit_waits(ImplicitWaits mode) { implicit_wait_mode.store(mode, std::memory_order_relaxed); }
ImplicitWaits implicit_waits() { return implicit_wait_mode.load(std::memory_order_relaxed); }

// Copies.

namespace {

void copy_on_host(char* to, const char* from, size_t bytes) {
  parallel_for(0, static_cast<int64_t>(bytes), kCopyGrain, [&](int64_t first, int64_t last) {
    std::memcpy(to + first, from + first, static_cast<size_t>(last - first));
  });
}

void check_can_stage(const StreamRef& stream, const char* op) {
  FACULA_CHECK(!is_capturing(stream), DeviceError, op,
               ": copies from cpu memory that is not page-locked cannot be "
               "captured into a graph, because the graph would "
               "read memory that may be gone by then. Copy before the capture, "
               "or from a tensor of pin_memory()");
}

// A page-locked buffer that is given back when the copies that were queued with
// it are done.
class Stage {
 public:
  Stage(size_t bytes, int device, const char* op) : data_(static_cast<char*>(allocate_pinned(bytes, op, device))) {}
  ~Stage() { free_pinned(data_); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

// An event that tells when a buffer is free again.
class Mark {
 public:
  Mark(int device, const char* op) : device_(device), op_(op), event_(take_event(device, op)) {}
  ~Mark() { give_event(device_, event_); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  void record(const StreamRef& stream) {
    check(table_on(stream, op_).record_event(event_, stream.handle), op_);
    recorded_ = true;
  }
  void wait() {
    if (recorded_) check(table().synchronize_event(event_), op_);
  }

 private:
  int device_;
  const char* op_;
  EventHandle event_;
  bool recorded_ = false;
};

void stage_to_device(char* to, const char* from, size_t bytes, const StreamRef& stream, const char* op) {
  check_can_stage(stream, op);
  if (bytes <= kStageBytes) {  // nobody waits: the buffer is given back when the
                               // copy is done
    Stage stage(bytes, stream.device, op);
    copy_on_host(stage.data(), from, bytes);
    check(table_on(stream, op).copy(to, stage.data(), bytes, CopyKind::HostToDevice, stream.handle), op);
    record_pinned_use(stage.data(), stream);
    return;
  }
  Stage stages[2] = {{kStageBytes, stream.device, op}, {kStageBytes, stream.device, op}};
  Mark marks[2] = {{stream.device, op}, {stream.device, op}};
  int turn = 0;
  for (size_t done = 0; done < bytes; done += kStageBytes, turn ^= 1) {
    const size_t piece = std::min(kStageBytes, bytes - done);
    marks[turn].wait();
    copy_on_host(stages[turn].data(), from + done, piece);
    check(table_on(stream, op).copy(to + done, stages[turn].data(), piece, CopyKind::HostToDevice, stream.handle), op);
    marks[turn].record(stream);
  }
  for (const Stage& stage : stages) record_pinned_use(stage.data(), stream);
}

void stage_to_host(char* to, const char* from, size_t bytes, const StreamRef& stream, const char* op) {
  begin_implicit_wait(stream.device, op);
  if (bytes <= kStageBytes) {
    Stage stage(bytes, stream.device, op);
    check(table_on(stream, op).copy(stage.data(), from, bytes, CopyKind::DeviceToHost, stream.handle), op);
    check(table_on(stream, op).synchronize_stream(stream.handle), op);
    copy_on_host(to, stage.data(), bytes);
    end_wait(stream.device, op);
    return;
  }
  Stage stages[2] = {{kStageBytes, stream.device, op}, {kStageBytes, stream.device, op}};
  Mark marks[2] = {{stream.device, op}, {stream.device, op}};
  const auto queue = [&](size_t at, int turn) {
    if (at >= bytes) return;
    check(table_on(stream, op)
              .copy(stages[turn].data(), from + at, std::min(kStageBytes, bytes - at), CopyKind::DeviceToHost,
                    stream.handle),
          op);
    marks[turn].record(stream);
  };
  queue(0, 0);
  int turn = 0;
  for (size_t done = 0; done < bytes; done += kStageBytes, turn ^= 1) {
    queue(done + kStageBytes, turn ^ 1);
    marks[turn].wait();
    copy_on_host(to + done, stages[turn].data(), std::min(kStageBytes, bytes - done));
  }
  end_wait(stream.device, op);
}

void copy_pinned(void* to, const void* from, const void* pinned, size_t bytes, CopyKind kind, bool blocking,
                 const StreamRef& stream, const char* op) {
  if (blocking) begin_implicit_wait(stream.device, op);
  check(table_on(stream, op).copy(to, from, bytes, kind, stream.handle), op);
  if (!blocking) {
    // What a graph reads or writes later must be kept by those who launch it.
    if (!is_capturing(stream)) record_pinned_use(pinned, stream);
    return finish(stream, op);
  }
  check(table_on(stream, op).synchronize_stream(stream.handle), op);
  end_wait(stream.device, op);
}

}  // namespace

void copy_to_device(void* to, const void* from, size_t bytes, bool blocking, const Work& work) {
  if (bytes == 0) return;
  const StreamRef stream = begin(work);
  if (is_pinned(from)) copy_pinned(to, from, from, bytes, CopyKind::HostToDevice, blocking, stream, work.op);
  else stage_to_device(static_cast<char*>(to), static_cast<const char*>(from), bytes, stream, work.op);
}

void copy_to_host(void* to, const void* from, size_t bytes, bool blocking, const Work& work) {
  if (bytes == 0) return;
  const StreamRef stream = begin(work);
  if (is_pinned(to)) copy_pinned(to, from, to, bytes, CopyKind::DeviceToHost, blocking, stream, work.op);
  else stage_to_host(static_cast<char*>(to), static_cast<const char*>(from), bytes, stream, work.op);
}

void copy_on_device(void* to, const void* from, size_t bytes, const Work& work) {
  if (bytes == 0) return;
  const StreamRef& stream = begin(work);
  check(table().copy(to, from, bytes, CopyKind::DeviceToDevice, stream.handle), work.op);
  finish(stream, work.op);
}

void fill_bytes(void* to, uint8_t value, size_t bytes, const Work& work) {
  if (bytes == 0) return;
  const StreamRef& stream = begin(work);
  const bool in_words = bytes % 4 == 0 && reinterpret_cast<uintptr_t>(to) % 4 == 0;
  check(in_words ? table().fill(to, value * 0x01010101u, 4, bytes / 4, stream.handle)
                 : table().fill(to, value, 1, bytes, stream.handle),
        work.op);
  finish(stream, work.op);
}

void read_small(void* to, const void* from, size_t bytes, const Work& work) {
  FACULA_INTERNAL_CHECK(bytes <= kPinnedSlotBytes);
  const StreamRef& stream = begin(work);
  begin_implicit_wait(work.device, work.op);
  ThreadState& state = thread_state();
  if (!state.pinned_slot) state.pinned_slot = allocate_pinned(kPinnedSlotBytes, work.op, stream.device);
  check(table_on(stream, work.op).copy(state.pinned_slot, from, bytes, CopyKind::DeviceToHost, stream.handle), work.op);
  check(table().synchronize_stream(stream.handle), work.op);
  std::memcpy(to, state.pinned_slot, bytes);
  end_wait(work.device, work.op);
}

// Between devices.

namespace {

// Lets `device` reach memory of `peer`, asked once. Copies work without it,
// only slower.
bool reaches(int device, int peer, const char* op) {
  enum : uint8_t { Unknown, No, Yes };
  static std::atomic<uint8_t> known[kMaxDevices][kMaxDevices] = {};
  std::atomic<uint8_t>& answer = known[device][peer];
  if (const uint8_t found = answer.load(std::memory_order_acquire)) return found == Yes;
  enter(device, op);
  bool can = false;
  if (!table().can_access_peer(device, peer, can).ok()) can = false;
  if (can) {
    RelaxedCapture relaxed;
    const Status status = table().enable_peer_access(peer);
    can = status.ok() || status.fault == Fault::PeerAccessAlreadyEnabled;
    if (can) can = allow_peer(peer, device);
  }
  answer.store(can ? Yes : No, std::memory_order_release);
  return can;
}

void copy_through_host(char* to, const char* from, size_t bytes, const StreamRef& target, const StreamRef& source,
                       const char* op) {
  FACULA_CHECK(!is_capturing(source) && !is_capturing(target), DeviceError, op, ": cuda:", source.device,
               " and cuda:", target.device,
               " copy to each other only through the cpu, which cannot be "
               "captured into a graph");
  Stage stage(std::min(bytes, kStageBytes), source.device, op);
  for (size_t done = 0; done < bytes; done += kStageBytes) {
    const size_t piece = std::min(kStageBytes, bytes - done);
    enter(source.device, op);
    check(table().copy(stage.data(), from + done, piece, CopyKind::DeviceToHost, source.handle), op);
    check(table().synchronize_stream(source.handle), op);
    enter(target.device, op);
    check(table().copy(to + done, stage.data(), piece, CopyKind::HostToDevice, target.handle), op);
    check(table().synchronize_stream(target.handle), op);
  }
  end_wait(source.device, op);
  end_wait(target.device, op);
}

}  // namespace

void copy_between_devices(void* to, int to_device, const void* from, int from_device, size_t bytes, const Work& work) {
  if (bytes == 0) return;
  ThreadState& state = thread_state();
  const StreamRef source = state.streams[from_device], target = state.streams[to_device];
  for (StorageImpl* storage : work.storages)
    if (storage) mark_used({&storage, 1}, storage->device().index() == to_device ? target : source);
  reaches(from_device, to_device, work.op);
  order_streams(source, target, work.op);  // what the target's stream still does
                                           // with the memory comes first
  enter(from_device, work.op);
  const Status status = table().copy_peer(to, to_device, from, from_device, bytes, source.handle);
  if (status.ok()) {
    order_streams(target, source, work.op);
    return finish(source, work.op);
  }
  if (status.fault != Fault::NotSupported && status.fault != Fault::InvalidValue &&
      status.fault != Fault::InvalidDevice)
    fail_on(from_device, status, work.op);
  copy_through_host(static_cast<char*>(to), static_cast<const char*>(from), bytes, target, source, work.op);
}

}  // namespace facula::gpu
