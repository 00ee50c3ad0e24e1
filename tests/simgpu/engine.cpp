// Starting the engine, its options, and what every entry point does first.
#include "engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace simgpu {
namespace {

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

Options read_options() {
  Options o;
#if defined(SIMGPU_SHAPE_HIP)
  o.hip = true;
  o.lanes = 64;
  o.chip = "gfx90a:sramecc+:xnack-";
#endif
  if (const char* v = variable("SIMGPU_DEVICES")) o.devices = atoi(v);
  if (const char* v = variable("SIMGPU_LANES")) o.lanes = atoi(v);
  if (const char* v = variable("SIMGPU_MEMORY_MB")) o.memory_bytes = static_cast<size_t>(atoll(v)) << 20;
  if (const char* v = variable("SIMGPU_CHECK_INIT")) o.check_written = atoi(v) != 0;
  if (const char* v = variable("SIMGPU_CHECK_RACES")) o.check_races = atoi(v) != 0;
  if (const char* v = variable("SIMGPU_GUARD")) o.guard = atoi(v) != 0;
  if (const char* v = variable("SIMGPU_ASYNC")) o.async = atoi(v);
  if (const char* v = variable("SIMGPU_SEED")) o.seed = static_cast<uint64_t>(atoll(v));
  if (const char* v = variable("SIMGPU_CHIP")) o.chip = v;
  if (const char* v = variable("SIMGPU_TRACE")) o.trace = v;
  if (const char* v = variable("SIMGPU_REPORT_LEAKS")) o.report_leaks = atoi(v) != 0;
  if (o.devices < 0 || o.devices > 16 || (o.lanes != 32 && o.lanes != 64)) {
    report("SIMGPU_DEVICES must be 0 to 16 and SIMGPU_LANES 32 or 64");
    abort();
  }
  if (o.memory_bytes > kArenaBytes / 4) o.memory_bytes = kArenaBytes / 4;
  return o;
}

// Which devices are seen: numbers with commas between them; a bad one ends the list.
std::vector<int> visible_devices(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  const char* list = nullptr;
  for (const char* name : options().hip ? std::vector<const char*>{"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}
                                        : std::vector<const char*>{"CUDA_VISIBLE_DEVICES"})
    if (!list) list = getenv(name);
  if (!list) return all;
  std::vector<int> seen;
  for (const char* at = list; *at;) {
    char* end = nullptr;
    const long number = strtol(at, &end, 10);
    if (end == at || number < 0 || number >= count) break;
    seen.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') break;
  }
  return seen;
}

void report_leaks_at_exit() {
  if (getpid() != engine().pid) return;
  const std::string left = leaks();
  if (!left.empty()) report("left at exit:\n" + left);
}

}  // namespace

const Options& options() {
  static const auto* o = new Options(read_options());
  return *o;
}

Engine& engine() {
  static auto* e = new Engine;
  return *e;
}

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

void report(const std::string& text) {
  const std::string line = "simgpu: " + text + "\n";
  const ssize_t ignored = write(2, line.data(), line.size());
  (void)ignored;
}

void trace(const std::string& line) {
  if (options().trace.empty()) return;
  static std::mutex mutex;
  std::lock_guard<std::mutex> hold(mutex);
  static FILE* file = options().trace == "1" ? stderr : fopen(options().trace.c_str(), "a");
  if (!file) return;
  fprintf(file, "%s\n", line.c_str());
  fflush(file);
}

Code initialize() {
  Engine& e = engine();
  if (Code code = inject("init", -1)) return code;
  Lock lock(e.mutex);
  if (e.initialized) return e.pid == getpid() ? kSuccess : kNotInitialized;
  const int count = forced_count() >= 0 ? forced_count() : options().devices;
  for ([[maybe_unused]] int number : visible_devices(count)) {
    auto* device = new Device;
    device->index = static_cast<int>(e.devices.size());
    device->default_stream.device = device;
    device->streams.insert(&device->default_stream);
    device->random.seed(options().seed * 1000 + static_cast<uint64_t>(device->index));
    e.devices.push_back(device);
  }
  if (e.devices.empty()) return kNoDevice;
  create_arenas(e);
  e.pid = getpid();
  e.initialized = true;
  if (options().report_leaks) atexit(report_leaks_at_exit);
  return kSuccess;
}

Code device_state(int device) {
  Engine& e = engine();
  if (device < 0) return kSuccess;
  if (static_cast<size_t>(device) >= e.devices.size()) return kInvalidDevice;
  Lock lock(e.mutex);
  return e.devices[static_cast<size_t>(device)]->lost;
}

Code enter(const char* kind, int device) {
  Engine& e = engine();
  if (!e.initialized || e.pid != getpid()) return kNotInitialized;
  if (Code code = device_state(device)) return code;
  return inject(kind, device);
}

std::string leaks() {
  Engine& e = engine();
  Lock lock(e.mutex);
  std::string all;
  char line[256];
  for (const auto& [base, region] : e.regions) {
    const char* what = region.kind == RegionKind::Allocation       ? "allocation"
                       : region.kind == RegionKind::Mapping        ? "mapping"
                       : region.kind == RegionKind::Host           ? "host allocation"
                       : region.kind == RegionKind::RegisteredHost ? "registered host memory"
                                                                   : nullptr;
    if (!what) continue;
    snprintf(line, sizeof line, "  %s of %zu bytes at 0x%zx on device %d\n", what, region.bytes, base, region.device);
    all += line;
  }
  for (const Device* device : e.devices)
    if (device->streams.size() > 1) {
      snprintf(line, sizeof line, "  %zu streams of device %d\n", device->streams.size() - 1, device->index);
      all += line;
    }
  const std::pair<const char*, size_t> counts[] = {{"events", e.events.size()},
                                                   {"modules", e.modules.size()},
                                                   {"graphs", e.graphs.size()},
                                                   {"executable graphs", e.graph_execs.size()},
                                                   {"pieces of physical memory", e.physicals.size()},
                                                   {"reserved ranges", e.reservations.size()}};
  for (const auto& [name, count] : counts)
    if (count) all += "  " + std::to_string(count) + " " + name + "\n";
  return all;
}

size_t leak_count() {
  const std::string all = leaks();
  return static_cast<size_t>(std::count(all.begin(), all.end(), '\n'));
}

}  // namespace simgpu
