// Kernels of the user's own: text in the common subset of CUDA and HIP C++, compiled at run time for the chip that is there.
//
//   cuda::Kernel scale(R"(
//     extern "C" __global__ void scale(float* x, float factor, int n) {
//       int i = blockIdx.x * blockDim.x + threadIdx.x;
//       if (i < n) x[i] *= factor;
//     })", "scale");
//   scale.launch({(n + 255) / 256}, {256}, 0, x, 2.0f, n);
#pragma once

#include <facula/cuda/device.h>
#include <facula/tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace facula::cuda {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// One argument, by its type in the kernel. A tensor becomes a pointer to its first element; it must be on the current device.
// Integers and floats must have the width that the kernel declares: int is 32 bits, int64_t 64, float 32, double 64.
class KernelArgument {
 public:
  enum class Kind : uint8_t { Tensor, Int32, UInt32, Int64, UInt64, Float, Double, Bool, Int8, UInt8, Int16, UInt16 };

  KernelArgument(const Tensor& tensor) : kind_(Kind::Tensor), tensor_(tensor) {}
  template <std::same_as<bool> T>
  KernelArgument(T value) : kind_(Kind::Bool) {
    value_.b = value;
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  KernelArgument(T value) : kind_(integer_kind(sizeof(T), std::signed_integral<T>)) {
    value_.i = static_cast<int64_t>(value);  // the low bytes come first, so that narrower ones lie at the same place
  }
  KernelArgument(float value) : kind_(Kind::Float) { value_.f = value; }
  KernelArgument(double value) : kind_(Kind::Double) { value_.d = value; }

  Kind kind() const { return kind_; }
  const Tensor& tensor() const { return tensor_; }
  const void* value() const { return &value_; }

 private:
  static constexpr Kind integer_kind(size_t bytes, bool is_signed) {
    switch (bytes) {
      case 1: return is_signed ? Kind::Int8 : Kind::UInt8;
      case 2: return is_signed ? Kind::Int16 : Kind::UInt16;
      case 4: return is_signed ? Kind::Int32 : Kind::UInt32;
      default: return is_signed ? Kind::Int64 : Kind::UInt64;
    }
  }

  Kind kind_;
  union {
    int64_t i = 0;
    float f;
    double d;
    bool b;
  } value_;
  Tensor tensor_;
};

class FACULA_API Kernel {
 public:
  // `name` is an `extern "C" __global__` function of the text. Compiled when it is first launched on a device; what the
  // compiler has to say is in the error. `options` go to the compiler.
  Kernel(std::string source, std::string name, std::vector<std::string> options = {});
  ~Kernel();
  Kernel(Kernel&&) noexcept;
  Kernel& operator=(Kernel&&) noexcept;

  const std::string& name() const;
  const std::string& source() const;
  // Compiles for the current device now.
  void compile() const;
  // Queues it on the current stream of the current device.
  template <class... Args>
  void launch(Dim3 grid, Dim3 block, uint32_t shared_bytes, const Args&... args) const {
    const KernelArgument list[] = {KernelArgument(args)..., KernelArgument(0)};
    run(grid, block, shared_bytes, list, sizeof...(Args));
  }
  void launch_with(Dim3 grid, Dim3 block, uint32_t shared_bytes, const std::vector<KernelArgument>& args) const {
    run(grid, block, shared_bytes, args.data(), args.size());
  }

 private:
  void run(Dim3 grid, Dim3 block, uint32_t shared_bytes, const KernelArgument* args, size_t count) const;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace facula::cuda
