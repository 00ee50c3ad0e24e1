// What softmax and the normalisations do to one row or to some columns, in the compute type. Walking a tensor, conversions from and to
// half types and threads are in cpu/softmax.cpp and cpu/norm.cpp.
#pragma once

#include <cstdint>

#include "program/scalar_ops.h"

namespace facula::cpu {

// The functions for one compute type T (F32 or F64). `out` may be `in`. The order of additions does not depend on the width of vectors.
struct RowOps {
  using Row = void (*)(const void* in, void* out, int64_t n);
  // `cols` columns of `n` entries; the strides are those from one entry of a column to the next.
  using Columns = void (*)(const void* in, int64_t in_stride, void* out, int64_t out_stride, int64_t n, int64_t cols);
  using Finish = void (*)(const void* in, void* out, int64_t n, const void* state);
  using Norm = void (*)(const void* in, void* out, int64_t n, const void* weight, const void* bias, double eps);

  Row softmax = nullptr, log_softmax = nullptr;
  Columns softmax_columns = nullptr, log_softmax_columns = nullptr;

  // Rows that are taken in pieces: each piece gives a state (a T near its largest entry, and the T that adds up exp(entry - that)), the
  // states of all pieces in order give one, and with it each piece is finished.
  void (*state_of)(const void* in, int64_t n, void* state) = nullptr;
  void (*merge_states)(const void* states, int64_t count, void* state) = nullptr;
  Finish finish_softmax = nullptr, finish_log_softmax = nullptr;

  // `weight` and `bias` hold T or are null.
  Norm layer_norm = nullptr, rms_norm = nullptr;
};

const RowOps& row_ops(CType type);

}  // namespace facula::cpu
