// Runs a program on the CPU and on the GPU over the same bytes and compares what both leave behind. Arrays are whole buffers: what
// lies between the elements of a strided array is compared too, so that a stray write is seen.
#pragma once

#include "cpp/seed.h"
#include "cpu/executor.h"
#include "gpu/memory/allocator.h"
#include "gpu/encoder.h"
#include "gpu/program/program.h"
#include "gpu/runtime.h"

#include <facula/core/dtype.h>
#include <facula/core/error.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace facula::testing {

using facula_test::seed_text;
using facula_test::test_seed;

// Memory of GPU 0 with the bytes of a host buffer.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<char>& bytes) : bytes_(bytes.size()) {
    allocation_ = gpu::allocate(0, bytes.size(), "test");
    gpu::copy_to_device(allocation_.data, bytes.data(), bytes.size(), true, {"test", 0});
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  ~DeviceBuffer() {
    if (allocation_.block) gpu::free(allocation_.block);
  }
  char* data() const { return static_cast<char*>(allocation_.data); }
  std::vector<char> read() const {
    std::vector<char> host(bytes_);
    gpu::copy_to_host(host.data(), data(), bytes_, true, {"test", 0});
    return host;
  }

 private:
  size_t bytes_;
  gpu::Allocation allocation_;
};

// One array: a buffer, where its first element lies, and its strides.
struct TestArray {
  ScalarType dtype = kFloat;
  std::vector<char> bytes;
  int64_t first = 0;  // in elements
  std::vector<int64_t> strides;
};

// Random values of a dtype: mostly of a moderate size, some special.
class Values {
 public:
  explicit Values(uint64_t seed) : engine_(seed) {}

  uint64_t bits() { return engine_(); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(engine_) < p; }

  double number() {
    constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.0, INFINITY, -INFINITY, NAN, 1e-30, 3.0, -2.0};
    if (chance(0.1)) return kSpecial[below(std::size(kSpecial))];
    return std::uniform_real_distribution<>(-4.0, 4.0)(engine_);
  }
  void put(ScalarType dtype, char* to) {
    switch (dtype) {
      case kBool: *to = static_cast<char>(below(2)); break;
      case kFloat: put_as<float>(to); break;
      case kDouble: put_as<double>(to); break;
      case kHalf: put_as<Half>(to); break;
      case kBFloat16: put_as<BFloat16>(to); break;
      case kFloat8_e5m2: put_as<Float8_e5m2>(to); break;
      case kFloat8_e4m3fn: put_as<Float8_e4m3fn>(to); break;
      case kComplexHalf: put_as<Half>(to), put_as<Half>(to + 2); break;
      case kComplexFloat: put_as<float>(to), put_as<float>(to + 4); break;
      case kComplexDouble: put_as<double>(to), put_as<double>(to + 8); break;
      default: {
        // Small integers, so that shifts, powers and divisions have something to do; now and then any bits.
        const int64_t value = chance(0.2) ? static_cast<int64_t>(bits()) : below(41) - (isSignedType(dtype) ? 20 : 0);
        std::memcpy(to, &value, elementSize(dtype));
      }
    }
  }
  std::vector<char> fill(ScalarType dtype, int64_t count) {
    std::vector<char> bytes(static_cast<size_t>(count) * elementSize(dtype));
    for (size_t k = 0; k < bytes.size(); k += elementSize(dtype)) put(dtype, bytes.data() + k);
    return bytes;
  }

 private:
  template <class T>
  void put_as(char* to) {
    const T value(static_cast<T>(number()));
    std::memcpy(to, &value, sizeof value);
  }
  std::mt19937_64 engine_;
};

struct RunResult {
  std::vector<std::vector<char>> cpu, gpu;  // the stores' buffers
  bool faulted = false;                     // a kernel reported a bad value; the first to wait heard of it
};

// Stores keep the bytes that they have where nothing is written.
inline RunResult run_both(const Program& program, const std::vector<int64_t>& sizes,
                          const std::vector<TestArray>& loads, const std::vector<ParamValue>& params,
                          const std::vector<TestArray>& stores) {
  RunResult result;
  auto arg = [](char* base, const TestArray& a) {
    return ArrayArg{base + a.first * static_cast<int64_t>(elementSize(a.dtype)), a.strides.data()};
  };
  {
    std::vector<std::vector<char>> in;
    std::vector<ArrayArg> load_args, store_args;
    for (const TestArray& a : loads) in.push_back(a.bytes);
    for (const TestArray& a : stores) result.cpu.push_back(a.bytes);
    for (size_t k = 0; k < loads.size(); ++k) load_args.push_back(arg(in[k].data(), loads[k]));
    for (size_t k = 0; k < stores.size(); ++k) store_args.push_back(arg(result.cpu[k].data(), stores[k]));
    CpuProgram(program).run(sizes, load_args, params, store_args);
  }
  {
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    std::vector<ArrayArg> load_args, store_args;
    for (const TestArray& a : loads) {
      buffers.push_back(std::make_unique<DeviceBuffer>(a.bytes));
      load_args.push_back(arg(buffers.back()->data(), a));
    }
    for (const TestArray& a : stores) {
      buffers.push_back(std::make_unique<DeviceBuffer>(a.bytes));
      store_args.push_back(arg(buffers.back()->data(), a));
    }
    gpu::GpuProgram(program).run(sizes, load_args, params, store_args, {"test", 0});
    try {
      gpu::synchronize_device(0);
    } catch (const ValueError&) {
      result.faulted = true;
    }
    for (size_t k = 0; k < stores.size(); ++k) result.gpu.push_back(buffers[loads.size() + k]->read());
  }
  return result;
}

