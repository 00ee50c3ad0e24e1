// GPUs for Python: what facula/cuda is made of. Names that Python gives their final form begin with an underscore.
#include <facula/cuda.h>
#include <facula/facula.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "cuda.h"
#include "errors.h"
#include "references.h"
#include "tensor_object.h"
#include "value_types.h"
#include "values.h"

namespace facula::python {
namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// The stack of Python as text for the allocator's history: "file:line function" for each frame.
std::string python_stack() {
  if (!Py_IsInitialized()) return {};
  const PyGILState_STATE lock = PyGILState_Ensure();
  std::string text;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  {
    PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
    for (int depth = 0; frame && depth < 32; ++depth) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      const char* file = PyUnicode_AsUTF8(code->co_filename);
      const char* name = PyUnicode_AsUTF8(code->co_name);
      text += std::string(file ? file : "?") + ":" + std::to_string(PyFrame_GetLineNumber(frame)) + " " +
              (name ? name : "?") + "\n";
      Py_DECREF(code);
      PyFrameObject* back = PyFrame_GetBack(frame);
      Py_DECREF(frame);
      frame = back;
    }
    Py_XDECREF(frame);
  }
  PyErr_Restore(type, value, trace);
  PyGILState_Release(lock);
  return text;
}

void add_devices(nb::module_& m) {
  m.def("_is_available", &cuda::is_available);
  m.def("_why_not_available", &cuda::why_not_available);
  m.def("_device_count", &cuda::device_count);
  m.def("_is_initialized", &cuda::is_initialized);
  m.def("_init", &cuda::init);
  m.def("_current_device", [] { return static_cast<int>(cuda::current_device()); });
  m.def("_set_device", [](int64_t device) { cuda::set_device(device); });
  m.def("_exchange_device", [](int64_t device) { return static_cast<int>(cuda::exchange_device(device)); });
  m.def("_synchronize", [](int64_t device) {
    const nb::gil_scoped_release released;
    cuda::synchronize(device);
  });
  m.def("_can_device_access_peer", &cuda::can_device_access_peer);
  m.def("_is_hip", &cuda::is_hip);
  m.def("_driver_version", &cuda::driver_version);
  m.def("_driver_path", &cuda::driver_path);
  m.def("_describe_search", &cuda::describe_search);
  m.def("_version_cuda", &version::cuda);
  m.def("_version_hip", &version::hip);
  m.def("_config", &config);
  m.def("_set_sync_debug_mode", [](int mode) { cuda::set_sync_debug_mode(static_cast<cuda::SyncDebugMode>(mode)); });
  m.def("_get_sync_debug_mode", [] { return static_cast<int>(cuda::get_sync_debug_mode()); });
  m.def("_device_properties", [](int64_t device) {
    const cuda::DeviceProp& p = *cuda::getDeviceProperties(device);
    nb::dict d;
    d["name"] = p.name;
    d["major"] = p.major;
    d["minor"] = p.minor;
    d["total_memory"] = p.totalGlobalMem;
    d["multi_processor_count"] = p.multiProcessorCount;
    d["warp_size"] = p.warpSize;
    d["max_threads_per_block"] = p.maxThreadsPerBlock;
    d["max_threads_per_multi_processor"] = p.maxThreadsPerMultiProcessor;
    d["regs_per_multiprocessor"] = p.regsPerMultiprocessor;
    d["shared_memory_per_block"] = p.sharedMemPerBlock;
    d["shared_memory_per_block_optin"] = p.sharedMemPerBlockOptin;
    d["shared_memory_per_multiprocessor"] = p.sharedMemPerMultiprocessor;
    d["L2_cache_size"] = p.l2CacheSize;
    d["clock_rate"] = p.clockRate;
    d["memory_clock_rate"] = p.memoryClockRate;
    d["memory_bus_width"] = p.memoryBusWidth;
    d["pci_domain_id"] = p.pciDomainID;
    d["pci_bus_id"] = p.pciBusID;
    d["pci_device_id"] = p.pciDeviceID;
    d["is_integrated"] = static_cast<int>(p.integrated);
    d["is_multi_gpu_board"] = static_cast<int>(p.isMultiGpuBoard);
    d["gcnArchName"] = p.gcnArchName;
    d["uuid"] = nb::bytes(reinterpret_cast<const char*>(p.uuid), sizeof(p.uuid));
    return d;
  });
}

