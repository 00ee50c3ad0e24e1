// The entry points that the tests of the software GPU call, the same for both shapes: the raw C functions of the libraries, loaded by
// path. Names are the drivers' without their prefixes.
#pragma once

#include "gpu/driver/cuda_entry_points.h"
#include "gpu/driver/hip_entry_points.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace simgpu_tests {

namespace cuda = facula::gpu::cuda;
namespace hip = facula::gpu::hip;

struct Header {
  std::string name, text;
};

struct Compiled {
  int code = 0;
  std::string log;
  std::vector<char> binary;
};

class Gpu {
 public:
  virtual ~Gpu() = default;
  bool is_hip = false;
  int lanes = 32;
  const char* (*control)(const char*) = nullptr;
  const char* (*compiler_control)(const char*) = nullptr;

  virtual int init() = 0;
  virtual int use(int device) = 0;
  virtual int count(int* n) = 0;
  virtual int synchronize() = 0;
  virtual int enable_peer(int peer) = 0;
  virtual int alloc(void** p, size_t bytes) = 0;
  virtual int free(void* p) = 0;
  virtual int info(size_t* free_bytes, size_t* total) = 0;
  virtual int host_alloc(void** p, size_t bytes) = 0;
  virtual int host_free(void* p) = 0;
  virtual int host_register(void* p, size_t bytes) = 0;
  virtual int host_unregister(void* p) = 0;
  virtual int to_device(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual int to_host(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual int on_device(void* to, const void* from, size_t bytes, void* stream) = 0;
  virtual int fill32(void* to, uint32_t value, size_t count, void* stream) = 0;
  virtual int stream(void** s, unsigned flags) = 0;
  virtual int stream_free(void* s) = 0;
  virtual int stream_sync(void* s) = 0;
  virtual int stream_query(void* s) = 0;
  virtual int stream_wait(void* s, void* event) = 0;
  virtual int host_function(void* s, void (*f)(void*), void* argument) = 0;
  virtual int event(void** e, unsigned flags) = 0;
  virtual int event_free(void* e) = 0;
  virtual int record(void* e, void* s) = 0;
  virtual int event_query(void* e) = 0;
  virtual int event_sync(void* e) = 0;
  virtual int elapsed(float* ms, void* a, void* b) = 0;
  virtual int load(void** module, const void* image) = 0;
  virtual int unload(void* module) = 0;
  virtual int function(void** f, void* module, const char* name) = 0;
  virtual int global(void** p, size_t* bytes, void* module, const char* name) = 0;
  virtual int launch(void* f, unsigned grid, unsigned block, unsigned shared, void* s, void** arguments) = 0;
  virtual int begin_capture(void* s, int mode) = 0;
  virtual int end_capture(void* s, void** graph) = 0;
  virtual int capture_info(void* s, int* status, unsigned long long* id) = 0;
  virtual int instantiate(void** exec, void* graph) = 0;
  virtual int launch_graph(void* exec, void* s) = 0;
  virtual int graph_free(void* graph) = 0;
  virtual int exec_free(void* exec) = 0;
  virtual Compiled compile(const std::string& source, const std::vector<Header>& headers = {},
                           std::string chip = "") = 0;
};

inline void* open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return library;
}

// The run-time compilers differ in a prefix only.
struct Rtc {
  using Program = struct ProgramTag*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*size)(Program, size_t*) = nullptr;
  int (*binary)(Program, char*) = nullptr;

  void load(void* library, const std::string& prefix, const std::string& code) {
    const auto get = [&](auto& pointer, const std::string& name) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(library, (prefix + name).c_str()));
      if (!pointer) throw std::runtime_error("no " + prefix + name);
    };
    get(create, "CreateProgram");
    get(destroy, "DestroyProgram");
    get(compile, "CompileProgram");
    get(log_size, "GetProgramLogSize");
    get(log, "GetProgramLog");
    get(size, "Get" + code + "Size");
    get(binary, "Get" + code);
  }
  Compiled run(const std::string& source, const std::vector<Header>& headers, const std::string& chip) const {
    Compiled result;
    std::vector<const char*> texts, names;
    for (const Header& header : headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    Program program = nullptr;
    result.code =
        create(&program, source.c_str(), "test.cu", static_cast<int>(headers.size()), texts.data(), names.data());
    if (result.code) return result;
    const std::string option = "--gpu-architecture=" + chip;
    const char* options[] = {option.c_str()};
    result.code = compile(program, 1, options);
    size_t bytes = 0;
    log_size(program, &bytes);
    result.log.resize(bytes);
    log(program, result.log.data());
    if (result.code == 0) {
      size(program, &bytes);
      result.binary.resize(bytes);
      binary(program, result.binary.data());
    }
    destroy(&program);
    return result;
  }
};

