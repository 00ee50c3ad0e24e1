// AMD's HIP runtime (libamdhip64) behind Driver.
#include "gpu/driver/driver_open.h"
#include "gpu/driver/hip_entry_points.h"
#include "gpu/driver/library.h"
#include "gpu/driver/outside_capture.h"

#include <facula/core/error.h>

#include <errno.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "core/env.h"

namespace facula::gpu {

namespace {

// As HIP counts: 5.2.21153 is 50221153.
constexpr int kHip6 = 60000000;

Status not_supported() { return {801, Fault::NotSupported}; }

hip::Stream stream_of(StreamHandle stream) { return static_cast<hip::Stream>(stream); }
hip::Event event_of(EventHandle event) { return static_cast<hip::Event>(event); }
hip::Function function_of(FunctionHandle function) { return static_cast<hip::Function>(function); }
hip::PhysicalMemory memory_of(PhysicalHandle handle) { return reinterpret_cast<hip::PhysicalMemory>(handle); }

std::string load_table(const Library& library, hip::Table& table) {
  std::string missing;
  int newest = 0;
  enum Need { required, optional };
  const auto lacks = [&](const char* name, int since) {
    missing += (missing.empty() ? "" : ", ") + std::string(name);
    newest = newest > since ? newest : since;
  };
#define FACULA_LOAD(need, since, name, parameters) \
  if (!library.load(table.name, #name) && (need) == required) lacks(#name, since);
  FACULA_HIP_ENTRY_POINTS(FACULA_LOAD)
#undef FACULA_LOAD
  if (!library.load(table.hipGetErrorName, "hipGetErrorName")) lacks("hipGetErrorName", 5);
  if (!library.load(table.hipGetErrorString, "hipGetErrorString")) lacks("hipGetErrorString", 5);
  if (!table.hipGetDeviceProperties && !table.hipGetDevicePropertiesR0600) lacks("hipGetDeviceProperties", 5);
  if (missing.empty()) return {};
  return str("the AMD library ", library.path(), " lacks ", missing, ", which HIP ", newest,
             " has; install a newer ROCm");
}

// "gfx90a" of "gfx90a:sramecc+:xnack-"; empty when it is no such name.
std::string chip_of(std::string_view text) {
  if (!text.starts_with("gfx")) return {};
  const size_t end = text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-");
  const std::string_view chip = text.substr(0, end);
  return chip.size() >= 6 ? std::string(chip) : std::string();
}

// The parts of gfx<major><minor><stepping>; minor and stepping are one digit each.
void version_of_chip(const std::string& chip, int& major, int& minor) {
  const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
  major = minor = 0;
  const size_t steps = chip.size() - 2;
  for (size_t i = 3; i < steps; ++i) major = major * 10 + digit(chip[i]);
  minor = digit(chip[steps]);
}

class HipDriver final : public Driver {
 public:
  HipDriver(const Library& library, const hip::Table& table, int version)
      : table_(table), version_(version), path_(library.path()) {}

  Vendor vendor() const override { return Vendor::Hip; }
  int version() const override { return version_; }
  std::string version_text() const override {
    return str("HIP ", version_ / 10000000, ".", version_ / 100000 % 100, ".", version_ % 100000);
  }
  const std::string& path() const override { return path_; }

  std::string describe(Status s) const override {
    if (s.ok()) return "no error";
    const char* name = table_.hipGetErrorName(s.code);
    const char* text = table_.hipGetErrorString(s.code);
    return str(name ? name : "HIP error", " (", s.code, ")", text ? ": " : "", text ? text : "");
  }

  // ---- devices ----

  Status device_count(int& count) override {
    count = 0;
    const hip::Result code = table_.hipGetDeviceCount(&count);
    return code == hip::kErrorNoDevice ? Status{} : status(code);
  }

  Status properties(int device, DeviceProperties& p) override {
    const auto attribute = [&](hip::DeviceAttribute which, int& value) {
      int found = 0;
      if (table_.hipDeviceGetAttribute(&found, which, device) == hip::kSuccess && found > 0) value = found;
    };
    const auto flag = [&](hip::DeviceAttribute which) {
      int value = 0;
      return table_.hipDeviceGetAttribute(&value, which, device) == hip::kSuccess && value != 0;
    };
    char name[256] = {};
    if (const auto code = table_.hipDeviceGetName(name, sizeof name - 1, device); code != hip::kSuccess)
      return status(code);
    p.name = name;
    size_t bytes = 0;
    if (const auto code = table_.hipDeviceTotalMem(&bytes, device); code != hip::kSuccess) return status(code);
    p.total_memory = bytes;
    if (const Status s = find_chip(device, p.chip); !s.ok()) return s;
    version_of_chip(p.chip, p.major, p.minor);
    p.lanes = p.major >= 10 ? 32 : 64;
    attribute(hip::kMultiprocessorCount, p.multiprocessors);
    attribute(hip::kWarpSize, p.lanes);
    attribute(hip::kMaxThreadsPerBlock, p.max_threads_per_block);
    attribute(hip::kMaxThreadsPerMultiprocessor, p.max_threads_per_multiprocessor);
    attribute(hip::kMaxGridX, p.max_grid[0]);
    attribute(hip::kMaxGridY, p.max_grid[1]);
    attribute(hip::kMaxGridZ, p.max_grid[2]);
    attribute(hip::kRegistersPerBlock, p.registers_per_multiprocessor);
    attribute(hip::kRegistersPerMultiprocessor, p.registers_per_multiprocessor);
    attribute(hip::kSharedMemoryPerBlock, p.shared_memory_per_block);
    // Nothing has to be opted into: what a block may have, it has.
    p.shared_memory_per_block_optin = p.shared_memory_per_block;
    p.shared_memory_per_multiprocessor = p.shared_memory_per_block;
    attribute(hip::kSharedMemoryPerMultiprocessor, p.shared_memory_per_multiprocessor);
    attribute(hip::kL2CacheSize, p.l2_bytes);
    attribute(hip::kClockRate, p.clock_khz);
    attribute(hip::kMemoryClockRate, p.memory_clock_khz);
    attribute(hip::kMemoryBusWidth, p.memory_bus_bits);
    attribute(hip::kPciDomainId, p.pci_domain);
    attribute(hip::kPciBusId, p.pci_bus);
    attribute(hip::kPciDeviceId, p.pci_device);
    p.integrated = flag(hip::kIntegrated);
    p.multi_gpu_board = flag(hip::kMultiGpuBoard);
    p.maps_memory = has_mapping() && flag(hip::kVirtualMemoryManagement);
    hip::Uuid uuid = {};
    if (table_.hipDeviceGetUuid && table_.hipDeviceGetUuid(&uuid, device) == hip::kSuccess)
      std::memcpy(p.uuid, uuid.bytes, sizeof p.uuid);
    return {};
  }

  Status use_device(int device) override { return status(table_.hipSetDevice(device)); }
  Status synchronize() override { return status(table_.hipDeviceSynchronize()); }
  Status can_access_peer(int device, int peer, bool& can) override {
    int value = 0;
    const Status s = status(table_.hipDeviceCanAccessPeer(&value, device, peer));
    can = value != 0;
    return s;
  }
  Status enable_peer_access(int peer) override { return status(table_.hipDeviceEnablePeerAccess(peer, 0)); }

  // ---- memory ----

  Status allocate(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipMalloc(&data, bytes));
  }
  Status free(void* data) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipFree(data));
  }
  Status memory_info(size_t& free_bytes, size_t& total_bytes) override {
    return status(table_.hipMemGetInfo(&free_bytes, &total_bytes));
  }
  Status allocate_host(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipHostMalloc(&data, bytes, hip::kHostAllocPortable | hip::kHostAllocMapped));
  }
  Status free_host(void* data) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipHostFree(data));
  }
  Status register_host(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipHostRegister(data, bytes, hip::kHostAllocPortable | hip::kHostAllocMapped));
  }
  Status unregister_host(void* data) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipHostUnregister(data));
  }
  Status device_pointer(void* host, void*& device) override {
    return status(table_.hipHostGetDevicePointer(&device, host, 0));
  }
  PointerInfo pointer_info(const void* data) override {
    PointerInfo info;
    void* address = const_cast<void*>(data);
    int type = 0, device = -1;
    if (!table_.hipPointerGetAttribute ||
        table_.hipPointerGetAttribute(&type, hip::kPointerMemoryType, address) != hip::kSuccess)
      return info;
    // Host and device were 0 and 1 before HIP 6; then 0 became memory that the driver does not know.
    const int host = version_ >= kHip6 ? 1 : 0;
    info.known = type == host || type == host + 1;
    info.on_device = type == host + 1;
    if (info.known && table_.hipPointerGetAttribute(&device, hip::kPointerDevice, address) == hip::kSuccess)
      info.device = device;
    return info;
  }

  // Before HIP 6 the functions are there, but their structs differ and no device supports them.
  bool has_mapping() const {
    return version_ >= kHip6 && table_.hipMemGetAllocationGranularity && table_.hipMemAddressReserve &&
           table_.hipMemAddressFree && table_.hipMemCreate && table_.hipMemRelease && table_.hipMemMap &&
           table_.hipMemUnmap && table_.hipMemSetAccess;
  }
  Status map_granularity(int device, size_t& bytes) override {
    if (!has_mapping()) return not_supported();
    hip::AllocationProperties properties;
    properties.location.id = device;
    return status(table_.hipMemGetAllocationGranularity(&bytes, &properties, 0));
  }
  Status reserve(void*& data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.hipMemAddressReserve(&data, bytes, 0, nullptr, 0));
  }
  Status unreserve(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.hipMemAddressFree(data, bytes));
  }
  Status create_physical(PhysicalHandle& handle, size_t bytes, int device) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    hip::AllocationProperties properties;
    properties.location.id = device;
    hip::PhysicalMemory memory = nullptr;
    const Status s = status(table_.hipMemCreate(&memory, bytes, &properties, 0));
    handle = reinterpret_cast<PhysicalHandle>(memory);
    return s;
  }
  Status release_physical(PhysicalHandle handle) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.hipMemRelease(memory_of(handle)));
  }
  Status map(void* data, size_t bytes, PhysicalHandle handle) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.hipMemMap(data, bytes, 0, memory_of(handle), 0));
  }
  Status unmap(void* data, size_t bytes) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    return status(table_.hipMemUnmap(data, bytes));
  }
  Status set_access(void* data, size_t bytes, int device) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    if (!has_mapping()) return not_supported();
    hip::AccessDescription description;
    description.location.id = device;
    return status(table_.hipMemSetAccess(data, bytes, &description, 1));
  }

  // ---- copies and fills ----

  Status copy(void* to, const void* from, size_t bytes, CopyKind kind, StreamHandle stream) override {
    // Kinds of HIP: 0 within the host, 1 to the device, 2 to the host, 3 within devices.
    constexpr int kKinds[] = {1, 2, 3, 0};
    return status(table_.hipMemcpyAsync(to, from, bytes, kKinds[static_cast<size_t>(kind)], stream_of(stream)));
  }
  Status copy_peer(void* to, int to_device, const void* from, int from_device, size_t bytes,
                   StreamHandle stream) override {
    return status(table_.hipMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream_of(stream)));
  }
  Status fill(void* to, uint32_t value, int width, size_t count, StreamHandle stream) override {
    switch (width) {
      case 1: return status(table_.hipMemsetD8Async(to, static_cast<unsigned char>(value), count, stream_of(stream)));
      case 2: return status(table_.hipMemsetD16Async(to, static_cast<unsigned short>(value), count, stream_of(stream)));
      case 4: return status(table_.hipMemsetD32Async(to, static_cast<int>(value), count, stream_of(stream)));
      default: return {1, Fault::InvalidValue};
    }
  }

  // ---- streams and events ----

  Status stream_priorities(int& least, int& greatest) override {
    return status(table_.hipDeviceGetStreamPriorityRange(&least, &greatest));
  }
  Status create_stream(StreamHandle& stream, int priority) override {
    hip::Stream made = nullptr;
    const Status s = status(table_.hipStreamCreateWithPriority(&made, hip::kStreamNonBlocking, priority));
    stream = made;
    return s;
  }
  Status destroy_stream(StreamHandle stream) override { return status(table_.hipStreamDestroy(stream_of(stream))); }
  Status synchronize_stream(StreamHandle stream) override {
    return status(table_.hipStreamSynchronize(stream_of(stream)));
  }
  Status query_stream(StreamHandle stream) override { return status(table_.hipStreamQuery(stream_of(stream))); }
  Status wait_event(StreamHandle stream, EventHandle event) override {
    return status(table_.hipStreamWaitEvent(stream_of(stream), event_of(event), 0));
  }
  Status add_callback(StreamHandle stream, void (*callback)(void*), void* argument) override {
    if (table_.hipLaunchHostFunc) return status(table_.hipLaunchHostFunc(stream_of(stream), callback, argument));
    struct Call {
      void (*function)(void*);
      void* argument;
    };
    auto* call = new Call{callback, argument};
    const auto run = [](hip::Stream, hip::Result, void* data) {
      auto* made = static_cast<Call*>(data);
      made->function(made->argument);
      delete made;
    };
    const Status s = status(table_.hipStreamAddCallback(stream_of(stream), run, call, 0));
    if (!s.ok()) delete call;
    return s;
  }
  Status create_event(EventHandle& event, bool timing, bool blocking, bool interprocess) override {
    const unsigned flags = (timing ? 0u : hip::kEventDisableTiming) | (blocking ? hip::kEventBlockingSync : 0u) |
                           (interprocess ? hip::kEventInterprocess : 0u);
    hip::Event made = nullptr;
    const Status s = status(table_.hipEventCreateWithFlags(&made, flags));
    event = made;
    return s;
  }
  Status destroy_event(EventHandle event) override { return status(table_.hipEventDestroy(event_of(event))); }
  Status record_event(EventHandle event, StreamHandle stream) override {
    return status(table_.hipEventRecord(event_of(event), stream_of(stream)));
  }
  Status query_event(EventHandle event) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipEventQuery(event_of(event)));
  }
  Status synchronize_event(EventHandle event) override { return status(table_.hipEventSynchronize(event_of(event))); }
  Status elapsed_ms(EventHandle start, EventHandle end, float& milliseconds) override {
    return status(table_.hipEventElapsedTime(&milliseconds, event_of(start), event_of(end)));
  }

  // ---- kernels ----

  Status load_module(ModuleHandle& module, const void* binary) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    hip::Module made = nullptr;
    const Status s = status(table_.hipModuleLoadData(&made, binary));
    module = made;
    return s;
  }
  Status unload_module(ModuleHandle module) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipModuleUnload(static_cast<hip::Module>(module)));
  }
  Status function(FunctionHandle& function, ModuleHandle module, const char* name) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);  // a module may be loaded piece by piece
    hip::Function found = nullptr;
    const Status s = status(table_.hipModuleGetFunction(&found, static_cast<hip::Module>(module), name));
    function = found;
    return s;
  }
  Status global(void*& data, size_t& bytes, ModuleHandle module, const char* name) override {
    const OutsideCapture scope(table_.hipThreadExchangeStreamCaptureMode);
    return status(table_.hipModuleGetGlobal(&data, &bytes, static_cast<hip::Module>(module), name));
  }
  // Blocks get what the chip has without asking; a launch that wants more fails.
  Status allow_shared_memory(FunctionHandle, int) override { return {}; }
  Status function_registers(FunctionHandle function, int& registers, int& max_threads) override {
    const Status s = status(table_.hipFuncGetAttribute(&registers, hip::kFunctionRegisters, function_of(function)));
    if (!s.ok()) return s;
    return status(table_.hipFuncGetAttribute(&max_threads, hip::kFunctionMaxThreads, function_of(function)));
  }
  Status occupancy(FunctionHandle function, int block_threads, size_t shared_bytes, int& blocks) override {
    return status(table_.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_of(function),
                                                                            block_threads, shared_bytes));
  }
  Status launch(FunctionHandle function, Dim3 grid, Dim3 block, uint32_t shared_bytes, StreamHandle stream,
                void** arguments) override {
    const hip::Result code =
        table_.hipModuleLaunchKernel(function_of(function), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     shared_bytes, stream_of(stream), arguments, nullptr);
    if (code == hip::kSuccess) [[likely]]
      return {};
    return launch_failure(code, function, block);
  }

  // ---- graphs ----

  Status begin_capture(StreamHandle stream, CaptureMode mode) override {
    return status(table_.hipStreamBeginCapture(stream_of(stream), static_cast<int>(mode)));
  }
  Status end_capture(StreamHandle stream, GraphHandle& graph) override {
    hip::Graph made = nullptr;
    const Status s = status(table_.hipStreamEndCapture(stream_of(stream), &made));
    graph = made;
    return s;
  }
  Status capture_status(StreamHandle stream, CaptureStatus& capture, uint64_t& id) override {
    int value = 0;
    unsigned long long number = 0;
    const Status s =
        status(table_.hipStreamGetCaptureInfo ? table_.hipStreamGetCaptureInfo(stream_of(stream), &value, &number)
                                              : table_.hipStreamIsCapturing(stream_of(stream), &value));
    capture = static_cast<CaptureStatus>(value);
    id = number;
    return s;
  }
  Status exchange_capture_mode(CaptureMode& mode) override {
    if (!table_.hipThreadExchangeStreamCaptureMode) return not_supported();
    int value = static_cast<int>(mode);
    const Status s = status(table_.hipThreadExchangeStreamCaptureMode(&value));
    mode = static_cast<CaptureMode>(value);
    return s;
  }
  Status instantiate(GraphExecHandle& exec, GraphHandle graph) override {
    hip::GraphExec made = nullptr;
    const Status s = status(table_.hipGraphInstantiate(&made, static_cast<hip::Graph>(graph), nullptr, nullptr, 0));
    exec = made;
    return s;
  }
  Status launch_graph(GraphExecHandle exec, StreamHandle stream) override {
    return status(table_.hipGraphLaunch(static_cast<hip::GraphExec>(exec), stream_of(stream)));
  }
  Status destroy_graph(GraphHandle graph) override {
    return status(table_.hipGraphDestroy(static_cast<hip::Graph>(graph)));
  }
  Status destroy_graph_exec(GraphExecHandle exec) override {
    return status(table_.hipGraphExecDestroy(static_cast<hip::GraphExec>(exec)));
  }
  Status graph_to_dot(GraphHandle graph, const char* path) override {
    if (!table_.hipGraphDebugDotPrint) return not_supported();
    return status(table_.hipGraphDebugDotPrint(static_cast<hip::Graph>(graph), path, 0));
  }

 private:
  Status status(hip::Result code) const { return code == hip::kSuccess ? Status{} : failure(code); }

  // A GPU that has gone answers with an unknown error, as some calls do for lesser reasons: another call tells which it is.
  Status failure(hip::Result code) const {
    Status s = {code, fault_of(code)};
    size_t free_bytes = 0, total_bytes = 0;
    if (code == hip::kErrorUnknown && table_.hipMemGetInfo(&free_bytes, &total_bytes) != hip::kSuccess)
      s.fault = Fault::DeviceLost;
    return s;
  }

  // The name of the chip stands only in the struct of properties, whose layout differs between versions: what is read must look
  // like such a name, and is searched for where it does not lie as expected.
  Status find_chip(int device, std::string& chip) {
    hip::DevicePropertiesBuffer buffer;
    const bool new_layout = table_.hipGetDevicePropertiesR0600 != nullptr;
    const auto get = new_layout ? table_.hipGetDevicePropertiesR0600 : table_.hipGetDeviceProperties;
    if (const auto code = get(&buffer, device); code != hip::kSuccess) return status(code);
    const std::string_view all(buffer.bytes, sizeof buffer.bytes);
    const size_t expected = new_layout ? hip::kChipNameOffsetHip6 : hip::kChipNameOffsetHip5;
    chip = chip_of(all.substr(expected, hip::kChipNameBytes));
    // The device's own name comes first in the struct and may hold "gfx" too: it is passed over.
    for (size_t at = all.find("gfx", 256); chip.empty() && at != std::string_view::npos; at = all.find("gfx", at + 1))
      chip = chip_of(all.substr(at, hip::kChipNameBytes));
    return chip.empty() ? not_supported() : Status{};
  }

  // HIP calls a block that is too large an invalid value or configuration; told apart here, where time no longer matters.
  Status launch_failure(hip::Result code, FunctionHandle function, Dim3 block) {
    Status s = status(code);
    if (s.fault != Fault::InvalidValue) return s;
    int registers = 0, max_threads = 0;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (function_registers(function, registers, max_threads).ok() && threads > static_cast<uint64_t>(max_threads))
      s.fault = Fault::LaunchTooLarge;
    return s;
  }

  hip::Table table_;
  int version_;
  std::string path_;
};