void add_monitor(nb::module_& m) {
  m.def("_utilization", &cuda::utilization);
  m.def("_memory_usage", &cuda::memory_usage);
  m.def("_temperature", &cuda::temperature);
  m.def("_power_draw", &cuda::power_draw);
  m.def("_clock_rate", &cuda::clock_rate);
  m.def("_device_memory_used", &cuda::device_memory_used);
  m.def("_list_gpu_processes", &cuda::list_gpu_processes);
}

void add_products(nb::module_& m) {
  m.def("_set_float32_matmul_precision", [](int precision) {
    cuda::set_float32_matmul_precision(static_cast<cuda::Float32MatmulPrecision>(precision));
  });
  m.def("_get_float32_matmul_precision", [] { return static_cast<int>(cuda::get_float32_matmul_precision()); });
  m.def("_set_allow_tf32", &cuda::set_allow_tf32);
  m.def("_allow_tf32", &cuda::allow_tf32);
  m.def("_set_allow_fp16_reduced_precision_reduction", &cuda::set_allow_fp16_reduced_precision_reduction);
  m.def("_allow_fp16_reduced_precision_reduction", &cuda::allow_fp16_reduced_precision_reduction);
  m.def("_set_allow_bf16_reduced_precision_reduction", &cuda::set_allow_bf16_reduced_precision_reduction);
  m.def("_allow_bf16_reduced_precision_reduction", &cuda::allow_bf16_reduced_precision_reduction);
  m.def("_set_allow_fp16_accumulation", &cuda::set_allow_fp16_accumulation);
  m.def("_allow_fp16_accumulation", &cuda::allow_fp16_accumulation);
}

