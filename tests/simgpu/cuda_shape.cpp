// The CUDA driver's entry points over the engine: `libcuda.so.1`. Names, parameters and numbers are those of the driver.
#include "engine.h"
#include "error_names.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

using namespace simgpu;

using Result = int;
using Pointer = unsigned long long;
#define EXPORT extern "C" __attribute__((visibility("default"))) Result

namespace {

thread_local Device* current = nullptr;

int current_index() { return current ? current->index : -1; }

// For calls that need a context.
Code begin(const char* kind) {
  if (Code code = enter(kind, current_index())) return code;
  return current ? kSuccess : kInvalidContext;
}
#define BEGIN(kind) \
  if (Code code = begin(kind)) return code;
#define BEGIN_WITHOUT_CONTEXT(kind) \
  if (Code code = enter(kind, -1)) return code;
#define NEED(condition) \
  if (!(condition)) return kInvalidValue;

bool is_device(int device) { return device >= 0 && static_cast<size_t>(device) < engine().devices.size(); }
#define NEED_DEVICE(device) \
  if (!is_device(device)) return kInvalidDevice;

// With the lock and the stream at hand.
template <class F>
Result on_stream(void* handle, F f) {
  Lock lock(engine().mutex);
  Stream* stream = find_stream(lock, current_index(), handle);
  if (!stream) return kInvalidHandle;
  return f(lock, stream);
}

uintptr_t at(Pointer p) { return static_cast<uintptr_t>(p); }
uintptr_t at(const void* p) { return reinterpret_cast<uintptr_t>(p); }

bool is_covered_now(uintptr_t address, size_t bytes) {
  Lock lock(engine().mutex);
  return is_covered(address, bytes);
}

int capability() { return std::max(10, atoi(options().chip.c_str() + 3)); }

int attribute_value(int attribute) {
  switch (attribute) {
    case 1: return 1024;  // threads of a block
    case 2:
    case 3: return 1024;        // of a block in x and y
    case 4: return 64;          // in z
    case 5: return 0x7fffffff;  // blocks of a grid in x
    case 6:
    case 7: return 65535;     // in y and z
    case 8: return 48 << 10;  // shared memory of a block
    case 9: return 64 << 10;  // constant memory
    case 10: return options().lanes;
    case 12: return 65536;    // registers of a block
    case 13: return 1980000;  // kHz
    case 14: return 512;      // alignment of textures
    case 15: return 1;        // copies and kernels at once
    case 16: return 8;        // multiprocessors
    case 18: return 0;        // integrated
    case 19: return 1;        // maps host memory
    case 31: return 1;        // kernels at once
    case 33: return 1;        // PCI bus
    case 36: return 2619000;  // memory clock, kHz
    case 37: return 5120;     // bits of the memory bus
    case 38: return 4 << 20;  // second-level cache
    case 39: return 2048;     // threads of a multiprocessor
    case 40: return 3;        // copy engines
    case 41: return 1;        // unified addresses
    case 50: return 0;        // PCI domain
    case 75: return capability() / 10;
    case 76: return capability() % 10;
    case 78: return 1;          // stream priorities
    case 81: return 228 << 10;  // shared memory of a multiprocessor
    case 82: return 65536;      // registers of a multiprocessor
    case 84: return 0;          // board with several GPUs
    case 97: return max_shared_optin();
    case 102: return 1;  // virtual memory
    case 115: return 0;  // memory pools
    default: return 0;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* simgpu_control(const char* command) {
  return control(command);
}

EXPORT cuInit(unsigned flags) {
  NEED(flags == 0);
  return initialize();
}
EXPORT cuDriverGetVersion(int* version) {
  NEED(version);
  *version = forced_version() ? forced_version() : 12040;
  return kSuccess;
}
EXPORT cuGetErrorName(Result error, const char** text) {
  NEED(text);
  const ErrorText* found = find_error(error);
  *text = found ? found->cuda_name : nullptr;
  return found ? kSuccess : kInvalidValue;
}
EXPORT cuGetErrorString(Result error, const char** text) {
  NEED(text);
  const ErrorText* found = find_error(error);
  *text = found ? found->sentence : nullptr;
  return found ? kSuccess : kInvalidValue;
}

// ---- devices

EXPORT cuDeviceGetCount(int* count) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(count);
  *count = static_cast<int>(engine().devices.size());
  return kSuccess;
}
EXPORT cuDeviceGet(int* device, int ordinal) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(device);
  NEED_DEVICE(ordinal);
  *device = ordinal;
  return kSuccess;
}
EXPORT cuDeviceGetName(char* name, int length, int device) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(name && length > 0);
  NEED_DEVICE(device);
  snprintf(name, static_cast<size_t>(length), "Software GPU (CUDA shape)");
  return kSuccess;
}
EXPORT cuDeviceTotalMem_v2(size_t* bytes, int device) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(bytes);
  NEED_DEVICE(device);
  *bytes = options().memory_bytes;
  return kSuccess;
}
EXPORT cuDeviceGetAttribute(int* value, int attribute, int device) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(value && attribute > 0);
  NEED_DEVICE(device);
  *value = attribute == 34 ? device : attribute_value(attribute);
  return kSuccess;
}
EXPORT cuDeviceGetUuid(unsigned char* uuid, int device) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(uuid);
  NEED_DEVICE(device);
  std::memcpy(uuid, "simgpu-cuda-dev", 15);
  uuid[15] = static_cast<unsigned char>('0' + device);
  return kSuccess;
}
EXPORT cuDeviceGetUuid_v2(unsigned char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
EXPORT cuDeviceGetPCIBusId(char* text, int length, int device) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(text && length > 0);
  NEED_DEVICE(device);
  snprintf(text, static_cast<size_t>(length), "0000:01:%02x.0", device);
  return kSuccess;
}

