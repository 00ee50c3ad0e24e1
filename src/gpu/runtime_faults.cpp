// What a failed call of the driver means, devices that are lost, and the buffer
// where kernels report bad values.
#include "gpu/runtime.h"
#include "gpu/thread_state.h"

#include <chrono>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>

namespace facula::gpu {

namespace {

struct LostDevices {
  std::mutex mutex;
  std::string why[kMaxDevices];
};
LostDevices& lost_devices() {
  static auto* lost = new LostDevices;
  return *lost;
}

bool loses_context(Fault fault) {
  return fault == Fault::IllegalAddress || fault == Fault::LaunchFailed || fault == Fault::DeviceLost;
}

// Cause and cure, as far as the kind of fault tells.
const char* advice(Fault fault) {
  switch (fault) {
    case Fault::OutOfMemory:
      return "The GPU has no memory left for this call. Free tensors, or call "
             "cuda::empty_cache() so that what Facula keeps "
             "for reuse goes back to the driver";
    case Fault::InvalidDevice:
      return "The device is not there, or belongs to another process alone "
             "(exclusive mode)";
    case Fault::LaunchTooLarge:
      return "The kernel asks for more threads, registers or shared memory than "
             "the chip has";
    case Fault::IllegalAddress:
      return "A kernel touched memory that is not there, and the GPU's context "
             "of this process is lost: start the process "
             "again. Errors arrive late, so the op named here may only have "
             "noticed what an earlier one did; with "
             "FACULA_LAUNCH_BLOCKING=1 the one that caused it is named";
    case Fault::LaunchFailed:
      return "A kernel died, and the GPU's context of this process is lost: "
             "start the process again. Errors arrive late, so "
             "the op named here may only have noticed what an earlier one did; "
             "with FACULA_LAUNCH_BLOCKING=1 the one that "
             "caused it is named";
    case Fault::DeviceLost:
      return "The GPU no longer answers: it was reset, unplugged or has a "
             "hardware fault. Look at the system's log, then "
             "start the process again";
    case Fault::NoKernelForChip:
      return "The kernel was compiled for another chip, or by a compiler that is "
             "newer than the driver. Update the driver, "
             "or use the run-time compiler of the driver's version; "
             "cuda::describe_search() (`python -m facula --gpu`) shows both";
    case Fault::Capture:
      return "This is not allowed while a graph is captured, or an earlier call "
             "broke the capture. Do it before the capture "
             "begins";
    case Fault::NotSupported: return "This GPU or its driver cannot do it";
    case Fault::InvalidValue:
    case Fault::NotReady:
    case Fault::PeerAccessAlreadyEnabled:
    case Fault::Other:
    case Fault::None: break;
  }
  return "With FACULA_LAUNCH_BLOCKING=1 errors show in the call that causes "
         "them";
}

}  // namespace

void check_not_lost(int device, const char* op) {
  LostDevices& lost = lost_devices();
  std::lock_guard lock(lost.mutex);
  const std::string& why = lost.why[device];
  FACULA_CHECK(why.empty(), DeviceError, op, ": cuda:", device,
               " can no longer be used in this process, because of an earlier error (", why,
               "). Start the process again");
}

void fail_on(int device, Status status, const char* op, const std::string& detail) {
  Driver* table = entered_driver.load(std::memory_order_acquire);
  if (!table) table = driver();
  const std::string said = table ? table->describe(status) : str("error ", status.code);
  if (loses_context(status.fault) && device >= 0 && device < kMaxDevices) {
    LostDevices& lost = lost_devices();
    std::lock_guard lock(lost.mutex);
    if (lost.why[device].empty()) lost.why[device] = str(op, ": ", said);
    trouble.store(true, std::memory_order_relaxed);
  }
  std::string text = str(op, ": ", said);
  if (device >= 0) text += str(" (on cuda:", device, ")");
  if (!detail.empty()) text += str(". ", detail);
  else text += str(". ", advice(status.fault));
  if (status.fault == Fault::OutOfMemory) throw OutOfMemoryError(std::move(text));
  throw DeviceError(std::move(text));
}

void fail(Status status, const char* op, const std::string& detail) {
  fail_on(thread_state().driver_device, status, op, detail);
}

// The fault buffer.

namespace {

struct FaultPlace {
  std::atomic<FaultRecord*> host{nullptr};
  FaultRecord* device = nullptr;  // where kernels see it; set before `host`
};
FaultPlace fault_places[kMaxDevices];

FaultRecord* make_fault_buffer(int device) {
  static std::mutex* mutex = new std::mutex;
  const char* const op = "cuda";
  enter(device, op);
  Driver& table = *entered_driver.load(std::memory_order_acquire);
  std::lock_guard lock(*mutex);
  FaultPlace& place = fault_places[device];
  if (place.host.load(std::memory_order_acquire)) return place.device;
  RelaxedCapture relaxed;
  void *host = nullptr, *seen = nullptr;
  check(table.allocate_host(host, sizeof(FaultRecord)), op);
  std::memset(host, 0, sizeof(FaultRecord));
  check(table.device_pointer(host, seen), op);
  place.device = static_cast<FaultRecord*>(seen);
  place.host.store(static_cast<FaultRecord*>(host), std::memory_order_release);
  return place.device;
}

[[noreturn]] void throw_report(const FaultRecord& report, int device) {
  std::string_view op = report.op ? reinterpret_cast<const char*>(report.op) : "cuda";
  if (op.ends_with(": ")) op.remove_suffix(2);  // some name themselves by the beginning of their text
  switch (static_cast<ReportKind>(report.kind)) {
    case ReportKind::IndexOutOfRange:
      throw IndexError(str(op, ": index ", report.value, " is out of bounds for dimension with size ", report.bound,
                           " (found by a kernel on cuda:", device,
                           "; what the op wrote is not valid. Check the indices "
                           "before the call)"));
    case ReportKind::DivisionByZero:
      throw ValueError(str(op, ": integer division by zero (found by a kernel on cuda:", device,
                           "; what the op wrote is not valid. Mask the zeros of the divisor)"));
    case ReportKind::UserAssert:
    case ReportKind::None: break;
  }
  throw ValueError(str(op, ": a check in a kernel on cuda:", device, " failed for value ", report.value, " (bound ",
                       report.bound, "); what the op wrote is not valid"));
}

// A report of a kernel that still runs on another stream may be half written.
void await_complete(volatile FaultRecord* record) {
  for (int i = 0; i < 1000 && record->taken == 1; ++i) std::this_thread::sleep_for(std::chrono::microseconds(10));
}

}  // namespace

FaultRecord* fault_buffer(int device) {
  if (fault_places[device].host.load(std::memory_order_acquire)) [[likely]]
    return fault_places[device].device;
  return make_fault_buffer(device);
}

void end_wait(int device, const char*) {
  FaultRecord* record = fault_places[device].host.load(std::memory_order_acquire);
  if (!record) return;
  std::atomic_ref<uint32_t> taken(record->taken);
  if (taken.load(std::memory_order_acquire) == 0) [[likely]]
    return;
  static std::mutex* mutex = new std::mutex;
  FaultRecord report;
  {
    std::lock_guard lock(*mutex);
    if (taken.load(std::memory_order_acquire) == 0) return;  // another thread has thrown it
    await_complete(record);
    report = *record;
    record->op = record->value = record->bound = 0;
    record->kind = 0;
    taken.store(0, std::memory_order_release);
  }
  throw_report(report, device);
}

}  // namespace facula::gpu
