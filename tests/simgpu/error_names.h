// Names and sentences of error codes, as both drivers give them.
#pragma once

namespace simgpu {

struct ErrorText {
  int code;
  const char* cuda_name;
  const char* hip_name;
  const char* sentence;
};

inline const ErrorText* find_error(int code) {
  static const ErrorText kTexts[] = {
      {0, "CUDA_SUCCESS", "hipSuccess", "no error"},
      {1, "CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue", "invalid argument"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory", "out of memory"},
      {3, "CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized", "initialization error"},
      {4, "CUDA_ERROR_DEINITIALIZED", "hipErrorDeinitialized", "driver shutting down"},
      {34, "CUDA_ERROR_STUB_LIBRARY", "hipErrorUnknown", "CUDA driver is a stub library"},
      {35, "CUDA_ERROR_UNKNOWN", "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
      {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "hipErrorUnknown", "CUDA-capable device(s) is/are busy or unavailable"},
      {100, "CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice", "no CUDA-capable device is detected"},
      {101, "CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice", "invalid device ordinal"},
      {200, "CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage", "device kernel image is invalid"},
      {201, "CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext", "invalid device context"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu",
       "no kernel image is available for execution on the device"},
      {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "hipErrorUnknown",
       "the provided PTX was compiled with an unsupported toolchain."},
      {301, "CUDA_ERROR_FILE_NOT_FOUND", "hipErrorFileNotFound", "file not found"},
      {304, "CUDA_ERROR_OPERATING_SYSTEM", "hipErrorOperatingSystem",
       "OS call failed or operation not supported on this OS"},
      {400, "CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle", "invalid resource handle"},
      {401, "CUDA_ERROR_ILLEGAL_STATE", "hipErrorIllegalState",
       "the operation cannot be performed in the present state"},
      {500, "CUDA_ERROR_NOT_FOUND", "hipErrorNotFound", "named symbol not found"},
      {600, "CUDA_ERROR_NOT_READY", "hipErrorNotReady", "device not ready"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress", "an illegal memory access was encountered"},
      {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "hipErrorLaunchOutOfResources",
       "too many resources requested for launch"},
      {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "hipErrorPeerAccessAlreadyEnabled",
       "peer access is already enabled"},
      {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
      {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "hipErrorContextIsDestroyed", "context is destroyed"},
      {710, "CUDA_ERROR_ASSERT", "hipErrorAssert", "device-side assert triggered"},
      {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "hipErrorHostMemoryAlreadyRegistered",
       "part or all of the requested memory range is already mapped"},
      {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "hipErrorHostMemoryNotRegistered",
       "pointer does not correspond to a registered memory region"},
      {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "hipErrorUnknown", "an illegal instruction was encountered"},
      {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "hipErrorUnknown", "misaligned address"},
      {719, "CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure", "unspecified launch failure"},
      {800, "CUDA_ERROR_NOT_PERMITTED", "hipErrorNotPermitted", "operation not permitted"},
      {801, "CUDA_ERROR_NOT_SUPPORTED", "hipErrorNotSupported", "operation not supported"},
      {802, "CUDA_ERROR_SYSTEM_NOT_READY", "hipErrorUnknown", "system not yet initialized"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "hipErrorUnknown",
       "system has unsupported display driver / cuda driver combination"},
      {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "hipErrorUnknown",
       "forward compatibility was attempted on non supported HW"},
      {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "hipErrorStreamCaptureUnsupported",
       "operation not permitted when stream is capturing"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "hipErrorStreamCaptureInvalidated",
       "operation failed due to a previous error during capture"},
      {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "hipErrorStreamCaptureMerge",
       "operation would result in a merge of separate capture sequences"},
      {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "hipErrorStreamCaptureUnmatched",
       "capture was not ended in the same stream as it began"},
      {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "hipErrorStreamCaptureUnjoined",
       "capturing stream has unjoined work"},
      {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "hipErrorStreamCaptureIsolation",
       "dependency created on uncaptured work in another stream"},
      {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "hipErrorStreamCaptureImplicit",
       "operation would make the legacy stream depend on a capturing blocking stream"},
      {907, "CUDA_ERROR_CAPTURED_EVENT", "hipErrorCapturedEvent",
       "operation not permitted on an event last recorded in a capturing stream"},
      {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "hipErrorStreamCaptureWrongThread",
       "attempt to terminate a thread-local capture sequence from another thread"},
      {999, "CUDA_ERROR_UNKNOWN", "hipErrorUnknown", "unknown error"},
  };
  for (const ErrorText& text : kTexts)
    if (text.code == code) return &text;
  return nullptr;
}

}  // namespace simgpu