std::string no_devices() {
  for (const auto& [variable, name] : {std::pair{EnvVar::HipVisibleDevices, "HIP_VISIBLE_DEVICES"},
                                       std::pair{EnvVar::RocrVisibleDevices, "ROCR_VISIBLE_DEVICES"},
                                       std::pair{EnvVar::CudaVisibleDevices, "CUDA_VISIBLE_DEVICES"},
                                       std::pair{EnvVar::GpuDeviceOrdinal, "GPU_DEVICE_ORDINAL"}}) {
    const auto visible = env_or_empty(variable);
    if (!visible) continue;
    if (visible->empty() || *visible == "-1")
      return str(name, " is \"", *visible, "\", which hides every AMD GPU; unset it or name devices (0,1)");
    return str("no AMD GPU is visible; ", name, " is \"", *visible, "\": check that it names devices that exist");
  }
  if (::access("/dev/kfd", F_OK) != 0)
    return "AMD's HIP library is installed, but this machine shows no AMD GPU (no /dev/kfd); in a container, give it "
           "the "
           "GPU (docker run --device /dev/kfd --device /dev/dri)";
  if (::access("/dev/kfd", R_OK | W_OK) != 0)
    return str("/dev/kfd may not be opened (", std::strerror(errno),
               "); add the user to the groups render and video, and log in again");
  return "AMD's HIP library finds no GPU; see what rocminfo says";
}

}  // namespace

