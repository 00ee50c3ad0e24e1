// Taking batches apart and putting results together. Rules of single ops are in batch_rules.cpp.
#include "autograd/batch.h"

#include "core/shape.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace facula::autograd {

constinit thread_local uint32_t visible_batches = 0;

namespace {

struct OpenBatch {
  uint32_t level;
  int64_t size;
  Randomness randomness;
};
thread_local std::vector<OpenBatch> open_batches;

// The levels of all threads: a function under vmap may hand its tensors to others.
struct OpenLevels {
  std::mutex mutex;
  std::vector<uint32_t> all;
};
OpenLevels& open_levels() {
  static OpenLevels levels;
  return levels;
}
std::atomic<uint32_t> next_level{1};

}  // namespace

BatchLevel::BatchLevel(int64_t size, Randomness randomness)
    : level_(next_level.fetch_add(1)), visible_before_(visible_batches) {
  open_batches.push_back({level_, size, randomness});
  visible_batches = static_cast<uint32_t>(open_batches.size());
  OpenLevels& levels = open_levels();
  const std::lock_guard lock(levels.mutex);
  levels.all.push_back(level_);
}

BatchLevel::~BatchLevel() {
  open_batches.pop_back();
  visible_batches = visible_before_;
  OpenLevels& levels = open_levels();
  const std::lock_guard lock(levels.mutex);
  std::erase(levels.all, level_);
}

size_t depth_of(uint32_t level) {
  for (size_t i = 0; i < open_batches.size(); ++i)
    if (open_batches[i].level == level) return i + 1;
  OpenLevels& levels = open_levels();
  const std::lock_guard lock(levels.mutex);
  return std::find(levels.all.begin(), levels.all.end(), level) != levels.all.end() ? 1 : 0;
}

Tensor make_batched(const Tensor& value, int64_t dim, uint32_t level) {
  const TensorImpl* from = value.impl();
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(from->storage, from->dtype, from->device));
  DimVector sizes(from->sizes), strides(from->strides);
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  impl->set_geometry(sizes, strides, from->storage_offset);
  auto tape = std::make_unique<Tape>();
  tape->batch = std::make_unique<BatchInfo>(BatchInfo{value, dim, level});
  impl->tape = std::move(tape);
  impl->tracking = detail::kTracksBatch;
  return Tensor(std::move(impl));
}

const BatchInfo* batch_of(const Tensor& t) {
  const Tape* tape = tape_of(t);
  return tape ? tape->batch.get() : nullptr;
}

void BatchCall::find_level() {
  const BatchInfo* top = nullptr;
  for (const Tensor& t : tensors_) {
    const BatchInfo* batch = batch_of(t);
    if (batch && (!top || batch->level > top->level)) {
      top = batch;
      rank_ = t.dim();
    }
  }
  FACULA_INTERNAL_CHECK(top);
  FACULA_CHECK(depth_of(top->level) != 0, Error, "vmap: ", op_name(op_),
               " was called with a tensor that a function under vmap has left behind; such a tensor stands for every "
               "entry of a batch and ends with the vmap. Return it from the function instead");
  level_ = top->level;
  size_ = top->value.size(top->dim);
}

void BatchCall::take_innermost_level() {
  if (visible_batches == 0) {
    find_level();  // throws when the tensor is left over from a vmap that has ended
    throw NotSupportedError(str(
        "vmap: ", op_name(op_),
        ": random ops on batches work only in the thread that called vmap, which knows what their entries are to get; "
        "draw the numbers in that thread and hand them to this one"));
  }
  const OpenBatch& innermost = open_batches[visible_batches - 1];
  level_ = innermost.level;
  size_ = innermost.size;
  if (!tensors_.empty()) rank_ = tensors_[0].dim();
}

bool BatchCall::batched(size_t i) const {
  const BatchInfo* batch = batch_of(tensors_[i]);
  return batch && batch->level == level_;
}

Tensor BatchCall::front(size_t i) const {
  if (!batched(i)) return tensors_[i];
  const BatchInfo* batch = batch_of(tensors_[i]);
  return batch->dim == 0 ? batch->value : batch->value.movedim(batch->dim, 0);
}

