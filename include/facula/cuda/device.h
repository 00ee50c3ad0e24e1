// GPUs: how many, which one is current, what they are. The device is called "cuda" on NVIDIA and AMD alike.
#pragma once

#include <facula/core/device.h>
#include <facula/core/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace facula::cuda {

// What a device is. The names are those of CUDA's runtime.
struct DeviceProp {
  char name[256] = {};
  std::string gcnArchName;  // what a compiler calls the chip: "sm_90", "gfx90a"
  int major = 0, minor = 0;
  size_t totalGlobalMem = 0;
  int multiProcessorCount = 0;
  int warpSize = 32;
  int maxThreadsPerBlock = 0;
  int maxThreadsPerMultiProcessor = 0;
  int maxGridSize[3] = {0, 0, 0};
  int regsPerMultiprocessor = 0;
  size_t sharedMemPerBlock = 0;
  size_t sharedMemPerBlockOptin = 0;
  size_t sharedMemPerMultiprocessor = 0;
  int l2CacheSize = 0;
  int clockRate = 0;        // kHz
  int memoryClockRate = 0;  // kHz
  int memoryBusWidth = 0;   // bits
  int pciDomainID = 0, pciBusID = 0, pciDeviceID = 0;
  bool integrated = false;
  bool isMultiGpuBoard = false;
  unsigned char uuid[16] = {};
};

// Whether there is a GPU to use. Never throws; `why_not_available` says what is missing.
FACULA_API bool is_available();
FACULA_API std::string why_not_available();
FACULA_API int64_t device_count();
// Whether any call has reached a GPU; `init` makes one.
FACULA_API bool is_initialized();
FACULA_API void init();

// Of this thread; 0 at first.
FACULA_API DeviceIndex current_device();
FACULA_API void set_device(int64_t device);
// Sets another current device and gives the one that was; a negative number changes nothing.
FACULA_API DeviceIndex exchange_device(int64_t device);
// Waits for all that is queued on a device; -1 is the current one.
FACULA_API void synchronize(int64_t device = -1);

// They live as long as the process.
FACULA_API const DeviceProp* getDeviceProperties(int64_t device);
FACULA_API const DeviceProp* getCurrentDeviceProperties();
FACULA_API std::string get_device_name(int64_t device = -1);
FACULA_API bool can_device_access_peer(int64_t device, int64_t peer);
inline int warp_size() { return getCurrentDeviceProperties()->warpSize; }

// Whether the driver is AMD's; its version as it counts (13000 is CUDA 13.0), and the file that it came from.
FACULA_API bool is_hip();
FACULA_API int driver_version();
FACULA_API std::string driver_path();
// What was looked for and what was found, a line each, for people.
FACULA_API std::string describe_search();

// What happens when an op waits for the GPU by itself, as item() does: nothing, a warning, or an error.
enum class SyncDebugMode : int { Off = 0, Warn = 1, Error = 2 };
FACULA_API void set_sync_debug_mode(SyncDebugMode mode);
FACULA_API SyncDebugMode get_sync_debug_mode();

// Makes a device current for the time of a scope.
class FACULA_API CUDAGuard {
 public:
  CUDAGuard() = delete;
  explicit CUDAGuard(DeviceIndex device);
  explicit CUDAGuard(Device device);
  ~CUDAGuard();
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;

  void set_device(Device device);
  void reset_device(Device device) { set_device(device); }
  void set_index(DeviceIndex device);
  Device original_device() const { return Device(kCUDA, original_); }
  Device current_device() const { return Device(kCUDA, current_); }

 private:
  DeviceIndex original_, current_;
};

// The same, or nothing until a device is set.
class FACULA_API OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device);
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> device);
  explicit OptionalCUDAGuard(Device device) { set_device(device); }
  ~OptionalCUDAGuard() { reset(); }
  OptionalCUDAGuard(const OptionalCUDAGuard&) = delete;
  OptionalCUDAGuard& operator=(const OptionalCUDAGuard&) = delete;

  void set_device(Device device);
  void reset_device(Device device) { set_device(device); }
  void set_index(DeviceIndex device);
  std::optional<Device> original_device() const;
  std::optional<Device> current_device() const;
  void reset();

 private:
  DeviceIndex original_ = -1, current_ = -1;
};

}  // namespace facula::cuda
