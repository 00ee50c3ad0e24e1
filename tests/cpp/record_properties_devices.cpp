// The property of tensors that are not all on one device. The meta device stands for any other one: it has no memory, so a
// kernel that reads what it must not read ends the program.
#include "cpp/record_calls.h"
#include "cpp/record_values.h"

#include <algorithm>

namespace facula::testing {
namespace {

using Complaints = std::vector<std::string>;

// The arguments with the tensors moved to the meta device whose place in the list of all tensors `moves` names.
template <class Moves>
Arguments with_some_on_meta(const Arguments& args, const Moves& moves) {
  size_t next = 0;
  return each_tensor(args, [&](const Tensor& t) {
    if (!t.defined()) return t;
    return moves(next++) ? on_meta(t) : t;
  });
}

// Whether all tensors that are still on the cpu are numbers.
bool only_numbers_stayed(const Arguments& args) {
  const auto tensors = tensors_of(args);
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.is_meta() || t.dim() == 0; });
}

bool all_on_meta(const Results& results) {
  return std::all_of(results.begin(), results.end(), [](const BoxedValue& value) {
    const auto* tensor = std::get_if<Tensor>(&value);
    return tensor == nullptr || !tensor->defined() || tensor->is_meta();
  });
}

// `run` is refused with an error for users, or gives what it may give.
template <class Run>
void check_mixed(Complaints& to, const std::string& what, const Arguments& args, const Case& one, bool skip_first,
                 const Run& run) {
  const Untouched inputs(args, skip_first);
  try {
    const Results results = run();
    // What did not look into the tensor that was moved, as a view like another tensor, is right as it is.
    Complaints wrong;
    if (!all_on_meta(results)) check_results(wrong, "", results, one);
    else if (!only_numbers_stayed(args)) wrong.emplace_back("");
    if (!wrong.empty()) to.push_back(what + ": must be refused, but succeeded");
  } catch (const InternalError& error) {
    to.push_back(what + ": InternalError: " + error.what());
  } catch (const Error&) {
    // As it must be. Which type depends on what is looked at first.
  } catch (const std::exception& error) {
    to.push_back(what + ": exception: " + error.what());
  }
  const std::string changed = inputs.words();
  if (!changed.empty()) to.push_back(what + ": " + changed);
}

// Each out tensor alone on another device than all the rest: none of the others may be touched.
void check_outs(Complaints& to, const BoxedOp& out, const Arguments& args, const Case& one) {
  if (tensors_of(args).empty()) return;
  for (const CaseTruth& truth : one.truth)
    if (truth.number) return;
  for (size_t k = 0; k < one.truth.size(); ++k) {
    Arguments with_outs;
    for (size_t i = 0; i < one.truth.size(); ++i) {
      const Tensor given = make_filled(scalar_type_of_code(one.truth[i].dtype), {0}, false).clone();
      with_outs.emplace_back(i == k ? on_meta(given) : given);
    }
    with_outs.insert(with_outs.end(), args.begin(), args.end());
    const std::string what = "with out tensor " + std::to_string(k) + " on another device";
    const Untouched all(with_outs, false);
    try {
      call(out, with_outs);
      to.push_back(what + ": must be refused, but succeeded");
    } catch (const DeviceError&) {
      const std::string changed = all.words();
      if (!changed.empty()) to.push_back(what + ": " + changed);
    } catch (const std::exception& error) {
      to.push_back(what + ": must be a DeviceError, but is " + error.what());
    }
  }
}

}  // namespace

void check_devices(Complaints& to, const Variants& variants, const Arguments& args, const Case& one) {
  const size_t count = tensors_of(args).size();
  for (size_t k = 0; count > 1 && k < count; ++k) {
    for (const bool alone : {true, false}) {
      if (!alone && count == 2) continue;  // the same as the other one alone
      const std::string what = alone ? "with tensor " + std::to_string(k) + " on another device"
                                     : "with all tensors but " + std::to_string(k) + " on another device";
      const Arguments mixed = with_some_on_meta(args, [&](size_t i) { return (i == k) == alone; });
      check_mixed(to, what, mixed, one, variants.function == nullptr, [&] { return call_plain(variants, mixed); });
      if (variants.inplace == nullptr || variants.function == nullptr) continue;
      const auto* self = std::get_if<Tensor>(&mixed.at(0));
      if (self == nullptr || !self->defined()) continue;
      Arguments changed = mixed;
      if (self->is_cpu()) changed[0] = contiguous_copy(*self);
      const Untouched target({changed[0]}, false);
      check_mixed(to, what + ", in place", changed, one, true, [&] {
        try {
          return call(*variants.inplace, changed);
        } catch (...) {
          const std::string words = target.words();
          if (!words.empty()) to.push_back(what + ", in place, refused: " + words);
          throw;
        }
      });
    }
  }
  if (variants.out != nullptr && (one.flags & kCheckOut) != 0) check_outs(to, *variants.out, args, one);
}

}  // namespace facula::testing
