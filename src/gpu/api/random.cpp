// The public functions about random generators of devices. Core keeps the
// generators.
#include "gpu/api/api.h"

#include <facula/cuda/random.h>
#include <facula/tensor.h>

namespace facula::cuda {

namespace {
// The generator of a device can be named before the device is there: programs
// seed first, then look for a GPU.
int likely_index(int64_t device) { return device >= 0 ? static_cast<int>(device) : gpu::current_device(); }
}  // namespace

Generator default_generator(int64_t device) {
  return facula::default_generator(Device(kCUDA, static_cast<DeviceIndex>(device_index(device, "default_generator"))));
}

void manual_seed(uint64_t seed) {
  facula::default_generator(Device(kCUDA, static_cast<DeviceIndex>(likely_index(-1)))).set_current_seed(seed);
}

void manual_seed_all(uint64_t seed) {
  for (int d = 0; d < gpu::device_count(); ++d)
    facula::default_generator(Device(kCUDA, static_cast<DeviceIndex>(d))).set_current_seed(seed);
}

uint64_t seed() { return default_generator().seed(); }

void seed_all() {
  if (gpu::device_count() > 0) manual_seed_all(default_generator(0).seed());
}

uint64_t initial_seed() { return default_generator().current_seed(); }
Tensor get_rng_state(int64_t device) { return default_generator(device).get_state(); }
void set_rng_state(const Tensor& state, int64_t device) { default_generator(device).set_state(state); }

namespace detail {
Generator createCUDAGenerator(DeviceIndex device) {
  return make_generator(kDefaultSeed, Device(kCUDA, static_cast<DeviceIndex>(device_index(device, "Generator"))));
}
}  // namespace detail

}  // namespace facula::cuda
