// What host code needs of a GPU's driver, in words that belong to no vendor. Two tables stand behind it (`driver_cuda.cpp`,
// `driver_hip.cpp`); above this line nobody knows which. Nothing here throws: every call returns what the driver said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace facula::gpu {

enum class Vendor : uint8_t { Cuda, Hip };

// Handles that only a driver can look into.
using StreamHandle = void*;  // nullptr is the default stream of the device that is current
using EventHandle = void*;
using ModuleHandle = void*;
using FunctionHandle = void*;
using GraphHandle = void*;
using GraphExecHandle = void*;
using PhysicalHandle = uint64_t;  // memory that can be mapped into a reserved range

// What went wrong, as far as anybody reacts to it.
enum class Fault : uint8_t {
  None,
  OutOfMemory,
  NotReady,  // an event or a stream is still busy: an answer, not an error
  InvalidValue,
  InvalidDevice,
  LaunchTooLarge,   // more threads, registers or shared memory than the chip has
  IllegalAddress,   // a kernel touched memory that is not there; the context is lost
  LaunchFailed,     // a kernel died otherwise; the context is lost
  DeviceLost,       // the GPU no longer answers
  NoKernelForChip,  // a binary for another chip, or newer than the driver
  Capture,          // not allowed while a graph is captured, or a capture was broken
  PeerAccessAlreadyEnabled,
  NotSupported,
  Other
};

struct [[nodiscard]] Status {
  int code = 0;  // the driver's own number, 0 when all is well
  Fault fault = Fault::None;
  bool ok() const { return fault == Fault::None; }
};

struct DeviceProperties {
  std::string name;
  std::string chip;          // what a compiler calls it: "sm_90", "gfx90a"
  int major = 0, minor = 0;  // compute capability; on AMD the first two parts of the gfx number
  uint64_t total_memory = 0;
  int multiprocessors = 0;
  int lanes = 32;  // threads of a warp
  int max_threads_per_block = 1024;
  int max_threads_per_multiprocessor = 2048;
  int max_grid[3] = {0, 0, 0};
  int registers_per_multiprocessor = 65536;
  int shared_memory_per_block = 48 << 10;
  int shared_memory_per_block_optin = 48 << 10;
  int shared_memory_per_multiprocessor = 0;
  int l2_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
  bool integrated = false, multi_gpu_board = false;
  bool maps_memory = false;  // virtual memory management: reserve, create, map
  uint8_t uuid[16] = {};
};

