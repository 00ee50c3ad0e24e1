// The C interface between the driver and a plugin of cases. Nothing of either tensor library is named here, so that the
// driver can hold both of them in one process.
#pragma once

#include <cstdint>

extern "C" {

enum BenchCheck : int32_t {
  kBenchSameValues = 0,  // both libraries must give the same values
  kBenchNormal = 1,      // samples of a standard normal distribution: compared by moments
  kBenchUniform = 2,     // samples of the uniform distribution on [0, 1): compared by moments
};

struct BenchCaseInfo {
  const char* name;   // "add tiny f32"
  const char* group;  // "pointwise", "matmul", ...
  int32_t check;      // a BenchCheck
};

// Samples of one result tensor, taken at positions that depend on nothing but its number of elements.
struct BenchSamples {
  int64_t sizes[8];
  int32_t dim;
  int32_t dtype_bits;  // 32, 16, ... ; which dtype it is is told by `dtype`
  char dtype[16];
  double tolerance;  // relative to the largest sample
  int64_t count;
  double values[1 << 16];
};

// Functions that can fail return nullptr for success or a message that lives until the next call.
struct BenchPlugin {
  const char* (*library)();  // name and version of the tensor library
  int32_t (*case_count)();
  BenchCaseInfo (*case_info)(int32_t index);
  const char* (*set_num_threads)(int32_t threads);
  const char* (*prepare)(int32_t index);  // makes the inputs; one case is prepared at a time
  const char* (*run)(int64_t iterations);
  int32_t (*result_count)();  // after run
  const char* (*sample_result)(int32_t which, BenchSamples* samples);
  void (*teardown)();
};

// The only symbol that a plugin exports.
const BenchPlugin* facula_bench_plugin();
}