// ---- contexts: the primary one of each device

EXPORT cuDevicePrimaryCtxRetain(Device** context, int device) {
  BEGIN_WITHOUT_CONTEXT("context");
  NEED(context);
  NEED_DEVICE(device);
  *context = engine().devices[static_cast<size_t>(device)];
  ++(*context)->context_count;
  return kSuccess;
}
EXPORT cuDevicePrimaryCtxRelease_v2(int device) {
  BEGIN_WITHOUT_CONTEXT("context");
  NEED_DEVICE(device);
  Device& d = *engine().devices[static_cast<size_t>(device)];
  if (d.context_count == 0) return kInvalidContext;
  --d.context_count;
  return kSuccess;
}
EXPORT cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
EXPORT cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  BEGIN_WITHOUT_CONTEXT("context");
  NEED_DEVICE(device);
  const Device& d = *engine().devices[static_cast<size_t>(device)];
  if (flags) *flags = d.context_flags;
  if (active) *active = d.context_count > 0;
  return kSuccess;
}
EXPORT cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  BEGIN_WITHOUT_CONTEXT("context");
  NEED_DEVICE(device);
  engine().devices[static_cast<size_t>(device)]->context_flags = flags;
  return kSuccess;
}
EXPORT cuCtxSetCurrent(Device* context) {
  BEGIN_WITHOUT_CONTEXT("context");
  auto& devices = engine().devices;
  if (context && std::find(devices.begin(), devices.end(), context) == devices.end()) return kInvalidContext;
  current = context;
  return kSuccess;
}
EXPORT cuCtxGetCurrent(Device** context) {
  BEGIN_WITHOUT_CONTEXT("context");
  NEED(context);
  *context = current;
  return kSuccess;
}
EXPORT cuCtxGetDevice(int* device) {
  BEGIN("context");
  NEED(device);
  *device = current->index;
  return kSuccess;
}
EXPORT cuCtxSynchronize() {
  BEGIN("sync");
  Lock lock(engine().mutex);
  return synchronize_device(lock, current->index);
}
EXPORT cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  BEGIN("query");
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kSuccess;
}
EXPORT cuDeviceCanAccessPeer(int* can, int device, int peer) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(can);
  NEED_DEVICE(device);
  NEED_DEVICE(peer);
  *can = device != peer;
  return kSuccess;
}
EXPORT cuCtxEnablePeerAccess(Device* peer, unsigned flags) {
  BEGIN("peer");
  NEED(flags == 0);
  auto& devices = engine().devices;
  if (std::find(devices.begin(), devices.end(), peer) == devices.end() || peer == current) return kInvalidContext;
  Lock lock(engine().mutex);
  const uint64_t bit = uint64_t{1} << peer->index;
  if (current->peers & bit) return kPeerAccessAlreadyEnabled;
  current->peers |= bit;
  return kSuccess;
}
EXPORT cuCtxDisablePeerAccess(Device* peer) {
  BEGIN("peer");
  NEED(peer);
  Lock lock(engine().mutex);
  const uint64_t bit = uint64_t{1} << peer->index;
  if (!(current->peers & bit)) return kPeerAccessNotEnabled;
  current->peers &= ~bit;
  return kSuccess;
}

