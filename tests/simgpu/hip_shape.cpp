// The HIP runtime's entry points over the engine: `libamdhip64.so.5`. Names, parameters and numbers are those of HIP 5.
#include "engine.h"
#include "error_names.h"

#include <algorithm>
#include <cstdio>
#include <cstddef>
#include <cstring>
#include <utility>

using namespace simgpu;

using Result = int;
#define EXPORT extern "C" __attribute__((visibility("default"))) Result

namespace {

thread_local int current = 0;
thread_local int last_error = 0;

bool is_device(int device) { return device >= 0 && static_cast<size_t>(device) < engine().devices.size(); }

// HIP starts itself with the first call.
Code begin(const char* kind, bool touches_device = true) {
  if (!engine().initialized)
    if (Code code = initialize()) return code;
  return enter(kind, touches_device ? current : -1);
}
Result remember(int code) {
  if (code != kSuccess && code != kNotReady) last_error = code;
  return code;
}
#define BEGIN(kind) \
  if (Code code = begin(kind)) return remember(code);
#define BEGIN_WITHOUT_DEVICE(kind) \
  if (Code code = begin(kind, false)) return remember(code);
#define NEED(condition) \
  if (!(condition)) return remember(kInvalidValue);
#define NEED_DEVICE(device) \
  if (!is_device(device)) return remember(kInvalidDevice);

template <class F>
Result on_stream(void* handle, F f) {
  Lock lock(engine().mutex);
  Stream* stream = find_stream(lock, current, handle);
  // HIP has a word of its own for a context or stream that is not there.
  if (!stream) return remember(kInvalidHandle);
  return remember(f(lock, stream));
}

uintptr_t at(const void* p) { return reinterpret_cast<uintptr_t>(p); }

constexpr int kVersion = 50221153;  // HIP 5.2

int attribute_value(int attribute) {
  switch (attribute) {
    case 2: return 1;         // maps host memory
    case 5: return 1700000;   // kHz
    case 8: return 1;         // kernels at once
    case 16: return 0;        // integrated
    case 17: return 0;        // board with several GPUs
    case 19: return 8 << 20;  // second-level cache
    case 26:
    case 27:
    case 28: return 1024;  // threads of a block in x, y, z
    case 29:
    case 30:
    case 31: return 0x7fffffff;  // blocks of a grid
    case 56: return 1024;
    case 57: return 2048;
    case 59: return 4096;     // bits of the memory bus
    case 60: return 1600000;  // memory clock, kHz
    case 63: return 8;        // multiprocessors
    case 67: return 3;        // PCI bus
    case 69: return 0;        // PCI domain
    case 71: return 65536;
    case 72: return 65536;
    case 74: return 64 << 10;
    case 75: return 64 << 10;
    case 77: return 4 << 10;  // total constant memory, in part
    case 87: return options().lanes;
    case 89: return 0;            // virtual memory came with HIP 6
    case 10002: return 64 << 10;  // shared memory of a multiprocessor
    case 23: return 9;            // compute capability
    case 61: return 0;
    default: return 0;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* simgpu_control(const char* command) {
  return control(command);
}

extern "C" __attribute__((visibility("default"))) const char* hipGetErrorName(Result error) {
  const ErrorText* found = find_error(error);
  return found ? found->hip_name : "hipErrorUnknown";
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorString(Result error) {
  const ErrorText* found = find_error(error);
  return found ? found->sentence : "unknown error";
}

EXPORT hipInit(unsigned flags) {
  NEED(flags == 0);
  return initialize();
}
EXPORT hipRuntimeGetVersion(int* version) {
  NEED(version);
  *version = forced_version() ? forced_version() : kVersion;
  return kSuccess;
}
EXPORT hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }
EXPORT hipGetLastError() { return std::exchange(last_error, 0); }
EXPORT hipPeekAtLastError() { return last_error; }

// ---- devices

EXPORT hipGetDeviceCount(int* count) {
  NEED(count);
  *count = 0;
  BEGIN_WITHOUT_DEVICE("query");
  *count = static_cast<int>(engine().devices.size());
  return kSuccess;
}
EXPORT hipSetDevice(int device) {
  BEGIN_WITHOUT_DEVICE("context");
  NEED_DEVICE(device);
  current = device;
  return kSuccess;
}
EXPORT hipGetDevice(int* device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(device);
  *device = current;
  return kSuccess;
}
EXPORT hipDeviceGetName(char* name, int length, int device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(name && length > 0);
  NEED_DEVICE(device);
  snprintf(name, static_cast<size_t>(length), "Software GPU (HIP shape)");
  return kSuccess;
}
EXPORT hipDeviceTotalMem(size_t* bytes, int device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(bytes);
  NEED_DEVICE(device);
  *bytes = options().memory_bytes;
  return kSuccess;
}
EXPORT hipDeviceGetAttribute(int* value, int attribute, int device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(value && attribute >= 0);
  NEED_DEVICE(device);
  *value = attribute == 68 ? device : attribute_value(attribute);
  return kSuccess;
}
EXPORT hipDeviceGetUuid(unsigned char* uuid, int device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(uuid);
  NEED_DEVICE(device);
  std::memcpy(uuid, "simgpu-hip--dev", 15);
  uuid[15] = static_cast<unsigned char>('0' + device);
  return kSuccess;
}

// The struct of HIP 5: 256 bytes of name, sizes and numbers, then the chip's name.
struct DeviceProperties5 {
  char name[256];
  size_t total_memory, shared_per_block;
  int registers_per_block, lanes, max_threads_per_block, max_threads_dim[3], max_grid[3], clock, memory_clock,
      memory_bus;
  size_t constant_memory;
  int major, minor, multiprocessors, l2_bytes, max_threads_per_multiprocessor, compute_mode, clock_instruction;
  int architecture;  // one bit for each feature
  int concurrent_kernels, pci_domain, pci_bus, pci_device;
  size_t shared_per_multiprocessor;
  int multi_gpu_board, can_map_host, gcn_arch;
  char chip[256];
};
static_assert(offsetof(DeviceProperties5, chip) == 396);

EXPORT hipGetDeviceProperties(DeviceProperties5* properties, int device) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(properties);
  NEED_DEVICE(device);
  *properties = {};
  snprintf(properties->name, sizeof properties->name, "Software GPU (HIP shape)");
  snprintf(properties->chip, sizeof properties->chip, "%s", options().chip.c_str());
  properties->total_memory = options().memory_bytes;
  properties->shared_per_block = properties->shared_per_multiprocessor = 64 << 10;
  properties->lanes = options().lanes;
  properties->max_threads_per_block = 1024;
  properties->max_threads_per_multiprocessor = 2048;
  properties->multiprocessors = 8;
  properties->major = 9;
  return kSuccess;
}
EXPORT hipDeviceSynchronize() {
  BEGIN("sync");
  Lock lock(engine().mutex);
  return remember(synchronize_device(lock, current));
}
EXPORT hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  BEGIN_WITHOUT_DEVICE("query");
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return kSuccess;
}
EXPORT hipDeviceCanAccessPeer(int* can, int device, int peer) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(can);
  NEED_DEVICE(device);
  NEED_DEVICE(peer);
  *can = device != peer;
  return kSuccess;
}
EXPORT hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  BEGIN("peer");
  NEED(flags == 0);
  if (!is_device(peer) || peer == current) return remember(kInvalidDevice);
  Lock lock(engine().mutex);
  Device& device = *engine().devices[static_cast<size_t>(current)];
  if (device.peers >> peer & 1) return remember(kPeerAccessAlreadyEnabled);
  device.peers |= uint64_t{1} << peer;
  return kSuccess;
}

