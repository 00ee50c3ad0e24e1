// Custom functions: their node, and what they may do in forward.
#include "autograd/anomaly.h"
#include "autograd/call.h"
#include "core/demangle.h"

#include <facula/autograd/autograd.h>
#include <facula/autograd/function.h>
#include <facula/tensors.h>

#include <algorithm>
#include <optional>

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
               state_->needs.size(), "; only tensors count, those in lists one by one");
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
  CustomNode(custom::CustomFunction function, std::vector<bool> is_tensor)
      : function_(std::move(function)), is_tensor_(std::move(is_tensor)) {}
  std::string name() const override { return function_.name; }
  bool written_by_user() const override { return true; }

  void run(ArrayRef<Tensor> grads, Tensor* out) override {
    variable_list list(grads.begin(), grads.end());
    if (context.state_->materialize)
      for (size_t i = 0; i < list.size(); ++i)
        if (!list[i].defined() && outputs[i].dtype != ScalarType::Undefined)
          list[i] = zeros(outputs[i].sizes,
                          TensorOptions().dtype(outputs[i].dtype).device(std::optional<Device>(outputs[i].device)));
    place(function_.backward(&context, std::move(list)), out);
  }
  void release_saved() override {
    for (SavedTensor& each : context.state_->saved) each.reset();
  }

  using State = AutogradContext::State;
  State& state() { return *context.state_; }

  AutogradContext context;

 private:
  // Backward gives a gradient for each argument of forward, or for each of its tensors.
  void place(variable_list found, Tensor* out) const {
    const size_t arguments = is_tensor_.size(), tensors = edges.size();
    while (found.size() > arguments && !found.back().defined()) found.pop_back();
    FACULA_CHECK(
        found.size() == arguments || found.size() == tensors, ValueError, name(),
        ": returned an incorrect number of gradients (expected ", arguments, ", got ", found.size(), "): forward has ",
        arguments, " arguments, ", tensors,
        " of them tensors; give one gradient for each argument, undefined for those that are no tensors, or one "
        "for each tensor");
    const bool by_argument = found.size() == arguments;
    for (size_t i = 0, k = 0; i < found.size(); ++i) {
      if (!by_argument || is_tensor_[i]) out[k++] = std::move(found[i]);
      else
        FACULA_CHECK(!found[i].defined(), ValueError, name(), ": returned a gradient that is defined at position ", i,
                     ", but the corresponding forward input was not a tensor; give an undefined Tensor() there");
    }
  }

  custom::CustomFunction function_;
  std::vector<bool> is_tensor_;  // of every argument of forward
};

namespace custom {

std::string readable_type(const char* name) {
  const std::string text = facula::detail::demangled(name);
  const size_t colon = text.rfind("::");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

namespace {

bool among(const variable_list& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& each) { return each.is_same(t); });
}

size_t place_among(const variable_list& list, const Tensor& t) {
  size_t i = 0;
  while (i < list.size() && !list[i].is_same(t)) ++i;
  return i;
}

bool shares_memory(const variable_list& list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& each) {
    return each.defined() && each.impl()->storage.get() == t.impl()->storage.get();
  });
}

// An input that forward gave back: the same memory under another handle, since the input keeps its own history.
Tensor alias_of_input(const Tensor& input) {
  Tensor alias = detached_alias(input);
  alias.impl()->set_base(input.impl());
  return alias;
}

// Makes `output` a result of `node`. Writing to what it is a view of, or through it, cannot be followed any more.
void connect(const intrusive_ptr<CustomNode>& node, const Tensor& output, const variable_list& inputs,
             size_t output_count) {
  set_history(output, node);
  TensorImpl* impl = output.impl();
  if (!impl->base) return;
  if (output_count > 1 || shares_memory(inputs, output)) {
    impl->view_kind = ViewKind::Custom;
    return;
  }
  // A view of a tensor that only forward knew.
  impl->base.reset();
  impl->tracking &= ~detail::kTracksView;
}

void connect_written(const intrusive_ptr<CustomNode>& node, const Tensor& output, size_t input, size_t output_count) {
  const Tape* tape = tape_of(output);
  FACULA_CHECK(!(tape && tape->requires_grad && !tape->grad_fn), Error, node->name(),
               ": a leaf Variable that requires grad has been used in an in-place operation. Clone it before it is "
               "written");
  if (!output.impl()->base) return set_history(output, node);
  FACULA_CHECK(output_count == 1 && input == 0, NotSupportedError, node->name(),
               ": a view was written in place by a function of several outputs, or that is not its first tensor; clone "
               "it first");
  rebase_history(output, node);
}

}  // namespace

