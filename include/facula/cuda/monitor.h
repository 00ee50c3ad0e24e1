// What a device is doing, whoever makes it do so. Needs the vendor's library for it (NVML, ROCm SMI); without, these throw
// NotSupportedError. -1 is the current device.
#pragma once

#include <facula/core/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace facula::cuda {

// Percent of the last while in which a kernel ran, and in which memory was read or written.
FACULA_API int utilization(int64_t device = -1);
FACULA_API int memory_usage(int64_t device = -1);
FACULA_API int temperature(int64_t device = -1);  // degrees Celsius
FACULA_API int power_draw(int64_t device = -1);   // milliwatts
FACULA_API int clock_rate(int64_t device = -1);   // MHz
// Bytes in use on the device, by all processes.
FACULA_API int64_t device_memory_used(int64_t device = -1);

struct GpuProcess {
  int64_t pid;
  int64_t bytes;  // -1 where it is not known
};
FACULA_API std::vector<GpuProcess> gpu_processes(int64_t device = -1);
// The same as text for people.
FACULA_API std::string list_gpu_processes(int64_t device = -1);

}  // namespace facula::cuda
