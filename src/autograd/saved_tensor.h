// A tensor that a node keeps for backward, with the version it had; what comes back has its history again.
#pragma once

#include "autograd/saved_hooks.h"
#include "autograd/tensor_tape.h"

#include <memory>

namespace facula::autograd {

class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(SavedTensor&&) = default;
  SavedTensor& operator=(SavedTensor&&) = default;

  // An input of the op; undefined tensors stay undefined.
  void save(const Tensor& input);
  void save(const std::optional<Tensor>& input) {
    if (input) save(*input);
  }
  // An output of the op: the node is its history, so that it is not kept twice.
  // With `dual`, forward mode is about to give it tangents, which the saved one shall have too.
  void save_output(const Tensor& result, uint32_t output_nr, bool dual);
  // A copy that nobody else can write to: `self` of an in-place op.
  void save_copy(const Tensor& input);

  // Throws when the graph was freed or the tensor was modified. `node` is the one that saved.
  Tensor unpack(TapeNode& node) const;
  std::optional<Tensor> unpack_optional(TapeNode& node) const;
  void reset();

 private:
  [[noreturn]] void refuse_modified(TapeNode& node, const Tensor& data, uint32_t now) const;
  // Where gradients of the tensor that comes back go.
  Edge history(TapeNode& node) const;

  Tensor data_;
  Edge history_;  // of a saved input; a leaf has its own unless it was packed
  std::shared_ptr<const PackedTensor> packed_;
  const StorageImpl* storage_ = nullptr;  // of a leaf, which may be given another one
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  enum class Kind : uint8_t { Empty, Undefined, Leaf, Input, Output, Freed } kind_ = Kind::Empty;
};

// A list of tensors that a node keeps.
class SavedList {
 public:
  void save(TensorList list) {
    for (const Tensor& t : list) all_.emplace_back().save(t);
  }
  void save(ArrayRef<std::optional<Tensor>> list) {
    for (const auto& t : list) all_.emplace_back().save(t.value_or(Tensor()));
  }
  std::vector<Tensor> unpack(TapeNode& node) const {
    std::vector<Tensor> list;
    for (const SavedTensor& each : all_) list.push_back(each.unpack(node));
    return list;
  }
  std::vector<std::optional<Tensor>> unpack_optional(TapeNode& node) const {
    std::vector<std::optional<Tensor>> list;
    for (const SavedTensor& each : all_) list.push_back(each.unpack_optional(node));
    return list;
  }
  void reset() {
    for (SavedTensor& each : all_) each.reset();
  }

 private:
  std::vector<SavedTensor> all_;
};

}  // namespace facula::autograd
