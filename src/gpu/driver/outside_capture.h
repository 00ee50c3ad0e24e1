// Calls that a capture on another stream would forbid, though they have nothing to do with it, are allowed for a while.
#pragma once

#include "gpu/driver/driver.h"

namespace facula::gpu {

class OutsideCapture {
 public:
  // The driver's call that exchanges the thread's mode of capture; null where it has none.
  explicit OutsideCapture(int (*exchange)(int* mode)) : exchange_(exchange) {
    if (exchange_ && exchange_(&mode_) != 0) exchange_ = nullptr;
  }
  ~OutsideCapture() {
    if (exchange_) exchange_(&mode_);
  }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  int (*exchange_)(int* mode);
  int mode_ = static_cast<int>(CaptureMode::Relaxed);
};

}  // namespace facula::gpu
