// The state of a random number generator, and where its words come from (philox.h).
#pragma once

#include "core/philox.h"

#include <facula/core/generator.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace facula {

class GeneratorImpl final : public RefCounted {
 public:
  explicit GeneratorImpl(uint64_t seed, Device device = Device(kCPU)) : device_(device), seed_(seed) {}

  Device device() const { return device_; }

  uint64_t seed() const {
    std::lock_guard lock(mutex_);
    return seed_;
  }
  uint64_t offset() const {
    std::lock_guard lock(mutex_);
    return offset_;
  }
  void set(uint64_t seed, uint64_t offset) {
    std::lock_guard lock(mutex_);
    seed_ = seed;
    offset_ = offset;
  }
  // Where in the stream a consumer of `blocks` blocks may read.
  struct Reservation {
    uint64_t seed;
    uint64_t offset;
  };
  Reservation reserve(uint64_t blocks) {
    std::lock_guard lock(mutex_);
    Reservation r{seed_, offset_};
    offset_ += blocks;
    return r;
  }

 private:
  const Device device_;
  mutable std::mutex mutex_;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

// Block `counter` of the stream of `seed`: four independent 32-bit words. `stream` is 0 unless an op needs several streams.
inline std::array<uint32_t, 4> philox4x32_10(uint64_t seed, uint64_t counter, uint64_t stream = 0) {
  const PhiloxBlock block = philox_block(philox_keys(seed), counter, stream);
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

// The generator that an op on `device` uses: the caller's, which must be of that kind of device, or the default one.
GeneratorImpl& generator_or_default(const std::optional<Generator>& generator, Device device, const char* op);

}  // namespace facula
