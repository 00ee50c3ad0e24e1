// The vendor's libraries under test: whether they take part, and on the software GPU how often they are called.
#pragma once

#include "gpu/matmul/matmul.h"

#include <dlfcn.h>

#include <cstdlib>

namespace facula::testing {

using Control = const char* (*)(const char* command);

// How the software GPU is spoken to; nothing on a real one.
inline Control control() {
  static const Control found = [] {
    void* driver = dlopen(gpu::driver()->path().c_str(), RTLD_LAZY | RTLD_NOLOAD);
    return driver ? reinterpret_cast<Control>(dlsym(driver, "simgpu_control")) : nullptr;
  }();
  return found;
}
inline int library_calls() { return control() ? std::atoi(control()("count library")) : 0; }

// Whether the library of products takes part. A product may then be added up in other ways.
class BlasScope {
 public:
  explicit BlasScope(bool allow) : before_(gpu::allow_blas()) { gpu::set_allow_blas(allow); }
  ~BlasScope() { gpu::set_allow_blas(before_); }
  BlasScope(const BlasScope&) = delete;
  BlasScope& operator=(const BlasScope&) = delete;

 private:
  bool before_;
};

}  // namespace facula::testing
