// Datasets, samplers, transforms and loaders: what comes out, in which order, with which random numbers, for any number
// of workers; errors in workers; ends in the middle.
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "seed.h"

namespace {

namespace data = torch::data;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Example i is i and its square, and a random number.
struct Numbers : data::Dataset<Numbers> {
  explicit Numbers(size_t the_count, bool the_random = false) : count(the_count), random(the_random) {}
  data::Example<> get(size_t index) override {
    if (static_cast<int64_t>(index) == fails_at)
      throw std::runtime_error("example " + std::to_string(index) + " is bad");
    const double value = static_cast<double>(index);
    // Later examples are ready sooner, so that an order that depends on speed shows.
    if (random) std::this_thread::sleep_for(std::chrono::microseconds(index % 7 * 100));
    return {torch::tensor({value}), random ? torch::rand({2}) : torch::tensor({value * value})};
  }
  std::optional<size_t> size() const override { return count; }
  size_t count;
  bool random;
  int64_t fails_at = -1;
};

template <class Loader>
std::vector<std::vector<double>> epoch(Loader& loader) {
  std::vector<std::vector<double>> batches;
  for (auto& batch : loader) {
    std::vector<double> values;
    for (const torch::Tensor& part : {batch.data, batch.target}) {
      const torch::Tensor flat = part.reshape({-1}).to(torch::kDouble).contiguous();
      values.insert(values.end(), flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
    }
    batches.push_back(values);
  }
  return batches;
}

TEST(Data, SequentialBatches) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(Numbers(5).map(data::transforms::Stack<>()),
                                                                          data::DataLoaderOptions().batch_size(2));
  EXPECT_THAT(epoch(*loader), ElementsAre(ElementsAre(0, 1, 0, 1), ElementsAre(2, 3, 4, 9), ElementsAre(4, 16)));
  EXPECT_EQ(epoch(*loader).size(), 3u);  // and again
  auto whole = data::make_data_loader<data::samplers::SequentialSampler>(
      Numbers(5).map(data::transforms::Stack<>()), data::DataLoaderOptions(2).drop_last(true).workers(2));
  EXPECT_EQ(epoch(*whole).size(), 2u);
}

TEST(Data, ShuffledEpochsHoldEveryExampleOnce) {
  auto loader = data::make_data_loader(Numbers(100).map(data::transforms::Stack<>()), 7);
  std::vector<double> first, second;
  for (auto* order : {&first, &second})
    for (auto& batch : *loader)
      for (int64_t i = 0; i < batch.data.size(0); ++i) order->push_back(batch.data[i][0].template item<double>());
  EXPECT_EQ(first.size(), 100u);
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 100u);
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<double>(second.begin(), second.end()).size(), 100u);
}

TEST(Data, TheNumberOfWorkersChangesNothing) {
  SCOPED_TRACE(facula_test::seed_text());
  std::vector<std::vector<std::vector<double>>> results;
  std::vector<double> after;
  for (const size_t workers : {0, 1, 2, 5}) {
    torch::manual_seed(facula_test::test_seed());
    auto loader = data::make_data_loader(Numbers(60, true).map(data::transforms::Stack<>()),
                                         data::DataLoaderOptions(4).workers(workers));
    auto both = epoch(*loader);
    const auto second = epoch(*loader);
    EXPECT_NE(both, second);
    both.insert(both.end(), second.begin(), second.end());
    results.push_back(both);
    after.push_back(torch::rand({1}).item<double>());  // the default generator moved on by the same way
  }
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_EQ(results[i], results[0]) << i;
    EXPECT_EQ(after[i], after[0]);
  }
}

TEST(Data, WithoutOrderEverythingStillComesOnce) {
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      Numbers(50, true).map(data::transforms::Stack<>()),
      data::DataLoaderOptions(3).workers(3).enforce_ordering(false));
  std::set<double> seen;
  for (auto& batch : *loader)
    for (int64_t i = 0; i < batch.data.size(0); ++i) seen.insert(batch.data[i][0].template item<double>());
  EXPECT_EQ(seen.size(), 50u);
}