// ---- memory

EXPORT hipMalloc(void** data, size_t bytes) {
  BEGIN("alloc");
  NEED(data);
  *data = nullptr;
  if (bytes == 0) return kSuccess;
  uintptr_t address = 0;
  const Code code = allocate(current, address, bytes);
  *data = reinterpret_cast<void*>(code ? 0 : address);
  return remember(code);
}
EXPORT hipFree(void* data) {
  BEGIN("free");
  return data ? remember(free_memory(at(data))) : kSuccess;
}
EXPORT hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  BEGIN("query");
  Lock lock(engine().mutex);
  if (free_bytes) *free_bytes = options().memory_bytes - engine().devices[static_cast<size_t>(current)]->used;
  if (total_bytes) *total_bytes = options().memory_bytes;
  return kSuccess;
}
EXPORT hipHostMalloc(void** data, size_t bytes, unsigned flags) {
  BEGIN("host_alloc");
  NEED(data);
  *data = nullptr;
  return bytes == 0 ? kSuccess : remember(allocate_host(*data, bytes, flags));
}
EXPORT hipHostFree(void* data) {
  BEGIN("free");
  return data ? remember(free_host(data)) : kSuccess;
}
EXPORT hipHostRegister(void* data, size_t bytes, unsigned flags) {
  BEGIN("host_alloc");
  return remember(register_host(data, bytes, flags));
}
EXPORT hipHostUnregister(void* data) {
  BEGIN("free");
  return remember(unregister_host(data));
}
EXPORT hipHostGetDevicePointer(void** device, void* host, unsigned) {
  BEGIN("query");
  NEED(device);
  Lock lock(engine().mutex);
  const Region* region = find_region(at(host));
  if (!region || (region->kind != RegionKind::Host && region->kind != RegionKind::RegisteredHost))
    return remember(kInvalidValue);
  *device = host;
  return kSuccess;
}
EXPORT hipPointerGetAttribute(void* value, int attribute, void* data) {
  BEGIN("query");
  NEED(value);
  Lock lock(engine().mutex);
  const Region* region = find_region(at(data));
  if (!region) return remember(kInvalidValue);
  const bool host = region->kind == RegionKind::Host || region->kind == RegionKind::RegisteredHost;
  switch (attribute) {
    case 2: *static_cast<int*>(value) = host ? 0 : 1; return kSuccess;  // of HIP 5: 0 is the host, 1 a device
    case 3: *static_cast<void**>(value) = data; return kSuccess;
    case 4: *static_cast<void**>(value) = host ? data : nullptr; return kSuccess;
    case 9: *static_cast<int*>(value) = region->device; return kSuccess;
    case 11: *static_cast<void**>(value) = reinterpret_cast<void*>(region->base); return kSuccess;
    case 12: *static_cast<size_t*>(value) = region->bytes; return kSuccess;
    default: return remember(kInvalidValue);
  }
}

