// Modes of the calling thread: whether the tape records, inference, and looking for the origin of NaN.
#pragma once

#include <facula/core/error.h>
#include <facula/core/export.h>

#include <cstdint>

namespace facula {

struct FACULA_API GradMode {
  static bool is_enabled();
  static void set_enabled(bool enabled);
};

// Records or does not record while it lives; `NoGradGuard no_grad;` is what most code wants.
class FACULA_API AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled);
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
};

class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() : AutoGradMode(false) {}
};
class EnableGradGuard : public AutoGradMode {
 public:
  EnableGradGuard() : AutoGradMode(true) {}
};

// As NoGradGuard, and tensors made meanwhile never join a tape: they keep no history of views.
class FACULA_API InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;
  static bool is_enabled();

 private:
  bool grad_before_, inference_before_;
  uint8_t mask_before_;
};

// NaN that anomaly mode found.
class FACULA_API NanError : public Error {
 public:
  using Error::Error;
  const char* type_name() const noexcept override { return "NanError"; }
};

namespace autograd {

using facula::AutoGradMode;
using facula::GradMode;

// Keeps with every recorded op where it was called; an error or a NaN in backward names that place. With `check_nan` the
// results of ops are looked at too, unless `check_forward` says no: the first one that holds NaN while no argument does is a
// NanError that names the op. It is for finding mistakes: each check waits for the op.
struct FACULA_API AnomalyMode {
  static bool is_enabled();
  static bool should_check_nan();
  static bool should_check_forward();
  static void set_enabled(bool enabled, bool check_nan = true, bool check_forward = true);
};

class FACULA_API DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true, bool check_forward = true);
  ~DetectAnomalyGuard();
  DetectAnomalyGuard(const DetectAnomalyGuard&) = delete;
  DetectAnomalyGuard& operator=(const DetectAnomalyGuard&) = delete;

 private:
  bool before_, check_before_, forward_before_;
};

}  // namespace autograd
}  // namespace facula
