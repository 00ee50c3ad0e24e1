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

// Opens a driver in a child process, which may take so many seconds. `what` names it in texts: "the NVIDIA driver"; `cure` says there
// what to do when it crashes.
ProbeResult probe(DriverOpening (*open)(), const char* what, double seconds,
                  const std::string& cure = "install it again");

// Good results are remembered on disk until the next start of the machine, as long as the driver's file and the variables that hide
// devices stay the same. One is forgotten when a process ended under a StartMark.
bool probed_before(const char* what);
void remember_probe(const char* what, const std::string& driver_path);

// While it lives, a mark on disk says that this process starts a driver of which only a remembered result is known. A driver that
// has broken meanwhile ends the process, and the mark stays: the next process then tries the driver in a child again.
class StartMark {
 public:
  explicit StartMark(const char* what);
  ~StartMark();
  StartMark(const StartMark&) = delete;
  StartMark& operator=(const StartMark&) = delete;

 private:
  std::string name_;  // empty: no mark could be made
};

}  // namespace facula::gpu