Tensor BatchCall::front_of_rank(size_t i, int64_t rank) const {
  const Tensor value = front(i);
  if (!batched(i) || tensors_[i].dim() >= rank) return value;
  DimVector with_ones;
  with_ones.push_back(size_);
  for (int64_t d = tensors_[i].dim(); d < rank; ++d) with_ones.push_back(1);
  for (const int64_t s : tensors_[i].sizes()) with_ones.push_back(s);
  return value.reshape(with_ones);
}

int64_t BatchCall::common_rank() const {
  int64_t rank = 0;
  for (const Tensor& t : tensors_)
    if (t.defined()) rank = std::max(rank, t.dim());
  return rank;
}

Tensor BatchCall::full(size_t i) const {
  const Tensor value = front(i);
  return batched(i) || !value.defined() ? value : value.unsqueeze(0).expand(sizes(value.sizes()));
}

std::vector<Tensor> BatchCall::all_full() const {
  std::vector<Tensor> all;
  for (size_t i = 0; i < tensors_.size(); ++i) all.push_back(full(i));
  return all;
}

Tensor BatchCall::rows(size_t i) const { return full(i).reshape({size_, tensors_[i].numel()}); }

bool BatchCall::same_rank() const {
  return std::all_of(tensors_.begin(), tensors_.end(),
                     [&](const Tensor& t) { return t.dim() > 0 && t.dim() == tensors_[0].dim(); });
}

Tensor BatchCall::entry(size_t i, int64_t index) const {
  if (!batched(i)) return tensors_[i];
  const BatchInfo* batch = batch_of(tensors_[i]);
  return batch->value.select(batch->dim, index);
}

int64_t BatchCall::dim(int64_t d) const { return wrap_dim(d, rank_, std::string(op_name(op_)).c_str()) + 1; }
int64_t BatchCall::new_dim(int64_t d) const { return wrap_dim(d, rank_ + 1, std::string(op_name(op_)).c_str()) + 1; }
std::vector<int64_t> BatchCall::dims(IntArrayRef all) const {
  std::vector<int64_t> moved;
  for (const int64_t d : all) moved.push_back(dim(d));
  return moved;
}
std::vector<int64_t> BatchCall::dims_or_all(IntArrayRef all) const {
  if (!all.empty()) return dims(all);
  std::vector<int64_t> every;
  for (int64_t d = 0; d < std::max<int64_t>(rank_, 1); ++d) every.push_back(d + 1);
  return every;
}
std::vector<int64_t> BatchCall::dims_or_all(OptionalIntArrayRef all) const {
  return dims_or_all(all.has_value() ? all.value() : IntArrayRef());
}
std::vector<int64_t> BatchCall::with_front(int64_t first, IntArrayRef rest) {
  std::vector<int64_t> all{first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}
std::vector<int64_t> BatchCall::view_sizes(IntArrayRef entry) const {
  std::vector<int64_t> wanted = sizes(entry);
  const auto open = std::find(wanted.begin() + 1, wanted.end(), -1);
  if (open == wanted.end() || std::find(open + 1, wanted.end(), -1) != wanted.end()) return wanted;
  int64_t known = 1;
  for (const int64_t s : entry) known *= s == -1 ? 1 : s;
  const int64_t count = tensors_[0].numel();
  if (known > 0 && count % known == 0) *open = count / known;
  return wanted;
}
bool BatchCall::can_expand(IntArrayRef size) const {
  const int64_t added = static_cast<int64_t>(size.size()) - rank_;
  return added >= 0 && std::find(size.begin(), size.begin() + added, -1) == size.begin() + added;
}
int64_t BatchCall::dim_from_end(int64_t d) const {
  const int64_t rank = common_rank();
  return wrap_dim(d, rank, std::string(op_name(op_)).c_str()) - rank;
}
Tensor BatchCall::kept(const Tensor& rows, bool keepdim) const {
  if (!keepdim) return rows;
  std::vector<int64_t> ones(static_cast<size_t>(rank_) + 1, 1);
  ones[0] = size_;
  return rows.reshape(ones);
}
Tensor BatchCall::folded(const Tensor& losses, int64_t reduction) const {
  if (reduction == Reduction::None) return losses;
  if (losses.dim() == 1) return losses;
  const Tensor rows = losses.flatten(1);
  return reduction == Reduction::Mean ? rows.mean(1) : rows.sum(1);
}
std::vector<int64_t> BatchCall::strides(IntArrayRef entry) const {
  std::vector<int64_t> with_batch{front(0).stride(0)};
  with_batch.insert(with_batch.end(), entry.begin(), entry.end());
  return with_batch;
}
std::vector<int64_t> BatchCall::ones() const {
  std::vector<int64_t> found;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!batched(i)) continue;
    for (int64_t d = 0; d < tensors_[i].dim(); ++d)
      if (tensors_[i].size(d) == 1) found.push_back(d + 1);
    break;
  }
  return found;
}
std::vector<int64_t> BatchCall::permutation(IntArrayRef order) const {
  std::vector<int64_t> with_batch{0};
  for (const int64_t d : order) with_batch.push_back(dim(d));
  return with_batch;
}
Tensor BatchCall::wrap(const Tensor& value) const {
  Tensor batch = make_batched(value, 0, level_);
  if (!tensors_.empty() && batched(0) && tensors_[0].impl()->storage.get() == value.impl()->storage.get())
    batch.impl()->set_base(tensors_[0].impl());
  return batch;
}
std::vector<Tensor> BatchCall::wrap(const std::vector<Tensor>& values) const {
  std::vector<Tensor> batches;
  for (const Tensor& value : values) batches.push_back(wrap(value));
  return batches;
}

