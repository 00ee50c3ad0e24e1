// Threads of the CPU: how many there are, and splitting a range of work over them. Nothing here says what the work is.
#pragma once

#include <cstdint>

#include <facula/core/export.h>

#include "core/function_ref.h"

namespace facula {

// Threads a parallel region may use. Starts as FACULA_NUM_THREADS, else what OpenMP would take.
FACULA_API int get_num_threads();
// Raises ValueError for n < 1. Applies to regions begun afterwards, from any thread.
FACULA_API void set_num_threads(int n);
// Whether the calling thread is running a chunk of a parallel_for.
FACULA_API bool in_parallel_region();

// While it lives, the calling thread computes alone: for threads of which there are many, as those that load data.
class FACULA_API SingleThreadGuard {
 public:
  SingleThreadGuard();
  ~SingleThreadGuard();
  SingleThreadGuard(const SingleThreadGuard&) = delete;
  SingleThreadGuard& operator=(const SingleThreadGuard&) = delete;

 private:
  bool before_;
};

// Whether `work` is worth a parallel region, where `grain` of it, some microseconds, is worth a thread: a team takes the longer to wake
// and to join the larger it is (about half a microsecond a thread).
FACULA_API bool worth_a_team(int64_t work, int64_t grain);

// Calls `f(chunk_begin, chunk_end)` so that the chunks cover [begin, end) once. Chunks are contiguous, differ by at
// most one in length and hold at least `grain` elements. Runs inline when one chunk is all there is, with one thread,
// or inside another parallel_for. The first exception a chunk throws is thrown again here, after all chunks have
// ended.
FACULA_API void parallel_for(int64_t begin, int64_t end, int64_t grain, FunctionRef<void(int64_t, int64_t)> f);

// The same over rows of `entries` each, of which `grain` entries are worth a thread; inline where the whole is not worth a team.
FACULA_API void parallel_rows(int64_t rows, int64_t entries, int64_t grain, FunctionRef<void(int64_t, int64_t)> f);

// Calls `f(thread)` for each thread number in [0, n), n at most get_num_threads(), and returns when all are done; the
// caller runs 0. For work that is split by hand. `n` calls are made even when inline, one after the other.
FACULA_API void parallel_threads(int n, FunctionRef<void(int)> f);

}  // namespace facula
