// Batches that look like one of their entries (vmap), and how ops take them apart. A batched tensor has the sizes of an entry;
// its value has one more dimension. A generated call on batched tensors goes to one of the rules here; what the rule calls
// sees the values, which may be batched again at an outer level, recorded or dual.
#pragma once

#include "autograd/call.h"

#include <facula/tensors.h>

#include <span>
#include <tuple>
#include <vector>

namespace facula::autograd {

// `value` as a batch along `dim`, at `level`.
Tensor make_batched(const Tensor& value, int64_t dim, uint32_t level);
const BatchInfo* batch_of(const Tensor& t);

// What random ops do inside a vmap.
enum class Randomness { Error, Same, Different };

// A vmap that runs: tensors of its level can be computed with while this lives.
class BatchLevel {
 public:
  BatchLevel(int64_t size, Randomness randomness);
  ~BatchLevel();
  BatchLevel(const BatchLevel&) = delete;
  BatchLevel& operator=(const BatchLevel&) = delete;
  uint32_t level() const { return level_; }

 private:
  uint32_t level_;
  uint32_t visible_before_;
};
// How deep inside of running vmaps a level is, from 1 on; 0 when it has ended.
size_t depth_of(uint32_t level);
// How many vmaps of this thread the running code is inside of. Rules for random ops hide the one they have dealt with.
extern constinit thread_local uint32_t visible_batches __attribute__((tls_model("initial-exec")));
inline bool in_batch() { return visible_batches != 0; }

// The tensors of one call, flat: lists and optional tensors included.
class BatchCall {
 public:
  template <class... Args>
  explicit BatchCall(OpId op, const Args&... args) : op_(op) {
    (add(args), ...);
    find_level();
  }
  BatchCall(const BatchCall&) = delete;
  BatchCall& operator=(const BatchCall&) = delete;
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
  // The largest rank among the entries, and a value whose entries have it.
  int64_t common_rank() const;
  Tensor ranked(size_t i) const { return front_of_rank(i, common_rank()); }
  // The batch in front even where the tensor is not batched: then all entries are the same memory.
  Tensor full(size_t i) const;
  std::vector<Tensor> all_full() const;
  // The same with entries as one dimension.
  Tensor rows(size_t i = 0) const;
  // Entry `index` of it.
  Tensor entry(size_t i, int64_t index) const;
  // Whether all entries have the same number of dimensions, at least one.
  bool same_rank() const;

  // Dimensions of entries as dimensions of values with the batch in front.
  int64_t dim(int64_t d) const;
  int64_t new_dim(int64_t d) const;
  std::vector<int64_t> dims(IntArrayRef all) const;
  // The same, where none means all.
  std::vector<int64_t> dims_or_all(IntArrayRef all) const;
  std::vector<int64_t> dims_or_all(OptionalIntArrayRef all) const;
  std::vector<int64_t> sizes(IntArrayRef entry) const { return with_front(size_, entry); }
  static std::vector<int64_t> with_front(int64_t first, IntArrayRef rest);
  // The same for views: a size of -1 is computed from an entry.
  std::vector<int64_t> view_sizes(IntArrayRef entry) const;
  // Whether an entry can be expanded to these sizes as far as their number and -1 are concerned.
  bool can_expand(IntArrayRef size) const;
  // A dimension of entries of the common rank, counted from the end.
  int64_t dim_from_end(int64_t d) const;
  // A reduction over rows as `keepdim` wants it.
  Tensor kept(const Tensor& rows, bool keepdim) const;
  std::tuple<Tensor, Tensor> kept(const std::tuple<Tensor, Tensor>& rows, bool keepdim) const {
    return {kept(std::get<0>(rows), keepdim), kept(std::get<1>(rows), keepdim)};
  }
  // Losses of single places folded for each entry.
  Tensor folded(const Tensor& losses, int64_t reduction) const;
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
  // Gives the first tensor another geometry: that of `value`, a view of it with the batch in front.
  void become(const Tensor& value) const;
  // Refuses to write batches to a tensor that is none.
  void check_self_batched() const;

 protected:
  struct Innermost {};
  template <class... Args>
  BatchCall(Innermost, OpId op, const Args&... args) : op_(op) {
    (add(args), ...);
    take_innermost_level();
  }

 private:
  void add(const Tensor& t) { tensors_.push_back(t); }
  void add(const std::optional<Tensor>& t) { tensors_.push_back(t.value_or(Tensor())); }
  void add(TensorList list) { tensors_.insert(tensors_.end(), list.begin(), list.end()); }
  void add(ArrayRef<std::optional<Tensor>> list) {
    for (const auto& t : list) add(t);
  }
  void find_level();
  void take_innermost_level();

  OpId op_;
  uint32_t level_ = 0;
  int64_t size_ = 0;
  int64_t rank_ = 0;  // of the first batched tensor's entries
  std::vector<Tensor> tensors_;
};

// A random op inside a vmap, which may concern none of its tensors. While it lives that vmap is hidden.
class RandomCall : public BatchCall {
 public:
  template <class... Args>
  explicit RandomCall(OpId op, const Args&... args) : BatchCall(Innermost{}, op, args...) {
    enter();
  }
  ~RandomCall();
  // Whether every entry gets numbers of its own.
  bool different() const { return different_; }
  // An entry of the first tensor, for its sizes.
  Tensor like() const;
  // Refuses batches where all entries are to get the same numbers, and tensors that cannot hold different ones.
  void refuse_batched() const;
  void check_holds_different() const;

 private:
  void enter();
  bool different_ = false;
  uint32_t visible_before_ = 0;
  detail::Above above_;
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

// Rules of single ops (batch_rules.cpp): the value of the result, with the batch in front.
Tensor batch_matmul(const BatchCall& call);
Tensor batch_linear(const BatchCall& call);
Tensor batch_baddbmm(const BatchCall& call, const Scalar& beta, const Scalar& alpha);
Tensor batch_affine(const BatchCall& call, const Tensor& normalized);
Tensor batch_index_select(const BatchCall& call, int64_t dim);
Tensor batch_take(const BatchCall& call);
Tensor batch_nll_loss(const BatchCall& call, const std::optional<Tensor>& weight, int64_t reduction,
                      int64_t ignore_index);
std::tuple<Tensor, Tensor> batch_dropout(const RandomCall& call, double p);
// Tensor 0 at the indices, which are tensors 1 and on. For index_put the values come last.
bool can_batch_index(const BatchCall& call);
Tensor batch_index(const BatchCall& call);
bool can_batch_index_put(const BatchCall& call);
Tensor batch_index_put(const BatchCall& call, bool accumulate);
// Whether tensor `from` without dimensions can be written to entries of tensor 0.
bool is_number_for(const BatchCall& call, size_t from);
bool plain_format(std::optional<MemoryFormat> format);

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
  else if constexpr (std::tuple_size_v<R> == 3) return R{list[0], list[1], list[2]};
  else return R{list[0], list[1], list[2], list[3]};
}

}  // namespace facula::autograd
