// Random number generators: a seed and a position in the counter-based stream of Philox 4x32-10. The numbers depend on
// these two alone, not on the device, the instruction set or the number of threads.
#pragma once

#include <facula/core/device.h>
#include <facula/core/intrusive_ptr.h>

#include <cstdint>
#include <optional>

namespace facula {

class Tensor;
class GeneratorImpl;

class FACULA_API Generator {
 public:
  Generator();
  explicit Generator(intrusive_ptr<GeneratorImpl> impl);
  Generator(const Generator& other);
  Generator(Generator&& other) noexcept;
  Generator& operator=(const Generator& other);
  Generator& operator=(Generator&& other) noexcept;
  ~Generator();

  bool defined() const { return static_cast<bool>(impl_); }
  void set_current_seed(uint64_t seed);
  uint64_t current_seed() const;
  // Draws a fresh seed from the system and sets it.
  uint64_t seed();
  // Position in the stream, in blocks of four 32-bit words.
  uint64_t offset() const;
  void set_offset(uint64_t offset);
  // 16 bytes: seed and position.
  Tensor get_state() const;
  void set_state(const Tensor& state);
  Generator clone() const;
  // The device whose random ops may take it. The numbers do not depend on it.
  Device device() const;
  GeneratorImpl* impl() const { return impl_.get(); }
  bool operator==(const Generator& other) const { return impl_ == other.impl_; }

 private:
  intrusive_ptr<GeneratorImpl> impl_;
};

inline constexpr uint64_t kDefaultSeed = 67280421310721;

FACULA_API Generator make_generator(uint64_t seed = kDefaultSeed, Device device = Device(kCPU));
// Every device has one; without an index, cuda's first.
FACULA_API Generator default_generator(Device device = Device(kCPU));
// Seeds the default generators of all devices.
FACULA_API void manual_seed(uint64_t seed);
FACULA_API uint64_t initial_seed();
FACULA_API uint64_t seed();

// While it lives, random ops of this thread on the cpu that are given no generator draw from this one, and so does
// default_generator(). Work that is handed to other threads stays repeatable that way: each piece brings its own.
class FACULA_API DefaultGeneratorGuard {
 public:
  explicit DefaultGeneratorGuard(Generator generator);
  ~DefaultGeneratorGuard();
  DefaultGeneratorGuard(const DefaultGeneratorGuard&) = delete;
  DefaultGeneratorGuard& operator=(const DefaultGeneratorGuard&) = delete;

 private:
  Generator generator_;
  GeneratorImpl* before_;
};

namespace detail {
inline Generator getDefaultCPUGenerator() { return default_generator(); }
inline Generator createCPUGenerator(uint64_t seed = kDefaultSeed) { return make_generator(seed); }
}  // namespace detail

}  // namespace facula
