// The methods of Tensor that concern gradients.
#include "autograd/call.h"
#include "autograd/tensor_tape.h"

#include <facula/autograd/autograd.h>
#include <facula/tensors.h>

#include <algorithm>
#include <utility>

namespace facula {

using namespace autograd;

namespace {

void check_defined(const Tensor& t, const char* op) {
  FACULA_CHECK(t.defined(), ValueError, op, ": this tensor is undefined; assign a tensor to it first");
}

}  // namespace

bool Tensor::requires_grad() const { return autograd::requires_grad(*this); }

const Tensor& Tensor::set_requires_grad(bool requires_grad) const {
  check_defined(*this, "requires_grad_");
  if (requires_grad) {
    FACULA_CHECK(isDifferentiableType(scalar_type()), DTypeError,
                 "requires_grad_: only Tensors of floating point and complex dtype can require gradients, this one is ",
                 facula::toString(scalar_type()), "; convert it to float32 first");
    FACULA_CHECK(
        !(impl_->tracking & detail::kTracksInference) || InferenceMode::is_enabled(), Error,
        "requires_grad_: Setting requires_grad=True on inference tensor outside InferenceMode is not allowed; make "
        "a clone first");
    if (grad_fn_of(*this)) return *this;
    Tape& tape = ensure_tape(*this);
    if (!tape.slot) tape.slot = intrusive_ptr<GradSlot>::adopt(new GradSlot());
    if (!tape.accumulator)
      tape.accumulator = intrusive_ptr<AccumulateGrad>::adopt(new AccumulateGrad(*impl_, tape.slot));
    tape.requires_grad = true;
    impl_->tracking |= detail::kTracksGrad;
    return *this;
  }
  if (!autograd::requires_grad(*this)) return *this;
  FACULA_CHECK(
      is_leaf(), Error,
      "requires_grad_: you can only change requires_grad flags of leaf variables. To use a computed variable in "
      "a subgraph that doesn't require differentiation use detach()");
  tape_of(*this)->requires_grad = false;
  impl_->tracking &= static_cast<uint8_t>(~detail::kTracksGrad);
  return *this;
}

bool Tensor::is_leaf() const {
  check_defined(*this, "is_leaf");
  return !grad_fn_of(*this);
}

intrusive_ptr<Node> Tensor::grad_fn() const {
  check_defined(*this, "grad_fn");
  return intrusive_ptr<Node>::borrow(grad_fn_of(*this).get());
}

int64_t Tensor::output_nr() const {
  check_defined(*this, "output_nr");
  const intrusive_ptr<TapeNode> made = grad_fn_of(*this);
  return made ? tape_of(*this)->output_nr : 0;
}

Tensor Tensor::grad() const {
  check_defined(*this, "grad");
  const Tape* tape = tape_of(*this);
  if (!tape || !tape->slot) return {};
  const std::lock_guard lock(tape->slot->mutex);
  return tape->slot->grad;
}

Tensor& Tensor::mutable_grad() const {
  check_defined(*this, "mutable_grad");
  return ensure_slot(*this).grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  check_defined(*this, "set_grad");
  if (grad.defined()) {
    FACULA_CHECK(grad.sizes() == sizes(), ShapeError,
                 "set_grad: assigned grad has data of a different size: ", to_text(grad.sizes()), " for a tensor of ",
                 to_text(sizes()), "; they must be the same");
    FACULA_CHECK(grad.scalar_type() == scalar_type(), DTypeError, "set_grad: assigned grad has ",
                 facula::toString(grad.scalar_type()), " for a tensor of ", facula::toString(scalar_type()),
                 "; convert it with .to(...)");
    FACULA_CHECK(grad.device() == device(), DeviceError, "set_grad: assigned grad is on ", grad.device().str(),
                 " for a tensor on ", device().str(), "; move it with .to(device)");
  }
  GradSlot& slot = ensure_slot(*this);
  Tensor before;  // ends without the lock: freeing memory may run code of the user's
  const std::lock_guard lock(slot.mutex);
  before = std::exchange(slot.grad, grad);
}

void Tensor::retain_grad() const {
  check_defined(*this, "retain_grad");
  FACULA_CHECK(autograd::requires_grad(*this), Error,
               "retain_grad: can't retain_grad on Tensor that has requires_grad=False; set requires_grad on what it is "
               "computed from");
  const intrusive_ptr<TapeNode> made = grad_fn_of(*this);
  Tape& tape = ensure_tape(*this);
  if (!made || tape.retains_grad) return;
  ensure_slot(*this);
  NodeHooks& hooks = made->hooks();
  const std::lock_guard lock(hooks.mutex);
  hooks.retained.push_back({tape.output_nr, tape.slot});
  tape.retains_grad = true;
}

bool Tensor::retains_grad() const {
  check_defined(*this, "retains_grad");
  const Tape* tape = tape_of(*this);
  return tape && tape->retains_grad;
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph,
                      std::optional<TensorList> inputs) const {
  check_defined(*this, "backward");
  variable_list grads;
  if (gradient.defined()) grads.push_back(gradient);
  autograd::backward({*this}, grads, retain_graph, create_graph, inputs ? inputs->vec() : variable_list());
}

HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check_defined(*this, "register_hook");
  FACULA_CHECK(
      autograd::requires_grad(*this), Error,
      "register_hook: cannot register a hook on a variable that doesn't require gradient; call requires_grad_() "
      "first");
  FACULA_CHECK(hook, ValueError, "register_hook: the hook is empty; give a function");
  const Edge edge = gradient_edge(*this);
  const std::shared_ptr<NodeHooks>& hooks = tape_node(edge.function)->extras().hooks;
  return {hooks, hooks->add(&NodeHooks::on_output, std::move(hook), edge.input_nr)};
}

