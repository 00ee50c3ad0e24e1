// What training loops do to the parameters of a whole network.
#include "ops/foreach.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/utils.h>

#include <cmath>

namespace facula::nn::utils {
namespace {

std::vector<Tensor> gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  for (const Tensor& parameter : parameters)
    if (parameter.defined() && parameter.grad().defined()) all.push_back(parameter.grad());
  return all;
}

// The norm of all tensors as one vector, in float at least: half types would overflow.
Tensor norm_of(const std::vector<Tensor>& tensors, double p, const char* op) {
  if (p > 0) return foreach_norm(tensors, p, op);
  std::vector<Tensor> norms;
  for (const Tensor& t : tensors) {
    const Tensor wide = elementSize(t.scalar_type()) < 4 ? t.to(kFloat) : t;
    norms.push_back(wide.norm(p).to(tensors[0].device(), kDouble));
  }
  return facula::stack(norms).norm(p);
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const NoGradGuard quiet;
  const char* op = "clip_grad_norm_";
  std::vector<Tensor> grads = gradients(parameters);
  if (grads.empty()) return 0.0;
  for (Tensor& grad : grads) grad = grad.detach();
  const Tensor norm = norm_of(grads, norm_type, op);
  FACULA_CHECK(
      !error_if_nonfinite || std::isfinite(norm.item<double>()), ValueError, op, ": the total norm of order ",
      norm_type, " for gradients is ", norm.item<double>(),
      ", so it cannot be clipped. To disable this error and scale the gradients with the non-finite norm anyway, ",
      "set error_if_nonfinite=false");
  foreach_clip_(grads, norm, max_norm, op);
  return norm.item<double>();  // crosses to the host when all is queued
}

double clip_grad_norm_(const Tensor& parameter, double max_norm, double norm_type, bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<Tensor>{parameter}, max_norm, norm_type, error_if_nonfinite);
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  FACULA_CHECK(clip_value >= 0, ValueError, "clip_grad_value_: clip_value must not be negative, got ", clip_value);
  const NoGradGuard quiet;
  for (const Tensor& grad : gradients(parameters)) grad.detach().clamp_(-clip_value, clip_value);
}

void clip_grad_value_(const Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector<Tensor>{parameter}, clip_value);
}

Tensor parameters_to_vector(const std::vector<Tensor>& parameters) {
  FACULA_CHECK(!parameters.empty(), ValueError, "parameters_to_vector: there are no parameters");
  std::vector<Tensor> flat;
  for (const Tensor& parameter : parameters) {
    FACULA_CHECK(parameter.device() == parameters[0].device(), DeviceError,
                 "parameters_to_vector: Found two parameters on different devices, ", to_text(parameters[0].device()),
                 " and ", to_text(parameter.device()));
    flat.push_back(parameter.reshape({-1}));
  }
  return facula::cat(flat);
}

void vector_to_parameters(const Tensor& vector, const std::vector<Tensor>& parameters) {
  int64_t total = 0;
  for (const Tensor& parameter : parameters) total += parameter.numel();
  FACULA_CHECK(vector.defined() && vector.dim() == 1 && vector.size(0) == total, ShapeError,
               "vector_to_parameters: the vector must have as many entries as the parameters, ", total,
               ", but has the shape ", vector.defined() ? to_text(vector.sizes()) : "of an undefined tensor");
  const NoGradGuard quiet;
  int64_t at = 0;
  for (const Tensor& parameter : parameters) {
    parameter.set_data(vector.detach().narrow(0, at, parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
}

}  // namespace facula::nn::utils
