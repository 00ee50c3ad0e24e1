// What is done to examples between the dataset and the network.
#pragma once

#include <facula/data/example.h>
#include <facula/generated/functions.h>
#include <facula/from_data.h>

#include <functional>
#include <utility>
#include <vector>

namespace facula::data::transforms {

// From a whole batch to something else.
template <class InputBatch, class OutputBatch>
class BatchTransform {
 public:
  using InputBatchType = InputBatch;
  using OutputBatchType = OutputBatch;

  virtual ~BatchTransform() = default;
  virtual OutputBatch apply_batch(InputBatch input_batch) = 0;
};

// From one example to another.
template <class Input, class Output>
class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
 public:
  using InputType = Input;
  using OutputType = Output;

  virtual OutputType apply(InputType input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> input_batch) override {
    std::vector<Output> made;
    made.reserve(input_batch.size());
    for (Input& each : input_batch) made.push_back(apply(std::move(each)));
    return made;
  }
};

// Functions as transforms.
template <class Input, class Output = Input>
class BatchLambda : public BatchTransform<Input, Output> {
 public:
  using FunctionType = std::function<Output(Input)>;
  explicit BatchLambda(FunctionType function) : function_(std::move(function)) {}
  Output apply_batch(Input input_batch) override { return function_(std::move(input_batch)); }

 private:
  FunctionType function_;
};

template <class Input, class Output = Input>
class Lambda : public Transform<Input, Output> {
 public:
  using FunctionType = std::function<Output(Input)>;
  explicit Lambda(FunctionType function) : function_(std::move(function)) {}
  Output apply(Input input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};

// From the examples of a batch to one.
template <class T, class BatchType = std::vector<T>>
using Collation = BatchTransform<BatchType, T>;
template <class T, class BatchType = std::vector<T>>
using Collate = BatchLambda<BatchType, T>;

// The tensors of all examples, stacked along a new first dim.
template <class T = Example<>>
struct Stack;

template <>
struct Stack<Example<>> : public Collation<Example<>> {
  Example<> apply_batch(std::vector<Example<>> examples) override {
    std::vector<Tensor> data, targets;
    data.reserve(examples.size());
    targets.reserve(examples.size());
    for (Example<>& example : examples) {
      data.push_back(std::move(example.data));
      targets.push_back(std::move(example.target));
    }
    return {stack(data), stack(targets)};
  }
};

template <>
struct Stack<TensorExample> : public Collation<TensorExample> {
  TensorExample apply_batch(std::vector<TensorExample> examples) override {
    std::vector<Tensor> data;
    data.reserve(examples.size());
    for (TensorExample& example : examples) data.push_back(std::move(example.data));
    return stack(data);
  }
};

// Of the data alone; the target stays.
template <class Target = Tensor>
class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
 public:
  using ExampleType = Example<Tensor, Target>;
  virtual Tensor operator()(Tensor input) = 0;
  ExampleType apply(ExampleType input) override {
    input.data = (*this)(std::move(input.data));
    return input;
  }
};

template <class Target = Tensor>
class TensorLambda : public TensorTransform<Target> {
 public:
  using FunctionType = std::function<Tensor(Tensor)>;
  explicit TensorLambda(FunctionType function) : function_(std::move(function)) {}
  Tensor operator()(Tensor input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};

// (data - mean) / stddev, with one number or one for each channel of data of shape [channels, height, width].
template <class Target = Tensor>
struct Normalize : public TensorTransform<Target> {
  Normalize(ArrayRef<double> the_mean, ArrayRef<double> the_stddev)
      : mean(per_channel(the_mean)), stddev(per_channel(the_stddev)) {}
  Tensor operator()(Tensor input) override {
    return input.sub(mean.to(input.scalar_type())).div(stddev.to(input.scalar_type()));
  }
  Tensor mean, stddev;

 private:
  static Tensor per_channel(ArrayRef<double> values) {
    return tensor(values, TensorOptions().dtype(kFloat)).unsqueeze(1).unsqueeze(2);
  }
};

}  // namespace facula::data::transforms
