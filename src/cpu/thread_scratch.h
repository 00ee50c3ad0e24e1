// Work space that a thread keeps: it stays in the caches of its processor, where memory from a common store comes out of another's.
#pragma once

#include <cstddef>

namespace facula {

// At least `bytes` of memory that the kernels of a thread take turns to use, aligned to a page; what was there before is gone.
void* thread_scratch(size_t bytes);

}  // namespace facula
