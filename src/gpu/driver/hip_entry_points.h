// The entry points of AMD's HIP runtime that are used, and the few declarations that they need: no toolkit header is read. The list is
// expanded several times, into a table of pointers, the loading of it and the texts about what is missing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula::gpu::hip {

using Result = int;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using GraphNode = struct GraphNodeTag*;
using PhysicalMemory = struct PhysicalMemoryTag*;

struct Uuid {
  uint8_t bytes[16];
};

enum : int {
  kSuccess = 0,
  kErrorNotInitialized = 3,
  kErrorInsufficientDriver = 35,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorNotReady = 600,
  kErrorUnknown = 999,
};

// Numbers of HIP 5 and newer.
enum DeviceAttribute : int {
  kClockRate = 5,
  kIntegrated = 16,
  kMultiGpuBoard = 17,
  kL2CacheSize = 19,
  kMaxGridX = 29,
  kMaxGridY = 30,
  kMaxGridZ = 31,
  kMaxThreadsPerBlock = 56,
  kMaxThreadsPerMultiprocessor = 57,
  kMemoryBusWidth = 59,
  kMemoryClockRate = 60,
  kMultiprocessorCount = 63,
  kPciBusId = 67,
  kPciDeviceId = 68,
  kPciDomainId = 69,
  kRegistersPerBlock = 71,
  kRegistersPerMultiprocessor = 72,
  kSharedMemoryPerBlock = 74,
  kSharedMemoryPerBlockOptin = 75,
  kWarpSize = 87,
  kVirtualMemoryManagement = 89,
  kSharedMemoryPerMultiprocessor = 10002,
};

enum FunctionAttribute : int { kFunctionMaxThreads = 0, kFunctionRegisters = 4 };
enum PointerAttribute : int { kPointerMemoryType = 2, kPointerDevice = 9 };
enum : unsigned { kStreamNonBlocking = 1 };
enum : unsigned { kEventBlockingSync = 1, kEventDisableTiming = 2, kEventInterprocess = 4 };
enum : unsigned { kHostAllocPortable = 1, kHostAllocMapped = 2 };

// The struct of device properties changed with HIP 6. Only the name of the chip is read from it, which lies at these offsets; the
// buffer is larger than any version of the struct.
inline constexpr size_t kChipNameOffsetHip5 = 396, kChipNameOffsetHip6 = 1160;
inline constexpr size_t kChipNameBytes = 256;
struct DevicePropertiesBuffer {
  alignas(16) char bytes[4096] = {};
};

