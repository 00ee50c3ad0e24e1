// Losses that are more than one op.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/generated/loss.h>

namespace facula::nn::functional {
namespace {

void need(const char* function, const Tensor& input, const Tensor& target) {
  FACULA_CHECK(input.defined(), ValueError, function, ": the input is an undefined tensor");
  FACULA_CHECK(target.defined(), ValueError, function, ": the target is an undefined tensor");
}

Tensor reduced(const Tensor& loss, int64_t reduction) {
  if (reduction == Reduction::None) return loss;
  return reduction == Reduction::Mean ? loss.mean() : loss.sum();
}

}  // namespace

Tensor kl_div(const Tensor& input, const Tensor& target, const KLDivFuncOptions& options) {
  need("kl_div", input, target);
  const Tensor loss =
      options.log_target() ? target.exp() * (target - input) : facula::xlogy(target, target) - target * input;
  if (holds_alternative<enumtype::kBatchMean>(options.reduction()))
    return input.dim() > 0 ? loss.sum() / input.size(0) : loss.sum();
  return reduced(loss, enumtype::reduction_get_enum(options.reduction()));
}

}  // namespace facula::nn::functional