std::string hip_crash_cure() {
  // HIP aborts when the devices are named by both, even where they name the same ones.
  const auto ordinal = env_or_empty(EnvVar::GpuDeviceOrdinal), visible = env_or_empty(EnvVar::HipVisibleDevices);
  if (ordinal && visible)
    return str("GPU_DEVICE_ORDINAL (\"", *ordinal, "\") and HIP_VISIBLE_DEVICES (\"", *visible,
               "\") are both set, and HIP takes only one of them: unset GPU_DEVICE_ORDINAL. If it still crashes, "
               "install the driver again");
  return "install it again";
}

DriverOpening open_hip_driver() {
  DriverOpening opening;
  constexpr const char* kNames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
  const Library library = find_library({.what = "HIP runtime", .sonames = kNames});
  if (!library) {
    opening.why_not = str("there is no AMD driver (", library.why_not(), ")");
    if (::access("/dev/kfd", F_OK) == 0)
      opening.why_not = str("the AMD kernel driver is loaded, but the HIP library is not there (", library.why_not(),
                            "); install ROCm's runtime, or name its folder in FACULA_GPU_LIBRARY_PATH");
    return opening;
  }
  hip::Table table;
  opening.why_not = load_table(library, table);
  if (!opening.why_not.empty()) return opening;
  const auto fails = [&](hip::Result code) {
    if (code == hip::kErrorNoDevice || code == hip::kErrorInvalidDevice) {
      opening.why_not = no_devices();
    } else if (code == hip::kErrorInsufficientDriver) {
      opening.why_not = str("the AMD kernel driver is older than ", library.path(), " needs; update it");
    } else {
      const char* name = table.hipGetErrorName(code);
      opening.why_not = str("AMD's HIP library does not start: ", name ? name : "unknown error", " (", code,
                            "); see what rocminfo says, and install the driver again or restart the machine");
    }
    opening.devices = 0;
  };
  if (const auto code = table.hipInit(0); code != hip::kSuccess) return fails(code), std::move(opening);
  if (const auto code = table.hipGetDeviceCount(&opening.devices); code != hip::kSuccess)
    return fails(code), std::move(opening);
  if (opening.devices <= 0) return fails(hip::kErrorNoDevice), std::move(opening);
  int version = 0;
  if (table.hipRuntimeGetVersion(&version) != hip::kSuccess) version = table.hipGetDevicePropertiesR0600 ? kHip6 : 0;
  opening.driver = std::make_unique<HipDriver>(library, table, version);
  return opening;
}

}  // namespace facula::gpu
