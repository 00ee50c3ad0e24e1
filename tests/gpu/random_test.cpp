// Random numbers of the GPU are those of the CPU, bit for bit.
#include "device_memory.h"
#include "gpu/program/random.h"
#include "program/random_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace facula::testing {
namespace {

std::vector<char> on_cpu(RandomFill fill, ScalarType dtype, int64_t count, uint64_t seed, uint64_t offset) {
  std::vector<char> bytes(static_cast<size_t>(count) * elementSize(dtype));
  fill.seed = seed;
  fill.offset = offset;
  random_fill(fill, dtype, bytes.data(), count);
  return bytes;
}

constexpr size_t kMargin = 64;  // bytes after the numbers that must stay as they are

std::vector<char> on_gpu(const RandomFill& fill, ScalarType dtype, int64_t count, const gpu::RandomPlace& place,
                         size_t misaligned) {
  const size_t width = elementSize(dtype), size = static_cast<size_t>(count) * width;
  DeviceMemory memory(std::vector<char>(size + kMargin, char(0x5a)), misaligned * width);
  gpu::random_fill(fill, dtype, memory.data(), count, {"random", 0}, place);
  std::vector<char> bytes = memory.bytes();
  for (size_t i = size; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], char(0x5a)) << "byte " << i << " of " << size;
  bytes.resize(size);
  return bytes;
}

void expect_same(const RandomFill& fill, ScalarType dtype, int64_t count, uint64_t seed, uint64_t offset,
                 size_t misaligned = 0) {
  const std::vector<char> expected = on_cpu(fill, dtype, count, seed, offset);
  const std::vector<char> got = on_gpu(fill, dtype, count, {seed, offset, nullptr, 0}, misaligned);
  if (expected == got) return;
  const size_t width = elementSize(dtype);
  size_t at = 0;
  while (std::memcmp(&expected[at * width], &got[at * width], width) == 0) ++at;
  ADD_FAILURE() << "distribution " << static_cast<int>(fill.distribution) << " of " << toString(dtype) << ", " << count
                << " numbers, seed " << seed << ", offset " << offset << ", misaligned by " << misaligned
                << ": element " << at << " differs";
}

struct Case {
  RandomFill fill;
  std::vector<ScalarType> dtypes;
};

std::vector<Case> all_cases() {
  const std::vector<ScalarType> floats = {kFloat, kDouble, kHalf, kBFloat16, kFloat8_e4m3fn, kFloat8_e5m2};
  const std::vector<ScalarType> numbers = {kFloat, kDouble, kHalf, kBFloat16, kByte,   kChar,
                                           kShort, kInt,    kLong, kUInt16,   kUInt32, kUInt64};
  std::vector<ScalarType> all = numbers;
  all.push_back(kBool);
  std::vector<Case> cases;
  auto add = [&](RandomFill fill, const std::vector<ScalarType>& dtypes) { cases.push_back({fill, dtypes}); };
  add({.distribution = Distribution::Uniform, .a = 0, .b = 1}, floats);
  add({.distribution = Distribution::Uniform, .a = -3, .b = 5.5}, floats);
  add({.distribution = Distribution::Uniform, .a = 2, .b = 2}, {kFloat, kDouble});
  add({.distribution = Distribution::Normal, .a = 0, .b = 1}, floats);
  add({.distribution = Distribution::Normal, .a = -1.25, .b = 0.7}, floats);
  add({.distribution = Distribution::Exponential, .a = 1.5}, floats);
  add({.distribution = Distribution::Cauchy, .a = 0.5, .b = 2}, floats);
  add({.distribution = Distribution::LogNormal, .a = 1, .b = 2}, floats);
  add({.distribution = Distribution::Geometric, .a = 0.3}, numbers);
  add({.distribution = Distribution::Bernoulli, .a = 0.37}, all);
  add({.distribution = Distribution::Integer, .low = 0, .range = 2}, all);
  add({.distribution = Distribution::Integer, .low = -100, .range = 227}, {kChar, kShort, kInt, kLong, kFloat, kHalf});
  add({.distribution = Distribution::Integer, .low = -5, .range = uint64_t{1} << 40}, {kLong, kDouble, kFloat});
  add({.distribution = Distribution::Integer, .low = INT64_MIN, .range = 0}, {kLong, kUInt64, kBFloat16});
  return cases;
}