// ---- comparison --------------------------------------------------------------------------------------------------------------------

inline double part_of(const char* at, ScalarType real) {
  switch (real) {
    case kFloat: {
      float x;
      std::memcpy(&x, at, 4);
      return x;
    }
    case kDouble: {
      double x;
      std::memcpy(&x, at, 8);
      return x;
    }
    case kHalf: {
      Half x;
      std::memcpy(&x, at, 2);
      return static_cast<double>(static_cast<float>(x));
    }
    default: return 0;
  }
}

// Whether an element of a float dtype of 8 or 16 bits is NaN.
inline bool is_small_nan(const char* at, ScalarType dtype) {
  uint16_t bits = 0;
  std::memcpy(&bits, at, elementSize(dtype));
  switch (dtype) {
    case kHalf: return (bits & 0x7fff) > 0x7c00;
    case kBFloat16: return (bits & 0x7fff) > 0x7f80;
    case kFloat8_e4m3fn: return (bits & 0x7f) == 0x7f;
    default: return (bits & 0x7f) > 0x7c;
  }
}

// Numbers agree to `tolerance` times their size (the length of a complex one), or where they are small, times what their terms may
// have been; NaN agrees with NaN. 0: equal bits, but any NaN is as good as another, since not every processor
// keeps their payload.
inline bool agree(const char* a, const char* b, ScalarType dtype, double tolerance) {
  const size_t width = elementSize(dtype);
  if (std::memcmp(a, b, width) == 0) return true;
  const ScalarType real = toRealValueType(dtype);
  if (isFloatingType(real) && real != kFloat && real != kDouble) {
    for (size_t k = 0; k < width; k += elementSize(real))
      if (std::memcmp(a + k, b + k, elementSize(real)) != 0 &&
          !(is_small_nan(a + k, real) && is_small_nan(b + k, real)))
        return false;
    return true;
  }
  if (real != kFloat && real != kDouble) return false;
  const size_t parts = isComplexType(dtype) ? 2 : 1, step = width / parts;
  double length = 0;
  // Next to a NaN an infinity has no sign that would mean anything.
  bool nan_in_both = true;
  for (const char* each : {a, b}) {
    bool nan = false;
    for (size_t k = 0; k < parts; ++k) nan |= std::isnan(part_of(each + k * step, real));
    nan_in_both &= nan;
  }
  for (size_t k = 0; k < parts; ++k)
    if (double x = std::abs(part_of(b + k * step, real)); std::isfinite(x)) length = std::max(length, x);
  for (size_t k = 0; k < parts; ++k) {
    const double x = part_of(a + k * step, real), y = part_of(b + k * step, real);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (nan_in_both && std::isinf(x) && std::isinf(y)) continue;
    if (x == y && (tolerance > 0 || std::signbit(x) == std::signbit(y))) continue;
    if (!(std::abs(x - y) <= tolerance * std::max(length, 0.05))) return false;
  }
  return true;
}

inline std::string element_text(const char* at, ScalarType dtype) {
  std::string out;
  const ScalarType real = toRealValueType(dtype);
  if (real == kFloat || real == kDouble)
    for (size_t k = 0; k < elementSize(dtype); k += elementSize(real))
      out += std::to_string(part_of(at + k, real)) + " ";
  out += "0x";
  char digits[3];
  for (size_t k = elementSize(dtype); k-- > 0;) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(at[k])));
    out += digits;
  }
  return out;
}

inline ::testing::AssertionResult same_buffers(const std::vector<char>& gpu, const std::vector<char>& cpu,
                                               ScalarType dtype, double tolerance) {
  if (gpu.size() != cpu.size()) return ::testing::AssertionFailure() << "sizes differ";
  const size_t width = elementSize(dtype);
  size_t wrong = 0, first = 0;
  for (size_t k = 0; k < cpu.size(); k += width)
    if (!agree(gpu.data() + k, cpu.data() + k, dtype, tolerance)) {
      if (wrong++ == 0) first = k;
    }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << " of " << cpu.size() / width << " elements of " << dtype_name(dtype)
                                       << " differ, first " << first / width << ": gpu "
                                       << element_text(gpu.data() + first, dtype) << ", cpu "
                                       << element_text(cpu.data() + first, dtype);
}

}  // namespace facula::testing
