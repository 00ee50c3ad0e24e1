// Modules that can be copied deeply. `reset` registers everything anew, and the copy takes over the values:
//
//   struct NetImpl : nn::Cloneable<NetImpl> {
//     NetImpl() { reset(); }
//     void reset() override { weight = register_parameter("weight", randn({3, 4})); }
//     Tensor weight;
//   };
#pragma once

#include <facula/autograd/modes.h>
#include <facula/nn/module.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace facula::nn {

namespace detail {
[[noreturn]] FACULA_API void refuse_clone_into(const Module& from, const Module& into);
}

template <class Derived>
class Cloneable : public virtual Module {
 public:
  using Module::Module;

  // Registers parameters, buffers and submodules; called by constructors and for copies.
  virtual void reset() = 0;

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override {
    const NoGradGuard quiet;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    Module& base = *copy;
    base.forget_registered();
    copy->reset();
    base.take_state(*this, device);
    return copy;
  }

 private:
  void clone_(Module& other, const std::optional<Device>& device) final {
    if constexpr (std::is_move_assignable_v<Derived>) {
      const auto made = std::dynamic_pointer_cast<Derived>(other.clone(device));
      if (!made) detail::refuse_clone_into(other, *this);
      static_cast<Derived&>(*this) = std::move(*made);
    } else {
      take_state(other, device);
    }
  }
};

}  // namespace facula::nn
