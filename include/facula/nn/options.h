// What the options of modules and functional forms are made of. An option has a setter that gives back the options, so
// that setters chain, and a getter of the same name: `LinearOptions(3, 4).bias(false)`, `options.bias()`.
#pragma once

#include <facula/core/dtype.h>
#include <facula/nn/enum.h>
#include <facula/nn/expanding_array.h>
#include <facula/tensor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// An option of a class; its value is the member `name_`, to which a default may be given behind the macro: `= 1`.
#define FACULA_ARG(T, name)                          \
 public:                                             \
  auto name(T new_##name)->decltype(*this) {         \
    this->name##_ = static_cast<T&&>(new_##name);    \
    return *this;                                    \
  }                                                  \
  const T& name() const noexcept { return name##_; } \
  T& name() noexcept { return name##_; }             \
                                                     \
 private:                                            \
  T name##_

namespace facula::nn {

using loss_reduction_t = Choice<enumtype::kNone, enumtype::kMean, enumtype::kSum>;
using kl_loss_reduction_t = Choice<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
using conv_padding_mode_t = Choice<enumtype::kZeros, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
using rnn_nonlinearity_t = Choice<enumtype::kTanh, enumtype::kReLU>;

// Sizes, or kValid or kSame.
template <size_t D>
class conv_padding_t {
 public:
  conv_padding_t(ExpandingArray<D> sizes) : sizes_(sizes) {}
  conv_padding_t(int64_t size) : sizes_(size) {}
  conv_padding_t(std::initializer_list<int64_t> sizes) : sizes_(sizes) {}
  conv_padding_t(enumtype::kValid) : sizes_(0), kind_(Kind::Valid) {}
  conv_padding_t(enumtype::kSame) : sizes_(0), kind_(Kind::Same) {}

  // Null where there is a name.
  const ExpandingArray<D>* sizes() const { return kind_ == Kind::Sizes ? &sizes_ : nullptr; }
  bool is_same() const { return kind_ == Kind::Same; }
  bool operator==(const conv_padding_t&) const = default;

 private:
  enum class Kind : uint8_t { Sizes, Valid, Same };
  ExpandingArray<D> sizes_;
  Kind kind_ = Kind::Sizes;
};

// The function between the two halves of a transformer layer, by name or as a function.
class FACULA_API transformer_activation_t {
 public:
  using Function = std::function<Tensor(const Tensor&)>;
  transformer_activation_t(enumtype::kReLU = {}) {}
  transformer_activation_t(enumtype::kGELU) : name_(enumtype::Id::GELU) {}
  transformer_activation_t(Function function);
  template <class F>
    requires std::is_invocable_r_v<Tensor, F&, const Tensor&>
  transformer_activation_t(F function) : transformer_activation_t(Function(std::move(function))) {}
  Tensor operator()(const Tensor& x) const;

 private:
  enumtype::Id name_ = enumtype::Id::ReLU;
  Function function_;  // in place of the name where there is one
};

}  // namespace facula::nn
