// The CUDA driver (libcuda) behind Driver.
#include "gpu/driver/cuda_entry_points.h"
#include "gpu/driver/driver_open.h"
#include "gpu/driver/library.h"
#include "gpu/driver/outside_capture.h"

#include <facula/core/error.h>

#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "core/env.h"

namespace facula::gpu {

namespace {

using cuda::DevicePointer;

constexpr int kMaxContexts = 64;
constexpr int kOldestVersion = 11000;

Status not_supported() { return {801, Fault::NotSupported}; }

DevicePointer address(const void* data) { return reinterpret_cast<DevicePointer>(data); }
cuda::Stream stream_of(StreamHandle stream) { return static_cast<cuda::Stream>(stream); }
cuda::Event event_of(EventHandle event) { return static_cast<cuda::Event>(event); }
cuda::Function function_of(FunctionHandle function) { return static_cast<cuda::Function>(function); }

// "13.0" of 13000.
std::string cuda_version_text(int version) { return str(version / 1000, ".", version % 1000 / 10); }

// Fills the table; the text names what is missing, and is empty when all is there.
std::string load_table(const Library& library, cuda::Table& table) {
  std::string missing;
  int newest = 0;
  enum Need { required, optional };
#define FACULA_LOAD(need, since, name, parameters)                 \
  if (!library.load(table.name, #name) && (need) == required) {    \
    missing += (missing.empty() ? "" : ", ") + std::string(#name); \
    newest = newest > (since) ? newest : (since);                  \
  }
  FACULA_CUDA_ENTRY_POINTS(FACULA_LOAD)
#undef FACULA_LOAD
  if (missing.empty()) return {};
  return str("the NVIDIA driver library ", library.path(), " lacks ", missing, ", which CUDA ",
             cuda_version_text(newest), " has; install a newer driver");
}

class CudaDriver final : public Driver {
 public:
  CudaDriver(const Library& library, const cuda::Table& table, int version)
      : table_(table), version_(version), path_(library.path()) {}

  Vendor vendor() const override { return Vendor::Cuda; }
  int version() const override { return version_; }
  std::string version_text() const override { return "CUDA " + cuda_version_text(version_); }
  const std::string& path() const override { return path_; }

  size_t argument_bytes(const DeviceProperties& chip) const override {
    return version_ >= 12010 && chip.major >= 7 ? 32764 : 4096;
  }

  std::string describe(Status s) const override {
    if (s.ok()) return "no error";
    const char *name = nullptr, *text = nullptr;
    if (table_.cuGetErrorName(s.code, &name) != cuda::kSuccess || name == nullptr) return str("CUDA error ", s.code);
    if (table_.cuGetErrorString(s.code, &text) != cuda::kSuccess || text == nullptr) return name;
    return str(name, ": ", text);
  }

  // ---- devices ----

  Status device_count(int& count) override {
    count = 0;
    const cuda::Result code = table_.cuDeviceGetCount(&count);
    return code == cuda::kErrorNoDevice ? Status{} : status(code);
  }

  Status properties(int device, DeviceProperties& p) override {
    int number = 0;
    if (const auto code = table_.cuDeviceGet(&number, device); code != cuda::kSuccess) return status(code);
    cuda::Result failed = cuda::kSuccess;
    const auto need = [&](cuda::DeviceAttribute which, int& value) {
      const cuda::Result code = table_.cuDeviceGetAttribute(&value, which, number);
      if (code != cuda::kSuccess && failed == cuda::kSuccess) failed = code;
    };
    const auto attribute = [&](cuda::DeviceAttribute which, int& value) {
      int found = 0;
      if (table_.cuDeviceGetAttribute(&found, which, number) == cuda::kSuccess) value = found;
    };
    const auto flag = [&](cuda::DeviceAttribute which) {
      int value = 0;
      return table_.cuDeviceGetAttribute(&value, which, number) == cuda::kSuccess && value != 0;
    };
    char name[256] = {};
    if (const auto code = table_.cuDeviceGetName(name, sizeof name - 1, number); code != cuda::kSuccess)
      return status(code);
    p.name = name;
    size_t bytes = 0;
    if (const auto code = table_.cuDeviceTotalMem_v2(&bytes, number); code != cuda::kSuccess) return status(code);
    p.total_memory = bytes;
    need(cuda::kCapabilityMajor, p.major);
    need(cuda::kCapabilityMinor, p.minor);
    p.chip = str("sm_", p.major, p.minor);
    need(cuda::kMultiprocessorCount, p.multiprocessors);
    need(cuda::kWarpSize, p.lanes);
    need(cuda::kMaxThreadsPerBlock, p.max_threads_per_block);
    attribute(cuda::kMaxThreadsPerMultiprocessor, p.max_threads_per_multiprocessor);
    need(cuda::kMaxGridX, p.max_grid[0]);
    need(cuda::kMaxGridY, p.max_grid[1]);
    need(cuda::kMaxGridZ, p.max_grid[2]);
    attribute(cuda::kRegistersPerMultiprocessor, p.registers_per_multiprocessor);
    need(cuda::kSharedMemoryPerBlock, p.shared_memory_per_block);
    attribute(cuda::kSharedMemoryPerBlockOptin, p.shared_memory_per_block_optin);
    attribute(cuda::kSharedMemoryPerMultiprocessor, p.shared_memory_per_multiprocessor);
    attribute(cuda::kL2CacheSize, p.l2_bytes);
    attribute(cuda::kClockRate, p.clock_khz);
    attribute(cuda::kMemoryClockRate, p.memory_clock_khz);
    attribute(cuda::kMemoryBusWidth, p.memory_bus_bits);
    attribute(cuda::kPciDomainId, p.pci_domain);
    attribute(cuda::kPciBusId, p.pci_bus);
    attribute(cuda::kPciDeviceId, p.pci_device);
    p.integrated = flag(cuda::kIntegrated);
    p.multi_gpu_board = flag(cuda::kMultiGpuBoard);
    p.maps_memory = flag(cuda::kVirtualMemoryManagement) && has_mapping();
    cuda::Uuid uuid = {};
    const auto get_uuid = table_.cuDeviceGetUuid_v2 ? table_.cuDeviceGetUuid_v2 : table_.cuDeviceGetUuid;
    if (get_uuid && get_uuid(&uuid, number) == cuda::kSuccess) std::memcpy(p.uuid, uuid.bytes, sizeof p.uuid);
    return status(failed);
  }

  Status use_device(int device) override {
    cuda::Context context = nullptr;
    if (const Status s = context_of(device, context); !s.ok()) return s;
    return status(table_.cuCtxSetCurrent(context));
  }
  Status synchronize() override { return status(table_.cuCtxSynchronize()); }

  Status can_access_peer(int device, int peer, bool& can) override {
    int value = 0, from = 0, to = 0;
    if (const auto code = table_.cuDeviceGet(&from, device); code != cuda::kSuccess) return status(code);
    if (const auto code = table_.cuDeviceGet(&to, peer); code != cuda::kSuccess) return status(code);
    const Status s = status(table_.cuDeviceCanAccessPeer(&value, from, to));
    can = value != 0;
    return s;
  }
  Status enable_peer_access(int peer) override {
    cuda::Context context = nullptr;
    if (const Status s = context_of(peer, context); !s.ok()) return s;
    return status(table_.cuCtxEnablePeerAccess(context, 0));
  }

  // ---- memory ----

  Status allocate(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    DevicePointer pointer = 0;
    const Status s = status(table_.cuMemAlloc_v2(&pointer, bytes));
    data = reinterpret_cast<void*>(pointer);
    return s;
  }
  Status free(void* data) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuMemFree_v2(address(data)));
  }
  Status memory_info(size_t& free_bytes, size_t& total_bytes) override {
    return status(table_.cuMemGetInfo_v2(&free_bytes, &total_bytes));
  }
  Status allocate_host(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuMemHostAlloc(&data, bytes, cuda::kHostAllocPortable | cuda::kHostAllocMapped));
  }
  Status free_host(void* data) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuMemFreeHost(data));
  }
  Status register_host(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuMemHostRegister_v2(data, bytes, cuda::kHostAllocPortable | cuda::kHostAllocMapped));
  }
  Status unregister_host(void* data) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuMemHostUnregister(data));
  }
  Status device_pointer(void* host, void*& device) override {
    DevicePointer pointer = 0;
    const Status s = status(table_.cuMemHostGetDevicePointer_v2(&pointer, host, 0));
    device = reinterpret_cast<void*>(pointer);
    return s;
  }
  PointerInfo pointer_info(const void* data) override {
    unsigned type = 0;
    int device = -1;
    int attributes[2] = {cuda::kPointerMemoryType, cuda::kPointerDevice};
    void* values[2] = {&type, &device};
    PointerInfo info;
    if (table_.cuPointerGetAttributes(2, attributes, values, address(data)) != cuda::kSuccess) return info;
    info.known = type == cuda::kMemoryTypeHost || type == cuda::kMemoryTypeDevice;
    info.on_device = type == cuda::kMemoryTypeDevice;
    if (info.known) info.device = device;
    return info;
  }

  bool has_mapping() const {
    return table_.cuMemGetAllocationGranularity && table_.cuMemAddressReserve && table_.cuMemAddressFree &&
           table_.cuMemCreate && table_.cuMemRelease && table_.cuMemMap && table_.cuMemUnmap && table_.cuMemSetAccess;
  }
  Status map_granularity(int device, size_t& bytes) override {
    if (!has_mapping()) return not_supported();
    cuda::AllocationProperties properties;
    properties.location.id = device;
    return status(table_.cuMemGetAllocationGranularity(&bytes, &properties, 0));
  }
  Status reserve(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    DevicePointer pointer = 0;
    const Status s = status(table_.cuMemAddressReserve(&pointer, bytes, 0, 0, 0));
    data = reinterpret_cast<void*>(pointer);
    return s;
  }
  Status unreserve(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.cuMemAddressFree(address(data), bytes));
  }
  Status create_physical(PhysicalHandle& handle, size_t bytes, int device) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    cuda::AllocationProperties properties;
    properties.location.id = device;
    unsigned long long value = 0;
    const Status s = status(table_.cuMemCreate(&value, bytes, &properties, 0));
    handle = value;
    return s;
  }
  Status release_physical(PhysicalHandle handle) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.cuMemRelease(handle));
  }
  Status map(void* data, size_t bytes, PhysicalHandle handle) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.cuMemMap(address(data), bytes, 0, handle, 0));
  }
  Status unmap(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.cuMemUnmap(address(data), bytes));
  }
  Status set_access(void* data, size_t bytes, int device) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    cuda::AccessDescription description;
    description.location.id = device;
    return status(table_.cuMemSetAccess(address(data), bytes, &description, 1));
  }

  // ---- copies and fills ----

  Status copy(void* to, const void* from, size_t bytes, CopyKind kind, StreamHandle stream) override {
    switch (kind) {
      case CopyKind::HostToDevice:
        return status(table_.cuMemcpyHtoDAsync_v2(address(to), from, bytes, stream_of(stream)));
      case CopyKind::DeviceToHost:
        return status(table_.cuMemcpyDtoHAsync_v2(to, address(from), bytes, stream_of(stream)));
      case CopyKind::DeviceToDevice:
        return status(table_.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream_of(stream)));
      case CopyKind::HostToHost: break;
    }
    return status(table_.cuMemcpyAsync(address(to), address(from), bytes, stream_of(stream)));
  }
  Status copy_peer(void* to, int to_device, const void* from, int from_device, size_t bytes,
                   StreamHandle stream) override {
    cuda::Context to_context = nullptr, from_context = nullptr;
    if (const Status s = context_of(to_device, to_context); !s.ok()) return s;
    if (const Status s = context_of(from_device, from_context); !s.ok()) return s;
    return status(
        table_.cuMemcpyPeerAsync(address(to), to_context, address(from), from_context, bytes, stream_of(stream)));
  }
  Status fill(void* to, uint32_t value, int width, size_t count, StreamHandle stream) override {
    switch (width) {
      case 1:
        return status(table_.cuMemsetD8Async(address(to), static_cast<unsigned char>(value), count, stream_of(stream)));
      case 2:
        return status(
            table_.cuMemsetD16Async(address(to), static_cast<unsigned short>(value), count, stream_of(stream)));
      case 4: return status(table_.cuMemsetD32Async(address(to), value, count, stream_of(stream)));
      default: return {1, Fault::InvalidValue};
    }
  }

  // ---- streams and events ----

  Status stream_priorities(int& least, int& greatest) override {
    return status(table_.cuCtxGetStreamPriorityRange(&least, &greatest));
  }
  Status create_stream(StreamHandle& stream, int priority) override {
    cuda::Stream made = nullptr;
    const Status s = status(table_.cuStreamCreateWithPriority(&made, cuda::kStreamNonBlocking, priority));
    stream = made;
    return s;
  }
  Status destroy_stream(StreamHandle stream) override { return status(table_.cuStreamDestroy_v2(stream_of(stream))); }
  Status synchronize_stream(StreamHandle stream) override {
    return status(table_.cuStreamSynchronize(stream_of(stream)));
  }
  Status query_stream(StreamHandle stream) override { return status(table_.cuStreamQuery(stream_of(stream))); }
  Status wait_event(StreamHandle stream, EventHandle event) override {
    return status(table_.cuStreamWaitEvent(stream_of(stream), event_of(event), 0));
  }
  Status add_callback(StreamHandle stream, void (*callback)(void*), void* argument) override {
    return status(table_.cuLaunchHostFunc(stream_of(stream), callback, argument));
  }
  Status create_event(EventHandle& event, bool timing, bool blocking, bool interprocess) override {
    const unsigned flags = (timing ? 0u : cuda::kEventDisableTiming) | (blocking ? cuda::kEventBlockingSync : 0u) |
                           (interprocess ? cuda::kEventInterprocess : 0u);
    cuda::Event made = nullptr;
    const Status s = status(table_.cuEventCreate(&made, flags));
    event = made;
    return s;
  }
  Status destroy_event(EventHandle event) override { return status(table_.cuEventDestroy_v2(event_of(event))); }
  Status record_event(EventHandle event, StreamHandle stream) override {
    return status(table_.cuEventRecord(event_of(event), stream_of(stream)));
  }
  Status query_event(EventHandle event) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuEventQuery(event_of(event)));
  }
  Status synchronize_event(EventHandle event) override { return status(table_.cuEventSynchronize(event_of(event))); }
  Status elapsed_ms(EventHandle start, EventHandle end, float& milliseconds) override {
    return status(table_.cuEventElapsedTime(&milliseconds, event_of(start), event_of(end)));
  }

  // ---- kernels ----

  Status load_module(ModuleHandle& module, const void* binary) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    cuda::Module made = nullptr;
    const Status s = status(table_.cuModuleLoadData(&made, binary));
    module = made;
    return s;
  }
  Status unload_module(ModuleHandle module) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    return status(table_.cuModuleUnload(static_cast<cuda::Module>(module)));
  }
  Status function(FunctionHandle& function, ModuleHandle module, const char* name) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);  // a module may be loaded piece by piece
    cuda::Function found = nullptr;
    const Status s = status(table_.cuModuleGetFunction(&found, static_cast<cuda::Module>(module), name));
    function = found;
    return s;
  }
  Status global(void*& data, size_t& bytes, ModuleHandle module, const char* name) override {
    const OutsideCapture scope(table_.cuThreadExchangeStreamCaptureMode);
    DevicePointer pointer = 0;
    const Status s = status(table_.cuModuleGetGlobal_v2(&pointer, &bytes, static_cast<cuda::Module>(module), name));
    data = reinterpret_cast<void*>(pointer);
    return s;
  }
  Status allow_shared_memory(FunctionHandle function, int bytes) override {
    return status(table_.cuFuncSetAttribute(function_of(function), cuda::kFunctionMaxDynamicShared, bytes));
  }
  Status function_registers(FunctionHandle function, int& registers, int& max_threads) override {
    const Status s = status(table_.cuFuncGetAttribute(&registers, cuda::kFunctionRegisters, function_of(function)));
    if (!s.ok()) return s;
    return status(table_.cuFuncGetAttribute(&max_threads, cuda::kFunctionMaxThreads, function_of(function)));
  }
  Status occupancy(FunctionHandle function, int block_threads, size_t shared_bytes, int& blocks) override {
    return status(table_.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_of(function), block_threads,
                                                                     shared_bytes));
  }
  Status launch(FunctionHandle function, Dim3 grid, Dim3 block, uint32_t shared_bytes, StreamHandle stream,
                void** arguments) override {
    const cuda::Result code = table_.cuLaunchKernel(function_of(function), grid.x, grid.y, grid.z, block.x, block.y,
                                                    block.z, shared_bytes, stream_of(stream), arguments, nullptr);
    if (code == cuda::kSuccess) [[likely]]
      return {};
    return launch_failure(code, function, block);
  }

  // ---- graphs ----

  Status begin_capture(StreamHandle stream, CaptureMode mode) override {
    return status(table_.cuStreamBeginCapture_v2(stream_of(stream), static_cast<int>(mode)));
  }
  Status end_capture(StreamHandle stream, GraphHandle& graph) override {
    cuda::Graph made = nullptr;
    const Status s = status(table_.cuStreamEndCapture(stream_of(stream), &made));
    graph = made;
    return s;
  }
  Status capture_status(StreamHandle stream, CaptureStatus& capture, uint64_t& id) override {
    int value = 0;
    unsigned long long number = 0;
    Status s;
    if (table_.cuStreamGetCaptureInfo) s = status(table_.cuStreamGetCaptureInfo(stream_of(stream), &value, &number));
    else if (table_.cuStreamGetCaptureInfo_v2)
      s = status(table_.cuStreamGetCaptureInfo_v2(stream_of(stream), &value, &number, nullptr, nullptr, nullptr));
    else s = status(table_.cuStreamIsCapturing(stream_of(stream), &value));
    capture = static_cast<CaptureStatus>(value);
    id = number;
    return s;
  }
  Status exchange_capture_mode(CaptureMode& mode) override {
    if (!table_.cuThreadExchangeStreamCaptureMode) return not_supported();
    int value = static_cast<int>(mode);
    const Status s = status(table_.cuThreadExchangeStreamCaptureMode(&value));
    mode = static_cast<CaptureMode>(value);
    return s;
  }
  Status instantiate(GraphExecHandle& exec, GraphHandle graph) override {
    cuda::GraphExec made = nullptr;
    Status s = not_supported();
    if (table_.cuGraphInstantiateWithFlags)
      s = status(table_.cuGraphInstantiateWithFlags(&made, static_cast<cuda::Graph>(graph), 0));
    else if (table_.cuGraphInstantiate_v2)
      s = status(table_.cuGraphInstantiate_v2(&made, static_cast<cuda::Graph>(graph), nullptr, nullptr, 0));
    exec = made;
    return s;
  }
  Status launch_graph(GraphExecHandle exec, StreamHandle stream) override {
    return status(table_.cuGraphLaunch(static_cast<cuda::GraphExec>(exec), stream_of(stream)));
  }
  Status destroy_graph(GraphHandle graph) override {
    return status(table_.cuGraphDestroy(static_cast<cuda::Graph>(graph)));
  }
  Status destroy_graph_exec(GraphExecHandle exec) override {
    return status(table_.cuGraphExecDestroy(static_cast<cuda::GraphExec>(exec)));
  }
  Status graph_to_dot(GraphHandle graph, const char* path) override {
    if (!table_.cuGraphDebugDotPrint) return not_supported();
    return status(table_.cuGraphDebugDotPrint(static_cast<cuda::Graph>(graph), path, 0));
  }

 private:
  Status status(cuda::Result code) const { return code == cuda::kSuccess ? Status{} : failure(code); }

  // A GPU that has gone answers with an unknown error, as some calls do for lesser reasons: another call tells which it is.
  Status failure(cuda::Result code) const {
    Status s = {code, fault_of(code)};
    size_t free_bytes = 0, total_bytes = 0;
    if (code == cuda::kErrorUnknown && table_.cuMemGetInfo_v2(&free_bytes, &total_bytes) != cuda::kSuccess)
      s.fault = Fault::DeviceLost;
    return s;
  }

  // The primary context of a device, retained once and kept.
  Status context_of(int device, cuda::Context& context) {
    if (device < 0 || device >= kMaxContexts) return {101, Fault::InvalidDevice};
    auto& slot = contexts_[static_cast<size_t>(device)];
    context = slot.load(std::memory_order_acquire);
    if (context) [[likely]]
      return {};
    std::lock_guard lock(mutex_);
    context = slot.load(std::memory_order_relaxed);
    if (context) return {};
    int number = 0;
    if (const auto code = table_.cuDeviceGet(&number, device); code != cuda::kSuccess) return status(code);
    if (const auto code = table_.cuDevicePrimaryCtxRetain(&context, number); code != cuda::kSuccess)
      return status(code);
    slot.store(context, std::memory_order_release);
    return {};
  }

  // The driver calls a block that is too large an invalid value; told apart here, where time no longer matters.
  Status launch_failure(cuda::Result code, FunctionHandle function, Dim3 block) {
    Status s = status(code);
    if (s.fault != Fault::InvalidValue) return s;
    int registers = 0, max_threads = 0;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (function_registers(function, registers, max_threads).ok() && threads > static_cast<uint64_t>(max_threads))
      s.fault = Fault::LaunchTooLarge;
    return s;
  }

  cuda::Table table_;
  int version_;
  std::string path_;
  std::mutex mutex_;
  std::atomic<cuda::Context> contexts_[kMaxContexts] = {};
};

