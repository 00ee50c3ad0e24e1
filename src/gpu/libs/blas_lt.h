// What the "light" BLAS libraries of both vendors share: a product is described, the library proposes algorithms, one
// of them is kept and run. The vendors differ in names and numbers, which are data here.
#pragma once

#include "gpu/libs/blas.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace facula::gpu {

struct LtApi {
  std::string name, path;

  // Entry points; handles and descriptors are pointers that only the library looks into, a status of 0 is success.
  int (*create)(void** handle) = nullptr;
  int (*describe_create)(void** description, int compute, int scale) = nullptr;
  int (*describe_set)(void* description, int attribute, const void* value, size_t bytes) = nullptr;
  int (*describe_destroy)(void* description) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*layout_set)(void* layout, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   void* results, int* found) = nullptr;
  int (*matmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const void* algorithm, void* workspace, size_t workspace_bytes, void* stream) = nullptr;

  // Attributes by number; -1 where a library has none.
  int set_transpose_a, set_transpose_b, set_epilogue, set_bias, set_bias_type, set_before, set_before_leading;
  int layout_batch, layout_batch_stride;
  int prefer_workspace, prefer_reduction = -1, prefer_align_a = -1, prefer_align_b = -1, prefer_align_c = -1,
                        prefer_align_d = -1;
  // Values.
  int32_t keep, transpose;  // what is done to an operand
  // What is done to a product at its end, put together from these.
  uint32_t epilogue_bias, epilogue_relu, epilogue_gelu, epilogue_before;
  uint32_t exact_reductions = 0;  // ways to add up parts that keep the precision of sums
  // Sizes of what `heuristic` writes: an algorithm, then (aligned to 8) its workspace and its status.
  size_t algorithm_bytes, result_bytes;
  // The library's numbers for a problem's types; nullopt when it has none.
  struct Types {
    int in, out, compute, scale;
  };
  std::optional<Types> (*types)(const BlasProblem& problem) = nullptr;
  bool (*supports)(ScalarType dtype, int device) = nullptr;
  std::string (*status_name)(int status) = nullptr;
  // Whether a status says that the library cannot do this, rather than that something went wrong.
  bool (*is_refusal)(int status) = nullptr;
  // Whether running a product writes to its description: then only one thread at a time may use one.
  bool description_is_written = false;
};

std::unique_ptr<Blas> make_lt_blas(LtApi api);

}  // namespace facula::gpu