void BatchCall::become(const Tensor& value) const {
  check_self_batched();
  TensorImpl* impl = tensors_[0].impl();
  DimVector entry(value.sizes()), steps(value.strides());
  entry.erase(0);
  steps.erase(0);
  impl->set_geometry(entry, steps, value.storage_offset());
  *tape_of(impl)->batch = BatchInfo{value, 0, level_};
}

void BatchCall::check_self_batched() const {
  const std::string_view name = op_name(op_);
  FACULA_CHECK(
      batched(0), Error, "vmap: inplace arithmetic ", name, name.ends_with('_') ? "" : "_",
      "(self, ...) is not possible because self is not batched while another argument is: the results would not "
      "fit. Use the form that is not in place");
}

void RandomCall::enter() {
  const OpenBatch& innermost = open_batches[visible_batches - 1];
  FACULA_CHECK(
      innermost.randomness != Randomness::Error, NotSupportedError, "vmap: ", op_name(op()),
      ": called random operation while in randomness error mode. Say with vmap's randomness whether all entries "
      "get the \"same\" numbers or \"different\" ones, or draw them outside of vmap");
  different_ = innermost.randomness == Randomness::Different;
  visible_before_ = visible_batches--;
}
RandomCall::~RandomCall() { visible_batches = visible_before_; }

Tensor RandomCall::like() const {
  if (!batched(0)) return (*this)[0];
  return size() > 0 ? entry(0, 0) : front(0).new_empty((*this)[0].sizes());
}

void RandomCall::refuse_batched() const {
  for (size_t i = 0; i < count(); ++i)
    FACULA_CHECK(!(*this)[i].defined() || !batched(i), NotSupportedError, "vmap: ", op_name(op()),
                 ": same randomness with a batched tensor input is not supported, since its entries ask for different "
                 "numbers; use randomness \"different\", or draw outside of vmap");
}

void RandomCall::check_holds_different() const {
  FACULA_CHECK(batched(0), Error, "vmap: ", op_name(op()),
               ": Cannot ask for different inplace randomness on an unbatched tensor, which has one entry for all; use "
               "randomness \"same\", or the form that is not in place");
}

