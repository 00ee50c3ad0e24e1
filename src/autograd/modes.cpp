// The modes of a thread.
#include "core/call_hooks.h"
#include "core/tracking.h"

#include <facula/autograd/modes.h>

namespace facula {

namespace detail {

constinit thread_local ThreadModes thread_modes;

}  // namespace detail

namespace {

using detail::thread_modes;

void set_grad(bool enabled) {
  thread_modes.grad = enabled;
  constexpr uint8_t flags = detail::kTracksGrad | detail::kTracksView;
  if (enabled) thread_modes.mask |= flags;
  else thread_modes.mask &= static_cast<uint8_t>(~flags);
}

struct Anomaly {
  bool enabled = false, check_nan = true, check_forward = true;
};
constinit thread_local Anomaly anomaly;

}  // namespace

bool GradMode::is_enabled() { return thread_modes.grad; }
void GradMode::set_enabled(bool enabled) { set_grad(enabled && !thread_modes.inference); }

AutoGradMode::AutoGradMode(bool enabled) : before_(thread_modes.grad) { GradMode::set_enabled(enabled); }
AutoGradMode::~AutoGradMode() { set_grad(before_); }

InferenceMode::InferenceMode(bool enabled)
    : grad_before_(thread_modes.grad), inference_before_(thread_modes.inference), mask_before_(thread_modes.mask) {
  thread_modes.inference = enabled;
  if (enabled) {
    set_grad(false);
    thread_modes.mask &= static_cast<uint8_t>(~detail::kTracksInference);
  } else {
    set_grad(true);
    thread_modes.mask |= detail::kTracksInference;
  }
}
InferenceMode::~InferenceMode() {
  thread_modes.grad = grad_before_;
  thread_modes.inference = inference_before_;
  thread_modes.mask = mask_before_;
}
bool InferenceMode::is_enabled() { return thread_modes.inference; }

namespace autograd {

bool AnomalyMode::is_enabled() { return anomaly.enabled; }
bool AnomalyMode::should_check_nan() { return anomaly.check_nan; }
bool AnomalyMode::should_check_forward() { return anomaly.check_forward; }
void AnomalyMode::set_enabled(bool enabled, bool check_nan, bool check_forward) {
  anomaly = {enabled, check_nan, check_forward};
  if (enabled && check_nan && check_forward) detail::call_hooks |= detail::kChecksResults;
  else detail::call_hooks &= static_cast<uint8_t>(~detail::kChecksResults);
}

DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan, bool check_forward)
    : before_(AnomalyMode::is_enabled()),
      check_before_(AnomalyMode::should_check_nan()),
      forward_before_(AnomalyMode::should_check_forward()) {
  AnomalyMode::set_enabled(true, check_nan, check_forward);
}
DetectAnomalyGuard::~DetectAnomalyGuard() { AnomalyMode::set_enabled(before_, check_before_, forward_before_); }

}  // namespace autograd
}  // namespace facula