enum class CopyKind : uint8_t { HostToDevice, DeviceToHost, DeviceToDevice, HostToHost };
enum class CaptureMode : uint8_t { Global, ThreadLocal, Relaxed };
enum class CaptureStatus : uint8_t { None, Active, Invalidated };

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct PointerInfo {
  bool known = false;  // whether the driver has heard of this address
  bool on_device = false;
  int device = -1;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual Vendor vendor() const = 0;
  // As the driver counts: 13000 is CUDA 13.0; HIP 5.2.3 is 50200000 + patch, as HIP gives it.
  virtual int version() const = 0;
  // The same for people: "13.0".
  virtual std::string version_text() const { return std::to_string(version()); }
  // Where it was loaded from.
  virtual const std::string& path() const = 0;
  // The driver's name and sentence for a status: "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
  virtual std::string describe(Status status) const = 0;

  // Devices. `use_device` makes a device (its primary context) current on this thread; most calls below act on it.
  virtual Status device_count(int& count) = 0;
  virtual Status properties(int device, DeviceProperties& properties) = 0;
  virtual Status use_device(int device) = 0;
  virtual Status synchronize() = 0;
  virtual Status can_access_peer(int device, int peer, bool& can) = 0;
  virtual Status enable_peer_access(int peer) = 0;

  // Memory.
  virtual Status allocate(void*& data, size_t bytes) = 0;
  virtual Status free(void* data) = 0;
  virtual Status memory_info(size_t& free_bytes, size_t& total_bytes) = 0;
  // Page-locked host memory that every device reaches.
  virtual Status allocate_host(void*& data, size_t bytes) = 0;
  virtual Status free_host(void* data) = 0;
  // Page-locks memory that is there already.
  virtual Status register_host(void* data, size_t bytes) = 0;
  virtual Status unregister_host(void* data) = 0;
  // What a kernel calls page-locked memory.
  virtual Status device_pointer(void* host, void*& device) = 0;
  virtual PointerInfo pointer_info(const void* data) = 0;
  // Ranges of addresses that grow by mapping memory into them (properties.maps_memory).
  virtual Status map_granularity(int device, size_t& bytes) = 0;
  virtual Status reserve(void*& data, size_t bytes) = 0;
  virtual Status unreserve(void* data, size_t bytes) = 0;
  virtual Status create_physical(PhysicalHandle& handle, size_t bytes, int device) = 0;
  virtual Status release_physical(PhysicalHandle handle) = 0;
  virtual Status map(void* data, size_t bytes, PhysicalHandle handle) = 0;
  virtual Status unmap(void* data, size_t bytes) = 0;
  // Lets `device` read and write a mapped range.
  virtual Status set_access(void* data, size_t bytes, int device) = 0;

  // Copies and fills, in the order of the stream.
  virtual Status copy(void* to, const void* from, size_t bytes, CopyKind kind, StreamHandle stream) = 0;
  virtual Status copy_peer(void* to, int to_device, const void* from, int from_device, size_t bytes,
                           StreamHandle stream) = 0;
  // `width` is 1, 2 or 4 bytes; `count` elements.
  virtual Status fill(void* to, uint32_t value, int width, size_t count, StreamHandle stream) = 0;

  // Streams and events.
  virtual Status stream_priorities(int& least, int& greatest) = 0;
  virtual Status create_stream(StreamHandle& stream, int priority) = 0;
  virtual Status destroy_stream(StreamHandle stream) = 0;
  virtual Status synchronize_stream(StreamHandle stream) = 0;
  virtual Status query_stream(StreamHandle stream) = 0;  // NotReady while it works
  virtual Status wait_event(StreamHandle stream, EventHandle event) = 0;
  virtual Status add_callback(StreamHandle stream, void (*function)(void*), void* argument) = 0;
  virtual Status create_event(EventHandle& event, bool timing, bool blocking, bool interprocess) = 0;
  virtual Status destroy_event(EventHandle event) = 0;
  virtual Status record_event(EventHandle event, StreamHandle stream) = 0;
  virtual Status query_event(EventHandle event) = 0;
  virtual Status synchronize_event(EventHandle event) = 0;
  virtual Status elapsed_ms(EventHandle start, EventHandle end, float& milliseconds) = 0;

  // Kernels.
  virtual Status load_module(ModuleHandle& module, const void* binary) = 0;
  virtual Status unload_module(ModuleHandle module) = 0;
  virtual Status function(FunctionHandle& function, ModuleHandle module, const char* name) = 0;
  // The address and size of a `__device__` or `__constant__` variable.
  virtual Status global(void*& data, size_t& bytes, ModuleHandle module, const char* name) = 0;
  virtual Status allow_shared_memory(FunctionHandle function, int bytes) = 0;
  virtual Status function_registers(FunctionHandle function, int& registers, int& max_threads) = 0;
  virtual Status occupancy(FunctionHandle function, int block_threads, size_t shared_bytes, int& blocks) = 0;
  virtual Status launch(FunctionHandle function, Dim3 grid, Dim3 block, uint32_t shared_bytes, StreamHandle stream,
                        void** arguments) = 0;

  // Graphs.
  virtual Status begin_capture(StreamHandle stream, CaptureMode mode) = 0;
  virtual Status end_capture(StreamHandle stream, GraphHandle& graph) = 0;
  virtual Status capture_status(StreamHandle stream, CaptureStatus& status, uint64_t& id) = 0;
  // Sets how strictly this thread is held to the rules of captures, and gives what held before. NotSupported where a driver
  // cannot; then captures are relaxed from the start.
  virtual Status exchange_capture_mode(CaptureMode& mode) {
    static_cast<void>(mode);
    return {-1, Fault::NotSupported};
  }
  virtual Status instantiate(GraphExecHandle& exec, GraphHandle graph) = 0;
  virtual Status launch_graph(GraphExecHandle exec, StreamHandle stream) = 0;
  virtual Status destroy_graph(GraphHandle graph) = 0;
  virtual Status destroy_graph_exec(GraphExecHandle exec) = 0;
  virtual Status graph_to_dot(GraphHandle graph, const char* path) = 0;

  // What the arguments of a launch may take on a chip.
  virtual size_t argument_bytes(const DeviceProperties& chip) const {
    static_cast<void>(chip);
    return 4096;
  }
};

// One header that a kernel's text includes by name.
struct SourceHeader {
  const char* name;
  const char* text;
};

struct CompileResult {
  bool ok = false;
  std::vector<char> binary;
  std::string log;
};

// Options that each compiler translates in its own way, or does without; all others are handed on as they are.
// Instructions that only this very chip has, such as those of sm_90a: the binary runs on no other.
inline constexpr const char* kOptionChipSpecific = "facula:arch-specific";
// Not machine code but what the driver translates itself, where there is such a form: for a driver that refuses the machine code.
inline constexpr const char* kOptionPortable = "facula:portable";

// The run-time compiler that belongs to the driver.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // "nvrtc 13.0", "hiprtc 5.2": part of the key of what is kept on disk.
  virtual const std::string& version() const = 0;
  virtual const std::string& path() const = 0;
  // Compiles for `chip` (DeviceProperties::chip). `options` are extra ones, after the ones that every kernel has
  // (no contraction of multiply-adds, C++17).
  virtual CompileResult compile(const std::string& name, const std::string& source,
                                std::span<const SourceHeader> headers, const std::string& chip,
                                std::span<const std::string> options) = 0;
  // What the arguments of a kernel may take, as far as the compiler goes.
  virtual size_t argument_bytes() const { return 4096; }
};

// The driver of this machine, looked for once. nullptr where there is none, or none that works: `why_no_driver` says why.
// FACULA_GPU=cuda|hip|none forces a choice. Safe to call from any thread; never throws.
Driver* driver();
const std::string& why_no_driver();
// The compiler that goes with it; nullptr when it cannot be found: `why_no_compiler` says why.
Compiler* compiler();
const std::string& why_no_compiler();
// What was looked for and what was found, one line each, for people.
std::string describe_search();

}  // namespace facula::gpu