// ---- memory

EXPORT cuMemAlloc_v2(Pointer* data, size_t bytes) {
  BEGIN("alloc");
  NEED(data);
  uintptr_t address = 0;
  const Code code = allocate(current->index, address, bytes);
  *data = code ? 0 : address;
  return code;
}
EXPORT cuMemFree_v2(Pointer data) {
  BEGIN("free");
  return data ? free_memory(at(data)) : kSuccess;
}
EXPORT cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  BEGIN("query");
  Lock lock(engine().mutex);
  if (free_bytes) *free_bytes = options().memory_bytes - current->used;
  if (total_bytes) *total_bytes = options().memory_bytes;
  return kSuccess;
}
EXPORT cuMemGetAddressRange_v2(Pointer* base, size_t* bytes, Pointer data) {
  BEGIN("query");
  Lock lock(engine().mutex);
  const Region* region = find_region(at(data));
  if (!region) return kNotFound;
  if (base) *base = region->base;
  if (bytes) *bytes = region->bytes;
  return kSuccess;
}
EXPORT cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  BEGIN("host_alloc");
  NEED(data);
  return allocate_host(*data, bytes, flags);
}
EXPORT cuMemAllocHost_v2(void** data, size_t bytes) { return cuMemHostAlloc(data, bytes, 0); }
EXPORT cuMemFreeHost(void* data) {
  BEGIN("free");
  return free_host(data);
}
EXPORT cuMemHostRegister_v2(void* data, size_t bytes, unsigned flags) {
  BEGIN("host_alloc");
  return register_host(data, bytes, flags);
}
EXPORT cuMemHostUnregister(void* data) {
  BEGIN("free");
  return unregister_host(data);
}
EXPORT cuMemHostGetDevicePointer_v2(Pointer* device, void* host, unsigned flags) {
  BEGIN("query");
  NEED(device && flags == 0);
  Lock lock(engine().mutex);
  const Region* region = find_region(at(host));
  if (!region || (region->kind != RegionKind::Host && region->kind != RegionKind::RegisteredHost)) return kInvalidValue;
  *device = at(host);
  return kSuccess;
}

namespace {
// With the lock held. Unknown addresses give zeros from cuPointerGetAttributes and an error from cuPointerGetAttribute.
bool pointer_attribute(void* value, int attribute, const Region* region, Pointer data) {
  const bool host = region && (region->kind == RegionKind::Host || region->kind == RegionKind::RegisteredHost);
  switch (attribute) {
    case 1:
      *static_cast<void**>(value) = region && !host ? engine().devices[static_cast<size_t>(region->device)] : nullptr;
      break;
    case 2: *static_cast<unsigned*>(value) = !region ? 0u : host ? 1u : 2u; break;
    case 3: *static_cast<Pointer*>(value) = region ? data : 0; break;
    case 4: *static_cast<void**>(value) = host ? reinterpret_cast<void*>(data) : nullptr; break;
    case 8: *static_cast<unsigned*>(value) = 0; break;
    case 9: *static_cast<int*>(value) = region ? region->device : -2; break;
    case 11: *static_cast<Pointer*>(value) = region ? region->base : 0; break;
    case 12: *static_cast<size_t*>(value) = region ? region->bytes : 0; break;
    default: return false;
  }
  return true;
}
}  // namespace

EXPORT cuPointerGetAttributes(unsigned count, int* attributes, void** values, Pointer data) {
  BEGIN("query");
  NEED(attributes && values);
  Lock lock(engine().mutex);
  const Region* region = find_region(at(data));
  for (unsigned i = 0; i < count; ++i)
    if (!pointer_attribute(values[i], attributes[i], region, data)) return kInvalidValue;
  return kSuccess;
}
EXPORT cuPointerGetAttribute(void* value, int attribute, Pointer data) {
  BEGIN("query");
  NEED(value);
  Lock lock(engine().mutex);
  const Region* region = find_region(at(data));
  return region && pointer_attribute(value, attribute, region, data) ? kSuccess : kInvalidValue;
}

// ---- virtual memory

struct AllocationProperties {
  int type, handle_types, location_type, location;
  void* metadata;
  unsigned char flags[8];
};
struct AccessDescription {
  int location_type, location, flags;
};

