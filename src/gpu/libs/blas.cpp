// Looks for the vendor's library once, when a product first asks for it.
#include "gpu/libs/blas.h"

#include "core/env.h"

#include <facula/core/error.h>

namespace facula::gpu {
namespace {

struct Found {
  std::unique_ptr<Blas> blas;
  std::string why_not;
};

Found look() {
  Found found;
  const std::string_view wish = env(EnvVar::Blas).value_or("vendor");
  FACULA_CHECK(wish == "vendor" || wish == "none", ValueError,
               "environment variable FACULA_BLAS must be vendor or none, got \"", wish, "\"");
  if (wish == "none") {
    found.why_not = "FACULA_BLAS=none";
    return found;
  }
  Driver* with = driver();
  if (!with) {
    found.why_not = why_no_driver();
    return found;
  }
  found.blas = with->vendor() == Vendor::Cuda ? find_blas_cuda(with->version(), found.why_not)
                                              : find_blas_hip(with->version(), found.why_not);
  return found;
}

const Found& found() {
  static const auto* once = new Found(look());
  return *once;
}

}  // namespace

Blas* blas() { return found().blas.get(); }
const std::string& why_no_blas() { return found().why_not; }

}  // namespace facula::gpu
