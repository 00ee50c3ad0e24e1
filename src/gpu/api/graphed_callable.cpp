// make_graphed_callable: a function of tensors as two graphs, one for its results and one for its gradients.
#include "gpu/api/api.h"

#include <facula/autograd/autograd.h>
#include <facula/autograd/function.h>
#include <facula/cuda/graph.h>
#include <facula/generated/functions.h>

namespace facula::cuda {

namespace {

constexpr const char* kOp = "make_graphed_callable";

// The graphs and the tensors that they read and write.
struct Graphed {
  CUDAGraph forward, backward;
  std::vector<Tensor> inputs;        // what forward reads; each call copies into them
  std::vector<Tensor> parameters;    // what it reads besides
  std::vector<Tensor> outputs;       // what it writes
  std::vector<bool> differentiable;  // of the outputs
  std::vector<Tensor> incoming;      // gradients of the differentiable outputs, which backward reads
  std::vector<Tensor> gradients;     // of inputs and parameters; undefined where there is none
  bool has_backward = false;
};

using SharedGraphed = std::shared_ptr<Graphed>;

std::vector<Tensor> requiring_gradients(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> found;
  for (const Tensor& t : tensors)
    if (t.requires_grad()) found.push_back(t);
  return found;
}

void check_sample(const Tensor& t, const char* what, size_t i) {
  FACULA_CHECK(t.defined() && t.is_cuda(), DeviceError, kOp, ": ", what, " ", i,
               " must be a tensor on a cuda device, got ",
               t.defined() ? str("one on ", t.device()) : std::string("an undefined one"));
}

// Tensors whose gradients are asked for: inputs first, then parameters.
std::vector<Tensor> sources(const Graphed& g) {
  std::vector<Tensor> all = g.inputs;
  all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  return requiring_gradients(all);
}

// Libraries set themselves up and kernels are compiled before the capture, where neither could be.
void warm_up(const TensorFunction& function, const Graphed& g, const GraphedOptions& options) {
  for (int i = 0; i < options.num_warmup_iters; ++i) {
    const std::vector<Tensor> outputs = requiring_gradients(function(g.inputs));
    const std::vector<Tensor> wanted = sources(g);
    if (outputs.empty() || wanted.empty()) continue;
    std::vector<Tensor> ones;
    for (const Tensor& t : outputs) ones.push_back(ones_like(t));
    autograd::grad(outputs, wanted, ones, std::nullopt, false, options.allow_unused_input);
  }
}

void capture_backward(Graphed& g, const std::vector<Tensor>& results, const GraphedOptions& options) {
  const std::vector<Tensor> differentiable = requiring_gradients(results);
  const std::vector<Tensor> wanted = sources(g);
  if (differentiable.empty() || wanted.empty()) return;
  for (const Tensor& t : differentiable) g.incoming.push_back(zeros_like(t));
  std::vector<Tensor> found;
  {
    GraphCapture capture(g.backward, g.forward.pool());
    found = autograd::grad(differentiable, wanted, g.incoming, std::nullopt, false, options.allow_unused_input);
  }
  size_t next = 0;
  for (const std::vector<Tensor>* list : {&g.inputs, &g.parameters})
    for (const Tensor& t : *list) g.gradients.push_back(t.requires_grad() ? found[next++] : Tensor());
  g.has_backward = true;
}

autograd::variable_list run_backward(autograd::AutogradContext* context, autograd::variable_list grads) {
  const auto& g = context->saved_data["graphed"].get<SharedGraphed>();
  NoGradGuard no_grad;
  size_t next = 0;
  for (size_t i = 0; i < grads.size(); ++i)
    if (g->differentiable[i]) g->incoming[next++].copy_(grads[i]);
  g->backward.replay();
  // What the graph writes to is written to again by the next call.
  autograd::variable_list gradients;
  for (const Tensor& t : g->gradients) gradients.push_back(t.defined() ? t.clone() : Tensor());
  return gradients;
}

void check_input(const Tensor& given, const Tensor& sample, size_t i) {
  FACULA_CHECK(given.defined() && given.sizes() == sample.sizes() && given.scalar_type() == sample.scalar_type() &&
                   given.device() == sample.device(),
               ValueError, "graphed callable: input ", i, " must be like its sample (", sample.sizes(), ", ",
               sample.scalar_type(), ", ", sample.device(), "), got ",
               given.defined() ? str(given.sizes(), ", ", given.scalar_type(), ", ", given.device())
                               : std::string("an undefined tensor"));
  FACULA_CHECK(!given.requires_grad() || sample.requires_grad(), ValueError, "graphed callable: input ", i,
               " requires a gradient, which its sample did not. Make the callable with samples that do");
}

std::vector<Tensor> call(const SharedGraphed& g, const std::vector<Tensor>& inputs) {
  FACULA_CHECK(inputs.size() == g->inputs.size(), ValueError, "graphed callable: expected ", g->inputs.size(),
               " inputs as when it was made, got ", inputs.size());
  autograd::custom::Arguments arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_input(inputs[i], g->inputs[i], i);
    arguments.add(inputs[i]);
  }
  for (const Tensor& t : g->parameters) arguments.add(t);
  const autograd::custom::CustomFunction function{"GraphedCallable", run_backward};
  return autograd::custom::apply_custom(function, arguments, [&](autograd::AutogradContext* context) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].data_ptr() != g->inputs[i].data_ptr()) g->inputs[i].detach().copy_(inputs[i].detach());
    g->forward.replay();
    context->saved_data["graphed"] = autograd::SavedValue::of(g);
    autograd::variable_list outputs, constant;
    for (size_t i = 0; i < g->outputs.size(); ++i) {
      outputs.push_back(g->outputs[i].detach());
      if (!g->has_backward || !g->differentiable[i]) constant.push_back(outputs.back());
    }
    context->mark_non_differentiable(constant);
    return outputs;
  });
}

}  // namespace

TensorFunction make_graphed_callable(TensorFunction function, std::vector<Tensor> sample_inputs,
                                     GraphedOptions options) {
  FACULA_CHECK(function, ValueError, kOp, ": there is no function to call");
  auto g = std::make_shared<Graphed>();
  for (size_t i = 0; i < sample_inputs.size(); ++i) {
    const Tensor& sample = sample_inputs[i];
    check_sample(sample, "sample input", i);
    g->inputs.push_back(sample.detach().clone().requires_grad_(sample.requires_grad()));
  }
  for (size_t i = 0; i < options.parameters.size(); ++i) check_sample(options.parameters[i], "parameter", i);
  g->parameters = options.parameters;
  {
    const CUDAStream before = getCurrentCUDAStream(), side = getStreamFromPool();
    side.wait_stream(before);
    CUDAStreamGuard guard(side);
    warm_up(function, *g, options);
    before.wait_stream(side);
  }
  std::vector<Tensor> results;
  {
    GraphCapture capture(g->forward, options.pool);
    results = function(g->inputs);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    check_sample(results[i], "result", i);
    g->differentiable.push_back(results[i].requires_grad());
  }
  capture_backward(*g, results, options);
  for (const Tensor& t : results) g->outputs.push_back(t.detach());
  return [g](const std::vector<Tensor>& inputs) { return call(g, inputs); };
}

}  // namespace facula::cuda
