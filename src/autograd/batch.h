// Batches that look like one of their entries (vmap), and how ops take them apart. A batched tensor has the sizes of an entry;
// its value has one more dimension. A generated call on batched tensors goes to one of the rules here; what the rule calls
// sees the values, which may be batched again at an outer level, recorded or dual.
#pragma once

#include "autograd/call.h"

#include <facula/facula.h>

#include <span>
#include <tuple>
#include <vector>

namespace facula::autograd {

// `value` as a batch along `dim`, at `level`.
Tensor make_batched(const Tensor& value, int64_t dim, uint32_t level);
const BatchInfo* batch_of(const Tensor& t);

// The tensors of one call, flat: lists and optional tensors included.
class BatchCall {
 public:
  template <class... Args>
  explicit BatchCall(OpId op, const Args&... args) : op_(op) {
    (add(args), ...);
    find_level();
  }
  OpId op() const { return op_; }
  uint32_t level() const { return level_; }
  int64_t size() const { return size_; }
  size_t count() const { return tensors_.size(); }
  const Tensor& operator[](size_t i) const { return tensors_[i]; }
  // Whether tensor `i` is batched at the level of this call.
  bool batched(size_t i) const;
  // Its value with the batch in front; the tensor itself where it is not batched.
  Tensor front(size_t i) const;
  // The same with entries of this many dimensions, new ones of size 1 in front.
  Tensor front_of_rank(size_t i, int64_t rank) const;
  // Entry `index` of it.
  Tensor entry(size_t i, int64_t index) const;

  // Dimensions of entries as dimensions of values with the batch in front.
  int64_t dim(int64_t d) const;
  int64_t new_dim(int64_t d) const;
  std::vector<int64_t> dims(IntArrayRef all) const;
  // The same, where none means all.
  std::vector<int64_t> dims_or_all(IntArrayRef all) const;
  std::vector<int64_t> dims_or_all(OptionalIntArrayRef all) const;
  std::vector<int64_t> sizes(IntArrayRef entry) const;
  // Strides of the value's memory from those of an entry's.
  std::vector<int64_t> strides(IntArrayRef entry) const;
  std::vector<int64_t> permutation(IntArrayRef order) const;
  // Where the first batched tensor's entries have size 1.
  std::vector<int64_t> ones() const;
  int64_t rank() const { return rank_; }

  // Results as batches again. What shares memory with the first tensor is a view of it.
  Tensor wrap(const Tensor& value) const;
  std::vector<Tensor> wrap(const std::vector<Tensor>& values) const;
  template <class... Ts>
  std::tuple<Ts...> wrap(const std::tuple<Ts...>& values) const {
    return std::apply([&](const auto&... each) { return std::tuple<Ts...>(wrap(each)...); }, values);
  }

 private:
  void add(const Tensor& t) { tensors_.push_back(t); }
  void add(const std::optional<Tensor>& t) { tensors_.push_back(t.value_or(Tensor())); }
  void add(TensorList list) { tensors_.insert(tensors_.end(), list.begin(), list.end()); }
  void add(ArrayRef<std::optional<Tensor>> list) {
    for (const auto& t : list) add(t);
  }
  void find_level();

  OpId op_;
  uint32_t level_ = 0;
  int64_t size_ = 0;
  int64_t rank_ = 0;  // of the first batched tensor's entries
  std::vector<Tensor> tensors_;
};

using BatchTensors = std::span<const Tensor>;
inline std::optional<Tensor> optional_at(BatchTensors t, size_t i) {
  return t[i].defined() ? std::optional<Tensor>(t[i]) : std::nullopt;
}
inline std::vector<std::optional<Tensor>> optionals_at(BatchTensors t, size_t first, size_t count) {
  std::vector<std::optional<Tensor>> list;
  for (size_t i = first; i < first + count; ++i) list.push_back(optional_at(t, i));
  return list;
}

// Every result entry from the entries at its place: one call over aligned values.
Tensor batch_pointwise(const BatchCall& call, FunctionRef<Tensor(BatchTensors)> compute);
void batch_pointwise_inplace(const BatchCall& call, FunctionRef<void(BatchTensors)> compute);

// Entry by entry: right for every op.
std::vector<Tensor> batch_loop(const BatchCall& call, FunctionRef<std::vector<Tensor>(BatchTensors)> compute);
void batch_loop_inplace(const BatchCall& call, FunctionRef<void(BatchTensors)> compute);
[[noreturn]] void refuse_batch(OpId op, const char* result);

inline std::vector<Tensor> flat(Tensor t) { return {std::move(t)}; }
inline std::vector<Tensor> flat(std::vector<Tensor> list) { return list; }
template <class... Ts>
std::vector<Tensor> flat(const std::tuple<Ts...>& t) {
  return std::apply([](const auto&... each) { return std::vector<Tensor>{each...}; }, t);
}
template <class R>
R unflat(std::vector<Tensor> list) {
  if constexpr (std::is_same_v<R, Tensor>) return std::move(list[0]);
  else if constexpr (std::is_same_v<R, std::vector<Tensor>>) return list;
  else if constexpr (std::tuple_size_v<R> == 2) return R{list[0], list[1]};
  else return R{list[0], list[1], list[2]};
}

}  // namespace facula::autograd