EXPORT cuMemGetAllocationGranularity(size_t* bytes, const AllocationProperties* properties, int option) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(bytes && properties && (option == 0 || option == 1));
  NEED_DEVICE(properties->location);
  *bytes = kMapGranularity;
  return kSuccess;
}
EXPORT cuMemAddressReserve(Pointer* data, size_t bytes, size_t, Pointer, unsigned long long flags) {
  BEGIN_WITHOUT_CONTEXT("map");
  NEED(data && flags == 0);
  uintptr_t address = 0;
  const Code code = reserve(std::max(0, current_index()), address, bytes);
  *data = address;
  return code;
}
EXPORT cuMemAddressFree(Pointer data, size_t bytes) {
  BEGIN_WITHOUT_CONTEXT("map");
  return unreserve(at(data), bytes);
}
EXPORT cuMemCreate(unsigned long long* handle, size_t bytes, const AllocationProperties* properties,
                   unsigned long long flags) {
  BEGIN_WITHOUT_CONTEXT("alloc");
  NEED(handle && properties && flags == 0 && properties->type == 1 && properties->location_type == 1);
  uint64_t made = 0;
  const Code code = create_physical(made, bytes, properties->location);
  *handle = made;
  return code;
}
EXPORT cuMemRelease(unsigned long long handle) {
  BEGIN_WITHOUT_CONTEXT("free");
  return release_physical(handle);
}
EXPORT cuMemMap(Pointer data, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags) {
  BEGIN_WITHOUT_CONTEXT("map");
  NEED(flags == 0);
  return map_physical(at(data), bytes, offset, handle);
}
EXPORT cuMemUnmap(Pointer data, size_t bytes) {
  BEGIN_WITHOUT_CONTEXT("map");
  return unmap(at(data), bytes);
}
EXPORT cuMemSetAccess(Pointer data, size_t bytes, const AccessDescription* descriptions, size_t count) {
  BEGIN_WITHOUT_CONTEXT("map");
  NEED(descriptions && count > 0);
  for (size_t i = 0; i < count; ++i)
    if (Code code = set_access(at(data), bytes, descriptions[i].location, descriptions[i].flags != 0)) return code;
  return kSuccess;
}

// ---- copies and fills

EXPORT cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
  BEGIN("memcpy");
  NEED(bytes == 0 || is_covered_now(at(to), bytes));
  return copy(current->index, at(to), at(from), bytes, stream, true);
}
EXPORT cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) {
  BEGIN("memcpy");
  NEED(bytes == 0 || is_covered_now(at(from), bytes));
  return copy(current->index, at(to), at(from), bytes, stream, true);
}
EXPORT cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) {
  BEGIN("memcpy");
  NEED(bytes == 0 || (is_covered_now(at(to), bytes) && is_covered_now(at(from), bytes)));
  return copy(current->index, at(to), at(from), bytes, stream, true);
}
EXPORT cuMemcpyAsync(Pointer to, Pointer from, size_t bytes, void* stream) {
  BEGIN("memcpy");
  return copy(current->index, at(to), at(from), bytes, stream, true);
}
EXPORT cuMemcpyPeerAsync(Pointer to, Device* to_context, Pointer from, Device* from_context, size_t bytes,
                         void* stream) {
  BEGIN("memcpy");
  if (!to_context || !from_context) return kInvalidContext;
  NEED(bytes == 0 || (is_covered_now(at(to), bytes) && is_covered_now(at(from), bytes)));
  return copy(current->index, at(to), at(from), bytes, stream, true);
}
EXPORT cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) {
  BEGIN("memcpy");
  NEED(bytes == 0 || is_covered_now(at(to), bytes));
  return copy(current->index, at(to), at(from), bytes, nullptr, false);
}
EXPORT cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) {
  BEGIN("memcpy");
  NEED(bytes == 0 || is_covered_now(at(from), bytes));
  return copy(current->index, at(to), at(from), bytes, nullptr, false);
}
EXPORT cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr);
}
EXPORT cuMemcpy(Pointer to, Pointer from, size_t bytes) {
  BEGIN("memcpy");
  return copy(current->index, at(to), at(from), bytes, nullptr, false);
}
EXPORT cuMemsetD8Async(Pointer to, unsigned char value, size_t count, void* stream) {
  BEGIN("memset");
  return fill(current->index, at(to), value, 1, count, stream, true);
}
EXPORT cuMemsetD16Async(Pointer to, unsigned short value, size_t count, void* stream) {
  BEGIN("memset");
  return fill(current->index, at(to), value, 2, count, stream, true);
}
EXPORT cuMemsetD32Async(Pointer to, unsigned value, size_t count, void* stream) {
  BEGIN("memset");
  return fill(current->index, at(to), value, 4, count, stream, true);
}
EXPORT cuMemsetD8_v2(Pointer to, unsigned char value, size_t count) {
  return cuMemsetD8Async(to, value, count, nullptr);
}
EXPORT cuMemsetD32_v2(Pointer to, unsigned value, size_t count) { return cuMemsetD32Async(to, value, count, nullptr); }

