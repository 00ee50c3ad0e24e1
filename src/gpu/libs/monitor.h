// The vendors' libraries that tell what a device is doing.
#pragma once

#include "gpu/driver/driver.h"

#include <cstdint>
#include <string>
#include <vector>

namespace facula::gpu {

class Monitor {
 public:
  virtual ~Monitor() = default;
  enum class Figure { Utilization, MemoryUsage, Temperature, Power, Clock };
  // False when the device does not tell; `why` says so.
  virtual bool read(const DeviceProperties& device, Figure figure, int64_t& value, std::string& why) = 0;
  struct Process {
    int64_t pid, bytes;
  };
  virtual bool processes(const DeviceProperties& device, std::vector<Process>& list, std::string& why) = 0;
};

// Looked for once; nullptr where there is none, and then `why` says why.
Monitor* monitor(std::string& why);

}  // namespace facula::gpu
