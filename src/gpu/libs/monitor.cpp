// NVML and ROCm SMI. Devices are known to them by their place on the PCI bus, since variables such as CUDA_VISIBLE_DEVICES do not
// hide devices from them.
#include "gpu/libs/monitor.h"

#include "gpu/driver/library.h"

#include <facula/core/error.h>

#include <cstdio>
#include <memory>

namespace facula::gpu {

namespace {

class Nvml final : public Monitor {
 public:
  static std::unique_ptr<Monitor> open(std::string& why) {
    static constexpr const char* kNames[] = {"libnvidia-ml.so.1"};
    auto made = std::make_unique<Nvml>();
    const Library library = find_library({.what = "NVML", .sonames = kNames, .in_python_packages = false});
    if (!library) return why = library.why_not(), nullptr;
    const bool all = library.load(made->init_, "nvmlInit_v2") && library.load(made->text_, "nvmlErrorString") &&
                     library.load(made->by_bus_, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     library.load(made->utilization_, "nvmlDeviceGetUtilizationRates") &&
                     library.load(made->temperature_, "nvmlDeviceGetTemperature") &&
                     library.load(made->power_, "nvmlDeviceGetPowerUsage") &&
                     library.load(made->clock_, "nvmlDeviceGetClockInfo");
    if (!all) return why = library.path() + " lacks functions that are needed", nullptr;
    library.load(made->processes_, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (const int code = made->init_()) return why = str("NVML does not start: ", made->text_(code)), nullptr;
    return made;
  }

  bool read(const DeviceProperties& device, Figure figure, int64_t& value, std::string& why) override {
    void* handle = nullptr;
    if (!find(device, handle, why)) return false;
    struct {
      unsigned gpu, memory;
    } rates{};
    unsigned number = 0;
    int code = 0;
    switch (figure) {
      case Figure::Utilization:
      case Figure::MemoryUsage:
        code = utilization_(handle, &rates);
        number = figure == Figure::Utilization ? rates.gpu : rates.memory;
        break;
      case Figure::Temperature: code = temperature_(handle, 0, &number); break;
      case Figure::Power: code = power_(handle, &number); break;
      case Figure::Clock: code = clock_(handle, 1, &number); break;
    }
    value = number;
    return check(code, why);
  }

  bool processes(const DeviceProperties& device, std::vector<Process>& list, std::string& why) override {
    void* handle = nullptr;
    if (!processes_) return why = "the driver is too old to list processes", false;
    if (!find(device, handle, why)) return false;
    std::vector<Info> infos(64);
    for (int attempt = 0;; ++attempt) {
      auto count = static_cast<unsigned>(infos.size());
      const int code = processes_(handle, &count, infos.data());
      if (code == kTooSmall && attempt < 4) {
        infos.resize(count + 64);
        continue;
      }
      if (!check(code, why)) return false;
      for (unsigned i = 0; i < count; ++i)
        list.push_back({infos[i].pid, infos[i].bytes == ~0ull ? -1 : static_cast<int64_t>(infos[i].bytes)});
      return true;
    }
  }

 private:
  static constexpr int kTooSmall = 7;
  struct Info {
    unsigned pid = 0;
    unsigned long long bytes = 0;
    unsigned gpu_instance = 0, compute_instance = 0;
  };

  bool check(int code, std::string& why) const {
    if (code != 0) why = text_(code);
    return code == 0;
  }
  bool find(const DeviceProperties& device, void*& handle, std::string& why) const {
    char bus[32];
    std::snprintf(bus, sizeof bus, "%08x:%02x:%02x.0", static_cast<unsigned>(device.pci_domain),
                  static_cast<unsigned>(device.pci_bus), static_cast<unsigned>(device.pci_device));
    return check(by_bus_(bus, &handle), why);
  }

  int (*init_)() = nullptr;
  const char* (*text_)(int) = nullptr;
  int (*by_bus_)(const char*, void**) = nullptr;
  int (*utilization_)(void*, void*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*processes_)(void*, unsigned*, Info*) = nullptr;
};

class RocmSmi final : public Monitor {
 public:
  static std::unique_ptr<Monitor> open(std::string& why) {
    static constexpr const char* kNames[] = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                                             "librocm_smi64.so.1"};
    auto made = std::make_unique<RocmSmi>();
    const Library library = find_library({.what = "ROCm SMI", .sonames = kNames});
    if (!library) return why = library.why_not(), nullptr;
    int (*init)(uint64_t) = nullptr;
    const bool all = library.load(init, "rsmi_init") && library.load(made->count_, "rsmi_num_monitor_devices") &&
                     library.load(made->bus_, "rsmi_dev_pci_id_get") &&
                     library.load(made->busy_, "rsmi_dev_busy_percent_get") &&
                     library.load(made->memory_busy_, "rsmi_dev_memory_busy_percent_get") &&
                     library.load(made->temperature_, "rsmi_dev_temp_metric_get") &&
                     library.load(made->power_, "rsmi_dev_power_ave_get");
    if (!all) return why = library.path() + " lacks functions that are needed", nullptr;
    if (const int code = init(0)) return why = str("ROCm SMI does not start: status ", code), nullptr;
    return made;
  }

  bool read(const DeviceProperties& device, Figure figure, int64_t& value, std::string& why) override {
    uint32_t index = 0, percent = 0;
    if (!find(device, index, why)) return false;
    uint64_t microwatts = 0;
    int64_t millidegrees = 0;
    int code = 0;
    switch (figure) {
      case Figure::Utilization: code = busy_(index, &percent); break;
      case Figure::MemoryUsage: code = memory_busy_(index, &percent); break;
      case Figure::Temperature:
        // Cards for servers have no sensor at the edge, only at the junction.
        code = temperature_(index, 0, 0, &millidegrees);
        if (code != 0) code = temperature_(index, 1, 0, &millidegrees);
        break;
      case Figure::Power: code = power_(index, 0, &microwatts); break;
      case Figure::Clock: return why = "ROCm SMI gives clocks in ways that differ from version to version", false;
    }
    value = figure == Figure::Temperature ? millidegrees / 1000
            : figure == Figure::Power     ? static_cast<int64_t>(microwatts / 1000)
                                          : percent;
    if (code != 0) why = str("ROCm SMI: status ", code);
    return code == 0;
  }

  bool processes(const DeviceProperties&, std::vector<Process>&, std::string& why) override {
    return why = "ROCm SMI does not tell which processes use one device", false;
  }

 private:
  bool find(const DeviceProperties& device, uint32_t& index, std::string& why) const {
    const auto wanted = static_cast<uint64_t>(device.pci_domain) << 32 | static_cast<uint64_t>(device.pci_bus) << 8 |
                        static_cast<uint64_t>(device.pci_device) << 3;
    uint32_t count = 0;
    if (count_(&count) != 0) count = 0;
    for (index = 0; index < count; ++index) {
      uint64_t found = 0;
      // The lowest bits are the function; partitions of a card have numbers there, and above the domain.
      if (bus_(index, &found) == 0 && (found & 0x0ffffffffffffff8ull) == wanted) return true;
    }
    why = "ROCm SMI does not know this device";
    return false;
  }

  int (*count_)(uint32_t*) = nullptr;
  int (*bus_)(uint32_t, uint64_t*) = nullptr;
  int (*busy_)(uint32_t, uint32_t*) = nullptr;
  int (*memory_busy_)(uint32_t, uint32_t*) = nullptr;
  int (*temperature_)(uint32_t, uint32_t, int, int64_t*) = nullptr;
  int (*power_)(uint32_t, uint32_t, uint64_t*) = nullptr;
};

}  // namespace

Monitor* monitor(std::string& why) {
  struct Found {
    std::unique_ptr<Monitor> monitor;
    std::string why;
  };
  static const Found* const found = [] {
    auto* made = new Found;
    Driver* table = driver();
    if (!table) made->why = why_no_driver();
    else made->monitor = table->vendor() == Vendor::Cuda ? Nvml::open(made->why) : RocmSmi::open(made->why);
    return made;
  }();
  why = found->why;
  return found->monitor.get();
}

}  // namespace facula::gpu
