// The public streams and events.
#include "core/tensor_impl.h"
#include "gpu/memory/allocator.h"
#include "gpu/api/api.h"

#include <facula/cuda/event.h>
#include <facula/cuda/stream.h>

#include <ostream>

namespace facula::cuda {

int CUDAStream::priority() const { return gpu::stream_priority(unwrap(*this)); }

bool CUDAStream::query() const {
  const char* const op = "Stream.query";
  gpu::begin_wait(unwrap(*this), op);
  gpu::RelaxedCapture relaxed;  // asking disturbs no capture of another thread
  const gpu::Status status = gpu::need_driver(op).query_stream(handle_);
  if (status.fault == gpu::Fault::NotReady) return false;
  gpu::check(status, op);
  gpu::end_wait(device_, op);
  return true;
}

void CUDAStream::synchronize() const { gpu::synchronize(unwrap(*this), "Stream.synchronize"); }
void CUDAStream::wait_stream(const CUDAStream& other) const {
  gpu::order_streams(unwrap(*this), unwrap(other), "Stream.wait_stream");
}
void CUDAStream::wait_event(CUDAEvent& event) const { event.block(*this); }
bool CUDAStream::is_capturing() const { return gpu::is_capturing(unwrap(*this)); }

CUDAStream::PriorityRange CUDAStream::priority_range() {
  PriorityRange range{0, 0};
  gpu::stream_priority_range(cuda::device_index(-1, "Stream.priority_range"), range.least, range.greatest);
  return range;
}

std::string to_text(const CUDAStream& stream) { return str("stream ", stream.id(), " on device ", stream.device()); }
std::ostream& operator<<(std::ostream& out, const CUDAStream& stream) { return out << to_text(stream); }

CUDAStream getStreamFromPool(int priority, DeviceIndex device) {
  return wrap(gpu::stream_from_pool(device_index(device, "Stream"), priority));
}
CUDAStream getStreamFromExternal(void* stream, DeviceIndex device) {
  return wrap(gpu::external_stream(device_index(device, "ExternalStream"), stream));
}
CUDAStream getStreamFromId(int64_t id, DeviceIndex device) {
  return wrap(gpu::stream_from_id(device_index(device, "Stream"), id));
}
CUDAStream getDefaultCUDAStream(DeviceIndex device) {
  return wrap(gpu::default_stream(device_index(device, "default_stream")));
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
  return wrap(gpu::current_stream(device_index(device, "current_stream")));
}
void setCurrentCUDAStream(const CUDAStream& stream) {
  device_index(int64_t{stream.device_index()}, "set_stream");
  gpu::set_current_stream(unwrap(stream));
}

void record_stream(const Tensor& tensor, const CUDAStream& stream) {
  FACULA_CHECK(tensor.defined() && tensor.is_cuda(), DeviceError,
               "record_stream: expected a tensor on a cuda device, got ",
               tensor.defined() ? str("one on ", tensor.device()) : std::string("an undefined one"));
  // Memory that the allocator does not know (of another library, or none) is
  // kept by whoever gave it.
  if (auto* block = static_cast<gpu::Block*>(tensor.impl()->storage->device_block()))
    gpu::record_stream(block, unwrap(stream));
}

CUDAStreamGuard::CUDAStreamGuard(const CUDAStream& stream)
    : original_device_(cuda::current_device()),
      original_stream_(getCurrentCUDAStream(stream.device_index())),
      current_stream_(stream) {
  setCurrentCUDAStream(stream);
  gpu::set_current_device(stream.device_index());
}
CUDAStreamGuard::~CUDAStreamGuard() {
  gpu::set_current_stream(unwrap(original_stream_));
  gpu::set_current_device(original_device_);
}
void CUDAStreamGuard::reset_stream(const CUDAStream& stream) {
  const CUDAStream before = getCurrentCUDAStream(stream.device_index());
  if (stream.device_index() != original_stream_.device_index()) {
    gpu::set_current_stream(unwrap(original_stream_));
    original_stream_ = before;
  }
  setCurrentCUDAStream(stream);
  gpu::set_current_device(stream.device_index());
  current_stream_ = stream;
}

void OptionalCUDAStreamGuard::reset_stream(const CUDAStream& stream) {
  if (guard_) guard_->reset_stream(stream);
  else guard_ = std::make_unique<CUDAStreamGuard>(stream);
}
std::optional<CUDAStream> OptionalCUDAStreamGuard::original_stream() const {
  return guard_ ? std::optional<CUDAStream>(guard_->original_stream()) : std::nullopt;
}
std::optional<CUDAStream> OptionalCUDAStreamGuard::current_stream() const {
  return guard_ ? std::optional<CUDAStream>(guard_->current_stream()) : std::nullopt;
}

CUDAMultiStreamGuard::CUDAMultiStreamGuard(ArrayRef<CUDAStream> streams) {
  originals_.reserve(streams.size());
  for (const CUDAStream& stream : streams) {
    originals_.push_back(getCurrentCUDAStream(stream.device_index()));
    gpu::set_current_stream(unwrap(stream));
  }
}
CUDAMultiStreamGuard::~CUDAMultiStreamGuard() {
  for (size_t i = originals_.size(); i-- > 0;) gpu::set_current_stream(unwrap(originals_[i]));
}

// Events.

CUDAEvent::~CUDAEvent() {
  if (!event_ || gpu::forked_after_start()) return;
  try {
    gpu::enter(device_, "Event");
    // A device that is in trouble has no events left.
    static_cast<void>(gpu::need_driver("Event").destroy_event(event_));
  } catch (const Error&) {
  }
}

CUDAEvent::CUDAEvent(CUDAEvent&& other) noexcept
    : flags_(other.flags_), recorded_(other.recorded_), device_(other.device_), event_(other.event_) {
  other.event_ = nullptr;
  other.recorded_ = false;
}
CUDAEvent& CUDAEvent::operator=(CUDAEvent&& other) noexcept {
  std::swap(flags_, other.flags_);
  std::swap(recorded_, other.recorded_);
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  return *this;
}

std::optional<Device> CUDAEvent::device() const {
  return event_ ? std::optional<Device>(Device(kCUDA, device_)) : std::nullopt;
}

void CUDAEvent::create(DeviceIndex device) {
  const char* const op = "Event";
  gpu::enter(device, op);
  gpu::check(gpu::need_driver(op).create_event(event_, (flags_ & kEventDisableTiming) == 0,
                                               (flags_ & kEventBlockingSync) != 0, (flags_ & kEventInterprocess) != 0),
             op);
  device_ = device;
}

void CUDAEvent::record() { record(getCurrentCUDAStream()); }

void CUDAEvent::record(const CUDAStream& stream) {
  const char* const op = "Event.record";
  if (!event_) create(stream.device_index());
  FACULA_CHECK(device_ == stream.device_index(), DeviceError, op, ": this event belongs to cuda:", int{device_},
               " and cannot be recorded on a stream of cuda:", int{stream.device_index()},
               "; make one for each device");
  gpu::enter(device_, op);
  gpu::check(gpu::need_driver(op).record_event(event_, stream.stream().get()), op);
  recorded_ = true;
}

void CUDAEvent::recordOnce(const CUDAStream& stream) {
  if (!recorded_) record(stream);
}

void CUDAEvent::block(const CUDAStream& stream) {
  if (!event_ || !recorded_) return;
  const char* const op = "Event.wait";
  gpu::enter(stream.device_index(), op);
  gpu::check(gpu::need_driver(op).wait_event(stream.stream().get(), event_), op);
}

bool CUDAEvent::query() const {
  if (!event_) return true;
  const char* const op = "Event.query";
  gpu::begin_wait(device_, op);
  gpu::RelaxedCapture relaxed;
  const gpu::Status status = gpu::need_driver(op).query_event(event_);
  if (status.fault == gpu::Fault::NotReady) return false;
  gpu::check(status, op);
  gpu::end_wait(device_, op);
  return true;
}

void CUDAEvent::synchronize() const {
  if (!event_) return;
  const char* const op = "Event.synchronize";
  gpu::begin_wait(device_, op);
  gpu::check(gpu::need_driver(op).synchronize_event(event_), op);
  gpu::end_wait(device_, op);
}

float CUDAEvent::elapsed_time(const CUDAEvent& end) const {
  const char* const op = "Event.elapsed_time";
  FACULA_CHECK(event_ && recorded_ && end.event_ && end.recorded_, ValueError, op,
               ": both events must be recorded before calculating elapsed time");
  FACULA_CHECK(((flags_ | end.flags_) & kEventDisableTiming) == 0, ValueError, op,
               ": both events must be made with timing (enable_timing=True, in "
               "C++ CUDAEvent(kEventDefault))");
  FACULA_CHECK(device_ == end.device_, ValueError, op, ": the events are of different devices, cuda:", int{device_},
               " and cuda:", int{end.device_}, ", which have different clocks");
  gpu::enter(device_, op);
  float milliseconds = 0;
  const gpu::Status status = gpu::need_driver(op).elapsed_ms(event_, end.event_, milliseconds);
  FACULA_CHECK(status.fault != gpu::Fault::NotReady, ValueError, op,
               ": both events must be completed before calculating elapsed "
               "time; call end.synchronize() first");
  gpu::check(status, op);
  return milliseconds;
}

}  // namespace facula::cuda
