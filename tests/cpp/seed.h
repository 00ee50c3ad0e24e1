// The seed of tests that draw inputs: FACULA_SEED, or fresh every run. A program in which a test fails prints it at its
// end; SCOPED_TRACE(seed_text()) prints it with the failure as well.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace facula_test {

inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("FACULA_SEED");
    return text != nullptr && *text != '\0'
               ? std::strtoull(text, nullptr, 10)
               : (static_cast<uint64_t>(std::random_device()()) << 16) ^ std::random_device()();
  }();
  return seed;
}
inline std::string seed_text() { return "FACULA_SEED=" + std::to_string(test_seed()); }

class SeedPrinter : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!::testing::UnitTest::GetInstance()->Passed()) std::cout << "Repeat with " << seed_text() << std::endl;
  }
};
inline ::testing::Environment* const seed_printer = ::testing::AddGlobalTestEnvironment(new SeedPrinter);

}  // namespace facula_test