struct MemoryLocation {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {  // of HIP 6 and newer
  int type = 1;                // pinned, the only kind there is
  int handle_type = 0;
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

// X(required or optional, HIP version that brought it, exported name, parameters)
#define FACULA_HIP_ENTRY_POINTS(X)                                                                                     \
  X(required, 5, hipInit, (unsigned flags))                                                                            \
  X(required, 5, hipRuntimeGetVersion, (int* version))                                                                 \
  X(required, 5, hipGetDeviceCount, (int* count))                                                                      \
  X(required, 5, hipSetDevice, (int device))                                                                           \
  X(required, 5, hipDeviceGetName, (char* name, int length, int device))                                               \
  X(required, 5, hipDeviceTotalMem, (size_t * bytes, int device))                                                      \
  X(required, 5, hipDeviceGetAttribute, (int* value, int attribute, int device))                                       \
  X(optional, 5, hipDeviceGetUuid, (Uuid * uuid, int device))                                                          \
  X(optional, 5, hipGetDeviceProperties, (DevicePropertiesBuffer * properties, int device))                            \
  X(optional, 6, hipGetDevicePropertiesR0600, (DevicePropertiesBuffer * properties, int device))                       \
  X(required, 5, hipDeviceSynchronize, ())                                                                             \
  X(required, 5, hipDeviceGetStreamPriorityRange, (int* least, int* greatest))                                         \
  X(required, 5, hipDeviceCanAccessPeer, (int* can, int device, int peer))                                             \
  X(required, 5, hipDeviceEnablePeerAccess, (int peer, unsigned flags))                                                \
  X(required, 5, hipMalloc, (void** data, size_t bytes))                                                               \
  X(required, 5, hipFree, (void* data))                                                                                \
  X(required, 5, hipMemGetInfo, (size_t * free_bytes, size_t * total_bytes))                                           \
  X(required, 5, hipHostMalloc, (void** data, size_t bytes, unsigned flags))                                           \
  X(required, 5, hipHostFree, (void* data))                                                                            \
  X(required, 5, hipHostRegister, (void* data, size_t bytes, unsigned flags))                                          \
  X(required, 5, hipHostUnregister, (void* data))                                                                      \
  X(required, 5, hipHostGetDevicePointer, (void** device, void* host, unsigned flags))                                 \
  X(optional, 5, hipPointerGetAttribute, (void* value, int attribute, void* data))                                     \
  X(optional, 6, hipMemGetAllocationGranularity, (size_t * bytes, const AllocationProperties* properties, int option)) \
  X(optional, 6, hipMemAddressReserve,                                                                                 \
    (void** data, size_t bytes, size_t alignment, void* wish, unsigned long long flags))                               \
  X(optional, 6, hipMemAddressFree, (void* data, size_t bytes))                                                        \
  X(optional, 6, hipMemCreate,                                                                                         \
    (PhysicalMemory * handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags))         \
  X(optional, 6, hipMemRelease, (PhysicalMemory handle))                                                               \
  X(optional, 6, hipMemMap,                                                                                            \
    (void* data, size_t bytes, size_t offset, PhysicalMemory handle, unsigned long long flags))                        \
  X(optional, 6, hipMemUnmap, (void* data, size_t bytes))                                                              \
  X(optional, 6, hipMemSetAccess, (void* data, size_t bytes, const AccessDescription* descriptions, size_t count))     \
  X(required, 5, hipMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, Stream stream))                  \
  X(required, 5, hipMemcpyPeerAsync,                                                                                   \
    (void* to, int to_device, const void* from, int from_device, size_t bytes, Stream stream))                         \
  X(required, 5, hipMemsetD8Async, (void* to, unsigned char value, size_t count, Stream stream))                       \
  X(required, 5, hipMemsetD16Async, (void* to, unsigned short value, size_t count, Stream stream))                     \
  X(required, 5, hipMemsetD32Async, (void* to, int value, size_t count, Stream stream))                                \
  X(required, 5, hipStreamCreateWithPriority, (Stream * stream, unsigned flags, int priority))                         \
  X(required, 5, hipStreamDestroy, (Stream stream))                                                                    \
  X(required, 5, hipStreamSynchronize, (Stream stream))                                                                \
  X(required, 5, hipStreamQuery, (Stream stream))                                                                      \
  X(required, 5, hipStreamWaitEvent, (Stream stream, Event event, unsigned flags))                                     \
  X(optional, 5, hipLaunchHostFunc, (Stream stream, void (*function)(void*), void* argument))                          \
  X(required, 5, hipStreamAddCallback,                                                                                 \
    (Stream stream, void (*function)(Stream stream, Result status, void* argument), void* argument, unsigned flags))   \
  X(required, 5, hipEventCreateWithFlags, (Event * event, unsigned flags))                                             \
  X(required, 5, hipEventDestroy, (Event event))                                                                       \
  X(required, 5, hipEventRecord, (Event event, Stream stream))                                                         \
  X(required, 5, hipEventQuery, (Event event))                                                                         \
  X(required, 5, hipEventSynchronize, (Event event))                                                                   \
  X(required, 5, hipEventElapsedTime, (float* milliseconds, Event start, Event end))                                   \
  X(required, 5, hipModuleLoadData, (Module * module, const void* image))                                              \
  X(required, 5, hipModuleUnload, (Module module))                                                                     \
  X(required, 5, hipModuleGetFunction, (Function * function, Module module, const char* name))                         \
  X(required, 5, hipModuleGetGlobal, (void** data, size_t* bytes, Module module, const char* name))                    \
  X(required, 5, hipFuncGetAttribute, (int* value, int attribute, Function function))                                  \
  X(required, 5, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                                                   \
    (int* blocks, Function function, int block_threads, size_t shared_bytes))                                          \
  X(required, 5, hipModuleLaunchKernel,                                                                                \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,         \
     unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, void** extra))                          \
  X(required, 5, hipStreamBeginCapture, (Stream stream, int mode))                                                     \
  X(optional, 5, hipThreadExchangeStreamCaptureMode, (int* mode))                                                      \
  X(required, 5, hipStreamEndCapture, (Stream stream, Graph * graph))                                                  \
  X(required, 5, hipStreamIsCapturing, (Stream stream, int* status))                                                   \
  X(optional, 5, hipStreamGetCaptureInfo, (Stream stream, int* status, unsigned long long* id))                        \
  X(required, 5, hipGraphInstantiate,                                                                                  \
    (GraphExec * exec, Graph graph, GraphNode * error_node, char* log, size_t log_bytes))                              \
  X(required, 5, hipGraphLaunch, (GraphExec exec, Stream stream))                                                      \
  X(required, 5, hipGraphDestroy, (Graph graph))                                                                       \
  X(required, 5, hipGraphExecDestroy, (GraphExec exec))                                                                \
  X(optional, 5, hipGraphDebugDotPrint, (Graph graph, const char* path, unsigned flags))

struct Table {
#define FACULA_POINTER(need, since, name, parameters) Result(*name) parameters = nullptr;
  FACULA_HIP_ENTRY_POINTS(FACULA_POINTER)
#undef FACULA_POINTER
  // These two return text, not a result.
  const char* (*hipGetErrorName)(Result error) = nullptr;
  const char* (*hipGetErrorString)(Result error) = nullptr;
};

}  // namespace facula::gpu::hip
