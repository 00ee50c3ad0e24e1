// The state of a random number generator, and Philox 4x32-10 itself.
#pragma once

#include <facula/core/generator.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace facula {

class GeneratorImpl final : public RefCounted {
 public:
  explicit GeneratorImpl(uint64_t seed) : seed_(seed) {}

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
  mutable std::mutex mutex_;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

// Block `counter` of the stream of `seed`: four independent 32-bit words. The upper half of Philox's 128-bit counter is
// `stream`, 0 unless an op needs several streams.
inline std::array<uint32_t, 4> philox4x32_10(uint64_t seed, uint64_t counter, uint64_t stream = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// The generator that an op uses: the caller's, or the default one.
GeneratorImpl& generator_or_default(const std::optional<Generator>& generator);

}  // namespace facula
