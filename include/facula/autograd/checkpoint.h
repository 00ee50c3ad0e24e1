// Less memory for the tape: compute again in backward, or keep saved tensors elsewhere.
#pragma once

#include <facula/autograd/autograd.h>

#include <functional>
#include <string>

namespace facula::autograd {

// Runs `f` so that the tape keeps its inputs only; what backward needs in between is computed again, with the same random
// numbers. Checkpoints may stand inside checkpoints. `f` must do the same every time.
FACULA_API variable_list checkpoint(const std::function<variable_list(const variable_list&)>& f,
                                    const variable_list& inputs, bool preserve_rng_state = true);

template <class F, class... Args>
  requires(std::is_invocable_r_v<Tensor, F, const Args&...> && (std::is_same_v<Args, Tensor> && ...))
Tensor checkpoint(const F& f, const Args&... inputs) {
  return checkpoint(
      [f](const variable_list& list) {
        return [&]<size_t... I>(std::index_sequence<I...>) { return variable_list{f(list[I]...)}; }
        (std::index_sequence_for<Args...>());
      },
      variable_list{inputs...})[0];
}

// While it lives, saved tensors are kept on the host (their device gets them back in backward).
class FACULA_API SaveOnCpu : public SavedTensorHooks {
 public:
  explicit SaveOnCpu(bool pin_memory = false);
};

// While it lives, saved tensors of at least `min_bytes` are kept in unnamed files under `folder` (the system's folder for
// temporary files when empty).
class FACULA_API OffloadToDisk : public SavedTensorHooks {
 public:
  explicit OffloadToDisk(const std::string& folder = {}, size_t min_bytes = size_t{1} << 20);
};

}  // namespace facula::autograd
