// The one place where environment variables are read, and the table of all there are. docs/environment.md is its text
// for users.
#pragma once

#include <optional>
#include <string_view>

#include <facula/core/export.h>

namespace facula {

// Variable, its name, what it does.
#define FACULA_FORALL_ENV_VARS(_)                                                                   \
  _(NumThreads, "FACULA_NUM_THREADS", "threads of the CPU at start; default: what OpenMP takes")    \
  _(HostCacheMb, "FACULA_HOST_CACHE_MB", "megabytes of freed host memory kept for reuse")           \
  _(Simd, "FACULA_SIMD", "widest vector instructions used: sse4, avx2, avx512 or neon")             \
  _(LaunchBlocking, "FACULA_LAUNCH_BLOCKING", "1: wait for the GPU after each launch")              \
  _(CudaLaunchBlocking, "CUDA_LAUNCH_BLOCKING", "the same under CUDA's name")                       \
  _(CudaAllocConf, "FACULA_CUDA_ALLOC_CONF", "settings of the GPU's caching allocator")             \
  _(TorchCudaAllocConf, "PYTORCH_CUDA_ALLOC_CONF", "the same under PyTorch's name")                 \
  _(TorchAllocConf, "PYTORCH_ALLOC_CONF", "the same under PyTorch's newer name")                    \
  _(NoCudaCaching, "FACULA_NO_CUDA_MEMORY_CACHING", "1: device memory is not cached")               \
  _(TorchNoCudaCaching, "PYTORCH_NO_CUDA_MEMORY_CACHING", "the same under PyTorch's name")          \
  _(OnednnIsa, "ONEDNN_MAX_CPU_ISA", "oneDNN's own limit, which we do not raise")                   \
  _(DnnlIsa, "DNNL_MAX_CPU_ISA", "the same under its older name")                                   \
  _(Gpu, "FACULA_GPU", "which GPU driver: cuda, hip or none; default: the first that works")        \
  _(GpuLibraryPath, "FACULA_GPU_LIBRARY_PATH", "absolute folders searched first for GPU libraries") \
  _(GpuProbe, "FACULA_GPU_PROBE", "always or never try the driver in a child process first")        \
  _(GpuProbeSeconds, "FACULA_GPU_PROBE_SECONDS", "how long that may take; default 10")              \
  _(CacheDir, "FACULA_CACHE_DIR", "folder of compiled kernels; default ~/.cache/facula")            \
  _(CacheMb, "FACULA_CACHE_MB", "megabytes that it may hold; 0: nothing is kept; default 1024")     \
  _(KernelDump, "FACULA_KERNEL_DUMP", "folder that gets the text of every kernel")                  \
  _(Blas, "FACULA_BLAS", "matrix products on the GPU: vendor (where there is a library) or none")   \
  _(BlasTune, "FACULA_BLAS_TUNE", "1: time the library's algorithms for large products")            \
  _(Dnn, "FACULA_DNN", "convolutions on the GPU: vendor (where there is a library) or none")        \
  _(CudaVisibleDevices, "CUDA_VISIBLE_DEVICES", "the driver's own; read to say why there is none")  \
  _(HipVisibleDevices, "HIP_VISIBLE_DEVICES", "the same for AMD")                                   \
  _(RocrVisibleDevices, "ROCR_VISIBLE_DEVICES", "the same for AMD, one layer below")                \
  _(GpuDeviceOrdinal, "GPU_DEVICE_ORDINAL", "the same for AMD, under its oldest name")              \
  _(NvidiaVisibleDevices, "NVIDIA_VISIBLE_DEVICES", "what a container was given")                   \
  _(NvtxInjection, "NVTX_INJECTION64_PATH", "set by profilers: the library that takes ranges")      \
  _(Home, "HOME", "the user's folder")                                                              \
  _(XdgCacheHome, "XDG_CACHE_HOME", "the user's folder of caches")                                  \
  _(LdLibraryPath, "LD_LIBRARY_PATH", "read to keep libraries of the working directory out")        \
  _(VirtualEnv, "VIRTUAL_ENV", "the active Python environment, where GPU libraries may lie")        \
  _(CondaPrefix, "CONDA_PREFIX", "the same of conda")                                               \
  _(PythonPath, "PYTHONPATH", "folders of Python packages, where GPU libraries may lie")            \
  _(Path, "PATH", "where python3 is, for the same reason")                                          \
  _(Term, "TERM", "the kind of terminal: a dumb one shows no progress bars")                        \
  _(LcAll, "LC_ALL", "whether a terminal shows UTF-8; LC_CTYPE and LANG come after it")             \
  _(LcCtype, "LC_CTYPE", "the same")                                                                \
  _(Lang, "LANG", "the same")

enum class EnvVar {
#define FACULA_ENV_ENUMERATOR(id, name, text) id,
  FACULA_FORALL_ENV_VARS(FACULA_ENV_ENUMERATOR)
#undef FACULA_ENV_ENUMERATOR
};

// The value at the time of the call; nullopt when unset or empty.
FACULA_API std::optional<std::string_view> env(EnvVar var);
// The same for variables of others to which an empty value means something: nullopt when unset only.
FACULA_API std::optional<std::string_view> env_or_empty(EnvVar var);
// The value as a whole number of at least `least`; nullopt when unset. Raises ValueError for other text.
FACULA_API std::optional<long> env_number(EnvVar var, long least);

}  // namespace facula
