// Samplers of datasets.
#include <facula/data/samplers.h>
#include <facula/facula.h>
#include <facula/serialize.h>

#include <algorithm>

namespace facula::data::samplers {
namespace {

// The next at most `batch_size` of `values` from `position` on, which moves.
std::optional<std::vector<size_t>> take(const std::vector<size_t>& values, size_t& position, size_t end,
                                        size_t batch_size) {
  if (position >= end) return std::nullopt;
  const size_t stop = std::min(end, position + std::min(batch_size, end - position));
  std::vector<size_t> made(values.begin() + static_cast<std::ptrdiff_t>(position),
                           values.begin() + static_cast<std::ptrdiff_t>(stop));
  position = stop;
  return made;
}

std::vector<size_t> shuffled(size_t size, const std::optional<Generator>& generator) {
  const Tensor order = randperm(static_cast<int64_t>(size), generator, TensorOptions().dtype(kLong));
  const int64_t* values = order.data_ptr<int64_t>();
  return {values, values + size};
}

// A number that an archive holds and that no larger index may follow from.
size_t read_size(serialize::InputArchive& archive, const char* key, size_t most) {
  int64_t value = 0;
  archive.read(key, value);
  FACULA_CHECK(value >= 0 && static_cast<size_t>(value) <= most, ValueError, "Sampler::load: ", key, " is ", value,
               ", and at most ", most, " is possible");
  return static_cast<size_t>(value);
}

void check_rank(const char* name, size_t num_replicas, size_t rank) {
  FACULA_CHECK(num_replicas > 0 && rank < num_replicas, ValueError, name, ": rank ", rank,
               " is not below num_replicas ", num_replicas);
}

}  // namespace

CustomBatchRequest::~CustomBatchRequest() = default;

SequentialSampler::SequentialSampler(size_t size) : size_(size) {}
void SequentialSampler::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = *new_size;
  index_ = 0;
}
std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, size_ - index_);
  if (count == 0) return std::nullopt;
  std::vector<size_t> indices(count);
  for (size_t& each : indices) each = index_++;
  return indices;
}
void SequentialSampler::save(serialize::OutputArchive& archive) const { archive.write("index", index_); }
void SequentialSampler::load(serialize::InputArchive& archive) { index_ = read_size(archive, "index", size_); }

RandomSampler::RandomSampler(int64_t size, Dtype index_dtype)
    : indices_(randperm(size, TensorOptions().dtype(index_dtype))) {}
void RandomSampler::reset(std::optional<size_t> new_size) {
  // Each epoch is shuffled when it begins: the order depends on the generator alone, not on how often it was reset
  // before.
  const int64_t size = new_size ? static_cast<int64_t>(*new_size) : indices_.numel();
  indices_ = randperm(size, TensorOptions().dtype(indices_.scalar_type()));
  index_ = 0;
}
std::optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  const int64_t left = indices_.numel() - index_;
  if (left == 0 || batch_size == 0) return std::nullopt;
  const int64_t count = static_cast<int64_t>(std::min<uint64_t>(batch_size, static_cast<uint64_t>(left)));
  const Tensor slice = indices_.slice(0, index_, index_ + count).to(kLong);
  const int64_t* values = slice.data_ptr<int64_t>();
  index_ += count;
  return std::vector<size_t>(values, values + count);
}
void RandomSampler::save(serialize::OutputArchive& archive) const {
  archive.write("index", index_);
  archive.write("indices", indices_);
}
void RandomSampler::load(serialize::InputArchive& archive) {
  Tensor indices;
  archive.read("indices", indices);
  FACULA_CHECK(indices.dim() == 1 && isIntegralType(indices.scalar_type()), ValueError,
               "RandomSampler::load: indices must be whole numbers in one dim, not ", dtype_name(indices.scalar_type()),
               " of shape ", to_text(indices.sizes()));
  const int64_t count = indices.numel();
  FACULA_CHECK(count == 0 || (indices.min().item<int64_t>() >= 0 && indices.max().item<int64_t>() < count), ValueError,
               "RandomSampler::load: an index is not below the number of indices, ", count);
  index_ = static_cast<int64_t>(read_size(archive, "index", static_cast<size_t>(count)));
  indices_ = indices;
}

