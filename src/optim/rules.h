// The rules of optimizers: how one step changes parameters, given their gradients and what is remembered of them. Each rule is
// written once, as a program that runs over all parameters together, on any device; the classes of C++ and of Python bring the
// tensors.
#pragma once

#include <facula/core/export.h>
#include <facula/tensor.h>

#include <span>
#include <vector>

namespace facula::optim {

// A learning rate: a number, or a tensor of one element on the parameters' device, which is read when the step runs there.
struct Rate {
  double number = 0;
  Tensor tensor;
};

// How many steps each parameter has seen, this one included; or tensors of one element on the parameters' device that the rule
// itself counts up, so that a captured step counts at each replay.
struct Steps {
  std::span<const double> counts;
  TensorList tensors;
};

// Lists hold one tensor for each parameter. What is remembered has the sizes of its parameter and is written in place.

struct SGDRule {
  Rate lr;
  double momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
// With momentum, undefined buffers are made.
FACULA_API void sgd_step(TensorList params, TensorList grads, std::vector<Tensor>& momentum_buffers,
                         const SGDRule& rule);

struct AdamRule {
  Rate lr;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool maximize = false;
  bool decoupled = false;  // weights shrink apart from their gradients: AdamW
};
// With `max_exp_avg_sqs`, which may be empty, this is AMSGrad.
FACULA_API void adam_step(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                          TensorList max_exp_avg_sqs, const Steps& steps, const AdamRule& rule);

struct RMSpropRule {
  Rate lr;
  double alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool maximize = false;
};
// With `grad_avgs` it is centered; `momentum_buffers` are there with momentum. Both may be empty.
FACULA_API void rmsprop_step(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs,
                             TensorList momentum_buffers, const RMSpropRule& rule);

struct AdagradRule {
  Rate lr;
  double lr_decay = 0, eps = 1e-10, weight_decay = 0;
  bool maximize = false;
};
FACULA_API void adagrad_step(TensorList params, TensorList grads, TensorList sums, const Steps& steps,
                             const AdagradRule& rule);

// Adds one to counts of steps on a device.
FACULA_API void count_up(TensorList steps);

}  // namespace facula::optim