// ---- streams and events

EXPORT cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  BEGIN("stream");
  NEED(stream && flags <= 1);
  return create_stream(current->index, *stream, flags, priority);
}
EXPORT cuStreamCreate(Stream** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
EXPORT cuStreamDestroy_v2(Stream* stream) {
  BEGIN("stream");
  return destroy_stream(stream);
}
EXPORT cuStreamGetPriority(void* handle, int* priority) {
  BEGIN("query");
  NEED(priority);
  return on_stream(handle, [&](Lock&, Stream* stream) {
    *priority = stream->priority;
    return kSuccess;
  });
}
EXPORT cuStreamGetFlags(void* handle, unsigned* flags) {
  BEGIN("query");
  NEED(flags);
  return on_stream(handle, [&](Lock&, Stream* stream) {
    *flags = stream->flags;
    return kSuccess;
  });
}
EXPORT cuStreamSynchronize(void* handle) {
  BEGIN("sync");
  return on_stream(handle, synchronize_stream);
}
EXPORT cuStreamQuery(void* handle) {
  BEGIN("query");
  return on_stream(handle, query_stream);
}
EXPORT cuStreamWaitEvent(void* handle, Event* event, unsigned) {
  BEGIN("event");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return wait_event(lock, stream, event); });
}
EXPORT cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
  BEGIN("host_function");
  return host_function(current->index, handle, function, argument);
}
EXPORT cuEventCreate(Event** event, unsigned flags) {
  BEGIN("event");
  NEED(event && flags <= 7 && ((flags & 4) == 0 || (flags & 2)));
  return create_event(current->index, *event, flags);
}
EXPORT cuEventDestroy_v2(Event* event) {
  BEGIN("event");
  return destroy_event(event);
}
EXPORT cuEventRecord(Event* event, void* handle) {
  BEGIN("event");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return record_event(lock, event, stream); });
}
EXPORT cuEventQuery(Event* event) {
  BEGIN("query");
  Lock lock(engine().mutex);
  return query_event(lock, event);
}
EXPORT cuEventSynchronize(Event* event) {
  BEGIN("sync");
  Lock lock(engine().mutex);
  return synchronize_event(lock, event);
}
EXPORT cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  BEGIN("query");
  NEED(milliseconds);
  Lock lock(engine().mutex);
  return elapsed(lock, start, end, *milliseconds, true);
}

// ---- kernels

EXPORT cuModuleLoadData(Module** module, const void* image) {
  BEGIN("module");
  NEED(module);
  return load_module(current->index, image, *module);
}
EXPORT cuModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}
EXPORT cuModuleUnload(Module* module) {
  BEGIN("module");
  return unload_module(module);
}
EXPORT cuModuleGetFunction(Function** function, Module* module, const char* name) {
  BEGIN("query");
  NEED(function);
  return get_function(module, name, *function);
}
EXPORT cuModuleGetGlobal_v2(Pointer* data, size_t* bytes, Module* module, const char* name) {
  BEGIN("query");
  uintptr_t address = 0;
  size_t size = 0;
  if (Code code = get_global(module, name, address, size)) return code;
  if (data) *data = address;
  if (bytes) *bytes = size;
  return kSuccess;
}
EXPORT cuFuncSetAttribute(Function* function, int attribute, int value) {
  BEGIN("query");
  Lock lock(engine().mutex);
  if (!engine().functions.count(function)) return kInvalidHandle;
  if (attribute == 9) return kSuccess;  // how the cache is shared: a hint
  if (attribute != 8 || value < 0 || value + static_shared_bytes(*function) > max_shared_optin()) return kInvalidValue;
  function->max_dynamic_shared = value;
  return kSuccess;
}
EXPORT cuFuncGetAttribute(int* value, int attribute, Function* function) {
  BEGIN("query");
  NEED(value);
  Lock lock(engine().mutex);
  if (!engine().functions.count(function)) return kInvalidHandle;
  switch (attribute) {
    case 0: *value = function->kernel->max_threads ? function->kernel->max_threads : 1024; break;
    case 1: *value = static_shared_bytes(*function); break;
    case 2:
    case 3: *value = 0; break;
    case 4: *value = 32; break;
    case 5:
    case 6: *value = capability(); break;
    case 8: *value = function->max_dynamic_shared; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}
EXPORT cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int block_threads,
                                                   size_t shared_bytes) {
  BEGIN("query");
  NEED(blocks && block_threads > 0);
  Lock lock(engine().mutex);
  if (!engine().functions.count(function)) return kInvalidHandle;
  *blocks = occupancy(*function, block_threads, shared_bytes);
  return kSuccess;
}
EXPORT cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared_bytes, void* stream, void** arguments, void** extra) {
  BEGIN("launch");
  return launch(current->index, function, {{gx, gy, gz}, {bx, by, bz}, shared_bytes}, stream, arguments, extra);
}