template <class F>
void load_symbol(void* library, F& pointer, const char* name) {
  pointer = reinterpret_cast<F>(dlsym(library, name));
}

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(const std::string& folder) {
    void* library = open_library(folder + "/libcuda.so.1");
    void* compiler = open_library(folder + "/libnvrtc.so.12");
#define SIMGPU_LOAD(need, since, name, parameters) \
  load_symbol(library, t.name, #name);             \
  if (!t.name) missing.push_back(#name);
    FACULA_CUDA_ENTRY_POINTS(SIMGPU_LOAD)
#undef SIMGPU_LOAD
    load_symbol(library, control, "simgpu_control");
    load_symbol(compiler, compiler_control, "simgpu_control");
    rtc.load(compiler, "nvrtc", "CUBIN");
  }
  cuda::Table t;
  std::vector<std::string> missing;
  Rtc rtc;

  static cuda::Stream st(void* s) { return static_cast<cuda::Stream>(s); }
  static cuda::Event ev(void* e) { return static_cast<cuda::Event>(e); }
  static unsigned long long at(const void* p) { return reinterpret_cast<unsigned long long>(p); }
  template <class T>
  static T* as(void** p) {
    return reinterpret_cast<T*>(p);
  }

  int init() override { return t.cuInit(0); }
  int use(int device) override {
    cuda::Context context = nullptr;
    if (int code = t.cuDevicePrimaryCtxRetain(&context, device)) return code;
    return t.cuCtxSetCurrent(context);
  }
  int count(int* n) override { return t.cuDeviceGetCount(n); }
  int synchronize() override { return t.cuCtxSynchronize(); }
  int enable_peer(int peer) override {
    cuda::Context context = nullptr;
    if (int code = t.cuDevicePrimaryCtxRetain(&context, peer)) return code;
    return t.cuCtxEnablePeerAccess(context, 0);
  }
  int alloc(void** p, size_t bytes) override { return t.cuMemAlloc_v2(as<unsigned long long>(p), bytes); }
  int free(void* p) override { return t.cuMemFree_v2(at(p)); }
  int info(size_t* f, size_t* total) override { return t.cuMemGetInfo_v2(f, total); }
  int host_alloc(void** p, size_t bytes) override { return t.cuMemHostAlloc(p, bytes, 0); }
  int host_free(void* p) override { return t.cuMemFreeHost(p); }
  int host_register(void* p, size_t bytes) override { return t.cuMemHostRegister_v2(p, bytes, 0); }
  int host_unregister(void* p) override { return t.cuMemHostUnregister(p); }
  int to_device(void* to, const void* from, size_t n, void* s) override {
    return t.cuMemcpyHtoDAsync_v2(at(to), from, n, st(s));
  }
  int to_host(void* to, const void* from, size_t n, void* s) override {
    return t.cuMemcpyDtoHAsync_v2(to, at(from), n, st(s));
  }
  int on_device(void* to, const void* from, size_t n, void* s) override {
    return t.cuMemcpyDtoDAsync_v2(at(to), at(from), n, st(s));
  }
  int fill32(void* to, uint32_t v, size_t n, void* s) override { return t.cuMemsetD32Async(at(to), v, n, st(s)); }
  int stream(void** s, unsigned flags) override { return t.cuStreamCreateWithPriority(as<cuda::Stream>(s), flags, 0); }
  int stream_free(void* s) override { return t.cuStreamDestroy_v2(st(s)); }
  int stream_sync(void* s) override { return t.cuStreamSynchronize(st(s)); }
  int stream_query(void* s) override { return t.cuStreamQuery(st(s)); }
  int stream_wait(void* s, void* e) override { return t.cuStreamWaitEvent(st(s), ev(e), 0); }
  int host_function(void* s, void (*f)(void*), void* a) override { return t.cuLaunchHostFunc(st(s), f, a); }
  int event(void** e, unsigned flags) override { return t.cuEventCreate(as<cuda::Event>(e), flags); }
  int event_free(void* e) override { return t.cuEventDestroy_v2(ev(e)); }
  int record(void* e, void* s) override { return t.cuEventRecord(ev(e), st(s)); }
  int event_query(void* e) override { return t.cuEventQuery(ev(e)); }
  int event_sync(void* e) override { return t.cuEventSynchronize(ev(e)); }
  int elapsed(float* ms, void* a, void* b) override { return t.cuEventElapsedTime(ms, ev(a), ev(b)); }
  int load(void** module, const void* image) override { return t.cuModuleLoadData(as<cuda::Module>(module), image); }
  int unload(void* module) override { return t.cuModuleUnload(static_cast<cuda::Module>(module)); }
  int function(void** f, void* module, const char* name) override {
    return t.cuModuleGetFunction(as<cuda::Function>(f), static_cast<cuda::Module>(module), name);
  }
  int global(void** p, size_t* bytes, void* module, const char* name) override {
    return t.cuModuleGetGlobal_v2(as<unsigned long long>(p), bytes, static_cast<cuda::Module>(module), name);
  }
  int launch(void* f, unsigned grid, unsigned block, unsigned shared, void* s, void** arguments) override {
    return t.cuLaunchKernel(static_cast<cuda::Function>(f), grid, 1, 1, block, 1, 1, shared, st(s), arguments, nullptr);
  }
  int begin_capture(void* s, int mode) override { return t.cuStreamBeginCapture_v2(st(s), mode); }
  int end_capture(void* s, void** g) override { return t.cuStreamEndCapture(st(s), as<cuda::Graph>(g)); }
  int capture_info(void* s, int* status, unsigned long long* id) override {
    return t.cuStreamGetCaptureInfo_v2(st(s), status, id, nullptr, nullptr, nullptr);
  }
  int instantiate(void** exec, void* g) override {
    return t.cuGraphInstantiateWithFlags(as<cuda::GraphExec>(exec), static_cast<cuda::Graph>(g), 0);
  }
  int launch_graph(void* exec, void* s) override { return t.cuGraphLaunch(static_cast<cuda::GraphExec>(exec), st(s)); }
  int graph_free(void* g) override { return t.cuGraphDestroy(static_cast<cuda::Graph>(g)); }
  int exec_free(void* g) override { return t.cuGraphExecDestroy(static_cast<cuda::GraphExec>(g)); }
  Compiled compile(const std::string& source, const std::vector<Header>& headers, std::string chip) override {
    return rtc.run(source, headers, chip.empty() ? "sm_90" : chip);
  }
};

class HipGpu final : public Gpu {
 public:
  explicit HipGpu(const std::string& folder) {
    is_hip = true;
    lanes = 64;
    void* library = open_library(folder + "/libamdhip64.so.5");
    void* compiler = open_library(folder + "/libhiprtc.so.5");
#define SIMGPU_LOAD(need, since, name, parameters) \
  load_symbol(library, t.name, #name);             \
  if (!t.name && (since) < 6) missing.push_back(#name);
    FACULA_HIP_ENTRY_POINTS(SIMGPU_LOAD)
#undef SIMGPU_LOAD
    load_symbol(library, t.hipGetErrorName, "hipGetErrorName");
    load_symbol(library, t.hipGetErrorString, "hipGetErrorString");
    load_symbol(library, control, "simgpu_control");
    load_symbol(compiler, compiler_control, "simgpu_control");
    rtc.load(compiler, "hiprtc", "Code");
  }
  hip::Table t;
  std::vector<std::string> missing;
  Rtc rtc;

  static hip::Stream st(void* s) { return static_cast<hip::Stream>(s); }
  static hip::Event ev(void* e) { return static_cast<hip::Event>(e); }
  template <class T>
  static T* as(void** p) {
    return reinterpret_cast<T*>(p);
  }

  int init() override { return t.hipInit(0); }
  int use(int device) override { return t.hipSetDevice(device); }
  int count(int* n) override { return t.hipGetDeviceCount(n); }
  int synchronize() override { return t.hipDeviceSynchronize(); }
  int enable_peer(int peer) override { return t.hipDeviceEnablePeerAccess(peer, 0); }
  int alloc(void** p, size_t bytes) override { return t.hipMalloc(p, bytes); }
  int free(void* p) override { return t.hipFree(p); }
  int info(size_t* f, size_t* total) override { return t.hipMemGetInfo(f, total); }
  int host_alloc(void** p, size_t bytes) override { return t.hipHostMalloc(p, bytes, 0); }
  int host_free(void* p) override { return t.hipHostFree(p); }
  int host_register(void* p, size_t bytes) override { return t.hipHostRegister(p, bytes, 0); }
  int host_unregister(void* p) override { return t.hipHostUnregister(p); }
  int to_device(void* to, const void* from, size_t n, void* s) override {
    return t.hipMemcpyAsync(to, from, n, 1, st(s));
  }
  int to_host(void* to, const void* from, size_t n, void* s) override {
    return t.hipMemcpyAsync(to, from, n, 2, st(s));
  }
  int on_device(void* to, const void* from, size_t n, void* s) override {
    return t.hipMemcpyAsync(to, from, n, 3, st(s));
  }
  int fill32(void* to, uint32_t v, size_t n, void* s) override {
    return t.hipMemsetD32Async(to, static_cast<int>(v), n, st(s));
  }
  int stream(void** s, unsigned flags) override { return t.hipStreamCreateWithPriority(as<hip::Stream>(s), flags, 0); }
  int stream_free(void* s) override { return t.hipStreamDestroy(st(s)); }
  int stream_sync(void* s) override { return t.hipStreamSynchronize(st(s)); }
  int stream_query(void* s) override { return t.hipStreamQuery(st(s)); }
  int stream_wait(void* s, void* e) override { return t.hipStreamWaitEvent(st(s), ev(e), 0); }
  int host_function(void* s, void (*f)(void*), void* a) override { return t.hipLaunchHostFunc(st(s), f, a); }
  int event(void** e, unsigned flags) override { return t.hipEventCreateWithFlags(as<hip::Event>(e), flags); }
  int event_free(void* e) override { return t.hipEventDestroy(ev(e)); }
  int record(void* e, void* s) override { return t.hipEventRecord(ev(e), st(s)); }
  int event_query(void* e) override { return t.hipEventQuery(ev(e)); }
  int event_sync(void* e) override { return t.hipEventSynchronize(ev(e)); }
  int elapsed(float* ms, void* a, void* b) override { return t.hipEventElapsedTime(ms, ev(a), ev(b)); }
  int load(void** module, const void* image) override { return t.hipModuleLoadData(as<hip::Module>(module), image); }
  int unload(void* module) override { return t.hipModuleUnload(static_cast<hip::Module>(module)); }
  int function(void** f, void* module, const char* name) override {
    return t.hipModuleGetFunction(as<hip::Function>(f), static_cast<hip::Module>(module), name);
  }
  int global(void** p, size_t* bytes, void* module, const char* name) override {
    return t.hipModuleGetGlobal(p, bytes, static_cast<hip::Module>(module), name);
  }
  int launch(void* f, unsigned grid, unsigned block, unsigned shared, void* s, void** arguments) override {
    return t.hipModuleLaunchKernel(static_cast<hip::Function>(f), grid, 1, 1, block, 1, 1, shared, st(s), arguments,
                                   nullptr);
  }
  int begin_capture(void* s, int mode) override { return t.hipStreamBeginCapture(st(s), mode); }
  int end_capture(void* s, void** g) override { return t.hipStreamEndCapture(st(s), as<hip::Graph>(g)); }
  int capture_info(void* s, int* status, unsigned long long* id) override {
    return t.hipStreamGetCaptureInfo(st(s), status, id);
  }
  int instantiate(void** exec, void* g) override {
    return t.hipGraphInstantiate(as<hip::GraphExec>(exec), static_cast<hip::Graph>(g), nullptr, nullptr, 0);
  }
  int launch_graph(void* exec, void* s) override { return t.hipGraphLaunch(static_cast<hip::GraphExec>(exec), st(s)); }
  int graph_free(void* g) override { return t.hipGraphDestroy(static_cast<hip::Graph>(g)); }
  int exec_free(void* g) override { return t.hipGraphExecDestroy(static_cast<hip::GraphExec>(g)); }
  Compiled compile(const std::string& source, const std::vector<Header>& headers, std::string chip) override {
    return rtc.run(source, headers, chip.empty() ? "gfx90a" : chip);
  }
};

inline std::string library_folder(bool hip) {
  const char* folder = getenv(hip ? "SIMGPU_HIP" : "SIMGPU_CUDA");
  return folder ? folder : "";
}

}  // namespace simgpu_tests
