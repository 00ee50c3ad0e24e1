// The seam to OpenMP: parallel_omp.cpp alone knows it.
#pragma once

namespace facula {

// Calls fn(ctx, t) for t in [0, n), on `team` threads where OpenMP grants them, and returns when all calls have returned.
// `fn` must not throw. Teams should always have the same size: OpenMP ends threads that a smaller one leaves over, and
// starting them again costs more than most regions.
void run_on_threads(int n, int team, void (*fn)(void* ctx, int thread), void* ctx);

// The number of threads OpenMP would take by itself.
int default_num_threads();

// How many threads OpenMP code that this thread calls may use (oneDNN's), until the end of the scope.
class ScopedOmpThreads {
 public:
  explicit ScopedOmpThreads(int n);
  ~ScopedOmpThreads();
  ScopedOmpThreads(const ScopedOmpThreads&) = delete;
  ScopedOmpThreads& operator=(const ScopedOmpThreads&) = delete;

 private:
  int before_;
};

}  // namespace facula
