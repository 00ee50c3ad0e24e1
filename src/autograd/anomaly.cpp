// Finding the caller of an op in the stack, and the first NaN of a backward pass.
#include "autograd/anomaly.h"

#include "autograd/nan_check.h"
#include "autograd/tensor_tape.h"
#include "core/call_stack.h"

#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <algorithm>
#include <type_traits>
#include <typeinfo>

namespace facula::autograd {

namespace {

thread_local const TapeNode* running = nullptr;

// The first caller outside of the library.
detail::CodePlace place_of(const std::vector<void*>& frames) {
  const auto found = std::find_if(frames.begin(), frames.end(), detail::is_outside_library);
  return found == frames.end() ? detail::CodePlace() : detail::places_of({&*found, 1}).front();
}
std::string text_of(const detail::CodePlace& place) {
  if (place.program.empty()) return "inside the library";
  const std::string name = place.function.empty() ? str("an unnamed function of ", place.program) : place.function;
  return place.line.empty() ? str(name, " (", place.program, ")") : str(name, " at ", place.line);
}

std::string recorded_at(const TapeNode& node) {
  const NodeExtras* extras = node.extras_if_any();
  if (!extras || extras->called_from.empty()) return "not known; switch anomaly mode on before the forward pass";
  if (extras->called_in.find("\nPython:") != std::string::npos) return "Python" + extras->called_in;
  return text_of(place_of(extras->called_from)) + extras->called_in;
}

// `e` again, of its own type, with more text.
[[noreturn]] void throw_again(const Error& e, const std::string& text) {
  const auto if_it_is = [&]<class E>(std::type_identity<E>) {
    if (typeid(e) == typeid(E)) throw E(text);
  };
  if_it_is(std::type_identity<ShapeError>());
  if_it_is(std::type_identity<DTypeError>());
  if_it_is(std::type_identity<DeviceError>());
  if_it_is(std::type_identity<IndexError>());
  if_it_is(std::type_identity<ValueError>());
  if_it_is(std::type_identity<OutOfMemoryError>());
  if_it_is(std::type_identity<NotSupportedError>());
  if_it_is(std::type_identity<FormatError>());
  if_it_is(std::type_identity<NanError>());
  if_it_is(std::type_identity<InternalError>());
  throw Error(text);
}

class RunningNode {
 public:
  explicit RunningNode(const TapeNode* node) : before_(running) { running = node; }
  ~RunningNode() { running = before_; }
  RunningNode(const RunningNode&) = delete;
  RunningNode& operator=(const RunningNode&) = delete;

 private:
  const TapeNode* before_;
};

void check_nan(const TapeNode& node, ArrayRef<Tensor> incoming, ArrayRef<Tensor> gradients) {
  if (!AnomalyMode::should_check_nan()) return;
  const NoGradGuard quiet;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!has_nan(gradients[i])) continue;
    const bool came_in = std::any_of(incoming.begin(), incoming.end(), has_nan);
    throw NanError(str("Function '", node.name(), "' returned nan values in its ", i, "th output",
                       came_in ? " (nan came in as well)" : " (the first nan of this backward pass)",
                       ". Forward call: ", recorded_at(node)));
  }
}

}  // namespace

Tensor without_batch(const Tensor& given) {
  Tensor t = given;
  while (const BatchInfo* batch = t.defined() && tape_of(t) ? tape_of(t)->batch.get() : nullptr)
    t = Tensor(batch->value);
  return t;
}

bool has_nan(const Tensor& given) {
  const Tensor t = without_batch(given);
  if (!t.defined() || t.numel() == 0 || t.is_meta()) return false;
  return (t.is_floating_point() || t.is_complex()) && t.isnan().any().item<bool>();
}

std::string calling_place() {
  const detail::CodePlace place = place_of(detail::return_addresses());
  return place.function.empty() && place.line.empty() ? std::string() : text_of(place);
}

void remember_place(TapeNode& node, std::string_view op) {
  if (!AnomalyMode::is_enabled()) return;
  NodeExtras& extras = node.extras();
  extras.called_from = detail::return_addresses();
  if (!op.empty()) extras.called_in = str(", which calls ", op);
  if (running) extras.called_in += str(", in the backward pass of ", running->name());
}

void run_watched(TapeNode& node, ArrayRef<Tensor> incoming, Tensor* gradients) {
  const NanCheckOff gradients_are_looked_at_here;
  {
    const RunningNode now(&node);
    try {
      node.run(incoming, gradients);
    } catch (const Error& e) {
      throw_again(e, str(e.msg(), ". Forward call: ", recorded_at(node)));
    }
  }
  check_nan(node, incoming, ArrayRef<Tensor>(gradients, node.edges.size()));
}

}  // namespace facula::autograd
