// Anomaly mode looks at what ops give: the first op whose result holds NaN while none of its tensors does is an error. A
// generated call asks for it behind the test of call_hooks that it makes anyway, so that an ordinary call pays nothing.
#pragma once

#include "core/call_hooks.h"

#include <facula/tensor.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace facula::autograd {

// No results are looked at while it lives: inside of an op, where NaN may be an intermediate that is left out later, and in
// backward, whose gradients are looked at node by node.
class NanCheckOff {
 public:
  NanCheckOff() : before_(detail::call_hooks & detail::kChecksResults) {
    detail::call_hooks &= static_cast<uint8_t>(~detail::kChecksResults);
  }
  ~NanCheckOff() { detail::call_hooks |= before_; }
  NanCheckOff(const NanCheckOff&) = delete;
  NanCheckOff& operator=(const NanCheckOff&) = delete;

 private:
  uint8_t before_;
};

// Whether this thread looks for NaN in what is computed, and these tensors have values to look at.
bool looks_for_nan(TensorList tensors);
// `Float [3, 4] from -1 to inf`, for errors.
std::string range_text(const Tensor& t);

// One argument of an op that is a tensor, may be one, or is a list of them. It is made in hundreds of calls, so it is small.
struct NanCheckArgument {
  NanCheckArgument(const char* name_in, const Tensor& t) : name(name_in), tensors(&t), count(1) {}
  NanCheckArgument(const char* name_in, const std::optional<Tensor>& t) : name(name_in), optionals(&t), count(1) {}
  NanCheckArgument(const char* name_in, TensorList list) : name(name_in), tensors(list.data()), count(list.size()) {}
  NanCheckArgument(const char* name_in, ArrayRef<std::optional<Tensor>> list)
      : name(name_in), optionals(list.data()), count(list.size()) {}

  const char* name;
  const Tensor* tensors = nullptr;
  const std::optional<Tensor>* optionals = nullptr;
  size_t count;
};

// One call of an op. True when its results are to be looked at: then the op is called again, with nobody looking meanwhile, and
// what it gives goes through the parentheses.
class NanCheck {
 public:
  // `writes`: the op may write over an argument, so that copies of them are kept.
  NanCheck(OpId op, const detail::OpAttrs* attrs, bool writes, std::initializer_list<NanCheckArgument> arguments);
  ~NanCheck();
  NanCheck(const NanCheck&) = delete;
  NanCheck& operator=(const NanCheck&) = delete;
  explicit operator bool() const { return state_ != nullptr; }

  Tensor operator()(Tensor&& result) const {
    look(result);
    return std::move(result);
  }
  Tensor& operator()(Tensor& result) const {
    look(result);
    return result;
  }
  std::vector<Tensor> operator()(std::vector<Tensor>&& results) const {
    look(results);
    return std::move(results);
  }
  template <class... Ts>
  std::tuple<Ts...> operator()(std::tuple<Ts...>&& results) const {
    std::apply([&](const auto&... each) { look({each...}); }, results);
    return std::move(results);
  }

 private:
  struct State;
  void look(ArrayRef<Tensor> results) const;

  std::unique_ptr<State> state_;
};

}  // namespace facula::autograd