bool exists(const char* path) { return ::access(path, F_OK) == 0; }

std::string no_devices() {
  if (const auto visible = env_or_empty(EnvVar::CudaVisibleDevices); visible && (visible->empty() || *visible == "-1"))
    return str("CUDA_VISIBLE_DEVICES is \"", *visible,
               "\", which hides every NVIDIA GPU; unset it or name devices (0,1)");
  if (const auto visible = env(EnvVar::CudaVisibleDevices))
    return str("no NVIDIA GPU is visible; CUDA_VISIBLE_DEVICES is \"", *visible,
               "\": check that it names devices that exist");
  if (!exists("/dev/nvidiactl"))
    return "an NVIDIA driver is installed, but this machine shows no NVIDIA GPU (no /dev/nvidiactl); in a container, "
           "give "
           "it the GPU (docker run --gpus all)";
  if (::access("/dev/nvidiactl", R_OK | W_OK) != 0)
    return str("/dev/nvidiactl may not be opened (", std::strerror(errno), "); ask for access to /dev/nvidia*");
  return "the NVIDIA driver finds no GPU; see what nvidia-smi says";
}

std::string why_no_start(const Library& library, const cuda::Table& table, cuda::Result code) {
  const char* name = nullptr;
  if (table.cuGetErrorName(code, &name) != cuda::kSuccess || name == nullptr) name = "unknown error";
  switch (code) {
    case cuda::kErrorNoDevice: return no_devices();
    case cuda::kErrorStubLibrary:
      return str(library.path(),
                 " is the toolkit's stub for linking, not a driver; take its folder out of LD_LIBRARY_PATH");
    case cuda::kErrorDriverMismatch:
      return str("the NVIDIA kernel module and ", library.path(), " are of different versions; restart the machine");
    case cuda::kErrorCompatNotSupported:
      return str("the compatibility library ", library.path(),
                 " does not work with this GPU and kernel driver; take its "
                 "folder out of LD_LIBRARY_PATH, or install a newer driver");
    case cuda::kErrorSystemNotReady:
      return "the NVIDIA system is not ready; start its fabric manager (systemctl start nvidia-fabricmanager)";
    case cuda::kErrorOperatingSystem:
      return str("the NVIDIA driver cannot open its devices (", name, "); check the permissions of /dev/nvidia*");
    case cuda::kErrorUnknown:
    case cuda::kErrorNotInitialized:
      return str("the NVIDIA driver does not start (", name, " ", code,
                 "); load its modules (nvidia-modprobe -u) or restart the machine");
    default:
      return str("the NVIDIA driver does not start: ", name, " (", code,
                 "); see what nvidia-smi says, and install the driver again or restart the machine");
  }
}

}  // namespace

