// Where the result of an op goes, and the checks that belong to it. Every op that writes goes through here, so that
// resizing, casting rules, overlap checks and version counting are the same everywhere.
#pragma once

#include "core/dim_vector.h"

#include <facula/tensor.h>

#include <initializer_list>
#include <span>
#include <utility>

namespace facula {

class Out {
 public:
  enum class Mode : uint8_t { Fresh, InPlace, Given };

  static Out fresh() { return Out(Mode::Fresh, nullptr); }
  // Into `self` of an in-place call: its sizes must be the result's.
  static Out inplace(Tensor& self) { return Out(Mode::InPlace, &self); }
  static Out inplace(const Tensor& self) { return Out(Mode::InPlace, const_cast<Tensor*>(&self)); }
  // Into the user's `out=`: resized when its sizes differ.
  static Out given(Tensor& out) { return Out(Mode::Given, &out); }

  Mode mode() const { return mode_; }
  bool is_fresh() const { return mode_ == Mode::Fresh; }
  Tensor* target() const { return target_; }

  // The tensor to write results of these sizes and dtype into. Fresh: a new one (with `strides` when given). Otherwise the
  // target after all checks: device, castable dtype, sizes, its own overlap. Its dtype may differ from `dtype`: the
  // writer converts. Nothing is changed when a check fails.
  Tensor prepare(IntArrayRef sizes, ScalarType dtype, Device device, const char* op,
                 const DimVector* strides = nullptr) const;
  // The checks of `prepare` alone; for a fresh result there are none. Where several results are written, each target is
  // checked before the first is touched.
  void check(IntArrayRef sizes, ScalarType dtype, Device device, const char* op) const;
  // Whether `prepare` would resize the memory of one of the inputs: then the result must be computed apart.
  bool resizes_an_input(IntArrayRef sizes, std::span<const Tensor* const> inputs) const;
  // Refuses inputs that share memory with the target in part; call after `prepare`.
  void check_input(const Tensor& target, const Tensor& input, const char* op) const;
  // Marks the target as changed. Call once the result is written; does nothing for a fresh one.
  void written(const Tensor& target) const;

 private:
  Out(Mode mode, Tensor* target) : mode_(mode), target_(target) {}
  Mode mode_;
  Tensor* target_;
};

namespace meaning {

// For ops whose meaning yields a fresh tensor: the derived in-place and out forms.
Tensor& write_inplace(const Tensor& self, const Tensor& result, const char* op);
Tensor& write_out(Tensor& out, const Tensor& result, const char* op);
// Refuses an out tensor that shares memory with an input in part, before anything is computed; it may be the input.
void check_out_apart(const Tensor& out, const Tensor& input, const char* op);
void check_out_apart(const Tensor& out, const std::optional<Tensor>& input, const char* op);
void check_out_apart(const Tensor& out, TensorList inputs, const char* op);
void check_out_apart(const Tensor& out, ArrayRef<std::optional<Tensor>> inputs, const char* op);
// For ops with several results, (target, result) each: all targets are checked before the first is written.
void write_outs(std::initializer_list<std::pair<Tensor*, const Tensor*>> outs, const char* op);
// For in-place view ops (`squeeze_`, `t_`, ...): self takes the geometry of a view of itself.
Tensor& set_geometry(const Tensor& self, const Tensor& view);

}  // namespace meaning

// What creation ops give: a leaf that requires gradients when the options say so.
inline Tensor with_requires_grad(Tensor made, const TensorOptions& options) {
  if (options.requires_grad()) [[unlikely]]
    made.set_requires_grad(true);
  return made;
}

// New tensors, without the call chain: what meanings and kernels use.
Tensor new_tensor(IntArrayRef sizes, ScalarType dtype, Device device, const char* op = "empty");
Tensor new_tensor_strided(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype, Device device,
                          const char* op = "empty_strided");
// A tensor over the same storage with another geometry. Unchecked.
Tensor view_of(const Tensor& base, IntArrayRef sizes, IntArrayRef strides, int64_t storage_offset);
// Every defined tensor must be on one device; zero-dim cpu tensors may join any: for programs, which take them as
// numbers. Throws DeviceError.
Device common_device(std::initializer_list<const Tensor*> tensors, const char* op);
Device common_device(TensorList tensors, const char* op);
// The same without that exception: for ops whose kernels read every tensor where it lies.
Device same_device(std::initializer_list<const Tensor*> tensors, const char* op);

}  // namespace facula
