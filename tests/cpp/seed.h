// The seed of tests that draw inputs: FACULA_SEED, or fresh every run. Print it with a failure: SCOPED_TRACE(seed_text()).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace facula_test {

inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("FACULA_TEST_SEED");
    return text ? std::strtoull(text, nullptr, 10)
                : (static_cast<uint64_t>(std::random_device()()) << 16) ^ std::random_device()();
  }();
  return seed;
}
inline std::string seed_text() { return "FACULA_TEST_SEED=" + std::to_string(test_seed()); }

}  // namespace facula_test
