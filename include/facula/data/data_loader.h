// Batches of a dataset, made ahead of time by threads.
//
//   auto loader = data::make_data_loader(dataset.map(data::transforms::Stack<>()),
//                                       data::DataLoaderOptions(64).workers(2));
//   for (auto& batch : *loader) train(batch.data, batch.target);
//
// The batches, their order and the random numbers that datasets and transforms draw from the default generator are the
// same for any number of workers: each batch has a stream of its own, made of the generator's state when the epoch
// begins and the number of the batch. Only `enforce_ordering(false)` gives up the order.
#pragma once

#include <facula/data/datasets.h>
#include <facula/data/samplers.h>
#include <facula/data/workers.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace facula::data {

#define FACULA_LOADER_OPTION(Type, name, ...)           \
 public:                                                \
  DataLoaderOptions& name(Type value) {                 \
    name##_ = std::move(value);                         \
    return *this;                                       \
  }                                                     \
  const Type& name() const noexcept { return name##_; } \
                                                        \
 private:                                               \
  Type name##_ __VA_ARGS__

class DataLoaderOptions {
 public:
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}

  // Examples of a batch.
  FACULA_LOADER_OPTION(size_t, batch_size, = 1);
  // Threads; 0 makes each batch when it is asked for.
  FACULA_LOADER_OPTION(size_t, workers, = 0);
  // Batches on their way at a time; twice the workers when it is not given.
  FACULA_LOADER_OPTION(std::optional<size_t>, max_jobs, );
  // How long to wait for a batch of a worker.
  FACULA_LOADER_OPTION(std::optional<std::chrono::milliseconds>, timeout, );
  // Whether batches come in the order of the sampler.
  FACULA_LOADER_OPTION(bool, enforce_ordering, = true);
  // Whether a last batch with fewer examples is left out.
  FACULA_LOADER_OPTION(bool, drop_last, = false);
};
#undef FACULA_LOADER_OPTION

// The same, with everything decided.
struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(DataLoaderOptions options)
      : batch_size(options.batch_size()),
        workers(options.workers()),
        max_jobs(options.max_jobs().value_or(2 * workers)),
        timeout(options.timeout()),
        enforce_ordering(options.enforce_ordering()),
        drop_last(options.drop_last()) {}

  size_t batch_size, workers, max_jobs;
  std::optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

// Walks over the batches of an epoch, once.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;

  // The end.
  Iterator() = default;
  explicit Iterator(std::function<std::optional<Batch>()> next) : next_(std::move(next)) { ++*this; }

  Iterator& operator++() {
    batch_ = next_ ? next_() : std::nullopt;
    if (!batch_) next_ = nullptr;
    return *this;
  }
  Batch& operator*() const {
    FACULA_CHECK(batch_, IndexError, "DataLoader: the epoch is over, there is no batch; compare with end() first");
    return *batch_;
  }
  Batch* operator->() const { return &**this; }
  bool operator==(const Iterator& other) const { return !batch_ && !other.batch_; }

 private:
  std::function<std::optional<Batch>()> next_;
  mutable std::optional<Batch> batch_;
};

template <class DatasetType, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  explicit DataLoaderBase(DataLoaderOptions options) : options_(std::move(options)) {
    FACULA_CHECK(options_.batch_size > 0, ValueError, "DataLoader: batch_size must be at least 1");
    FACULA_CHECK(options_.workers == 0 || options_.max_jobs > 0, ValueError, "DataLoader: max_jobs must be at least 1");
  }
  DataLoaderBase(const DataLoaderBase&) = delete;
  DataLoaderBase& operator=(const DataLoaderBase&) = delete;
  virtual ~DataLoaderBase() { join(); }

  // Begins an epoch. With workers, one that is under way must have ended.
  Iterator<Batch> begin() {
    FACULA_CHECK(!under_way_ || !pool_, Error,
                 "DataLoader: Attempted to get a new DataLoader iterator while another iterator is not yet exhausted");
    // Where the epoch's random numbers begin; the sampler draws after it.
    seed_ = detail::draw_epoch_seed();
    number_ = 0;
    finished_ = false;
    if (pool_) pool_->begin_epoch(seed_);
    reset();
    for (size_t i = 0; pool_ && i < options_.max_jobs; ++i) prefetch();
    under_way_ = true;
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }

  // Ends the worker threads; begin() cannot be called afterwards.
  void join() {
    if (joined_) return;
    joined_ = true;
    under_way_ = false;
    if (pool_) pool_->join();
  }
  const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  // What the sampler says next; nothing at the end of the epoch.
  virtual std::optional<BatchRequest> next_request() = 0;
  virtual void reset() = 0;
  // One function for each worker; a loader without workers calls the first.
  void start(std::vector<std::function<std::optional<Batch>(BatchRequest)>> works) {
    if (options_.workers == 0) {
      inline_work_ = std::move(works.at(0));
      return;
    }
    std::vector<detail::WorkerPool::Work> erased;
    for (auto& work : works)
      erased.push_back([work = std::move(work)](void* request) -> std::shared_ptr<void> {
        return std::make_shared<std::optional<Batch>>(work(std::move(*static_cast<BatchRequest*>(request))));
      });
    pool_ = std::make_unique<detail::WorkerPool>(std::move(erased), options_.enforce_ordering, options_.timeout);
  }

  const FullDataLoaderOptions options_;

 private:
  void prefetch() {
    if (finished_) return;
    if (auto request = next_request()) pool_->push(std::make_shared<BatchRequest>(std::move(*request)));
    else finished_ = true;
  }

  std::optional<Batch> next() {
    std::optional<Batch> made;
    try {
      if (pool_) made = next_of_pool();
      else if (auto request = next_request())
        detail::run_job(seed_, number_++, [&] { made = inline_work_(std::move(*request)); });
    } catch (...) {
      under_way_ = false;  // the epoch ends here; the next begin() starts anew
      throw;
    }
    if (!made) under_way_ = false;
    return made;
  }

  // A batch that a dataset does not have any more leaves later ones on their way; they are empty, too.
  std::optional<Batch> next_of_pool() {
    while (const std::shared_ptr<void> result = pool_->pop()) {
      auto& batch = *static_cast<std::optional<Batch>*>(result.get());
      if (batch) {
        prefetch();
        return std::move(batch);
      }
      finished_ = true;
    }
    return std::nullopt;
  }

  std::unique_ptr<detail::WorkerPool> pool_;
  std::function<std::optional<Batch>(BatchRequest)> inline_work_;
  uint64_t seed_ = 0, number_ = 0;
  bool under_way_ = false, finished_ = false, joined_ = false;
};

