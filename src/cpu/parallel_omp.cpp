// The seam to OpenMP, shared with oneDNN so that the process has one pool of threads. Compiled with OpenMP and
// without thread sanitizer, which does not see OpenMP's barriers; parallel.cpp announces them.
#include "cpu/parallel_omp.h"

#include <omp.h>

namespace facula {

void run_on_threads(int n, int team, void (*fn)(void* ctx, int thread), void* ctx) {
#pragma omp parallel num_threads(team)
  {
    // OpenMP may grant fewer threads than asked for.
    const int granted = omp_get_num_threads();
    for (int t = omp_get_thread_num(); t < n; t += granted) fn(ctx, t);
  }
}

int default_num_threads() { return omp_get_max_threads(); }

ScopedOmpThreads::ScopedOmpThreads(int n) : before_(omp_get_max_threads()) {
  if (n != before_) omp_set_num_threads(n);
}
ScopedOmpThreads::~ScopedOmpThreads() { omp_set_num_threads(before_); }

}  // namespace facula
