// Random generators of GPUs. The same seed gives the same numbers as on the CPU.
#pragma once

#include <facula/core/generator.h>
#include <facula/cuda/device.h>

#include <cstdint>

namespace facula::cuda {

// Of the current device, and of all. `facula::manual_seed` seeds all devices and the CPU.
FACULA_API void manual_seed(uint64_t seed);
FACULA_API void manual_seed_all(uint64_t seed);
FACULA_API uint64_t seed();
FACULA_API void seed_all();
FACULA_API uint64_t initial_seed();
// -1 is the current device.
FACULA_API Generator default_generator(int64_t device = -1);
FACULA_API Tensor get_rng_state(int64_t device = -1);
FACULA_API void set_rng_state(const Tensor& state, int64_t device = -1);

namespace detail {
inline Generator getDefaultCUDAGenerator(DeviceIndex device = -1) { return default_generator(device); }
FACULA_API Generator createCUDAGenerator(DeviceIndex device = -1);
}  // namespace detail

}  // namespace facula::cuda
