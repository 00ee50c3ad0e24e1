// What the options of modules and functional forms are made of. An option has a setter that gives back the options, so
// that setters chain, and a getter of the same name: `LinearOptions(3, 4).bias(false)`, `options.bias()`.
#pragma once

#include <facula/core/dtype.h>
#include <facula/nn/enum.h>
#include <facula/nn/expanding_array.h>
#include <facula/tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// An option of a class; its value is the member `name_`, to which a default may be given behind the macro: `= 1`.
#define FACULA_ARG(T, name)                          \
 public:                                             \
  auto name(const T& new_##name)->decltype(*this) {  \
    this->name##_ = new_##name;                      \
    return *this;                                    \
  }                                                  \
  auto name(T&& new_##name)->decltype(*this) {       \
    this->name##_ = std::move(new_##name);           \
    return *this;                                    \
  }                                                  \
  const T& name() const noexcept { return name##_; } \
  T& name() noexcept { return name##_; }             \
                                                     \
 private:                                            \
  T name##_

namespace facula::nn {

using loss_reduction_t = std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>;
using kl_loss_reduction_t = std::variant<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
using conv_padding_mode_t =
    std::variant<enumtype::kZeros, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
template <size_t D>
using conv_padding_t = std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame>;
// The function between the two halves of a transformer layer, by name or as a function.
using transformer_activation_t = std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>;
using rnn_nonlinearity_t = std::variant<enumtype::kTanh, enumtype::kReLU>;

}  // namespace facula::nn
