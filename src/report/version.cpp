// The version of the library and of what it found, and the text that tells all of it.
#include <facula/version.h>

#include <facula/core/error.h>
#include <facula/cuda/device.h>
#include <facula/threads.h>

#include "cpu/matmul_onednn.h"
#include "cpu/simd/tile_ops.h"

namespace facula {

namespace {

std::string compiler() {
#if defined(__clang__)
  return str("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return str("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
}

// The best first: it is the one in use.
std::string instructions() {
  std::string names;
  for (const int64_t target : cpu::available_targets())
    names += str(names.empty() ? "" : ", ", cpu::target_name(target));
  return names;
}

// A device that does not answer is what somebody may be looking for: its error is told and not thrown.
std::string device_line(int64_t index) {
  try {
    const cuda::DeviceProp& facts = *cuda::getDeviceProperties(index);
    return str("cuda:", index, ": ", facts.name, ", ", facts.gcnArchName, ", ", facts.totalGlobalMem >> 20, " MiB\n");
  } catch (const Error& error) {
    return str("cuda:", index, ": ", error.what(), "\n");
  }
}

std::optional<std::string> platform(bool hip) {
  if (!::facula::cuda::is_available() || ::facula::cuda::is_hip() != hip) return std::nullopt;
  const int number = ::facula::cuda::driver_version();
  return hip ? str(number / 10000000, ".", number / 100000 % 100) : str(number / 1000, ".", number % 1000 / 10);
}

}  // namespace

namespace version {

std::string library() { return FACULA_VERSION; }
std::optional<std::string> cuda() { return platform(false); }
std::optional<std::string> hip() { return platform(true); }

}  // namespace version

std::string config() {
  std::string text = str("Facula ", version::library(), ", compiled by ", compiler(), "\n");
  text += str("processor: ", instructions(), "; ", get_num_threads(), " thread", get_num_threads() == 1 ? "" : "s",
              "; ", onednn_version(), "\n");
  if (cuda::is_available()) {
    for (int64_t index = 0; index < cuda::device_count(); ++index) text += device_line(index);
  } else {
    text += str("no GPU: ", cuda::why_not_available(), "\n");
  }
  return text + cuda::describe_search();
}

}  // namespace facula
