// Finding the caller of an op in the stack, and the first NaN of a backward pass.
#include "autograd/anomaly.h"

#include "autograd/nan_check.h"
#include "autograd/tensor_tape.h"
#include "core/demangle.h"

#include <facula/autograd/modes.h>
#include <facula/tensors.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <execinfo.h>
#include <type_traits>
#include <typeinfo>

namespace facula::autograd {

namespace {

thread_local const TapeNode* running = nullptr;

// File and line from the program's debug information, by the binutils tool where it is installed; empty otherwise.
std::string source_line(const char* file, uintptr_t offset) {
  const std::string path(file);
  if (path.find('\'') != std::string::npos) return {};
  char command[4200];
  const int length = std::snprintf(command, sizeof(command), "addr2line -e '%s' 0x%zx 2>/dev/null", file, offset);
  if (length < 0 || static_cast<size_t>(length) >= sizeof(command)) return {};
  FILE* pipe = popen(command, "r");
  if (!pipe) return {};
  char line[1024] = {};
  const bool read = std::fgets(line, sizeof(line), pipe) != nullptr;
  pclose(pipe);
  std::string text = read ? line : "";
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.empty() || text[0] == '?' ? std::string() : text;
}

// The first caller outside of the library: function, and file and line when known.
struct Place {
  std::string program, function, line;
  std::string text() const {
    if (program.empty()) return "inside the library";
    const std::string name = function.empty() ? str("an unnamed function of ", program) : function;
    return line.empty() ? str(name, " (", program, ")") : str(name, " at ", line);
  }
};
Place place_of(const std::vector<void*>& frames) {
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&remember_place), &own);
  for (void* frame : frames) {
    Dl_info info{};
    if (!dladdr(frame, &info) || info.dli_fbase == own.dli_fbase || !info.dli_fname) continue;
    // The return address is one past the call.
    const auto offset = reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info.dli_fbase) - 1;
    return {info.dli_fname, info.dli_sname ? facula::detail::demangled(info.dli_sname) : std::string(),
            source_line(info.dli_fname, offset)};
  }
  return {};
}

std::string recorded_at(const TapeNode& node) {
  const NodeExtras* extras = node.extras_if_any();
  if (!extras || extras->called_from.empty()) return "not known; switch anomaly mode on before the forward pass";
  if (extras->called_in.find("\nPython:") != std::string::npos) return "Python" + extras->called_in;
  return place_of(extras->called_from).text() + extras->called_in;
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
  void* frames[64];
  const int count = backtrace(frames, 64);
  const Place place = place_of(std::vector<void*>(frames, frames + count));
  return place.function.empty() && place.line.empty() ? std::string() : place.text();
}

void remember_place(TapeNode& node, std::string_view op) {
  if (!AnomalyMode::is_enabled()) return;
  NodeExtras& extras = node.extras();
  void* frames[64];
  const int count = backtrace(frames, 64);
  extras.called_from.assign(frames, frames + count);
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
