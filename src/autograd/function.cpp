// Custom functions: their node, and what they may do in forward.
#include "autograd/anomaly.h"
#include "autograd/call.h"

#include <facula/autograd/autograd.h>
#include <facula/autograd/function.h>
#include <facula/facula.h>

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>

namespace facula::autograd {

struct AutogradContext::State {
  variable_list to_save, dirty, non_differentiable;
  bool materialize = true;
  std::vector<SavedTensor> saved;
  std::vector<bool> needs;
  TapeNode* node = nullptr;
};

AutogradContext::AutogradContext() : state_(std::make_unique<State>()) {}
AutogradContext::~AutogradContext() = default;

void AutogradContext::save_for_backward(variable_list tensors) { state_->to_save = std::move(tensors); }
void AutogradContext::mark_dirty(const variable_list& inputs) { state_->dirty = inputs; }
void AutogradContext::mark_non_differentiable(const variable_list& outputs) { state_->non_differentiable = outputs; }
void AutogradContext::set_materialize_grads(bool materialize) { state_->materialize = materialize; }

bool AutogradContext::needs_input_grad(size_t index) const {
  FACULA_CHECK(index < state_->needs.size(), IndexError, "needs_input_grad: input ", index, " of ",
               state_->needs.size(), "; only tensors count");
  return state_->node ? state_->node->needs(index) : state_->needs[index];
}

variable_list AutogradContext::get_saved_variables() const {
  if (!state_->node) return state_->to_save;
  variable_list list;
  for (const SavedTensor& each : state_->saved) list.push_back(each.unpack(*state_->node));
  return list;
}

class CustomNode final : public TapeNode {
 public:
  explicit CustomNode(custom::CustomFunction function) : function_(std::move(function)) {}
  std::string name() const override { return function_.name; }

  void run(ArrayRef<Tensor> grads, Tensor* out) override {
    variable_list list(grads.begin(), grads.end());
    if (context.state_->materialize)
      for (size_t i = 0; i < list.size(); ++i)
        if (!list[i].defined())
          list[i] = zeros(outputs[i].sizes,
                          TensorOptions().dtype(outputs[i].dtype).device(std::optional<Device>(outputs[i].device)));
    variable_list found = function_.backward(&context, std::move(list));
    // Gradients beyond the inputs must be undefined: they stand for arguments that are no tensors.
    for (size_t i = edges.size(); i < found.size(); ++i)
      FACULA_CHECK(!found[i].defined(), ValueError, name(), ": returned ", found.size(), " gradients for ",
                   edges.size(), " tensor inputs; give one for each tensor, and undefined ones after them at most");
    FACULA_CHECK(found.size() >= edges.size(), ValueError, name(),
                 ": returned an incorrect number of gradients (expected ", edges.size(), ", got ", found.size(),
                 "); give one for each tensor input, undefined where there is none");
    for (size_t i = 0; i < edges.size(); ++i) out[i] = std::move(found[i]);
  }
  void release_saved() override {
    for (SavedTensor& each : context.state_->saved) each.reset();
  }

  using State = AutogradContext::State;
  State& state() { return *context.state_; }

  AutogradContext context;

 private:
  custom::CustomFunction function_;
};

namespace custom {

std::string readable_type(const char* name) {
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = status == 0 && plain ? plain : name;
  std::free(plain);
  const size_t colon = text.rfind("::");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

variable_list apply_custom(const CustomFunction& function, const variable_list& inputs,
                           const std::function<variable_list(AutogradContext*)>& forward) {
  auto node = intrusive_ptr<CustomNode>::adopt(new CustomNode(function));
  CustomNode::State& state = node->state();
  bool records = false;
  for (const Tensor& input : inputs) {
    state.needs.push_back(autograd::requires_grad(input));
    records |= state.needs.back();
  }
  records &= GradMode::is_enabled();
  for (const Tensor& input : inputs) node->add_edge(records ? gradient_edge(input) : Edge{});
  if (records) remember_place(*node);
  variable_list outputs;
  {
    const NoGradGuard quiet;
    outputs = forward(&node->context);
  }
  const auto among = [](const variable_list& list, const Tensor& t) {
    return std::any_of(list.begin(), list.end(), [&](const Tensor& each) { return each.is_same(t); });
  };
  for (const Tensor& dirty : state.dirty)
    FACULA_CHECK(among(inputs, dirty), ValueError, function.name,
                 ": mark_dirty was called with a tensor that is no input; mark inputs that forward writes to");
  if (records) {
    for (Tensor& output : outputs) {
      if (!output.defined()) {
        node->outputs.emplace_back();
        continue;
      }
      const bool is_input = among(inputs, output), dirty = among(state.dirty, output);
      if (is_input && !dirty) output = output.detach();
      if (among(state.non_differentiable, output) || !isDifferentiableType(output.scalar_type())) {
        node->add_output(*output.impl());
        continue;
      }
      if (dirty) {
        const Tape* tape = tape_of(output);
        FACULA_CHECK(!(tape && tape->requires_grad && !tape->grad_fn), Error, function.name,
                     ": a leaf Variable that requires grad has been used in an in-place operation. Clone it before it "
                     "is written");
        FACULA_CHECK(!output.impl()->base || outputs.size() == 1, NotSupportedError, function.name,
                     ": a view was written in place by a function of several outputs; clone it first");
        if (output.impl()->base) {
          rebase_history(output, node);
          continue;
        }
      }
      set_history(output, node);
    }
    state.node = node.get();
    for (const Tensor& t : state.to_save) {
      SavedTensor& saved = state.saved.emplace_back();
      size_t output = 0;
      while (output < outputs.size() && !outputs[output].is_same(t)) ++output;
      if (output < outputs.size()) saved.save_output(t, static_cast<uint32_t>(output), false);
      else saved.save(t);
    }
    state.to_save.clear();
    // What forward named is not kept: outputs hold the node.
    state.dirty.clear();
    state.non_differentiable.clear();
  }
  return outputs;
}

}  // namespace custom
}  // namespace facula::autograd
