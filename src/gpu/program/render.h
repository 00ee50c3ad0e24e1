// From a Program to device text. What is printed is a struct `P` that knows nothing of memory; kernel templates
// (kernels/pointwise.h, kernels/reduce.h) take it as a template argument and bring elements to it:
//
//   struct P {
//     static constexpr int kLoads = 2, kStores = 1;
//     static constexpr bool kFaults = false;                        // whether `faults` is ever looked at
//     static constexpr DType kLoadTypes[] = {DType::Half, DType::Float};   // at least one entry, also for kLoads == 0
//     static constexpr DType kStoreTypes[] = {DType::Float};
//     static constexpr CType kStoreValues[] = {CType::F32};         // types of the values that are stored
//     struct Params { float p0; double p1; };                       // host layout: put_params
//
//     // Without a reduction: one element.
//     template <class In, class Out>
//     static FACULA_DEVICE void run(const In& in, const Params& params, const Faults& faults, Out& out) {
//       const float v0 = in.template load<0>();                     // load k in its compute type
//       const float v1 = in.template load<1>();
//       const float v2 = params.p0;
//       const float v3 = expr::op::add::eval(v0, v1);
//       out.template store<0>(v3);                                  // any compute type: Memory<...>::store rounds once
//     }
//
//     // With one: what is reduced, and what follows on the reduced values.
//     static constexpr ReduceOp kReduce = ReduceOp::Sum;            // kernels/reduce.h has the enum
//     using Reduced = float;                                        // type of the value that is reduced
//     using First = float; using Second = int64_t;                  // types of the results; Second is int32_t where there is none
//     template <class In>
//     static FACULA_DEVICE Reduced prologue(const In& in, const Params& params, const Faults& faults);
//     template <class Out>
//     static FACULA_DEVICE void epilogue(First first, Second second, const Params& params, const Faults& faults, Out& out);
//   };
//
// The text includes nothing: it follows `#include "gpu/kernels/...h"` and lies in namespace facula. Values are in compute types: bool is
// uint8_t 0 or 1. Integer divisions report a zero divisor through `faults` and give 0.
#pragma once

#include "program/arguments.h"
#include "program/program.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace facula::gpu {

// "float", "int64_t", "Complex<double>", "uint8_t".
std::string c_type(CType type);
std::string render_struct(const Program& program);
// Lines for the top of the text, before it includes anything: what the formulas may know of the program.
std::string render_defines(const Program& program);
// Whether a launch must bring the fault buffer.
bool can_fault(const Program& program);
// A name for the kernel of a program that tells people what it computes: "pointwise_mul_add". `prefix` is the family.
std::string kernel_name(const char* prefix, const Program& program);
// How many times an addition one element costs, roughly: kernels of costly programs unroll less.
int64_t cost_of(const Program& program);

// The arguments of a kernel that takes one struct by value, laid out as the device's compiler does: every member at its natural
// alignment, in the order of the calls. Lives on the stack.
class KernelArguments {
 public:
  static constexpr size_t kCapacity = 4096;  // what every chip takes

  template <class T>
  void put(const T& value) {
    align(alignof(T));
    std::memcpy(take(sizeof(T)), &value, sizeof(T));
  }
  void align(size_t alignment) { size_ = (size_ + alignment - 1) / alignment * alignment; }
  // P::Params, which kernels declare as alignas(8).
  void put_params(const Program& program, const ParamValue* params);
  size_t size() const { return size_; }
  // What Driver::launch takes.
  void** pointers() {
    pointer_ = bytes_;
    return &pointer_;
  }

 private:
  char* take(size_t bytes) {
    char* at = bytes_ + size_;
    size_ += bytes;
    if (size_ > kCapacity) [[unlikely]]
      too_large();
    return at;
  }
  [[noreturn]] static void too_large();

  void* pointer_ = nullptr;
  size_t size_ = 0;
  alignas(16) char bytes_[kCapacity + 64];
};
// Bytes of P::Params, counted from an address that is a multiple of 8.
size_t params_bytes(const Program& program);

}  // namespace facula::gpu
