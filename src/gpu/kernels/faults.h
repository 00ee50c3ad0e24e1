// How kernels report bad values: the first one writes what it saw into a record that the host reads when it next waits. The
// kernel goes on; what it writes for that element does not matter.
#pragma once

// The layout of gpu::FaultRecord.
struct FaculaFault {
  unsigned int taken;
  unsigned int kind;
  long long op;
  long long value;
  long long bound;
};

enum FaculaReportKind { kFaculaIndexOutOfRange = 1, kFaculaDivisionByZero = 2, kFaculaUserAssert = 3 };

// `op` is the address of the op's name on the host.
__device__ inline void facula_report(FaculaFault* fault, unsigned int kind, long long op, long long value,
                                     long long bound) {
  if (atomicCAS(&fault->taken, 0u, 1u) != 0u) return;
  fault->kind = kind;
  fault->op = op;
  fault->value = value;
  fault->bound = bound;
  __threadfence_system();  // all of it before the word that it is complete
  *static_cast<volatile unsigned int*>(&fault->taken) = 2u;
}

// An index that may be negative, as a position; out of range it is reported and becomes 0.
__device__ inline long long facula_checked_index(FaculaFault* fault, long long op, long long index, long long size) {
  const long long wrapped = index < 0 ? index + size : index;
  if (wrapped >= 0 && wrapped < size) return wrapped;
  facula_report(fault, kFaculaIndexOutOfRange, op, index, size);
  return 0;
}