TEST(Data, ErrorsOfWorkersReachTheCaller) {
  Numbers numbers(20);
  numbers.fails_at = 5;
  for (const size_t workers : {1, 3}) {
    auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
        Numbers(numbers).map(data::transforms::Stack<>()), data::DataLoaderOptions(2).workers(workers));
    auto at = loader->begin();
    ++at;
    try {
      ++at;
      FAIL();
    } catch (const data::WorkerException& error) {
      EXPECT_THAT(error.what(), HasSubstr("Original message: example 5 is bad"));
      EXPECT_THROW(std::rethrow_exception(error.original_exception), std::runtime_error);
    }
    EXPECT_NO_THROW(loader->begin());  // the next epoch begins anew
  }
  auto inline_loader = data::make_data_loader<data::samplers::SequentialSampler>(
      Numbers(numbers).map(data::transforms::Stack<>()), data::DataLoaderOptions(2));
  EXPECT_THROW(epoch(*inline_loader), std::runtime_error);
}

TEST(Data, ALoaderThatIsLeftInTheMiddleEnds) {
  for (int i = 0; i < 20; ++i) {
    auto loader = data::make_data_loader(Numbers(100, true).map(data::transforms::Stack<>()),
                                         data::DataLoaderOptions(2).workers(4));
    auto at = loader->begin();
    if (i % 2) ++at;
    EXPECT_THROW(loader->begin(), torch::Error);
    if (i % 3 == 0) loader->join();
  }
}

TEST(Data, SlowBatchesRunIntoTheTimeout) {
  struct Slow : data::Dataset<Slow, int> {
    int get(size_t) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return 1;
    }
    std::optional<size_t> size() const override { return 2; }
  };
  auto loader =
      data::make_data_loader(Slow(), data::DataLoaderOptions(1).workers(1).timeout(std::chrono::milliseconds(5)));
  EXPECT_THROW(loader->begin(), torch::Error);
}

// 1, 2, 3, ... until an end.
struct Counter : data::datasets::StatefulDataset<Counter, std::vector<int>> {
  std::optional<std::vector<int>> get_batch(size_t size) override {
    std::vector<int> made;
    while (made.size() < size && at < 10) made.push_back(++at);
    if (made.empty()) return std::nullopt;
    return made;
  }
  std::optional<size_t> size() const override { return std::nullopt; }
  void reset() override { at = 0; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  int at = 0;
};

TEST(Data, StatefulDatasets) {
  for (const size_t workers : {0, 1, 3}) {
    auto loader = data::make_data_loader(Counter(), data::DataLoaderOptions(4).workers(workers));
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<int>> batches;
      for (auto& batch : *loader) batches.push_back(batch);
      EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 2, 3, 4), ElementsAre(5, 6, 7, 8), ElementsAre(9, 10)))
          << workers;
    }
  }
  auto mapped = data::make_data_loader(
      Counter().map(data::transforms::BatchLambda<std::vector<int>, int>(
          [](std::vector<int> batch) { return std::accumulate(batch.begin(), batch.end(), 0); })),
      data::DataLoaderOptions(5).workers(1));
  std::vector<int> sums;
  for (auto& sum : *mapped) sums.push_back(sum);
  EXPECT_THAT(sums, ElementsAre(15, 40));
}

TEST(Data, TensorDatasetsAndSharedOnes) {
  const torch::Tensor rows = torch::arange(12).reshape({4, 3});
  auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
      data::datasets::TensorDataset(rows).map(data::transforms::Stack<data::TensorExample>()), 3);
  auto at = loader->begin();
  EXPECT_TRUE(at->data.equal(rows.slice(0, 0, 3)));
  struct Shared : data::datasets::BatchDataset<Shared, int, torch::ArrayRef<size_t>> {
    int get_batch(torch::ArrayRef<size_t> indices) override { return calls += static_cast<int>(indices.size()); }
    std::optional<size_t> size() const override { return 8; }
    std::atomic<int> calls{0};
  };
  auto shared = data::datasets::make_shared_dataset<Shared>();
  auto loads = data::make_data_loader(shared, data::DataLoaderOptions(2).workers(3));
  for ([[maybe_unused]] auto& batch : *loads) {
  }
  EXPECT_EQ(shared->calls, 8);
}

