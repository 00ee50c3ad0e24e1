// Events: marks in streams, which others wait for and which tell the time between them.
#pragma once

#include <facula/cuda/stream.h>

namespace facula::cuda {

// Flags, with CUDA's values.
enum EventFlags : unsigned {
  kEventDefault = 0,
  kEventBlockingSync = 1,   // a thread that waits sleeps, instead of looking again and again
  kEventDisableTiming = 2,  // cheaper, and elapsed_time is not there
  kEventInterprocess = 4
};

// Made on the device of the stream where it is first recorded.
class FACULA_API CUDAEvent {
 public:
  explicit CUDAEvent(unsigned flags = kEventDisableTiming) : flags_(flags) {}
  ~CUDAEvent();
  CUDAEvent(CUDAEvent&& other) noexcept;
  CUDAEvent& operator=(CUDAEvent&& other) noexcept;
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;

  bool isCreated() const { return event_ != nullptr; }
  DeviceIndex device_index() const { return device_; }
  std::optional<Device> device() const;
  NativeHandle event() const { return NativeHandle(event_); }

  // Marks what is queued on the stream by now; without one, on the current stream of the current device.
  void record();
  void record(const CUDAStream& stream);
  void recordOnce(const CUDAStream& stream);
  // What is queued on `stream` from now on waits for the mark. Nothing happens when there is none.
  void block(const CUDAStream& stream);
  // Whether the mark was reached, or none was set.
  bool query() const;
  void synchronize() const;
  // Milliseconds from this mark to the other's.
  float elapsed_time(const CUDAEvent& end) const;

 private:
  void create(DeviceIndex device);

  unsigned flags_;
  bool recorded_ = false;
  DeviceIndex device_ = -1;
  void* event_ = nullptr;
};

}  // namespace facula::cuda