DriverOpening open_cuda_driver() {
  DriverOpening opening;
  constexpr const char* kNames[] = {"libcuda.so.1"};
  const Library library = find_library({.what = "CUDA driver", .sonames = kNames, .in_python_packages = false});
  if (!library) {
    opening.why_not = str("there is no NVIDIA driver (", library.why_not(), ")");
    if (exists("/dev/nvidiactl"))
      opening.why_not = str("the NVIDIA kernel driver is loaded, but its library is not there (", library.why_not(),
                            "); install the whole driver, in a container the NVIDIA container toolkit, or name the "
                            "library's folder in FACULA_GPU_LIBRARY_PATH");
    return opening;
  }
  cuda::Table table;
  opening.why_not = load_table(library, table);
  if (!opening.why_not.empty()) return opening;
  int version = 0;
  if (table.cuDriverGetVersion(&version) == cuda::kSuccess && version < kOldestVersion) {
    opening.why_not = str("the NVIDIA driver ", library.path(), " is of CUDA ", cuda_version_text(version),
                          "; at least CUDA ", cuda_version_text(kOldestVersion), " is needed: install a newer driver");
    return opening;
  }
  if (const auto code = table.cuInit(0); code != cuda::kSuccess) {
    opening.why_not = why_no_start(library, table, code);
    return opening;
  }
  const auto code = table.cuDeviceGetCount(&opening.devices);
  if (code != cuda::kSuccess || opening.devices <= 0) {
    opening.devices = 0;
    opening.why_not = code == cuda::kSuccess ? no_devices() : why_no_start(library, table, code);
    return opening;
  }
  opening.driver = std::make_unique<CudaDriver>(library, table, version);
  return opening;
}

}  // namespace facula::gpu