// For datasets that are asked by index: every worker has a copy.
template <class DatasetType, class SamplerType>
class StatelessDataLoader
    : public DataLoaderBase<DatasetType, typename DatasetType::BatchType, typename SamplerType::BatchRequestType> {
 public:
  using Base = DataLoaderBase<DatasetType, typename DatasetType::BatchType, typename SamplerType::BatchRequestType>;
  using typename Base::BatchRequestType;

  StatelessDataLoader(DatasetType dataset, SamplerType sampler, DataLoaderOptions options)
      : Base(std::move(options)), sampler_(std::move(sampler)) {
    std::vector<std::function<std::optional<typename DatasetType::BatchType>(BatchRequestType)>> works;
    for (size_t i = 0; i < std::max<size_t>(this->options_.workers, 1); ++i)
      works.push_back([own = std::make_shared<DatasetType>(dataset)](BatchRequestType request) {
        return std::make_optional(own->get_batch(std::move(request)));
      });
    this->start(std::move(works));
  }
  ~StatelessDataLoader() override { this->join(); }

 private:
  void reset() override { sampler_.reset(std::nullopt); }
  std::optional<BatchRequestType> next_request() override {
    auto indices = sampler_.next(this->options_.batch_size);
    if (!indices || (indices->size() < this->options_.batch_size && this->options_.drop_last)) return std::nullopt;
    return indices;
  }

  SamplerType sampler_;
};

// For datasets that know themselves where they stand. Their batches are asked for one after the other, in order,
// whatever the number of workers.
template <class DatasetType>
class StatefulDataLoader : public DataLoaderBase<DatasetType, typename DatasetType::BatchType::value_type,
                                                 typename DatasetType::BatchRequestType> {
 public:
  using Base =
      DataLoaderBase<DatasetType, typename DatasetType::BatchType::value_type, typename DatasetType::BatchRequestType>;
  using BatchRequestType = typename DatasetType::BatchRequestType;

  StatefulDataLoader(DatasetType dataset, DataLoaderOptions options)
      : Base(one_worker(std::move(options))), dataset_(std::make_shared<DatasetType>(std::move(dataset))) {
    this->start({[own = dataset_](BatchRequestType request) { return own->get_batch(std::move(request)); }});
  }
  ~StatefulDataLoader() override { this->join(); }

 private:
  // More than one would only wait for each other.
  static DataLoaderOptions one_worker(DataLoaderOptions options) {
    if (options.workers() > 1) {
      if (!options.max_jobs()) options.max_jobs(2 * options.workers());
      options.workers(1);
    }
    return options;
  }
  void reset() override { dataset_->reset(); }
  std::optional<BatchRequestType> next_request() override { return this->options_.batch_size; }

  std::shared_ptr<DatasetType> dataset_;
};

template <class DatasetType, class SamplerType>
  requires(!DatasetType::is_stateful)
std::unique_ptr<StatelessDataLoader<DatasetType, SamplerType>> make_data_loader(DatasetType dataset,
                                                                                SamplerType sampler,
                                                                                DataLoaderOptions options) {
  return std::make_unique<StatelessDataLoader<DatasetType, SamplerType>>(std::move(dataset), std::move(sampler),
                                                                         std::move(options));
}

// With a sampler of the size of the dataset.
template <class SamplerType = samplers::RandomSampler, class DatasetType>
  requires(!DatasetType::is_stateful && std::is_constructible_v<SamplerType, size_t>)
std::unique_ptr<StatelessDataLoader<DatasetType, SamplerType>> make_data_loader(
    DatasetType dataset, DataLoaderOptions options = DataLoaderOptions()) {
  const std::optional<size_t> size = dataset.size();
  FACULA_CHECK(size, ValueError,
               "make_data_loader: Expected the dataset to be sized in order to construct the Sampler; give a sampler");
  return make_data_loader(std::move(dataset), SamplerType(*size), std::move(options));
}

template <class DatasetType>
  requires(DatasetType::is_stateful)
std::unique_ptr<StatefulDataLoader<DatasetType>> make_data_loader(DatasetType dataset,
                                                                  DataLoaderOptions options = DataLoaderOptions()) {
  return std::make_unique<StatefulDataLoader<DatasetType>>(std::move(dataset), std::move(options));
}

}  // namespace facula::data
