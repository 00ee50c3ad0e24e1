// Mixed precision: while autocast is on for a kind of device, products and convolutions there compute in a narrower type, and
// ops that need range compute in float32, whatever they are given. Which op is on which list is in ops/autocast.txt. In-place
// forms and calls with `out` stay as they are, and backward runs in the types of the forward pass.
//
//   {
//     amp::autocast cast(kCUDA, kBFloat16);
//     loss = loss_fn(net->forward(x), y);
//   }
//   loss.backward();
#pragma once

#include <facula/core/device.h>
#include <facula/core/dtype.h>
#include <facula/core/export.h>

#include <memory>
#include <optional>

namespace facula {

// The state of the calling thread, under the names of libtorch.
namespace autocast {

FACULA_API bool is_autocast_enabled(DeviceType device_type);
FACULA_API void set_autocast_enabled(DeviceType device_type, bool enabled);
FACULA_API ScalarType get_autocast_dtype(DeviceType device_type);
FACULA_API void set_autocast_dtype(DeviceType device_type, ScalarType dtype);
// Whether narrow copies of parameters are kept until the outermost region ends.
FACULA_API bool is_autocast_cache_enabled();
FACULA_API void set_autocast_cache_enabled(bool enabled);
FACULA_API void clear_cache();
// How many regions are open; the caller that comes to zero clears the cache.
FACULA_API int increment_nesting();
FACULA_API int decrement_nesting();

}  // namespace autocast

namespace amp {

// A region with autocast on, or, nested in one, off.
class FACULA_API autocast {
 public:
  explicit autocast(DeviceType device_type, std::optional<ScalarType> dtype = std::nullopt, bool enabled = true,
                    std::optional<bool> cache_enabled = std::nullopt);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  DeviceType device_type_;
  ScalarType dtype_before_;
  bool enabled_before_, cache_before_;
};

}  // namespace amp
}  // namespace facula
