// Runs a Program on a GPU: picks the layout class, prints one kernel for it (`render.h`) and launches it. Shapes are run-time
// arguments; what is printed depends on the program, dtypes and layout class only.
#pragma once

#include "gpu/encoder.h"
#include "program/arguments.h"
#include "program/program.h"

#include <facula/core/array_ref.h>

#include <memory>
#include <span>

namespace facula::gpu {

class GpuProgram {
 public:
  explicit GpuProgram(const Program& program);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;

  // The same contract as CpuProgram (cpu/executor.h).
  void run(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
           std::span<const ArrayArg> stores, const Work& work) const;
  void run_contiguous(int64_t count, const void* const* loads, const ParamValue* params, void* const* stores,
                      const Work& work) const;
  void run_reduction(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                     std::span<const ParamValue> params, std::span<const ArrayArg> stores, const Work& work) const;

  void run_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params, const Work& work) const;
  void reduce_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params, ListReduce reduce,
                   void* partials, const Work& work) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace facula::gpu