void add_streams(nb::module_& m) {
  using cuda::CUDAEvent;
  using cuda::CUDAStream;
  nb::class_<CUDAStream>(m, "_Stream")
      .def_static(
          "_from_pool",
          [](int priority, int device) { return cuda::getStreamFromPool(priority, static_cast<DeviceIndex>(device)); })
      .def_static("_current", [](int device) { return cuda::getCurrentCUDAStream(static_cast<DeviceIndex>(device)); })
      .def_static("_default", [](int device) { return cuda::getDefaultCUDAStream(static_cast<DeviceIndex>(device)); })
      .def_static("_external",
                  [](uintptr_t handle, int device) {
                    return cuda::getStreamFromExternal(reinterpret_cast<void*>(handle),
                                                       static_cast<DeviceIndex>(device));
                  })
      .def_static("_from_id",
                  [](int64_t id, int device) { return cuda::getStreamFromId(id, static_cast<DeviceIndex>(device)); })
      .def("_make_current", [](const CUDAStream& s) { cuda::setCurrentCUDAStream(s); })
      .def("query", &CUDAStream::query, nb::call_guard<nb::gil_scoped_release>())
      .def("synchronize", &CUDAStream::synchronize, nb::call_guard<nb::gil_scoped_release>())
      .def("_wait_stream", [](const CUDAStream& s, const CUDAStream& other) { s.wait_stream(other); })
      .def("_wait_event", [](const CUDAStream& s, CUDAEvent& event) { s.wait_event(event); })
      .def("is_capturing", &CUDAStream::is_capturing)
      .def_prop_ro("priority", &CUDAStream::priority)
      .def_prop_ro("stream_id", &CUDAStream::id)
      .def_prop_ro("device_index", [](const CUDAStream& s) { return static_cast<int>(s.device_index()); })
      .def_prop_ro("cuda_stream", [](const CUDAStream& s) { return reinterpret_cast<uintptr_t>(s.stream().get()); })
      .def("__eq__", [](const CUDAStream& a, const CUDAStream& b) { return a == b; });
  m.def("_priority_range", [] {
    const auto range = CUDAStream::priority_range();
    return std::pair(range.least, range.greatest);
  });
  m.def("_record_stream", [](const Tensor& t, const CUDAStream& s) { cuda::record_stream(t, s); });

  nb::class_<CUDAEvent>(m, "_Event")
      .def(nb::init<unsigned>())
      .def("_record", [](CUDAEvent& e, const CUDAStream& s) { e.record(s); })
      .def("_block", [](CUDAEvent& e, const CUDAStream& s) { e.block(s); })
      .def("query", &CUDAEvent::query, nb::call_guard<nb::gil_scoped_release>())
      .def("synchronize", &CUDAEvent::synchronize, nb::call_guard<nb::gil_scoped_release>())
      .def("_elapsed_time", &CUDAEvent::elapsed_time, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("_device_index", [](const CUDAEvent& e) { return static_cast<int>(e.device_index()); })
      .def_prop_ro("cuda_event", [](const CUDAEvent& e) { return reinterpret_cast<uintptr_t>(e.event().get()); });
}

void add_graphs(nb::module_& m) {
  using cuda::CUDAGraph;
  nb::class_<CUDAGraph>(m, "_CUDAGraph")
      .def(nb::init<>())
      .def("_capture_begin",
           [](CUDAGraph& g, cuda::MempoolId_t pool, const std::string& mode) {
             cuda::CaptureMode chosen = cuda::CaptureMode::Global;
             if (mode == "thread_local") chosen = cuda::CaptureMode::ThreadLocal;
             else if (mode == "relaxed") chosen = cuda::CaptureMode::Relaxed;
             else
               FACULA_CHECK(mode == "global", ValueError,
                            "capture_begin(): Unknown capture error mode. Expected `global`, `thread_local`, or "
                            "`relaxed`, got ",
                            mode);
             g.capture_begin(pool, chosen);
           })
      .def("capture_end", &CUDAGraph::capture_end)
      .def("replay", &CUDAGraph::replay, nb::call_guard<nb::gil_scoped_release>())
      .def("reset", &CUDAGraph::reset)
      .def("pool", &CUDAGraph::pool)
      .def("enable_debug_mode", &CUDAGraph::enable_debug_mode)
      .def("debug_dump", &CUDAGraph::debug_dump, "debug_path"_a);
  m.def("_graph_pool_handle", &cuda::graph_pool_handle);
  m.def("_is_current_stream_capturing", &cuda::is_current_stream_capturing);
}

void add_memory(nb::module_& m) {
  m.def("_memory_stats", &cuda::memory_stats);
  m.def("_host_memory_stats", &cuda::host_memory_stats);
  m.def("_reset_peak_host_memory_stats", &cuda::reset_peak_host_memory_stats);
  m.def("_reset_accumulated_host_memory_stats", &cuda::reset_accumulated_host_memory_stats);
  m.def("_memory_summary", &cuda::memory_summary);
  m.def("_reset_peak_memory_stats", &cuda::reset_peak_memory_stats);
  m.def("_reset_accumulated_memory_stats", &cuda::reset_accumulated_memory_stats);
  m.def("_mem_get_info", [](int64_t device) {
    const cuda::MemoryInfo info = cuda::mem_get_info(device);
    return std::pair(info.free, info.total);
  });
  m.def("_empty_cache", &cuda::empty_cache, nb::call_guard<nb::gil_scoped_release>());
  m.def("_set_memory_fraction", &cuda::set_per_process_memory_fraction);
  m.def("_get_memory_fraction", &cuda::get_per_process_memory_fraction);
  m.def("_caching_allocator_enable", &cuda::caching_allocator_enable);
  m.def("_memory_snapshot", &cuda::memory_snapshot);
  m.def("_dump_snapshot", &cuda::dump_snapshot);
  m.def("_record_memory_history", [](bool enabled, bool call_sites, size_t max_entries) {
    cuda::set_stack_source(enabled && call_sites ? &python_stack : nullptr);
    cuda::record_memory_history({enabled, call_sites, max_entries});
  });
  m.def("_caching_allocator_alloc", [](size_t bytes, const cuda::CUDAStream& stream) {
    return reinterpret_cast<uintptr_t>(cuda::caching_allocator_alloc(bytes, stream));
  });
  m.def("_caching_allocator_delete",
        [](uintptr_t data) { cuda::caching_allocator_delete(reinterpret_cast<void*>(data)); });
  nb::class_<cuda::MemPool>(m, "_MemPool").def(nb::init<>()).def_prop_ro("id", &cuda::MemPool::id);
  // Ends when Python says so, not when the object goes.
  struct PoolContext {
    std::unique_ptr<cuda::MemPoolContext> context;
  };
  nb::class_<PoolContext>(m, "_MemPoolContext")
      .def(
          "__init__",
          [](PoolContext* self, cuda::MemPool& pool, int64_t device) {
            new (self) PoolContext{std::make_unique<cuda::MemPoolContext>(pool, device)};
          },
          nb::keep_alive<1, 2>())
      .def("_end", [](PoolContext& self) { self.context.reset(); });
}

cuda::KernelArgument kernel_argument(nb::handle value, size_t place) {
  if (is_tensor(value.ptr())) return cuda::KernelArgument(tensor_of(value.ptr()));
  if (PyBool_Check(value.ptr())) return cuda::KernelArgument(value.ptr() == Py_True);
  if (PyLong_Check(value.ptr())) {
    const int64_t number = to_integer(value.ptr());
    FACULA_CHECK(number >= INT32_MIN && number <= INT32_MAX, ValueError, "launch(): argument ", place, " is ", number,
                 ", and a plain int is passed as 32 bits; wrap it, e.g. cuda.int64(", number, ")");
    return cuda::KernelArgument(static_cast<int32_t>(number));
  }
  if (PyFloat_Check(value.ptr())) return cuda::KernelArgument(static_cast<float>(PyFloat_AS_DOUBLE(value.ptr())));
  // (kind, number) of the wrappers in facula/cuda/kernels.py.
  if (PyTuple_Check(value.ptr()) && PyTuple_GET_SIZE(value.ptr()) == 2) {
    const std::string kind = nb::cast<std::string>(value[0]);
    nb::object number = value[1];
    if (kind == "float64") return cuda::KernelArgument(nb::cast<double>(number));
    if (kind == "float32") return cuda::KernelArgument(nb::cast<float>(number));
    if (kind == "int64") return cuda::KernelArgument(nb::cast<int64_t>(number));
    if (kind == "uint64") return cuda::KernelArgument(nb::cast<uint64_t>(number));
    if (kind == "int32") return cuda::KernelArgument(nb::cast<int32_t>(number));
    if (kind == "uint32") return cuda::KernelArgument(nb::cast<uint32_t>(number));
    if (kind == "uint16") return cuda::KernelArgument(nb::cast<uint16_t>(number));
    if (kind == "int16") return cuda::KernelArgument(nb::cast<int16_t>(number));
    if (kind == "int8") return cuda::KernelArgument(nb::cast<int8_t>(number));
    if (kind == "uint8") return cuda::KernelArgument(nb::cast<uint8_t>(number));
  }
  throw TypeMismatch(str("launch(): argument ", place, " must be a tensor, int, float, bool or a sized number such as ",
                         "cuda.int64(n), not ", Py_TYPE(value.ptr())->tp_name));
}

void add_kernels(nb::module_& m) {
  nb::class_<cuda::Kernel>(m, "_Kernel")
      .def(nb::init<std::string, std::string, std::vector<std::string>>())
      .def_prop_ro("name", &cuda::Kernel::name)
      .def_prop_ro("source", &cuda::Kernel::source)
      .def("compile", &cuda::Kernel::compile, nb::call_guard<nb::gil_scoped_release>())
      .def("_launch", [](const cuda::Kernel& kernel, const std::vector<uint32_t>& grid,
                         const std::vector<uint32_t>& block, uint32_t shared, nb::sequence args) {
        auto dims = [](const std::vector<uint32_t>& v) {
          return cuda::Dim3{v.size() > 0 ? v[0] : 1, v.size() > 1 ? v[1] : 1, v.size() > 2 ? v[2] : 1};
        };
        std::vector<cuda::KernelArgument> list;
        size_t place = 0;
        for (nb::handle value : args) list.push_back(kernel_argument(value, place++));
        kernel.launch_with(dims(grid), dims(block), shared, list);
      });
  m.def("_range_push", [](const std::string& text) { return cuda::nvtx::range_push(text.c_str()); });
  m.def("_range_pop", &cuda::nvtx::range_pop);
  m.def("_mark", [](const std::string& text) { cuda::nvtx::mark(text.c_str()); });
}

void add_random(nb::module_& m) {
  m.def("_manual_seed", [](nb::handle seed) { cuda::manual_seed(to_seed(seed.ptr())); });
  m.def("_manual_seed_all", [](nb::handle seed) { cuda::manual_seed_all(to_seed(seed.ptr())); });
  m.def("_seed", &cuda::seed);
  m.def("_seed_all", &cuda::seed_all);
  m.def("_initial_seed", &cuda::initial_seed);
  m.def("_default_generator", [](int64_t device) { return cuda::default_generator(device); });
}

}  // namespace

void add_cuda(nb::module_& module) {
  nb::module_ m = module.def_submodule("_cuda");
  add_devices(m);
  add_monitor(m);
  add_products(m);
  add_streams(m);
  add_graphs(m);
  add_memory(m);
  add_kernels(m);
  add_random(m);
}

}  // namespace facula::python
