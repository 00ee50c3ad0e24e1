// How the two drivers and the two compilers are opened. Only driver.cpp, the probe and tests look in here.
#pragma once

#include "gpu/driver/driver.h"

#include <memory>
#include <string>

namespace facula::gpu {

// A driver that was loaded, started and has at least one device; or the reason why not, with its cure.
struct DriverOpening {
  std::unique_ptr<Driver> driver;
  int devices = 0;
  std::string why_not;
};
DriverOpening open_cuda_driver();
DriverOpening open_hip_driver();
// What to do about an AMD driver that crashes when it is started.
std::string hip_crash_cure();

struct CompilerOpening {
  std::unique_ptr<Compiler> compiler;
  std::string why_not;
};
// A compiler that is newer than the driver (0: not known) is taken only when there is no other.
CompilerOpening open_nvrtc(int driver_version = 0);
// `driver_path`: the runtime that it belongs to; empty: not known.
CompilerOpening open_hiprtc(const std::string& driver_path = {});

// The meaning of a driver's error number. HIP took CUDA's numbers.
Fault fault_of(int code);

}  // namespace facula::gpu
