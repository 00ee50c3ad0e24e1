// Modules and launches: a compiled kernel is a shared library of the host behind a small header; each device loads its own copy.
#include "engine.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace simgpu {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr int kMaxShared = 48 << 10;

// Writes the library to a file without a name and loads it from there: every load is a copy with variables of its own.
void* load_library(const char* bytes, size_t count) {
  const int file = memfd_create("simgpu-kernel", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  for (size_t done = 0; done < count;) {
    const ssize_t n = write(file, bytes + done, count - done);
    if (n <= 0) {
      close(file);
      return nullptr;
    }
    done += static_cast<size_t>(n);
  }
  // The loader knows a library by its path, and numbers of files are used again: every load gets a path of its own, in which the
  // load's number is spelt with "/." and "//", which mean nothing.
  static std::atomic<size_t> loads{0};
  std::string path = "/proc/self/fd";
  for (size_t n = loads.fetch_add(1) + 1; n != 0; n >>= 1) path += n & 1 ? "/." : "//";
  path += "/" + std::to_string(file);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) report(std::string("a kernel does not load: ") + dlerror());
  close(file);
  return library;
}

// The loader's answer where a thread's shared variables are is nothing for some libraries once others were loaded after them (glibc 2.36). So
// it is asked right after the load, before another one, and what is kept is true for every thread.
struct Extent {
  Module* module;
  uintptr_t touched;
  bool complete = false;
};
int find_extent(dl_phdr_info* info, size_t, void* result) {
  auto* extent = static_cast<Extent*>(result);
  Module* module = extent->module;
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    low = std::min<uintptr_t>(low, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr / 4096 * 4096);
    high = std::max<uintptr_t>(high, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
  }
  const auto inside = reinterpret_cast<uintptr_t>(module->place);
  if (inside < low || inside >= high) return 0;
  module->image_base = low;
  module->image_bytes = high - low;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS) {
      module->shared_bytes = static_cast<int>(info->dlpi_phdr[i].p_memsz);
      module->touched_at = extent->touched - reinterpret_cast<uintptr_t>(info->dlpi_tls_data);
      extent->complete = info->dlpi_tls_data != nullptr;
    }
  return 1;
}

// Arguments are taken when the call is made.
struct Arguments {
  std::vector<std::unique_ptr<char[]>> copies;
  std::vector<void*> pointers;
  Arguments(const simgpu_kernel& kernel, void** from) {
    for (int i = 0; i < kernel.arguments; ++i) {
      copies.emplace_back(new char[kernel.sizes[i] + 16]);
      // Vectors lie on 16 bytes.
      auto at = (reinterpret_cast<uintptr_t>(copies.back().get()) + 15) / 16 * 16;
      std::memcpy(reinterpret_cast<void*>(at), from[i], kernel.sizes[i]);
      pointers.push_back(reinterpret_cast<void*>(at));
    }
  }
};

}  // namespace

int max_shared_optin() { return options().hip ? 64 << 10 : 227 << 10; }

int static_shared_bytes(const Function& function) {
  // One byte of the segment is the runtime's own.
  return function.module->shared_bytes <= 1 ? 0 : function.module->shared_bytes;
}

Code load_module(int device, const void* image, Module*& module) {
  Engine& e = engine();
  if (!image) return kInvalidValue;
  simgpu_image_header header;
  std::memcpy(&header, image, sizeof header.magic);
  if (std::memcmp(header.magic, SIMGPU_MAGIC, 8) != 0) return kInvalidImage;
  std::memcpy(&header, image, sizeof header);
  header.chip[sizeof header.chip - 1] = 0;
  if (forced_version() && static_cast<int>(header.version) > forced_version())
    return header.ptx ? kUnsupportedPtx : kInvalidImage;
  const std::string chip = options().chip.substr(0, options().chip.find(':'));
  if ((!header.ptx && chip != std::string(header.chip).substr(0, std::string(header.chip).find(':'))) ||
      static_cast<int>(header.lanes) != options().lanes)
    return kNoBinaryForGpu;
  {
    Lock lock(e.mutex);
    if (Code code = forbid_in_capture(lock, device)) return code;
  }
  static std::mutex one_load_at_a_time;
  std::lock_guard loading(one_load_at_a_time);
  auto made = std::make_unique<Module>();
  made->device = device;
  made->header = header;
  made->library = load_library(static_cast<const char*>(image) + sizeof header, header.bytes);
  if (!made->library) return kInvalidImage;
  using Attach = simgpu_place* (*)(const simgpu_services*, simgpu_reach*);
  const auto attach = reinterpret_cast<Attach>(dlsym(made->library, "simgpu_attach"));
  made->touch_shared = reinterpret_cast<void* (*)()>(dlsym(made->library, "simgpu_touch_shared"));
  made->waits = dlsym(made->library, "simgpu_barrier") != nullptr;
  if (!attach || !made->touch_shared) {
    dlclose(made->library);
    return kInvalidImage;
  }
  Lock lock(e.mutex);
  made->place = attach(&kernel_services(), &e.devices[static_cast<size_t>(device)]->reach);
  Extent extent{made.get(), reinterpret_cast<uintptr_t>(made->touch_shared())};
  dl_iterate_phdr(find_extent, &extent);
  if (!extent.complete) {
    report("the loader does not tell where the shared variables of a kernel are");
    dlclose(made->library);
    return kInvalidImage;
  }
  // Variables of the kernel can be copied to and from, as device memory.
  const uintptr_t base = made->image_base;
  e.regions[base] = {RegionKind::Image, base, made->image_bytes, device, uint64_t{1} << device, nullptr, 0};
  module = made.release();
  e.modules.insert(module);
  return kSuccess;
}