// ---- graphs

EXPORT cuStreamBeginCapture_v2(void* handle, int mode) {
  BEGIN("capture");
  NEED(mode >= 0 && mode <= 2);
  return on_stream(
      handle, [&](Lock& lock, Stream* stream) { return begin_capture(lock, stream, static_cast<CaptureMode>(mode)); });
}
EXPORT cuStreamEndCapture(void* handle, Graph** graph) {
  BEGIN("capture");
  NEED(graph);
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return end_capture(lock, stream, *graph); });
}
EXPORT cuStreamGetCaptureInfo(void* handle, int* status, unsigned long long* id) {
  BEGIN("query");
  NEED(status);
  return on_stream(handle, [&](Lock&, Stream* stream) {
    if (stream == &stream->device->default_stream)
      for (Stream* other : stream->device->streams)
        if (other->blocking && other->capture) return kCaptureImplicit;
    *status = !stream->capture ? 0 : stream->capture->broken ? 2 : 1;
    if (id) *id = stream->capture ? stream->capture->id : 0;
    return kSuccess;
  });
}
EXPORT cuStreamIsCapturing(void* handle, int* status) { return cuStreamGetCaptureInfo(handle, status, nullptr); }
EXPORT cuStreamGetCaptureInfo_v2(void* handle, int* status, unsigned long long* id, Graph** graph,
                                 const void*** dependencies, size_t* count) {
  if (graph) *graph = nullptr;
  if (dependencies) *dependencies = nullptr;
  if (count) *count = 0;
  return cuStreamGetCaptureInfo(handle, status, id);
}
EXPORT cuThreadExchangeStreamCaptureMode(int* mode) {
  BEGIN_WITHOUT_CONTEXT("query");
  NEED(mode && *mode >= 0 && *mode <= 2);
  *mode = static_cast<int>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return kSuccess;
}
EXPORT cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long) {
  BEGIN("graph");
  NEED(exec);
  Lock lock(engine().mutex);
  return instantiate(lock, graph, *exec);
}
EXPORT cuGraphInstantiate_v2(Graph** exec, Graph* graph, void**, char*, size_t) {
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
EXPORT cuGraphLaunch(Graph* exec, void* handle) {
  BEGIN("graph");
  return on_stream(handle, [&](Lock& lock, Stream* stream) { return launch_graph(lock, exec, stream); });
}
EXPORT cuGraphDestroy(Graph* graph) {
  BEGIN("graph");
  Lock lock(engine().mutex);
  return destroy_graph(lock, graph);
}
EXPORT cuGraphExecDestroy(Graph* exec) { return cuGraphDestroy(exec); }
EXPORT cuGraphGetNodes(Graph* graph, void** nodes, size_t* count) {
  BEGIN("query");
  NEED(count && !nodes);
  Lock lock(engine().mutex);
  if (!engine().graphs.count(graph)) return kInvalidValue;
  *count = graph->nodes.size();
  return kSuccess;
}
EXPORT cuGraphDebugDotPrint(Graph* graph, const char* path, unsigned) {
  BEGIN("graph");
  NEED(path);
  Lock lock(engine().mutex);
  return graph_to_dot(lock, graph, path);
}

EXPORT cuGetProcAddress(const char* name, void** function, int, unsigned long long) {
  NEED(name && function);
  // The newest version of a name that is here.
  for (const char* suffix : {"_v2", ""})
    if ((*function = dlsym(RTLD_DEFAULT, (std::string(name) + suffix).c_str()))) return kSuccess;
  return kNotFound;
}

int simgpu::current_device_of_thread() { return current_index(); }
