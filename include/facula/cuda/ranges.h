// Ranges and marks that profilers show (NVTX, rocTX). Without the vendor's library they do nothing.
#pragma once

#include <facula/core/export.h>

namespace facula::cuda::nvtx {

// Begins a range inside the current one of this thread; gives its depth, or -1 without a library.
FACULA_API int range_push(const char* text);
FACULA_API int range_pop();
FACULA_API void mark(const char* text);
// Whether a library was found.
FACULA_API bool is_available();

class Range {
 public:
  explicit Range(const char* text) { range_push(text); }
  ~Range() { range_pop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace facula::cuda::nvtx
