// Tries a driver in a child process first: a driver that crashes or hangs takes the child with it, and the parent has a reason in
// words.
#pragma once

#include "gpu/driver/driver_open.h"

#include <string>

namespace facula::gpu {

struct ProbeResult {
  bool ok = false;
  bool could_not_try = false;  // no child process could be made; nothing is known
  std::string why_not;
  std::string driver_path;
  std::string searches;  // what the child looked for, for people
};

// Opens a driver in a child process, which may take so many seconds. `what` names it in texts: "the NVIDIA driver".
ProbeResult probe(DriverOpening (*open)(), const char* what, double seconds);

// Good results are remembered on disk until the next start of the machine, as long as the driver's file and the variables that hide
// devices stay the same.
bool probed_before(const char* what);
void remember_probe(const char* what, const std::string& driver_path);

}  // namespace facula::gpu
