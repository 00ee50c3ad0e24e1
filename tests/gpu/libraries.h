// The vendor's libraries under test: whether they take part, and on the software GPU how often they are called.
#pragma once

#include "gpu/matmul/matmul.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

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

// Whether the library of products takes part, which may then be added up in other ways, and whether small ones have a kernel of their own:
// if not, they go to the library or to tiles.
class BlasScope {
 public:
  explicit BlasScope(bool allow, bool small = false) {
    gpu::set_allow_blas(allow);
    gpu::set_allow_small_products(small);
  }
  ~BlasScope() {
    gpu::set_allow_blas(before_);
    gpu::set_allow_small_products(small_before_);
  }
  BlasScope(const BlasScope&) = delete;
  BlasScope& operator=(const BlasScope&) = delete;

 private:
  const bool before_ = gpu::allow_blas(), small_before_ = gpu::allow_small_products();
};

// Tiles, the library, and the kernel for small products with the library behind it.
inline constexpr std::pair<bool, bool> kWaysOfProducts[] = {{false, false}, {true, false}, {true, true}};

}  // namespace facula::testing
