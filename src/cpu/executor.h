// Runs a Program on the CPU: walks the iteration space in tiles that fit the first-level cache, over threads.
#pragma once

#include "core/dim_vector.h"
#include "program/arguments.h"
#include "program/program.h"

#include <facula/core/array_ref.h>

#include <cstdint>
#include <memory>
#include <span>

namespace facula {

struct TilePlan;

// A program with what the executor needs to know of it worked out once: tile functions, buffers, tile size.
class CpuProgram {
 public:
  explicit CpuProgram(Program program);
  ~CpuProgram();
  CpuProgram(CpuProgram&&) noexcept;

  const Program& program() const { return program_; }
  const TilePlan& plan() const { return *plan_; }

  // Runs a program without a reduction over `sizes`. Stores may alias loads exactly (same data, same strides).
  void run(IntArrayRef sizes, std::span<const ArrayArg> loads, std::span<const ParamValue> params,
           std::span<const ArrayArg> stores) const;

  // The same for arrays that are all contiguous over `count` elements: the path of most eager calls.
  void run_contiguous(int64_t count, const void* const* loads, const ParamValue* params, void* const* stores) const;

  // Runs a program with a reduction over the dims whose bit is set in `reduced` (bit i is dim i of `sizes`). Stores are
  // indexed by the kept dims; their strides along reduced dims are ignored.
  void run_reduction(IntArrayRef sizes, uint64_t reduced, std::span<const ArrayArg> loads,
                     std::span<const ParamValue> params, std::span<const ArrayArg> stores) const;

  // Runs a program without a reduction over every item, in one parallel region. Bit k of `constant` says that load k is one
  // element an item. A store may be a load of its item, but not overlap it in part, nor what other items have.
  void run_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params) const;
  // The same, and writes what the last store (float or double) comes to, stretch by stretch, to `partials`. Items have no array
  // for that store.
  void reduce_list(std::span<const ListItem> items, uint64_t constant, const ParamValue* params, ListReduce reduce,
                   void* partials) const;

 private:
  Program program_;
  std::unique_ptr<TilePlan> plan_;
};

}  // namespace facula