HookHandle Tensor::register_hook(std::function<void(const Tensor&)> hook) const {
  FACULA_CHECK(hook, ValueError, "register_hook: the hook is empty; give a function");
  return register_hook(std::function<Tensor(const Tensor&)>([look = std::move(hook)](const Tensor& grad) {
    look(grad);
    return Tensor();
  }));
}

void Tensor::remove_hook(HookHandle& hook) const { hook.remove(); }

void Tensor::remove_hook(unsigned number) const {
  check_defined(*this, "remove_hook");
  const Edge edge = gradient_edge(*this);
  const NodeExtras* extras = edge.function ? tape_node(edge.function)->extras_if_any() : nullptr;
  // A hook that was removed before is gone, as asked for.
  if (extras && extras->hooks->remove(number)) return;
  FACULA_CHECK(extras && number < extras->hooks->copy_of(&NodeHooks::next_number), IndexError,
               "remove_hook: no hook at position ", number,
               " of this tensor; give the number that its register_hook returned. Hooks from before a write in place "
               "stay with the value of that time: remove those with their handle's remove()");
}

HookHandle Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  check_defined(*this, "register_post_accumulate_grad_hook");
  FACULA_CHECK(
      autograd::requires_grad(*this) && is_leaf(), Error,
      "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered on non-leaf tensors or "
      "on tensors that don't require gradient; use register_hook for results of ops");
  FACULA_CHECK(hook, ValueError, "register_post_accumulate_grad_hook: the hook is empty; give a function");
  const std::shared_ptr<NodeHooks>& hooks = tape_of(*this)->accumulator->extras().hooks;
  return {hooks, hooks->add(&NodeHooks::accumulated, std::move(hook))};
}

Tensor Tensor::detach() const {
  check_defined(*this, "detach");
  Tensor alias = detached_alias(*this);
  if (alias.impl()->tracking & detail::kTracksBatch) {
    BatchInfo& batch = *tape_of(alias)->batch;
    batch.value = batch.value.detach();
  }
  return alias;
}

