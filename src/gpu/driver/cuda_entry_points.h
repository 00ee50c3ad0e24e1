// The entry points of the CUDA driver that are used, and the few declarations that they need: no toolkit header is read. The list is
// expanded several times, into a table of pointers, the loading of it and the texts about what is missing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula::gpu::cuda {

using Result = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using GraphNode = struct GraphNodeTag*;

struct Uuid {
  uint8_t bytes[16];
};

enum : int {
  kSuccess = 0,
  kErrorNotInitialized = 3,
  kErrorStubLibrary = 34,
  kErrorNoDevice = 100,
  kErrorOperatingSystem = 304,
  kErrorNotReady = 600,
  kErrorSystemNotReady = 802,
  kErrorDriverMismatch = 803,
  kErrorCompatNotSupported = 804,
  kErrorUnknown = 999,
};

enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxGridX = 5,
  kMaxGridY = 6,
  kMaxGridZ = 7,
  kSharedMemoryPerBlock = 8,
  kWarpSize = 10,
  kClockRate = 13,
  kMultiprocessorCount = 16,
  kIntegrated = 18,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kMemoryClockRate = 36,
  kMemoryBusWidth = 37,
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kPciDomainId = 50,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedMemoryPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kMultiGpuBoard = 84,
  kSharedMemoryPerBlockOptin = 97,
  kVirtualMemoryManagement = 102,
};

enum FunctionAttribute : int { kFunctionMaxThreads = 0, kFunctionRegisters = 4, kFunctionMaxDynamicShared = 8 };
enum PointerAttribute : int { kPointerMemoryType = 2, kPointerDevice = 9 };
enum : unsigned { kMemoryTypeHost = 1, kMemoryTypeDevice = 2 };
enum : unsigned { kStreamNonBlocking = 1 };
enum : unsigned { kEventBlockingSync = 1, kEventDisableTiming = 2, kEventInterprocess = 4 };
enum : unsigned { kHostAllocPortable = 1, kHostAllocMapped = 2 };

