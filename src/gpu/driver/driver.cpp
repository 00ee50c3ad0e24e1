// Which driver and which compiler this process uses, found once.
#include "gpu/driver/driver.h"

#include <facula/core/error.h>

#include <optional>

#include "core/env.h"
#include "gpu/driver/driver_open.h"
#include "gpu/driver/library.h"
#include "gpu/driver/probe.h"

namespace facula::gpu {

Fault fault_of(int code) {
  switch (code) {
    case 0: return Fault::None;
    case 1: return Fault::InvalidValue;
    case 2: return Fault::OutOfMemory;
    case 9:    // HIP: invalid configuration of a launch
    case 701:  // too many registers, threads or shared memory
    case 720:  // too many blocks that wait for each other
    case 912: return Fault::LaunchTooLarge;
    case 4:    // the driver is shutting down
    case 46:   // the device is unavailable
    case 100:  // there is no device (any more)
    case 214:  // memory error that could not be corrected
    case 220:  // the same of the link
    case 226: return Fault::DeviceLost;
    case 98:   // no such device function
    case 200:  // invalid image
    case 209:  // no binary for this GPU
    case 218:  // invalid PTX
    case 221:  // the driver's own compiler is not there
    case 222:  // PTX that is newer than the driver
    case 223: return Fault::NoKernelForChip;
    case 101: return Fault::InvalidDevice;
    case 400:
    case 500: return Fault::InvalidValue;
    case 600: return Fault::NotReady;
    case 700: return Fault::IllegalAddress;
    case 702:  // ran for too long
    case 709:  // the context is destroyed
    case 710:  // an assert of the kernel
    case 714:  // stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719: return Fault::LaunchFailed;
    case 704: return Fault::PeerAccessAlreadyEnabled;
    case 217:
    case 801: return Fault::NotSupported;
    default: break;
  }
  if (code >= 900 && code <= 908) return Fault::Capture;
  return Fault::Other;
}

namespace {

struct Found {
  Driver* driver = nullptr;
  std::string why_not;
  std::string notes;  // for people: one line for each driver that was tried, and what the trial process looked for
};

struct Candidate {
  const char* name;  // as FACULA_GPU has it
  const char* what;
  DriverOpening (*open)();
  std::string (*crash_cure)();
};
constexpr Candidate kCandidates[] = {
    {"cuda", "the NVIDIA driver", open_cuda_driver, [] { return std::string("install it again"); }},
    {"hip", "the AMD driver", open_hip_driver, hip_crash_cure},
};

double probe_seconds() { return static_cast<double>(env_number(EnvVar::GpuProbeSeconds, 1).value_or(10)); }

// What is kept on disk only saves time: trouble with it is told when kernels are compiled.
bool known_to_work(const Candidate& candidate) {
  try {
    return probed_before(candidate.what);
  } catch (...) {
    return false;
  }
}
void mark_start(const Candidate& candidate, std::optional<StartMark>& mark) {
  try {
    mark.emplace(candidate.what);
  } catch (...) {
  }
}
void remember(const Candidate& candidate, const std::string& path) {
  try {
    remember_probe(candidate.what, path);
  } catch (...) {
  }
}

// The driver, or why not.
DriverOpening try_candidate(const Candidate& candidate, std::string& notes) {
  DriverOpening opening;
  const auto mode = env(EnvVar::GpuProbe);
  if (mode && *mode != "always" && *mode != "never") {
    opening.why_not = str("FACULA_GPU_PROBE is \"", *mode, "\"; it takes always or never");
    return opening;
  }
  std::optional<StartMark> mark;  // gone when the start has ended, well or not
  if (!mode && known_to_work(candidate)) {
    mark_start(candidate, mark);
  } else if (mode != "never") {
    const ProbeResult result = probe(candidate.open, candidate.what, probe_seconds(), candidate.crash_cure());
    if (result.could_not_try) {
      notes += str(candidate.name, ": not tried in a process of its own: ", result.why_not, "\n");
    } else if (!result.ok) {
      notes += result.searches;
      opening.why_not = result.why_not;
      return opening;
    } else {
      remember(candidate, result.driver_path);
    }
  }
  return candidate.open();
}

Found look_for_driver() {
  Found found;
  const auto choice = env(EnvVar::Gpu);
  if (choice == "none") {
    found.why_not = "FACULA_GPU=none turns GPUs off; unset it";
    return found;
  }
  bool known = !choice;
  std::string reasons;
  for (const Candidate& candidate : kCandidates) {
    if (choice && *choice != candidate.name) continue;
    known = true;
    std::string why;
    try {
      DriverOpening opening = try_candidate(candidate, found.notes);
      if (opening.driver) {
        found.driver = opening.driver.release();
        found.notes += str(candidate.name, ": ", opening.devices, " device", opening.devices == 1 ? "" : "s",
                           ", driver version ", found.driver->version_text(), "\n");
        return found;
      }
      why = opening.why_not;
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = str(candidate.what, " cannot be tried");
    }
    found.notes += str(candidate.name, ": ", why, "\n");
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  if (!known) found.why_not = str("FACULA_GPU is \"", *choice, "\"; it takes cuda, hip or none");
  else found.why_not = choice ? str("FACULA_GPU=", *choice, " was asked for: ", reasons) : reasons;
  return found;
}

const Found& found_driver() {
  static const auto* found = new Found(look_for_driver());
  return *found;
}

struct FoundCompiler {
  Compiler* compiler = nullptr;
  std::string why_not;
};

const FoundCompiler& found_compiler() {
  static const auto* found = [] {
    auto* result = new FoundCompiler;
    const Driver* of = driver();
    if (!of) {
      result->why_not = why_no_driver();
      return result;
    }
    try {
      CompilerOpening opening = of->vendor() == Vendor::Cuda ? open_nvrtc(of->version()) : open_hiprtc(of->path());
      result->compiler = opening.compiler.release();
      result->why_not = opening.why_not;
    } catch (const std::exception& error) {
      result->why_not = error.what();
    }
    return result;
  }();
  return *found;
}

}  // namespace

Driver* driver() { return found_driver().driver; }
const std::string& why_no_driver() { return found_driver().why_not; }
Compiler* compiler() { return found_compiler().compiler; }
const std::string& why_no_compiler() { return found_compiler().why_not; }

std::string describe_search() {
  std::string text = found_driver().notes;
  if (driver())
    text += compiler() ? str("compiler: ", compiler()->version(), "\n") : str("compiler: ", why_no_compiler(), "\n");
  return text + describe_library_searches();
}

}  // namespace facula::gpu
