// The public ranges.
#include "gpu/libs/ranges.h"

#include <facula/cuda/ranges.h>

namespace facula::cuda::nvtx {

bool is_available() { return gpu::range_functions().push != nullptr; }

int range_push(const char* text) {
  const gpu::RangeFunctions& functions = gpu::range_functions();
  return functions.push ? functions.push(text) : -1;
}

int range_pop() {
  const gpu::RangeFunctions& functions = gpu::range_functions();
  return functions.pop ? functions.pop() : -1;
}

void mark(const char* text) {
  const gpu::RangeFunctions& functions = gpu::range_functions();
  if (functions.mark) functions.mark(text);
}

}  // namespace facula::cuda::nvtx
