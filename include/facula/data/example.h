// One piece of data and what is to be learned from it.
#pragma once

#include <facula/tensor.h>

#include <utility>

namespace facula::data {

template <class Data = Tensor, class Target = Tensor>
struct Example {
  using DataType = Data;
  using TargetType = Target;

  Example() = default;
  Example(Data the_data, Target the_target) : data(std::move(the_data)), target(std::move(the_target)) {}

  Data data;
  Target target;
};

namespace example {
using NoTarget = void;
}

// An example without a target stands for its data.
template <class Data>
struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;

  Example() = default;
  Example(Data the_data) : data(std::move(the_data)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }

  Data data;
};

using TensorExample = Example<Tensor, example::NoTarget>;

}  // namespace facula::data