struct MemoryLocation {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // pinned, the only kind there is
  int handle_types = 0;
  MemoryLocation location;
  void* win32_metadata = nullptr;
  unsigned char compression = 0, rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
static_assert(sizeof(AllocationProperties) == 32);
struct AccessDescription {
  MemoryLocation location;
  int flags = 3;  // read and write
};

// X(required or optional, CUDA version that brought it, exported name, parameters)
#define FACULA_CUDA_ENTRY_POINTS(X)                                                                                    \
  X(required, 2000, cuInit, (unsigned flags))                                                                          \
  X(required, 2020, cuDriverGetVersion, (int* version))                                                                \
  X(required, 6000, cuGetErrorName, (Result error, const char** text))                                                 \
  X(required, 6000, cuGetErrorString, (Result error, const char** text))                                               \
  X(required, 2000, cuDeviceGetCount, (int* count))                                                                    \
  X(required, 2000, cuDeviceGet, (int* device, int ordinal))                                                           \
  X(required, 2000, cuDeviceGetName, (char* name, int length, int device))                                             \
  X(required, 3020, cuDeviceTotalMem_v2, (size_t * bytes, int device))                                                 \
  X(required, 2000, cuDeviceGetAttribute, (int* value, int attribute, int device))                                     \
  X(optional, 9020, cuDeviceGetUuid, (Uuid * uuid, int device))                                                        \
  X(optional, 11040, cuDeviceGetUuid_v2, (Uuid * uuid, int device))                                                    \
  X(required, 7000, cuDevicePrimaryCtxRetain, (Context * context, int device))                                         \
  X(required, 4000, cuCtxSetCurrent, (Context context))                                                                \
  X(required, 2000, cuCtxSynchronize, ())                                                                              \
  X(required, 5050, cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                          \
  X(required, 4000, cuDeviceCanAccessPeer, (int* can, int device, int peer))                                           \
  X(required, 4000, cuCtxEnablePeerAccess, (Context peer, unsigned flags))                                             \
  X(required, 3020, cuMemAlloc_v2, (DevicePointer * data, size_t bytes))                                               \
  X(required, 3020, cuMemFree_v2, (DevicePointer data))                                                                \
  X(required, 3020, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                      \
  X(required, 2020, cuMemHostAlloc, (void** data, size_t bytes, unsigned flags))                                       \
  X(required, 2000, cuMemFreeHost, (void* data))                                                                       \
  X(required, 6050, cuMemHostRegister_v2, (void* data, size_t bytes, unsigned flags))                                  \
  X(required, 4000, cuMemHostUnregister, (void* data))                                                                 \
  X(required, 3020, cuMemHostGetDevicePointer_v2, (DevicePointer * device, void* host, unsigned flags))                \
  X(required, 7000, cuPointerGetAttributes, (unsigned count, int* attributes, void** values, DevicePointer data))      \
  X(optional, 10020, cuMemGetAllocationGranularity,                                                                    \
    (size_t * bytes, const AllocationProperties* properties, int option))                                              \
  X(optional, 10020, cuMemAddressReserve,                                                                              \
    (DevicePointer * data, size_t bytes, size_t alignment, DevicePointer wish, unsigned long long flags))              \
  X(optional, 10020, cuMemAddressFree, (DevicePointer data, size_t bytes))                                             \
  X(optional, 10020, cuMemCreate,                                                                                      \
    (unsigned long long* handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags))      \
  X(optional, 10020, cuMemRelease, (unsigned long long handle))                                                        \
  X(optional, 10020, cuMemMap,                                                                                         \
    (DevicePointer data, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags))            \
  X(optional, 10020, cuMemUnmap, (DevicePointer data, size_t bytes))                                                   \
  X(optional, 10020, cuMemSetAccess,                                                                                   \
    (DevicePointer data, size_t bytes, const AccessDescription* descriptions, size_t count))                           \
  X(required, 3020, cuMemcpyHtoDAsync_v2, (DevicePointer to, const void* from, size_t bytes, Stream stream))           \
  X(required, 3020, cuMemcpyDtoHAsync_v2, (void* to, DevicePointer from, size_t bytes, Stream stream))                 \
  X(required, 3020, cuMemcpyDtoDAsync_v2, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))         \
  X(required, 4000, cuMemcpyAsync, (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))                \
  X(required, 4000, cuMemcpyPeerAsync,                                                                                 \
    (DevicePointer to, Context to_context, DevicePointer from, Context from_context, size_t bytes, Stream stream))     \
  X(required, 3020, cuMemsetD8Async, (DevicePointer to, unsigned char value, size_t count, Stream stream))             \
  X(required, 3020, cuMemsetD16Async, (DevicePointer to, unsigned short value, size_t count, Stream stream))           \
  X(required, 3020, cuMemsetD32Async, (DevicePointer to, unsigned value, size_t count, Stream stream))                 \
  X(required, 5050, cuStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                       \
  X(required, 4000, cuStreamDestroy_v2, (Stream stream))                                                               \
  X(required, 2000, cuStreamSynchronize, (Stream stream))                                                              \
  X(required, 2000, cuStreamQuery, (Stream stream))                                                                    \
  X(required, 3020, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))                                   \
  X(required, 10000, cuLaunchHostFunc, (Stream stream, void (*function)(void*), void* argument))                       \
  X(required, 2000, cuEventCreate, (Event * event, unsigned flags))                                                    \
  X(required, 4000, cuEventDestroy_v2, (Event event))                                                                  \
  X(required, 2000, cuEventRecord, (Event event, Stream stream))                                                       \
  X(required, 2000, cuEventQuery, (Event event))                                                                       \
  X(required, 2000, cuEventSynchronize, (Event event))                                                                 \
  X(required, 2000, cuEventElapsedTime, (float* milliseconds, Event start, Event end))                                 \
  X(required, 2000, cuModuleLoadData, (Module * module, const void* image))                                            \
  X(required, 2000, cuModuleUnload, (Module module))                                                                   \
  X(required, 2000, cuModuleGetFunction, (Function * function, Module module, const char* name))                       \
  X(required, 3020, cuModuleGetGlobal_v2, (DevicePointer * data, size_t * bytes, Module module, const char* name))     \
  X(required, 9000, cuFuncSetAttribute, (Function function, int attribute, int value))                                 \
  X(required, 2020, cuFuncGetAttribute, (int* value, int attribute, Function function))                                \
  X(required, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                       \
    (int* blocks, Function function, int block_threads, size_t shared_bytes))                                          \
  X(required, 4000, cuLaunchKernel,                                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, void** extra))                          \
  X(required, 10010, cuStreamBeginCapture_v2, (Stream stream, int mode))                                               \
  X(optional, 10010, cuThreadExchangeStreamCaptureMode, (int* mode))                                                   \
  X(required, 10000, cuStreamEndCapture, (Stream stream, Graph * graph))                                               \
  X(required, 10000, cuStreamIsCapturing, (Stream stream, int* status))                                                \
  X(optional, 10010, cuStreamGetCaptureInfo, (Stream stream, int* status, unsigned long long* id))                     \
  X(optional, 11030, cuStreamGetCaptureInfo_v2,                                                                        \
    (Stream stream, int* status, unsigned long long* id, Graph* graph, const GraphNode** dependencies, size_t* count)) \
  X(optional, 11000, cuGraphInstantiate_v2,                                                                            \
    (GraphExec * exec, Graph graph, GraphNode * error_node, char* log, size_t log_bytes))                              \
  X(optional, 11040, cuGraphInstantiateWithFlags, (GraphExec * exec, Graph graph, unsigned long long flags))           \
  X(required, 10000, cuGraphLaunch, (GraphExec exec, Stream stream))                                                   \
  X(required, 10000, cuGraphDestroy, (Graph graph))                                                                    \
  X(required, 10000, cuGraphExecDestroy, (GraphExec exec))                                                             \
  X(optional, 11030, cuGraphDebugDotPrint, (Graph graph, const char* path, unsigned flags))

struct Table {
#define FACULA_POINTER(need, since, name, parameters) Result(*name) parameters = nullptr;
  FACULA_CUDA_ENTRY_POINTS(FACULA_POINTER)
#undef FACULA_POINTER
};

}  // namespace facula::gpu::cuda