TEST(GpuRandom, SameBitsAsTheCpu) {
  for (const Case& c : all_cases())
    for (ScalarType dtype : c.dtypes) {
      for (int64_t count : {0, 1, 2, 3, 5, 15, 16, 17, 1000, 20011}) expect_same(c.fill, dtype, count, 42, 7);
      expect_same(c.fill, dtype, 333, 0xfedcba9876543210ull, (uint64_t{1} << 32) - 11);
      expect_same(c.fill, dtype, 4100, 1, UINT64_MAX - 100, 1);
    }
}

TEST(GpuRandom, EveryCountAndMisalignment) {
  const RandomFill normal{.distribution = Distribution::Normal},
      bits{.distribution = Distribution::Bernoulli, .a = 0.5};
  for (int64_t count = 0; count <= 140; ++count) {
    expect_same(normal, kFloat, count, 3, 5);
    expect_same(normal, kDouble, count, 3, 5);
    expect_same(bits, kBool, count, 3, 5);
  }
  for (size_t misaligned = 0; misaligned < 8; ++misaligned) {
    expect_same(normal, kFloat, 9000, 3, 5, misaligned);
    expect_same(normal, kBFloat16, 9000, 3, 5, misaligned);
  }
}

TEST(GpuRandom, FreshSeeds) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 source(seed);
  for (int round = 0; round < 4; ++round) {
    const uint64_t key = source(), offset = source();
    const auto count = static_cast<int64_t>(source() % 30000);
    for (ScalarType dtype : {kFloat, kDouble})
      for (Distribution d : {Distribution::Uniform, Distribution::Normal, Distribution::Exponential})
        expect_same({.distribution = d, .a = 0.5, .b = 2}, dtype, count, key, offset);
    expect_same({.distribution = Distribution::Normal}, kFloat, count, key, offset);
  }
}

// While a graph is captured the place is read on the device when the kernel runs.
TEST(GpuRandom, PlaceOfAGraph) {
  const uint64_t pair[2] = {991, 5000};
  const DeviceMemory place(pair, sizeof pair);
  for (ScalarType dtype : {kFloat, kDouble, kHalf}) {
    const RandomFill fill{.distribution = Distribution::Normal};
    const std::vector<char> expected = on_cpu(fill, dtype, 1001, 991, 5017);
    EXPECT_EQ(expected, on_gpu(fill, dtype, 1001, {0, 0, static_cast<const uint64_t*>(place.data()), 17}, 0))
        << toString(dtype);
  }
}

// Kernels take a quotient and a root from approximations and fuse some terms: what they make of these must be right for every number
// that can come, however the approximation is off.
float from_bits(uint32_t bits) { return random_bits::as_float(bits); }

TEST(GpuRandom, EveryLogarithmIsThatOfTheCpu) {
  int64_t wrong = 0;
  for (uint32_t i = 0; i < 0x800000; ++i) {
    const float m = from_bits(i + 0x3f3504f3u), f = m - 1.0f, d = m + 1.0f, half = 0.5f * f * f;
    auto rest = [&](float s, float z, float inner) {
      return f - (half - s * (half + z * (0.66666668653f + z * inner)));
    };
    const float s = f / (2.0f + f), z = s * s;
    const float right = rest(s, z, 0.40000000596f + z * (0.28567501903f + z * 0.23236070573f));
    const uint32_t reciprocal = random_bits::as_bits(static_cast<float>(1.0 / static_cast<double>(d)));
    for (uint32_t off = 0; off < 5; ++off) {
      const float y = from_bits(reciprocal + off - 2), q = f * y;
      const float near = std::fmaf(std::fmaf(-d, q, f), y, q), w = near * near;
      wrong += rest(near, w, std::fmaf(w, std::fmaf(w, 0.23236070573f, 0.28567501903f), 0.40000000596f)) != right;
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace facula::testing