// ---- copies and fills

namespace {
Result copy_kind(void* to, const void* from, size_t bytes, int kind, void* stream, bool async) {
  NEED(kind >= 0 && kind <= 4);
  if (bytes == 0) return kSuccess;
  NEED(to && from);
  {
    // The side that is said to be a device's must be one.
    Lock lock(engine().mutex);
    const bool to_device = kind == 1 || kind == 3, from_device = kind == 2 || kind == 3;
    if ((to_device && !is_covered(at(to), bytes)) || (from_device && !is_covered(at(from), bytes)))
      return remember(kInvalidValue);
  }
  return remember(copy(current, at(to), at(from), bytes, stream, async));
}
}  // namespace

EXPORT hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  BEGIN("memcpy");
  return copy_kind(to, from, bytes, kind, stream, true);
}
EXPORT hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  BEGIN("memcpy");
  return copy_kind(to, from, bytes, kind, nullptr, false);
}
EXPORT hipMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes, void* stream) {
  BEGIN("memcpy");
  NEED_DEVICE(to_device);
  NEED_DEVICE(from_device);
  return copy_kind(to, from, bytes, 3, stream, true);
}
EXPORT hipMemsetD8Async(void* to, unsigned char value, size_t count, void* stream) {
  BEGIN("memset");
  return remember(fill(current, at(to), value, 1, count, stream, true));
}
EXPORT hipMemsetD16Async(void* to, unsigned short value, size_t count, void* stream) {
  BEGIN("memset");
  return remember(fill(current, at(to), value, 2, count, stream, true));
}
EXPORT hipMemsetD32Async(void* to, int value, size_t count, void* stream) {
  BEGIN("memset");
  return remember(fill(current, at(to), static_cast<uint32_t>(value), 4, count, stream, true));
}

// ---- streams and events

EXPORT hipStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  BEGIN("stream");
  NEED(stream && flags <= 1);
  return remember(create_stream(current, *stream, flags, priority));
}
EXPORT hipStreamCreateWithFlags(Stream** stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}
EXPORT hipStreamCreate(Stream** stream) { return hipStreamCreateWithPriority(stream, 0, 0); }
EXPORT hipStreamDestroy(Stream* stream) {
  BEGIN("stream");
  return remember(destroy_stream(stream));
}
EXPORT hipStreamSynchronize(void* handle) {
  BEGIN("sync");
  return on_stream(handle, synchronize_stream);
}
EXPORT hipStreamQuery(void* handle) {
  BEGIN("query");
  return on_stream(handle, query_stream);
}
EXPORT hipStreamWaitEvent(void* handle, Event* event, unsigned) {
  BEGIN("event");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return wait_event(lock, stream, event); });
}
EXPORT hipLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  BEGIN("host_function");
  return remember(host_function(current, handle, function, argument));
}
EXPORT hipStreamAddCallback(void* handle, void (*function)(void*, Result, void*), void* argument, unsigned flags) {
  BEGIN("host_function");
  NEED(function && flags == 0);
  struct Call {
    void (*function)(void*, Result, void*);
    void *stream, *argument;
  };
  auto* call = new Call{function, handle, argument};
  const Code code = host_function(
      current, handle,
      [](void* data) {
        auto* made = static_cast<Call*>(data);
        made->function(made->stream, 0, made->argument);
        delete made;
      },
      call);
  if (code) delete call;
  return remember(code);
}
EXPORT hipEventCreateWithFlags(Event** event, unsigned flags) {
  BEGIN("event");
  NEED(event);
  return remember(create_event(current, *event, flags));
}
EXPORT hipEventCreate(Event** event) { return hipEventCreateWithFlags(event, 0); }
EXPORT hipEventDestroy(Event* event) {
  BEGIN("event");
  return remember(destroy_event(event));
}
EXPORT hipEventRecord(Event* event, void* handle) {
  BEGIN("event");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return record_event(lock, event, stream); });
}
EXPORT hipEventQuery(Event* event) {
  BEGIN("query");
  Lock lock(engine().mutex);
  return remember(query_event(lock, event));
}
EXPORT hipEventSynchronize(Event* event) {
  BEGIN("sync");
  Lock lock(engine().mutex);
  return remember(synchronize_event(lock, event));
}
EXPORT hipEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  BEGIN("query");
  NEED(milliseconds);
  Lock lock(engine().mutex);
  return remember(elapsed(lock, start, end, *milliseconds, true));
}