TEST(Data, Transforms) {
  using Pair = data::Example<>;
  auto dataset = Numbers(3)
                     .map(data::transforms::Lambda<Pair>([](Pair pair) {
                       pair.target = pair.target + 1;
                       return pair;
                     }))
                     .map(data::transforms::TensorLambda<>([](torch::Tensor x) { return x * 10; }))
                     .map(data::transforms::Stack<>());
  const Pair batch = dataset.get_batch({std::vector<size_t>{1, 2}});
  EXPECT_TRUE(batch.data.equal(torch::tensor({{10.0}, {20.0}})));
  EXPECT_TRUE(batch.target.equal(torch::tensor({{2.0}, {5.0}})));
  data::transforms::Normalize<> normalize({0.5, 1.0}, {2.0, 4.0});
  const torch::Tensor image = torch::ones({2, 2, 2});
  const torch::Tensor expected = torch::stack({torch::full({2, 2}, 0.25), torch::zeros({2, 2})});
  EXPECT_TRUE(normalize(image).allclose(expected));
  data::transforms::Normalize<> one(0.5, 0.5);
  EXPECT_TRUE(one(image).allclose(torch::ones({2, 2, 2})));
}

template <class Sampler>
std::vector<size_t> drain(Sampler& sampler, size_t batch = 3) {
  std::vector<size_t> all;
  while (auto next = sampler.next(batch)) all.insert(all.end(), next->begin(), next->end());
  return all;
}

TEST(Data, SamplersGoOnWhereTheyWere) {
  data::samplers::RandomSampler random(10), copy(10);
  const auto first = *random.next(4);
  std::stringstream stream;
  torch::save(random, stream);
  torch::load(copy, stream);
  EXPECT_EQ(copy.index(), 4u);
  EXPECT_EQ(drain(copy), drain(random));
  data::samplers::SequentialSampler sequential(5), other(5);
  sequential.next(2);
  std::stringstream again;
  torch::save(sequential, again);
  torch::load(other, again);
  EXPECT_THAT(drain(other), ElementsAre(2, 3, 4));
  data::samplers::SequentialSampler small(1);
  again.clear();
  again.seekg(0);
  EXPECT_THROW(torch::load(small, again), torch::Error);  // 2 is not within 1 example
  data::samplers::StreamSampler stream_sampler(5);
  EXPECT_EQ(stream_sampler.next(3)->size(), 3u);
  EXPECT_EQ(stream_sampler.next(3)->size(), 2u);
  EXPECT_FALSE(stream_sampler.next(3));
}

TEST(Data, DistributedSamplersShareOut) {
  for (const size_t size : {10, 11, 2}) {
    for (const bool duplicates : {false, true}) {
      std::multiset<size_t> random_all, sequential_all;
      for (size_t rank = 0; rank < 3; ++rank) {
        data::samplers::DistributedRandomSampler random(size, 3, rank, duplicates);
        data::samplers::DistributedSequentialSampler sequential(size, 3, rank, duplicates);
        random.set_epoch(2);
        random.reset();
        for (const size_t i : drain(random)) random_all.insert(i);
        for (const size_t i : drain(sequential)) sequential_all.insert(i);
      }
      for (const auto* all : {&random_all, &sequential_all}) {
        EXPECT_EQ(all->size(), duplicates ? (size + 2) / 3 * 3 : size);
        EXPECT_EQ(std::set<size_t>(all->begin(), all->end()).size(), size);
      }
    }
  }
  EXPECT_THROW(data::samplers::DistributedRandomSampler(5, 2, 2), torch::ValueError);
}

TEST(Data, AGuardGivesAThreadItsOwnGenerator) {
  torch::manual_seed(3);
  const torch::Tensor outside = torch::rand({3});
  torch::manual_seed(3);
  torch::Tensor inside, again;
  {
    const torch::DefaultGeneratorGuard guard(torch::make_generator(17));
    inside = torch::rand({3});
  }
  EXPECT_TRUE(torch::rand({3}).equal(outside));  // the default one did not move
  {
    const torch::DefaultGeneratorGuard guard(torch::make_generator(17));
    again = torch::rand({3});
  }
  EXPECT_TRUE(inside.equal(again));
  EXPECT_FALSE(inside.equal(outside));
}

}  // namespace
