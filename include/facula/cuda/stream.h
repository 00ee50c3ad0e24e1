// Streams: queues of work on a device. What is queued on one stream runs in order; streams run side by side unless events say
// otherwise. Each thread has a current stream for every device, the default one at first.
#pragma once

#include <facula/core/array_ref.h>
#include <facula/cuda/device.h>

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

namespace facula {
class Tensor;
}

namespace facula::cuda {

class CUDAEvent;

// The driver's own handle, which converts to any pointer type: `cudaStream_t s = stream.stream();`.
class NativeHandle {
 public:
  explicit NativeHandle(void* handle) : handle_(handle) {}
  template <class T>
  operator T*() const {
    return static_cast<T*>(handle_);
  }
  void* get() const { return handle_; }

 private:
  void* handle_;
};

class FACULA_API CUDAStream {
 public:
  CUDAStream(DeviceIndex device, int64_t id, void* handle) : device_(device), id_(id), handle_(handle) {}

  NativeHandle stream() const { return NativeHandle(handle_); }
  template <class T>
  operator T*() const {
    return static_cast<T*>(handle_);
  }
  // 0 for the default stream; tells the others of a device apart.
  int64_t id() const { return id_; }
  DeviceIndex device_index() const { return device_; }
  DeviceType device_type() const { return kCUDA; }
  Device device() const { return Device(kCUDA, device_); }
  int priority() const;
  // Whether all that was queued is done.
  bool query() const;
  void synchronize() const;
  // What is queued here from now on waits for what is queued there by now.
  void wait_stream(const CUDAStream& other) const;
  void wait_event(CUDAEvent& event) const;
  bool is_capturing() const;
  // {least, greatest}: smaller numbers go first.
  struct PriorityRange {
    int least, greatest;
  };
  static PriorityRange priority_range();

  bool operator==(const CUDAStream& other) const { return device_ == other.device_ && handle_ == other.handle_; }

 private:
  DeviceIndex device_;
  int64_t id_;
  void* handle_;
};

FACULA_API std::string to_text(const CUDAStream& stream);
FACULA_API std::ostream& operator<<(std::ostream& out, const CUDAStream& stream);

// One of 32 streams of a priority, in turn. They live as long as the process and do not wait for the default stream.
FACULA_API CUDAStream getStreamFromPool(int priority, DeviceIndex device = -1);
inline CUDAStream getStreamFromPool(bool is_high_priority = false, DeviceIndex device = -1) {
  return getStreamFromPool(is_high_priority ? -1 : 0, device);
}
// A stream that somebody else has made, and keeps alive.
FACULA_API CUDAStream getStreamFromExternal(void* stream, DeviceIndex device);
FACULA_API CUDAStream getStreamFromId(int64_t id, DeviceIndex device);
FACULA_API CUDAStream getDefaultCUDAStream(DeviceIndex device = -1);
FACULA_API CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
// For this thread and the stream's device. The current device stays what it is.
FACULA_API void setCurrentCUDAStream(const CUDAStream& stream);

// `stream` uses the tensor's memory too: it goes to nobody else before what is queued there by then is done.
FACULA_API void record_stream(const Tensor& tensor, const CUDAStream& stream);

// Makes a stream and its device current for the time of a scope.
class FACULA_API CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(const CUDAStream& stream);
  ~CUDAStreamGuard();
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;

  // Puts back what was, then sets another one.
  void reset_stream(const CUDAStream& stream);
  CUDAStream original_stream() const { return original_stream_; }
  CUDAStream current_stream() const { return current_stream_; }
  Device original_device() const { return Device(kCUDA, original_device_); }
  Device current_device() const { return current_stream_.device(); }

 private:
  DeviceIndex original_device_;
  CUDAStream original_stream_, current_stream_;
};

class FACULA_API OptionalCUDAStreamGuard {
 public:
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(const CUDAStream& stream) { reset_stream(stream); }
  explicit OptionalCUDAStreamGuard(const std::optional<CUDAStream>& stream) {
    if (stream) reset_stream(*stream);
  }
  void reset_stream(const CUDAStream& stream);
  std::optional<CUDAStream> original_stream() const;
  std::optional<CUDAStream> current_stream() const;
  void reset() { guard_.reset(); }

 private:
  std::unique_ptr<CUDAStreamGuard> guard_;
};

// Makes streams of several devices current. The current device stays what it is.
class FACULA_API CUDAMultiStreamGuard {
 public:
  explicit CUDAMultiStreamGuard(ArrayRef<CUDAStream> streams);
  ~CUDAMultiStreamGuard();
  CUDAMultiStreamGuard(const CUDAMultiStreamGuard&) = delete;
  CUDAMultiStreamGuard& operator=(const CUDAMultiStreamGuard&) = delete;

 private:
  std::vector<CUDAStream> originals_;
};

}  // namespace facula::cuda
