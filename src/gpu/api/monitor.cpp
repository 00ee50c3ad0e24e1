// The public functions about what a device is doing.
#include "gpu/api/api.h"
#include "gpu/libs/monitor.h"

#include <facula/cuda/memory.h>
#include <facula/cuda/monitor.h>

namespace facula::cuda {

namespace {

gpu::Monitor& need_monitor(const char* op) {
  std::string why;
  gpu::Monitor* found = gpu::monitor(why);
  FACULA_CHECK(found, NotSupportedError, op, ": the vendor's library that tells about devices cannot be used: ", why);
  return *found;
}

int figure(gpu::Monitor::Figure which, int64_t device, const char* op) {
  const int index = device_index(device, op);
  int64_t value = 0;
  std::string why;
  const bool known = need_monitor(op).read(gpu::properties(index), which, value, why);
  FACULA_CHECK(known, NotSupportedError, op, ": cuda:", index, " does not tell: ", why);
  return static_cast<int>(value);
}

}  // namespace

int utilization(int64_t device) { return figure(gpu::Monitor::Figure::Utilization, device, "utilization"); }
int memory_usage(int64_t device) { return figure(gpu::Monitor::Figure::MemoryUsage, device, "memory_usage"); }
int temperature(int64_t device) { return figure(gpu::Monitor::Figure::Temperature, device, "temperature"); }
int power_draw(int64_t device) { return figure(gpu::Monitor::Figure::Power, device, "power_draw"); }
int clock_rate(int64_t device) { return figure(gpu::Monitor::Figure::Clock, device, "clock_rate"); }

int64_t device_memory_used(int64_t device) {
  const MemoryInfo info = mem_get_info(device);
  return static_cast<int64_t>(info.total - info.free);
}

std::vector<GpuProcess> gpu_processes(int64_t device) {
  const char* const op = "list_gpu_processes";
  const int index = device_index(device, op);
  std::vector<gpu::Monitor::Process> found;
  std::string why;
  const bool known = need_monitor(op).processes(gpu::properties(index), found, why);
  FACULA_CHECK(known, NotSupportedError, op, ": cuda:", index, " does not tell: ", why);
  std::vector<GpuProcess> list;
  for (const auto& each : found) list.push_back({each.pid, each.bytes});
  return list;
}

std::string list_gpu_processes(int64_t device) {
  std::string text = str("GPU:", device_index(device, "list_gpu_processes"));
  const std::vector<GpuProcess> list = gpu_processes(device);
  if (list.empty()) text += "\nno processes are running";
  for (const GpuProcess& each : list)
    text += str("\nprocess ", each.pid, " uses ",
                each.bytes < 0 ? std::string("an unknown amount of") : str(each.bytes >> 20, " MiB of"), " GPU memory");
  return text;
}

}  // namespace facula::cuda
