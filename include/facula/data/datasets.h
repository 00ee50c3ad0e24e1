// Where examples come from. A dataset is a class of the user's that says how many there are and gives them by index, or
// in batches, or as a stream.
//
//   struct Squares : data::Dataset<Squares> {
//     data::Example<> get(size_t i) override { return {tensor({double(i)}), tensor({double(i * i)})}; }
//     std::optional<size_t> size() const override { return 100; }
//   };
#pragma once

#include <facula/core/array_ref.h>
#include <facula/data/example.h>
#include <facula/generated/functions.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace facula::serialize {
class OutputArchive;
class InputArchive;
}  // namespace facula::serialize

namespace facula::data::datasets {

namespace detail {
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};
template <bool wanted, class T>
using optional_if_t = std::conditional_t<wanted, std::optional<T>, T>;
}  // namespace detail

template <class Source, class Applied>
class MapDataset;
template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform);

// Gives whole batches. `Self` is the deriving class.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  // Whether it tells by an empty batch that an epoch has ended.
  static constexpr bool is_stateful = detail::is_optional<BatchType>::value;

  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  // Nothing where it is not known.
  virtual std::optional<size_t> size() const = 0;

  // This dataset with something done to all of its batches.
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) & {
    return datasets::map(static_cast<Self&>(*this), std::move(transform));
  }
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) && {
    return datasets::map(std::move(static_cast<Self&>(*this)), std::move(transform));
  }
};

// Gives examples one by one.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;

  virtual ExampleType get(size_t index) = 0;
  std::vector<ExampleType> get_batch(ArrayRef<size_t> indices) override {
    std::vector<ExampleType> batch;
    batch.reserve(indices.size());
    for (const size_t index : indices) batch.push_back(get(index));
    return batch;
  }
};

// Gives what comes next, without indices.
template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

// Knows itself where it stands and when the epoch is over.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, std::optional<Batch>, BatchRequest> {
 public:
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};

// A dataset and what is done to its batches.
template <class Source, class Applied>
class MapDataset : public BatchDataset<MapDataset<Source, Applied>,
                                       detail::optional_if_t<Source::is_stateful, typename Applied::OutputBatchType>,
                                       typename Source::BatchRequestType> {
 public:
  using DatasetType = Source;
  using TransformType = Applied;
  using BatchRequestType = typename Source::BatchRequestType;
  using OutputBatchType = detail::optional_if_t<Source::is_stateful, typename Applied::OutputBatchType>;

  MapDataset(DatasetType dataset, TransformType transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

  OutputBatchType get_batch(BatchRequestType indices) override {
    if constexpr (Source::is_stateful) {
      if (auto batch = dataset_.get_batch(std::move(indices))) return transform_.apply_batch(std::move(*batch));
      return std::nullopt;
    } else {
      return transform_.apply_batch(dataset_.get_batch(std::move(indices)));
    }
  }
  std::optional<size_t> size() const override { return dataset_.size(); }
  void reset()
    requires Source::is_stateful
  {
    dataset_.reset();
  }
  const Source& dataset() const noexcept { return dataset_; }
  const Applied& transform() const noexcept { return transform_; }

 private:
  DatasetType dataset_;
  TransformType transform_;
};

template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform) {
  static_assert(std::is_same_v<std::conditional_t<Source::is_stateful, std::optional<typename Applied::InputBatchType>,
                                                  typename Applied::InputBatchType>,
                               typename Source::BatchType>,
                "BatchType type of dataset does not match input type of transform");
  return {std::move(dataset), std::move(transform)};
}

// The rows of a tensor.
struct TensorDataset : public Dataset<TensorDataset, TensorExample> {
  explicit TensorDataset(const std::vector<Tensor>& tensors) : TensorDataset(stack(tensors)) {}
  explicit TensorDataset(Tensor the_tensor) : tensor(std::move(the_tensor)) {}
  TensorExample get(size_t index) override { return tensor[static_cast<int64_t>(index)]; }
  std::optional<size_t> size() const override { return static_cast<size_t>(tensor.size(0)); }

  Tensor tensor;
};

// One dataset for all workers, which then must be safe to be called from several threads.
template <class Underlying>
class SharedBatchDataset : public BatchDataset<SharedBatchDataset<Underlying>, typename Underlying::BatchType,
                                               typename Underlying::BatchRequestType> {
 public:
  using BatchType = typename Underlying::BatchType;
  using BatchRequestType = typename Underlying::BatchRequestType;

  SharedBatchDataset(std::shared_ptr<Underlying> dataset) : dataset_(std::move(dataset)) {}
  BatchType get_batch(BatchRequestType request) override { return dataset_->get_batch(std::move(request)); }
  std::optional<size_t> size() const override { return dataset_->size(); }
  void reset() { dataset_->reset(); }
  Underlying& operator*() { return *dataset_; }
  const Underlying& operator*() const { return *dataset_; }
  Underlying* operator->() { return dataset_.get(); }
  const Underlying* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<Underlying> dataset_;
};

template <class Underlying, class... Args>
SharedBatchDataset<Underlying> make_shared_dataset(Args&&... args) {
  return std::make_shared<Underlying>(std::forward<Args>(args)...);
}

}  // namespace facula::data::datasets

namespace facula::data {
using datasets::BatchDataset;
using datasets::Dataset;
}  // namespace facula::data
