// The first link of a call: ops that are on a list of ops/autocast.txt cast their tensors before anybody else sees them, the
// tape included. With autocast off, a call pays for one test of a thread-local byte.
#pragma once

#include <facula/core/array_ref.h>
#include <facula/tensor.h>

#include <optional>
#include <vector>

namespace facula::detail {

// What happens to the tensors of an op: nothing; they get the narrow type; they become float32; the op is told to compute in
// float32; they get the widest type among them.
enum class CastPolicy : uint8_t { None, Lower, Float32, Dtype, Promote };

// The kinds of devices for which autocast is on: bit 0 the cpu, bit 1 GPUs.
inline constinit thread_local uint8_t autocast_devices __attribute__((tls_model("initial-exec"))) = 0;
inline bool autocast_active() { return autocast_devices != 0; }

// Off while it lives: inside of an op that is on a list, and in backward.
class AutocastOff {
 public:
  AutocastOff() : before_(autocast_devices) { autocast_devices = 0; }
  ~AutocastOff() { autocast_devices = before_; }
  AutocastOff(const AutocastOff&) = delete;
  AutocastOff& operator=(const AutocastOff&) = delete;

 private:
  uint8_t before_;
};

// The state of a thread, to be taken up again: what is computed again in backward.
struct AutocastModes {
  uint8_t devices = 0;
  ScalarType dtypes[2] = {};
  bool cache = true;
};
AutocastModes autocast_modes();
class WithAutocast {
 public:
  explicit WithAutocast(const AutocastModes& modes);
  ~WithAutocast();
  WithAutocast(const WithAutocast&) = delete;
  WithAutocast& operator=(const WithAutocast&) = delete;

 private:
  AutocastModes before_;
};

// One call of an op that is on a list. True when a tensor is on a device for which autocast is on; autocast is then off while
// this lives, and calling it with an argument gives the argument to use.
class AutocastCall {
 public:
  template <class... Args>
  AutocastCall(CastPolicy cpu, CastPolicy gpu, const Args&... args) : before_(autocast_devices) {
    (look(args), ...);
    choose(cpu, gpu);
    if (policy_ == CastPolicy::Promote) (widen(args), ...);
    if (policy_ != CastPolicy::None) autocast_devices = 0;
  }
  ~AutocastCall() { autocast_devices = before_; }
  AutocastCall(const AutocastCall&) = delete;
  AutocastCall& operator=(const AutocastCall&) = delete;
  explicit operator bool() const { return policy_ != CastPolicy::None; }

  Tensor operator()(const Tensor& t) const { return policy_ == CastPolicy::Dtype ? t : cast(t); }
  std::optional<Tensor> operator()(const std::optional<Tensor>& t) const {
    return t ? std::optional((*this)(*t)) : std::nullopt;
  }
  std::vector<Tensor> operator()(TensorList list) const;
  std::vector<std::optional<Tensor>> operator()(ArrayRef<std::optional<Tensor>> list) const;
  // The dtype that an op is told to compute in.
  std::optional<ScalarType> dtype(std::optional<ScalarType> given, const Tensor& self) const;

 private:
  void look(const Tensor& t);
  void look(const std::optional<Tensor>& t) {
    if (t) look(*t);
  }
  void look(TensorList list) {
    for (const Tensor& t : list) look(t);
  }
  void look(ArrayRef<std::optional<Tensor>> list) {
    for (const auto& t : list) look(t);
  }
  void widen(const Tensor& t);
  void widen(const std::optional<Tensor>& t) {
    if (t) widen(*t);
  }
  void widen(TensorList list) {
    for (const Tensor& t : list) widen(t);
  }
  void widen(ArrayRef<std::optional<Tensor>> list) {
    for (const auto& t : list) widen(t);
  }
  void choose(CastPolicy cpu, CastPolicy gpu);
  bool eligible(const Tensor& t) const;
  Tensor cast(const Tensor& t) const;

  uint8_t before_;
  uint8_t seen_ = 0;  // the kinds of devices that the tensors are on
  DeviceType device_ = DeviceType::CPU;
  CastPolicy policy_ = CastPolicy::None;
  ScalarType target_ = ScalarType::Float;
};

}  // namespace facula::detail
