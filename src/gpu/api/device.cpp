// The public functions about devices, and their guards.
#include "gpu/api/api.h"
#include "gpu/encoder.h"

#include <facula/cuda/device.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace facula::cuda {

int device_index(int64_t device, const char* op) {
  if (device == -1) return gpu::resolve(Device(kCUDA), op).index();
  FACULA_CHECK(device >= 0 && device < gpu::kMaxDevices, DeviceError, op, ": there is no device cuda:", device);
  return gpu::resolve(Device(kCUDA, static_cast<DeviceIndex>(device)), op).index();
}

int device_index(Device device, const char* op) {
  FACULA_CHECK(device.is_cuda(), DeviceError, op, ": expected a device of type cuda, got ", device);
  return gpu::resolve(device, op).index();
}

bool is_available() { return gpu::device_count() > 0; }

std::string why_not_available() {
  if (is_available()) return {};
  return gpu::driver() ? "the driver shows no GPU" : gpu::why_no_driver();
}

int64_t device_count() { return gpu::device_count(); }
bool is_initialized() { return gpu::is_started(); }
void init() { gpu::enter(device_index(-1, "init"), "init"); }

DeviceIndex current_device() { return static_cast<DeviceIndex>(device_index(-1, "current_device")); }

void set_device(int64_t device) {
  if (device == -1) return;
  gpu::set_current_device(device_index(device, "set_device"));
}

DeviceIndex exchange_device(int64_t device) {
  const DeviceIndex before = current_device();
  if (device >= 0) set_device(device);
  return before;
}

void synchronize(int64_t device) { gpu::synchronize_device(device_index(device, "synchronize")); }

const DeviceProp* getDeviceProperties(int64_t device) {
  static std::atomic<const DeviceProp*> known[gpu::kMaxDevices] = {};
  const int index = device_index(device, "get_device_properties");
  if (const DeviceProp* found = known[index].load(std::memory_order_acquire)) return found;
  const gpu::DeviceProperties& from = gpu::properties(index);
  auto prop = std::make_unique<DeviceProp>();
  std::strncpy(prop->name, from.name.c_str(), sizeof(prop->name) - 1);
  prop->gcnArchName = from.chip;
  prop->major = from.major;
  prop->minor = from.minor;
  prop->totalGlobalMem = from.total_memory;
  prop->multiProcessorCount = from.multiprocessors;
  prop->warpSize = from.lanes;
  prop->maxThreadsPerBlock = from.max_threads_per_block;
  prop->maxThreadsPerMultiProcessor = from.max_threads_per_multiprocessor;
  for (int d = 0; d < 3; ++d) prop->maxGridSize[d] = from.max_grid[d];
  prop->regsPerMultiprocessor = from.registers_per_multiprocessor;
  prop->sharedMemPerBlock = static_cast<size_t>(from.shared_memory_per_block);
  prop->sharedMemPerBlockOptin = static_cast<size_t>(from.shared_memory_per_block_optin);
  prop->sharedMemPerMultiprocessor = static_cast<size_t>(from.shared_memory_per_multiprocessor);
  prop->l2CacheSize = from.l2_bytes;
  prop->clockRate = from.clock_khz;
  prop->memoryClockRate = from.memory_clock_khz;
  prop->memoryBusWidth = from.memory_bus_bits;
  prop->pciDomainID = from.pci_domain;
  prop->pciBusID = from.pci_bus;
  prop->pciDeviceID = from.pci_device;
  prop->integrated = from.integrated;
  prop->isMultiGpuBoard = from.multi_gpu_board;
  static_assert(sizeof(prop->uuid) == sizeof(from.uuid));
  std::memcpy(prop->uuid, from.uuid, sizeof(from.uuid));
  const DeviceProp* none = nullptr;
  if (known[index].compare_exchange_strong(none, prop.get(), std::memory_order_acq_rel)) return prop.release();
  return none;
}

const DeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(-1); }

std::string get_device_name(int64_t device) { return gpu::properties(device_index(device, "get_device_name")).name; }

bool can_device_access_peer(int64_t device, int64_t peer) {
  const char* const op = "can_device_access_peer";
  const int from = device_index(device, op), to = device_index(peer, op);
  if (from == to) return false;
  bool can = false;
  gpu::check(gpu::need_driver(op).can_access_peer(from, to, can), op);
  return can;
}

bool is_hip() {
  gpu::Driver* driver = gpu::driver();
  return driver && driver->vendor() == gpu::Vendor::Hip;
}
int driver_version() {
  gpu::Driver* driver = gpu::driver();
  return driver ? driver->version() : 0;
}
std::string driver_path() {
  gpu::Driver* driver = gpu::driver();
  return driver ? driver->path() : std::string();
}
std::string describe_search() { return gpu::describe_search(); }

void set_sync_debug_mode(SyncDebugMode mode) {
  FACULA_CHECK(static_cast<int>(mode) >= 0 && static_cast<int>(mode) <= 2, ValueError,
               "set_sync_debug_mode: expected 0 (off), 1 (warn) or 2 (error), got ", static_cast<int>(mode));
  gpu::set_implicit_waits(static_cast<gpu::ImplicitWaits>(mode));
}
SyncDebugMode get_sync_debug_mode() { return static_cast<SyncDebugMode>(gpu::implicit_waits()); }

// Guards. They put back the device that was current; that never throws, since
// it was current.

CUDAGuard::CUDAGuard(DeviceIndex device) : original_(cuda::current_device()), current_(original_) { set_index(device); }
CUDAGuard::CUDAGuard(Device device) : original_(cuda::current_device()), current_(original_) { set_device(device); }
CUDAGuard::~CUDAGuard() { gpu::set_current_device(original_); }

void CUDAGuard::set_device(Device device) {
  current_ = static_cast<DeviceIndex>(device_index(device, "CUDAGuard"));
  gpu::set_current_device(current_);
}
void CUDAGuard::set_index(DeviceIndex device) { set_device(Device(kCUDA, device)); }

OptionalCUDAGuard::OptionalCUDAGuard(std::optional<Device> device) {
  if (device) set_device(*device);
}
OptionalCUDAGuard::OptionalCUDAGuard(std::optional<DeviceIndex> device) {
  if (device) set_index(*device);
}
void OptionalCUDAGuard::set_device(Device device) {
  const int index = device_index(device, "OptionalCUDAGuard");
  if (original_ < 0) original_ = cuda::current_device();
  current_ = static_cast<DeviceIndex>(index);
  gpu::set_current_device(index);
}
void OptionalCUDAGuard::set_index(DeviceIndex device) { set_device(Device(kCUDA, device)); }
std::optional<Device> OptionalCUDAGuard::original_device() const {
  return original_ < 0 ? std::nullopt : std::optional<Device>(Device(kCUDA, original_));
}
std::optional<Device> OptionalCUDAGuard::current_device() const {
  return current_ < 0 ? std::nullopt : std::optional<Device>(Device(kCUDA, current_));
}
void OptionalCUDAGuard::reset() {
  if (original_ >= 0) gpu::set_current_device(original_);
  original_ = current_ = -1;
}

}  // namespace facula::cuda