Tensor Tensor::data() const {
  check_defined(*this, "data");
  Tensor alias = detached_alias(*this);
  alias.impl()->own_version = intrusive_ptr<VersionCounter>::adopt(new VersionCounter(0));
  if (alias.impl()->tracking & detail::kTracksBatch) {
    BatchInfo& batch = *tape_of(alias)->batch;
    batch.value = batch.value.data();
  }
  return alias;
}

Tensor& Tensor::detach_() const {
  check_defined(*this, "detach_");
  FACULA_CHECK(!impl_->base || !autograd::requires_grad(*this), Error,
               "detach_: Can't detach views in-place. Use detach() instead");
  if (Tape* tape = tape_of(*this)) {
    tape->grad_fn.reset();
    tape->output_nr = 0;
    tape->requires_grad = false;
    tape->tangents.reset();
    impl_->tracking &= static_cast<uint8_t>(~(detail::kTracksGrad | detail::kTracksTangent));
  }
  return const_cast<Tensor&>(*this);
}

void Tensor::set_data(const Tensor& source) const {
  check_defined(*this, "set_data");
  check_defined(source, "set_data");
  const TensorImpl* from = source.impl();
  FACULA_CHECK(!((impl_->tracking | from->tracking) & detail::kTracksBatch), NotSupportedError,
               "set_data: inside vmap a tensor stands for every entry of a batch; make a new tensor instead");
  FACULA_CHECK(
      !autograd::requires_grad(*this) || isDifferentiableType(from->dtype), DTypeError,
      "set_data: data set to a tensor that requires gradients must be floating point or complex dtype, this is ",
      facula::toString(from->dtype), "; convert it to float32, or requires_grad_(false) first");
  FACULA_CHECK(is_leaf() || (from->dtype == impl_->dtype && from->device == impl_->device), DTypeError,
               "set_data: the new data is ", facula::toString(from->dtype), " on ", from->device.str(),
               ", the tensor is ", facula::toString(impl_->dtype), " on ", impl_->device.str(),
               " and was made by a recorded op; convert the data first with .to(...), or take detach() of the tensor");
  // Versions go on from here: writes by others to the new memory are not this tensor's.
  impl_->own_version = intrusive_ptr<VersionCounter>::adopt(new VersionCounter(impl_->version()));
  impl_->base.reset();
  impl_->tracking &= ~detail::kTracksView;
  impl_->storage = from->storage;
  impl_->dtype = from->dtype;
  impl_->device = from->device;
  impl_->set_geometry(DimVector(from->sizes), DimVector(from->strides), from->storage_offset);
  if (impl_->tape) impl_->tape.get()->geometry_changed(*impl_);
}

const std::string& Tensor::name() const {
  check_defined(*this, "name");
  static const std::string none;
  const Tape* tape = tape_of(*this);
  return tape ? tape->name : none;
}

bool Tensor::is_view() const {
  check_defined(*this, "is_view");
  return static_cast<bool>(impl_->base);
}

Tensor Tensor::_base() const {
  check_defined(*this, "_base");
  FACULA_CHECK(impl_->base, ValueError, "_base: Can't get base of non-view Tensor; ask is_view() first");
  return Tensor(impl_->base);
}

bool Tensor::is_inference() const {
  check_defined(*this, "is_inference");
  return (impl_->tracking & detail::kTracksInference) != 0;
}

namespace autograd {

Tensor make_variable(const Tensor& data, bool requires_grad, bool) {
  if (!data.defined()) return {};
  return data.data().requires_grad_(requires_grad);
}

namespace impl {

Edge gradient_edge(const Tensor& t) { return autograd::gradient_edge(t); }
intrusive_ptr<Node> grad_accumulator(const Tensor& t) {
  const Edge edge = autograd::gradient_edge(t);
  return edge.function && tape_node(edge.function)->is_accumulator() ? edge.function : nullptr;
}
void bump_version(const Tensor& t) {
  check_defined(t, "bump_version");
  t.impl()->bump_version();
}
void set_name(const Tensor& t, const std::string& name) {
  check_defined(t, "set_name");
  ensure_tape(t).name = name;
}

}  // namespace impl
}  // namespace autograd
}  // namespace facula