variable_list apply_custom(const CustomFunction& function, const Arguments& arguments,
                           const std::function<variable_list(AutogradContext*)>& forward) {
  const variable_list& inputs = arguments.tensors;
  auto node = intrusive_ptr<CustomNode>::adopt(new CustomNode(function, arguments.is_tensor));
  CustomNode::State& state = node->state();
  Inputs list;
  uint8_t flags = 0;
  for (const Tensor& input : inputs) {
    list.add(input);
    flags |= tracking_of(input);
  }
  SmallVector<uint32_t, 2> levels;  // of forward mode
  SmallVector<bool, 8> wanted;
  if ((flags & (detail::kTracksTangent | detail::kTracksView)) && (detail::thread_modes.mask & detail::kTracksTangent))
    find_levels(list, levels, wanted);
  else wanted.resize(inputs.size());
  bool records = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool required = autograd::requires_grad(inputs[i]);
    records |= required;
    wanted[i] = wanted[i] || required;
    state.needs.push_back(wanted[i]);
  }
  records &= GradMode::is_enabled();
  for (const Tensor& input : inputs) {
    node->add_edge(records ? gradient_edge(input) : Edge{});
    if (const Tape* tape = tape_of(input); tape && tape->accumulator && tape->accumulator->has_accumulated_hooks())
      node->extras().keep_alive.push_back(input);
  }
  if (records) remember_place(*node);
  variable_list outputs;
  {
    const NoGradGuard quiet;
    // The derivative is the one that backward gives, whatever forward is made of.
    std::optional<HideTangents> hide;
    if (!levels.empty()) hide.emplace();
    outputs = forward(&node->context);
  }
  for (const Tensor& dirty : state.dirty) {
    FACULA_CHECK(among(inputs, dirty), ValueError, function.name,
                 ": mark_dirty was called with a tensor that is no input; mark inputs that forward writes to");
    FACULA_CHECK(!records || among(outputs, dirty), ValueError, function.name,
                 ": mark_dirty was called with an input that forward does not return; return what it writes to");
    dirty.impl()->bump_version();
  }
  if (!records && levels.empty()) return outputs;

  variable_list differentiable(outputs.size());
  std::optional<size_t> written;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& output = outputs[i];
    if (!output.defined()) {
      node->outputs.emplace_back();
      continue;
    }
    const bool dirty = among(state.dirty, output);
    const bool plain = among(state.non_differentiable, output) || !isDifferentiableType(output.scalar_type());
    if (!dirty && among(inputs, output)) output = alias_of_input(output);
    if (plain || !records) node->add_output(*output.impl());
    else if (dirty) connect_written(node, output, place_among(inputs, output), outputs.size());
    else connect(node, output, inputs, outputs.size());
    if (!plain) differentiable[i] = output;
    if (dirty) written = place_among(inputs, output);
  }
  state.node = node.get();
  for (const Tensor& t : state.to_save) {
    const size_t output = place_among(outputs, t);
    if (output < outputs.size())
      state.saved.emplace_back().save_output(t, static_cast<uint32_t>(output), !levels.empty() && !written);
    else state.saved.emplace_back().save(t);
  }
  // What forward named is not kept: outputs hold the node.
  state.to_save.clear();
  state.dirty.clear();
  state.non_differentiable.clear();
  if (levels.empty()) return outputs;

  FACULA_CHECK(!written || outputs.size() == 1, NotSupportedError, function.name,
               ": forward mode through a function of several outputs that writes in place is not possible; clone the "
               "input instead of marking it dirty");
  push_all(*node, list, ArrayRef<uint32_t>(levels.data(), levels.size()), differentiable, written, records);
  // A view of a dual input would take that one's tangent where backward gave none.
  for (const Tensor& output : differentiable)
    if (output.defined() && output.impl()->base && !written)
      for (const uint32_t level : levels)
        if (!has_own_tangent(output, level)) set_tangent(output, level, zeros_like(detached_alias(output)));
  return outputs;
}

}  // namespace custom
}  // namespace facula::autograd
