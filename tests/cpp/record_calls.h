// Calls of an op with the arguments of a case, and with those arguments changed: contiguous, without data. Shared by
// the record properties.
#pragma once

#include "cpp/boxed.h"
#include "cpp/record_properties.h"
#include "generated/boxed_calls.h"

#include <cstddef>
#include <string>
#include <vector>

namespace facula::testing {

using Arguments = std::vector<BoxedValue>;
using Results = std::vector<BoxedValue>;

// The arguments of a case as the overload wants them.
Arguments to_boxed(const Case& one, const BoxedOp& op);

// Results, with lists of tensors opened up.
Results call(const BoxedOp& op, const Arguments& args);

// The op itself. Where only the in-place function exists, it runs on a copy of the first argument.
Results call_plain(const Variants& variants, const Arguments& args);

// The tensors among the arguments, those in lists included.
std::vector<Tensor> tensors_of(const Arguments& args);

// The arguments with `change` applied to every tensor.
template <class Change>
Arguments each_tensor(const Arguments& args, const Change& change) {
  Arguments out = args;
  for (BoxedValue& value : out) {
    if (auto* tensor = std::get_if<Tensor>(&value)) {
      *tensor = change(*tensor);
    } else if (auto* list = std::get_if<std::vector<Tensor>>(&value)) {
      for (Tensor& each : *list) each = change(each);
    } else if (auto* holes = std::get_if<std::vector<std::optional<Tensor>>>(&value)) {
      for (auto& each : *holes)
        if (each) each = change(*each);
    }
  }
  return out;
}

// Bytes, sizes and versions of the tensors of the cpu among the arguments, to see later that nobody touched them.
class Untouched {
 public:
  Untouched(const Arguments& args, bool skip_first);
  // Empty when all is as it was, otherwise what is not, in words.
  std::string words() const;

 private:
  struct Kept {
    Tensor tensor;
    std::vector<int64_t> sizes;
    std::vector<std::byte> bytes;
    int64_t version;
  };
  std::vector<Kept> kept_;
};

Arguments all_contiguous(const Arguments& args);
Tensor on_meta(const Tensor& tensor);
Arguments on_meta(const Arguments& args);

// All results against the truth of the case; what is wrong goes to `to`, with `what` before it.
void check_results(std::vector<std::string>& to, const std::string& what, const Results& results, const Case& one);

// Where one tensor is not on the device of the others the call is refused, and leaves all as it was; but numbers of the
// cpu may join tensors of any device.
void check_devices(std::vector<std::string>& to, const Variants& variants, const Arguments& args, const Case& one);

std::vector<std::string> check_random(const Variants& variants, const Case& one, uint64_t seed);

}  // namespace facula::testing
