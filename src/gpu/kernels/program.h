// What the text of a rendered program (gpu/program/render.h) uses: formulas, memory types, and where it reports bad values.
#pragma once

#include "gpu/kernels/device.h"
#include "gpu/kernels/faults.h"
#include "gpu/kernels/memory.h"
#include "gpu/kernels/narrow.h"
#include "program/expr.h"

namespace facula {

// Where a kernel reports to, and for which op.
struct Faults {
  FaculaFault* record;
  int64_t op;

  // The divisor of an integer division, which gives 0 where it is 0.
  template <class T>
  FACULA_DEVICE void check_divisor(T divisor) const {
    if (divisor != T(0)) return;
    // A plain look first: once somebody has reported, millions of others need no atomic.
    if (*static_cast<volatile unsigned int*>(&record->taken) == 0u)
      facula_report(record, kFaculaDivisionByZero, op, 0, 0);
  }
};

}  // namespace facula