// ---- kernels

EXPORT hipModuleLoadData(Module** module, const void* image) {
  BEGIN("module");
  NEED(module);
  return remember(load_module(current, image, *module));
}
EXPORT hipModuleUnload(Module* module) {
  BEGIN("module");
  return remember(unload_module(module));
}
EXPORT hipModuleGetFunction(Function** function, Module* module, const char* name) {
  BEGIN("query");
  NEED(function);
  return remember(get_function(module, name, *function));
}
EXPORT hipModuleGetGlobal(void** data, size_t* bytes, Module* module, const char* name) {
  BEGIN("query");
  uintptr_t address = 0;
  size_t size = 0;
  if (Code code = get_global(module, name, address, size)) return remember(code);
  if (data) *data = reinterpret_cast<void*>(address);
  if (bytes) *bytes = size;
  return kSuccess;
}
EXPORT hipFuncGetAttribute(int* value, int attribute, Function* function) {
  BEGIN("query");
  NEED(value);
  Lock lock(engine().mutex);
  if (!engine().functions.count(function)) return remember(kInvalidHandle);
  switch (attribute) {
    case 0: *value = function->kernel->max_threads ? function->kernel->max_threads : 1024; break;
    case 1: *value = static_shared_bytes(*function); break;
    case 4: *value = 32; break;
    default: *value = 0;
  }
  return kSuccess;
}
EXPORT hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int block_threads,
                                                          size_t shared_bytes) {
  BEGIN("query");
  NEED(blocks && block_threads > 0);
  Lock lock(engine().mutex);
  if (!engine().functions.count(function)) return remember(kInvalidHandle);
  *blocks = occupancy(*function, block_threads, shared_bytes);
  return kSuccess;
}
EXPORT hipModuleLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared_bytes, void* stream, void** arguments, void** extra) {
  BEGIN("launch");
  return remember(launch(current, function, {{gx, gy, gz}, {bx, by, bz}, shared_bytes}, stream, arguments, extra));
}

// ---- graphs

EXPORT hipStreamBeginCapture(void* handle, int mode) {
  BEGIN("capture");
  NEED(mode >= 0 && mode <= 2);
  return on_stream(
      handle, [&](Lock& lock, Stream* stream) { return begin_capture(lock, stream, static_cast<CaptureMode>(mode)); });
}
EXPORT hipStreamEndCapture(void* handle, Graph** graph) {
  BEGIN("capture");
  NEED(graph);
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return end_capture(lock, stream, *graph); });
}
EXPORT hipStreamGetCaptureInfo(void* handle, int* status, unsigned long long* id) {
  BEGIN("query");
  NEED(status);
  return on_stream(handle, [&](Lock&, Stream* stream) {
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    if (id) *id = stream->capture ? stream->capture->id : 0;
    return kSuccess;
  });
}
EXPORT hipStreamIsCapturing(void* handle, int* status) { return hipStreamGetCaptureInfo(handle, status, nullptr); }
EXPORT hipThreadExchangeStreamCaptureMode(int* mode) {
  BEGIN_WITHOUT_DEVICE("query");
  NEED(mode && *mode >= 0 && *mode <= 2);
  *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return kSuccess;
}
EXPORT hipGraphInstantiate(Graph** exec, Graph* graph, void**, char*, size_t) {
  BEGIN("graph");
  NEED(exec);
  Lock lock(engine().mutex);
  return remember(instantiate(lock, graph, *exec));
}
EXPORT hipGraphLaunch(Graph* exec, void* handle) {
  BEGIN("graph");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return launch_graph(lock, exec, stream); });
}
EXPORT hipGraphDestroy(Graph* graph) {
  BEGIN("graph");
  Lock lock(engine().mutex);
  return remember(destroy_graph(lock, graph));
}
EXPORT hipGraphExecDestroy(Graph* exec) { return hipGraphDestroy(exec); }
EXPORT hipGraphDebugDotPrint(Graph* graph, const char* path, unsigned) {
  BEGIN("graph");
  NEED(path);
  Lock lock(engine().mutex);
  return remember(graph_to_dot(lock, graph, path));
}

int simgpu::current_device_of_thread() { return current; }