Code unload_module(Module* module) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (!e.modules.count(module)) return kInvalidHandle;
  if (Code code = quiet_for_free(lock, module->device)) return code;
  e.modules.erase(module);
  e.regions.erase(module->image_base);
  for (auto& [name, function] : module->functions) {
    e.functions.erase(function);
    delete function;
  }
  dlclose(module->library);
  delete module;
  return kSuccess;
}

Code get_function(Module* module, const char* name, Function*& function) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (!e.modules.count(module)) return kInvalidHandle;
  if (!name) return kInvalidValue;
  auto& known = module->functions[name];
  if (!known) {
    // Templates and functions in namespaces are listed under their lowered names.
    const std::string symbol = std::string("simgpu_kernel_") + name;
    const auto* kernel = static_cast<const simgpu_kernel*>(dlsym(module->library, symbol.c_str()));
    if (!kernel || !dlsym(module->library, name)) {
      module->functions.erase(name);
      return kNotFound;
    }
    known = new Function;
    known->module = module;
    known->kernel = kernel;
    known->name = name;
    e.functions.insert(known);
  }
  function = known;
  return kSuccess;
}

Code get_global(Module* module, const char* name, uintptr_t& address, size_t& bytes) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (!e.modules.count(module)) return kInvalidHandle;
  if (!name) return kInvalidValue;
  void* at = dlsym(module->library, name);
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (!at || !dladdr1(at, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) || !symbol) return kNotFound;
  const auto base = reinterpret_cast<uintptr_t>(at);
  if (base - module->image_base >= module->image_bytes || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
    return kNotFound;
  address = base;
  bytes = symbol->st_size;
  return kSuccess;
}

int occupancy(const Function& function, int block_threads, size_t shared_bytes) {
  if (block_threads <= 0 || block_threads > static_cast<int>(kMaxThreads)) return 0;
  const size_t shared = shared_bytes + static_cast<size_t>(static_shared_bytes(function));
  size_t blocks = 2048 / static_cast<size_t>(block_threads);
  if (shared) blocks = std::min<size_t>(blocks, static_cast<size_t>(max_shared_optin()) / shared);
  return static_cast<int>(std::min<size_t>(blocks, 32));
}

Code launch(int device, Function* function, const LaunchShape& shape, void* handle, void** arguments, void** extra) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (!e.functions.count(function)) return kInvalidHandle;
  if (function->module->device != device) return kInvalidContext;
  Stream* stream = find_stream(lock, device, handle);
  if (!stream) return kInvalidHandle;
  if (stream->device->index != device) return kInvalidHandle;
  if (extra && arguments) return kInvalidValue;
  if (extra) return kNotSupported;
  const simgpu_kernel& kernel = *function->kernel;
  if (kernel.arguments > 0 && !arguments) return kInvalidValue;
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) return kInvalidValue;
    if (i > 0 && shape.grid[i] > 65535) return kInvalidValue;
    if (shape.grid[i] > 0x7fffffffu) return kInvalidValue;
    threads *= shape.block[i];
    if (threads > kMaxThreads) return kInvalidValue;
  }
  if (shape.block[2] > (options().hip ? kMaxThreads : 64u)) return kInvalidValue;
  if (kernel.max_threads && threads > static_cast<uint64_t>(kernel.max_threads)) return kLaunchOutOfResources;
  const int shared = static_shared_bytes(*function);
  const int limit = options().hip ? max_shared_optin() : std::max(function->max_dynamic_shared + shared, kMaxShared);
  if (shape.shared_bytes > static_cast<unsigned>(max_shared_optin()) ||
      static_cast<int>(shape.shared_bytes) + shared > limit)
    return kInvalidValue;
  const Code fault = take_launch_fault();
  auto taken = std::make_shared<Arguments>(kernel, arguments);
  char label[160];
  snprintf(label, sizeof label, "%s <<<(%u, %u, %u), (%u, %u, %u), %u>>>", function->name.c_str(), shape.grid[0],
           shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2], shape.shared_bytes);
  return enqueue(lock, stream, "launch", label, [taken, function, shape, fault](Device& on) {
    if (fault) return fault;
    return run_kernel(on, *function, shape, taken->pointers.data());
  });
}

}  // namespace simgpu