namespace {

// Tensors without dimensions that are batched have one now; what they are promoted to must not change. `values` has the
// batch in front.
void keep_promotion(const BatchCall& call, std::vector<Tensor>& values) {
  bool mixed = false;
  std::optional<ScalarType> of_dims;  // of the tensors with dimensions
  for (size_t i = 0; i < call.count(); ++i) {
    if (!call[i].defined()) continue;
    mixed |= call[i].scalar_type() != call[0].scalar_type();
    if (call[i].dim() > 0) of_dims = of_dims ? promote_types(*of_dims, call[i].scalar_type()) : call[i].scalar_type();
  }
  if (!mixed) [[likely]]
    return;
  for (size_t i = 0; i < call.count(); ++i) {
    if (!call[i].defined() || call[i].dim() > 0) continue;
    if (!of_dims && !call.batched(i)) values[i] = values[i].reshape({1});
    if (!of_dims || !call.batched(i)) continue;
    const ScalarType mine = call[i].scalar_type();
    const auto category = [](ScalarType t) {
      return isComplexType(t) ? 3 : isFloatingType(t) ? 2 : isIntegralType(t, false) ? 1 : 0;
    };
    if (category(mine) > category(*of_dims) || promote_types(*of_dims, mine) == *of_dims) continue;
    values[i] = values[i].to(category(mine) < 3 ? toRealValueType(*of_dims) : *of_dims);
  }
}

// Values with the batch in front and entries of one rank, so that they broadcast as the entries do.
std::vector<Tensor> aligned(const BatchCall& call) {
  const int64_t rank = call.common_rank();
  std::vector<Tensor> values;
  for (size_t i = 0; i < call.count(); ++i)
    values.push_back(call[i].defined() ? call.front_of_rank(i, rank) : Tensor());
  keep_promotion(call, values);
  return values;
}

}  // namespace

Tensor batch_pointwise(const BatchCall& call, FunctionRef<Tensor(BatchTensors)> compute) {
  const detail::Above above;
  const std::vector<Tensor> values = aligned(call);
  return call.wrap(compute(values));
}

void batch_pointwise_inplace(const BatchCall& call, FunctionRef<void(BatchTensors)> compute) {
  const detail::Above above;
  call.check_self_batched();
  const std::vector<Tensor> values = aligned(call);
  compute(values);
}

std::vector<Tensor> batch_loop(const BatchCall& call, FunctionRef<std::vector<Tensor>(BatchTensors)> compute) {
  const detail::Above above;
  FACULA_CHECK(call.size() > 0, NotSupportedError, "vmap: ", op_name(call.op()),
               " has no rule for a batch of size 0; leave the call out for empty batches");
  std::vector<std::vector<Tensor>> results;
  std::vector<Tensor> entries(call.count());
  for (int64_t index = 0; index < call.size(); ++index) {
    for (size_t i = 0; i < call.count(); ++i) entries[i] = call[i].defined() ? call.entry(i, index) : Tensor();
    std::vector<Tensor> made = compute(entries);
    if (results.empty()) results.resize(made.size());
    FACULA_CHECK(made.size() == results.size(), NotSupportedError, "vmap: ", op_name(call.op()),
                 " gives different numbers of results for different entries");
    for (size_t j = 0; j < made.size(); ++j) results[j].push_back(std::move(made[j]));
  }
  std::vector<Tensor> batches;
  for (const std::vector<Tensor>& each : results) {
    for (const Tensor& t : each)
      FACULA_CHECK(t.sizes() == each[0].sizes(), NotSupportedError, "vmap: ", op_name(call.op()),
                   " gives results of different sizes for different entries, ", to_text(each[0].sizes()), " and ",
                   to_text(t.sizes()), "; compute it outside of vmap");
    batches.push_back(call.wrap(stack(each)));
  }
  return batches;
}

void batch_loop_inplace(const BatchCall& call, FunctionRef<void(BatchTensors)> compute) {
  const detail::Above above;
  call.check_self_batched();
  std::vector<Tensor> entries(call.count());
  for (int64_t index = 0; index < call.size(); ++index) {
    for (size_t i = 0; i < call.count(); ++i) entries[i] = call[i].defined() ? call.entry(i, index) : Tensor();
    compute(entries);
  }
}

void refuse_batch(OpId op, const char* result) {
  throw NotSupportedError(
      str("vmap: ", op_name(op), " gives a ", result,
          " for the whole batch, which may differ between its entries; compute it outside of vmap"));
}

}  // namespace facula::autograd
