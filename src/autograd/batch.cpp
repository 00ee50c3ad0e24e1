// Taking batches apart and putting results together.
#include "autograd/batch.h"

#include "core/shape.h"

namespace facula::autograd {

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
  level_ = top->level;
  size_ = top->value.size(top->dim);
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
  for (int64_t d = 0; d < rank_; ++d) every.push_back(d + 1);
  return every;
}
std::vector<int64_t> BatchCall::dims_or_all(OptionalIntArrayRef all) const {
  return dims_or_all(all.has_value() ? all.value() : IntArrayRef());
}
std::vector<int64_t> BatchCall::sizes(IntArrayRef entry) const {
  std::vector<int64_t> with_batch{size_};
  with_batch.insert(with_batch.end(), entry.begin(), entry.end());
  return with_batch;
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
  if (batched(0) && tensors_[0].impl()->storage.get() == value.impl()->storage.get())
    batch.impl()->set_base(tensors_[0].impl());
  return batch;
}
std::vector<Tensor> BatchCall::wrap(const std::vector<Tensor>& values) const {
  std::vector<Tensor> batches;
  for (const Tensor& value : values) batches.push_back(wrap(value));
  return batches;
}

namespace {

// Values with the batch in front and entries of one rank, so that they broadcast as the entries do.
std::vector<Tensor> aligned(const BatchCall& call) {
  int64_t rank = 0;
  for (size_t i = 0; i < call.count(); ++i)
    if (call[i].defined()) rank = std::max(rank, call[i].dim());
  std::vector<Tensor> values;
  for (size_t i = 0; i < call.count(); ++i) {
    values.push_back(call[i].defined() ? call.front_of_rank(i, rank) : Tensor());
  }
  return values;
}

void check_self_batched(const BatchCall& call) {
  FACULA_CHECK(
      call.batched(0), Error, "vmap: inplace arithmetic ", op_name(call.op()),
      "_(self, ...) is not possible because self is not batched while another argument is: the results would not "
      "fit. Use the form that is not in place");
}

}  // namespace

Tensor batch_pointwise(const BatchCall& call, FunctionRef<Tensor(BatchTensors)> compute) {
  const detail::Above above;
  const std::vector<Tensor> values = aligned(call);
  return call.wrap(compute(values));
}

void batch_pointwise_inplace(const BatchCall& call, FunctionRef<void(BatchTensors)> compute) {
  const detail::Above above;
  check_self_batched(call);
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
  check_self_batched(call);
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
