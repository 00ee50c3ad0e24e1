// What a GpuProgram keeps: the program, its text, and the kernels that were made for it so far.
#pragma once

#include "gpu/kernel.h"
#include "gpu/program/program.h"
#include "gpu/program/render.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace facula::gpu {

struct ReduceKernels;  // program_reduce.cpp
struct ListKernels;    // program_list.cpp

// What a pointwise kernel is printed for.
struct PointwiseKey {
  uint64_t access = 0;  // two bits for each array: Access of kernels/layout.h
  uint8_t turned = 0;   // 1: kernels/transpose.h
  uint8_t dims = 1;
  uint8_t vector = 0;  // log2 of the elements of a pack
  uint8_t turned_vector = 0;
  uint8_t wide = 0;  // 64-bit index arithmetic
  bool operator==(const PointwiseKey&) const = default;
};

struct PointwiseKernel {
  PointwiseKey key;
  Kernel kernel;
  PointwiseKernel* next;
  // What launches need to know again.
  int unroll = 1;
  int rows = 0, columns = 0;  // of a tile
  uint32_t shared_bytes = 0;
};

struct ProgramState {
  explicit ProgramState(const Program& p);
  ~ProgramState();

  const Program program;
  const std::string text;   // render_struct(program)
  const bool faults;        // can_fault(program)
  const int64_t cost;       // cost_of(program)
  int full_vector = 0;      // log2 of the elements in 16 bytes of the widest array
  uint8_t widths[32] = {};  // log2 of the element sizes: loads, then stores

  // Kernels of arrays that are all contiguous: [log2 of the pack][wide]. The others hang in a list that only grows.
  mutable std::atomic<const PointwiseKernel*> flat[5][2] = {};
  mutable std::atomic<PointwiseKernel*> others = nullptr;

  mutable std::mutex mutex;  // while a kernel is being made
  // program_reduce.cpp makes them at the first run and reads `reduce` without the lock afterwards.
  mutable std::atomic<ReduceKernels*> reduce = nullptr;
  mutable std::shared_ptr<ReduceKernels> reduce_owner;
  mutable std::shared_ptr<ListKernels> lists;  // found under the lock: a launch serves many tensors
};

struct GpuProgram::State : ProgramState {
  using ProgramState::ProgramState;
};

}  // namespace facula::gpu