StreamSampler::StreamSampler(size_t epoch_size) : epoch_size_(epoch_size) {}
void StreamSampler::reset(std::optional<size_t> new_size) {
  if (new_size) epoch_size_ = *new_size;
  examples_retrieved_so_far_ = 0;
}
std::optional<BatchSize> StreamSampler::next(size_t batch_size) {
  const size_t count = std::min(batch_size, epoch_size_ - examples_retrieved_so_far_);
  if (count == 0) return std::nullopt;
  examples_retrieved_so_far_ += count;
  return BatchSize(count);
}
void StreamSampler::save(serialize::OutputArchive& archive) const {
  archive.write("examples_retrieved_so_far", examples_retrieved_so_far_);
}
void StreamSampler::load(serialize::InputArchive& archive) {
  examples_retrieved_so_far_ = read_size(archive, "examples_retrieved_so_far", epoch_size_);
}

DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {
  check_rank("DistributedRandomSampler", num_replicas, rank);
  reset(size_);
}
void DistributedRandomSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  populate_indices();
  sample_index_ = begin_index_;
}
void DistributedRandomSampler::populate_indices() {
  all_indices_ = shuffled(size_, make_generator(epoch_));  // the same in every process
  const size_t count = local_sample_count();
  const size_t total = allow_duplicates_ ? count * num_replicas_ : size_;
  for (size_t i = size_; i < total; ++i) all_indices_.push_back(all_indices_[i - size_]);
  const size_t longer = size_ % num_replicas_;
  begin_index_ = allow_duplicates_ ? rank_ * count : rank_ * (size_ / num_replicas_) + std::min(rank_, longer);
  end_index_ = begin_index_ + count;
}
std::optional<std::vector<size_t>> DistributedRandomSampler::next(size_t batch_size) {
  return take(all_indices_, sample_index_, end_index_, batch_size);
}
void DistributedRandomSampler::save(serialize::OutputArchive& archive) const {
  archive.write("sample_index", sample_index_);
  archive.write("epoch", epoch_);
}
void DistributedRandomSampler::load(serialize::InputArchive& archive) {
  epoch_ = read_size(archive, "epoch", static_cast<size_t>(INT64_MAX));
  populate_indices();
  sample_index_ = read_size(archive, "sample_index", end_index_);
}

DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas, size_t rank,
                                                           bool allow_duplicates)
    : DistributedSampler(size, num_replicas, rank, allow_duplicates) {
  check_rank("DistributedSequentialSampler", num_replicas, rank);
  reset(size_);
}
void DistributedSequentialSampler::reset(std::optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  populate_indices();
  sample_index_ = begin_index_;
}
void DistributedSequentialSampler::populate_indices() {
  const size_t count = local_sample_count();
  const size_t longer = size_ % num_replicas_;
  begin_index_ = allow_duplicates_ ? rank_ * count : rank_ * (size_ / num_replicas_) + std::min(rank_, longer);
  end_index_ = begin_index_ + count;
  all_indices_.resize(end_index_);
  for (size_t i = 0; i < end_index_; ++i) all_indices_[i] = size_ == 0 ? 0 : i % size_;
}
std::optional<std::vector<size_t>> DistributedSequentialSampler::next(size_t batch_size) {
  return take(all_indices_, sample_index_, end_index_, batch_size);
}
void DistributedSequentialSampler::save(serialize::OutputArchive& archive) const {
  archive.write("sample_index", sample_index_);
}
void DistributedSequentialSampler::load(serialize::InputArchive& archive) {
  sample_index_ = read_size(archive, "sample_index", end_index_);
}

}  // namespace facula::data::samplers
