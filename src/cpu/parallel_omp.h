// The seam to OpenMP: the only function whose body knows it.
#pragma once

namespace facula {

// Calls fn(ctx, t) for t in [0, n), on n threads where OpenMP grants them, and returns when all calls have returned.
// `fn` must not throw.
void run_on_threads(int n, void (*fn)(void* ctx, int thread), void* ctx);

// The number of threads OpenMP would take by itself.
int default_num_threads();

}  // namespace facula
