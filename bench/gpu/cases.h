// The cases of the GPU benchmark: what is run, how much of memory and arithmetic it needs at least, and how its result is
// checked. Names are those of peer.py.
#pragma once

#include <functional>
#include <string>
#include <vector>

struct Prepared {
  std::function<void()> run;
  // How far one result is from a reference that the CPU computed in double precision: |result - reference| / |reference|.
  std::function<double()> check;
};

struct BenchCase {
  std::string name;
  double bytes = 0;      // each input read once, each output written once
  double flops = 0;      // of a matrix product
  double tolerance = 0;  // of check()
  bool host = false;     // a figure of the host: many calls of something tiny
  std::function<Prepared()> prepare;
};

// Tiny tensors instead of large ones, to try the program itself on the software GPU. Set before the cases are made.
extern bool tiny_cases;

std::vector<BenchCase> pointwise_cases();
std::vector<BenchCase> reduction_cases();
std::vector<BenchCase> matmul_cases();
std::vector<BenchCase> attention_cases();
std::vector<BenchCase> training_cases();
std::vector<BenchCase> index_cases();
std::vector<BenchCase> overhead_cases();
