// The formulas of pending gradients, in the order in which the engine met them, and the tensors that they read.
// What pending gradients are is said in autograd/pending.h.
#pragma once

#include "autograd/pending.h"
#include "ops/gradients/formula.h"

#include <vector>

namespace facula::autograd {

struct PendingGradients::Chain {
  // Where an argument of a formula comes from: a tensor in memory, or the result of a formula before it.
  struct Source {
    bool computed;
    uint16_t index;
  };
  struct Step {
    detail::FormulaBuild build;
    uint16_t first_source, source_count;
    uint16_t first_number, number_count;
    Tensor result;  // pending
  };
  // Together what an executor takes, if every result is asked for.
  static constexpr size_t kMaxSteps = 16, kMaxOperands = 16;

  explicit Chain(PendingGradients& of) : owner(of) {}

  // Adds a formula; the result is pending.
  Tensor append(detail::FormulaBuild build, std::span<const Tensor* const> tensors, std::span<const double> numbers);
  void run();

  PendingGradients& owner;
  DimVector sizes;
  ScalarType dtype = ScalarType::Undefined;
  Device device{kCPU};
  std::vector<Tensor> operands;
  std::vector<Step> steps;
  std::vector<Source> sources;
  std::vector<double> numbers;

 private:
  Source source_of(const Tensor& t);
  void run_live(std::span<const uint8_t> needed, std::span<const uint8_t> stored);
};

}  // namespace facula::autograd
